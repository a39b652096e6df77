/* Copies between two open files, and a look at a path, for Windows.
 *
 * All of it runs in workers and may wait. A call moves no more than COPY_MOST, so that a cancel
 * between two calls comes soon. Knows no requests.
 */
#include "win32.h"

#include <stdlib.h>

#define COPY_MOST ((size_t)8 << 20)
/* What is read and written stays in the processor's cache. */
#define COPY_BUFFER ((size_t)128 << 10)

static int64_t
write_whole(HANDLE target, const char *data, size_t size, int64_t offset)
{
    size_t done = 0;

    while (done < size) {
        int64_t moved =
            aya_win32_pwrite(target, data + done, size - done, offset + (int64_t)done);
        if (moved <= 0) {
            return moved < 0 ? moved : -EIO;
        }
        done += (size_t)moved;
    }
    return 0;
}

/* Whether both are one file, in which the ranges overlap: a copy by pieces would read what it
 * wrote. */
static bool
overlap(HANDLE file, int64_t offset, HANDLE target, int64_t target_offset, size_t size)
{
    aya_stat_raw first, second;

    if (offset < 0 || target_offset < 0 || aya_win32_stat(file, &first) < 0
        || aya_win32_stat(target, &second) < 0
        || first.type != FILE_TYPE_DISK || first.volume != second.volume
        || first.inode != second.inode) {
        return false;
    }
    return aya_ranges_overlap((int64_t)first.size, offset, target_offset, size);
}

int64_t
aya_win32_copy_range(HANDLE file, int64_t offset, HANDLE target, int64_t target_offset,
                     size_t size)
{
    int64_t copied = 0, error = 0;

    if (overlap(file, offset, target, target_offset, size)) {
        return -EINVAL;
    }
    char *buf = malloc(COPY_BUFFER);
    if (buf == NULL) {
        return -ENOMEM;
    }
    while (error == 0 && (size_t)copied < size && (size_t)copied < COPY_MOST) {
        size_t left = size - (size_t)copied;
        int64_t got = aya_win32_pread(file, buf, left < COPY_BUFFER ? left : COPY_BUFFER,
                                      offset + copied);
        if (got <= 0) {
            error = got;
            break;
        }
        error = write_whole(target, buf, (size_t)got, target_offset + copied);
        copied += error == 0 ? got : 0;
    }
    free(buf);
    /* The next call meets the error again, and says it when nothing was copied before it. */
    return copied > 0 ? copied : error;
}

int64_t
aya_win32_copy_stat(HANDLE file, HANDLE target)
{
    FILE_BASIC_INFO from, to;

    if (!GetFileInformationByHandleEx(file, FileBasicInfo, &from, sizeof(from))
        || !GetFileInformationByHandleEx(target, FileBasicInfo, &to, sizeof(to))) {
        return aya_win32_error(GetLastError());
    }
    /* As os.chmod() has it: of the attributes only the one that forbids writing. */
    to.FileAttributes = (to.FileAttributes & ~(DWORD)FILE_ATTRIBUTE_READONLY)
                        | (from.FileAttributes & FILE_ATTRIBUTE_READONLY);
    to.LastAccessTime = from.LastAccessTime;
    to.LastWriteTime = from.LastWriteTime;
    if (!SetFileInformationByHandle(target, FileBasicInfo, &to, sizeof(to))) {
        return aya_win32_error(GetLastError());
    }
    return 0;
}

int64_t
aya_win32_stat_path(const wchar_t *path, bool follow, aya_stat_raw *stat)
{
    DWORD share = FILE_SHARE_READ | FILE_SHARE_WRITE | FILE_SHARE_DELETE;
    /* The first lets directories be opened. */
    DWORD flags = FILE_FLAG_BACKUP_SEMANTICS | (follow ? 0 : FILE_FLAG_OPEN_REPARSE_POINT);
    wchar_t *whole = aya_win32_full_path(path);

    if (whole == NULL) {
        return -ENOMEM;
    }
    HANDLE file =
        CreateFileW(whole, FILE_READ_ATTRIBUTES, share, NULL, OPEN_EXISTING, flags, NULL);
    int64_t result = aya_win32_error(GetLastError());
    free(whole);
    if (file != INVALID_HANDLE_VALUE) {
        result = aya_win32_stat(file, stat);
        CloseHandle(file);
    }
    return result;
}
