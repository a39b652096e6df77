/* Opening, closing and the life of a core. An open is the first command of a core's queue:
 * commands made before it has ended wait behind it.
 */
#include "core.h"
#include "guard.h"
#include "loop.h"
#include "system.h"
#include "text.h"

#include <fcntl.h>
#include <structmember.h>

/* The buffer of pipes and devices, as the built-in open() chooses it: errors of a device come
 * soon. */
#define SPECIAL_BUFFER 4096
/* Bounds of a shared stream's buffer, likewise. */
#if PY_VERSION_HEX >= 0x030E0000
#define SHARED_LEAST ((size_t)128 << 10)
#define SHARED_MOST ((size_t)8 << 20)
#else
#define SHARED_LEAST 8192
#endif

/* -- the core ---------------------------------------------------------------------------------- */

static void
keep(void *owner)
{
    Py_INCREF((PyObject *)owner);
}

static void
release(void *owner)
{
    Py_DECREF((PyObject *)owner);
}

static void
on_wake(aya_stream *stream)
{
    aya_core_advance((aya_core *)stream);
}

#if AYA_FREE_THREADED
static void
call_guarded(aya_stream *stream, void (*function)(aya_stream *stream))
{
    PyObject *guard = Py_NewRef(aya_core_guard((aya_core *)stream));

    AYA_GUARD(guard);
    function(stream);
    AYA_UNGUARD();
    Py_DECREF(guard);
}

static int
add_guard(aya_core *core)
{
    core->guard = PyObject_CallNoArgs((PyObject *)&PyBaseObject_Type);
    core->stream.guarded = call_guarded;
    return core->guard == NULL ? -1 : 0;
}

static void
drop_guard(aya_core *core)
{
    Py_CLEAR(core->guard);
}
#else
static int
add_guard(aya_core *Py_UNUSED(core))
{
    return 0;
}

static void
drop_guard(aya_core *Py_UNUSED(core))
{
}
#endif

void
aya_file_set_core(AsyncFile *file, aya_core *core)
{
    file->core = core;
#if AYA_FREE_THREADED
    file->guard = Py_NewRef(core->guard);
#endif
}

aya_core *
aya_core_new(aya_module *module)
{
    aya_core *core = PyMem_Calloc(1, sizeof(*core));

    if (core == NULL) {
        PyErr_NoMemory();
        return NULL;
    }
    if (add_guard(core) < 0) {
        PyMem_Free(core);
        return NULL;
    }
    core->module = module;
    core->references = 1;
    core->closefd = true;
    core->buffering = -1;
    core->given = core->descriptor = -1;
    core->stream.file.handle = core->stream.file.io = AYA_NO_HANDLE;
    core->stream.wake = on_wake;
    core->stream.keep = keep;
    core->stream.release = release;
    core->stream.generation = aya_fork_generation();
    AYA_LOCK(module);
    core->next = module->cores;
    if (core->next != NULL) {
        core->next->previous = core;
    }
    module->cores = core;
    AYA_UNLOCK(module);
    return core;
}

static void
core_free(aya_core *core)
{
    AYA_LOCK(core->module);
    if (core->previous != NULL) {
        core->previous->next = core->next;
    } else {
        core->module->cores = core->next;
    }
    if (core->next != NULL) {
        core->next->previous = core->previous;
    }
    AYA_UNLOCK(core->module);
    aya_stream_release(&core->stream);
    Py_CLEAR(core->open_error);
    Py_CLEAR(core->late_error);
    Py_CLEAR(core->path);
    Py_CLEAR(core->path_bytes);
    Py_CLEAR(core->opener);
    drop_guard(core);
    PyMem_Free(core);
}

/* Waits for what the system still does with the stream's memory, where no loop runs to be told.
 * False: another thread's loop has it. */
static bool
wait_for_stream(aya_stream *stream)
{
    while (stream->back_busy || stream->front_state == AYA_FRONT_BUSY) {
        aya_request *request = stream->back_busy ? &stream->back : &stream->front;
        if (!aya_context_is_own(request->context)
            || aya_context_wait(request->context, 1000) < 0) {
            return false;
        }
    }
    return true;
}

/* Closes by blocking calls: no loop runs that could be held up. */
static void
close_blocking(aya_core *core)
{
    aya_handle handle = core->stream.file.handle;
    int error = 0;

    if (core->stream.generation == aya_fork_generation()) {
        if (!wait_for_stream(&core->stream)) {
            core->references++; /* never freed: the system may still use its memory */
            return;
        }
        error = aya_stream_drain_blocking(&core->stream);
    }
    aya_file_release(&core->stream.file);
    if (core->closefd && handle != AYA_NO_HANDLE) {
        aya_system_close(handle);
    }
    aya_system_closed(core);
    core->stream.file.handle = core->stream.file.io = AYA_NO_HANDLE;
    core->state = AYA_CORE_CLOSED;
    if (error < 0) {
        aya_raise(core->module, error, core->path);
        PyErr_WriteUnraisable(core->path);
    }
}

static AsyncFile *
view_of(aya_core *core)
{
    AsyncFile *file = (AsyncFile *)core->module->file_type->tp_alloc(core->module->file_type, 0);

    if (file != NULL) {
        aya_file_set_core(file, core);
        core->references++;
        file->mode = PyUnicode_FromString("");
    }
    return file;
}

/* The last reference is gone and the file is open: a loop that runs closes it, else blocking
 * calls. */
static void
close_dropped(aya_core *core)
{
    PyObject *loop = aya_running_loop(core->module);

    if (loop != NULL) {
        AsyncFile *file = view_of(core);
        PyObject *closing = file == NULL ? NULL : aya_file_close(file, false);
        Py_DECREF(loop);
        Py_XDECREF((PyObject *)file);
        if (closing != NULL) {
            Py_DECREF(closing);
            return;
        }
        PyErr_Clear();
    }
    close_blocking(core);
}

static void
drop(aya_core *core)
{
    if (--core->references > 0) {
        return;
    }
    if (core->state == AYA_CORE_OPEN && !core->closing) {
        PyObject *type, *value, *traceback;
        PyErr_Fetch(&type, &value, &traceback);
        core->references = 1;
        close_dropped(core);
        PyErr_Restore(type, value, traceback);
        if (--core->references > 0) {
            return;
        }
    }
    core_free(core);
}

void
aya_core_drop(aya_core *core)
{
    PyObject *guard = Py_XNewRef(aya_core_guard(core));

    AYA_GUARD(guard);
    drop(core);
    AYA_UNGUARD();
    Py_XDECREF(guard);
}

void
aya_core_after_fork(aya_core *core)
{
    aya_stream_after_fork(&core->stream);
    /* The parent's commands never end here. */
    core->head = core->tail = NULL;
    core->writers = 0;
    core->running = false;
}

void
aya_cores_end(aya_module *module)
{
    for (aya_core *core = module->cores; core != NULL; core = core->next) {
        if (core->state != AYA_CORE_OPEN || core->stream.generation != aya_fork_generation()) {
            continue;
        }
        int error;
        AYA_GUARD(aya_core_guard(core));
        error = aya_stream_drain_blocking(&core->stream);
        AYA_UNGUARD();
        if (error < 0) {
            aya_raise(module, error, core->path);
            PyErr_WriteUnraisable(core->path);
        }
    }
}

int
aya_core_check(aya_core *core)
{
    switch (core->state) {
    case AYA_CORE_FAILED:
        PyErr_SetObject((PyObject *)Py_TYPE(core->open_error), core->open_error);
        return -1;
    case AYA_CORE_CLOSED:
        PyErr_SetString(PyExc_ValueError, "I/O operation on closed file.");
        return -1;
    default:
        return 0;
    }
}

int
aya_core_raise_late(aya_core *core)
{
    if (core->late_error == NULL) {
        return 0;
    }
    PyErr_SetObject((PyObject *)Py_TYPE(core->late_error), core->late_error);
    Py_CLEAR(core->late_error);
    return -1;
}

/* -- the open command -------------------------------------------------------------------------- */

static int
system_flags(const aya_core *core)
{
    int flags = aya_system_open_flags();

    flags |= core->readable && core->writable ? O_RDWR : core->writable ? O_WRONLY : O_RDONLY;
    flags |= core->appending ? O_APPEND : 0;
    flags |= core->created ? O_CREAT : 0;
    flags |= core->exclusive ? O_EXCL : 0;
    flags |= core->truncating ? O_TRUNC : 0;
    return flags;
}

static PyObject *
on_opener(PyObject *self, PyObject *future)
{
    aya_core *core = PyCapsule_GetPointer(self, "ayafileio.core");

    (void)future;
    aya_core_advance(core);
    aya_core_drop(core);
    Py_RETURN_NONE;
}

static PyMethodDef opener_definition = {"_ayafileio_opened", on_opener, METH_O, NULL};

/* Runs the caller's opener in the loop's executor: it may block. */
static int
start_opener(Operation *operation)
{
    aya_core *core = operation->file->core;
    PyObject *capsule = PyCapsule_New(core, "ayafileio.core", NULL);
    PyObject *callback = capsule == NULL ? NULL : PyCFunction_New(&opener_definition, capsule);
    PyObject *added = NULL;

    Py_XDECREF(capsule);
    if (callback != NULL) {
        operation->command.object =
            PyObject_CallMethod(operation->loop, "run_in_executor", "OOOi", Py_None, core->opener,
                                core->path, system_flags(core));
        if (operation->command.object != NULL) {
            core->references++;
            added = PyObject_CallMethod(operation->command.object, "add_done_callback", "O",
                                        callback);
        }
        Py_DECREF(callback);
    }
    Py_XDECREF(added);
    return added == NULL ? -1 : 0;
}

/* The descriptor that the opener gave, or -1 with an exception. */
static int
take_opener(Operation *operation)
{
    PyObject *value = PyObject_CallMethod(operation->command.object, "result", NULL);
    int descriptor;

    if (value == NULL) {
        return -1;
    }
    if (!PyLong_Check(value)) {
        Py_DECREF(value);
        PyErr_SetString(PyExc_TypeError, "expected integer from opener");
        return -1;
    }
    descriptor = (int)PyLong_AsLong(value);
    Py_DECREF(value);
    if (descriptor < 0) {
        if (!PyErr_Occurred()) {
            PyErr_Format(PyExc_ValueError, "opener returned %d", descriptor);
        }
        return -1;
    }
    aya_system_no_inherit(descriptor);
    return descriptor;
}

/* Whether the handle comes from an open of ours, and not from the caller. */
static bool
opens_itself(const aya_core *core)
{
    return core->path_bytes != NULL && core->opener == NULL;
}

enum { PHASE_HANDLE, PHASE_OPENER, PHASE_LEARN, PHASE_LAST };

/* Gets the handle: 0 when operation->command.number[0] is it, AYA_PENDING, -errno, or -EILSEQ
 * with an exception set. */
static int64_t
find_handle(Operation *operation)
{
    aya_core *core = operation->file->core;
    int64_t handle;

    if (operation->command.phase == PHASE_OPENER) {
        PyObject *done = PyObject_CallMethod(operation->command.object, "done", NULL);
        int is_done = done == NULL ? -1 : PyObject_IsTrue(done);
        Py_XDECREF(done);
        if (is_done <= 0) {
            return is_done < 0 ? -EILSEQ : AYA_PENDING;
        }
        int descriptor = take_opener(operation);
        if (descriptor < 0) {
            return -EILSEQ;
        }
        handle = aya_system_adopt(core, descriptor);
    } else if (core->opener != NULL) {
        operation->command.phase = PHASE_OPENER;
        return start_opener(operation) < 0 ? -EILSEQ : AYA_PENDING;
    } else if (core->path_bytes != NULL) {
        aya_open how = {
            .path = (const aya_path_char *)PyBytes_AS_STRING(core->path_bytes),
            .access = core->readable && core->writable ? AYA_OPEN_BOTH
                      : core->writable                 ? AYA_OPEN_WRITE
                                                       : AYA_OPEN_READ,
            .append = core->appending,
            .create = core->created,
            .exclusive = core->exclusive,
            .truncate = core->truncating,
            .permissions = 0666,
        };
        handle = aya_stream_open(&core->stream, &how);
    } else {
        handle = aya_system_adopt(core, core->given);
    }
    if (handle < 0) {
        return handle;
    }
    operation->command.number[0] = handle;
    bool known = opens_itself(core) || aya_file_known((aya_handle)handle);
    operation->command.phase = known ? PHASE_LAST : PHASE_LEARN;
    return 0;
}

/* What the built-in open() gives such a file. */
static size_t
built_in_buffer_size(const aya_core *core)
{
    size_t size;

    if (core->buffering > 1) {
        return (size_t)core->buffering;
    }
    size = core->stream.file.block_size;
#if PY_VERSION_HEX >= 0x030E0000
    size = size < SHARED_MOST ? size : SHARED_MOST;
    return size > SHARED_LEAST ? size : SHARED_LEAST;
#else
    return size > 1 ? size : SHARED_LEAST;
#endif
}

static unsigned
shared_rules(void)
{
#if PY_VERSION_HEX >= 0x030D0000
    return AYA_SHARED_READ1_FLUSHES | AYA_SHARED_FULL_DIRECT;
#elif PY_VERSION_HEX >= 0x030C0000
    return Py_Version >= 0x030C0300 ? AYA_SHARED_READ1_FLUSHES : 0;
#elif PY_VERSION_HEX >= 0x030B0000
    return Py_Version >= 0x030B0900 ? AYA_SHARED_READ1_FLUSHES : 0;
#else
    return 0;
#endif
}

/* The descriptor is there: what is it, and does it fit the mode? 0 or -errno, or -EILSEQ. */
static int64_t
take_handle(Operation *operation)
{
    aya_core *core = operation->file->core;
    aya_stream *stream = &core->stream;
    aya_handle handle = (aya_handle)operation->command.number[0];
    int error = 0;

    if (!opens_itself(core)) {
        error = aya_file_init(&stream->file, handle);
    } else if (stream->file.handle != handle) {
        error = aya_file_init_opened(&stream->file, handle, core->appending);
    }
    if (error < 0) {
        return error;
    }
    if (stream->file.kind == AYA_FILE_DIRECTORY) {
        return -EISDIR;
    }
    size_t size = core->buffering == 0 ? 0
                  : core->buffering > 1 ? (size_t)core->buffering
                  : stream->file.kind == AYA_FILE_REGULAR
                      ? (size_t)core->module->config.buffer_size
                      : SPECIAL_BUFFER;
    core->seekable = stream->file.positioned;
    aya_stream_init(stream, size, core->closefd);
    if (core->readable && core->writable && core->buffering != 0 && !core->seekable) {
        PyErr_SetString(core->module->unsupported, "File or stream is not seekable.");
        return -EILSEQ;
    }
    if (core->readable && core->writable && stream->file.append && size > 0) {
        return aya_stream_share(stream, built_in_buffer_size(core), shared_rules());
    }
    if (core->appending && core->seekable && size > 0) {
        stream->append_block = built_in_buffer_size(core);
    }
    return 0;
}

/* The open has failed: gives back what it got. */
static void
fail_open(aya_core *core, Operation *operation)
{
    if (core->closefd && operation->command.phase >= PHASE_LEARN && core->path_bytes != NULL) {
        aya_file_release(&core->stream.file);
        aya_system_close((aya_handle)operation->command.number[0]);
    }
    core->stream.file.handle = core->stream.file.io = AYA_NO_HANDLE;
    core->open_error = aya_take_exception();
    core->state = AYA_CORE_FAILED;
}

static int64_t
open_steps(Operation *operation)
{
    aya_core *core = operation->file->core;
    int64_t result;

    if (operation->command.phase <= PHASE_OPENER) {
        result = find_handle(operation);
        if (result < 0) {
            return result;
        }
    }
    if (operation->command.phase == PHASE_LEARN) {
        result = aya_stream_learn(&core->stream, (aya_handle)operation->command.number[0]);
        if (result < 0) {
            return result;
        }
        operation->command.phase = PHASE_LAST;
    }
    if (operation->command.number[1] == 0) {
        result = take_handle(operation);
        if (result < 0) {
            return result;
        }
        operation->command.number[1] = 1;
    }
    if (core->appending && core->seekable) {
        bool known = core->stream.file.at_start;
        return aya_stream_seek(&core->stream, known ? core->stream.file.size : 0,
                               known ? SEEK_SET : SEEK_END);
    }
    return 0;
}

static aya_step
step_open(Operation *operation)
{
    aya_core *core = operation->file->core;
    int64_t result = open_steps(operation);

    if (result == AYA_PENDING) {
        return AYA_STEP_PENDING;
    }
    if (result >= 0) {
        core->state = AYA_CORE_OPEN;
        if (operation->file->text != NULL && aya_text_opened(operation->file) < 0) {
            result = -EILSEQ;
        }
    }
    if (result < 0) {
        if (result != -EILSEQ) {
            aya_step_error(operation, result);
        }
        fail_open(core, operation);
    }
    operation->result = Py_NewRef(Py_None);
    return AYA_STEP_DONE;
}

int
aya_core_open(aya_core *core, AsyncFile *file)
{
    core->state = AYA_CORE_OPENING;
    Operation *operation = aya_command_new(file, "open", step_open, AYA_COMMAND_GO_ON);

    if (operation == NULL) {
        return -1;
    }
    operation->command.closes = true;
    PyObject *begun = aya_command_begin(operation);
    if (begun == NULL) {
        return -1;
    }
    Py_DECREF(begun);
    return 0;
}

/* -- waiting for the open ---------------------------------------------------------------------- */

static aya_step
step_opened(Operation *operation)
{
    if (aya_core_check(operation->file->core) < 0) {
        return AYA_STEP_FAILED;
    }
    operation->result = Py_NewRef((PyObject *)operation->file);
    return AYA_STEP_DONE;
}

/* Nobody got the file: it closes quietly. */
static void
undo_opened(Operation *operation)
{
    operation->file->warn = false;
}

PyObject *
aya_file_opened(AsyncFile *file)
{
    if (aya_file_check(file) < 0) {
        return aya_operation_finished(file, "open", NULL);
    }
    if (file->core->state == AYA_CORE_OPEN && !file->core->closing) {
        return aya_operation_finished(file, "open", Py_NewRef((PyObject *)file));
    }
    Operation *operation = aya_command_new(file, "open", step_opened, AYA_COMMAND_ABORT);
    if (operation == NULL) {
        return NULL;
    }
    operation->command.ends_open = true;
    operation->command.undo = undo_opened;
    return aya_command_begin(operation);
}

/* -- close ------------------------------------------------------------------------------------- */

static aya_step
end_close(Operation *operation, int64_t result, bool has_exception)
{
    aya_core *core = operation->file->core;

    core->state = AYA_CORE_CLOSED;
    aya_system_closed(core);
    aya_deadline_drop(operation);
    if (has_exception) {
        return AYA_STEP_FAILED;
    }
    if (result < 0) {
        Py_CLEAR(core->late_error);
        return aya_step_error(operation, result);
    }
    if (aya_core_raise_late(core) < 0) {
        return AYA_STEP_FAILED;
    }
    operation->result = Py_NewRef(Py_None);
    return AYA_STEP_DONE;
}

/* number[0]: whether to make durable first; object: the exception of that, kept over the close. */
static int64_t
before_close(Operation *operation)
{
    AsyncFile *file = operation->file;
    int64_t result = 0;

    if (file->text != NULL && operation->command.phase == 0) {
        result = aya_text_settle(file);
        if (result == AYA_PENDING) {
            return result;
        }
        operation->command.phase = 1;
    }
    if (result == 0 && operation->command.number[0]) {
        result = aya_stream_sync(&file->core->stream);
        /* What cannot be synchronised (a pipe) has nothing to be made durable. */
        result = result == -EINVAL || result == -EROFS || result == -ENOTSUP ? 0 : result;
        if (result != AYA_PENDING) {
            operation->command.number[0] = 0;
        }
    }
    if (result < 0 && result != AYA_PENDING) {
        operation->command.number[1] = result;
        if (result == -EILSEQ && PyErr_Occurred()) {
            operation->command.object = aya_take_exception();
        }
        result = 0;
    }
    return result;
}

static aya_step
step_close(Operation *operation)
{
    aya_core *core = operation->file->core;
    int64_t result;

    if (core->state != AYA_CORE_OPEN) {
        return end_close(operation, 0, false);
    }
    if (before_close(operation) == AYA_PENDING) {
        return AYA_STEP_PENDING;
    }
    /* Here nothing else waits for the end of what uses the file, or its own description of it. */
    bool waits = !core->closefd
                 || (AYA_FREE_THREADED && core->stream.file.io != core->stream.file.handle);
    if (waits && core->stream.file.in_flight > 0) {
        return AYA_STEP_PENDING;
    }
    result = aya_stream_close(&core->stream);
    if (result == AYA_PENDING) {
        return AYA_STEP_PENDING;
    }
    if (operation->command.object != NULL) {
        PyErr_SetObject((PyObject *)Py_TYPE(operation->command.object), operation->command.object);
        return end_close(operation, 0, true);
    }
    return end_close(operation, operation->command.number[1] < 0 ? operation->command.number[1]
                                                                 : result, false);
}

/* The time is over: the waiter gets a TimeoutError, what is queued is ended, and what the system
 * holds is cancelled; the descriptor goes back when it has let go. */
static void
time_out(Operation *operation)
{
    aya_core *core = operation->file->core;
    const char *name = core->head == NULL || core->head == operation ? "an operation in flight"
                                                                     : core->head->name;

    if (!aya_operation_wanted(operation)) {
        return;
    }
    PyErr_Format(PyExc_TimeoutError, "close() waited %lld ms for %s of %R",
                 (long long)core->module->config.close_timeout_ms, name, core->path);
    aya_operation_end(operation, NULL);
    core->timed_out = true;
    aya_core_cancel_front(core);
    /* In another loop's context it ends when the system lets go. */
    if (core->stream.back_busy && aya_context_is_own(core->stream.back.context)) {
        aya_cancel(&core->stream.back);
    }
}

static void
close_timed_out(Operation *operation)
{
    AYA_GUARD(aya_file_guard(operation->file));
    time_out(operation);
    AYA_UNGUARD();
}

static int
start_timer(Operation *operation)
{
    int64_t most = operation->module->config.close_timeout_ms;

    return most == 0 ? 0 : aya_deadline_set(operation, most, close_timed_out);
}

/* What waits for another party would wait for ever. */
static void
end_waits(aya_core *core)
{
    if (core->stream.front_state == AYA_FRONT_BUSY && core->head != NULL
        && (core->stream.front.route == AYA_ROUTE_ALONE
            || (core->stream.file.kind == AYA_FILE_POLLABLE
                && core->head->command.cancel < AYA_COMMAND_GO_ON))) {
        aya_core_cancel_front(core);
    }
}

PyObject *
aya_file_close(AsyncFile *file, bool leaving_block)
{
    aya_core *core = file->core;

    if (core == NULL) {
        aya_file_check(file);
        return aya_operation_finished(file, "close", NULL);
    }
    file->warn = false;
    if (core->state == AYA_CORE_CLOSED || core->state == AYA_CORE_FAILED
        || (core->state == AYA_CORE_UNOPENED && core->path_bytes == NULL)) {
        core->state = AYA_CORE_CLOSED;
        return aya_operation_finished(file, "close", Py_NewRef(Py_None));
    }
    Operation *operation = aya_command_new(file, "close", step_close, AYA_COMMAND_GO_ON);
    if (operation == NULL) {
        return NULL;
    }
    operation->command.closes = true;
    operation->command.number[0] = leaving_block && core->auto_flush && core->writable;
    if (operation->state != AYA_UNBOUND) {
        core->closing = true;
        end_waits(core);
    }
    PyObject *begun = aya_command_begin(operation);
    if (begun != NULL && operation->state == AYA_PENDING_STATE && start_timer(operation) < 0) {
        Py_DECREF(begun);
        return NULL;
    }
    return begun;
}

/* -- open() ------------------------------------------------------------------------------------ */

static int
mode_error(const char *message)
{
    PyErr_SetString(PyExc_ValueError, message);
    return -1;
}

/* Reads the mode as the built-in open() does. */
static int
parse_mode(aya_core *core, PyObject *mode, bool *text)
{
    bool seen[128] = {false}, is_binary;
    const char *letters;
    Py_ssize_t size;
    int kinds;

    if (!PyUnicode_Check(mode)) {
        PyErr_Format(PyExc_TypeError, "open() argument 'mode' must be str, not %.200s",
                     Py_TYPE(mode)->tp_name);
        return -1;
    }
    letters = PyUnicode_AsUTF8AndSize(mode, &size);
    if (letters == NULL) {
        return -1;
    }
    for (Py_ssize_t i = 0; i < size; i++) {
        unsigned char letter = (unsigned char)letters[i];
        if (letter == 0 || letter >= 128 || strchr("rwax+tb", letter) == NULL || seen[letter]) {
            PyErr_Format(PyExc_ValueError, "invalid mode: %R", mode);
            return -1;
        }
        seen[letter] = true;
    }
    is_binary = seen['b'];
    if (seen['t'] && is_binary) {
        return mode_error("can't have text and binary mode at once");
    }
    kinds = seen['r'] + seen['w'] + seen['a'] + seen['x'];
    if (kinds != 1) {
        return mode_error(kinds > 1 ? "must have exactly one of create/read/write/append mode"
                                    : "Must have exactly one of create/read/write/append mode and"
                                      " at most one plus");
    }
    core->readable = seen['r'] || seen['+'];
    core->writable = !seen['r'] || seen['+'];
    core->appending = seen['a'];
    core->created = !seen['r'];
    core->exclusive = seen['x'];
    core->truncating = seen['w'];
    *text = !is_binary;
    return 0;
}

static int
parse_path(aya_core *core, PyObject *path, bool closefd)
{
    core->path = Py_NewRef(path);
    core->closefd = closefd;
    if (PyIndex_Check(path) && !PyUnicode_Check(path) && !PyBytes_Check(path)) {
        long descriptor = PyLong_AsLong(path);
        if (descriptor == -1 && PyErr_Occurred()) {
            return -1;
        }
        if (descriptor < 0) {
            return mode_error("negative file descriptor");
        }
        core->given = (int)descriptor;
        return 0;
    }
    if (!closefd) {
        return mode_error("Cannot use closefd=False with file name");
    }
    PyObject *plain = PyOS_FSPath(path);
    if (plain == NULL) {
        return -1;
    }
    Py_SETREF(core->path, plain);
    core->path_bytes = aya_system_path(plain);
    return core->path_bytes == NULL ? -1 : 0;
}

static int
parse_buffering(aya_core *core, PyObject *value, bool text, bool *line_buffering)
{
    core->buffering = -1;
    *line_buffering = false;
    if (value != NULL) {
        core->buffering = PyLong_AsLong(value);
        if (core->buffering == -1 && PyErr_Occurred()) {
            return -1;
        }
    }
    if (core->buffering < 0) {
        core->buffering = -1;
    }
    if (core->buffering == 0 && text) {
        return mode_error("can't have unbuffered text I/O");
    }
    if (core->buffering == 1) {
        core->buffering = -1;
        *line_buffering = text;
        if (!text
            && PyErr_WarnEx(PyExc_RuntimeWarning,
                            "line buffering (buffering=1) isn't supported in binary mode, "
                            "the default buffer size will be used", 1) < 0) {
            return -1;
        }
    }
    return 0;
}

static PyObject *
given(PyObject *value)
{
    return value == Py_None ? NULL : value;
}

enum { PATH, MODE, ENCODING, NEWLINE, ERRORS, AUTO_FLUSH, BUFFERING, CLOSEFD, OPENER, COUNT };

/* Fills a new file from the arguments of open(). */
static int
set_up(AsyncFile *file, PyObject **values)
{
    aya_core *core = file->core;
    bool text = false, line_buffering;
    int closefd = values[CLOSEFD] == NULL ? 1 : PyObject_IsTrue(values[CLOSEFD]);
    int auto_flush = values[AUTO_FLUSH] == NULL ? 0 : PyObject_IsTrue(values[AUTO_FLUSH]);

    file->mode = values[MODE] == NULL ? PyUnicode_FromString("rb") : Py_NewRef(values[MODE]);
    if (closefd < 0 || auto_flush < 0 || file->mode == NULL
        || parse_mode(core, file->mode, &text) < 0
        || parse_path(core, values[PATH], closefd) < 0
        || parse_buffering(core, values[BUFFERING], text, &line_buffering) < 0) {
        return -1;
    }
    core->auto_flush = auto_flush;
    if (values[OPENER] != NULL && given(values[OPENER]) != NULL) {
        core->opener = Py_NewRef(values[OPENER]);
    }
    for (int i = ENCODING; !text && i <= ERRORS; i++) {
        static const char *const names[] = {"an encoding", "a newline", "an errors"};
        if (values[i] != NULL && values[i] != Py_None) {
            PyErr_Format(PyExc_ValueError, "binary mode doesn't take %s argument",
                         names[i - ENCODING]);
            return -1;
        }
    }
    if (!text) {
        return 0;
    }
    return aya_text_init(file, values[ENCODING] == NULL ? NULL : given(values[ENCODING]),
                         values[ERRORS] == NULL ? NULL : given(values[ERRORS]),
                         values[NEWLINE] == NULL ? NULL : given(values[NEWLINE]), line_buffering,
                         false);
}

static int
make_core(AsyncFile *file, aya_module *module)
{
    aya_core *core = aya_core_new(module);

    if (core == NULL) {
        return -1;
    }
    aya_file_set_core(file, core);
    return 0;
}

/* Starts the open where a loop runs; elsewhere the first command does. Steals the file. */
static PyObject *
begin_open(AsyncFile *file)
{
    PyObject *loop = aya_running_loop(file->core->module);

    if (loop != NULL) {
        Py_DECREF(loop);
        if (aya_core_open(file->core, file) < 0) {
            Py_DECREF((PyObject *)file);
            return NULL;
        }
    }
    return (PyObject *)file;
}

PyObject *
aya_file_open(PyTypeObject *type, PyObject *const *args, Py_ssize_t nargs, PyObject *kwnames)
{
    static const char *const names[] = {"path",       "mode",      "encoding", "newline", "errors",
                                        "auto_flush", "buffering", "closefd",  "opener"};
    static const aya_signature signature = {"open", names, COUNT, 1};
    PyObject *values[COUNT] = {NULL};
    aya_module *module = aya_module_of_type(type);

    if (nargs > AUTO_FLUSH + 1) {
        PyErr_Format(PyExc_TypeError, "open() takes at most %d positional arguments (%zd given)",
                     AUTO_FLUSH + 1, nargs);
        return NULL;
    }
    if (aya_parse_arguments(&signature, args, nargs, kwnames, values) < 0) {
        return NULL;
    }
    AsyncFile *file = (AsyncFile *)type->tp_alloc(type, 0);
    if (file == NULL) {
        return NULL;
    }
    if (make_core(file, module) < 0 || set_up(file, values) < 0
        || PySys_Audit("open", "OOi", file->core->path, file->mode, system_flags(file->core)) < 0) {
        Py_DECREF((PyObject *)file);
        return NULL;
    }
    file->warn = true;
    return begin_open(file);
}

PyObject *
aya_file_wrap(aya_module *module, int descriptor, PyObject *mode, bool owns, PyObject *name)
{
    AsyncFile *file = (AsyncFile *)module->file_type->tp_alloc(module->file_type, 0);
    bool text = false;

    if (file == NULL) {
        return NULL;
    }
    file->mode = Py_NewRef(mode);
    if (make_core(file, module) < 0 || parse_mode(file->core, mode, &text) < 0) {
        Py_DECREF((PyObject *)file);
        return NULL;
    }
    if (text) {
        PyErr_SetString(PyExc_ValueError,
                        "wrap_file() only supports binary mode (e.g., 'rb', 'wb')");
        Py_DECREF((PyObject *)file);
        return NULL;
    }
    file->core->given = descriptor;
    file->core->closefd = owns;
    file->core->path = Py_NewRef(name);
    /* A wrapped descriptor stays where it is; what appends is its own matter. */
    file->core->appending = false;
    return begin_open(file);
}
