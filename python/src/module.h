/* The state of the extension module: types, what it uses of Python's libraries, the configuration.
 * One for each interpreter that imports it.
 */
#ifndef AYA_MODULE_H
#define AYA_MODULE_H

#include "operation.h"
#include "results.h"

struct aya_module {
    PyObject *self;               /* the module; borrowed */
    PyTypeObject *operation_type;
    PyTypeObject *file_type;
    PyTypeObject *loop_type;
    PyObject *get_running_loop;   /* asyncio._get_running_loop */
    PyObject *cancelled_error;    /* asyncio.CancelledError */
    PyObject *invalid_state;      /* asyncio.InvalidStateError */
    PyObject *unsupported;        /* io.UnsupportedOperation */
    PyObject *stat_result;        /* os.stat_result */
    PyObject *str_call_soon, *str_call_soon_threadsafe, *str_is_closed, *str_call_exception_handler;
    aya_config config;
#ifdef Py_GIL_DISABLED
    PyMutex lock;                 /* guards `config`, `loops`, `cores`, `ended_routes` */
#endif
    PyObject *stop_iteration;     /* kept for awaits that find their result ready; or NULL */
    Operation *kept_operations;   /* memory for the next ones, by next_ready */
    size_t kept_count;
    aya_results results;
    LoopState *loops;             /* all of them; borrowed */
    aya_core *cores;              /* all that are alive */
    uint64_t ended_routes[AYA_ROUTE_COUNT]; /* of contexts that are gone */
};

aya_module *aya_module_state(PyObject *module);
/* The state behind a type of ours or a subclass of one. */
aya_module *aya_module_of_type(PyTypeObject *type);
const aya_config *aya_module_config(PyObject *module);

/* Raises OSError for -errno (or io.UnsupportedOperation for -ENOTSUP), with `path` where not
 * NULL. */
void aya_raise(aya_module *module, int64_t error, PyObject *path);

#endif
