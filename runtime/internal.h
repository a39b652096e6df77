/* The runtime's inner seams: the context, the contract of a backend's hooks, and what the files
 * of runtime/ call of each other. Not for callers of libaya.
 *
 * Threads: a context and its requests belong to one thread. Others touch only context->posted
 * (under posted_lock), `wake`, and an aya_file's `lock`ed part.
 */
#ifndef AYA_INTERNAL_H
#define AYA_INTERNAL_H

#include "aya.h"

#include <assert.h>
#include <pthread.h>
#include <sched.h>

/* -- lists ------------------------------------------------------------------------------------- */

static inline void
aya_link_init(aya_link *link)
{
    link->next = link->prev = link;
}

static inline bool
aya_link_empty(const aya_link *head)
{
    return head->next == head;
}

static inline void
aya_link_append(aya_link *head, aya_link *link)
{
    link->prev = head->prev;
    link->next = head;
    head->prev->next = link;
    head->prev = link;
}

static inline void
aya_link_remove(aya_link *link)
{
    link->prev->next = link->next;
    link->next->prev = link->prev;
    aya_link_init(link);
}

/* Moves all of `from` behind what `to` has. */
static inline void
aya_link_append_all(aya_link *to, aya_link *from)
{
    if (aya_link_empty(from)) {
        return;
    }
    from->next->prev = to->prev;
    to->prev->next = from->next;
    from->prev->next = to;
    to->prev = from->prev;
    aya_link_init(from);
}

static inline aya_request *
aya_request_of(aya_link *link)
{
    return (aya_request *)((char *)link - offsetof(aya_request, link));
}

static inline aya_request *
aya_request_of_shared(aya_link *shared)
{
    return (aya_request *)((char *)shared - offsetof(aya_request, shared));
}

/* -- locks ------------------------------------------------------------------------------------- */

#define SPINS 64

/* For a few instructions only; never held over a call that may wait. */
static inline void
aya_spin_lock(uint8_t *lock)
{
    unsigned looks = 0;

    while (__atomic_exchange_n(lock, 1, __ATOMIC_ACQUIRE)) {
        while (__atomic_load_n(lock, __ATOMIC_RELAXED)) {
            if (++looks % SPINS == 0) {
                sched_yield(); /* its holder waits for this processor */
            }
        }
    }
}

static inline void
aya_spin_unlock(uint8_t *lock)
{
    __atomic_store_n(lock, 0, __ATOMIC_RELEASE);
}

/* -- backends ---------------------------------------------------------------------------------- */

/* How a backend serves an operation; one entry an operation in aya_backend.rows. */
typedef enum aya_row {
    AYA_ROW_UNSUPPORTED, /* -ENOTSUP */
    AYA_ROW_OWN,         /* by its own row */
    AYA_ROW_ASKED,       /* by its own row where the running kernel has it: see asked() */
    AYA_ROW_DIRECT,      /* by its own row for files past the page cache, else the fallback */
    AYA_ROW_VIA,         /* by the fallback */
} aya_row;

/* The handwritten half of a backend. All but `open` are called in the context's thread. */
typedef struct aya_hooks {
    /* Tries the backend for `context` and stores its state in *state. 0, or -errno when it
     * cannot work here (then nothing is left behind); it may fail at any time, not just the
     * first. -ENOTRECOVERABLE: not in a child of a fork; even where it is named another is
     * chosen then. */
    int (*open)(aya_context *context, void **state);
    /* Nothing of the context's is in flight any more. */
    void (*close)(aya_context *context, void *state);
    /* Hands over requests from the front of `queue` (state QUEUED; no more than may share a
     * submission), each moved to IN_FLIGHT by
     * aya_request_launched() and off the queue. Leaves what does not fit. 0, or -errno when the
     * backend has stopped working: the runtime then sends what is left in `queue` to the
     * fallback. */
    int (*submit)(aya_context *context, void *state, aya_link *queue);
    /* Calls aya_request_finished() for each request that has ended; never waits. */
    void (*reap)(aya_context *context, void *state);
    /* Asks for the end of one IN_FLIGHT request; it ends later by reap, cancelled or not. */
    void (*cancel)(aya_context *context, void *state, aya_request *request);
    /* Whether the running kernel has an AYA_ROW_ASKED row's opcode; NULL where no row is asked. */
    bool (*asked)(void *state, uint8_t opcode);
} aya_hooks;

/* A backend as its spec describes it; generated. */
typedef struct aya_backend {
    const char *name;
    int rank;
    const char *fallback;        /* NULL for the pool itself */
    size_t transfer_limit;       /* most bytes of one transfer */
    unsigned batch_limit;        /* most requests of one submission */
    aya_hooks hooks;
    uint8_t rows[AYA_OP_COUNT];  /* aya_row */
    uint8_t opcodes[AYA_OP_COUNT]; /* of the rows that are AYA_ROW_ASKED, else 0 */
} aya_backend;

/* Backends of this build, in order of rank; generated. */
extern const aya_backend *const aya_backends[];
extern const size_t aya_backends_count;
extern const aya_backend aya_backend_threads;

/* Generated, one a form. */
int64_t aya_threads_call(const aya_op *op);
int64_t aya_probe(const aya_op *op);
aya_verdict aya_settle(aya_op *op, int64_t result);

/* -- contexts ---------------------------------------------------------------------------------- */

/* Ends a context's wait from any thread; each platform has its own. */
typedef struct aya_wake {
    aya_handle watched;   /* readable while signalled; AYA_NO_HANDLE where nothing is watched */
    aya_handle signalled; /* what aya_wake_signal() uses; the same on Linux */
    /* On Windows a completion port is signalled, and what comes through it besides is kept: */
    unsigned batch;       /* most packets taken at a time; 0: 64 */
    uint8_t lock;         /* aya_spin: guards `arrived` */
    aya_link arrived;     /* requests whose calls have ended, by `shared` */
} aya_wake;

enum { AYA_QUEUE_BACKEND, AYA_QUEUE_FALLBACK, AYA_QUEUE_DIRECT, AYA_QUEUE_COUNT };

struct aya_context {
    const aya_backend *backend;
    void *state;                 /* backend's */
    void *fallback_state;        /* the pool's; the same as `state` where the pool is the backend */
    /* Beside a pool that was chosen by itself: what serves files past the page cache better. Opened
     * when the first such file is used, since its end may take long (io_destroy: 25 ms). */
    const aya_backend *direct;
    void *direct_state;          /* NULL: not opened */
    bool direct_tried;
    int backend_descriptor;      /* watched for the backend's completions, or -1; set by its open */
    aya_wake wake;               /* something was posted */
    int poll_descriptor;         /* readable: a WAITING request's file is ready */
    aya_config config;
    aya_link queued[AYA_QUEUE_COUNT];
    aya_link in_flight;          /* all that are IN_FLIGHT */
    aya_link waiting;            /* all that are WAITING */
    aya_link held;               /* all that are HELD */
    aya_link deferred;           /* all that are DEFERRED */
    uint8_t posted_lock;         /* aya_spin: guards `posted` */
    aya_link posted;             /* what other threads gave, by `shared` */
    bool closing;                /* nothing is started any more */
    unsigned pending;            /* started and not done */
    pthread_t thread;            /* that made it */
    unsigned generation;         /* aya_fork_generation() when it was made */
    uint64_t routes[AYA_ROUTE_COUNT];
    uint64_t asked_known, asked_yes; /* a bit an operation: whether the kernel has its row */
};

/* Whether the context has, or now gets, a backend beside the pool for this operation on a file past
 * the page cache. */
bool aya_context_direct(aya_context *context, const aya_op *op);

/* -- request.c: the life cycle ----------------------------------------------------------------- */

/* A backend, the one of `state`, took the request off its queue (by `link`, which this function
 * moves to in_flight). While IN_FLIGHT `shared` is the backend's. */
void aya_request_launched(aya_context *context, aya_request *request, const void *state);
/* One transfer of an IN_FLIGHT request has ended: settles it, goes on, or delivers. Context's
 * thread. */
void aya_request_finished(aya_context *context, aya_request *request, int64_t result);
/* The same from any other thread: `result` is settled by the context's next reap. `shared` is
 * given up. */
void aya_request_post(aya_request *request, int64_t result);
/* The same where the thread has called aya_settle() already and got `verdict`. */
void aya_request_post_settled(aya_request *request, aya_verdict verdict);
/* A worker has finished `request`, which it posts next. Gives the file's turn to the fence that
 * waits for nothing else, such as the close behind a write, and returns that for the same worker to
 * serve: no way through the context's thread in between. NULL where there is none. */
aya_request *aya_request_pass_turn(aya_request *request);
/* A posted result that asks for another route: the call would park a worker. */
#define AYA_RESULT_ALONE INT64_C(-0x7fff0001)
/* A posted request that is not finished but free to start: its fence has gone. */
#define AYA_RESULT_START INT64_C(-0x7fff0002)
/* Less the descriptor: what an inline open gives that met a FIFO; see alone.c. */
#define AYA_RESULT_HALF_OPEN (INT64_MIN + INT32_MAX)

/* -- epoll.c, kqueue.c: requests that wait for readiness --------------------------------------- */

/* Makes context->poll_descriptor: 0 or -errno. */
int aya_poll_open(aya_context *context);
void aya_poll_close(aya_context *context);
/* Whether the descriptor can be watched at all; never waits. */
bool aya_poll_possible(aya_handle handle);
/* Watches request->op.file for what the operation needs; 0 or -errno, -EPERM where it cannot be
 * watched. */
int aya_poll_start(aya_context *context, aya_request *request);
void aya_poll_stop(aya_context *context, aya_request *request);
/* Calls aya_request_ready() for each watched request whose file is ready. */
void aya_poll_reap(aya_context *context);
/* A WAITING request's file is ready (and it is watched no more); request.c. */
void aya_request_ready(aya_context *context, aya_request *request);

/* -- alone.c: calls that wait for another party, each on a thread of its own ------------------- */

int aya_alone_start(aya_context *context, aya_request *request);
void aya_alone_cancel(aya_request *request);
/* Closes what an inline open left half open. */
void aya_alone_end(aya_request *request);

/* -- mounts.c: what is known of filesystems ---------------------------------------------------- */

typedef struct aya_mount {
    bool known;
    bool local;               /* never waits for another machine or process */
    uint8_t inline_read;      /* aya_inline_mode */
} aya_mount;

aya_mount aya_mount_find(uint64_t id);
/* Looks the open file's filesystem up (may wait: worker threads only) and remembers it. */
void aya_mount_learn(aya_handle handle);
/* The filesystem of `id` refused NOWAIT. */
void aya_mount_refuses_nowait(uint64_t id);

/* -- copies ------------------------------------------------------------------------------------ */

/* Whether what there is of `size` bytes at `from`, in a file of `length`, overlaps where they are
 * copied to. */
static inline bool
aya_ranges_overlap(int64_t length, int64_t from, int64_t to, size_t size)
{
    int64_t left = length > from ? length - from : 0;

    left = size < (size_t)left ? (int64_t)size : left;
    return (from < to ? to - from : from - to) < left;
}

/* -- habit.c: what reads are like -------------------------------------------------------------- */

/* Whether an inline attempt is not worth its call. */
static inline bool
aya_habit_skips(aya_file *file)
{
    uint8_t skip = __atomic_load_n(&file->habit.skip, __ATOMIC_RELAXED);

    if (skip > 0) {
        __atomic_store_n(&file->habit.skip, (uint8_t)(skip - 1), __ATOMIC_RELAXED);
    }
    return skip > 0;
}

/* An inline attempt has ended: the page cache had it, or had nothing of it. */
static inline void
aya_habit_hit(aya_file *file)
{
    if (__atomic_load_n(&file->habit.streak, __ATOMIC_RELAXED) > 0) {
        __atomic_store_n(&file->habit.streak, 0, __ATOMIC_RELAXED);
    }
}
void aya_habit_missed(aya_file *file);
/* Whether the last attempt found nothing. */
static inline bool
aya_habit_is_cold(aya_file *file)
{
    return __atomic_load_n(&file->habit.streak, __ATOMIC_RELAXED) > 0;
}
/* A read of `size` bytes (-1: all) at `offset` is started that is not inline. */
void aya_habit_read(aya_file *file, int64_t offset, int64_t size);
/* Whether to read ahead of what is read; the platform's. */
void aya_file_reads_randomly(const aya_file *file, bool random);

/* -- the platform's: posix.c with linux.c or darwin.c; win32_wait.c ---------------------------- */

int aya_wake_open(aya_wake *wake); /* 0 or -errno; then *wake holds nothing */
void aya_wake_close(aya_wake *wake);
void aya_wake_signal(aya_wake *wake); /* any thread; never waits */
void aya_wake_clear(aya_wake *wake);
/* Waits until one of the context's descriptors is ready or the time is over; -1: no limit. 0 or
 * -errno. On Windows, where nothing is watched, one other thread than the context's may wait. */
int aya_context_sleep(aya_context *context, int timeout_ms);

/* Starts a detached thread that takes no signals. 0 or -errno. */
int aya_thread_start(void *(*run)(void *), void *argument);
/* Names the calling thread for debuggers. */
void aya_thread_name(const char *name);
/* Gives the calling thread long slices at a low priority: two such threads beside a loop's keep it
 * waiting no longer than one does. */
void aya_thread_stand_back(void);
/* Makes the descriptor table large once: growing it beside a thread holds the opener for
 * milliseconds. */
void aya_grow_descriptors(void);
unsigned aya_processors(void);
/* A condition whose timed wait ends by aya_now_ns(): true when the time is over. */
void aya_condition_init(pthread_cond_t *condition);
bool aya_condition_wait(pthread_cond_t *condition, pthread_mutex_t *lock, int64_t end_ns);

/* The parts that the whole process shares take their lock before a fork, give it back in the
 * parent, and in the child start afresh without what other threads had; called by fork.c. */
typedef enum aya_fork_phase { AYA_FORK_BEFORE, AYA_FORK_PARENT, AYA_FORK_CHILD } aya_fork_phase;
void aya_pool_fork(aya_fork_phase phase);
void aya_alone_fork(aya_fork_phase phase);
void aya_mounts_fork(aya_fork_phase phase);
void aya_reasons_fork(aya_fork_phase phase);
void aya_buffers_fork(aya_fork_phase phase);

#endif
