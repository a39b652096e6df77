/* Where CPython meets the operating system: descriptors, paths, exceptions of system errors.
 * Implemented once a system: system_posix.c, system_win32.c. Called with the GIL; never wait but
 * where a comment says so.
 */
#ifndef AYA_SYSTEM_H
#define AYA_SYSTEM_H

#include "file.h"

/* What get_backend_info() calls the system, and its version: a new reference, or NULL with an
 * exception. */
const char *aya_system_name(void);
PyObject *aya_system_version(void);
/* What ends a line of a text file instead of "\n"; NULL where nothing does. */
const char *aya_system_newline(void);

/* A new os.stat_result, which is `type`; NULL with an exception. */
PyObject *aya_system_stat(PyObject *type, const aya_stat_raw *raw);
/* Its fields for that function, in a tuple: the sixteen that all systems have, and three of POSIX;
 * requests.c. */
#define AYA_STAT_COMMON 16
PyObject *aya_stat_fields(const aya_stat *known);
double aya_stat_seconds(int64_t ns);

/* A path as the system takes it, in a bytes object with its end; NULL with an exception. */
PyObject *aya_system_path(PyObject *path);

/* os.open() flags of every file of ours. */
int aya_system_open_flags(void);
/* Keeps a descriptor from child processes that are not told of it. */
void aya_system_no_inherit(int descriptor);
/* The handle that the core uses for a descriptor which it was given; -errno. Called once a core;
 * where the two differ core->descriptor keeps the descriptor. */
int64_t aya_system_adopt(aya_core *core, int descriptor);
/* The descriptor of an open core, or -1 with an exception. */
int aya_system_descriptor(aya_core *core);
/* The core's handle was closed, or was not the core's to close: closes what is beside it. */
void aya_system_closed(aya_core *core);
/* Closes a handle, and may wait for it. */
void aya_system_close(aya_handle handle);
bool aya_system_is_terminal(const aya_file *file);

/* Raises OSError for -errno, with one path, two or none. `code`: what the system called it, where
 * it has numbers of its own; else 0. */
void aya_system_raise(int64_t error, uint32_t code, PyObject *path, PyObject *other);

#endif
