/* What the reads of a file have been like, and what follows for the next ones: where the page cache
 * did not have the last, the next few are not tried inline; and where they jump about, the system
 * is told not to read ahead.
 *
 * Any thread that uses the file; guesses, so nothing is locked. Never waits.
 */
#include "internal.h"

/* After as many misses in a row it is one read in so many that is tried. */
#define SKIP_MOST 16
/* Reads that begin elsewhere than the last one ended, before they count as random. */
#define JUMPS_MOST 16
/* What one that goes on where the last ended makes up for. */
#define STEP 4

#define LOAD(place) __atomic_load_n(&(place), __ATOMIC_RELAXED)
#define STORE(place, value) __atomic_store_n(&(place), (value), __ATOMIC_RELAXED)

void
aya_habit_missed(aya_file *file)
{
    unsigned skip = 2u * LOAD(file->habit.streak);

    skip = skip < 1 ? 1 : skip < SKIP_MOST ? skip : SKIP_MOST;
    STORE(file->habit.streak, (uint8_t)skip);
    STORE(file->habit.skip, (uint8_t)skip);
}

void
aya_habit_read(aya_file *file, int64_t offset, int64_t size)
{
    bool random = LOAD(file->habit.random), goes_on = LOAD(file->habit.next) == offset;
    unsigned jumps = LOAD(file->habit.jumps);

    STORE(file->habit.next, size < 0 ? -1 : offset + size);
    if (!goes_on && jumps < JUMPS_MOST) {
        jumps++;
    } else if (goes_on) {
        jumps = jumps > STEP ? jumps - STEP : 0;
    }
    STORE(file->habit.jumps, (uint8_t)jumps);
    if (random ? jumps == 0 : jumps == JUMPS_MOST) {
        STORE(file->habit.random, !random);
        aya_file_reads_randomly(file, !random);
    }
}
