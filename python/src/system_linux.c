/* What CPython asks of Linux alone; the rest lies in system_posix.c. */
#include "system.h"

const char *
aya_system_name(void)
{
    return "linux";
}

PyObject *
aya_system_stat(PyObject *type, const aya_stat_raw *raw)
{
    aya_stat known;

    aya_stat_decode(raw, &known);
    PyObject *fields = aya_stat_fields(&known);
    PyObject *result = fields == NULL ? NULL : PyObject_CallOneArg(type, fields);
    Py_XDECREF(fields);
    return result;
}
