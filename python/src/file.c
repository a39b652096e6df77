/* AsyncFile: the methods and attributes that users see. Binary files go to binary.c, text files to
 * text.c, positioned and batched operations to generated wrappers.
 */
#include "binary.h"
#include "core.h"
#include "guard.h"
#include "module.h"
#include "system.h"
#include "text.h"

#include "../../generated/aya_python_ops.h"

#include <structmember.h>

#ifndef Py_T_OBJECT_EX
#define Py_T_PYSSIZET T_PYSSIZET
#define Py_READONLY READONLY
#endif

/* -- checks ------------------------------------------------------------------------------------ */

int
aya_file_check(AsyncFile *file)
{
    if (file->core == NULL) {
        PyErr_SetString(PyExc_ValueError, file->text != NULL
                                              ? "underlying buffer has been detached"
                                              : "raw stream has been detached");
        return -1;
    }
    return aya_core_check(file->core);
}

int
aya_file_check_readable(AsyncFile *file)
{
    if (aya_file_check(file) < 0) {
        return -1;
    }
    if (!file->core->readable) {
        PyErr_SetString(file->core->module->unsupported, "not readable");
        return -1;
    }
    return 0;
}

int
aya_file_check_writable(AsyncFile *file)
{
    if (aya_file_check(file) < 0) {
        return -1;
    }
    if (!file->core->writable) {
        PyErr_SetString(file->core->module->unsupported, "not writable");
        return -1;
    }
    return 0;
}

/* For what answers at once and needs the descriptor. */
static int
check_open(AsyncFile *file)
{
    if (file->core == NULL || file->core->closing) {
        if (file->core == NULL) {
            return aya_file_check(file);
        }
        PyErr_SetString(PyExc_ValueError, "I/O operation on closed file.");
        return -1;
    }
    if (file->core->state < AYA_CORE_OPEN) {
        PyErr_SetString(PyExc_ValueError, "the file is still being opened; await it first");
        return -1;
    }
    return aya_core_check(file->core);
}

static int
check_not_closed(AsyncFile *file)
{
    if (file->core != NULL && file->core->closing) {
        PyErr_SetString(PyExc_ValueError, "I/O operation on closed file.");
        return -1;
    }
    return file->core == NULL || file->core->state == AYA_CORE_CLOSED ? aya_file_check(file) : 0;
}

/* -- reading ----------------------------------------------------------------------------------- */

/* No size: what size_argument() gives with an exception set. */
#define NO_SIZE INT64_MIN

/* A size argument: None and negative numbers mean "all". */
static int64_t
size_argument(PyObject *value)
{
    if (value == NULL || value == Py_None) {
        return -1;
    }
    if (!PyIndex_Check(value)) {
        PyErr_Format(PyExc_TypeError, "argument should be integer or None, not '%.200s'",
                     Py_TYPE(value)->tp_name);
        return NO_SIZE;
    }
    Py_ssize_t size = PyNumber_AsSsize_t(value, PyExc_OverflowError);
    if (size == -1 && PyErr_Occurred()) {
        return NO_SIZE;
    }
    return size;
}

/* The one optional argument of a method: *value, NULL where it is not given. */
static int
one_argument(const char *function, const char *name, PyObject *const *args, Py_ssize_t nargs,
             PyObject *kwnames, int required, PyObject **value)
{
    const char *const names[] = {name};
    const aya_signature signature = {function, names, 1, required};

    *value = NULL;
    if (nargs == 1 && kwnames == NULL) {
        *value = args[0];
        return 0;
    }
    return aya_parse_arguments(&signature, args, nargs, kwnames, value);
}

typedef PyObject *(*sized_function)(AsyncFile *file, int64_t size);

static PyObject *
sized(PyObject *self, const char *name, const char *argument, PyObject *const *args,
      Py_ssize_t nargs, PyObject *kwnames, sized_function binary, sized_function text)
{
    AsyncFile *file = (AsyncFile *)self;
    PyObject *value;
    int64_t size;

    if (one_argument(name, argument, args, nargs, kwnames, 0, &value) < 0) {
        return NULL;
    }
    size = size_argument(value);
    if (size == NO_SIZE) {
        return aya_operation_finished(file, name, NULL);
    }
    return file->text != NULL && text != NULL ? text(file, size) : binary(file, size);
}

static PyObject *
binary_read(AsyncFile *file, int64_t size)
{
    if (size < -1 && file->core != NULL && file->core->buffering != 0) {
        PyErr_SetString(PyExc_ValueError, "read length must be non-negative or -1");
        return aya_operation_finished(file, "read", NULL);
    }
    return aya_binary_read(file, "read", size);
}

static PyObject *
file_read(PyObject *self, PyObject *const *args, Py_ssize_t nargs, PyObject *kwnames)
{
    return sized(self, "read", "size", args, nargs, kwnames, binary_read, aya_text_read);
}

static PyObject *
file_readline(PyObject *self, PyObject *const *args, Py_ssize_t nargs, PyObject *kwnames)
{
    return sized(self, "readline", "size", args, nargs, kwnames, aya_binary_readline,
                 aya_text_readline);
}

static PyObject *
file_readlines(PyObject *self, PyObject *const *args, Py_ssize_t nargs, PyObject *kwnames)
{
    return sized(self, "readlines", "hint", args, nargs, kwnames, aya_binary_readlines,
                 aya_text_readlines);
}

static PyObject *
file_readall(PyObject *self, PyObject *unused)
{
    AsyncFile *file = (AsyncFile *)self;

    (void)unused;
    return file->text != NULL ? aya_text_read(file, -1) : aya_binary_read(file, "readall", -1);
}

/* Bytes of a text file are had from f.buffer. */
static PyObject *
refuse_text(AsyncFile *file, const char *name)
{
    PyErr_Format(file->core == NULL ? PyExc_ValueError : file->core->module->unsupported,
                 "%s needs a binary file (or f.buffer)", name);
    return aya_operation_finished(file, name, NULL);
}

static PyObject *
readinto(PyObject *self, const char *name, bool once, PyObject *buffer)
{
    AsyncFile *file = (AsyncFile *)self;

    return file->text != NULL ? refuse_text(file, name) : aya_binary_readinto(file, buffer, once);
}

static PyObject *
file_readinto(PyObject *self, PyObject *const *args, Py_ssize_t nargs, PyObject *kwnames)
{
    PyObject *buffer;

    if (one_argument("readinto", "buf", args, nargs, kwnames, 1, &buffer) < 0) {
        return NULL;
    }
    return readinto(self, "readinto", false, buffer);
}

static PyObject *
file_readinto1(PyObject *self, PyObject *buffer)
{
    return readinto(self, "readinto1", true, buffer);
}

static PyObject *
file_read1(PyObject *self, PyObject *const *args, Py_ssize_t nargs, PyObject *kwnames)
{
    if (((AsyncFile *)self)->text != NULL) {
        return refuse_text((AsyncFile *)self, "read1");
    }
    return sized(self, "read1", "size", args, nargs, kwnames, aya_binary_read1, NULL);
}

static PyObject *
file_peek(PyObject *self, PyObject *const *args, Py_ssize_t nargs)
{
    (void)args;
    if (nargs > 1) {
        PyErr_SetString(PyExc_TypeError, "peek() takes at most 1 argument");
        return NULL;
    }
    if (((AsyncFile *)self)->text != NULL) {
        return refuse_text((AsyncFile *)self, "peek");
    }
    return aya_binary_peek((AsyncFile *)self);
}

static PyObject *
file_chunk(PyObject *self, PyObject *const *args, Py_ssize_t nargs, PyObject *kwnames)
{
    static const char *const names[] = {"chunk_size", "buf"};
    static const aya_signature signature = {"chunk", names, 2, 1};
    PyObject *values[2] = {NULL, NULL}, *module, *chunks;

    if (nargs > 1) {
        PyErr_SetString(PyExc_TypeError, "chunk() takes 1 positional argument: chunk_size");
        return NULL;
    }
    if (aya_parse_arguments(&signature, args, nargs, kwnames, values) < 0) {
        return NULL;
    }
    module = PyImport_ImportModule("ayafileio._chunk");
    if (module == NULL) {
        return NULL;
    }
    chunks = PyObject_CallMethod(module, "chunks", "OOO", self, values[0],
                                 values[1] == NULL ? Py_None : values[1]);
    Py_DECREF(module);
    return chunks;
}

/* -- writing ----------------------------------------------------------------------------------- */

static PyObject *
file_write(PyObject *self, PyObject *const *args, Py_ssize_t nargs, PyObject *kwnames)
{
    AsyncFile *file = (AsyncFile *)self;
    PyObject *data;

    if (one_argument("write", "data", args, nargs, kwnames, 1, &data) < 0) {
        return NULL;
    }
    return file->text != NULL ? aya_text_write(file, data) : aya_binary_write(file, data);
}

static PyObject *
file_writelines(PyObject *self, PyObject *const *args, Py_ssize_t nargs, PyObject *kwnames)
{
    AsyncFile *file = (AsyncFile *)self;
    PyObject *lines;

    if (one_argument("writelines", "lines", args, nargs, kwnames, 1, &lines) < 0) {
        return NULL;
    }
    return file->text != NULL ? aya_text_writelines(file, lines)
                              : aya_binary_writelines(file, lines);
}

static PyObject *
file_flush(PyObject *self, PyObject *unused)
{
    AsyncFile *file = (AsyncFile *)self;

    (void)unused;
    return file->text != NULL ? aya_text_flush(file) : aya_binary_flush(file);
}

static PyObject *
file_fdatasync(PyObject *self, PyObject *unused)
{
    Operation *operation = aya_operation_for_file(self, AYA_OP_FSYNC);

    (void)unused;
    if (operation == NULL) {
        return NULL;
    }
    aya_op_fsync(aya_operation_op(operation), aya_operation_file(operation), true);
    return aya_operation_begin(operation);
}

/* -- position ---------------------------------------------------------------------------------- */

static PyObject *
file_seek(PyObject *self, PyObject *const *args, Py_ssize_t nargs, PyObject *kwnames)
{
    static const char *const names[] = {"offset", "whence"};
    static const aya_signature signature = {"seek", names, 2, 1};
    AsyncFile *file = (AsyncFile *)self;
    PyObject *values[2] = {NULL, NULL};
    int whence = 0;

    if (aya_parse_arguments(&signature, args, nargs, kwnames, values) < 0) {
        return NULL;
    }
    if (values[1] != NULL) {
        Py_ssize_t number = PyNumber_AsSsize_t(values[1], PyExc_OverflowError);
        if (!PyErr_Occurred() && (number < INT_MIN || number > INT_MAX)) {
            PyErr_SetString(PyExc_OverflowError, "Python int too large to convert to C int");
        }
        if (PyErr_Occurred()) {
            return aya_operation_finished(file, "seek", NULL);
        }
        whence = (int)number;
    }
    return file->text != NULL ? aya_text_seek(file, values[0], whence)
                              : aya_binary_seek(file, values[0], whence);
}

static PyObject *
file_tell(PyObject *self, PyObject *unused)
{
    AsyncFile *file = (AsyncFile *)self;

    (void)unused;
    return file->text != NULL ? aya_text_tell(file) : aya_binary_tell(file);
}

static PyObject *
file_truncate(PyObject *self, PyObject *const *args, Py_ssize_t nargs, PyObject *kwnames)
{
    AsyncFile *file = (AsyncFile *)self;
    PyObject *size;

    if (one_argument("truncate", "size", args, nargs, kwnames, 0, &size) < 0) {
        return NULL;
    }
    return file->text != NULL ? aya_text_truncate(file, size) : aya_binary_truncate(file, size);
}

/* -- open and close ---------------------------------------------------------------------------- */

static PyObject *
file_close(PyObject *self, PyObject *unused)
{
    (void)unused;
    return aya_file_close((AsyncFile *)self, false);
}

static PyObject *
file_enter(PyObject *self, PyObject *unused)
{
    (void)unused;
    return aya_file_opened((AsyncFile *)self);
}

static PyObject *
file_exit(PyObject *self, PyObject *const *args, Py_ssize_t nargs)
{
    (void)args;
    (void)nargs;
    return aya_file_close((AsyncFile *)self, true);
}

static PyObject *
file_await(PyObject *self)
{
    return aya_file_opened((AsyncFile *)self);
}

static PyObject *
file_next(PyObject *self)
{
    AsyncFile *file = (AsyncFile *)self;

    return file->text != NULL ? aya_text_next(file) : aya_binary_next(file);
}

static PyObject *
file_open(PyObject *type, PyObject *const *args, Py_ssize_t nargs, PyObject *kwnames)
{
    return aya_file_open((PyTypeObject *)type, args, nargs, kwnames);
}

/* AsyncFile(path, …): the same as open(). */
static PyObject *
file_new(PyTypeObject *type, PyObject *args, PyObject *kwargs)
{
    Py_ssize_t nargs = PyTuple_GET_SIZE(args), position = 0, i = 0;
    Py_ssize_t named = kwargs == NULL ? 0 : PyDict_GET_SIZE(kwargs);
    PyObject **values = PyMem_New(PyObject *, (size_t)(nargs + named + 1));
    PyObject *names = PyTuple_New(named), *key, *value, *file = NULL;

    if (values != NULL && names != NULL) {
        for (; i < nargs; i++) {
            values[i] = PyTuple_GET_ITEM(args, i);
        }
        while (named > 0 && PyDict_Next(kwargs, &position, &key, &value)) {
            PyTuple_SET_ITEM(names, i - nargs, Py_NewRef(key));
            values[i++] = value;
        }
        file = aya_file_open(type, values, nargs, named > 0 ? names : NULL);
    } else {
        PyErr_NoMemory();
    }
    PyMem_Free(values);
    Py_XDECREF(names);
    return file;
}

/* -- views ------------------------------------------------------------------------------------- */

/* The mode of the binary file beneath a text file, as the built-in shows it. */
static PyObject *
binary_mode(const aya_core *core)
{
    bool both = core->readable && core->writable;

    return PyUnicode_FromFormat("%sb%s",
                                core->exclusive   ? "x"
                                : core->appending ? "a"
                                : core->readable  ? "r"
                                                  : "w",
                                both ? "+" : "");
}

static AsyncFile *
make_view(AsyncFile *file, bool raw)
{
    AsyncFile *view = (AsyncFile *)file->core->module->file_type->tp_alloc(
        file->core->module->file_type, 0);

    if (view != NULL) {
        aya_file_set_core(view, file->core);
        view->core->references++;
        view->mode = file->text == NULL ? Py_NewRef(file->mode) : binary_mode(file->core);
        view->raw = raw;
    }
    if (view != NULL && view->mode == NULL) {
        Py_CLEAR(view);
    }
    return view;
}

static PyObject *
get_buffer(PyObject *self, void *closure)
{
    AsyncFile *file = (AsyncFile *)self;

    (void)closure;
    if (file->text == NULL) {
        PyErr_SetString(PyExc_AttributeError, "a binary file has no attribute 'buffer'");
        return NULL;
    }
    if (file->core == NULL) {
        aya_file_check(file);
        return NULL;
    }
    if (file->buffer == NULL) {
        file->buffer = (PyObject *)make_view(file, false);
    }
    return Py_XNewRef(file->buffer);
}

static PyObject *
get_raw(PyObject *self, void *closure)
{
    AsyncFile *file = (AsyncFile *)self;

    (void)closure;
    if (file->text != NULL || file->raw) {
        PyErr_SetString(PyExc_AttributeError, "only a buffered binary file has 'raw'");
        return NULL;
    }
    if (file->core == NULL) {
        aya_file_check(file);
        return NULL;
    }
    return (PyObject *)make_view(file, true);
}

/* command.object: the view that will be the only one. */
static aya_step
step_detach(Operation *operation)
{
    AsyncFile *file = operation->file;
    int64_t result = 0;

    if (aya_file_check(file) < 0) {
        return AYA_STEP_FAILED;
    }
    if (file->text != NULL && operation->command.phase == 0) {
        result = aya_text_settle(file);
        operation->command.phase = result == 0;
    }
    if (result == 0) {
        result = aya_stream_flush(&file->core->stream);
    }
    if (result == AYA_PENDING) {
        return AYA_STEP_PENDING;
    }
    if (result < 0) {
        return result == -EILSEQ ? AYA_STEP_FAILED : aya_step_error(operation, result);
    }
    AsyncFile *view = make_view(file, file->text == NULL);
    if (view == NULL) {
        return AYA_STEP_FAILED;
    }
    view->warn = file->warn;
    file->warn = false;
    Py_CLEAR(file->buffer);
    /* The queue still uses the core; the view has a reference of its own. */
    file->core->references--;
    file->core = NULL;
    operation->result = (PyObject *)view;
    return AYA_STEP_DONE;
}

static PyObject *
file_detach(PyObject *self, PyObject *unused)
{
    Operation *operation =
        aya_command_new((AsyncFile *)self, "detach", step_detach, AYA_COMMAND_GO_ON);

    (void)unused;
    return operation == NULL ? NULL : aya_command_begin(operation);
}

/* -- attributes that answer at once ------------------------------------------------------------ */

static PyObject *
file_readable(PyObject *self, PyObject *unused)
{
    AsyncFile *file = (AsyncFile *)self;

    (void)unused;
    return check_not_closed(file) < 0 ? NULL : PyBool_FromLong(file->core->readable);
}

static PyObject *
file_writable(PyObject *self, PyObject *unused)
{
    AsyncFile *file = (AsyncFile *)self;

    (void)unused;
    return check_not_closed(file) < 0 ? NULL : PyBool_FromLong(file->core->writable);
}

static PyObject *
file_seekable(PyObject *self, PyObject *unused)
{
    AsyncFile *file = (AsyncFile *)self;

    (void)unused;
    return check_open(file) < 0 ? NULL : PyBool_FromLong(file->core->seekable);
}

static PyObject *
descriptor_of(aya_core *core)
{
    int descriptor = aya_system_descriptor(core);

    return descriptor < 0 ? NULL : PyLong_FromLong(descriptor);
}

static PyObject *
file_fileno(PyObject *self, PyObject *unused)
{
    AsyncFile *file = (AsyncFile *)self;

    (void)unused;
    return check_open(file) < 0 ? NULL : descriptor_of(file->core);
}

static PyObject *
file_isatty(PyObject *self, PyObject *unused)
{
    AsyncFile *file = (AsyncFile *)self;

    (void)unused;
    if (check_open(file) < 0) {
        return NULL;
    }
    return PyBool_FromLong(aya_system_is_terminal(&file->core->stream.file));
}

static PyObject *
get_closed(PyObject *self, void *closure)
{
    AsyncFile *file = (AsyncFile *)self;

    (void)closure;
    if (file->core == NULL) {
        aya_file_check(file);
        return NULL;
    }
    return PyBool_FromLong(file->core->closing || file->core->state == AYA_CORE_CLOSED);
}

static PyObject *
get_name(PyObject *self, void *closure)
{
    AsyncFile *file = (AsyncFile *)self;

    (void)closure;
    if (file->core == NULL) {
        aya_file_check(file);
        return NULL;
    }
    return Py_NewRef(file->core->path);
}

static PyObject *
get_mode(PyObject *self, void *closure)
{
    (void)closure;
    return Py_NewRef(((AsyncFile *)self)->mode);
}

/* An attribute that only text files have; `closure` is the function that knows it. */
static PyObject *
get_text(PyObject *self, void *closure)
{
    AsyncFile *file = (AsyncFile *)self;
    PyObject *(*function)(AsyncFile *) = *(PyObject * (**)(AsyncFile *)) closure;

    if (file->text == NULL) {
        PyErr_SetString(PyExc_AttributeError, "a binary file has no such attribute");
        return NULL;
    }
    return function(file);
}

static PyObject *(*const text_attributes[])(AsyncFile *) = {
    aya_text_encoding, aya_text_errors, aya_text_newlines, aya_text_line_buffering,
    aya_text_write_through};

static PyObject *
file_reconfigure(PyObject *self, PyObject *const *args, Py_ssize_t nargs, PyObject *kwnames)
{
    AsyncFile *file = (AsyncFile *)self;

    return file->text == NULL ? refuse_text(file, "reconfigure")
                              : aya_text_reconfigure(file, args, nargs, kwnames);
}

static PyObject *
file_repr(PyObject *self)
{
    static const char *const states[] = {"not open yet", "opening", "open", "failed to open",
                                         "closed"};
    AsyncFile *file = (AsyncFile *)self;

    if (file->core == NULL) {
        return PyUnicode_FromFormat("<%s (detached)>", Py_TYPE(self)->tp_name);
    }
    return PyUnicode_FromFormat("<%s name=%R mode=%R %s>", Py_TYPE(self)->tp_name,
                                file->core->path == NULL ? Py_None : file->core->path,
                                file->mode == NULL ? Py_None : file->mode,
                                file->core->closing ? "closed" : states[file->core->state]);
}

/* -- guarded ----------------------------------------------------------------------------------- */

#define GUARD_OF(self) aya_file_guard((AsyncFile *)(self))

GUARDED_FAST(file_read)
GUARDED_FAST(file_readline)
GUARDED_FAST(file_readlines)
GUARDED_FAST(file_readinto)
GUARDED_FAST(file_read1)
GUARDED_FAST(file_write)
GUARDED_FAST(file_writelines)
GUARDED_FAST(file_seek)
GUARDED_FAST(file_truncate)
GUARDED_FAST(file_reconfigure)
GUARDED_POSITIONAL(file_peek)
GUARDED_POSITIONAL(file_exit)
GUARDED_ONE(file_readall)
GUARDED_ONE(file_flush)
GUARDED_ONE(file_tell)
GUARDED_ONE(file_close)
GUARDED_ONE(file_detach)
GUARDED_ONE(file_readable)
GUARDED_ONE(file_writable)
GUARDED_ONE(file_seekable)
GUARDED_ONE(file_fileno)
GUARDED_ONE(file_isatty)
GUARDED_ONE(file_enter)
GUARDED_ONE(file_readinto1)
GUARDED_SLOT(file_await)
GUARDED_SLOT(file_next)
GUARDED_SLOT(file_repr)
GUARDED_GET(get_closed)
GUARDED_GET(get_name)
GUARDED_GET(get_buffer)
GUARDED_GET(get_raw)
GUARDED_GET(get_text)

/* -- life -------------------------------------------------------------------------------------- */

static int
file_traverse(PyObject *self, visitproc visit, void *arg)
{
    AsyncFile *file = (AsyncFile *)self;

    Py_VISIT(Py_TYPE(self));
    Py_VISIT(file->buffer);
    return file->text == NULL ? 0 : aya_text_traverse(file->text, visit, arg);
}

static void
file_finalize(PyObject *self)
{
    AsyncFile *file = (AsyncFile *)self;
    PyObject *type, *value, *traceback;

    if (!file->warn || file->core == NULL || file->core->state == AYA_CORE_FAILED
        || file->core->state == AYA_CORE_CLOSED || file->core->closing) {
        return;
    }
    file->warn = false;
    PyErr_Fetch(&type, &value, &traceback);
    if (PyErr_ResourceWarning(self, 1, "unclosed file %R", self) < 0
        && PyErr_ExceptionMatches(PyExc_Warning)) {
        PyErr_WriteUnraisable(self);
    }
    PyErr_Restore(type, value, traceback);
    /* Not left to the deallocation: whoever caught the warning keeps the object as its source. */
    aya_core *core = file->core;
    file->core = NULL;
    aya_core_drop(core);
}

static void
file_dealloc(PyObject *self)
{
    AsyncFile *file = (AsyncFile *)self;
    PyTypeObject *type = Py_TYPE(self);

    if (PyObject_CallFinalizerFromDealloc(self) < 0) {
        return;
    }
    PyObject_GC_UnTrack(self);
    if (file->weak_references != NULL) {
        PyObject_ClearWeakRefs(self);
    }
    Py_CLEAR(file->buffer);
    Py_CLEAR(file->mode);
    if (file->text != NULL) {
        aya_text_free(file->text);
        file->text = NULL;
    }
    if (file->core != NULL) {
        aya_core *core = file->core;
        file->core = NULL;
        aya_core_drop(core);
    }
#if AYA_FREE_THREADED
    Py_CLEAR(file->guard);
#endif
    type->tp_free(self);
    Py_DECREF(type);
}

#define FAST(function) (PyCFunction)(void (*)(void))(function), METH_FASTCALL | METH_KEYWORDS

static PyMethodDef file_methods[] = {
    {"open", (PyCFunction)(void (*)(void))file_open, METH_FASTCALL | METH_KEYWORDS | METH_CLASS,
     PyDoc_STR("Open a file; the same as ayafileio.open().")},
    {"read", FAST(guarded_file_read),
     PyDoc_STR("read($self, /, size=-1)\n--\n\n"
               "Read up to size bytes (text: characters); -1 or None reads to the end of\n"
               "the file. Fewer only at the end of the file, where the result is empty.\n"
               "After a cancel what was read goes to the next read.")},
    {"readline", FAST(guarded_file_readline),
     PyDoc_STR("readline($self, /, size=-1)\n--\n\n"
               "Read one line, its end included; at most size bytes (text: characters).")},
    {"readlines", FAST(guarded_file_readlines),
     PyDoc_STR("readlines($self, /, hint=-1)\n--\n\n"
               "Read lines as a list, to the end of the file or until they are longer than\n"
               "hint.")},
    {"readall", guarded_file_readall, METH_NOARGS,
     PyDoc_STR("readall($self, /)\n--\n\nRead to the end of the file.")},
    {"readinto", FAST(guarded_file_readinto),
     PyDoc_STR("readinto($self, /, buf)\n--\n\n"
               "Fill a writable buffer and return the number of bytes; fewer than it holds\n"
               "only at the end of the file. After a cancel the buffer is the caller's\n"
               "when CancelledError arrives.")},
    {"readinto1", guarded_file_readinto1, METH_O,
     PyDoc_STR("readinto1($self, buf, /)\n--\n\nLike readinto(), by at most one transfer.")},
    {"read1", FAST(guarded_file_read1),
     PyDoc_STR("read1($self, /, size=-1)\n--\n\n"
               "Read up to size bytes by at most one transfer; -1: as many as the buffer\n"
               "holds.")},
    {"peek", (PyCFunction)(void (*)(void))guarded_file_peek, METH_FASTCALL,
     PyDoc_STR("peek($self, size=0, /)\n--\n\n"
               "Return buffered bytes without moving on, by at most one transfer.")},
    {"chunk", FAST(file_chunk),
     PyDoc_STR("chunk($self, /, chunk_size, *, buf=None)\n--\n\n"
               "Iterate (async for) over the rest of the file by pieces of chunk_size\n"
               "bytes. Each is a memoryview of one buffer, which the next step overwrites:\n"
               "buf, or a new one.")},
    {"write", FAST(guarded_file_write),
     PyDoc_STR("write($self, /, data)\n--\n\n"
               "Write all of data and return its length in bytes (text: characters). It\n"
               "may stay in the buffer until flush() or close(). A write that was made is\n"
               "done: a cancel ends only the wait for it.")},
    {"writelines", FAST(guarded_file_writelines),
     PyDoc_STR("writelines($self, /, lines)\n--\n\nWrite each item of an iterable.")},
    {"flush", guarded_file_flush, METH_NOARGS,
     PyDoc_STR("flush($self, /)\n--\n\n"
               "Hand what is buffered to the system (not yet to the device: see fsync).")},
    {"fdatasync", file_fdatasync, METH_NOARGS,
     PyDoc_STR("fdatasync($self, /)\n--\n\n"
               "Make what was written durable, without what is not needed to read it back.")},
    {"seek", FAST(guarded_file_seek),
     PyDoc_STR("seek($self, /, offset, whence=0)\n--\n\n"
               "Move to offset from the start (0), the position (1) or the end (2) of the\n"
               "file, or to the next data or hole there (os.SEEK_DATA, os.SEEK_HOLE),\n"
               "and return the new position. Text: offset is 0 or what tell() gave.")},
    {"tell", guarded_file_tell, METH_NOARGS,
     PyDoc_STR("tell($self, /)\n--\n\nReturn the position; in text files an opaque number.")},
    {"truncate", FAST(guarded_file_truncate),
     PyDoc_STR("truncate($self, /, size=None)\n--\n\n"
               "Make the file size bytes long (None: end it at the position) and return\n"
               "size. The position stays.")},
    {"close", guarded_file_close, METH_NOARGS,
     PyDoc_STR("close($self, /)\n--\n\n"
               "Wait for what is in flight, write out what is buffered, and give the\n"
               "descriptor back, in any case. Raises what was not reported yet;\n"
               "TimeoutError after close_timeout_ms.")},
    {"detach", guarded_file_detach, METH_NOARGS,
     PyDoc_STR("detach($self, /)\n--\n\n"
               "Flush, and return the binary file beneath a text file (the raw one beneath\n"
               "a binary file); this object can no longer be used.")},
    {"reconfigure", FAST(guarded_file_reconfigure),
     PyDoc_STR("reconfigure($self, /, *, encoding=None, errors=None, newline=None,\n"
               "            line_buffering=None, write_through=None)\n--\n\n"
               "Change how a text file is read and written, as\n"
               "io.TextIOWrapper.reconfigure().")},
    {"readable", guarded_file_readable, METH_NOARGS,
     PyDoc_STR("Whether the file was opened to read.")},
    {"writable", guarded_file_writable, METH_NOARGS,
     PyDoc_STR("Whether the file was opened to write.")},
    {"seekable", guarded_file_seekable, METH_NOARGS, PyDoc_STR("Whether the file has a position.")},
    {"fileno", guarded_file_fileno, METH_NOARGS, PyDoc_STR("The descriptor.")},
    {"isatty", guarded_file_isatty, METH_NOARGS, PyDoc_STR("Whether the file is a terminal.")},
    {"__aenter__", guarded_file_enter, METH_NOARGS, NULL},
    {"__aexit__", (PyCFunction)(void (*)(void))guarded_file_exit, METH_FASTCALL, NULL},
    {"__class_getitem__", Py_GenericAlias, METH_O | METH_CLASS, NULL},
    AYA_PYTHON_FILE_METHODS
    {NULL, NULL, 0, NULL},
};

static PyGetSetDef file_attributes[] = {
    {"closed", guarded_get_closed, NULL, PyDoc_STR("Whether close() was called."), NULL},
    {"name", guarded_get_name, NULL, PyDoc_STR("The path or descriptor as given."), NULL},
    {"mode", get_mode, NULL, PyDoc_STR("The mode as given."), NULL},
    {"buffer", guarded_get_buffer, NULL, PyDoc_STR("The binary file beneath a text file."), NULL},
    {"raw", guarded_get_raw, NULL, PyDoc_STR("The unbuffered view of a binary file."), NULL},
    {"encoding", guarded_get_text, NULL, NULL, (void *)&text_attributes[0]},
    {"errors", guarded_get_text, NULL, NULL, (void *)&text_attributes[1]},
    {"newlines", guarded_get_text, NULL, NULL, (void *)&text_attributes[2]},
    {"line_buffering", guarded_get_text, NULL, NULL, (void *)&text_attributes[3]},
    {"write_through", guarded_get_text, NULL, NULL, (void *)&text_attributes[4]},
    {NULL, NULL, NULL, NULL, NULL},
};

static PyMemberDef file_members[] = {
    {"__weaklistoffset__", Py_T_PYSSIZET, offsetof(AsyncFile, weak_references), Py_READONLY, NULL},
    {NULL, 0, 0, 0, NULL},
};

PyDoc_STRVAR(file_doc,
             "An open file whose methods are awaited: open() for asyncio.\n\n"
             "Made by ayafileio.open(); use it by `async with`, by `await`, or directly.");

static PyType_Slot file_slots[] = {
    {Py_tp_doc, (void *)file_doc},
    {Py_tp_new, file_new},
    {Py_tp_dealloc, file_dealloc},
    {Py_tp_finalize, file_finalize},
    {Py_tp_traverse, file_traverse},
    {Py_tp_repr, guarded_file_repr},
    {Py_am_await, guarded_file_await},
    {Py_am_aiter, PyObject_SelfIter},
    {Py_am_anext, guarded_file_next},
    {Py_tp_methods, file_methods},
    {Py_tp_getset, file_attributes},
    {Py_tp_members, file_members},
    {0, NULL},
};

static PyType_Spec file_spec = {
    .name = "ayafileio.AsyncFile",
    .basicsize = sizeof(AsyncFile),
    .flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_HAVE_GC | Py_TPFLAGS_BASETYPE,
    .slots = file_slots,
};

int
aya_file_add_type(PyObject *module, aya_module *state)
{
    state->file_type = (PyTypeObject *)PyType_FromModuleAndSpec(module, &file_spec, NULL);
    if (state->file_type == NULL) {
        return -1;
    }
    return PyModule_AddObjectRef(module, "AsyncFile", (PyObject *)state->file_type);
}
