/* System calls in the form that the generated rows want, for Linux.
 *
 * aya_posix_open(), aya_posix_close() and aya_posix_stat() run in workers and may wait; the rest
 * may run in a loop's thread and never waits. Knows no requests.
 */
#include "posix.h"
#include "internal.h"

#include <limits.h>
#include <linux/fs.h>
#include <linux/openat2.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <sys/ioctl.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <sys/sysmacros.h>
#include <sys/uio.h>
#include <unistd.h>

#ifndef RESOLVE_CACHED
#define RESOLVE_CACHED 0x20
#endif
/* Linux 6.8: a mount's number that is never used for another mount. */
#define MOUNT_ID 0x1000u
#define MOUNT_ID_UNIQUE 0x4000u

#define DESCRIPTORS_AT_LEAST 2048
#define THREAD_STACK ((size_t)256 << 10)

static int64_t
result_of(int64_t result)
{
    return result < 0 ? -errno : result;
}

/* -- what the system knows of a file ----------------------------------------------------------- */

int
aya_posix_stat_cached(int fd, struct statx *stat)
{
    int flags = AT_EMPTY_PATH | AT_STATX_DONT_SYNC;

    if (statx(fd, "", flags, STATX_BASIC_STATS | MOUNT_ID | MOUNT_ID_UNIQUE, stat) < 0) {
        return -errno;
    }
    return 0;
}

uint64_t
aya_posix_mount_of(const struct statx *stat)
{
    if (stat->stx_mask & MOUNT_ID_UNIQUE) {
        return stat->stx_mnt_id;
    }
    if (!(stat->stx_mask & MOUNT_ID)) {
        return 0;
    }
    /* An older kernel uses a number again; the device makes a mix-up unlikely. */
    return stat->stx_mnt_id | (uint64_t)makedev(stat->stx_dev_major, stat->stx_dev_minor) << 32;
}

int64_t
aya_posix_stat(int fd, aya_stat_raw *stat)
{
    uint64_t size;

    if (statx(fd, "", AYA_STATX_FLAGS, AYA_STATX_MASK | MOUNT_ID_UNIQUE, stat) < 0) {
        return -errno;
    }
    if (!aya_mount_find(aya_posix_mount_of(stat)).known) {
        aya_mount_learn(fd);
    }
    if (S_ISBLK(stat->stx_mode) && ioctl(fd, BLKGETSIZE64, &size) == 0) {
        stat->stx_size = size;
    }
    return 0;
}

static int64_t
nanoseconds(const struct statx_timestamp *time)
{
    return time->tv_sec * INT64_C(1000000000) + time->tv_nsec;
}

void
aya_stat_decode(const aya_stat_raw *raw, aya_stat *out)
{
    *out = (aya_stat){
        .inode = raw->stx_ino,
        .device = makedev(raw->stx_dev_major, raw->stx_dev_minor),
        .links = raw->stx_nlink,
        .size = raw->stx_size,
        .blocks = raw->stx_blocks,
        .rdevice = makedev(raw->stx_rdev_major, raw->stx_rdev_minor),
        .mode = raw->stx_mode,
        .owner = raw->stx_uid,
        .group = raw->stx_gid,
        .block_size = raw->stx_blksize,
        .accessed_ns = nanoseconds(&raw->stx_atime),
        .modified_ns = nanoseconds(&raw->stx_mtime),
        .changed_ns = nanoseconds(&raw->stx_ctime),
    };
}

/* -- open and close ---------------------------------------------------------------------------- */

int
aya_posix_open_flags(int access, bool append, bool create, bool exclusive, bool truncate)
{
    int flags = O_CLOEXEC;

    switch (access) {
    case AYA_OPEN_READ:
        flags |= O_RDONLY;
        break;
    case AYA_OPEN_WRITE:
        flags |= O_WRONLY;
        break;
    default:
        flags |= O_RDWR;
        break;
    }
    return flags | (append ? O_APPEND : 0) | (create ? O_CREAT : 0) | (exclusive ? O_EXCL : 0)
           | (truncate ? O_TRUNC : 0);
}

int64_t
aya_posix_open(const char *path, int access, bool append, bool create, bool exclusive,
               bool truncate, uint32_t permissions)
{
    struct stat before;
    struct statx after;
    int fd;

    /* A FIFO opened for both never waits. */
    if (access != AYA_OPEN_BOTH && !(create && exclusive) && stat(path, &before) == 0
        && S_ISFIFO(before.st_mode)) {
        return AYA_RESULT_ALONE;
    }
    fd = open(path, aya_posix_open_flags(access, append, create, exclusive, truncate),
              (mode_t)permissions);
    if (fd < 0) {
        return -errno;
    }
    if (aya_posix_stat_cached(fd, &after) == 0) {
        /* The system opens directories for reading; open() of the language does not. */
        if (S_ISDIR(after.stx_mode)) {
            close(fd);
            return -EISDIR;
        }
        if (!aya_mount_find(aya_posix_mount_of(&after)).known) {
            aya_mount_learn(fd);
        }
    }
    return fd;
}

static int
open_if_cached(const char *path, int flags)
{
    static uint8_t missing;
    struct open_how how = {.flags = (uint64_t)flags, .resolve = RESOLVE_CACHED};

    if (__atomic_load_n(&missing, __ATOMIC_RELAXED)) {
        return -1;
    }
    long fd = syscall(SYS_openat2, AT_FDCWD, path, &how, sizeof(how));
    /* EINVAL: a kernel without RESOLVE_CACHED (before 5.12); EPERM, ENOSYS: refused by seccomp. */
    if (fd < 0 && (errno == ENOSYS || errno == EINVAL)) {
        __atomic_store_n(&missing, 1, __ATOMIC_RELAXED);
    }
    return (int)fd;
}

/* Whether opening the path cannot wait, by a descriptor that only names it: opening that asks no
 * filesystem. */
static bool
opens_without_waiting(const char *path)
{
    struct statx stat;
    int fd = open_if_cached(path, O_PATH | O_CLOEXEC);
    bool result;

    if (fd < 0) {
        return false;
    }
    result = aya_posix_stat_cached(fd, &stat) == 0 && S_ISREG(stat.stx_mode)
             && aya_mount_find(aya_posix_mount_of(&stat)).local;
    close(fd);
    return result;
}

int64_t
aya_posix_open_cached(const char *path, int access, bool append, bool create, bool exclusive,
                      bool truncate)
{
    int flags = aya_posix_open_flags(access, append, false, false, false);
    int fd;

    if (truncate || (create && exclusive) || !opens_without_waiting(path)) {
        return -EAGAIN;
    }
    /* O_NONBLOCK: a lease of another process is not waited for (up to 45 s), nor a FIFO that
     * took the file's place in between. */
    fd = open_if_cached(path, flags | O_NONBLOCK);
    if (fd < 0) {
        return -EAGAIN;
    }
    if (fcntl(fd, F_SETFL, flags & O_APPEND) < 0) {
        close(fd);
        return -EAGAIN;
    }
    return fd;
}

int64_t
aya_posix_close(int fd)
{
    return result_of(close(fd));
}

/* -- transfers that do not wait ---------------------------------------------------------------- */

/* Remembers a mount whose regular files have no RWF_NOWAIT, so that later files do not try. */
static void
remember_refusal(int fd)
{
    struct statx stat;

    if (aya_posix_stat_cached(fd, &stat) == 0 && S_ISREG(stat.stx_mode)) {
        aya_mount_refuses_nowait(aya_posix_mount_of(&stat));
    }
}

int64_t
aya_posix_pread_nowait(int fd, void *buf, size_t size, int64_t offset)
{
    struct iovec part = {.iov_base = buf, .iov_len = size};
    int64_t result = result_of(preadv2(fd, &part, 1, offset, RWF_NOWAIT));

    if (result == -EOPNOTSUPP) {
        remember_refusal(fd);
    }
    return result;
}

static bool
pollable(int fd)
{
    struct statx stat;

    if (aya_posix_stat_cached(fd, &stat) < 0) {
        return false;
    }
    switch (stat.stx_mode & S_IFMT) {
    case S_IFREG:
    case S_IFDIR:
    case S_IFBLK:
        return false;
    case S_IFIFO:
    case S_IFSOCK:
        return true;
    default:
        return aya_poll_possible(fd);
    }
}

/* How a plain call can be made where RWF_NOWAIT is refused: 0 as it is, 1 in small pieces, or
 * -errno. */
static int
plain_call(int fd, short events)
{
    struct pollfd watched = {.fd = fd, .events = events};
    int flags = fcntl(fd, F_GETFL);

    if (!pollable(fd)) {
        return -EOPNOTSUPP;
    }
    if (flags >= 0 && flags & O_NONBLOCK) {
        return 0;
    }
    return poll(&watched, 1, 0) > 0 ? 1 : -EAGAIN;
}

int64_t
aya_posix_read_nowait(int fd, void *buf, size_t size)
{
    struct iovec part = {.iov_base = buf, .iov_len = size};
    int64_t result = result_of(preadv2(fd, &part, 1, -1, RWF_NOWAIT));

    if (result != -EOPNOTSUPP) {
        return result;
    }
    int plain = plain_call(fd, POLLIN);
    if (plain == -EOPNOTSUPP) {
        remember_refusal(fd);
    }
    return plain < 0 ? plain : result_of(read(fd, buf, size));
}

int64_t
aya_posix_write_nowait(int fd, const void *data, size_t size)
{
    struct iovec part = {.iov_base = (void *)(uintptr_t)data, .iov_len = size};
    int64_t result = result_of(pwritev2(fd, &part, 1, -1, RWF_NOWAIT));

    if (result != -EOPNOTSUPP) {
        return result;
    }
    int plain = plain_call(fd, POLLOUT);
    if (plain < 0) {
        return plain;
    }
    return result_of(write(fd, data, plain == 1 && size > PIPE_BUF ? PIPE_BUF : size));
}

/* -- threads ----------------------------------------------------------------------------------- */

int
aya_posix_start_thread(void *(*run)(void *), void *argument)
{
    pthread_attr_t attributes;
    sigset_t all, before;
    pthread_t thread;
    int error;

    error = pthread_attr_init(&attributes);
    if (error != 0) {
        return -error;
    }
    pthread_attr_setdetachstate(&attributes, PTHREAD_CREATE_DETACHED);
    pthread_attr_setstacksize(&attributes, THREAD_STACK);
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before);
    error = pthread_create(&thread, &attributes, run, argument);
    if (error == EINVAL) {
        /* Large thread-local data of other libraries does not fit: the system's own size. */
        pthread_attr_destroy(&attributes);
        pthread_attr_init(&attributes);
        pthread_attr_setdetachstate(&attributes, PTHREAD_CREATE_DETACHED);
        error = pthread_create(&thread, &attributes, run, argument);
    }
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    pthread_attr_destroy(&attributes);
    return -error;
}

void
aya_posix_grow_descriptors(void)
{
    static unsigned grown_for = UINT_MAX; /* a child's table is its own, and small again */
    struct rlimit limit;
    int fd;

    if (__atomic_exchange_n(&grown_for, aya_fork_generation(), __ATOMIC_RELAXED)
        == aya_fork_generation()) {
        return;
    }
    if (getrlimit(RLIMIT_NOFILE, &limit) < 0 || limit.rlim_cur == 0) {
        return;
    }
    rlim_t highest = limit.rlim_cur < DESCRIPTORS_AT_LEAST ? limit.rlim_cur : DESCRIPTORS_AT_LEAST;
    fd = open("/", O_PATH | O_CLOEXEC);
    if (fd >= 0) {
        int high = fcntl(fd, F_DUPFD_CLOEXEC, (int)highest - 1);
        if (high >= 0) {
            close(high);
        }
        close(fd);
    }
}
