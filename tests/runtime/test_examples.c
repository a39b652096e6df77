/* Runs every example of the specs on the backend that argv[1] names, through the public API of
 * libaya.
 *
 * Each example runs twice: started at once, and tried inline first. argv[2] = "direct" marks the
 * files as opened past the page cache, so that rows for such files serve them. One thread; files
 * lie in a directory of its own below the current one. Exit 77: the backend does not work here.
 */
#include "aya.h"
#include "aya_examples.h"

#if defined(_WIN32)
#include "../windows/system_win32.h"
#else
#include "system_posix.h"
#endif

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#define PATH_MOST 256
#define CONTENT_MOST 65536
#define UNTOUCHED 0xa5
#define PATIENCE_S 10

static unsigned passed, failed, unsupported;
static bool direct;
static char directory[PATH_MOST];

/* All that one run of an example holds. */
typedef struct run {
    const aya_example *example;
    const aya_op_info *info;
    bool tried;                /* inline first */
    bool wrong;
    bool done;
    aya_path_char path[PATH_MOST], other_path[PATH_MOST]; /* "": nothing to remove */
    aya_file file, other_file;
    aya_handle fd, other_fd, peer; /* AYA_NO_HANDLE: none */
    aya_stat_raw stat;
    aya_span *spans;
    aya_request request;
    bool made;                 /* the request has its operation */
} run;

static void
complain(run *self, const char *what, int64_t got, int64_t expected)
{
    printf("%s: %s (%s): %s is %lld, not %lld\n", self->example->where, self->info->name,
           self->tried ? "tried inline first" : "started", what, (long long)got,
           (long long)expected);
    self->wrong = true;
}

static void
expect(run *self, const char *what, int64_t got, int64_t expected)
{
    if (got != expected) {
        complain(self, what, got, expected);
    }
}

static void
expect_bytes(run *self, const char *what, const void *got, int64_t size, aya_example_bytes expected)
{
    if (size != (int64_t)expected.size) {
        complain(self, what, size, (int64_t)expected.size);
    } else if (expected.size > 0 && memcmp(got, expected.data, expected.size) != 0) {
        printf("%s: %s: %s differs\n", self->example->where, self->info->name, what);
        self->wrong = true;
    }
}

static void
fatal(const char *what)
{
    perror(what);
    exit(2);
}

/* -- what an example is called on -------------------------------------------------------------- */

static void
name_file(aya_path_char *path, const char *name)
{
    char text[PATH_MOST];

    snprintf(text, sizeof(text), "%.200s/%.40s", directory, name);
    system_path(path, PATH_MOST, text);
}

static void
make_file(const aya_path_char *path, aya_example_bytes content)
{
    aya_handle file = system_create(path);

    if (file == AYA_NO_HANDLE || !system_write(file, content.data, content.size)) {
        fatal("making a file");
    }
    system_close(file);
}

static aya_handle
open_file(const aya_path_char *path, bool is_directory, aya_file *file)
{
    aya_handle handle = system_open(path, is_directory);

    if (handle == AYA_NO_HANDLE || aya_file_init(file, handle) < 0) {
        fatal("opening a file");
    }
    file->direct = direct;
    return handle;
}

static void
make_pipe(run *self)
{
    aya_example_bytes content = self->example->file;
    aya_handle ends[2];

    if (!system_pipe(ends)) {
        fatal("pipe");
    }
    if (self->info->writes) {
        self->fd = ends[1];
        self->peer = ends[0];
    } else {
        self->fd = ends[0];
        if (!system_write(ends[1], content.data, content.size)) {
            fatal("write to a pipe");
        }
        system_close(ends[1]);
    }
    if (aya_file_init(&self->file, self->fd) < 0) {
        fatal("aya_file_init of a pipe");
    }
}

static void
make_world(run *self)
{
    const aya_example *example = self->example;

    self->fd = self->other_fd = self->peer = AYA_NO_HANDLE;
    name_file(self->path, "file");
    if (example->kind == AYA_EXAMPLE_FILE) {
        make_file(self->path, example->file);
    } else if (example->kind == AYA_EXAMPLE_DIRECTORY) {
        if (!system_mkdir(self->path)) {
            fatal("mkdir");
        }
    } else if (example->kind == AYA_EXAMPLE_PIPE) {
        make_pipe(self);
    }
    if (self->info->on == AYA_ON_FILE && self->fd == AYA_NO_HANDLE) {
        self->fd = open_file(self->path, example->kind == AYA_EXAMPLE_DIRECTORY, &self->file);
    }
    if (example->other_name != NULL) {
        name_file(self->other_path, example->other_name);
        if (example->other.data != NULL || example->other_is_open) {
            make_file(self->other_path, example->other);
        }
        if (example->other_is_open) {
            self->other_fd = open_file(self->other_path, false, &self->other_file);
        }
    }
}

static void
remove_either(const aya_path_char *path)
{
    if (path[0] != 0) {
        system_remove(path);
    }
}

static void
close_file(aya_handle *fd, aya_file *file)
{
    if (*fd != AYA_NO_HANDLE) {
        aya_file_release(file);
        system_close_if_open(*fd);
        *fd = AYA_NO_HANDLE;
    }
}

static void
free_world(run *self)
{
    close_file(&self->fd, &self->file);
    close_file(&self->other_fd, &self->other_file);
    if (self->peer != AYA_NO_HANDLE) {
        system_close(self->peer);
    }
    remove_either(self->path);
    remove_either(self->other_path);
    for (size_t i = 0; self->spans != NULL && i < self->example->spans_len; i++) {
        if (self->example->spans[i].buf == NULL) {
            free(self->spans[i].buf);
        }
    }
    free(self->spans);
    if (self->made) {
        free(self->request.op.buf == &self->stat ? NULL : self->request.op.buf);
    }
}

/* -- the call ---------------------------------------------------------------------------------- */

static void
note_done(aya_request *request)
{
    run *self = (run *)((char *)request - offsetof(run, request));

    self->done = true;
}

/* Buffers start too small for what is read, so that every read that can grow does. */
static int
grow(aya_request *request, aya_op *op, size_t index)
{
    run *self = (run *)((char *)request - offsetof(run, request));
    size_t size = op->buf_size * 2 + 1;
    void *buf = realloc(op->buf, size);

    if (buf == NULL) {
        return -ENOMEM;
    }
    op->buf = buf;
    op->buf_size = size;
    if (op != &request->op) {
        self->spans[index].buf = buf;
        self->spans[index].buf_size = size;
    }
    return 0;
}

static void
copy_spans(run *self)
{
    size_t count = self->example->spans_len;

    self->spans = calloc(count > 0 ? count : 1, sizeof(aya_span));
    if (self->spans == NULL) {
        fatal("calloc");
    }
    for (size_t i = 0; i < count; i++) {
        self->spans[i] = self->example->spans[i];
        if (self->spans[i].buf == NULL) {
            self->spans[i].buf = malloc(1);
            self->spans[i].buf_size = 1;
        }
    }
}

static void
wait_for(aya_context *context, run *self)
{
    time_t end = time(NULL) + PATIENCE_S;

    while (!self->done) {
        int error = aya_context_wait(context, 1000);
        if (error < 0 && error != -EINTR) {
            printf("aya_context_wait: %s\n", strerror(-error));
            exit(1);
        }
        if (time(NULL) > end) {
            printf("%s: %s never ended\n", self->example->where, self->info->name);
            exit(1);
        }
    }
}

static void
make_call(run *self, void *caller_buffer)
{
    const aya_example *example = self->example;
    bool bytes = self->info->result == AYA_RESULT_BYTES;
    size_t room = self->info->resumes ? 1 : CONTENT_MOST;
    aya_example_call call = {
        .file = &self->file,
        .path = self->path,
        .other_file = &self->other_file,
        .other_path = self->other_path,
        .buf = bytes ? malloc(room) : caller_buffer,
        .buf_size = bytes ? room : CONTENT_MOST,
        .stat = &self->stat,
        .spans = self->spans,
        .spans_len = example->spans_len,
    };

    example->fill(&self->request.op, &call);
    self->request.done = note_done;
    self->request.grow = grow;
    self->made = true;
}

/* -- what came of it --------------------------------------------------------------------------- */

static int64_t
read_whole(aya_handle fd, char *content)
{
    int64_t size = 0;

    for (;;) {
        int64_t got = system_read(fd, content + size, (size_t)(CONTENT_MOST - size));
        if (got < 0) {
            fatal("read");
        }
        if (got == 0) {
            return size;
        }
        size += got;
    }
}

static void
check_content(run *self, const char *what, const aya_path_char *path,
              aya_example_bytes expected)
{
    static char content[CONTENT_MOST];

    if (expected.data == NULL) {
        return;
    }
    aya_handle fd = system_open(path, false);
    if (fd == AYA_NO_HANDLE) {
        complain(self, what, -errno, 0);
        return;
    }
    expect_bytes(self, what, content, read_whole(fd, content), expected);
    system_close(fd);
}

static void
check_after(run *self)
{
    const aya_example *example = self->example;
    static char content[CONTENT_MOST];
    bool is_directory = false;

    if (example->kind == AYA_EXAMPLE_PIPE && example->after.data != NULL
        && self->peer != AYA_NO_HANDLE) {
        close_file(&self->fd, &self->file);
        expect_bytes(self, "what came out of the pipe", content, read_whole(self->peer, content),
                     example->after);
    } else {
        check_content(self, "the file afterwards", self->path, example->after);
    }
    check_content(self, "the other file afterwards", self->other_path, example->after_other);
    if (example->becomes != AYA_BECOMES_UNSAID) {
        bool gone = !system_exists(self->path, &is_directory);
        uint8_t is = gone           ? AYA_BECOMES_GONE
                     : is_directory ? AYA_BECOMES_DIRECTORY
                                    : AYA_BECOMES_FILE;
        expect(self, "what became of the path", is, example->becomes);
    }
}

static void
check_list(run *self)
{
    for (size_t i = 0; i < self->example->spans_len; i++) {
        const aya_example_item *item = &self->example->items[i];
        if (item->bytes.data != NULL) {
            expect_bytes(self, "a part's bytes", self->spans[i].buf, self->spans[i].result,
                         item->bytes);
        } else {
            expect(self, "a part's count", self->spans[i].result, item->count);
        }
    }
}

static void
check_buffer(run *self, const unsigned char *buffer)
{
    aya_example_bytes filled = self->example->filled;
    size_t at = filled.data == NULL ? 0 : filled.size;

    if (filled.data != NULL) {
        expect_bytes(self, "the caller's buffer", buffer, (int64_t)filled.size, filled);
        for (; at < CONTENT_MOST; at++) {
            if (buffer[at] != UNTOUCHED) {
                complain(self, "a byte behind what was read", buffer[at], UNTOUCHED);
                return;
            }
        }
    }
}

static void
check_result(run *self)
{
    const aya_example *example = self->example;
    int64_t result = self->request.op.result;
    aya_stat status;

    if (example->error != 0 || result < 0) {
        expect(self, "the result", result, -(int64_t)example->error);
        if (result >= 0 && self->info->result == AYA_RESULT_HANDLE) {
            system_close((aya_handle)result);
        }
        return;
    }
    switch (self->info->result) {
    case AYA_RESULT_COUNT:
        expect(self, "the result", result, example->count);
        break;
    case AYA_RESULT_BYTES:
        expect_bytes(self, "the result", self->request.op.buf, result, example->bytes);
        break;
    case AYA_RESULT_LIST:
        check_list(self);
        break;
    case AYA_RESULT_HANDLE:
        expect(self, "close of the handle", system_close((aya_handle)result), true);
        break;
    case AYA_RESULT_STAT:
        aya_stat_decode(&self->stat, &status);
        expect(self, "the size", (int64_t)status.size, example->count);
        break;
    default:
        expect(self, "the result", result, 0);
        break;
    }
}

static void
run_example(aya_context *context, const aya_example *example, bool tried)
{
    static unsigned char buffer[CONTENT_MOST];
    run self = {.example = example, .info = &aya_op_infos[example->code], .tried = tried};

    memset(buffer, UNTOUCHED, sizeof(buffer));
    make_world(&self);
    copy_spans(&self);
    make_call(&self, buffer);
    if (!tried || !aya_try(context, &self.request)) {
        aya_start(context, &self.request);
        wait_for(context, &self);
    }
    if (self.request.op.result == -ENOTSUP && example->error != ENOTSUP) {
        free_world(&self);
        unsupported++;
        return;
    }
    check_result(&self);
    check_buffer(&self, buffer);
    check_after(&self);
    free_world(&self);
    if (self.wrong) {
        failed++;
    } else {
        passed++;
    }
}

/* -- the run ----------------------------------------------------------------------------------- */

static bool
choose_backend(aya_config *config, const char *name)
{
    for (size_t i = 0; i < AYA_OPTION_COUNT; i++) {
        if (strcmp(aya_options[i].name, "backend") != 0) {
            continue;
        }
        for (int word = 0; aya_config_word(&aya_options[i], word) != NULL; word++) {
            if (strcmp(aya_config_word(&aya_options[i], word), name) == 0) {
                config->backend = (uint8_t)word;
                return true;
            }
        }
    }
    return false;
}

static void
print_routes(const aya_context *context)
{
    static const char *const names[AYA_ROUTE_COUNT] = {"inline", "backend", "fallback",
                                                       "direct", "poll",    "alone"};
    const uint64_t *routes = aya_context_routes(context);

    printf("%s%s:", aya_context_backend(context), direct ? " direct" : "");
    for (int i = 0; i < AYA_ROUTE_COUNT; i++) {
        printf(" %s %llu", names[i], (unsigned long long)routes[i]);
    }
    printf("\n");
}

int
main(int argc, char **argv)
{
    const char *name = argc > 1 ? argv[1] : "auto";
    aya_config config = aya_config_defaults;
    aya_context *context;

    direct = argc > 2 && strcmp(argv[2], "direct") == 0;
    if (!choose_backend(&config, name)) {
        printf("%s is no backend\n", name);
        return 2;
    }
    int error = aya_context_create(&config, &context);
    if (error < 0) {
        const char *reason = aya_backend_reason(name);
        printf("%s: %s\n", name, reason == NULL ? strerror(-error) : reason);
        return 77;
    }
    if (!system_own_directory(directory, sizeof(directory))) {
        fatal("making a directory");
    }
    for (size_t i = 0; i < aya_examples_count; i++) {
        run_example(context, &aya_examples[i], false);
        run_example(context, &aya_examples[i], true);
    }
    if (aya_context_pending(context) != 0) {
        printf("%u requests are pending at the end\n", aya_context_pending(context));
        failed++;
    }
    print_routes(context);
    aya_context_destroy(context);
    aya_path_char own[PATH_MOST];
    system_path(own, PATH_MOST, directory);
    system_remove(own);
    printf("%u passed, %u failed, %u of operations that this system has not\n", passed, failed,
           unsupported);
    return failed > 0 || passed == 0;
}
