/* Module functions about the configuration and the backends: configure(), get_config(),
 * reset_config(), backend_info(), stats(). Driven by the generated option table; they run with the
 * GIL and may make a context for a moment, to learn whether a backend works.
 */
#ifndef AYA_PYTHON_CONFIG_H
#define AYA_PYTHON_CONFIG_H

#include "module.h"

PyObject *aya_configure(PyObject *module, PyObject *args, PyObject *kwargs);
PyObject *aya_get_config(PyObject *module, PyObject *unused);
PyObject *aya_reset_config(PyObject *module, PyObject *unused);
PyObject *aya_drain_buffers(PyObject *module, PyObject *unused);
PyObject *aya_backend_info(PyObject *module, PyObject *unused);
PyObject *aya_operation_ways(PyObject *module, PyObject *unused);
PyObject *aya_stats(PyObject *module, PyObject *unused);

#define AYA_CONFIG_METHODS                                                                         \
    {"configure", (PyCFunction)(void (*)(void))aya_configure, METH_VARARGS | METH_KEYWORDS,        \
     "configure($module, /, options)\n--\n\n"                                                      \
     "Change options for contexts made and files opened later. Nothing is changed where one\n"     \
     "of them is refused."},                                                                       \
    {"get_config", aya_get_config, METH_NOARGS,                                                    \
     "get_config($module, /)\n--\n\nAll options and their values."},                               \
    {"reset_config", aya_reset_config, METH_NOARGS,                                                \
     "reset_config($module, /)\n--\n\nSet all options to their defaults."},                        \
    {"drain_buffer_pool", aya_drain_buffers, METH_NOARGS,                                          \
     "drain_buffer_pool($module, /)\n--\n\nFree the idle buffers that are kept for reuse."},       \
    {"backend_info", aya_backend_info, METH_NOARGS,                                                \
     "backend_info($module, /)\n--\n\n"                                                            \
     "The backend that a context made now would use, and why each other one is not used."},        \
    {"operation_ways", aya_operation_ways, METH_NOARGS,                                            \
     "operation_ways($module, /)\n--\n\n"                                                          \
     "How the backend that a context made now would use serves each operation."},                  \
    {"stats", aya_stats, METH_NOARGS,                                                              \
     "stats($module, /)\n--\n\n"                                                                   \
     "How many operations each route has served, and what is there now."}

#endif
