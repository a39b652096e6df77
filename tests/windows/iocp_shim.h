/* Included before the sources of the IOCP backend: its overlapped calls end at once and bring no
 * packet, as those of Windows do for what is cached. Wine answers each with "pending".
 */
#ifndef AYA_IOCP_SHIM_H
#define AYA_IOCP_SHIM_H

#include <stdint.h>
#define WIN32_LEAN_AND_MEAN
#include <windows.h>

extern unsigned aya_shim_calls;

/* Waits for the call by an event whose low bit keeps its packet off the port. */
static inline BOOL
aya_shim_end(HANDLE file, OVERLAPPED *overlapped, HANDLE event, BOOL finished)
{
    DWORD moved, code = finished ? ERROR_SUCCESS : GetLastError();

    if (!finished && code == ERROR_IO_PENDING) {
        finished = GetOverlappedResult(file, overlapped, &moved, TRUE);
        code = finished ? ERROR_SUCCESS : GetLastError();
    }
    overlapped->hEvent = NULL;
    CloseHandle(event);
    aya_shim_calls++;
    SetLastError(code);
    return finished;
}

static inline BOOL
aya_shim_read(HANDLE file, void *buf, DWORD size, DWORD *moved, OVERLAPPED *overlapped)
{
    HANDLE event = CreateEventW(NULL, TRUE, FALSE, NULL);

    overlapped->hEvent = (HANDLE)((uintptr_t)event | 1);
    return aya_shim_end(file, overlapped, event, ReadFile(file, buf, size, moved, overlapped));
}

static inline BOOL
aya_shim_write(HANDLE file, const void *data, DWORD size, DWORD *moved, OVERLAPPED *overlapped)
{
    HANDLE event = CreateEventW(NULL, TRUE, FALSE, NULL);

    overlapped->hEvent = (HANDLE)((uintptr_t)event | 1);
    return aya_shim_end(file, overlapped, event, WriteFile(file, data, size, moved, overlapped));
}

#define ReadFile aya_shim_read
#define WriteFile aya_shim_write

#endif
