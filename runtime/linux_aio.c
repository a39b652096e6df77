/* The kernel AIO backend: io_submit for files opened with O_DIRECT, the only ones that it serves
 * without waiting.
 *
 * Hooks run in the context's thread. What the kernel would wait for inside io_submit, or
 * refuses, goes to the pool, whose call gives the error that a caller expects. The kernel cannot
 * cancel file transfers.
 */
#include "internal.h"

#include <linux/aio_abi.h>
#include <linux/fs.h>
#include <stdlib.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

/* Requests in flight a context; the system's sum is bounded by fs.aio-max-nr. */
#define IN_FLIGHT_MOST 128
#define BATCH 64

typedef struct linux_aio {
    aio_context_t id;
    unsigned in_flight;
} linux_aio;

int aya_linux_aio_prep(const aya_op *op, struct iocb *iocb);

int
aya_linux_aio_open(aya_context *context, void **state)
{
    linux_aio *self = calloc(1, sizeof(*self));
    int error;

    (void)context;
    if (self == NULL) {
        return -ENOMEM;
    }
    if (syscall(SYS_io_setup, IN_FLIGHT_MOST, &self->id) < 0) {
        error = -errno;
        free(self);
        return error;
    }
    *state = self;
    return 0;
}

void
aya_linux_aio_close(aya_context *context, void *state)
{
    linux_aio *self = state;

    /* A child of a fork did not get the kernel's context; its number may be that of one of its
     * own. */
    if (context->generation == aya_fork_generation()) {
        syscall(SYS_io_destroy, self->id);
    }
    free(self);
}

/* A queued request goes to the pool, which the runtime calls next. */
static void
leave_to_pool(aya_context *context, aya_request *request)
{
    aya_link_remove(&request->link);
    aya_link_append(&context->queued[AYA_QUEUE_FALLBACK], &request->link);
}

/* Fills blocks for requests from the front of the queue, where they stay. */
static unsigned
prepare(aya_context *context, linux_aio *self, aya_link *queue, struct iocb *blocks)
{
    unsigned count = 0;

    for (aya_link *link = queue->next, *next; link != queue; link = next) {
        aya_request *request = aya_request_of(link);
        struct iocb *block = &blocks[count];
        next = link->next;
        if (count == BATCH || self->in_flight + count == IN_FLIGHT_MOST) {
            break;
        }
        /* It would wait in io_submit: known before, or the kernel answered EAGAIN. */
        if (request->force_async || aya_linux_aio_prep(&request->op, block) < 0) {
            leave_to_pool(context, request);
            continue;
        }
        block->aio_data = (uint64_t)(uintptr_t)request;
        block->aio_flags |= IOCB_FLAG_RESFD;
        block->aio_resfd = (uint32_t)context->wake.watched;
        if (block->aio_lio_opcode == IOCB_CMD_PREAD || block->aio_lio_opcode == IOCB_CMD_PWRITE) {
            block->aio_rw_flags |= RWF_NOWAIT;
        }
        count++;
    }
    return count;
}

int
aya_linux_aio_submit(aya_context *context, void *state, aya_link *queue)
{
    linux_aio *self = state;
    struct iocb blocks[BATCH], *pointers[BATCH];

    for (unsigned i = 0; i < BATCH; i++) {
        pointers[i] = &blocks[i];
    }
    while (!aya_link_empty(queue)) {
        unsigned count = prepare(context, self, queue, blocks);
        if (count == 0) {
            return 0;
        }
        long taken = syscall(SYS_io_submit, self->id, (long)count, pointers);
        int error = taken < 0 ? errno : 0;
        for (long i = 0; i < taken; i++) {
            aya_request_launched(context, aya_request_of(queue->next), self);
            self->in_flight++;
        }
        if (error == EAGAIN && self->in_flight > 0) {
            return 0; /* a completion brings the next submit */
        }
        /* A priority that is not allowed is the request's own fault. */
        if (error == ENOSYS || (error == EPERM && !(blocks[0].aio_flags & IOCB_FLAG_IOPRIO))) {
            return -error;
        }
        if (taken <= 0) {
            leave_to_pool(context, aya_request_of(queue->next));
        }
    }
    return 0;
}

/* A filesystem may refuse RWF_NOWAIT: the transfer is made again where it may wait. */
static int64_t
result_of(const aya_request *request, int64_t result)
{
    const aya_op_info *info = &aya_op_infos[request->op.code];

    return result == -EOPNOTSUPP && (info->gives || info->takes) ? -EAGAIN : result;
}

void
aya_linux_aio_reap(aya_context *context, void *state)
{
    linux_aio *self = state;
    struct io_event events[BATCH];
    struct timespec now = {0, 0};
    unsigned left = self->in_flight;
    long count = BATCH;

    /* The context has cleared its eventfd: what completes from here on signals again. */
    while (left > 0 && count == BATCH) {
        count = syscall(SYS_io_getevents, self->id, 0L, (long)BATCH, events, &now);
        for (long i = 0; i < count; i++) {
            aya_request *request = (aya_request *)(uintptr_t)events[i].data;
            self->in_flight--;
            left = left > 0 ? left - 1 : 0;
            aya_request_finished(context, request, result_of(request, events[i].res));
        }
    }
}

void
aya_linux_aio_cancel(aya_context *context, void *state, aya_request *request)
{
    (void)context;
    (void)state;
    (void)request;
}
