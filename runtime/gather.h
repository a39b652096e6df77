/* Bytes that a stream accepted and the system does not have yet, as a list of parts: what is small
 * is copied into one block, what is large and never changes stays where it lies. gather.c.
 */
#ifndef AYA_GATHER_H
#define AYA_GATHER_H

#include "aya_platform.h"

typedef struct aya_gather {
    aya_part *parts;          /* in the order of the file; `owner` is NULL for parts of `block` */
    size_t count, room;       /* parts, and how many fit */
    size_t size;              /* bytes of all parts */
    char *block;              /* what was copied */
    size_t block_end, block_room;
} aya_gather;

/* Lets go of memory that was kept. */
typedef void (*aya_release)(void *owner);

/* Copies as much of data[0..size) as a block of `room` bytes still takes: how much, or -ENOMEM. */
int64_t aya_gather_copy(aya_gather *gather, size_t room, const void *data, size_t size);
/* Takes data[0..size) as it lies; the caller keeps `owner` alive. 0 or -ENOMEM. */
int aya_gather_add(aya_gather *gather, const void *data, size_t size, void *owner);

/* Takes away the first, or the last, `size` bytes. */
void aya_gather_drop_first(aya_gather *gather, size_t size, aya_release release);
void aya_gather_drop_last(aya_gather *gather, size_t size, aya_release release);
/* Takes away all. */
void aya_gather_clear(aya_gather *gather, aya_release release);
/* The same, and gives its memory back. */
void aya_gather_free(aya_gather *gather, aya_release release);

/* All of it, for an operation; holds as long as the gathered bytes are left alone. */
static inline aya_parts
aya_gather_all(const aya_gather *gather)
{
    return (aya_parts){.list = gather->parts, .count = gather->count, .size = gather->size};
}

#endif
