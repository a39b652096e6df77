/* Windows: the calls of the thread rows, and the table of errors.
 *
 * Runs in workers and may wait. A handle may be made for overlapped use or not, and may belong to
 * a completion port: each call waits for its own event, whose low bit keeps its packet off the
 * port. Knows no requests.
 */
#include "win32.h"

#include <stdlib.h>
#include <string.h>
#include <wchar.h>

/* Paths this long or longer need the prefix that takes the limit off; directories have 12 less. */
#define LONG_PATH (MAX_PATH - 12)

/* -- errors ------------------------------------------------------------------------------------ */

static const struct {
    DWORD code;
    int error;
} errors[] = {
    {ERROR_INVALID_FUNCTION, EINVAL},
    {ERROR_FILE_NOT_FOUND, ENOENT},
    {ERROR_PATH_NOT_FOUND, ENOENT},
    {ERROR_TOO_MANY_OPEN_FILES, EMFILE},
    {ERROR_ACCESS_DENIED, EACCES},
    {ERROR_INVALID_HANDLE, EBADF},
    {ERROR_NOT_ENOUGH_MEMORY, ENOMEM},
    {ERROR_INVALID_BLOCK, ENOMEM},
    {ERROR_INVALID_ACCESS, EINVAL},
    {ERROR_OUTOFMEMORY, ENOMEM},
    {ERROR_INVALID_DRIVE, ENOENT},
    {ERROR_CURRENT_DIRECTORY, EACCES},
    {ERROR_NOT_SAME_DEVICE, EXDEV},
    {ERROR_NO_MORE_FILES, ENOENT},
    {ERROR_WRITE_PROTECT, EACCES},
    {ERROR_NOT_READY, EACCES},
    {ERROR_CRC, EIO},
    {ERROR_SEEK, EIO},
    {ERROR_WRITE_FAULT, EIO},
    {ERROR_READ_FAULT, EIO},
    {ERROR_GEN_FAILURE, EIO},
    {ERROR_IO_DEVICE, EIO},
    {ERROR_FILE_CORRUPT, EIO},
    {ERROR_DISK_CORRUPT, EIO},
    {ERROR_SHARING_VIOLATION, EACCES},
    {ERROR_LOCK_VIOLATION, EACCES},
    {ERROR_NETWORK_ACCESS_DENIED, EACCES},
    {ERROR_CANNOT_MAKE, EACCES},
    {ERROR_DELETE_PENDING, EACCES},
    {ERROR_BAD_NETPATH, ENOENT},
    {ERROR_BAD_NET_NAME, ENOENT},
    {ERROR_BAD_PATHNAME, ENOENT},
    {ERROR_INVALID_NAME, EINVAL},
    {ERROR_FILENAME_EXCED_RANGE, ENAMETOOLONG},
    {ERROR_BUFFER_OVERFLOW, ENAMETOOLONG},
    {ERROR_DIRECTORY, ENOTDIR},
    {ERROR_FILE_EXISTS, EEXIST},
    {ERROR_ALREADY_EXISTS, EEXIST},
    {ERROR_DIR_NOT_EMPTY, ENOTEMPTY},
    {ERROR_INVALID_PARAMETER, EINVAL},
    {ERROR_NEGATIVE_SEEK, EINVAL},
    {ERROR_BROKEN_PIPE, EPIPE},
    {ERROR_NO_DATA, EPIPE},
    {ERROR_PIPE_NOT_CONNECTED, EPIPE},
    {ERROR_PIPE_BUSY, EBUSY},
    {ERROR_BUSY, EBUSY},
    {ERROR_DISK_FULL, ENOSPC},
    {ERROR_HANDLE_DISK_FULL, ENOSPC},
    {ERROR_FILE_TOO_LARGE, EFBIG},
    {ERROR_NO_SYSTEM_RESOURCES, ENOMEM},
    {ERROR_WORKING_SET_QUOTA, ENOMEM},
    {ERROR_NOT_ENOUGH_QUOTA, ENOMEM},
    {ERROR_COMMITMENT_LIMIT, ENOMEM},
    {ERROR_CALL_NOT_IMPLEMENTED, ENOSYS},
    {ERROR_NOT_SUPPORTED, EOPNOTSUPP},
    {ERROR_OPERATION_ABORTED, ECANCELED},
    {ERROR_SEM_TIMEOUT, ETIMEDOUT},
    {ERROR_TIMEOUT, ETIMEDOUT},
    {ERROR_PRIVILEGE_NOT_HELD, EPERM},
    {ERROR_TOO_MANY_LINKS, EMLINK},
    {ERROR_CANT_RESOLVE_FILENAME, ELOOP},
};

int
aya_win32_errno(DWORD code)
{
    for (size_t i = 0; i < sizeof(errors) / sizeof(errors[0]); i++) {
        if (errors[i].code == code) {
            return errors[i].error;
        }
    }
    return EIO;
}

int
aya_win32_error(DWORD code)
{
    int error = aya_win32_errno(code);

    return code > 0xffff ? -error : -(int)(code << 8 | (DWORD)error);
}

static int64_t
last_error(void)
{
    return aya_win32_error(GetLastError());
}

static int64_t
result_of(BOOL done)
{
    return done ? 0 : last_error();
}

/* -- open and close ---------------------------------------------------------------------------- */

static bool
is_separator(wchar_t c)
{
    return c == L'\\' || c == L'/';
}

wchar_t *
aya_win32_full_path(const wchar_t *path)
{
    static const wchar_t local[] = L"\\\\?\\", share[] = L"\\\\?\\UNC";
    bool is_device = is_separator(path[0]) && is_separator(path[1])
                     && (path[2] == L'?' || path[2] == L'.');
    DWORD room = is_device ? 0 : GetFullPathNameW(path, 0, NULL, NULL);

    if (room < LONG_PATH) {
        return wcsdup(path);
    }
    /* Room for either prefix; that of a share takes the place of one of its two separators. */
    wchar_t *whole = malloc((room + sizeof(share) / sizeof(share[0])) * sizeof(wchar_t));
    if (whole == NULL) {
        return NULL;
    }
    size_t gap = sizeof(share) / sizeof(share[0]) - 1;
    DWORD length = GetFullPathNameW(path, room, whole + gap, NULL);
    if (length == 0 || length >= room) {
        free(whole);
        return wcsdup(path);
    }
    bool is_share = is_separator(whole[gap]) && is_separator(whole[gap + 1]);
    const wchar_t *prefix = is_share ? share : local;
    size_t prefix_length = wcslen(prefix), skipped = is_share ? 1 : 0;
    memmove(whole + prefix_length, whole + gap + skipped, (length - skipped + 1) * sizeof(wchar_t));
    memcpy(whole, prefix, prefix_length * sizeof(wchar_t));
    return whole;
}

static DWORD
access_of(int access, bool append)
{
    const DWORD writes = append ? FILE_GENERIC_WRITE & ~(DWORD)FILE_WRITE_DATA : GENERIC_WRITE;

    return access == AYA_OPEN_READ ? GENERIC_READ
           : access == AYA_OPEN_WRITE ? writes | FILE_READ_ATTRIBUTES
                                      : writes | GENERIC_READ;
}

static DWORD
disposition_of(bool create, bool exclusive, bool truncate)
{
    if (!create) {
        return truncate ? TRUNCATE_EXISTING : OPEN_EXISTING;
    }
    return exclusive ? CREATE_NEW : truncate ? CREATE_ALWAYS : OPEN_ALWAYS;
}

int64_t
aya_win32_open(const wchar_t *path, int access, bool append, bool create, bool exclusive,
               bool truncate, uint32_t permissions)
{
    wchar_t *whole = aya_win32_full_path(path);
    DWORD attributes = permissions & 0200 ? FILE_ATTRIBUTE_NORMAL : FILE_ATTRIBUTE_READONLY;

    if (whole == NULL) {
        return -ENOMEM;
    }
    /* Others may read and write, as beside the C library's open(), but not delete. */
    HANDLE file = CreateFileW(whole, access_of(access, append), FILE_SHARE_READ | FILE_SHARE_WRITE,
                              NULL, disposition_of(create, exclusive, truncate),
                              attributes | FILE_FLAG_OVERLAPPED, NULL);
    int64_t result = file == INVALID_HANDLE_VALUE ? last_error() : (int64_t)(intptr_t)file;
    free(whole);
    return result;
}

int64_t
aya_win32_close(HANDLE file)
{
    return result_of(CloseHandle(file));
}

/* -- transfers --------------------------------------------------------------------------------- */

typedef BOOL transfer(HANDLE file, void *buf, DWORD size, OVERLAPPED *overlapped);

static BOOL
start_read(HANDLE file, void *buf, DWORD size, OVERLAPPED *overlapped)
{
    return ReadFile(file, buf, size, NULL, overlapped);
}

static BOOL
start_write(HANDLE file, void *buf, DWORD size, OVERLAPPED *overlapped)
{
    return WriteFile(file, buf, size, NULL, overlapped);
}

/* Starts one transfer at `offset` and waits for its end. */
static int64_t
wait_for(transfer *start, HANDLE file, void *buf, size_t size, int64_t offset)
{
    HANDLE event = CreateEventW(NULL, TRUE, FALSE, NULL);
    OVERLAPPED overlapped = {.Offset = (DWORD)offset, .OffsetHigh = (DWORD)(offset >> 32)};
    DWORD moved = 0;
    int64_t result;

    if (event == NULL) {
        return last_error();
    }
    overlapped.hEvent = (HANDLE)((uintptr_t)event | 1);
    if (!start(file, buf, (DWORD)size, &overlapped) && GetLastError() != ERROR_IO_PENDING) {
        result = last_error();
    } else {
        result = GetOverlappedResult(file, &overlapped, &moved, TRUE) ? moved : last_error();
    }
    CloseHandle(event);
    return result;
}

static bool
has_ended(int64_t result)
{
    DWORD code = result < 0 ? GetLastError() : 0;

    return code == ERROR_HANDLE_EOF || code == ERROR_BROKEN_PIPE;
}

/* 0, or the errno of what has no offsets. */
static int64_t
refuse_offset(HANDLE file, int64_t offset)
{
    if (offset < 0) {
        return -EINVAL;
    }
    return GetFileType(file) == FILE_TYPE_DISK ? 0 : -ESPIPE;
}

static int64_t
read_from(HANDLE file, void *buf, size_t size, int64_t offset)
{
    int64_t result = wait_for(start_read, file, buf, size, offset);

    return has_ended(result) ? 0 : result;
}

int64_t
aya_win32_pread(HANDLE file, void *buf, size_t size, int64_t offset)
{
    int64_t error = refuse_offset(file, offset);

    return error < 0 ? error : read_from(file, buf, size, offset);
}

int64_t
aya_win32_pwrite(HANDLE file, const void *data, size_t size, int64_t offset)
{
    int64_t error = refuse_offset(file, offset);

    return error < 0 ? error : wait_for(start_write, file, (void *)data, size, offset);
}

/* Where what has a position goes on; -1 where it has none. */
static int64_t
position_of(HANDLE file)
{
    LARGE_INTEGER zero = {.QuadPart = 0}, position;

    if (GetFileType(file) != FILE_TYPE_DISK
        || !SetFilePointerEx(file, zero, &position, FILE_CURRENT)) {
        return -1;
    }
    return position.QuadPart;
}

static int64_t
move_position(HANDLE file, int64_t before, int64_t moved)
{
    LARGE_INTEGER after = {.QuadPart = before + moved};

    if (moved > 0) {
        SetFilePointerEx(file, after, NULL, FILE_BEGIN);
    }
    return moved;
}

/* Behind what was appended, which the system wrote wherever the file ended. */
static void
move_to_end(HANDLE file)
{
    LARGE_INTEGER zero = {.QuadPart = 0};

    SetFilePointerEx(file, zero, NULL, FILE_END);
}

static _Thread_local bool may_wait;

void
aya_win32_may_wait(void)
{
    may_wait = true;
}

int64_t
aya_win32_read(HANDLE file, void *buf, size_t size)
{
    int64_t position = position_of(file);
    DWORD ready;

    if (position >= 0) {
        return move_position(file, position, read_from(file, buf, size, position));
    }
    if (!may_wait && GetFileType(file) == FILE_TYPE_PIPE
        && PeekNamedPipe(file, NULL, 0, NULL, &ready, NULL)) {
        return ready == 0 ? AYA_RESULT_ALONE : read_from(file, buf, size, 0);
    }
    if (!may_wait && GetFileType(file) == FILE_TYPE_CHAR) {
        return AYA_RESULT_ALONE;
    }
    return read_from(file, buf, size, 0);
}

int64_t
aya_win32_write(HANDLE file, const void *data, size_t size)
{
    int64_t position = position_of(file), moved;

    if (position >= 0) {
        moved = wait_for(start_write, file, (void *)data, size, position);
        if (moved > 0 && aya_win32_appends(file)) {
            move_to_end(file);
            return moved;
        }
        return move_position(file, position, moved);
    }
    return may_wait ? wait_for(start_write, file, (void *)data, size, 0) : AYA_RESULT_ALONE;
}

/* -- other calls ------------------------------------------------------------------------------- */

static uint64_t
joined(DWORD high, DWORD low)
{
    return (uint64_t)high << 32 | low;
}

static uint64_t
file_time(FILETIME time)
{
    return joined(time.dwHighDateTime, time.dwLowDateTime);
}

int64_t
aya_win32_stat(HANDLE file, aya_stat_raw *stat)
{
    BY_HANDLE_FILE_INFORMATION facts;
    FILE_BASIC_INFO basic;
    FILE_ATTRIBUTE_TAG_INFO tag;
    DWORD ready;

    memset(stat, 0, sizeof(*stat));
    stat->type = GetFileType(file);
    if (stat->type != FILE_TYPE_DISK) {
        if (stat->type == FILE_TYPE_UNKNOWN && GetLastError() != ERROR_SUCCESS) {
            return last_error();
        }
        stat->links = 1;
        if (PeekNamedPipe(file, NULL, 0, NULL, &ready, NULL)) {
            stat->size = ready;
        }
        return 0;
    }
    if (!GetFileInformationByHandle(file, &facts)) {
        return last_error();
    }
    stat->size = joined(facts.nFileSizeHigh, facts.nFileSizeLow);
    stat->inode = joined(facts.nFileIndexHigh, facts.nFileIndexLow);
    stat->links = facts.nNumberOfLinks;
    stat->created = file_time(facts.ftCreationTime);
    stat->accessed = file_time(facts.ftLastAccessTime);
    stat->written = stat->changed = file_time(facts.ftLastWriteTime);
    stat->attributes = facts.dwFileAttributes;
    stat->volume = facts.dwVolumeSerialNumber;
    if (GetFileInformationByHandleEx(file, FileBasicInfo, &basic, sizeof(basic))
        && basic.ChangeTime.QuadPart != 0) {
        stat->changed = (uint64_t)basic.ChangeTime.QuadPart;
    }
    if ((stat->attributes & FILE_ATTRIBUTE_REPARSE_POINT)
        && GetFileInformationByHandleEx(file, FileAttributeTagInfo, &tag, sizeof(tag))) {
        stat->reparse_tag = tag.ReparseTag;
    }
    return 0;
}

static int64_t
set_end(HANDLE file, int64_t size)
{
    FILE_END_OF_FILE_INFO end = {.EndOfFile = {.QuadPart = size}};

    return result_of(SetFileInformationByHandle(file, FileEndOfFileInfo, &end, sizeof(end)));
}

int64_t
aya_win32_truncate(HANDLE file, int64_t size)
{
    int64_t result;

    if (size < 0 || GetFileType(file) != FILE_TYPE_DISK) {
        return -EINVAL;
    }
    result = set_end(file, size);
    if (result < 0 && GetLastError() == ERROR_ACCESS_DENIED) {
        /* A handle that can only append. One opened for reading does not get through here. */
        HANDLE other = aya_win32_appends(file)
                           ? ReOpenFile(file, GENERIC_WRITE, FILE_SHARE_READ | FILE_SHARE_WRITE, 0)
                           : INVALID_HANDLE_VALUE;
        if (other != INVALID_HANDLE_VALUE) {
            result = set_end(other, size);
            CloseHandle(other);
        }
    }
    return result;
}

int64_t
aya_win32_fsync(HANDLE file, bool data_only)
{
    (void)data_only;
    if (GetFileType(file) != FILE_TYPE_DISK) {
        return -EINVAL;
    }
    if (FlushFileBuffers(file)) {
        return 0;
    }
    /* Nothing was written through a handle that cannot write. */
    return GetLastError() == ERROR_ACCESS_DENIED ? 0 : last_error();
}

/* Gets room, and makes the file as long as asked. */
int64_t
aya_win32_allocate(HANDLE file, int64_t offset, int64_t size)
{
    FILE_ALLOCATION_INFO room;
    LARGE_INTEGER now;

    if (offset < 0 || size <= 0) {
        return -EINVAL;
    }
    if (offset > INT64_MAX - size) {
        return -EFBIG;
    }
    if (GetFileType(file) != FILE_TYPE_DISK) {
        return -ESPIPE;
    }
    if (!GetFileSizeEx(file, &now)) {
        return last_error();
    }
    if (now.QuadPart >= offset + size) {
        return 0;
    }
    room.AllocationSize.QuadPart = offset + size;
    if (!SetFileInformationByHandle(file, FileAllocationInfo, &room, sizeof(room))
        && GetLastError() == ERROR_DISK_FULL) {
        return -ENOSPC;
    }
    return aya_win32_truncate(file, offset + size);
}

/* Windows takes advice when a file is opened, not later. */
int64_t
aya_win32_advise(HANDLE file, int64_t offset, int64_t size, int advice)
{
    (void)offset;
    (void)size;
    (void)advice;
    return GetFileType(file) == FILE_TYPE_DISK ? 0 : -ESPIPE;
}
