/* Commands of binary files; each function gives an Operation. Implemented in binary.c, called by
 * file.c. */
#ifndef AYA_BINARY_H
#define AYA_BINARY_H

#include "file.h"

PyObject *aya_binary_read(AsyncFile *file, const char *name, int64_t size); /* size < 0: all */
/* For a command that begins with a read of number[0] bytes (-1: all): a new one, and its step as
 * long as it reads. */
Operation *aya_binary_new_read(AsyncFile *file, const char *name, aya_step_function step);
aya_step aya_binary_step_read(Operation *operation);
PyObject *aya_binary_read1(AsyncFile *file, int64_t size);                  /* -1: a buffer full */
PyObject *aya_binary_peek(AsyncFile *file);
PyObject *aya_binary_readline(AsyncFile *file, int64_t size);               /* size < 0: no limit */
PyObject *aya_binary_readlines(AsyncFile *file, int64_t hint);              /* hint <= 0: all */
PyObject *aya_binary_next(AsyncFile *file); /* StopAsyncIteration at the end */
PyObject *aya_binary_readinto(AsyncFile *file, PyObject *buffer, bool once);
PyObject *aya_binary_write(AsyncFile *file, PyObject *data);
PyObject *aya_binary_writelines(AsyncFile *file, PyObject *lines);
PyObject *aya_binary_seek(AsyncFile *file, PyObject *offset, int whence);
PyObject *aya_binary_tell(AsyncFile *file);
PyObject *aya_binary_truncate(AsyncFile *file, PyObject *size); /* NULL or None: at the position */
PyObject *aya_binary_flush(AsyncFile *file);

#endif
