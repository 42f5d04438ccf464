/* keep.h - chains of free blocks that a heap keeps for itself, class by class.
 *
 *   bin full  ->  chain  ->  kept[cls]: a stack of chains  ->  bin empty
 *                               |
 *                               v   when something calls for it
 *                        depot, spans, page heap
 *
 * Sending a chain home costs a look at the page map a block, and bringing the blocks back as much
 * again. A thread that frees what it will soon want again is spared both: its chains are kept, and
 * go home (pooled classes': by way of the depot) only
 *   - before the heap grows into memory that was never touched (na_keep_yield): what other classes
 *     keep may hold the pages, so that keeping does not raise the peak;
 *   - when the thread frees more than the limit in one go: it will not want it back soon. All goes
 *     home then, and the limit falls to its least, until the thread draws from its spans again;
 *   - at once, when blocks are freed in random order: walking them later, out of the cache, costs
 *     more than now, and so does taking them from all over the heap again. (Judged by the newest
 *     blocks of the latest chains: none of sixteen is near the one before it, in most of them);
 *   - when that would free far more memory than they hold: blocks may each be the last of their
 *     span. Of chains of which only some blocks are near each other one in sixteen is sent home to
 *     find out;
 *   - of a class of which the thread has freed more than it allocated: others want them;
 *   - when they lie idle, and when the thread exits (heap.c).
 * Kept by all heaps together: about NA_KEEP_TOTAL while there are fewer than 256 threads; beyond
 * that, NA_KEEP_LEAST each. What a thread keeps that sleeps others send home for it.
 *
 * All behind the gate, by the heap's holder. Sizes are bytes. */
#ifndef NUMALLOC_ALLOC_KEEP_H
#define NUMALLOC_ALLOC_KEEP_H

#include "alloc/central/chain.h"
#include "alloc/page/pageheap.h"
#include "alloc/thread/heap.h"

#define NA_KEEP_TOTAL ((uint32_t)64 << 20)
#define NA_KEEP_MAX   ((uint32_t)8 << 20)
#define NA_KEEP_LEAST ((uint32_t)256 << 10)

#define NA_SCATTERED_MANY 2u
/* The thread frees in random order of late. */
NA_INLINE bool na_keep_is_scattered(const na_heap_t *heap) {
    return heap->scattered >= NA_SCATTERED_MANY;
}

/* Takes a chain of a bin that is full; older ones may go home for it. */
void na_keep(na_heap_t *heap, unsigned cls, na_chain_t chain);
/* Takes in chains that came by mail, a stack of them; they are the heap's as if kept. */
void na_keep_mail(na_heap_t *heap, unsigned cls, na_chain_t stack);
/* The chain that was kept last, or 0. */
na_chain_t na_keep_take(na_heap_t *heap, unsigned cls);

/* The bin found nothing kept and draws from its spans: the limit rises. */
void na_keep_raise(na_heap_t *heap);
/* The heap is about to take `pages` from the page heap, and what it keeps, or has in its mailbox,
 * is enough to be worth a look: all of it must go home first, or the process grows. */
NA_INLINE bool na_keep_in_the_way(const na_heap_t *heap, uint32_t pages) {
    uint64_t mail = atomic_load_explicit(&heap->mail_bytes, memory_order_relaxed);
    return NA_UNLIKELY(heap->kept_bytes + mail >= NA_KEEP_LEAST) &&
           !na_pageheap_has_dirty(heap->node, pages);
}
/* Sends everything home, mail too. */
void na_keep_yield(na_heap_t *heap);
/* If nothing was kept or taken since the last call, sends home some of what the thread, which seems
 * to sleep, keeps: as much as it can be made to wait for, should it wake. */
void na_keep_reclaim(na_heap_t *heap);
/* Called once in a while: sends home the chains of the class that were not touched since. */
void na_keep_age(na_heap_t *heap, unsigned cls);

#endif
