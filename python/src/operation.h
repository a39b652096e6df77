/* The awaitable of every method: Operation, and what its makers call.
 *
 * An Operation is one of two kinds. A *request* is one libaya operation of its own (read_at,
 * fsync, …): generated wrappers fill request.op and call aya_operation_begin(). A *command* uses
 * the file's stream (read, write, seek, …): commands of a file run one at a time in the order of
 * their making; a command is a step function, called again each time what it waited for has
 * ended.
 *
 * All functions need the GIL (or an attached thread state); -1 and NULL mean that an exception
 * is set.
 */
#ifndef AYA_OPERATION_H
#define AYA_OPERATION_H

#define PY_SSIZE_T_CLEAN
#include <Python.h>

#include "../../runtime/aya.h"

typedef struct Operation Operation;
typedef struct AsyncFile AsyncFile;
typedef struct LoopState LoopState;
typedef struct aya_core aya_core;
typedef struct aya_module aya_module;

/* What a step function reports. */
typedef enum aya_step {
    AYA_STEP_PENDING, /* call again after the stream's wake */
    AYA_STEP_DONE,    /* operation->result is set (a new reference) */
    AYA_STEP_FAILED,  /* an exception is set */
} aya_step;
typedef aya_step (*aya_step_function)(Operation *operation);

/* What a cancel does to a command that has begun. */
typedef enum aya_command_cancel {
    AYA_COMMAND_ABORT,      /* reads: what is in flight is cancelled; the waiter goes at once */
    AYA_COMMAND_ABORT_WAIT, /* readinto: the waiter goes when the buffer is the caller's */
    AYA_COMMAND_GO_ON,      /* writes, flush, close: the waiter goes, the command runs on */
    AYA_COMMAND_GO_ON_WAIT, /* a write of a mutable buffer: its waiter waits for the end */
} aya_command_cancel;

typedef enum aya_operation_state {
    AYA_UNBOUND,   /* made where no loop runs; starts at its first send() */
    AYA_PENDING_STATE,
    AYA_PARKED,    /* has its result; shown in a later turn of the loop, for fairness */
    AYA_FINISHED,  /* result */
    AYA_FAILED,    /* result is the exception */
    AYA_CANCELLED,
} aya_operation_state;

/* Arguments and progress of a command; what each means is the step function's. */
typedef struct aya_command {
    aya_step_function step;
    Operation *next;          /* in the core's queue; owned */
    int64_t number[3];
    size_t done, size;
    void *memory;             /* freed by PyMem_Free() with the Operation */
    PyObject *object;         /* owned */
    PyObject *extra;          /* owned */
    /* Called when the result is thrown away before it was delivered, so that the next read gets
     * it. */
    void (*undo)(Operation *operation);
    /* Called when the command was given up before its end and nothing of it is in flight any
     * more: puts back what it had taken so far. */
    void (*give_up)(Operation *operation);
    /* In the loop's list of deadlines; 0: none. */
    int64_t deadline_ns;
    void (*expire)(Operation *operation);
    Operation *timed_before, *timed_after;
    uint8_t cancel;           /* aya_command_cancel */
    uint8_t phase;            /* free for the step function; 0 at first */
    bool begun;               /* the step function was called */
    bool ends_open;           /* a cancel ends the open that it waits for */
    bool closes;              /* may run on a file that is being closed */
} aya_command;

struct Operation {
    PyObject_HEAD
    aya_module *module;
    PyObject *loop;           /* owned; NULL when unbound */
    LoopState *loop_state;    /* owned */
    AsyncFile *file;          /* owned; NULL for module functions */
    PyObject *result;         /* value, or exception */
    PyObject *callback;       /* the first callback, and its context; NULL: none */
    PyObject *callback_context;
    PyObject *callbacks;      /* list of (callback, context) for further ones, or NULL */
    PyObject *cancel_message; /* or NULL */
    PyObject *held;           /* what must live until the end: NULL, an object, or a list of them */
    PyObject *paths[2];       /* of an operation on paths, as given: for its error; or NULL */
    PyObject *thrown;         /* exception of a throw() that waits for the end */
    Operation *next_ready;    /* in loop_state's list of what is to be delivered; owned */
    const char *name;         /* of the method */
    uint8_t state;            /* aya_operation_state */
    uint8_t parked_state;     /* what it becomes when a PARKED one is shown */
    bool is_command;
    bool blocking;            /* _asyncio_future_blocking */
    bool in_flight;           /* started: a reference is owned by the runtime or the queue */
    bool cancel_wanted;       /* the waiter goes when the buffer is free */
    bool retrieved;           /* somebody saw the result or the exception */
    bool delivered;           /* an await returned the result */
    bool ready_queued;
    union {
        aya_request request;
        aya_command command;
    };
};

/* -- for generated wrappers -------------------------------------------------------------------- */

typedef struct aya_signature {
    const char *function;
    const char *const *names;
    int count, required;
} aya_signature;

/* Sorts arguments into values[count]; those not given stay NULL. TypeError as for a Python
 * function. */
int aya_parse_arguments(const aya_signature *signature, PyObject *const *args, Py_ssize_t nargs,
                        PyObject *kwnames, PyObject **values);

/* A new request Operation; the file's state (closed, not open yet) is looked at when it begins. */
Operation *aya_operation_for_file(PyObject *file, aya_op_code code);
Operation *aya_operation_for_module(PyObject *module, aya_op_code code);
static inline aya_op *
aya_operation_op(Operation *operation)
{
    return &operation->request.op;
}
aya_file *aya_operation_file(Operation *operation);
/* Starts it: steals the reference and returns it, finished or not. */
PyObject *aya_operation_begin(Operation *operation);
/* The set exception becomes the Operation's: it is raised by the await, not by the call. Steals
 * the reference and returns it; NULL with the exception left where it is none for an await
 * (MemoryError). */
PyObject *aya_operation_refused(Operation *operation);

/* Converters. What must live until the end is held by the Operation. `name` stands in the error. */
int aya_take_offset(Operation *operation, PyObject *value, const char *name, int64_t *out);
int aya_take_size(Operation *operation, PyObject *value, const char *name, int64_t *out);
int aya_take_flag(Operation *operation, PyObject *value, const char *name, bool *out);
int aya_take_mode(Operation *operation, PyObject *value, const char *name, uint32_t *out);
int aya_take_enum(Operation *operation, PyObject *value, const char *name,
                  const char *const *words, int count, int *out);
int aya_take_bytes_in(Operation *operation, PyObject *value, const char *name, const void **data,
                      size_t *size);
int aya_take_bytes_out(Operation *operation, PyObject *value, const char *name, void **data,
                       size_t *size);
int aya_take_path(Operation *operation, PyObject *value, const char *name,
                  const aya_path_char **out);
int aya_take_handle(Operation *operation, PyObject *value, const char *name, aya_file **out);
int aya_take_spans(Operation *operation, PyObject *value, const char *name, aya_span **out,
                   size_t *size);
int aya_take_pairs(Operation *operation, PyObject *value, const char *name, aya_span **out,
                   size_t *size);

/* -- for handwritten makers -------------------------------------------------------------------- */

/* A new command on the file's stream; bound to the running loop. */
Operation *aya_command_new(AsyncFile *file, const char *name, aya_step_function step,
                           aya_command_cancel cancel);
/* Runs or queues it: steals the reference and returns it. */
PyObject *aya_command_begin(Operation *operation);

/* From here on a cancel lets the waiter go and the command run on. */
void aya_command_goes_on(Operation *operation);

/* Whether the command could run now, before all others, on an open file: where it needs no more
 * than a glance it may do its work and end by aya_command_ended(), and is never queued. */
bool aya_command_is_first(const Operation *operation);
/* Ends such a command: steals `value`, and the reference, which it returns. */
PyObject *aya_command_ended(Operation *operation, PyObject *value);

/* An Operation that has its result already: steals `value`; with NULL the set exception is its
 * result. */
PyObject *aya_operation_finished(AsyncFile *file, const char *name, PyObject *value);

/* Keeps `object` (stolen) until the operation has ended. */
int aya_operation_hold(Operation *operation, PyObject *object);

/* Sets an OSError for -errno, with the file's name where there is one. Always returns
 * AYA_STEP_FAILED. */
aya_step aya_step_error(Operation *operation, int64_t error);

/* A step function that has held the loop for its share of a turn returns this: it is called
 * again in a later turn (or earlier, as after any wait). */
aya_step aya_step_later(Operation *operation);

/* A bytes object of `size` bytes for a read to fill, where the copy is not a slow one. */
PyObject *aya_bytes_for_read(aya_module *module, size_t size);
/* Such an object of which the read has filled `size` bytes (steals it), as the result; or NULL. */
PyObject *aya_bytes_of_read(aya_module *module, PyObject *bytes, size_t size);

/* Readable memory of `value`, held by the operation; *mutable tells whether it may change under
 * us. */
int aya_operation_view(Operation *operation, PyObject *value, const void **data, size_t *size,
                       bool *is_mutable);

/* The outcome of a request or a command: steals `value`; with NULL the set exception is the
 * outcome. */
void aya_operation_end(Operation *operation, PyObject *value);
/* It ended inside its own call: parks it where the turn's budget is spent. */
void aya_operation_ended_inline(Operation *operation);
/* The waiter goes now, cancelled; the operation itself may go on. */
void aya_operation_leave(Operation *operation);
/* Whether somebody still waits for the outcome. */
static inline bool
aya_operation_wanted(const Operation *operation)
{
    return operation->state == AYA_PENDING_STATE;
}
/* A new one, bound to the running loop if there is one. */
Operation *aya_operation_new(aya_module *module, AsyncFile *file, const char *name,
                             bool is_command);
/* Raises what kept the file from being opened, or ValueError for a closed one; 0 when it may be
 * used. */
int aya_core_check(aya_core *core);
/* Raises the error of a command that nobody waited for, once; 0 when there is none. */
int aya_core_raise_late(aya_core *core);
/* The set exception as an object, which is no longer set. */
PyObject *aya_take_exception(void);

/* command.c: */
void aya_command_cancel_pending(Operation *operation);
/* The head of the core's queue runs on as far as it can; called by wake() and after an open. */
void aya_core_advance(aya_core *core);
/* Cancels what is in flight for the head; where the head is another loop's, that loop does it. */
void aya_core_cancel_front(aya_core *core);

/* Frees what is kept for reuse, and keeps no more. */
void aya_operations_free_kept(aya_module *module);
int aya_operation_add_type(PyObject *module, aya_module *state);

#endif
