/* Gathered bytes: see gather.h; and the parts of an operation, which the rows of backends ask for.
 * The gathering runs in the thread of its stream, never while the system writes the bytes;
 * aya_parts_*() in any thread. No waiting, no locks, no Python.
 */
#include "gather.h"
#include "buffers.h"

#include <stdlib.h>
#include <string.h>

#define FIRST_ROOM 8

static int
add_part(aya_gather *gather, const void *data, size_t size, void *owner)
{
    if (gather->count == gather->room) {
        size_t room = gather->room == 0 ? FIRST_ROOM : gather->room * 2;
        aya_part *parts = realloc(gather->parts, room * sizeof(*parts));
        if (parts == NULL) {
            return -ENOMEM;
        }
        gather->parts = parts;
        gather->room = room;
    }
    gather->parts[gather->count++] = (aya_part){.data = data, .size = size, .owner = owner};
    return 0;
}

static int
reserve_block(aya_gather *gather, size_t room)
{
    if (gather->block_room >= room) {
        return 0;
    }
    aya_buffer_give(gather->block, gather->block_room);
    gather->block = aya_buffer_take(room);
    gather->block_room = gather->block == NULL ? 0 : room;
    return gather->block == NULL ? -ENOMEM : 0;
}

int64_t
aya_gather_copy(aya_gather *gather, size_t room, const void *data, size_t size)
{
    aya_part *last = gather->count == 0 ? NULL : &gather->parts[gather->count - 1];
    size_t count;

    if (gather->block_end == 0 && reserve_block(gather, room) < 0) {
        return -ENOMEM;
    }
    count = size < room - gather->block_end ? size : room - gather->block_end;
    if (last == NULL || last->owner != NULL) {
        int error = add_part(gather, gather->block + gather->block_end, 0, NULL);
        if (error < 0) {
            return error;
        }
        last = &gather->parts[gather->count - 1];
    }
    memcpy(gather->block + gather->block_end, data, count);
    gather->block_end += count;
    gather->size += count;
    last->size += count;
    return (int64_t)count;
}

int
aya_gather_add(aya_gather *gather, const void *data, size_t size, void *owner)
{
    int error = add_part(gather, data, size, owner);

    if (error == 0) {
        gather->size += size;
    }
    return error;
}

static void
release_part(const aya_part *part, aya_release release)
{
    if (part->owner != NULL) {
        release(part->owner);
    }
}

void
aya_gather_drop_first(aya_gather *gather, size_t size, aya_release release)
{
    size_t whole = 0;

    gather->size -= size;
    while (whole < gather->count && gather->parts[whole].size <= size) {
        size -= gather->parts[whole].size;
        release_part(&gather->parts[whole], release);
        whole++;
    }
    gather->count -= whole;
    if (gather->count == 0) {
        gather->block_end = 0;
        return;
    }
    memmove(gather->parts, gather->parts + whole, gather->count * sizeof(*gather->parts));
    gather->parts[0].data = (const char *)gather->parts[0].data + size;
    gather->parts[0].size -= size;
}

void
aya_gather_drop_last(aya_gather *gather, size_t size, aya_release release)
{
    gather->size -= size;
    while (gather->count > 0) {
        aya_part *last = &gather->parts[gather->count - 1];
        size_t count = size < last->size ? size : last->size;
        last->size -= count;
        size -= count;
        if (last->owner == NULL) {
            gather->block_end -= count;
        }
        if (last->size > 0) {
            return;
        }
        release_part(last, release);
        gather->count--;
    }
    gather->block_end = 0;
}

void
aya_gather_clear(aya_gather *gather, aya_release release)
{
    aya_gather_drop_first(gather, gather->size, release);
}

void
aya_gather_free(aya_gather *gather, aya_release release)
{
    aya_gather_clear(gather, release);
    free(gather->parts);
    aya_buffer_give(gather->block, gather->block_room);
    *gather = (aya_gather){0};
}

/* -- parts of an operation --------------------------------------------------------------------- */

/* What one call of any system takes. */
#define PART_MOST ((size_t)0x7ffff000)

aya_parts
aya_parts_past(aya_parts parts, int64_t done)
{
    parts.skip += (size_t)done;
    parts.size -= (size_t)done;
    while (parts.count > 0 && parts.skip >= parts.list->size) {
        parts.skip -= parts.list->size;
        parts.list++;
        parts.count--;
    }
    return parts;
}

const void *
aya_parts_data(const aya_parts *parts)
{
    return parts->count == 0 ? NULL : (const char *)parts->list->data + parts->skip;
}

void *
aya_parts_room(const aya_parts *parts)
{
    return (void *)(uintptr_t)aya_parts_data(parts);
}

size_t
aya_parts_data_len(const aya_parts *parts)
{
    size_t size = parts->count == 0 ? 0 : parts->list->size - parts->skip;

    return size < PART_MOST ? size : PART_MOST;
}
