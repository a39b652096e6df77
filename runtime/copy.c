/* Copies between two open files by reading and writing, for all POSIX systems.
 *
 * Runs in workers and may wait. A call moves no more than AYA_COPY_MOST, so that a cancel between
 * two calls comes soon. Knows no requests.
 */
#include "posix.h"

#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

/* What is read and written stays in the processor's cache. */
#define COPY_BUFFER ((size_t)128 << 10)

static int64_t
write_whole(int target, const char *data, size_t size, int64_t offset)
{
    size_t done = 0;

    while (done < size) {
        ssize_t moved = pwrite(target, data + done, size - done, offset + (int64_t)done);
        if (moved < 0 && errno == EINTR) {
            continue;
        }
        if (moved <= 0) {
            return moved < 0 ? -errno : -EIO;
        }
        done += (size_t)moved;
    }
    return 0;
}

bool
aya_posix_overlap(int file, int64_t offset, int target, int64_t target_offset, size_t size)
{
    struct stat first, second;

    if (offset < 0 || target_offset < 0 || fstat(file, &first) < 0 || fstat(target, &second) < 0
        || !S_ISREG(first.st_mode) || first.st_dev != second.st_dev
        || first.st_ino != second.st_ino) {
        return false;
    }
    return aya_ranges_overlap(first.st_size, offset, target_offset, size);
}

int64_t
aya_posix_copy_by_reading(int file, int64_t offset, int target, int64_t target_offset, size_t size)
{
    int64_t copied = 0, error = 0;

    if (aya_posix_overlap(file, offset, target, target_offset, size)) {
        return -EINVAL;
    }
    char *buf = malloc(COPY_BUFFER);
    if (buf == NULL) {
        return -ENOMEM;
    }
    while (error == 0 && (size_t)copied < size && (size_t)copied < AYA_COPY_MOST) {
        size_t left = size - (size_t)copied;
        ssize_t got = pread(file, buf, left < COPY_BUFFER ? left : COPY_BUFFER, offset + copied);
        if (got <= 0) {
            error = got < 0 ? -errno : 0;
            break;
        }
        error = write_whole(target, buf, (size_t)got, target_offset + copied);
        copied += error == 0 ? got : 0;
    }
    free(buf);
    /* The next call meets the error again, and says it when nothing was copied before it. */
    return copied > 0 ? copied : error;
}
