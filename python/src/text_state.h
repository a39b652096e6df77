/* The inside of a text file, shared by text.c, text_read.c, text_write.c, text_cookie.c and
 * text_decode.c.
 *
 * Commands of a file run one at a time, so that nothing here is locked: only the running step
 * function and its undo touch the state. A chunk is what one piece of input was decoded to; reads
 * serve from it and count in characters.
 */
#ifndef AYA_TEXT_STATE_H
#define AYA_TEXT_STATE_H

#include "text.h"

/* Beside what stream calls return: a Python exception is set; the turn of the loop is used up. */
#define AYA_TEXT_RAISED INT64_C(-0x7fff0011)
#define AYA_TEXT_LATER INT64_C(-0x7fff0012)

typedef enum text_codec {
    TEXT_UTF8,
    TEXT_ASCII,
    TEXT_LATIN1,
    TEXT_OTHER, /* by the incremental decoder and encoder of its codec */
} text_codec;

enum { TEXT_SEEN_LF = 1, TEXT_SEEN_CR = 2, TEXT_SEEN_CRLF = 4 };

typedef enum text_line_end {
    TEXT_LINE_LF,   /* newline=None (translated) and "\n" */
    TEXT_LINE_ANY,  /* "" */
    TEXT_LINE_CR,
    TEXT_LINE_CRLF,
} text_line_end;

/* A decoder with the newline rules behind it. Copied by value for a trial run; the copies share
 * `object`, whose state is then to be put back. */
typedef struct text_decoder {
    uint8_t codec;            /* text_codec */
    bool universal;           /* a "\r" at the end waits for a "\n" */
    bool translate;           /* "\r" and "\r\n" become "\n" */
    bool pending_cr;          /* a "\r" waits */
    uint8_t seen;             /* TEXT_SEEN_* */
    uint8_t tail_size;
    char tail[4];             /* TEXT_UTF8: an incomplete character */
    const char *errors;       /* borrowed from aya_text.errors */
    PyObject *object;         /* TEXT_OTHER: the codec's decoder */
} text_decoder;

typedef struct text_decoder_state {
    PyObject *buffered;       /* bytes that it holds undecoded; NULL: none */
    uint64_t flags;
    bool pending_cr;
} text_decoder_state;

/* Where reading stands. */
typedef struct text_place {
    PyObject *chunk;          /* str; NULL: nothing decoded */
    Py_ssize_t used;          /* characters of it that were read */
    PyObject *input;          /* the bytes that it was decoded from, so that tell() reads nothing;
                                 NULL: the stream's position is the place */
    int64_t at;               /* stream position of their first byte */
    uint64_t flags;           /* the decoder's state before them */
    bool pending_cr;
} text_place;

/* The read under way: what it has got so far. */
typedef struct text_read {
    bool unfinished;
    int64_t input;            /* bytes decoded in this turn of the loop */
    PyObject *pieces;         /* list of str, or NULL: of a line or of so many characters */
    int64_t gathered;         /* characters in them */
    PyObject *lines;          /* list of readlines() */
    int64_t total;            /* characters in them */
    PyObject *data;           /* bytes of a read to the end, `size` of them filled */
    Py_ssize_t size;
    bool fell_short;          /* the last piece was smaller than asked: the end is near */
} text_read;

/* What it takes to undo the last read: the place before it. */
typedef struct text_mark {
    bool moved;               /* the read went on to another chunk: `place` and the rest hold */
    Py_ssize_t used;          /* place.used before the read; in the same chunk if not moved */
    text_place place;
    text_decoder_state after; /* the decoder's at the end of place.chunk */
    int64_t position;         /* the stream's, likewise */
    int64_t end;              /* the stream's, when the read had ended */
} text_mark;

struct aya_text {
    PyObject *encoding, *errors; /* str */
    PyObject *newline;           /* str or NULL */
    PyObject *written_newline;   /* what "\n" is written as; NULL: itself */
    PyObject *encoder;           /* TEXT_OTHER of a writable file */
    text_decoder decoder;
    uint8_t line_end;         /* text_line_end */
    bool line_buffering, write_through;
    bool tell_disabled;       /* by readlines() on a file not open for reading */
    text_place place;
    text_read read;
    text_mark mark;
    uint64_t serial;          /* counts commands that move the place */
    /* The last place in place.input that tell() found the decoder empty at; bytes and characters
     * from its start. Only to go on from: 0, 0 is always right. */
    struct {
        Py_ssize_t bytes, characters;
        uint64_t flags;
        bool pending_cr;
    } known;
};

/* -- text_decode.c ----------------------------------------------------------------------------- */

/* The str for `bytes` after what the decoder holds; NULL with an exception. */
PyObject *aya_decode(text_decoder *decoder, PyObject *bytes, bool final);
int aya_decoder_get_state(text_decoder *decoder, text_decoder_state *state);
int aya_decoder_set_state(text_decoder *decoder, const text_decoder_state *state);
int aya_decoder_reset(text_decoder *decoder);

/* -- text.c ------------------------------------------------------------------------------------ */

/* Whether tell() and seek() work. */
bool aya_text_seekable(AsyncFile *file);
/* aya_stream_flush(), which also lets tell() answer again. */
int64_t aya_text_flush_stream(AsyncFile *file);
aya_step aya_text_failed(Operation *operation, int64_t result);
void aya_place_clear(text_place *place);
/* Forgets what was decoded and where it came from. */
void aya_text_drop(aya_text *text);
/* What the encoder must know before it writes at `position`: a byte-order mark belongs to the
 * start. */
int aya_encoder_at(aya_text *text, bool start);

/* -- text_read.c ------------------------------------------------------------------------------- */

/* Puts back what a read that was given up has taken. */
void aya_text_recover(AsyncFile *file);
/* The same, for a command that moves the place: the read before it can no longer be undone. */
void aya_text_moves(AsyncFile *file);
void aya_text_read_clear(aya_text *text);

/* -- text_cookie.c ----------------------------------------------------------------------------- */

aya_step aya_text_seek_step(Operation *operation);
aya_step aya_text_tell_step(Operation *operation);

#endif
