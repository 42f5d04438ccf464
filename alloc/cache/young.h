/* young.h - how much the bins of many threads may hold.
 *
 * A bin is YOUNG until its thread has wanted back some of the blocks that it freed. Threads that
 * start up, allocate, free and then sleep for good have young bins only; a bin that is in use grows
 * up within a few calls. What is free in a young bin is most likely of no use, and nobody can take
 * it from a thread that sleeps: so the more threads there are, the less a young bin may hold. When
 * it has more, all of it goes home, and spans that are empty then go to the page heap.
 *
 *   threads        4        8       16      64     128
 *   young bin   64 KiB   16 KiB   4 KiB   256 B   64 B      NA_YOUNG_BYTES / threads^2
 *
 * Up to four threads that is as much as any bin may hold; from some hundred on nothing. Summed up
 * over all threads it has a bound, whatever their number.
 *
 * Where threads end, others take their place, and most likely end as well: in a thread cache that a
 * thread has left, a young bin may hold NA_LEFT_BYTES / threads if that is more. (Threads that
 * allocate a little and end would give each block back to its span otherwise, and take it from
 * there.)
 *
 * A grown-up bin may hold `cap` blocks (adapt_cap in bin.c), but no more bytes than its share of
 * NA_GROWN_BYTES; that matters beyond 256 threads. One whose thread goes on wanting blocks back
 * (NA_REUSES_MOST of them) is busy, and may hold `cap` blocks however many threads sleep.
 *
 * A bin that was not used for a second is young again (scavenge.c). */
#ifndef NUMALLOC_ALLOC_CACHE_YOUNG_H
#define NUMALLOC_ALLOC_CACHE_YOUNG_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "alloc/cache/thread_cache.h"
#include "alloc/central/sizeclass.h"
#include "alloc/page/scavenge_policy.h"
#include "alloc/sys/base.h"

#define NA_YOUNG_REUSES 16u /* blocks wanted back before the bin is grown up */
#define NA_REUSES_MOST                                                                             \
    64u /* counted up to: busy; a thread that leaves its thread cache halves it */

/* Bytes that a bin may hold with as many threads as there are. */
typedef enum na_share { NA_SHARE_GROWN, NA_SHARE_YOUNG, NA_SHARE_LEFT, NA_SHARES } na_share_t;
extern _Atomic(uint32_t) na_bin_share[NA_SHARES];

NA_INLINE bool na_is_young(const na_bin_state_t *state) {
    return state->reused < NA_YOUNG_REUSES;
}

/* The bin's thread wanted back so many of the blocks that it had freed. */
NA_INLINE void na_young_reused(na_bin_state_t *state, uint32_t blocks) {
    if (NA_LIKELY(state->reused >= NA_REUSES_MOST)) return;
    uint32_t sum = state->reused + blocks;
    state->reused = (uint8_t)(sum < NA_REUSES_MOST ? sum : NA_REUSES_MOST);
}

NA_INLINE na_share_t na_young_share(const na_tcache_t *tcache, const na_bin_state_t *state) {
    if (NA_LIKELY(!na_is_young(state))) return NA_SHARE_GROWN;
    return tcache->left ? NA_SHARE_LEFT : NA_SHARE_YOUNG;
}

/* The blocks that the bin may hold now, when its share is smaller than `cap` blocks. */
uint16_t na_young_hold_share(const na_tcache_t *tcache, unsigned cls);

/* The blocks that the bin may hold now. */
NA_INLINE uint16_t na_young_hold(const na_tcache_t *tcache, unsigned cls) {
    const na_bin_state_t *state = &tcache->states[cls];
    if (NA_LIKELY(state->reused >= NA_REUSES_MOST)) return state->cap;
    uint32_t share =
        atomic_load_explicit(&na_bin_share[na_young_share(tcache, state)], memory_order_relaxed);
    if (NA_LIKELY(state->cap * state->size <= share)) return state->cap;
    return na_young_hold_share(tcache, cls);
}

/* A young bin has more than it may: all of it goes home. Counted before, granted after by the
 * caller. */
void na_young_flush(na_tcache_t *tcache, unsigned cls);

#endif
