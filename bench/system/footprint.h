/* footprint.h - what this process has mapped, from /proc/self/maps. */
#ifndef NUMALLOC_BENCH_SYSTEM_FOOTPRINT_H
#define NUMALLOC_BENCH_SYSTEM_FOOTPRINT_H

#include <stdint.h>

typedef struct na_footprint {
    uint64_t writable; /* bytes of mappings that can be written */
    uint64_t mapped;   /* bytes of all mappings, address space that is only reserved included */
    uint64_t resident; /* bytes in memory */
} na_footprint_t;

/* Allocates nothing. One caller at a time; a snapshot is exact when no other thread runs. All zero
 * when /proc is not there. */
na_footprint_t na_footprint_read(void);

#endif
