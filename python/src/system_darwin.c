/* What CPython asks of macOS alone; the rest lies in system_posix.c. */
#include "system.h"

const char *
aya_system_name(void)
{
    return "macos";
}

PyObject *
aya_system_stat(PyObject *type, const aya_stat_raw *raw)
{
    aya_stat known;

    aya_stat_decode(raw, &known);
    PyObject *fields = aya_stat_fields(&known);
    return fields == NULL ? NULL
                          : PyObject_CallFunction(type, "N{sIsIsd}", fields, "st_flags",
                                                  raw->st_flags, "st_gen", raw->st_gen,
                                                  "st_birthtime",
                                                  aya_stat_seconds(known.born_ns));
}
