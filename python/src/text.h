/* Text: decoding and encoding over the byte stream of a core, as io.TextIOWrapper does it.
 * Implemented in text.c; called by file.c. Each function that returns PyObject * gives an
 * Operation.
 */
#ifndef AYA_TEXT_H
#define AYA_TEXT_H

#include "file.h"

/* Makes the text state of `file` (file->text). `encoding` NULL: the locale's, as open() chooses
 * (with EncodingWarning as there); `errors` NULL: "strict"; `newline` NULL: universal. LookupError,
 * ValueError and TypeError as open() raises them. Never waits. 0 or -1. */
int aya_text_init(AsyncFile *file, PyObject *encoding, PyObject *errors, PyObject *newline,
                  bool line_buffering, bool write_through);
void aya_text_free(aya_text *text);
int aya_text_traverse(aya_text *text, visitproc visit, void *arg);
/* Called once when the file is open, before its first command: appending and BOM (an encoder of a
 * file that is not at its start must not write one). 0 or -1. */
int aya_text_opened(AsyncFile *file);

PyObject *aya_text_read(AsyncFile *file, int64_t size);       /* size < 0: all */
PyObject *aya_text_readline(AsyncFile *file, int64_t size);   /* size < 0: no limit */
PyObject *aya_text_readlines(AsyncFile *file, int64_t hint);  /* hint <= 0: all */
PyObject *aya_text_next(AsyncFile *file);                     /* StopAsyncIteration at the end */
PyObject *aya_text_write(AsyncFile *file, PyObject *string);
PyObject *aya_text_writelines(AsyncFile *file, PyObject *lines);
PyObject *aya_text_flush(AsyncFile *file);
PyObject *aya_text_seek(AsyncFile *file, PyObject *cookie, int whence);
PyObject *aya_text_tell(AsyncFile *file);
PyObject *aya_text_truncate(AsyncFile *file, PyObject *size); /* NULL or None: at the position */
PyObject *aya_text_reconfigure(AsyncFile *file, PyObject *const *args, Py_ssize_t nargs,
                               PyObject *kwnames);

/* Used by file.c before commands on the binary view, by close and by detach: hands text that was
 * written and is still held as text to the stream. Called from a step function; repeated after
 * AYA_PENDING. 0, -errno, or -EILSEQ with an exception set. */
int64_t aya_text_settle(AsyncFile *file);

/* Attributes; new references. */
PyObject *aya_text_encoding(AsyncFile *file);
PyObject *aya_text_errors(AsyncFile *file);
PyObject *aya_text_newlines(AsyncFile *file);
PyObject *aya_text_line_buffering(AsyncFile *file);
PyObject *aya_text_write_through(AsyncFile *file);

#endif
