/* Buffers of streams, kept for reuse: a file that is opened, read and closed over and over would
 * else have its pages given back to the system and fetched again each time. Any thread.
 */
#include "buffers.h"
#include "internal.h"

#include <stdlib.h>

/* Of this size are nearly all; others are not kept. */
#define KEPT_SIZE 65536

typedef struct kept {
    struct kept *next;
} kept;

static uint8_t lock;
static kept *first;
static size_t count;
static size_t most = 512;

void *
aya_buffer_take(size_t size)
{
    kept *buffer = NULL;

    if (size == KEPT_SIZE) {
        aya_spin_lock(&lock);
        buffer = first;
        if (buffer != NULL) {
            first = buffer->next;
            count--;
        }
        aya_spin_unlock(&lock);
    }
    return buffer != NULL ? buffer : malloc(size);
}

void
aya_buffer_give(void *data, size_t size)
{
    kept *buffer = data;

    if (buffer != NULL && size == KEPT_SIZE) {
        aya_spin_lock(&lock);
        if (count < most) {
            buffer->next = first;
            first = buffer;
            count++;
            buffer = NULL;
        }
        aya_spin_unlock(&lock);
    }
    free(buffer);
}

void
aya_buffers_keep(size_t limit)
{
    kept *surplus = NULL;

    aya_spin_lock(&lock);
    most = limit;
    while (count > limit) {
        kept *buffer = first;
        first = buffer->next;
        count--;
        buffer->next = surplus;
        surplus = buffer;
    }
    aya_spin_unlock(&lock);
    while (surplus != NULL) {
        kept *next = surplus->next;
        free(surplus);
        surplus = next;
    }
}

void
aya_buffers_fork(aya_fork_phase phase)
{
    if (phase == AYA_FORK_BEFORE) {
        aya_spin_lock(&lock);
    } else {
        aya_spin_unlock(&lock);
    }
}
