/* Decoding of a text file's bytes: by CPython's own decoders where they can be called directly,
 * else by the codec's incremental decoder; then the newline rules, as io.IncrementalNewlineDecoder
 * has them. Runs in step functions; a codec may run any Python code.
 */
#include "text_state.h"

/* -- bytes to characters ----------------------------------------------------------------------- */

static PyObject *
join_bytes(const char *head, size_t head_size, PyObject *bytes)
{
    PyObject *joined = PyBytes_FromStringAndSize(NULL,
                                                 (Py_ssize_t)head_size + PyBytes_GET_SIZE(bytes));

    if (joined != NULL) {
        memcpy(PyBytes_AS_STRING(joined), head, head_size);
        memcpy(PyBytes_AS_STRING(joined) + head_size, PyBytes_AS_STRING(bytes),
               (size_t)PyBytes_GET_SIZE(bytes));
    }
    return joined;
}

static PyObject *
decode_utf8(text_decoder *decoder, PyObject *bytes, bool final)
{
    PyObject *whole = decoder->tail_size == 0
                          ? Py_NewRef(bytes)
                          : join_bytes(decoder->tail, decoder->tail_size, bytes);
    if (whole == NULL) {
        return NULL;
    }
    const char *data = PyBytes_AS_STRING(whole);
    Py_ssize_t size = PyBytes_GET_SIZE(whole), consumed = size;
    PyObject *text = PyUnicode_DecodeUTF8Stateful(data, size, decoder->errors,
                                                  final ? NULL : &consumed);
    if (text != NULL) {
        assert((size_t)(size - consumed) <= sizeof(decoder->tail));
        decoder->tail_size = (uint8_t)(size - consumed);
        memcpy(decoder->tail, data + consumed, decoder->tail_size);
    }
    Py_DECREF(whole);
    return text;
}

static PyObject *
decode_other(text_decoder *decoder, PyObject *bytes, bool final)
{
    PyObject *text = PyObject_CallMethod(decoder->object, "decode", "OO", bytes,
                                         final ? Py_True : Py_False);

    if (text != NULL && !PyUnicode_Check(text)) {
        PyErr_Format(PyExc_TypeError, "decoder should return a string result, not '%.200s'",
                     Py_TYPE(text)->tp_name);
        Py_CLEAR(text);
    }
    return text;
}

static PyObject *
decode_bytes(text_decoder *decoder, PyObject *bytes, bool final)
{
    switch (decoder->codec) {
    case TEXT_UTF8:
        return decode_utf8(decoder, bytes, final);
    case TEXT_ASCII:
        return PyUnicode_DecodeASCII(PyBytes_AS_STRING(bytes), PyBytes_GET_SIZE(bytes),
                                     decoder->errors);
    case TEXT_LATIN1:
        return PyUnicode_DecodeLatin1(PyBytes_AS_STRING(bytes), PyBytes_GET_SIZE(bytes),
                                      decoder->errors);
    default:
        return decode_other(decoder, bytes, final);
    }
}

/* -- newlines ---------------------------------------------------------------------------------- */

static bool
contains(PyObject *text, Py_UCS4 character, Py_ssize_t from, Py_ssize_t to)
{
    return from < to && PyUnicode_FindChar(text, character, from, to, 1) >= 0;
}

/* Gives a "\r" that waited to `text`, and keeps back one at its end. Steals `text`. */
static PyObject *
move_pending_cr(text_decoder *decoder, PyObject *text, bool final)
{
    Py_ssize_t length = PyUnicode_GET_LENGTH(text);

    if (decoder->pending_cr && (length > 0 || final)) {
        PyObject *joined = PyUnicode_FromFormat("\r%U", text);
        Py_DECREF(text);
        if (joined == NULL) {
            return NULL;
        }
        text = joined;
        length++;
        decoder->pending_cr = false;
    }
    if (length > 0 && !final && PyUnicode_READ_CHAR(text, length - 1) == '\r') {
        PyObject *shorter = PyUnicode_Substring(text, 0, length - 1);
        Py_DECREF(text);
        text = shorter;
        decoder->pending_cr = text != NULL;
    }
    return text;
}

/* Copies `text`, which has a "\r" at `cr`, to `out` with each line ending as "\n", and notes which
 * there were. The new length. */
static Py_ssize_t
translate(text_decoder *decoder, PyObject *text, Py_ssize_t cr, char *out)
{
    int kind = (int)PyUnicode_KIND(text);
    const char *data = PyUnicode_DATA(text);
    Py_ssize_t length = PyUnicode_GET_LENGTH(text), from = 0, done = 0;

    while (from < length) {
        Py_ssize_t to = cr < 0 ? length : cr;
        if (!(decoder->seen & TEXT_SEEN_LF) && contains(text, '\n', from, to)) {
            decoder->seen |= TEXT_SEEN_LF;
        }
        memcpy(out + done * kind, data + from * kind, (size_t)((to - from) * kind));
        done += to - from;
        from = to;
        if (cr >= 0) {
            bool pair = cr + 1 < length && PyUnicode_READ(kind, data, cr + 1) == '\n';
            decoder->seen |= pair ? TEXT_SEEN_CRLF : TEXT_SEEN_CR;
            PyUnicode_WRITE(kind, out, done, '\n');
            done++;
            from = cr + 1 + pair;
            cr = from < length ? PyUnicode_FindChar(text, '\r', from, length, 1) : -1;
        }
    }
    return done;
}

/* Notes the line endings of `text`, which has a "\r" at `cr`. */
static void
note_newlines(text_decoder *decoder, PyObject *text, Py_ssize_t cr)
{
    Py_ssize_t length = PyUnicode_GET_LENGTH(text), from = 0;

    while (from < length) {
        Py_ssize_t to = cr < 0 ? length : cr;
        if (!(decoder->seen & TEXT_SEEN_LF) && contains(text, '\n', from, to)) {
            decoder->seen |= TEXT_SEEN_LF;
        }
        from = to;
        if (cr >= 0) {
            bool pair = cr + 1 < length && PyUnicode_READ_CHAR(text, cr + 1) == '\n';
            decoder->seen |= pair ? TEXT_SEEN_CRLF : TEXT_SEEN_CR;
            from = cr + 1 + pair;
            cr = from < length ? PyUnicode_FindChar(text, '\r', from, length, 1) : -1;
        }
    }
}

/* The universal newline rules. Steals `text`. */
static PyObject *
apply_newlines(text_decoder *decoder, PyObject *text, bool final)
{
    Py_ssize_t length, cr;

    text = move_pending_cr(decoder, text, final);
    if (text == NULL || (length = PyUnicode_GET_LENGTH(text)) == 0) {
        return text;
    }
    cr = PyUnicode_FindChar(text, '\r', 0, length, 1);
    if (cr < 0) {
        if (!(decoder->seen & TEXT_SEEN_LF) && contains(text, '\n', 0, length)) {
            decoder->seen |= TEXT_SEEN_LF;
        }
        return text;
    }
    if (!decoder->translate) {
        note_newlines(decoder, text, cr);
        return text;
    }
    /* No character but "\r" goes, so that the kind of string stays. */
    PyObject *translated = PyUnicode_New(length, PyUnicode_MAX_CHAR_VALUE(text));
    if (translated != NULL) {
        length = translate(decoder, text, cr, PyUnicode_DATA(translated));
        if (PyUnicode_Resize(&translated, length) < 0) {
            Py_CLEAR(translated);
        }
    }
    Py_DECREF(text);
    return translated;
}

PyObject *
aya_decode(text_decoder *decoder, PyObject *bytes, bool final)
{
    PyObject *text = decode_bytes(decoder, bytes, final);

    if (text != NULL && decoder->universal) {
        text = apply_newlines(decoder, text, final);
    }
    return text;
}

/* -- state ------------------------------------------------------------------------------------- */

static int
get_other_state(PyObject *object, text_decoder_state *state)
{
    PyObject *pair = PyObject_CallMethod(object, "getstate", NULL);

    if (pair == NULL) {
        return -1;
    }
    if (!PyTuple_Check(pair) || PyTuple_GET_SIZE(pair) != 2
        || !PyBytes_Check(PyTuple_GET_ITEM(pair, 0)) || !PyLong_Check(PyTuple_GET_ITEM(pair, 1))) {
        PyErr_SetString(PyExc_TypeError, "illegal decoder state");
        Py_DECREF(pair);
        return -1;
    }
    state->flags = PyLong_AsUnsignedLongLong(PyTuple_GET_ITEM(pair, 1));
    if (state->flags == (uint64_t)-1 && PyErr_Occurred()) {
        Py_DECREF(pair);
        return -1;
    }
    if (PyBytes_GET_SIZE(PyTuple_GET_ITEM(pair, 0)) > 0) {
        state->buffered = Py_NewRef(PyTuple_GET_ITEM(pair, 0));
    }
    Py_DECREF(pair);
    return 0;
}

int
aya_decoder_get_state(text_decoder *decoder, text_decoder_state *state)
{
    *state = (text_decoder_state){.pending_cr = decoder->pending_cr};
    if (decoder->object != NULL) {
        return get_other_state(decoder->object, state);
    }
    if (decoder->tail_size > 0) {
        state->buffered = PyBytes_FromStringAndSize(decoder->tail, decoder->tail_size);
        return state->buffered == NULL ? -1 : 0;
    }
    return 0;
}

int
aya_decoder_set_state(text_decoder *decoder, const text_decoder_state *state)
{
    decoder->pending_cr = state->pending_cr;
    if (decoder->object != NULL) {
        PyObject *done = state->buffered == NULL
            ? PyObject_CallMethod(decoder->object, "setstate", "((y#K))", "", (Py_ssize_t)0,
                                  (unsigned long long)state->flags)
            : PyObject_CallMethod(decoder->object, "setstate", "((OK))", state->buffered,
                                  (unsigned long long)state->flags);
        Py_XDECREF(done);
        return done == NULL ? -1 : 0;
    }
    decoder->tail_size = 0;
    if (state->buffered != NULL) {
        assert((size_t)PyBytes_GET_SIZE(state->buffered) <= sizeof(decoder->tail));
        decoder->tail_size = (uint8_t)PyBytes_GET_SIZE(state->buffered);
        memcpy(decoder->tail, PyBytes_AS_STRING(state->buffered), decoder->tail_size);
    }
    return 0;
}

int
aya_decoder_reset(text_decoder *decoder)
{
    decoder->pending_cr = false;
    decoder->seen = 0;
    decoder->tail_size = 0;
    if (decoder->object != NULL) {
        PyObject *done = PyObject_CallMethod(decoder->object, "reset", NULL);
        Py_XDECREF(done);
        return done == NULL ? -1 : 0;
    }
    return 0;
}
