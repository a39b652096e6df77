/* What an open file is, and how it can be used without waiting.
 *
 * Runs in a loop's thread and never waits: only calls that ask no other machine or process are
 * made on a file whose filesystem is not known as local.
 */
#include "posix.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

/* What is known of a file for so long after its open cannot have become very wrong. */
#define FRESH_NS INT64_C(10000000)
/* To give up the blocks of a file takes 250 ms a GiB. */
#define SMALL_SIZE (INT64_C(1) << 20)

static aya_file_kind
kind_of(int fd, const aya_facts *facts)
{
    switch (facts->mode & S_IFMT) {
    case S_IFREG:
        return AYA_FILE_REGULAR;
    case S_IFDIR:
        return AYA_FILE_DIRECTORY;
    case S_IFIFO:
    case S_IFSOCK:
        return AYA_FILE_POLLABLE;
    case S_IFBLK:
        return AYA_FILE_DEVICE;
    default:
        return aya_poll_possible(fd) ? AYA_FILE_POLLABLE : AYA_FILE_DEVICE;
    }
}

static aya_inline_mode
inline_read_of(const aya_file *file, const aya_mount *mount)
{
    if (file->kind != AYA_FILE_REGULAR) {
        return AYA_INLINE_NOWAIT;
    }
    /* RWF_NOWAIT waits for the device there. */
    if (file->direct && mount->inline_read != AYA_INLINE_PLAIN) {
        return AYA_INLINE_NEVER;
    }
    return (aya_inline_mode)mount->inline_read;
}

/* `flags` are the descriptor's; or, `known`, those that tell of an open of ours: O_APPEND. */
static void
fill(aya_file *file, aya_handle handle, int flags, bool known, const aya_facts *facts)
{
    aya_mount mount = aya_mount_find(facts->mount);

    *file = (aya_file){.handle = handle, .io = handle};
    aya_link_init(&file->held);
    file->kind = (uint8_t)kind_of(handle, facts);
    file->append = (flags & O_APPEND) != 0;
    file->local = mount.local;
    file->block_size = facts->block_size;
    file->size = (int64_t)facts->size;
    if (known && file->kind == AYA_FILE_REGULAR && file->local) {
        file->positioned = file->at_start = true;
    } else {
        /* Some files of /proc are regular and have no position. */
        file->positioned = lseek(handle, 0, SEEK_CUR) >= 0;
    }
    if (!known) {
        file->direct = aya_posix_is_direct(handle, flags);
    }
    file->inline_read = (uint8_t)inline_read_of(file, &mount);
    if (file->kind == AYA_FILE_POLLABLE) {
        flags = known ? fcntl(handle, F_GETFL) : flags;
        file->io = aya_posix_own_description(handle, flags, facts);
    }
}

int
aya_file_init(aya_file *file, aya_handle handle)
{
    int flags = fcntl(handle, F_GETFL);
    aya_facts facts;
    int error = flags < 0 ? -errno : aya_posix_facts(handle, &facts);

    if (error == 0) {
        fill(file, handle, flags, false, &facts);
    }
    return error;
}

void
aya_file_found(aya_file *file, aya_handle handle, bool append, const aya_facts *facts)
{
    fill(file, handle, append ? O_APPEND : 0, true, facts);
    file->opened_ns = aya_now_ns();
}

int
aya_file_init_opened(aya_file *file, aya_handle handle, bool append)
{
    aya_facts facts;
    int error = aya_posix_facts(handle, &facts);

    if (error == 0) {
        aya_file_found(file, handle, append, &facts);
    }
    return error;
}

static bool
is_fresh(const aya_file *file)
{
    return !file->written && file->opened_ns != 0 && aya_now_ns() - file->opened_ns < FRESH_NS;
}

bool
aya_file_known(aya_handle handle)
{
    aya_facts facts;

    return aya_posix_facts(handle, &facts) < 0 || !S_ISREG(facts.mode)
           || aya_mount_find(facts.mount).known;
}

void
aya_file_release(aya_file *file)
{
    if (file->io == file->handle) {
        return;
    }
    if (file->io >= 0) {
        close(file->io);
    }
    file->io = file->handle;
}

/* Whether the close may be the one that gives up the blocks of a large file. */
static bool
closes_last(const aya_file *file)
{
    aya_facts facts;

    if (is_fresh(file) && file->size <= SMALL_SIZE) {
        return false;
    }
    return aya_posix_facts(file->handle, &facts) < 0 || facts.links == 0;
}

bool
aya_file_close_inline(aya_file *file)
{
    if (file->kind != AYA_FILE_REGULAR || !file->local || file->written || closes_last(file)) {
        return false;
    }
    close(file->handle);
    return true;
}

int64_t
aya_file_position(const aya_file *file)
{
    off_t position = lseek(file->handle, 0, SEEK_CUR);

    return position < 0 ? -errno : position;
}

int
aya_file_set_position(const aya_file *file, int64_t position)
{
    return lseek(file->handle, position, SEEK_SET) < 0 ? -errno : 0;
}

int64_t
aya_file_size_hint(const aya_file *file)
{
    aya_facts facts;

    if (is_fresh(file)) {
        return file->size;
    }
    return aya_posix_facts(file->handle, &facts) < 0 ? 0 : (int64_t)facts.size;
}
