/* One event loop's side of the library: its context, and what is to be delivered to its tasks.
 * Owned by the loop (through the readers it registers there) and by the loop's unfinished
 * operations; it goes with the last of them, and its context with it.
 */
#ifndef AYA_LOOP_H
#define AYA_LOOP_H

#include "module.h"

struct LoopState {
    PyObject_HEAD
    aya_module *module;
    PyObject *loop;            /* borrowed: who owns the state owns the loop or is owned by it */
    PyObject *loop_ref;        /* weak: tells whether `loop` is still that loop */
    aya_context *context;      /* NULL: released */
    struct aya_loop_thread *thread; /* that waits for it; NULL: the loop watches descriptors */
    Operation *ready_head, *ready_tail; /* finished, to be delivered; owned */
    bool submit_scheduled;
    bool deliver_scheduled;
    bool delivering;
    bool reaping;
    unsigned queued;           /* started since the last submit */
    int64_t turn_began_ns;     /* the inline budget's start */
    uint64_t callback_mark;    /* changes with each callback of the loop */
    unsigned callback_inline;  /* operations that finished inline in this callback */
    Operation *timed_first, *timed_last; /* commands with a deadline, by it; owned */
    int64_t armed_for;         /* when the loop's timer comes; 0: not armed */
    PyObject *self_ref;        /* weak: how others than its owners get at the state */
    PyObject *weak_references;
    LoopState *next, *previous; /* in module->loops; under the module's lock */
};

/* The running loop; a new reference, NULL without an exception when none runs. */
PyObject *aya_running_loop(aya_module *module);
/* The running loop and its state, made where there is none; new references, both NULL where no loop
 * runs. 0 or -1. */
int aya_loop_here(aya_module *module, PyObject **loop, LoopState **state);

/* An operation was started on the context: hands over soon, or at once when a few wait. */
int aya_loop_started(LoopState *state, PyObject *loop);
/* An operation has its outcome: its callbacks run in this turn or one of the next. */
int aya_loop_ready(LoopState *state, Operation *operation);
/* Whether an operation that finished inline must park: the turn's budget is spent. */
bool aya_loop_must_park(LoopState *state);

/* `expire` is called once `after_ms` have gone, unless aya_deadline_drop() comes before;
 * deadline.c. 0 or -1. */
int aya_deadline_set(Operation *operation, int64_t after_ms, void (*expire)(Operation *operation));
void aya_deadline_drop(Operation *operation);

/* Makes what is ready visible and calls its callbacks; operation.c. 0, or -1 when an exception
 * must end the loop (KeyboardInterrupt, SystemExit). */
int aya_operation_deliver(Operation *operation);

/* For stats(). */
void aya_loops_stats(PyObject *module, uint64_t routes[AYA_ROUTE_COUNT], size_t *contexts,
                     size_t *pending);
/* At the interpreter's exit: ends all contexts. */
void aya_loops_end(aya_module *module);
/* Ends those whose loop is closed. */
int aya_loops_sweep(aya_module *module);

int aya_loop_add_type(PyObject *module, aya_module *state);

#endif
