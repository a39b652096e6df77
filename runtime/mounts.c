/* What is known of filesystems, a mount at a time, for the whole process.
 *
 * aya_mount_find() and aya_mount_refuses_nowait() run in any thread and never wait;
 * aya_mount_learn() asks the filesystem and runs in workers only. Mounts are known by a number
 * that is not used again.
 */
#include "internal.h"
#include "posix.h"

#include <linux/magic.h>
#include <sys/vfs.h>

#ifndef XFS_SUPER_MAGIC
#define XFS_SUPER_MAGIC 0x58465342
#endif
#define ZFS_MAGIC 0x2fc12fc1
#define BCACHEFS_MAGIC 0xca451a4e
#ifndef EROFS_SUPER_MAGIC_V1
#define EROFS_SUPER_MAGIC_V1 0xe0f5e1e2
#endif
#ifndef RAMFS_MAGIC
#define RAMFS_MAGIC 0x858458f6
#endif

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

static aya_mount
judge(const struct statfs *filesystem)
{
    switch ((uint32_t)filesystem->f_type) {
    case TMPFS_MAGIC:
    case RAMFS_MAGIC:
        return (aya_mount){.known = true, .local = true, .inline_read = AYA_INLINE_PLAIN};
    case EXT4_SUPER_MAGIC:
    case XFS_SUPER_MAGIC:
    case BTRFS_SUPER_MAGIC:
    case F2FS_SUPER_MAGIC:
    case OVERLAYFS_SUPER_MAGIC:
    case SQUASHFS_MAGIC:
    case EROFS_SUPER_MAGIC_V1:
    case ZFS_MAGIC:
    case BCACHEFS_MAGIC:
        return (aya_mount){.known = true, .local = true, .inline_read = AYA_INLINE_NOWAIT};
    default:
        /* Of a filesystem that may be on another machine or in another process nothing is
         * assumed, but that RWF_NOWAIT does not wait: it is refused or kept. */
        return (aya_mount){.known = true, .local = false, .inline_read = AYA_INLINE_NOWAIT};
    }
}

void
aya_mount_learn(aya_handle handle)
{
    struct statx stat;
    struct statfs filesystem;

    if (aya_posix_stat_cached(handle, &stat) < 0 || fstatfs(handle, &filesystem) < 0) {
        return;
    }
    uint64_t id = aya_posix_mount_of(&stat);
    if (id == 0) {
        return;
    }
    aya_mount mount = judge(&filesystem);
    aya_spin_lock(&slots_lock);
    slot *one = find_locked(id);
    if (one->id == id && one->mount.inline_read == AYA_INLINE_NEVER) {
        mount.inline_read = AYA_INLINE_NEVER;
    }
    *one = (slot){.id = id, .mount = mount};
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
