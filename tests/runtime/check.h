/* What the C tests of the runtime share: checks that end the process, a random generator with a
 * seed, counts of threads and descriptors. Header only; one thread.
 */
#ifndef AYA_TEST_CHECK_H
#define AYA_TEST_CHECK_H

#include <dirent.h>
#include <errno.h>
#include <inttypes.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#define SKIPPED 77 /* a test's exit code where it cannot run here */

#define CHECK(condition)                                                                          \
    do {                                                                                          \
        if (!(condition)) {                                                                       \
            printf("%s:%d: %s: %s does not hold\n", __FILE__, __LINE__, __func__, #condition);    \
            fflush(stdout);                                                                       \
            _exit(1);                                                                             \
        }                                                                                         \
    } while (0)

#define CHECK_EQUAL(got, wanted)                                                                  \
    do {                                                                                          \
        int64_t got_ = (int64_t)(got), wanted_ = (int64_t)(wanted);                               \
        if (got_ != wanted_) {                                                                    \
            printf("%s:%d: %s: %s is %" PRId64 ", not %" PRId64 "\n", __FILE__, __LINE__,         \
                   __func__, #got, got_, wanted_);                                                \
            fflush(stdout);                                                                       \
            _exit(1);                                                                             \
        }                                                                                         \
    } while (0)

static uint64_t random_state = 88172645463325252u;

static inline uint32_t
random_below(uint32_t bound)
{
    random_state ^= random_state << 13;
    random_state ^= random_state >> 7;
    random_state ^= random_state << 17;
    return (uint32_t)(random_state >> 32) % bound;
}

static inline int64_t
now_ms(void)
{
    struct timespec now;

    clock_gettime(CLOCK_MONOTONIC, &now);
    return (int64_t)now.tv_sec * 1000 + now.tv_nsec / 1000000;
}

static inline void
sleep_ms(long ms)
{
    struct timespec pause = {.tv_sec = ms / 1000, .tv_nsec = ms % 1000 * 1000000};

    nanosleep(&pause, NULL);
}

/* libdispatch looks into /proc/N/stat of its threads once a second: a descriptor for a moment. */
static inline bool
is_ours(int directory, const char *name)
{
    char target[64] = "";
    ssize_t length = readlinkat(directory, name, target, sizeof(target) - 1);

    return length > 0 && !(strncmp(target, "/proc/", 6) == 0 && strstr(target, "/stat") != NULL);
}

static inline int
count_descriptors(void)
{
    DIR *entries = opendir("/proc/self/fd");
    int count = -1; /* without the directory's own */

    CHECK(entries != NULL);
    for (struct dirent *entry; (entry = readdir(entries)) != NULL;) {
        count += entry->d_name[0] != '.' && is_ours(dirfd(entries), entry->d_name);
    }
    closedir(entries);
    return count;
}

/* Threads whose name begins with `name`. */
static inline int
count_threads(const char *name)
{
    DIR *entries = opendir("/proc/self/task");
    int count = 0;

    CHECK(entries != NULL);
    for (struct dirent *entry; (entry = readdir(entries)) != NULL;) {
        char path[300], found[32] = "";
        snprintf(path, sizeof(path), "/proc/self/task/%s/comm", entry->d_name);
        FILE *file = entry->d_name[0] == '.' ? NULL : fopen(path, "r");
        if (file != NULL) {
            count += fgets(found, sizeof(found), file) != NULL
                     && strncmp(found, name, strlen(name)) == 0;
            fclose(file);
        }
    }
    closedir(entries);
    return count;
}

#endif
