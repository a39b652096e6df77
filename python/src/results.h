/* Bytes objects that reads gave, kept for reuse; see results.c. */
#ifndef AYA_RESULTS_H
#define AYA_RESULTS_H

#define PY_SSIZE_T_CLEAN
#include <Python.h>

#include <stdbool.h>

/* Whether memory is kept for reuse. Not where the checkers of memory must see each piece of it, nor
 * without the GIL: threads would have to share the lists, and a count of references may be another
 * thread's next moment. */
#if defined(Py_GIL_DISABLED) || defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
#define AYA_KEEPS_MEMORY false
#else
#define AYA_KEEPS_MEMORY true
#endif

#define AYA_RESULTS_MOST 1024

typedef struct aya_results {
    PyObject *ring[AYA_RESULTS_MOST]; /* owned */
    size_t first, count;
    size_t size;                      /* of all of them, in bytes */
} aya_results;

/* One of `size` bytes that nobody else holds, to be filled; or NULL without an exception. */
PyObject *aya_results_take(aya_results *results, size_t size);
/* Keeps a result for later, as long as there is room. */
void aya_results_give(aya_results *results, PyObject *bytes);
void aya_results_drop(aya_results *results);

#endif
