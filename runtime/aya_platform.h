/* What differs between systems in the types that everybody sees. No functions of its own. */
#ifndef AYA_PLATFORM_H
#define AYA_PLATFORM_H

#if defined(__linux__) && !defined(_GNU_SOURCE)
#error "build with -D_GNU_SOURCE"
#endif

#include <errno.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#if defined(_WIN32)
typedef void *aya_handle; /* a HANDLE */
#define AYA_NO_HANDLE ((aya_handle)(intptr_t)-1)
typedef wchar_t aya_path_char;
/* Numbers of a seek beside SEEK_SET, SEEK_CUR and SEEK_END that no system call takes. */
#define AYA_SEEK_DATA (-1)
#define AYA_SEEK_HOLE (-2)
#else
#include <unistd.h>
typedef int aya_handle; /* a descriptor */
#define AYA_NO_HANDLE (-1)
typedef char aya_path_char;
#define AYA_SEEK_DATA SEEK_DATA
#define AYA_SEEK_HOLE SEEK_HOLE
#endif

/* What a `stat` is written to by the system; aya_stat_decode() reads it. */
#if defined(__linux__)
#include <fcntl.h>
#include <sys/stat.h>
typedef struct statx aya_stat_raw;
#define AYA_STATX_MASK (STATX_BASIC_STATS | 0x1000u /* STATX_MNT_ID */)
#define AYA_STATX_FLAGS AT_EMPTY_PATH
#elif defined(_WIN32)
typedef struct aya_stat_raw {
    uint64_t size, inode, links, created, accessed, written, changed; /* FILETIME */
    uint32_t attributes, volume, reparse_tag, type; /* type: of GetFileType() */
} aya_stat_raw;
#else
#include <sys/stat.h>
typedef struct stat aya_stat_raw;
#endif

/* A system-neutral stat result; times in nanoseconds since 1970. */
typedef struct aya_stat {
    uint64_t inode, device, links, size, blocks, rdevice;
    uint32_t mode, owner, group, block_size;
    int64_t accessed_ns, modified_ns, changed_ns;
    int64_t born_ns;  /* 0 where the system was not asked */
} aya_stat;

void aya_stat_decode(const aya_stat_raw *raw, aya_stat *out);

/* Splits an error of a system that has other numbers than errno: leaves -errno, gives the number.
 * Its calls give both in one (aya_win32_error()). */
static inline uint32_t
aya_take_system_code(int64_t *result)
{
#if defined(_WIN32)
    const int64_t error = -*result;

    if (error > 0 && error <= INT32_MAX && error > 0xff) {
        *result = -(error & 0xff);
        return (uint32_t)(error >> 8);
    }
#else
    (void)result;
#endif
    return 0;
}

typedef struct aya_file aya_file;

/* One part of a read_many or write_many. */
typedef struct aya_span {
    int64_t offset;   /* bytes from the start of the file */
    int64_t size;     /* bytes wanted; -1: to the end of the file */
    void *buf;        /* where they go, or where they come from */
    size_t buf_size;  /* room in buf */
    int64_t result;   /* bytes moved, or -errno */
} aya_span;

/* Contiguous memory, one of several that are written, or read into, behind each other. */
typedef struct aya_part {
    const void *data;
    size_t size;      /* bytes */
    void *owner;      /* the caller's own */
} aya_part;

/* Parts that one operation writes: list[0..count), the first without its first `skip` bytes. */
typedef struct aya_parts {
    const aya_part *list;
    size_t count, skip;
    size_t size;      /* bytes in all, without those that are skipped */
} aya_parts;

/* The same without the first `done` bytes, and so without parts that have none left. */
aya_parts aya_parts_past(aya_parts parts, int64_t done);
/* What is left of the first part, as far as one call takes it; NULL and 0 where there is none. */
const void *aya_parts_data(const aya_parts *parts);
void *aya_parts_room(const aya_parts *parts); /* the same of memory that is read into */
size_t aya_parts_data_len(const aya_parts *parts);

#endif
