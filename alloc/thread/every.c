/* every.c - the usual malloc and free while every event is recorded. */
#include "alloc/thread/every.h"

#include <string.h>

#include "alloc/thread/cache.h"
#include "alloc/thread/usual.h"
#include "alloc/track/timing.h"

_Atomic(na_every_alloc_t *) na_every_alloc_by = na_every_alloc;
_Atomic(na_every_free_t *) na_every_free_by = na_every_free;

void na_every_choose(const na_hooks_t *hooks) {
    bool theirs = hooks->every_alloc != NULL && na_section_by_membarrier;
    atomic_store(&na_every_alloc_by, theirs ? hooks->every_alloc : na_every_alloc);
    atomic_store(&na_every_free_by, theirs ? hooks->every_free : na_every_free);
}

typedef enum na_timed { NOT_TIMED, TIMED, PART } na_timed_t; /* PART: of a call that is timed */

/* All from one text. NULL: this is no usual call, and nothing was changed for it. (The frame is
 * that of the function that it is inlined into. Where malloc ended with a jump to here, no other is
 * between it and the program's.) */
NA_INLINE void *alloc(na_heap_t *heap, unsigned cls, size_t requested, na_entry_t entry,
                      const na_timed_t how) {
    const bool timed = how == TIMED;
    const na_usual_bin_t b = na_usual_bin(heap, cls);
    na_usual_no_credit(b.bin);
    if (!na_usual_now(heap)) return NULL;
    const na_hooks_t *hooks = na_section_enter(&heap->track);
    void *block;
    na_record_t *record;
    size_t usable;
    if (NA_UNLIKELY(hooks == NULL) || !na_usual_next(heap, &b, &block, &record, &usable)) {
        na_section_leave(&heap->track);
        return NULL;
    }
    uint64_t from = timed ? na_clock_read() : 0;
    na_usual_take(&b, block);
    if (timed && na_entry_kind(entry) == NA_ENTRY_CALLOC) memset(block, 0, requested);
    uint64_t to = how != NOT_TIMED ? na_clock_read() : 0;
    na_record_take(record, usable - requested, heap->node, na_profile_epoch);
    hooks->on_alloc(&heap->track.profile, record, block, requested, usable, entry,
                    __builtin_frame_address(0));
    if (timed)
        na_timed_tell(&heap->track, hooks, (na_call_t)na_entry_kind(entry),
                      na_clock_between(from, to));
    na_section_leave(&heap->track);
    if (how == PART) na_timed_leave_out(&heap->track, to);
    return block;
}

void *na_every_alloc(size_t requested, na_entry_t entry, na_heap_t *heap, unsigned cls) {
    void *block = alloc(heap, cls, requested, entry, NOT_TIMED);
    return NA_LIKELY(block != NULL) ? block : na_alloc_thoroughly(cls, requested, entry);
}

void *na_every_alloc_timed(size_t requested, na_entry_t entry, na_heap_t *heap, unsigned cls) {
    if (heap->track.in_realloc && na_entry_kind(entry) == NA_ENTRY_REALLOC) {
        /* A part of a realloc, which is timed as a whole or not at all. */
        if (heap->track.timed_from == 0) {
            na_timed_draw(&heap->track);
            return na_every_alloc(requested, entry, heap, cls);
        }
        heap->track.every_left = 1;
        void *part = alloc(heap, cls, requested, entry, PART);
        return part != NULL ? part : na_alloc_thoroughly(cls, requested, entry);
    }
    heap->track.in_realloc = false; /* left by longjmp, or by a signal */
    heap->track.timed_from = 0;
    na_timed_draw(&heap->track);
    void *block = alloc(heap, cls, requested, entry, TIMED);
    if (NA_LIKELY(block != NULL)) {
        na_heap_poll(heap);
        return block;
    }
    na_timed_begin(&heap->track);
    block = na_alloc_thoroughly(cls, requested, entry);
    if (block != NULL && na_entry_kind(entry) == NA_ENTRY_CALLOC) memset(block, 0, requested);
    na_timed_finish(heap, (na_call_t)na_entry_kind(entry), true);
    return block;
}

/* Calls the hook if the block has a record of its life in this profile. */
NA_INLINE bool record_free(na_heap_t *heap, const na_usual_given_t *g, void *block,
                           na_release_t how) {
    const na_hooks_t *hooks = na_section_enter(&heap->track);
    bool known = false;
    if (NA_LIKELY(hooks != NULL) && NA_LIKELY(na_usual_span(heap, g->span))) {
        na_record_t *record = na_usual_record(g->span, g->index);
        known = record->epoch == na_profile_epoch;
        if (NA_LIKELY(known)) {
            hooks->on_free(&heap->track.profile, record, block, g->span->each, how, NULL);
            record->epoch = 0;
        }
    }
    na_section_leave(&heap->track);
    return known;
}

static NA_COLD void push_timed(na_heap_t *heap, const na_usual_bin_t *b, void *block,
                               na_release_t how) {
    uint64_t from = na_clock_read();
    na_usual_push(b, block);
    uint64_t to = na_clock_read();
    const na_hooks_t *hooks = na_section_enter(&heap->track);
    if (hooks != NULL)
        na_timed_tell(&heap->track, hooks, na_call_of_release(how), na_clock_between(from, to));
    na_section_leave(&heap->track);
}

/* False: this is no usual call, and nothing was changed for it. */
NA_INLINE bool release(na_heap_t *heap, void *block, na_release_t how, const bool timed) {
    na_usual_given_t g;
    if (!na_usual_given(heap, block, &g) || !na_usual_now(heap) ||
        NA_UNLIKELY(!record_free(heap, &g, block, how)))
        return false;
    na_usual_counted(&g.b);
    if (timed)
        push_timed(heap, &g.b, block, how);
    else
        na_usual_push(&g.b, block);
    return true;
}

/* What is unusual; `drawn`: to be timed. */
static NA_NOINLINE void free_thoroughly(na_heap_t *heap, void *block, na_release_t how,
                                        bool drawn) {
    const na_span_t *span = na_span_by_page(block);
    bool large = span != NULL && span->cls == 0;
    bool timed = drawn || (large && na_timed_wants(&heap->track));
    if (timed) na_timed_begin(&heap->track);
    na_free_thoroughly(block, NA_TAG_NONE, how, NULL);
    if (timed) na_timed_finish(heap, na_call_of_release(how), !large);
}

void na_every_free(void *block, na_release_t how, na_heap_t *heap) {
    if (NA_UNLIKELY(!release(heap, block, how, false))) free_thoroughly(heap, block, how, false);
}

void na_every_free_timed(void *block, na_release_t how, na_heap_t *heap) {
    heap->track.in_realloc =
        false; /* left by longjmp, or by a signal: realloc itself does not come here */
    heap->track.timed_from = 0;
    na_timed_draw(&heap->track);
    if (release(heap, block, how, true))
        na_heap_poll(heap);
    else
        free_thoroughly(heap, block, how, true);
}
