/* heap_cache.h - what a thread keeps of the program's own heaps: lists of free blocks.
 *
 *   numalloc_heap_malloc            free, of any thread
 *        | pop                          | push
 *        v                              v
 *   lists[heap, class]  {key, count, most, head}        no lock, no atomic
 *        | empty: a few blocks          ^ full, idle for a second, or the place is another's
 *        v                              |
 *   na_heap_t  (alloc/central/heap.h), under its lock
 *
 * A list is both bin and remote batch: what a thread frees, whoever allocated it, it takes again.
 * Blocks that share a cache line may so come to two threads, unless the heap is line-isolated.
 *
 * Made with the thread's first block of such a heap. Written by the owning thread only, but for
 * fork, which forgets what others kept. A heap may end while lists of its blocks are kept
 * (heap.h): these are dropped when their place is wanted, idle or flushed. */
#ifndef NUMALLOC_ALLOC_THREAD_HEAP_CACHE_H
#define NUMALLOC_ALLOC_THREAD_HEAP_CACHE_H

#include <stddef.h>
#include <stdint.h>

#include "alloc/cache/thread_cache.h"
#include "alloc/central/heap.h"
#include "alloc/malloc/small.h"
#include "alloc/page/run_cache.h"
#include "alloc/track/hooks.h"
#include "pagemap/pagemap.h"

#define NA_HEAP_LISTS 256u /* a power of two */

typedef struct na_heap_list {
    uint32_t key;   /* na_heap_key; 0: nobody's */
    uint16_t count; /* blocks; may be 0 */
    uint16_t most;  /* that it may hold */
    void *head;
} na_heap_list_t;
_Static_assert(sizeof(na_heap_list_t) == 16, "four to a cache line");

typedef struct na_heap_cache {
    /* Credit: bytes that may be handed out before the slow path looks for a switch of profiles, or
     * draws a sample: up to NA_CREDIT_MAX blocks. None while every event is wanted. */
    int64_t credit;
    int64_t until_sample; /* mode sample: bytes until the next sample, beyond the credit */
    uint32_t used;        /* lists that are somebody's */
    _Alignas(NA_CACHE_LINE) na_heap_list_t lists[NA_HEAP_LISTS];
    void *seen[NA_HEAP_LISTS]; /* heads at the last look */
} na_heap_cache_t;

/* heap->key + class */
NA_INLINE uint32_t na_heap_key(unsigned owner, unsigned cls) {
    return (uint32_t)owner << NA_HEAP_KEY_SHIFT | cls;
}

/* There are more places than classes: the classes of one heap are never in each other's way. */
NA_INLINE na_heap_list_t *na_heap_list_of(na_heap_cache_t *cache, unsigned owner, unsigned cls) {
    return &cache->lists[(owner * NA_HEAP_SPREAD + cls) % NA_HEAP_LISTS];
}

/* A block of the heap, of any size, aligned to `alignment` (a power of two); NULL and errno ENOMEM.
 * *zeroed, if not NULL: it is known to read as zero. A thread that a fork keeps from everything
 * shared gets an ordinary block. */
void *na_heap_alloc_slow(na_heap_t *heap, size_t size, size_t alignment, na_entry_t entry,
                         bool *zeroed);

/* The usual call: from the thread's list. (A thread without a thread cache has no lists.) */
NA_HOT void *na_heap_alloc(na_heap_t *heap, size_t size, na_entry_t entry) {
    na_heap_cache_t *cache = na_self->heap_cache;
    if (NA_LIKELY(size - 1 < NA_SMALL_MAX) && NA_LIKELY(cache != NULL)) {
        unsigned cls = na_heap_class(heap, size);
        na_heap_list_t *list = &cache->lists[(heap->first_list + cls) % NA_HEAP_LISTS];
        void *block = list->head;
        if (NA_LIKELY(list->key == heap->key + cls) && NA_LIKELY(block != NULL) &&
            NA_LIKELY((cache->credit -= na_classes[cls].size) >= 0)) {
            list->head = *na_block_next(block);
            list->count--;
            return block;
        }
    }
    return na_heap_alloc_slow(heap, size, NA_CLASS_STEP, entry, NULL);
}

/* Frees a block on a page with a heap's tag. (na_heap_free_slow: the rest of it.) */
void na_heap_free_slow(void *block, na_release_t how);
NA_HOT void na_heap_free(na_tcache_t *tcache, void *block, na_release_t how) {
    const na_span_t *span = na_span_by_page(block);
    na_heap_cache_t *cache = tcache->heap_cache;
    if (NA_LIKELY(cache != NULL) && NA_LIKELY(span->records == NULL) &&
        NA_LIKELY(!atomic_load_explicit(&na_every_event, memory_order_relaxed))) {
        na_heap_list_t *list = na_heap_list_of(cache, span->owner, span->cls);
        if (NA_LIKELY(list->key == na_heap_key(span->owner, span->cls)) &&
            NA_LIKELY(list->count < list->most)) {
            *na_block_next(block) = list->head;
            list->head = block;
            list->count++;
            return;
        }
    }
    na_heap_free_slow(block, how);
}

/* A block of a small span of a heap is free; its record has ended. Not behind the gate. */
void na_heap_put(na_tcache_t *tcache, na_span_t *span, void *block);

/* Lists go to their heaps: all; those that were not used since the last look; those of a heap.
 * Behind the gate. */
void na_heap_cache_flush_lists(na_tcache_t *tcache);
void na_heap_cache_decay_lists(na_tcache_t *tcache);
NA_INLINE void na_heap_cache_flush(na_tcache_t *tcache) {
    if (NA_UNLIKELY(tcache->heap_cache != NULL)) na_heap_cache_flush_lists(tcache);
}
NA_INLINE void na_heap_cache_decay(na_tcache_t *tcache) {
    if (NA_UNLIKELY(tcache->heap_cache != NULL)) na_heap_cache_decay_lists(tcache);
}
/* na_heap_trim, and the thread's own lists of the heap go to it before. Not behind the gate. */
size_t na_heap_cache_trim(na_heap_t *heap);
/* Recording was switched: no credit, and another draw. By the thread. */
void na_heap_cache_renew(na_heap_cache_t *cache, na_track_t *track);
NA_INLINE void na_heap_cache_switched(na_tcache_t *tcache) {
    if (NA_UNLIKELY(tcache->heap_cache != NULL))
        na_heap_cache_renew(tcache->heap_cache, &tcache->track);
}
/* Forked child: what another thread kept is lost (bytes), and no list counts any more; then the
 * thread's own do. */
uint64_t na_heap_cache_forget(na_tcache_t *tcache);
void na_heap_cache_recount(na_tcache_t *tcache);

/* All blocks of the heap end, and it is nobody's. Not behind the gate. Where a fork is under way
 * its memory goes back after that: by na_heap_drop_pending, which na_aside_pending asks for. */
void na_heap_destroy(na_heap_t *heap);
void na_heap_drop_pending(na_tcache_t *tcache);

#endif
