/* A text file's state: made by open(), changed by reconfigure(); flush, truncate and the
 * attributes.
 *
 * aya_text_init() and the attributes run in the caller of open() and of the attribute; the rest in
 * step functions. Codecs may run any Python code.
 */
#include "text_state.h"
#include "module.h"
#include "system.h"

/* -- pieces for the other text files ----------------------------------------------------------- */

bool
aya_text_seekable(AsyncFile *file)
{
    return file->core->stream.file.positioned;
}

aya_step
aya_text_failed(Operation *operation, int64_t result)
{
    if (result == AYA_PENDING) {
        return AYA_STEP_PENDING;
    }
    return result == AYA_TEXT_RAISED ? AYA_STEP_FAILED : aya_step_error(operation, result);
}

int64_t
aya_text_flush_stream(AsyncFile *file)
{
    int64_t result = aya_stream_flush(&file->core->stream);

    if (result == 0) {
        file->text->tell_disabled = false;
    }
    return result;
}

void
aya_place_clear(text_place *place)
{
    Py_CLEAR(place->chunk);
    Py_CLEAR(place->input);
    *place = (text_place){0};
}

void
aya_text_drop(aya_text *text)
{
    aya_place_clear(&text->place);
    text->known.bytes = text->known.characters = 0;
}

/* -- the encoding ------------------------------------------------------------------------------ */

/* sys.flags.NAME; 0 where there is none. */
static int
system_flag(const char *name)
{
    PyObject *flags = PySys_GetObject("flags"), *value;
    int answer;

    if (flags == NULL) {
        return 0;
    }
    value = PyObject_GetAttrString(flags, name);
    if (value == NULL) {
        PyErr_Clear();
        return 0;
    }
    answer = PyObject_IsTrue(value);
    Py_DECREF(value);
    return answer;
}

static PyObject *
locale_encoding(void)
{
    PyObject *module = PyImport_ImportModule("locale"), *encoding;

    if (module == NULL) {
        return NULL;
    }
#if PY_VERSION_HEX >= 0x030b0000
    encoding = PyObject_CallMethod(module, "getencoding", NULL);
#else
    encoding = PyObject_CallMethod(module, "getpreferredencoding", "O", Py_False);
#endif
    Py_DECREF(module);
    return encoding;
}

/* What stands for `encoding` (NULL: none was given). */
static PyObject *
resolve_encoding(PyObject *encoding)
{
#if PY_VERSION_HEX >= 0x030b0000 /* before, the locale's module knows of UTF-8 mode */
    if (encoding == NULL && system_flag("utf8_mode") > 0) {
        return PyUnicode_FromString("utf-8");
    }
#endif
    if (encoding == NULL || PyUnicode_CompareWithASCIIString(encoding, "locale") == 0) {
        return locale_encoding();
    }
    return Py_NewRef(encoding);
}

static int
codec_by_name(const char *name)
{
    static const struct {
        const char *name;
        text_codec codec;
    } direct[] = {{"utf-8", TEXT_UTF8}, {"ascii", TEXT_ASCII}, {"iso8859-1", TEXT_LATIN1}};

    for (size_t i = 0; i < sizeof(direct) / sizeof(direct[0]); i++) {
        if (PyOS_stricmp(name, direct[i].name) == 0) {
            return (int)direct[i].codec;
        }
    }
    return TEXT_OTHER;
}

/* The codec behind a CodecInfo, which must be of text. -1: an exception is set. */
static int
codec_of_info(PyObject *info, PyObject *encoding)
{
    PyObject *value = PyObject_GetAttrString(info, "_is_text_encoding");
    int is_text, codec = -1;

    if (value == NULL) {
        PyErr_Clear();
    }
    is_text = value == NULL ? 1 : PyObject_IsTrue(value);
    Py_XDECREF(value);
    if (is_text < 0) {
        return -1;
    }
    if (!is_text) {
        PyErr_Format(PyExc_LookupError, "%R is not a text encoding; use codecs.open() to handle "
                     "arbitrary codecs", encoding);
        return -1;
    }
    value = PyObject_GetAttrString(info, "name");
    if (value != NULL && PyUnicode_Check(value)) {
        const char *name = PyUnicode_AsUTF8(value);
        codec = name == NULL ? -1 : codec_by_name(name);
    } else if (value != NULL) {
        codec = TEXT_OTHER;
    }
    Py_XDECREF(value);
    return codec;
}

static int
find_codec(PyObject *encoding)
{
    const char *name = PyUnicode_AsUTF8(encoding);
    PyObject *codecs, *info = NULL;
    int codec;

    if (name == NULL) {
        return -1;
    }
    if (codec_by_name(name) != TEXT_OTHER) {
        return codec_by_name(name);
    }
    codecs = PyImport_ImportModule("codecs");
    if (codecs != NULL) {
        info = PyObject_CallMethod(codecs, "lookup", "O", encoding);
        Py_DECREF(codecs);
    }
    codec = info == NULL ? -1 : codec_of_info(info, encoding);
    Py_XDECREF(info);
    return codec;
}

/* Gives `text` the codec of `encoding`, with `errors`; both new references that are stolen. Only
 * where all of it works is anything changed. */
static int
set_encoding(aya_text *text, const aya_core *core, PyObject *encoding, PyObject *errors)
{
    PyObject *encoder = NULL, *decoder = NULL;
    int codec = find_codec(encoding);
    const char *name = PyUnicode_AsUTF8(encoding), *how = PyUnicode_AsUTF8(errors);
    bool failed = codec < 0 || how == NULL || name == NULL;

    if (!failed && codec == TEXT_OTHER && core->readable) {
        decoder = PyCodec_IncrementalDecoder(name, how);
        failed = decoder == NULL;
    }
    if (!failed && codec == TEXT_OTHER && core->writable) {
        encoder = PyCodec_IncrementalEncoder(name, how);
        failed = encoder == NULL;
    }
    if (failed) {
        Py_XDECREF(decoder);
        Py_DECREF(encoding);
        Py_DECREF(errors);
        return -1;
    }
    text->decoder.codec = (uint8_t)codec;
    text->decoder.tail_size = 0;
    text->decoder.pending_cr = false;
    text->decoder.seen = 0;
    text->decoder.errors = how;
    Py_XSETREF(text->decoder.object, decoder);
    Py_XSETREF(text->encoder, encoder);
    Py_XSETREF(text->encoding, encoding);
    Py_XSETREF(text->errors, errors);
    return 0;
}

/* -- newlines ---------------------------------------------------------------------------------- */

/* `newline` is a str or NULL. */
static int
check_newline(PyObject *newline)
{
    static const char *const allowed[] = {"", "\n", "\r", "\r\n"};

    for (size_t i = 0; newline != NULL && i < sizeof(allowed) / sizeof(allowed[0]); i++) {
        if (PyUnicode_CompareWithASCIIString(newline, allowed[i]) == 0) {
            return 0;
        }
    }
    if (newline == NULL) {
        return 0;
    }
    PyErr_Format(PyExc_ValueError, "illegal newline value: %U", newline);
    return -1;
}

static void
set_newline(aya_text *text, PyObject *newline)
{
    Py_ssize_t length = newline == NULL ? 0 : PyUnicode_GET_LENGTH(newline);
    bool is_lf = length == 1 && PyUnicode_READ_CHAR(newline, 0) == '\n';

    text->decoder.universal = length == 0;
    text->decoder.translate = newline == NULL;
    if (newline == NULL || is_lf) {
        text->line_end = TEXT_LINE_LF;
    } else if (length == 0) {
        text->line_end = TEXT_LINE_ANY;
    } else {
        text->line_end = length == 2 ? TEXT_LINE_CRLF : TEXT_LINE_CR;
    }
    Py_XSETREF(text->newline, Py_XNewRef(newline));
    Py_CLEAR(text->written_newline);
    if (length > 0 && !is_lf) {
        text->written_newline = Py_NewRef(newline);
    }
}

/* What os.linesep asks for where newline is None. */
static int
set_written_newline(aya_text *text)
{
    const char *newline = aya_system_newline();

    if (text->newline != NULL || newline == NULL) {
        return 0;
    }
    Py_XSETREF(text->written_newline, PyUnicode_FromString(newline));
    return text->written_newline == NULL ? -1 : 0;
}

/* -- open -------------------------------------------------------------------------------------- */

static int
check_string(PyObject *value, const char *name)
{
    Py_ssize_t size;
    const char *utf8;

    if (value == NULL) {
        return 0;
    }
    if (!PyUnicode_Check(value)) {
        PyErr_Format(PyExc_TypeError, "open() argument '%s' must be str or None, not %.50s", name,
                     Py_TYPE(value)->tp_name);
        return -1;
    }
    utf8 = PyUnicode_AsUTF8AndSize(value, &size);
    if (utf8 != NULL && strlen(utf8) != (size_t)size) {
        PyErr_SetString(PyExc_ValueError, "embedded null character");
        return -1;
    }
    return utf8 == NULL ? -1 : 0;
}

/* In development mode a handler that does not exist is refused at once. */
static int
check_errors(PyObject *errors)
{
    PyObject *handler;
    int wanted = system_flag("dev_mode");

    if (wanted <= 0) {
        return wanted;
    }
    handler = PyCodec_LookupError(PyUnicode_AsUTF8(errors));
    Py_XDECREF(handler);
    return handler == NULL ? -1 : 0;
}

static int
check_arguments(PyObject *encoding, PyObject *errors, PyObject *newline)
{
    if (check_string(encoding, "encoding") < 0 || check_string(errors, "errors") < 0
        || check_string(newline, "newline") < 0 || check_newline(newline) < 0
        || (errors != NULL && check_errors(errors) < 0)) {
        return -1;
    }
    if (encoding == NULL) {
        int warn = system_flag("warn_default_encoding");
        if (warn != 0) {
            return warn < 0 ? -1 : PyErr_WarnEx(PyExc_EncodingWarning,
                                                "'encoding' argument not specified", 1);
        }
    }
    return 0;
}

int
aya_text_init(AsyncFile *file, PyObject *encoding, PyObject *errors, PyObject *newline,
              bool line_buffering, bool write_through)
{
    aya_text *text;
    PyObject *chosen;

    if (check_arguments(encoding, errors, newline) < 0) {
        return -1;
    }
    text = PyMem_Calloc(1, sizeof(*text));
    if (text == NULL) {
        PyErr_NoMemory();
        return -1;
    }
    text->line_buffering = line_buffering;
    text->write_through = write_through;
    set_newline(text, newline);
    errors = errors == NULL ? PyUnicode_FromString("strict") : Py_NewRef(errors);
    chosen = errors == NULL ? NULL : resolve_encoding(encoding);
    if (chosen == NULL || set_encoding(text, file->core, chosen, errors) < 0
        || set_written_newline(text) < 0) {
        if (chosen == NULL) {
            Py_XDECREF(errors);
        }
        aya_text_free(text);
        return -1;
    }
    file->text = text;
    return 0;
}

void
aya_text_free(aya_text *text)
{
    if (text == NULL) {
        return;
    }
    aya_text_read_clear(text);
    aya_place_clear(&text->mark.place);
    Py_CLEAR(text->mark.after.buffered);
    aya_place_clear(&text->place);
    Py_CLEAR(text->decoder.object);
    Py_CLEAR(text->encoder);
    Py_CLEAR(text->encoding);
    Py_CLEAR(text->errors);
    Py_CLEAR(text->newline);
    Py_CLEAR(text->written_newline);
    PyMem_Free(text);
}

int
aya_text_traverse(aya_text *text, visitproc visit, void *arg)
{
    Py_VISIT(text->decoder.object);
    Py_VISIT(text->encoder);
    return 0;
}

static bool
is_terminal(const aya_core *core)
{
    return aya_system_is_terminal(&core->stream.file);
}

/* An encoder that begins within a file writes no byte-order mark. */
static int
encoder_starts(AsyncFile *file)
{
    if (aya_text_seekable(file) && file->core->stream.position != 0) {
        return aya_encoder_at(file->text, false);
    }
    return 0;
}

int
aya_text_opened(AsyncFile *file)
{
    if (file->core->buffering < 0 && is_terminal(file->core)) {
        file->text->line_buffering = true;
    }
    return encoder_starts(file);
}

/* -- reconfigure ------------------------------------------------------------------------------- */

enum { ENCODING, ERRORS, NEWLINE, LINE_BUFFERING, WRITE_THROUGH, OPTION_COUNT };

/* command.object is a tuple of the options; Ellipsis: not given. */
static PyObject *
option(Operation *operation, int which)
{
    return PyTuple_GET_ITEM(operation->command.object, which);
}

/* The option where it is a string, else NULL. */
static PyObject *
string_option(Operation *operation, int which)
{
    PyObject *value = option(operation, which);

    return PyUnicode_Check(value) ? value : NULL;
}

static int
bool_option(Operation *operation, int which, bool *out)
{
    PyObject *value = option(operation, which);
    long number;

    if (value == Py_None || value == Py_Ellipsis) {
        return 0;
    }
    number = PyLong_AsLong(value);
    if (number == -1 && PyErr_Occurred()) {
        return -1;
    }
    *out = number != 0;
    return 0;
}

static int
begin_reconfigure(Operation *operation)
{
    AsyncFile *file = operation->file;
    bool changes = string_option(operation, ENCODING) != NULL
                   || string_option(operation, ERRORS) != NULL
                   || option(operation, NEWLINE) != Py_Ellipsis;
    bool ignored;

    if (aya_file_check(file) < 0) {
        return -1;
    }
    aya_text_moves(file);
    if (changes && file->text->place.chunk != NULL) {
        PyErr_SetString(operation->module->unsupported,
                        "It is not possible to set the encoding or newline of stream after the "
                        "first read");
        return -1;
    }
    if (check_newline(string_option(operation, NEWLINE)) < 0
        || bool_option(operation, LINE_BUFFERING, &ignored) < 0
        || bool_option(operation, WRITE_THROUGH, &ignored) < 0) {
        return -1;
    }
    return 0;
}

static int
change_encoding(Operation *operation)
{
    AsyncFile *file = operation->file;
    aya_text *text = file->text;
    PyObject *encoding = string_option(operation, ENCODING);
    PyObject *errors = string_option(operation, ERRORS);

    if (encoding == NULL) {
        encoding = Py_NewRef(text->encoding);
        errors = Py_NewRef(errors == NULL ? text->errors : errors);
    } else {
        encoding = resolve_encoding(encoding);
        errors = errors == NULL ? PyUnicode_FromString("strict") : Py_NewRef(errors);
    }
    if (encoding == NULL || errors == NULL) {
        Py_XDECREF(encoding);
        Py_XDECREF(errors);
        return -1;
    }
    if (set_encoding(text, file->core, encoding, errors) < 0) {
        return -1;
    }
    aya_text_drop(text);
    return encoder_starts(file);
}

static int
reconfigure(Operation *operation)
{
    aya_text *text = operation->file->text;
    bool changes = string_option(operation, ENCODING) != NULL
                   || string_option(operation, ERRORS) != NULL;

    if (option(operation, NEWLINE) != Py_Ellipsis) {
        set_newline(text, string_option(operation, NEWLINE));
        if (set_written_newline(text) < 0) {
            return -1;
        }
        changes = true;
    }
    if (changes && change_encoding(operation) < 0) {
        return -1;
    }
    bool_option(operation, LINE_BUFFERING, &text->line_buffering);
    bool_option(operation, WRITE_THROUGH, &text->write_through);
    return 0;
}

static aya_step
reconfigure_step(Operation *operation)
{
    if (operation->command.phase == 0) {
        if (begin_reconfigure(operation) < 0) {
            return AYA_STEP_FAILED;
        }
        operation->command.phase = 1;
    }
    int64_t result = aya_text_flush_stream(operation->file);
    if (result < 0) {
        return aya_text_failed(operation, result);
    }
    if (reconfigure(operation) < 0) {
        return AYA_STEP_FAILED;
    }
    operation->result = Py_NewRef(Py_None);
    return AYA_STEP_DONE;
}

static PyObject *
reconfigure_options(PyObject *const *values)
{
    static const char *const strings[] = {"encoding", "errors", "newline"};
    PyObject *options;

    for (int i = ENCODING; i <= NEWLINE; i++) {
        if (values[i] != NULL && values[i] != Py_None && !PyUnicode_Check(values[i])) {
            PyErr_Format(PyExc_TypeError,
                         "reconfigure() argument '%s' must be str or None, not %.50s", strings[i],
                         Py_TYPE(values[i])->tp_name);
            return NULL;
        }
    }
    options = PyTuple_New(OPTION_COUNT);
    for (int i = 0; options != NULL && i < OPTION_COUNT; i++) {
        PyTuple_SET_ITEM(options, i, Py_NewRef(values[i] == NULL ? Py_Ellipsis : values[i]));
    }
    return options;
}

PyObject *
aya_text_reconfigure(AsyncFile *file, PyObject *const *args, Py_ssize_t nargs, PyObject *kwnames)
{
    static const char *const names[] = {"encoding", "errors", "newline", "line_buffering",
                                        "write_through"};
    static const aya_signature signature = {"reconfigure", names, OPTION_COUNT, 0};
    PyObject *values[OPTION_COUNT] = {NULL}, *options;
    Operation *operation;

    if (nargs > 0) {
        PyErr_Format(PyExc_TypeError, "reconfigure() takes 0 positional arguments but %zd %s given",
                     nargs, nargs == 1 ? "was" : "were");
        return NULL;
    }
    if (aya_parse_arguments(&signature, args, nargs, kwnames, values) < 0) {
        return NULL;
    }
    options = reconfigure_options(values);
    if (options == NULL) {
        return NULL;
    }
    operation = aya_command_new(file, "reconfigure", reconfigure_step, AYA_COMMAND_GO_ON);
    if (operation == NULL) {
        Py_DECREF(options);
        return NULL;
    }
    operation->command.object = options;
    return aya_command_begin(operation);
}

/* -- flush and truncate ------------------------------------------------------------------------ */

static aya_step
flush_step(Operation *operation)
{
    aya_core *core = operation->file->core;

    if (aya_file_check(operation->file) < 0) {
        return AYA_STEP_FAILED;
    }
    int64_t result = aya_text_flush_stream(operation->file);
    if (result < 0) {
        return aya_text_failed(operation, result);
    }
    if (aya_core_raise_late(core) < 0) {
        return AYA_STEP_FAILED;
    }
    operation->result = Py_NewRef(Py_None);
    return AYA_STEP_DONE;
}

PyObject *
aya_text_flush(AsyncFile *file)
{
    Operation *operation = aya_command_new(file, "flush", flush_step, AYA_COMMAND_GO_ON);

    return operation == NULL ? NULL : aya_command_begin(operation);
}

enum { NUMBER_SIZE, NUMBER_AT_POSITION };

static aya_step
truncate_step(Operation *operation)
{
    AsyncFile *file = operation->file;
    aya_command *command = &operation->command;
    int64_t result;

    if (command->phase == 0) {
        if (aya_file_check(file) < 0) {
            return AYA_STEP_FAILED;
        }
        if (!file->core->writable) {
            PyErr_SetString(operation->module->unsupported, "truncate");
            return AYA_STEP_FAILED;
        }
        aya_text_recover(file);
        result = aya_text_flush_stream(file);
        if (result < 0) {
            return aya_text_failed(operation, result);
        }
        if (command->number[NUMBER_AT_POSITION]) {
            command->number[NUMBER_SIZE] = file->core->stream.position;
        }
        command->phase = 1;
    }
    result = aya_stream_truncate(&file->core->stream, command->number[NUMBER_SIZE]);
    if (result < 0) {
        return aya_text_failed(operation, result);
    }
    operation->result = PyLong_FromLongLong(command->number[NUMBER_SIZE]);
    return operation->result == NULL ? AYA_STEP_FAILED : AYA_STEP_DONE;
}

PyObject *
aya_text_truncate(AsyncFile *file, PyObject *size)
{
    Operation *operation = aya_command_new(file, "truncate", truncate_step, AYA_COMMAND_GO_ON);

    if (operation == NULL) {
        return NULL;
    }
    if (size == NULL || size == Py_None) {
        operation->command.number[NUMBER_AT_POSITION] = 1;
    } else {
        PyObject *index = PyNumber_Index(size);
        int64_t number = index == NULL ? -1 : PyLong_AsLongLong(index);
        Py_XDECREF(index);
        if (number == -1 && PyErr_Occurred()) {
            return aya_operation_refused(operation);
        }
        operation->command.number[NUMBER_SIZE] = number;
    }
    return aya_command_begin(operation);
}

/* -- position, settling ------------------------------------------------------------------------ */

PyObject *
aya_text_seek(AsyncFile *file, PyObject *cookie, int whence)
{
    Operation *operation = aya_command_new(file, "seek", aya_text_seek_step, AYA_COMMAND_GO_ON);

    if (operation == NULL) {
        return NULL;
    }
    operation->command.object = Py_NewRef(cookie);
    operation->command.number[0] = whence;
    return aya_command_begin(operation);
}

PyObject *
aya_text_tell(AsyncFile *file)
{
    Operation *operation = aya_command_new(file, "tell", aya_text_tell_step, AYA_COMMAND_ABORT);

    return operation == NULL ? NULL : aya_command_begin(operation);
}

/* Text is encoded and handed over as it is written; only a read that was given up may hold
 * something. */
int64_t
aya_text_settle(AsyncFile *file)
{
    aya_text_recover(file);
    return 0;
}

/* -- attributes -------------------------------------------------------------------------------- */

PyObject *
aya_text_encoding(AsyncFile *file)
{
    return Py_NewRef(file->text->encoding);
}

PyObject *
aya_text_errors(AsyncFile *file)
{
    return Py_NewRef(file->text->errors);
}

PyObject *
aya_text_newlines(AsyncFile *file)
{
    const text_decoder *decoder = &file->text->decoder;

    switch (decoder->universal ? decoder->seen : 0) {
    case TEXT_SEEN_LF:
        return PyUnicode_FromString("\n");
    case TEXT_SEEN_CR:
        return PyUnicode_FromString("\r");
    case TEXT_SEEN_CRLF:
        return PyUnicode_FromString("\r\n");
    case TEXT_SEEN_CR | TEXT_SEEN_LF:
        return Py_BuildValue("ss", "\r", "\n");
    case TEXT_SEEN_LF | TEXT_SEEN_CRLF:
        return Py_BuildValue("ss", "\n", "\r\n");
    case TEXT_SEEN_CR | TEXT_SEEN_CRLF:
        return Py_BuildValue("ss", "\r", "\r\n");
    case TEXT_SEEN_LF | TEXT_SEEN_CR | TEXT_SEEN_CRLF:
        return Py_BuildValue("sss", "\r", "\n", "\r\n");
    default:
        Py_RETURN_NONE;
    }
}

PyObject *
aya_text_line_buffering(AsyncFile *file)
{
    return PyBool_FromLong(file->text->line_buffering);
}

PyObject *
aya_text_write_through(AsyncFile *file)
{
    return PyBool_FromLong(file->text->write_through);
}
