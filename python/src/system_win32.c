/* Windows: a descriptor is a number of the C library that Python uses, which may be another than
 * this module's: so it is asked for through Python's own modules. Files are used by their handles.
 *
 * A descriptor that a file was given to keep stays beside a duplicate of its handle, and goes when
 * that has gone; one that fileno() is asked for is made over a duplicate.
 */
#include "system.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>

#define WIN32_LEAN_AND_MEAN
#include <windows.h>

const char *
aya_system_name(void)
{
    return "windows";
}

PyObject *
aya_system_version(void)
{
    PyObject *platform = PyImport_ImportModule("platform");
    PyObject *version =
        platform == NULL ? NULL : PyObject_CallMethod(platform, "version", NULL);

    Py_XDECREF(platform);
    return version;
}

PyObject *
aya_system_stat(PyObject *type, const aya_stat_raw *raw)
{
    aya_stat known;

    aya_stat_decode(raw, &known);
    known.changed_ns = known.born_ns; /* as os.stat() has it */
    PyObject *all = aya_stat_fields(&known);
    PyObject *fields = all == NULL ? NULL : PyTuple_GetSlice(all, 0, AYA_STAT_COMMON);
    Py_XDECREF(all);
    return fields == NULL
               ? NULL
               : PyObject_CallFunction(type, "N{sdsLsIsI}", fields, "st_birthtime",
                                       aya_stat_seconds(known.born_ns), "st_birthtime_ns",
                                       (long long)known.born_ns, "st_file_attributes",
                                       raw->attributes, "st_reparse_tag", raw->reparse_tag);
}

const char *
aya_system_newline(void)
{
    return "\r\n";
}

PyObject *
aya_system_path(PyObject *path)
{
    PyObject *text, *result;
    wchar_t *wide;
    Py_ssize_t length;

    if (!PyUnicode_FSDecoder(path, &text)) {
        return NULL;
    }
    wide = PyUnicode_AsWideCharString(text, &length);
    Py_DECREF(text);
    if (wide == NULL) {
        return NULL;
    }
    if (wcslen(wide) != (size_t)length) {
        PyErr_SetString(PyExc_ValueError, "embedded null character");
        result = NULL;
    } else {
        result = PyBytes_FromStringAndSize((const char *)wide,
                                           (length + 1) * (Py_ssize_t)sizeof(wchar_t));
    }
    PyMem_Free(wide);
    return result;
}

int
aya_system_open_flags(void)
{
    return _O_NOINHERIT | _O_BINARY;
}

/* os.open() makes no other. */
void
aya_system_no_inherit(int descriptor)
{
    (void)descriptor;
}

/* A result of a function of Python's module `name`, as a number; -1 with an exception. */
static int64_t
ask(const char *name, const char *function, long long first, int second)
{
    PyObject *module = PyImport_ImportModule(name);
    PyObject *result = module == NULL ? NULL
                       : second < 0   ? PyObject_CallMethod(module, function, "L", first)
                                      : PyObject_CallMethod(module, function, "Li", first, second);
    int64_t number = result == NULL     ? -1
                     : result == Py_None ? 0
                                         : PyLong_AsLongLong(result);

    Py_XDECREF(module);
    Py_XDECREF(result);
    return number;
}

static HANDLE
duplicate(HANDLE handle)
{
    HANDLE process = GetCurrentProcess(), other;

    return DuplicateHandle(process, handle, process, &other, 0, FALSE, DUPLICATE_SAME_ACCESS)
               ? other
               : INVALID_HANDLE_VALUE;
}

int64_t
aya_system_adopt(aya_core *core, int descriptor)
{
    int64_t handle = ask("msvcrt", "get_osfhandle", descriptor, -1);

    if (handle == -1) {
        PyErr_Clear();
        return -EBADF;
    }
    if (core->closefd) {
        HANDLE own = duplicate((HANDLE)(intptr_t)handle);
        if (own == INVALID_HANDLE_VALUE) {
            return -EBADF;
        }
        handle = (int64_t)(intptr_t)own;
    }
    core->descriptor = descriptor;
    return handle;
}

int
aya_system_descriptor(aya_core *core)
{
    if (core->descriptor < 0) {
        HANDLE own = duplicate(core->stream.file.handle);
        int64_t made = own == INVALID_HANDLE_VALUE
                           ? -1
                           : ask("msvcrt", "open_osfhandle", (long long)(intptr_t)own, _O_BINARY);
        if (made < 0) {
            if (own != INVALID_HANDLE_VALUE) {
                CloseHandle(own);
            }
            if (!PyErr_Occurred()) {
                aya_system_raise(-EBADF, 0, core->path, NULL);
            }
            return -1;
        }
        core->descriptor = (int)made;
    }
    return core->descriptor;
}

void
aya_system_closed(aya_core *core)
{
    int descriptor = core->descriptor;

    core->descriptor = -1;
    if (descriptor < 0 || !core->closefd) {
        return;
    }
    PyObject *type, *value, *traceback;
    PyErr_Fetch(&type, &value, &traceback);
    if (ask("os", "close", descriptor, -1) < 0) {
        PyErr_WriteUnraisable(core->path);
    }
    PyErr_Restore(type, value, traceback);
}

void
aya_system_close(aya_handle handle)
{
    CloseHandle(handle);
}

bool
aya_system_is_terminal(const aya_file *file)
{
    DWORD mode;

    return file->kind == AYA_FILE_DEVICE && GetConsoleMode(file->handle, &mode);
}

void
aya_system_raise(int64_t error, uint32_t code, PyObject *path, PyObject *other)
{
    PyObject *exception;

    if (code != 0) {
        PyErr_SetExcFromWindowsErrWithFilenameObjects(PyExc_OSError, (int)code, path, other);
        return;
    }
    /* Python would look at the errno of its own C library. */
    exception = path == NULL ? PyObject_CallFunction(PyExc_OSError, "is", (int)-error,
                                                     strerror((int)-error))
                             : PyObject_CallFunction(PyExc_OSError, "isOOO", (int)-error,
                                                     strerror((int)-error), path, Py_None,
                                                     other == NULL ? Py_None : other);
    if (exception != NULL) {
        PyErr_SetObject((PyObject *)Py_TYPE(exception), exception);
        Py_DECREF(exception);
    }
}
