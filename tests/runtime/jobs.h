/* A request with what a test wants to know of its end, and a context of the backend under test.
 * Header only; one thread.
 */
#ifndef AYA_TEST_JOBS_H
#define AYA_TEST_JOBS_H

#include "check.h"
#include "internal.h"

#include <fcntl.h>

#define BLOCK 4096
#define PATIENCE_MS 20000
#define UNSET INT64_C(-12345678)

static const char *backend;

typedef struct job {
    aya_request request;
    int64_t result;       /* UNSET until done() */
    unsigned order;       /* which done() of the process it was */
    unsigned index;
} job;

static unsigned done_count;

static void
job_done(aya_request *request)
{
    job *self = (job *)request;

    CHECK_EQUAL(self->result, UNSET);
    self->result = request->op.result;
    self->order = done_count++;
}

static inline void
job_start(aya_context *context, job *self)
{
    self->result = UNSET;
    self->request.done = job_done;
    aya_start(context, &self->request);
}

static inline void
wait_until_pending(aya_context *context, unsigned pending)
{
    int64_t end = now_ms() + PATIENCE_MS;

    while (aya_context_pending(context) > pending) {
        CHECK(now_ms() < end);
        CHECK(aya_context_wait(context, 1000) >= 0);
    }
}

static inline aya_config
config_of(const char *name)
{
    aya_config config = aya_config_defaults;

    config.backend = strcmp(name, "io_uring") == 0    ? AYA_BACKEND_IO_URING
                     : strcmp(name, "linux_aio") == 0 ? AYA_BACKEND_LINUX_AIO
                     : strcmp(name, "dispatch") == 0  ? AYA_BACKEND_DISPATCH
                                                      : AYA_BACKEND_THREADS;
    return config;
}

/* Dispatch runs nothing in a child of a fork: there it is the pool. */
static inline aya_context *
make_context_with(int64_t depth, bool sqpoll)
{
    bool none = strcmp(backend, "dispatch") == 0 && aya_fork_generation() > 0;
    aya_config config = config_of(backend);
    aya_context *context = NULL;

    config.io_uring_queue_depth = depth;
    config.io_uring_sqpoll = sqpoll;
    CHECK_EQUAL(aya_context_create(&config, &context), 0);
    CHECK(strcmp(aya_context_backend(context), none ? "threads" : backend) == 0);
    return context;
}

static inline aya_context *
make_context(void)
{
    return make_context_with(256, false);
}


static char scratch[40]; /* set by run_tests(); several tests may run in one directory */

/* linux_aio serves files opened past the page cache only; those want aligned memory and lengths. */
static inline int
open_scratch(aya_file *file)
{
    bool direct = strcmp(backend, "linux_aio") == 0;
    int fd = open(scratch, O_RDWR | O_CREAT | O_TRUNC | O_CLOEXEC | (direct ? O_DIRECT : 0), 0600);

    CHECK(fd >= 0);
    aya_mount_learn(fd);
    CHECK_EQUAL(aya_file_init(file, fd), 0);
    CHECK(file->positioned && file->kind == AYA_FILE_REGULAR && file->direct == direct);
    return fd;
}

static inline char *
allocate_blocks(size_t count)
{
    char *blocks = aligned_alloc(BLOCK, count * BLOCK);

    CHECK(blocks != NULL);
    memset(blocks, 0, count * BLOCK);
    return blocks;
}

/* The backend of the next contexts; false where it does not work here. */
static inline bool
choose_backend(const char *name)
{
    aya_config config = config_of(name);
    aya_context *context;

    backend = name;
    if (aya_context_create(&config, &context) < 0) {
        printf("%s: not tested: %s\n", name, aya_backend_reason(name));
        return false;
    }
    aya_context_destroy(context);
    return true;
}

typedef struct test {
    const char *name;
    void (*run)(void);
} test;

/* Each test on each backend that works here, or on argv[1]; a descriptor left open is a failure. */
static inline int
run_tests(int argc, char **argv, const test *tests, size_t count)
{
    static const char *const names[] = {"io_uring", "threads", "linux_aio", "dispatch"};
    unsigned passed = 0;

    setvbuf(stdout, NULL, _IOLBF, 0);
    snprintf(scratch, sizeof(scratch), "aya_test.%d.tmp", (int)getpid());
    for (size_t b = 0; b < sizeof(names) / sizeof(names[0]); b++) {
        if ((argc > 1 && strcmp(argv[1], names[b]) != 0) || !choose_backend(names[b])) {
            continue;
        }
        /* libdispatch opens an epoll, an eventfd and a timer when it first needs them. */
        int most = count_descriptors() + (strcmp(backend, "dispatch") == 0 ? 3 : 0);
        for (size_t i = 0; i < count; i++) {
            int descriptors = count_descriptors();
            int64_t started = now_ms();
            tests[i].run();
            printf("%s: %s: passed (%" PRId64 " ms)\n", backend, tests[i].name,
                   now_ms() - started);
            /* A thread whose open was cancelled gives its own back a moment later. */
            for (int waited = 0; waited < 2000 && count_descriptors() > most; waited++) {
                usleep(1000);
            }
            CHECK(count_descriptors() >= descriptors && count_descriptors() <= most);
            passed++;
        }
    }
    unlink(scratch);
    printf("%u passed, 0 failed\n", passed);
    return passed > 0 ? 0 : SKIPPED;
}

#endif
