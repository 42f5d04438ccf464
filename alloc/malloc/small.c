/* small.c - what the hot path leaves: malloc's slow path and free's. */
#include "alloc/malloc/small.h"

#include <errno.h>

#include "alloc/api/init.h"
#include "alloc/cache/bin.h"
#include "alloc/cache/deferred.h"
#include "alloc/cache/holes.h"
#include "alloc/cache/large_bins.h"
#include "alloc/cache/remote.h"
#include "alloc/central/central.h"
#include "alloc/malloc/emergency.h"
#include "alloc/malloc/foreign.h"
#include "alloc/malloc/hardened.h"
#include "alloc/malloc/heap_blocks.h"
#include "alloc/malloc/large.h"
#include "alloc/malloc/poll.h"
#include "alloc/malloc/traced.h"
#include "alloc/page/pageheap.h"
#include "alloc/page/pressure.h"
#include "alloc/thread/attach.h"
#include "alloc/track/guarded.h"
#include "alloc/track/misuse.h"
#include "alloc/track/recording.h"
#include "alloc/track/sampler.h"

/* --- malloc --- */

/* Takes a block that the sampler chose: guarded, or on a page of its own kind. NULL: it is to be as
 * any other. */
static void *take_sampled(na_tcache_t *tcache, unsigned cls, size_t requested, na_entry_t entry) {
    na_bin_state_t *state = &tcache->states[cls];
    void *block = na_guard_take(&tcache->track, requested, state->size, state->sample_step, entry);
    if (block != NULL || !na_samples_bytes()) {
        state->until_sample = na_sampler_draw(&tcache->track, state->size, &state->sample_step);
        return block;
    }
    if (!na_gate_enter(tcache)) return NULL;
    block = na_sampled_take(tcache->node, cls);
    na_gate_leave(tcache);
    state->until_sample = na_sampler_draw(&tcache->track, state->size, &state->sample_step);
    if (block == NULL) return NULL;
    state->pops++;
    na_record_alloc(&tcache->track, na_span_of(block), block, requested, na_classes[cls].size,
                    entry);
    return block;
}

/* While a control group is exhausted (pressure.h): the class whose bin has a block for one
 * that is wanted. Its own, the next larger ones, its own by new memory, any larger one; 0: none.
 * (Who wants it aligned looks whether it is.) */
static NA_COLD unsigned last_source(na_tcache_t *tcache, unsigned cls) {
    na_sizes_blurred = true;
    enum { NEAR = 2 }; /* up to a quarter more than was to be had */
    unsigned near = cls + NEAR < NA_CLASS_COUNT ? cls + NEAR : NA_CLASS_COUNT - 1;
    for (unsigned from = cls; from <= near; from++)
        if (na_bin_fill(tcache, from, false)) return from;
    if (na_bin_fill(tcache, cls, true)) return cls;
    for (unsigned from = near + 1; from < NA_CLASS_COUNT; from++)
        if (na_bin_fill(tcache, from, false)) return from;
    return 0;
}

/* The same while every event is seen: of a bin that has a block. */
static NA_NOINLINE void *take_seen(na_tcache_t *tcache, unsigned cls, size_t requested,
                                   na_entry_t entry) {
    void *block = na_harden != 0 ? na_bin_draw(tcache, cls) : na_bin_take(tcache, cls);
    while (block != NULL && na_is_mixed(na_span_of(block))) { /* has no record */
        *na_block_next(block) = NULL;
        if (!na_gate_enter(tcache)) {
            na_defer_free(block);
            return NULL;
        }
        na_list_home(tcache, cls, block, 1);
        na_gate_leave(tcache);
        if (!na_bin_fill(tcache, cls, true)) return NULL;
        block = na_bin_take(tcache, cls);
    }
    if (block != NULL)
        na_record_alloc(&tcache->track, na_span_of(block), block, requested, na_classes[cls].size,
                        entry);
    return block;
}

/* A block from the bin, which is counted, or for it; recorded, if every event is. */
NA_INLINE void *take_from_bin(na_tcache_t *tcache, unsigned cls, size_t requested,
                              na_entry_t entry) {
    na_bin_state_t *state = &tcache->states[cls];
    if (state->until_sample < (int64_t)na_classes[cls].size && na_sample_interval != 0) {
        void *sampled = take_sampled(tcache, cls, requested, entry);
        if (sampled != NULL)
            return sampled; /* else: no memory for a sample; a plain block may do */
    }
    if (state->count == 0) {
        if (NA_UNLIKELY(na_pressure_is_exhausted()))
            cls = last_source(tcache, cls);
        else if (!na_bin_fill(tcache, cls, true))
            cls = 0;
        if (cls == 0) return NULL;
    } else if (!na_every_event) {
        na_bin_top_up(tcache, cls);
    }
    return NA_LIKELY(!na_every_event) ? na_bin_take(tcache, cls)
                                      : take_seen(tcache, cls, requested, entry);
}

/* No memory, or a fork stands before it. */
static NA_COLD NA_NOINLINE void *take_otherwise(na_tcache_t *tcache, unsigned cls, size_t requested,
                                                na_entry_t entry) {
    void *block = NULL;
    if (tcache == NULL || tcache->refused) {
        if (tcache != NULL) tcache->refused = false;
        block = na_emergency_alloc(tcache, cls, requested, entry);
    } else if (na_hardened_release() && na_bin_fill(tcache, cls, true)) {
        block = take_seen(tcache, cls, requested, entry);
    }
    if (block == NULL) errno = ENOMEM;
    return block;
}

/* No call of this is recorded. (Each entry of the table of classes is 0 until it is right.) */
NA_RACES_WITH_EMPTY static NA_NOINLINE void *alloc_extended(size_t size, na_entry_t entry,
                                                            unsigned cls) {
    if (cls == 0) cls = na_class_of(size);
    void *block = na_bin_extend_pop(na_self, cls);
    return block != NULL ? block : na_alloc_slow(size, entry, cls);
}

void *na_alloc_missed(size_t size, na_entry_t entry, unsigned cls) {
    na_tcache_t *tcache = na_self;
    uint32_t left = tcache->track.until_timed;
    if (left == 0) {
        if (size - NA_EXTENDED_LEAST <= NA_SMALL_MAX - NA_EXTENDED_LEAST)
            return alloc_extended(size, entry, cls);
        return na_alloc_slow(size, entry, cls);
    }
    if (NA_UNLIKELY(size > NA_SMALL_MAX)) return na_alloc_slow(size, entry, cls);
    if (cls == 0) cls = na_class_of(size);
    if (NA_UNLIKELY(left == 1)) return na_traced_alloc_timed(size, entry, tcache, cls);
    tcache->track.until_timed = left - 1;
    return atomic_load_explicit(&na_traced_alloc_by, memory_order_relaxed)(size, entry, tcache,
                                                                           cls);
}

void *na_alloc_slow(size_t size, na_entry_t entry, unsigned cls) {
    if (cls == 0) {
        if (size > NA_SMALL_MAX) return na_large_alloc(size, NA_PAGE_SIZE, entry, NULL);
        if (NA_UNLIKELY(na_self == &na_tcache_empty)) na_init(); /* fills the table of classes */
        cls = na_class_of(size);
    }
    if (NA_UNLIKELY(na_harden > 1)) {
        void *nothing = size == 0 ? na_hardened_nothing(entry) : NULL;
        if (nothing != NULL) return nothing;
        cls = na_hardened_class(size, cls, entry);
        if (cls == 0) return na_large_alloc(size, NA_PAGE_SIZE, entry, NULL);
    }
    void *block = na_bin_quick_pop(na_self, cls);
    if (NA_LIKELY(block != NULL)) return block;

    na_tcache_t *tcache = na_tcache_enter(); /* the thread's first call; a switch; another node */
    if (NA_LIKELY(tcache != NULL)) {
        na_poll_renewal(tcache); /* the clock, and what is due */
        na_bin_renew(tcache, cls);
        if (NA_UNLIKELY(na_tcache_watched(tcache)) && na_bin_is_dry(tcache, cls)) {
            tcache = na_tcache_check_policy(tcache);
            na_bin_open(tcache, cls);
        }
        block = take_from_bin(tcache, cls, size, entry);
        na_bin_grant(tcache, cls);
    }
    if (NA_UNLIKELY(block == NULL)) block = take_otherwise(tcache, cls, size, entry);
    na_hardened_born(block, size, entry);
    if (NA_LIKELY(tcache != NULL)) na_tcache_leave(tcache);
    return block;
}

/* --- free --- */

static NA_NOINLINE void give_remote(na_tcache_t *tcache, uint32_t tag, void *block) {
    if (na_remote_free(tcache, tag, block)) na_poll_pass(tcache);
}

/* A block whose page has this tag, or would have it, were it not for a profile. */
NA_INLINE void give(na_tcache_t *tcache, uint32_t tag, void *block) {
    unsigned cls = (tag & 0xffff) / NA_BIN_SIZE;
    if (NA_UNLIKELY(!na_is_block_start(na_span_by_page(block), block))) {
        na_misuse("free of", block);
        return;
    }
    if (tcache->bins[cls].tag == tag) {
        na_poll_renewal(tcache);
        na_bin_put(tcache, cls, block);
    } else {
        give_remote(tcache, tag, block);
    }
}

/* A small block that has no record, or one that has ended. */
static NA_NOINLINE void finish_free(na_tcache_t *tcache, na_span_t *span, void *block,
                                    unsigned cls) {
    if (NA_UNLIKELY(atomic_load_explicit(&span->emergency, memory_order_relaxed) != 0)) {
        na_emergency_give(span, block);
        return;
    }
    if (span->sampled) {
        tcache->states[cls].pushes++;
        if (NA_UNLIKELY(span->home != tcache->node)) na_tcache_crossed(tcache, span->home, cls, 1);
        if (NA_UNLIKELY(!na_gate_enter(tcache))) {
            na_defer_free(block);
            return;
        }
        na_sampled_give(span, block);
        na_gate_leave(tcache);
        return;
    }
    if (na_span_is_heaps(span)) {
        na_heap_put(tcache, span, block);
        return;
    }
    uint32_t tag = na_is_mixed(span) ? na_holes_tag(block, NA_TAG_MIXED(span->mix_owner))
                                     : na_tag(cls, span->owner);
    give(tcache, tag, block);
}

/* A block on a slow-tagged page, or any while every event is wanted. */
static void free_seen(na_tcache_t *tcache, na_span_t *span, void *block, na_release_t how,
                      const void *moved_to) {
    if (!na_is_block_start(span, block)) {
        na_misuse("free of", block);
        return;
    }
    unsigned cls = na_class_in(span, block);
    if (na_record_free(&tcache->track, span, block, na_classes[cls].size, how, moved_to))
        finish_free(tcache, span, block, cls);
}

void na_free_late(na_tcache_t *tcache, void *block) {
    na_span_t *span = na_span_of(block);
    if (NA_UNLIKELY(span == NULL)) return; /* its heap is gone */
    if (span->cls == 0)
        na_large_free_late(tcache, span);
    else
        finish_free(tcache, span, block, na_class_in(span, block));
}

/* On a machine with several nodes. */
static NA_NOINLINE void free_watched(void *block, uint32_t tag, na_release_t how,
                                     na_tcache_t *tcache) {
    if (na_tcache_is_away(tcache) || !na_remote_collect(tcache, tag, block))
        na_free_slow(block, tag, how, NULL);
}

/* The bins of large blocks are barred, or have no room. */
NA_RACES_WITH_EMPTY static bool give_large(na_tcache_t *tcache, void *block) {
    if (!na_is_address((uintptr_t)block) || !na_large_bins_were_barred(tcache)) return false;
    na_poll_counted(tcache);
    return na_large_bins_give_slow(tcache, block);
}

/* No large block that the thread keeps, or not before the slow path has looked. */
NA_RACES_WITH_EMPTY static NA_NOINLINE void free_untagged(void *block, na_tcache_t *tcache,
                                                          na_release_t how) {
    uint32_t left = tcache->track.until_timed;
    if (NA_LIKELY(left == 0)) {
        if (!give_large(tcache, block)) na_free_slow(block, NA_TAG_NONE, how, NULL);
        return;
    }
    if (NA_UNLIKELY(block == NULL)) {
        na_free_slow(block, NA_TAG_NONE, how, NULL);
        return;
    }
    __atomic_store_n(&tcache->bins[0].push, 0, __ATOMIC_RELAXED); /* tag.h */
    if (NA_UNLIKELY(left == 1)) {
        na_traced_free_timed(block, how, tcache);
        return;
    }
    tcache->track.until_timed = left - 1;
    atomic_load_explicit(&na_traced_free_by, memory_order_relaxed)(block, how, tcache);
}

/* Most likely without credit. */
static NA_NOINLINE void free_extended(void *block, uint32_t tag, na_release_t how) {
    na_tcache_t *tcache = na_self;
    unsigned cls = (tag & 0xffff) / NA_BIN_SIZE;
    const na_bin_t *bin = &tcache->bins[cls];
    if (bin->tag != tag || NA_UNLIKELY(bin->head == block) ||
        !na_bin_extend_push(tcache, cls, block))
        na_free_slow(block, tag, how, NULL);
}

NA_COLD void na_free_wild(void *block, na_release_t how) {
    free_untagged(block, na_self, how);
}

/* Not inlined: it would take the registers that a large block needs. */
NA_RACES_WITH_EMPTY static NA_NOINLINE void small_missed(void *block, uint32_t tag,
                                                         na_release_t how, na_bin_t *bin) {
    na_tcache_t *tcache = (na_tcache_t *)(void *)((char *)bin - (tag & 0xffff));
    if ((tag & 0xffff) != 0 && bin->tag != tag &&
        NA_LIKELY(!atomic_load_explicit(&na_every_event, memory_order_relaxed)) &&
        NA_LIKELY(!na_section_alarmed(&tcache->track))) {
        if (NA_UNLIKELY(na_tcache_watched(tcache)))
            free_watched(block, tag, how, tcache);
        else if (NA_UNLIKELY(!na_remote_collect(tcache, tag, block)))
            na_free_slow(block, tag, how, NULL);
    } else if ((tag & 0xffff) >= NA_CLASS_EXTENDED * NA_BIN_SIZE) {
        free_extended(block, tag, how);
    } else if (NA_UNLIKELY(tag >= NA_TAG_HEAP_LEAST)) {
        na_heap_free(tcache, block, how);
    } else {
        na_free_slow(block, tag, how, NULL);
    }
}

NA_RACES_WITH_EMPTY void na_free_missed(void *block, uint32_t tag, na_release_t how,
                                        na_bin_t *bin) {
    if (tag != NA_TAG_NONE) {
        small_missed(block, tag, how, bin);
        return;
    }
    na_tcache_t *tcache = (na_tcache_t *)(void *)bin;
    if (NA_UNLIKELY(!na_large_bins_give(tcache, block))) free_untagged(block, tcache, how);
}

static NA_COLD void free_guarded(void *block, na_release_t how, const void *moved_to) {
    na_tcache_t *tcache = na_tcache_enter();
    na_guard_free(tcache != NULL ? &tcache->track : NULL, block, how, moved_to);
    if (tcache != NULL) na_tcache_leave(tcache);
}

void na_free_slow(void *block, uint32_t tag, na_release_t how, const void *moved_to) {
    if ((tag & 0xffff) == 0) {
        __atomic_store_n(&na_self->bins[0].push, 0, __ATOMIC_RELAXED); /* tag.h */
        if (block == NULL) return;
        if (NA_UNLIKELY(na_harden != 0)) { /* no page has another tag */
            na_hardened_free(block, how, moved_to);
            return;
        }
        if (tag != NA_TAG_NONE) { /* in a mixed span */
            /* The tag was read as it was, and another thread may have just opened the span. */
            atomic_thread_fence(memory_order_acquire); /* na_pagemap_retag */
            tag = na_holes_tag(block, tag);
            if (NA_UNLIKELY(tag == NA_TAG_NONE)) {
                na_misuse("free of", block);
                return;
            }
            if (NA_LIKELY(na_push(na_bin_for_tag(tag), block, tag))) return;
        }
    }
    unsigned cls = (tag & 0xffff) / NA_BIN_SIZE;
    if (tag != NA_TAG_NONE && na_self->bins[cls].tag == tag) {
        if (NA_UNLIKELY(na_self->bins[cls].head == block)) { /* it was freed last */
            na_misuse(how == NA_RELEASE_REALLOC ? "realloc of freed" : "double free of", block);
            return;
        }
        if (na_bin_quick_push(na_self, cls, block)) return;
    }

    na_span_t *span = tag == NA_TAG_NONE || na_every_event ? na_span_of(block) : NULL;
    if (span == NULL && tag == NA_TAG_NONE) {
        if (NA_UNLIKELY(na_guard_holds(block)))
            free_guarded(block, how, moved_to);
        else
            na_free_foreign(block);
        return;
    }
    na_tcache_t *tcache = na_tcache_enter(); /* as for malloc */
    if (NA_UNLIKELY(tcache == NULL)) {       /* no memory for one, or a fork has the list of them */
        na_emergency_free(span != NULL ? span : na_span_of(block), block);
        return;
    }
    if (span == NULL)
        give(tcache, tag, block);
    else if (span->cls == 0)
        na_large_free(tcache, span, block, how, moved_to);
    else
        free_seen(tcache, span, block, how, moved_to);
    na_tcache_leave(tcache);
}
