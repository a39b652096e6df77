/* Contexts: choosing a backend, handing requests over, reaping, waiting, and the end.
 *
 * Runs in the context's thread; aya_context_wake() in any. aya_context_wait() and
 * aya_context_destroy() are the only functions here that wait.
 */
#include "group.h"

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* What is not back by then (a device that does not answer) is left to the kernel, memory and
 * all. */
#define DESTROY_TIMEOUT_MS 10000
/* The same from another thread, which may not submit to the context's ring. */
#define DESTROY_ELSEWHERE_MS 500

#define BACKENDS_MOST 8
static char reasons[BACKENDS_MOST][160];
static uint8_t reasons_lock;

/* -- why a backend is not used ----------------------------------------------------------------- */

static const char *
hint(int error)
{
    switch (error) {
    case -EPERM:
        return ": refused by a seccomp profile or by kernel.io_uring_disabled";
    case -ENOSYS:
        return ": the kernel has no such system call, or a seccomp profile hides it";
    case -ENOMEM:
        return ": the limit of locked memory (ulimit -l) or of memory";
    case -EMFILE:
        return ": the limit of open descriptors (ulimit -n)";
    case -ENOTRECOVERABLE:
        return ": the system lets it run nothing in a child of a fork";
    case -EAGAIN:
        return ": a limit of the system is used up (fs.aio-max-nr)";
    default:
        return "";
    }
}

static void
keep_reason(size_t index, int error)
{
    aya_spin_lock(&reasons_lock);
    if (error == 0) {
        reasons[index][0] = '\0';
    } else {
        snprintf(reasons[index], sizeof(reasons[index]), "%s%s", strerror(-error), hint(error));
    }
    aya_spin_unlock(&reasons_lock);
}

static void
keep_reason_of(const aya_backend *backend, int error)
{
    for (size_t i = 0; i < aya_backends_count && i < BACKENDS_MOST; i++) {
        if (aya_backends[i] == backend) {
            keep_reason(i, error);
        }
    }
}

void
aya_reasons_fork(aya_fork_phase phase)
{
    if (phase == AYA_FORK_BEFORE) {
        aya_spin_lock(&reasons_lock);
    } else {
        aya_spin_unlock(&reasons_lock);
    }
}

size_t
aya_backend_count(void)
{
    return aya_backends_count;
}

const char *
aya_backend_name(size_t index)
{
    return aya_backends[index]->name;
}

const char *
aya_backend_reason(const char *name)
{
    for (size_t i = 0; i < aya_backends_count; i++) {
        if (strcmp(aya_backends[i]->name, name) == 0) {
            return reasons[i][0] == '\0' ? NULL : reasons[i];
        }
    }
    return "not part of this build";
}

const char *
aya_backend_way(const char *name, aya_op_code operation)
{
    static const char *const ways[] = {
        [AYA_ROW_UNSUPPORTED] = "unsupported", [AYA_ROW_OWN] = "own", [AYA_ROW_ASKED] = "asked",
        [AYA_ROW_DIRECT] = "direct", [AYA_ROW_VIA] = "fallback",
    };
    uint8_t each = aya_op_infos[operation].each;
    uint8_t code = each == AYA_OP_COUNT ? (uint8_t)operation : each;

    for (size_t i = 0; i < aya_backends_count; i++) {
        if (strcmp(aya_backends[i]->name, name) == 0) {
            bool via = aya_backends[i]->rows[code] == AYA_ROW_VIA;
            bool refused = via && aya_backend_threads.rows[code] == AYA_ROW_UNSUPPORTED;
            return ways[refused ? AYA_ROW_UNSUPPORTED : aya_backends[i]->rows[code]];
        }
    }
    return NULL;
}

/* -- creation ---------------------------------------------------------------------------------- */

/* Tries one backend. Where it is not the pool, the pool is opened beside it as its fallback. */
static int
try_backend(aya_context *context, const aya_backend *backend)
{
    int error;

    context->backend = backend;
    context->backend_descriptor = -1;
    error = backend->hooks.open(context, &context->state);
    if (error < 0) {
        return error;
    }
    if (backend->fallback == NULL) {
        context->fallback_state = context->state;
        return 0;
    }
    error = aya_backend_threads.hooks.open(context, &context->fallback_state);
    if (error < 0) {
        backend->hooks.close(context, context->state);
    }
    return error;
}

static int
choose_backend(aya_context *context)
{
    const char *wanted = aya_config_backend_name(&context->config);
    int error = -ENOTSUP;

    for (size_t i = 0; i < aya_backends_count && i < BACKENDS_MOST; i++) {
        if (wanted != NULL && strcmp(wanted, aya_backends[i]->name) != 0) {
            continue;
        }
        error = try_backend(context, aya_backends[i]);
        keep_reason(i, error);
        if (error == 0) {
            return 0;
        }
        if (error == -ENOTRECOVERABLE) {
            wanted = NULL; /* it was chosen for the parent: the child goes on with what works */
        }
    }
    return error;
}

bool
aya_context_direct(aya_context *context, const aya_op *op)
{
    bool chosen = aya_config_backend_name(&context->config) == NULL;

    for (size_t i = 0; chosen && !context->direct_tried && i < aya_backends_count; i++) {
        const aya_backend *backend = aya_backends[i];
        if (backend->rows[op->code] != AYA_ROW_DIRECT) {
            continue;
        }
        context->direct_tried = true;
        int error = backend->hooks.open(context, &context->direct_state);
        keep_reason_of(backend, error);
        if (error == 0) {
            context->direct = backend;
        }
    }
    return context->direct != NULL && context->direct->rows[op->code] == AYA_ROW_DIRECT;
}

static int
open_descriptors(aya_context *context)
{
    int error = aya_wake_open(&context->wake);

    if (error < 0) {
        return error;
    }
    error = aya_poll_open(context);
    if (error < 0) {
        aya_wake_close(&context->wake);
    }
    return error;
}

static void
close_descriptors(aya_context *context)
{
    aya_poll_close(context);
    aya_wake_close(&context->wake);
}

int
aya_context_create(const aya_config *config, aya_context **out)
{
    aya_context *context = calloc(1, sizeof(*context));
    int error;

    if (context == NULL) {
        return -ENOMEM;
    }
    context->config = config == NULL ? aya_config_defaults : *config;
    context->generation = aya_fork_generation();
    context->thread = pthread_self();
    aya_link *lists[] = {&context->queued[AYA_QUEUE_BACKEND], &context->queued[AYA_QUEUE_FALLBACK],
                         &context->queued[AYA_QUEUE_DIRECT], &context->in_flight,
                         &context->waiting, &context->held, &context->deferred, &context->posted};
    for (size_t i = 0; i < sizeof(lists) / sizeof(lists[0]); i++) {
        aya_link_init(lists[i]);
    }
    error = open_descriptors(context);
    if (error == 0) {
        error = choose_backend(context);
        if (error < 0) {
            close_descriptors(context);
        }
    }
    if (error < 0) {
        free(context);
        return error;
    }
    *out = context;
    return 0;
}

const char *
aya_context_backend(const aya_context *context)
{
    return context->backend->name;
}

const uint64_t *
aya_context_routes(const aya_context *context)
{
    return context->routes;
}

bool
aya_context_is_own(const aya_context *context)
{
    return pthread_equal(context->thread, pthread_self()) != 0;
}

unsigned
aya_context_pending(const aya_context *context)
{
    return context->pending;
}

unsigned
aya_context_generation(const aya_context *context)
{
    return context->generation;
}

/* -- submit and reap --------------------------------------------------------------------------- */

bool
aya_context_queued(const aya_context *context)
{
    return !aya_link_empty(&context->queued[AYA_QUEUE_BACKEND])
           || !aya_link_empty(&context->queued[AYA_QUEUE_FALLBACK])
           || !aya_link_empty(&context->queued[AYA_QUEUE_DIRECT]);
}

bool
aya_context_queued_for_backend(const aya_context *context)
{
    return context->backend->fallback != NULL
           && !aya_link_empty(&context->queued[AYA_QUEUE_BACKEND]);
}

/* In a child of a fork the context is the parent's: the memory of its ring is shared with it,
 * and what is reaped here would be lost there. */
static bool
is_the_parents(const aya_context *context)
{
    return context->generation != aya_fork_generation();
}

/* Moves the front of `queue` to `batch`: what may share one submission. */
static void
take_batch(const aya_backend *backend, aya_link *queue, aya_link *batch)
{
    bool shares = true;

    for (unsigned count = 0; shares && count < backend->batch_limit; count++) {
        if (aya_link_empty(queue)) {
            return;
        }
        aya_request *request = aya_request_of(queue->next);
        shares = aya_op_infos[request->op.code].batch;
        if (!shares && count > 0) {
            return;
        }
        aya_link_remove(&request->link);
        aya_link_append(batch, &request->link);
    }
}

/* One submission after the other, until the backend leaves something. */
static int
submit_batches(aya_context *context, const aya_backend *backend, void *state, aya_link *queue)
{
    aya_link batch;
    int error = 0;

    aya_link_init(&batch);
    while (error == 0 && aya_link_empty(&batch) && !aya_link_empty(queue)) {
        take_batch(backend, queue, &batch);
        error = backend->hooks.submit(context, state, &batch);
    }
    aya_link_append_all(&batch, queue);
    aya_link_append_all(queue, &batch);
    return error;
}

/* Rights can be withdrawn from a running process: then what is queued goes on in the pool. */
static int
submit_to(aya_context *context, const aya_backend *backend, void *state, aya_link *queue)
{
    int error = submit_batches(context, backend, state, queue);

    if (error < 0 && backend->fallback != NULL) {
        keep_reason_of(backend, error);
        aya_link_append_all(&context->queued[AYA_QUEUE_FALLBACK], queue);
        return 0;
    }
    return error;
}

int
aya_context_submit(aya_context *context)
{
    aya_link *own = &context->queued[AYA_QUEUE_BACKEND];
    aya_link *direct = &context->queued[AYA_QUEUE_DIRECT];
    aya_link *other = &context->queued[AYA_QUEUE_FALLBACK];

    if (is_the_parents(context)) {
        return 0;
    }
    if (!aya_link_empty(own)) {
        int error = submit_to(context, context->backend, context->state, own);
        if (error < 0) {
            return error;
        }
    }
    if (!aya_link_empty(direct)) {
        submit_to(context, context->direct, context->direct_state, direct);
    }
    if (!aya_link_empty(other)) {
        int error = aya_backend_threads.hooks.submit(context, context->fallback_state, other);
        if (error < 0) {
            return error;
        }
    }
    return aya_context_queued(context) ? 1 : 0;
}

void
aya_context_wake(aya_context *context)
{
    aya_wake_signal(&context->wake);
}

int
aya_context_reap(aya_context *context)
{
    uint64_t before = 0, after = 0;

    if (is_the_parents(context)) {
        return 0;
    }
    for (int i = 0; i < AYA_ROUTE_COUNT; i++) {
        before += context->routes[i];
    }
    aya_wake_clear(&context->wake);
    aya_requests_take_posted(context);
    context->backend->hooks.reap(context, context->state);
    if (context->state != context->fallback_state) {
        aya_backend_threads.hooks.reap(context, context->fallback_state);
    }
    if (context->direct != NULL) {
        context->direct->hooks.reap(context, context->direct_state);
    }
    if (!aya_link_empty(&context->waiting)) {
        aya_poll_reap(context);
    }
    aya_requests_take_deferred(context);
    if (aya_context_queued(context)) {
        aya_context_submit(context);
    }
    for (int i = 0; i < AYA_ROUTE_COUNT; i++) {
        after += context->routes[i];
    }
    return (int)(after - before);
}

static int64_t
now_ms(void)
{
    return aya_now_ns() / 1000000;
}

int
aya_context_wait(aya_context *context, int timeout_ms)
{
    int64_t end = now_ms() + timeout_ms;

    while (!is_the_parents(context)) {
        int error = aya_context_submit(context);
        if (error < 0) {
            return error;
        }
        int done = aya_context_reap(context);
        if (done != 0 || context->pending == 0 || timeout_ms == 0) {
            return done;
        }
        int64_t left = timeout_ms < 0 ? -1 : end - now_ms();
        if (timeout_ms > 0 && left <= 0) {
            return 0;
        }
        error = aya_context_sleep(context, (int)left);
        if (error < 0 && error != -EINTR) {
            return error;
        }
    }
    return -ECHILD;
}

/* -- the end ----------------------------------------------------------------------------------- */

static void
cancel_all(aya_link *list)
{
    /* A cancel moves the request to another list or leaves it where it is: so step first. */
    for (aya_link *link = list->next, *next; link != list; link = next) {
        next = link->next;
        aya_cancel(aya_request_of(link));
    }
}

/* In a child of a fork the parent's requests are the parent's: nothing is waited for or
 * delivered. */
static bool
drain(aya_context *context)
{
    int64_t most = aya_context_is_own(context) ? DESTROY_TIMEOUT_MS : DESTROY_ELSEWHERE_MS;
    int64_t end = now_ms() + most;

    while (context->pending > 0) {
        cancel_all(&context->held);
        for (int i = 0; i < AYA_QUEUE_COUNT; i++) {
            cancel_all(&context->queued[i]);
        }
        cancel_all(&context->waiting);
        cancel_all(&context->in_flight);
        if (now_ms() > end || aya_context_wait(context, 100) < 0) {
            return false;
        }
    }
    return true;
}

void
aya_context_destroy(aya_context *context)
{
    if (!is_the_parents(context) && !drain(context)) {
        return;
    }
    if (context->state != context->fallback_state) {
        aya_backend_threads.hooks.close(context, context->fallback_state);
    }
    if (context->direct != NULL) {
        context->direct->hooks.close(context, context->direct_state);
    }
    context->backend->hooks.close(context, context->state);
    close_descriptors(context);
    free(context);
}
