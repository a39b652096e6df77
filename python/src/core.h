/* The core of an open file: its life, opening, and closing. Implemented in open.c. */
#ifndef AYA_CORE_H
#define AYA_CORE_H

#include "file.h"

/* A core with one reference, in module->cores. */
aya_core *aya_core_new(aya_module *module);
/* Gives a reference back; the last one closes what is still open, without waiting on a loop's
 * thread. */
void aya_core_drop(aya_core *core);
/* Starts the open as the first command of the queue. 0 or -1. */
int aya_core_open(aya_core *core, AsyncFile *file);
void aya_core_after_fork(aya_core *core);
/* At the interpreter's exit: writes out what is buffered. */
void aya_cores_end(aya_module *module);

/* open(path, mode, …) of the module and of AsyncFile; `type` is AsyncFile or a subclass. */
PyObject *aya_file_open(PyTypeObject *type, PyObject *const *args, Py_ssize_t nargs,
                        PyObject *kwnames);
/* A file over a descriptor at its own position; wrap(fd, mode, owns_fd, name). */
PyObject *aya_file_wrap(aya_module *module, int descriptor, PyObject *mode, bool owns,
                        PyObject *name);

/* The Operation whose result is the file itself, once it is open. */
PyObject *aya_file_opened(AsyncFile *file);
PyObject *aya_file_close(AsyncFile *file, bool leaving_block);

/* The Operation whose result is the file's content; whole.c. */
PyObject *aya_whole_read(aya_module *module, PyObject *path);

#endif
