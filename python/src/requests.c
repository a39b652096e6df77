/* Operations that are one libaya request of their own (read_at, fsync, read_many, …): how they
 * begin, and how their outcome becomes a Python object. Knows kinds of result, not operations.
 */
#include "core.h"
#include "guard.h"
#include "loop.h"
#include "system.h"

/* The first buffer of a read whose length is not known, and the largest that is made at a guess. */
#define GUESS_LEAST 4096
#define GUESS_MOST (16 << 20)

/* -- making ------------------------------------------------------------------------------------ */

Operation *
aya_operation_for_file(PyObject *file, aya_op_code code)
{
    return aya_operation_new(aya_module_of_type(Py_TYPE(file)), (AsyncFile *)file,
                             aya_op_infos[code].name, false);
}

Operation *
aya_operation_for_module(PyObject *module, aya_op_code code)
{
    return aya_operation_new(aya_module_state(module), NULL, aya_op_infos[code].name, false);
}

aya_file *
aya_operation_file(Operation *operation)
{
    /* A detached file has no core; begin() refuses it before the file is used. */
    return operation->file->core == NULL ? NULL : &operation->file->core->stream.file;
}

PyObject *
aya_operation_refused(Operation *operation)
{
    if (PyErr_ExceptionMatches(PyExc_MemoryError)) {
        Py_DECREF(operation);
        return NULL;
    }
    operation->state = AYA_PENDING_STATE;
    aya_operation_end(operation, NULL);
    return (PyObject *)operation;
}

int
aya_operation_hold(Operation *operation, PyObject *object)
{
    if (operation->held == NULL) {
        operation->held = object;
        return 0;
    }
    if (!PyList_CheckExact(operation->held)) {
        PyObject *list = PyList_New(1);
        if (list == NULL) {
            Py_DECREF(object);
            return -1;
        }
        PyList_SET_ITEM(list, 0, operation->held);
        operation->held = list;
    }
    int status = PyList_Append(operation->held, object);
    Py_DECREF(object);
    return status;
}

/* -- buffers ----------------------------------------------------------------------------------- */

/* How much a read of `total` bytes (-1: to the end of the file) gets room for at first. */
static size_t
first_room(const aya_op *op, int64_t total)
{
    size_t guess = GUESS_LEAST;
    int64_t size;

    if (total >= 0 && total <= GUESS_MOST) {
        return (size_t)total;
    }
    size = op->file == NULL ? 0 : aya_file_size_hint(op->file);
    if (size > (int64_t)guess) {
        guess = size < GUESS_MOST ? (size_t)size + 1 : GUESS_MOST;
    }
    return total >= 0 && guess > (size_t)total ? (size_t)total : guess;
}

/* Whether the copy of a page of the file to `memory` takes three times as long: it does on AMD's
 * processors where the target lies 1 to 31 bytes further within its page than the source, and most
 * reads begin with a page. */
static bool
copies_slowly(const void *memory)
{
    uintptr_t within = (uintptr_t)memory & 4095;

    return within > 0 && within < 32;
}

PyObject *
aya_bytes_for_read(aya_module *module, size_t size)
{
    PyObject *bytes = aya_results_take(&module->results, size);

    if (bytes != NULL) {
        return bytes;
    }
    bytes = PyBytes_FromStringAndSize(NULL, (Py_ssize_t)size);
    if (bytes == NULL || size < 1024 || !copies_slowly(PyBytes_AS_STRING(bytes))) {
        return bytes;
    }
    PyObject *elsewhere = PyBytes_FromStringAndSize(NULL, (Py_ssize_t)size);
    Py_DECREF(bytes);
    return elsewhere;
}

PyObject *
aya_bytes_of_read(aya_module *module, PyObject *bytes, size_t size)
{
    if (PyBytes_GET_SIZE(bytes) != (Py_ssize_t)size
        && _PyBytes_Resize(&bytes, (Py_ssize_t)size) < 0) {
        return NULL;
    }
    aya_results_give(&module->results, bytes);
    return bytes;
}

static int
bigger_bytes(PyObject **bytes, aya_op *op)
{
    int64_t total = aya_op_total(op);
    size_t room = op->buf_size < GUESS_LEAST ? GUESS_LEAST : op->buf_size * 2;

    if (total >= 0 && room > (size_t)total) {
        room = (size_t)total;
    }
    if (room > PY_SSIZE_T_MAX / 2 || _PyBytes_Resize(bytes, (Py_ssize_t)room) < 0) {
        PyErr_Clear();
        *bytes = NULL;
        return -ENOMEM;
    }
    op->buf = PyBytes_AS_STRING(*bytes);
    op->buf_size = room;
    return 0;
}

static int
grow(aya_request *request, aya_op *op, size_t index)
{
    Operation *operation = (Operation *)((char *)request - offsetof(Operation, request));

    if (aya_op_infos[request->op.code].each == AYA_OP_COUNT) {
        return bigger_bytes(&operation->result, op);
    }
    PyObject *bytes = PyList_GET_ITEM(operation->result, (Py_ssize_t)index);
    int error = bigger_bytes(&bytes, op);
    PyList_SET_ITEM(operation->result, (Py_ssize_t)index, bytes);
    return error;
}

/* A group that gives bytes: a bytes object for each part. */
static int
prepare_list(Operation *operation)
{
    aya_op *op = &operation->request.op;
    size_t size = aya_group_size(op);
    PyObject *list = PyList_New((Py_ssize_t)size);

    if (list == NULL) {
        return -1;
    }
    operation->result = list;
    if (!aya_op_infos[op->code].gives) {
        return 0;
    }
    for (size_t i = 0; i < size; i++) {
        aya_span *span = aya_group_span(op, i);
        span->buf_size = first_room(op, span->size < 0 ? -1 : span->size);
        PyObject *bytes = aya_bytes_for_read(operation->module, span->buf_size);
        if (bytes == NULL) {
            return -1;
        }
        span->buf = PyBytes_AS_STRING(bytes);
        PyList_SET_ITEM(list, (Py_ssize_t)i, bytes);
    }
    operation->request.grow = grow;
    return 0;
}

/* Makes the memory that the result is written to; `result` holds it until it becomes the value. */
static int
prepare(Operation *operation)
{
    aya_op *op = &operation->request.op;
    size_t size;

    switch (aya_op_infos[op->code].result) {
    case AYA_RESULT_BYTES:
        size = first_room(op, aya_op_total(op));
        operation->request.grow = grow;
        break;
    case AYA_RESULT_STAT:
        size = sizeof(aya_stat_raw);
        break;
    case AYA_RESULT_LIST:
        return prepare_list(operation);
    default:
        return 0;
    }
    operation->result = aya_bytes_for_read(operation->module, size);
    if (operation->result == NULL) {
        return -1;
    }
    op->buf = PyBytes_AS_STRING(operation->result);
    op->buf_size = size;
    return 0;
}

/* -- outcome ----------------------------------------------------------------------------------- */

static int64_t
whole_seconds(int64_t ns)
{
    return ns >= 0 ? ns / 1000000000 : -((999999999 - ns) / 1000000000);
}

/* Rounded as os.stat() does, so that the two compare equal. */
double
aya_stat_seconds(int64_t ns)
{
    int64_t whole = whole_seconds(ns);

    return (double)whole + 1e-9 * (double)(ns - whole * 1000000000);
}

static PyObject *
seconds(int64_t ns)
{
    return PyFloat_FromDouble(aya_stat_seconds(ns));
}

PyObject *
aya_stat_fields(const aya_stat *known)
{
    return Py_BuildValue(
        "(IKKKIIKLLLNNNLLLIKK)", known->mode, (unsigned long long)known->inode,
        (unsigned long long)known->device, (unsigned long long)known->links, known->owner,
        known->group, (unsigned long long)known->size, (long long)whole_seconds(known->accessed_ns),
        (long long)whole_seconds(known->modified_ns), (long long)whole_seconds(known->changed_ns),
        seconds(known->accessed_ns), seconds(known->modified_ns), seconds(known->changed_ns),
        (long long)known->accessed_ns, (long long)known->modified_ns, (long long)known->changed_ns,
        known->block_size, (unsigned long long)known->blocks, (unsigned long long)known->rdevice);
}

static PyObject *
list_value(aya_module *module, const aya_op *op, PyObject *list)
{
    for (Py_ssize_t i = 0; i < PyList_GET_SIZE(list); i++) {
        int64_t result = aya_group_span(op, (size_t)i)->result;
        PyObject *value;
        if (aya_op_infos[op->code].gives) {
            value = aya_bytes_of_read(module, PyList_GET_ITEM(list, i), (size_t)result);
        } else {
            value = PyLong_FromLongLong(result);
        }
        PyList_SET_ITEM(list, i, value);
        if (value == NULL) {
            Py_DECREF(list);
            return NULL;
        }
    }
    return list;
}

/* The file that is the operation's parameter number `index`, counting only such; NULL: there are
 * no more. Borrowed. */
static AsyncFile *
handle_of(const Operation *operation, Py_ssize_t index)
{
    PyObject *held = operation->held;
    PyTypeObject *type = operation->module->file_type;

    if (held == NULL || !PyList_CheckExact(held)) {
        return NULL; /* a handle is held as two objects */
    }
    for (Py_ssize_t i = 0; i < PyList_GET_SIZE(held); i++) {
        PyObject *object = PyList_GET_ITEM(held, i);
        if (PyObject_TypeCheck(object, type) && index-- == 0) {
            return (AsyncFile *)object;
        }
    }
    return NULL;
}

/* The file's name as given; NULL where there is none. A new reference. */
static PyObject *
path_of(AsyncFile *file)
{
    PyObject *path = NULL;

    if (file != NULL) {
        AYA_GUARD(aya_file_guard(file));
        path = file->core == NULL ? NULL : Py_XNewRef(file->core->path);
        AYA_UNGUARD();
    }
    return path;
}

static void
raise_error(Operation *operation)
{
    const aya_op *op = &operation->request.op;
    bool on_file = operation->file != NULL;
    AsyncFile *handle = handle_of(operation, 0);
    PyObject *path = on_file ? path_of(operation->file) : Py_XNewRef(operation->paths[0]);
    PyObject *other = on_file ? path_of(handle) : Py_XNewRef(operation->paths[1]);

    switch (aya_op_error_kind(op->code, (int)-op->result)) {
    case AYA_ERROR_UNSUPPORTED:
        PyErr_Format(operation->module->unsupported, "%s: %s", operation->name,
                     strerror((int)-op->result));
        break;
    case AYA_ERROR_CLOSED:
        PyErr_SetString(PyExc_ValueError, "I/O operation on closed file.");
        break;
    default:
        if (op->result == -ECANCELED) {
            PyErr_SetNone(operation->module->cancelled_error);
        } else if (path != NULL && other != NULL) {
            aya_system_raise(op->result, op->system_code, path, other);
        } else if (op->system_code != 0) {
            aya_system_raise(op->result, op->system_code, path, NULL);
        } else {
            aya_raise(operation->module, op->result, path);
        }
    }
    Py_XDECREF(path);
    Py_XDECREF(other);
}

/* The value of a request that has ended, or NULL with its error set. */
static PyObject *
take_value(Operation *operation)
{
    const aya_op *op = &operation->request.op;
    PyObject *buffer = operation->result;

    operation->result = NULL;
    if (op->result < 0) {
        Py_XDECREF(buffer);
        raise_error(operation);
        return NULL;
    }
    switch (aya_op_infos[op->code].result) {
    case AYA_RESULT_BYTES:
        return aya_bytes_of_read(operation->module, buffer, (size_t)op->result);
    case AYA_RESULT_LIST:
        return list_value(operation->module, op, buffer);
    case AYA_RESULT_STAT: {
        PyObject *value =
            aya_system_stat(operation->module->stat_result,
                            (aya_stat_raw *)PyBytes_AS_STRING(buffer));
        Py_DECREF(buffer);
        return value;
    }
    case AYA_RESULT_NONE:
        return Py_NewRef(Py_None);
    default:
        return PyLong_FromLongLong(op->result);
    }
}

/* A request whose loop went away ends as a cancelled one. */
static void
end_request(Operation *operation)
{
    if (operation->request.op.result == -ECANCELED && aya_operation_wanted(operation)) {
        operation->cancel_wanted = true;
    }
    aya_operation_end(operation, take_value(operation));
}

/* close() of a descriptor that is not owned waits for the last of them. */
static void
request_left(AsyncFile *file)
{
    AYA_GUARD(aya_file_guard(file));
    if (file->core != NULL && file->core->closing) {
        aya_core_advance(file->core);
    }
    AYA_UNGUARD();
}

static void
request_done(aya_request *request)
{
    Operation *operation = (Operation *)((char *)request - offsetof(Operation, request));

    AYA_GUARD((PyObject *)operation);
    operation->in_flight = false;
    end_request(operation);
    AYA_UNGUARD();
    if (operation->file != NULL) {
        request_left(operation->file);
    }
    Py_DECREF(operation);
}

/* -- beginning --------------------------------------------------------------------------------- */

static int
check_use(Operation *operation)
{
    const aya_op_info *info = &aya_op_infos[operation->request.op.code];
    aya_core *core;

    if (operation->file == NULL) {
        return 0;
    }
    if (aya_file_check(operation->file) < 0) {
        return -1;
    }
    core = operation->file->core;
    if (core->closing && !operation->in_flight) {
        PyErr_SetString(PyExc_ValueError, "I/O operation on closed file.");
        return -1;
    }
    if (operation->file->text != NULL && (info->gives || info->takes)) {
        PyErr_Format(operation->module->unsupported, "%s needs a binary file (or f.buffer)",
                     operation->name);
        return -1;
    }
    if (info->gives && aya_file_check_readable(operation->file) < 0) {
        return -1;
    }
    if (info->takes) {
        if (aya_file_check_writable(operation->file) < 0) {
            return -1;
        }
        if (core->appending) {
            PyErr_Format(operation->module->unsupported,
                         "%s on a file opened for appending: the system ignores the offset",
                         operation->name);
            return -1;
        }
    }
    return 0;
}

/* For a file that is another one's parameter: the system gets what was written, its position is
 * the stream's, and nothing is kept of what the operation may change. */
static int64_t
settle_handle(aya_stream *stream)
{
    int64_t result = aya_stream_flush(stream);

    if (result == 0) {
        aya_stream_drop(stream);
    }
    return result;
}

/* The file is open and has nothing buffered: the request may have it. Under its guard. */
static void
take_file(Operation *operation)
{
    aya_request *request = &operation->request;

    if (operation->file != NULL) {
        if (aya_op_infos[request->op.code].changes) {
            aya_stream_drop(&operation->file->core->stream);
        }
        request->op.file = &operation->file->core->stream.file;
        if (AYA_FREE_THREADED) {
            /* The guard is not held over the inline call: threads that read one file at a time
             * would only take turns. This keeps it open meanwhile. */
            aya_file_hold(request->op.file);
        }
    }
}

/* Starts what did not end inline; under the file's guard. */
static int
start_taken(Operation *operation)
{
    if (AYA_FREE_THREADED && operation->file != NULL) {
        aya_file_unuse(operation->request.op.file);
        if (check_use(operation) < 0) {
            return -1;
        }
    }
    operation->request.done = request_done;
    operation->in_flight = true;
    Py_INCREF(operation);
    aya_start(operation->loop_state->context, &operation->request);
    return 0;
}

/* Starts the request on the file that it has taken. */
static void
start_request(Operation *operation)
{
    aya_request *request = &operation->request;
    LoopState *state = operation->loop_state;
    int status = prepare(operation);

    if (status < 0 || aya_try(state->context, request)) {
        if (AYA_FREE_THREADED && operation->file != NULL) {
            aya_file_unuse(request->op.file);
            request_left(operation->file);
        }
        if (status < 0) {
            aya_operation_end(operation, NULL);
        } else {
            end_request(operation);
        }
        return;
    }
    if (operation->file == NULL) {
        status = start_taken(operation);
    } else {
        AYA_GUARD(aya_file_guard(operation->file));
        status = start_taken(operation);
        AYA_UNGUARD();
    }
    if (status < 0) {
        aya_operation_end(operation, NULL);
        request_left(operation->file);
    } else if (aya_loop_started(state, operation->loop) < 0) {
        PyErr_WriteUnraisable((PyObject *)operation);
    }
}

static void go_on(Operation *operation, Py_ssize_t next);

/* command: object the request that waits, number[0] the place among its handles that comes next; 0:
 * the gate is its own file's. */

/* The command that lets a request wait for what a file has to do first. */
static aya_step
step_gate(Operation *gate)
{
    Operation *operation = (Operation *)gate->command.object;
    Py_ssize_t next = (Py_ssize_t)gate->command.number[0];
    int64_t result = aya_core_check(gate->file->core) < 0 ? -EBADF : 0;

    if (result == 0) {
        aya_stream *stream = &gate->file->core->stream;
        result = next == 0 ? aya_stream_drain(stream) : settle_handle(stream);
        if (result == AYA_PENDING) {
            return AYA_STEP_PENDING;
        }
        if (result < 0) {
            aya_raise(gate->module, result, gate->file->core->path);
        }
    }
    if (!aya_operation_wanted(operation)) {
        PyErr_Clear();
    } else if (result < 0) {
        aya_operation_end(operation, NULL);
    } else {
        go_on(operation, next);
    }
    gate->result = Py_NewRef(Py_None);
    return AYA_STEP_DONE;
}

static int
begin_behind_gate(Operation *operation, AsyncFile *file, Py_ssize_t next)
{
    Operation *gate = aya_command_new(file, operation->name, step_gate, AYA_COMMAND_GO_ON);

    if (gate == NULL) {
        return -1;
    }
    gate->command.object = Py_NewRef((PyObject *)operation);
    gate->command.number[0] = next;
    PyObject *begun = aya_command_begin(gate);
    if (begun == NULL) {
        return -1;
    }
    int status = 0;
    if (gate->state == AYA_FAILED) {
        gate->retrieved = true;
        PyErr_SetObject((PyObject *)Py_TYPE(gate->result), gate->result);
        status = -1;
    }
    Py_DECREF(begun);
    return status;
}

/* Whether the file has something to do before a request may see it. */
static bool
needs_gate(const aya_core *core)
{
    return core->state != AYA_CORE_OPEN || core->writers > 0 || aya_stream_dirty(&core->stream);
}

/* 1 where the file that is a parameter, number `next` - 1, is settled; 0 where a gate settles
 * it. */
static int
settle_or_gate(Operation *operation, AsyncFile *file, Py_ssize_t next)
{
    aya_core *core = file->core;

    if (core == NULL) {
        return aya_file_check(file);
    }
    if (needs_gate(core) || (core->head != NULL && core->stream.file.positioned)) {
        return begin_behind_gate(operation, file, next);
    }
    settle_handle(&core->stream);
    return 1;
}

/* Takes the file when the files that are parameters, from number `from` on, have nothing buffered
 * and nothing read ahead: 1, to be started by start_request(). 0 where it goes on behind a gate. */
static int
begin_behind_handles(Operation *operation, Py_ssize_t from)
{
    AsyncFile *file;

    while ((file = handle_of(operation, from)) != NULL) {
        int status;
        from++;
        AYA_GUARD(aya_file_guard(file));
        status = settle_or_gate(operation, file, from);
        AYA_UNGUARD();
        if (status <= 0) {
            return status;
        }
    }
    if (from > 0 && AYA_FREE_THREADED && check_use(operation) < 0) {
        return -1; /* closed meanwhile */
    }
    take_file(operation);
    return 1;
}

/* The gate is open. */
static void
go_on(Operation *operation, Py_ssize_t next)
{
    int status = -1;

    if (operation->file == NULL) {
        status = begin_behind_handles(operation, next);
    } else {
        AYA_GUARD(aya_file_guard(operation->file));
        status = check_use(operation) < 0 ? -1 : begin_behind_handles(operation, next);
        AYA_UNGUARD();
    }
    if (status < 0) {
        aya_operation_end(operation, NULL);
    } else if (status > 0) {
        start_request(operation);
    }
}

/* As begin_behind_handles(), for the operation's own file too. */
static int
begin_on_file(Operation *operation)
{
    aya_core *core = operation->file->core;

    if (core != NULL && core->stream.generation != aya_fork_generation()) {
        aya_core_after_fork(core);
    }
    if (check_use(operation) < 0) {
        return -1;
    }
    return needs_gate(core) ? begin_behind_gate(operation, operation->file, 0)
                            : begin_behind_handles(operation, 0);
}

PyObject *
aya_operation_begin(Operation *operation)
{
    int status;

    if (operation->state == AYA_UNBOUND) {
        return (PyObject *)operation;
    }
    if (operation->file == NULL) {
        status = begin_behind_handles(operation, 0);
    } else {
        AYA_GUARD(aya_file_guard(operation->file));
        status = begin_on_file(operation);
        AYA_UNGUARD();
    }
    if (status < 0) {
        return aya_operation_refused(operation);
    }
    if (status > 0) {
        start_request(operation);
        aya_operation_ended_inline(operation);
    }
    return (PyObject *)operation;
}
