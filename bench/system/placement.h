/* placement.h - on which NUMA node memory lies, seen from the thread that uses it. */
#ifndef NUMALLOC_BENCH_SYSTEM_PLACEMENT_H
#define NUMALLOC_BENCH_SYSTEM_PLACEMENT_H

#include <stddef.h>
#include <stdint.h>

/* Accesses by where their page lies. Unknown: the page is not there (never touched, swapped out),
 * or the system does not tell. */
typedef struct na_placement {
    uint64_t local, remote, unknown;
} na_placement_t;

/* The node of the CPU on which the calling thread runs now. */
unsigned na_placement_node(void);

/* Adds to `sum` the accesses to every `stride`-th byte of the block, first byte included, that a
 * thread on `node` makes. Pages are asked for by move_pages, which moves none. */
void na_placement_count(const void *block, size_t size, size_t stride, unsigned node,
                        na_placement_t *sum);

#endif
