/* A program that uses libaya by itself: prints how many bytes and lines a file has, with several
 * reads in flight at a time. Everything happens in one thread; no call but aya_context_wait()
 * waits. Usage: example FILE
 */
#include "aya.h"

#include <locale.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { READERS = 4, PIECE = 64 * 1024, LONGEST_PATH = 4096 };

typedef struct reader {
    aya_request request; /* first: done() gets from it to the reader */
    char piece[PIECE];
} reader;

typedef struct count {
    aya_file file;
    int64_t next_offset, bytes, lines;
    int64_t error; /* the first -errno */
    bool ended;
} count;

static count total;

static void read_next(aya_context *context, reader *self);

/* Called by aya_context_reap() for each read that has ended. */
static void
piece_done(aya_request *request)
{
    reader *self = (reader *)request;
    int64_t got = request->op.result;
    if (got < 0) {
        total.error = total.error != 0 ? total.error : got;
        return;
    }
    total.bytes += got;
    for (int64_t i = 0; i < got; i++) {
        total.lines += self->piece[i] == '\n';
    }
    if (got < PIECE) {
        total.ended = true;
    }
    if (!total.ended && total.error == 0) {
        read_next(request->context, self);
    }
}

static void
read_next(aya_context *context, reader *self)
{
    memset(&self->request, 0, sizeof(self->request));
    aya_op_read_at(&self->request.op, &total.file, total.next_offset, PIECE, self->piece, PIECE);
    self->request.done = piece_done;
    total.next_offset += PIECE;
    aya_start(context, &self->request);
}

static void
result_done(aya_request *request)
{
    (void)request;
}

/* Runs one operation to its end. */
static int64_t
finish(aya_context *context, aya_request *request)
{
    request->done = result_done;
    if (aya_try(context, request)) {
        return request->op.result;
    }
    aya_start(context, request);
    while (aya_context_pending(context) > 0) {
        int error = aya_context_wait(context, -1);
        if (error < 0) {
            return error;
        }
    }
    return request->op.result;
}

/* The path as the system takes it: of wide characters on Windows. */
static bool
take_path(const char *given, aya_path_char path[LONGEST_PATH])
{
    size_t length = strlen(given);

    if (length >= LONGEST_PATH) {
        return false;
    }
    if (sizeof(path[0]) == sizeof(wchar_t)) {
        return mbstowcs((wchar_t *)(void *)path, given, length + 1) != (size_t)-1;
    }
    memcpy(path, given, length + 1);
    return true;
}

static int64_t
count_file(aya_context *context, const char *given)
{
    static aya_path_char path[LONGEST_PATH];
    static reader readers[READERS];
    aya_request request = {0};
    if (!take_path(given, path)) {
        return -EINVAL;
    }
    aya_op_open(&request.op, path, AYA_OPEN_READ, false, false, false, false, 0);
    int64_t result = finish(context, &request);
    if (result < 0) {
        return result;
    }
    result = aya_file_init(&total.file, (aya_handle)(intptr_t)result);
    if (result < 0) {
        return result;
    }
    for (int i = 0; i < READERS; i++) {
        read_next(context, &readers[i]);
    }
    while (aya_context_pending(context) > 0 && result >= 0) {
        result = aya_context_wait(context, -1);
    }
    memset(&request, 0, sizeof(request));
    aya_op_close(&request.op, &total.file);
    int64_t closed = finish(context, &request);
    aya_file_release(&total.file);
    return total.error != 0 ? total.error : result < 0 ? result : closed;
}

int
main(int argc, char **argv)
{
    if (argc != 2) {
        fprintf(stderr, "usage: example FILE\n");
        return 2;
    }
    setlocale(LC_CTYPE, ""); /* what the path is encoded in */
    aya_context *context;
    int64_t result = aya_context_create(&aya_config_defaults, &context);
    if (result < 0) {
        fprintf(stderr, "example: no context: %s\n", strerror((int)-result));
        return 1;
    }
    result = count_file(context, argv[1]);
    if (result < 0) {
        fprintf(stderr, "example: %s: %s\n", argv[1], strerror((int)-result));
    } else {
        printf("%lld bytes, %lld lines, by %s\n", (long long)total.bytes, (long long)total.lines,
               aya_context_backend(context));
    }
    aya_context_destroy(context);
    return result < 0;
}
