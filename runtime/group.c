/* Groups: one request that is many of another operation. Its parts are requests of their own, of
 * which a window is in flight at a time. Runs in the context's thread.
 */
#include "group.h"

#include <stdlib.h>

/* Enough to keep a device's queue full, few enough to cost no memory worth a thought. */
#define WINDOW 128
/* The longest stretch of inline parts: half of what a turn of a loop may take. */
#define INLINE_MOST_NS 250000
/* Of a group whose parts are cached so far as many are in flight, and with each that ends so many
 * are tried inline: a third of a turn in all. */
#define WINDOW_CACHED 32
#define INLINE_BETWEEN 8

typedef struct group group;

typedef struct part {
    aya_request request;
    group *group;
    size_t index;
    bool active;
} part;

struct group {
    aya_request *request;
    size_t next, size;   /* the next part to start, and how many there are */
    size_t slots;        /* length of parts[] */
    size_t opened;       /* how many of them are used */
    size_t active;       /* parts in flight */
    bool stopped;        /* a part failed or the group was cancelled: no further part is started */
    part parts[];
};

/* The first error by position, else the number of parts. */
int64_t
aya_group_result(const aya_op *op)
{
    size_t size = aya_group_size(op);

    for (size_t i = 0; i < size; i++) {
        int64_t result = aya_group_span(op, i)->result;
        if (result < 0) {
            return result;
        }
    }
    return (int64_t)size;
}

static int
grow_part(aya_request *request, aya_op *op, size_t index)
{
    part *self = (part *)request;
    aya_request *whole = self->group->request;

    (void)index;
    return whole->grow == NULL ? -ENOBUFS : whole->grow(whole, op, self->index);
}

bool
aya_group_try(aya_context *context, aya_request *request)
{
    aya_op *op = &request->op;
    size_t size = aya_group_size(op);
    group whole = {.request = request};
    part one = {.group = &whole};
    int64_t end = aya_now_ns() + INLINE_MOST_NS;

    for (size_t i = (size_t)op->done; i < size; i++) {
        one.index = i;
        aya_group_child(op, i, &one.request.op);
        one.request.grow = request->grow == NULL ? NULL : grow_part;
        if (!aya_try(context, &one.request)) {
            return false;
        }
        aya_group_span(op, i)->result = one.request.op.result;
        op->done = (int64_t)i + 1;
        if (one.request.op.result < 0) {
            break;
        }
        if ((i & 15) == 15 && aya_now_ns() > end && i + 1 < size) {
            return false;
        }
    }
    op->result = aya_group_result(op);
    return true;
}

static void
end_group(aya_context *context, group *whole)
{
    aya_request *request = whole->request;
    int64_t result = aya_group_result(&request->op);

    request->op.result = request->cancelled && result >= 0 && whole->next < whole->size ? -ECANCELED
                                                                                       : result;
    request->backend_data = NULL;
    free(whole);
    aya_request_group_ended(context, request);
}

static void part_done(aya_request *request);

void
aya_group_clear(const aya_op *op)
{
    size_t size = aya_group_size(op);

    for (size_t i = (size_t)op->done; i < size; i++) {
        aya_group_span(op, i)->result = 0;
    }
}

/* Makes the next part in a free slot. */
static void
make_part(group *whole, part *self)
{
    self->index = whole->next++;
    self->request = (aya_request){.done = part_done};
    self->request.grow = whole->request->grow == NULL ? NULL : grow_part;
    aya_group_child(&whole->request->op, self->index, &self->request.op);
}

static void
start_made(aya_context *context, group *whole, part *self)
{
    self->active = true;
    whole->active++;
    aya_start(context, &self->request);
}

static void
start_part(aya_context *context, group *whole, part *self)
{
    make_part(whole, self);
    start_made(context, whole, self);
}

static void
part_ended(group *whole, part *self)
{
    aya_group_span(&whole->request->op, self->index)->result = self->request.op.result;
    if (self->request.op.result < 0) {
        whole->stopped = true;
    }
}

static void
open_slot(aya_context *context, group *whole)
{
    if (!whole->stopped && whole->next < whole->size && whole->opened < whole->slots) {
        start_part(context, whole, &whole->parts[whole->opened++]);
    }
}

/* The next parts in a free slot: some inline, as long as they are, and one that is started. What a
 * group does inline at once is bounded, but the rest may well be cached as well. */
static void
go_on(aya_context *context, group *whole, part *self)
{
    for (int i = 0; i < INLINE_BETWEEN && !whole->stopped && whole->next < whole->size; i++) {
        make_part(whole, self);
        if (!aya_try(context, &self->request)) {
            start_made(context, whole, self);
            open_slot(context, whole);
            return;
        }
        part_ended(whole, self);
    }
    if (!whole->stopped && whole->next < whole->size) {
        start_part(context, whole, self);
    }
}

static void
part_done(aya_request *request)
{
    part *self = (part *)request;
    group *whole = self->group;
    aya_context *context = request->context;

    part_ended(whole, self);
    self->active = false;
    whole->active--;
    go_on(context, whole, self);
    if (whole->active == 0) {
        end_group(context, whole);
    }
}

int
aya_group_start(aya_context *context, aya_request *request)
{
    size_t size = aya_group_size(&request->op);
    size_t done = (size_t)request->op.done;
    size_t slots = size - done < WINDOW ? size - done : WINDOW;
    group *whole = calloc(1, sizeof(group) + slots * sizeof(part));

    if (whole == NULL) {
        return -ENOMEM;
    }
    aya_group_clear(&request->op);
    *whole = (group){.request = request, .next = done, .size = size, .slots = slots};
    request->backend_data = whole;
    for (size_t i = 0; i < slots; i++) {
        whole->parts[i].group = whole;
    }
    bool cached = done > 0 && request->op.file != NULL && !aya_habit_is_cold(request->op.file);
    for (size_t i = 0; i < slots && !(cached && i >= WINDOW_CACHED); i++) {
        open_slot(context, whole);
    }
    if (slots == 0) {
        end_group(context, whole);
    }
    return 0;
}

void
aya_group_cancel(aya_context *context, aya_request *request)
{
    group *whole = request->backend_data;

    (void)context;
    whole->stopped = true;
    for (size_t i = 0; i < whole->slots; i++) {
        if (whole->parts[i].active) {
            aya_cancel(&whole->parts[i].request);
        }
    }
}
