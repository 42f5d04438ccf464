/* usual.c - the usual malloc and free in mode sites, each in one piece from the allocator's door to
 * the counters: the parts of alloc/thread/traced_usual.h, with those of the hooks (sites.c) in
 * their places. An event is thousands of times a millisecond the same few steps; what each of them
 * would have to ask of its own, to save, and to hand on, is more than what it does.
 *
 * What is not as always is left to na_traced_alloc and na_traced_free, and thereby to the hooks,
 * before anything was changed. */
#include "alloc/thread/traced_usual.h"
#include "profiler/record/access/access_priv.h"
#include "profiler/record/events/count.h"

/* na_rthread_enter, where nothing has to be made, waited for or counted as lost. */
NA_INLINE bool enter(na_rthread_t *t) {
    if (NA_UNLIKELY(t == NULL) || NA_UNLIKELY(na_rthread_inside) ||
        NA_UNLIKELY(atomic_load_explicit(na_rec_sentinel, memory_order_acquire) != NA_REC_OPEN))
        return false;
    na_rthread_inside = true;
    atomic_signal_fence(memory_order_seq_cst);
    return true;
}

void *na_traced_sites_alloc(size_t requested, na_entry_t entry, na_tcache_t *tcache, unsigned cls) {
    const na_traced_bin_t b = na_traced_bin(tcache, cls);
    void *block;
    na_record_t *record;
    size_t usable;
    na_traced_no_credit(b.bin);
    if (NA_UNLIKELY(!na_traced_enter(tcache)))
        return na_traced_alloc(requested, entry, tcache, cls);
    na_rthread_t *t = tcache->track.profile;
    if (!na_traced_next(tcache, &b, &block, &record, &usable) || NA_UNLIKELY(!enter(t))) {
        na_traced_leave(tcache);
        return na_traced_alloc(requested, entry, tcache, cls);
    }
    na_traced_take(&b, block);
    na_rthread_on_node(t, tcache->node);
    count_alloc(t, record, block, requested, usable, entry, __builtin_frame_address(0),
                NA_COUNT_USUAL);
    na_rthread_leave();
    na_traced_leave(tcache);
    return block;
}

/* Not of realloc, which frees in another way. */
void na_traced_sites_free(void *block, na_release_t how, na_tcache_t *tcache) {
    na_traced_given_t g;
    if (!na_traced_given(tcache, block, &g) || NA_UNLIKELY(!na_traced_enter(tcache))) {
        na_traced_free(block, how, tcache);
        return;
    }
    na_rthread_t *t = tcache->track.profile;
    na_record_t *record = NULL;
    if (!na_traced_span(tcache, g.span) ||
        NA_UNLIKELY((record = na_traced_record(g.span, g.index))->epoch != na_profile_epoch) ||
        NA_UNLIKELY(record->site == NA_NPROF_NO_STACK) || NA_UNLIKELY(!enter(t))) {
        na_traced_leave(tcache);
        na_traced_free(block, how, tcache);
        return;
    }
    count_free(t, record, block, g.span->each, how, NULL, NA_COUNT_USUAL);
    record->epoch = 0;
    na_rthread_leave();
    na_traced_leave(tcache);
    na_traced_counted(&g.b);
    na_traced_push(&g.b, block);
}

/* How long the block is does not have to be known: usual ones are small. */
void na_traced_noted_free(void *block, na_release_t how, na_tcache_t *tcache) {
    if (NA_UNLIKELY(na_deaths_is_watched((uintptr_t)block, NA_SMALL_MAX) || na_deaths_all()) &&
        NA_LIKELY(atomic_load_explicit(&na_access_on, memory_order_acquire)))
        na_traced_free(block, how, tcache);
    else
        na_traced_sites_free(block, how, tcache);
}
