/* What stream.c and shared.c have in common. Included by these two only; all of it runs in the
 * thread of stream->context.
 *
 * A shared stream is one that reads and appends. The built-in open() makes io.BufferedRandom of
 * it, whose one buffer and lazily moved descriptor show in what programs get; shared.c has the
 * same behaviour, and each call of stream.h on such a stream goes there.
 */
#ifndef AYA_SHARED_H
#define AYA_SHARED_H

#include "stream.h"

/* -- stream.c ---------------------------------------------------------------------------------- */

/* Which call a request of stream->front belongs to. */
enum {
    FRONT_OPEN,
    FRONT_LEARN,
    FRONT_FILL,
    FRONT_READ,
    FRONT_WRITE,
    FRONT_STAT,
    FRONT_EXTENT,
    FRONT_SYNC,
    FRONT_TRUNCATE,
    FRONT_CLOSE
};

/* Calls `function` by stream->guarded, if there is one. */
void aya_stream_guarded(aya_stream *stream, void (*function)(aya_stream *stream));
/* Runs stream->front.op for one call: its result, or AYA_PENDING. */
int64_t aya_stream_front_run(aya_stream *stream, uint8_t use);
/* Whether the call that uses the front for `use` has a result to take. */
bool aya_stream_front_take(aya_stream *stream, uint8_t use, int64_t *result);
/* Where a seek from `whence` starts; for the end of the file the file is asked. */
int64_t aya_stream_seek_base(aya_stream *stream, int whence);
int aya_stream_take_back_error(aya_stream *stream);

/* -- shared.c: the calls of stream.h that differ ----------------------------------------------- */

void aya_shared_release(aya_stream *stream);
void aya_shared_after_fork(aya_stream *stream);
bool aya_shared_dirty(const aya_stream *stream);

int64_t aya_shared_fill(aya_stream *stream);
int64_t aya_shared_peek(aya_stream *stream);
int64_t aya_shared_read1(aya_stream *stream, size_t most);
void aya_shared_consume(aya_stream *stream, size_t size);
int64_t aya_shared_read(aya_stream *stream, aya_reading how, void *buf, size_t size);
void aya_shared_unread(aya_stream *stream, const void *data, size_t size);
void aya_shared_forget(aya_stream *stream);
void aya_shared_drop(aya_stream *stream);

int64_t aya_shared_write(aya_stream *stream, const void *data, size_t size, size_t *done);
void aya_shared_withdraw(aya_stream *stream, size_t size);
int64_t aya_shared_drain(aya_stream *stream);
/* The same, and what was read stays in the buffer. */
int64_t aya_shared_write_out(aya_stream *stream);
int aya_shared_drain_blocking(aya_stream *stream);
/* Drains, and what was read ahead is forgotten: the descriptor's position is the stream's. */
int64_t aya_shared_settle(aya_stream *stream);
/* Nobody can write what is left. */
void aya_shared_give_up(aya_stream *stream);

int64_t aya_shared_seek(aya_stream *stream, int64_t offset, int whence);

#endif
