/* The Dispatch backend: calls as blocks on the process's global queue. Compiled with blocks.
 *
 * Hooks run in the context's thread, aya_dispatch_begins() and aya_dispatch_ended() in threads of
 * the queue. A job stands between a request and its block, so that a cancelled request can end
 * while its block still waits for a thread. In a child of a fork no block ever runs: it opens no
 * such backend, and lets the parent's be.
 */
#include "internal.h"

#include <dispatch/dispatch.h>
#include <stdlib.h>

/* Blocks of one context that are on their way, where io_worker_count says nothing. With 64 cached
 * reads took half as long again, with 1024 no less. */
#define IN_FLIGHT_MOST 256

typedef struct dispatch {
    unsigned in_flight, most;
    uint8_t lock;         /* aya_spin: guards `ended` */
    aya_link ended;       /* requests by `shared`; posted_result is what the call gave */
} dispatch;

/* Who frees the job: the context's thread once the call was made, else the block. */
enum { JOB_WAITS, JOB_RUNS, JOB_CANCELLED };

typedef struct job {
    uint8_t state;        /* only the first change counts */
    aya_request *request;
    dispatch *owner;
} job;

int aya_dispatch_start(const aya_op *op, dispatch_queue_t queue, void *job);
bool aya_dispatch_begins(void *job);
void aya_dispatch_ended(void *job, int64_t result);

static bool
leave_waiting(job *self, uint8_t state)
{
    uint8_t waits = JOB_WAITS;

    return __atomic_compare_exchange_n(&self->state, &waits, state, false, __ATOMIC_ACQ_REL,
                                       __ATOMIC_ACQUIRE);
}

/* -- the queue's threads ----------------------------------------------------------------------- */

bool
aya_dispatch_begins(void *argument)
{
    job *self = argument;

    if (leave_waiting(self, JOB_RUNS)) {
        return true;
    }
    free(self);
    return false;
}

void
aya_dispatch_ended(void *argument, int64_t result)
{
    job *self = argument;
    aya_request *request = self->request;
    dispatch *owner = self->owner;
    bool wake;

    request->posted_result = result;
    aya_spin_lock(&owner->lock);
    wake = aya_link_empty(&owner->ended);
    aya_link_append(&owner->ended, &request->shared);
    /* Inside the lock: once the request is seen the context may be destroyed. */
    if (wake) {
        aya_wake_signal(&request->context->wake);
    }
    aya_spin_unlock(&owner->lock);
}

/* -- hooks ------------------------------------------------------------------------------------- */

int
aya_dispatch_open(aya_context *context, void **state)
{
    int64_t wanted = context->config.io_worker_count;
    dispatch *self;

    if (context->generation != 0) {
        return -ENOTRECOVERABLE;
    }
    self = calloc(1, sizeof(*self));
    if (self == NULL) {
        return -ENOMEM;
    }
    self->most = wanted > 0 ? (unsigned)wanted : IN_FLIGHT_MOST;
    aya_link_init(&self->ended);
    *state = self;
    return 0;
}

void
aya_dispatch_close(aya_context *context, void *state)
{
    (void)context;
    free(state);
}

static void
launch(aya_context *context, dispatch *self, aya_request *request, job *one)
{
    int error;

    *one = (job){.state = JOB_WAITS, .request = request, .owner = self};
    aya_request_launched(context, request, self);
    request->backend_data = one;
    self->in_flight++;
    error = aya_dispatch_start(&request->op,
                               dispatch_get_global_queue(DISPATCH_QUEUE_PRIORITY_DEFAULT, 0), one);
    assert(error == 0);
    (void)error; /* where asserts are off */
}

int
aya_dispatch_submit(aya_context *context, void *state, aya_link *queue)
{
    dispatch *self = state;

    while (!aya_link_empty(queue) && self->in_flight < self->most) {
        aya_request *request = aya_request_of(queue->next);
        /* A filesystem that may be on another machine is the pool's: what hangs there would hold
         * the few threads (64 on macOS) that all queues of the process share. */
        job *one = request->force_async ? NULL : malloc(sizeof(*one));
        if (one == NULL) {
            aya_link_remove(&request->link);
            aya_link_append(&context->queued[AYA_QUEUE_FALLBACK], &request->link);
        } else {
            launch(context, self, request, one);
        }
    }
    return 0;
}

void
aya_dispatch_reap(aya_context *context, void *state)
{
    dispatch *self = state;
    aya_link taken;

    aya_link_init(&taken);
    aya_spin_lock(&self->lock);
    aya_link_append_all(&taken, &self->ended);
    aya_spin_unlock(&self->lock);
    while (!aya_link_empty(&taken)) {
        aya_request *request = aya_request_of_shared(taken.next);
        aya_link_remove(&request->shared);
        free(request->backend_data);
        request->backend_data = NULL;
        self->in_flight--;
        aya_request_finished(context, request, request->posted_result);
    }
}

/* A call that is made cannot be taken back. */
void
aya_dispatch_cancel(aya_context *context, void *state, aya_request *request)
{
    dispatch *self = state;

    (void)context;
    if (request->backend_data != NULL && leave_waiting(request->backend_data, JOB_CANCELLED)) {
        request->backend_data = NULL;
        self->in_flight--;
        aya_request_post(request, -ECANCELED);
    }
}
