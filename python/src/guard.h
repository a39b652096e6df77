/* What the GIL guards elsewhere, a guard does in a build without it: an object's critical section.
 *
 * A file (all views of a core, their commands, the stream) has one guard; a request of its own and
 * a LoopState are their own. Like the GIL a critical section is given up where the thread waits or
 * enters another one, so code between AYA_GUARD() and AYA_UNGUARD() may call Python, and must take
 * it that others ran meanwhile. In a build with the GIL nothing is done here.
 *
 * AYA_GUARD() opens a block that AYA_UNGUARD() closes: no return and no goto out of it.
 */
#ifndef AYA_GUARD_H
#define AYA_GUARD_H

#include "file.h"

#ifdef Py_GIL_DISABLED
#define AYA_FREE_THREADED 1

/* False where the thread's innermost section has the object already: to enter once more would wait
 * for itself, which ends well but takes long (before CPython 3.14). */
static inline bool
aya_guard_enter(PyCriticalSection *section, PyObject *object)
{
#if PY_VERSION_HEX < 0x030e0000
    uintptr_t innermost = PyThreadState_Get()->critical_section & ~(uintptr_t)3;

    if (innermost != 0 && ((PyCriticalSection *)innermost)->_cs_mutex == &object->ob_mutex) {
        return false;
    }
#endif
    PyCriticalSection_Begin(section, object);
    return true;
}

#define AYA_GUARD(object)                                                                          \
    {                                                                                              \
        PyCriticalSection aya_section;                                                             \
        bool aya_entered = aya_guard_enter(&aya_section, object)
#define AYA_UNGUARD()                                                                              \
    if (aya_entered) {                                                                             \
        PyCriticalSection_End(&aya_section);                                                       \
    }                                                                                              \
    }

/* For the module's lists; held for a few instructions, none of which runs Python code. */
#define AYA_LOCK(module) PyMutex_Lock(&(module)->lock)
#define AYA_UNLOCK(module) PyMutex_Unlock(&(module)->lock)

static inline PyObject *
aya_core_guard(const aya_core *core)
{
    return core->guard;
}

static inline PyObject *
aya_file_guard(AsyncFile *file)
{
    return file->guard != NULL ? file->guard : (PyObject *)file;
}

static inline PyObject *
aya_operation_guard(Operation *operation)
{
    return operation->is_command && operation->file != NULL ? aya_file_guard(operation->file)
                                                            : (PyObject *)operation;
}
#else
#define AYA_FREE_THREADED 0
#define AYA_GUARD(object) {
#define AYA_UNGUARD() }
#define AYA_LOCK(module) (void)0
#define AYA_UNLOCK(module) (void)0

static inline PyObject *
aya_core_guard(const aya_core *Py_UNUSED(core))
{
    return NULL;
}
#endif

/* guarded_NAME(): NAME() under GUARD_OF(self), which the file that uses these defines. */
#define GUARDED(type, name, parameters, arguments)                                                 \
    static type guarded_##name parameters                                                          \
    {                                                                                              \
        type result;                                                                               \
        AYA_GUARD(GUARD_OF(self));                                                                 \
        result = name arguments;                                                                   \
        AYA_UNGUARD();                                                                             \
        return result;                                                                             \
    }
#define GUARDED_FAST(name)                                                                         \
    GUARDED(PyObject *, name,                                                                      \
            (PyObject *self, PyObject *const *args, Py_ssize_t nargs, PyObject *kwnames),          \
            (self, args, nargs, kwnames))
#define GUARDED_POSITIONAL(name)                                                                   \
    GUARDED(PyObject *, name, (PyObject *self, PyObject *const *args, Py_ssize_t nargs),           \
            (self, args, nargs))
#define GUARDED_ONE(name)                                                                          \
    GUARDED(PyObject *, name, (PyObject *self, PyObject *argument), (self, argument))
#define GUARDED_SLOT(name) GUARDED(PyObject *, name, (PyObject *self), (self))
#define GUARDED_GET(name)                                                                          \
    GUARDED(PyObject *, name, (PyObject *self, void *closure), (self, closure))

#endif
