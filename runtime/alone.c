/* Opens that wait for another party (a FIFO's other end), each on a thread of its own.
 *
 * A FIFO that an inline open met is open already, for reading. Whoever waited to write may have
 * gone on, and even ended, because of it: so that descriptor becomes the result as soon as somebody
 * has come, and no further open is waited for.
 *
 * aya_alone_start() and aya_alone_cancel() run in the context's thread, run() in the new one. A
 * cancelled request ends at once; its thread is let go by opening the FIFO's other end, and
 * keeps nothing but its own copy of what it needs. That lets all others go who wait for the same
 * FIFO: those of this process see that nobody came, and wait again.
 */
#include "posix.h"

#include <fcntl.h>
#include <poll.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

/* How long a writer who has not written yet is not seen by a descriptor that was there first. */
#define HALF_OPEN_MS 50

typedef struct waiter {
    aya_link link;        /* in `waiters` once the FIFO was found; with what follows under `lock` */
    aya_request *request; /* NULL: cancelled */
    bool found;           /* what follows tells which FIFO it is */
    int named;            /* a descriptor that names it, or -1: the path must do */
    int half_open;        /* for reading and with O_NONBLOCK, by an inline open; or -1 */
    int other_end;        /* held by the cancel until the thread is through, or -1 */
    bool disturbed;       /* a cancel of another let this one go too */
    uint64_t device, inode;
    int flags;
    uint32_t permissions;
    char name[AYA_PIN_NAME]; /* of `named`, as a path */
    char path[];
} waiter;

/* Of all waiters; held over opens and closes of FIFOs and of descriptors that name one, which do
 * not wait. */
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t changed = PTHREAD_COND_INITIALIZER; /* one was cancelled, or is through */
static aya_link waiters = {&waiters, &waiters};

static waiter *
waiter_of(aya_link *link)
{
    return (waiter *)((char *)link - offsetof(waiter, link));
}

static bool
same_fifo(const waiter *one, const waiter *other)
{
    return one->device == other->device && one->inode == other->inode;
}

/* Waits until no cancel of another holds an end of the FIFO open, or this one is cancelled. */
static void
wait_for_cancels_locked(const waiter *self)
{
    for (aya_link *link = waiters.next; link != &waiters && self->request != NULL;) {
        waiter *other = waiter_of(link);
        if (other != self && same_fifo(self, other) && other->other_end >= 0) {
            pthread_cond_wait(&changed, &lock);
            link = waiters.next;
        } else {
            link = link->next;
        }
    }
}

/* Opens what `named` names. Without such a name, or without /proc, the path itself must do. */
static int
open_named(const waiter *self, int flags)
{
    int fd = open(self->name, flags); /* an empty name: ENOENT */

    if (fd < 0 && errno == ENOENT) {
        fd = open(self->path, flags);
    }
    return fd;
}

/* Whether someone holds the other end, or was there and left bytes. */
static bool
has_partner(const waiter *self, int fd)
{
    bool reads = (self->flags & O_ACCMODE) == O_RDONLY;
    struct pollfd watched = {.fd = fd, .events = reads ? POLLIN : POLLOUT};

    if (poll(&watched, 1, 0) <= 0) {
        return true;
    }
    return reads ? (watched.revents & (POLLIN | POLLHUP)) != POLLHUP
                 : (watched.revents & POLLERR) == 0;
}

/* The blocking open: a descriptor or -errno. */
static int64_t
open_locked(waiter *self)
{
    for (;;) {
        int fd, error;

        wait_for_cancels_locked(self);
        if (self->request == NULL) {
            return -ECANCELED;
        }
        self->disturbed = false;
        pthread_mutex_unlock(&lock);
        fd = open_named(self, self->flags & ~O_CREAT);
        error = errno;
        pthread_mutex_lock(&lock);
        if (fd < 0 && error != EINTR) {
            return -error;
        }
        if (fd >= 0 && (self->request == NULL || !self->disturbed)) {
            return fd;
        }
        if (fd >= 0) {
            wait_for_cancels_locked(self);
            if (self->request == NULL || has_partner(self, fd)) {
                return fd;
            }
            close(fd);
        }
    }
}

static void
set_half_open(waiter *self, int fd)
{
    self->half_open = fd;
    snprintf(self->name, sizeof(self->name), "/proc/self/fd/%d", fd);
}

/* The same with a descriptor that was opened without waiting. */
static int64_t
half_open_locked(waiter *self)
{
    int64_t came = 0;

    while (came == 0) {
        wait_for_cancels_locked(self);
        if (self->request == NULL) {
            return -ECANCELED;
        }
        if (self->disturbed) {
            int fd = open_named(self, O_RDONLY | O_NONBLOCK | O_CLOEXEC);
            if (fd < 0) {
                return -errno;
            }
            close(self->half_open);
            set_half_open(self, fd);
            self->disturbed = false;
        }
        pthread_mutex_unlock(&lock);
        came = aya_posix_writer_came(self->half_open, HALF_OPEN_MS);
        pthread_mutex_lock(&lock);
        came = came > 0 && self->disturbed ? 0 : came;
    }
    if (came > 0) {
        came = fcntl(self->half_open, F_SETFL, 0) < 0 ? -errno : self->half_open;
        self->half_open = -1;
    }
    return came;
}

static void
enlist(waiter *self, const aya_facts *facts)
{
    pthread_mutex_lock(&lock);
    self->found = true;
    self->device = facts->device;
    self->inode = facts->inode;
    aya_link_append(&waiters, &self->link);
    pthread_mutex_unlock(&lock);
}

/* Finds the FIFO. Where there is none any more *result is what the path gives now. */
static void
find_fifo(waiter *self, int64_t *result)
{
    aya_facts facts;
    char name[AYA_PIN_NAME];
    int named;
    int error = aya_posix_pin(self->path, &named, name, &facts);

    if (error < 0 || !S_ISFIFO(facts.mode)) {
        if (error == 0 && named >= 0) {
            close(named);
        }
        int fd = open(self->path, self->flags, (mode_t)self->permissions);
        *result = fd < 0 ? -errno : fd;
        return;
    }
    self->named = named;
    memcpy(self->name, name, sizeof(name));
    enlist(self, &facts);
}

/* As find_fifo(), by the descriptor. */
static void
find_half_open(waiter *self)
{
    aya_facts facts = {.inode = 0};

    aya_posix_facts(self->half_open, &facts);
    set_half_open(self, self->half_open);
    enlist(self, &facts);
}

static void
close_all_locked(waiter *self)
{
    int descriptors[] = {self->named, self->half_open, self->other_end};

    for (size_t i = 0; i < sizeof(descriptors) / sizeof(descriptors[0]); i++) {
        if (descriptors[i] >= 0) {
            close(descriptors[i]);
        }
    }
    if (self->other_end >= 0) {
        pthread_cond_broadcast(&changed);
    }
}

static void *
run(void *argument)
{
    waiter *self = argument;
    int64_t result = 0;

    aya_thread_name("aya-open");
    if (self->half_open >= 0) {
        find_half_open(self);
    } else {
        find_fifo(self, &result);
    }
    pthread_mutex_lock(&lock);
    if (self->found) {
        result = self->half_open >= 0 ? half_open_locked(self) : open_locked(self);
        aya_link_remove(&self->link);
    }
    if (self->request != NULL) {
        self->request->backend_data = NULL;
        aya_request_post(self->request, result);
    } else if (result >= 0) {
        close((int)result);
    }
    close_all_locked(self);
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
    *self = (waiter){.request = request, .named = -1, .other_end = -1,
                     .half_open = request->half_open - 1};
    request->half_open = 0;
    self->flags = aya_posix_open_flags(op->args.open.access, op->args.open.append,
                                       op->args.open.create, op->args.open.exclusive,
                                       op->args.open.truncate);
    self->permissions = op->args.open.permissions;
    memcpy(self->path, op->args.open.path, size);
    request->backend_data = self;
    error = aya_thread_start(run, self);
    if (error < 0) {
        request->backend_data = NULL;
        request->half_open = self->half_open + 1;
        free(self);
    }
    return error;
}

/* Opened for both the FIFO waits for nobody and is every waiter's other end. Where the right to
 * do so is missing the thread waits on, for nobody. */
static void
let_go_locked(waiter *self)
{
    self->other_end = open_named(self, O_RDWR | O_NONBLOCK | O_CLOEXEC);
    for (aya_link *link = waiters.next; link != &waiters; link = link->next) {
        waiter *other = waiter_of(link);
        if (other != self && same_fifo(self, other)) {
            other->disturbed = true;
        }
    }
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
        if (self->found && self->half_open < 0) {
            let_go_locked(self);
        }
        pthread_cond_broadcast(&changed);
    }
    pthread_mutex_unlock(&lock);
    if (self != NULL) {
        aya_request_post(request, -ECANCELED);
    }
}

void
aya_alone_end(aya_request *request)
{
    close(request->half_open - 1);
    request->half_open = 0;
}

void
aya_alone_fork(aya_fork_phase phase)
{
    switch (phase) {
    case AYA_FORK_BEFORE:
        pthread_mutex_lock(&lock);
        break;
    case AYA_FORK_CHILD:
        /* Its threads are the parent's alone. */
        aya_link_init(&waiters);
        pthread_cond_init(&changed, NULL);
        pthread_mutex_unlock(&lock);
        break;
    case AYA_FORK_PARENT:
        pthread_mutex_unlock(&lock);
        break;
    }
}
