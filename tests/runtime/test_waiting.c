/* What waits for somebody else: pipes, FIFOs, terminals, leases, parked workers. Each wait can be
 * cancelled and stops nothing else. Also what aya_file_init() finds of a descriptor.
 *
 * argv[1] names one backend (default: all that work here). Files lie in the current directory. One
 * thread beside the library's own and the test's partners.
 */
#include "jobs.h"
#include "posix.h"

#include <signal.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/wait.h>

/* -- pipes ------------------------------------------------------------------------------------- */

#define PIPES 300

static void
start_pipe_reads(aya_context *context, job *jobs, aya_file *files, int (*ends)[2], char *bytes)
{
    for (unsigned i = 0; i < PIPES; i++) {
        CHECK_EQUAL(pipe2(ends[i], O_CLOEXEC), 0);
        CHECK_EQUAL(aya_file_init(&files[i], ends[i][0]), 0);
        CHECK_EQUAL(files[i].kind, AYA_FILE_POLLABLE);
        aya_op_read(&jobs[i].request.op, &files[i], 1, &bytes[i], 1);
        CHECK(!aya_try(context, &jobs[i].request));
        job_start(context, &jobs[i]);
        CHECK_EQUAL(jobs[i].request.state, AYA_STATE_WAITING);
    }
}

static void
test_idle_pipes(void)
{
    aya_context *context = make_context();
    static job jobs[PIPES], second;
    static aya_file files[PIPES];
    static int ends[PIPES][2];
    static char bytes[PIPES];
    char byte;

    start_pipe_reads(context, jobs, files, ends, bytes);
    CHECK_EQUAL(aya_context_wait(context, 20), 0);
    CHECK(count_threads("") <= 4); /* the kernel's for the ring among them */
    /* A second reader of the same descriptor. */
    aya_op_read(&second.request.op, &files[1], 1, &byte, 1);
    job_start(context, &second);
    for (unsigned i = 0; i < PIPES; i += 2) {
        aya_cancel(&jobs[i].request);
    }
    wait_until_pending(context, PIPES / 2 + 1);
    for (unsigned i = 1; i < PIPES; i += 2) {
        CHECK_EQUAL(write(ends[i][1], "ab", i == 1 ? 2 : 1), i == 1 ? 2 : 1);
    }
    wait_until_pending(context, 0);
    CHECK_EQUAL(second.result, 1);
    CHECK((byte == 'a' && bytes[1] == 'b') || (byte == 'b' && bytes[1] == 'a'));
    for (unsigned i = 0; i < PIPES; i++) {
        CHECK_EQUAL(jobs[i].result, i % 2 ? 1 : -ECANCELED);
        CHECK(i < 2 || i % 2 == 0 || bytes[i] == 'a');
        aya_file_release(&files[i]);
        close(ends[i][0]);
        close(ends[i][1]);
    }
    aya_context_destroy(context);
}

/* More than a pipe holds, read bit by bit: whole, in order, and by no worker. */
static void
test_large_pipe_write(void)
{
    enum { SIZE = 1 << 20 };
    aya_context *context = make_context();
    char *data = malloc(SIZE), *got = malloc(SIZE);
    size_t have = 0;
    job one = {.index = 0};
    aya_file file;
    int ends[2];

    CHECK_EQUAL(pipe2(ends, O_CLOEXEC), 0);
    CHECK_EQUAL(fcntl(ends[0], F_SETFL, O_NONBLOCK), 0);
    for (size_t i = 0; i < SIZE; i++) {
        data[i] = (char)random_below(256);
    }
    CHECK_EQUAL(aya_file_init(&file, ends[1]), 0);
    aya_op_write(&one.request.op, &file, data, SIZE);
    job_start(context, &one);
    while (have < SIZE) {
        CHECK(aya_context_wait(context, 0) >= 0);
        ssize_t part = read(ends[0], got + have, 1 + random_below(20000));
        CHECK(part > 0 || errno == EAGAIN);
        have += part > 0 ? (size_t)part : 0;
    }
    wait_until_pending(context, 0);
    CHECK_EQUAL(one.result, SIZE);
    CHECK(memcmp(data, got, SIZE) == 0);
    CHECK_EQUAL(count_threads("aya"), 0);
    close(ends[0]);
    close(ends[1]);
    free(data);
    free(got);
    aya_context_destroy(context);
}

/* A pipe whose other end goes: end of file for the reader, EPIPE for the writer. */
static void
test_pipe_partner_leaves(void)
{
    aya_context *context = make_context();
    static char data[200000];
    job reader = {.index = 0}, writer = {.index = 1};
    aya_file in, out;
    char byte;
    int first[2], second[2];

    CHECK_EQUAL(pipe2(first, O_CLOEXEC), 0);
    CHECK_EQUAL(pipe2(second, O_CLOEXEC), 0);
    CHECK_EQUAL(aya_file_init(&in, first[0]), 0);
    CHECK_EQUAL(aya_file_init(&out, second[1]), 0);
    aya_op_read(&reader.request.op, &in, 1, &byte, 1);
    job_start(context, &reader);
    aya_op_write(&writer.request.op, &out, data, sizeof(data));
    job_start(context, &writer);
    CHECK_EQUAL(aya_context_wait(context, 20), 0);
    close(first[1]);
    close(second[0]);
    wait_until_pending(context, 0);
    CHECK_EQUAL(reader.result, 0);
    CHECK_EQUAL(writer.result, -EPIPE);
    close(first[0]);
    close(second[1]);
    aya_context_destroy(context);
}

/* -- FIFOs ------------------------------------------------------------------------------------- */

#define FIFOS 20

static char fifo_names[FIFOS][40];

static void
make_fifos(void)
{
    for (unsigned i = 0; i < FIFOS; i++) {
        snprintf(fifo_names[i], sizeof(fifo_names[i]), "test_waiting.fifo.%u", i);
        unlink(fifo_names[i]);
        CHECK_EQUAL(mkfifo(fifo_names[i], 0600), 0);
    }
}

static void
remove_fifos(void)
{
    for (unsigned i = 0; i < FIFOS; i++) {
        unlink(fifo_names[i]);
    }
}

static void
wait_for_no_threads(const char *name)
{
    for (int64_t end = now_ms() + PATIENCE_MS; count_threads(name) > 0; sleep_ms(1)) {
        CHECK(now_ms() < end);
    }
}

/* A file beside them can be opened, written and closed while they wait. */
static void
use_a_file(aya_context *context, unsigned pending)
{
    job one = {.index = 0};
    aya_file file;

    aya_op_open(&one.request.op, scratch, AYA_OPEN_BOTH, false, true, false, true, 0600);
    job_start(context, &one);
    wait_until_pending(context, pending);
    CHECK(one.result >= 0);
    CHECK_EQUAL(aya_file_init(&file, (aya_handle)one.result), 0);
    aya_op_write_at(&one.request.op, &file, 0, "abc", 3);
    job_start(context, &one);
    wait_until_pending(context, pending);
    CHECK_EQUAL(one.result, 3);
    aya_op_close(&one.request.op, &file);
    job_start(context, &one);
    wait_until_pending(context, pending);
    CHECK_EQUAL(one.result, 0);
}

/* Until each of jobs[first], jobs[first + step]... has a thread that waits. */
static void
wait_until_alone(aya_context *context, const job *jobs, unsigned first, unsigned step)
{
    for (unsigned i = first; i < FIFOS; i += step) {
        int64_t end = now_ms() + PATIENCE_MS;
        while (jobs[i].request.route != AYA_ROUTE_ALONE) {
            CHECK_EQUAL(aya_context_wait(context, 1), 0);
            CHECK(now_ms() < end);
        }
    }
}

/* Half of the opens get a partner, half are cancelled. */
static void
test_fifo_opens(void)
{
    aya_context *context = make_context();
    static job jobs[FIFOS];
    int partners[FIFOS];

    make_fifos();
    for (unsigned i = 0; i < FIFOS; i++) {
        aya_op_open(&jobs[i].request.op, fifo_names[i], i % 4 < 2 ? AYA_OPEN_READ : AYA_OPEN_WRITE,
                    false, false, false, false, 0);
        CHECK(!aya_try(context, &jobs[i].request));
        job_start(context, &jobs[i]);
    }
    wait_until_alone(context, jobs, 0, 1);
    CHECK_EQUAL(aya_context_wait(context, 50), 0);
    use_a_file(context, FIFOS);
    for (unsigned i = 0; i < FIFOS; i += 2) {
        aya_cancel(&jobs[i].request);
        partners[i + 1] = open(fifo_names[i + 1], (i + 1) % 4 < 2 ? O_WRONLY : O_RDONLY);
        CHECK(partners[i + 1] >= 0);
    }
    wait_until_pending(context, 0);
    for (unsigned i = 0; i < FIFOS; i += 2) {
        CHECK_EQUAL(jobs[i].result, -ECANCELED);
        CHECK(jobs[i + 1].result >= 0);
        close((int)jobs[i + 1].result);
        close(partners[i + 1]);
    }
    CHECK_EQUAL(aya_context_routes(context)[AYA_ROUTE_ALONE], FIFOS);
    aya_context_destroy(context);
    wait_for_no_threads("aya-");
    remove_fifos();
}

/* Cancelled at any moment between the start and the thread's wait. */
static void
test_fifo_cancel_races(void)
{
    aya_context *context = make_context();
    job one = {.index = 0};

    make_fifos();
    for (unsigned i = 0; i < 300; i++) {
        aya_op_open(&one.request.op, fifo_names[0], i % 2 ? AYA_OPEN_READ : AYA_OPEN_WRITE, false,
                    false, false, false, 0);
        job_start(context, &one);
        for (unsigned j = random_below(6); j > 0 && one.result == UNSET; j--) {
            CHECK_EQUAL(aya_context_wait(context, 0), 0);
            usleep(random_below(100));
        }
        aya_cancel(&one.request);
        wait_until_pending(context, 0);
        CHECK_EQUAL(one.result, -ECANCELED);
    }
    aya_context_destroy(context);
    wait_for_no_threads("aya-");
    remove_fifos();
}

/* A cancel must open the other end to let its thread go: others of the same FIFO are none the
 * wiser. */
static void
test_fifo_shared(void)
{
    aya_context *context = make_context();
    static job jobs[FIFOS];
    int partner;

    make_fifos();
    for (unsigned round = 0; round < 20; round++) {
        aya_open_access access = round % 2 ? AYA_OPEN_READ : AYA_OPEN_WRITE;
        for (unsigned i = 0; i < FIFOS; i++) {
            aya_op_open(&jobs[i].request.op, fifo_names[0], access, false, false, false, false, 0);
            job_start(context, &jobs[i]);
        }
        CHECK_EQUAL(aya_context_wait(context, (int)random_below(4)), 0);
        for (unsigned i = 0; i < FIFOS; i += 2) {
            aya_cancel(&jobs[i].request);
        }
        wait_until_pending(context, FIFOS / 2);
        wait_until_alone(context, jobs, 1, 2);
        CHECK_EQUAL(aya_context_wait(context, 10), 0);
        partner = open(fifo_names[0], round % 2 ? O_WRONLY : O_RDONLY);
        CHECK(partner >= 0);
        wait_until_pending(context, 0);
        for (unsigned i = 0; i < FIFOS; i++) {
            CHECK(i % 2 ? jobs[i].result >= 0 : jobs[i].result == -ECANCELED);
            close((int)jobs[i].result);
        }
        close(partner);
    }
    aya_context_destroy(context);
    wait_for_no_threads("aya-");
    remove_fifos();
}

/* A context's end takes them along. */
static void
test_fifo_opens_at_the_end(void)
{
    aya_context *context = make_context();
    static job jobs[FIFOS];
    int64_t started = now_ms();

    make_fifos();
    for (unsigned i = 0; i < FIFOS; i++) {
        aya_op_open(&jobs[i].request.op, fifo_names[i], AYA_OPEN_READ, false, false, false, false,
                    0);
        job_start(context, &jobs[i]);
    }
    CHECK(aya_context_wait(context, 5) >= 0);
    aya_context_destroy(context);
    for (unsigned i = 0; i < FIFOS; i++) {
        CHECK_EQUAL(jobs[i].result, -ECANCELED);
    }
    CHECK(now_ms() - started < 5000);
    wait_for_no_threads("aya-");
    remove_fifos();
}

/* Bytes through a named FIFO; the last writer leaves before the reader has looked. */
static void
test_fifo_transfer(void)
{
    aya_context *context = make_context();
    job reader = {.index = 0}, writer = {.index = 1}, end = {.index = 2};
    aya_file in, out;
    char got[8];

    make_fifos();
    aya_op_open(&reader.request.op, fifo_names[0], AYA_OPEN_READ, false, false, false, false, 0);
    job_start(context, &reader);
    aya_op_open(&writer.request.op, fifo_names[0], AYA_OPEN_WRITE, false, false, false, false, 0);
    job_start(context, &writer);
    wait_until_pending(context, 0);
    CHECK(reader.result >= 0 && writer.result >= 0);
    CHECK_EQUAL(aya_file_init(&in, (aya_handle)reader.result), 0);
    CHECK_EQUAL(aya_file_init(&out, (aya_handle)writer.result), 0);
    CHECK(in.io != in.handle && out.io != out.handle);
    CHECK((fcntl(in.handle, F_GETFL) & O_NONBLOCK) == 0);
    aya_op_read(&reader.request.op, &in, 8, got, 8);
    CHECK(!aya_try(context, &reader.request));
    job_start(context, &reader);
    CHECK_EQUAL(aya_context_wait(context, 20), 0);
    aya_op_write(&writer.request.op, &out, "abc", 3);
    CHECK(aya_try(context, &writer.request));
    wait_until_pending(context, 0);
    CHECK_EQUAL(reader.result, 3);
    CHECK(memcmp(got, "abc", 3) == 0);
    aya_op_read(&end.request.op, &in, 8, got, 8);
    CHECK(!aya_try(context, &end.request));
    job_start(context, &end);
    CHECK_EQUAL(aya_context_wait(context, 20), 0);
    aya_file_release(&out);
    close(out.handle);
    wait_until_pending(context, 0);
    CHECK_EQUAL(end.result, 0);
    aya_file_release(&in);
    close(in.handle);
    aya_context_destroy(context);
    wait_for_no_threads("aya-");
    remove_fifos();
}

/* -- workers that wait ------------------------------------------------------------------------- */

/* Reads that park workers (blocking descriptors taken for devices) do not stop a call behind
 * them. */
static void
test_parked_workers(void)
{
    enum { PARKED = 3 };
    aya_context *context = make_context();
    static job jobs[PARKED];
    aya_file files[PARKED];
    int ends[PARKED][2];
    char bytes[PARKED];
    int64_t started;

    for (unsigned i = 0; i < PARKED; i++) {
        CHECK_EQUAL(pipe2(ends[i], O_CLOEXEC), 0);
        CHECK_EQUAL(aya_file_init(&files[i], ends[i][0]), 0);
        files[i].kind = AYA_FILE_DEVICE;
        aya_op_read(&jobs[i].request.op, &files[i], 1, &bytes[i], 1);
        job_start(context, &jobs[i]);
    }
    CHECK_EQUAL(aya_context_wait(context, 20), 0);
    started = now_ms();
    use_a_file(context, PARKED);
    CHECK(now_ms() - started < 5000);
    for (unsigned i = 0; i < PARKED; i++) {
        CHECK_EQUAL(write(ends[i][1], "x", 1), 1);
    }
    wait_until_pending(context, 0);
    for (unsigned i = 0; i < PARKED; i++) {
        CHECK_EQUAL(jobs[i].result, 1);
        close(ends[i][0]);
        close(ends[i][1]);
    }
    aya_context_destroy(context);
    wait_for_no_threads("aya-");
}

/* -- inline opens ------------------------------------------------------------------------------ */

static int64_t
open_inline(const char *path, int access, bool create)
{
    int64_t started = now_ms();
    int64_t fd = aya_posix_open_cached(path, access, false, create, false, false, NULL);

    CHECK(now_ms() - started < 1000);
    return fd;
}

/* A process that holds a write lease breaks it only when it is asked to: an open waits up to 45
 * s. */
static void
hold_lease(int ready)
{
    int fd = open(scratch, O_RDONLY | O_CLOEXEC);

    signal(SIGIO, SIG_IGN);
    CHECK(fd >= 0);
    CHECK_EQUAL(write(ready, fcntl(fd, F_SETLEASE, F_RDLCK) == 0 ? "y" : "n", 1), 1);
    pause();
}

static void
test_inline_open(void)
{
    int ends[2], status;
    int64_t fd;
    char answer;
    aya_file file;
    int made = open_scratch(&file);

    fd = open_inline(scratch, AYA_OPEN_READ, false);
    CHECK(fd >= 0);
    CHECK_EQUAL(fcntl((int)fd, F_GETFL) & (O_NONBLOCK | O_ACCMODE), O_RDONLY);
    CHECK_EQUAL(fcntl((int)fd, F_GETFD) & FD_CLOEXEC, FD_CLOEXEC);
    close((int)fd);
    fd = open_inline(scratch, AYA_OPEN_WRITE, true);
    CHECK(fd >= 0);
    close((int)fd);
    close(made);
    CHECK_EQUAL(open_inline("test_waiting.missing", AYA_OPEN_WRITE, true), -EAGAIN);
    CHECK_EQUAL(open_inline("/dev/null", AYA_OPEN_READ, false), -EAGAIN);
    CHECK_EQUAL(open_inline("/", AYA_OPEN_READ, false), -EAGAIN);
    CHECK_EQUAL(open_inline("/proc/self/status", AYA_OPEN_READ, false), -EAGAIN);
    make_fifos();
    CHECK_EQUAL(open_inline("./test_waiting.fifo.0", AYA_OPEN_READ, false), -EAGAIN);
    /* Beside a file that was just opened it is not looked at first. */
    fd = AYA_RESULT_HALF_OPEN - open_inline(fifo_names[0], AYA_OPEN_READ, false);
    CHECK(fd >= 0);
    CHECK_EQUAL(fcntl((int)fd, F_GETFL) & O_NONBLOCK, O_NONBLOCK);
    close((int)fd);
    CHECK_EQUAL(open_inline(fifo_names[0], AYA_OPEN_WRITE, false), -EAGAIN);
    CHECK_EQUAL(mkdir("test_waiting.folder", 0700), 0);
    CHECK_EQUAL(open_inline("test_waiting.folder", AYA_OPEN_READ, false), -EAGAIN);
    CHECK_EQUAL(rmdir("test_waiting.folder"), 0);
    remove_fifos();
    CHECK_EQUAL(pipe2(ends, O_CLOEXEC), 0);
    pid_t child = fork();
    if (child == 0) {
        hold_lease(ends[1]);
    }
    CHECK_EQUAL(read(ends[0], &answer, 1), 1);
    if (answer == 'y') {
        CHECK_EQUAL(open_inline(scratch, AYA_OPEN_WRITE, false), -EAGAIN);
    }
    kill(child, SIGKILL);
    CHECK_EQUAL(waitpid(child, &status, 0), child);
    close(ends[0]);
    close(ends[1]);
    CHECK_EQUAL(aya_posix_open("/", AYA_OPEN_READ, false, false, false, false, 0), -EISDIR);
}

/* -- what a descriptor is ---------------------------------------------------------------------- */

static aya_file
look_at(int fd, aya_file_kind kind, bool positioned)
{
    aya_file file;

    CHECK(fd >= 0);
    CHECK_EQUAL(aya_file_init(&file, fd), 0);
    CHECK_EQUAL(file.kind, kind);
    CHECK_EQUAL(file.positioned, positioned);
    return file;
}

static void
test_kinds(void)
{
    int ends[2], terminal = posix_openpt(O_RDWR | O_NOCTTY | O_CLOEXEC), sides[2];
    int null = open("/dev/null", O_RDWR | O_CLOEXEC), proc = open("/proc/self/stat", O_RDONLY);
    aya_file file;
    char byte;

    CHECK_EQUAL(pipe2(ends, O_CLOEXEC), 0);
    file = look_at(ends[0], AYA_FILE_POLLABLE, false);
    CHECK_EQUAL(file.io, ends[0]);
    CHECK_EQUAL(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, sides), 0);
    file = look_at(sides[0], AYA_FILE_POLLABLE, false);
    CHECK_EQUAL(file.io, sides[0]);
    CHECK_EQUAL(aya_posix_read_nowait(file.io, &byte, 1), -EAGAIN);
    file = look_at(null, AYA_FILE_DEVICE, true);
    file = look_at(proc, AYA_FILE_REGULAR, true);
    CHECK(!file.local);
    CHECK_EQUAL(aya_posix_read_nowait(proc, &byte, 1), -EOPNOTSUPP);
    CHECK_EQUAL(aya_file_init(&file, 10000), -EBADF);
    /* A pseudo-terminal's master is not opened again: that makes another terminal. */
    file = look_at(terminal, AYA_FILE_POLLABLE, false);
    CHECK_EQUAL(file.io, terminal);
    CHECK_EQUAL(unlockpt(terminal), 0);
    int slave = open(ptsname(terminal), O_RDWR | O_NOCTTY | O_CLOEXEC);
    file = look_at(slave, AYA_FILE_POLLABLE, false);
    CHECK(file.io != slave && (fcntl(slave, F_GETFL) & O_NONBLOCK) == 0);
    CHECK_EQUAL(aya_posix_read_nowait(file.io, &byte, 1), -EAGAIN);
    CHECK_EQUAL(aya_posix_read_nowait(terminal, &byte, 1), -EAGAIN);
    CHECK_EQUAL(aya_posix_write_nowait(file.io, "ab\n", 3), 3);
    CHECK_EQUAL(aya_posix_read_nowait(terminal, &byte, 1), 1);
    CHECK_EQUAL(byte, 'a');
    aya_file_release(&file);
    CHECK_EQUAL(file.io, slave);
    int all[] = {ends[0], ends[1], sides[0], sides[1], null, proc, slave, terminal};
    for (unsigned i = 0; i < sizeof(all) / sizeof(all[0]); i++) {
        close(all[i]);
    }
}

static void
test_close_inline(void)
{
    aya_file file;
    int fd = open_scratch(&file);

    CHECK(file.local);
    file.written = true;
    CHECK(!aya_file_close_inline(&file));
    file.written = false;
    CHECK_EQUAL(unlink(scratch), 0);
    CHECK(!aya_file_close_inline(&file));
    close(fd);
    fd = open_scratch(&file);
    CHECK(aya_file_close_inline(&file));
    CHECK(fcntl(fd, F_GETFD) < 0);
}

int
main(int argc, char **argv)
{
    static const test tests[] = {
        {"idle pipes", test_idle_pipes},
        {"a large write to a pipe", test_large_pipe_write},
        {"a pipe's partner leaves", test_pipe_partner_leaves},
        {"FIFO opens", test_fifo_opens},
        {"FIFO opens cancelled at any moment", test_fifo_cancel_races},
        {"a FIFO that others wait for", test_fifo_shared},
        {"FIFO opens at a context's end", test_fifo_opens_at_the_end},
        {"transfers through a FIFO", test_fifo_transfer},
        {"parked workers", test_parked_workers},
        {"inline opens", test_inline_open},
        {"kinds of files", test_kinds},
        {"inline closes", test_close_inline},
    };

    signal(SIGPIPE, SIG_IGN);
    return run_tests(argc, argv, tests, sizeof(tests) / sizeof(tests[0]));
}
