/* busy.h - whether other programs used the processors while something was measured. */
#ifndef NUMALLOC_BENCH_SYSTEM_BUSY_H
#define NUMALLOC_BENCH_SYSTEM_BUSY_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Seconds since some moment: the clock's, of all processors in use, of this process and the
 * children that it waited for. */
typedef struct na_busy {
    double clock, all, own;
} na_busy_t;

na_busy_t na_busy_begin(void);

/* True, and one line, if since then others used more than a fifth of a processor. (What a child
 * started and nobody waited for counts as others'.) False where /proc/stat is not there, and for
 * less than a second. */
bool na_busy_others(const na_busy_t *begin, char *out, size_t size);

#endif
