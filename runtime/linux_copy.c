/* Copies between two open files by Linux: content, and what shutil.copystat() copies.
 *
 * Runs in workers and may wait. A call moves no more than AYA_COPY_MOST. Knows no requests.
 */
#include "posix.h"

#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/xattr.h>
#include <unistd.h>

/* -- content ----------------------------------------------------------------------------------- */

/* Whether the system only does not copy such files by itself. */
static bool
reading_may_help(int error)
{
    switch (error) {
    case EXDEV:
    case ENOSYS:
    case EOPNOTSUPP:
    case EINVAL: /* not of two regular files */
    case EPERM:  /* seccomp */
        return true;
    default:
        return false;
    }
}

int64_t
aya_posix_copy_range(int file, int64_t offset, int target, int64_t target_offset, size_t size)
{
    off_t from = offset, to = target_offset;

    /* The system sees no more than this call's piece. */
    if (aya_posix_overlap(file, offset, target, target_offset, size)) {
        return -EINVAL;
    }
    ssize_t moved =
        copy_file_range(file, &from, target, &to, size < AYA_COPY_MOST ? size : AYA_COPY_MOST, 0);
    if (moved > 0) {
        return moved;
    }
    if (moved < 0 && !reading_may_help(errno)) {
        return -errno;
    }
    /* Nothing moved: the end, or a file that tells no length and has content (/proc). */
    return aya_posix_copy_by_reading(file, offset, target, target_offset, size);
}

/* -- what is known of a file ------------------------------------------------------------------- */

static bool
no_attributes(int error)
{
    return error == ENOTSUP || error == ENODATA || error == EINVAL;
}

/* One attribute; those that the target's filesystem or its guards refuse are left out. */
static int64_t
copy_attribute(int file, int target, const char *name)
{
    ssize_t size = fgetxattr(file, name, NULL, 0);
    void *value = NULL;
    int error = 0;

    if (size >= 0) {
        value = malloc((size_t)size + 1);
        if (value == NULL) {
            return -ENOMEM;
        }
        size = fgetxattr(file, name, value, (size_t)size);
    }
    if (size < 0 || fsetxattr(target, name, value, (size_t)size, 0) < 0) {
        error = errno;
    }
    free(value);
    return no_attributes(error) || error == EPERM || error == EACCES ? 0 : -error;
}

static int64_t
copy_attributes(int file, int target)
{
    ssize_t size = flistxattr(file, NULL, 0);
    char *names;
    int64_t error = 0;

    if (size <= 0) {
        return size == 0 || no_attributes(errno) ? 0 : -errno;
    }
    names = malloc((size_t)size);
    if (names == NULL) {
        return -ENOMEM;
    }
    size = flistxattr(file, names, (size_t)size);
    if (size < 0) {
        error = no_attributes(errno) ? 0 : -errno;
    }
    for (const char *name = names; error == 0 && name < names + size; name += strlen(name) + 1) {
        error = copy_attribute(file, target, name);
    }
    free(names);
    return error;
}

int64_t
aya_posix_copy_stat(int file, int target)
{
    struct stat known;
    int64_t error;

    if (fstat(file, &known) < 0) {
        return -errno;
    }
    if (futimens(target, (struct timespec[]){known.st_atim, known.st_mtim}) < 0) {
        return -errno;
    }
    error = copy_attributes(file, target);
    if (error < 0) {
        return error;
    }
    return fchmod(target, known.st_mode & 07777) < 0 ? -errno : 0;
}
