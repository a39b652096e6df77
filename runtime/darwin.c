/* What is macOS' own: looking at files, what is known of its filesystems, its calls for durable
 * data, room and advice, wake-ups through a pipe, and the scheduling of threads.
 *
 * aya_darwin_*(), aya_posix_stat(), aya_posix_pin() and aya_posix_judge_mount() run in workers and
 * may wait, all else never does: but that macOS has no call that looks at a file of a network
 * filesystem without asking for what its client no longer keeps.
 */
#include "posix.h"

#include <fcntl.h>
#include <limits.h>
#include <pthread.h>
#include <pthread/qos.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <unistd.h>

static int64_t
result_of(int64_t result)
{
    return result < 0 ? -errno : result;
}

/* -- what the system knows of a file ----------------------------------------------------------- */

static void
facts_of(const struct stat *stat, aya_facts *facts)
{
    *facts = (aya_facts){
        .mode = stat->st_mode,
        .links = stat->st_nlink,
        .block_size = (uint32_t)stat->st_blksize,
        .size = (uint64_t)stat->st_size,
        .inode = stat->st_ino,
        .device = (uint32_t)stat->st_dev,
        .rdevice = (uint32_t)stat->st_rdev,
        .mount = (uint32_t)stat->st_dev,
    };
}

int
aya_posix_facts(int fd, aya_facts *facts)
{
    struct stat stat;

    if (fstat(fd, &stat) < 0) {
        return -errno;
    }
    facts_of(&stat, facts);
    return 0;
}

int64_t
aya_posix_stat(int fd, aya_stat_raw *stat)
{
    if (fstat(fd, stat) < 0) {
        return -errno;
    }
    if (!aya_mount_find((uint32_t)stat->st_dev).known) {
        aya_mount_learn(fd);
    }
    return 0;
}

static int64_t
nanoseconds(const struct timespec *time)
{
    return time->tv_sec * INT64_C(1000000000) + time->tv_nsec;
}

void
aya_stat_decode(const aya_stat_raw *raw, aya_stat *out)
{
    *out = (aya_stat){
        .inode = raw->st_ino,
        .device = (uint32_t)raw->st_dev,
        .links = raw->st_nlink,
        .size = (uint64_t)raw->st_size,
        .blocks = (uint64_t)raw->st_blocks,
        .rdevice = (uint32_t)raw->st_rdev,
        .mode = raw->st_mode,
        .owner = raw->st_uid,
        .group = raw->st_gid,
        .block_size = (uint32_t)raw->st_blksize,
        .accessed_ns = nanoseconds(&raw->st_atimespec),
        .modified_ns = nanoseconds(&raw->st_mtimespec),
        .changed_ns = nanoseconds(&raw->st_ctimespec),
        .born_ns = nanoseconds(&raw->st_birthtimespec),
    };
}

aya_mount
aya_posix_judge_mount(int fd)
{
    /* MNT_LOCAL alone does not do: filesystems in user space may claim it. */
    static const char *const local[] = {"apfs", "hfs", "exfat", "msdos", "udf", "cd9660"};
    aya_mount mount = {.known = true, .local = false, .inline_read = AYA_INLINE_NEVER};
    struct statfs filesystem;

    if (fstatfs(fd, &filesystem) < 0) {
        mount.known = false;
        return mount;
    }
    for (size_t i = 0; i < sizeof(local) / sizeof(local[0]); i++) {
        mount.local = mount.local || ((filesystem.f_flags & MNT_LOCAL) != 0
                                      && strcmp(filesystem.f_fstypename, local[i]) == 0);
    }
    return mount;
}

/* macOS has F_NOCACHE to set, and nothing that tells whether it is. */
bool
aya_posix_is_direct(int fd, int flags)
{
    (void)fd;
    (void)flags;
    return false;
}

void
aya_file_reads_randomly(const aya_file *file, bool random)
{
    fcntl(file->io, F_RDAHEAD, random ? 0 : 1);
}

/* -- other descriptors of a file --------------------------------------------------------------- */

int
aya_posix_pin(const char *path, int *descriptor, char *name, aya_facts *facts)
{
    struct stat named;

    if (stat(path, &named) < 0) {
        return -errno;
    }
    facts_of(&named, facts);
    *descriptor = -1;
    name[0] = '\0';
    return 0;
}

/* /dev/fd/N gives a duplicate, not a description of its own. */
int
aya_posix_own_description(int fd, int flags, const aya_facts *facts)
{
    (void)flags;
    (void)facts;
    return fd;
}

/* -- calls that do not wait -------------------------------------------------------------------- */

/* There is none that opens only what is cached. */
int64_t
aya_posix_open_cached(const char *path, int access, bool append, bool create, bool exclusive,
                      bool truncate, aya_file *found)
{
    (void)path;
    (void)access;
    (void)append;
    (void)create;
    (void)exclusive;
    (void)truncate;
    (void)found;
    return -EAGAIN;
}

/* So none is half open. */
int64_t
aya_posix_writer_came(int fd, int most_ms)
{
    (void)fd;
    (void)most_ms;
    return -ENOTSUP;
}

/* There is none that reads only what is cached. */
int64_t
aya_posix_pread_nowait(int fd, void *buf, size_t size, int64_t offset)
{
    (void)fd;
    (void)buf;
    (void)size;
    (void)offset;
    return -EOPNOTSUPP;
}

int64_t
aya_posix_read_nowait(int fd, void *buf, size_t size)
{
    return aya_posix_read_ready(fd, buf, size);
}

int64_t
aya_posix_write_nowait(int fd, const void *data, size_t size)
{
    return aya_posix_write_ready(fd, data, size);
}

/* -- calls of the thread rows ------------------------------------------------------------------ */

/* fsync() leaves the data in the drive's cache, and there is no fdatasync(). */
int64_t
aya_darwin_fsync(int fd, bool data_only)
{
    int result = fcntl(fd, F_FULLFSYNC);

    (void)data_only;
    if (result < 0 && (errno == ENOTSUP || errno == ENOTTY || errno == EINVAL)) {
        result = fsync(fd);
    }
    return result_of(result);
}

/* Gets room behind what the file has, and makes it as long as asked; holes inside stay. */
int64_t
aya_darwin_allocate(int fd, int64_t offset, int64_t size)
{
    struct stat now;

    if (offset < 0 || size <= 0) {
        return -EINVAL;
    }
    if (offset > INT64_MAX - size) {
        return -EFBIG;
    }
    if (fstat(fd, &now) < 0) {
        return -errno;
    }
    if (!S_ISREG(now.st_mode)) {
        return S_ISFIFO(now.st_mode) ? -ESPIPE : -ENODEV;
    }
    int64_t missing = offset + size - now.st_blocks * 512;
    if (missing > 0) {
        fstore_t room = {.fst_flags = F_ALLOCATEALL, .fst_posmode = F_PEOFPOSMODE,
                         .fst_length = missing};
        if (fcntl(fd, F_PREALLOCATE, &room) < 0) {
            return -errno;
        }
    }
    return now.st_size >= offset + size ? 0 : result_of(ftruncate(fd, offset + size));
}

static int
advise_range(int fd, int64_t offset, int64_t size)
{
    struct radvisory range = {.ra_offset = offset};

    range.ra_count = size <= 0 || size > INT_MAX ? INT_MAX : (int)size;
    return fcntl(fd, F_RDADVISE, &range);
}

/* macOS takes advice for a whole file, but for what will be needed. What is cached it does not
 * let go. */
int64_t
aya_darwin_advise(int fd, int64_t offset, int64_t size, int advice)
{
    if (lseek(fd, 0, SEEK_CUR) < 0) {
        return -errno;
    }
    switch ((aya_advise_advice)advice) {
    case AYA_ADVISE_NORMAL:
        return fcntl(fd, F_NOCACHE, 0) < 0 ? -errno : result_of(fcntl(fd, F_RDAHEAD, 1));
    case AYA_ADVISE_RANDOM:
        return result_of(fcntl(fd, F_RDAHEAD, 0));
    case AYA_ADVISE_SEQUENTIAL:
        return result_of(fcntl(fd, F_RDAHEAD, 1));
    case AYA_ADVISE_WILLNEED:
        return result_of(advise_range(fd, offset, size));
    case AYA_ADVISE_NOREUSE:
        return result_of(fcntl(fd, F_NOCACHE, 1));
    case AYA_ADVISE_DONTNEED:
        return 0;
    }
    return -EINVAL;
}

/* -- wake-ups ---------------------------------------------------------------------------------- */

int
aya_wake_open(aya_wake *wake)
{
    int ends[2];

    if (pipe(ends) < 0) {
        return -errno;
    }
    for (int i = 0; i < 2; i++) {
        if (fcntl(ends[i], F_SETFD, FD_CLOEXEC) < 0 || fcntl(ends[i], F_SETFL, O_NONBLOCK) < 0) {
            int error = -errno;
            close(ends[0]);
            close(ends[1]);
            return error;
        }
    }
    *wake = (aya_wake){.watched = ends[0], .signalled = ends[1]};
    return 0;
}

void
aya_wake_close(aya_wake *wake)
{
    close(wake->watched);
    close(wake->signalled);
}

void
aya_wake_signal(aya_wake *wake)
{
    ssize_t written = write(wake->signalled, "", 1);

    (void)written; /* EAGAIN: it is full, and so readable already */
}

void
aya_wake_clear(aya_wake *wake)
{
    char bytes[64];

    while (read(wake->watched, bytes, sizeof(bytes)) == (ssize_t)sizeof(bytes)) {
    }
}

/* -- threads ----------------------------------------------------------------------------------- */

void
aya_thread_name(const char *name)
{
    pthread_setname_np(name);
}

void
aya_thread_stand_back(void)
{
    pthread_set_qos_class_self_np(QOS_CLASS_UTILITY, 0);
}

/* There is no pthread_condattr_setclock(). */
void
aya_condition_init(pthread_cond_t *condition)
{
    pthread_cond_init(condition, NULL);
}

bool
aya_condition_wait(pthread_cond_t *condition, pthread_mutex_t *lock, int64_t end_ns)
{
    int64_t left = end_ns - aya_now_ns();
    struct timespec most = {.tv_sec = left / 1000000000, .tv_nsec = left % 1000000000};

    return left <= 0 || pthread_cond_timedwait_relative_np(condition, lock, &most) != 0;
}
