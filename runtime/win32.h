/* What the files of runtime/ that are for Windows share: the calls that rows of
 * spec/backends/threads.toml name, the table of errors, and completions of a port. >= 0 or -errno,
 * unless a comment says otherwise.
 */
#ifndef AYA_WIN32_H
#define AYA_WIN32_H

#include "internal.h"

#ifndef WIN32_LEAN_AND_MEAN
#define WIN32_LEAN_AND_MEAN
#endif
#include <windows.h>

/* The errno that says what a code of GetLastError() says. */
int aya_win32_errno(DWORD code);
/* The negative result of a call: that errno and the code together, see aya_take_system_code(). */
int aya_win32_error(DWORD code);

/* May wait: workers only. Handles are made for overlapped use; `append` ones can do nothing but
 * append, as with O_APPEND. */
int64_t aya_win32_open(const wchar_t *path, int access, bool append, bool create, bool exclusive,
                       bool truncate, uint32_t permissions);
int64_t aya_win32_close(HANDLE file);
int64_t aya_win32_stat(HANDLE file, aya_stat_raw *stat);
int64_t aya_win32_pread(HANDLE file, void *buf, size_t size, int64_t offset);
int64_t aya_win32_pwrite(HANDLE file, const void *data, size_t size, int64_t offset);
/* At the handle's own position. AYA_RESULT_ALONE where the call waits for another party. */
int64_t aya_win32_read(HANDLE file, void *buf, size_t size);
int64_t aya_win32_write(HANDLE file, const void *data, size_t size);
int64_t aya_win32_truncate(HANDLE file, int64_t size);
int64_t aya_win32_fsync(HANDLE file, bool data_only);
int64_t aya_win32_allocate(HANDLE file, int64_t offset, int64_t size);
int64_t aya_win32_copy_range(HANDLE file, int64_t offset, HANDLE target, int64_t target_offset,
                             size_t size);
int64_t aya_win32_copy_stat(HANDLE file, HANDLE target);
int64_t aya_win32_stat_path(const wchar_t *path, bool follow, aya_stat_raw *stat);
int64_t aya_win32_advise(HANDLE file, int64_t offset, int64_t size, int advice);

/* A path that the system takes at any length: NULL without memory; the caller frees it. */
wchar_t *aya_win32_full_path(const wchar_t *path);

/* Whether the handle can do nothing but append, as with O_APPEND; never waits. */
bool aya_win32_appends(HANDLE file);

/* The calling thread may wait for another party in aya_win32_read() and aya_win32_write(). */
void aya_win32_may_wait(void);

/* What a generated start of an overlapped call gives, beside results that are there already. */
enum { AYA_STARTED = 1, AYA_ENDED = 2 };

/* One overlapped call. The system has it until its packet came, or `ended`. */
typedef struct aya_overlapped {
    OVERLAPPED system;        /* first: a packet tells its address */
    aya_request *request;
    bool ended;               /* without a packet: request->posted_result is the result */
} aya_overlapped;

/* A request's call has ended: the context's next reap finds it in wake.arrived. Any thread. */
void aya_port_arrived(aya_wake *wake, aya_request *request);

#endif
