/* traced_usual.h - the usual malloc and free while every event is recorded, in parts, to be
 * inlined.
 *
 * traced.c puts them together with calls of the profiler's hooks between them; a profiler may do so
 * with what its hooks do in the same function (na_hooks_t.traced_alloc), so that an event is one
 * straight way from the door. Each part says whether this is a usual call; until the last of the
 * questions has been answered with yes, nothing has been changed for it, and the thorough way is
 * open. */
#ifndef NUMALLOC_ALLOC_TRACED_USUAL_H
#define NUMALLOC_ALLOC_TRACED_USUAL_H

#include <stddef.h>

#include "alloc/central/mixed.h"
#include "alloc/thread/traced.h"
#include "alloc/track/recording.h"
#include "pagemap/pagemap.h"

/* No switch to be noticed, no move to another node. */
NA_INLINE bool na_traced_now(const na_tcache_t *tcache) {
    return NA_LIKELY(tcache->track.alarm ==
                     atomic_load_explicit(&na_alarm, memory_order_acquire)) &&
           (NA_LIKELY(!na_tcache_watched(tcache)) || !na_tcache_is_away(tcache));
}

/* Begins a section of the profile that the thread has noticed, which na_traced_leave ends; the
 * thread is in no other. Neither that it has become another nor that it is held still has to be
 * asked for besides (switch.h). Only where threads announce themselves by a plain store. */
NA_INLINE bool na_traced_enter(na_tcache_t *tcache) {
    if (NA_UNLIKELY(atomic_load_explicit(&tcache->track.inside, memory_order_relaxed) != 0))
        return false;
    atomic_store_explicit(&tcache->track.inside, 1, memory_order_relaxed);
    atomic_signal_fence(memory_order_seq_cst);
    /* Hooks first: between their end and the alarm that tells of it a thread may be granted credit
     * that its bins' counts do not know of. Who finds later hooks finds that alarm, too. */
    if (NA_LIKELY(atomic_load_explicit(&na_hooks, memory_order_acquire) != NULL) &&
        na_traced_now(tcache))
        return true;
    atomic_store_explicit(&tcache->track.inside, 0, memory_order_release);
    return false;
}

NA_INLINE void na_traced_leave(na_tcache_t *tcache) {
    atomic_store_explicit(&tcache->track.inside, 0, memory_order_release);
}

/* The span's blocks have records, and its pages are slow. */
NA_INLINE bool na_traced_span(const na_tcache_t *tcache, const na_span_t *span) {
    return NA_LIKELY(atomic_load_explicit(&span->recorded, memory_order_relaxed) ==
                     tcache->track.session) &&
           NA_LIKELY(!na_is_mixed(span));
}

NA_INLINE na_record_t *na_traced_record(const na_span_t *span, uint32_t index) {
    return atomic_load_explicit(&span->records, memory_order_acquire) + index;
}

/* The hot path has counted one of the bin's credits below zero. (Credits to push are left alone: a
 * thread that has not noticed the end of a profile yet may have been granted some.) */
NA_INLINE void na_traced_no_credit(na_bin_t *bin) {
    bin->pop = 0;
}

/* What the usual ways know of a class and of its bin: not to be computed again from the class. */
typedef struct na_traced_bin {
    na_bin_t *bin;
    na_bin_state_t *state;
} na_traced_bin_t;

NA_INLINE na_traced_bin_t na_traced_bin(na_tcache_t *tcache, unsigned cls) {
    na_traced_bin_t b = {&tcache->bins[cls], &tcache->states[cls]};
    __asm__("" : "+r"(b.state));
    return b;
}

/* The bin's next block, its record and its size. False: it has none, or one that has no record. */
NA_INLINE bool na_traced_next(const na_tcache_t *tcache, const na_traced_bin_t *b, void **block,
                              na_record_t **record, size_t *usable) {
    if (NA_UNLIKELY(b->state->count == 0)) return false;
    *block = b->bin->head;
    uintptr_t at = (uintptr_t)*block;
    const na_span_t *span = na_span_leaf_of(at)->span[na_page_in_span_leaf(at)];
    if (NA_UNLIKELY(!na_traced_span(tcache, span))) return false;
    *record = na_traced_record(span, (uint32_t)((at - span->start) * span->reciprocal >> 40));
    *usable = b->state->size;
    return true;
}

/* It is taken. */
NA_INLINE void na_traced_take(const na_traced_bin_t *b, void *block) {
    b->bin->head = *na_block_next(block);
    b->state->count--;
    b->state->pops++;
    b->state->used = true;
}

/* A block that is given back. */
typedef struct na_traced_given {
    const na_span_t *span;
    na_traced_bin_t b;
    uint32_t index;
} na_traced_given_t;

/* This thread cache's; a block begins there; the bin has room. (If the block has a record of this
 * profile, it is neither the sampler's nor what is left behind a span's last block. The bin of
 * large blocks never has room.) */
NA_INLINE bool na_traced_given(na_tcache_t *tcache, void *block, na_traced_given_t *g) {
    const na_span_t *span = na_span_by_page(block);
    if (NA_UNLIKELY(span == NULL)) return false;
    g->span = span;
    g->b = na_traced_bin(tcache, span->cls);
    size_t offset = (uintptr_t)block - span->start;
    g->index = (uint32_t)(offset * span->reciprocal >> 40);
    return NA_LIKELY(g->b.bin->tag >> 16 == span->owner) &&
           NA_LIKELY(offset == g->index * span->each) &&
           NA_LIKELY(g->b.state->count < g->b.state->hold);
}

/* It is in the bin again. */
NA_INLINE void na_traced_push(const na_traced_bin_t *b, void *block) {
    *na_block_next(block) = b->bin->head;
    b->bin->head = block;
}

NA_INLINE void na_traced_counted(const na_traced_bin_t *b) {
    b->state->count++;
    b->state->pushes++;
    b->state->used = true;
}

#endif
