/* footprint.h - what this process has mapped, from /proc/self/maps. */
#ifndef NUMALLOC_BENCH_SYSTEM_FOOTPRINT_H
#define NUMALLOC_BENCH_SYSTEM_FOOTPRINT_H

#include <stdint.h>

typedef struct na_footprint {
    uint64_t writable; /* bytes of mappings that can be written */
    uint64_t mapped;   /* bytes of all mappings, address space that is only reserved included */
    uint64_t resident; /* bytes in memory */
    uint64_t writable_anonymous, anonymous; /* of the first two what has no file and is no stack of
                                               the main thread's */
} na_footprint_t;

/* Allocates nothing. One caller at a time; a snapshot is exact when no other thread runs. All zero
 * when /proc is not there. */
na_footprint_t na_footprint_read(void);

/* `found`, before the first allocation, without what the allocator has mapped already: anonymous
 * memory that is neither the suite's own (na_bench_map), nor zeroed data of a program or library,
 * nor the stack of one of `threads` threads. */
na_footprint_t na_footprint_without_allocator(na_footprint_t found, unsigned threads);

#endif
