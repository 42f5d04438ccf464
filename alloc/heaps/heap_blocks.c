/* heap_blocks.c - what the usual call leaves: malloc's slow path and free's for the program's own
 * heaps, and the end of a heap. */
#include "alloc/heaps/heap_blocks.h"

#include <errno.h>

#include "alloc/core/cache/thread_cache.h"
#include "alloc/core/central/block.h"
#include "alloc/core/malloc/emergency.h"
#include "alloc/core/malloc/large.h"
#include "alloc/core/malloc/small.h"
#include "alloc/core/page/pageheap.h"
#include "alloc/core/thread/attach.h"
#include "alloc/core/track/misuse.h"
#include "alloc/core/track/track.h"
#include "alloc/record/recording.h"

/* --- taking --- */

/* Counts a block and grants credit; true: it is to be sampled. (The call that came here may have
 * taken the block's bytes from the credit; it is the same block, so that is undone.) */
static bool renew_credit(na_tcache_t *tcache, unsigned cls) {
    na_heap_cache_t *cache = na_heap_cache_of(tcache);
    int64_t size = na_classes[cls].size, grant = NA_CREDIT_MAX * size;
    if (cache->credit < 0) cache->credit += size;
    int64_t until =
        cache->until_sample == INT64_MAX ? INT64_MAX : cache->until_sample + cache->credit;
    bool sampled = na_samples_bytes() && until < size;
    if (sampled)
        until = na_sampler_draw_bytes(&tcache->track);
    else if (until != INT64_MAX)
        until -= size;
    if (na_every_event) grant = 0;
    cache->credit = until < grant ? until : grant;
    cache->until_sample = until == INT64_MAX ? INT64_MAX : until - cache->credit;
    return sampled;
}

static void *take_from_heap(na_tcache_t *tcache, na_heap_t *heap, unsigned cls, size_t size,
                            na_entry_t entry) {
    na_heap_list_t *list = na_heap_list_filled(tcache, heap, cls);
    if (list == NULL) return NULL;
    void *block = list->head;
    if (NA_UNLIKELY(!na_link_may_give(cls, block))) {
        list->head = NULL;
        list->count = 0;
        return NULL;
    }
    list->head = na_link_next(block);
    list->count--;
    na_span_t *span = na_span_by_page(block);
    if (renew_credit(tcache, cls)) (void)na_span_add_records(span);
    na_record_alloc(&tcache->track, span, block, size, na_classes[cls].size, entry);
    return block;
}

static void *alloc_small(na_heap_t *heap, unsigned cls, size_t size, na_entry_t entry) {
    na_tcache_t *tcache = na_tcache_enter();
    void *block = NULL;
    if (NA_LIKELY(tcache != NULL)) block = take_from_heap(tcache, heap, cls, size, entry);
    if (NA_UNLIKELY(block == NULL) && (tcache == NULL || tcache->life.refused)) {
        if (tcache != NULL) tcache->life.refused = false;
        block = na_emergency_alloc(tcache, cls, size, entry);
    }
    na_path_born(block, size, entry);
    if (NA_LIKELY(tcache != NULL)) {
        na_poll_pass(tcache);
        na_tcache_leave(tcache);
    }
    if (NA_UNLIKELY(block == NULL)) errno = ENOMEM;
    return block;
}

/* A large block becomes the heap's when it has been made; not while a fork is under way. */
static void *alloc_large(na_heap_t *heap, size_t size, size_t alignment, na_entry_t entry,
                         bool *zeroed) {
    na_large_place_t place = {.node = heap->node,
                              .on_node = heap->on_node,
                              .huge = heap->chunks.huge,
                              .turns = heap->chunks.turns};
    void *block = na_large_alloc_placed(place, size, alignment, entry, zeroed);
    na_tcache_t *tcache = block != NULL ? na_tcache_enter() : NULL;
    if (tcache == NULL) return block;
    if (na_gate_enter(tcache)) {
        na_heap_add_large(heap, na_span_of(block));
        na_gate_leave(tcache);
    }
    tcache->life.refused = false;
    na_tcache_leave(tcache);
    return block;
}

void *na_heap_alloc_slow(na_heap_t *heap, size_t size, size_t alignment, na_entry_t entry,
                         bool *zeroed) {
    if (zeroed != NULL) *zeroed = false;
    if (size == 0) size = 1;
    if (alignment > NA_CLASS_STEP) entry = na_entry_aligned(entry, alignment);
    if (alignment <= heap->line_mask) alignment = NA_CACHE_LINE;
    unsigned cls = 0;
    size_t room = size + na_path.room;
    if (NA_UNLIKELY(na_path.room != 0) && room <= NA_CLASS_STEP)
        room = NA_CLASS_STEP + 1; /* links take all of the smallest class */
    if (room <= NA_SMALL_MAX && alignment <= NA_PAGE_SIZE)
        cls = alignment <= NA_CLASS_STEP ? na_class_of(room) : na_class_of_aligned(room, alignment);
    if (cls != 0) return alloc_small(heap, cls, size, entry);
    if (alignment < NA_PAGE_SIZE) alignment = NA_PAGE_SIZE;
    return alloc_large(heap, size, alignment, entry, zeroed);
}

/* --- giving --- */

/* Of a block on a page with a heap's tag. */
static void free_block(void *block, na_release_t how, na_tcache_t *tcache) {
    const na_span_t *span = na_span_by_page(block);
    na_heap_cache_t *cache = na_heap_cache_of(tcache);
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
    na_free_slow(block, NA_TAG_NONE, how, NULL);
}

/* --- giving back --- */

size_t na_heap_trim_cached(na_heap_t *heap) {
    na_tcache_t *tcache = na_tcache_enter();
    size_t bytes = 0;
    if (tcache == NULL) return 0;
    if (na_gate_enter(tcache)) {
        na_heap_cache_flush_heap(tcache, heap);
        bytes = na_heap_trim(heap);
        na_gate_leave(tcache);
    }
    tcache->life.refused = false;
    na_tcache_leave(tcache);
    return bytes;
}

/* --- the end of a heap --- */

/* What a profile, or strict checking, has of the span's blocks: they are freed now. */
static void end_records(na_span_t *span, void *arg) {
    na_tcache_t *tcache = arg;
    if (atomic_load_explicit(&span->records, memory_order_acquire) == NULL) return;
    size_t size = na_classes[span->cls].size;
    for (uint32_t i = 0; i < span->carved; i++) {
        void *block = (char *)span->start + (size_t)i * size;
        if (na_record_epoch(na_record_of(span, block)) != 0)
            (void)na_record_free(&tcache->track, span, block, size, NA_RELEASE_FREE, NULL);
    }
}

static void end_lives(na_span_t *span, void *arg) {
    (void)arg;
    na_path.ended(span->start, na_span_bytes(span));
}

/* Its blocks that were freed and could not come home while a fork was under way. */
static void forget_deferred(const na_heap_t *heap) {
    void *block = na_deferred_take_blocks();
    while (block != NULL) {
        void *next = na_link_next(block);
        const na_span_t *span = na_span_of(block);
        if (span == NULL || span->owner != heap->owner) na_defer_free(block);
        block = next;
    }
}

/* Behind the gate, with na_deferred_lock. */
static void drop(na_tcache_t *tcache, na_heap_t *heap) {
    uint64_t blocks[NA_CLASS_COUNT] = {0};
    unsigned node = heap->node;
    forget_deferred(heap);
    na_heap_drop(heap, blocks);
    for (unsigned cls = 1; cls < NA_CLASS_COUNT; cls++) {
        tcache->states[cls].pushes += blocks[cls];
        if (blocks[cls] != 0 && node != tcache->node)
            na_tcache_crossed(tcache, node, cls, (uint32_t)blocks[cls]);
    }
}

static void drop_pending(na_tcache_t *tcache) {
    for (na_heap_t *heap; (heap = na_heap_to_drop()) != NULL;) {
        if (!na_gate_enter(tcache)) {
            na_heap_drop_later(heap);
            return;
        }
        drop(tcache, heap);
        na_gate_leave(tcache);
    }
}

void na_heap_destroy(na_heap_t *heap) {
    na_tcache_t *tcache = na_tcache_enter();
    if (tcache != NULL && na_gate_enter(tcache)) {
        na_heap_cache_flush_heap(tcache, heap);
        na_gate_leave(tcache);
    }
    na_heap_end(heap);
    if (NA_UNLIKELY(na_path.ended != NULL)) na_heap_each(heap, end_lives, NULL);
    if (tcache != NULL) na_heap_each(heap, end_records, tcache);
    for (na_span_t *large; (large = na_heap_next_large(heap)) != NULL;) {
        void *block = (void *)large->start;
        if (NA_UNLIKELY(na_path.ended != NULL)) na_path.ended(large->start, NA_PAGE_SIZE);
        /* A forked child may find one that was just being freed. */
        if (tcache != NULL && na_record_is_live(large, block))
            na_large_free(tcache, large, block, NA_RELEASE_FREE, NULL);
        else
            na_large_free_late(tcache, large);
    }
    enum { PATIENCE_MS = 1000 }; /* who has it waits for a fork at most */
    bool alone = na_lock_for(&na_deferred_lock, PATIENCE_MS);
    if (alone && tcache != NULL && na_gate_enter(tcache)) {
        drop(tcache, heap);
        na_gate_leave(tcache);
    } else {
        na_heap_drop_later(heap);
        atomic_store(&na_deferred_pending, true);
    }
    if (alone) na_unlock(&na_deferred_lock);
    if (tcache == NULL) return;
    tcache->life.refused = false;
    na_tcache_leave(tcache);
}

/* --- what the core calls --- */

static void *alloc_beside(const na_span_t *span, size_t size, na_entry_t entry) {
    return na_heap_alloc(na_heap_of_owner(span->owner), size, entry);
}

/* Filled as they are wanted: the loader would write tables for all. */
static na_owners_t owners;
static na_layer_t layer;

void na_heaps_attach(void) {
    if (na_owners != NULL) return;
    owners = (na_owners_t){.free = free_block,
                           .put = na_heap_put,
                           .leave = na_heap_remove_large,
                           .beside = alloc_beside};
    layer = (na_layer_t){.flush = na_heap_cache_flush,
                         .decay = na_heap_cache_decay,
                         .switched = na_heap_cache_switched,
                         .drain = drop_pending,
                         .reset = na_heap_after_fork_child,
                         .forget_counts = na_heap_forget_lists,
                         .forget = na_heap_cache_forget,
                         .recount = na_heap_cache_recount};
    na_layer_add(&layer);
    na_chunks_attach();
    na_owners = &owners;
}
