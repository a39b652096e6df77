/* What a Dispatch row should be: a block that makes a blocking call, or a transfer of an I/O
 * channel.
 *
 * Prints transfers a second and processor time a transfer, medians of interleaved rounds. Built by
 * hand: `cc -O2 dispatch_rows.c` on macOS, elsewhere by the clang of a Swift toolchain with
 * `-D_GNU_SOURCE -fblocks -I ROOT/usr/lib/swift -L ROOT/usr/lib/swift/linux -ldispatch
 * -lBlocksRuntime`. The argument says where its file of 256 MiB goes.
 */
#include <dispatch/dispatch.h>
#include <fcntl.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <time.h>
#include <unistd.h>

#define FILE_SIZE (256 << 20)
#define BUFFERS_SIZE (64 << 20)
#define ROUNDS 5

typedef struct work {
    const char *name;
    size_t size;
    unsigned depth, count; /* at a time, and in all */
    bool write, cold;
} work;

typedef void start_function(const work *self, char *buf, off_t offset);

typedef struct measure {
    double a_second[ROUNDS], cpu_us[ROUNDS];
} measure;

static int fd;
static char *buffers;
static dispatch_queue_t queue;
static dispatch_io_t channel;
static dispatch_semaphore_t slots;

static off_t
random_offset(size_t size)
{
    static uint64_t seed = 88172645463325252u;

    seed ^= seed << 13;
    seed ^= seed >> 7;
    seed ^= seed << 17;
    return (off_t)(seed % (FILE_SIZE / size) * size);
}

static void
check(bool holds)
{
    if (!holds) {
        perror("a transfer failed");
        exit(1);
    }
}

static void
start_block(const work *self, char *buf, off_t offset)
{
    size_t size = self->size;
    bool write = self->write;

    dispatch_async(queue, ^{
        ssize_t moved = write ? pwrite(fd, buf, size, offset) : pread(fd, buf, size, offset);
        check(moved == (ssize_t)size);
        dispatch_semaphore_signal(slots);
    });
}

static void
write_to_channel(char *buf, size_t size, off_t offset)
{
    dispatch_data_t data = dispatch_data_create(buf, size, queue, ^{});

    dispatch_io_write(channel, offset, data, queue, ^(bool done, dispatch_data_t left, int error) {
        (void)left;
        check(error == 0);
        if (done) {
            dispatch_semaphore_signal(slots);
        }
    });
    dispatch_release(data);
}

/* Ends in the caller's buffer, as an operation has to. */
static void
read_from_channel(char *buf, size_t size, off_t offset)
{
    dispatch_io_read(channel, offset, size, queue, ^(bool done, dispatch_data_t data, int error) {
        check(error == 0);
        if (data != NULL) {
            dispatch_data_apply(data, ^bool(dispatch_data_t part, size_t at, const void *bytes,
                                            size_t length) {
                (void)part;
                memcpy(buf + at, bytes, length);
                return true;
            });
        }
        if (done) {
            dispatch_semaphore_signal(slots);
        }
    });
}

static void
start_channel(const work *self, char *buf, off_t offset)
{
    if (self->write) {
        write_to_channel(buf, self->size, offset);
    } else {
        read_from_channel(buf, self->size, offset);
    }
}

static double
cpu_seconds(void)
{
    struct rusage used;

    getrusage(RUSAGE_SELF, &used);
    return (double)(used.ru_utime.tv_sec + used.ru_stime.tv_sec)
           + (double)(used.ru_utime.tv_usec + used.ru_stime.tv_usec) * 1e-6;
}

static double
now_seconds(void)
{
    struct timespec now;

    clock_gettime(CLOCK_MONOTONIC, &now);
    return (double)now.tv_sec + (double)now.tv_nsec * 1e-9;
}

static void
drop_cache(void)
{
#ifdef POSIX_FADV_DONTNEED
    fsync(fd);
    posix_fadvise(fd, 0, 0, POSIX_FADV_DONTNEED);
#endif
}

static void
run(const work *self, start_function *start, measure *out, int round)
{
    double begin, cpu;

    if (self->cold) {
        drop_cache();
    }
    slots = dispatch_semaphore_create((intptr_t)self->depth);
    begin = now_seconds();
    cpu = cpu_seconds();
    for (unsigned i = 0; i < self->count; i++) {
        dispatch_semaphore_wait(slots, DISPATCH_TIME_FOREVER);
        start(self, buffers + i % self->depth * self->size, random_offset(self->size));
    }
    for (unsigned i = 0; i < self->depth; i++) {
        dispatch_semaphore_wait(slots, DISPATCH_TIME_FOREVER);
    }
    out->a_second[round] = self->count / (now_seconds() - begin);
    out->cpu_us[round] = (cpu_seconds() - cpu) * 1e6 / self->count;
    /* It must not be let go below what it was made with. */
    for (unsigned i = 0; i < self->depth; i++) {
        dispatch_semaphore_signal(slots);
    }
    dispatch_release(slots);
}

static int
by_value(const void *one, const void *other)
{
    double a = *(const double *)one, b = *(const double *)other;

    return (a > b) - (a < b);
}

static double
median(double *values)
{
    qsort(values, ROUNDS, sizeof(*values), by_value);
    return values[ROUNDS / 2];
}

static void
compare(const work *self)
{
    measure block, io;

    for (int round = 0; round < ROUNDS; round++) {
        run(self, start_block, &block, round);
        run(self, start_channel, &io, round);
    }
    printf("%-26s block %7.0f/s %6.1f us   channel %7.0f/s %6.1f us   ", self->name,
           median(block.a_second), median(block.cpu_us), median(io.a_second), median(io.cpu_us));
    printf("block/channel %.2f\n", block.a_second[ROUNDS / 2] / io.a_second[ROUNDS / 2]);
    fflush(stdout);
}

int
main(int argc, char **argv)
{
    static const work works[] = {
        {"4 KiB cached, 1 at a time", 4096, 1, 5000, false, false},
        {"4 KiB cached, 64 at a time", 4096, 64, 20000, false, false},
        {"1 MiB cached, 4 at a time", 1 << 20, 4, 400, false, false},
#ifdef POSIX_FADV_DONTNEED
        {"4 KiB cold, 64 at a time", 4096, 64, 10000, false, true},
        {"1 MiB cold, 4 at a time", 1 << 20, 4, 200, false, true},
#endif
        {"4 KiB write, 1 at a time", 4096, 1, 5000, true, false},
        {"64 KiB write, 16 at a time", 65536, 16, 2000, true, false},
        {"1 MiB write, 4 at a time", 1 << 20, 4, 200, true, false},
    };
    const char *path = argc > 1 ? argv[1] : "dispatch_rows.tmp";

    fd = open(path, O_RDWR | O_CREAT | O_TRUNC, 0600);
    buffers = calloc(1, BUFFERS_SIZE);
    check(fd >= 0 && buffers != NULL);
    for (off_t at = 0; at < FILE_SIZE; at += BUFFERS_SIZE) {
        check(pwrite(fd, buffers, BUFFERS_SIZE, at) == BUFFERS_SIZE);
    }
    queue = dispatch_get_global_queue(DISPATCH_QUEUE_PRIORITY_DEFAULT, 0);
    channel = dispatch_io_create(DISPATCH_IO_RANDOM, fd, queue, ^(int error) {
        (void)error;
    });
    for (size_t i = 0; i < sizeof(works) / sizeof(works[0]); i++) {
        compare(&works[i]);
    }
    unlink(path);
    return 0;
}
