/* stats.h - totals of the process, gathered when somebody asks.
 *
 * Nothing is counted twice or on the hot path: thread caches count when a bin is renewed (up to
 * 256 blocks of a class behind, a thread), page heaps count pages. A gathering walks all thread
 * caches without stopping them, so figures of running threads are a snapshot. */
#ifndef NUMALLOC_ALLOC_API_STATS_H
#define NUMALLOC_ALLOC_API_STATS_H

#include <stddef.h>
#include <stdint.h>

#include "alloc/core/central/block.h"
#include "alloc/core/machine/topology.h"
#include "numalloc/numalloc.h"

typedef struct na_class_stats {
    uint64_t allocs, frees; /* blocks handed out and taken back, by all threads */
    uint64_t cached;        /* blocks in bins */
} na_class_stats_t;

typedef struct na_totals {
    numalloc_stats_t all;
    na_class_stats_t classes[NA_CLASS_COUNT];
    uint64_t large_allocs, large_frees, remote_frees;
    uint64_t small_allocs, small_frees;
    uint64_t small_live; /* bytes with the program, in whole blocks */
    uint64_t cached;     /* bytes of blocks in bins */
    uint64_t regions;
} na_totals_t;

void na_stats_gather(na_totals_t *totals);

/* Of a dense node, or the pseudo-node. */
void na_stats_gather_node(unsigned node, numalloc_node_stats_t *stats);

/* Totals, per node and per size class, as text on a descriptor. */
void na_stats_print(int fd);

/* NUMALLOC_STATS prints at exit, when many programs have closed stderr already: keeps a copy of it.
 */
void na_stats_keep_stderr(void);
void na_stats_print_at_exit(void);

#endif
