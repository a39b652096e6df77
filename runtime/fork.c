/* Counts forks, and sets right in the child what other threads of the parent may have held.
 *
 * The handler runs in the child's only thread; it may use nothing that takes a lock.
 */
#include "internal.h"
#include "posix.h"

#include <pthread.h>

static unsigned generation;
static pthread_once_t registered = PTHREAD_ONCE_INIT;

static void
in_child(void)
{
    generation++;
    aya_posix_forked();
    aya_mounts_forked();
    aya_alone_forked();
    aya_pool_forked();
}

static void
register_handler(void)
{
    pthread_atfork(NULL, NULL, in_child);
}

unsigned
aya_fork_generation(void)
{
    pthread_once(&registered, register_handler);
    return generation;
}
