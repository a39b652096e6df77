/* Deadlines of commands: close() gives up after close_timeout_ms. Runs in the loop's thread.
 *
 * A loop has one timer for all of them, armed for the first deadline: a timer of its own would
 * cost a close more than all else. A command that ends in time only leaves the list.
 */
#include "loop.h"

static void
unlink_timed(LoopState *state, Operation *operation)
{
    aya_command *command = &operation->command;

    if (command->timed_before != NULL) {
        command->timed_before->command.timed_after = command->timed_after;
    } else {
        state->timed_first = command->timed_after;
    }
    if (command->timed_after != NULL) {
        command->timed_after->command.timed_before = command->timed_before;
    } else {
        state->timed_last = command->timed_before;
    }
    command->timed_before = command->timed_after = NULL;
    command->deadline_ns = 0;
}

static int arm(LoopState *state);

static PyObject *
on_timer(PyObject *self, PyObject *Py_UNUSED(unused))
{
    LoopState *state = (LoopState *)self;
    int64_t now = aya_now_ns();

    state->armed_for = 0;
    while (state->timed_first != NULL && state->timed_first->command.deadline_ns <= now) {
        Operation *operation = state->timed_first;
        void (*expire)(Operation *) = operation->command.expire;
        unlink_timed(state, operation);
        expire(operation);
        Py_DECREF(operation);
    }
    if (arm(state) < 0) {
        return NULL;
    }
    Py_RETURN_NONE;
}

static PyMethodDef timer_definition = {"_ayafileio_deadline", on_timer, METH_NOARGS, NULL};

/* Has the loop call on_timer() at the first deadline, unless it will before. */
static int
arm(LoopState *state)
{
    if (state->timed_first == NULL) {
        return 0;
    }
    int64_t first = state->timed_first->command.deadline_ns;
    if (state->armed_for != 0 && state->armed_for <= first) {
        return 0;
    }
    PyObject *callback = PyCFunction_New(&timer_definition, (PyObject *)state);
    if (callback == NULL) {
        return -1;
    }
    int64_t left = first - aya_now_ns();
    PyObject *handle = PyObject_CallMethod(state->loop, "call_later", "dO",
                                           left > 0 ? (double)left / 1e9 : 0.0, callback);
    Py_DECREF(callback);
    if (handle == NULL) {
        return -1;
    }
    Py_DECREF(handle);
    state->armed_for = first;
    return 0;
}

int
aya_deadline_set(Operation *operation, int64_t after_ms, void (*expire)(Operation *operation))
{
    LoopState *state = operation->loop_state;
    aya_command *command = &operation->command;
    Operation *before = state->timed_last;

    command->deadline_ns = aya_now_ns() + after_ms * 1000000;
    command->expire = expire;
    while (before != NULL && before->command.deadline_ns > command->deadline_ns) {
        before = before->command.timed_before;
    }
    command->timed_before = before;
    command->timed_after = before == NULL ? state->timed_first : before->command.timed_after;
    *(before == NULL ? &state->timed_first : &before->command.timed_after) = operation;
    *(command->timed_after == NULL ? &state->timed_last
                                   : &command->timed_after->command.timed_before) = operation;
    Py_INCREF(operation);
    return arm(state);
}

void
aya_deadline_drop(Operation *operation)
{
    if (operation->command.deadline_ns != 0) {
        unlink_timed(operation->loop_state, operation);
        Py_DECREF(operation);
    }
}
