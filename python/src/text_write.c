/* Writing text: newlines, encoding, and handing the bytes to the stream at once. Runs in step
 * functions.
 */
#include "text_state.h"

/* Lines that one turn of the loop encodes at most: some tenths of a millisecond. */
#define MOST_LINES 1000

enum { PHASE_NEW, PHASE_NEXT, PHASE_WRITE, PHASE_FLUSH };
enum { NUMBER_FLUSH };

/* -- encoding ---------------------------------------------------------------------------------- */

int
aya_encoder_at(aya_text *text, bool start)
{
    PyObject *done;

    if (text->encoder == NULL) {
        return 0;
    }
    done = start ? PyObject_CallMethod(text->encoder, "reset", NULL)
                 : PyObject_CallMethod(text->encoder, "setstate", "i", 0);
    Py_XDECREF(done);
    return done == NULL ? -1 : 0;
}

static PyObject *
encode_other(aya_text *text, PyObject *string)
{
    PyObject *bytes = PyObject_CallMethod(text->encoder, "encode", "O", string);

    if (bytes != NULL && !PyBytes_Check(bytes)) {
        PyErr_Format(PyExc_TypeError, "encoder should return a bytes object, not '%.200s'",
                     Py_TYPE(bytes)->tp_name);
        Py_CLEAR(bytes);
    }
    return bytes;
}

/* Whether the characters of `string` lie in memory as the bytes to be written. */
static bool
is_encoded(const aya_text *text, PyObject *string)
{
    switch (text->decoder.codec) {
    case TEXT_UTF8:
    case TEXT_ASCII:
        return PyUnicode_IS_ASCII(string);
    case TEXT_LATIN1:
        return PyUnicode_KIND(string) == PyUnicode_1BYTE_KIND;
    default:
        return false;
    }
}

/* bytes, or a str that is_encoded(). */
static PyObject *
encode(aya_text *text, PyObject *string)
{
    static const char *const names[] = {"utf-8", "ascii", "latin-1"};

    if (is_encoded(text, string)) {
        return Py_NewRef(string);
    }
    if (text->decoder.codec == TEXT_OTHER) {
        return encode_other(text, string);
    }
    return PyUnicode_AsEncodedString(string, names[text->decoder.codec], text->decoder.errors);
}

static PyObject *
translate_and_encode(aya_text *text, PyObject *string, bool has_lf)
{
    PyObject *lf, *translated = NULL, *encoded = NULL;

    if (!has_lf || text->written_newline == NULL) {
        return encode(text, string);
    }
    lf = PyUnicode_FromString("\n");
    if (lf != NULL) {
        translated = PyUnicode_Replace(string, lf, text->written_newline, -1);
    }
    if (translated != NULL) {
        encoded = encode(text, translated);
    }
    Py_XDECREF(translated);
    Py_XDECREF(lf);
    return encoded;
}

static bool
has(PyObject *string, Py_UCS4 character)
{
    return PyUnicode_FindChar(string, character, 0, PyUnicode_GET_LENGTH(string), 1) >= 0;
}

/* Readies `string` for write_encoded(). What was decoded and not read is forgotten: the stream's
 * position is where writing goes on. */
static int
begin_write(Operation *operation, PyObject *string)
{
    aya_text *text = operation->file->text;
    aya_command *command = &operation->command;
    bool has_lf;

    if (!PyUnicode_Check(string)) {
        PyErr_Format(PyExc_TypeError, "write() argument must be str, not %.200s",
                     string == Py_None ? "None" : Py_TYPE(string)->tp_name);
        return -1;
    }
    has_lf = (text->line_buffering || text->written_newline != NULL) && has(string, '\n');
    command->number[NUMBER_FLUSH] = text->line_buffering && (has_lf || has(string, '\r'));
    command->extra = translate_and_encode(text, string, has_lf);
    if (command->extra == NULL) {
        return -1;
    }
    if (text->place.input != NULL) {
        aya_text_drop(text);
    }
    command->done = 0;
    command->phase = PHASE_WRITE;
    return operation->file->core->readable ? aya_decoder_reset(&text->decoder) : 0;
}

static int64_t
write_encoded(Operation *operation)
{
    aya_stream *stream = &operation->file->core->stream;
    aya_command *command = &operation->command;
    PyObject *encoded = command->extra;
    int64_t result;

    if (command->phase == PHASE_WRITE) {
        bool is_bytes = PyBytes_Check(encoded);
        const void *data = is_bytes ? PyBytes_AS_STRING(encoded) : PyUnicode_DATA(encoded);
        size_t size = (size_t)(is_bytes ? PyBytes_GET_SIZE(encoded)
                                        : PyUnicode_GET_LENGTH(encoded));
        /* What is larger than the buffer waits until it has arrived. */
        result = aya_stream_write(stream, data, size,
                                  size <= stream->buffer_size ? encoded : NULL, &command->done);
        if (result < 0) {
            return result;
        }
        command->phase = command->number[NUMBER_FLUSH] ? PHASE_FLUSH : PHASE_NEXT;
    }
    if (command->phase == PHASE_FLUSH) {
        result = aya_stream_flush(stream);
        if (result < 0) {
            return result;
        }
        command->phase = PHASE_NEXT;
    }
    Py_CLEAR(command->extra);
    return 0;
}

/* -- step functions ---------------------------------------------------------------------------- */

static aya_step
write_step(Operation *operation)
{
    aya_command *command = &operation->command;

    if (command->phase == PHASE_NEW) {
        if (aya_file_check_writable(operation->file) < 0) {
            return AYA_STEP_FAILED;
        }
        aya_text_moves(operation->file);
        if (begin_write(operation, command->object) < 0) {
            return AYA_STEP_FAILED;
        }
    }
    int64_t result = write_encoded(operation);
    if (result < 0) {
        return aya_text_failed(operation, result);
    }
    operation->result = PyLong_FromSsize_t(PyUnicode_GET_LENGTH(command->object));
    return operation->result == NULL ? AYA_STEP_FAILED : AYA_STEP_DONE;
}

/* command.object is what was given, from PHASE_NEXT on its iterator. */
static int
begin_writelines(Operation *operation)
{
    PyObject *iterator;

    if (aya_file_check(operation->file) < 0) {
        return -1;
    }
    iterator = PyObject_GetIter(operation->command.object);
    if (iterator == NULL) {
        return -1;
    }
    Py_SETREF(operation->command.object, iterator);
    operation->command.phase = PHASE_NEXT;
    return 0;
}

/* 1: a line is readied; 0: there is none left; -1. */
static int
next_line(Operation *operation)
{
    PyObject *line = PyIter_Next(operation->command.object);
    int status;

    if (line == NULL) {
        return PyErr_Occurred() ? -1 : 0;
    }
    status = aya_file_check_writable(operation->file);
    if (status == 0) {
        aya_text_moves(operation->file);
        status = begin_write(operation, line);
    }
    Py_DECREF(line);
    return status < 0 ? -1 : 1;
}

static aya_step
writelines_step(Operation *operation)
{
    if (operation->command.phase == PHASE_NEW && begin_writelines(operation) < 0) {
        return AYA_STEP_FAILED;
    }
    for (int lines = 0;; lines++) {
        if (operation->command.phase == PHASE_NEXT) {
            if (lines >= MOST_LINES) {
                return aya_step_later(operation);
            }
            int status = next_line(operation);
            if (status < 0) {
                return AYA_STEP_FAILED;
            }
            if (status == 0) {
                operation->result = Py_NewRef(Py_None);
                return AYA_STEP_DONE;
            }
        }
        int64_t result = write_encoded(operation);
        if (result < 0) {
            return aya_text_failed(operation, result);
        }
    }
}

/* -- methods ----------------------------------------------------------------------------------- */

static PyObject *
start(AsyncFile *file, const char *name, aya_step_function step, PyObject *object)
{
    Operation *operation = aya_command_new(file, name, step, AYA_COMMAND_GO_ON);

    if (operation == NULL) {
        return NULL;
    }
    operation->command.object = Py_NewRef(object);
    return aya_command_begin(operation);
}

/* Whether the string lies in memory as the bytes to be written, and nothing else has to be looked
 * at or forgotten. */
static bool
is_plain(const AsyncFile *file, PyObject *string)
{
    const aya_text *text = file->text;

    return PyUnicode_CheckExact(string) && is_encoded(text, string) && !text->line_buffering
           && text->written_newline == NULL && !file->core->readable;
}

PyObject *
aya_text_write(AsyncFile *file, PyObject *string)
{
    Operation *operation = aya_command_new(file, "write", write_step, AYA_COMMAND_GO_ON);

    if (operation == NULL) {
        return NULL;
    }
    if (aya_command_is_first(operation) && file->core->writable && is_plain(file, string)
        && aya_stream_accept(&file->core->stream, PyUnicode_DATA(string),
                             (size_t)PyUnicode_GET_LENGTH(string))) {
        aya_text_moves(file);
        return aya_command_ended(operation, PyLong_FromSsize_t(PyUnicode_GET_LENGTH(string)));
    }
    operation->command.object = Py_NewRef(string);
    return aya_command_begin(operation);
}

PyObject *
aya_text_writelines(AsyncFile *file, PyObject *lines)
{
    PyObject *copy, *operation;

    if (!PyList_CheckExact(lines)) {
        return start(file, "writelines", writelines_step, lines);
    }
    /* The caller may change the list before a wait ends. */
    copy = PyList_AsTuple(lines);
    if (copy == NULL) {
        return NULL;
    }
    operation = start(file, "writelines", writelines_step, copy);
    Py_DECREF(copy);
    return operation;
}
