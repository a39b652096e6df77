/* The io_uring backend: one ring a context, through liburing.
 *
 * Hooks run in the context's thread; aya_uring_close() and a last aya_uring_cancel() may run in
 * another, to which a SINGLE_ISSUER ring refuses submissions (EEXIST). Between two hooks the
 * submission queue holds nothing that the kernel has not taken: what it leaves is taken back, so
 * that a request is either IN_FLIGHT and the kernel's, or QUEUED and nobody's.
 */
#include "internal.h"

#include <liburing.h>
#include <stdlib.h>
#include <unistd.h>

#ifndef IORING_SETUP_COOP_TASKRUN
#define IORING_SETUP_COOP_TASKRUN (1u << 8)
#endif
#ifndef IORING_SETUP_SINGLE_ISSUER
#define IORING_SETUP_SINGLE_ISSUER (1u << 12)
#endif

/* Requests in flight, in lengths of the completion queue. What does not fit there the kernel keeps
 * (IORING_FEAT_NODROP), but in memory of its own. */
#define FLIGHT_LENGTHS 4
#define SQPOLL_IDLE_MS 50
/* Kernel threads for what cannot run inside a submit. */
#define WORKERS_DEFAULT 8

typedef struct uring {
    struct io_uring ring;
    unsigned in_flight, most;
    bool sqpoll;
} uring;

bool aya_io_uring_prep(const aya_op *op, struct io_uring_sqe *sqe);

/* -- open and close ---------------------------------------------------------------------------- */

/* Sets the ring up with the best flags that the kernel has. */
static int
set_up(uring *self, const aya_config *config)
{
    static const unsigned plain[] = {
        IORING_SETUP_COOP_TASKRUN | IORING_SETUP_SINGLE_ISSUER, IORING_SETUP_COOP_TASKRUN, 0};
    static const unsigned polled[] = {
        IORING_SETUP_SQPOLL | IORING_SETUP_SINGLE_ISSUER, IORING_SETUP_SQPOLL};
    const unsigned *flags = config->io_uring_sqpoll ? polled : plain;
    size_t count = config->io_uring_sqpoll ? 2 : 3;
    unsigned depth = (unsigned)config->io_uring_queue_depth;
    int error = -EINVAL;

    for (size_t i = 0; i < count && error == -EINVAL; i++) {
        struct io_uring_params params = {.flags = flags[i] | IORING_SETUP_CLAMP};
        params.sq_thread_idle = config->io_uring_sqpoll ? SQPOLL_IDLE_MS : 0;
        error = io_uring_queue_init_params(depth, &self->ring, &params);
        if (error == 0 && !(params.features & IORING_FEAT_NODROP)) {
            io_uring_queue_exit(&self->ring);
            return -ENOSYS;
        }
    }
    return error;
}

/* Whether a request comes through: a seccomp profile may allow the ring's making and refuse its
 * use. */
static int
try_ring(uring *self)
{
    struct io_uring_sqe *sqe = io_uring_get_sqe(&self->ring);
    struct io_uring_cqe *cqe;
    int error, tries = 3;

    io_uring_prep_nop(sqe);
    io_uring_sqe_set_data(sqe, NULL);
    do {
        error = io_uring_submit_and_wait(&self->ring, 1);
    } while (error == -EINTR || (error == -EAGAIN && --tries > 0));
    if (error < 0) {
        return error;
    }
    error = io_uring_wait_cqe(&self->ring, &cqe);
    if (error < 0) {
        return error;
    }
    error = cqe->res;
    io_uring_cqe_seen(&self->ring, cqe);
    return error;
}

int
aya_uring_open(aya_context *context, void **state)
{
    const aya_config *config = &context->config;
    unsigned workers[2] = {WORKERS_DEFAULT, 0}; /* for files, and for all else: as it is */
    uring *self = calloc(1, sizeof(*self));
    int error;

    if (self == NULL) {
        return -ENOMEM;
    }
    error = set_up(self, config);
    if (error < 0) {
        free(self);
        return error;
    }
    error = try_ring(self);
    if (error < 0) {
        io_uring_queue_exit(&self->ring);
        free(self);
        return error;
    }
    if (config->io_worker_count > 0) {
        workers[0] = (unsigned)config->io_worker_count;
    }
    io_uring_register_iowq_max_workers(&self->ring, workers);
    self->most = FLIGHT_LENGTHS * self->ring.cq.ring_entries;
    self->sqpoll = config->io_uring_sqpoll;
    context->backend_descriptor = self->ring.ring_fd;
    *state = self;
    return 0;
}

void
aya_uring_close(aya_context *context, void *state)
{
    uring *self = state;

    (void)context;
    /* In a child of a fork too: it unmaps and closes, and the parent's ring goes on. */
    io_uring_queue_exit(&self->ring);
    free(self);
}

/* -- submit ------------------------------------------------------------------------------------ */

/* Takes back the entries that the kernel did not take. */
static void
take_back(uring *self)
{
    struct io_uring_sq *sq = &self->ring.sq;
    unsigned head = io_uring_smp_load_acquire(sq->khead);

    sq->sqe_head = sq->sqe_tail = head;
    IO_URING_WRITE_ONCE(*sq->ktail, head);
}

/* How many of `count` entries the kernel has taken, or -errno; no others are left in the queue. */
static int
submit_entries(uring *self, unsigned count)
{
    int taken;

    do {
        taken = io_uring_submit(&self->ring);
    } while (taken == -EINTR && self->sqpoll);
    if (self->sqpoll) {
        return (int)count; /* the polling thread's from the moment that they are visible */
    }
    take_back(self);
    return taken;
}

/* Fills entries for requests from the front of the queue, where they stay. */
static unsigned
prepare(uring *self, const aya_link *queue)
{
    const aya_link *link = queue->next;
    unsigned count = 0;

    for (; link != queue && self->in_flight + count < self->most; link = link->next) {
        aya_request *request = aya_request_of((aya_link *)(uintptr_t)link);
        struct io_uring_sqe *sqe = io_uring_get_sqe(&self->ring);
        bool known;
        if (sqe == NULL) {
            break;
        }
        known = aya_io_uring_prep(&request->op, sqe);
        assert(known);
        (void)known;
        io_uring_sqe_set_data(sqe, request);
        if (request->force_async) {
            sqe->flags |= IOSQE_ASYNC;
        }
        count++;
    }
    return count;
}

int
aya_uring_submit(aya_context *context, void *state, aya_link *queue)
{
    uring *self = state;

    while (!aya_link_empty(queue)) {
        unsigned count = prepare(self, queue);
        if (count == 0) {
            return 0;
        }
        int taken = submit_entries(self, count);
        for (int i = 0; i < taken; i++) {
            aya_request_launched(context, aya_request_of(queue->next), self);
            self->in_flight++;
        }
        if (taken == 0 || taken == -EAGAIN || taken == -EBUSY) {
            /* A completion brings the next submit; where none will come the pool must do. */
            if (self->in_flight == 0) {
                aya_link_append_all(&context->queued[AYA_QUEUE_FALLBACK], queue);
            }
            return 0;
        }
        if (taken < 0 && taken != -EINTR) {
            return taken;
        }
    }
    return 0;
}

void
aya_uring_cancel(aya_context *context, void *state, aya_request *request)
{
    uring *self = state;
    struct io_uring_sqe *sqe = io_uring_get_sqe(&self->ring);

    (void)context;
    if (sqe == NULL) {
        return; /* SQPOLL, and the queue is full: the request ends by itself */
    }
    io_uring_prep_cancel(sqe, request, 0);
    io_uring_sqe_set_data(sqe, NULL);
    submit_entries(self, 1);
}

/* -- reap -------------------------------------------------------------------------------------- */

/* Each entry is given back before the request's done() is called, which may submit or cancel. */
static void
reap_ready(aya_context *context, uring *self)
{
    unsigned count = io_uring_cq_ready(&self->ring);

    for (; count > 0; count--) {
        struct io_uring_cqe *cqe;
        if (io_uring_peek_cqe(&self->ring, &cqe) < 0) {
            return;
        }
        aya_request *request = io_uring_cqe_get_data(cqe);
        int result = cqe->res;
        io_uring_cqe_seen(&self->ring, cqe);
        if (request != NULL) {
            self->in_flight--;
            aya_request_finished(context, request, result);
        }
    }
}

void
aya_uring_reap(aya_context *context, void *state)
{
    uring *self = state;

    reap_ready(context, self);
    if (IO_URING_READ_ONCE(*self->ring.sq.kflags) & IORING_SQ_CQ_OVERFLOW) {
        io_uring_get_events(&self->ring);
        reap_ready(context, self);
    }
}

/* -- what the running kernel has --------------------------------------------------------------- */

bool
aya_uring_asked(void *state, uint8_t opcode)
{
    static uint8_t lock;
    static bool asked;
    static uint64_t supported[4];
    uring *self = state;
    bool result;

    if (!__atomic_load_n(&asked, __ATOMIC_ACQUIRE)) {
        struct io_uring_probe *probe = io_uring_get_probe_ring(&self->ring);
        if (probe == NULL) {
            return false;
        }
        aya_spin_lock(&lock);
        for (unsigned i = 0; i < 256; i++) {
            if (io_uring_opcode_supported(probe, (int)i)) {
                supported[i / 64] |= UINT64_C(1) << i % 64;
            }
        }
        __atomic_store_n(&asked, true, __ATOMIC_RELEASE);
        aya_spin_unlock(&lock);
        io_uring_free_probe(probe);
    }
    result = (supported[opcode / 64] >> opcode % 64 & 1) != 0;
    return result;
}
