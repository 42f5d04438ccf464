/* pressure.h - when a control group's memory runs out.
 *
 * A group's limit (memory.max, and the like) is enforced by killing, and the kernel cannot ask for
 * what an allocator keeps free, nor for the untouched rest of a huge page in use. So the group's
 * room (cgroup.h) is looked at on the way to new memory: first when the process has taken 4 MiB,
 * then whenever a node has taken its share of half of what was found, at most 64 MiB; where there
 * is no limit, once a second at most.
 *
 *   room < 4 least     low. New spans are made so that next to nothing is lost in their tails
 *                      (sizeclass.c), which is 3 % of blocks up to 1 KiB. They are longer, and a
 *                      long one drains less often: a program whose phases leave survivors in all
 *                      its spans holds up to a seventh more, so this is not for all times.
 *                      Holes in sparse spans serve before free pages, whatever the gain (mixed.h).
 *   room < least       critical. On the way there all free pages of all nodes are given back, what
 *                      is left of huge pages is split, and regions use no more of them. From then
 *                      on no more is resident than the latest peak of what was in use and a little
 *                      (purge.h), ends of large blocks that hold memory nobody asked for are given
 *                      back, and threads hold few free blocks.
 *   easy < least       exhausted (easy: below a limit that kills; caches count as free, except of
 *                      files that are mapped). Runs of new pages are asked for and touched at once,
 *                      so that what was given is what was charged; so is what was taken before and
 *                      not used yet. A run that the group cannot be charged for, so far as the
 *                      kernel can be asked (charge.h), is refused: malloc fails with ENOMEM, and
 *                      nobody is killed. Who asks for more than 1 MiB often uses a part of it: that
 *                      much must be there. Before a small block is refused, one of a larger class
 *                      serves (small.c).
 *   room < least / 2   and not exhausted: what is free goes back at every look
 *   room > 2 least     as before; but regions that were told to use small pages keep to them
 *
 * least: a sixteenth of the limit, 4 to 64 MiB, and 2 MiB a node: the kernel takes huge pages as
 * long as there is room for them, so that each node may be one further than it was told.
 *
 * One thread looks. The others go on meanwhile, by what was known to be left (a look that is
 * interrupted may take long), and wait for it when they have used that up; while it is exhausted,
 * always. All of this is on the page heap's way to new memory only. Thread-safe; no lock of a page
 * heap may be held. */
#ifndef NUMALLOC_ALLOC_PAGE_PRESSURE_H
#define NUMALLOC_ALLOC_PAGE_PRESSURE_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "alloc/sys/base.h"
#include "alloc/sys/lock.h"

extern _Atomic(bool) na_pressure_critical_now, na_pressure_low_now, na_pressure_exhausted_now;
extern _Atomic(uint32_t) na_pressure_turns, na_pressure_slack_pages;

NA_INLINE bool na_pressure_is_critical(void) {
    return NA_UNLIKELY(atomic_load_explicit(&na_pressure_critical_now, memory_order_relaxed));
}

NA_INLINE bool na_pressure_is_low(void) {
    return NA_UNLIKELY(atomic_load_explicit(&na_pressure_low_now, memory_order_relaxed));
}

/* Every run has to be asked for, and touched by who takes it. */
NA_INLINE bool na_pressure_is_exhausted(void) {
    return NA_UNLIKELY(atomic_load_explicit(&na_pressure_exhausted_now, memory_order_relaxed));
}

/* Larger runs than this are often used in part: they are not touched, and so much must be there. */
enum { NA_WHOLE_PAGES = 128 };

/* While it is exhausted: held from the asking until what was given is touched, lest it be given
 * twice. No lock of a page heap may be held. */
extern na_lock_t na_exhausted_lock;

/* How often it became critical: a thread cache that has not seen the last time gives back what it
 * caches. */
NA_INLINE uint32_t na_pressure_turn(void) {
    return atomic_load_explicit(&na_pressure_turns, memory_order_relaxed);
}

/* While it is critical: pages that a node may hold beyond what it had in use at its latest peak. */
NA_INLINE uint32_t na_pressure_slack(void) {
    return atomic_load_explicit(&na_pressure_slack_pages, memory_order_relaxed);
}

/* (na_exhausted_lock is not taken by these.)
 * How many pages of new memory a node may take before it is to ask again: this is the asking. As
 * many as are wanted now, or more; 0: it may not have those. */
uint64_t na_pressure_allowance(uint32_t wanted);
/* Pages went back to the system: what was refused just now may be had. */
void na_pressure_given_back(void);
/* While it is exhausted: a block at `start` may be made in memory that was taken before that began,
 * and it has all its pages now. False: they would not be allowed. */
bool na_pressure_may_use(uintptr_t start, size_t bytes);
/* And so many bytes of tables may be made. */
bool na_pressure_may_add(uint64_t bytes);
/* How often the answer was 0. */
uint64_t na_pressure_refusals(void);

/* The program is about to forbid itself system calls, which may be a reason to be killed
 * (na_os_confine). The groups are looked at once more; from then on their room is what it was, less
 * what the page heaps took since. No look is under way when this returns. */
void na_pressure_confine(void);

void na_pressure_after_fork_child(void);

#endif
