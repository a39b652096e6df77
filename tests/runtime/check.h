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

static inline int
count_entries(const char *directory, const char *task_prefix)
{
    DIR *entries = opendir(directory);
    int count = 0;

    CHECK(entries != NULL);
    for (struct dirent *entry; (entry = readdir(entries)) != NULL;) {
        if (entry->d_name[0] == '.') {
            continue;
        }
        if (task_prefix != NULL) {
            char path[300], name[32] = "";
            snprintf(path, sizeof(path), "%s/%s/comm", directory, entry->d_name);
            FILE *file = fopen(path, "r");
            if (file == NULL || fgets(name, sizeof(name), file) == NULL
                || strncmp(name, task_prefix, strlen(task_prefix)) != 0) {
                count--;
            }
            if (file != NULL) {
                fclose(file);
            }
        }
        count++;
    }
    closedir(entries);
    return count;
}

static inline int
count_descriptors(void)
{
    return count_entries("/proc/self/fd", NULL) - 1; /* without the directory's own */
}

/* Threads whose name begins with `name`. */
static inline int
count_threads(const char *name)
{
    return count_entries("/proc/self/task", name);
}

#endif
