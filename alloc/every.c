/* every.c - the usual malloc and free while every event is recorded. */
#include "alloc/every.h"

#include <string.h>

#include "alloc/cache.h"
#include "alloc/mix.h"
#include "alloc/recording.h"
#include "alloc/switch.h"
#include "alloc/timing.h"
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
    return atomic_load_explicit(&span->recorded, memory_order_relaxed) == heap->profile_session &&
           !na_is_mixed(span);
}

NA_INLINE na_record_t *record_at(const na_span_t *span, uint32_t index) {
    return atomic_load_explicit(&span->records, memory_order_acquire) + index;
}

typedef enum na_timed { NOT_TIMED, TIMED, PART } na_timed_t; /* PART: of a call that is timed */

/* All from one text. NULL: this is no usual call, and nothing was changed for it. (The frame is
 * that of the function that it is inlined into. Where malloc ended with a jump to here, no other is
 * between it and the program's.) */
NA_INLINE void *alloc(na_heap_t *heap, unsigned cls, size_t requested, na_entry_t entry,
                      const na_timed_t how) {
    const bool timed = how == TIMED;
    na_bin_t *bin = &heap->bins[cls];
    na_bin_state_t *state = &heap->states[cls];
    bin->pop = 0; /* the hot path has counted it below zero */
    if (NA_UNLIKELY(state->count == 0) || !nothing_is_due(heap)) return NULL;
    const na_hooks_t *hooks = na_section_enter(heap);
    void *block = bin->head;
    const na_span_t *span = na_span_by_page(block);
    if (NA_UNLIKELY(hooks == NULL) || NA_UNLIKELY(!is_recorded(heap, span))) {
        na_section_leave(heap);
        return NULL;
    }
    uint64_t from = timed ? na_clock_read() : 0;
    bin->head = *na_block_next(block);
    if (timed && na_entry_kind(entry) == NA_ENTRY_CALLOC) memset(block, 0, requested);
    uint64_t to = how != NOT_TIMED ? na_clock_read() : 0;
    state->count--;
    state->pops++;
    state->used = true;
    const na_class_t *c = &na_classes[cls];
    na_record_t *record = record_at(span, na_block_index(c, (uintptr_t)block - span->start));
    na_record_take(record, c->size - requested, heap->node, na_profile_epoch);
    hooks->on_alloc(&heap->profile, record, block, requested, c->size, entry,
                    __builtin_frame_address(0));
    if (timed)
        na_timed_tell(heap, hooks, (na_call_t)na_entry_kind(entry), na_clock_between(from, to));
    na_section_leave(heap);
    if (how == PART) na_timed_leave_out(heap, to);
    return block;
}

void *na_every_alloc(na_heap_t *heap, unsigned cls, size_t requested, na_entry_t entry) {
    void *block = alloc(heap, cls, requested, entry, NOT_TIMED);
    return NA_LIKELY(block != NULL) ? block : na_alloc_thoroughly(cls, requested, entry);
}

void *na_every_alloc_timed(na_heap_t *heap, unsigned cls, size_t requested, na_entry_t entry) {
    if (heap->in_realloc && na_entry_kind(entry) == NA_ENTRY_REALLOC) {
        /* A part of a realloc, which is timed as a whole or not at all. */
        if (heap->timed_from == 0) {
            na_timed_draw(heap);
            return na_every_alloc(heap, cls, requested, entry);
        }
        heap->every_left = 1;
        void *part = alloc(heap, cls, requested, entry, PART);
        return part != NULL ? part : na_alloc_thoroughly(cls, requested, entry);
    }
    heap->in_realloc = false; /* left by longjmp, or by a signal */
    heap->timed_from = 0;
    na_timed_draw(heap);
    void *block = alloc(heap, cls, requested, entry, TIMED);
    if (NA_LIKELY(block != NULL)) return block;
    na_timed_begin(heap);
    block = na_alloc_thoroughly(cls, requested, entry);
    if (block != NULL && na_entry_kind(entry) == NA_ENTRY_CALLOC) memset(block, 0, requested);
    na_timed_end(heap, (na_call_t)na_entry_kind(entry), true);
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

NA_INLINE void push(na_bin_t *bin, void *block) {
    *na_block_next(block) = bin->head;
    bin->head = block;
}

static NA_COLD void push_timed(na_heap_t *heap, na_bin_t *bin, void *block, na_release_t how) {
    uint64_t from = na_clock_read();
    push(bin, block);
    uint64_t to = na_clock_read();
    const na_hooks_t *hooks = na_section_enter(heap);
    if (hooks != NULL)
        na_timed_tell(heap, hooks, na_call_of_release(how), na_clock_between(from, to));
    na_section_leave(heap);
}

/* False: this is no usual call, and nothing was changed for it. */
NA_INLINE bool release(na_heap_t *heap, void *block, na_release_t how, const bool timed) {
    const na_span_t *span = na_span_by_page(block);
    if (NA_UNLIKELY(span == NULL)) return false;
    unsigned cls = span->cls;
    na_bin_t *bin = &heap->bins[cls];
    na_bin_state_t *state = &heap->states[cls];
    const na_class_t *c = &na_classes[cls];
    size_t offset = (uintptr_t)block - span->start;
    uint32_t index = na_block_index(c, offset);
    /* Small, this heap's, and not the sampler's; a block begins there; the bin has room. */
    if (NA_UNLIKELY(cls == 0) || NA_UNLIKELY(bin->tag >> 16 != span->owner) ||
        NA_UNLIKELY(span->sampled) || NA_UNLIKELY(index >= span->capacity) ||
        NA_UNLIKELY(offset != (size_t)index * c->size) || NA_UNLIKELY(state->count >= state->cap) ||
        !nothing_is_due(heap) || NA_UNLIKELY(!record_free(heap, span, index, block, c->size, how)))
        return false;
    state->count++;
    state->pushes++;
    state->used = true;
    if (timed)
        push_timed(heap, bin, block, how);
    else
        push(bin, block);
    return true;
}

/* What is unusual; `drawn`: to be timed. */
static NA_NOINLINE void free_thoroughly(na_heap_t *heap, void *block, na_release_t how,
                                        bool drawn) {
    const na_span_t *span = na_span_by_page(block);
    bool large = span != NULL && span->cls == 0;
    bool timed = drawn || (large && na_timed_wants(heap));
    if (timed) na_timed_begin(heap);
    na_free_thoroughly(block, NA_TAG_NONE, how, NULL);
    if (timed) na_timed_end(heap, na_call_of_release(how), !large);
}

void na_every_free(na_heap_t *heap, void *block, na_release_t how) {
    if (NA_UNLIKELY(!release(heap, block, how, false))) free_thoroughly(heap, block, how, false);
}

void na_every_free_timed(na_heap_t *heap, void *block, na_release_t how) {
    heap->in_realloc =
        false; /* left by longjmp, or by a signal: realloc itself does not come here */
    heap->timed_from = 0;
    na_timed_draw(heap);
    if (!release(heap, block, how, true)) free_thoroughly(heap, block, how, true);
}
