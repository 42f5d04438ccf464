/* remap.h - moving the memory of free hugepages to where it is wanted.
 *
 * A long run needs addresses in a row. Where they are free but hold no memory, while hugepages that
 * do lie free elsewhere, the system can be asked to put the memory of those under the run: it moves
 * 2 MiB by changing one entry of a page table, about 50 times as fast as taking the memory back
 * there and clearing new memory here, page fault by page fault.
 *
 *   before   | run: no memory |   ...   | free, memory |
 *   after    | run: memory    |   ...   | free, none   |
 *
 * Whole hugepages only, each to a place that was wholly free when the run was taken; what the run
 * leaves of its last one is free and holds memory then. A place to
 * which memory was moved stays a mapping of its own (Linux allows a process 65,530), so their
 * number is bounded; beyond it, and where the system refuses (before Linux 5.7), nothing is moved
 * and purging does the rest. */
#ifndef NUMALLOC_ALLOC_PAGE_REMAP_H
#define NUMALLOC_ALLOC_PAGE_REMAP_H

#include <stdint.h>

#include "alloc/page/free_pages.h"

typedef enum na_remap {
    NA_REMAP_NONE,
    NA_REMAP_SOME, /* the run no longer reads as zero */
    NA_REMAP_LOST, /* the system failed half-way: the run has been given back, take another */
} na_remap_t;

/* Puts memory under a run (or what was added to one, from a hugepage boundary on) that was just
 * taken and is not in use yet, as long as what is resident exceeds what may be (purge.h). Without
 * the lock, which it lets go during system calls. */
na_remap_t na_remap(na_free_pages_t *s, uintptr_t start, uint32_t pages);

#endif
