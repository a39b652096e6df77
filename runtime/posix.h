/* The system calls that rows of spec/backends/threads.toml name, and what the files of runtime/
 * that are for POSIX systems need of the system: posix.c, and linux.c or darwin.c. >= 0 or -errno,
 * unless a comment says otherwise.
 */
#ifndef AYA_POSIX_H
#define AYA_POSIX_H

#include "internal.h"

/* May wait: workers only. AYA_RESULT_ALONE where the open would wait for another party (a FIFO).
 * Learns the file's mount. */
int64_t aya_posix_open(const char *path, int access, bool append, bool create, bool exclusive,
                       bool truncate, uint32_t permissions);
/* The flags of that open. */
int aya_posix_open_flags(int access, bool append, bool create, bool exclusive, bool truncate);
/* Never waits: only files of filesystems known as local, whose path is cached. Everything else, an
 * error too, is -EAGAIN; AYA_RESULT_HALF_OPEN where it turned out to be a FIFO, opened for reading.
 * Fills `found`, where not NULL, as aya_file_init_opened() does. */
int64_t aya_posix_open_cached(const char *path, int access, bool append, bool create,
                              bool exclusive, bool truncate, aya_file *found);
int64_t aya_posix_close(int fd);
/* May wait where the file is not on a local filesystem. Learns the file's mount. */
int64_t aya_posix_stat(int fd, aya_stat_raw *stat);

#define AYA_COPY_MOST ((size_t)8 << 20)
/* Whether both are one file, in which the ranges overlap: a copy by pieces would read what it
 * wrote. May wait. */
bool aya_posix_overlap(int file, int64_t offset, int target, int64_t target_offset, size_t size);
/* May wait; each moves AYA_COPY_MOST at most; -EINVAL where ranges of one file overlap. By the
 * system, or by aya_posix_copy_by_reading() where that cannot (two filesystems, devices, /proc). */
int64_t aya_posix_copy_range(int file, int64_t offset, int target, int64_t target_offset,
                             size_t size);
int64_t aya_posix_copy_by_reading(int file, int64_t offset, int target, int64_t target_offset,
                                  size_t size);
/* May wait. Times, then extended attributes as far as the filesystems take them, then
 * permissions, which may forbid the former. */
int64_t aya_posix_copy_stat(int file, int target);

/* Never wait: -EAGAIN where they would. -EOPNOTSUPP where the file has no such way. */
int64_t aya_posix_pread_nowait(int fd, void *buf, size_t size, int64_t offset);
int64_t aya_posix_read_nowait(int fd, void *buf, size_t size);
int64_t aya_posix_write_nowait(int fd, const void *data, size_t size);

/* 0 or -EAGAIN, whether the file is ready for `events` of poll(). */
int64_t aya_posix_ready(int fd, short events);

/* The parts, or what one call gets of them, at most `most` bytes: how many. The rest is a short
 * transfer's. */
#define AYA_VECTOR_MOST 64
struct iovec;
int aya_posix_vector(struct iovec *vector, aya_parts parts, size_t most);
/* Write the parts, or the first of them; may wait. */
int64_t aya_posix_writev(int fd, aya_parts parts);
int64_t aya_posix_pwritev(int fd, aya_parts parts, int64_t offset);

/* macOS only, workers only. */
int64_t aya_darwin_fsync(int fd, bool data_only);
int64_t aya_darwin_allocate(int fd, int64_t offset, int64_t size);
int64_t aya_darwin_advise(int fd, int64_t offset, int64_t size, int advice);

/* What is known of an open file. */
typedef struct aya_facts {
    uint32_t mode, links, block_size;
    uint64_t size, inode;
    uint64_t device, rdevice; /* to compare, not what stat() gives */
    uint64_t mount; /* a number for aya_mount_find(); 0: not known */
} aya_facts;

/* aya_file_init_opened() by what is known already. */
void aya_file_found(aya_file *file, aya_handle handle, bool append, const aya_facts *facts);

/* What the system has at hand, without asking another machine or process: 0 or -errno. */
int aya_posix_facts(int fd, aya_facts *facts);
/* The same of a path, which may wait. Where the system has it, *descriptor only names the file, and
 * `name` (of AYA_PIN_NAME bytes) is a path that opens what it names; else *descriptor is -1 and
 * `name` empty. 0 or -errno. */
int aya_posix_pin(const char *path, int *descriptor, char *name, aya_facts *facts);
#define AYA_PIN_NAME 32
/* The descriptor that operations on a pollable file use: one with O_NONBLOCK where waiting could
 * not be avoided else, and one can be had that leaves the caller's own description alone. `flags`
 * are those of `fd`. */
int aya_posix_own_description(int fd, int flags, const aya_facts *facts);
/* Whether the file was opened past the page cache. */
bool aya_posix_is_direct(int fd, int flags);
/* Asks the open file's filesystem what it is; may wait. */
aya_mount aya_posix_judge_mount(int fd);

/* Where the system has no call that never waits: a plain one on a descriptor that is ready.
 * -EOPNOTSUPP for what readiness says nothing of. */
int64_t aya_posix_read_ready(int fd, void *buf, size_t size);
int64_t aya_posix_write_ready(int fd, const void *data, size_t size);

/* Linux only: whether somebody opened the FIFO for writing after `fd` was for reading, with
 * O_NONBLOCK; waits up to `most_ms` for one who writes or leaves. 1, 0 or -errno. */
int64_t aya_posix_writer_came(int fd, int most_ms);

/* What one transfer can ask for on Linux; the numbers are the places of the words in
 * spec/ops/preadv.toml and pwritev.toml. May wait. */
int64_t aya_linux_preadv(int fd, aya_parts into, int64_t offset, bool polled, int priority);
int64_t aya_linux_pwritev(int fd, aya_parts data, int64_t offset, int durable, bool at_end,
                          int priority);
uint16_t aya_linux_ioprio(int priority);
int aya_linux_write_flags(int durable, bool at_end);

#endif
