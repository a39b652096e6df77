/* What callers of libaya have beside the operations of Python: vectored transfers with a priority
 * and flags, and waiting for readiness. Each on every backend that works here, or on argv[1].
 *
 * Files lie in the current directory. One thread beside the library's own.
 */
#include "jobs.h"

#include <sys/stat.h>
#include <sys/wait.h>

#define PARTS 3
#define NOBODY 65534

static int64_t
run_job(aya_context *context, job *one)
{
    job_start(context, one);
    wait_until_pending(context, 0);
    return one->result;
}

/* Parts of a block each, not side by side; `fill` + their number is what they hold. */
static aya_parts
make_parts(aya_part *list, char *memory, int fill)
{
    for (int i = 0; i < PARTS; i++) {
        list[i] = (aya_part){.data = memory + 2 * i * BLOCK, .size = BLOCK};
        memset(memory + 2 * i * BLOCK, fill + i, BLOCK);
    }
    return (aya_parts){.list = list, .count = PARTS, .size = PARTS * BLOCK};
}

static void
check_parts(const char *memory, int fill, int count)
{
    for (int i = 0; i < count; i++) {
        for (int at = 0; at < BLOCK; at++) {
            CHECK_EQUAL(memory[2 * i * BLOCK + at], fill + i);
        }
    }
}

static int64_t
size_of(int fd)
{
    struct stat status;

    CHECK_EQUAL(fstat(fd, &status), 0);
    return status.st_size;
}

/* -- vectored transfers ------------------------------------------------------------------------ */

static void
test_vectored(void)
{
    aya_context *context = make_context();
    char *memory = allocate_blocks(2 * PARTS);
    aya_part list[PARTS];
    aya_parts parts;
    job one = {.index = 0};
    aya_file file;
    int fd = open_scratch(&file);

    for (int round = 0; round < 4; round++) {
        parts = make_parts(list, memory, 'a' + round);
        aya_op_pwritev(&one.request.op, &file, round * PARTS * BLOCK, parts,
                       (aya_pwritev_durable)(round % 3), false,
                       (aya_pwritev_priority)(round % 3));
        CHECK_EQUAL(run_job(context, &one), PARTS * BLOCK);
    }
    for (int round = 0; round < 4; round++) {
        parts = make_parts(list, memory, 0);
        aya_op_preadv(&one.request.op, &file, round * PARTS * BLOCK, parts, round % 2 == 0,
                      (aya_preadv_priority)(round % 3));
        CHECK_EQUAL(run_job(context, &one), PARTS * BLOCK);
        check_parts(memory, 'a' + round, PARTS);
    }
    /* The file ends in the second part. */
    parts = make_parts(list, memory, 0);
    aya_op_preadv(&one.request.op, &file, (4 * PARTS - 1) * BLOCK, parts, false,
                  AYA_PREADV_NORMAL);
    CHECK_EQUAL(run_job(context, &one), BLOCK);
    check_parts(memory, 'a' + 3 + PARTS - 1, 1);
    CHECK_EQUAL(memory[2 * BLOCK], 1);
    /* Kernel AIO leaves writes that make the file longer to the pool: they would wait. */
    if (strcmp(aya_backend_way(backend, AYA_OP_PREADV), "fallback") != 0) {
        CHECK(aya_context_routes(context)[AYA_ROUTE_BACKEND] >= 5);
    }
    close(fd);
    free(memory);
    aya_context_destroy(context);
}

static void
test_at_end(void)
{
    aya_context *context = make_context();
    char *memory = allocate_blocks(2 * PARTS), got[BLOCK];
    aya_part list[PARTS];
    job one = {.index = 0};
    aya_file file;
    int fd = open_scratch(&file), plain = open(scratch, O_RDONLY | O_CLOEXEC);

    for (int round = 0; round < 3; round++) {
        aya_parts parts = make_parts(list, memory, 'a' + round);
        aya_op_pwritev(&one.request.op, &file, 0, parts, AYA_PWRITEV_NO, true,
                       AYA_PWRITEV_NORMAL);
        CHECK_EQUAL(run_job(context, &one), PARTS * BLOCK);
        CHECK_EQUAL(size_of(fd), (round + 1) * PARTS * BLOCK);
    }
    for (int i = 0; i < 3 * PARTS; i++) {
        CHECK_EQUAL(pread(plain, got, BLOCK, i * BLOCK), BLOCK);
        CHECK_EQUAL(got[BLOCK - 1], 'a' + i / PARTS + i % PARTS);
    }
    close(plain);
    close(fd);
    free(memory);
    aya_context_destroy(context);
}

/* In a child without privileges: the one transfer is refused, and nothing else changes. */
static void
transfer_without_privilege(void)
{
    aya_file file;
    int fd = open_scratch(&file);
    char *memory = allocate_blocks(2 * PARTS);
    aya_part list[PARTS];
    aya_parts parts = make_parts(list, memory, 'a');
    job one = {.index = 0};

    CHECK_EQUAL(setresuid(NOBODY, NOBODY, NOBODY), 0);
    aya_context *context = make_context();
    bool had_reason = aya_backend_reason(backend) != NULL; /* Dispatch in a child of a fork */
    aya_op_pwritev(&one.request.op, &file, 0, parts, AYA_PWRITEV_NO, false,
                   AYA_PWRITEV_REAL_TIME);
    CHECK_EQUAL(run_job(context, &one), -EPERM);
    aya_op_pwritev(&one.request.op, &file, 0, parts, AYA_PWRITEV_NO, false, AYA_PWRITEV_IDLE);
    CHECK_EQUAL(run_job(context, &one), PARTS * BLOCK);
    aya_op_preadv(&one.request.op, &file, 0, parts, false, AYA_PREADV_REAL_TIME);
    CHECK_EQUAL(run_job(context, &one), -EPERM);
    CHECK((aya_backend_reason(backend) != NULL) == had_reason);
    close(fd);
    free(memory);
    aya_context_destroy(context);
}

static void
test_privileged_priority(void)
{
    int status;
    pid_t child;

    if (geteuid() != 0) {
        printf("    not tested: giving a privilege up needs to have it\n");
        return;
    }
    child = fork();
    CHECK(child >= 0);
    if (child == 0) {
        transfer_without_privilege();
        fflush(stdout);
        _exit(0);
    }
    CHECK_EQUAL(waitpid(child, &status, 0), child);
    CHECK(WIFEXITED(status) && WEXITSTATUS(status) == 0);
}

/* -- readiness --------------------------------------------------------------------------------- */

typedef struct duct {
    int ends[2];
    aya_file out, in;
    job job;
} duct;

static void
open_duct(duct *self)
{
    CHECK_EQUAL(pipe2(self->ends, O_CLOEXEC), 0);
    CHECK_EQUAL(aya_file_init(&self->out, self->ends[0]), 0);
    CHECK_EQUAL(aya_file_init(&self->in, self->ends[1]), 0);
    self->job = (job){.index = 0};
}

static void
close_duct(duct *self)
{
    aya_file_release(&self->out);
    aya_file_release(&self->in);
    close(self->ends[0]);
    if (self->ends[1] >= 0) {
        close(self->ends[1]);
    }
}

#define DUCTS 100

/* Waits for many pipes, on no thread: data, a hang-up and a cancel end them, nothing is read. */
static void
test_wait_readable(void)
{
    aya_context *context = make_context();
    static duct ducts[DUCTS];
    char got;

    for (int i = 0; i < DUCTS; i++) {
        open_duct(&ducts[i]);
        aya_op_wait_readable(&ducts[i].job.request.op, &ducts[i].out);
        CHECK(!aya_try(context, &ducts[i].job.request));
        job_start(context, &ducts[i].job);
    }
    CHECK(aya_context_wait(context, 50) >= 0);
    CHECK_EQUAL(aya_context_pending(context), DUCTS);
    CHECK_EQUAL(count_threads("aya-io"), 0);
    for (int i = 0; i < DUCTS; i++) {
        if (i % 3 == 0) {
            CHECK_EQUAL(write(ducts[i].ends[1], "x", 1), 1);
        } else if (i % 3 == 1) {
            close(ducts[i].ends[1]);
            ducts[i].ends[1] = -1;
        } else {
            aya_cancel(&ducts[i].job.request);
        }
    }
    wait_until_pending(context, 0);
    for (int i = 0; i < DUCTS; i++) {
        CHECK_EQUAL(ducts[i].job.result, i % 3 == 2 ? -ECANCELED : 0);
        if (i % 3 == 0) {
            CHECK_EQUAL(read(ducts[i].ends[0], &got, 1), 1);
        }
        close_duct(&ducts[i]);
    }
    aya_context_destroy(context);
}

static void
test_wait_writable(void)
{
    aya_context *context = make_context();
    static char data[1 << 16];
    duct one;

    open_duct(&one);
    aya_op_wait_writable(&one.job.request.op, &one.in);
    CHECK(aya_try(context, &one.job.request));
    CHECK_EQUAL(one.job.request.op.result, 0);
    CHECK_EQUAL(fcntl(one.ends[1], F_SETFL, O_NONBLOCK), 0);
    while (write(one.ends[1], data, sizeof(data)) > 0) {
    }
    job_start(context, &one.job);
    CHECK(aya_context_wait(context, 50) >= 0);
    CHECK_EQUAL(one.job.result, UNSET);
    CHECK(read(one.ends[0], data, sizeof(data)) > 0);
    wait_until_pending(context, 0);
    CHECK_EQUAL(one.job.result, 0);
    close_duct(&one);
    aya_context_destroy(context);
}

int
main(int argc, char **argv)
{
    static const test tests[] = {
        {"vectored transfers", test_vectored},
        {"writes at the end", test_at_end},
        {"a priority that needs a privilege", test_privileged_priority},
        {"waits until readable", test_wait_readable},
        {"waits until writable", test_wait_writable},
    };

    return run_tests(argc, argv, tests, sizeof(tests) / sizeof(tests[0]));
}
