/* What the driver of the examples asks of the system beside libaya: POSIX. Header only; blocking
 * calls. A failed call gives false or -errno.
 */
#ifndef AYA_TEST_SYSTEM_H
#define AYA_TEST_SYSTEM_H

#include "aya.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

static inline aya_handle
system_open(const aya_path_char *path, bool directory)
{
    return open(path, directory ? O_RDONLY | O_DIRECTORY | O_CLOEXEC : O_RDWR | O_CLOEXEC);
}

static inline aya_handle
system_create(const aya_path_char *path)
{
    return open(path, O_RDWR | O_CREAT | O_TRUNC | O_CLOEXEC, 0666);
}

static inline bool
system_pipe(aya_handle ends[2])
{
    return pipe(ends) == 0;
}

static inline int64_t
system_read(aya_handle file, void *buf, size_t size)
{
    ssize_t got = read(file, buf, size);

    return got < 0 ? -errno : got;
}

static inline bool
system_write(aya_handle file, const void *data, size_t size)
{
    return write(file, data, size) == (ssize_t)size;
}

static inline bool
system_close(aya_handle file)
{
    return close(file) == 0;
}

/* The operation itself may have closed it. */
static inline void
system_close_if_open(aya_handle file)
{
    if (fcntl(file, F_GETFD) >= 0) {
        close(file);
    }
}

static inline bool
system_mkdir(const aya_path_char *path)
{
    return mkdir(path, 0777) == 0;
}

static inline void
system_remove(const aya_path_char *path)
{
    if (unlink(path) < 0) {
        rmdir(path);
    }
}

static inline bool
system_exists(const aya_path_char *path, bool *directory)
{
    struct stat status;

    if (lstat(path, &status) < 0) {
        return false;
    }
    *directory = S_ISDIR(status.st_mode);
    return true;
}

/* A new directory for the files of this run: false when there is none. */
static inline bool
system_own_directory(char *name, size_t size)
{
    snprintf(name, size, "examples-XXXXXX");
    return mkdtemp(name) != NULL;
}

static inline void
system_path(aya_path_char *path, size_t size, const char *text)
{
    snprintf(path, size, "%s", text);
}

#endif
