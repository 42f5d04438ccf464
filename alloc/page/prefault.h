/* prefault.h - memory for small blocks in larger pieces than page faults give.
 *
 * A page fault serves one page of the system. It takes half a microsecond on hardware, and up to
 * twenty in virtual machines whose page tables are shadowed. Blocks of at most a page fill the
 * pages of their spans, so a heap that grows by such blocks will write to all of the next pages,
 * and can have them together:
 *
 *   populate     When a span of such blocks takes pages without memory, these and the free pages
 *                behind are populated by one system call.
 *   huge pages   When such a span begins a hugepage that is wholly free and holds nothing, the
 *                hugepage gets a huge page of the system.
 *
 * The rule: nothing is resident that nobody wrote, but for what small blocks will fill next. One
 * call has at most a sixteenth of what such spans hold (`filled`), and so much is ahead of use in
 * all. What others took of it (`astray`: a large block finds free pages that hold memory) counts as
 * ahead until as much was given back. Nothing is had ahead for larger blocks, which may be used in
 * part: buffers, stacks of coroutines, tables; nor while memory is low, for threads with a policy
 * of their user's, or where such spans hold less than 1 MiB for each thread: of what many threads
 * use, much is used in part only.
 *
 * What is ahead counts as free memory (dirty): it is purged by age and cap like all of that.
 *
 * Huge pages. The system makes them unasked ("always" in
 * /sys/kernel/mm/transparent_hugepage/enabled), when asked, or never; the process may have refused
 * them (prctl PR_SET_THP_DISABLE). With NUMALLOC_HUGEPAGES=auto:
 *
 *   when asked   Only the hugepages of small blocks get them. Advice does not last: where a
 *                hugepage has it and a single page is left there, khugepaged fills it up again, and
 *                what was purged is resident within a minute. So a region is advised against huge
 *                pages when it first gets one; a hugepage is advised, touched, and advised against.
 *   unasked      The first touch of a hugepage would make all of it resident. So regions are
 *                advised against huge pages from the beginning, and small blocks get them as above.
 *                Blocks of more than 4 MiB have advice, as they would have huge pages with any
 *                malloc: below 16 MiB all but their first and last hugepage, which might be all
 *                that is used. It ends when their pages are freed. Each such block is one or two
 * mappings more of some 65,000 that a process may have: NA_PREFAULT_BLOCKS at most.
 *
 * Invariants: hugepage.advice says that a large block's advice is in force there; free pages have
 * none. It is written and read under the set's lock.
 *
 * Decision 0064 has the measurements. */
#ifndef NUMALLOC_ALLOC_PAGE_PREFAULT_H
#define NUMALLOC_ALLOC_PAGE_PREFAULT_H

#include <stdbool.h>
#include <stdint.h>

#include "alloc/page/free_pages.h"

/* Of what small blocks' spans hold, so much may be resident ahead of use. */
#define NA_PREFAULT_PART 16u

/* Blocks with advice at one time. */
#define NA_PREFAULT_BLOCKS 4096u

/* Instead of a number of pages: a huge page. */
#define NA_PREFAULT_HUGE UINT32_MAX

/* With the set's lock, when a run was just taken, `filled`: for a span of blocks of at most a
 * page of the system. `ahead`: what s->ahead was before. */
NA_INLINE void na_prefault_taken(na_free_pages_t *s, uint32_t pages, uint64_t ahead, bool filled) {
    if (filled)
        s->filled += pages;
    else
        s->astray += ahead - s->ahead;
}

uint32_t na_prefault_plan_slow(na_free_pages_t *s, uintptr_t start, uint32_t pages);

/* With the set's lock, when a run for such a span was just taken of which some pages hold no
 * memory: how many pages from the run's start on na_prefault is to populate (0: none), or
 * NA_PREFAULT_HUGE. Some of them may lie behind the run, and are dirty from now on. */
NA_INLINE uint32_t na_prefault_plan(na_free_pages_t *s, uintptr_t start, uint32_t pages) {
    return s->filled < 2 * NA_PREFAULT_PART ? 0 : na_prefault_plan_slow(s, start, pages);
}

/* Does so. Without a lock. What the system refuses is left to page faults. */
void na_prefault(uintptr_t start, uint32_t pages);

/* A run of at least two hugepages was taken for a block. Without a lock. */
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

#endif
