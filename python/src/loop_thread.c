/* The completion thread: where a loop has no add_reader(), or a context nothing to watch, it waits
 * for the context and calls the loop by call_soon_threadsafe().
 *
 * run() is the thread: without the GIL but for that call. It holds the loop and the callback (and
 * so the loop's state) only weakly, or nobody would ever end it. The rest runs in the loop's thread
 * with the GIL.
 */
#include "loop_thread.h"

#include "../../runtime/internal.h"

#include <pthread.h>

struct aya_loop_thread {
    aya_context *context;
    PyInterpreterState *interpreter;
    PyObject *callback;       /* borrowed: an attribute of the loop */
    pthread_mutex_t lock;     /* guards what follows; never held with the GIL wanted */
    PyObject *loop;           /* weak reference; NULL once stopped */
    PyObject *name;           /* of call_soon_threadsafe; likewise */
    pthread_cond_t changed;
    bool told;                /* the callback is called for, and has not reaped */
    bool stopped;
    bool ended;               /* the thread uses nothing of this any more */
    bool orphaned;            /* it ended itself, by giving the loop back: it frees this */
    pthread_t self;
};

/* Calls the loop; false where that is no more. */
static bool
call_loop(aya_loop_thread *thread)
{
    PyThreadState *state = PyThreadState_New(thread->interpreter);
    bool told = false;

    PyEval_AcquireThread(state);
    PyObject *loop = NULL, *name, *reference;
    pthread_mutex_lock(&thread->lock);
    name = Py_XNewRef(thread->name);
    reference = Py_XNewRef(thread->loop);
    pthread_mutex_unlock(&thread->lock);
    if (name != NULL) { /* not stopped */
#if PY_VERSION_HEX >= 0x030d0000
        if (PyWeakref_GetRef(reference, &loop) < 0) {
            PyErr_Clear();
        }
#else
        loop = Py_XNewRef(PyWeakref_GET_OBJECT(reference));
        if (loop == Py_None) {
            Py_CLEAR(loop);
        }
#endif
    }
    if (loop != NULL) {
        PyObject *arguments[] = {loop, thread->callback};
        PyObject *handle = PyObject_VectorcallMethod(name, arguments, 2, NULL);
        told = handle != NULL;
        if (!told) {
            PyErr_Clear(); /* the loop is closed */
        }
        Py_XDECREF(handle);
        Py_DECREF(loop);
    }
    Py_XDECREF(name);
    Py_XDECREF(reference);
    PyThreadState_Clear(state);
    PyThreadState_DeleteCurrent();
    return told;
}

static void
free_memory(aya_loop_thread *thread)
{
    pthread_mutex_destroy(&thread->lock);
    pthread_cond_destroy(&thread->changed);
    PyMem_RawFree(thread);
}

static void *
run(void *argument)
{
    aya_loop_thread *thread = argument;
    bool goes_on = true;

    aya_thread_name("aya-loop");
    pthread_mutex_lock(&thread->lock);
    thread->self = pthread_self();
    while (goes_on && !thread->stopped) {
        pthread_mutex_unlock(&thread->lock);
        aya_context_sleep(thread->context, -1);
        pthread_mutex_lock(&thread->lock);
        if (thread->stopped) {
            break;
        }
        thread->told = true;
        pthread_mutex_unlock(&thread->lock);
        goes_on = call_loop(thread);
        pthread_mutex_lock(&thread->lock);
        while (goes_on && thread->told && !thread->stopped) {
            pthread_cond_wait(&thread->changed, &thread->lock);
        }
    }
    bool orphaned = thread->orphaned;
    thread->ended = true;
    pthread_cond_broadcast(&thread->changed);
    pthread_mutex_unlock(&thread->lock);
    if (orphaned) {
        free_memory(thread);
    }
    return NULL;
}

aya_loop_thread *
aya_loop_thread_start(aya_module *module, aya_context *context, PyObject *loop, PyObject *callback)
{
    aya_loop_thread *thread = PyMem_RawCalloc(1, sizeof(*thread));
    int error = 0;

    if (thread == NULL) {
        PyErr_NoMemory();
        return NULL;
    }
    thread->context = context;
    thread->interpreter = PyInterpreterState_Get();
    thread->callback = callback;
    thread->name = Py_NewRef(module->str_call_soon_threadsafe);
    thread->loop = PyWeakref_NewRef(loop, NULL);
    pthread_mutex_init(&thread->lock, NULL);
    pthread_cond_init(&thread->changed, NULL);
    if (thread->loop != NULL) {
        /* The loop owns its state by the callback, as it else does by its readers. */
        if (PyObject_SetAttrString(loop, "_ayafileio_callback", callback) == 0) {
            error = aya_thread_start(run, thread);
            if (error == 0) {
                return thread;
            }
            aya_raise(module, error, NULL);
        }
    }
    Py_CLEAR(thread->loop);
    Py_CLEAR(thread->name);
    free_memory(thread);
    return NULL;
}

void
aya_loop_thread_go_on(aya_loop_thread *thread)
{
    pthread_mutex_lock(&thread->lock);
    thread->told = false;
    pthread_cond_broadcast(&thread->changed);
    pthread_mutex_unlock(&thread->lock);
}

void
aya_loop_thread_stop(aya_loop_thread *thread)
{
    PyObject *name, *loop;
    bool itself;

    pthread_mutex_lock(&thread->lock);
    name = thread->name;
    loop = thread->loop;
    thread->name = thread->loop = NULL;
    thread->stopped = true;
    itself = thread->told && pthread_equal(thread->self, pthread_self());
    thread->orphaned = itself;
    pthread_cond_broadcast(&thread->changed);
    pthread_mutex_unlock(&thread->lock);
    Py_XDECREF(name);
    Py_XDECREF(loop);
    if (itself) {
        return;
    }
    PyThreadState *state = PyEval_SaveThread();
    pthread_mutex_lock(&thread->lock);
    aya_wake_signal(&thread->context->wake);
    while (!thread->ended) {
        pthread_cond_wait(&thread->changed, &thread->lock);
    }
    pthread_mutex_unlock(&thread->lock);
    PyEval_RestoreThread(state);
    free_memory(thread);
}
