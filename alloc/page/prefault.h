/* prefault.h - memory for heaps that grow, in larger pieces than page faults give.
 *
 * A page fault serves one page of the system. It takes half a microsecond on hardware, and up to
 * twenty in virtual machines whose page tables are shadowed. A heap that grows by small blocks will
 * write to all of the next pages, so they can be had together:
 *
 *   populate     When a short run (a span of small blocks) takes pages without memory, the run and
 *                the free pages behind it are populated by one system call: as many as are a 32nd
 *                of what the set has in use, at most 256 KiB. Of a run that is longer than that,
 *                the first part.
 *   huge pages   When a run begins a hugepage that is wholly free and holds nothing, and the set
 *                has 16 MiB in use, a huge page is asked for. Large blocks ask for them, too, below
 *                16 MiB beyond their first hugepage, which might be all that is used of them; but
 *                not those of calloc: what must read as zero may be meant to be used here and
 *                there.
 *
 * Populated pages and those of huge pages that are still free count as dirty: they are purged by
 * age and cap like all others. Nothing is taken ahead beyond a sixteenth of what is in use and 1
 * MiB (na_purge_has_room), nor beyond what the node has room for, while memory is low, or for pages
 * that are to lie where they are first touched.
 *
 * Huge pages are asked for where the system grants them on request only ("madvise" in
 * /sys/kernel/mm/transparent_hugepage/enabled) and NUMALLOC_HUGEPAGES is `auto`. Where it always
 * grants them, nothing is done at all: the first touch of a hugepage gives all of it.
 *
 * Invariant: hugepage.huge says that the system was advised to use a huge page there. It is written
 * and read under the set's lock. Hugepages in a row with the same advice are one mapping; there
 * are at most 16 such rows, and one more for each 256 MiB in use. (Where pressure.h has ended all
 * huge pages the flag is stale: then pages count as dirty that hold nothing, and purging them is a
 * call too much.)
 *
 * Decision 0064 has the measurements. */
#ifndef NUMALLOC_ALLOC_PAGE_PREFAULT_H
#define NUMALLOC_ALLOC_PAGE_PREFAULT_H

#include <stdbool.h>
#include <stdint.h>

#include "alloc/page/free_pages.h"

/* Small programs go without: pages in use, 2 MiB. */
#define NA_PREFAULT_LEAST 256u

uint32_t na_prefault_plan_slow(na_free_pages_t *s, uintptr_t start, uint32_t pages);

/* With the set's lock, when a run was just taken of which some pages hold no memory: asks for a
 * huge page, or returns how many pages from the run's start on are to be populated (0: none), some
 * of which may lie behind it and are dirty from now on. */
NA_INLINE uint32_t na_prefault_plan(na_free_pages_t *s, uintptr_t start, uint32_t pages) {
    return s->used < NA_PREFAULT_LEAST ? 0 : na_prefault_plan_slow(s, start, pages);
}

/* Populates them. Without a lock. What the system refuses is left to page faults. */
void na_prefault(uintptr_t start, uint32_t pages);

/* A long run without memory (of at least two hugepages) was taken for a block: `dense` if it will
 * be written from its beginning on. Without a lock. */
void na_prefault_block(uintptr_t start, uint32_t pages, bool dense);

/* Huge pages are to be asked for, for mappings of large blocks. */
bool na_prefault_huge(void);

#endif
