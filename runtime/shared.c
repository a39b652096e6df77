/* The buffer of a stream that reads and appends, as io.BufferedRandom keeps it; see shared.h.
 *
 * One buffer holds what was read and what is to be written. Writes go into it at the place of the
 * position; what is written out later is one piece from the first to the last byte that was
 * written, with all that lies between, and the system puts it at the end of the file. Only then
 * does the descriptor's position jump there. Until then reads are served from the buffer.
 * Runs in the thread of stream->context, one call at a time; never waits and knows no Python.
 */
#include "shared.h"
#include "internal.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { STEP_START, STEP_SETTLE, STEP_TRANSFER };

struct aya_shared {
    char *data;          /* stream->buffer_size bytes */
    size_t at;           /* of the next byte that is read or written; always <= end */
    size_t end;          /* behind the last byte that can be read */
    size_t raw_at;       /* the byte that lies at `raw` in the file */
    int64_t raw;         /* the position that the built-in's descriptor has: reads go on from it */
    bool writing;        /* data[write_begin..write_end) is to be written; it may be empty, and the
                            next write widens it */
    size_t write_begin, write_end;
    bool adrift;         /* a read passed by what is to be written: `at` and `raw` are not related
                            once that is done */
    uint8_t step;        /* of the read or seek under way */
    uint8_t rules;       /* AYA_SHARED_* */
    char *into;          /* the buffer of the read under way; it has got `taken` bytes */
    size_t taken;
    aya_run landing;     /* what one read past the buffer got; empty but within a command */
};

/* -- state ------------------------------------------------------------------------------------- */

static size_t
ahead(const aya_shared *shared)
{
    return shared->end - shared->at;
}

static size_t
landed(const aya_shared *shared)
{
    return shared->landing.end - shared->landing.begin;
}

/* Negative where another process has cut the file. */
static int64_t
position_of(const aya_shared *shared)
{
    return shared->raw - (int64_t)shared->raw_at + (int64_t)shared->at - (int64_t)landed(shared);
}

/* Shows the state to those who look at stream->window and stream->position. */
static void
show(aya_stream *stream)
{
    const aya_shared *shared = stream->shared;
    int64_t position = position_of(shared);

    stream->position = position < 0 ? 0 : position;
    stream->window = landed(shared) > 0
                         ? shared->landing
                         : (aya_run){.data = shared->data, .begin = shared->at, .end = shared->end};
}

/* Empties the buffer; reading goes on at `raw`. */
static void
start_at(aya_stream *stream, int64_t raw)
{
    aya_shared *shared = stream->shared;

    shared->raw = raw;
    shared->at = shared->end = shared->raw_at = 0;
    shared->writing = shared->adrift = false;
    shared->landing.begin = shared->landing.end = 0;
    show(stream);
}

/* What a read past the buffer left is read again. */
static void
leave_landing(aya_shared *shared)
{
    shared->raw -= (int64_t)landed(shared);
    shared->landing.begin = shared->landing.end = 0;
}

/* Whether a call may begin, or go on. */
static bool
enter(aya_stream *stream)
{
    if (stream->back_busy || stream->front_state == AYA_FRONT_BUSY) {
        return false;
    }
    leave_landing(stream->shared);
    show(stream);
    return true;
}

int
aya_stream_share(aya_stream *stream, size_t buffer_size, unsigned rules)
{
    aya_shared *shared = calloc(1, sizeof(*shared));

    if (shared == NULL || (shared->data = malloc(buffer_size)) == NULL) {
        free(shared);
        return -ENOMEM;
    }
    shared->rules = (uint8_t)rules;
    stream->buffer_size = buffer_size;
    stream->shared = shared;
    start_at(stream, stream->position);
    return 0;
}

void
aya_shared_release(aya_stream *stream)
{
    free(stream->shared->landing.data);
    free(stream->shared->data);
    free(stream->shared);
    stream->shared = NULL;
    stream->window = (aya_run){0};
}

void
aya_shared_after_fork(aya_stream *stream)
{
    stream->shared->step = STEP_START;
    stream->shared->taken = 0;
    start_at(stream, stream->position);
}

bool
aya_shared_dirty(const aya_stream *stream)
{
    const aya_shared *shared = stream->shared;

    return shared->writing && shared->write_begin < shared->write_end;
}

/* -- writing out ------------------------------------------------------------------------------- */

/* `moved` bytes went to the end of the file. A ring does not move the descriptor's position by a
 * write that ended early: then it is where the file ends. */
static void
find_appended(aya_stream *stream, size_t moved, bool failed)
{
    if (moved > 0) {
        stream->own_position = aya_file_position(&stream->file);
        stream->shared->raw = failed || stream->own_position < 0
                                  ? aya_file_size_hint(&stream->file)
                                  : stream->own_position;
    }
}

static void
end_writing(aya_shared *shared)
{
    shared->writing = false;
    if (shared->adrift) {
        shared->raw_at = shared->at;
    }
}

static void
written(aya_stream *stream)
{
    aya_shared *shared = stream->shared;
    const aya_op *op = &stream->back.op;
    size_t moved = op->result < 0 ? (size_t)op->done : shared->write_end - shared->write_begin;

    stream->back_busy = false;
    if (moved > 0) {
        shared->write_begin += moved;
        shared->raw_at = shared->write_begin;
        find_appended(stream, moved, op->result < 0);
    }
    if (op->result >= 0) {
        end_writing(shared);
    } else if (op->result != -ECANCELED) {
        stream->back_error = (int)op->result;
    }
    show(stream);
}

static void
back_ended(aya_stream *stream)
{
    written(stream);
    stream->wake(stream);
}

static void
back_done(aya_request *request)
{
    aya_stream_guarded((aya_stream *)((char *)request - offsetof(aya_stream, back)), back_ended);
}

static void
set_write(aya_stream *stream)
{
    aya_shared *shared = stream->shared;

    aya_op_write(&stream->back.op, &stream->file, shared->data + shared->write_begin,
                 shared->write_end - shared->write_begin);
    stream->back_busy = true;
}

/* Hands the written bytes to the system. By stream->back, which no cancel of a read reaches: the
 * buffer is left alone until it has ended. */
static int64_t
write_out(aya_stream *stream)
{
    while (stream->shared->writing) {
        if (stream->back_busy) {
            return AYA_PENDING;
        }
        if (stream->back_error != 0) {
            return aya_stream_take_back_error(stream);
        }
        if (!aya_shared_dirty(stream)) {
            end_writing(stream->shared);
            break;
        }
        set_write(stream);
        if (aya_try(stream->context, &stream->back)) {
            written(stream);
        } else {
            stream->back.done = back_done;
            aya_start(stream->context, &stream->back);
        }
    }
    return 0;
}

int64_t
aya_shared_settle(aya_stream *stream)
{
    int64_t result, position;

    if (!enter(stream)) {
        return AYA_PENDING;
    }
    result = write_out(stream);
    if (result < 0) {
        return result;
    }
    position = position_of(stream->shared);
    start_at(stream, position < 0 ? stream->shared->raw : position);
    return position < 0 ? -EINVAL : 0;
}

int64_t
aya_shared_write_out(aya_stream *stream)
{
    int64_t result;

    if (!enter(stream)) {
        return AYA_PENDING;
    }
    result = write_out(stream);
    show(stream);
    return result;
}

int64_t
aya_shared_drain(aya_stream *stream)
{
    return stream->shared->writing ? aya_shared_settle(stream) : 0;
}

int
aya_shared_drain_blocking(aya_stream *stream)
{
    aya_op *op = &stream->back.op;

    while (!stream->back_busy && aya_shared_dirty(stream)) {
        set_write(stream);
        while (aya_settle(op, aya_threads_call(op)) != AYA_VERDICT_DONE) {
        }
        written(stream);
        if (stream->back_error != 0) {
            return aya_stream_take_back_error(stream);
        }
    }
    return 0;
}

void
aya_shared_give_up(aya_stream *stream)
{
    start_at(stream, stream->position);
}

/* -- writing ----------------------------------------------------------------------------------- */

static bool
fits(const aya_stream *stream, size_t size)
{
    const aya_shared *shared = stream->shared;

    return size <= stream->buffer_size - shared->at
           && !((shared->rules & AYA_SHARED_FULL_DIRECT) && size == stream->buffer_size);
}

static void
put(aya_stream *stream, const char *data, size_t size)
{
    aya_shared *shared = stream->shared;

    if (size > 0) {
        memcpy(shared->data + shared->at, data, size);
    }
    if (!shared->writing || shared->at < shared->write_begin) {
        shared->write_begin = shared->at;
    }
    shared->at += size;
    if (!shared->writing || shared->at > shared->write_end) {
        shared->write_end = shared->at;
    }
    if (shared->at > shared->end) {
        shared->end = shared->at;
    }
    shared->writing = true;
    show(stream);
}

int64_t
aya_shared_write(aya_stream *stream, const void *data, size_t size, size_t *done)
{
    int64_t result;

    if (!enter(stream)) {
        return AYA_PENDING;
    }
    for (;;) {
        const char *rest = size == 0 ? NULL : (const char *)data + *done;
        size_t left = size - *done;
        if (!aya_stream_front_take(stream, FRONT_WRITE, &result)) {
            if (fits(stream, left)) {
                put(stream, rest, left);
                *done = size;
                return 0;
            }
            result = aya_shared_settle(stream);
            if (result < 0) {
                return result;
            }
            if (fits(stream, left)) {
                continue;
            }
            aya_op_write(&stream->front.op, &stream->file, rest, left);
            result = aya_stream_front_run(stream, FRONT_WRITE);
            if (result == AYA_PENDING) {
                return result;
            }
        }
        size_t moved = (size_t)(result < 0 ? stream->front.op.done : result);
        *done += moved;
        find_appended(stream, moved, result < 0);
        show(stream);
        if (result < 0 && !(moved > 0 && fits(stream, size - *done))) {
            return result;
        }
    }
}

void
aya_shared_withdraw(aya_stream *stream, size_t size)
{
    aya_shared *shared = stream->shared;

    if (size == 0 || stream->back_busy || !aya_shared_dirty(stream)
        || shared->at != shared->write_end) {
        return;
    }
    size_t length = shared->write_end - shared->write_begin;
    size_t count = size < length ? size : length;
    shared->write_end -= count;
    shared->at -= count;
    shared->end = shared->at;
    show(stream);
}

/* -- reading ----------------------------------------------------------------------------------- */

/* One transfer from `raw` on. By an offset, so that one that is given up moves nothing. */
static int64_t
transfer(aya_stream *stream, uint8_t use, void *buf, size_t size)
{
    int64_t result;

    if (!aya_stream_front_take(stream, use, &result)) {
        aya_op_read_at(&stream->front.op, &stream->file, stream->shared->raw, (int64_t)size, buf,
                       size);
        stream->front.grow = NULL;
        result = aya_stream_front_run(stream, use);
    }
    if (result > 0) {
        stream->shared->raw += result;
    }
    return result;
}

/* Reads behind what the buffer has. */
static int64_t
read_ahead(aya_stream *stream)
{
    aya_shared *shared = stream->shared;
    int64_t result = transfer(stream, FRONT_FILL, shared->data + shared->end,
                              stream->buffer_size - shared->end);

    if (result > 0) {
        shared->end += (size_t)result;
        shared->raw_at = shared->end;
        show(stream);
    }
    return result;
}

int64_t
aya_shared_fill(aya_stream *stream)
{
    if (!enter(stream)) {
        return AYA_PENDING;
    }
    return ahead(stream->shared) > 0 ? (int64_t)ahead(stream->shared) : aya_shared_peek(stream);
}

int64_t
aya_shared_peek(aya_stream *stream)
{
    int64_t result = aya_shared_settle(stream);

    return result < 0 ? result : read_ahead(stream);
}

int64_t
aya_shared_read1(aya_stream *stream, size_t most)
{
    aya_shared *shared = stream->shared;
    int64_t result = 0;

    if (!enter(stream)) {
        return AYA_PENDING;
    }
    if (ahead(shared) > 0) {
        return (int64_t)ahead(shared);
    }
    if ((shared->rules & AYA_SHARED_READ1_FLUSHES) || !shared->writing) {
        result = aya_shared_settle(stream);
    } else {
        shared->adrift = true;
    }
    if (result < 0) {
        return result;
    }
    if (shared->landing.room < most) {
        char *data = realloc(shared->landing.data, most);
        if (data == NULL) {
            return -ENOMEM;
        }
        shared->landing.data = data;
        shared->landing.room = most;
    }
    result = transfer(stream, FRONT_FILL, shared->landing.data, most);
    if (result > 0) {
        shared->landing.end = (size_t)result;
    }
    show(stream);
    return result;
}

void
aya_shared_consume(aya_stream *stream, size_t size)
{
    aya_shared *shared = stream->shared;

    if (landed(shared) > 0) {
        assert(size <= landed(shared));
        shared->landing.begin += size;
    } else {
        assert(size <= ahead(shared));
        shared->at += size;
    }
    show(stream);
}

static size_t
take_ahead(aya_stream *stream, char *buf, size_t size)
{
    aya_shared *shared = stream->shared;
    size_t count = ahead(shared) < size ? ahead(shared) : size;

    memcpy(buf, shared->data + shared->at, count);
    shared->at += count;
    shared->taken += count;
    show(stream);
    return count;
}

/* How much of the `left` bytes goes past the buffer. */
static size_t
past_buffer(const aya_stream *stream, aya_reading how, size_t left)
{
    switch (how) {
    case AYA_READING_SIZE:
        return left - left % stream->buffer_size;
    case AYA_READING_INTO:
    case AYA_READING_INTO_ONCE:
        return left > stream->buffer_size ? left : 0;
    default:
        return left;
    }
}

/* Takes what comes behind the buffer; buf[0..taken) has come. 0, or what a call returns. */
static int64_t
read_on(aya_stream *stream, aya_reading how, char *buf, size_t size)
{
    aya_shared *shared = stream->shared;
    int64_t result;

    while (shared->taken < size) {
        size_t left = size - shared->taken;
        size_t direct = past_buffer(stream, how, left);
        if (direct > 0) {
            result = transfer(stream, FRONT_READ, buf + shared->taken, direct);
            shared->taken += result > 0 ? (size_t)result : 0;
            show(stream);
        } else if ((how == AYA_READING_INTO_ONCE && shared->taken > 0)
                   || shared->end == stream->buffer_size) {
            return 0;
        } else {
            result = read_ahead(stream);
            if (result > 0) {
                take_ahead(stream, buf + shared->taken, left);
            }
        }
        if (result <= 0 || (direct > 0 && how == AYA_READING_INTO_ONCE)) {
            return result < 0 ? result : 0;
        }
    }
    return 0;
}

int64_t
aya_shared_read(aya_stream *stream, aya_reading how, void *buf, size_t size)
{
    aya_shared *shared = stream->shared;
    int64_t result = 0;

    if (!enter(stream)) {
        return AYA_PENDING;
    }
    if (shared->step == STEP_START) {
        shared->into = buf;
        shared->step = take_ahead(stream, buf, size) < size ? STEP_SETTLE : STEP_START;
    }
    if (shared->step == STEP_SETTLE) {
        result = aya_shared_settle(stream);
        shared->step = result < 0 ? STEP_SETTLE : STEP_TRANSFER;
    }
    if (shared->step == STEP_TRANSFER) {
        result = read_on(stream, how, buf, size);
    }
    if (result == AYA_PENDING) {
        return result;
    }
    size_t taken = shared->taken;
    shared->step = STEP_START;
    shared->taken = 0;
    if (result < 0 && taken > 0) {
        aya_shared_unread(stream, buf, taken);
    }
    return result < 0 ? result : (int64_t)taken;
}

/* Makes `size` bytes, which were in the buffer before it was emptied, the next ones of it. */
static void
put_in_front(aya_shared *shared, const char *data, size_t size)
{
    size_t rest = ahead(shared);

    memmove(shared->data + size, shared->data + shared->at, rest);
    memcpy(shared->data, data, size);
    shared->at = 0;
    shared->end = shared->raw_at = size + rest;
}

void
aya_shared_unread(aya_stream *stream, const void *data, size_t size)
{
    aya_shared *shared = stream->shared;

    leave_landing(shared);
    if (data != NULL && shared->at >= size
        && memcmp(shared->data + shared->at - size, data, size) == 0) {
        shared->at -= size;
    } else if (shared->adrift) {
        shared->raw -= (int64_t)size;
    } else if (shared->writing) {
        /* What was read last lies before what is to be written: nothing to go back over. */
    } else if (data != NULL && size <= stream->buffer_size - ahead(shared)
               && shared->raw_at == shared->end) {
        /* The place that they came from may be another than before the position. */
        put_in_front(shared, data, size);
    } else {
        start_at(stream, size > (uint64_t)stream->position ? 0
                                                           : stream->position - (int64_t)size);
    }
    show(stream);
}

void
aya_shared_forget(aya_stream *stream)
{
    aya_shared *shared = stream->shared;
    size_t taken = shared->taken;

    shared->step = STEP_START;
    shared->taken = 0;
    if (taken > 0) {
        aya_shared_unread(stream, shared->into, taken);
    }
}

/* The caller may have set stream->position back over what was read last. */
void
aya_shared_drop(aya_stream *stream)
{
    aya_shared *shared = stream->shared;
    int64_t back = position_of(shared) - stream->position;

    if (!shared->writing) {
        start_at(stream, stream->position);
    } else if (back >= 0 && (size_t)back <= shared->at) {
        shared->at -= (size_t)back;
        show(stream);
    }
}

/* -- position ---------------------------------------------------------------------------------- */

/* Within the buffer nothing is written out first. */
static bool
seek_inside(aya_stream *stream, int64_t offset, int whence)
{
    aya_shared *shared = stream->shared;
    int64_t start = whence == SEEK_SET ? position_of(shared) - (int64_t)shared->at
                                       : -(int64_t)shared->at;

    if (whence == SEEK_END || ahead(shared) == 0 || offset < start
        || offset > start + (int64_t)shared->end) {
        return false;
    }
    shared->at = (size_t)(offset - start);
    show(stream);
    return true;
}

int64_t
aya_shared_seek(aya_stream *stream, int64_t offset, int whence)
{
    aya_shared *shared = stream->shared;
    int64_t result, base;

    if (!enter(stream)) {
        return AYA_PENDING;
    }
    if (stream->front_state == AYA_FRONT_IDLE) {
        /* Once only: writing out moves the place of the buffer in the file. */
        if (shared->step == STEP_START && seek_inside(stream, offset, whence)) {
            return stream->position;
        }
        result = write_out(stream);
        shared->step = result == AYA_PENDING ? STEP_SETTLE : STEP_START;
        if (result < 0) {
            return result;
        }
        show(stream);
    }
    base = aya_stream_seek_base(stream, whence);
    if (base < 0) {
        return base;
    }
    if (offset < -base || offset > INT64_MAX - base) {
        return -EINVAL;
    }
    start_at(stream, base + offset);
    return stream->position;
}
