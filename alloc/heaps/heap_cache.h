/* heap_cache.h - what a thread keeps of the program's own heaps: lists of free blocks.
 *
 *   numalloc_heap_malloc            free, of any thread       (alloc/heaps/heap_blocks.h)
 *        | pop                          | push
 *        v                              v
 *   lists[heap, class]  {key, count, most, head}        no lock, no atomic
 *        | empty: a few blocks          ^ full, idle for a second, or the place is another's
 *        v                              |
 *   na_heap_t  (alloc/heaps/heap.h), under its lock
 *
 * A list is both bin and remote batch: what a thread frees, whoever allocated it, it takes again.
 * Blocks that share a cache line may so come to two threads, unless the heap is line-isolated.
 *
 * Made with the thread's first block of such a heap. Written by the owning thread only, but for
 * fork, which forgets what others kept. A heap may end while lists of its blocks are kept
 * (heap.h): these are dropped when their place is wanted, idle or flushed. */
#ifndef NUMALLOC_ALLOC_HEAPS_HEAP_CACHE_H
#define NUMALLOC_ALLOC_HEAPS_HEAP_CACHE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "alloc/core/cache/thread_cache.h"
#include "alloc/heaps/heap.h"
#include "alloc/record/recording.h"
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
    bool takes[NA_HEAP_LISTS]; /* the list was filled from the heap: its blocks did not cross */
} na_heap_cache_t;

NA_INLINE na_heap_cache_t *na_heap_cache_of(const na_tcache_t *tcache) {
    return tcache->kept[NA_KEPT_HEAPS];
}

/* heap->key + class */
NA_INLINE uint32_t na_heap_key(unsigned owner, unsigned cls) {
    return (uint32_t)owner << NA_HEAP_KEY_SHIFT | cls;
}

/* There are more places than classes: the classes of one heap are never in each other's way. */
NA_INLINE na_heap_list_t *na_heap_list_of(na_heap_cache_t *cache, unsigned owner, unsigned cls) {
    return &cache->lists[(owner * NA_HEAP_SPREAD + cls) % NA_HEAP_LISTS];
}

/* The thread's list of heap and class with a block on it, fetched if need be; NULL: there is no
 * memory, or tcache->life.refused. Not behind the gate. */
na_heap_list_t *na_heap_list_filled(na_tcache_t *tcache, na_heap_t *heap, unsigned cls);

/* A block of a small span of a heap is free; its record has ended. Not behind the gate. */
void na_heap_put(na_tcache_t *tcache, na_span_t *span, void *block);

/* Lists go to their heaps: all; those that were not used since the last look; those of a heap.
 * Behind the gate. */
void na_heap_cache_flush(na_tcache_t *tcache);
void na_heap_cache_decay(na_tcache_t *tcache);
void na_heap_cache_flush_heap(na_tcache_t *tcache, const na_heap_t *heap);
/* Recording was switched: no credit, and another draw. By the thread. */
void na_heap_cache_switched(na_tcache_t *tcache);
/* Forked child: what another thread kept is lost (bytes), and no list counts any more; then the
 * thread's own do. */
uint64_t na_heap_cache_forget(na_tcache_t *tcache);
void na_heap_cache_recount(na_tcache_t *tcache);

#endif
