/* every.c - the usual malloc and free while every event is recorded. */
#include "alloc/every.h"

#include "alloc/cache.h"
#include "alloc/recording.h"
#include "alloc/switch.h"
#include "pagemap/pagemap.h"

/* No switch to be noticed, no look at the clock due, no move to another node. Counts the call as
 * na_heap_pass does. */
NA_INLINE bool nothing_is_due(na_heap_t *heap) {
    if (NA_UNLIKELY(heap->alarm != atomic_load_explicit(&na_alarm, memory_order_acquire)) ||
        NA_UNLIKELY(heap->settles + 1 >= NA_POLL_SETTLES) ||
        (NA_UNLIKELY(na_heap_watched(heap)) && na_heap_is_away(heap)))
        return false;
    heap->settles++;
    return true;
}

/* The span's blocks have records, and its pages are slow. */
NA_INLINE bool is_recorded(const na_heap_t *heap, const na_span_t *span) {
    return atomic_load_explicit(&span->recorded, memory_order_relaxed) == heap->profile_session;
}

NA_INLINE na_record_t *record_at(const na_span_t *span, uint32_t index) {
    return atomic_load_explicit(&span->records, memory_order_acquire) + index;
}

void *na_every_alloc(na_heap_t *heap, unsigned cls, size_t requested, na_entry_t entry) {
    na_bin_t *bin = &heap->bins[cls];
    na_bin_state_t *state = &heap->states[cls];
    bin->pop = 0; /* the hot path has counted it below zero */
    if (NA_UNLIKELY(state->count == 0) || !nothing_is_due(heap))
        return na_alloc_thoroughly(cls, requested, entry);
    const na_hooks_t *hooks = na_section_enter(heap);
    void *block = bin->head;
    const na_span_t *span = na_span_by_page(block);
    if (NA_UNLIKELY(hooks == NULL) || NA_UNLIKELY(!is_recorded(heap, span))) {
        na_section_leave(heap);
        return na_alloc_thoroughly(cls, requested, entry);
    }
    bin->head = *na_block_next(block);
    state->count--;
    state->pops++;
    state->used = true;
    const na_class_t *c = &na_classes[cls];
    na_record_t *record = record_at(span, na_block_index(c, (uintptr_t)block - span->start));
    na_record_take(record, c->size - requested, heap->node, na_profile_epoch);
    hooks->on_alloc(&heap->profile, record, block, requested, c->size, entry);
    na_section_leave(heap);
    return block;
}

/* Calls the hook if the block has a record of its life. */
NA_INLINE bool record_free(na_heap_t *heap, const na_span_t *span, uint32_t index, void *block,
                           size_t size, na_release_t how) {
    const na_hooks_t *hooks = na_section_enter(heap);
    bool known = false;
    if (NA_LIKELY(hooks != NULL) && NA_LIKELY(is_recorded(heap, span))) {
        na_record_t *record = record_at(span, index);
        known = record->epoch != 0;
        if (NA_LIKELY(known)) {
            hooks->on_free(&heap->profile, record, block, size, how, NULL);
            record->epoch = 0;
        }
    }
    na_section_leave(heap);
    return known;
}

void na_every_free(na_heap_t *heap, void *block, na_release_t how) {
    const na_span_t *span = na_span_by_page(block);
    if (NA_LIKELY(span != NULL)) {
        unsigned cls = span->cls;
        na_bin_t *bin = &heap->bins[cls];
        na_bin_state_t *state = &heap->states[cls];
        const na_class_t *c = &na_classes[cls];
        size_t offset = (uintptr_t)block - span->start;
        uint32_t index = na_block_index(c, offset);
        /* Small, this heap's, and not the sampler's; a block begins there; the bin has room. */
        if (NA_LIKELY(cls != 0) && NA_LIKELY(bin->tag >> 16 == span->owner) &&
            NA_LIKELY(!span->sampled) && NA_LIKELY(index < span->capacity) &&
            NA_LIKELY(offset == (size_t)index * c->size) && NA_LIKELY(state->count < state->cap) &&
            nothing_is_due(heap) &&
            NA_LIKELY(record_free(heap, span, index, block, c->size, how))) {
            *na_block_next(block) = bin->head;
            bin->head = block;
            state->count++;
            state->pushes++;
            state->used = true;
            return;
        }
    }
    na_free_thoroughly(block, NA_TAG_NONE, how, NULL);
}
