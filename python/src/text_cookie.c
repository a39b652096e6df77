/* tell() and seek() of text. A position is a cookie: where to start in bytes, the decoder's state
 * there, and what to decode and skip from there on; a plain byte offset where that is all of it.
 * Runs in step functions.
 */
#include "text_state.h"
#include "module.h"

typedef struct text_cookie {
    uint64_t at;              /* byte offset */
    uint64_t flags;           /* the decoder's state there */
    uint64_t feed;            /* bytes to decode from there */
    uint64_t skip;            /* characters of what they give that come before the position */
    bool pending_cr;          /* of the state */
    bool final;               /* the end of the file is among what is decoded */
} text_cookie;

#define COOKIE_SIZE 33

static void
put_64(unsigned char *out, uint64_t value)
{
    for (int i = 0; i < 8; i++) {
        out[i] = (unsigned char)(value >> (8 * i));
    }
}

static uint64_t
get_64(const unsigned char *in)
{
    uint64_t value = 0;

    for (int i = 7; i >= 0; i--) {
        value = value << 8 | in[i];
    }
    return value;
}

static PyObject *
cookie_to_object(const text_cookie *cookie)
{
    unsigned char raw[COOKIE_SIZE];

    if (cookie->flags == 0 && cookie->feed == 0 && cookie->skip == 0 && !cookie->pending_cr
        && !cookie->final) {
        return PyLong_FromUnsignedLongLong(cookie->at);
    }
    put_64(raw, cookie->at);
    put_64(raw + 8, cookie->flags);
    put_64(raw + 16, cookie->feed);
    put_64(raw + 24, cookie->skip);
    raw[32] = (unsigned char)(cookie->final | cookie->pending_cr << 1);
    return PyObject_CallMethod((PyObject *)&PyLong_Type, "from_bytes", "y#s", (const char *)raw,
                               (Py_ssize_t)COOKIE_SIZE, "little");
}

static int
cookie_from_object(PyObject *object, text_cookie *cookie)
{
    PyObject *number = PyNumber_Long(object), *bytes;

    if (number == NULL) {
        return -1;
    }
    bytes = PyObject_CallMethod(number, "to_bytes", "is", COOKIE_SIZE, "little");
    Py_DECREF(number);
    if (bytes == NULL) {
        return -1;
    }
    const unsigned char *raw = (const unsigned char *)PyBytes_AS_STRING(bytes);
    *cookie = (text_cookie){
        .at = get_64(raw),
        .flags = get_64(raw + 8),
        .feed = get_64(raw + 16),
        .skip = get_64(raw + 24),
        .final = raw[32] & 1,
        .pending_cr = (raw[32] & 2) != 0,
    };
    Py_DECREF(bytes);
    if (cookie->at > INT64_MAX || cookie->feed > INT32_MAX || cookie->skip > PY_SSIZE_T_MAX) {
        PyErr_SetString(PyExc_OverflowError, "seek position is out of range");
        return -1;
    }
    return 0;
}

/* -- tell -------------------------------------------------------------------------------------- */

/* A way through place.input with a decoder. */
typedef struct text_walk {
    text_decoder *decoder;
    PyObject *input;
    Py_ssize_t bytes, characters; /* come so far */
    Py_ssize_t safe_bytes, safe_characters; /* where the decoder last held no bytes */
    uint64_t flags;               /* its state there */
    bool pending_cr;
} text_walk;

/* Decodes `count` more bytes; how many characters they gave, or -1. */
static Py_ssize_t
walk_decode(text_walk *walk, Py_ssize_t count, bool final)
{
    PyObject *bytes, *text;
    Py_ssize_t length = -1;

    bytes = PyBytes_FromStringAndSize(PyBytes_AS_STRING(walk->input) + walk->bytes, count);
    text = bytes == NULL ? NULL : aya_decode(walk->decoder, bytes, final);
    if (text != NULL) {
        length = PyUnicode_GET_LENGTH(text);
    }
    Py_XDECREF(text);
    Py_XDECREF(bytes);
    return length;
}

static int
walk_to_safe(text_walk *walk)
{
    text_decoder_state state = {.flags = walk->flags, .pending_cr = walk->pending_cr};

    walk->bytes = walk->safe_bytes;
    walk->characters = walk->safe_characters;
    return aya_decoder_set_state(walk->decoder, &state);
}

static int
walk_note_safe(text_walk *walk)
{
    text_decoder_state state;

    if (aya_decoder_get_state(walk->decoder, &state) < 0) {
        return -1;
    }
    if (state.buffered == NULL) {
        walk->safe_bytes = walk->bytes;
        walk->safe_characters = walk->characters;
        walk->flags = state.flags;
        walk->pending_cr = state.pending_cr;
    }
    Py_CLEAR(state.buffered);
    return 0;
}

/* Goes to where the decoder has given `target` characters. A byte seldom gives more than one, so
 * that as many bytes as characters are missing is a step that does not go too far; where it does,
 * smaller ones follow. *final: only the end of the file gives the last of them. 0 or -1. */
static int
walk_to(text_walk *walk, Py_ssize_t target, bool *final)
{
    Py_ssize_t most = PY_SSIZE_T_MAX;

    *final = false;
    while (walk->characters < target) {
        Py_ssize_t step = target - walk->characters;
        Py_ssize_t left = PyBytes_GET_SIZE(walk->input) - walk->bytes;
        step = step < left ? step : left;
        step = step < most ? step : most;
        *final = step == 0;
        Py_ssize_t got = walk_decode(walk, step, *final);
        if (got < 0) {
            return -1;
        }
        if (*final && walk->characters + got < target) {
            PyErr_SetString(PyExc_OSError, "can't reconstruct logical file position");
            return -1;
        }
        if (step > 1 && walk->characters + got > target) {
            most = step / 2;
            if (walk_to_safe(walk) < 0) {
                return -1;
            }
            continue;
        }
        walk->bytes += step;
        walk->characters += got;
        if (walk->characters <= target && !*final && walk_note_safe(walk) < 0) {
            return -1;
        }
        /* Steps only grow from a new place to go back to: else the same ones would come again. */
        if (walk->safe_bytes == walk->bytes && most <= PY_SSIZE_T_MAX / 2) {
            most *= 2;
        }
    }
    return 0;
}

static int
find_cookie(aya_text *text, text_cookie *cookie)
{
    text_place *place = &text->place;
    text_decoder decoder = text->decoder;
    text_walk walk = {.decoder = &decoder, .input = place->input, .flags = place->flags,
                      .pending_cr = place->pending_cr};

    if (text->known.bytes > 0 && text->known.characters <= place->used) {
        walk.safe_bytes = text->known.bytes;
        walk.safe_characters = text->known.characters;
        walk.flags = text->known.flags;
        walk.pending_cr = text->known.pending_cr;
    }
    if (walk_to_safe(&walk) < 0 || walk_to(&walk, place->used, &cookie->final) < 0) {
        return -1;
    }
    cookie->at = (uint64_t)(place->at + walk.safe_bytes);
    cookie->flags = walk.flags;
    cookie->pending_cr = walk.pending_cr;
    cookie->skip = (uint64_t)(place->used - walk.safe_characters);
    cookie->feed = cookie->skip == 0 ? 0 : (uint64_t)(walk.bytes - walk.safe_bytes);
    text->known.bytes = walk.safe_bytes;
    text->known.characters = walk.safe_characters;
    text->known.flags = walk.flags;
    text->known.pending_cr = walk.pending_cr;
    return 0;
}

/* The place as a cookie; the stream is flushed. */
static PyObject *
cookie_here(AsyncFile *file)
{
    aya_text *text = file->text;
    text_place *place = &text->place;
    text_cookie cookie = {0};
    text_decoder_state state;
    int status;

    if (place->input == NULL) {
        return PyLong_FromLongLong(file->core->stream.position);
    }
    if (file->core->stream.shared != NULL) {
        /* The flush may have moved the stream: the input ends where it is now. */
        int64_t at = file->core->stream.position - PyBytes_GET_SIZE(place->input);
        place->at = at < 0 ? 0 : at;
    }
    if (place->used == 0) {
        cookie.at = (uint64_t)place->at;
        cookie.flags = place->flags;
        cookie.pending_cr = place->pending_cr;
        return cookie_to_object(&cookie);
    }
    if (aya_decoder_get_state(&text->decoder, &state) < 0) {
        return NULL;
    }
    status = find_cookie(text, &cookie);
    if (text->decoder.object != NULL) {
        /* The walk used the codec's decoder. */
        PyObject *type, *value, *traceback;
        PyErr_Fetch(&type, &value, &traceback);
        int restored = aya_decoder_set_state(&text->decoder, &state);
        if (status < 0) {
            PyErr_Restore(type, value, traceback);
        } else {
            status = restored;
        }
    }
    Py_CLEAR(state.buffered);
    return status < 0 ? NULL : cookie_to_object(&cookie);
}

static int
check_seekable(AsyncFile *file)
{
    if (aya_file_check(file) < 0) {
        return -1;
    }
    if (!aya_text_seekable(file)) {
        PyErr_SetString(file->core->module->unsupported, "underlying stream is not seekable");
        return -1;
    }
    return 0;
}

static int
check_tells(AsyncFile *file)
{
    if (file->text->tell_disabled) {
        PyErr_SetString(PyExc_OSError, "telling position disabled by next() call");
        return -1;
    }
    return 0;
}

aya_step
aya_text_tell_step(Operation *operation)
{
    AsyncFile *file = operation->file;

    if (check_seekable(file) < 0) {
        return AYA_STEP_FAILED;
    }
    if (check_tells(file) < 0) {
        return AYA_STEP_FAILED;
    }
    aya_text_recover(file);
    int64_t result = aya_stream_flush(&file->core->stream);
    if (result < 0) {
        return aya_text_failed(operation, result);
    }
    operation->result = cookie_here(file);
    return operation->result == NULL ? AYA_STEP_FAILED : AYA_STEP_DONE;
}

/* -- seek -------------------------------------------------------------------------------------- */

enum { PHASE_NEW, PHASE_FLUSH, PHASE_END, PHASE_START, PHASE_FEED };

static int
compares(PyObject *object, int operator)
{
    PyObject *zero = PyLong_FromLong(0);
    int answer = zero == NULL ? -1 : PyObject_RichCompareBool(object, zero, operator);

    Py_XDECREF(zero);
    return answer;
}

static int
check_seek(AsyncFile *file, PyObject *cookie, int whence)
{
    int bad;

    if (check_seekable(file) < 0) {
        return -1;
    }
    if (whence == SEEK_CUR || whence == SEEK_END) {
        bad = compares(cookie, Py_NE);
        if (bad > 0) {
            PyErr_Format(file->core->module->unsupported, "can't do nonzero %s-relative seeks",
                         whence == SEEK_CUR ? "cur" : "end");
        }
        if (bad == 0 && whence == SEEK_CUR) {
            return check_tells(file);
        }
        return bad == 0 ? 0 : -1;
    }
    if (whence != SEEK_SET) {
        PyErr_Format(PyExc_ValueError, "invalid whence (%d, should be %d, %d or %d)", whence,
                     SEEK_SET, SEEK_CUR, SEEK_END);
        return -1;
    }
    bad = compares(cookie, Py_LT);
    if (bad > 0) {
        PyErr_Format(PyExc_ValueError, "negative seek position %R", cookie);
    }
    return bad == 0 ? 0 : -1;
}

static aya_step
seek_ended(Operation *operation, PyObject *position, bool start)
{
    if (position == NULL || aya_encoder_at(operation->file->text, start) < 0) {
        Py_XDECREF(position);
        return AYA_STEP_FAILED;
    }
    operation->result = position;
    return AYA_STEP_DONE;
}

static aya_step
seek_to_end(Operation *operation)
{
    aya_text *text = operation->file->text;
    int64_t position = aya_stream_seek(&operation->file->core->stream, 0, SEEK_END);

    if (position < 0) {
        return aya_text_failed(operation, position);
    }
    aya_text_drop(text);
    if (aya_decoder_reset(&text->decoder) < 0) {
        return AYA_STEP_FAILED;
    }
    return seek_ended(operation, PyLong_FromLongLong(position), position == 0);
}

/* The stream is at the cookie's byte offset: the decoder follows. */
static int
start_at(aya_text *text, const text_cookie *cookie)
{
    text_decoder_state state = {.flags = cookie->flags, .pending_cr = cookie->pending_cr};

    aya_text_drop(text);
    text->place.at = (int64_t)cookie->at;
    text->place.flags = cookie->flags;
    text->place.pending_cr = cookie->pending_cr;
    text->place.input = PyBytes_FromStringAndSize(NULL, 0);
    if (text->place.input == NULL) {
        return -1;
    }
    if (cookie->at == 0 && cookie->flags == 0 && !cookie->pending_cr) {
        /* The state at the start is not zero for every codec. */
        return aya_decoder_reset(&text->decoder);
    }
    return aya_decoder_set_state(&text->decoder, &state);
}

/* Reads again what the cookie wants decoded, into command.extra. */
static int64_t
feed(Operation *operation, const text_cookie *cookie)
{
    aya_stream *stream = &operation->file->core->stream;
    aya_command *command = &operation->command;
    const char *data;

    if (command->extra == NULL) {
        command->extra = PyBytes_FromStringAndSize(NULL, (Py_ssize_t)cookie->feed);
        if (command->extra == NULL) {
            return AYA_TEXT_RAISED;
        }
    }
    while (command->done < cookie->feed) {
        int64_t result = aya_stream_fill(stream);
        if (result < 0) {
            return result;
        }
        if (result == 0) {
            break;
        }
        size_t size = aya_stream_window(stream, &data);
        if (size > cookie->feed - command->done) {
            size = cookie->feed - command->done;
        }
        memcpy(PyBytes_AS_STRING(command->extra) + command->done, data, size);
        aya_stream_consume(stream, size);
        command->done += size;
    }
    return _PyBytes_Resize(&command->extra, (Py_ssize_t)command->done) < 0 ? AYA_TEXT_RAISED : 0;
}

static aya_step
seek_into_chunk(Operation *operation, const text_cookie *cookie)
{
    aya_text *text = operation->file->text;
    int64_t result = feed(operation, cookie);

    if (result < 0) {
        return aya_text_failed(operation, result);
    }
    text->place.chunk = aya_decode(&text->decoder, operation->command.extra, cookie->final);
    if (text->place.chunk == NULL) {
        return AYA_STEP_FAILED;
    }
    Py_XSETREF(text->place.input, Py_NewRef(operation->command.extra));
    if ((uint64_t)PyUnicode_GET_LENGTH(text->place.chunk) < cookie->skip) {
        PyErr_SetString(PyExc_OSError, "can't restore logical file position");
        return AYA_STEP_FAILED;
    }
    text->place.used = (Py_ssize_t)cookie->skip;
    return seek_ended(operation, Py_NewRef(operation->command.object), false);
}

static aya_step
seek_to_cookie(Operation *operation)
{
    AsyncFile *file = operation->file;
    aya_command *command = &operation->command;
    text_cookie cookie;

    if (cookie_from_object(command->object, &cookie) < 0) {
        return AYA_STEP_FAILED;
    }
    if (command->phase == PHASE_START) {
        int64_t result = aya_stream_seek(&file->core->stream, (int64_t)cookie.at, SEEK_SET);
        if (result < 0) {
            return aya_text_failed(operation, result);
        }
        if (cookie.skip > 0 && aya_file_check_readable(file) < 0) {
            return AYA_STEP_FAILED;
        }
        if (start_at(file->text, &cookie) < 0) {
            return AYA_STEP_FAILED;
        }
        command->phase = PHASE_FEED;
    }
    if (cookie.skip > 0) {
        return seek_into_chunk(operation, &cookie);
    }
    int zero = compares(command->object, Py_EQ);
    return zero < 0 ? AYA_STEP_FAILED
                    : seek_ended(operation, Py_NewRef(command->object), zero > 0);
}

aya_step
aya_text_seek_step(Operation *operation)
{
    AsyncFile *file = operation->file;
    aya_command *command = &operation->command;
    int whence = (int)command->number[0];

    if (command->phase == PHASE_NEW) {
        if (check_seek(file, command->object, whence) < 0) {
            return AYA_STEP_FAILED;
        }
        aya_text_moves(file);
        command->phase = PHASE_FLUSH;
    }
    if (command->phase == PHASE_FLUSH) {
        int64_t result = aya_text_flush_stream(file);
        if (result < 0) {
            return aya_text_failed(operation, result);
        }
        if (whence == SEEK_CUR) {
            PyObject *here = cookie_here(file);
            if (here == NULL) {
                return AYA_STEP_FAILED;
            }
            Py_SETREF(command->object, here);
        }
        command->phase = whence == SEEK_END ? PHASE_END : PHASE_START;
    }
    return command->phase == PHASE_END ? seek_to_end(operation) : seek_to_cookie(operation);
}
