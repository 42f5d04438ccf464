/* heap_blocks.h - blocks of the program's own heaps: taken, freed, and the end of a heap.
 *
 * The usual call takes from a list of the thread's, or puts there (cache/heap_cache.h). */
#ifndef NUMALLOC_ALLOC_MALLOC_HEAP_BLOCKS_H
#define NUMALLOC_ALLOC_MALLOC_HEAP_BLOCKS_H

#include <stdbool.h>
#include <stddef.h>

#include "alloc/cache/heap_cache.h"
#include "alloc/cache/thread_cache.h"
#include "alloc/central/heap.h"
#include "alloc/track/hooks.h"
#include "pagemap/pagemap.h"

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

/* All blocks of the heap end, and it is nobody's. Not behind the gate. Where a fork is under way
 * its memory goes back after that: by na_heap_drop_pending, which na_deferred_pending asks for. */
void na_heap_destroy(na_heap_t *heap);
void na_heap_drop_pending(na_tcache_t *tcache);

/* na_heap_trim, and the thread's own lists of the heap go to it before. Not behind the gate. */
size_t na_heap_trim_cached(na_heap_t *heap);

#endif
