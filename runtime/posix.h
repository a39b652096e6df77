/* The system calls that rows of spec/backends/threads.toml name, and what other files of
 * runtime/ need of the system. >= 0 or -errno, unless a comment says otherwise.
 */
#ifndef AYA_POSIX_H
#define AYA_POSIX_H

#include "aya.h"

/* May wait: workers only. AYA_RESULT_ALONE where the open would wait for another party (a FIFO).
 * Learns the file's mount. */
int64_t aya_posix_open(const char *path, int access, bool append, bool create, bool exclusive,
                       bool truncate, uint32_t permissions);
/* The flags of that open. */
int aya_posix_open_flags(int access, bool append, bool create, bool exclusive, bool truncate);
/* Never waits: only regular files on filesystems known as local, whose path is cached.
 * Everything else, an error too, is -EAGAIN. */
int64_t aya_posix_open_cached(const char *path, int access, bool append, bool create,
                              bool exclusive, bool truncate);
int64_t aya_posix_close(int fd);
/* May wait where the file is not on a local filesystem. Learns the file's mount. */
int64_t aya_posix_stat(int fd, aya_stat_raw *stat);

/* Never wait: -EAGAIN where they would. -EOPNOTSUPP where the file has no such way. */
int64_t aya_posix_pread_nowait(int fd, void *buf, size_t size, int64_t offset);
int64_t aya_posix_read_nowait(int fd, void *buf, size_t size);
int64_t aya_posix_write_nowait(int fd, const void *data, size_t size);

/* What the system knows of an open file without asking another machine or process: 0 or -errno. */
int aya_posix_stat_cached(int fd, struct statx *stat);
/* The number of the mount in `stat`, never used again for another; 0: not known. */
uint64_t aya_posix_mount_of(const struct statx *stat);

/* Starts a detached thread that takes no signals. 0 or -errno. */
int aya_posix_start_thread(void *(*run)(void *), void *argument);
/* Makes the descriptor table large once: growing it beside a thread holds the opener for
 * milliseconds. */
void aya_posix_grow_descriptors(void);

/* The parts that the whole process shares take their lock before a fork, give it back in the
 * parent, and in the child start afresh without what other threads had; called by fork.c. */
typedef enum aya_fork_phase { AYA_FORK_BEFORE, AYA_FORK_PARENT, AYA_FORK_CHILD } aya_fork_phase;
void aya_pool_fork(aya_fork_phase phase);
void aya_alone_fork(aya_fork_phase phase);
void aya_mounts_fork(aya_fork_phase phase);
void aya_reasons_fork(aya_fork_phase phase);

#endif
