/* What the driver of the examples asks of the system beside libaya: Windows. Header only; blocking
 * calls. Files are opened for overlapped use, as libaya does.
 */
#ifndef AYA_TEST_SYSTEM_H
#define AYA_TEST_SYSTEM_H

#include "win32.h"

#include <stdio.h>
#include <string.h>

static inline aya_handle
system_create_file(const aya_path_char *path, DWORD access, DWORD disposition, DWORD flags)
{
    return CreateFileW(path, access, FILE_SHARE_READ | FILE_SHARE_WRITE | FILE_SHARE_DELETE, NULL,
                       disposition, flags | FILE_FLAG_OVERLAPPED, NULL);
}

static inline aya_handle
system_open(const aya_path_char *path, bool directory)
{
    return system_create_file(path, GENERIC_READ | (directory ? 0 : GENERIC_WRITE), OPEN_EXISTING,
                              directory ? FILE_FLAG_BACKUP_SEMANTICS : 0);
}

static inline aya_handle
system_create(const aya_path_char *path)
{
    return system_create_file(path, GENERIC_READ | GENERIC_WRITE, CREATE_ALWAYS, 0);
}

static inline bool
system_pipe(aya_handle ends[2])
{
    return CreatePipe(&ends[0], &ends[1], NULL, 65536);
}

static inline int64_t
system_read(aya_handle file, void *buf, size_t size)
{
    aya_win32_may_wait();
    return aya_win32_read(file, buf, size);
}

static inline bool
system_write(aya_handle file, const void *data, size_t size)
{
    aya_win32_may_wait();
    return size == 0 || aya_win32_write(file, data, size) == (int64_t)size;
}

static inline bool
system_close(aya_handle file)
{
    return CloseHandle(file);
}

static inline void
system_close_if_open(aya_handle file)
{
    DWORD flags;

    if (GetHandleInformation(file, &flags)) {
        CloseHandle(file);
    }
}

static inline bool
system_mkdir(const aya_path_char *path)
{
    return CreateDirectoryW(path, NULL);
}

static inline void
system_remove(const aya_path_char *path)
{
    if (!DeleteFileW(path)) {
        RemoveDirectoryW(path);
    }
}

static inline bool
system_exists(const aya_path_char *path, bool *directory)
{
    DWORD attributes = GetFileAttributesW(path);

    *directory = (attributes & FILE_ATTRIBUTE_DIRECTORY) != 0;
    return attributes != INVALID_FILE_ATTRIBUTES;
}

static inline void
system_path(aya_path_char *path, size_t size, const char *text)
{
    MultiByteToWideChar(CP_UTF8, 0, text, -1, path, (int)size);
}

static inline bool
system_own_directory(char *name, size_t size)
{
    wchar_t path[64];

    snprintf(name, size, "examples-%lu", (unsigned long)GetCurrentProcessId());
    system_path(path, 64, name);
    return CreateDirectoryW(path, NULL);
}

#endif
