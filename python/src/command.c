/* Commands: operations that use a file's stream, one at a time, in the order in which they were
 * made.
 *
 * The head of a core's queue is the command that runs. Its step function is called until it says
 * that it is done; in between it waits for the stream's wake(). A command whose waiter has gone
 * stays at the head until nothing of it is in flight.
 */
#include "file.h"
#include "guard.h"
#include "loop.h"
#include "core.h"
#include "system.h"

Operation *
aya_command_new(AsyncFile *file, const char *name, aya_step_function step, aya_command_cancel rule)
{
    Operation *operation = aya_operation_new(aya_module_of_type(Py_TYPE(file)), file, name, true);

    if (operation != NULL) {
        operation->command.step = step;
        operation->command.cancel = (uint8_t)rule;
    }
    return operation;
}

/* What the system itself called the error of one of the stream's requests; 0 where it does not. */
static uint32_t
code_of(const aya_stream *stream, int64_t error)
{
    const aya_op *front = &stream->front.op, *back = &stream->back.op;

    return front->result == error  ? front->system_code
           : back->result == error ? back->system_code
                                   : 0;
}

aya_step
aya_step_error(Operation *operation, int64_t error)
{
    if (error == -ECANCELED && operation->file->core != NULL && operation->file->core->closing) {
        PyErr_SetString(PyExc_ValueError, "I/O operation on closed file.");
    } else if (error == -ECANCELED) {
        PyErr_SetNone(operation->module->cancelled_error);
    } else {
        aya_core *core = operation->file->core;
        uint32_t code = core == NULL ? 0 : code_of(&core->stream, error);
        if (code != 0) {
            aya_system_raise(error, code, core->path, NULL);
        } else {
            aya_raise(operation->module, error, core == NULL ? NULL : core->path);
        }
    }
    return AYA_STEP_FAILED;
}

static bool
writes(const Operation *operation)
{
    return operation->command.cancel >= AYA_COMMAND_GO_ON;
}

/* The waiter of a read has gone: what is left is to let go of the memory. */
static bool
given_up(const Operation *operation)
{
    return (operation->state == AYA_CANCELLED || operation->cancel_wanted) && !writes(operation);
}

static void
submit_soon(Operation *operation)
{
    if (aya_context_queued(operation->loop_state->context)
        && aya_loop_started(operation->loop_state, operation->loop) < 0) {
        PyErr_WriteUnraisable((PyObject *)operation);
    }
}

/* Runs the head once. True: it has ended. */
static bool
run(aya_core *core, Operation *operation)
{
    aya_step outcome;

    if (given_up(operation)) {
        if (core->stream.front_state == AYA_FRONT_BUSY) {
            return false;
        }
        aya_stream_forget(&core->stream);
        if (operation->command.begun && operation->command.give_up != NULL) {
            operation->command.give_up(operation);
        }
        if (operation->cancel_wanted) {
            aya_operation_end(operation, Py_NewRef(Py_None));
        }
        return true;
    }
    if (core->timed_out && !operation->command.closes) {
        aya_stream_forget(&core->stream);
        PyErr_SetString(PyExc_ValueError, "I/O operation on closed file.");
        aya_operation_end(operation, NULL);
        return true;
    }
    core->stream.context = operation->loop_state->context;
    if (!operation->command.begun) {
        operation->command.begun = true;
        core->last_read = NULL;
    }
    core->running = true;
    do {
        core->advance_again = false;
        outcome = operation->command.step(operation);
    } while (outcome == AYA_STEP_PENDING && core->advance_again);
    core->running = false;
    if (outcome == AYA_STEP_PENDING) {
        submit_soon(operation);
        return false;
    }
    PyObject *value = operation->result;
    operation->result = NULL;
    if (outcome == AYA_STEP_FAILED) {
        Py_CLEAR(value);
    }
    if (core->stream.back_busy) {
        submit_soon(operation);
    }
    aya_operation_end(operation, value);
    return true;
}

/* -- the queue --------------------------------------------------------------------------------- */

static void
append(aya_core *core, Operation *operation)
{
    Py_INCREF(operation);
    operation->in_flight = true;
    operation->command.next = NULL;
    if (core->tail == NULL) {
        core->head = operation;
    } else {
        core->tail->command.next = operation;
    }
    core->tail = operation;
    core->writers += writes(operation);
}

/* Takes the head off; its reference is the caller's. */
static Operation *
pop(aya_core *core)
{
    Operation *operation = core->head;

    core->head = operation->command.next;
    if (core->head == NULL) {
        core->tail = NULL;
    }
    operation->command.next = NULL;
    operation->in_flight = false;
    core->writers -= writes(operation);
    return operation;
}

void
aya_command_goes_on(Operation *operation)
{
    operation->file->core->writers += !writes(operation);
    operation->command.cancel = AYA_COMMAND_GO_ON;
}

static void
drop_held(PyObject *capsule)
{
    aya_core_drop(PyCapsule_GetPointer(capsule, "ayafileio.core"));
}

static PyObject *
on_posted(PyObject *self, PyObject *unused)
{
    (void)unused;
    aya_core_advance(PyCapsule_GetPointer(self, "ayafileio.core"));
    Py_RETURN_NONE;
}

static PyMethodDef posted_definition = {"_ayafileio_advance", on_posted, METH_NOARGS, NULL};

static PyObject *
on_cancel(PyObject *self, PyObject *unused)
{
    aya_core *core = PyCapsule_GetPointer(self, "ayafileio.core");

    (void)unused;
    AYA_GUARD(aya_core_guard(core));
    /* By now it may be done, and the next one's under way elsewhere. */
    if (core->stream.front_state == AYA_FRONT_BUSY
        && aya_context_is_own(core->stream.front.context)) {
        aya_stream_cancel(&core->stream);
    }
    AYA_UNGUARD();
    Py_RETURN_NONE;
}

static PyMethodDef cancel_definition = {"_ayafileio_cancel", on_cancel, METH_NOARGS, NULL};

/* Has the operation's loop call `definition` on the core, by `method` of the loop. 0 or -1. */
static int
call_loop(aya_core *core, Operation *operation, PyObject *method, PyMethodDef *definition)
{
    PyObject *capsule = PyCapsule_New(core, "ayafileio.core", drop_held);
    PyObject *callback = NULL, *handle = NULL;

    if (capsule != NULL) {
        core->references++;
        callback = PyCFunction_New(definition, capsule);
        Py_DECREF(capsule);
    }
    if (callback != NULL) {
        handle = PyObject_CallMethodOneArg(operation->loop, method, callback);
        Py_DECREF(callback);
    }
    Py_XDECREF(handle);
    return handle == NULL ? -1 : 0;
}

/* The next command is another loop's: that loop runs it. */
static void
post(aya_core *core, Operation *operation)
{
    PyObject *method = core->module->str_call_soon_threadsafe;

    if (call_loop(core, operation, method, &posted_definition) < 0) {
        PyErr_WriteUnraisable((PyObject *)operation);
    }
}

void
aya_core_cancel_front(aya_core *core)
{
    if (core->stream.front_state != AYA_FRONT_BUSY) {
        return;
    }
    if (core->head == NULL || aya_context_is_own(core->stream.front.context)) {
        aya_stream_cancel(&core->stream);
    } else if (call_loop(core, core->head, core->module->str_call_soon_threadsafe,
                         &cancel_definition) < 0) {
        PyErr_WriteUnraisable((PyObject *)core->head);
    }
}

aya_step
aya_step_later(Operation *operation)
{
    aya_core *core = operation->file->core;

    int status = call_loop(core, operation, core->module->str_call_soon, &posted_definition);

    return status < 0 ? AYA_STEP_FAILED : AYA_STEP_PENDING;
}

/* Whether this thread runs the command's loop. */
static bool
runs_here(aya_core *core, Operation *operation)
{
    PyObject *loop = aya_running_loop(core->module);

    Py_XDECREF(loop);
    return loop == operation->loop;
}

static void
advance(aya_core *core)
{
    if (core->running) {
        core->advance_again = true;
        return;
    }
    core->references++;
    while (core->head != NULL) {
        Operation *operation = core->head;
        if (operation->loop_state->context == NULL) {
            /* Its loop is gone: nobody will run it. */
            operation->cancel_wanted = aya_operation_wanted(operation);
            aya_operation_end(operation, Py_NewRef(Py_None));
        } else if (!runs_here(core, operation)) {
            post(core, operation);
            break;
        } else {
            if (!run(core, operation)) {
                break;
            }
        }
        Py_DECREF(pop(core));
    }
    aya_core_drop(core);
}

void
aya_core_advance(aya_core *core)
{
    PyObject *guard = Py_XNewRef(aya_core_guard(core));

    AYA_GUARD(guard);
    advance(core);
    AYA_UNGUARD();
    Py_XDECREF(guard);
}

bool
aya_command_is_first(const Operation *operation)
{
    const aya_core *core = operation->file->core;

    return operation->state == AYA_PENDING_STATE && core != NULL && core->head == NULL
           && core->state == AYA_CORE_OPEN && !core->closing
           && core->stream.generation == aya_fork_generation();
}

PyObject *
aya_command_ended(Operation *operation, PyObject *value)
{
    operation->file->core->last_read = NULL;
    aya_operation_end(operation, value);
    aya_operation_ended_inline(operation);
    return (PyObject *)operation;
}

static PyObject *
begin(Operation *operation)
{
    aya_core *core = operation->file->core;
    if (core == NULL) {
        aya_file_check(operation->file);
        return aya_operation_refused(operation);
    }
    if (core->stream.generation != aya_fork_generation()) {
        aya_core_after_fork(core);
    }
    if (core->closing && !operation->command.closes) {
        PyErr_SetString(PyExc_ValueError, "I/O operation on closed file.");
        return aya_operation_refused(operation);
    }
    if (core->state == AYA_CORE_UNOPENED && aya_core_open(core, operation->file) < 0) {
        return aya_operation_refused(operation);
    }
    if (core->head != NULL) {
        append(core, operation);
        return (PyObject *)operation;
    }
    append(core, operation);
    core->references++;
    if (run(core, operation)) {
        Py_DECREF(pop(core));
        if (core->head != NULL) {
            aya_core_advance(core);
        }
        aya_operation_ended_inline(operation);
    }
    aya_core_drop(core);
    return (PyObject *)operation;
}

PyObject *
aya_command_begin(Operation *operation)
{
    PyObject *begun = (PyObject *)operation;

    if (operation->state != AYA_UNBOUND) {
        AYA_GUARD(aya_file_guard(operation->file));
        begun = begin(operation);
        AYA_UNGUARD();
    }
    return begun;
}

void
aya_command_cancel_pending(Operation *operation)
{
    aya_core *core = operation->file == NULL ? NULL : operation->file->core;
    bool runs = core != NULL && core->head == operation && operation->command.begun;

    if (operation->command.ends_open && core != NULL && core->state == AYA_CORE_OPENING) {
        aya_core_cancel_front(core);
    }
    switch (operation->command.cancel) {
    case AYA_COMMAND_ABORT_WAIT:
    case AYA_COMMAND_ABORT:
        if (runs && core->stream.front_state == AYA_FRONT_BUSY) {
            if (operation->command.cancel == AYA_COMMAND_ABORT_WAIT) {
                operation->cancel_wanted = true;
            } else {
                aya_operation_leave(operation);
            }
            aya_stream_cancel(&core->stream);
            return;
        }
        break;
    case AYA_COMMAND_GO_ON_WAIT:
        operation->cancel_wanted = true;
        return;
    default:
        break;
    }
    aya_operation_leave(operation);
}
