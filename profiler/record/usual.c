/* usual.c - the usual malloc and free in mode sites, each in one piece from the allocator's door to
 * the counters: the parts of alloc/thread/usual.h, with those of the hooks (sites.c) in their
 * places. An event is thousands of times a millisecond the same few steps; what each of them would
 * have to ask of its own, to save, and to hand on, is more than what it does.
 *
 * What is not as always is left to na_every_alloc and na_every_free, and thereby to the hooks,
 * before anything was changed. */
#include "alloc/thread/usual.h"
#include "profiler/record/access_priv.h"
#include "profiler/record/count.h"

/* na_rthread_enter, where nothing has to be made, waited for or counted as lost. */
NA_INLINE bool enter(na_rthread_t *t) {
    if (NA_UNLIKELY(t == NULL) || NA_UNLIKELY(na_rthread_inside) ||
        NA_UNLIKELY(atomic_load_explicit(na_rec_sentinel, memory_order_acquire) != NA_REC_OPEN))
        return false;
    na_rthread_inside = true;
    atomic_signal_fence(memory_order_seq_cst);
    return true;
}

void *na_usual_sites_alloc(size_t requested, na_entry_t entry, na_heap_t *heap, unsigned cls) {
    const na_usual_bin_t b = na_usual_bin(heap, cls);
    void *block;
    na_record_t *record;
    size_t usable;
    na_usual_no_credit(b.bin);
    if (NA_UNLIKELY(!na_usual_enter(heap))) return na_every_alloc(requested, entry, heap, cls);
    na_rthread_t *t = heap->track.profile;
    if (!na_usual_next(heap, &b, &block, &record, &usable) || NA_UNLIKELY(!enter(t))) {
        na_usual_leave(heap);
        return na_every_alloc(requested, entry, heap, cls);
    }
    na_usual_take(&b, block);
    na_rthread_on_node(t, heap->node);
    count_alloc(t, record, block, requested, usable, entry, __builtin_frame_address(0),
                NA_COUNT_USUAL);
    na_rthread_leave();
    na_usual_leave(heap);
    return block;
}

/* Not of realloc, which frees in another way. */
void na_usual_sites_free(void *block, na_release_t how, na_heap_t *heap) {
    na_usual_given_t g;
    if (!na_usual_given(heap, block, &g) || NA_UNLIKELY(!na_usual_enter(heap))) {
        na_every_free(block, how, heap);
        return;
    }
    na_rthread_t *t = heap->track.profile;
    na_record_t *record = NULL;
    if (!na_usual_span(heap, g.span) ||
        NA_UNLIKELY((record = na_usual_record(g.span, g.index))->epoch != na_profile_epoch) ||
        NA_UNLIKELY(record->site == NA_NPROF_NO_STACK) || NA_UNLIKELY(!enter(t))) {
        na_usual_leave(heap);
        na_every_free(block, how, heap);
        return;
    }
    count_free(t, record, block, g.span->each, how, NULL, NA_COUNT_USUAL);
    record->epoch = 0;
    na_rthread_leave();
    na_usual_leave(heap);
    na_usual_counted(&g.b);
    na_usual_push(&g.b, block);
}

/* How long the block is does not have to be known: usual ones are small. */
void na_usual_noted_free(void *block, na_release_t how, na_heap_t *heap) {
    if (NA_UNLIKELY(na_deaths_is_watched((uintptr_t)block, NA_SMALL_MAX) || na_deaths_all()) &&
        NA_LIKELY(atomic_load_explicit(&na_access_on, memory_order_acquire)))
        na_every_free(block, how, heap);
    else
        na_usual_sites_free(block, how, heap);
}
