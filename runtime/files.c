/* What an open file is, and how it can be used without waiting.
 *
 * Runs in a loop's thread and never waits: only calls that ask no other machine or process are
 * made on a file whose filesystem is not known as local.
 */
#include "posix.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

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

int
aya_file_init(aya_file *file, aya_handle handle)
{
    aya_facts facts;
    int flags = fcntl(handle, F_GETFL);
    int error;

    *file = (aya_file){.handle = handle, .io = handle};
    aya_link_init(&file->held);
    if (flags < 0) {
        return -errno;
    }
    error = aya_posix_facts(handle, &facts);
    if (error < 0) {
        return error;
    }
    aya_mount mount = aya_mount_find(facts.mount);
    file->kind = (uint8_t)kind_of(handle, &facts);
    file->append = (flags & O_APPEND) != 0;
    file->direct = aya_posix_is_direct(handle, flags);
    file->local = mount.local;
    file->inline_read = (uint8_t)inline_read_of(file, &mount);
    file->positioned = lseek(handle, 0, SEEK_CUR) >= 0;
    if (file->kind == AYA_FILE_POLLABLE) {
        file->io = aya_posix_own_description(handle, flags, &facts);
    }
    return 0;
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
    if (file->io != file->handle && file->io >= 0) {
        close(file->io);
    }
    file->io = file->handle;
}

bool
aya_file_close_inline(aya_file *file)
{
    aya_facts facts;

    if (file->kind != AYA_FILE_REGULAR || !file->local || file->written
        || aya_posix_facts(file->handle, &facts) < 0 || facts.links == 0) {
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

size_t
aya_file_block_size(const aya_file *file)
{
    aya_facts facts;

    return aya_posix_facts(file->handle, &facts) < 0 ? 0 : facts.block_size;
}

int64_t
aya_file_size_hint(const aya_file *file)
{
    aya_facts facts;

    return aya_posix_facts(file->handle, &facts) < 0 ? 0 : (int64_t)facts.size;
}
