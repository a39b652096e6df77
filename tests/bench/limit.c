/* What plain C does on the same files: limit FOLDER SECONDS MODE [SIZE].
 *
 * Prints one line of JSON as child.py does. Nothing is checked but that every call succeeds; the
 * calls block, but for `cold` and `direct`, which keep 64 reads in a ring (WITH_URING) or in 64
 * threads.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>
#ifdef WITH_URING
#include <liburing.h>
#endif

#define PAGE 4096
#define DEPTH 64
#define DATA_SIZE ((size_t)64 << 20)
#define REWRITTEN ((size_t)8 << 20)

static double began, began_cpu, end;
static char scratch[4096];

static double
now(void)
{
    struct timespec time;

    clock_gettime(CLOCK_MONOTONIC, &time);
    return (double)time.tv_sec + (double)time.tv_nsec * 1e-9;
}

static double
cpu(void)
{
    struct timespec time;

    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &time);
    return (double)time.tv_sec + (double)time.tv_nsec * 1e-9;
}

static void
need(bool holds, const char *what)
{
    if (!holds) {
        printf("{\"error\": \"%s: %s\"}\n", what, strerror(errno));
        unlink(scratch);
        exit(0);
    }
}

static void
start(double seconds)
{
    began_cpu = cpu();
    began = now();
    end = began + seconds;
}

static void
report(uint64_t count)
{
    double seconds = now() - began, used = cpu() - began_cpu;
    struct rusage usage;

    getrusage(RUSAGE_SELF, &usage);
    printf("{\"count\": %llu, \"seconds\": %.6f, \"cpu\": %.6f, \"rss_kib\": %ld}\n",
           (unsigned long long)count, seconds, used, usage.ru_maxrss);
}

static uint64_t
chosen(uint64_t *seed, uint64_t below)
{
    *seed ^= *seed << 13;
    *seed ^= *seed >> 7;
    *seed ^= *seed << 17;
    return *seed % below;
}

static int
open_in(const char *folder, const char *name, int flags)
{
    char path[4096];

    snprintf(path, sizeof(path), "%s/%s", folder, name);
    int fd = open(path, flags, 0600);
    need(fd >= 0, path);
    return fd;
}

/* -- one call after the other ------------------------------------------------------------------ */

static uint64_t
random_calls(int fd, char *memory, size_t size, bool writes)
{
    uint64_t count = 0, seed = 88172645463325252u, places = (writes ? REWRITTEN : DATA_SIZE) / size;

    for (; now() < end; count += 32) {
        for (int i = 0; i < 32; i++) {
            off_t at = (off_t)(chosen(&seed, places) * size);
            ssize_t moved = writes ? pwrite(fd, memory, size, at) : pread(fd, memory, size, at);
            need(moved == (ssize_t)size, "transfer");
        }
    }
    return count;
}

static uint64_t
sequential_reads(const char *folder, char *memory, size_t size)
{
    uint64_t count = 0;

    do {
        int fd = open_in(folder, "data", O_RDONLY);
        ssize_t got;
        for (; (got = read(fd, memory, size)) > 0; count++) {
        }
        need(got == 0, "read");
        close(fd);
    } while (now() < end);
    return count;
}

static uint64_t
sequential_writes(char *memory, size_t size)
{
    uint64_t count = 0;

    do {
        int fd = open(scratch, O_WRONLY | O_CREAT | O_TRUNC, 0600);
        need(fd >= 0, scratch);
        for (size_t done = 0; done < DATA_SIZE * (size < 4u << 20 ? 1 : 2); done += size, count++) {
            need(write(fd, memory, size) == (ssize_t)size, "write");
        }
        close(fd);
    } while (now() < end);
    return count;
}

static uint64_t
opens(const char *folder, char *memory)
{
    uint64_t count = 0;
    char path[4096];

    for (; now() < end; count++) {
        snprintf(path, sizeof(path), "%s/small/%04d", folder, (int)(count % 1000));
        int fd = open(path, O_RDONLY | O_CLOEXEC);
        need(fd >= 0 && read(fd, memory, PAGE) == PAGE, path);
        close(fd);
    }
    return count;
}

static uint64_t
appends(char *memory)
{
    uint64_t count = 0;

    for (; now() < end; count++) {
        int fd = open(scratch, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0600);
        need(fd >= 0 && write(fd, memory, 80) == 80, "append");
        close(fd);
    }
    return count;
}

/* -- many at once ------------------------------------------------------------------------------ */

#ifdef WITH_URING
static void
queue_read(struct io_uring *ring, int fd, char *memory, uint64_t *seed, uint64_t pages)
{
    struct io_uring_sqe *entry = io_uring_get_sqe(ring);

    io_uring_prep_read(entry, fd, memory, PAGE, chosen(seed, pages) * PAGE);
    io_uring_sqe_set_data(entry, memory);
}

static uint64_t
deep_reads(int fd, char *memory, uint64_t pages)
{
    struct io_uring ring;
    uint64_t count = 0, seed = (uint64_t)getpid() * 2654435761u + 1;
    unsigned flying = DEPTH;

    need(io_uring_queue_init(DEPTH, &ring, 0) == 0, "io_uring");
    for (int i = 0; i < DEPTH; i++) {
        queue_read(&ring, fd, memory + i * PAGE, &seed, pages);
    }
    while (flying > 0) {
        struct io_uring_cqe *done;
        need(io_uring_submit_and_wait(&ring, 1) >= 0, "submit");
        while (io_uring_peek_cqe(&ring, &done) == 0) {
            need(done->res == PAGE, "read");
            char *room = io_uring_cqe_get_data(done);
            io_uring_cqe_seen(&ring, done);
            count++;
            flying--;
            if (now() < end) {
                queue_read(&ring, fd, room, &seed, pages);
                flying++;
            }
        }
    }
    io_uring_queue_exit(&ring);
    return count;
}
#else
typedef struct reader {
    pthread_t thread;
    int fd;
    char *memory;
    uint64_t pages, count, seed;
} reader;

static void *
read_on(void *argument)
{
    reader *self = argument;

    for (; now() < end; self->count++) {
        off_t at = (off_t)(chosen(&self->seed, self->pages) * PAGE);
        need(pread(self->fd, self->memory, PAGE, at) == PAGE, "read");
    }
    return NULL;
}

static uint64_t
deep_reads(int fd, char *memory, uint64_t pages)
{
    static reader readers[DEPTH];
    uint64_t count = 0;

    for (int i = 0; i < DEPTH; i++) {
        readers[i] = (reader){.fd = fd, .memory = memory + i * PAGE, .pages = pages,
                              .seed = (uint64_t)(getpid() + i) * 2654435761u + 1};
        need(pthread_create(&readers[i].thread, NULL, read_on, &readers[i]) == 0, "thread");
    }
    for (int i = 0; i < DEPTH; i++) {
        pthread_join(readers[i].thread, NULL);
        count += readers[i].count;
    }
    return count;
}
#endif

int
main(int argc, char **argv)
{
    need(argc >= 4, "limit FOLDER SECONDS MODE [SIZE]");
    const char *folder = argv[1], *mode = argv[3];
    double seconds = atof(argv[2]);
    size_t size = argc > 4 ? (size_t)atoll(argv[4]) : PAGE;
    char *memory = aligned_alloc(PAGE, size > DEPTH * PAGE ? size : DEPTH * PAGE);
    uint64_t count = 0;

    need(memory != NULL, "memory");
    memset(memory, 'x', size);
    snprintf(scratch, sizeof(scratch), "%s/limit.%d", folder, (int)getpid());
    if (strcmp(mode, "read") == 0) {
        int fd = open_in(folder, "data", O_RDONLY);
        start(seconds);
        count = random_calls(fd, memory, size, false);
    } else if (strcmp(mode, "rewrite") == 0) {
        int fd = open(scratch, O_RDWR | O_CREAT | O_TRUNC, 0600);
        need(fd >= 0, scratch);
        for (size_t done = 0; done < REWRITTEN; done += size) {
            need(write(fd, memory, size) == (ssize_t)size, "write");
        }
        fsync(fd);
        start(seconds);
        count = random_calls(fd, memory, size, true);
    } else if (strcmp(mode, "cold") == 0 || strcmp(mode, "direct") == 0) {
        int fd = open_in(folder, "cold", O_RDONLY | (mode[0] == 'd' ? O_DIRECT : 0));
        struct stat status;
        need(fstat(fd, &status) == 0, "stat");
        fsync(fd);
        posix_fadvise(fd, 0, 0, POSIX_FADV_DONTNEED);
        posix_fadvise(fd, 0, 0, POSIX_FADV_RANDOM);
        start(seconds);
        count = deep_reads(fd, memory, (uint64_t)status.st_size / PAGE);
    } else {
        start(seconds);
        count = strcmp(mode, "sequential") == 0 ? sequential_reads(folder, memory, size)
                : strcmp(mode, "write") == 0    ? sequential_writes(memory, size)
                : strcmp(mode, "open") == 0     ? opens(folder, memory)
                : strcmp(mode, "append") == 0   ? appends(memory)
                                                : (need(false, mode), 0);
    }
    report(count);
    unlink(scratch);
    return 0;
}
