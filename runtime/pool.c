/* The pool: threads that make the blocking calls of all contexts of the process, in order of
 * arrival.
 *
 * Hooks run in a context's thread, serve() and what it calls in the workers. The lock is held
 * for list work only, never over a call that waits. Workers touch of a request its `op`,
 * `shared` and `backend_data`, and end each by aya_request_post*().
 *
 * Small calls are served best by one thread: two would pass the processor back and forth. So a
 * further thread joins only where the others do not get on: for JOIN_STUCK_NS none has taken a
 * job, or the first job has waited for JOIN_LATE_NS. One idle thread, the watcher, sleeps until
 * that moment while jobs wait. The first thread runs as the process does; the further ones stand
 * back behind it and the loops' threads.
 */
#include "internal.h"
#include "group.h"

#include <pthread.h>

#define IDLE_NS INT64_C(2000000000)
#define JOIN_STUCK_NS INT64_C(200000)
#define JOIN_LATE_NS INT64_C(1000000)
#define BUSY_NS INT64_C(2000000)

/* What request->backend_data tells of a job; changed under the lock, read by its worker at any
 * time. */
#define JOB_WAITS ((void *)1)
#define JOB_RUNS ((void *)2)
#define JOB_CANCELLED ((void *)3) /* runs; nothing of it is repeated or continued */

typedef struct pool {
    pthread_mutex_t lock;
    pthread_cond_t first_work, work; /* wake the first thread, and the further ones */
    aya_link jobs;        /* requests by `shared`; posted_result is when each came */
    unsigned contexts;
    unsigned most;        /* threads, as the context opened last wants it */
    unsigned threads;
    bool first_lives;     /* `threads` has the first */
    bool first_idle;      /* it waits, or starts and will look at the jobs */
    unsigned idle;        /* the same of further threads */
    unsigned running;     /* threads that make a call */
    bool watched;         /* one of the idle ones is the watcher */
    int64_t taken_at;     /* when a job was last taken */
} pool;

static pthread_once_t pool_made = PTHREAD_ONCE_INIT;
static pool shared_pool = {.lock = PTHREAD_MUTEX_INITIALIZER};

/* -- workers ----------------------------------------------------------------------------------- */

static bool
is_cancelled(const aya_request *request)
{
    return __atomic_load_n(&request->backend_data, __ATOMIC_RELAXED) == JOB_CANCELLED;
}

/* Makes the calls of a group's parts until one fails. */
static void
serve_parts(aya_request *request)
{
    aya_op *op = &request->op;
    size_t size = aya_group_size(op);

    aya_group_clear(op);
    for (size_t i = (size_t)op->done; i < size && !is_cancelled(request); i++) {
        aya_op part;
        aya_group_child(op, i, &part);
        while (aya_settle(&part, aya_threads_call(&part)) != AYA_VERDICT_DONE) {
        }
        aya_group_span(op, i)->result = part.result;
        op->done = (int64_t)i + 1;
        if (part.result < 0) {
            break;
        }
    }
    op->result = (size_t)op->done < size && is_cancelled(request) ? -ECANCELED
                                                                  : aya_group_result(op);
}

/* Makes the calls of one request until it is settled, or needs its context. Returns the request
 * that the thread is to serve next, or NULL. */
static aya_request *
serve_one(aya_request *request)
{
    if (request->whole) {
        serve_parts(request);
        aya_request *next = aya_request_pass_turn(request);
        aya_request_post_settled(request, AYA_VERDICT_DONE);
        return next;
    }
    for (;;) {
        int64_t result = aya_threads_call(&request->op);
        /* EAGAIN: a descriptor with O_NONBLOCK; the context waits for it without a worker. */
        if (result == AYA_RESULT_ALONE || result == -EAGAIN) {
            aya_request_post(request, result);
            return NULL;
        }
        aya_verdict verdict = aya_settle(&request->op, result);
        if (verdict == AYA_VERDICT_DONE || verdict == AYA_VERDICT_GROW || is_cancelled(request)) {
            aya_request *next = verdict == AYA_VERDICT_DONE ? aya_request_pass_turn(request) : NULL;
            aya_request_post_settled(request, verdict);
            return next;
        }
    }
}

static void
serve(aya_request *request)
{
    while ((request = serve_one(request)) != NULL) {
        request->backend_data = JOB_RUNS;
    }
}

static int64_t
join_at_locked(const pool *self)
{
    int64_t stuck = self->taken_at + JOIN_STUCK_NS;
    int64_t late = aya_request_of_shared(self->jobs.next)->posted_result + JOIN_LATE_NS;

    return stuck < late ? stuck : late;
}

/* Waits until `end`, or until there is something to look at: false when the time is over. */
static bool
wait_locked(pool *self, bool first, int64_t end)
{
    bool over;

    if (first) {
        self->first_idle = true;
        over = aya_condition_wait(&self->first_work, &self->lock, end);
        self->first_idle = false;
    } else {
        self->idle++;
        over = aya_condition_wait(&self->work, &self->lock, end);
        self->idle--;
    }
    return !over;
}

/* As the watcher. */
static void
watch_locked(pool *self, bool first, int64_t end)
{
    self->watched = true;
    wait_locked(self, first, end);
    self->watched = false;
}

/* No jobs wait. While others come and go there is a watcher all the same: to wake one for each
 * burst would cost more than the burst. False: none came for so long that the thread may end. */
static bool
wait_for_jobs_locked(pool *self, bool first, int64_t now)
{
    if (!self->watched && self->threads > 1 && now - self->taken_at < BUSY_NS) {
        watch_locked(self, first, now + JOIN_STUCK_NS);
        return true;
    }
    return wait_locked(self, first, now + IDLE_NS);
}

/* Waits for a job that this thread should take; NULL: the thread's end. `hot`: it just made a
 * call. */
static aya_request *
next_job_locked(pool *self, bool first, bool hot)
{
    bool in_time = true;

    for (;;) {
        int64_t now = aya_now_ns();
        if (!first && self->threads > self->most && self->running > 0) {
            return NULL;
        }
        if (aya_link_empty(&self->jobs)) {
            if (self->contexts == 0 || !in_time) {
                return NULL;
            }
            in_time = wait_for_jobs_locked(self, first, now);
        } else if (hot || self->running == 0 || join_at_locked(self) <= now) {
            aya_request *request = aya_request_of_shared(self->jobs.next);
            aya_link_remove(&request->shared);
            self->taken_at = now;
            return request;
        } else if (!self->watched) {
            watch_locked(self, first, join_at_locked(self));
        } else {
            in_time = wait_locked(self, first, now + IDLE_NS);
        }
        hot = false;
    }
}

static int start_worker_locked(pool *self);

/* Jobs wait: sees to it that a thread comes for them, at once or when it is time to join. */
static void
call_thread_locked(pool *self)
{
    if (self->watched && self->running > 0) {
        return;
    }
    if (self->first_idle) {
        pthread_cond_signal(&self->first_work);
    } else if (self->idle > 0) {
        pthread_cond_signal(&self->work);
    } else if (self->threads < self->most) {
        start_worker_locked(self);
    }
}

static void
work(pool *self, bool first)
{
    aya_request *request;
    bool hot = false;

    aya_thread_name("aya-io");
    pthread_mutex_lock(&self->lock);
    if (first) {
        self->first_idle = false;
    } else {
        self->idle--;
    }
    while ((request = next_job_locked(self, first, hot)) != NULL) {
        self->running++;
        __atomic_store_n(&request->backend_data, JOB_RUNS, __ATOMIC_RELAXED);
        if (!aya_link_empty(&self->jobs)) {
            call_thread_locked(self);
        }
        pthread_mutex_unlock(&self->lock);
        serve(request);
        pthread_mutex_lock(&self->lock);
        self->running--;
        hot = true;
    }
    self->threads--;
    if (first) {
        self->first_lives = false;
    }
    if (!aya_link_empty(&self->jobs)) {
        call_thread_locked(self);
    }
    pthread_mutex_unlock(&self->lock);
}

static void *
first_worker(void *argument)
{
    work(argument, true);
    return NULL;
}

static void *
further_worker(void *argument)
{
    aya_thread_stand_back();
    work(argument, false);
    return NULL;
}

static int
start_worker_locked(pool *self)
{
    bool first = !self->first_lives;
    int error = aya_thread_start(first ? first_worker : further_worker, self);

    if (error < 0) {
        return error;
    }
    self->threads++;
    if (first) {
        self->first_lives = self->first_idle = true;
    } else {
        self->idle++;
    }
    return 0;
}

/* -- hooks ------------------------------------------------------------------------------------- */

static void
init_pool(void)
{
    aya_condition_init(&shared_pool.first_work);
    aya_condition_init(&shared_pool.work);
    aya_link_init(&shared_pool.jobs);
}

static unsigned
wanted_threads(const aya_config *config)
{
    unsigned processors = aya_processors();

    if (config->io_worker_count > 0) {
        return (unsigned)config->io_worker_count;
    }
    return processors < 2 ? 4 : processors > 8 ? 16 : processors * 2;
}

int
aya_pool_open(aya_context *context, void **state)
{
    pool *self = &shared_pool;

    aya_grow_descriptors();
    pthread_once(&pool_made, init_pool);
    pthread_mutex_lock(&self->lock);
    self->contexts++;
    self->most = wanted_threads(&context->config);
    pthread_mutex_unlock(&self->lock);
    *state = self;
    return 0;
}

void
aya_pool_close(aya_context *context, void *state)
{
    pool *self = state;

    /* A context of the parent: the child's pool never heard of it. */
    if (context->generation != aya_fork_generation()) {
        return;
    }
    pthread_mutex_lock(&self->lock);
    self->contexts--;
    if (self->contexts == 0) {
        pthread_cond_signal(&self->first_work);
        pthread_cond_broadcast(&self->work);
    }
    pthread_mutex_unlock(&self->lock);
}

int
aya_pool_submit(aya_context *context, void *state, aya_link *queue)
{
    pool *self = state;
    int64_t now = aya_now_ns();
    aya_link jobs;
    int error = 0;

    aya_link_init(&jobs);
    pthread_mutex_lock(&self->lock);
    if (self->threads == 0) {
        error = start_worker_locked(self);
    }
    pthread_mutex_unlock(&self->lock);
    if (error < 0) {
        return error;
    }
    while (!aya_link_empty(queue)) {
        aya_request *request = aya_request_of(queue->next);
        aya_request_launched(context, request, state);
        request->posted_result = now;
        request->backend_data = JOB_WAITS;
        aya_link_append(&jobs, &request->shared);
    }
    pthread_mutex_lock(&self->lock);
    aya_link_append_all(&self->jobs, &jobs);
    if (!aya_link_empty(&self->jobs)) {
        call_thread_locked(self);
    }
    pthread_mutex_unlock(&self->lock);
    return 0;
}

void
aya_pool_reap(aya_context *context, void *state)
{
    /* Workers post. */
    (void)context;
    (void)state;
}

void
aya_pool_cancel(aya_context *context, void *state, aya_request *request)
{
    pool *self = state;
    bool waits = false;

    (void)context;
    pthread_mutex_lock(&self->lock);
    if (request->backend_data == JOB_WAITS) {
        waits = true;
        aya_link_remove(&request->shared);
    } else {
        __atomic_store_n(&request->backend_data, JOB_CANCELLED, __ATOMIC_RELAXED);
    }
    pthread_mutex_unlock(&self->lock);
    if (waits) {
        aya_request_post(request, -ECANCELED);
    }
}

void
aya_pool_fork(aya_fork_phase phase)
{
    switch (phase) {
    case AYA_FORK_BEFORE:
        pthread_mutex_lock(&shared_pool.lock);
        break;
    case AYA_FORK_PARENT:
        pthread_mutex_unlock(&shared_pool.lock);
        break;
    case AYA_FORK_CHILD:
        /* The parent's jobs and threads are not the child's. */
        init_pool();
        shared_pool.contexts = shared_pool.threads = shared_pool.idle = shared_pool.running = 0;
        shared_pool.first_lives = shared_pool.first_idle = shared_pool.watched = false;
        pthread_mutex_unlock(&shared_pool.lock);
        break;
    }
}
