/* Operation: a Future and a Coroutine at once, started when it is made. Here: the object and how
 * it ends; how requests begin stands in request_glue.c, how commands run in command.c.
 */
#include "file.h"
#include "guard.h"
#include "loop.h"

#include <structmember.h>

#ifndef Py_READONLY
#define Py_READONLY READONLY
#define Py_T_STRING T_STRING
#endif

/* -- outcome ----------------------------------------------------------------------------------- */

static void
set_outcome(Operation *operation, uint8_t state, PyObject *result)
{
    Py_XSETREF(operation->result, result);
    operation->state = state;
    Py_CLEAR(operation->held);
}

PyObject *
aya_take_exception(void)
{
#if PY_VERSION_HEX >= 0x030c0000
    return PyErr_GetRaisedException();
#else
    PyObject *type, *value, *traceback;
    PyErr_Fetch(&type, &value, &traceback);
    PyErr_NormalizeException(&type, &value, &traceback);
    if (value != NULL && traceback != NULL) {
        PyException_SetTraceback(value, traceback);
    }
    Py_XDECREF(type);
    Py_XDECREF(traceback);
    return value;
#endif
}

static bool
has_callbacks(const Operation *operation)
{
    return operation->callback != NULL;
}

static void
schedule(Operation *operation)
{
    if (operation->ready_queued || operation->loop_state == NULL) {
        return;
    }
    operation->ready_queued = true;
    if (aya_loop_ready(operation->loop_state, operation) < 0) {
        PyErr_WriteUnraisable((PyObject *)operation);
    }
}

/* A late outcome that nobody waits for: an error is kept for the file's next flush or close. */
static void
drop_outcome(Operation *operation, PyObject *value)
{
    if (value != NULL) {
        Py_DECREF(value);
        return;
    }
    PyObject *error = aya_take_exception();
    if (operation->file != NULL && PyErr_GivenExceptionMatches(error, PyExc_OSError)) {
        AYA_GUARD(aya_file_guard(operation->file));
        if (operation->file->core != NULL && operation->file->core->late_error == NULL) {
            operation->file->core->late_error = Py_NewRef(error);
        }
        AYA_UNGUARD();
    }
    Py_DECREF(error);
}

void
aya_operation_end(Operation *operation, PyObject *value)
{
    if (!aya_operation_wanted(operation)) {
        drop_outcome(operation, value);
        Py_CLEAR(operation->held);
        return;
    }
    if (operation->cancel_wanted) {
        if (value == NULL) {
            PyErr_Clear();
        } else if (operation->is_command && operation->command.undo != NULL) {
            Py_XSETREF(operation->result, value);
            operation->command.undo(operation);
        } else {
            Py_DECREF(value);
        }
        set_outcome(operation, AYA_CANCELLED, NULL);
    } else if (value != NULL) {
        set_outcome(operation, AYA_FINISHED, value);
    } else {
        set_outcome(operation, AYA_FAILED, aya_take_exception());
    }
    if (has_callbacks(operation)) {
        schedule(operation);
    }
}

void
aya_operation_ended_inline(Operation *operation)
{
    if (operation->state <= AYA_PARKED || operation->loop_state == NULL
        || operation->state == AYA_CANCELLED || !aya_loop_must_park(operation->loop_state)) {
        return;
    }
    operation->parked_state = operation->state;
    operation->state = AYA_PARKED;
    schedule(operation);
}

/* -- memory ------------------------------------------------------------------------------------ */

/* Operations come and go by the million: some are kept for the next ones. */
static const size_t kept_most = AYA_KEEPS_MEMORY ? 256 : 0;

static Operation *
allocate(aya_module *module)
{
    Operation *operation = module->kept_operations;

    if (operation == NULL) {
        return PyObject_GC_New(Operation, module->operation_type);
    }
    module->kept_operations = operation->next_ready;
    module->kept_count--;
    return (Operation *)PyObject_Init((PyObject *)operation, module->operation_type);
}

/* `operation` has let go of all it had. One whose finalizer ran is marked as such for good. */
static void
deallocate(aya_module *module, Operation *operation)
{
    if (module->kept_count >= kept_most || PyObject_GC_IsFinalized((PyObject *)operation)) {
        PyObject_GC_Del(operation);
        return;
    }
    operation->next_ready = module->kept_operations;
    module->kept_operations = operation;
    module->kept_count++;
}

void
aya_operations_free_kept(aya_module *module)
{
    while (module->kept_operations != NULL) {
        Operation *operation = module->kept_operations;
        module->kept_operations = operation->next_ready;
        PyObject_GC_Del(operation);
    }
    module->kept_count = kept_most;
}

Operation *
aya_operation_new(aya_module *module, AsyncFile *file, const char *name, bool is_command)
{
    Operation *operation = allocate(module);

    if (operation == NULL) {
        return NULL;
    }
    size_t head = offsetof(Operation, module);
    memset((char *)operation + head, 0, offsetof(Operation, command) - head);
    operation->module = module;
    operation->file = (AsyncFile *)Py_XNewRef((PyObject *)file);
    operation->name = name;
    operation->is_command = is_command;
    if (is_command) {
        memset(&operation->command, 0, sizeof(operation->command));
    } else {
        memset(&operation->request, 0, sizeof(operation->request));
    }
    if (aya_loop_here(module, &operation->loop, &operation->loop_state) < 0) {
        Py_DECREF(operation);
        return NULL;
    }
    operation->state = operation->loop == NULL ? AYA_UNBOUND : AYA_PENDING_STATE;
    PyObject_GC_Track(operation);
    return operation;
}

PyObject *
aya_operation_finished(AsyncFile *file, const char *name, PyObject *value)
{
    /* Finding the running loop must not meet a set exception. */
    PyObject *error = value == NULL ? aya_take_exception() : NULL;
    Operation *operation = aya_operation_new(aya_module_of_type(Py_TYPE(file)), file, name, true);

    if (operation == NULL) {
        Py_XDECREF(value);
        Py_XDECREF(error);
        return NULL;
    }
    if (value != NULL) {
        set_outcome(operation, AYA_FINISHED, value);
    } else {
        set_outcome(operation, AYA_FAILED, error);
    }
    return (PyObject *)operation;
}

/* -- callbacks --------------------------------------------------------------------------------- */

static void
report(Operation *operation, const char *message, PyObject *error)
{
    PyObject *context = Py_BuildValue("{s:s,s:O,s:O}", "message", message, "exception", error,
                                      "future", operation);
    PyObject *done = NULL;

    if (context != NULL && operation->loop != NULL) {
        done = PyObject_CallMethodOneArg(operation->loop,
                                         operation->module->str_call_exception_handler, context);
    }
    if (done == NULL) {
        PyErr_WriteUnraisable((PyObject *)operation);
    }
    Py_XDECREF(done);
    Py_XDECREF(context);
}

/* Calls one callback in its context. -1 only for what must end the loop. */
static int
call_back(Operation *operation, PyObject *callback, PyObject *context)
{
    PyObject *done = NULL;

    if (PyContext_Enter(context) == 0) {
        done = PyObject_CallOneArg(callback, (PyObject *)operation);
        PyObject *type, *value, *traceback;
        PyErr_Fetch(&type, &value, &traceback);
        if (PyContext_Exit(context) < 0) {
            PyErr_Clear();
        }
        PyErr_Restore(type, value, traceback);
    }
    if (done != NULL) {
        Py_DECREF(done);
        return 0;
    }
    if (PyErr_ExceptionMatches(PyExc_KeyboardInterrupt)
        || PyErr_ExceptionMatches(PyExc_SystemExit)) {
        return -1;
    }
    PyObject *error = aya_take_exception();
    report(operation, "Exception in a callback of an Operation", error);
    Py_DECREF(error);
    return 0;
}

int
aya_operation_deliver(Operation *operation)
{
    PyObject *callback, *context, *more;
    int status = 0;

    AYA_GUARD(aya_operation_guard(operation));
    callback = operation->callback;
    context = operation->callback_context;
    more = operation->callbacks;
    operation->ready_queued = false;
    if (operation->state == AYA_PARKED) {
        operation->state = operation->parked_state;
    }
    operation->callback = operation->callback_context = operation->callbacks = NULL;
    AYA_UNGUARD();
    if (callback != NULL) {
        status = call_back(operation, callback, context);
    }
    for (Py_ssize_t i = 0; more != NULL && i < PyList_GET_SIZE(more); i++) {
        PyObject *pair = PyList_GET_ITEM(more, i);
        PyObject *type, *value, *traceback;
        PyErr_Fetch(&type, &value, &traceback);
        int one = call_back(operation, PyTuple_GET_ITEM(pair, 0), PyTuple_GET_ITEM(pair, 1));
        if (status < 0) {
            PyErr_Restore(type, value, traceback);
        }
        status = status < 0 ? status : one;
    }
    Py_XDECREF(callback);
    Py_XDECREF(context);
    Py_XDECREF(more);
    return status;
}

static PyObject *
add_done_callback(PyObject *self, PyObject *const *args, Py_ssize_t nargs, PyObject *kwnames)
{
    static const char *const names[] = {"fn", "context"};
    static const aya_signature signature = {"add_done_callback", names, 2, 1};
    Operation *operation = (Operation *)self;
    PyObject *values[2] = {NULL, NULL}, *context;

    if (aya_parse_arguments(&signature, args, nargs, kwnames, values) < 0) {
        return NULL;
    }
    if (operation->state == AYA_UNBOUND) {
        PyErr_SetString(PyExc_RuntimeError, "the Operation is not bound to a loop; await it");
        return NULL;
    }
    if (values[1] == NULL || values[1] == Py_None) {
        context = PyContext_CopyCurrent();
        if (context == NULL) {
            return NULL;
        }
    } else {
        context = Py_NewRef(values[1]);
    }
    if (operation->callback == NULL) {
        operation->callback = Py_NewRef(values[0]);
        operation->callback_context = context;
    } else {
        PyObject *pair = PyTuple_Pack(2, values[0], context);
        Py_DECREF(context);
        if (operation->callbacks == NULL) {
            operation->callbacks = PyList_New(0);
        }
        int failed = pair == NULL || operation->callbacks == NULL
                     || PyList_Append(operation->callbacks, pair) < 0;
        Py_XDECREF(pair);
        if (failed) {
            return NULL;
        }
    }
    if (operation->state > AYA_PARKED) {
        schedule(operation);
    }
    Py_RETURN_NONE;
}

static PyObject *
remove_done_callback(PyObject *self, PyObject *callback)
{
    Operation *operation = (Operation *)self;
    PyObject *kept = PyList_New(0);
    Py_ssize_t removed = 0;

    if (kept == NULL) {
        return NULL;
    }
    PyObject *further = operation->callbacks;
    for (Py_ssize_t i = 0; further != NULL && i < PyList_GET_SIZE(further); i++) {
        PyObject *pair = PyList_GET_ITEM(further, i);
        int same = PyObject_RichCompareBool(PyTuple_GET_ITEM(pair, 0), callback, Py_EQ);
        if (same < 0 || (same == 0 && PyList_Append(kept, pair) < 0)) {
            Py_DECREF(kept);
            return NULL;
        }
        removed += same;
    }
    if (operation->callback != NULL) {
        int same = PyObject_RichCompareBool(operation->callback, callback, Py_EQ);
        if (same < 0) {
            Py_DECREF(kept);
            return NULL;
        }
        if (same) {
            removed++;
            Py_CLEAR(operation->callback);
            Py_CLEAR(operation->callback_context);
            if (PyList_GET_SIZE(kept) > 0) {
                PyObject *pair = PyList_GET_ITEM(kept, 0);
                operation->callback = Py_NewRef(PyTuple_GET_ITEM(pair, 0));
                operation->callback_context = Py_NewRef(PyTuple_GET_ITEM(pair, 1));
                if (PyList_SetSlice(kept, 0, 1, NULL) < 0) {
                    Py_DECREF(kept);
                    return NULL;
                }
            }
        }
    }
    Py_XSETREF(operation->callbacks, kept);
    return PyLong_FromSsize_t(removed);
}

/* -- as a Future ------------------------------------------------------------------------------- */

static bool
is_done(const Operation *operation)
{
    return operation->state > AYA_PARKED;
}

static PyObject *
make_cancelled_error(Operation *operation)
{
    if (operation->cancel_message == NULL || operation->cancel_message == Py_None) {
        return PyObject_CallNoArgs(operation->module->cancelled_error);
    }
    return PyObject_CallOneArg(operation->module->cancelled_error, operation->cancel_message);
}

/* Sets the exception of a done Operation that has no value. */
static PyObject *
raise_outcome(Operation *operation)
{
    operation->retrieved = true;
    if (operation->state == AYA_CANCELLED) {
        PyObject *error = make_cancelled_error(operation);
        if (error != NULL) {
            PyErr_SetObject((PyObject *)Py_TYPE(error), error);
            Py_DECREF(error);
        }
        return NULL;
    }
    PyErr_SetObject((PyObject *)Py_TYPE(operation->result), operation->result);
    return NULL;
}

static PyObject *
operation_result(PyObject *self, PyObject *unused)
{
    Operation *operation = (Operation *)self;

    (void)unused;
    if (!is_done(operation)) {
        PyErr_SetString(operation->module->invalid_state, "Result is not set.");
        return NULL;
    }
    if (operation->state != AYA_FINISHED) {
        return raise_outcome(operation);
    }
    operation->retrieved = true;
    return Py_NewRef(operation->result);
}

static PyObject *
operation_exception(PyObject *self, PyObject *unused)
{
    Operation *operation = (Operation *)self;

    (void)unused;
    if (!is_done(operation)) {
        PyErr_SetString(operation->module->invalid_state, "Exception is not set.");
        return NULL;
    }
    if (operation->state == AYA_CANCELLED) {
        return raise_outcome(operation);
    }
    operation->retrieved = true;
    return Py_NewRef(operation->state == AYA_FAILED ? operation->result : Py_None);
}

static PyObject *
operation_done(PyObject *self, PyObject *unused)
{
    (void)unused;
    return PyBool_FromLong(is_done((Operation *)self));
}

static PyObject *
operation_cancelled(PyObject *self, PyObject *unused)
{
    (void)unused;
    return PyBool_FromLong(((Operation *)self)->state == AYA_CANCELLED);
}

static PyObject *
operation_get_loop(PyObject *self, PyObject *unused)
{
    Operation *operation = (Operation *)self;

    (void)unused;
    if (operation->loop == NULL) {
        PyErr_SetString(PyExc_RuntimeError, "the Operation is not bound to a loop");
        return NULL;
    }
    return Py_NewRef(operation->loop);
}

/* The waiter goes now; what the operation does, or still has to do, is its own affair. */
static void
leave(Operation *operation)
{
    operation->state = AYA_CANCELLED;
    if (has_callbacks(operation)) {
        schedule(operation);
    }
}

static void
cancel_pending(Operation *operation)
{
    if (operation->is_command) {
        aya_command_cancel_pending(operation);
        return;
    }
    switch (aya_op_infos[operation->request.op.code].cancel) {
    case AYA_CANCEL_WAIT:
        if (operation->in_flight) {
            operation->cancel_wanted = true;
            aya_cancel(&operation->request);
            return;
        }
        break;
    case AYA_CANCEL_DETACH:
        if (operation->in_flight) {
            operation->request.abandoned = true;
            aya_cancel(&operation->request);
        }
        break;
    default:
        break;
    }
    leave(operation);
}

void
aya_operation_leave(Operation *operation)
{
    leave(operation);
}

/* Whether another thread's loop has the operation's requests. */
static bool
is_elsewhere(Operation *operation)
{
    if (!AYA_FREE_THREADED || operation->state != AYA_PENDING_STATE
        || operation->loop_state->context == NULL
        || aya_context_is_own(operation->loop_state->context)) {
        return false;
    }
    PyObject *running = aya_running_loop(operation->module);
    Py_XDECREF(running);
    return running != operation->loop;
}

/* Has the operation's loop cancel it. False: that is closed. */
static bool
cancel_there(Operation *operation, PyObject *message)
{
    PyObject *method = PyObject_GetAttrString((PyObject *)operation, "cancel");
    PyObject *handle = NULL;

    if (method != NULL) {
        handle = PyObject_CallMethodObjArgs(operation->loop,
                                            operation->module->str_call_soon_threadsafe, method,
                                            message == NULL ? Py_None : message, NULL);
        Py_DECREF(method);
    }
    if (handle == NULL) {
        PyErr_Clear();
        return false;
    }
    Py_DECREF(handle);
    return true;
}

static bool
cancel(Operation *operation, PyObject *message)
{
    if (is_done(operation)) {
        return false;
    }
    if (is_elsewhere(operation) && cancel_there(operation, message)) {
        return true;
    }
    if (message != NULL && message != Py_None) {
        Py_XSETREF(operation->cancel_message, Py_NewRef(message));
    }
    if (operation->cancel_wanted) {
        return true;
    }
    switch (operation->state) {
    case AYA_PARKED:
        if (operation->is_command && operation->command.undo != NULL
            && operation->parked_state == AYA_FINISHED) {
            operation->command.undo(operation);
        }
        set_outcome(operation, AYA_CANCELLED, NULL);
        break;
    case AYA_UNBOUND:
        set_outcome(operation, AYA_CANCELLED, NULL);
        break;
    default:
        cancel_pending(operation);
        break;
    }
    return true;
}

static PyObject *
operation_cancel(PyObject *self, PyObject *const *args, Py_ssize_t nargs, PyObject *kwnames)
{
    static const char *const names[] = {"msg"};
    static const aya_signature signature = {"cancel", names, 1, 0};
    PyObject *values[1] = {NULL};

    if (aya_parse_arguments(&signature, args, nargs, kwnames, values) < 0) {
        return NULL;
    }
    return PyBool_FromLong(cancel((Operation *)self, values[0]));
}

static PyObject *
operation_make_cancelled_error(PyObject *self, PyObject *unused)
{
    (void)unused;
    return make_cancelled_error((Operation *)self);
}

/* -- as a Coroutine ---------------------------------------------------------------------------- */

/* Binds an unbound Operation to the running loop and starts it. */
static int
start_unbound(Operation *operation)
{
    if (aya_loop_here(operation->module, &operation->loop, &operation->loop_state) < 0) {
        return -1;
    }
    if (operation->loop == NULL) {
        PyErr_SetString(PyExc_RuntimeError, "no running event loop");
        return -1;
    }
    operation->state = AYA_PENDING_STATE;
    Py_INCREF(operation);
    PyObject *begun = operation->is_command ? aya_command_begin(operation)
                                            : aya_operation_begin(operation);
    if (begun == NULL) {
        return -1;
    }
    Py_DECREF(begun);
    return 0;
}

/* One step of an await: PYGEN_NEXT with the Operation itself while it is not done. */
static PySendResult
step(Operation *operation, PyObject **result)
{
    *result = NULL;
    if (operation->state == AYA_UNBOUND && start_unbound(operation) < 0) {
        return PYGEN_ERROR;
    }
    if (!is_done(operation)) {
        operation->blocking = true;
        *result = Py_NewRef((PyObject *)operation);
        return PYGEN_NEXT;
    }
    if (operation->thrown != NULL) {
        PyObject *error = operation->thrown;
        operation->thrown = NULL;
        operation->retrieved = true;
        PyErr_SetObject((PyObject *)Py_TYPE(error), error);
        Py_DECREF(error);
        return PYGEN_ERROR;
    }
    if (operation->state != AYA_FINISHED) {
        raise_outcome(operation);
        return PYGEN_ERROR;
    }
    operation->retrieved = operation->delivered = true;
    *result = Py_NewRef(operation->result);
    return PYGEN_RETURN;
}

static PySendResult
operation_send_slot(PyObject *self, PyObject *argument, PyObject **result)
{
    (void)argument;
    return step((Operation *)self, result);
}

#if PY_VERSION_HEX >= 0x030c0000 && !defined(Py_GIL_DISABLED)
/* The largest value that may live until the next await. */
#define KEPT_VALUE_MOST (64 << 10)

static bool
is_small(PyObject *value)
{
    return PyLong_CheckExact(value)
           || (PyBytes_CheckExact(value) && PyBytes_GET_SIZE(value) <= KEPT_VALUE_MOST)
           || (PyUnicode_CheckExact(value) && PyUnicode_GET_LENGTH(value) <= KEPT_VALUE_MOST / 4);
}

/* Raises the one StopIteration that is kept for this, where nobody else has it: making one costs
 * more than all else of an await that finds its result ready. */
static bool
raise_kept(aya_module *module, PyObject *value)
{
    PyStopIterationObject *kept = (PyStopIterationObject *)module->stop_iteration;

    if (!is_small(value)) {
        return false;
    }
    if (kept == NULL || Py_REFCNT(kept) != 1 || kept->dict != NULL || kept->notes != NULL
        || kept->traceback != NULL || kept->context != NULL || kept->cause != NULL) {
        PyObject *fresh = PyObject_CallNoArgs(PyExc_StopIteration);
        if (fresh == NULL) {
            PyErr_Clear();
            return false;
        }
        Py_XSETREF(module->stop_iteration, fresh);
        kept = (PyStopIterationObject *)fresh;
    }
    Py_XSETREF(kept->value, value);
    PyErr_SetRaisedException(Py_NewRef((PyObject *)kept));
    return true;
}
#else
static bool
raise_kept(aya_module *Py_UNUSED(module), PyObject *Py_UNUSED(value))
{
    return false;
}
#endif

static PyObject *
stop_iteration(aya_module *module, PyObject *value)
{
    if (value == Py_None) {
        Py_DECREF(value);
        return NULL;
    }
    if (raise_kept(module, value)) {
        return NULL;
    }
    /* A tuple or an exception would be taken for the arguments of StopIteration. */
    PyObject *error = PyObject_CallOneArg(PyExc_StopIteration, value);
    Py_DECREF(value);
    if (error != NULL) {
        PyErr_SetObject(PyExc_StopIteration, error);
        Py_DECREF(error);
    }
    return NULL;
}

static PyObject *
operation_next(PyObject *self)
{
    aya_module *module = ((Operation *)self)->module;
    PyObject *result;

    switch (step((Operation *)self, &result)) {
    case PYGEN_NEXT:
        return result;
    case PYGEN_RETURN:
        return stop_iteration(module, result);
    default:
        return NULL;
    }
}

static PyObject *
operation_send(PyObject *self, PyObject *value)
{
    PyObject *result = operation_next(self);

    (void)value;
    if (result == NULL && !PyErr_Occurred()) {
        PyErr_SetNone(PyExc_StopIteration);
    }
    return result;
}

/* What was thrown, as an exception object. */
static PyObject *
thrown_exception(PyObject *const *args, Py_ssize_t nargs)
{
    PyObject *type = args[0], *value = nargs > 1 ? args[1] : NULL;

    if (PyExceptionInstance_Check(type)) {
        return Py_NewRef(type);
    }
    if (!PyExceptionClass_Check(type)) {
        PyErr_SetString(PyExc_TypeError, "exceptions must derive from BaseException");
        return NULL;
    }
    if (value == NULL || value == Py_None) {
        return PyObject_CallNoArgs(type);
    }
    if (PyExceptionInstance_Check(value)) {
        return Py_NewRef(value);
    }
    return PyObject_CallOneArg(type, value);
}

/* Another loop's task awaited it, and is told by this throw that it may not. */
static bool
runs_elsewhere(Operation *operation)
{
    PyObject *running = aya_running_loop(operation->module);

    Py_XDECREF(running);
    return running != NULL && operation->loop != NULL && running != operation->loop;
}

static PyObject *
operation_throw(PyObject *self, PyObject *const *args, Py_ssize_t nargs)
{
    Operation *operation = (Operation *)self;

    if (nargs < 1 || nargs > 3) {
        PyErr_SetString(PyExc_TypeError, "throw() takes 1 to 3 arguments");
        return NULL;
    }
    PyObject *error = thrown_exception(args, nargs);
    if (error == NULL) {
        return NULL;
    }
    if (!is_done(operation) && !runs_elsewhere(operation)) {
        cancel(operation, NULL);
        if (!is_done(operation)) {
            /* The kernel still uses the caller's buffer: the exception comes when it has let go. */
            Py_XSETREF(operation->thrown, error);
            operation->blocking = true;
            return Py_NewRef(self);
        }
    } else if (operation->state == AYA_FINISHED && !operation->delivered && operation->is_command
               && operation->command.undo != NULL) {
        operation->command.undo(operation);
        set_outcome(operation, AYA_CANCELLED, NULL);
    }
    operation->retrieved = true;
    PyErr_SetObject((PyObject *)Py_TYPE(error), error);
    Py_DECREF(error);
    return NULL;
}

static PyObject *
operation_close(PyObject *self, PyObject *unused)
{
    Operation *operation = (Operation *)self;

    (void)unused;
    cancel(operation, NULL);
    operation->retrieved = true;
    Py_RETURN_NONE;
}

/* -- attributes -------------------------------------------------------------------------------- */

static PyObject *
get_blocking(PyObject *self, void *closure)
{
    Operation *operation = (Operation *)self;

    (void)closure;
    if (operation->loop == NULL) {
        Py_RETURN_NONE; /* asyncio then takes it for a coroutine, not for a future */
    }
    return PyBool_FromLong(operation->blocking);
}

static int
set_blocking(PyObject *self, PyObject *value, void *closure)
{
    (void)closure;
    int truth = value == NULL ? -1 : PyObject_IsTrue(value);
    if (truth < 0) {
        if (value == NULL) {
            PyErr_SetString(PyExc_AttributeError, "cannot delete attribute");
        }
        return -1;
    }
    ((Operation *)self)->blocking = truth != 0;
    return 0;
}

static PyObject *
get_loop_attribute(PyObject *self, void *closure)
{
    Operation *operation = (Operation *)self;

    (void)closure;
    return Py_NewRef(operation->loop == NULL ? Py_None : operation->loop);
}

static PyObject *
get_cancel_message(PyObject *self, void *closure)
{
    Operation *operation = (Operation *)self;

    (void)closure;
    return Py_NewRef(operation->cancel_message == NULL ? Py_None : operation->cancel_message);
}

static PyObject *
get_none(PyObject *self, void *closure)
{
    (void)self;
    (void)closure;
    Py_RETURN_NONE;
}

static PyObject *
get_running(PyObject *self, void *closure)
{
    (void)self;
    (void)closure;
    Py_RETURN_FALSE;
}

static PyObject *
get_name(PyObject *self, void *closure)
{
    Operation *operation = (Operation *)self;

    return closure != NULL && operation->file != NULL
               ? PyUnicode_FromFormat("AsyncFile.%s", operation->name)
               : PyUnicode_FromString(operation->name);
}

static PyObject *
operation_repr(PyObject *self)
{
    static const char *const states[] = {"not started", "pending", "pending", "finished", "failed",
                                         "cancelled"};
    Operation *operation = (Operation *)self;

    return PyUnicode_FromFormat("<Operation %s %s>", operation->name, states[operation->state]);
}

/* -- life -------------------------------------------------------------------------------------- */

static int
operation_traverse(PyObject *self, visitproc visit, void *arg)
{
    Operation *operation = (Operation *)self;

    Py_VISIT(Py_TYPE(self));
    Py_VISIT(operation->loop);
    Py_VISIT((PyObject *)operation->file);
    Py_VISIT(operation->result);
    Py_VISIT(operation->callback);
    Py_VISIT(operation->callback_context);
    Py_VISIT(operation->callbacks);
    Py_VISIT(operation->cancel_message);
    Py_VISIT(operation->held);
    Py_VISIT(operation->paths[0]);
    Py_VISIT(operation->paths[1]);
    Py_VISIT(operation->thrown);
    if (operation->is_command) {
        Py_VISIT(operation->command.object);
        Py_VISIT(operation->command.extra);
    }
    return 0;
}

static int
operation_clear(PyObject *self)
{
    Operation *operation = (Operation *)self;

    Py_CLEAR(operation->callback);
    Py_CLEAR(operation->callback_context);
    Py_CLEAR(operation->callbacks);
    Py_CLEAR(operation->cancel_message);
    Py_CLEAR(operation->thrown);
    if (operation->is_command) {
        Py_CLEAR(operation->command.object);
        Py_CLEAR(operation->command.extra);
    }
    Py_CLEAR(operation->held);
    Py_CLEAR(operation->paths[0]);
    Py_CLEAR(operation->paths[1]);
    Py_CLEAR(operation->file);
    return 0;
}

static void
operation_finalize(PyObject *self)
{
    Operation *operation = (Operation *)self;
    PyObject *type, *value, *traceback;

    if (operation->state != AYA_FAILED || operation->retrieved || operation->loop == NULL) {
        return;
    }
    operation->retrieved = true;
    PyErr_Fetch(&type, &value, &traceback);
    report(operation, "Operation exception was never retrieved", operation->result);
    PyErr_Restore(type, value, traceback);
}

static void
operation_dealloc(PyObject *self)
{
    Operation *operation = (Operation *)self;
    PyTypeObject *type = Py_TYPE(self);

    if (operation->state == AYA_FAILED && !operation->retrieved
        && PyObject_CallFinalizerFromDealloc(self) < 0) {
        return;
    }
    PyObject_GC_UnTrack(self);
    operation_clear(self);
    if (operation->is_command && operation->command.memory != NULL) {
        PyMem_Free(operation->command.memory);
    }
    Py_CLEAR(operation->result);
    Py_CLEAR(operation->loop);
    Py_CLEAR(operation->loop_state);
    deallocate(operation->module, operation);
    Py_DECREF(type);
}

#define GUARD_OF(self) aya_operation_guard((Operation *)(self))

GUARDED_FAST(add_done_callback)
GUARDED_FAST(operation_cancel)
GUARDED_ONE(remove_done_callback)
GUARDED_ONE(operation_result)
GUARDED_ONE(operation_exception)
GUARDED_ONE(operation_make_cancelled_error)
GUARDED_ONE(operation_send)
GUARDED_ONE(operation_close)
GUARDED_ONE(operation_done)
GUARDED_ONE(operation_cancelled)
GUARDED_SLOT(operation_repr)
GUARDED_POSITIONAL(operation_throw)
GUARDED_SLOT(operation_next)
GUARDED(PySendResult, operation_send_slot, (PyObject *self, PyObject *argument, PyObject **value),
        (self, argument, value))

static PyMethodDef operation_methods[] = {
    {"add_done_callback", (PyCFunction)(void (*)(void))guarded_add_done_callback,
     METH_FASTCALL | METH_KEYWORDS, NULL},
    {"remove_done_callback", guarded_remove_done_callback, METH_O, NULL},
    {"result", guarded_operation_result, METH_NOARGS, NULL},
    {"exception", guarded_operation_exception, METH_NOARGS, NULL},
    {"done", guarded_operation_done, METH_NOARGS, NULL},
    {"cancelled", guarded_operation_cancelled, METH_NOARGS, NULL},
    {"cancel", (PyCFunction)(void (*)(void))guarded_operation_cancel,
     METH_FASTCALL | METH_KEYWORDS, NULL},
    {"get_loop", operation_get_loop, METH_NOARGS, NULL},
    {"_make_cancelled_error", guarded_operation_make_cancelled_error, METH_NOARGS, NULL},
    {"send", guarded_operation_send, METH_O, NULL},
    {"throw", (PyCFunction)(void (*)(void))guarded_operation_throw, METH_FASTCALL, NULL},
    {"close", guarded_operation_close, METH_NOARGS, NULL},
    {"__class_getitem__", Py_GenericAlias, METH_O | METH_CLASS, NULL},
    {NULL, NULL, 0, NULL},
};

static PyGetSetDef operation_attributes[] = {
    {"_asyncio_future_blocking", get_blocking, set_blocking, NULL, NULL},
    {"_cancel_message", get_cancel_message, NULL, NULL, NULL},
    {"_loop", get_loop_attribute, NULL, NULL, NULL},
    {"cr_await", get_none, NULL, NULL, NULL},
    {"cr_code", get_none, NULL, NULL, NULL},
    {"cr_frame", get_none, NULL, NULL, NULL},
    {"cr_origin", get_none, NULL, NULL, NULL},
    {"cr_running", get_running, NULL, NULL, NULL},
    {"__name__", get_name, NULL, NULL, NULL},
    {"__qualname__", get_name, NULL, NULL, (void *)""},
    {NULL, NULL, NULL, NULL, NULL},
};

PyDoc_STRVAR(operation_doc,
             "What every method of a file returns: an awaitable that has begun already.\n\n"
             "It is a future to asyncio (add_done_callback, result, exception, cancel,\n"
             "done) and a coroutine (send, throw, close), so await, gather, create_task,\n"
             "TaskGroup, wait_for, shield, as_completed, run_coroutine_threadsafe and\n"
             "asyncio.run take it.");

static PyType_Slot operation_slots[] = {
    {Py_tp_doc, (void *)operation_doc},
    {Py_tp_dealloc, operation_dealloc},
    {Py_tp_finalize, operation_finalize},
    {Py_tp_traverse, operation_traverse},
    {Py_tp_clear, operation_clear},
    {Py_tp_repr, guarded_operation_repr},
    {Py_tp_iter, PyObject_SelfIter},
    {Py_tp_iternext, guarded_operation_next},
    {Py_am_await, PyObject_SelfIter},
    {Py_am_send, guarded_operation_send_slot},
    {Py_tp_methods, operation_methods},
    {Py_tp_getset, operation_attributes},
    {0, NULL},
};

static PyType_Spec operation_spec = {
    .name = "ayafileio._ayafileio.Operation",
    .basicsize = sizeof(Operation),
    .flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_HAVE_GC | Py_TPFLAGS_DISALLOW_INSTANTIATION,
    .slots = operation_slots,
};

int
aya_operation_add_type(PyObject *module, aya_module *state)
{
    state->operation_type = (PyTypeObject *)PyType_FromModuleAndSpec(module, &operation_spec, NULL);
    if (state->operation_type == NULL) {
        return -1;
    }
    return PyModule_AddObjectRef(module, "Operation", (PyObject *)state->operation_type);
}
