/* purge.h - giving the memory of free pages back to the system.
 *
 * By age: pages free for longer than the delay, whenever a slow path looks (na_purge_tick). By cap:
 * a program that frees much and goes quiet never looks again, so a free that leaves too much dirty
 * purges at once. The cap is an eighth of what is in use, at least 8 MiB; that base doubles (up to
 * 1 GiB) when a good part of what was taken is wanted back within the delay, and halves after
 * seconds without such regret.
 *
 * By peak: a program that goes on to other sizes may find that none of the free pages fit, and
 * grow while many lie idle. When it takes clean pages and what is resident passes the latest peak
 * of what was in use by an eighth, so many dirty pages are purged for them.
 *
 * While pressure is critical (pressure.h) the bound of what is resident is that peak and a slack of
 * hundreds of KiB, and the cap 1 MiB.
 *
 * The pages being purged are marked used and the lock is let go during the system call. Wholly free
 * hugepages go first, oldest first: taking part of one splits a huge page of the system. */
#ifndef NUMALLOC_ALLOC_CORE_PAGE_PURGE_H
#define NUMALLOC_ALLOC_CORE_PAGE_PURGE_H

#include <stdbool.h>
#include <stdint.h>

#include "alloc/core/page/free_pages.h"
#include "alloc/core/page/scavenge_policy.h"

/* With the lock, before pages are given back: the time to give them at. */
uint64_t na_purge_clock(na_free_pages_t *s, uint32_t pages);
/* With the lock, after: true if na_purge_cap should be called, without the lock. */
bool na_purge_wanted(na_free_pages_t *s, uint64_t now);
void na_purge_cap(na_free_pages_t *s);
/* With the lock: free pages hold memory, which is to be purged by age. */
void na_purge_will_be_due(na_free_pages_t *s);
/* What na_pages_beyond_peak found is purged. Without the lock. */
void na_purge_to_peak(na_free_pages_t *s);
/* Without the lock; at most 64 MiB a call, so that no caller waits long: the next one goes on. */
void na_purge_tick(na_free_pages_t *s, uint64_t now);
/* Without the lock: until at most `keep` pages are dirty. Pages purged. */
uint64_t na_purge_trim(na_free_pages_t *s, uint64_t keep);
/* Without the lock: gives back so many pages, for other nodes to have more. They may be regretted,
 * as what the cap takes. Pages purged. */
uint64_t na_purge_for_others(na_free_pages_t *s, uint64_t pages);
/* Without the lock: all free pages, also those that only the huge page of the system around them
 * makes resident; what is left of huge pages is split. */
void na_purge_everything(na_free_pages_t *s);
/* Without the lock: splits the huge pages that are in use in part. A transparent huge page of which
 * all but a few pages were given back still holds 2 MiB until the kernel runs short and splits it;
 * this has it done now. */
void na_purge_split(na_free_pages_t *s);
/* NUMALLOC_PURGE_DELAY is another from now on (ms), on all nodes. */
void na_purge_set_delay(uint64_t delay);

#endif
