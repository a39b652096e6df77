/* The life of a request: inline attempt, queue, flight, settle, delivery; fences; cancel.
 *
 * Runs in the context's thread, but for aya_request_post*() (any thread) and aya_try(). Knows no
 * operation: what differs between them stands in aya_op_infos[] and in generated functions.
 */
#include "internal.h"
#include "group.h"

#include <stdlib.h>

static void deliver(aya_context *context, aya_request *request);

/* -- states ------------------------------------------------------------------------------------ */

/* The only place that changes a state; puts the request into the list that belongs to it. */
static void
move(aya_context *context, aya_request *request, aya_state state, aya_link *list)
{
    (void)context; /* where asserts are off */
    assert(request->context == context);
    if (request->state != AYA_STATE_IDLE) {
        aya_link_remove(&request->link);
    }
    request->state = (uint8_t)state;
    if (list != NULL) {
        aya_link_append(list, &request->link);
    }
}

/* Ends a request whose op.result is set, by the next reap: done() never runs inside a start or
 * cancel. */
static void
defer(aya_context *context, aya_request *request)
{
    bool wake = aya_link_empty(&context->deferred);

    move(context, request, AYA_STATE_DEFERRED, &context->deferred);
    if (wake) {
        aya_context_wake(context);
    }
}

static void
defer_result(aya_context *context, aya_request *request, int64_t result)
{
    request->op.result = result;
    defer(context, request);
}

void
aya_request_group_ended(aya_context *context, aya_request *group)
{
    defer(context, group);
}

/* -- inline ------------------------------------------------------------------------------------ */

static bool
count_inline(aya_context *context)
{
    if (context != NULL) {
        context->routes[AYA_ROUTE_INLINE]++;
    }
    return true;
}

/* Calls the inline row, or the blocking one where that never waits, until it would wait. */
static bool
try_row(aya_context *context, aya_request *request, bool plain)
{
    aya_op *op = &request->op;

    for (;;) {
        int64_t result = plain ? aya_threads_call(op) : aya_probe(op);
        if (result <= AYA_RESULT_HALF_OPEN) {
            request->half_open = (int32_t)(AYA_RESULT_HALF_OPEN - result) + 1;
            return false;
        }
        if (result == -EAGAIN || result == AYA_RESULT_ALONE) {
            return false;
        }
        if (result == -EOPNOTSUPP && op->file != NULL && !plain) {
            op->file->inline_read = AYA_INLINE_NEVER;
            return false;
        }
        switch (aya_settle(op, result)) {
        case AYA_VERDICT_DONE:
            return count_inline(context);
        case AYA_VERDICT_MORE:
        case AYA_VERDICT_AGAIN:
            break;
        case AYA_VERDICT_GROW:
            if (op->done >= (int64_t)AYA_INLINE_MOST || request->grow == NULL
                || request->grow(request, op, 0) < 0) {
                return false;
            }
            break;
        }
    }
}

static bool
try_nowait(aya_context *context, aya_request *request, aya_file *file)
{
    int64_t done = request->op.done;

    if (file->inline_read == AYA_INLINE_PLAIN || file->kind != AYA_FILE_REGULAR) {
        return try_row(context, request, file->inline_read == AYA_INLINE_PLAIN);
    }
    if (aya_habit_skips(file)) {
        return false;
    }
    if (try_row(context, request, false)) {
        aya_habit_hit(file);
        return true;
    }
    if (request->op.done == done) {
        aya_habit_missed(file);
    }
    return false;
}

bool
aya_try(aya_context *context, aya_request *request)
{
    aya_op *op = &request->op;
    const aya_op_info *info = &aya_op_infos[op->code];
    aya_file *file = op->file;

    if (info->each != AYA_OP_COUNT) {
        return aya_group_try(context, request) && count_inline(context);
    }
    if (file != NULL && (file->fenced || !aya_link_empty(&file->held))) {
        return false;
    }
    switch (info->probe) {
    case AYA_PROBE_NOWAIT:
        if (file->inline_read == AYA_INLINE_NEVER || aya_op_room(op) > AYA_INLINE_MOST) {
            return false;
        }
        return try_nowait(context, request, file);
    case AYA_PROBE_READY:
        return file->kind == AYA_FILE_POLLABLE && try_row(context, request, false);
    case AYA_PROBE_LOCAL:
        return file->local && try_row(context, request, false);
    case AYA_PROBE_CACHED_OPEN:
    case AYA_PROBE_ALWAYS:
        return try_row(context, request, false);
    default:
        return false;
    }
}

/* -- start ------------------------------------------------------------------------------------- */

static bool
kernel_has_row(aya_context *context, const aya_op *op)
{
    uint64_t bit = UINT64_C(1) << op->code;

    static_assert(AYA_OP_COUNT <= 64, "asked_known has a bit an operation");
    if (!(context->asked_known & bit)) {
        context->asked_known |= bit;
        if (context->backend->hooks.asked(context->state, context->backend->opcodes[op->code])) {
            context->asked_yes |= bit;
        }
    }
    return (context->asked_yes & bit) != 0;
}

/* Which queue serves the operation, or -ENOTSUP. */
static int
choose_queue(aya_context *context, const aya_op *op)
{
    if (context->backend->fallback == NULL) {
        if (op->file != NULL && op->file->direct && op->file->positioned && op->file->local
            && aya_context_direct(context, op)) {
            return AYA_QUEUE_DIRECT;
        }
        return context->backend->rows[op->code] == AYA_ROW_UNSUPPORTED ? -ENOTSUP
                                                                       : AYA_QUEUE_BACKEND;
    }
    /* A ring ignores the offset for what has none; the call says ESPIPE. */
    if (op->file != NULL && !op->file->positioned) {
        return AYA_QUEUE_FALLBACK;
    }
    /* Linux 6.18 goes on with a short transfer of a ring by itself, on FUSE with direct_io at the
     * offset where it began: a read of the 4 bytes "text" gave "texttext". */
    if (op->file != NULL && !op->file->local && aya_op_room(op) > 0) {
        return AYA_QUEUE_FALLBACK;
    }
    switch (context->backend->rows[op->code]) {
    case AYA_ROW_OWN:
        return AYA_QUEUE_BACKEND;
    case AYA_ROW_ASKED:
        return kernel_has_row(context, op) ? AYA_QUEUE_BACKEND : AYA_QUEUE_FALLBACK;
    case AYA_ROW_DIRECT:
        return op->file != NULL && op->file->direct ? AYA_QUEUE_BACKEND : AYA_QUEUE_FALLBACK;
    case AYA_ROW_VIA:
        return AYA_QUEUE_FALLBACK;
    default:
        return -ENOTSUP;
    }
}

static void
enqueue(aya_context *context, aya_request *request)
{
    const aya_op_info *info = &aya_op_infos[request->op.code];
    aya_file *file = request->op.file;

    if (request->cancelled) {
        defer_result(context, request, -ECANCELED);
        return;
    }
    if (file != NULL && file->kind == AYA_FILE_POLLABLE && (info->reads || info->writes)) {
        request->route = AYA_ROUTE_POLL;
        move(context, request, AYA_STATE_WAITING, &context->waiting);
        int error = aya_poll_start(context, request);
        if (error == 0) {
            return;
        }
        if (error != -EPERM) {
            defer_result(context, request, error);
            return;
        }
        file->kind = AYA_FILE_DEVICE;
    }
    int queue = choose_queue(context, &request->op);
    if (queue < 0) {
        defer_result(context, request, queue);
        return;
    }
    request->force_async = request->force_async || file == NULL || !file->local;
    move(context, request, AYA_STATE_QUEUED, &context->queued[queue]);
}

/* Takes the file's turn for the request; false: it must wait for a fence (or is one that must
 * wait). */
static bool
take_turn(aya_request *request, bool fence)
{
    aya_file *file = request->op.file;
    bool free;

    aya_spin_lock(&file->lock);
    free = aya_link_empty(&file->held) && !file->fenced && (!fence || file->in_flight == 0);
    if (free) {
        file->in_flight++;
        file->fenced = fence;
    } else {
        request->held = true;
        aya_link_append(&file->held, &request->shared);
    }
    aya_spin_unlock(&file->lock);
    return free;
}

/* Whether a group's parts would be the pool's one after the other: writes, which wait for each
 * other at the file in any case. One job then makes them all. */
static bool
is_served_whole(aya_context *context, const aya_op *op)
{
    aya_op part;

    if (op->file == NULL || op->file->kind != AYA_FILE_REGULAR || op->file->direct
        || !aya_op_infos[aya_op_infos[op->code].each].takes
        || (size_t)op->done >= aya_group_size(op)) {
        return false;
    }
    aya_group_child(op, (size_t)op->done, &part);
    int queue = choose_queue(context, &part);
    return queue == AYA_QUEUE_FALLBACK
           || (queue == AYA_QUEUE_BACKEND && context->backend->fallback == NULL);
}

/* Whether it is started as a request a part, and has no call of its own. */
static bool
has_parts(const aya_request *request)
{
    return aya_op_infos[request->op.code].each != AYA_OP_COUNT && !request->whole;
}

static void
note_habit(const aya_request *request)
{
    const aya_op *op = &request->op;
    int64_t offset = aya_op_offset(op);

    if (offset >= 0 && aya_op_infos[op->code].gives && op->file->kind == AYA_FILE_REGULAR
        && op->file->local && !op->file->direct) {
        aya_habit_read(op->file, offset, aya_op_total(op));
    }
}

void
aya_start(aya_context *context, aya_request *request)
{
    const aya_op_info *info = &aya_op_infos[request->op.code];

    assert(request->state == AYA_STATE_IDLE);
    aya_link_init(&request->shared);
    request->context = context;
    request->posted_result = 0;
    request->backend_data = NULL;
    request->route = AYA_ROUTE_BACKEND;
    request->cancelled = request->abandoned = request->force_async = false;
    request->held = request->settled = request->passed = false;
    request->whole = info->each != AYA_OP_COUNT && is_served_whole(context, &request->op);
    context->pending++;
    if (has_parts(request)) {
        move(context, request, AYA_STATE_IN_FLIGHT, &context->in_flight);
        int error = aya_group_start(context, request);
        if (error < 0) {
            defer_result(context, request, error);
        }
        return;
    }
    if (request->op.file != NULL) {
        if (info->changes) {
            request->op.file->written = true;
        }
        note_habit(request);
        if (!take_turn(request, info->fence)) {
            move(context, request, AYA_STATE_HELD, &context->held);
            return;
        }
    }
    enqueue(context, request);
}

void
aya_request_launched(aya_context *context, aya_request *request, const void *state)
{
    request->route = state == context->state          ? AYA_ROUTE_BACKEND
                     : state == context->direct_state ? AYA_ROUTE_DIRECT
                                                      : AYA_ROUTE_FALLBACK;
    move(context, request, AYA_STATE_IN_FLIGHT, &context->in_flight);
}

/* -- end --------------------------------------------------------------------------------------- */

/* Frees the file for what waits for the end of an operation. `context`: the calling thread's, or
 * NULL where that is not known. */
static void
give_turn(aya_context *context, aya_file *file, bool fence_ends)
{
    aya_link freed;

    aya_link_init(&freed);
    aya_spin_lock(&file->lock);
    file->in_flight--;
    if (fence_ends) {
        file->fenced = false;
    }
    while (!aya_link_empty(&file->held) && !file->fenced) {
        aya_request *next = aya_request_of_shared(file->held.next);
        bool fence = aya_op_infos[next->op.code].fence;
        if (fence && file->in_flight > 0) {
            break;
        }
        next->held = false;
        aya_link_remove(&next->shared);
        aya_link_append(&freed, &next->shared);
        file->in_flight++;
        file->fenced = fence;
    }
    aya_spin_unlock(&file->lock);
    while (!aya_link_empty(&freed)) {
        aya_request *next = aya_request_of_shared(freed.next);
        aya_link_remove(&next->shared);
        if (next->context == context) {
            enqueue(context, next);
        } else {
            aya_request_post(next, AYA_RESULT_START);
        }
    }
}

void
aya_file_use(aya_file *file)
{
    file->written = true;
    aya_file_hold(file);
}

void
aya_file_hold(aya_file *file)
{
    aya_spin_lock(&file->lock);
    file->in_flight++;
    aya_spin_unlock(&file->lock);
}

void
aya_file_unuse(aya_file *file)
{
    give_turn(NULL, file, false);
}

typedef struct late_close {
    aya_request request;
    aya_file file;
} late_close;

static void
late_close_done(aya_request *request)
{
    free(request);
}

/* Closes a handle that arrived after its waiter had gone. */
static void
close_unwanted(aya_context *context, aya_handle handle)
{
    late_close *closing = calloc(1, sizeof(*closing));

    if (closing == NULL || aya_file_init(&closing->file, handle) < 0) {
        free(closing);
        return;
    }
    aya_file_release(&closing->file); /* the operation is to close the handle itself */
    aya_op_close(&closing->request.op, &closing->file);
    closing->request.done = late_close_done;
    aya_start(context, &closing->request);
}

static void
deliver(aya_context *context, aya_request *request)
{
    aya_op *op = &request->op;
    const aya_op_info *info = &aya_op_infos[op->code];

    move(context, request, AYA_STATE_IDLE, NULL);
    context->pending--;
    context->routes[request->route]++;
    if (op->file != NULL && !has_parts(request) && !request->held && !request->passed) {
        give_turn(context, op->file, info->fence);
    }
    if (request->half_open != 0) {
        aya_alone_end(request);
    }
    if (request->abandoned && info->result == AYA_RESULT_HANDLE && op->result >= 0) {
        close_unwanted(context, (aya_handle)op->result);
        op->result = -ECANCELED;
    }
    request->done(request);
}

static void
settled(aya_context *context, aya_request *request, aya_verdict verdict)
{
    aya_op *op = &request->op;

    if (verdict == AYA_VERDICT_GROW && request->grow == NULL) {
        op->result = op->done;
        verdict = AYA_VERDICT_DONE;
    }
    if (verdict != AYA_VERDICT_DONE && request->cancelled) {
        op->result = -ECANCELED;
        verdict = AYA_VERDICT_DONE;
    }
    if (verdict == AYA_VERDICT_GROW) {
        int error = request->grow(request, op, 0);
        if (error < 0) {
            op->result = error;
            verdict = AYA_VERDICT_DONE;
        }
    }
    if (verdict == AYA_VERDICT_DONE) {
        deliver(context, request);
        return;
    }
    /* EAGAIN: what would not wait inside a submit must not be asked so again. */
    request->force_async = request->force_async || verdict == AYA_VERDICT_AGAIN;
    enqueue(context, request);
}

void
aya_request_finished(aya_context *context, aya_request *request, int64_t result)
{
    if (result == AYA_RESULT_ALONE) {
        request->route = AYA_ROUTE_ALONE;
        int error = request->cancelled ? -ECANCELED : aya_alone_start(context, request);
        if (error == 0) {
            return;
        }
        result = error;
    }
    settled(context, request, aya_settle(&request->op, result));
}

void
aya_request_ready(aya_context *context, aya_request *request)
{
    int64_t result = aya_probe(&request->op);

    if (result == -EAGAIN) {
        enqueue(context, request);
        return;
    }
    settled(context, request, aya_settle(&request->op, result));
}

/* -- other threads ----------------------------------------------------------------------------- */

static void
post(aya_request *request)
{
    aya_context *context = request->context;
    bool wake;

    aya_spin_lock(&context->posted_lock);
    wake = aya_link_empty(&context->posted);
    aya_link_append(&context->posted, &request->shared);
    /* Inside the lock: once the request is seen the context may be destroyed. */
    if (wake) {
        aya_context_wake(context);
    }
    aya_spin_unlock(&context->posted_lock);
}

void
aya_request_post(aya_request *request, int64_t result)
{
    request->posted_result = result;
    request->settled = false;
    post(request);
}

void
aya_request_post_settled(aya_request *request, aya_verdict verdict)
{
    request->posted_result = (int64_t)verdict;
    request->settled = true;
    post(request);
}

aya_request *
aya_request_pass_turn(aya_request *request)
{
    aya_file *file = request->op.file;
    aya_request *next = NULL;

    if (file == NULL || request->passed) {
        return NULL;
    }
    aya_spin_lock(&file->lock);
    if (file->in_flight == 1 && !aya_link_empty(&file->held)) {
        next = aya_request_of_shared(file->held.next);
        if (next->context == request->context && aya_op_infos[next->op.code].fence) {
            request->passed = true;
            next->route = request->route;
            next->held = false;
            aya_link_remove(&next->shared);
            file->fenced = true;
        } else {
            next = NULL;
        }
    }
    aya_spin_unlock(&file->lock);
    return next;
}

static void
take_posted(aya_context *context, aya_request *request)
{
    if (request->posted_result == AYA_RESULT_START) {
        enqueue(context, request);
    } else if (request->settled) {
        request->settled = false;
        settled(context, request, (aya_verdict)request->posted_result);
    } else {
        aya_request_finished(context, request, request->posted_result);
    }
}

void
aya_requests_take_posted(aya_context *context)
{
    aya_link taken;

    aya_link_init(&taken);
    aya_spin_lock(&context->posted_lock);
    aya_link_append_all(&taken, &context->posted);
    aya_spin_unlock(&context->posted_lock);
    while (!aya_link_empty(&taken)) {
        aya_request *request = aya_request_of_shared(taken.next);
        aya_link_remove(&request->shared);
        take_posted(context, request);
    }
}

void
aya_requests_take_deferred(aya_context *context)
{
    aya_link taken;

    aya_link_init(&taken);
    aya_link_append_all(&taken, &context->deferred);
    while (!aya_link_empty(&taken)) {
        deliver(context, aya_request_of(taken.next));
    }
}

/* -- cancel ------------------------------------------------------------------------------------ */

static void
cancel_held(aya_context *context, aya_request *request)
{
    aya_file *file = request->op.file;
    bool held;

    aya_spin_lock(&file->lock);
    held = request->held;
    if (held) {
        aya_link_remove(&request->shared);
    }
    aya_spin_unlock(&file->lock);
    /* Else it was freed and stands in `posted`: it is ended when it is taken from there. `held`
     * stays set where it never had its turn, so that none is given back. */
    if (held) {
        defer_result(context, request, -ECANCELED);
    }
}

static void
cancel_in_flight(aya_context *context, aya_request *request)
{
    if (has_parts(request)) {
        aya_group_cancel(context, request);
    } else if (request->route == AYA_ROUTE_ALONE) {
        aya_alone_cancel(request);
    } else if (request->route == AYA_ROUTE_FALLBACK) {
        aya_backend_threads.hooks.cancel(context, context->fallback_state, request);
    } else if (request->route == AYA_ROUTE_DIRECT) {
        context->direct->hooks.cancel(context, context->direct_state, request);
    } else {
        context->backend->hooks.cancel(context, context->state, request);
    }
}

void
aya_cancel(aya_request *request)
{
    aya_context *context = request->context;

    if (request->cancelled || context->generation != aya_fork_generation()) {
        return;
    }
    request->cancelled = true;
    switch ((aya_state)request->state) {
    case AYA_STATE_HELD:
        cancel_held(context, request);
        break;
    case AYA_STATE_WAITING:
        aya_poll_stop(context, request);
        defer_result(context, request, -ECANCELED);
        break;
    case AYA_STATE_QUEUED:
        defer_result(context, request, -ECANCELED);
        break;
    case AYA_STATE_IN_FLIGHT:
        cancel_in_flight(context, request);
        break;
    case AYA_STATE_DEFERRED:
    case AYA_STATE_IDLE:
        break;
    }
}
