/* libaya: asynchronous file operations without Python.
 *
 * A caller makes an aya_context for a thread, fills an aya_request by a generated constructor
 * (aya_op_read_at(&request.op, ...)), starts it and is called back by aya_context_reap() in the
 * same thread. Everything here is called from the context's thread unless a comment says
 * otherwise. C returns >= 0 or -errno.
 */
#ifndef AYA_H
#define AYA_H

#include "aya_platform.h"
#include "aya_ops.h"
#include "aya_config.h"

#include <time.h>

typedef struct aya_context aya_context;
typedef struct aya_request aya_request;

/* A clock that no setting of the time moves, in nanoseconds; any thread. */
static inline int64_t
aya_now_ns(void)
{
    struct timespec now;

    clock_gettime(CLOCK_MONOTONIC, &now);
    return (int64_t)now.tv_sec * 1000000000 + now.tv_nsec;
}

/* What a file is, as far as it decides how it can be used without waiting. */
typedef enum aya_file_kind {
    AYA_FILE_REGULAR,   /* positioned, never ready "later" */
    AYA_FILE_POLLABLE,  /* pipes, FIFOs, terminals, sockets: reads and writes wait for readiness */
    AYA_FILE_DEVICE,    /* other devices and special files: blocking calls in the pool */
    AYA_FILE_DIRECTORY,
} aya_file_kind;

/* How a read is tried inline. */
typedef enum aya_inline_mode {
    AYA_INLINE_NEVER,   /* every call goes to a backend */
    AYA_INLINE_NOWAIT,  /* the system has a call that gives EAGAIN instead of waiting */
    AYA_INLINE_PLAIN,   /* the plain call never waits (a filesystem in memory) */
} aya_inline_mode;

/* A place in a circular list whose head is an aya_link too; alone it points at itself. */
typedef struct aya_link {
    struct aya_link *next, *prev;
} aya_link;

/* How a file is read; habit.c. */
typedef struct aya_habit {
    uint8_t streak;           /* what `skip` was set to last; 0: the last read was cached */
    uint8_t skip;             /* reads that are not to be tried inline */
    uint8_t jumps;
    bool random;              /* the system was told so */
    int64_t next;             /* where a read would go on; -1: nowhere */
} aya_habit;

/* An open file. The caller owns it and keeps it while requests use it. */
struct aya_file {
    aya_handle handle;        /* the descriptor that callers know */
    aya_handle io;            /* what operations use; differs where `handle` was reopened */
    uint8_t kind;             /* aya_file_kind */
    uint8_t inline_read;      /* aya_inline_mode */
    bool local;               /* on a filesystem known not to wait for another machine or process */
    bool direct;              /* opened past the page cache */
    bool append;              /* every write goes to the end */
    bool positioned;          /* offsets mean something */
    bool at_start;            /* nothing but the open was seen of it: its position is 0 */
    bool written;             /* an operation that changes the file was started */
    uint64_t bound;           /* the backend's: which of its states `io` is bound to; 0: none */
    uint32_t block_size;      /* st_blksize */
    int64_t size, opened_ns;  /* st_size when it was opened, and when that was; 0: not known */
    aya_habit habit;
    uint8_t lock;             /* guards what follows; aya_spin */
    bool fenced;              /* a fence is in flight */
    unsigned in_flight;       /* started, not held and not done */
    aya_link held;            /* what waits for a fence, or is one, in order; by `shared` */
};

/* How a request was served; recorded, so that a cancel follows it. */
typedef enum aya_route {
    AYA_ROUTE_INLINE,   /* finished in aya_try() */
    AYA_ROUTE_BACKEND,  /* the context's own backend */
    AYA_ROUTE_FALLBACK, /* its fallback: the pool */
    AYA_ROUTE_DIRECT,   /* a backend beside the pool, for files opened past the page cache */
    AYA_ROUTE_POLL,     /* waited for readiness, then a call that does not wait */
    AYA_ROUTE_ALONE,    /* a thread of its own (a FIFO's open) */
    AYA_ROUTE_COUNT,
} aya_route;

/* Where a request stands. Only move() in request.c changes it, in the context's thread; `link`
 * is in the list that the state names. */
typedef enum aya_state {
    AYA_STATE_IDLE,      /* the caller's: before aya_start() and from done() on */
    AYA_STATE_HELD,      /* in context->held, `shared` in file->held: behind a fence, or one itself;
                            left when the file is free for it */
    AYA_STATE_QUEUED,    /* in context->queued[]: left by a submit or a cancel */
    AYA_STATE_IN_FLIGHT, /* in context->in_flight: the system or a worker has its memory; `shared`
                            is the backend's, then in context->posted; left by a completion */
    AYA_STATE_WAITING,   /* in context->waiting: watched for readiness; left by it or by a cancel */
    AYA_STATE_DEFERRED,  /* in context->deferred: op.result holds; delivered by the next reap */
} aya_state;

struct aya_request {
    aya_op op;
    aya_link link;            /* a list of the context's, by `state` */
    aya_link shared;          /* a list with a lock: file->held, a backend's, context->posted */
    aya_context *context;     /* that runs it; set by aya_start() */
    /* Called once, in the context's thread, from aya_context_reap() and nowhere else; the result
     * is in op.result. The request may be freed or started again inside. */
    void (*done)(aya_request *request);
    /* Called where `op`'s buffer is full and more was asked for: replaces op->buf and
     * op->buf_size by a larger buffer that starts with the first op->done bytes. `op` is the
     * request's own, or that of part `index` of a group. 0 or -errno. NULL: no more is read. */
    int (*grow)(aya_request *request, aya_op *op, size_t index);
    int64_t posted_result;    /* what another thread got, until the context takes it */
    void *backend_data;       /* the backend's, while IN_FLIGHT */
    uint8_t state;            /* aya_state */
    uint8_t route;            /* aya_route */
    bool cancelled;           /* a cancel was asked for: nothing is retried any more */
    bool abandoned;           /* nobody wants the result: a handle is closed instead of delivered */
    bool force_async;         /* the kernel must not run it inside a submit */
    bool held;                /* `shared` is in file->held; under the file's lock */
    bool settled;             /* posted_result is an aya_verdict of a settled operation */
    bool whole;               /* a group that one worker serves, not a request a part */
    bool passed;              /* its turn at the file went on to the fence behind it */
    int32_t half_open;        /* one more than a FIFO's descriptor, held until the end; 0: none */
};

/* -- contexts ---------------------------------------------------------------------------------- */

/* Makes a context for the calling thread by the first backend that works, in order of rank, or
 * by the one that `config` names. -ENOTSUP where the named one does not work (aya_backend_reason
 * says why). */
int aya_context_create(const aya_config *config, aya_context **out);

/* Cancels and reaps what is in flight (done() is called for each), then frees all. May be called
 * from another thread once the context's own has stopped using it. In a child of a fork it
 * delivers nothing. */
void aya_context_destroy(aya_context *context);

#define AYA_DESCRIPTOR_MAX 3
/* Descriptors to watch for readability; when one is, call aya_context_reap(). Returns how many. */
int aya_context_descriptors(const aya_context *context, int descriptors[AYA_DESCRIPTOR_MAX]);

/* Hands over what was started. Returns how many requests are still queued (a full ring), or
 * -errno. */
int aya_context_submit(aya_context *context);

/* Whether something was started and not handed over. */
bool aya_context_queued(const aya_context *context);
/* The same of what is not the pool's. */
bool aya_context_queued_for_backend(const aya_context *context);

/* Delivers finished requests; never waits. Returns how many done() calls it made. */
int aya_context_reap(aya_context *context);

/* Submits, then waits until something is finished or `timeout_ms` is over (-1: no limit), and
 * reaps. */
int aya_context_wait(aya_context *context, int timeout_ms);

/* Requests that were started and are not done. */
unsigned aya_context_pending(const aya_context *context);

/* Whether the calling thread made it. */
bool aya_context_is_own(const aya_context *context);

const char *aya_context_backend(const aya_context *context);
/* aya_fork_generation() at its creation: in a child of a fork it can only be destroyed; all else
 * does nothing there. */
unsigned aya_context_generation(const aya_context *context);
/* Requests served by each route since the context was made, aya_route as index. */
const uint64_t *aya_context_routes(const aya_context *context);

/* -- requests ---------------------------------------------------------------------------------- */

/* Tries to finish the operation without waiting. True: op.result holds (>= 0 or -errno), done()
 * is not called. False: a part may be done already (op.done); aya_start() goes on from there.
 * `context` (or NULL) counts it. */
bool aya_try(aya_context *context, aya_request *request);

/* The largest single read that aya_try() copies; what is larger goes to a backend, off the loop. */
#define AYA_INLINE_MOST ((size_t)1 << 20)

/* Starts a request: it is queued, and handed over by the next aya_context_submit(). Its memory, the
 * file's and the buffers' stay untouched until done(). */
void aya_start(aya_context *context, aya_request *request);

/* Asks for the request's end. done() comes in any case, with -ECANCELED or with what was done
 * first. */
void aya_cancel(aya_request *request);

/* -- files ------------------------------------------------------------------------------------- */

/* Fills `file` for an open descriptor; never waits. Returns 0, or -errno (-EBADF). Where the
 * file's mount is not known yet the file is treated as one that may wait; an `open` or a `stat`
 * that ran in a backend has learnt it. */
int aya_file_init(aya_file *file, aya_handle handle);
/* The same for a handle that an `open` has just given: what its flags say is known. */
int aya_file_init_opened(aya_file *file, aya_handle handle, bool append);
/* Whether aya_file_init() would know the mount; false: let a `stat` run in a backend first. */
bool aya_file_known(aya_handle handle);
/* Gives back what aya_file_init() took beside the handle itself. */
void aya_file_release(aya_file *file);
/* For a file that is a parameter of an operation on another one: its own fences, and so its
 * close, wait until aya_file_unuse(). Any thread. */
void aya_file_use(aya_file *file);
void aya_file_unuse(aya_file *file);
/* The same over an aya_try() while another thread may close the file. */
void aya_file_hold(aya_file *file);
/* Closes without waiting where that is known not to wait: true when closed. */
bool aya_file_close_inline(aya_file *file);
/* The file's length as far as the system has it at hand, never waiting; 0 where it does not
 * know. Only a hint: files grow, and some that have content say 0. */
int64_t aya_file_size_hint(const aya_file *file);
/* The descriptor's own position; never waits. -ESPIPE where there is none. */
int64_t aya_file_position(const aya_file *file);
int aya_file_set_position(const aya_file *file, int64_t position);

/* -- backends ---------------------------------------------------------------------------------- */

/* Why a backend is not used: NULL when it works, else a sentence; kept from when it was tried. */
const char *aya_backend_reason(const char *name);
size_t aya_backend_count(void);
const char *aya_backend_name(size_t index);

/* How a context of that backend serves an operation: "own"; "asked", its own where the running
 * kernel has it; "direct", its own for files opened past the page cache; "fallback"; "unsupported";
 * of a group, how it serves the parts. NULL where the backend is not part of the build. */
const char *aya_backend_way(const char *name, aya_op_code operation);

/* Counts forks; a context or a stream made under another number belongs to the parent. */
unsigned aya_fork_generation(void);

#endif
