/* The extension module: its state, its types, its functions, its end. */
#include "config.h"
#include "core.h"
#include "loop.h"
#include "module.h"
#include "system.h"

#include "../../generated/aya_python_ops.h"

#include <string.h>

/* -- state ------------------------------------------------------------------------------------- */

aya_module *
aya_module_state(PyObject *module)
{
    return PyModule_GetState(module);
}

const aya_config *
aya_module_config(PyObject *module)
{
    return &aya_module_state(module)->config;
}

static struct PyModuleDef module_definition;

aya_module *
aya_module_of_type(PyTypeObject *type)
{
    /* Most are our own type; a subclass made in Python has no module of ours but a base that
     * has. */
    for (; type != NULL; type = type->tp_base) {
        PyObject *module = type->tp_flags & Py_TPFLAGS_HEAPTYPE
                               ? ((PyHeapTypeObject *)type)->ht_module
                               : NULL;
        if (module != NULL && PyModule_GetDef(module) == &module_definition) {
            return PyModule_GetState(module);
        }
    }
    Py_UNREACHABLE();
}

void
aya_raise(aya_module *module, int64_t error, PyObject *path)
{
    if (error == -ENOTSUP && path == NULL) {
        PyErr_SetString(module->unsupported, strerror(ENOTSUP));
        return;
    }
    if (error == -ENOMEM) {
        PyErr_NoMemory();
        return;
    }
    aya_system_raise(error, 0, path, NULL);
}

/* -- functions --------------------------------------------------------------------------------- */

static PyObject *
module_open(PyObject *module, PyObject *const *args, Py_ssize_t nargs, PyObject *kwnames)
{
    return aya_file_open(aya_module_state(module)->file_type, args, nargs, kwnames);
}

static PyObject *
module_wrap(PyObject *module, PyObject *args)
{
    PyObject *mode, *name;
    int descriptor, owns;

    if (!PyArg_ParseTuple(args, "iUpO:wrap", &descriptor, &mode, &owns, &name)) {
        return NULL;
    }
    return aya_file_wrap(aya_module_state(module), descriptor, mode, owns != 0, name);
}

static PyObject *
module_read_whole(PyObject *module, PyObject *path)
{
    return aya_whole_read(aya_module_state(module), path);
}

/* At the interpreter's exit: nothing that was written is lost, nothing in flight outlives it. */
static PyObject *
module_end(PyObject *module, PyObject *unused)
{
    aya_module *state = aya_module_state(module);

    (void)unused;
    aya_loops_end(state);
    aya_cores_end(state);
    Py_RETURN_NONE;
}

#define FAST(function) (PyCFunction)(void (*)(void))(function), METH_FASTCALL | METH_KEYWORDS

static PyMethodDef module_functions[] = {
    {"open", FAST(module_open),
     PyDoc_STR("open($module, /, path, mode='rb', encoding=None, newline=None, errors=None,\n"
               "     auto_flush=False, *, buffering=-1, closefd=True, opener=None)\n--\n\n"
               "Open a file and return it: use it by `async with`, by `await`, or directly.\n\n"
               "The arguments are those of the built-in open(), but for the default mode and the\n"
               "order; auto_flush=True makes leaving the `async with` block durable (fsync).\n"
               "ValueError, TypeError and LookupError of the arguments come at the call,\n"
               "OSError by the await.")},
    {"wrap", module_wrap, METH_VARARGS,
     PyDoc_STR("wrap($module, fd, mode, owns_fd, name, /)\n--\n\n"
               "A binary file over a descriptor, which stays where it is.")},
    {"read_whole", module_read_whole, METH_O,
     PyDoc_STR("read_whole($module, path, /)\n--\n\n"
               "The file's content: opened, read and closed in one operation.")},
    {"_end", module_end, METH_NOARGS, NULL},
    AYA_CONFIG_METHODS,
    AYA_PYTHON_FUNCTIONS
    {NULL, NULL, 0, NULL},
};

/* -- making ------------------------------------------------------------------------------------ */

static PyObject *
attribute_of(const char *module_name, const char *name)
{
    PyObject *module = PyImport_ImportModule(module_name);
    PyObject *value = module == NULL ? NULL : PyObject_GetAttrString(module, name);

    Py_XDECREF(module);
    return value;
}

static int
find_objects(aya_module *state)
{
    const struct {
        PyObject **place;
        const char *module, *name;
    } wanted[] = {
        {&state->get_running_loop, "asyncio.events", "_get_running_loop"},
        {&state->cancelled_error, "asyncio.exceptions", "CancelledError"},
        {&state->invalid_state, "asyncio.exceptions", "InvalidStateError"},
        {&state->unsupported, "io", "UnsupportedOperation"},
        {&state->stat_result, "os", "stat_result"},
    };
    const struct {
        PyObject **place;
        const char *text;
    } names[] = {
        {&state->str_call_soon, "call_soon"},
        {&state->str_call_soon_threadsafe, "call_soon_threadsafe"},
        {&state->str_is_closed, "is_closed"},
        {&state->str_call_exception_handler, "call_exception_handler"},
    };

    for (size_t i = 0; i < sizeof(wanted) / sizeof(wanted[0]); i++) {
        *wanted[i].place = attribute_of(wanted[i].module, wanted[i].name);
        if (*wanted[i].place == NULL) {
            return -1;
        }
    }
    for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++) {
        *names[i].place = PyUnicode_InternFromString(names[i].text);
        if (*names[i].place == NULL) {
            return -1;
        }
    }
    return 0;
}

static int
add_function_names(PyObject *module)
{
    PyObject *list = PyList_New(0), *names = NULL;
    int status = list == NULL ? -1 : 0;

    for (size_t i = 0; status == 0 && aya_python_function_names[i] != NULL; i++) {
        PyObject *name = PyUnicode_FromString(aya_python_function_names[i]);
        status = name == NULL ? -1 : PyList_Append(list, name);
        Py_XDECREF(name);
    }
    if (status == 0) {
        names = PyList_AsTuple(list);
        status = names == NULL ? -1 : PyModule_AddObjectRef(module, "_operation_functions", names);
    }
    Py_XDECREF(names);
    Py_XDECREF(list);
    return status;
}

static int
register_end(PyObject *module)
{
    PyObject *end = PyObject_GetAttrString(module, "_end");
    PyObject *atexit = end == NULL ? NULL : PyImport_ImportModule("atexit");
    PyObject *done = atexit == NULL ? NULL : PyObject_CallMethod(atexit, "register", "O", end);

    Py_XDECREF(end);
    Py_XDECREF(atexit);
    Py_XDECREF(done);
    return done == NULL ? -1 : 0;
}

int aya_file_add_type(PyObject *module, aya_module *state);

static int
module_exec(PyObject *module)
{
    aya_module *state = aya_module_state(module);

    state->self = module;
    state->config = aya_config_defaults;
    if (find_objects(state) < 0 || aya_loop_add_type(module, state) < 0
        || aya_operation_add_type(module, state) < 0 || aya_file_add_type(module, state) < 0
        || add_function_names(module) < 0) {
        return -1;
    }
    return register_end(module);
}

static int
module_traverse(PyObject *module, visitproc visit, void *arg)
{
    aya_module *state = aya_module_state(module);

    Py_VISIT(state->operation_type);
    Py_VISIT(state->file_type);
    Py_VISIT(state->loop_type);
    Py_VISIT(state->cancelled_error);
    Py_VISIT(state->invalid_state);
    Py_VISIT(state->unsupported);
    Py_VISIT(state->stat_result);
    return 0;
}

static int
module_clear(PyObject *module)
{
    aya_module *state = aya_module_state(module);

    /* Their memory is laid out by the type, which may go below. */
    aya_operations_free_kept(state);
    aya_results_drop(&state->results);
    Py_CLEAR(state->stop_iteration);
    Py_CLEAR(state->get_running_loop);
    Py_CLEAR(state->cancelled_error);
    Py_CLEAR(state->invalid_state);
    Py_CLEAR(state->unsupported);
    Py_CLEAR(state->stat_result);
    Py_CLEAR(state->str_call_soon);
    Py_CLEAR(state->str_call_soon_threadsafe);
    Py_CLEAR(state->str_is_closed);
    Py_CLEAR(state->str_call_exception_handler);
    Py_CLEAR(state->operation_type);
    Py_CLEAR(state->file_type);
    Py_CLEAR(state->loop_type);
    return 0;
}

static void
module_free(void *module)
{
    module_clear(module);
}

static PyModuleDef_Slot module_slots[] = {
    {Py_mod_exec, module_exec},
#if PY_VERSION_HEX >= 0x030c0000
    {Py_mod_multiple_interpreters, Py_MOD_PER_INTERPRETER_GIL_SUPPORTED},
#endif
#if PY_VERSION_HEX >= 0x030d0000
    {Py_mod_gil, Py_MOD_GIL_NOT_USED},
#endif
    {0, NULL},
};

static struct PyModuleDef module_definition = {
    PyModuleDef_HEAD_INIT,
    .m_name = "ayafileio._ayafileio",
    .m_doc = "The C half of ayafileio: files, operations, configuration.",
    .m_size = sizeof(aya_module),
    .m_methods = module_functions,
    .m_slots = module_slots,
    .m_traverse = module_traverse,
    .m_clear = module_clear,
    .m_free = module_free,
};

PyMODINIT_FUNC
PyInit__ayafileio(void)
{
    return PyModuleDef_Init(&module_definition);
}
