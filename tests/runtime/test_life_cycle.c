/* The life of a request on a backend that misbehaves as kernels may: it ends requests in any
 * order, in short pieces, with EINTR and EAGAIN, twice as late as asked for, or never until they
 * are cancelled.
 *
 * The backend is this file's own table, put in a context's place of its backend. Files lie in
 * the current directory. One thread beside the pool's.
 */
#include "jobs.h"

#include <sys/eventfd.h>
#include <sys/stat.h>

#define BLOCKS 32
#define BATCH_MOST 3 /* requests of one submission */

/* -- the backend ------------------------------------------------------------------------------- */

typedef struct fake {
    aya_link flying;            /* requests by `shared` */
    unsigned count;
    const aya_file *dead;       /* requests of this file never end by themselves */
    int event;                  /* readable while one that can end is flying */
    unsigned ended, interrupted, shortened;
    unsigned full;              /* submissions of as many requests as they may have */
} fake;

static int
fake_open(aya_context *context, void **state)
{
    (void)context;
    (void)state;
    return -ENOTSUP; /* put in place by hand */
}

static void
fake_close(aya_context *context, void *state)
{
    fake *self = state;

    (void)context;
    CHECK(aya_link_empty(&self->flying));
    close(self->event);
}

/* A fence flies alone among its file's requests. */
static void
check_fences(const fake *self, const aya_request *request)
{
    bool fence = aya_op_infos[request->op.code].fence;

    for (aya_link *link = self->flying.next; link != &self->flying; link = link->next) {
        aya_request *other = aya_request_of_shared(link);
        CHECK(other->op.file != request->op.file
              || (!fence && !aya_op_infos[other->op.code].fence));
    }
}

static int
fake_submit(aya_context *context, void *state, aya_link *queue)
{
    fake *self = state;
    unsigned most = 1 + random_below(8), given = 0;

    for (aya_link *link = queue->next; link != queue; link = link->next) {
        given++;
    }
    CHECK(given > 0 && given <= BATCH_MOST);
    self->full += given == BATCH_MOST;
    while (!aya_link_empty(queue) && self->count < most) {
        aya_request *request = aya_request_of(queue->next);
        CHECK_EQUAL(request->state, AYA_STATE_QUEUED);
        check_fences(self, request);
        aya_request_launched(context, request, state);
        aya_link_append(&self->flying, &request->shared);
        self->count++;
    }
    if (self->count > 0) {
        CHECK_EQUAL(eventfd_write(self->event, 1), 0);
    }
    return 0;
}

/* Moves a part of what is left, by the call that the operation stands for. */
static int64_t
move_part(fake *self, aya_op *op)
{
    size_t room = aya_op_room(op), part = room;
    bool reads = op->code == AYA_OP_READ_AT;

    if (room == 0) {
        return aya_threads_call(op);
    }
    if (random_below(2) == 0) {
        part = 1 + random_below((uint32_t)room);
        self->shortened += part < room;
    }
    CHECK(reads || op->code == AYA_OP_WRITE_AT);
    ssize_t moved = reads ? pread(op->file->io, (char *)op->buf + op->done, part,
                                  op->args.read_at.offset + op->done)
                          : pwrite(op->file->io, (const char *)op->args.write_at.data + op->done,
                                   part, op->args.write_at.offset + op->done);
    return moved < 0 ? -errno : moved;
}

static void
end_one(aya_context *context, fake *self, aya_request *request)
{
    uint32_t mood = random_below(10);
    bool retried = aya_op_infos[request->op.code].fence == false;
    int64_t result;

    aya_link_remove(&request->shared);
    self->count--;
    self->ended++;
    if (request->backend_data != NULL) {
        result = mood < 5 ? -ECANCELED : mood < 7 ? -EINTR : move_part(self, &request->op);
    } else if (retried && mood < 2) {
        self->interrupted++;
        result = mood == 0 ? -EINTR : -EAGAIN;
    } else {
        result = move_part(self, &request->op);
    }
    request->backend_data = NULL;
    aya_request_finished(context, request, result);
    if (result == -EAGAIN && request->state == AYA_STATE_QUEUED) {
        CHECK(request->force_async);
    }
}

static bool
can_end(const fake *self, const aya_request *request)
{
    return request->op.file != self->dead || request->backend_data != NULL;
}

static void
fake_reap(aya_context *context, void *state)
{
    fake *self = state;
    eventfd_t unused;

    eventfd_read(self->event, &unused);
    for (unsigned i = random_below(8); i > 0 && self->count > 0; i--) {
        aya_link *link = self->flying.next;
        for (unsigned skip = random_below(self->count); skip > 0; skip--) {
            link = link->next;
        }
        if (can_end(self, aya_request_of_shared(link))) {
            end_one(context, self, aya_request_of_shared(link));
        }
    }
    for (aya_link *link = self->flying.next; link != &self->flying; link = link->next) {
        if (can_end(self, aya_request_of_shared(link))) {
            CHECK_EQUAL(eventfd_write(self->event, 1), 0);
            break;
        }
    }
}

static void
fake_cancel(aya_context *context, void *state, aya_request *request)
{
    fake *self = state;

    (void)context;
    CHECK_EQUAL(request->state, AYA_STATE_IN_FLIGHT);
    request->backend_data = self;
    CHECK_EQUAL(eventfd_write(self->event, 1), 0);
}

static const aya_backend fake_backend = {
    .name = "fake",
    .fallback = "threads",
    .transfer_limit = 0x7ffff000,
    .batch_limit = BATCH_MOST,
    .hooks = {fake_open, fake_close, fake_submit, fake_reap, fake_cancel, NULL},
    .rows = {
        [AYA_OP_READ_AT] = AYA_ROW_OWN, [AYA_OP_WRITE_AT] = AYA_ROW_OWN,
        [AYA_OP_TRUNCATE] = AYA_ROW_OWN, [AYA_OP_FSYNC] = AYA_ROW_OWN,
        [AYA_OP_OPEN] = AYA_ROW_VIA, [AYA_OP_CLOSE] = AYA_ROW_VIA,
    },
};

static aya_context *
make_fake_context(fake *self)
{
    aya_context *context;

    backend = "threads";
    context = make_context();
    *self = (fake){.event = eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC)};
    CHECK(self->event >= 0);
    aya_link_init(&self->flying);
    context->backend = &fake_backend;
    context->state = self;
    context->backend_descriptor = self->event;
    return context;
}

/* -- transfers --------------------------------------------------------------------------------- */

typedef struct transfer {
    job job;
    char wanted[BLOCK], data[BLOCK];
    int64_t size;
} transfer;

/* What the file must be once all that was started has run in the order of its fences. */
typedef struct model {
    char content[BLOCKS * BLOCK];
    int64_t size;
    int64_t settled_size; /* at the last fence */
    bool touched[BLOCKS]; /* since the last fence */
} model;

static void
pass_fence(model *self)
{
    memset(self->touched, 0, sizeof(self->touched));
    self->settled_size = self->size;
}

static void
start_transfer(aya_context *context, aya_file *file, transfer *self, model *model)
{
    unsigned at = random_below(BLOCKS);
    int64_t offset = (int64_t)at * BLOCK, left = model->settled_size - offset;
    aya_op *op = &self->job.request.op;

    self->size = 0;
    if (random_below(12) == 0) {
        int64_t size = random_below(BLOCKS * BLOCK);
        if (size < model->size) {
            memset(model->content + size, 0, (size_t)(model->size - size));
        }
        model->size = size;
        pass_fence(model);
        aya_op_truncate(op, file, size);
    } else if (random_below(2) == 0 && !model->touched[at]) {
        memset(self->data, (int)random_below(256), BLOCK);
        memcpy(model->content + offset, self->data, BLOCK);
        model->size = offset + BLOCK > model->size ? offset + BLOCK : model->size;
        model->touched[at] = true;
        self->size = BLOCK;
        aya_op_write_at(op, file, offset, self->data, BLOCK);
    } else if (!model->touched[at] && left >= BLOCK) {
        model->touched[at] = true;
        memcpy(self->wanted, model->content + offset, BLOCK);
        self->size = BLOCK;
        aya_op_read_at(op, file, offset, BLOCK, self->data, BLOCK);
    } else {
        pass_fence(model);
        aya_op_fsync(op, file, true);
    }
    job_start(context, &self->job);
}

static void
test_random_order(void)
{
    enum { MOST = 40 };
    static transfer transfers[MOST];
    static model expected;
    static char got[BLOCKS * BLOCK];
    fake self;
    aya_context *context = make_fake_context(&self);
    aya_file file;
    int fd = open_scratch(&file);
    struct stat stat;

    memset(&expected, 0, sizeof(expected));
    for (unsigned round = 0; round < 200; round++) {
        unsigned count = 1 + random_below(MOST);
        pass_fence(&expected);
        for (unsigned i = 0; i < count; i++) {
            start_transfer(context, &file, &transfers[i], &expected);
        }
        wait_until_pending(context, 0);
        for (unsigned i = 0; i < count; i++) {
            transfer *one = &transfers[i];
            CHECK_EQUAL(one->job.result, one->size);
            CHECK(one->job.request.op.code != AYA_OP_READ_AT
                  || memcmp(one->data, one->wanted, BLOCK) == 0);
        }
        CHECK_EQUAL(fstat(fd, &stat), 0);
        CHECK_EQUAL(stat.st_size, expected.size);
        CHECK_EQUAL(pread(fd, got, sizeof(got), 0), expected.size);
        CHECK(memcmp(got, expected.content, (size_t)expected.size) == 0);
        CHECK_EQUAL(file.in_flight, 0);
    }
    CHECK(self.interrupted > 100 && self.shortened > 100 && self.full > 100);
    aya_context_destroy(context);
    close(fd);
}

static unsigned grown;

static int
grow_twofold(aya_request *request, aya_op *op, size_t index)
{
    char *larger = realloc(op->buf, op->buf_size * 2);

    (void)request;
    CHECK_EQUAL(index, 0);
    CHECK_EQUAL(op->done, op->buf_size);
    CHECK(larger != NULL);
    op->buf = larger;
    op->buf_size *= 2;
    grown++;
    return 0;
}

static int
grow_not(aya_request *request, aya_op *op, size_t index)
{
    (void)request;
    (void)op;
    (void)index;
    return -ENOMEM;
}

static void
test_growing_reads(void)
{
    enum { SIZE = 50000 };
    fake self;
    aya_context *context = make_fake_context(&self);
    char *data = malloc(SIZE);
    job one = {.request.grow = grow_twofold};
    aya_file file;
    int fd = open_scratch(&file);

    for (size_t i = 0; i < SIZE; i++) {
        data[i] = (char)random_below(256);
    }
    CHECK_EQUAL(write(fd, data, SIZE), SIZE);
    grown = 0;
    aya_op_read_at(&one.request.op, &file, 0, -1, malloc(100), 100);
    job_start(context, &one);
    wait_until_pending(context, 0);
    CHECK_EQUAL(one.result, SIZE);
    CHECK_EQUAL(grown, 9);
    CHECK(memcmp(one.request.op.buf, data, SIZE) == 0);
    one.request.grow = grow_not;
    aya_op_read_at(&one.request.op, &file, 0, -1, one.request.op.buf, 100);
    job_start(context, &one);
    wait_until_pending(context, 0);
    CHECK_EQUAL(one.result, -ENOMEM);
    free(one.request.op.buf);
    free(data);
    aya_context_destroy(context);
    close(fd);
}

static void
test_many(void)
{
    enum { SPANS = 500 };
    static aya_span spans[SPANS];
    static char got[SPANS][8];
    fake self;
    aya_context *context = make_fake_context(&self);
    job group = {.index = 0};
    aya_file file;
    int fd = open_scratch(&file);

    for (int64_t i = 0; i < SPANS; i++) {
        CHECK_EQUAL(pwrite(fd, &i, sizeof(i), i * 8), 8);
    }
    for (unsigned round = 0; round < 4; round++) {
        for (unsigned i = 0; i < SPANS; i++) {
            spans[i] = (aya_span){.offset = (SPANS - 1 - i) * 8, .size = 8, .buf = got[i],
                                  .buf_size = 8};
        }
        spans[100].offset = round == 1 ? -1 : spans[100].offset;
        aya_op_read_many(&group.request.op, &file, spans, SPANS);
        job_start(context, &group);
        if (round >= 2) {
            CHECK(aya_context_wait(context, 0) >= 0);
            aya_cancel(&group.request);
        }
        wait_until_pending(context, 0);
        CHECK_EQUAL(group.result, round == 0 ? SPANS : round == 1 ? -EINVAL : -ECANCELED);
        for (int64_t i = 0; i < SPANS; i++) {
            int64_t value = SPANS - 1 - i;
            CHECK(spans[i].result != 8 || memcmp(got[i], &value, 8) == 0);
            CHECK(round > 0 || spans[i].result == 8);
        }
    }
    aya_context_destroy(context);
    close(fd);
}

/* -- ends -------------------------------------------------------------------------------------- */

static void
start_read(aya_context *context, job *self, aya_file *file, char *byte)
{
    aya_op_read_at(&self->request.op, file, 0, 1, byte, 1);
    job_start(context, self);
}

/* Requests that never end: by a cancel, and at the context's end. */
static void
test_requests_that_never_end(void)
{
    enum { COUNT = 6 };
    static job jobs[COUNT], fence, behind;
    fake self;
    aya_context *context = make_fake_context(&self);
    char bytes[COUNT + 1];
    aya_file file;
    int fd = open_scratch(&file);

    self.dead = &file;
    CHECK_EQUAL(write(fd, "x", 1), 1);
    for (unsigned i = 0; i < COUNT; i++) {
        start_read(context, &jobs[i], &file, &bytes[i]);
    }
    aya_op_fsync(&fence.request.op, &file, false);
    job_start(context, &fence);
    start_read(context, &behind, &file, &bytes[COUNT]);
    while (self.count == 0) {
        CHECK(aya_context_submit(context) >= 0);
    }
    aya_cancel(aya_request_of_shared(self.flying.next));
    wait_until_pending(context, COUNT + 1);
    CHECK_EQUAL(fence.result, UNSET);
    aya_context_destroy(context);
    for (unsigned i = 0; i < COUNT; i++) {
        CHECK(jobs[i].result == -ECANCELED || jobs[i].result == 1);
    }
    CHECK(fence.result == -ECANCELED || fence.result == 0);
    CHECK(behind.result == -ECANCELED || behind.result == 1);
    CHECK_EQUAL(file.in_flight, 0);
    CHECK(!file.fenced && aya_link_empty(&file.held));
    close(fd);
}

/* A fence of one context waits for the operations of another, and is told when they have ended. */
static void
test_fence_across_contexts(void)
{
    fake one, other;
    aya_context *first = make_fake_context(&one), *second = make_fake_context(&other);
    job read = {.index = 0}, fence = {.index = 1}, later = {.index = 2};
    char bytes[2];
    aya_file file;
    int fd = open_scratch(&file);

    CHECK_EQUAL(write(fd, "x", 1), 1);
    for (unsigned round = 0; round < 100; round++) {
        start_read(first, &read, &file, &bytes[0]);
        aya_op_truncate(&fence.request.op, &file, 1);
        job_start(second, &fence);
        start_read(first, &later, &file, &bytes[1]);
        CHECK_EQUAL(aya_context_wait(second, 0), 0);
        CHECK_EQUAL(fence.request.state, AYA_STATE_HELD);
        if (round % 4 == 3) {
            aya_cancel(&fence.request);
        }
        wait_until_pending(first, 1);
        if (round % 4 == 2) {
            aya_cancel(&fence.request);
        }
        wait_until_pending(second, 0);
        wait_until_pending(first, 0);
        CHECK(fence.result == (round % 4 < 2 ? 0 : -ECANCELED));
        CHECK_EQUAL(read.result, 1);
        CHECK_EQUAL(later.result, 1);
        CHECK_EQUAL(file.in_flight, 0);
        CHECK(!file.fenced && aya_link_empty(&file.held));
    }
    aya_context_destroy(first);
    aya_context_destroy(second);
    close(fd);
}

/* A descriptor that arrives after nobody wants it any more is closed. */
static void
test_unwanted_handle(void)
{
    fake self;
    aya_context *context = make_fake_context(&self);
    int descriptors = count_descriptors();
    job one = {.index = 0};

    aya_op_open(&one.request.op, scratch, AYA_OPEN_BOTH, false, true, false, false, 0600);
    job_start(context, &one);
    CHECK(aya_context_submit(context) >= 0);
    one.request.abandoned = true;
    wait_until_pending(context, 0);
    CHECK_EQUAL(one.result, -ECANCELED);
    CHECK_EQUAL(count_descriptors(), descriptors);
    /* A FIFO's, which would be used through a description of its own. */
    unlink(scratch);
    CHECK_EQUAL(mkfifo(scratch, 0600), 0);
    aya_op_open(&one.request.op, scratch, AYA_OPEN_READ, false, false, false, false, 0);
    job_start(context, &one);
    while (one.request.route != AYA_ROUTE_ALONE) {
        CHECK(aya_context_wait(context, 1) >= 0);
    }
    one.request.abandoned = true;
    int partner = open(scratch, O_WRONLY | O_CLOEXEC);
    wait_until_pending(context, 0);
    close(partner);
    unlink(scratch);
    CHECK_EQUAL(one.result, -ECANCELED);
    CHECK_EQUAL(count_descriptors(), descriptors);
    aya_context_destroy(context);
}

/* -- habits ------------------------------------------------------------------------------------ */

static unsigned
count_skips(aya_file *file)
{
    unsigned count = 0;

    while (aya_habit_skips(file)) {
        count++;
    }
    return count;
}

/* How many reads are not tried inline after one that missed, and what is taken for random. */
static void
test_habits(void)
{
    static const unsigned skips[] = {1, 2, 4, 8, 16, 16};
    aya_file file;
    int reads = 0, fd = open_scratch(&file);

    CHECK(!aya_habit_skips(&file));
    for (size_t i = 0; i < sizeof(skips) / sizeof(skips[0]); i++) {
        aya_habit_missed(&file);
        CHECK(aya_habit_is_cold(&file));
        CHECK_EQUAL(count_skips(&file), skips[i]);
    }
    aya_habit_hit(&file);
    CHECK(!aya_habit_is_cold(&file));
    for (int64_t at = 0; at < 64 * BLOCK; at += BLOCK) {
        aya_habit_read(&file, at, BLOCK);
        CHECK(!file.habit.random);
    }
    while (!file.habit.random && reads < 100) {
        aya_habit_read(&file, (reads++ & 1) * 100 * BLOCK, BLOCK);
    }
    CHECK_EQUAL(reads, 16);
    for (reads = 0; file.habit.random && reads < 100; reads++) {
        aya_habit_read(&file, (1000 + reads) * BLOCK, BLOCK);
    }
    CHECK(reads > 2 && reads < 10);
    CHECK_EQUAL(close(fd), 0);
}

int
main(void)
{
    static const test tests[] = {
        {"any order, short and interrupted", test_random_order},
        {"growing reads", test_growing_reads},
        {"many of one", test_many},
        {"requests that never end", test_requests_that_never_end},
        {"fences across contexts", test_fence_across_contexts},
        {"an unwanted handle", test_unwanted_handle},
        {"habits", test_habits},
    };
    char *only_once[] = {"", "threads"};

    return run_tests(2, only_once, tests, sizeof(tests) / sizeof(tests[0]));
}
