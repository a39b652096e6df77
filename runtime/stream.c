/* A buffered byte stream over an aya_file; see stream.h. No Python, no waiting, no locks: the
 * caller lets one command at a time in. Two requests are all it needs: `front` of the command
 * under way and `back`, which writes out what was accepted while the command's caller goes on.
 */
#include "buffers.h"
#include "internal.h"
#include "shared.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* A block of an unbuffered stream that must look ahead (a line). */
#define SMALL_BLOCK 8192
/* The longest transfer of an unbuffered stream that has no offsets. */
#define UNBUFFERED_MOST ((size_t)1 << 20)
/* The first block of a stream, and the one behind a seek; each further one is twice as long. */
#define FIRST_BLOCK 4096
/* A read of as much goes past the window: to copy it once more would cost more than the call. */
#define DIRECT_LEAST 32768
/* What is smaller is copied: that costs no more than keeping it. */
#define KEEP_LEAST 16384
/* What is larger waits until it has arrived. */
#define KEEP_MOST ((size_t)1 << 20)
/* What may gather while a run is being written; a write beyond it waits. */
#define GATHER_MOST ((size_t)4 << 20)

/* -- runs -------------------------------------------------------------------------------------- */

static size_t
run_length(const aya_run *run)
{
    return run->end - run->begin;
}

/* Room in a run that is empty. */
static int
run_reserve(aya_run *run, size_t room)
{
    if (run->room >= room) {
        return 0;
    }
    aya_buffer_give(run->data, run->room);
    *run = (aya_run){.data = aya_buffer_take(room)};
    if (run->data == NULL) {
        return -ENOMEM;
    }
    run->room = room;
    return 0;
}

static void
run_clear(aya_run *run)
{
    run->begin = run->end = 0;
}

static void
run_free(aya_run *run)
{
    aya_buffer_give(run->data, run->room);
    *run = (aya_run){0};
}

/* -- life -------------------------------------------------------------------------------------- */

void
aya_stream_init(aya_stream *stream, size_t buffer_size, bool owns_handle)
{
    stream->buffer_size = buffer_size;
    stream->owns_handle = owns_handle;
    stream->generation = aya_fork_generation();
    stream->own_position = stream->read_to = -1;
    if (stream->file.positioned) {
        int64_t position = stream->file.at_start ? 0 : aya_file_position(&stream->file);
        stream->own_position = position;
        stream->position = position < 0 ? 0 : position;
    }
}

void
aya_stream_release(aya_stream *stream)
{
    if (stream->shared != NULL) {
        aya_shared_release(stream);
    }
    run_free(&stream->window);
    aya_gather_free(&stream->gather, stream->release);
    aya_gather_free(&stream->behind, stream->release);
    free(stream->stat);
    stream->stat = NULL;
}

void
aya_stream_after_fork(aya_stream *stream)
{
    stream->generation = aya_fork_generation();
    aya_gather_clear(&stream->gather, stream->release);
    aya_gather_clear(&stream->behind, stream->release);
    if (stream->shared != NULL) {
        aya_shared_after_fork(stream);
    }
    stream->back_busy = false;
    stream->back_error = 0;
    stream->front_state = AYA_FRONT_IDLE;
    stream->front.state = stream->back.state = AYA_STATE_IDLE;
    stream->file.in_flight = 0;
    stream->file.fenced = false;
    aya_link_init(&stream->file.held);
}

bool
aya_stream_dirty(const aya_stream *stream)
{
    if (stream->shared != NULL) {
        return stream->back_busy || aya_shared_dirty(stream);
    }
    return stream->back_busy || stream->behind.size > 0 || stream->gather.size > 0;
}

/* -- front ------------------------------------------------------------------------------------- */

void
aya_stream_guarded(aya_stream *stream, void (*function)(aya_stream *stream))
{
    if (stream->guarded == NULL) {
        function(stream);
    } else {
        stream->guarded(stream, function);
    }
}

static void
front_ended(aya_stream *stream)
{
    stream->front_state = AYA_FRONT_READY;
    stream->wake(stream);
}

static void
front_done(aya_request *request)
{
    aya_stream_guarded((aya_stream *)((char *)request - offsetof(aya_stream, front)), front_ended);
}

int64_t
aya_stream_front_run(aya_stream *stream, uint8_t use)
{
    if (aya_try(stream->context, &stream->front)) {
        return stream->front.op.result;
    }
    stream->front.done = front_done;
    stream->front_use = use;
    stream->front_state = AYA_FRONT_BUSY;
    aya_start(stream->context, &stream->front);
    return AYA_PENDING;
}

bool
aya_stream_front_take(aya_stream *stream, uint8_t use, int64_t *result)
{
    if (stream->front_state != AYA_FRONT_READY || stream->front_use != use) {
        return false;
    }
    stream->front_state = AYA_FRONT_IDLE;
    *result = stream->front.op.result;
    return true;
}

int64_t
aya_stream_open(aya_stream *stream, const aya_open *how)
{
    int64_t result;

    if (aya_stream_front_take(stream, FRONT_OPEN, &result)) {
        return result;
    }
    if (stream->front_state == AYA_FRONT_BUSY) {
        return AYA_PENDING;
    }
    aya_op_open(&stream->front.op, how->path, how->access, how->append, how->create, how->exclusive,
                how->truncate, how->permissions);
    stream->front.op.buf = &stream->file;
    return aya_stream_front_run(stream, FRONT_OPEN);
}

int64_t
aya_stream_learn(aya_stream *stream, aya_handle handle)
{
    int64_t result = 0;

    if (!aya_stream_front_take(stream, FRONT_LEARN, &result)) {
        if (stream->front_state == AYA_FRONT_BUSY) {
            return AYA_PENDING;
        }
        stream->stat = malloc(sizeof(*stream->stat));
        if (stream->stat == NULL) {
            return -ENOMEM;
        }
        result = aya_file_init(&stream->file, handle);
        if (result == 0) {
            aya_op_stat(&stream->front.op, &stream->file, stream->stat);
            result = aya_stream_front_run(stream, FRONT_LEARN);
        }
    }
    if (result != AYA_PENDING) {
        free(stream->stat);
        stream->stat = NULL;
        aya_file_release(&stream->file);
    }
    return result;
}

void
aya_stream_cancel(aya_stream *stream)
{
    /* A close that was started while the last write is under way has to follow it. */
    if (stream->front_state == AYA_FRONT_BUSY && stream->front_use != FRONT_CLOSE) {
        aya_cancel(&stream->front);
    }
}

/* Puts what a fill got into the window. */
static void
window_filled(aya_stream *stream, int64_t result)
{
    stream->window.begin = 0;
    stream->window.end = result > 0 ? (size_t)result : 0;
}

void
aya_stream_forget(aya_stream *stream)
{
    if (stream->shared != NULL) {
        aya_shared_forget(stream);
    }
    if (stream->front_state != AYA_FRONT_READY) {
        return;
    }
    stream->front_state = AYA_FRONT_IDLE;
    if (stream->front_use == FRONT_FILL && stream->shared == NULL) {
        window_filled(stream, stream->front.op.result);
    }
}

/* -- writing ----------------------------------------------------------------------------------- */

/* Whether a write says where it goes. */
static bool
writes_at(aya_stream *stream)
{
    bool at = stream->file.positioned && !stream->file.append;

    stream->appended = stream->appended || !at;
    return at;
}

static void
set_behind(aya_stream *stream)
{
    aya_parts parts = aya_gather_all(&stream->behind);

    if (writes_at(stream)) {
        aya_op_writev_at(&stream->back.op, &stream->file, stream->behind_at, parts);
    } else {
        aya_op_writev(&stream->back.op, &stream->file, parts);
    }
}

static void
back_ended(aya_stream *stream)
{
    const aya_op *op = &stream->back.op;
    size_t moved = op->result < 0 ? (size_t)op->done : stream->behind.size;

    stream->back_busy = false;
    aya_gather_drop_first(&stream->behind, moved, stream->release);
    stream->behind_at += (int64_t)moved;
    if (op->result < 0 && op->result != -ECANCELED) {
        stream->back_error = (int)op->result;
    }
}

static void back_done(aya_request *request);

/* Writes `behind`, which is not empty. */
static void
back_run(aya_stream *stream, aya_context *context)
{
    set_behind(stream);
    stream->back_busy = true;
    if (aya_try(context, &stream->back)) {
        back_ended(stream);
        return;
    }
    stream->back.done = back_done;
    aya_start(context, &stream->back);
}

/* Makes what was gathered the run to be written; `behind` is empty. */
static void
hand_over_gathered(aya_stream *stream)
{
    aya_gather empty = stream->behind;

    stream->behind = stream->gather;
    stream->gather = empty;
    stream->behind_at = stream->position - (int64_t)stream->behind.size;
}

/* Once a buffer full has gathered it is written, unless an earlier one still is. */
static void
write_behind(aya_stream *stream, aya_context *context)
{
    if (stream->gather.size >= stream->buffer_size && stream->gather.size > 0 && !stream->back_busy
        && stream->behind.size == 0) {
        hand_over_gathered(stream);
        back_run(stream, context);
    }
}

static void
back_goes_on(aya_stream *stream)
{
    back_ended(stream);
    write_behind(stream, stream->back.context);
    stream->wake(stream);
}

static void
back_done(aya_request *request)
{
    aya_stream_guarded((aya_stream *)((char *)request - offsetof(aya_stream, back)), back_goes_on);
}

int
aya_stream_take_back_error(aya_stream *stream)
{
    int error = stream->back_error;

    stream->back_error = 0;
    return error;
}

/* An append went to the end of the file, wherever the position was. */
static void
find_appended_position(aya_stream *stream)
{
    stream->appended = false;
    if (stream->file.positioned) {
        run_clear(&stream->window);
        stream->own_position = aya_file_position(&stream->file);
        stream->position = stream->own_position;
    }
}

int64_t
aya_stream_drain(aya_stream *stream)
{
    if (stream->shared != NULL) {
        return aya_shared_drain(stream);
    }
    while (aya_stream_dirty(stream)) {
        if (stream->back_busy) {
            return AYA_PENDING;
        }
        if (stream->back_error != 0) {
            return aya_stream_take_back_error(stream);
        }
        if (stream->behind.size == 0) {
            hand_over_gathered(stream);
        }
        back_run(stream, stream->context);
    }
    if (stream->appended) {
        find_appended_position(stream);
    }
    stream->append_passed = false;
    stream->append_held = 0;
    return 0;
}

static void
sync_own_position(aya_stream *stream)
{
    if (stream->file.positioned && stream->own_position != stream->position
        && aya_file_set_position(&stream->file, stream->position) == 0) {
        stream->own_position = stream->position;
    }
}

int64_t
aya_stream_flush(aya_stream *stream)
{
    int64_t result = stream->shared != NULL ? aya_shared_settle(stream) : aya_stream_drain(stream);

    if (result == 0) {
        sync_own_position(stream);
    }
    return result;
}

int64_t
aya_stream_sync(aya_stream *stream)
{
    int64_t result;

    if (aya_stream_front_take(stream, FRONT_SYNC, &result)) {
        return result;
    }
    if (stream->front_state == AYA_FRONT_BUSY) {
        return AYA_PENDING;
    }
    result = aya_stream_flush(stream);
    if (result < 0) {
        return result;
    }
    aya_op_fsync(&stream->front.op, &stream->file, false);
    return aya_stream_front_run(stream, FRONT_SYNC);
}

/* Whether the stream keeps the data instead of copying it. Where the system wants memory aligned
 * nothing is put together. */
static bool
is_kept(const aya_stream *stream, size_t size, const void *owner)
{
    return owner != NULL && size >= KEEP_LEAST
           && (size <= stream->buffer_size || (size <= KEEP_MOST && stream->buffer_size > 0))
           && stream->file.kind == AYA_FILE_REGULAR && !stream->file.direct;
}

/* Whether nothing more can be gathered before what is behind has been written. */
static bool
is_full(const aya_stream *stream, bool kept)
{
    const aya_gather *gather = &stream->gather;
    size_t most = stream->buffer_size > GATHER_MOST ? stream->buffer_size : GATHER_MOST;

    if (!stream->back_busy) {
        most = stream->buffer_size;
    }
    return gather->size >= most || (!kept && gather->block_end == stream->buffer_size);
}

static int
gather(aya_stream *stream, const char *data, size_t size, void *owner, size_t *done)
{
    int64_t count = (int64_t)size;

    if (owner != NULL) {
        int error = aya_gather_add(&stream->gather, data, size, owner);
        if (error < 0) {
            return error;
        }
        stream->keep(owner);
    } else {
        count = aya_gather_copy(&stream->gather, stream->buffer_size, data + *done, size - *done);
        if (count < 0) {
            return (int)count;
        }
    }
    stream->position += count;
    *done += (size_t)count;
    return 0;
}

/* Past the page cache a write is a backend's, in one; all else the pool's, as what has gathered. */
static void
set_direct(aya_stream *stream, const void *data, size_t size)
{
    aya_op *op = &stream->front.op;
    bool at = writes_at(stream);

    stream->direct = (aya_part){.data = data, .size = size};
    aya_parts parts = {.list = &stream->direct, .count = 1, .size = size};
    if (at && stream->file.direct) {
        aya_op_write_at(op, &stream->file, stream->position, data, size);
    } else if (at) {
        aya_op_writev_at(op, &stream->file, stream->position, parts);
    } else {
        aya_op_writev(op, &stream->file, parts);
    }
}

/* Writes data from where it lies; what was accepted before goes first. 0: go on from *done. */
static int64_t
write_directly(aya_stream *stream, const char *data, size_t size, size_t *done)
{
    int64_t result;

    if (!aya_stream_front_take(stream, FRONT_WRITE, &result)) {
        result = aya_stream_drain(stream);
        if (result < 0) {
            return result;
        }
        set_direct(stream, data + *done, size - *done);
        result = aya_stream_front_run(stream, FRONT_WRITE);
        if (result == AYA_PENDING) {
            return result;
        }
    }
    size_t moved = (size_t)(result < 0 ? stream->front.op.done : result);
    *done += moved;
    stream->position += (int64_t)moved;
    if (stream->appended) {
        find_appended_position(stream);
    }
    return result < 0 ? result : 0;
}

int64_t
aya_stream_arrived(aya_stream *stream)
{
    return stream->back_busy ? AYA_PENDING : aya_stream_take_back_error(stream);
}

void
aya_stream_withdraw(aya_stream *stream, size_t size)
{
    aya_gather *runs[] = {&stream->gather, &stream->behind};

    if (stream->shared != NULL) {
        aya_shared_withdraw(stream, size);
        return;
    }
    for (int i = 0; i < 2 && !(i == 1 && stream->back_busy); i++) {
        size_t count = size < runs[i]->size ? size : runs[i]->size;
        aya_gather_drop_last(runs[i], count, stream->release);
        size -= count;
        stream->position -= (int64_t)count;
    }
    aya_stream_drop(stream);
}

/* What the built-in would have of the appended bytes in its own, smaller buffer: where it had to
 * write some out, its position has gone to the end of the file. */
static void
count_appended(aya_stream *stream, size_t size)
{
    if (size > stream->append_block - stream->append_held) {
        stream->append_passed = true;
        stream->append_held = size > stream->append_block ? 0 : size;
    } else {
        stream->append_held += size;
    }
}

/* The way of nearly all small writes. A read window is empty where something has gathered. */
bool
aya_stream_accept(aya_stream *stream, const void *data, size_t size)
{
    aya_gather *gather = &stream->gather;

    if (gather->count == 0 || stream->front_state != AYA_FRONT_IDLE || stream->back_error != 0
        || stream->append_block > 0 || gather->size + size >= stream->buffer_size
        || gather->block_end + size >= stream->buffer_size) {
        return false;
    }
    aya_part *last = &gather->parts[gather->count - 1];
    if (last->owner != NULL) {
        return false;
    }
    memcpy(gather->block + gather->block_end, data, size);
    gather->block_end += size;
    gather->size += size;
    last->size += size;
    stream->position += (int64_t)size;
    return true;
}

int64_t
aya_stream_write(aya_stream *stream, const void *data, size_t size, void *owner, size_t *done)
{
    int64_t result;
    bool kept;

    if (stream->shared != NULL) {
        return aya_shared_write(stream, data, size, done);
    }
    aya_stream_drop(stream);
    kept = is_kept(stream, size, owner);
    while (*done < size) {
        if (stream->front_state == AYA_FRONT_BUSY) {
            return AYA_PENDING;
        }
        if (stream->front_state == AYA_FRONT_READY
            || (size - *done >= stream->buffer_size && !kept)) {
            result = write_directly(stream, data, size, done);
        } else if (stream->back_error != 0) {
            result = aya_stream_take_back_error(stream);
        } else if (!is_full(stream, kept)) {
            result = gather(stream, data, size, kept ? owner : NULL, done);
        } else if (stream->back_busy) {
            result = AYA_PENDING;
        } else {
            if (stream->behind.size == 0) {
                hand_over_gathered(stream);
            }
            back_run(stream, stream->context);
            result = 0;
        }
        if (result < 0) {
            return result;
        }
    }
    if (stream->append_block > 0) {
        count_appended(stream, size);
    }
    if (stream->buffer_size == 0) {
        return aya_stream_flush(stream);
    }
    write_behind(stream, stream->context);
    return 0;
}

int
aya_stream_drain_blocking(aya_stream *stream)
{
    if (stream->shared != NULL) {
        return aya_shared_drain_blocking(stream);
    }
    while (!stream->back_busy && aya_stream_dirty(stream)) {
        aya_op *op = &stream->back.op;
        if (stream->behind.size == 0) {
            hand_over_gathered(stream);
        }
        set_behind(stream);
        while (aya_settle(op, aya_threads_call(op)) != AYA_VERDICT_DONE) {
        }
        back_ended(stream);
        if (stream->back_error != 0) {
            return aya_stream_take_back_error(stream);
        }
    }
    return 0;
}

/* -- reading ----------------------------------------------------------------------------------- */

void
aya_stream_drop(aya_stream *stream)
{
    if (stream->shared != NULL) {
        aya_shared_drop(stream);
    } else if (stream->file.positioned) {
        run_clear(&stream->window);
    }
}

void
aya_stream_consume(aya_stream *stream, size_t size)
{
    if (stream->shared != NULL) {
        aya_shared_consume(stream, size);
        return;
    }
    assert(size <= run_length(&stream->window));
    stream->window.begin += size;
    stream->position += (int64_t)size;
}

static void
set_read(aya_stream *stream, void *buf, size_t size)
{
    if (stream->file.positioned) {
        aya_op_read_at(&stream->front.op, &stream->file, stream->position, (int64_t)size, buf,
                       size);
    } else {
        aya_op_read(&stream->front.op, &stream->file, (int64_t)size, buf, size);
    }
    stream->front.grow = NULL;
}

/* How much the next transfer takes: little at first and behind a seek, more and more while one
 * goes on where the last one ended, or goes back into it: that will be done again. */
static size_t
next_block(aya_stream *stream)
{
    size_t most = stream->buffer_size > 0 ? stream->buffer_size : SMALL_BLOCK;
    size_t block = stream->block * 2;

    if (!stream->file.positioned) {
        return most;
    }
    if (stream->position < stream->read_from || stream->position > stream->read_to
        || block < FIRST_BLOCK) {
        block = FIRST_BLOCK;
    }
    return block < most ? block : most;
}

/* A transfer of `block` bytes at most has moved `moved`. */
static void
moved_on(aya_stream *stream, size_t block, int64_t moved)
{
    stream->block = block;
    stream->read_from = stream->position;
    stream->read_to = stream->position + (moved > 0 ? moved : 0);
}

int64_t
aya_stream_fill_most(aya_stream *stream, size_t most)
{
    int64_t result;

    if (stream->shared != NULL) {
        return aya_shared_read1(stream, most);
    }
    if (!aya_stream_front_take(stream, FRONT_FILL, &result)) {
        if (stream->front_state == AYA_FRONT_BUSY) {
            return AYA_PENDING;
        }
        if (run_length(&stream->window) > 0) {
            return (int64_t)run_length(&stream->window);
        }
        result = aya_stream_drain(stream);
        if (result < 0) {
            return result;
        }
        run_clear(&stream->window);
        if (run_reserve(&stream->window, most) < 0) {
            return -ENOMEM;
        }
        set_read(stream, stream->window.data, most);
        result = aya_stream_front_run(stream, FRONT_FILL);
        if (result == AYA_PENDING) {
            return result;
        }
    }
    window_filled(stream, result);
    moved_on(stream, stream->block, result);
    return result;
}

int64_t
aya_stream_fill(aya_stream *stream)
{
    if (stream->shared != NULL) {
        return aya_shared_fill(stream);
    }
    if (stream->front_state == AYA_FRONT_IDLE && run_length(&stream->window) == 0) {
        stream->block = next_block(stream);
    }
    return aya_stream_fill_most(stream, stream->block);
}

int64_t
aya_stream_peek(aya_stream *stream)
{
    return stream->shared != NULL ? aya_shared_peek(stream) : aya_stream_fill(stream);
}

static int64_t
take_window(aya_stream *stream, void *buf, size_t size)
{
    size_t count = run_length(&stream->window);

    if (count > size) {
        count = size;
    }
    memcpy(buf, stream->window.data + stream->window.begin, count);
    aya_stream_consume(stream, count);
    return (int64_t)count;
}

/* A transfer past the window has ended: what is less than was asked is all there is. */
static int64_t
read_directly(aya_stream *stream, int64_t result)
{
    stream->met_end = result >= 0 && (uint64_t)result < (uint64_t)aya_op_total(&stream->front.op);
    moved_on(stream, stream->block, result);
    stream->position += result > 0 ? result : 0;
    return result;
}

int64_t
aya_stream_read(aya_stream *stream, aya_reading how, void *buf, size_t size)
{
    int64_t result;

    stream->met_end = false;
    if (stream->shared != NULL) {
        return aya_shared_read(stream, how, buf, size);
    }
    if (aya_stream_front_take(stream, FRONT_READ, &result)) {
        return read_directly(stream, result);
    }
    if (stream->front_state == AYA_FRONT_BUSY) {
        return AYA_PENDING;
    }
    if (run_length(&stream->window) > 0 && stream->front_state == AYA_FRONT_IDLE) {
        return take_window(stream, buf, size);
    }
    if (!stream->file.positioned) {
        /* Through the window always: what a cancelled read has taken from a pipe must not be
         * lost. */
        size_t most = stream->buffer_size > 0 ? stream->buffer_size : size;
        result = aya_stream_fill_most(stream, most < UNBUFFERED_MOST ? most : UNBUFFERED_MOST);
        return result <= 0 ? result : take_window(stream, buf, size);
    }
    size_t block = next_block(stream);
    if (stream->front_state != AYA_FRONT_IDLE
        || (size < block && size < DIRECT_LEAST && stream->buffer_size > 0)) {
        result = aya_stream_fill(stream);
        return result <= 0 ? result : take_window(stream, buf, size);
    }
    result = aya_stream_drain(stream);
    if (result < 0) {
        return result;
    }
    run_clear(&stream->window);
    stream->block = block;
    set_read(stream, buf, size);
    result = aya_stream_front_run(stream, FRONT_READ);
    return result == AYA_PENDING ? result : read_directly(stream, result);
}

int
aya_stream_unread(aya_stream *stream, const void *data, size_t size)
{
    aya_run *window = &stream->window;

    if (stream->shared != NULL) {
        aya_shared_unread(stream, data, size);
        return 0;
    }
    if (window->begin >= size
        && memcmp(window->data + window->begin - size, data, size) == 0) {
        window->begin -= size;
    } else if (stream->file.positioned) {
        run_clear(window);
    } else {
        size_t rest = run_length(window);
        char *whole = malloc(size + rest + 1);
        if (whole == NULL) {
            return -ENOMEM;
        }
        memcpy(whole, data, size);
        if (rest > 0) {
            memcpy(whole + size, window->data + window->begin, rest);
        }
        aya_buffer_give(window->data, window->room);
        *window = (aya_run){.data = whole, .end = size + rest, .room = size + rest + 1};
    }
    stream->position -= (int64_t)size;
    return 0;
}

/* -- position ---------------------------------------------------------------------------------- */

int64_t
aya_stream_tell(aya_stream *stream)
{
    if (stream->append_passed) {
        int64_t result = aya_stream_drain(stream);
        if (result < 0) {
            return result;
        }
    }
    if (stream->shared != NULL && stream->back_busy) {
        return AYA_PENDING;
    }
    return stream->file.positioned ? stream->position : -ESPIPE;
}

int64_t
aya_stream_seek_base(aya_stream *stream, int whence)
{
    int64_t result;
    aya_stat known;

    if (whence == SEEK_SET) {
        return 0;
    }
    if (whence == SEEK_CUR) {
        return stream->position;
    }
    if (!aya_stream_front_take(stream, FRONT_STAT, &result)) {
        if (stream->stat == NULL && (stream->stat = malloc(sizeof(*stream->stat))) == NULL) {
            return -ENOMEM;
        }
        aya_op_stat(&stream->front.op, &stream->file, stream->stat);
        result = aya_stream_front_run(stream, FRONT_STAT);
    }
    if (result >= 0) {
        aya_stat_decode(stream->stat, &known);
        result = (int64_t)known.size;
    }
    if (result != AYA_PENDING) {
        free(stream->stat);
        stream->stat = NULL;
    }
    return result;
}

/* To the next data or hole: the file moves its descriptor there, and what was read is dropped. */
static int64_t
seek_extent(aya_stream *stream, int64_t offset, bool hole)
{
    int64_t result;

    if (!aya_stream_front_take(stream, FRONT_EXTENT, &result)) {
        if (stream->front_state == AYA_FRONT_BUSY) {
            return AYA_PENDING;
        }
        result = stream->shared != NULL ? aya_shared_write_out(stream) : aya_stream_drain(stream);
        if (result < 0) {
            return result;
        }
        aya_op_seek_extent(&stream->front.op, &stream->file, offset, hole);
        result = aya_stream_front_run(stream, FRONT_EXTENT);
    }
    if (result >= 0) {
        stream->own_position = stream->position = result;
        aya_stream_drop(stream);
    }
    return result;
}

int64_t
aya_stream_seek(aya_stream *stream, int64_t offset, int whence)
{
    int64_t result, base, start;

    if (whence == AYA_SEEK_DATA || whence == AYA_SEEK_HOLE) {
        return seek_extent(stream, offset, whence == AYA_SEEK_HOLE);
    }
    if (whence != SEEK_SET && whence != SEEK_CUR && whence != SEEK_END) {
        return -EINVAL;
    }
    if (stream->shared != NULL) {
        return aya_shared_seek(stream, offset, whence);
    }
    if (stream->front_state == AYA_FRONT_BUSY) {
        return AYA_PENDING;
    }
    if (stream->front_state == AYA_FRONT_IDLE) {
        result = aya_stream_drain(stream);
        if (result < 0) {
            return result;
        }
    }
    if (!stream->file.positioned) {
        return -ESPIPE;
    }
    base = aya_stream_seek_base(stream, whence);
    if (base < 0) {
        return base;
    }
    if (offset < -base || offset > INT64_MAX - base) {
        return -EINVAL;
    }
    start = stream->position - (int64_t)stream->window.begin;
    stream->position = base + offset;
    if (whence == SEEK_END || stream->position < start
        || stream->position > start + (int64_t)stream->window.end) {
        run_clear(&stream->window);
    } else {
        stream->window.begin = (size_t)(stream->position - start);
    }
    if (stream->buffer_size == 0) {
        sync_own_position(stream);
    }
    return stream->position;
}

int64_t
aya_stream_truncate(aya_stream *stream, int64_t size)
{
    int64_t result;

    if (aya_stream_front_take(stream, FRONT_TRUNCATE, &result)) {
        return result;
    }
    if (stream->front_state == AYA_FRONT_BUSY) {
        return AYA_PENDING;
    }
    result = aya_stream_drain(stream);
    if (result < 0) {
        return result;
    }
    aya_stream_drop(stream);
    aya_op_truncate(&stream->front.op, &stream->file, size);
    return aya_stream_front_run(stream, FRONT_TRUNCATE);
}

/* -- close ------------------------------------------------------------------------------------- */

/* The drain before a close has ended. */
static void
drained_before_close(aya_stream *stream, int64_t result)
{
    stream->close_error = result;
    stream->close_drained = true;
    if (result < 0) {
        /* The system has refused them; nobody can ask again. */
        aya_gather_clear(&stream->gather, stream->release);
        aya_gather_clear(&stream->behind, stream->release);
        if (stream->shared != NULL) {
            aya_shared_give_up(stream);
        }
    } else if (!stream->owns_handle) {
        sync_own_position(stream);
    }
    aya_file_release(&stream->file);
}

/* Whether the close may be started while the last of what was accepted is still being written: it
 * is held until that has ended, and then served by who wrote. */
static bool
closes_behind_write(const aya_stream *stream)
{
    return stream->shared == NULL && stream->owns_handle && stream->back_busy
           && stream->gather.size == 0 && stream->file.io == stream->file.handle;
}

int64_t
aya_stream_close(aya_stream *stream)
{
    int64_t result;

    if (aya_stream_front_take(stream, FRONT_CLOSE, &result)) {
        if (!stream->close_drained) {
            drained_before_close(stream, aya_stream_take_back_error(stream));
        }
        stream->file.handle = stream->file.io = AYA_NO_HANDLE;
        return stream->close_error < 0 ? stream->close_error : result;
    }
    if (stream->front_state == AYA_FRONT_BUSY) {
        return AYA_PENDING;
    }
    if (!stream->close_drained) {
        result = aya_stream_drain(stream);
        if (result == AYA_PENDING && closes_behind_write(stream)) {
            aya_op_close(&stream->front.op, &stream->file);
            return aya_stream_front_run(stream, FRONT_CLOSE);
        }
        if (result == AYA_PENDING) {
            return result;
        }
        drained_before_close(stream, result);
    }
    if (!stream->owns_handle) {
        return stream->close_error;
    }
    if (stream->file.in_flight == 0 && aya_file_close_inline(&stream->file)) {
        stream->file.handle = stream->file.io = AYA_NO_HANDLE;
        return stream->close_error;
    }
    aya_op_close(&stream->front.op, &stream->file);
    return aya_stream_front_run(stream, FRONT_CLOSE);
}
