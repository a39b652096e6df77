/* The configuration as Python sees it, and what is known of the backends.
 *
 * Everything runs in the caller's thread with the GIL. Options are checked against the generated
 * table, all of them before the first is set; no option is known by name here but `backend`.
 */
#include "config.h"
#include "../../runtime/buffers.h"
#include "guard.h"
#include "loop.h"
#include "system.h"

#include <string.h>

static const aya_option *
find_option(PyObject *name)
{
    for (size_t i = 0; i < AYA_OPTION_COUNT; i++) {
        if (PyUnicode_Check(name)
            && PyUnicode_CompareWithASCIIString(name, aya_options[i].name) == 0) {
            return &aya_options[i];
        }
    }
    return NULL;
}

static const aya_option *
backend_option(void)
{
    for (size_t i = 0; i < AYA_OPTION_COUNT; i++) {
        if (aya_options[i].offset == offsetof(aya_config, backend)) {
            return &aya_options[i];
        }
    }
    Py_UNREACHABLE();
}

static void *
member_of(aya_config *config, const aya_option *option)
{
    return (char *)config + option->offset;
}

/* "'a', 'b'": appends to *text, which becomes NULL on an error. */
static void
append_quoted(PyObject **text, const char *word)
{
    if (*text != NULL) {
        const char *comma = PyUnicode_GET_LENGTH(*text) == 0 ? "" : ", ";
        PyUnicode_AppendAndDel(text, PyUnicode_FromFormat("%s'%s'", comma, word));
    }
}

static int
refuse_name(PyObject *name)
{
    PyObject *known = PyUnicode_FromString("");

    for (size_t i = 0; i < AYA_OPTION_COUNT; i++) {
        append_quoted(&known, aya_options[i].name);
    }
    if (known != NULL) {
        PyErr_Format(PyExc_ValueError, "there is no option %R; there are: %U", name, known);
        Py_DECREF(known);
    }
    return -1;
}

static int
take_choice(const aya_option *option, PyObject *value, uint8_t *out)
{
    PyObject *allowed = PyUnicode_FromString("");

    for (int i = 0; option->words[i] != NULL; i++) {
        const char *word = option->words[i];
        bool chosen = PyUnicode_Check(value) && PyUnicode_CompareWithASCIIString(value, word) == 0;
        for (int j = 0; option->aliases != NULL && option->aliases[j][0] != NULL; j++) {
            chosen = chosen
                     || (PyUnicode_Check(value) && strcmp(option->aliases[j][1], word) == 0
                         && PyUnicode_CompareWithASCIIString(value, option->aliases[j][0]) == 0);
        }
        if (chosen) {
            Py_XDECREF(allowed);
            *out = (uint8_t)i;
            return 0;
        }
        append_quoted(&allowed, word);
    }
    if (allowed != NULL) {
        PyErr_Format(PyUnicode_Check(value) ? PyExc_ValueError : PyExc_TypeError,
                     "option '%s' must be one of %U, not %R", option->name, allowed, value);
        Py_DECREF(allowed);
    }
    return -1;
}

static int
take_int(const aya_option *option, PyObject *value, int64_t *out)
{
    const char *space = option->unit[0] == '\0' ? "" : " ";
    int overflow;

    if (!PyLong_Check(value) || PyBool_Check(value)) {
        PyErr_Format(PyExc_TypeError,
                     "option '%s' must be an int from %lld to %lld%s%s, not '%.200s'", option->name,
                     (long long)option->least, (long long)option->most, space,
                     option->unit, Py_TYPE(value)->tp_name);
        return -1;
    }
    long long number = PyLong_AsLongLongAndOverflow(value, &overflow);
    if (number == -1 && PyErr_Occurred()) {
        return -1;
    }
    if (overflow != 0 || number < option->least || number > option->most) {
        PyErr_Format(PyExc_ValueError, "option '%s' must be from %lld to %lld%s%s, not %S",
                     option->name, (long long)option->least, (long long)option->most, space,
                     option->unit, value);
        return -1;
    }
    *out = number;
    return 0;
}

static int
take_option(aya_config *config, const aya_option *option, PyObject *value)
{
    void *member = member_of(config, option);

    switch ((aya_option_type)option->type) {
    case AYA_OPTION_CHOICE:
        return take_choice(option, value, member);
    case AYA_OPTION_INT:
        return take_int(option, value, member);
    case AYA_OPTION_BOOL:
        if (!PyBool_Check(value)) {
            PyErr_Format(PyExc_TypeError, "option '%s' must be True or False, not '%.200s'",
                         option->name, Py_TYPE(value)->tp_name);
            return -1;
        }
        *(bool *)member = value == Py_True;
        return 0;
    }
    Py_UNREACHABLE();
}

/* Makes a context as `config` says and ends it. The name of its backend, or NULL and *error. */
static const char *
try_config(const aya_config *config, int *error)
{
    aya_context *context;

    *error = aya_context_create(config, &context);
    if (*error < 0) {
        return NULL;
    }
    const char *name = aya_context_backend(context);
    aya_context_destroy(context);
    return name;
}

/* A backend chosen by name must work. */
static int
check_backend(aya_module *state, const aya_config *config)
{
    const char *name = aya_config_backend_name(config);
    int error;

    if (name == NULL || try_config(config, &error) != NULL) {
        return 0;
    }
    const char *reason = aya_backend_reason(name);
    if (reason == NULL) {
        aya_raise(state, error, NULL);
    } else {
        PyErr_Format(PyExc_ValueError, "backend '%s' cannot be used: %s", name, reason);
    }
    return -1;
}

static int
warn_deprecated(PyObject *options)
{
    for (size_t i = 0; i < AYA_OPTION_COUNT; i++) {
        const aya_option *option = &aya_options[i];
        if (option->deprecated == NULL) {
            continue;
        }
        PyObject *name = PyUnicode_FromString(option->name);
        int given = name == NULL ? -1 : PyDict_Contains(options, name);
        Py_XDECREF(name);
        if (given < 0
            || (given > 0
                && PyErr_WarnFormat(PyExc_DeprecationWarning, 1,
                                    "option '%s' does nothing any more: %s", option->name,
                                    option->deprecated) < 0)) {
            return -1;
        }
    }
    return 0;
}

PyObject *
aya_configure(PyObject *module, PyObject *args, PyObject *kwargs)
{
    static char *names[] = {"options", NULL};
    PyObject *options;
    aya_module *state = aya_module_state(module);
    aya_config config = state->config;
    PyObject *name, *value;
    Py_ssize_t at = 0;

    if (!PyArg_ParseTupleAndKeywords(args, kwargs, "O:configure", names, &options)) {
        return NULL;
    }
    if (!PyDict_Check(options)) {
        return PyErr_Format(PyExc_TypeError, "configure() takes a dict of options, not '%.200s'",
                            Py_TYPE(options)->tp_name);
    }
    PyObject *copy = PyDict_Copy(options);
    if (copy == NULL) {
        return NULL;
    }
    int error = 0;
    while (error == 0 && PyDict_Next(copy, &at, &name, &value)) {
        const aya_option *option = find_option(name);
        error = option == NULL ? refuse_name(name) : take_option(&config, option, value);
    }
    if (error == 0) {
        error = check_backend(state, &config);
    }
    if (error == 0) {
        error = warn_deprecated(copy);
    }
    Py_DECREF(copy);
    if (error < 0) {
        return NULL;
    }
    AYA_LOCK(state);
    state->config = config;
    AYA_UNLOCK(state);
    aya_buffers_keep((size_t)config.buffer_pool_max);
    Py_RETURN_NONE;
}

static PyObject *
show_option(aya_config *config, const aya_option *option)
{
    const void *member = member_of(config, option);

    switch ((aya_option_type)option->type) {
    case AYA_OPTION_CHOICE:
        return PyUnicode_FromString(aya_config_word(option, *(const uint8_t *)member));
    case AYA_OPTION_INT:
        return PyLong_FromLongLong(*(const int64_t *)member);
    case AYA_OPTION_BOOL:
        return PyBool_FromLong(*(const bool *)member);
    }
    Py_UNREACHABLE();
}

PyObject *
aya_get_config(PyObject *module, PyObject *Py_UNUSED(unused))
{
    aya_config config = aya_module_state(module)->config;
    PyObject *result = PyDict_New();

    for (size_t i = 0; result != NULL && i < AYA_OPTION_COUNT; i++) {
        PyObject *value = show_option(&config, &aya_options[i]);
        if (value == NULL || PyDict_SetItemString(result, aya_options[i].name, value) < 0) {
            Py_CLEAR(result);
        }
        Py_XDECREF(value);
    }
    return result;
}

PyObject *
aya_reset_config(PyObject *module, PyObject *Py_UNUSED(unused))
{
    aya_module_state(module)->config = aya_config_defaults;
    aya_buffers_keep((size_t)aya_config_defaults.buffer_pool_max);
    Py_RETURN_NONE;
}

PyObject *
aya_drain_buffers(PyObject *module, PyObject *Py_UNUSED(unused))
{
    aya_buffers_keep(0);
    aya_buffers_keep((size_t)aya_module_state(module)->config.buffer_pool_max);
    Py_RETURN_NONE;
}

/* What is told of a backend by its name; the specs say nothing that is meant for users to read. */
static const struct {
    const char *name, *description;
    bool truly_async;
} known_backends[] = {
    {"io_uring", "Linux io_uring: a ring shared with the kernel", true},
    {"linux_aio", "Linux kernel AIO for files opened with O_DIRECT, a pool of C threads for others",
     true},
    {"iocp", "Windows I/O completion ports", true},
    {"dispatch", "macOS Dispatch: blocking calls as blocks on the system's queue, no I/O channels",
     false},
    {"threads", "a pool of C threads that make blocking calls", false},
};

static bool
is_built(const char *name)
{
    for (size_t i = 0; i < aya_backend_count(); i++) {
        if (strcmp(aya_backend_name(i), name) == 0) {
            return true;
        }
    }
    return false;
}

/* Why `name` (value `choice` of the option) is not used where `used` is; a new str. */
static PyObject *
reason_against(const aya_config *current, int choice, const char *name, const char *used)
{
    aya_config config = *current;
    int error;

    if (!is_built(name)) {
        return PyUnicode_FromString("not part of this build");
    }
    config.backend = (uint8_t)choice;
    const char *got = try_config(&config, &error);
    if (got == NULL || strcmp(got, name) != 0) {
        const char *reason = aya_backend_reason(name);
        return PyUnicode_FromFormat("cannot work here: %s",
                                    reason == NULL ? strerror(-error) : reason);
    }
    if (aya_config_backend_name(current) != NULL) {
        return PyUnicode_FromFormat("works here, but configure() chose '%s'", used);
    }
    return PyUnicode_FromFormat("works here, but ranks after '%s'", used);
}

static PyObject *
unused_backends(const aya_config *config, const char *used)
{
    const aya_option *option = backend_option();
    PyObject *result = PyDict_New();

    for (int i = 0; result != NULL && option->words[i] != NULL; i++) {
        const char *name = option->words[i];
        if (i == AYA_BACKEND_AUTO || strcmp(name, used) == 0) {
            continue;
        }
        PyObject *reason = reason_against(config, i, name, used);
        if (reason == NULL || PyDict_SetItemString(result, name, reason) < 0) {
            Py_CLEAR(result);
        }
        Py_XDECREF(reason);
    }
    return result;
}

PyObject *
aya_backend_info(PyObject *module, PyObject *Py_UNUSED(unused))
{
    aya_module *state = aya_module_state(module);
    aya_config config = state->config;
    const char *description = "";
    bool truly_async = false;
    int error;

    const char *used = try_config(&config, &error);
    if (used == NULL) {
        aya_raise(state, error, NULL);
        return NULL;
    }
    for (size_t i = 0; i < Py_ARRAY_LENGTH(known_backends); i++) {
        if (strcmp(known_backends[i].name, used) == 0) {
            description = known_backends[i].description;
            truly_async = known_backends[i].truly_async;
        }
    }
    PyObject *version = aya_system_version();
    PyObject *unused = version == NULL ? NULL : unused_backends(&config, used);
    if (unused == NULL) {
        Py_XDECREF(version);
        return NULL;
    }
    return Py_BuildValue("{ss,ss,sN,ss,sO,sN}", "platform", aya_system_name(), "backend", used,
                         "os_version", version, "description", description, "is_truly_async",
                         truly_async ? Py_True : Py_False, "unused", unused);
}

PyObject *
aya_operation_ways(PyObject *module, PyObject *Py_UNUSED(unused))
{
    aya_module *state = aya_module_state(module);
    aya_config config = state->config;
    int error;
    const char *used = try_config(&config, &error);

    if (used == NULL) {
        aya_raise(state, error, NULL);
        return NULL;
    }
    PyObject *result = PyDict_New();
    for (int i = 0; result != NULL && i < AYA_OP_COUNT; i++) {
        PyObject *way = PyUnicode_FromString(aya_backend_way(used, (aya_op_code)i));
        if (way == NULL || PyDict_SetItemString(result, aya_op_infos[i].name, way) < 0) {
            Py_CLEAR(result);
        }
        Py_XDECREF(way);
    }
    return result;
}

static PyObject *
shown_routes(const uint64_t counts[AYA_ROUTE_COUNT])
{
    static const char *const names[AYA_ROUTE_COUNT] = {
        [AYA_ROUTE_INLINE] = "inline", [AYA_ROUTE_BACKEND] = "backend",
        [AYA_ROUTE_FALLBACK] = "fallback", [AYA_ROUTE_DIRECT] = "direct",
        [AYA_ROUTE_POLL] = "poll", [AYA_ROUTE_ALONE] = "alone",
    };
    PyObject *result = PyDict_New();

    for (size_t i = 0; result != NULL && i < AYA_ROUTE_COUNT; i++) {
        PyObject *count = PyLong_FromUnsignedLongLong(counts[i]);
        if (count == NULL || PyDict_SetItemString(result, names[i], count) < 0) {
            Py_CLEAR(result);
        }
        Py_XDECREF(count);
    }
    return result;
}

PyObject *
aya_stats(PyObject *module, PyObject *Py_UNUSED(unused))
{
    aya_config config = aya_module_state(module)->config;
    uint64_t counts[AYA_ROUTE_COUNT];
    size_t contexts, pending;
    int error;

    aya_loops_stats(module, counts, &contexts, &pending);
    PyObject *routes = shown_routes(counts);
    if (routes == NULL) {
        return NULL;
    }
    return Py_BuildValue("{sz,sN,sn,sn}", "backend", try_config(&config, &error), "routes", routes,
                         "contexts", (Py_ssize_t)contexts, "in_flight", (Py_ssize_t)pending);
}
