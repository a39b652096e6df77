/* The backends, each through the public API: random transfers, fences, cancels in every state,
 * wake-ups, withdrawn rights, forks.
 *
 * argv[1] names one backend (default: all that work here). AYA_TEST_OPERATIONS bounds the
 * wake-up test. Files lie in the current directory. One thread beside the library's own.
 */
#include "jobs.h"

#include <linux/audit.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <poll.h>
#include <pthread.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>

#define BLOCKS 64

static void
fill_random(char *block)
{
    for (size_t i = 0; i < BLOCK; i += sizeof(uint32_t)) {
        uint32_t value = random_below(UINT32_MAX);
        memcpy(block + i, &value, sizeof(value));
    }
}

/* -- transfers --------------------------------------------------------------------------------- */

/* Rounds of writes of some blocks and then reads of all, in random order, against a copy in
 * memory. */
static void
random_transfers_on(aya_context *context, unsigned rounds)
{
    char *content = allocate_blocks(BLOCKS), *got = allocate_blocks(BLOCKS);
    static job jobs[BLOCKS];
    aya_file file;
    int fd = open_scratch(&file);

    CHECK_EQUAL(ftruncate(fd, BLOCKS * BLOCK), 0);
    for (unsigned round = 0; round < rounds; round++) {
        unsigned first = random_below(BLOCKS), step = 2 * random_below(BLOCKS / 2) + 1;
        unsigned writes = random_below(BLOCKS);
        for (unsigned i = 0; i < writes; i++) {
            unsigned at = (first + i * step) % BLOCKS;
            fill_random(content + at * BLOCK);
            aya_op_write_at(&jobs[at].request.op, &file, at * BLOCK, content + at * BLOCK, BLOCK);
            job_start(context, &jobs[at]);
        }
        wait_until_pending(context, 0);
        for (unsigned i = 0; i < writes; i++) {
            CHECK_EQUAL(jobs[(first + i * step) % BLOCKS].result, BLOCK);
        }
        memset(got, 0xa5, BLOCKS * BLOCK);
        for (unsigned i = 0; i < BLOCKS; i++) {
            unsigned at = (first + i * step) % BLOCKS;
            aya_op_read_at(&jobs[at].request.op, &file, at * BLOCK, BLOCK, got + at * BLOCK, BLOCK);
            job_start(context, &jobs[at]);
        }
        wait_until_pending(context, 0);
        for (unsigned i = 0; i < BLOCKS; i++) {
            CHECK_EQUAL(jobs[i].result, BLOCK);
        }
        CHECK(memcmp(got, content, BLOCKS * BLOCK) == 0);
    }
    close(fd);
    free(content);
    free(got);
}

static void
test_random_transfers(void)
{
    aya_context *context = make_context();

    random_transfers_on(context, 60);
    CHECK(aya_context_routes(context)[AYA_ROUTE_BACKEND] >= 60 * BLOCKS);
    aya_context_destroy(context);
}

/* A queue of one entry, and so a completion queue of two: all else overflows or waits its turn. */
static void
test_small_queue(void)
{
    aya_context *context = make_context_with(1, false);

    random_transfers_on(context, 10);
    aya_context_destroy(context);
}

static void
test_polled_queue(void)
{
    aya_context *context;

    if (strcmp(backend, "io_uring") != 0) {
        return;
    }
    context = make_context_with(16, true);
    random_transfers_on(context, 20);
    CHECK(aya_context_routes(context)[AYA_ROUTE_BACKEND] >= 20 * BLOCKS);
    aya_context_destroy(context);
}

static void
test_errors(void)
{
    aya_context *context = make_context();
    char *block = allocate_blocks(1);
    int fd = open("/", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    job one = {.index = 0}, other = {.index = 1};
    aya_file file;

    CHECK_EQUAL(aya_file_init(&file, fd), 0);
    CHECK_EQUAL(file.kind, AYA_FILE_DIRECTORY);
    aya_op_read_at(&one.request.op, &file, 0, BLOCK, block, BLOCK);
    job_start(context, &one);
    wait_until_pending(context, 0);
    CHECK_EQUAL(one.result, -EISDIR);
    close(fd);
    /* The descriptor is gone. */
    aya_op_write_at(&one.request.op, &file, 0, block, BLOCK);
    job_start(context, &one);
    aya_op_fsync(&other.request.op, &file, true);
    job_start(context, &other);
    wait_until_pending(context, 0);
    CHECK_EQUAL(one.result, -EBADF);
    CHECK_EQUAL(other.result, -EBADF);
    free(block);
    aya_context_destroy(context);
}

/* -- fences ------------------------------------------------------------------------------------ */

/* Writes, a truncate, writes, an fsync, all started at once: the truncate stands between. */
static void
test_fences(void)
{
    aya_context *context = make_context();
    char *block = allocate_blocks(1), *zeros = allocate_blocks(1), *got = allocate_blocks(8);
    job before[8], fence, after, sync;

    memset(block, 'x', BLOCK);
    for (unsigned round = 0; round < 50; round++) {
        aya_file file;
        int fd = open_scratch(&file);
        for (unsigned i = 0; i < 8; i++) {
            before[i].request = (aya_request){.done = job_done};
            aya_op_write_at(&before[i].request.op, &file, i * BLOCK, block, BLOCK);
            job_start(context, &before[i]);
        }
        fence.request = after.request = sync.request = (aya_request){.done = job_done};
        aya_op_truncate(&fence.request.op, &file, 4 * BLOCK);
        job_start(context, &fence);
        aya_op_write_at(&after.request.op, &file, 6 * BLOCK, block, BLOCK);
        job_start(context, &after);
        aya_op_fsync(&sync.request.op, &file, true);
        job_start(context, &sync);
        CHECK_EQUAL(fence.request.state, AYA_STATE_HELD);
        wait_until_pending(context, 0);
        for (unsigned i = 0; i < 8; i++) {
            CHECK_EQUAL(before[i].result, BLOCK);
            CHECK(before[i].order < fence.order);
        }
        CHECK_EQUAL(fence.result, 0);
        CHECK_EQUAL(after.result, BLOCK);
        CHECK_EQUAL(sync.result, 0);
        CHECK(fence.order < after.order && after.order < sync.order);
        CHECK_EQUAL(pread(fd, got, 8 * BLOCK, 0), 7 * BLOCK);
        CHECK(memcmp(got + 3 * BLOCK, block, BLOCK) == 0);
        CHECK(memcmp(got + 4 * BLOCK, zeros, BLOCK) == 0);
        CHECK(memcmp(got + 5 * BLOCK, zeros, BLOCK) == 0);
        CHECK(memcmp(got + 6 * BLOCK, block, BLOCK) == 0);
        CHECK_EQUAL(file.in_flight, 0);
        close(fd);
    }
    free(block);
    free(zeros);
    free(got);
    aya_context_destroy(context);
}

/* -- cancel ------------------------------------------------------------------------------------ */

static void
test_cancel_queued_and_held(void)
{
    aya_context *context = make_context();
    char *block = allocate_blocks(1);
    job write, fence, held, again;
    aya_file file;
    int fd = open_scratch(&file);
    struct stat stat;

    write.request = fence.request = held.request = again.request = (aya_request){.grow = NULL};
    aya_op_write_at(&write.request.op, &file, 0, block, BLOCK);
    job_start(context, &write);
    CHECK_EQUAL(write.request.state, AYA_STATE_QUEUED);
    aya_op_truncate(&fence.request.op, &file, 2 * BLOCK);
    job_start(context, &fence);
    aya_op_write_at(&held.request.op, &file, 9 * BLOCK, block, BLOCK);
    job_start(context, &held);
    CHECK_EQUAL(held.request.state, AYA_STATE_HELD);
    aya_cancel(&write.request);
    aya_cancel(&write.request);
    aya_cancel(&held.request);
    CHECK_EQUAL(write.result, UNSET); /* done() never runs inside a cancel */
    wait_until_pending(context, 0);
    CHECK_EQUAL(write.result, -ECANCELED);
    CHECK_EQUAL(held.result, -ECANCELED);
    CHECK_EQUAL(fence.result, 0);
    CHECK_EQUAL(fstat(fd, &stat), 0);
    CHECK_EQUAL(stat.st_size, 2 * BLOCK);
    /* Neither left the file blocked. */
    aya_op_write_at(&again.request.op, &file, 0, block, BLOCK);
    job_start(context, &again);
    wait_until_pending(context, 0);
    CHECK_EQUAL(again.result, BLOCK);
    CHECK_EQUAL(file.in_flight, 0);
    close(fd);
    free(block);
    aya_context_destroy(context);
}

/* Some of many in flight are cancelled: each ends once, whole or cancelled, and the rest is
 * whole. */
static void
test_cancel_in_flight(void)
{
    aya_context *context = make_context();
    char *got = allocate_blocks(BLOCKS);
    static job jobs[BLOCKS];
    unsigned cancelled = 0;
    aya_file file;
    int fd = open_scratch(&file);

    CHECK_EQUAL(ftruncate(fd, BLOCKS * BLOCK), 0);
    for (unsigned round = 0; round < 100; round++) {
        file.local = round % 2 == 0;
        for (unsigned i = 0; i < BLOCKS; i++) {
            aya_op_read_at(&jobs[i].request.op, &file, i * BLOCK, BLOCK, got + i * BLOCK, BLOCK);
            job_start(context, &jobs[i]);
        }
        CHECK_EQUAL(aya_context_submit(context) >= 0, 1);
        for (unsigned i = round % 3; i < BLOCKS; i += 3) {
            aya_cancel(&jobs[i].request);
        }
        wait_until_pending(context, 0);
        for (unsigned i = 0; i < BLOCKS; i++) {
            cancelled += jobs[i].result == -ECANCELED;
            CHECK(jobs[i].result == BLOCK || (jobs[i].result == -ECANCELED && i % 3 == round % 3));
        }
    }
    printf("    %u of %d cancelled in flight\n", cancelled, 100 * BLOCKS / 3);
    close(fd);
    free(got);
    aya_context_destroy(context);
}

/* -- wake-ups ---------------------------------------------------------------------------------- */

/* Waits as a loop does: by poll() on the context's descriptors, and by nothing else. */
static void
poll_and_reap(aya_context *context)
{
    int descriptors[AYA_DESCRIPTOR_MAX];
    struct pollfd watched[AYA_DESCRIPTOR_MAX];
    int count = aya_context_descriptors(context, descriptors), ready;

    for (int i = 0; i < count; i++) {
        watched[i] = (struct pollfd){.fd = descriptors[i], .events = POLLIN};
    }
    do {
        ready = poll(watched, (nfds_t)count, PATIENCE_MS);
    } while (ready < 0 && errno == EINTR);
    CHECK(ready > 0); /* else a wake-up was lost */
    aya_context_reap(context);
}

static void
test_wakeups(void)
{
    const char *wanted = getenv("AYA_TEST_OPERATIONS");
    /* A ring is quick; other threads pass each one on twice; kernel AIO asks the device. */
    unsigned most = strcmp(backend, "io_uring") == 0    ? 200000
                    : strcmp(backend, "linux_aio") == 0 ? 2000
                                                        : 50000;
    unsigned left = wanted == NULL ? most : (unsigned)atoi(wanted);
    aya_context *context = make_context();
    char *got = allocate_blocks(16);
    job jobs[16];
    aya_file file;
    int fd = open_scratch(&file);

    CHECK_EQUAL(pwrite(fd, got, 16 * BLOCK, 0), 16 * BLOCK);
    while (left > 0) {
        /* Half of them as on a filesystem that may wait: never finished inside a submit. */
        file.local = left % 4 < 2;
        unsigned size = left % 2 == 0 || left < 16 ? 1 : 1 + random_below(16);
        for (unsigned i = 0; i < size; i++) {
            jobs[i].request = (aya_request){.done = job_done};
            aya_op_read_at(&jobs[i].request.op, &file, i * BLOCK, BLOCK, got + i * BLOCK, BLOCK);
            job_start(context, &jobs[i]);
        }
        CHECK_EQUAL(aya_context_submit(context), 0);
        while (aya_context_pending(context) > 0) {
            poll_and_reap(context);
        }
        for (unsigned i = 0; i < size; i++) {
            CHECK_EQUAL(jobs[i].result, BLOCK);
        }
        left -= size;
    }
    close(fd);
    free(got);
    aya_context_destroy(context);
}

/* -- rights ------------------------------------------------------------------------------------ */

/* From now on the process may not use a system call any more. */
static void
withdraw(unsigned number, unsigned error)
{
    struct sock_filter filter[] = {
        BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, number, 0, 1),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | error),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
    };
    struct sock_fprog program = {.len = sizeof(filter) / sizeof(filter[0]), .filter = filter};

    CHECK_EQUAL(prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0), 0);
    CHECK_EQUAL(prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program), 0);
}

/* A child's end; it runs `body` and exits 0. */
static void
in_child(void (*body)(void))
{
    int status;
    pid_t child = fork();

    CHECK(child >= 0);
    if (child == 0) {
        body();
        fflush(stdout);
        _exit(0);
    }
    CHECK_EQUAL(waitpid(child, &status, 0), child);
    CHECK(WIFEXITED(status));
    CHECK_EQUAL(WEXITSTATUS(status), 0);
}

static bool
backend_is_the_kernels(void)
{
    return strcmp(backend, "io_uring") == 0 || strcmp(backend, "linux_aio") == 0;
}

/* The pool serves what the backend no longer may, and the reason is told. */
static void
lose_rights(void)
{
    bool ring = strcmp(backend, "io_uring") == 0;
    aya_context *context = make_context(), *second;
    aya_config config = aya_config_defaults;

    random_transfers_on(context, 2);
    withdraw(ring ? SYS_io_uring_enter : SYS_io_submit, EPERM);
    CHECK(aya_backend_reason(backend) == NULL);
    random_transfers_on(context, 2);
    CHECK(aya_context_routes(context)[AYA_ROUTE_FALLBACK] > BLOCKS);
    CHECK(strstr(aya_backend_reason(backend), "seccomp") != NULL);
    aya_context_destroy(context);
    if (ring) {
        config.backend = AYA_BACKEND_IO_URING;
        CHECK_EQUAL(aya_context_create(&config, &second), -EPERM);
        CHECK_EQUAL(aya_context_create(NULL, &second), 0);
        CHECK(strcmp(aya_context_backend(second), "threads") == 0);
        aya_context_destroy(second);
    }
}

static void
test_rights_withdrawn(void)
{
    if (backend_is_the_kernels()) {
        in_child(lose_rights);
    }
}

/* The kernel is out of something for good: nothing in flight will bring another try. */
static void
lack_resources(void)
{
    aya_context *context = make_context();

    withdraw(strcmp(backend, "io_uring") == 0 ? SYS_io_uring_enter : SYS_io_submit, EAGAIN);
    random_transfers_on(context, 2);
    aya_context_destroy(context);
}

static void
test_resources_lacking(void)
{
    if (backend_is_the_kernels()) {
        in_child(lack_resources);
    }
}

/* -- fork -------------------------------------------------------------------------------------- */

static aya_context *parents_context;

/* The parent's context can be destroyed in a child, and one of its own works, its pool too. */
static void
live_as_child(void)
{
    aya_context *context = make_context();
    char path[] = "test_backends_child.tmp";
    job one = {.index = 0};

    random_transfers_on(context, 5);
    CHECK(aya_context_generation(parents_context) != aya_fork_generation());
    aya_context_destroy(parents_context);
    random_transfers_on(context, 5);
    aya_op_open(&one.request.op, path, AYA_OPEN_WRITE, false, true, false, false, 0600);
    job_start(context, &one);
    wait_until_pending(context, 0);
    CHECK(one.result >= 0);
    close((int)one.result);
    unlink(path);
    aya_context_destroy(context);
}

static void
test_fork(void)
{
    aya_context *context = parents_context = make_context();
    char *blocks = allocate_blocks(BLOCKS);
    static job jobs[BLOCKS];
    aya_file file;
    int fd;

    random_transfers_on(context, 5);
    fd = open_scratch(&file);
    /* The child works with a file of its own name, and truncates this one: so unlink it. */
    CHECK_EQUAL(unlink(scratch), 0);
    for (unsigned i = 0; i < BLOCKS; i++) {
        aya_op_write_at(&jobs[i].request.op, &file, i * BLOCK, blocks + i * BLOCK, BLOCK);
        job_start(context, &jobs[i]);
    }
    CHECK(aya_context_submit(context) >= 0);
    in_child(live_as_child);
    wait_until_pending(context, 0);
    for (unsigned i = 0; i < BLOCKS; i++) {
        CHECK_EQUAL(jobs[i].result, BLOCK);
    }
    close(fd);
    free(blocks);
    random_transfers_on(context, 5);
    aya_context_destroy(context);
}

/* -- contexts ---------------------------------------------------------------------------------- */

/* Contexts come and go with operations in flight: each ends, no descriptor and no thread stays. */
static void
test_many_contexts(void)
{
    char *blocks = allocate_blocks(BLOCKS);
    static job jobs[BLOCKS];
    aya_file file;
    int fd = open_scratch(&file), descriptors = count_descriptors();
    int64_t end;

    for (unsigned round = 0; round < 200; round++) {
        aya_context *context = make_context();
        for (unsigned i = 0; i < BLOCKS; i++) {
            aya_op_write_at(&jobs[i].request.op, &file, i * BLOCK, blocks + i * BLOCK, BLOCK);
            job_start(context, &jobs[i]);
        }
        if (round % 2 == 0) {
            CHECK(aya_context_submit(context) >= 0);
        }
        aya_context_destroy(context);
        for (unsigned i = 0; i < BLOCKS; i++) {
            CHECK(jobs[i].result == BLOCK || jobs[i].result == -ECANCELED);
        }
        CHECK_EQUAL(count_descriptors(), descriptors);
        CHECK_EQUAL(file.in_flight, 0);
    }
    for (end = now_ms() + PATIENCE_MS; count_threads("aya-io") > 0; sleep_ms(1)) {
        CHECK(now_ms() < end);
    }
    close(fd);
    free(blocks);
}

typedef struct handed_over {
    aya_context *context;
    aya_file file;
    char *blocks;
    bool submitted;
    job jobs[BLOCKS];
} handed_over;

static void *
start_and_leave(void *argument)
{
    handed_over *self = argument;

    self->context = make_context();
    for (unsigned i = 0; i < BLOCKS; i++) {
        aya_op_write_at(&self->jobs[i].request.op, &self->file, i * BLOCK,
                        self->blocks + i * BLOCK, BLOCK);
        job_start(self->context, &self->jobs[i]);
    }
    CHECK(!self->submitted || aya_context_submit(self->context) >= 0);
    return NULL;
}

/* A loop that was dropped: another thread ends its context, while its own is there or has gone. */
static void
test_end_by_another_thread(void)
{
    static handed_over self;
    int fd = open_scratch(&self.file);

    self.blocks = allocate_blocks(BLOCKS);
    for (unsigned round = 0; round < 40; round++) {
        pthread_t thread;
        self.submitted = round % 2 == 0;
        CHECK_EQUAL(pthread_create(&thread, NULL, start_and_leave, &self), 0);
        CHECK_EQUAL(pthread_join(thread, NULL), 0);
        int64_t started = now_ms();
        aya_context_destroy(self.context);
        CHECK(now_ms() - started < 5000);
        for (unsigned i = 0; i < BLOCKS; i++) {
            CHECK(self.jobs[i].result == BLOCK || self.jobs[i].result == -ECANCELED);
        }
    }
    close(fd);
    free(self.blocks);
}

int
main(int argc, char **argv)
{
    static const test tests[] = {
        {"random transfers", test_random_transfers},
        {"a queue of one", test_small_queue},
        {"a polled queue", test_polled_queue},
        {"errors", test_errors},
        {"fences", test_fences},
        {"cancel of queued and held requests", test_cancel_queued_and_held},
        {"cancel of requests in flight", test_cancel_in_flight},
        {"no lost wake-ups", test_wakeups},
        {"rights withdrawn", test_rights_withdrawn},
        {"resources lacking", test_resources_lacking},
        {"fork", test_fork},
        {"many contexts", test_many_contexts},
        {"end by another thread", test_end_by_another_thread},
    };

    return run_tests(argc, argv, tests, sizeof(tests) / sizeof(tests[0]));
}
