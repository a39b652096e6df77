/* POSIX: a descriptor is the handle, and errno the error. */
#include "system.h"

#include <errno.h>
#include <fcntl.h>
#include <sys/utsname.h>
#include <unistd.h>

PyObject *
aya_system_version(void)
{
    struct utsname names;

    if (uname(&names) < 0) {
        return PyErr_SetFromErrno(PyExc_OSError);
    }
    return PyUnicode_FromFormat("%s %s", names.sysname, names.release);
}

const char *
aya_system_newline(void)
{
    return NULL;
}

PyObject *
aya_system_path(PyObject *path)
{
    PyObject *encoded;

    return PyUnicode_FSConverter(path, &encoded) ? encoded : NULL;
}

int
aya_system_open_flags(void)
{
    return O_CLOEXEC;
}

void
aya_system_no_inherit(int descriptor)
{
    fcntl(descriptor, F_SETFD, FD_CLOEXEC);
}

int64_t
aya_system_adopt(aya_core *core, int descriptor)
{
    (void)core;
    return descriptor;
}

int
aya_system_descriptor(aya_core *core)
{
    return core->stream.file.handle;
}

void
aya_system_closed(aya_core *core)
{
    (void)core;
}

void
aya_system_close(aya_handle handle)
{
    close(handle);
}

bool
aya_system_is_terminal(const aya_file *file)
{
    /* Only what can be a terminal is asked: a file's own filesystem may take its time to answer. */
    return file->kind == AYA_FILE_POLLABLE && isatty(file->handle);
}

void
aya_system_raise(int64_t error, uint32_t Py_UNUSED(code), PyObject *path, PyObject *other)
{
    errno = (int)-error;
    if (path == NULL) {
        PyErr_SetFromErrno(PyExc_OSError);
    } else if (other == NULL) {
        PyErr_SetFromErrnoWithFilenameObject(PyExc_OSError, path);
    } else {
        PyErr_SetFromErrnoWithFilenameObjects(PyExc_OSError, path, other);
    }
}
