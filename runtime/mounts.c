/* What is known of filesystems, a mount at a time, for the whole process.
 *
 * aya_mount_find() and aya_mount_refuses_nowait() run in any thread and never wait;
 * aya_mount_learn() asks the filesystem and runs in workers only. Mounts are known by a number
 * that is not used again.
 */
#include "posix.h"

/* A hash table; a mount stands within PROBES of its place, or has pushed another out. */
#define SLOTS 1024
#define PROBES 8

typedef struct slot {
    uint64_t id; /* 0: free */
    aya_mount mount;
} slot;

static slot slots[SLOTS];
static uint8_t slots_lock;

static slot *
find_locked(uint64_t id)
{
    size_t place = (size_t)(id * UINT64_C(0x9e3779b97f4a7c15) >> 54);

    static_assert(SLOTS == 1 << 10, "the hash keeps ten bits");
    for (size_t i = 0; i < PROBES; i++) {
        slot *one = &slots[(place + i) % SLOTS];
        if (one->id == id || one->id == 0) {
            return one;
        }
    }
    return &slots[place];
}

aya_mount
aya_mount_find(uint64_t id)
{
    aya_mount found = {.known = false, .local = false, .inline_read = AYA_INLINE_NOWAIT};

    if (id == 0) {
        return found;
    }
    aya_spin_lock(&slots_lock);
    slot *one = find_locked(id);
    if (one->id == id) {
        found = one->mount;
    }
    aya_spin_unlock(&slots_lock);
    return found;
}

void
aya_mount_learn(aya_handle handle)
{
    aya_facts facts;
    aya_mount mount;

    if (aya_posix_facts(handle, &facts) < 0 || facts.mount == 0) {
        return;
    }
    mount = aya_posix_judge_mount(handle);
    if (!mount.known) {
        return;
    }
    aya_spin_lock(&slots_lock);
    slot *one = find_locked(facts.mount);
    if (one->id == facts.mount && one->mount.inline_read == AYA_INLINE_NEVER) {
        mount.inline_read = AYA_INLINE_NEVER;
    }
    *one = (slot){.id = facts.mount, .mount = mount};
    aya_spin_unlock(&slots_lock);
}

void
aya_mount_refuses_nowait(uint64_t id)
{
    if (id == 0) {
        return;
    }
    aya_spin_lock(&slots_lock);
    slot *one = find_locked(id);
    if (one->id != id) {
        *one = (slot){.id = id};
    }
    one->mount.inline_read = AYA_INLINE_NEVER;
    aya_spin_unlock(&slots_lock);
}

void
aya_mounts_fork(aya_fork_phase phase)
{
    if (phase == AYA_FORK_BEFORE) {
        aya_spin_lock(&slots_lock);
    } else {
        aya_spin_unlock(&slots_lock);
    }
}
