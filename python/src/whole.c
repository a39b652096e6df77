/* A whole file in one operation: opened, read to its end and closed by a command of a file that
 * nobody sees. Whoever gives the operation up lets go of that file, which then closes by itself.
 */
#include "binary.h"
#include "core.h"
#include "module.h"
#include "system.h"

enum { PHASE_READ, PHASE_CLOSE };

/* The bytes, or the error, are there: they stay with the operation while the file closes. */
static void
begin_close(Operation *operation, aya_step outcome)
{
    aya_core *core = operation->file->core;

    if (outcome == AYA_STEP_FAILED) {
        operation->command.extra = aya_take_exception();
    }
    core->last_read = NULL;
    core->closing = true;
    operation->command.phase = PHASE_CLOSE;
    operation->command.undo = NULL;
    aya_command_goes_on(operation);
}

/* command: phase; extra the read's exception, kept over the close; the rest is the read's. */
static aya_step
step_whole(Operation *operation)
{
    aya_core *core = operation->file->core;
    int64_t result;

    if (operation->command.phase == PHASE_READ) {
        if (aya_core_check(core) < 0) {
            return AYA_STEP_FAILED;
        }
        aya_step outcome = aya_binary_step_read(operation);
        if (outcome == AYA_STEP_PENDING) {
            return outcome;
        }
        begin_close(operation, outcome);
    }
    result = aya_stream_close(&core->stream);
    if (result == AYA_PENDING) {
        return AYA_STEP_PENDING;
    }
    core->state = AYA_CORE_CLOSED;
    aya_system_closed(core);
    if (operation->command.extra != NULL) {
        PyErr_SetObject((PyObject *)Py_TYPE(operation->command.extra), operation->command.extra);
        return AYA_STEP_FAILED;
    }
    return result < 0 ? aya_step_error(operation, result) : AYA_STEP_DONE;
}

PyObject *
aya_whole_read(aya_module *module, PyObject *path)
{
    AsyncFile *file = (AsyncFile *)aya_file_open(module->file_type, &path, 1, NULL);

    if (file == NULL) {
        return NULL;
    }
    file->warn = false;
    Operation *operation = aya_binary_new_read(file, "read_bytes", step_whole);
    Py_DECREF((PyObject *)file);
    if (operation == NULL) {
        return NULL;
    }
    operation->command.number[0] = -1;
    operation->command.ends_open = true;
    return aya_command_begin(operation);
}
