/* Windows: a context's completion port, which wakes it and brings what its overlapped calls gave;
 * threads and their conditions. Nothing is watched: there are no descriptors, and no readiness.
 *
 * aya_wake_signal() and aya_port_arrived() run in any thread, aya_context_sleep() in the context's
 * and at most one other, the rest in the context's.
 */
#include "win32.h"

#include <pthread.h>

#define PACKETS_MOST 256
#define PACKETS 64
#define THREAD_STACK ((size_t)256 << 10)

/* -- the port ---------------------------------------------------------------------------------- */

int
aya_wake_open(aya_wake *wake)
{
    HANDLE port = CreateIoCompletionPort(INVALID_HANDLE_VALUE, NULL, 0, 0);

    if (port == NULL) {
        return -aya_win32_errno(GetLastError());
    }
    *wake = (aya_wake){.watched = AYA_NO_HANDLE, .signalled = port};
    aya_link_init(&wake->arrived);
    return 0;
}

void
aya_wake_close(aya_wake *wake)
{
    CloseHandle(wake->signalled);
}

/* A packet without an overlapped structure. */
void
aya_wake_signal(aya_wake *wake)
{
    PostQueuedCompletionStatus(wake->signalled, 0, 0, NULL);
}

void
aya_port_arrived(aya_wake *wake, aya_request *request)
{
    aya_spin_lock(&wake->lock);
    aya_link_append(&wake->arrived, &request->shared);
    aya_spin_unlock(&wake->lock);
}

/* Takes what the port has, waiting up to `timeout_ms` for the first of it. */
static int
take_packets(aya_wake *wake, DWORD timeout_ms)
{
    OVERLAPPED_ENTRY packets[PACKETS_MOST];
    ULONG most = wake->batch == 0 ? PACKETS : wake->batch, count;

    assert(most <= PACKETS_MOST);

    do {
        if (!GetQueuedCompletionStatusEx(wake->signalled, packets, most, &count, timeout_ms,
                                         FALSE)) {
            DWORD code = GetLastError();
            return code == WAIT_TIMEOUT ? 0 : -aya_win32_errno(code);
        }
        for (ULONG i = 0; i < count; i++) {
            if (packets[i].lpOverlapped != NULL) {
                aya_overlapped *ended = (aya_overlapped *)packets[i].lpOverlapped;
                aya_port_arrived(wake, ended->request);
            }
        }
        timeout_ms = 0;
    } while (count == most);
    return 0;
}

/* Wake-ups are taken before what they tell of is looked at, or one that comes between is lost. */
void
aya_wake_clear(aya_wake *wake)
{
    take_packets(wake, 0);
}

int
aya_context_sleep(aya_context *context, int timeout_ms)
{
    return take_packets(&context->wake, timeout_ms < 0 ? INFINITE : (DWORD)timeout_ms);
}

int
aya_context_descriptors(const aya_context *context, int descriptors[AYA_DESCRIPTOR_MAX])
{
    (void)context;
    (void)descriptors;
    return 0;
}

/* -- readiness: there is none ------------------------------------------------------------------ */

int
aya_poll_open(aya_context *context)
{
    context->poll_descriptor = -1;
    return 0;
}

void
aya_poll_close(aya_context *context)
{
    (void)context;
}

int
aya_poll_start(aya_context *context, aya_request *request)
{
    (void)context;
    (void)request;
    return -EPERM;
}

void
aya_poll_stop(aya_context *context, aya_request *request)
{
    (void)context;
    (void)request;
}

void
aya_poll_reap(aya_context *context)
{
    (void)context;
}

/* -- processes and threads --------------------------------------------------------------------- */

unsigned
aya_fork_generation(void)
{
    return 0;
}

int
aya_thread_start(void *(*run)(void *), void *argument)
{
    pthread_attr_t attributes;
    pthread_t thread;
    int error = pthread_attr_init(&attributes);

    if (error != 0) {
        return -error;
    }
    pthread_attr_setdetachstate(&attributes, PTHREAD_CREATE_DETACHED);
    pthread_attr_setstacksize(&attributes, THREAD_STACK);
    error = pthread_create(&thread, &attributes, run, argument);
    pthread_attr_destroy(&attributes);
    return -error;
}

/* Systems before Windows 10 cannot name one. */
void
aya_thread_name(const char *name)
{
    typedef HRESULT WINAPI set_description(HANDLE thread, const wchar_t *text);
    HMODULE kernel = GetModuleHandleW(L"kernel32.dll");
    FARPROC found = kernel == NULL ? NULL : GetProcAddress(kernel, "SetThreadDescription");
    wchar_t text[16] = L"";

    for (size_t i = 0; name[i] != '\0' && i < sizeof(text) / sizeof(text[0]) - 1; i++) {
        text[i] = (wchar_t)name[i];
    }
    if (found != NULL) {
        ((set_description *)(void (*)(void))found)(GetCurrentThread(), text);
    }
}

void
aya_thread_stand_back(void)
{
    SetThreadPriority(GetCurrentThread(), THREAD_PRIORITY_BELOW_NORMAL);
}

void
aya_grow_descriptors(void)
{
}

unsigned
aya_processors(void)
{
    SYSTEM_INFO system;

    GetSystemInfo(&system);
    return system.dwNumberOfProcessors;
}

void
aya_condition_init(pthread_cond_t *condition)
{
    pthread_cond_init(condition, NULL);
}

/* Its clock is that of the date; a step of it ends one wait early or late. */
bool
aya_condition_wait(pthread_cond_t *condition, pthread_mutex_t *lock, int64_t end_ns)
{
    int64_t left = end_ns - aya_now_ns();
    struct timespec end;

    if (left <= 0) {
        return true;
    }
    clock_gettime(CLOCK_REALTIME, &end);
    left += end.tv_nsec;
    end.tv_sec += (time_t)(left / 1000000000);
    end.tv_nsec = (long)(left % 1000000000);
    return pthread_cond_timedwait(condition, lock, &end) != 0;
}
