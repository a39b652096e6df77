/* Windows: reads and writes that wait for another party (pipes, consoles), each on a thread of its
 * own.
 *
 * aya_alone_start() and aya_alone_cancel() run in the context's thread, run() in the new one. A
 * cancelled call ends when the system has let its buffer go.
 */
#include "win32.h"

#include <pthread.h>
#include <stdlib.h>

/* How often a cancel comes back to a thread that is about to make its call. */
#define CANCEL_TRIES 1000

typedef struct waiter {
    aya_request *request;
    HANDLE thread;            /* NULL: it has not begun; with `cancelled` under `lock` */
    bool cancelled;
    bool ended;               /* atomic: it makes no call any more */
} waiter;

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;

static bool
begin(waiter *self)
{
    bool cancelled;

    pthread_mutex_lock(&lock);
    self->thread = OpenThread(THREAD_TERMINATE, FALSE, GetCurrentThreadId());
    cancelled = self->cancelled;
    pthread_mutex_unlock(&lock);
    return !cancelled;
}

static void *
run(void *argument)
{
    waiter *self = argument;
    aya_request *request = self->request;
    int64_t result = -ECANCELED;

    aya_thread_name("aya-wait");
    aya_win32_may_wait();
    if (begin(self)) {
        result = aya_threads_call(&request->op);
    }
    __atomic_store_n(&self->ended, true, __ATOMIC_RELEASE);
    pthread_mutex_lock(&lock);
    request->backend_data = NULL;
    if (self->thread != NULL) {
        CloseHandle(self->thread);
    }
    aya_request_post(request, result);
    pthread_mutex_unlock(&lock);
    free(self);
    return NULL;
}

int
aya_alone_start(aya_context *context, aya_request *request)
{
    waiter *self = calloc(1, sizeof(*self));
    int error;

    (void)context;
    if (self == NULL) {
        return -ENOMEM;
    }
    self->request = request;
    request->backend_data = self;
    error = aya_thread_start(run, self);
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
        self->cancelled = true;
    }
    for (int i = 0; self != NULL && self->thread != NULL && i < CANCEL_TRIES; i++) {
        /* The second ends what waits on a pipe that was made for overlapped use. */
        if (__atomic_load_n(&self->ended, __ATOMIC_ACQUIRE) || CancelSynchronousIo(self->thread)
            || CancelIoEx(request->op.file->io, NULL)) {
            break;
        }
        Sleep(0);
    }
    pthread_mutex_unlock(&lock);
}

/* No open is made inline. */
void
aya_alone_end(aya_request *request)
{
    request->half_open = 0;
}
