/* overflow.h - batches of free blocks that a thread cache keeps for itself, class by class.
 *
 *   bin full  ->  batch  ->  states[cls].overflow: a stack of batches  ->  bin empty
 *                               |
 *                               v   when something calls for it
 *                        transfer cache, spans, page heap
 *
 * Sending a batch home costs a look at the page map a block, and bringing the blocks back as much
 * again. A thread that frees what it will soon want again is spared both: its batches are kept, and
 * go home (pooled classes': by way of the transfer cache) only
 *   - before the thread cache, or a large block, takes memory that was never touched
 *     (na_overflow_flush): what other classes keep may hold the pages, so that keeping does not
 *     raise the peak;
 *   - when the thread frees more than the limit in one go: it will not want it back soon. All goes
 *     home then, and the limit falls to its least, until the thread draws from its spans again.
 *     When it has drawn as much again it works in waves: the limit then rises to twice as much as
 *     before, and to half of that after each IDLE_MS in which this did not happen;
 *   - at once, when blocks are freed in random order: walking them later, out of the cache, costs
 *     more than now, and so does taking them from all over the thread cache again. (Judged by
 *     the newest blocks of the latest batches: in most of them none of sixteen is near the one
 *     before it. Where other threads take what is put into the transfer cache, those of pooled
 *     classes go there as long as it has room);
 *   - when that would free far more memory than they hold: blocks may each be the last of their
 *     span. Of batches of which only some blocks are near each other one in sixteen is sent home to
 *     find out;
 *   - of a class of which the thread has freed more than it allocated: others want them;
 *   - when they lie idle, and when the thread exits (scavenge.c).
 * Limits are in scavenge_policy.h. Kept by all thread caches together: about NA_OVERFLOW_TOTAL
 * while there are fewer than 256 threads; beyond that, NA_OVERFLOW_LEAST each. What a thread keeps
 * that sleeps others send home for it.
 *
 * All behind the gate, by the thread cache's holder. Sizes are bytes. */
#ifndef NUMALLOC_ALLOC_CACHE_OVERFLOW_H
#define NUMALLOC_ALLOC_CACHE_OVERFLOW_H

#include "alloc/cache/thread_cache.h"
#include "alloc/central/batch.h"
#include "alloc/page/pageheap.h"
#include "alloc/page/scavenge_policy.h"

/* The block of the class, which is the program's if all is right, lies among those that the thread
 * freed: in its bin, or in a batch that it keeps. Some thousand blocks are looked at. By the
 * cache's thread, which is not behind the gate. */
NA_COLD bool na_overflow_has_freed(na_tcache_t *tcache, unsigned cls, const void *block);

#define NA_SCATTERED_MANY 2u
/* The thread frees in random order of late. */
NA_INLINE bool na_overflow_is_scattered(const na_tcache_t *tcache) {
    return tcache->scattered >= NA_SCATTERED_MANY;
}

/* Takes a batch of a bin that is full; older ones may go home for it. */
void na_overflow(na_tcache_t *tcache, unsigned cls, na_batch_t batch);
/* Takes in batches that came by remote frees, a stack of them; they are the thread cache's as if
 * kept. */
void na_overflow_remote(na_tcache_t *tcache, unsigned cls, na_batch_t stack);
/* The batch that was kept last, or 0. */
na_batch_t na_overflow_take(na_tcache_t *tcache, unsigned cls);

/* The bin found nothing kept and draws from its spans: the limit rises. */
void na_overflow_raise(na_tcache_t *tcache);
/* So much was drawn. */
NA_INLINE void na_overflow_drawn(na_tcache_t *tcache, uint32_t bytes) {
    if (NA_LIKELY(tcache->overflow_sent == 0)) return;
    if (tcache->overflow_sent > bytes) {
        tcache->overflow_sent -= bytes;
        return;
    }
    tcache->overflow_sent = 0;
    if (tcache->overflow_waves < NA_OVERFLOW_WAVES) tcache->overflow_waves++;
}
/* Called each IDLE_MS. */
NA_INLINE void na_overflow_forget_waves(na_tcache_t *tcache) {
    tcache->overflow_sent = 0;
    tcache->overflow_waves /= 2;
}
/* What it keeps, or has in its remote free lists, is enough to be worth a look. */
NA_INLINE bool na_overflow_keeps_much(const na_tcache_t *tcache) {
    uint64_t remote = atomic_load_explicit(&tcache->remote_bytes, memory_order_relaxed);
    return tcache->overflow_bytes + remote >= NA_OVERFLOW_LEAST;
}
/* Then, when the thread cache is about to take `pages` from the page heap: all of it must go home
 * first, or the process grows. */
NA_INLINE bool na_overflow_in_the_way(const na_tcache_t *tcache, uint32_t pages) {
    return NA_UNLIKELY(na_overflow_keeps_much(tcache)) &&
           !na_pageheap_has_dirty(tcache->node, pages);
}
/* Sends everything home, remote frees too. */
void na_overflow_flush(na_tcache_t *tcache);
/* If nothing was kept or taken since the last call, sends home some of what the thread, which seems
 * to sleep, keeps: as much as it can be made to wait for, should it wake. */
void na_overflow_scavenge(na_tcache_t *tcache);
/* Called once in a while: sends home the batches of the class that were not touched since. */
void na_overflow_decay(na_tcache_t *tcache, unsigned cls);

#endif
