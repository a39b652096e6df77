/* A buffered byte stream over an aya_file: one position, a read window, write-behind.
 *
 * One command uses a stream at a time; the caller queues them. A call that cannot finish without
 * waiting returns AYA_PENDING: the caller repeats the same call after stream->wake() was called,
 * and the call goes on where it stopped. All else is >= 0 or -errno. All calls come from the
 * thread of stream->context, which the caller sets before each command. Where threads of several
 * contexts use a stream, the caller lets in one at a time, and sets `guarded`.
 */
#ifndef AYA_STREAM_H
#define AYA_STREAM_H

#include "aya.h"
#include "gather.h"

#define AYA_PENDING INT64_C(-0x7fff0010)

/* Bytes of a buffer that are still to be used: data[begin..end). */
typedef struct aya_run {
    char *data;
    size_t begin, end, room;
} aya_run;

typedef enum aya_front {
    AYA_FRONT_IDLE,
    AYA_FRONT_BUSY,   /* stream->front is started */
    AYA_FRONT_READY,  /* it has ended; the repeated call takes front.op.result */
} aya_front;

/* How a call reads. Only a shared stream tells them apart: what stays in its buffer differs. */
typedef enum aya_reading {
    AYA_READING_SIZE,      /* so many bytes, for the caller's result */
    AYA_READING_REST,      /* to the end of the file */
    AYA_READING_INTO,      /* so many bytes into the caller's buffer */
    AYA_READING_INTO_ONCE, /* the same, by one transfer at most */
} aya_reading;

typedef struct aya_shared aya_shared;
typedef struct aya_stream aya_stream;
struct aya_stream {
    aya_file file;
    aya_context *context;
    void (*wake)(aya_stream *stream);
    /* Calls `function` while no other thread uses the stream: for the end of what is in flight,
     * which comes in the thread of its own context. NULL where the caller sees to that. */
    void (*guarded)(aya_stream *stream, void (*function)(aya_stream *stream));
    /* Of an `owner` that a write named: called for each piece of its memory that is kept, and when
     * the piece is no longer used, in a thread that uses the stream. */
    void (*keep)(void *owner);
    aya_release release;
    size_t buffer_size;       /* of the window; 0: unbuffered */
    bool owns_handle;         /* close() closes it */
    int64_t position;         /* of the next byte that a command reads or writes; logical */
    aya_run window;           /* bytes read and not used; window.begin is at `position`; what lies
                                 before begin was used and may be gone back to */
    aya_gather gather;        /* bytes accepted and not handed to the system; they end at
                                 `position` */
    aya_gather behind;        /* bytes being written, or whose write failed; before `gather` */
    int64_t behind_at;        /* offset of the first of `behind`, where offsets mean something */
    int64_t own_position;     /* where the descriptor's own position is; -1: not known */
    aya_stat_raw *stat;       /* of a seek from the end, while it is under way */
    int64_t close_error;      /* of the drain before the close */
    bool close_drained;
    aya_shared *shared;       /* of a file that is read and appended to, else NULL */
    size_t block;             /* of the last transfer that filled the window or went past it */
    int64_t read_from, read_to; /* where that began and ended */
    bool met_end;             /* the last read did, by a transfer past the window */
    bool appended;            /* the system moved the descriptor's position by an append */
    size_t append_block;      /* the built-in's buffer for such a file; 0: not appended to */
    size_t append_held;       /* what it would hold of the appended bytes */
    bool append_passed;       /* it would have written some out: the position is at the end */
    aya_part direct;          /* what `front` writes from where it lies */
    aya_request front;        /* of the command under way */
    aya_request back;         /* writes `behind` */
    uint8_t front_state;      /* aya_front */
    uint8_t front_use;        /* which call it belongs to */
    bool back_busy;           /* `back` is started */
    int back_error;           /* why the last write of `behind` failed and nobody was told, or 0 */
    unsigned generation;      /* aya_fork_generation() of what is buffered and in flight */
};

/* How a file is opened; the arguments of the operation. */
typedef struct aya_open {
    const aya_path_char *path;
    aya_open_access access;
    bool append, create, exclusive, truncate;
    uint32_t permissions;
} aya_open;

/* Opens: the handle. Before aya_stream_init(). Where stream->file.handle is that afterwards the
 * file is filled already, as by aya_file_init_opened(). */
int64_t aya_stream_open(aya_stream *stream, const aya_open *how);
/* Lets a backend look at a descriptor whose mount is not known: 0 or -errno. Before
 * aya_stream_init(). */
int64_t aya_stream_learn(aya_stream *stream, aya_handle handle);

/* `stream` is zeroed; its file is filled by aya_file_init(). Position: the descriptor's own. */
void aya_stream_init(aya_stream *stream, size_t buffer_size, bool owns_handle);
/* What differs between releases of CPython. */
#define AYA_SHARED_READ1_FLUSHES 1u /* read1() and text reads write out first what was written */
#define AYA_SHARED_FULL_DIRECT 2u   /* a write of a whole buffer goes past the buffer */

/* A file that is read and appended to (file.append) keeps both in one buffer of `buffer_size`
 * bytes, exactly as the built-in open() does. After aya_stream_init(). 0 or -ENOMEM. */
int aya_stream_share(aya_stream *stream, size_t buffer_size, unsigned rules);
/* Frees the buffers; nothing is in flight. */
void aya_stream_release(aya_stream *stream);

/* Whether bytes were accepted that the system does not have yet. */
bool aya_stream_dirty(const aya_stream *stream);

/* Fills an empty window by one block: how many bytes it has now; 0 at end of file. Returns at
 * once what a window that is not empty holds. */
int64_t aya_stream_fill(aya_stream *stream);
/* The same, by at most `most` bytes. In a shared stream they bypass the buffer: the caller
 * consumes all of them before the command ends. */
int64_t aya_stream_fill_most(aya_stream *stream, size_t most);
/* As aya_stream_fill(), for a caller that consumes nothing. */
int64_t aya_stream_peek(aya_stream *stream);
static inline size_t
aya_stream_window(const aya_stream *stream, const char **data)
{
    *data = stream->window.data + stream->window.begin;
    return stream->window.end - stream->window.begin;
}
void aya_stream_consume(aya_stream *stream, size_t size);

/* Reads some bytes into buf: from the window, else by one transfer (large ones without the
 * window). 0 at end of file. A shared stream gives fewer than asked only at the end of the file
 * (or where one transfer was asked for). buf must stay until the call has ended (front_state
 * IDLE). */
int64_t aya_stream_read(aya_stream *stream, aya_reading how, void *buf, size_t size);

/* Takes back what was read last: `size` bytes before the position, which are `data`; NULL where the
 * caller does not have them and the file is positioned. 0 or -errno. */
int aya_stream_unread(aya_stream *stream, const void *data, size_t size);

/* Accepts data[*done..size); *done tells how far it came. 0 when all is accepted. Data stays the
 * caller's until the call has ended. `owner`: what keeps the data alive and unchanged, for a stream
 * that would rather keep than copy it; NULL where that cannot be promised. */
int64_t aya_stream_write(aya_stream *stream, const void *data, size_t size, void *owner,
                         size_t *done);

/* Accepts all of data[0..size) where it is small and there is room: true. False: nothing is done,
 * and aya_stream_write() sees to it. */
bool aya_stream_accept(aya_stream *stream, const void *data, size_t size);

/* Whether what was handed over so far has arrived: 0, AYA_PENDING or the error. What is still
 * gathered is not waited for. */
int64_t aya_stream_arrived(aya_stream *stream);

/* Takes back the last `size` accepted bytes, as far as the system has not got them: the command
 * that gave them fails. */
void aya_stream_withdraw(aya_stream *stream, size_t size);

/* Hands all accepted bytes to the system. On an error they stay, and the next call tries again. */
int64_t aya_stream_drain(aya_stream *stream);
/* Drains, and sets the descriptor's own position to the stream's. */
int64_t aya_stream_flush(aya_stream *stream);

/* Flushes, and makes what was written durable. */
int64_t aya_stream_sync(aya_stream *stream);

/* whence as in lseek(), AYA_SEEK_DATA and AYA_SEEK_HOLE included; the new position. */
int64_t aya_stream_seek(aya_stream *stream, int64_t offset, int whence);
/* The position; drains only what was appended. -ESPIPE where there is none. */
int64_t aya_stream_tell(aya_stream *stream);
int64_t aya_stream_truncate(aya_stream *stream, int64_t size);
/* Drains and closes (the handle only if owned). The handle is given back in any case; the
 * drain's error is returned when that is done. */
int64_t aya_stream_close(aya_stream *stream);

/* Ends the command under way early: cancels what is in flight, but for the close of the handle.
 * wake() comes when it has ended. */
void aya_stream_cancel(aya_stream *stream);
/* The command under way was given up and nothing of it is in flight: forgets its result. */
void aya_stream_forget(aya_stream *stream);

/* Drops what the window holds, where it can be read again. */
void aya_stream_drop(aya_stream *stream);
/* In a child of a fork: what was buffered or in flight is the parent's. */
void aya_stream_after_fork(aya_stream *stream);

/* For an end without a loop: writes out what was accepted by blocking calls. 0 or -errno. */
int aya_stream_drain_blocking(aya_stream *stream);

#endif
