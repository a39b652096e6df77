/* Waiting for readiness on Linux: the context's epoll instance, in which each waiting request
 * watches once.
 *
 * Runs in the context's thread and never waits. While a request is WAITING its `shared` is free
 * but for a reap, and `backend_data` holds the duplicate of a descriptor that somebody else
 * watches too.
 */
#include "internal.h"

#include <fcntl.h>
#include <sys/epoll.h>
#include <unistd.h>

/* Requests that one reap serves; the rest stay ready for the next. */
#define BATCH 64

int
aya_poll_open(aya_context *context)
{
    context->poll_descriptor = epoll_create1(EPOLL_CLOEXEC);
    return context->poll_descriptor < 0 ? -errno : 0;
}

void
aya_poll_close(aya_context *context)
{
    close(context->poll_descriptor);
}

bool
aya_poll_possible(aya_handle handle)
{
    struct epoll_event event = {.events = EPOLLIN};
    int instance = epoll_create1(EPOLL_CLOEXEC);
    bool possible = instance >= 0 && epoll_ctl(instance, EPOLL_CTL_ADD, handle, &event) == 0;

    if (instance >= 0) {
        close(instance);
    }
    return possible;
}

static void *
duplicate_to_data(int fd)
{
    return (void *)(intptr_t)(fd + 1);
}

static int
watched_descriptor(const aya_request *request)
{
    return request->backend_data != NULL ? (int)(intptr_t)request->backend_data - 1
                                         : request->op.file->handle;
}

/* The file's `handle` is watched, not its `io`: a FIFO that was reopened after its last writer
 * had left tells the new description nothing of that. */
int
aya_poll_start(aya_context *context, aya_request *request)
{
    const aya_op_info *info = &aya_op_infos[request->op.code];
    struct epoll_event event = {.events = EPOLLONESHOT | (info->reads ? EPOLLIN | EPOLLRDHUP : 0u)
                                          | (info->writes ? EPOLLOUT : 0u),
                                .data.ptr = request};
    int fd = request->op.file->handle;

    aya_link_init(&request->shared);
    request->backend_data = NULL;
    if (epoll_ctl(context->poll_descriptor, EPOLL_CTL_ADD, fd, &event) == 0) {
        return 0;
    }
    if (errno != EEXIST) {
        return -errno;
    }
    fd = fcntl(fd, F_DUPFD_CLOEXEC, 0);
    if (fd < 0) {
        return -errno;
    }
    if (epoll_ctl(context->poll_descriptor, EPOLL_CTL_ADD, fd, &event) < 0) {
        int error = -errno;
        close(fd);
        return error;
    }
    request->backend_data = duplicate_to_data(fd);
    return 0;
}

void
aya_poll_stop(aya_context *context, aya_request *request)
{
    struct epoll_event unused = {.events = 0};
    int fd = watched_descriptor(request);

    epoll_ctl(context->poll_descriptor, EPOLL_CTL_DEL, fd, &unused);
    if (request->backend_data != NULL) {
        close(fd);
        request->backend_data = NULL;
    }
    /* Where a reap has it among the ready ones. */
    aya_link_remove(&request->shared);
}

void
aya_poll_reap(aya_context *context)
{
    struct epoll_event events[BATCH];
    int count = epoll_wait(context->poll_descriptor, events, BATCH, 0);
    aya_link ready;

    /* One may cancel another that is ready too: so they stand in a list that aya_poll_stop()
     * leaves. */
    aya_link_init(&ready);
    for (int i = 0; i < count; i++) {
        aya_request *request = events[i].data.ptr;
        aya_link_append(&ready, &request->shared);
    }
    while (!aya_link_empty(&ready)) {
        aya_request *request = aya_request_of_shared(ready.next);
        aya_poll_stop(context, request);
        aya_request_ready(context, request);
    }
}
