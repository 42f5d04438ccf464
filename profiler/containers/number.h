/* number.h - numbers read from text. Pure: also for the recorder, and in signal handlers. */
#ifndef NUMALLOC_PROFILER_CONTAINERS_NUMBER_H
#define NUMALLOC_PROFILER_CONTAINERS_NUMBER_H

#include <stdint.h>

/* The number that begins at *at, which is behind its last digit then. `base`: 10, or 16 with
 * letters as the kernel writes them (a to f). 0 where there is no digit; what has more than 64 bits
 * loses the first ones. */
static inline uint64_t na_number_read(const char **at, unsigned base) {
    uint64_t value = 0;
    for (;; ++*at) {
        char c = **at;
        if (c >= '0' && c <= '9')
            value = value * base + (uint64_t)(c - '0');
        else if (base == 16 && c >= 'a' && c <= 'f')
            value = value * base + (uint64_t)(c - 'a' + 10);
        else
            return value;
    }
}

#endif
