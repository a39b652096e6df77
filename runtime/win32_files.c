/* What an open file of Windows is. Runs in a loop's thread.
 *
 * Calls here look at the handle; the system asks nobody else for what they tell, but that it may
 * ask a file server for a size.
 */
#include "win32.h"

#include <winternl.h>

/* Numbers of 100 ns between 1601 and 1970. */
#define EPOCH INT64_C(116444736000000000)

static int64_t
nanoseconds(uint64_t file_time)
{
    return ((int64_t)file_time - EPOCH) * 100;
}

void
aya_stat_decode(const aya_stat_raw *raw, aya_stat *out)
{
    bool directory = (raw->attributes & FILE_ATTRIBUTE_DIRECTORY) != 0;
    bool link = raw->reparse_tag == IO_REPARSE_TAG_SYMLINK;
    uint32_t kind = raw->type == FILE_TYPE_PIPE   ? 0010000
                    : raw->type == FILE_TYPE_CHAR ? 0020000
                    : link                        ? 0120000
                    : directory                   ? 0040111
                                                  : 0100000;
    bool disk = raw->type == FILE_TYPE_DISK;
    uint32_t rights = !disk ? 0 : raw->attributes & FILE_ATTRIBUTE_READONLY ? 0444 : 0666;

    *out = (aya_stat){
        .inode = raw->inode,
        .device = raw->volume,
        .links = raw->links,
        .size = raw->size,
        .mode = kind | rights,
        .accessed_ns = disk ? nanoseconds(raw->accessed) : 0,
        .modified_ns = disk ? nanoseconds(raw->written) : 0,
        .changed_ns = disk ? nanoseconds(raw->changed) : 0,
        .born_ns = disk ? nanoseconds(raw->created) : 0,
    };
}

bool
aya_win32_appends(HANDLE file)
{
    IO_STATUS_BLOCK status;
    ACCESS_MASK access = 0;

    /* 8: FileAccessInformation */
    return NtQueryInformationFile(file, &status, &access, sizeof(access),
                                  (FILE_INFORMATION_CLASS)8) >= 0
           && (access & (FILE_APPEND_DATA | FILE_WRITE_DATA)) == FILE_APPEND_DATA;
}

int
aya_file_init(aya_file *file, aya_handle handle)
{
    DWORD type;
    FILE_STANDARD_INFO facts;

    *file = (aya_file){.handle = handle, .io = handle, .inline_read = AYA_INLINE_NEVER};
    aya_link_init(&file->held);
    SetLastError(ERROR_SUCCESS);
    type = GetFileType(handle);
    if (type == FILE_TYPE_UNKNOWN && GetLastError() != ERROR_SUCCESS) {
        return -aya_win32_errno(GetLastError());
    }
    /* Nothing tells when a pipe is ready: its calls wait, each on a thread of its own. */
    file->kind = AYA_FILE_DEVICE;
    file->local = true;
    if (type == FILE_TYPE_DISK) {
        bool directory = GetFileInformationByHandleEx(handle, FileStandardInfo, &facts,
                                                      sizeof(facts)) && facts.Directory;
        file->kind = directory ? AYA_FILE_DIRECTORY : AYA_FILE_REGULAR;
        file->positioned = true;
        file->append = aya_win32_appends(handle);
    }
    return 0;
}

int
aya_file_init_opened(aya_file *file, aya_handle handle, bool append)
{
    (void)append;
    return aya_file_init(file, handle);
}

/* Whether the system reads ahead is decided when a file is opened. */
void
aya_file_reads_randomly(const aya_file *file, bool random)
{
    (void)file;
    (void)random;
}

bool
aya_file_known(aya_handle handle)
{
    (void)handle;
    return true;
}

void
aya_file_release(aya_file *file)
{
    (void)file;
}

/* What filters of the system do when a file is closed may take time. */
bool
aya_file_close_inline(aya_file *file)
{
    (void)file;
    return false;
}

int64_t
aya_file_position(const aya_file *file)
{
    LARGE_INTEGER zero = {.QuadPart = 0}, position;

    if (!file->positioned) {
        return -ESPIPE;
    }
    if (!SetFilePointerEx(file->handle, zero, &position, FILE_CURRENT)) {
        return -aya_win32_errno(GetLastError());
    }
    return position.QuadPart;
}

int
aya_file_set_position(const aya_file *file, int64_t position)
{
    LARGE_INTEGER to = {.QuadPart = position};

    if (!file->positioned) {
        return -ESPIPE;
    }
    return SetFilePointerEx(file->handle, to, NULL, FILE_BEGIN) ? 0
                                                                : -aya_win32_errno(GetLastError());
}

int64_t
aya_file_size_hint(const aya_file *file)
{
    LARGE_INTEGER size;

    return file->kind == AYA_FILE_REGULAR && GetFileSizeEx(file->handle, &size) ? size.QuadPart : 0;
}
