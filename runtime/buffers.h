/* Buffers of streams, kept for reuse; buffers.c. */
#ifndef AYA_BUFFERS_H
#define AYA_BUFFERS_H

#include <stddef.h>

/* Memory of `size` bytes, or NULL. */
void *aya_buffer_take(size_t size);
/* Gives it back; `size` as it was taken. */
void aya_buffer_give(void *data, size_t size);
/* Keeps at most `limit` idle ones from now on, and frees those that are more. */
void aya_buffers_keep(size_t limit);

#endif
