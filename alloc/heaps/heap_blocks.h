/* heap_blocks.h - blocks of the program's own heaps: taken, freed, and the end of a heap.
 *
 * The usual call takes from a list of the thread's, or puts there (alloc/heaps/heap_cache.h). */
#ifndef NUMALLOC_ALLOC_HEAPS_HEAP_BLOCKS_H
#define NUMALLOC_ALLOC_HEAPS_HEAP_BLOCKS_H

#include <stdbool.h>
#include <stddef.h>

#include "alloc/core/cache/thread_cache.h"
#include "alloc/core/track/hooks.h"
#include "alloc/heaps/heap.h"
#include "alloc/heaps/heap_cache.h"
#include "pagemap/pagemap.h"

/* A block of the heap, of any size, aligned to `alignment` (a power of two); NULL and errno ENOMEM.
 * *zeroed, if not NULL: it is known to read as zero. A thread that a fork keeps from everything
 * shared gets an ordinary block. */
void *na_heap_alloc_slow(na_heap_t *heap, size_t size, size_t alignment, na_entry_t entry,
                         bool *zeroed);

/* The usual call: from the thread's list. (A thread without a thread cache has no lists.) */
NA_HOT void *na_heap_alloc(na_heap_t *heap, size_t size, na_entry_t entry) {
    na_heap_cache_t *cache = na_heap_cache_of(na_self);
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

/* All blocks of the heap end, and it is nobody's. Not behind the gate. Where a fork is under way
 * its memory goes back after that, which na_deferred_pending asks for. */
void na_heap_destroy(na_heap_t *heap);

/* na_heap_trim, and the thread's own lists of the heap go to it before. Not behind the gate. */
size_t na_heap_trim_cached(na_heap_t *heap);

#endif
