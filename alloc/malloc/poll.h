/* poll.h - what every slow path of malloc and free passes once: a look at the clock now and then.
 *
 *   slow path -> na_poll_pass, _renewal -- every NA_SCAVENGE_CALLS --> na_poll
 *       what a fork has put off (emergency.h)
 *       what is due to be given back (thread/scavenge.h), and the controller's look
 *
 * None of it is behind the gate. Bins may have been counted, emptied and granted credit when it
 * returns, so it comes before a bin is looked at, not in between. */
#ifndef NUMALLOC_ALLOC_MALLOC_POLL_H
#define NUMALLOC_ALLOC_MALLOC_POLL_H

#include "alloc/cache/bin.h"
#include "alloc/cache/thread_cache.h"
#include "alloc/page/scavenge_policy.h"

void na_poll(na_tcache_t *tcache);

/* If enough slow paths were counted. */
NA_INLINE void na_poll_counted(na_tcache_t *tcache) {
    if (NA_UNLIKELY(tcache->slow_calls >= NA_SCAVENGE_CALLS)) na_poll(tcache);
}

/* One slow path. */
NA_INLINE void na_poll_pass(na_tcache_t *tcache) {
    tcache->slow_calls++;
    na_poll_counted(tcache);
}

/* One that renews a bin's credit; it counts for the quick renewals before it, too, which do not
 * come here. */
NA_INLINE void na_poll_renewal(na_tcache_t *tcache) {
    na_bin_count_quick(tcache);
    na_poll_pass(tcache);
}

#endif
