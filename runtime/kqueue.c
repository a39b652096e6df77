/* Waiting for readiness on macOS: the context's kqueue, in which each waiting request watches once.
 *
 * Runs in the context's thread and never waits. A queue has one entry a descriptor, so each
 * request watches a duplicate of its own: closing that ends the watch. While a request is WAITING
 * its `shared` is free but for a reap, and `backend_data` holds the duplicate.
 */
#include "internal.h"

#include <fcntl.h>
#include <sys/event.h>
#include <unistd.h>

/* Requests that one reap serves; the rest stay ready for the next. */
#define BATCH 64

static int
open_queue(void)
{
    int queue = kqueue();

    if (queue >= 0) {
        fcntl(queue, F_SETFD, FD_CLOEXEC);
    }
    return queue;
}

int
aya_poll_open(aya_context *context)
{
    context->poll_descriptor = open_queue();
    return context->poll_descriptor < 0 ? -errno : 0;
}

void
aya_poll_close(aya_context *context)
{
    close(context->poll_descriptor);
}

static int
watch(int queue, int fd, bool reads, void *data)
{
    struct kevent change;

    EV_SET(&change, (uintptr_t)fd, reads ? EVFILT_READ : EVFILT_WRITE, EV_ADD | EV_ONESHOT, 0, 0,
           data);
    return kevent(queue, &change, 1, NULL, 0, NULL) < 0 ? -errno : 0;
}

bool
aya_poll_possible(aya_handle handle)
{
    int queue = open_queue();
    bool possible = queue >= 0 && watch(queue, handle, true, NULL) == 0;

    if (queue >= 0) {
        close(queue);
    }
    return possible;
}

/* -EPERM: the descriptor is of a kind that cannot be watched. */
int
aya_poll_start(aya_context *context, aya_request *request)
{
    int fd = fcntl(request->op.file->handle, F_DUPFD_CLOEXEC, 0);
    int error;

    aya_link_init(&request->shared);
    request->backend_data = NULL;
    if (fd < 0) {
        return -errno;
    }
    error = watch(context->poll_descriptor, fd, aya_op_infos[request->op.code].reads, request);
    if (error < 0) {
        close(fd);
        return error == -EINVAL || error == -ENODEV ? -EPERM : error;
    }
    request->backend_data = (void *)(intptr_t)(fd + 1);
    return 0;
}

void
aya_poll_stop(aya_context *context, aya_request *request)
{
    (void)context;
    if (request->backend_data != NULL) {
        close((int)(intptr_t)request->backend_data - 1);
        request->backend_data = NULL;
    }
    /* Where a reap has it among the ready ones. */
    aya_link_remove(&request->shared);
}

void
aya_poll_reap(aya_context *context)
{
    struct kevent events[BATCH];
    struct timespec now = {0, 0};
    int count = kevent(context->poll_descriptor, NULL, 0, events, BATCH, &now);
    aya_link ready;

    /* One may cancel another that is ready too: so they stand in a list that aya_poll_stop()
     * leaves. */
    aya_link_init(&ready);
    for (int i = 0; i < count; i++) {
        aya_request *request = events[i].udata;
        aya_link_append(&ready, &request->shared);
    }
    while (!aya_link_empty(&ready)) {
        aya_request *request = aya_request_of_shared(ready.next);
        aya_poll_stop(context, request);
        aya_request_ready(context, request);
    }
}
