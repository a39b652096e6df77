/* Reading text: characters, lines, all. Each step function is called again from its start after a
 * wait, so that what was got so far is kept in text->read; a read that was given up is undone from
 * there, and one that had ended by text->mark. Runs in step functions.
 */
#include "text_state.h"

/* Room for a read to the end at first. */
#define LEAST_ROOM 65536
#define MOST_ROOM ((int64_t)64 << 20)
/* What is asked for where the end is near. */
#define SMALL_ROOM 8192
/* Input of one chunk of a file that is also written: a write after a read goes where the chunk
 * ended, which is where io.TextIOWrapper has it. */
#define CHUNK_OF_WRITABLE 8192

/* Bytes that one turn of the loop decodes and parts into lines at most: about half a
 * millisecond. */
#define MOST_INPUT 131072

enum { PHASE_NEW, PHASE_READING };
enum { NUMBER_ARGUMENT, NUMBER_SERIAL };

/* -- undo -------------------------------------------------------------------------------------- */

void
aya_text_read_clear(aya_text *text)
{
    Py_CLEAR(text->read.pieces);
    Py_CLEAR(text->read.lines);
    Py_CLEAR(text->read.data);
    text->read = (text_read){0};
}

static void
clear_mark(aya_text *text)
{
    if (text->mark.moved) {
        aya_place_clear(&text->mark.place);
        Py_CLEAR(text->mark.after.buffered);
        text->mark = (text_mark){0};
    }
    text->mark.used = text->place.used;
}

/* The stream goes back over bytes that it may have dropped. */
static int
unread(aya_stream *stream, size_t size)
{
    const char *data = stream->window.begin >= size
                           ? stream->window.data + stream->window.begin - size : NULL;

    return aya_stream_unread(stream, data, size);
}

static int
return_to_mark(AsyncFile *file)
{
    aya_text *text = file->text;
    aya_stream *stream = &file->core->stream;
    Py_ssize_t used = text->mark.used;

    if (unread(stream, (size_t)(stream->position - text->mark.position)) < 0
        || aya_decoder_set_state(&text->decoder, &text->mark.after) < 0) {
        return -1;
    }
    aya_text_drop(text);
    text->place = text->mark.place;
    text->mark.place = (text_place){0};
    text->place.used = used;
    clear_mark(text);
    return 0;
}

static int
append_all(PyObject *list, PyObject *more)
{
    Py_ssize_t end = PyList_GET_SIZE(list);

    return more == NULL ? 0 : PyList_SetSlice(list, end, end, more);
}

/* Where nothing can be read again: what was read becomes the chunk, with the rest of it behind. */
static int
put_in_front(aya_text *text, PyObject *result)
{
    text_place *place = &text->place;
    PyObject *parts = PyList_New(0), *empty = PyUnicode_New(0, 0), *rest = NULL, *whole = NULL;
    bool failed = parts == NULL || empty == NULL;

    if (!failed && result != NULL && PyUnicode_Check(result)) {
        failed = PyList_Append(parts, result) < 0;
    } else if (!failed) {
        failed = append_all(parts, result) < 0 || append_all(parts, text->read.lines) < 0
                 || append_all(parts, text->read.pieces) < 0;
    }
    if (!failed && place->chunk != NULL) {
        rest = PyUnicode_Substring(place->chunk, place->used, PyUnicode_GET_LENGTH(place->chunk));
        failed = rest == NULL || PyList_Append(parts, rest) < 0;
    }
    if (!failed && (whole = PyUnicode_Join(empty, parts)) != NULL) {
        Py_XSETREF(place->chunk, whole);
        place->used = 0;
    }
    Py_XDECREF(rest);
    Py_XDECREF(empty);
    Py_XDECREF(parts);
    return whole == NULL ? -1 : 0;
}

/* The text that the last read took (`result`, or what text->read has) is the next one's. */
static void
give_back(AsyncFile *file, PyObject *result)
{
    aya_text *text = file->text;
    int status = 0;
    PyObject *type, *value, *traceback;

    PyErr_Fetch(&type, &value, &traceback);
    if (text->read.data != NULL) {
        status = aya_stream_unread(&file->core->stream, PyBytes_AS_STRING(text->read.data),
                                   (size_t)text->read.size);
    }
    if (!text->mark.moved) {
        text->place.used = text->mark.used;
    } else if (aya_text_seekable(file)) {
        status = return_to_mark(file);
    } else {
        status = put_in_front(text, result);
    }
    aya_text_read_clear(text);
    if (status < 0) {
        if (!PyErr_Occurred()) {
            PyErr_NoMemory();
        }
        PyErr_WriteUnraisable((PyObject *)file);
    }
    PyErr_Restore(type, value, traceback);
}

void
aya_text_recover(AsyncFile *file)
{
    if (file->text->read.unfinished) {
        give_back(file, NULL);
    }
}

void
aya_text_moves(AsyncFile *file)
{
    aya_text_recover(file);
    file->text->serial++;
    clear_mark(file->text);
}

static void
undo_read(Operation *operation)
{
    AsyncFile *file = operation->file;
    aya_text *text = file->text;

    if (file->core == NULL || operation->command.phase == PHASE_NEW
        || (uint64_t)operation->command.number[NUMBER_SERIAL] != text->serial) {
        return;
    }
    if (text->read.unfinished) {
        give_back(file, NULL);
    } else if (file->core->stream.position == text->mark.end
               && !aya_stream_dirty(&file->core->stream)) {
        give_back(file, operation->result);
    }
    text->serial++;
}

/* -- chunks ------------------------------------------------------------------------------------ */

static Py_ssize_t
characters_left(const text_place *place)
{
    return place->chunk == NULL ? 0 : PyUnicode_GET_LENGTH(place->chunk) - place->used;
}

/* The place goes on; the one before this read is kept. Steals what `state` holds. */
static void
leave_place(aya_text *text, const aya_stream *stream, text_decoder_state *state)
{
    if (text->mark.moved) {
        Py_CLEAR(state->buffered);
        return;
    }
    text->mark.moved = true;
    text->mark.place = text->place;
    text->mark.after = *state;
    text->mark.position = stream->position;
    text->place = (text_place){0};
    *state = (text_decoder_state){0};
}

/* `bytes` with what the decoder holds before them. */
static PyObject *
whole_input(const text_decoder_state *state, PyObject *bytes)
{
    PyObject *whole;

    if (state->buffered == NULL) {
        return Py_NewRef(bytes);
    }
    whole = Py_NewRef(state->buffered);
    PyBytes_Concat(&whole, bytes);
    return whole;
}

/* Makes `bytes`, which are next in the stream's window, the new chunk. */
static int
decode_chunk(AsyncFile *file, PyObject *bytes)
{
    aya_text *text = file->text;
    aya_stream *stream = &file->core->stream;
    text_decoder_state state = {0};
    text_place place = {.at = stream->position};

    if (aya_text_seekable(file)) {
        if (aya_decoder_get_state(&text->decoder, &state) < 0) {
            return -1;
        }
        place.flags = state.flags;
        place.pending_cr = state.pending_cr;
        place.at -= state.buffered == NULL ? 0 : PyBytes_GET_SIZE(state.buffered);
        place.input = whole_input(&state, bytes);
        if (place.input == NULL) {
            Py_XDECREF(state.buffered);
            return -1;
        }
    }
    leave_place(text, stream, &state);
    aya_text_drop(text);
    aya_stream_consume(stream, (size_t)PyBytes_GET_SIZE(bytes));
    place.chunk = aya_decode(&text->decoder, bytes, PyBytes_GET_SIZE(bytes) == 0);
    if (place.chunk == NULL) {
        Py_CLEAR(place.input);
        return -1;
    }
    text->place = place;
    return 0;
}

/* Reads and decodes the next chunk, which may be of no characters: 1. At the end of the file 0. */
static int64_t
next_chunk(AsyncFile *file)
{
    aya_stream *stream = &file->core->stream;
    int64_t size = file->core->writable ? aya_stream_fill_most(stream, CHUNK_OF_WRITABLE)
                                        : aya_stream_fill(stream);
    const char *data;

    if (size < 0) {
        return size;
    }
    if (file->text->read.input > MOST_INPUT) {
        return AYA_TEXT_LATER;
    }
    file->text->read.input += size;
    if (file->core->writable && size > CHUNK_OF_WRITABLE) {
        size = CHUNK_OF_WRITABLE;
    }
    aya_stream_window(stream, &data);
    PyObject *bytes = PyBytes_FromStringAndSize(data, (Py_ssize_t)size);
    if (bytes == NULL || decode_chunk(file, bytes) < 0) {
        Py_XDECREF(bytes);
        return AYA_TEXT_RAISED;
    }
    Py_DECREF(bytes);
    return size > 0 || characters_left(&file->text->place) > 0;
}

/* The next `count` characters of the chunk. */
static PyObject *
take(text_place *place, Py_ssize_t count)
{
    PyObject *piece = PyUnicode_Substring(place->chunk, place->used, place->used + count);

    if (piece != NULL) {
        place->used += count;
    }
    return piece;
}

/* Steals `piece`. */
static int
keep(text_read *read, PyObject *piece)
{
    int status = -1;

    if (read->pieces == NULL) {
        read->pieces = PyList_New(0);
    }
    if (piece != NULL && read->pieces != NULL) {
        read->gathered += PyUnicode_GET_LENGTH(piece);
        status = PyList_Append(read->pieces, piece);
    }
    Py_XDECREF(piece);
    return status;
}

static PyObject *
join_pieces(text_read *read)
{
    PyObject *pieces = read->pieces, *joined, *empty = PyUnicode_New(0, 0);

    read->pieces = NULL;
    read->gathered = 0;
    if (empty == NULL || pieces == NULL) {
        Py_XDECREF(pieces);
        return empty;
    }
    if (PyList_GET_SIZE(pieces) == 1) {
        joined = Py_NewRef(PyList_GET_ITEM(pieces, 0));
    } else {
        joined = PyUnicode_Join(empty, pieces);
    }
    Py_DECREF(empty);
    Py_DECREF(pieces);
    return joined;
}

/* -- characters and lines ---------------------------------------------------------------------- */

static int64_t
take_characters(AsyncFile *file, int64_t size, PyObject **out)
{
    aya_text *text = file->text;
    text_read *read = &text->read;

    while (read->gathered < size) {
        int64_t count = characters_left(&text->place);
        if (count > size - read->gathered) {
            count = size - read->gathered;
        }
        if (count > 0) {
            PyObject *piece = take(&text->place, (Py_ssize_t)count);
            if (piece != NULL && count == size) {
                *out = piece;
                return 0;
            }
            if (keep(read, piece) < 0) {
                return AYA_TEXT_RAISED;
            }
            continue;
        }
        int64_t result = next_chunk(file);
        if (result < 0) {
            return result;
        }
        if (result == 0) {
            break;
        }
    }
    *out = join_pieces(read);
    return *out == NULL ? AYA_TEXT_RAISED : 0;
}

static Py_ssize_t
find(PyObject *chunk, char character, Py_ssize_t from, Py_ssize_t to)
{
    if (from >= to) {
        return -1;
    }
    if (PyUnicode_KIND(chunk) == PyUnicode_1BYTE_KIND) {
        const char *data = PyUnicode_DATA(chunk);
        const char *at = memchr(data + from, character, (size_t)(to - from));
        return at == NULL ? -1 : at - data;
    }
    return PyUnicode_FindChar(chunk, (Py_UCS4)character, from, to, 1);
}

static Py_ssize_t
find_any(PyObject *chunk, Py_ssize_t from, Py_ssize_t to)
{
    int kind = (int)PyUnicode_KIND(chunk);
    const void *data = PyUnicode_DATA(chunk);

    for (Py_ssize_t i = from; i < to; i++) {
        Py_UCS4 character = PyUnicode_READ(kind, data, i);
        if (character == '\n') {
            return i + 1;
        }
        if (character == '\r') {
            /* The decoder never parts a pair. */
            return i + 1 + (i + 1 < to && PyUnicode_READ(kind, data, i + 1) == '\n');
        }
    }
    return -1;
}

static Py_ssize_t
find_pair(const aya_text *text, Py_ssize_t from, Py_ssize_t to)
{
    PyObject *chunk = text->place.chunk, *pieces = text->read.pieces;

    if (pieces != NULL && PyUnicode_READ_CHAR(chunk, from) == '\n') {
        PyObject *last = PyList_GET_ITEM(pieces, PyList_GET_SIZE(pieces) - 1);
        if (PyUnicode_READ_CHAR(last, PyUnicode_GET_LENGTH(last) - 1) == '\r') {
            return from + 1;
        }
    }
    while ((from = find(chunk, '\r', from, to - 1)) >= 0) {
        if (PyUnicode_READ_CHAR(chunk, from + 1) == '\n') {
            return from + 2;
        }
        from++;
    }
    return -1;
}

/* How many characters the line has up to its end, or -1 where the chunk ends before it. */
static Py_ssize_t
line_length(const aya_text *text)
{
    PyObject *chunk = text->place.chunk;
    Py_ssize_t from = text->place.used, to = PyUnicode_GET_LENGTH(chunk), end;

    switch (text->line_end) {
    case TEXT_LINE_LF:
        end = find(chunk, '\n', from, to) + 1;
        break;
    case TEXT_LINE_CR:
        end = find(chunk, '\r', from, to) + 1;
        break;
    case TEXT_LINE_ANY:
        end = find_any(chunk, from, to);
        break;
    default:
        end = find_pair(text, from, to);
        break;
    }
    return end > 0 ? end - from : -1;
}

/* One line, of at most `limit` characters where that is not negative; empty at the end of the
 * file. */
static int64_t
take_line(AsyncFile *file, int64_t limit, PyObject **line)
{
    aya_text *text = file->text;
    text_read *read = &text->read;

    /* A limit of 0 has a chunk read too, as io.TextIOWrapper does: a write then goes behind it. */
    while (limit < 0 || read->gathered < limit
           || (limit == 0 && characters_left(&text->place) == 0)) {
        Py_ssize_t left = characters_left(&text->place);
        if (left > 0) {
            Py_ssize_t count = line_length(text);
            bool ended = count >= 0;
            if (!ended) {
                count = left;
            }
            if (limit >= 0 && count >= limit - read->gathered) {
                count = (Py_ssize_t)(limit - read->gathered);
                ended = true;
            }
            PyObject *piece = take(&text->place, count);
            if (ended && piece != NULL && read->pieces == NULL) {
                *line = piece;
                return 0;
            }
            if (keep(read, piece) < 0) {
                return AYA_TEXT_RAISED;
            }
            if (ended) {
                break;
            }
        }
        int64_t result = next_chunk(file);
        if (result < 0) {
            return result;
        }
        if (result == 0) {
            aya_text_drop(text);
            break;
        }
    }
    *line = join_pieces(read);
    return *line == NULL ? AYA_TEXT_RAISED : 0;
}

/* -- all --------------------------------------------------------------------------------------- */

static Py_ssize_t
first_room(aya_stream *stream)
{
    int64_t left = aya_file_size_hint(&stream->file) - stream->position;

    return left <= LEAST_ROOM ? LEAST_ROOM : (Py_ssize_t)(left < MOST_ROOM ? left + 1 : MOST_ROOM);
}

static int64_t
read_bytes(aya_stream *stream, text_read *read)
{
    for (;;) {
        Py_ssize_t room = read->data == NULL ? 0 : PyBytes_GET_SIZE(read->data);
        if (read->size == room) {
            if (read->data == NULL) {
                read->data = PyBytes_FromStringAndSize(NULL, first_room(stream));
            } else if (room > PY_SSIZE_T_MAX / 2) {
                PyErr_NoMemory();
                return AYA_TEXT_RAISED;
            } else {
                _PyBytes_Resize(&read->data, 2 * room);
            }
            if (read->data == NULL) {
                return AYA_TEXT_RAISED;
            }
            room = PyBytes_GET_SIZE(read->data);
        }
        size_t asked = (size_t)(room - read->size);
        if (read->fell_short && asked > SMALL_ROOM) {
            asked = SMALL_ROOM;
        }
        int64_t result = aya_stream_read(stream, AYA_READING_REST,
                                         PyBytes_AS_STRING(read->data) + read->size, asked);
        if (result <= 0) {
            return result;
        }
        read->fell_short = (size_t)result < asked;
        read->size += (Py_ssize_t)result;
    }
}

/* The rest of the chunk and then `decoded`, which is stolen. */
static PyObject *
take_rest(text_place *place, PyObject *decoded)
{
    Py_ssize_t left = characters_left(place);
    PyObject *rest, *whole;

    if (left == 0) {
        return decoded;
    }
    rest = take(place, left);
    whole = rest == NULL ? NULL : PyUnicode_Concat(rest, decoded);
    Py_XDECREF(rest);
    Py_DECREF(decoded);
    return whole;
}

static int64_t
take_all(AsyncFile *file, PyObject **out)
{
    aya_text *text = file->text;
    text_read *read = &text->read;
    text_decoder_state state = {0};
    int64_t start, result = read_bytes(&file->core->stream, read);
    PyObject *bytes, *decoded;

    if (result < 0) {
        return result;
    }
    if (_PyBytes_Resize(&read->data, read->size) < 0
        || (aya_text_seekable(file) && aya_decoder_get_state(&text->decoder, &state) < 0)) {
        return AYA_TEXT_RAISED;
    }
    start = file->core->stream.position - read->size;
    bytes = read->data;
    read->data = NULL;
    read->size = 0;
    read->fell_short = false;
    decoded = aya_decode(&text->decoder, bytes, true);
    Py_DECREF(bytes);
    *out = decoded == NULL ? NULL : take_rest(&text->place, decoded);
    if (*out == NULL) {
        Py_XDECREF(state.buffered);
        return AYA_TEXT_RAISED;
    }
    leave_place(text, &file->core->stream, &state);
    text->mark.position = start;
    return 0;
}

/* -- step functions ---------------------------------------------------------------------------- */

static int
begin_read(Operation *operation)
{
    aya_command *command = &operation->command;

    operation->file->text->read.input = 0;
    if (command->phase == PHASE_READING) {
        return 0;
    }
    if (aya_file_check_readable(operation->file) < 0) {
        return -1;
    }
    aya_text_moves(operation->file);
    operation->file->text->read.unfinished = true;
    command->number[NUMBER_SERIAL] = (int64_t)operation->file->text->serial;
    command->undo = command->give_up = undo_read;
    command->phase = PHASE_READING;
    return 0;
}

static aya_step
end_read(Operation *operation, int64_t result)
{
    AsyncFile *file = operation->file;
    aya_text *text = file->text;

    if (result == AYA_PENDING) {
        return AYA_STEP_PENDING;
    }
    if (result == AYA_TEXT_LATER && aya_step_later(operation) == AYA_STEP_PENDING) {
        return AYA_STEP_PENDING;
    }
    if (result == AYA_TEXT_RAISED || result == AYA_TEXT_LATER) {
        aya_text_read_clear(text);
        return AYA_STEP_FAILED;
    }
    if (result < 0) {
        give_back(file, NULL);
        return aya_step_error(operation, result);
    }
    text->read.unfinished = false;
    text->mark.end = file->core->stream.position;
    return AYA_STEP_DONE;
}

static aya_step
read_step(Operation *operation)
{
    int64_t size = operation->command.number[NUMBER_ARGUMENT];

    if (begin_read(operation) < 0) {
        return AYA_STEP_FAILED;
    }
    return end_read(operation, size < 0
                                   ? take_all(operation->file, &operation->result)
                                   : take_characters(operation->file, size, &operation->result));
}

static aya_step
readline_step(Operation *operation)
{
    if (begin_read(operation) < 0) {
        return AYA_STEP_FAILED;
    }
    return end_read(operation, take_line(operation->file,
                                         operation->command.number[NUMBER_ARGUMENT],
                                         &operation->result));
}

static aya_step
next_step(Operation *operation)
{
    aya_step outcome = readline_step(operation);

    if (outcome == AYA_STEP_DONE && PyUnicode_GET_LENGTH(operation->result) == 0) {
        Py_CLEAR(operation->result);
        PyErr_SetNone(PyExc_StopAsyncIteration);
        outcome = AYA_STEP_FAILED;
    }
    return outcome;
}

static int64_t
take_lines(AsyncFile *file, int64_t hint, PyObject **out)
{
    text_read *read = &file->text->read;
    Py_ssize_t length = 1;

    if (read->lines == NULL && (read->lines = PyList_New(0)) == NULL) {
        return AYA_TEXT_RAISED;
    }
    while (length > 0 && (hint <= 0 || read->total <= hint)) {
        PyObject *line;
        int64_t result = take_line(file, -1, &line);
        if (result < 0) {
            return result;
        }
        length = PyUnicode_GET_LENGTH(line);
        int status = length == 0 ? 0 : PyList_Append(read->lines, line);
        Py_DECREF(line);
        if (status < 0) {
            return AYA_TEXT_RAISED;
        }
        read->total += length;
    }
    *out = read->lines;
    read->lines = NULL;
    read->total = 0;
    return 0;
}

static aya_step
readlines_step(Operation *operation)
{
    if (begin_read(operation) < 0) {
        /* As io.TextIOWrapper has it: tell() is disabled until the next flush() or seek(). */
        AsyncFile *file = operation->file;
        file->text->tell_disabled = file->core != NULL && !file->core->readable;
        return AYA_STEP_FAILED;
    }
    return end_read(operation, take_lines(operation->file,
                                          operation->command.number[NUMBER_ARGUMENT],
                                          &operation->result));
}

/* -- methods ----------------------------------------------------------------------------------- */

static PyObject *
start(AsyncFile *file, const char *name, aya_step_function step, int64_t argument)
{
    Operation *operation = aya_command_new(file, name, step, AYA_COMMAND_ABORT);

    if (operation == NULL) {
        return NULL;
    }
    operation->command.number[NUMBER_ARGUMENT] = argument;
    return aya_command_begin(operation);
}

PyObject *
aya_text_read(AsyncFile *file, int64_t size)
{
    return start(file, "read", read_step, size);
}

PyObject *
aya_text_readline(AsyncFile *file, int64_t size)
{
    return start(file, "readline", readline_step, size);
}

PyObject *
aya_text_readlines(AsyncFile *file, int64_t hint)
{
    return start(file, "readlines", readlines_step, hint);
}

PyObject *
aya_text_next(AsyncFile *file)
{
    return start(file, "__anext__", next_step, -1);
}
