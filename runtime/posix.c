/* What POSIX systems share: system calls in the form that the generated rows want, threads, and the
 * wait for a context's descriptors.
 *
 * aya_posix_open(), _close(), _writev() and _pwritev() run in workers and may wait,
 * aya_context_sleep() is there to wait; the rest may run in a loop's thread and never waits. Knows
 * no requests.
 */
#include "posix.h"

#include <fcntl.h>
#include <limits.h>
#include <poll.h>
#include <signal.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/uio.h>
#include <unistd.h>

#define DESCRIPTORS_AT_LEAST 2048
#define THREAD_STACK ((size_t)256 << 10)

static int64_t
result_of(int64_t result)
{
    return result < 0 ? -errno : result;
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
    aya_facts after;
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
    if (aya_posix_facts(fd, &after) == 0) {
        /* The system opens directories for reading; open() of the language does not. */
        if (S_ISDIR(after.mode)) {
            close(fd);
            return -EISDIR;
        }
        if (!aya_mount_find(after.mount).known) {
            aya_mount_learn(fd);
        }
    }
    return fd;
}

int64_t
aya_posix_close(int fd)
{
    return result_of(close(fd));
}

/* -- transfers that do not wait ---------------------------------------------------------------- */

static bool
pollable(int fd)
{
    aya_facts facts;

    if (aya_posix_facts(fd, &facts) < 0) {
        return false;
    }
    switch (facts.mode & S_IFMT) {
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

/* How a plain call can be made without waiting: 0 as it is, 1 in small pieces, or -errno. */
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
aya_posix_read_ready(int fd, void *buf, size_t size)
{
    int plain = plain_call(fd, POLLIN);

    return plain < 0 ? plain : result_of(read(fd, buf, size));
}

int64_t
aya_posix_write_ready(int fd, const void *data, size_t size)
{
    int plain = plain_call(fd, POLLOUT);

    if (plain < 0) {
        return plain;
    }
    return result_of(write(fd, data, plain == 1 && size > PIPE_BUF ? PIPE_BUF : size));
}

int64_t
aya_posix_ready(int fd, short events)
{
    struct pollfd watched = {.fd = fd, .events = events};
    int count = poll(&watched, 1, 0);

    return count > 0 ? 0 : count == 0 ? -EAGAIN : -errno;
}

/* -- parts ------------------------------------------------------------------------------------- */

/* Bytes of one positional write: for a longer one Linux takes its page cache from large blocks of
 * free memory, which a virtual machine has often given back to its host, at ten times the cost. */
#define PIECE_MOST ((size_t)128 << 10)

int
aya_posix_vector(struct iovec *vector, aya_parts parts, size_t most)
{
    int count = 0;

    for (; count < AYA_VECTOR_MOST && (size_t)count < parts.count && most > 0; count++) {
        const aya_part *part = &parts.list[count];
        size_t size = part->size - parts.skip;
        vector[count].iov_base = (char *)(uintptr_t)part->data + parts.skip;
        vector[count].iov_len = size < most ? size : most;
        most -= vector[count].iov_len;
        parts.skip = 0;
    }
    return count;
}

int64_t
aya_posix_writev(int fd, aya_parts parts)
{
    struct iovec vector[AYA_VECTOR_MOST];

    return result_of(writev(fd, vector, aya_posix_vector(vector, parts, SSIZE_MAX)));
}

int64_t
aya_posix_pwritev(int fd, aya_parts parts, int64_t offset)
{
    struct iovec vector[AYA_VECTOR_MOST];

    return result_of(pwritev(fd, vector, aya_posix_vector(vector, parts, PIECE_MOST), offset));
}

/* -- waiting for a context --------------------------------------------------------------------- */

int
aya_context_descriptors(const aya_context *context, int descriptors[AYA_DESCRIPTOR_MAX])
{
    int count = 0;

    descriptors[count++] = context->wake.watched;
    descriptors[count++] = context->poll_descriptor;
    if (context->backend_descriptor >= 0) {
        descriptors[count++] = context->backend_descriptor;
    }
    return count;
}

int
aya_context_sleep(aya_context *context, int timeout_ms)
{
    int descriptors[AYA_DESCRIPTOR_MAX];
    struct pollfd watched[AYA_DESCRIPTOR_MAX];
    int count = aya_context_descriptors(context, descriptors);

    for (int i = 0; i < count; i++) {
        watched[i] = (struct pollfd){.fd = descriptors[i], .events = POLLIN};
    }
    return poll(watched, (nfds_t)count, timeout_ms) < 0 ? -errno : 0;
}

/* -- threads ----------------------------------------------------------------------------------- */

int
aya_thread_start(void *(*run)(void *), void *argument)
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

unsigned
aya_processors(void)
{
    long processors = sysconf(_SC_NPROCESSORS_ONLN);

    return processors < 1 ? 1 : (unsigned)processors;
}

void
aya_grow_descriptors(void)
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
    fd = open("/", O_RDONLY | O_CLOEXEC);
    if (fd >= 0) {
        int high = fcntl(fd, F_DUPFD_CLOEXEC, (int)highest - 1);
        if (high >= 0) {
            close(high);
        }
        close(fd);
    }
}
