/* Commands of binary files: reading, writing and moving about in bytes. Step functions over the
 * stream; what an argument means stands at the maker of each command.
 */
#include "binary.h"
#include "module.h"

#include <string.h>

/* The largest result that is made room for before anything was read. */
#define GUESS_MOST ((int64_t)16 << 20)
/* A larger result gets no more room than the file seems to have: memory of such a size that is
 * given back unused is given back to the system. */
#define TRUST_MOST ((int64_t)256 << 10)
#define GUESS_LEAST 4096

static aya_stream *
stream_of(Operation *operation)
{
    return &operation->file->core->stream;
}

/* A raw view and an unbuffered file give what one transfer gives. */
static bool
one_transfer(const Operation *operation)
{
    return operation->file->raw || operation->file->core->buffering == 0;
}

/* A shared stream gives all that was asked, or it has met the end of the file; to ask again would
 * change what its buffer holds. */
static bool
fell_short(Operation *operation, int64_t result, size_t asked)
{
    return stream_of(operation)->shared != NULL && (size_t)result < asked;
}

static aya_step
done_with(Operation *operation, PyObject *value)
{
    operation->result = value;
    return value == NULL ? AYA_STEP_FAILED : AYA_STEP_DONE;
}

/* The same for what was read: it can be given back until the next command. */
static aya_step
done_reading(Operation *operation, PyObject *value)
{
    operation->file->core->last_read = operation;
    return done_with(operation, value);
}

static aya_step
pending_or_error(Operation *operation, int64_t result)
{
    return result == AYA_PENDING ? AYA_STEP_PENDING : aya_step_error(operation, result);
}

static void
unread(Operation *operation, const void *data, size_t size)
{
    if (aya_stream_unread(stream_of(operation), data, size) < 0) {
        PyErr_NoMemory();
        PyErr_WriteUnraisable((PyObject *)operation);
    }
}

static void
undo_bytes(Operation *operation)
{
    aya_core *core = operation->file->core;

    if (core != NULL && core->last_read == operation && core->state == AYA_CORE_OPEN) {
        unread(operation, PyBytes_AS_STRING(operation->result),
               (size_t)PyBytes_GET_SIZE(operation->result));
        core->last_read = NULL;
    }
}

static Operation *
new_read(AsyncFile *file, const char *name, aya_step_function step)
{
    Operation *operation = aya_command_new(file, name, step, AYA_COMMAND_ABORT);

    if (operation != NULL) {
        operation->command.undo = undo_bytes;
    }
    return operation;
}

/* -- read -------------------------------------------------------------------------------------- */

/* command: number[0] bytes wanted (-1: all), object the bytes being filled, done how many it
 * has. */

static int64_t
first_room(Operation *operation)
{
    int64_t wanted = operation->command.number[0], guess = GUESS_LEAST, size;

    if (wanted >= 0 && (wanted <= TRUST_MOST || stream_of(operation)->shared != NULL)) {
        return wanted < GUESS_MOST ? wanted : GUESS_MOST;
    }
    size = aya_file_size_hint(&stream_of(operation)->file) - stream_of(operation)->position;
    if (size >= guess) {
        guess = size < GUESS_MOST * 4 ? size + 1 : GUESS_MOST * 4;
    }
    return wanted >= 0 && guess > wanted ? wanted : guess;
}

static int
make_room(Operation *operation)
{
    aya_command *command = &operation->command;
    int64_t wanted = command->number[0], room;

    if (command->object == NULL) {
        command->object = aya_bytes_for_read(operation->module, first_room(operation));
        return command->object == NULL ? -1 : 0;
    }
    room = PyBytes_GET_SIZE(command->object);
    if (command->done < (size_t)room) {
        return 0;
    }
    room = room < GUESS_LEAST ? GUESS_LEAST : room * 2;
    if (wanted >= 0 && room > wanted) {
        room = wanted;
    }
    return _PyBytes_Resize(&command->object, (Py_ssize_t)room);
}

static void
give_up_read(Operation *operation)
{
    if (operation->command.done > 0) {
        unread(operation, PyBytes_AS_STRING(operation->command.object), operation->command.done);
    }
}

static aya_step
end_read(Operation *operation)
{
    PyObject *bytes = operation->command.object;

    operation->command.object = NULL;
    return done_reading(operation,
                        aya_bytes_of_read(operation->module, bytes, operation->command.done));
}

aya_step
aya_binary_step_read(Operation *operation)
{
    aya_command *command = &operation->command;
    int64_t wanted = command->number[0], result;

    if (aya_file_check_readable(operation->file) < 0) {
        return AYA_STEP_FAILED;
    }
    while (wanted < 0 || command->done < (size_t)wanted || command->object == NULL) {
        if (make_room(operation) < 0) {
            return AYA_STEP_FAILED;
        }
        size_t room = (size_t)PyBytes_GET_SIZE(command->object) - command->done;
        if (room == 0) {
            break;
        }
        result = aya_stream_read(stream_of(operation),
                                 wanted < 0 ? AYA_READING_REST : AYA_READING_SIZE,
                                 PyBytes_AS_STRING(command->object) + command->done, room);
        if (result < 0) {
            if (result != AYA_PENDING) {
                give_up_read(operation);
            }
            return pending_or_error(operation, result);
        }
        command->done += (size_t)result;
        if (result == 0 || stream_of(operation)->met_end
            || (wanted >= 0 && (one_transfer(operation)
                                            || fell_short(operation, result, room)))) {
            break;
        }
    }
    return end_read(operation);
}

Operation *
aya_binary_new_read(AsyncFile *file, const char *name, aya_step_function step)
{
    Operation *operation = new_read(file, name, step);

    if (operation != NULL) {
        operation->command.give_up = give_up_read;
    }
    return operation;
}

PyObject *
aya_binary_read(AsyncFile *file, const char *name, int64_t size)
{
    Operation *operation = aya_binary_new_read(file, name, aya_binary_step_read);

    if (operation == NULL) {
        return NULL;
    }
    operation->command.number[0] = size < 0 ? -1 : size;
    return aya_command_begin(operation);
}

/* -- read1, peek ------------------------------------------------------------------------------- */

/* command: number[0] most bytes (-1: a buffer full), number[1] whether they stay unread. */
static aya_step
step_window(Operation *operation)
{
    aya_stream *stream = stream_of(operation);
    int64_t most = operation->command.number[0], result;
    const char *data;
    size_t size;

    if (aya_file_check_readable(operation->file) < 0) {
        return AYA_STEP_FAILED;
    }
    if (most == 0 && !operation->command.number[1]) {
        return done_with(operation, PyBytes_FromStringAndSize(NULL, 0));
    }
    if (operation->command.number[1]) {
        result = aya_stream_peek(stream);
    } else if (most > (int64_t)stream->buffer_size || stream->shared != NULL) {
        size_t asked = most < 0 ? stream->buffer_size : (size_t)most;
        result = aya_stream_fill_most(stream, asked < (size_t)GUESS_MOST ? asked
                                                                         : (size_t)GUESS_MOST);
    } else {
        result = aya_stream_fill(stream);
    }
    if (result < 0) {
        return pending_or_error(operation, result);
    }
    size = aya_stream_window(stream, &data);
    if (operation->command.number[1]) {
        return done_with(operation, PyBytes_FromStringAndSize(data, (Py_ssize_t)size));
    }
    if (most >= 0 && size > (size_t)most) {
        size = (size_t)most;
    }
    PyObject *bytes = PyBytes_FromStringAndSize(data, (Py_ssize_t)size);
    if (bytes != NULL) {
        aya_stream_consume(stream, size);
    }
    return done_reading(operation, bytes);
}

PyObject *
aya_binary_read1(AsyncFile *file, int64_t size)
{
    Operation *operation = new_read(file, "read1", step_window);

    if (operation == NULL) {
        return NULL;
    }
    operation->command.number[0] = size;
    return aya_command_begin(operation);
}

PyObject *
aya_binary_peek(AsyncFile *file)
{
    Operation *operation = aya_command_new(file, "peek", step_window, AYA_COMMAND_ABORT);

    if (operation == NULL) {
        return NULL;
    }
    operation->command.number[1] = 1;
    return aya_command_begin(operation);
}

/* -- lines ------------------------------------------------------------------------------------- */

/* command: number[0] most bytes of a line (-1: no limit), memory the line's beginning from earlier
 * windows, done its length, size its room. */

static void
give_up_line(Operation *operation)
{
    if (operation->command.done > 0) {
        unread(operation, operation->command.memory, operation->command.done);
        operation->command.done = 0;
    }
}

static int
keep_beginning(aya_command *command, const char *data, size_t size)
{
    if (command->done + size > command->size) {
        size_t room = (command->done + size) * 2;
        void *memory = PyMem_Realloc(command->memory, room);
        if (memory == NULL) {
            PyErr_NoMemory();
            return -1;
        }
        command->memory = memory;
        command->size = room;
    }
    memcpy((char *)command->memory + command->done, data, size);
    command->done += size;
    return 0;
}

/* The beginning kept so far and data[0..size) as one line; it is consumed. */
static PyObject *
make_line(Operation *operation, const char *data, size_t size)
{
    aya_command *command = &operation->command;
    PyObject *line = PyBytes_FromStringAndSize(NULL, (Py_ssize_t)(command->done + size));

    if (line == NULL) {
        return NULL;
    }
    if (command->done > 0) {
        memcpy(PyBytes_AS_STRING(line), command->memory, command->done);
    }
    if (size > 0) {
        memcpy(PyBytes_AS_STRING(line) + command->done, data, size);
        aya_stream_consume(stream_of(operation), size);
    }
    command->done = 0;
    return line;
}

/* The next line, empty at end of file: AYA_STEP_DONE with *line, which is new. */
static aya_step
take_line(Operation *operation, PyObject **line)
{
    aya_command *command = &operation->command;
    aya_stream *stream = stream_of(operation);
    /* What cannot be put back must not be read past the line. */
    size_t block = stream->buffer_size == 0 && !stream->file.positioned ? 1 : 0;

    for (;;) {
        const char *data = NULL, *end;
        size_t size;
        int64_t limit = command->number[0];
        int64_t result = 0;
        if (limit < 0 || (int64_t)command->done < limit) {
            result = block == 0 ? aya_stream_fill(stream) : aya_stream_fill_most(stream, block);
        }
        if (result < 0) {
            if (result != AYA_PENDING) {
                give_up_line(operation);
            }
            return pending_or_error(operation, result);
        }
        size = result == 0 ? 0 : aya_stream_window(stream, &data);
        if (limit >= 0 && size > (size_t)limit - command->done) {
            size = (size_t)limit - command->done;
        }
        end = size == 0 ? NULL : memchr(data, '\n', size);
        if (end != NULL) {
            size = (size_t)(end - data) + 1;
        }
        if (end != NULL || size == 0) {
            *line = make_line(operation, data, size);
            return *line == NULL ? AYA_STEP_FAILED : AYA_STEP_DONE;
        }
        if (keep_beginning(command, data, size) < 0) {
            return AYA_STEP_FAILED;
        }
        aya_stream_consume(stream, size);
    }
}

/* An unbuffered file keeps nothing that was read ahead. */
static void
end_lines(Operation *operation)
{
    if (one_transfer(operation)) {
        aya_stream_drop(stream_of(operation));
    }
}

static aya_step
step_readline(Operation *operation)
{
    PyObject *line = NULL;
    aya_step outcome;

    if (aya_file_check_readable(operation->file) < 0) {
        return AYA_STEP_FAILED;
    }
    outcome = take_line(operation, &line);
    if (outcome != AYA_STEP_DONE) {
        return outcome;
    }
    end_lines(operation);
    if (operation->command.number[1] && PyBytes_GET_SIZE(line) == 0) {
        Py_DECREF(line);
        PyErr_SetNone(PyExc_StopAsyncIteration);
        return AYA_STEP_FAILED;
    }
    return done_reading(operation, line);
}

static PyObject *
begin_readline(AsyncFile *file, const char *name, int64_t size, bool iterates)
{
    Operation *operation = new_read(file, name, step_readline);

    if (operation == NULL) {
        return NULL;
    }
    operation->command.number[0] = size < 0 ? -1 : size;
    operation->command.number[1] = iterates;
    operation->command.give_up = give_up_line;
    return aya_command_begin(operation);
}

PyObject *
aya_binary_readline(AsyncFile *file, int64_t size)
{
    return begin_readline(file, "readline", size, false);
}

PyObject *
aya_binary_next(AsyncFile *file)
{
    return begin_readline(file, "__anext__", -1, true);
}

/* As take_line(), and: object the list of lines, number[1] their hint, number[2] their length so
 * far. */

static void
undo_lines(Operation *operation)
{
    PyObject *lines = operation->result != NULL ? operation->result : operation->command.object;
    PyObject *empty = PyBytes_FromStringAndSize(NULL, 0);
    PyObject *whole = empty == NULL || lines == NULL
                          ? NULL
                          : PyObject_CallMethod(empty, "join", "O", lines);

    Py_XDECREF(empty);
    if (whole == NULL) {
        PyErr_Clear();
        return;
    }
    if (operation->file->core != NULL && operation->file->core->state == AYA_CORE_OPEN) {
        unread(operation, PyBytes_AS_STRING(whole), (size_t)PyBytes_GET_SIZE(whole));
    }
    Py_DECREF(whole);
}

static void
undo_readlines(Operation *operation)
{
    if (operation->file->core != NULL && operation->file->core->last_read == operation) {
        undo_lines(operation);
    }
}

static void
give_up_lines(Operation *operation)
{
    give_up_line(operation);
    undo_lines(operation);
}

static aya_step
step_readlines(Operation *operation)
{
    aya_command *command = &operation->command;
    PyObject *line, *lines;

    if (aya_file_check_readable(operation->file) < 0) {
        return AYA_STEP_FAILED;
    }
    if (command->object == NULL && (command->object = PyList_New(0)) == NULL) {
        return AYA_STEP_FAILED;
    }
    for (;;) {
        aya_step outcome = take_line(operation, &line);
        if (outcome != AYA_STEP_DONE) {
            return outcome;
        }
        Py_ssize_t size = PyBytes_GET_SIZE(line);
        int failed = size > 0 && PyList_Append(command->object, line) < 0;
        Py_DECREF(line);
        if (failed) {
            return AYA_STEP_FAILED;
        }
        int64_t hint = command->number[1];
        if (size == 0 || (hint > 0 && size > hint - command->number[2])) {
            break;
        }
        command->number[2] += size;
    }
    end_lines(operation);
    lines = command->object;
    command->object = NULL;
    return done_reading(operation, lines);
}

PyObject *
aya_binary_readlines(AsyncFile *file, int64_t hint)
{
    Operation *operation = aya_command_new(file, "readlines", step_readlines, AYA_COMMAND_ABORT);

    if (operation == NULL) {
        return NULL;
    }
    operation->command.number[0] = -1;
    operation->command.number[1] = hint;
    operation->command.undo = undo_readlines;
    operation->command.give_up = give_up_lines;
    return aya_command_begin(operation);
}

/* -- readinto ---------------------------------------------------------------------------------- */

/* command: memory-less; number[0] the address, size its length, number[1] whether one transfer
 * will do. */

static void
give_up_into(Operation *operation)
{
    if (operation->command.done > 0) {
        unread(operation, (void *)(intptr_t)operation->command.number[0], operation->command.done);
        operation->command.done = 0;
    }
}

static void
undo_into(Operation *operation)
{
    if (operation->file->core != NULL && operation->file->core->last_read == operation
        && operation->file->core->state == AYA_CORE_OPEN && operation->file->core->seekable) {
        operation->file->core->stream.position -= (int64_t)operation->command.done;
        aya_stream_drop(stream_of(operation));
    }
}

static aya_step
step_readinto(Operation *operation)
{
    aya_command *command = &operation->command;
    char *data = (char *)(intptr_t)command->number[0];

    if (aya_file_check_readable(operation->file) < 0) {
        return AYA_STEP_FAILED;
    }
    while (command->done < command->size) {
        size_t room = command->size - command->done;
        int64_t result = aya_stream_read(stream_of(operation),
                                         command->number[1] ? AYA_READING_INTO_ONCE
                                                            : AYA_READING_INTO,
                                         data + command->done, room);
        if (result < 0) {
            if (result != AYA_PENDING) {
                give_up_into(operation);
            }
            return pending_or_error(operation, result);
        }
        command->done += (size_t)result;
        if (result == 0 || command->number[1] || one_transfer(operation)
            || fell_short(operation, result, room)) {
            break;
        }
    }
    return done_reading(operation, PyLong_FromSize_t(command->done));
}

PyObject *
aya_binary_readinto(AsyncFile *file, PyObject *buffer, bool once)
{
    Operation *operation = aya_command_new(file, once ? "readinto1" : "readinto", step_readinto,
                                           AYA_COMMAND_ABORT_WAIT);
    void *data;

    if (operation == NULL) {
        return NULL;
    }
    if (aya_take_bytes_out(operation, buffer, "buffer", &data, &operation->command.size) < 0) {
        return aya_operation_refused(operation);
    }
    operation->command.number[0] = (int64_t)(intptr_t)data;
    operation->command.number[1] = once;
    operation->command.undo = undo_into;
    operation->command.give_up = give_up_into;
    return aya_command_begin(operation);
}

/* -- write ------------------------------------------------------------------------------------- */

/* command: number[0] the address, size its length, number[1] whether it may change, number[2] bytes
 * of earlier items; operation->held keeps the memory. */

/* What a failed command had given is not kept: its caller is told that it failed. */
static int64_t
withdraw_failed(Operation *operation, int64_t result)
{
    const aya_command *command = &operation->command;

    if (result < 0 && result != AYA_PENDING) {
        aya_stream_withdraw(stream_of(operation), (size_t)command->number[2] + command->done);
    }
    return result;
}

/* What the stream may keep instead of copying it. A view of more than a buffer full is written from
 * where it lies, and its call waits. */
static PyObject *
owner_of(Operation *operation)
{
    const aya_command *command = &operation->command;

    if (command->number[1] || (command->size > stream_of(operation)->buffer_size
                               && !PyBytes_CheckExact(operation->held))) {
        return NULL;
    }
    return operation->held;
}

static int64_t
write_some(Operation *operation)
{
    aya_command *command = &operation->command;
    int64_t result = aya_stream_write(stream_of(operation),
                                      (const void *)(intptr_t)command->number[0], command->size,
                                      owner_of(operation), &command->done);

    return withdraw_failed(operation, result);
}

/* A command of many items that are larger than the buffer learns by itself whether they arrived. */
static int64_t
arrived(Operation *operation, size_t size)
{
    aya_stream *stream = stream_of(operation);

    return size <= stream->buffer_size ? 0
                                       : withdraw_failed(operation, aya_stream_arrived(stream));
}

static aya_step
step_write(Operation *operation)
{
    int64_t result;

    if (aya_file_check_writable(operation->file) < 0) {
        return AYA_STEP_FAILED;
    }
    result = write_some(operation);
    if (result < 0) {
        return pending_or_error(operation, result);
    }
    return done_with(operation, PyLong_FromSize_t(operation->command.size));
}

static int
take_data(Operation *operation, PyObject *data)
{
    const void *memory;
    bool is_mutable = false;

    Py_CLEAR(operation->held);
    if (aya_operation_view(operation, data, &memory, &operation->command.size, &is_mutable) < 0) {
        return -1;
    }
    operation->command.number[1] = is_mutable;
    operation->command.number[0] = (int64_t)(intptr_t)memory;
    operation->command.done = 0;
    return 0;
}

PyObject *
aya_binary_write(AsyncFile *file, PyObject *data)
{
    Operation *operation = aya_command_new(file, "write", step_write, AYA_COMMAND_GO_ON);

    if (operation == NULL) {
        return NULL;
    }
    if (PyBytes_CheckExact(data) && aya_command_is_first(operation) && file->core->writable
        && aya_stream_accept(stream_of(operation), PyBytes_AS_STRING(data),
                             (size_t)PyBytes_GET_SIZE(data))) {
        return aya_command_ended(operation, PyLong_FromSsize_t(PyBytes_GET_SIZE(data)));
    }
    if (take_data(operation, data) < 0) {
        return aya_operation_refused(operation);
    }
    if (operation->command.number[1]) {
        operation->command.cancel = AYA_COMMAND_GO_ON_WAIT;
    }
    return aya_command_begin(operation);
}

/* As step_write(), and: object the iterator, phase 1 while an item is being written, 2 behind
 * the last. */
static aya_step
step_writelines(Operation *operation)
{
    aya_command *command = &operation->command;
    int64_t result;

    if (aya_file_check_writable(operation->file) < 0) {
        return AYA_STEP_FAILED;
    }
    while (command->phase != 2) {
        if (command->phase == 0) {
            PyObject *item = PyIter_Next(command->object);
            if (item == NULL && PyErr_Occurred()) {
                return AYA_STEP_FAILED;
            }
            if (item == NULL) {
                command->phase = 2;
                command->done = 0;
                break;
            }
            int taken = take_data(operation, item);
            Py_DECREF(item);
            if (taken < 0) {
                return AYA_STEP_FAILED;
            }
            command->phase = 1;
        }
        result = write_some(operation);
        if (result < 0) {
            return pending_or_error(operation, result);
        }
        command->phase = 0;
        command->number[2] += (int64_t)command->size;
    }
    result = arrived(operation, (size_t)command->number[2]);
    if (result < 0) {
        return pending_or_error(operation, result);
    }
    return done_with(operation, Py_NewRef(Py_None));
}

PyObject *
aya_binary_writelines(AsyncFile *file, PyObject *lines)
{
    Operation *operation = aya_command_new(file, "writelines", step_writelines, AYA_COMMAND_GO_ON);

    if (operation == NULL) {
        return NULL;
    }
    operation->command.object = PyObject_GetIter(lines);
    if (operation->command.object == NULL) {
        return aya_operation_refused(operation);
    }
    return aya_command_begin(operation);
}

/* -- position, flush --------------------------------------------------------------------------- */

static aya_step
step_seek(Operation *operation)
{
    int64_t result;

    if (aya_file_check(operation->file) < 0) {
        return AYA_STEP_FAILED;
    }
    result = aya_stream_seek(stream_of(operation), operation->command.number[0],
                             (int)operation->command.number[1]);
    if (result == -ESPIPE) {
        PyErr_SetString(operation->module->unsupported, "File or stream is not seekable.");
        return AYA_STEP_FAILED;
    }
    if (result < 0) {
        return pending_or_error(operation, result);
    }
    return done_with(operation, PyLong_FromLongLong(result));
}

static bool
known_whence(int whence)
{
    return whence >= 0
           && (whence <= 2 || whence == AYA_SEEK_DATA || whence == AYA_SEEK_HOLE);
}

PyObject *
aya_binary_seek(AsyncFile *file, PyObject *offset, int whence)
{
    Operation *operation = aya_command_new(file, "seek", step_seek, AYA_COMMAND_GO_ON);

    if (operation == NULL) {
        return NULL;
    }
    bool buffered = file->core == NULL || !one_transfer(operation);
    /* Unbuffered, the system says what it thinks of the number. */
    if (buffered && !known_whence(whence)) {
        PyErr_Format(PyExc_ValueError, "whence value %d unsupported", whence);
        return aya_operation_refused(operation);
    }
    operation->command.number[0] =
        PyNumber_AsSsize_t(offset, buffered ? PyExc_ValueError : PyExc_OverflowError);
    if (operation->command.number[0] == -1 && PyErr_Occurred()) {
        return aya_operation_refused(operation);
    }
    operation->command.number[1] = whence;
    return aya_command_begin(operation);
}

static aya_step
step_tell(Operation *operation)
{
    int64_t result;

    if (aya_file_check(operation->file) < 0) {
        return AYA_STEP_FAILED;
    }
    result = aya_stream_tell(stream_of(operation));
    if (result < 0) {
        return pending_or_error(operation, result);
    }
    return done_with(operation, PyLong_FromLongLong(result));
}

PyObject *
aya_binary_tell(AsyncFile *file)
{
    Operation *operation = aya_command_new(file, "tell", step_tell, AYA_COMMAND_ABORT);

    return operation == NULL ? NULL : aya_command_begin(operation);
}

/* command: number[0] the size, number[1] whether it is the position instead. */
static aya_step
step_truncate(Operation *operation)
{
    int64_t result;

    if (aya_file_check(operation->file) < 0) {
        return AYA_STEP_FAILED;
    }
    if (!operation->file->core->writable) {
        PyErr_SetString(operation->module->unsupported, "truncate");
        return AYA_STEP_FAILED;
    }
    if (operation->command.number[1]) {
        /* What is written out to an appending file moves the position. */
        result = aya_stream_drain(stream_of(operation));
        if (result < 0) {
            return pending_or_error(operation, result);
        }
        operation->command.number[1] = 0;
        operation->command.number[0] = aya_stream_tell(stream_of(operation));
        if (operation->command.number[0] < 0) {
            return aya_step_error(operation, operation->command.number[0]);
        }
    }
    result = aya_stream_truncate(stream_of(operation), operation->command.number[0]);
    if (result < 0) {
        return pending_or_error(operation, result);
    }
    return done_with(operation, PyLong_FromLongLong(operation->command.number[0]));
}

PyObject *
aya_binary_truncate(AsyncFile *file, PyObject *size)
{
    Operation *operation = aya_command_new(file, "truncate", step_truncate, AYA_COMMAND_GO_ON);

    if (operation == NULL) {
        return NULL;
    }
    if (size == NULL || size == Py_None) {
        operation->command.number[1] = 1;
    } else {
        operation->command.number[0] = PyNumber_AsSsize_t(size, PyExc_OverflowError);
        if (operation->command.number[0] == -1 && PyErr_Occurred()) {
            return aya_operation_refused(operation);
        }
    }
    return aya_command_begin(operation);
}

static aya_step
step_flush(Operation *operation)
{
    aya_core *core = operation->file->core;
    int64_t result;

    if (aya_file_check(operation->file) < 0) {
        return AYA_STEP_FAILED;
    }
    result = aya_stream_flush(&core->stream);
    if (result < 0) {
        return pending_or_error(operation, result);
    }
    if (aya_core_raise_late(core) < 0) {
        return AYA_STEP_FAILED;
    }
    return done_with(operation, Py_NewRef(Py_None));
}

PyObject *
aya_binary_flush(AsyncFile *file)
{
    Operation *operation = aya_command_new(file, "flush", step_flush, AYA_COMMAND_GO_ON);

    return operation == NULL ? NULL : aya_command_begin(operation);
}
