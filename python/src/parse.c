/* From Python arguments to the members of an operation: what generated wrappers call.
 *
 * Runs in the caller's thread with the GIL, before the operation begins. What the operation needs
 * of an argument until its end (the export of a buffer, an encoded path) is held by the Operation.
 * Nothing here waits; an argument's own __index__, __fspath__ or __iter__ may run any Python code.
 */
#include "core.h"
#include "guard.h"
#include "module.h"
#include "system.h"

static void
refuse_positional(const aya_signature *signature, Py_ssize_t given)
{
    const char *verb = given == 1 ? "was" : "were";

    if (signature->required == signature->count) {
        PyErr_Format(PyExc_TypeError, "%s() takes %d positional argument%s but %zd %s given",
                     signature->function, signature->count, signature->count == 1 ? "" : "s", given,
                     verb);
    } else {
        PyErr_Format(PyExc_TypeError,
                     "%s() takes from %d to %d positional arguments but %zd %s given",
                     signature->function, signature->required, signature->count, given, verb);
    }
}

/* "'a', 'b', and 'c'", as the interpreter lists them. */
static PyObject *
list_missing(const aya_signature *signature, PyObject **values, int missing)
{
    PyObject *text = PyUnicode_FromString("");
    int seen = 0;

    for (int i = 0; text != NULL && i < signature->required; i++) {
        if (values[i] != NULL) {
            continue;
        }
        const char *before = seen == 0              ? ""
                             : seen + 1 < missing   ? ", "
                             : missing == 2         ? " and "
                                                    : ", and ";
        PyUnicode_AppendAndDel(&text, PyUnicode_FromFormat("%s'%s'", before, signature->names[i]));
        seen++;
    }
    return text;
}

static int
check_required(const aya_signature *signature, PyObject **values)
{
    int missing = 0;

    for (int i = 0; i < signature->required; i++) {
        missing += values[i] == NULL;
    }
    if (missing == 0) {
        return 0;
    }
    PyObject *names = list_missing(signature, values, missing);
    if (names != NULL) {
        PyErr_Format(PyExc_TypeError, "%s() missing %d required positional argument%s: %U",
                     signature->function, missing, missing == 1 ? "" : "s", names);
        Py_DECREF(names);
    }
    return -1;
}

static int
find_name(const aya_signature *signature, PyObject *keyword)
{
    for (int i = 0; i < signature->count; i++) {
        if (PyUnicode_CompareWithASCIIString(keyword, signature->names[i]) == 0) {
            return i;
        }
    }
    return -1;
}

int
aya_parse_arguments(const aya_signature *signature, PyObject *const *args, Py_ssize_t nargs,
                    PyObject *kwnames, PyObject **values)
{
    if (nargs > signature->count) {
        refuse_positional(signature, nargs);
        return -1;
    }
    for (Py_ssize_t i = 0; i < nargs; i++) {
        values[i] = args[i];
    }
    Py_ssize_t keywords = kwnames == NULL ? 0 : PyTuple_GET_SIZE(kwnames);
    for (Py_ssize_t i = 0; i < keywords; i++) {
        PyObject *keyword = PyTuple_GET_ITEM(kwnames, i);
        int at = find_name(signature, keyword);
        if (at < 0) {
            PyErr_Format(PyExc_TypeError, "%s() got an unexpected keyword argument '%U'",
                         signature->function, keyword);
            return -1;
        }
        if (values[at] != NULL) {
            PyErr_Format(PyExc_TypeError, "%s() got multiple values for argument '%s'",
                         signature->function, signature->names[at]);
            return -1;
        }
        values[at] = args[nargs + i];
    }
    return nargs >= signature->required ? 0 : check_required(signature, values);
}

/* *overflow as PyLong_AsLongLongAndOverflow() tells it; then *out is not set. */
static int
take_integer(PyObject *value, const char *name, int64_t *out, int *overflow)
{
    if (PyLong_CheckExact(value)) {
        *out = PyLong_AsLongLongAndOverflow(value, overflow);
        return 0;
    }
    if (!PyIndex_Check(value)) {
        PyErr_Format(PyExc_TypeError, "%s must be an integer, not '%.200s'", name,
                     Py_TYPE(value)->tp_name);
        return -1;
    }
    PyObject *number = PyNumber_Index(value);
    if (number == NULL) {
        return -1;
    }
    *out = PyLong_AsLongLongAndOverflow(number, overflow);
    Py_DECREF(number);
    return *out == -1 && *overflow == 0 && PyErr_Occurred() ? -1 : 0;
}

static int
refuse_overflow(const char *name)
{
    PyErr_Format(PyExc_OverflowError, "%s does not fit into 64 bits", name);
    return -1;
}

int
aya_take_offset(Operation *Py_UNUSED(operation), PyObject *value, const char *name, int64_t *out)
{
    int overflow;

    if (take_integer(value, name, out, &overflow) < 0) {
        return -1;
    }
    if (overflow > 0) {
        return refuse_overflow(name);
    }
    if (overflow < 0 || *out < 0) {
        PyErr_Format(PyExc_ValueError, "%s must not be negative, not %S", name, value);
        return -1;
    }
    return 0;
}

int
aya_take_size(Operation *Py_UNUSED(operation), PyObject *value, const char *name, int64_t *out)
{
    int overflow;

    if (value == Py_None) {
        *out = -1;
        return 0;
    }
    if (take_integer(value, name, out, &overflow) < 0) {
        return -1;
    }
    return overflow != 0 ? refuse_overflow(name) : 0;
}

int
aya_take_flag(Operation *Py_UNUSED(operation), PyObject *value, const char *Py_UNUSED(name),
              bool *out)
{
    int truth = PyObject_IsTrue(value);

    if (truth < 0) {
        return -1;
    }
    *out = truth != 0;
    return 0;
}

int
aya_take_mode(Operation *Py_UNUSED(operation), PyObject *value, const char *name, uint32_t *out)
{
    int64_t mode;
    int overflow;

    if (take_integer(value, name, &mode, &overflow) < 0) {
        return -1;
    }
    if (overflow != 0 || mode < 0 || mode > 07777) {
        PyErr_Format(PyExc_ValueError, "%s must be from 0 to 0o7777, not %S", name, value);
        return -1;
    }
    *out = (uint32_t)mode;
    return 0;
}

static int
refuse_word(PyObject *value, const char *name, const char *const *words, int count)
{
    PyObject *text = PyUnicode_FromString("");

    for (int i = 0; text != NULL && i < count; i++) {
        PyUnicode_AppendAndDel(&text, PyUnicode_FromFormat("%s'%s'", i == 0 ? "" : ", ", words[i]));
    }
    if (text != NULL) {
        PyErr_Format(PyExc_ValueError, "%s must be one of %U, not %R", name, text, value);
        Py_DECREF(text);
    }
    return -1;
}

int
aya_take_enum(Operation *Py_UNUSED(operation), PyObject *value, const char *name,
              const char *const *words, int count, int *out)
{
    int64_t index;
    int overflow;

    if (PyUnicode_Check(value)) {
        for (int i = 0; i < count; i++) {
            if (PyUnicode_CompareWithASCIIString(value, words[i]) == 0) {
                *out = i;
                return 0;
            }
        }
        return refuse_word(value, name, words, count);
    }
    if (!PyIndex_Check(value)) {
        PyErr_Format(PyExc_TypeError, "%s must be a str or an integer, not '%.200s'", name,
                     Py_TYPE(value)->tp_name);
        return -1;
    }
    if (take_integer(value, name, &index, &overflow) < 0) {
        return -1;
    }
    if (overflow != 0 || index < 0 || index >= count) {
        return refuse_word(value, name, words, count);
    }
    *out = (int)index;
    return 0;
}

/* A contiguous view of `value`, or NULL with the error that the built-in files give. `label` is
 * empty, or says which part of an argument it is. */
static PyObject *
view_of(PyObject *value, const char *label)
{
    if (!PyObject_CheckBuffer(value)) {
        PyErr_Format(PyExc_TypeError, "%sa bytes-like object is required, not '%.200s'", label,
                     Py_TYPE(value)->tp_name);
        return NULL;
    }
    PyObject *view = PyMemoryView_FromObject(value);
    if (view != NULL && !PyBuffer_IsContiguous(PyMemoryView_GET_BUFFER(view), 'C')) {
        PyErr_Format(PyExc_BufferError, "%s%.200s: underlying buffer is not C-contiguous", label,
                     Py_TYPE(value)->tp_name);
        Py_CLEAR(view);
    }
    return view;
}

/* A new reference to what keeps the memory alive. */
static PyObject *
readable(PyObject *value, const char *label, const void **data, size_t *size)
{
    if (PyBytes_CheckExact(value)) {
        *data = PyBytes_AS_STRING(value);
        *size = (size_t)PyBytes_GET_SIZE(value);
        return Py_NewRef(value);
    }
    PyObject *view = view_of(value, label);
    if (view != NULL) {
        *data = PyMemoryView_GET_BUFFER(view)->buf;
        *size = (size_t)PyMemoryView_GET_BUFFER(view)->len;
    }
    return view;
}

int
aya_take_bytes_in(Operation *operation, PyObject *value, const char *Py_UNUSED(name),
                  const void **data, size_t *size)
{
    PyObject *keeper = readable(value, "", data, size);

    return keeper == NULL ? -1 : aya_operation_hold(operation, keeper);
}

int
aya_operation_view(Operation *operation, PyObject *value, const void **data, size_t *size,
                   bool *is_mutable)
{
    PyObject *keeper = readable(value, "", data, size);

    if (keeper == NULL) {
        return -1;
    }
    *is_mutable = false;
    if (keeper != value) {
        /* A read-only view may be one of memory that others write; only `bytes` never change. */
        const Py_buffer *buffer = PyMemoryView_GET_BUFFER(keeper);
        *is_mutable = !buffer->readonly || buffer->obj == NULL || !PyBytes_CheckExact(buffer->obj);
    }
    return aya_operation_hold(operation, keeper);
}

int
aya_take_bytes_out(Operation *operation, PyObject *value, const char *Py_UNUSED(name), void **data,
                   size_t *size)
{
    PyObject *view = PyObject_CheckBuffer(value) ? PyMemoryView_FromObject(value) : NULL;

    if (view == NULL || PyMemoryView_GET_BUFFER(view)->readonly
        || !PyBuffer_IsContiguous(PyMemoryView_GET_BUFFER(view), 'C')) {
        Py_XDECREF(view);
        PyErr_Format(PyExc_TypeError,
                     "%s() argument must be read-write bytes-like object, not %.200s",
                     operation->name, Py_TYPE(value)->tp_name);
        return -1;
    }
    *data = PyMemoryView_GET_BUFFER(view)->buf;
    *size = (size_t)PyMemoryView_GET_BUFFER(view)->len;
    return aya_operation_hold(operation, view);
}

static void
free_memory(PyObject *capsule)
{
    PyMem_Free(PyCapsule_GetPointer(capsule, NULL));
}

/* The operation frees `memory` at its end; frees it at once on an error. */
static int
hold_memory(Operation *operation, void *memory)
{
    PyObject *capsule = PyCapsule_New(memory, NULL, free_memory);

    if (capsule == NULL) {
        PyMem_Free(memory);
        return -1;
    }
    return aya_operation_hold(operation, capsule);
}

static void
note_path(Operation *operation, PyObject *value)
{
    PyObject **place = &operation->paths[operation->paths[0] != NULL];

    Py_XSETREF(*place, Py_NewRef(value));
}

int
aya_take_path(Operation *operation, PyObject *value, const char *Py_UNUSED(name),
              const aya_path_char **out)
{
    PyObject *path = aya_system_path(value);

    if (path == NULL) {
        return -1;
    }
    note_path(operation, value);
    *out = (const aya_path_char *)(void *)PyBytes_AS_STRING(path);
    return aya_operation_hold(operation, path);
}

static void
release_handle(PyObject *capsule)
{
    aya_core *core = PyCapsule_GetPointer(capsule, NULL);

    aya_file_unuse(&core->stream.file);
    if (core->closing) {
        aya_core_advance(core); /* its close() may wait for this */
    }
    aya_core_drop(core);
}

/* Holds the core of an open file, in use, with the operation; under the file's guard. */
static int
hold_core(Operation *operation, AsyncFile *file, const char *name, aya_file **out)
{
    aya_core *core = file->core;

    if (core == NULL || core->closing || core->state == AYA_CORE_FAILED
        || core->state == AYA_CORE_CLOSED) {
        PyErr_Format(PyExc_ValueError, "%s: I/O operation on closed file", name);
        return -1;
    }
    if (core->state != AYA_CORE_OPEN) {
        PyErr_Format(PyExc_ValueError, "%s is still being opened; await it first", name);
        return -1;
    }
    PyObject *capsule = PyCapsule_New(core, NULL, release_handle);
    if (capsule == NULL) {
        return -1;
    }
    aya_file_use(&core->stream.file);
    core->references++;
    *out = &core->stream.file;
    return aya_operation_hold(operation, capsule);
}

int
aya_take_handle(Operation *operation, PyObject *value, const char *name, aya_file **out)
{
    aya_module *module = aya_module_of_type(Py_TYPE(operation));
    int status;

    if (!PyObject_TypeCheck(value, module->file_type)) {
        PyErr_Format(PyExc_TypeError, "%s must be an AsyncFile, not '%.200s'", name,
                     Py_TYPE(value)->tp_name);
        return -1;
    }
    AYA_GUARD(aya_file_guard((AsyncFile *)value));
    status = hold_core(operation, (AsyncFile *)value, name, out);
    AYA_UNGUARD();
    /* The file too: the operation begins when it has nothing buffered. */
    return status < 0 ? -1 : aya_operation_hold(operation, Py_NewRef(value));
}

/* Fills one span from the two values of a pair. A new reference to what keeps its memory, NULL on
 * error; a span without memory of the caller's gives None. */
typedef PyObject *(*span_filler)(aya_span *span, PyObject *offset, PyObject *other,
                                 const char *name, Py_ssize_t index);

enum { LABEL_SIZE = 96 };

/* `take` with a label that says which part of which pair `value` is; most values never need it. */
static int
take_part(int (*take)(Operation *, PyObject *, const char *, int64_t *), PyObject *value,
          const char *part, const char *name, Py_ssize_t index, int64_t *out)
{
    char label[LABEL_SIZE];

    if (PyLong_CheckExact(value)) {
        int overflow;
        *out = PyLong_AsLongLongAndOverflow(value, &overflow);
        if (overflow == 0 && *out >= 0) {
            return 0;
        }
    }
    PyOS_snprintf(label, sizeof label, "%s of %s[%lld]", part, name, (long long)index);
    return take(NULL, value, label, out);
}

static PyObject *
fill_wanted(aya_span *span, PyObject *offset, PyObject *size, const char *name, Py_ssize_t index)
{
    if (take_part(aya_take_offset, offset, "offset", name, index, &span->offset) < 0
        || take_part(aya_take_size, size, "size", name, index, &span->size) < 0) {
        return NULL;
    }
    return Py_NewRef(Py_None);
}

static PyObject *
fill_given(aya_span *span, PyObject *offset, PyObject *data, const char *name, Py_ssize_t index)
{
    char label[LABEL_SIZE] = "";
    const void *memory;

    if (take_part(aya_take_offset, offset, "offset", name, index, &span->offset) < 0) {
        return NULL;
    }
    if (!PyBytes_CheckExact(data)) {
        PyOS_snprintf(label, sizeof label, "data of %s[%lld]: ", name, (long long)index);
    }
    PyObject *keeper = readable(data, label, &memory, &span->buf_size);
    if (keeper != NULL) {
        span->buf = (void *)(uintptr_t)memory;
        span->size = (int64_t)span->buf_size;
    }
    return keeper;
}

static PyObject *
fill_from(aya_span *span, PyObject *item, span_filler fill, const char *name, Py_ssize_t index)
{
    if (Py_TYPE(item)->tp_iter == NULL && !PySequence_Check(item)) {
        PyErr_Format(PyExc_TypeError, "%s[%zd] must be a pair, not '%.200s'", name, index,
                     Py_TYPE(item)->tp_name);
        return NULL;
    }
    PyObject *pair = PySequence_Tuple(item);
    if (pair == NULL) {
        return NULL;
    }
    PyObject *keeper = NULL;
    if (PyTuple_GET_SIZE(pair) == 2) {
        keeper = fill(span, PyTuple_GET_ITEM(pair, 0), PyTuple_GET_ITEM(pair, 1), name, index);
    } else {
        PyErr_Format(PyExc_ValueError, "%s[%zd] must be a pair, not %zd values", name, index,
                     PyTuple_GET_SIZE(pair));
    }
    Py_DECREF(pair);
    return keeper;
}

/* Fills spans[] from `items`; those that keep memory come into `keepers`. */
static int
fill_all(aya_span *spans, PyObject *items, span_filler fill, const char *name, PyObject *keepers)
{
    for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(items); i++) {
        PyObject *keeper = fill_from(&spans[i], PyTuple_GET_ITEM(items, i), fill, name, i);
        if (keeper == NULL) {
            return -1;
        }
        int error = keeper == Py_None ? 0 : PyList_Append(keepers, keeper);
        Py_DECREF(keeper);
        if (error < 0) {
            return -1;
        }
    }
    return 0;
}

static int
take_list(Operation *operation, PyObject *value, const char *name, span_filler fill, aya_span **out,
          size_t *size)
{
    if (Py_TYPE(value)->tp_iter == NULL && !PySequence_Check(value)) {
        PyErr_Format(PyExc_TypeError, "%s must be an iterable of pairs, not '%.200s'", name,
                     Py_TYPE(value)->tp_name);
        return -1;
    }
    /* A tuple, because the integers' own methods could change a list under us. */
    PyObject *items = PySequence_Tuple(value);
    if (items == NULL) {
        return -1;
    }
    size_t count = (size_t)PyTuple_GET_SIZE(items);
    aya_span *spans = PyMem_Calloc(count, sizeof *spans);
    if (spans == NULL) {
        Py_DECREF(items);
        PyErr_NoMemory();
        return -1;
    }
    int error = hold_memory(operation, spans);
    PyObject *keepers = error < 0 ? NULL : PyList_New(0);
    error = keepers == NULL ? -1 : fill_all(spans, items, fill, name, keepers);
    Py_DECREF(items);
    if (error == 0 && PyList_GET_SIZE(keepers) > 0) {
        error = aya_operation_hold(operation, keepers);
    } else {
        Py_XDECREF(keepers);
    }
    *out = spans;
    *size = count;
    return error;
}

int
aya_take_spans(Operation *operation, PyObject *value, const char *name, aya_span **out,
               size_t *size)
{
    return take_list(operation, value, name, fill_wanted, out, size);
}

int
aya_take_pairs(Operation *operation, PyObject *value, const char *name, aya_span **out,
               size_t *size)
{
    return take_list(operation, value, name, fill_given, out, size);
}
