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
 *                has 16 MiB in use, the hugepage gets a huge page. Large blocks are advised to the
 *                system for huge pages, too, below 16 MiB beyond their first hugepage, which might
 *                be all that is used of them; but not those of calloc: what must read as zero may
 *                be meant to be used here and there.
 *
 * Populated pages and those of huge pages that are still free count as dirty: they are purged by
 * age and cap like all others. Nothing is taken ahead beyond a sixteenth of what is in use and 1
 * MiB (na_purge_has_room), nor beyond what the node has room for; nothing at all while memory is
 * low, for pages that are to lie where they are first touched, or where what is in use is less than
 * 1 MiB for each thread: of what many threads use, much is used in part only.
 *
 * Huge pages are asked for where the system grants them on request only ("madvise" in
 * /sys/kernel/mm/transparent_hugepage/enabled) and NUMALLOC_HUGEPAGES is `auto`. Where it always
 * grants them, nothing is done at all: the first touch of a hugepage gives all of it.
 *
 * Advice does not last. Where a hugepage has advice and a single page is left of it, the kernel's
 * khugepaged fills it up again: what was purged would be resident again within a minute. So a
 * region is advised against huge pages as a whole when it first gets one; a hugepage of small
 * blocks is advised, touched, and advised against again; a large block's advice ends when its pages
 * are freed.
 *
 * Invariants: hugepage.advice says that a large block's advice is in force there; free pages have
 * none. It is written and read under the set's lock. Each block with advice is a mapping of its
 * own; their number is bounded.
 *
 * Decision 0064 has the measurements. */
#ifndef NUMALLOC_ALLOC_PAGE_PREFAULT_H
#define NUMALLOC_ALLOC_PAGE_PREFAULT_H

#include <stdbool.h>
#include <stdint.h>

#include "alloc/page/free_pages.h"

/* Small programs go without: pages in use, 2 MiB. */
#define NA_PREFAULT_LEAST 256u

/* Blocks with advice at one time, and one more for so many pages in use (256 MiB): each is a
 * mapping more, or two, of some 65,000 that a process may have. */
#define NA_PREFAULT_BLOCKS     16u
#define NA_PREFAULT_BLOCK_EACH 32768u

/* Instead of a number of pages: a huge page. */
#define NA_PREFAULT_HUGE UINT32_MAX

uint32_t na_prefault_plan_slow(na_free_pages_t *s, uintptr_t start, uint32_t pages);

/* With the set's lock, when a run was just taken of which some pages hold no memory: how many pages
 * from the run's start on na_prefault is to populate (0: none), or NA_PREFAULT_HUGE. Some of them
 * may lie behind the run, and are dirty from now on. */
NA_INLINE uint32_t na_prefault_plan(na_free_pages_t *s, uintptr_t start, uint32_t pages) {
    return s->used < NA_PREFAULT_LEAST ? 0 : na_prefault_plan_slow(s, start, pages);
}

/* Does so. Without a lock. What the system refuses is left to page faults. */
void na_prefault(uintptr_t start, uint32_t pages);

/* A run of at least two hugepages was taken, of which some may hold memory, for a block that will
 * be written from its beginning on. Without a lock. */
void na_prefault_block(uintptr_t start, uint32_t pages);

/* The second half of na_prefault_freed: ends what advice there is in these hugepages. */
void na_prefault_withdraw(na_hugepage_t *hp, size_t count);

/* With the set's lock, before pages of a run become free, from page `at` of the hugepage on: their
 * advice ends. (A block's advice begins with its first hugepage, or the second.) */
NA_INLINE void na_prefault_freed(na_hugepage_t *hp, unsigned at, uint32_t pages) {
    size_t count = (at + pages + NA_HUGE_PAGES - 1) / NA_HUGE_PAGES;
    if (NA_UNLIKELY(hp[0].advice != NA_ADVICE_NONE) ||
        NA_UNLIKELY(count > 1 && hp[1].advice != NA_ADVICE_NONE))
        na_prefault_withdraw(hp, count);
}

/* Huge pages are to be asked for, for mappings of large blocks. */
bool na_prefault_huge(void);

#endif
