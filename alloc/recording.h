/* recording.h - keeping the registry, and telling the profiler.
 *
 * The slow paths call these. Records (pagemap/registry.h) exist for blocks whose page is tagged
 * slow: all that were handed out in mode sites and under strict checking, sampled ones in mode
 * sample. No-ops (a few predictable tests) otherwise.
 *
 * The record comes to a span when its first block is handed out under a profile, and its pages are
 * tagged slow before that block is known to the program: so the free of a block with a record is
 * always seen, by whatever thread, and there is no moment at which a profile has to walk the heap.
 * Frees of blocks without a record are seen as soon as a thread has no credit left to push without
 * asking (switch.h says when).
 *
 * Sections. What reads or changes records, and every call of a hook, runs between na_section_enter
 * and na_section_leave: the switch waits until no thread is there. They nest, for the sake of
 * signal handlers. */
#ifndef NUMALLOC_ALLOC_RECORDING_H
#define NUMALLOC_ALLOC_RECORDING_H

#include <stddef.h>

#include "alloc/heap.h"
#include "alloc/hooks.h"
#include "alloc/switch.h"
#include "pagemap/span.h"

/* Counts profiles begun and ended, from 1: a word or a span of another session means nothing. */
extern NA_NEAR _Atomic(uint32_t) na_session;

/* na_section_enter while the profile is held still, or in a session that is new to the heap. */
const na_hooks_t *na_section_enter_slow(na_heap_t *heap);

NA_INLINE void na_section_leave(na_heap_t *heap) {
    uint32_t depth = atomic_load_explicit(&heap->inside, memory_order_relaxed);
    atomic_store_explicit(&heap->inside, depth - 1, memory_order_release);
}

/* The hooks to call, or NULL; waits while the profile is held still (na_switch_pause). */
NA_INLINE const na_hooks_t *na_section_enter(na_heap_t *heap) {
    na_switch_announce(heap);
    const na_hooks_t *hooks = atomic_load_explicit(&na_hooks, memory_order_acquire);
    if (NA_UNLIKELY(hooks == &na_hooks_paused) ||
        NA_UNLIKELY(heap->profile_session !=
                    atomic_load_explicit(&na_session, memory_order_relaxed))) {
        na_section_leave(heap);
        return na_section_enter_slow(heap);
    }
    return hooks;
}

/* The record of the block that begins at `block`, NULL if its span keeps none. */
na_record_t *na_record_of(const na_span_t *span, const void *block);

/* `block` was taken and is about to be handed out; it gets a record if every event is wanted or its
 * span has records. */
void na_record_alloc(na_heap_t *heap, na_span_t *span, void *block, size_t requested, size_t usable,
                     na_entry_t entry);
/* `block` is about to be given back. False: it is not live, which was reported. */
bool na_record_free(na_heap_t *heap, na_span_t *span, void *block, size_t usable, na_release_t how,
                    const void *moved_to);
/* False: the span knows of every block, and this one was freed. */
bool na_record_is_live(const na_span_t *span, const void *block);
/* The profile under way knows of the block, and will be told of its free. The caller holds it. */
bool na_record_is_told(const na_span_t *span, const void *block);
/* The pages of the block that is all of `span` are about to move. */
void na_record_before_move(na_heap_t *heap, const na_span_t *span);
/* realloc kept the block, which now is at `block`. */
void na_record_resize(na_heap_t *heap, na_span_t *span, const void *old_block, void *block,
                      size_t old_usable, size_t requested, size_t usable);
/* The thread gives up its heap. */
void na_record_thread_exit(na_heap_t *heap);

void na_pools_after_fork_child(void); /* api_pool.c */

/* The program mapped memory itself, or gave it back. */
void na_record_map(na_map_call_t call, size_t bytes);

#endif
