/* Opens that wait for another party (a FIFO's other end), each on a thread of its own.
 *
 * aya_alone_start() and aya_alone_cancel() run in the context's thread, run() in the new one. A
 * cancelled request ends at once; its thread is let go by opening the FIFO's other end, and
 * keeps nothing but its own copy of what it needs.
 */
#include "internal.h"
#include "posix.h"

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

typedef struct waiter {
    aya_request *request; /* NULL: cancelled; like what follows under the lock */
    int named;            /* an O_PATH descriptor of the FIFO, or -1: not found yet */
    int other_end;        /* held until the thread is through, or -1 */
    int flags;
    uint32_t permissions;
    char name[32];        /* of `named`, as a path */
    char path[];
} waiter;

/* Of all waiters; held over opens of O_PATH descriptors and of FIFOs that do not wait. */
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;

/* Opens what `named` names. Without /proc the path itself must do. */
static int
open_named(const waiter *self, int flags)
{
    int fd = open(self->name, flags);

    if (fd < 0 && errno == ENOENT) {
        fd = open(self->path, flags);
    }
    return fd;
}

/* The blocking open; false when it was cancelled before. */
static bool
open_waiting(waiter *self, int64_t *result)
{
    int named = open(self->path, O_PATH | O_CLOEXEC);
    bool wanted;

    if (named < 0 && !(self->flags & O_CREAT && errno == ENOENT)) {
        *result = -errno;
        return true;
    }
    pthread_mutex_lock(&lock);
    self->named = named;
    snprintf(self->name, sizeof(self->name), "/proc/self/fd/%d", named);
    wanted = self->request != NULL;
    pthread_mutex_unlock(&lock);
    if (!wanted) {
        return false;
    }
    do {
        /* It was gone: a file that is made now waits for nobody. */
        int fd = named < 0 ? open(self->path, self->flags, (mode_t)self->permissions)
                           : open_named(self, self->flags & ~O_CREAT);
        *result = fd < 0 ? -errno : fd;
    } while (*result == -EINTR);
    return true;
}

static void *
run(void *argument)
{
    waiter *self = argument;
    int64_t result = -ECANCELED;

    pthread_setname_np(pthread_self(), "aya-open");
    open_waiting(self, &result);
    pthread_mutex_lock(&lock);
    if (self->request != NULL) {
        self->request->backend_data = NULL;
        aya_request_post(self->request, result);
    } else if (result >= 0) {
        close((int)result);
    }
    if (self->other_end >= 0) {
        close(self->other_end);
    }
    if (self->named >= 0) {
        close(self->named);
    }
    pthread_mutex_unlock(&lock);
    free(self);
    return NULL;
}

int
aya_alone_start(aya_context *context, aya_request *request)
{
    const aya_op *op = &request->op;
    size_t size = strlen(op->args.open.path) + 1;
    waiter *self = malloc(sizeof(*self) + size);
    int error;

    (void)context;
    if (self == NULL) {
        return -ENOMEM;
    }
    *self = (waiter){.request = request, .named = -1, .other_end = -1};
    self->flags = aya_posix_open_flags(op->args.open.access, op->args.open.append,
                                       op->args.open.create, op->args.open.exclusive,
                                       op->args.open.truncate);
    self->permissions = op->args.open.permissions;
    memcpy(self->path, op->args.open.path, size);
    request->backend_data = self;
    error = aya_posix_start_thread(run, self);
    if (error < 0) {
        request->backend_data = NULL;
        free(self);
    }
    return error;
}

void
aya_alone_cancel(aya_request *request)
{
    waiter *self;

    pthread_mutex_lock(&lock);
    self = request->backend_data;
    if (self != NULL) {
        self->request = NULL;
        request->backend_data = NULL;
        if (self->named >= 0) {
            /* Opened for both it waits for nobody and is every waiter's other end. Where the
             * right to do so is missing the thread waits on, for nobody. */
            self->other_end = open_named(self, O_RDWR | O_NONBLOCK | O_CLOEXEC);
        }
    }
    pthread_mutex_unlock(&lock);
    if (self != NULL) {
        aya_request_post(request, -ECANCELED);
    }
}

void
aya_alone_forked(void)
{
    pthread_mutex_init(&lock, NULL);
}
