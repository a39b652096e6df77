/* Small declarations against which the generated C for Windows is compiled where runtime/ has no
 * win32.h. Never linked.
 */
#ifndef TEST_WIN32_H
#define TEST_WIN32_H

#include "aya.h"

int64_t aya_win32_errno(unsigned long error);
int64_t aya_win32_open(const wchar_t *path, int access, bool append, bool create, bool exclusive,
                       bool truncate, uint32_t permissions);
int64_t aya_win32_close(aya_handle file);
int64_t aya_win32_stat(aya_handle file, aya_stat_raw *stat);
int64_t aya_win32_pread(aya_handle file, void *buf, size_t size, int64_t offset);
int64_t aya_win32_pwrite(aya_handle file, const void *data, size_t size, int64_t offset);
int64_t aya_win32_read(aya_handle file, void *buf, size_t size);
int64_t aya_win32_write(aya_handle file, const void *data, size_t size);
int64_t aya_win32_truncate(aya_handle file, int64_t size);
int64_t aya_win32_fsync(aya_handle file, bool data_only);
int64_t aya_win32_allocate(aya_handle file, int64_t offset, int64_t size);
int64_t aya_win32_advise(aya_handle file, int64_t offset, int64_t size, int advice);

#endif
