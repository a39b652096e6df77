/* Windows: what a context does beside the examples, on the backend that argv[1] names: large
 * offsets, appending, paths, many reads, cancels, pipes, wake-ups, files of several contexts.
 *
 * Built a second time with iocp_shim.h, whose overlapped calls end at once and bring no packet, as
 * Windows does for what is cached. Files lie in the current directory, named for this process.
 */
#include "win32.h"

#include <process.h>
#include <stdio.h>
#include <stdlib.h>

#if defined(AYA_SHIM)
unsigned aya_shim_calls; /* calls that ended at once; counted by iocp_shim.h */
#endif

#define BLOCK 4096
#define MANY 10000
#define PATIENCE_NS INT64_C(20000000000)

#define CHECK_EQUAL(got, wanted)                                                                  \
    do {                                                                                          \
        int64_t got_ = (int64_t)(got), wanted_ = (int64_t)(wanted);                               \
        if (got_ != wanted_) {                                                                    \
            printf("%s:%d: %s is %lld, not %lld\n", __FILE__, __LINE__, #got, (long long)got_,    \
                   (long long)wanted_);                                                           \
            fflush(stdout);                                                                       \
            _Exit(1);                                                                             \
        }                                                                                         \
    } while (0)
#define CHECK(condition) CHECK_EQUAL(!!(condition), 1)

static aya_config config;

static void
note_done(aya_request *request)
{
    (void)request;
}

static aya_context *
make_context(void)
{
    aya_context *context = NULL;

    CHECK_EQUAL(aya_context_create(&config, &context), 0);
    return context;
}

static void
wait_all(aya_context *context)
{
    int64_t end = aya_now_ns() + PATIENCE_NS;

    while (aya_context_pending(context) > 0) {
        CHECK(aya_now_ns() < end);
        CHECK(aya_context_wait(context, 1000) >= 0);
    }
}

static int64_t
finish(aya_context *context, aya_request *request)
{
    int64_t end = aya_now_ns() + PATIENCE_NS;

    request->done = note_done;
    aya_start(context, request);
    while (request->state != AYA_STATE_IDLE) {
        CHECK(aya_now_ns() < end);
        CHECK(aya_context_wait(context, 1000) >= 0);
    }
    return request->op.result;
}

static int64_t
open_at(aya_context *context, const wchar_t *path, int access, bool append)
{
    aya_request request = {0};

    aya_op_open(&request.op, path, access, append, access != AYA_OPEN_READ, false,
                access != AYA_OPEN_READ && !append, 0666);
    return finish(context, &request);
}

static void
open_file(aya_context *context, aya_file *file, const wchar_t *path, int access, bool append)
{
    int64_t handle = open_at(context, path, access, append);

    CHECK(handle >= 0);
    CHECK_EQUAL(aya_file_init(file, (aya_handle)(intptr_t)handle), 0);
    CHECK_EQUAL(file->append, append);
}

static void
close_file(aya_context *context, aya_file *file)
{
    aya_request request = {0};

    aya_op_close(&request.op, file);
    CHECK_EQUAL(finish(context, &request), 0);
}

static int64_t
write_at(aya_context *context, aya_file *file, int64_t offset, const char *data, size_t size)
{
    aya_request request = {0};

    aya_op_write_at(&request.op, file, offset, data, size);
    return finish(context, &request);
}

static int64_t
read_at(aya_context *context, aya_file *file, int64_t offset, char *buf, size_t size)
{
    aya_request request = {0};

    aya_op_read_at(&request.op, file, offset, (int64_t)size, buf, size);
    return finish(context, &request);
}

static void
test_offsets(aya_context *context)
{
    const int64_t distant = INT64_C(5) << 30;
    char buf[16] = "";
    aya_file file;

    open_file(context, &file, L"far.tmp", AYA_OPEN_BOTH, false);
    CHECK_EQUAL(write_at(context, &file, distant, "distant", 7), 7);
    CHECK_EQUAL(read_at(context, &file, distant + 3, buf, 16), 4);
    CHECK(memcmp(buf, "tant", 4) == 0);
    CHECK_EQUAL(read_at(context, &file, distant + 7, buf, 16), 0);
    CHECK_EQUAL(read_at(context, &file, -1, buf, 16), -EINVAL);
    close_file(context, &file);
    CHECK(DeleteFileW(L"far.tmp"));
}

static void
test_appending(aya_context *context)
{
    aya_request request = {0};
    char buf[32];
    aya_file file;

    open_file(context, &file, L"append.tmp", AYA_OPEN_BOTH, true);
    for (int i = 0; i < 3; i++) {
        memset(&request, 0, sizeof(request));
        aya_op_write(&request.op, &file, "abc", 3);
        CHECK_EQUAL(finish(context, &request), 3);
    }
    CHECK_EQUAL(write_at(context, &file, 0, "end", 3), 3); /* as pwrite() with O_APPEND */
    CHECK_EQUAL(read_at(context, &file, 0, buf, 32), 12);
    CHECK(memcmp(buf, "abcabcabcend", 12) == 0);
    memset(&request, 0, sizeof(request));
    aya_op_truncate(&request.op, &file, 4);
    finish(context, &request);
    CHECK_EQUAL(request.op.result, 0);
    CHECK_EQUAL(read_at(context, &file, 0, buf, 32), 4);
    close_file(context, &file);
    CHECK(DeleteFileW(L"append.tmp"));
}

/* A path of names in several scripts, longer than the system takes without a prefix. */
static void
test_paths(aya_context *context)
{
    static const wchar_t part[] = L"\\\x0416\x65e5\x672c\xd83d\xde00-aaaaaaaaaaaaaaaaaaaaaaaaaaa"
                                  L"aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa";
    wchar_t path[1024], made[5][1040], prefix[1040];
    aya_file file;

    CHECK(GetCurrentDirectoryW(512, path) > 0);
    for (int i = 0; i < 4; i++) {
        wcscat(path, part);
        swprintf(made[i], 1040, L"\\\\?\\%ls", path);
        CHECK(CreateDirectoryW(made[i], NULL));
    }
    wcscat(path, L"\\file");
    CHECK(wcslen(path) > MAX_PATH);
    open_file(context, &file, path, AYA_OPEN_WRITE, false);
    CHECK_EQUAL(write_at(context, &file, 0, "x", 1), 1);
    close_file(context, &file);
    swprintf(prefix, 1040, L"\\\\?\\%ls", path);
    CHECK(DeleteFileW(prefix));
    CHECK_EQUAL(open_at(context, path, AYA_OPEN_READ, false), -ENOENT);
    for (int i = 3; i >= 0; i--) {
        CHECK(RemoveDirectoryW(made[i]));
    }
    CHECK_EQUAL(open_at(context, L".", AYA_OPEN_READ, false), -EACCES);
    CHECK_EQUAL(open_at(context, L"a*b", AYA_OPEN_READ, false), -EINVAL);
}

static void
test_many(aya_context *context)
{
    static aya_request requests[MANY];
    static char bufs[MANY][4], content[BLOCK];
    aya_file file;

    for (size_t i = 0; i < BLOCK; i++) {
        content[i] = (char)(i * 7 + (i >> 8));
    }
    open_file(context, &file, L"many.tmp", AYA_OPEN_BOTH, false);
    CHECK_EQUAL(write_at(context, &file, 0, content, BLOCK), BLOCK);
    for (int round = 0; round < 2; round++) {
        for (size_t i = 0; i < MANY; i++) {
            memset(&requests[i], 0, sizeof(requests[i]));
            aya_op_read_at(&requests[i].op, &file, (int64_t)(i % BLOCK), 4, bufs[i], 4);
            requests[i].done = note_done;
            aya_start(context, &requests[i]);
        }
        for (size_t i = 0; round == 1 && i < MANY; i += 2) {
            if (i == MANY / 2) {
                CHECK(aya_context_submit(context) >= 0); /* the later ones are in flight */
            }
            aya_cancel(&requests[i]);
        }
        wait_all(context);
        for (size_t i = 0; i < MANY; i++) {
            size_t at = i % BLOCK, wanted = BLOCK - at < 4 ? BLOCK - at : 4;
            int64_t result = requests[i].op.result;
            if (round == 1 && i % 2 == 0 && result == -ECANCELED) {
                continue;
            }
            CHECK_EQUAL(result, wanted);
            CHECK(memcmp(bufs[i], content + at, wanted) == 0);
        }
    }
    close_file(context, &file);
    CHECK(DeleteFileW(L"many.tmp"));
}

/* A file belongs to the port that it was used on first; another context, and one that comes after
 * the first has gone, read it all the same. */
static void
test_two_contexts(aya_context *context)
{
    aya_context *other = make_context();
    char buf[8];
    aya_file file;

    open_file(context, &file, L"two.tmp", AYA_OPEN_BOTH, false);
    CHECK_EQUAL(write_at(other, &file, 0, "0123", 4), 4);
    CHECK_EQUAL(read_at(context, &file, 1, buf, 8), 3);
    CHECK_EQUAL(read_at(other, &file, 2, buf, 8), 2);
    aya_context_destroy(other);
    CHECK_EQUAL(read_at(context, &file, 0, buf, 8), 4);
    close_file(context, &file);
    CHECK(DeleteFileW(L"two.tmp"));
}

/* Reads of silent pipes hold up nobody, end by a cancel, and see what comes. */
static void
test_pipes(aya_context *context)
{
    enum { PIPES = 20 };
    static aya_request requests[PIPES];
    static char bufs[PIPES][8];
    HANDLE ends[PIPES][2];
    aya_file files[PIPES];
    DWORD moved;

    for (int i = 0; i < PIPES; i++) {
        CHECK(CreatePipe(&ends[i][0], &ends[i][1], NULL, 0));
        CHECK_EQUAL(aya_file_init(&files[i], ends[i][0]), 0);
        memset(&requests[i], 0, sizeof(requests[i]));
        aya_op_read(&requests[i].op, &files[i], 8, bufs[i], 8);
        requests[i].done = note_done;
        aya_start(context, &requests[i]);
    }
    CHECK(aya_context_submit(context) >= 0);
    for (int i = 0; i < 10; i++) {
        aya_context_wait(context, 10);
    }
    CHECK_EQUAL(aya_context_pending(context), PIPES);
    CHECK_EQUAL(open_at(context, L"not there", AYA_OPEN_READ, false), -ENOENT);
    CHECK(WriteFile(ends[0][1], "hello", 5, &moved, NULL));
    CloseHandle(ends[1][1]);
    for (int i = 2; i < PIPES; i++) {
        aya_cancel(&requests[i]);
    }
    wait_all(context);
    CHECK_EQUAL(requests[0].op.result, 5);
    CHECK(memcmp(bufs[0], "hello", 5) == 0);
    CHECK_EQUAL(requests[1].op.result, 0);
    for (int i = 0; i < PIPES; i++) {
        CHECK(i < 2 || requests[i].op.result == -ECANCELED);
        CloseHandle(ends[i][0]);
        if (i != 1) {
            CloseHandle(ends[i][1]);
        }
    }
}

/* A wait ends for each result of the pool, whatever the port brings between. */
static void
test_wake_ups(aya_context *context)
{
    char buf[8];
    aya_file file;

    open_file(context, &file, L"wake.tmp", AYA_OPEN_BOTH, false);
    CHECK_EQUAL(write_at(context, &file, 0, "01234567", 8), 8);
    for (int i = 0; i < 500; i++) {
        static aya_stat_raw stat;
        aya_request one = {.done = note_done}, two = {.done = note_done};
        aya_op_read_at(&one.op, &file, i % 8, 1, buf, 1);
        aya_op_stat(&two.op, &file, &stat);
        aya_start(context, &one);
        aya_start(context, &two);
        int64_t end = aya_now_ns() + INT64_C(5000000000);
        while (aya_context_pending(context) > 0) {
            CHECK(aya_context_wait(context, 10000) >= 0);
        }
        CHECK(aya_now_ns() < end);
        CHECK_EQUAL(one.op.result, 1);
        CHECK_EQUAL(stat.size, 8);
        CHECK_EQUAL(buf[0], '0' + i % 8);
    }
    close_file(context, &file);
    CHECK(DeleteFileW(L"wake.tmp"));
}

int
main(int argc, char **argv)
{
    wchar_t directory[64];
    aya_context *context;

    config = aya_config_defaults;
    config.backend = argc > 1 && strcmp(argv[1], "threads") == 0 ? AYA_BACKEND_THREADS
                                                                 : AYA_BACKEND_IOCP;
    swprintf(directory, 64, L"windows-%d-%ls", _getpid(), L"test");
    CHECK(CreateDirectoryW(directory, NULL) && SetCurrentDirectoryW(directory));
    context = make_context();
    test_offsets(context);
    test_appending(context);
    test_paths(context);
    test_many(context);
    test_two_contexts(context);
    test_pipes(context);
    test_wake_ups(context);
#if defined(AYA_SHIM)
    CHECK(aya_shim_calls > MANY);
    printf("%u calls ended at once\n", aya_shim_calls);
#endif
    printf("backend %llu, fallback %llu, alone %llu\n",
           (unsigned long long)aya_context_routes(context)[AYA_ROUTE_BACKEND],
           (unsigned long long)aya_context_routes(context)[AYA_ROUTE_FALLBACK],
           (unsigned long long)aya_context_routes(context)[AYA_ROUTE_ALONE]);
    aya_context_destroy(context);
    CHECK(SetCurrentDirectoryW(L"..") && RemoveDirectoryW(directory));
    return 0;
}
