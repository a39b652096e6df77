/* A thread that waits in the place of a loop which watches no descriptors: see loop_thread.c. */
#ifndef AYA_LOOP_THREAD_H
#define AYA_LOOP_THREAD_H

#include "module.h"

typedef struct aya_loop_thread aya_loop_thread;

/* Starts waiting for `context`; `callback` then reaps, in the loop. NULL with an exception. */
aya_loop_thread *aya_loop_thread_start(aya_module *module, aya_context *context, PyObject *loop,
                                       PyObject *callback);
/* The callback has reaped: waits for the next. */
void aya_loop_thread_go_on(aya_loop_thread *thread);
/* Ends it: from then on nobody but the caller uses the context. May let other threads run. */
void aya_loop_thread_stop(aya_loop_thread *thread);

#endif
