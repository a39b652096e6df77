/* What an open file is, and how it can be used without waiting.
 *
 * Runs in a loop's thread and never waits: only calls that ask no other machine or process are
 * made on a file whose filesystem is not known as local.
 */
#include "internal.h"
#include "posix.h"

#include <stdio.h>
#include <string.h>
#include <unistd.h>

/* The multiplexer of pseudo-terminals: every open of it makes a new terminal. */
#define PTMX_MAJOR 5
#define PTMX_MINOR 2

static aya_file_kind
kind_of(int fd, const struct statx *stat)
{
    switch (stat->stx_mode & S_IFMT) {
    case S_IFREG:
        return AYA_FILE_REGULAR;
    case S_IFDIR:
        return AYA_FILE_DIRECTORY;
    case S_IFIFO:
    case S_IFSOCK:
        return AYA_FILE_POLLABLE;
    case S_IFBLK:
        return AYA_FILE_DEVICE;
    default:
        return aya_poll_possible(fd) ? AYA_FILE_POLLABLE : AYA_FILE_DEVICE;
    }
}

static aya_inline_mode
inline_read_of(const aya_file *file, const aya_mount *mount)
{
    if (file->kind != AYA_FILE_REGULAR) {
        return AYA_INLINE_NOWAIT;
    }
    /* RWF_NOWAIT waits for the device there. */
    if (file->direct && mount->inline_read != AYA_INLINE_PLAIN) {
        return AYA_INLINE_NEVER;
    }
    return (aya_inline_mode)mount->inline_read;
}

/* Whether RWF_NOWAIT is refused where a description of our own can be had instead: named FIFOs and
 * terminals. A pipe has no name to be opened by, and takes RWF_NOWAIT. */
static bool
wants_own_description(int fd, const char *name, const struct statx *stat)
{
    char target[8];

    switch (stat->stx_mode & S_IFMT) {
    case S_IFIFO:
        return readlink(name, target, sizeof(target)) > 0 && strncmp(target, "pipe:[", 6) != 0;
    case S_IFCHR:
        return isatty(fd)
               && !(stat->stx_rdev_major == PTMX_MAJOR && stat->stx_rdev_minor == PTMX_MINOR);
    default:
        return false;
    }
}

/* The descriptor that operations use: one with O_NONBLOCK where waiting could not be avoided
 * else. The caller's own description keeps its flags. */
static int
descriptor_for_io(int fd, int flags, const struct statx *stat)
{
    char name[32];
    int own;

    if (flags & O_NONBLOCK) {
        return fd;
    }
    snprintf(name, sizeof(name), "/proc/self/fd/%d", fd);
    if (!wants_own_description(fd, name, stat)) {
        return fd;
    }
    own = open(name, (flags & (O_ACCMODE | O_APPEND)) | O_NONBLOCK | O_NOCTTY | O_CLOEXEC);
    return own < 0 ? fd : own;
}

int
aya_file_init(aya_file *file, aya_handle handle)
{
    struct statx stat;
    int flags = fcntl(handle, F_GETFL);
    int error;

    *file = (aya_file){.handle = handle, .io = handle};
    aya_link_init(&file->held);
    if (flags < 0) {
        return -errno;
    }
    error = aya_posix_stat_cached(handle, &stat);
    if (error < 0) {
        return error;
    }
    aya_mount mount = aya_mount_find(aya_posix_mount_of(&stat));
    file->kind = (uint8_t)kind_of(handle, &stat);
    file->append = (flags & O_APPEND) != 0;
    file->direct = (flags & O_DIRECT) != 0;
    file->local = mount.local;
    file->inline_read = (uint8_t)inline_read_of(file, &mount);
    file->positioned = lseek(handle, 0, SEEK_CUR) >= 0;
    if (file->kind == AYA_FILE_POLLABLE) {
        file->io = descriptor_for_io(handle, flags, &stat);
    }
    return 0;
}

bool
aya_file_known(aya_handle handle)
{
    struct statx stat;

    return aya_posix_stat_cached(handle, &stat) < 0 || !S_ISREG(stat.stx_mode)
           || aya_mount_find(aya_posix_mount_of(&stat)).known;
}

void
aya_file_release(aya_file *file)
{
    if (file->io != file->handle && file->io >= 0) {
        close(file->io);
    }
    file->io = file->handle;
}

bool
aya_file_close_inline(aya_file *file)
{
    struct statx stat;

    if (file->kind != AYA_FILE_REGULAR || !file->local || file->written
        || aya_posix_stat_cached(file->handle, &stat) < 0 || stat.stx_nlink == 0) {
        return false;
    }
    close(file->handle);
    return true;
}

int64_t
aya_file_position(const aya_file *file)
{
    off_t position = lseek(file->handle, 0, SEEK_CUR);

    return position < 0 ? -errno : position;
}

int
aya_file_set_position(const aya_file *file, int64_t position)
{
    return lseek(file->handle, position, SEEK_SET) < 0 ? -errno : 0;
}

size_t
aya_file_block_size(const aya_file *file)
{
    struct statx stat;

    return aya_posix_stat_cached(file->handle, &stat) < 0 ? 0 : stat.stx_blksize;
}

int64_t
aya_file_size_hint(const aya_file *file)
{
    struct statx stat;

    return aya_posix_stat_cached(file->handle, &stat) < 0 ? 0 : (int64_t)stat.stx_size;
}
