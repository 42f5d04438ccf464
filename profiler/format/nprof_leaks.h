/* nprof_leaks.h - what a profile says of blocks that were not freed: types 60 to 62.
 *
 * Written by a scan (profiler/leaks/leaks.h), each time anew: the chunks of an earlier one have no
 * entries then. A file without them is of a process that was not scanned. */
#ifndef NUMALLOC_PROFILER_FORMAT_NPROF_LEAKS_H
#define NUMALLOC_PROFILER_FORMAT_NPROF_LEAKS_H

#include <stdint.h>

#define NA_NPROF_LEAKS      60u
#define NA_NPROF_LEAK_SITES 61u
#define NA_NPROF_LEAK_HELD  62u

#define NA_NPROF_LEAK_KINDS 3u /* lost, indirectly lost, reachable */

/* LEAKS: one entry. */
typedef struct na_nprof_leaks {
    uint32_t state;   /* 1; 0: does not exist */
    uint32_t threads; /* that stood still */
    uint32_t missed;  /* that did not: what only they held counts as lost */
    uint32_t reserved32;
    uint64_t ms; /* when */
    uint64_t still_ns;
    uint64_t blocks[NA_NPROF_LEAK_KINDS], bytes[NA_NPROF_LEAK_KINDS]; /* as asked for */
    uint64_t suppressed_blocks, suppressed_bytes;                     /* in none of the above */
    uint64_t reserved[2];
} na_nprof_leaks_t;
_Static_assert(sizeof(na_nprof_leaks_t) == 112, "");

/* LEAK_SITES, in no order. */
typedef struct na_nprof_leak_site {
    uint32_t site; /* stack id; 0: none is known */
    uint32_t kind; /* from 1, as above; 0: does not exist */
    uint64_t blocks, bytes;
} na_nprof_leak_site_t;
_Static_assert(sizeof(na_nprof_leak_site_t) == 24, "");

/* LEAK_HELD, in no order: of the blocks of `site` that are indirectly lost, those that blocks of
 * `root` lead to, which are lost themselves; each block is in one entry. Where lost blocks lead to
 * each other in a ring, `root` is one of them, and `site` may be the same. What is missing from the
 * sum of LEAK_SITES had no room. */
typedef struct na_nprof_leak_held {
    uint32_t root, site;    /* stack ids; root 0: none is known */
    uint64_t blocks, bytes; /* blocks 0: does not exist */
} na_nprof_leak_held_t;
_Static_assert(sizeof(na_nprof_leak_held_t) == 24, "");

#endif
