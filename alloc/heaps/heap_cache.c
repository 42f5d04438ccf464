/* heap_cache.c - filling and emptying a thread's lists of blocks of the program's own heaps. */
#include "alloc/heaps/heap_cache.h"

#include "alloc/core/cache/bin.h"
#include "alloc/core/cache/thread_cache.h"
#include "alloc/core/central/block.h"
#include "alloc/core/sys/reserve.h"
#include "alloc/core/track/track.h"

enum {
    LIST_BLOCKS = 64, /* a list holds so many blocks at most, */
    LIST_BYTES = 32 << 10,
    LIST_LEAST = 2,
};

static uint16_t list_most(unsigned cls) {
    uint32_t most = LIST_BYTES / na_classes[cls].size;
    return (uint16_t)(most > LIST_BLOCKS ? LIST_BLOCKS : most < LIST_LEAST ? LIST_LEAST : most);
}

static na_heap_t *list_heap(const na_heap_list_t *list) {
    return na_heap_of_owner(list->key >> NA_HEAP_KEY_SHIFT);
}

/* --- lists. Behind the gate, but for `begin` --- */

static bool *takes(na_tcache_t *tcache, const na_heap_list_t *list) {
    na_heap_cache_t *cache = na_heap_cache_of(tcache);
    return &cache->takes[list - cache->lists];
}

/* The list is empty, and its heap's. */
static void begin_list(na_tcache_t *tcache, na_heap_list_t *list, na_heap_t *heap, unsigned cls) {
    *list = (na_heap_list_t){.key = na_heap_key(heap->owner, cls), .most = list_most(cls)};
    *takes(tcache, list) = false;
    atomic_fetch_add_explicit(&heap->lists, 1, memory_order_relaxed);
    na_heap_cache_of(tcache)->used++;
}

/* The list goes home, if its heap still lives; its place is nobody's. */
static void end(na_tcache_t *tcache, na_heap_list_t *list) {
    na_heap_t *heap = list_heap(list);
    unsigned cls = list->key & ((1u << NA_HEAP_KEY_SHIFT) - 1);
    if (list->count != 0 && na_heap_give(heap, cls, list->head, list->count)) {
        tcache->states[cls].pushes += list->count;
        if (NA_UNLIKELY(heap->consumer != NULL) && !*takes(tcache, list))
            na_consumer_freed(heap->consumer, tcache->node, list->count);
        if (heap->node != tcache->node) na_tcache_crossed(tcache, heap->node, cls, list->count);
    }
    *list = (na_heap_list_t){0};
    na_heap_cache_of(tcache)->used--;
    atomic_fetch_sub_explicit(&heap->lists, 1, memory_order_release);
}

/* The list of heap and class, begun if need be. False: another's is in its place, and cannot be
 * ended now. Not behind the gate. */
static bool open_list(na_tcache_t *tcache, na_heap_list_t *list, na_heap_t *heap, unsigned cls) {
    if (list->key == na_heap_key(heap->owner, cls)) return true;
    if (list->key != 0) {
        if (!na_gate_enter(tcache)) return false;
        end(tcache, list);
        na_gate_leave(tcache);
    }
    begin_list(tcache, list, heap, cls);
    return true;
}

/* Half of what it may hold, or what comes with a block. */
static bool refill_list(na_tcache_t *tcache, na_heap_list_t *list, na_heap_t *heap, unsigned cls) {
    uint32_t got;
    if (!na_gate_enter(tcache)) return false;
    list->head = na_heap_take(heap, cls, list->most / 2, &got);
    na_gate_leave(tcache);
    list->count = (uint16_t)got;
    *takes(tcache, list) = true;
    if (NA_UNLIKELY(tcache->states[cls].cap == 0)) na_bin_begin(tcache, cls);
    tcache->states[cls].pops += got;
    if (heap->node != tcache->node)
        tcache->posts.crossed[heap->node].bytes -= (int64_t)got * na_classes[cls].size;
    return got != 0;
}

static bool has_cache(na_tcache_t *tcache) {
    if (NA_LIKELY(na_heap_cache_of(tcache) != NULL)) return true;
    tcache->kept[NA_KEPT_HEAPS] = na_meta_alloc(sizeof(na_heap_cache_t), NA_CACHE_LINE);
    if (na_heap_cache_of(tcache) == NULL) return false;
    na_heap_cache_switched(tcache);
    return true;
}

/* --- taking and giving --- */

void na_heap_cache_switched(na_tcache_t *tcache) {
    na_heap_cache_t *cache = na_heap_cache_of(tcache);
    if (cache == NULL) return;
    cache->credit = 0;
    cache->until_sample = na_sampler_draw_bytes(&tcache->track);
}

na_heap_list_t *na_heap_list_filled(na_tcache_t *tcache, na_heap_t *heap, unsigned cls) {
    if (!has_cache(tcache)) return NULL;
    na_heap_list_t *list = na_heap_list_of(na_heap_cache_of(tcache), heap->owner, cls);
    if (!open_list(tcache, list, heap, cls) ||
        (list->head == NULL && !refill_list(tcache, list, heap, cls)))
        return NULL;
    return list;
}

void na_heap_put(na_tcache_t *tcache, na_span_t *span, void *block) {
    na_heap_list_t *list = has_cache(tcache)
                               ? na_heap_list_of(na_heap_cache_of(tcache), span->owner, span->cls)
                               : NULL;
    na_heap_t *heap = na_heap_of_owner(span->owner);
    if (list == NULL || !open_list(tcache, list, heap, span->cls)) {
        na_defer_free(block);
        return;
    }
    if (list->count >= list->most) {
        if (!na_gate_enter(tcache)) {
            na_defer_free(block);
            return;
        }
        end(tcache, list);
        na_gate_leave(tcache);
        begin_list(tcache, list, heap, span->cls);
    }
    na_link_set(block, list->head);
    list->head = block;
    list->count++;
}

/* --- giving back --- */

void na_heap_cache_flush(na_tcache_t *tcache) {
    na_heap_cache_t *cache = na_heap_cache_of(tcache);
    if (cache == NULL) return;
    for (unsigned i = 0; i < NA_HEAP_LISTS && cache->used != 0; i++)
        if (cache->lists[i].key != 0) end(tcache, &cache->lists[i]);
}

void na_heap_cache_decay(na_tcache_t *tcache) {
    na_heap_cache_t *cache = na_heap_cache_of(tcache);
    if (cache == NULL) return;
    for (unsigned i = 0; i < NA_HEAP_LISTS && cache->used != 0; i++) {
        if (cache->lists[i].key != 0 && cache->lists[i].head == cache->seen[i])
            end(tcache, &cache->lists[i]);
        cache->seen[i] = cache->lists[i].head;
    }
}

void na_heap_cache_flush_heap(na_tcache_t *tcache, const na_heap_t *heap) {
    na_heap_cache_t *cache = na_heap_cache_of(tcache);
    if (cache == NULL) return;
    for (unsigned i = 0; i < NA_HEAP_LISTS && cache->used != 0; i++)
        if (cache->lists[i].key >> NA_HEAP_KEY_SHIFT == heap->owner) end(tcache, &cache->lists[i]);
}

/* --- fork --- */

uint64_t na_heap_cache_forget(na_tcache_t *tcache) {
    na_heap_cache_t *cache = na_heap_cache_of(tcache);
    uint64_t lost = 0;
    if (cache == NULL) return 0;
    for (unsigned i = 0; i < NA_HEAP_LISTS; i++) {
        lost += (uint64_t)cache->lists[i].count *
                na_classes[cache->lists[i].key & ((1u << NA_HEAP_KEY_SHIFT) - 1)].size;
        cache->lists[i] = (na_heap_list_t){0};
    }
    cache->used = 0;
    return lost;
}

void na_heap_cache_recount(na_tcache_t *tcache) {
    na_heap_cache_t *cache = na_heap_cache_of(tcache);
    if (cache == NULL) return;
    for (unsigned i = 0; i < NA_HEAP_LISTS; i++)
        if (cache->lists[i].key != 0)
            atomic_fetch_add_explicit(&list_heap(&cache->lists[i])->lists, 1, memory_order_relaxed);
}
