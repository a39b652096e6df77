/* What is Linux's own: looking at files and opening them without waiting, transfers with
 * RWF_NOWAIT, what is known of its filesystems, eventfd, and the scheduling of threads.
 *
 * aya_posix_stat(), aya_posix_pin() and aya_posix_judge_mount() may wait, all else never does.
 */
#include "posix.h"

#include <fcntl.h>
#include <limits.h>
#include <linux/fs.h>
#include <linux/ioprio.h>
#include <linux/magic.h>
#include <linux/openat2.h>
#include <poll.h>
#include <sched.h>
#include <stdio.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/ioctl.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/sysmacros.h>
#include <sys/uio.h>
#include <sys/vfs.h>
#include <unistd.h>

#ifndef RESOLVE_CACHED
#define RESOLVE_CACHED 0x20
#endif
/* Linux 6.8: a mount's number that is never used for another mount. */
#define MOUNT_ID 0x1000u
#define MOUNT_ID_UNIQUE 0x4000u

#ifndef XFS_SUPER_MAGIC
#define XFS_SUPER_MAGIC 0x58465342
#endif
#define ZFS_MAGIC 0x2fc12fc1
#define BCACHEFS_MAGIC 0xca451a4e
#ifndef EROFS_SUPER_MAGIC_V1
#define EROFS_SUPER_MAGIC_V1 0xe0f5e1e2
#endif
#ifndef RAMFS_MAGIC
#define RAMFS_MAGIC 0x858458f6
#endif

#define DEVICE(major, minor) ((uint64_t)(major) << 32 | (minor))
/* The multiplexer of pseudo-terminals: every open of it makes a new terminal. */
#define PTMX DEVICE(5, 2)

#define SLICE_NS UINT64_C(100000000)
#define NICE 10

static int64_t
result_of(int64_t result)
{
    return result < 0 ? -errno : result;
}

/* -- what the system knows of a file ----------------------------------------------------------- */

static uint64_t
mount_of(const struct statx *stat)
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

int
aya_posix_facts(int fd, aya_facts *facts)
{
    int flags = AT_EMPTY_PATH | AT_STATX_DONT_SYNC;
    struct statx stat;

    if (statx(fd, "", flags, STATX_BASIC_STATS | MOUNT_ID | MOUNT_ID_UNIQUE, &stat) < 0) {
        return -errno;
    }
    *facts = (aya_facts){
        .mode = stat.stx_mode,
        .links = stat.stx_nlink,
        .block_size = stat.stx_blksize,
        .size = stat.stx_size,
        .inode = stat.stx_ino,
        .device = DEVICE(stat.stx_dev_major, stat.stx_dev_minor),
        .rdevice = DEVICE(stat.stx_rdev_major, stat.stx_rdev_minor),
        .mount = mount_of(&stat),
    };
    return 0;
}

int64_t
aya_posix_stat(int fd, aya_stat_raw *stat)
{
    uint64_t size;

    if (statx(fd, "", AYA_STATX_FLAGS, AYA_STATX_MASK | MOUNT_ID_UNIQUE, stat) < 0) {
        return -errno;
    }
    if (!aya_mount_find(mount_of(stat)).known) {
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

aya_mount
aya_posix_judge_mount(int fd)
{
    /* Of a filesystem that may be on another machine or in another process nothing is assumed, but
     * that RWF_NOWAIT does not wait: it is refused or kept. */
    aya_mount mount = {.known = true, .local = false, .inline_read = AYA_INLINE_NOWAIT};
    struct statfs filesystem;

    if (fstatfs(fd, &filesystem) < 0) {
        mount.known = false;
        return mount;
    }
    switch ((uint32_t)filesystem.f_type) {
    case TMPFS_MAGIC:
    case RAMFS_MAGIC:
        mount.inline_read = AYA_INLINE_PLAIN;
        mount.local = true;
        break;
    case EXT4_SUPER_MAGIC:
    case XFS_SUPER_MAGIC:
    case BTRFS_SUPER_MAGIC:
    case F2FS_SUPER_MAGIC:
    case OVERLAYFS_SUPER_MAGIC:
    case SQUASHFS_MAGIC:
    case EROFS_SUPER_MAGIC_V1:
    case ZFS_MAGIC:
    case BCACHEFS_MAGIC:
        mount.local = true;
        break;
    default:
        break;
    }
    return mount;
}

bool
aya_posix_is_direct(int fd, int flags)
{
    (void)fd;
    return (flags & O_DIRECT) != 0;
}

void
aya_file_reads_randomly(const aya_file *file, bool random)
{
    posix_fadvise(file->io, 0, 0, random ? POSIX_FADV_RANDOM : POSIX_FADV_NORMAL);
}

/* -- other descriptors of a file --------------------------------------------------------------- */

int
aya_posix_pin(const char *path, int *descriptor, char *name, aya_facts *facts)
{
    int fd = open(path, O_PATH | O_CLOEXEC);
    int error;

    if (fd < 0) {
        return -errno;
    }
    error = aya_posix_facts(fd, facts);
    if (error < 0) {
        close(fd);
        return error;
    }
    snprintf(name, AYA_PIN_NAME, "/proc/self/fd/%d", fd);
    *descriptor = fd;
    return 0;
}

/* Whether RWF_NOWAIT is refused where a description of our own can be had instead: named FIFOs and
 * terminals. A pipe has no name to be opened by, and takes RWF_NOWAIT. */
static bool
wants_own_description(int fd, const char *name, const aya_facts *facts)
{
    char target[8];

    switch (facts->mode & S_IFMT) {
    case S_IFIFO:
        return readlink(name, target, sizeof(target)) > 0 && strncmp(target, "pipe:[", 6) != 0;
    case S_IFCHR:
        return isatty(fd) && facts->rdevice != PTMX;
    default:
        return false;
    }
}

int
aya_posix_own_description(int fd, int flags, const aya_facts *facts)
{
    char name[AYA_PIN_NAME];
    int own;

    if (flags & O_NONBLOCK) {
        return fd;
    }
    snprintf(name, sizeof(name), "/proc/self/fd/%d", fd);
    if (!wants_own_description(fd, name, facts)) {
        return fd;
    }
    own = open(name, (flags & (O_ACCMODE | O_APPEND)) | O_NONBLOCK | O_NOCTTY | O_CLOEXEC);
    return own < 0 ? fd : own;
}

/* -- opens that do not wait -------------------------------------------------------------------- */

/* A directory is known for so long after a look at a file in it. */
#define KNOWN_NS INT64_C(100000000)
#define DIRECTORIES 64

/* Directories in which this thread has found a regular file on a local filesystem, each at a place
 * that its name gives. */
static _Thread_local struct {
    uint64_t name; /* a hash of it */
    int64_t until_ns;
} directories[DIRECTORIES];

static uint64_t
hash_of_directory(const char *path)
{
    const char *end = strrchr(path, '/');
    size_t size = end == NULL ? 0 : (size_t)(end - path) + 1;
    uint64_t hash = size, word;

    for (; size >= sizeof(word); size -= sizeof(word), path += sizeof(word)) {
        memcpy(&word, path, sizeof(word));
        hash = (hash ^ word) * UINT64_C(0x9e3779b97f4a7c15);
        hash ^= hash >> 32;
    }
    word = 0;
    memcpy(&word, path, size);
    hash = (hash ^ word) * UINT64_C(0x9e3779b97f4a7c15);
    return hash ^ hash >> 32;
}

static int
open_if_cached(const char *path, int flags, uint64_t resolve)
{
    static uint8_t missing;
    struct open_how how = {.flags = (uint64_t)flags, .resolve = RESOLVE_CACHED | resolve};

    if (__atomic_load_n(&missing, __ATOMIC_RELAXED)) {
        errno = ENOSYS;
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
    aya_facts facts;
    int fd = open_if_cached(path, O_PATH | O_CLOEXEC, 0);
    bool result;

    if (fd < 0) {
        return false;
    }
    result = aya_posix_facts(fd, &facts) == 0 && S_ISREG(facts.mode)
             && aya_mount_find(facts.mount).local;
    close(fd);
    return result;
}

/* The descriptor, with O_NONBLOCK, or -1. In a directory that is known no file is looked at first:
 * one that is reached without symbolic links is on the filesystem that was seen there, and what
 * else might wait than a filesystem does not with O_NONBLOCK. */
static int
open_looking_first(const char *path, int flags)
{
    uint64_t name = hash_of_directory(path);
    size_t place = name % DIRECTORIES;
    int64_t now = aya_now_ns();

    if (directories[place].name == name && directories[place].until_ns > now) {
        int fd = open_if_cached(path, flags, RESOLVE_NO_SYMLINKS);
        if (fd >= 0 || errno != ELOOP) {
            return fd;
        }
    }
    if (!opens_without_waiting(path)) {
        return -1;
    }
    directories[place].name = name;
    directories[place].until_ns = now + KNOWN_NS;
    return open_if_cached(path, flags, 0);
}

int64_t
aya_posix_open_cached(const char *path, int access, bool append, bool create, bool exclusive,
                      bool truncate, aya_file *found)
{
    int flags = aya_posix_open_flags(access, append, false, false, false);
    aya_facts facts;
    int fd;

    if (truncate || (create && exclusive)) {
        return -EAGAIN;
    }
    /* O_NONBLOCK: a lease of another process is not waited for (up to 45 s), nor a FIFO's other
     * end. */
    fd = open_looking_first(path, flags | O_NONBLOCK);
    if (fd < 0) {
        return -EAGAIN;
    }
    if (aya_posix_facts(fd, &facts) < 0 || S_ISDIR(facts.mode)) {
        close(fd);
        return -EAGAIN;
    }
    /* Opened for writing it had its reader: else the system refuses. */
    if (S_ISFIFO(facts.mode) && access == AYA_OPEN_READ) {
        return AYA_RESULT_HALF_OPEN - fd;
    }
    if (fcntl(fd, F_SETFL, flags & O_APPEND) < 0) {
        close(fd);
        return -EAGAIN;
    }
    if (found != NULL) {
        aya_file_found(found, fd, append, &facts);
    }
    return fd;
}

int64_t
aya_posix_writer_came(int fd, int most_ms)
{
    struct pollfd watched = {.fd = fd, .events = POLLIN};
    int result = poll(&watched, 1, most_ms), ends[2];
    ssize_t copied;

    if (result != 0) {
        return result < 0 && errno != EINTR ? -errno : result > 0;
    }
    /* Of one who only is there poll() tells nothing, and a copy of what comes says EAGAIN. */
    if (pipe2(ends, O_CLOEXEC) < 0) {
        return -errno;
    }
    copied = tee(fd, ends[1], 1, SPLICE_F_NONBLOCK);
    result = copied > 0 || (copied < 0 && errno == EAGAIN);
    close(ends[0]);
    close(ends[1]);
    return result;
}

/* -- transfers that do not wait ---------------------------------------------------------------- */

/* Remembers a mount whose regular files have no RWF_NOWAIT, so that later files do not try. */
static void
remember_refusal(int fd)
{
    aya_facts facts;

    if (aya_posix_facts(fd, &facts) == 0 && S_ISREG(facts.mode)) {
        aya_mount_refuses_nowait(facts.mount);
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

int64_t
aya_posix_read_nowait(int fd, void *buf, size_t size)
{
    struct iovec part = {.iov_base = buf, .iov_len = size};
    int64_t result = result_of(preadv2(fd, &part, 1, -1, RWF_NOWAIT));

    if (result != -EOPNOTSUPP) {
        return result;
    }
    result = aya_posix_read_ready(fd, buf, size);
    if (result == -EOPNOTSUPP) {
        remember_refusal(fd);
    }
    return result;
}

int64_t
aya_posix_write_nowait(int fd, const void *data, size_t size)
{
    struct iovec part = {.iov_base = (void *)(uintptr_t)data, .iov_len = size};
    int64_t result = result_of(pwritev2(fd, &part, 1, -1, RWF_NOWAIT));

    return result == -EOPNOTSUPP ? aya_posix_write_ready(fd, data, size) : result;
}

/* -- wake-ups ---------------------------------------------------------------------------------- */

int
aya_wake_open(aya_wake *wake)
{
    int fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);

    if (fd < 0) {
        return -errno;
    }
    *wake = (aya_wake){.watched = fd, .signalled = fd};
    return 0;
}

void
aya_wake_close(aya_wake *wake)
{
    close(wake->watched);
}

void
aya_wake_signal(aya_wake *wake)
{
    uint64_t one = 1;
    ssize_t written = write(wake->signalled, &one, sizeof(one));

    (void)written; /* EAGAIN: it is readable already */
}

void
aya_wake_clear(aya_wake *wake)
{
    uint64_t count;
    ssize_t got = read(wake->watched, &count, sizeof(count));

    (void)got; /* EAGAIN: another descriptor was ready */
}

/* -- threads ----------------------------------------------------------------------------------- */

void
aya_thread_name(const char *name)
{
    pthread_setname_np(pthread_self(), name);
}

/* On a machine with other work such a thread gets little of it. */
void
aya_thread_stand_back(void)
{
    struct {
        uint32_t size, policy;
        uint64_t flags;
        int32_t nice;
        uint32_t priority;
        uint64_t runtime, deadline, period;
    } attributes = {.size = sizeof(attributes), .policy = SCHED_OTHER, .runtime = SLICE_NS};
    int nice_now = getpriority(PRIO_PROCESS, 0);

    static_assert(sizeof(attributes) == 48, "the first published size of struct sched_attr");
    attributes.nice = nice_now > NICE ? nice_now : NICE;
    syscall(SYS_sched_setattr, 0, &attributes, 0);
}

void
aya_condition_init(pthread_cond_t *condition)
{
    pthread_condattr_t attributes;

    pthread_condattr_init(&attributes);
    pthread_condattr_setclock(&attributes, CLOCK_MONOTONIC);
    pthread_cond_init(condition, &attributes);
    pthread_condattr_destroy(&attributes);
}

bool
aya_condition_wait(pthread_cond_t *condition, pthread_mutex_t *lock, int64_t end_ns)
{
    struct timespec until = {.tv_sec = end_ns / 1000000000, .tv_nsec = end_ns % 1000000000};

    return pthread_cond_timedwait(condition, lock, &until) != 0;
}

/* -- what one transfer can ask for ------------------------------------------------------------- */

static_assert((int)AYA_PREADV_REAL_TIME == (int)AYA_PWRITEV_REAL_TIME, "one list of priorities");

uint16_t
aya_linux_ioprio(int priority)
{
    static const uint16_t values[] = {
        [AYA_PREADV_NORMAL] = 0,
        [AYA_PREADV_IDLE] = IOPRIO_PRIO_VALUE(IOPRIO_CLASS_IDLE, 0),
        [AYA_PREADV_BEST_EFFORT] = IOPRIO_PRIO_VALUE(IOPRIO_CLASS_BE, 4),
        [AYA_PREADV_REAL_TIME] = IOPRIO_PRIO_VALUE(IOPRIO_CLASS_RT, 4),
    };

    return values[priority];
}

int
aya_linux_write_flags(int durable, bool at_end)
{
    static const int durabilities[] = {
        [AYA_PWRITEV_NO] = 0, [AYA_PWRITEV_DATA] = RWF_DSYNC, [AYA_PWRITEV_ALL] = RWF_SYNC};

    return durabilities[durable] | (at_end ? RWF_APPEND : 0);
}

/* Gives the calling thread the priority for one transfer: what it had before, or -errno. */
static int
enter_priority(int priority)
{
    int before = (int)syscall(SYS_ioprio_get, IOPRIO_WHO_PROCESS, 0);
    int value = aya_linux_ioprio(priority);

    if (before < 0 || syscall(SYS_ioprio_set, IOPRIO_WHO_PROCESS, 0, value) < 0) {
        return -errno;
    }
    return before;
}

static void
leave_priority(int before)
{
    syscall(SYS_ioprio_set, IOPRIO_WHO_PROCESS, 0, before);
}

static int64_t
transfer(int fd, aya_parts parts, int64_t offset, int flags, bool write)
{
    struct iovec vector[AYA_VECTOR_MOST];
    int count = aya_posix_vector(vector, parts, SSIZE_MAX);

    return result_of(write ? pwritev2(fd, vector, count, offset, flags)
                           : preadv2(fd, vector, count, offset, flags));
}

static int64_t
transfer_with(int fd, aya_parts parts, int64_t offset, int flags, int priority, bool write)
{
    if (priority == AYA_PREADV_NORMAL) {
        return transfer(fd, parts, offset, flags, write);
    }
    int before = enter_priority(priority);
    if (before < 0) {
        return before;
    }
    int64_t result = transfer(fd, parts, offset, flags, write);
    leave_priority(before);
    return result;
}

int64_t
aya_linux_preadv(int fd, aya_parts into, int64_t offset, bool polled, int priority)
{
    return transfer_with(fd, into, offset, polled ? RWF_HIPRI : 0, priority, false);
}

int64_t
aya_linux_pwritev(int fd, aya_parts data, int64_t offset, int durable, bool at_end, int priority)
{
    int flags = aya_linux_write_flags(durable, at_end);

    return transfer_with(fd, data, offset, flags, priority, true);
}
