/* Groups: one request that is many of another operation (read_many of read_at). Seams to
 * request.c. */
#ifndef AYA_GROUP_H
#define AYA_GROUP_H

#include "internal.h"

/* Finishes parts inline, in order, and remembers in op.done how many; true when all are done. */
bool aya_group_try(aya_context *context, aya_request *group);
/* Starts the parts that aya_group_try() left, a window of them at a time. 0 or -errno. */
int aya_group_start(aya_context *context, aya_request *group);
void aya_group_cancel(aya_context *context, aya_request *group);
/* Those parts have no results yet. */
void aya_group_clear(const aya_op *group);
/* What the parts' results come to. */
int64_t aya_group_result(const aya_op *group);
/* All parts have ended and op.result is set: ends the group by the next reap; request.c. */
void aya_request_group_ended(aya_context *context, aya_request *group);

/* request.c for context.c. */
void aya_requests_take_posted(aya_context *context);
void aya_requests_take_deferred(aya_context *context);
/* Makes the context's descriptors readable; any thread. */
void aya_context_wake(aya_context *context);

#endif
