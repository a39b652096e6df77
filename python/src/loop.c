/* LoopState: the meeting of an event loop and a context. Runs in the loop's thread with the GIL.
 *
 * The loop watches the context's descriptors; one callback reaps and delivers. Delivery runs
 * tasks directly, each in its own context (contextvars), until the turn's budget is used; what
 * is left comes in the loop's next turn.
 */
#include "guard.h"
#include "loop.h"
#include "loop_thread.h"

#include <structmember.h>

#ifndef Py_READONLY
#define Py_READONLY READONLY
#define Py_T_PYSSIZET T_PYSSIZET
#endif

/* The longest that one turn of the loop is held by operations that finish inline or are
 * delivered. */
#ifndef TURN_BUDGET_NS
#define TURN_BUDGET_NS 500000
#endif
/* Operations of one callback that never park: else ten thousand tasks with one read each all
 * would. */
#define EXEMPT 2
/* As many started operations are handed over at once: a whole turn's would leave the disk idle. To
 * hand over to the pool costs more, and its threads want the processor that this one uses. */
#define SUBMIT_AT 8
#define SUBMIT_AT_POOL 32

/* The state that this thread used last, and when that was; valid as long as no state has gone
 * since. */
static _Thread_local struct {
    aya_module *module;
    PyThreadState *thread;
    uint64_t callback;
    LoopState *state;
    uint64_t epoch;
} current;
static uint64_t epoch;

PyObject *
aya_running_loop(aya_module *module)
{
    PyObject *loop = PyObject_CallNoArgs(module->get_running_loop);

    if (loop == NULL) {
        PyErr_Clear();
        return NULL;
    }
    if (loop == Py_None) {
        Py_DECREF(loop);
        return NULL;
    }
    return loop;
}

/* A number that differs from one callback of the loop to the next. */
static uint64_t
callback_mark(const PyThreadState *thread)
{
    /* Every Context.run() changes it; the loop runs each callback by one. */
    return thread->context_ver;
}

/* -- callbacks --------------------------------------------------------------------------------- */

static PyObject *
method_of(LoopState *state, PyMethodDef *definition)
{
    return PyCFunction_New(definition, (PyObject *)state);
}

static int
call_soon(LoopState *state, PyObject *loop, PyMethodDef *definition)
{
    PyObject *callback = method_of(state, definition);

    if (callback == NULL) {
        return -1;
    }
    PyObject *arguments[] = {loop, callback};
    PyObject *handle = PyObject_VectorcallMethod(state->module->str_call_soon, arguments, 2, NULL);
    Py_DECREF(callback);
    if (handle == NULL) {
        return -1;
    }
    Py_DECREF(handle);
    return 0;
}

static int
submit(LoopState *state)
{
    state->queued = 0;
    int error = state->context == NULL ? 0 : aya_context_submit(state->context);
    if (error < 0) {
        aya_raise(state->module, error, NULL);
        return -1;
    }
    return 0;
}

static PyObject *
on_submit(PyObject *self, PyObject *unused)
{
    LoopState *state = (LoopState *)self;

    (void)unused;
    state->submit_scheduled = false;
    if (submit(state) < 0) {
        return NULL;
    }
    Py_RETURN_NONE;
}

static PyMethodDef submit_definition = {"_ayafileio_submit", on_submit, METH_NOARGS, NULL};

static int schedule_delivery(LoopState *state);

static Operation *
take_ready(LoopState *state)
{
    Operation *operation = state->ready_head;

    state->ready_head = operation->next_ready;
    if (state->ready_head == NULL) {
        state->ready_tail = NULL;
    }
    operation->next_ready = NULL;
    return operation;
}

static void
put_back(LoopState *state, Operation *operation)
{
    operation->next_ready = state->ready_head;
    state->ready_head = operation;
    if (operation->next_ready == NULL) {
        state->ready_tail = operation;
    }
}

/* Delivers what is ready, in order, for one budget. */
static int
deliver(LoopState *state)
{
    int64_t end;
    int status = 0;

    if (state->delivering || state->ready_head == NULL) {
        return 0;
    }
    Py_INCREF(state);
    state->delivering = true;
    end = aya_now_ns() + TURN_BUDGET_NS;
    while (state->ready_head != NULL && status == 0) {
        Operation *operation;
        AYA_GUARD((PyObject *)state);
        operation = take_ready(state);
        AYA_UNGUARD();
        state->turn_began_ns = aya_now_ns();
        state->callback_inline = 0;
        if (state->turn_began_ns > end) {
            AYA_GUARD((PyObject *)state);
            put_back(state, operation);
            AYA_UNGUARD();
            break;
        }
        /* A task that is woken here gets a fifth of the turn, the last one what is left of it. */
        int64_t share = end - state->turn_began_ns;
        share = share > TURN_BUDGET_NS / 5 ? TURN_BUDGET_NS / 5 : share;
        state->turn_began_ns -= TURN_BUDGET_NS - share;
        status = aya_operation_deliver(operation);
        Py_DECREF(operation);
    }
    state->delivering = false;
    if (status == 0 && state->queued > 0) {
        status = submit(state);
    }
    if (state->ready_head != NULL) {
        PyObject *type, *value, *traceback;
        PyErr_Fetch(&type, &value, &traceback);
        if (schedule_delivery(state) < 0 && type != NULL) {
            PyErr_Clear();
        }
        if (type != NULL) {
            PyErr_Restore(type, value, traceback);
        }
    }
    Py_DECREF(state);
    return status;
}

static PyObject *
on_deliver(PyObject *self, PyObject *unused)
{
    LoopState *state = (LoopState *)self;

    (void)unused;
    state->deliver_scheduled = false;
    if (deliver(state) < 0) {
        return NULL;
    }
    Py_RETURN_NONE;
}

static PyMethodDef deliver_definition = {"_ayafileio_deliver", on_deliver, METH_NOARGS, NULL};

static int
schedule_delivery(LoopState *state)
{
    if (state->deliver_scheduled) {
        return 0;
    }
    state->deliver_scheduled = true;
    return call_soon(state, state->loop, &deliver_definition);
}

static PyObject *
on_readable(PyObject *self, PyObject *unused)
{
    LoopState *state = (LoopState *)self;

    (void)unused;
    if (state->context == NULL) {
        Py_RETURN_NONE;
    }
    Py_INCREF(state);
    state->reaping = true;
    aya_context_reap(state->context);
    state->reaping = false;
    if (state->thread != NULL) {
        aya_loop_thread_go_on(state->thread);
    }
    int status = deliver(state);
    Py_DECREF(state);
    if (status < 0) {
        return NULL;
    }
    Py_RETURN_NONE;
}

static PyMethodDef readable_definition = {"_ayafileio_readable", on_readable, METH_NOARGS, NULL};

/* -- use --------------------------------------------------------------------------------------- */

int
aya_loop_started(LoopState *state, PyObject *loop)
{
    state->queued++;
    if (state->queued >= SUBMIT_AT_POOL
        || (state->queued >= SUBMIT_AT && aya_context_queued_for_backend(state->context))) {
        return submit(state);
    }
    if (state->delivering || state->submit_scheduled) {
        return 0;
    }
    state->submit_scheduled = true;
    return call_soon(state, loop, &submit_definition);
}

int
aya_loop_ready(LoopState *state, Operation *operation)
{
    Py_INCREF(operation);
    operation->next_ready = NULL;
    AYA_GUARD((PyObject *)state);
    if (state->ready_tail == NULL) {
        state->ready_head = operation;
    } else {
        state->ready_tail->next_ready = operation;
    }
    state->ready_tail = operation;
    AYA_UNGUARD();
    if (state->context == NULL || state->delivering || state->reaping) {
        return 0;
    }
    return schedule_delivery(state);
}

bool
aya_loop_must_park(LoopState *state)
{
    uint64_t mark = callback_mark(PyThreadState_Get());

    if (mark != state->callback_mark) {
        state->callback_mark = mark;
        state->callback_inline = 0;
    }
    if (++state->callback_inline <= EXEMPT) {
        return false;
    }
    int64_t now = aya_now_ns();
    if (state->callback_inline == EXEMPT + 1 && !state->delivering
        && now - state->turn_began_ns > 2 * TURN_BUDGET_NS) {
        /* Nothing tells when a turn begins: so a stretch without operations ends one. */
        state->turn_began_ns = now;
    }
    return now - state->turn_began_ns > TURN_BUDGET_NS;
}

/* What a weak reference refers to, or NULL; a new reference. */
static PyObject *
referent(PyObject *reference)
{
    PyObject *object;
#if PY_VERSION_HEX >= 0x030d0000
    if (PyWeakref_GetRef(reference, &object) < 0) {
        PyErr_Clear();
    }
#else
    object = PyWeakref_GET_OBJECT(reference);
    object = object == Py_None ? NULL : Py_NewRef(object);
#endif
    return object;
}

/* Whether the state is `loop`'s, and not that of one that lay at the same address. */
static bool
is_state_of(LoopState *state, aya_module *module, PyObject *loop)
{
    if (state->loop != loop || state->module != module) {
        return false;
    }
    PyObject *alive = referent(state->loop_ref);
    Py_XDECREF(alive);
    return alive == loop;
}

/* -- life -------------------------------------------------------------------------------------- */

/* The loop has nothing to watch, or no way to: a thread waits. */
static int
start_thread(LoopState *state, PyObject *loop)
{
    PyObject *callback = method_of(state, &readable_definition);

    if (callback == NULL) {
        return -1;
    }
    state->thread = aya_loop_thread_start(state->module, state->context, loop, callback);
    Py_DECREF(callback);
    return state->thread == NULL ? -1 : 0;
}

static void
stop_thread(LoopState *state)
{
    struct aya_loop_thread *thread = state->thread;

    if (thread != NULL) {
        state->thread = NULL;
        aya_loop_thread_stop(thread);
    }
}

static int
watch(LoopState *state, PyObject *loop, bool add)
{
    int descriptors[AYA_DESCRIPTOR_MAX];
    int count = aya_context_descriptors(state->context, descriptors);

    if (add && count == 0) {
        return start_thread(state, loop);
    }
    if (!add && state->thread != NULL) {
        stop_thread(state);
        return 0;
    }
    for (int i = 0; i < count; i++) {
        PyObject *callback = add ? method_of(state, &readable_definition) : NULL;
        if (add && callback == NULL) {
            return -1;
        }
        PyObject *done =
            add ? PyObject_CallMethod(loop, "add_reader", "iO", descriptors[i], callback)
                : PyObject_CallMethod(loop, "remove_reader", "i", descriptors[i]);
        Py_XDECREF(callback);
        if (done == NULL && add && i == 0 && PyErr_ExceptionMatches(PyExc_NotImplementedError)) {
            PyErr_Clear();
            return start_thread(state, loop);
        }
        if (done == NULL) {
            return -1;
        }
        Py_DECREF(done);
    }
    return 0;
}

static void
unlink_state(LoopState *state)
{
    AYA_LOCK(state->module);
    if (state->previous != NULL) {
        state->previous->next = state->next;
    } else if (state->module->loops == state) {
        state->module->loops = state->next;
    }
    if (state->next != NULL) {
        state->next->previous = state->previous;
    }
    state->next = state->previous = NULL;
    AYA_UNLOCK(state->module);
}

static void
link_state(LoopState *state)
{
    aya_module *module = state->module;

    AYA_LOCK(module);
    state->next = module->loops;
    if (module->loops != NULL) {
        module->loops->previous = state;
    }
    module->loops = state;
    AYA_UNLOCK(module);
}

/* All states, as a list; who walks through it runs anybody's code, which may end any of them. */
static PyObject *
all_states(aya_module *module)
{
    PyObject *list = PyList_New(0);
    int status = list == NULL ? -1 : 0;

    AYA_LOCK(module);
    for (LoopState *state = module->loops; state != NULL && status == 0; state = state->next) {
        PyObject *alive = referent(state->self_ref);
        if (alive != NULL) {
            status = PyList_Append(list, alive);
            Py_DECREF(alive); /* not the last: the list has it, or else memory is at its end */
        }
    }
    AYA_UNLOCK(module);
    if (status < 0) {
        Py_CLEAR(list);
    }
    return list;
}

static void
release_context(LoopState *state)
{
    aya_context *context;

    AYA_LOCK(state->module);
    context = state->context;
    state->context = NULL;
    for (int i = 0; context != NULL && i < AYA_ROUTE_COUNT; i++) {
        state->module->ended_routes[i] += aya_context_routes(context)[i];
    }
    AYA_UNLOCK(state->module);
    if (context == NULL) {
        return;
    }
    while (state->timed_first != NULL) {
        aya_deadline_drop(state->timed_first);
    }
    stop_thread(state);
    aya_context_destroy(context);
    aya_results_drop(&state->module->results);
}

static int
make_context(LoopState *state, PyObject *loop)
{
    AYA_LOCK(state->module);
    aya_config config = state->module->config;
    AYA_UNLOCK(state->module);
    int error = aya_context_create(&config, &state->context);

    if (error < 0) {
        aya_raise(state->module, error, NULL);
        return -1;
    }
    if (watch(state, loop, true) < 0) {
        release_context(state);
        return -1;
    }
    return 0;
}

/* In a child of a fork the parent's context must not be used: closes it and makes another. */
static int
renew_context(LoopState *state, PyObject *loop)
{
    if (state->context != NULL) {
        if (watch(state, loop, false) < 0) {
            PyErr_Clear();
        }
        release_context(state);
    }
    state->queued = 0;
    state->submit_scheduled = state->deliver_scheduled = false;
    return make_context(state, loop);
}

static void
set_current(LoopState *state)
{
    current.module = state->module;
    current.thread = PyThreadState_Get();
    current.callback = callback_mark(current.thread);
    current.state = state;
    current.epoch = __atomic_load_n(&epoch, __ATOMIC_ACQUIRE);
}

static bool
is_usable(const LoopState *state)
{
    return state->context != NULL
           && aya_context_generation(state->context) == aya_fork_generation();
}

#if AYA_FREE_THREADED
/* `current` cannot be looked at where another thread may free the state: the thread's own
 * dictionary has a weak reference. */
static LoopState *
state_known_here(aya_module *module, PyObject *loop)
{
    PyObject *dict = PyThreadState_GetDict(), *reference = NULL;

    if (dict == NULL || PyDict_GetItemRef(dict, (PyObject *)module->loop_type, &reference) <= 0) {
        PyErr_Clear();
        return NULL;
    }
    LoopState *state = (LoopState *)referent(reference);
    Py_DECREF(reference);
    if (state != NULL && !is_state_of(state, module, loop)) {
        Py_CLEAR(state);
    }
    return state;
}

static void
make_known_here(LoopState *state)
{
    PyObject *dict = PyThreadState_GetDict();

    if (dict != NULL
        && PyDict_SetItem(dict, (PyObject *)state->module->loop_type, state->self_ref) < 0) {
        PyErr_Clear();
    }
}
#else
static LoopState *
state_known_here(aya_module *module, PyObject *loop)
{
    LoopState *state = current.state;

    if (current.epoch != __atomic_load_n(&epoch, __ATOMIC_ACQUIRE) || state == NULL
        || !is_state_of(state, module, loop)) {
        return NULL;
    }
    return (LoopState *)Py_NewRef((PyObject *)state);
}

static void
make_known_here(LoopState *Py_UNUSED(state))
{
}
#endif

/* The state of the loop; *state is NULL where it has none. New references. 0 or -1. */
static int
find_state(aya_module *module, PyObject *loop, LoopState **state)
{
    *state = state_known_here(module, loop);
    if (*state != NULL) {
        return 0;
    }
    PyObject *states = all_states(module);
    if (states == NULL) {
        return -1;
    }
    for (Py_ssize_t i = 0; *state == NULL && i < PyList_GET_SIZE(states); i++) {
        LoopState *one = (LoopState *)PyList_GET_ITEM(states, i);
        if (is_state_of(one, module, loop)) {
            *state = (LoopState *)Py_NewRef((PyObject *)one);
            make_known_here(one);
        }
    }
    Py_DECREF(states);
    return 0;
}

static LoopState *
new_state(aya_module *module, PyObject *loop)
{
    LoopState *state = PyObject_New(LoopState, module->loop_type);

    if (state == NULL) {
        return NULL;
    }
    memset((char *)state + sizeof(PyObject), 0, sizeof(*state) - sizeof(PyObject));
    state->module = module;
    state->loop = loop;
    state->loop_ref = PyWeakref_NewRef(loop, NULL);
    state->self_ref = PyWeakref_NewRef((PyObject *)state, NULL);
    if (state->loop_ref == NULL || state->self_ref == NULL || make_context(state, loop) < 0) {
        Py_DECREF(state);
        return NULL;
    }
    link_state(state);
    make_known_here(state);
    return state;
}

static LoopState *
state_of_loop(aya_module *module, PyObject *loop)
{
    LoopState *state;

    if (find_state(module, loop, &state) < 0) {
        return NULL;
    }
    if (state == NULL) {
        if (aya_loops_sweep(module) < 0) {
            return NULL;
        }
        state = new_state(module, loop);
        if (state == NULL) {
            return NULL;
        }
    }
    set_current(state);
    if (!is_usable(state) && renew_context(state, loop) < 0) {
        Py_DECREF(state);
        return NULL;
    }
    return state;
}

int
aya_loop_here(aya_module *module, PyObject **loop, LoopState **state)
{
    PyThreadState *thread = PyThreadState_Get();

    /* Within one callback of a loop the running loop is the same one. */
    if (current.module == module && current.thread == thread
        && current.callback == callback_mark(thread)
        && current.epoch == __atomic_load_n(&epoch, __ATOMIC_ACQUIRE) && is_usable(current.state)) {
        *state = (LoopState *)Py_NewRef((PyObject *)current.state);
        *loop = Py_NewRef(current.state->loop);
        return 0;
    }
    *state = NULL;
    *loop = aya_running_loop(module);
    if (*loop == NULL) {
        return 0;
    }
    *state = state_of_loop(module, *loop);
    if (*state == NULL) {
        Py_CLEAR(*loop);
        return -1;
    }
    return 0;
}

/* Whether nobody will run the state's loop again; -1 with an exception. */
static int
is_over(LoopState *state)
{
    PyObject *loop = referent(state->loop_ref);

    if (loop == NULL) {
        return 1;
    }
    PyObject *closed = PyObject_CallMethodNoArgs(loop, state->module->str_is_closed);
    Py_DECREF(loop);
    if (closed == NULL) {
        return -1;
    }
    int over = PyObject_IsTrue(closed);
    Py_DECREF(closed);
    return over;
}

/* A thread that still uses operations of a loop that it has closed must not find its context ended
 * by another. */
static bool
is_to_sweep(LoopState *state)
{
    bool own = true;

    if (AYA_FREE_THREADED) {
        AYA_LOCK(state->module);
        own = state->context == NULL || aya_context_is_own(state->context);
        AYA_UNLOCK(state->module);
    }
    return own;
}

int
aya_loops_sweep(aya_module *module)
{
    PyObject *states = all_states(module);
    int over = states == NULL ? -1 : 0;

    for (Py_ssize_t i = 0; over >= 0 && i < PyList_GET_SIZE(states); i++) {
        LoopState *state = (LoopState *)PyList_GET_ITEM(states, i);
        over = is_to_sweep(state) ? is_over(state) : 0;
        if (over == 1) {
            unlink_state(state);
            release_context(state);
        }
    }
    Py_XDECREF(states);
    return over < 0 ? -1 : 0;
}

void
aya_loops_end(aya_module *module)
{
    PyObject *states = all_states(module);

    if (states == NULL) {
        PyErr_WriteUnraisable(NULL);
        return;
    }
    for (Py_ssize_t i = 0; i < PyList_GET_SIZE(states); i++) {
        unlink_state((LoopState *)PyList_GET_ITEM(states, i));
        release_context((LoopState *)PyList_GET_ITEM(states, i));
    }
    Py_DECREF(states);
}

void
aya_loops_stats(PyObject *module, uint64_t routes[AYA_ROUTE_COUNT], size_t *contexts,
                size_t *pending)
{
    aya_module *state = aya_module_state(module);

    AYA_LOCK(state);
    *contexts = *pending = 0;
    for (int i = 0; i < AYA_ROUTE_COUNT; i++) {
        routes[i] = state->ended_routes[i];
    }
    for (LoopState *loop = state->loops; loop != NULL; loop = loop->next) {
        if (loop->context == NULL) {
            continue;
        }
        *contexts += 1;
        *pending += aya_context_pending(loop->context);
        for (int i = 0; i < AYA_ROUTE_COUNT; i++) {
            routes[i] += aya_context_routes(loop->context)[i];
        }
    }
    AYA_UNLOCK(state);
}

static void
loop_dealloc(PyObject *self)
{
    LoopState *state = (LoopState *)self;
    PyTypeObject *type = Py_TYPE(self);

    __atomic_add_fetch(&epoch, 1, __ATOMIC_RELEASE);
    unlink_state(state);
    release_context(state);
    while (state->ready_head != NULL) {
        Py_DECREF(take_ready(state));
    }
    if (state->weak_references != NULL) {
        PyObject_ClearWeakRefs(self);
    }
    Py_XDECREF(state->self_ref);
    Py_XDECREF(state->loop_ref);
    PyObject_Free(self);
    Py_DECREF(type);
}

static PyMemberDef loop_members[] = {
    {"__weaklistoffset__", Py_T_PYSSIZET, offsetof(LoopState, weak_references), Py_READONLY, NULL},
    {NULL, 0, 0, 0, NULL},
};

static PyType_Slot loop_slots[] = {
    {Py_tp_dealloc, loop_dealloc},
    {Py_tp_members, loop_members},
    {0, NULL},
};

static PyType_Spec loop_spec = {
    .name = "ayafileio._ayafileio.LoopState",
    .basicsize = sizeof(LoopState),
    .flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_DISALLOW_INSTANTIATION,
    .slots = loop_slots,
};

int
aya_loop_add_type(PyObject *module, aya_module *state)
{
    state->loop_type = (PyTypeObject *)PyType_FromModuleAndSpec(module, &loop_spec, NULL);
    return state->loop_type == NULL ? -1 : 0;
}
