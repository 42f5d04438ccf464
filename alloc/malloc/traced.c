/* traced.c - recorded malloc and free by the hooks of the table, and those that are timed. */
#include "alloc/malloc/traced.h"

#include <string.h>

#include "alloc/malloc/poll.h"
#include "alloc/malloc/small.h"
#include "alloc/track/guarded.h"
#include "alloc/track/sampler.h"

_Atomic(na_traced_alloc_t *) na_traced_alloc_by = na_traced_alloc;
_Atomic(na_traced_free_t *) na_traced_free_by = na_traced_free;

/* What is called for a block that is not drawn. */
static _Atomic(na_traced_alloc_t *) undrawn_by = na_traced_alloc;

/* NULL: the block is one of the bin's after all. */
static NA_COLD NA_NOINLINE void *take_drawn(size_t requested, na_entry_t entry, na_tcache_t *tcache,
                                            unsigned cls) {
    na_bin_state_t *state = &tcache->states[cls];
    if (state->cap == 0 || na_section_alarmed(&tcache->track)) return NULL;
    tcache->bins[cls].pop = 0; /* as in na_traced_take */
    void *block = na_guard_take(&tcache->track, requested, state->size, state->sample_step, entry);
    state->until_sample = na_sampler_draw(&tcache->track, state->size, &state->sample_step);
    return block;
}

/* (What the slow path takes from the bin it counts itself.) */
static void *alloc_or_draw(size_t requested, na_entry_t entry, na_tcache_t *tcache, unsigned cls) {
    na_bin_state_t *state = &tcache->states[cls];
    if (NA_UNLIKELY(state->until_sample < (int64_t)state->size)) {
        void *block = take_drawn(requested, entry, tcache, cls);
        if (block != NULL) return block;
    } else if (state->count != 0) {
        state->until_sample -= state->size;
    }
    return atomic_load_explicit(&undrawn_by, memory_order_relaxed)(requested, entry, tcache, cls);
}

void na_traced_choose(const na_hooks_t *hooks) {
    if (na_harden != 0) return; /* hardened.h has its own */
    bool theirs = hooks->traced_alloc != NULL && na_section_by_membarrier;
    na_traced_alloc_t *alloc = theirs ? hooks->traced_alloc : na_traced_alloc;
    atomic_store(&undrawn_by, alloc);
    atomic_store(&na_traced_alloc_by, na_guard_wants(0) ? alloc_or_draw : alloc);
    atomic_store(&na_traced_free_by, theirs ? hooks->traced_free : na_traced_free);
}

void na_traced_guard(void) {
    const na_hooks_t *hooks = atomic_load(&na_hooks);
    if (hooks != NULL) na_traced_choose(hooks);
}

void *na_traced_alloc(size_t requested, na_entry_t entry, na_tcache_t *tcache, unsigned cls) {
    void *block = na_traced_take(requested, entry, tcache, cls, NULL, NA_TRACED);
    return NA_LIKELY(block != NULL) ? block : na_alloc_slow(requested, entry, cls);
}

void *na_traced_alloc_timed(size_t requested, na_entry_t entry, na_tcache_t *tcache, unsigned cls) {
    na_track_t *track = &tcache->track;
    if (track->in_realloc && na_entry_kind(entry) == NA_ENTRY_REALLOC) {
        /* A part of a realloc, which is timed as a whole or not at all. */
        if (track->timed_from == 0) {
            na_timed_draw(track);
            return na_traced_alloc(requested, entry, tcache, cls);
        }
        track->until_timed = 1;
        void *part = na_traced_take(requested, entry, tcache, cls, NULL, NA_TRACED_PART);
        return part != NULL ? part : na_alloc_slow(requested, entry, cls);
    }
    track->in_realloc = false; /* left by longjmp, or by a signal */
    track->timed_from = 0;
    na_timed_draw(track);
    void *block = na_traced_take(requested, entry, tcache, cls, NULL, NA_TRACED_TIMED);
    if (NA_LIKELY(block != NULL)) {
        na_poll(tcache);
        return block;
    }
    na_timed_begin(track);
    block = na_alloc_slow(requested, entry, cls);
    if (block != NULL && na_entry_kind(entry) == NA_ENTRY_CALLOC) memset(block, 0, requested);
    na_timed_finish(tcache, (na_call_t)na_entry_kind(entry), true);
    return block;
}

NA_NOINLINE void na_traced_free_rest(void *block, na_release_t how, na_tcache_t *tcache,
                                     bool drawn) {
    const na_span_t *span = na_span_of(block);
    bool large = span != NULL && span->cls == 0;
    bool timed = drawn || (large && na_timed_wants(&tcache->track));
    if (timed) na_timed_begin(&tcache->track);
    na_free_slow(block, NA_TAG_NONE, how, NULL);
    if (timed) na_timed_finish(tcache, na_call_of_release(how), !large);
}

void na_traced_free(void *block, na_release_t how, na_tcache_t *tcache) {
    if (NA_UNLIKELY(!na_traced_give(block, how, tcache, NULL, NA_TRACED)))
        na_traced_free_rest(block, how, tcache, false);
}

void na_traced_free_timed(void *block, na_release_t how, na_tcache_t *tcache) {
    na_track_t *track = &tcache->track;
    track->in_realloc = false; /* left by longjmp, or by a signal: realloc does not come here */
    track->timed_from = 0;
    na_timed_draw(track);
    if (na_traced_give(block, how, tcache, NULL, NA_TRACED_TIMED))
        na_poll(tcache);
    else
        na_traced_free_rest(block, how, tcache, true);
}
