/* Buffers of streams, kept for reuse; buffers.c. */
#ifndef AYA_BUFFERS_H
#define AYA_BUFFERS_H

#include "posix.h"

#include <stddef.h>

/* Memory of `size` bytes, or NULL. */
void *aya_buffer_take(size_t size);
/* Gives it back; `size` as it was taken. */
void aya_buffer_give(void *data, size_t size);
/* Keeps at most `limit` idle ones from now on, and frees those that are more. */
void aya_buffers_keep(size_t limit);
/* Around a fork: the child's lock must be free. */
void aya_buffers_fork(aya_fork_phase phase);

#endif
