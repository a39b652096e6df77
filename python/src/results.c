/* Memory of results: a bytes object that a read gave, and that nobody holds any more, is filled
 * again by a later read of as many bytes. Memory that goes back to the C library each time comes
 * again as pages that the system has to clear, at more than the cost of the read.
 *
 * The objects lie in a ring, the oldest at `first`. Runs with the GIL; knows no operation.
 */
#include "module.h"

/* Smaller ones have a faster allocator. */
#define LEAST 512
#define BYTES_MOST ((size_t)4 << 20)
/* How many are looked at, beside the oldest: the last is often still held where it was assigned,
 * and the one before by an exception that is kept for reuse. */
#define LOOKS 3

static PyObject **
place(aya_results *results, size_t index)
{
    return &results->ring[(results->first + index) % AYA_RESULTS_MOST];
}

static void
drop_oldest(aya_results *results)
{
    PyObject *bytes = *place(results, 0);

    results->first++;
    results->count--;
    results->size -= (size_t)PyBytes_GET_SIZE(bytes);
    Py_DECREF(bytes);
}

/* Takes the object out; younger ones move up. */
static PyObject *
take(aya_results *results, size_t index)
{
    PyObject *bytes = *place(results, index);

    for (; index + 1 < results->count && index > 0; index++) {
        *place(results, index) = *place(results, index + 1);
    }
    results->first += index == 0;
    results->count--;
    results->size -= (size_t)PyBytes_GET_SIZE(bytes);
    /* It is another object from here on: nobody has asked for its hash, which lies before the
     * bytes. */
    Py_hash_t none = -1;
    static_assert(offsetof(PyBytesObject, ob_sval)
                      == sizeof(PyVarObject) + sizeof(Py_hash_t), "the hash lies there");
    memcpy(PyBytes_AS_STRING(bytes) - sizeof(none), &none, sizeof(none));
    return bytes;
}

static bool
is_free(aya_results *results, size_t index, size_t size)
{
    PyObject *bytes = *place(results, index);

    return Py_REFCNT(bytes) == 1 && (size_t)PyBytes_GET_SIZE(bytes) == size;
}

PyObject *
aya_results_take(aya_results *results, size_t size)
{
    size_t count = results->count;

    if (size < LEAST || count == 0) {
        return NULL;
    }
    for (size_t i = 1; i <= LOOKS && i <= count; i++) {
        if (is_free(results, count - i, size)) {
            return take(results, count - i);
        }
    }
    return count > LOOKS && is_free(results, 0, size) ? take(results, 0) : NULL;
}

void
aya_results_give(aya_results *results, PyObject *bytes)
{
    size_t size = (size_t)PyBytes_GET_SIZE(bytes);

    if (!AYA_KEEPS_MEMORY || size < LEAST || size > BYTES_MOST / 2) {
        return;
    }
    while (results->count == AYA_RESULTS_MOST
           || (results->count > 0 && results->size + size > BYTES_MOST)) {
        drop_oldest(results);
    }
    *place(results, results->count) = Py_NewRef(bytes);
    results->count++;
    results->size += size;
}

void
aya_results_drop(aya_results *results)
{
    while (results->count > 0) {
        drop_oldest(results);
    }
}
