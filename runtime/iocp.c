/* The IOCP backend: overlapped calls, whose packets come through the context's port.
 *
 * Hooks run in the context's thread. The port itself lies in win32_wait.c, since it wakes the
 * context on every backend. A handle belongs to the first port that it was used on, for good: what
 * another context starts on it goes to the pool, and so does what was not made for overlapped use.
 */
#include "win32.h"

#include <stdlib.h>

#define NOT_BOUND UINT64_MAX /* to no port of ours: it belongs to another, or cannot to any */
#define KEPT_MOST 256

typedef struct iocp {
    uint64_t number;          /* what aya_file.bound says of files on this port */
    void *kept;               /* aya_overlapped for reuse, each begins with the next */
    unsigned kept_count;
} iocp;

static uint64_t last_number;

int aya_iocp_start(const aya_op *op, OVERLAPPED *overlapped);
int64_t aya_iocp_result(const aya_op *op, DWORD error, DWORD moved);

int
aya_iocp_open(aya_context *context, void **state)
{
    iocp *self = calloc(1, sizeof(*self));

    if (self == NULL) {
        return -ENOMEM;
    }
    context->wake.batch = (unsigned)context->config.iocp_batch_size;
    self->number = __atomic_add_fetch(&last_number, 1, __ATOMIC_RELAXED);
    *state = self;
    return 0;
}

static aya_overlapped *
take_overlapped(iocp *self)
{
    aya_overlapped *call = self->kept;

    if (call == NULL) {
        return malloc(sizeof(*call));
    }
    self->kept = *(void **)call;
    self->kept_count--;
    return call;
}

static void
give_overlapped(iocp *self, aya_overlapped *call)
{
    if (self->kept_count == KEPT_MOST) {
        free(call);
        return;
    }
    *(void **)call = self->kept;
    self->kept = call;
    self->kept_count++;
}

void
aya_iocp_close(aya_context *context, void *state)
{
    iocp *self = state;

    (void)context;
    while (self->kept != NULL) {
        free(take_overlapped(self));
    }
    free(self);
}

/* Whether the file's packets come to this context; binds a file that is used first. */
static bool
bind_file(aya_context *context, iocp *self, aya_file *file)
{
    uint64_t bound = __atomic_load_n(&file->bound, __ATOMIC_RELAXED);

    if (bound == 0) {
        /* A call that ends at once is to bring no packet. Where a handle cannot be told so it is
         * not used here: nothing else says which of its calls bring one. */
        bool ours = CreateIoCompletionPort(file->io, context->wake.signalled, 0, 0) != NULL
                    && SetFileCompletionNotificationModes(file->io,
                                                          FILE_SKIP_COMPLETION_PORT_ON_SUCCESS);
        bound = ours ? self->number : NOT_BOUND;
        __atomic_store_n(&file->bound, bound, __ATOMIC_RELAXED);
    }
    return bound == self->number;
}

static void
launch(aya_context *context, void *state, aya_request *request, aya_overlapped *call)
{
    *call = (aya_overlapped){.request = request};
    aya_request_launched(context, request, state);
    request->backend_data = call;
    int result = aya_iocp_start(&request->op, &call->system);
    if (result == AYA_STARTED) {
        return;
    }
    if (result != AYA_ENDED) {
        call->ended = true;
        request->posted_result = result;
    }
    aya_port_arrived(&context->wake, request);
}

int
aya_iocp_submit(aya_context *context, void *state, aya_link *queue)
{
    iocp *self = state;
    aya_link *pool = &context->queued[AYA_QUEUE_FALLBACK];

    while (!aya_link_empty(queue)) {
        aya_request *request = aya_request_of(queue->next);
        aya_overlapped *call = NULL;
        if (bind_file(context, self, request->op.file)) {
            call = take_overlapped(self);
        }
        if (call == NULL) {
            aya_link_remove(&request->link);
            aya_link_append(pool, &request->link);
            continue;
        }
        launch(context, state, request, call);
    }
    /* Nobody else tells a loop that looks only when the port has something. */
    if (!aya_link_empty(&context->wake.arrived)) {
        aya_wake_signal(&context->wake);
    }
    return 0;
}

static int64_t
result_of(aya_request *request, aya_overlapped *call)
{
    DWORD moved = 0;

    if (call->ended) {
        return request->posted_result;
    }
    BOOL done = GetOverlappedResult(request->op.file->io, &call->system, &moved, FALSE);
    return aya_iocp_result(&request->op, done ? ERROR_SUCCESS : GetLastError(), moved);
}

void
aya_iocp_reap(aya_context *context, void *state)
{
    iocp *self = state;
    aya_link taken;

    aya_link_init(&taken);
    aya_spin_lock(&context->wake.lock);
    aya_link_append_all(&taken, &context->wake.arrived);
    aya_spin_unlock(&context->wake.lock);
    while (!aya_link_empty(&taken)) {
        aya_request *request = aya_request_of_shared(taken.next);
        aya_overlapped *call = request->backend_data;
        int64_t result = result_of(request, call);
        aya_link_remove(&request->shared);
        request->backend_data = NULL;
        give_overlapped(self, call);
        aya_request_finished(context, request, result);
    }
}

void
aya_iocp_cancel(aya_context *context, void *state, aya_request *request)
{
    aya_overlapped *call = request->backend_data;

    (void)context;
    (void)state;
    if (call != NULL) {
        CancelIoEx(request->op.file->io, &call->system);
    }
}
