/* Counts forks, and hands the process-wide parts of the library over to the child whole.
 *
 * The handlers run in the forking thread; the child's uses nothing but what they locked before.
 */
#include "internal.h"
#include "buffers.h"
#include "posix.h"

#include <pthread.h>

static unsigned generation;
static pthread_once_t registered = PTHREAD_ONCE_INIT;

static void
tell(aya_fork_phase phase)
{
    aya_alone_fork(phase);
    aya_pool_fork(phase);
    aya_mounts_fork(phase);
    aya_buffers_fork(phase);
    aya_reasons_fork(phase);
}

static void
before(void)
{
    tell(AYA_FORK_BEFORE);
}

static void
in_parent(void)
{
    tell(AYA_FORK_PARENT);
}

static void
in_child(void)
{
    generation++;
    tell(AYA_FORK_CHILD);
}

static void
register_handlers(void)
{
    pthread_atfork(before, in_parent, in_child);
}

unsigned
aya_fork_generation(void)
{
    pthread_once(&registered, register_handlers);
    return generation;
}
