/* AsyncFile, and the core that its views share.
 *
 * A core is one open file: the stream, the queue of commands, and whether it is open. AsyncFile
 * objects are views of a core: the text file, the binary file beneath it (`buffer`), the raw one
 * (`raw`).
 */
#ifndef AYA_FILE_H
#define AYA_FILE_H

#include "operation.h"

#include "../../runtime/stream.h"

typedef struct aya_text aya_text;

typedef enum aya_core_state {
    AYA_CORE_UNOPENED, /* made where no loop runs: opens with the first command */
    AYA_CORE_OPENING,  /* its open command is at the head of the queue */
    AYA_CORE_OPEN,
    AYA_CORE_FAILED,   /* open_error says why; every operation raises it, close() is silent */
    AYA_CORE_CLOSED,   /* from the call of close() on */
} aya_core_state;

struct aya_core {
    aya_stream stream;        /* first: wake() gets from it to the core */
    aya_module *module;
    Py_ssize_t references;    /* views, commands and requests */
    uint8_t state;            /* aya_core_state */
    bool readable, writable, appending, created, exclusive, truncating; /* the mode */
    bool closefd;
    bool auto_flush;
    bool seekable;
    bool running;             /* a step function is on the stack */
    bool advance_again;       /* something it waits for ended meanwhile, in another thread */
    bool closing;             /* close() was called: no further operation is taken */
    bool timed_out;           /* close() has waited long enough: what is queued is ended unrun */
    int64_t buffering;
    int given;                /* the descriptor that open() was given, or -1 */
    int descriptor;           /* beside the handle, where a descriptor is not one; or -1 */
    unsigned writers;         /* queued commands that write */
    Operation *head, *tail;   /* the queue; head is the one that runs */
    Operation *last_read;     /* whose result ends at the position; borrowed, for undo */
    PyObject *open_error;     /* exception */
    PyObject *late_error;     /* of a command that nobody waited for: for the next flush or close */
    PyObject *path;           /* as given */
    PyObject *path_bytes;     /* encoded for the system; NULL for a descriptor */
    PyObject *opener;         /* or NULL */
#ifdef Py_GIL_DISABLED
    PyObject *guard;          /* see guard.h */
#endif
    aya_core *next, *previous; /* all cores of the module, for the interpreter's exit */
};

struct AsyncFile {
    PyObject_HEAD
    aya_core *core;           /* NULL: detached */
    aya_text *text;           /* NULL for a binary file */
    PyObject *buffer;         /* the binary AsyncFile of a text file, made on demand */
    PyObject *mode;           /* as given */
    PyObject *weak_references;
#ifdef Py_GIL_DISABLED
    PyObject *guard;          /* the core's, for good; NULL: never had one */
#endif
    bool raw;                 /* the view is `raw` */
    bool warn;                /* dropped without close(): ResourceWarning */
};

/* Makes the file a view of the core, of whose references it takes one over. */
void aya_file_set_core(AsyncFile *file, aya_core *core);
/* Raises ValueError for a closed or detached file. 0 when it may be used. */
int aya_file_check(AsyncFile *file);
/* The same, and io.UnsupportedOperation when it was not opened for it. */
int aya_file_check_readable(AsyncFile *file);
int aya_file_check_writable(AsyncFile *file);

#endif
