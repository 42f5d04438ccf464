/* entry.c - malloc, free and the rest of C's allocation functions, and what their hot path leaves.
 *
 *   the hot path misses  ->  misses of the thread's own, or credit extended  ->  slow path
 */
#include "alloc/core/malloc/small.h"

#include <errno.h>
#include <stdatomic.h>
#include <string.h>

#include "alloc/core/cache/bin.h"
#include "alloc/core/cache/large_bins.h"
#include "alloc/core/cache/thread_cache.h"
#include "alloc/core/central/central.h"
#include "alloc/core/machine/pressure.h"
#include "alloc/core/malloc/api.h"
#include "alloc/core/malloc/emergency.h"
#include "alloc/core/malloc/foreign.h"
#include "alloc/core/malloc/large.h"
#include "alloc/core/page/pageheap.h"
#include "alloc/core/path/seam.h"
#include "alloc/core/sys/os.h"
#include "alloc/core/thread/attach.h"
#include "alloc/core/thread/scavenge.h"
#include "alloc/core/track/misuse.h"
#include "alloc/core/track/track.h"
#include "numalloc/numalloc.h"

/* --- malloc's slow path --- */

/* Takes a block that the sampler chose: the path's, or on a page of its own kind. NULL: it is to be
 * as any other. */
static void *take_sampled(na_tcache_t *tcache, unsigned cls, size_t requested, na_entry_t entry) {
    na_bin_state_t *state = &tcache->states[cls];
    void *block = NULL;
    if (na_path.drawn != NULL)
        block = na_path.drawn(&tcache->track, requested, state->size, state->sample_step, entry);
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
    na_path_taken(&tcache->track, na_span_of(block), block, requested, na_classes[cls].size, entry);
    return block;
}

/* While a limit is exhausted (pressure.h): the class whose bin has a block for one
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
    void *block = na_path.draw != NULL ? na_path.draw(tcache, cls) : na_bin_take(tcache, cls);
    if (block != NULL)
        na_path_taken(&tcache->track, na_span_of(block), block, requested, na_classes[cls].size,
                      entry);
    return block;
}

/* A block from the bin, which is counted, or for it; recorded, if every event is. *zeroed, if not
 * NULL, becomes true where it reads as zero. */
NA_INLINE void *take_from_bin(na_tcache_t *tcache, unsigned cls, size_t requested, na_entry_t entry,
                              bool *zeroed) {
    na_bin_state_t *state = &tcache->states[cls];
    if (state->until_sample < (int64_t)na_classes[cls].size && na_sample_interval != 0) {
        void *sampled = take_sampled(tcache, cls, requested, entry);
        if (sampled != NULL)
            return sampled; /* else: no memory for a sample; a plain block may do */
    }
    if (state->count != 0) {
        if (!na_every_event) na_bin_top_up(tcache, cls);
    } else if (NA_UNLIKELY(na_pressure_is_exhausted()) || !na_bin_fill(tcache, cls, true)) {
        cls = na_pressure_is_exhausted() ? last_source(tcache, cls) : 0; /* it may be only now */
        if (cls == 0) return NULL;
    }
    if (zeroed != NULL) *zeroed = tcache->states[cls].untouched == NA_UNTOUCHED_ZERO;
    return NA_LIKELY(!na_every_event) ? na_bin_take(tcache, cls)
                                      : take_seen(tcache, cls, requested, entry);
}

/* No memory, or a fork stands before it. */
static NA_COLD NA_NOINLINE void *take_otherwise(na_tcache_t *tcache, unsigned cls, size_t requested,
                                                na_entry_t entry) {
    void *block = NULL;
    if (tcache == NULL || tcache->life.refused) {
        if (tcache != NULL) tcache->life.refused = false;
        block = na_emergency_alloc(tcache, cls, requested, entry);
    } else if (na_path_spare() && na_bin_fill(tcache, cls, true)) {
        block = take_seen(tcache, cls, requested, entry);
    }
    if (block == NULL) errno = ENOMEM;
    return block;
}

/* --- extending credit ---
 *
 * A bin has credit for as many pops as it has blocks. Where its thread pops and pushes in turn,
 * what it pushed may be popped as well, and the other way round: what was granted grows by that,
 * and nothing else is looked at. A bin that was granted `granted.most`, that is dry or full, or
 * that holds what can be no block, is to be renewed: then nothing has changed. */

/* The pop credit is spent: a block, or NULL. */
NA_INLINE void *extend_pop(na_tcache_t *tcache, unsigned cls) {
    na_bin_t *bin = &tcache->bins[cls];
    na_bin_state_t *state = &tcache->states[cls];
    if (state->granted.pop >= state->granted.most || na_section_alarmed(&tcache->track))
        return NULL;
    int32_t popped = state->granted.pop + 1, more = state->granted.most - popped;
    int32_t blocks = (int32_t)state->count + state->granted.push - bin->push - popped;
    void *block = bin->head;
    if (blocks < 0 || (uintptr_t)block % NA_CLASS_STEP != 0) return NULL;
    if (more > blocks) more = blocks;
    bin->pop = (int16_t)more;
    state->granted.pop = (int16_t)(popped + more);
    bin->head = *na_block_next(block);
    return block;
}

/* The push credit is spent. */
NA_INLINE bool extend_push(na_tcache_t *tcache, unsigned cls, void *block) {
    na_bin_t *bin = &tcache->bins[cls];
    na_bin_state_t *state = &tcache->states[cls];
    if (state->granted.push >= state->granted.most || na_section_alarmed(&tcache->track))
        return false;
    int32_t pushed = state->granted.push + 1, more = state->granted.most - pushed;
    int32_t blocks = (int32_t)state->count + pushed - (state->granted.pop - bin->pop);
    if (blocks > state->hold) return false;
    int32_t room = state->hold - blocks, least = na_bin_least_push(state);
    if (room < least) room = least;
    if (more > room) more = room;
    bin->push = (int16_t)more;
    state->granted.push = (int16_t)(pushed + more);
    *na_block_next(block) = bin->head;
    bin->head = block;
    return true;
}

/* The class that the hot path looked into; 0: it is not known yet. */
NA_RACES_WITH_EMPTY static unsigned class_missed(size_t size) {
    return (unsigned)(na_bin_offset(size) / NA_BIN_SIZE);
}

/* No call of this is recorded. */
NA_RACES_WITH_EMPTY static NA_NOINLINE void *alloc_extended(size_t size, na_entry_t entry,
                                                            unsigned cls) {
    if (cls == 0) cls = class_missed(size);
    void *block = extend_pop(na_self, cls);
    return block != NULL ? block : na_alloc_slow(size, entry, cls, NULL);
}

void *na_alloc_missed(size_t size, na_entry_t entry, unsigned cls) {
    na_tcache_t *tcache = na_self;
    const na_misses_t *misses = tcache->misses;
    if (NA_UNLIKELY(size > NA_SMALL_MAX)) return na_alloc_slow(size, entry, cls, NULL);
    if (misses == NULL) return alloc_extended(size, entry, cls);
    if (cls == 0) cls = class_missed(size);
    return misses->alloc(size, entry, tcache, cls);
}

void *na_calloc_missed(size_t size, bool *zeroed) {
    na_tcache_t *tcache = na_self;
    if (tcache->misses != NULL) return na_alloc_missed(size, NA_ENTRY_CALLOC, 0);
    unsigned cls = class_missed(size);
    void *block = extend_pop(tcache, cls);
    return block != NULL ? block : na_alloc_slow(size, NA_ENTRY_CALLOC, cls, zeroed);
}

void *na_alloc_slow(size_t size, na_entry_t entry, unsigned cls, bool *zeroed) {
    if (cls == 0) {
        if (size > NA_SMALL_MAX) return na_large_alloc(size, NA_PAGE_SIZE, entry, zeroed);
        if (NA_UNLIKELY(na_self == &na_tcache_empty)) na_init(); /* fills the table of classes */
        cls = na_class_of(size);
    }
    if (NA_UNLIKELY(na_path.wanted != NULL)) {
        void *other = na_path.wanted(size, entry, &cls);
        if (other != NULL) return other;
        if (cls == 0) return na_large_alloc(size, NA_PAGE_SIZE, entry, zeroed);
    }
    void *block = NULL;
    na_tcache_t *tcache = na_slow_enter(); /* the thread's first call; a switch; another node */
    if (NA_LIKELY(tcache != NULL)) {
        na_poll_pass(tcache); /* the clock, and what is due */
        na_bin_renew(tcache, cls);
        if (NA_UNLIKELY(na_tcache_watched(tcache)) && !na_bin_fill_used(tcache, cls)) {
            tcache = na_tcache_check_policy(tcache);
            na_bin_open(tcache, cls);
        }
        block = take_from_bin(tcache, cls, size, entry, zeroed);
        na_bin_grant(tcache, cls);
    }
    if (NA_UNLIKELY(block == NULL)) block = take_otherwise(tcache, cls, size, entry);
    na_path_born(block, size, entry);
    if (NA_LIKELY(tcache != NULL)) na_slow_leave(tcache);
    return block;
}

/* --- free --- */

static NA_NOINLINE void give_remote(na_tcache_t *tcache, uint32_t tag, void *block) {
    if (na_remote_free(tcache, tag, block)) na_poll_pass(tcache);
}

/* A block whose page has this tag, or would have it, were it not for a profile. */
NA_INLINE void give(na_tcache_t *tcache, uint32_t tag, void *block) {
    unsigned cls = na_tag_class(tag);
    if (NA_UNLIKELY(!na_is_block_start(na_span_by_page(block), block))) {
        na_misuse("free of", block);
        return;
    }
    if (tcache->bins[cls].tag == tag) {
        na_poll_pass(tcache);
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
    if (na_span_is_others(span)) {
        na_owners->put(tcache, span, block);
        return;
    }
    give(tcache, na_tag(cls, span->owner), block);
}

/* A block on a slow-tagged page, or any while every event is wanted. */
static void free_seen(na_tcache_t *tcache, na_span_t *span, void *block, na_release_t how,
                      const void *moved_to) {
    if (!na_is_block_start(span, block)) {
        na_misuse("free of", block);
        return;
    }
    unsigned cls = span->cls;
    if (na_path_given(&tcache->track, span, block, na_classes[cls].size, how, moved_to))
        finish_free(tcache, span, block, cls);
}

void na_free_late(na_tcache_t *tcache, void *block) {
    na_span_t *span = na_span_of(block);
    if (NA_UNLIKELY(span == NULL)) return; /* its heap is gone */
    if (span->cls == 0)
        na_large_free_late(tcache, span);
    else
        finish_free(tcache, span, block, span->cls);
}

/* On a machine with several nodes. */
static NA_NOINLINE void free_watched(void *block, uint32_t tag, na_release_t how,
                                     na_tcache_t *tcache) {
    unsigned home = na_node_by_tag(tag);
    if (na_tcache_is_away(tcache) ||
        !(home == tcache->node ? na_remote_collect(tcache, tag, block)
                               : na_outbox_collect(tcache, home, tag, block)))
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
    const na_misses_t *misses = tcache->misses;
    if (NA_UNLIKELY(misses != NULL) && NA_LIKELY(block != NULL))
        misses->free(block, how, tcache);
    else if (misses != NULL || !give_large(tcache, block))
        na_free_slow(block, NA_TAG_NONE, how, NULL);
}

/* Most likely without credit. */
static NA_NOINLINE void free_extended(void *block, uint32_t tag, na_release_t how) {
    na_tcache_t *tcache = na_self;
    unsigned cls = na_tag_class(tag);
    const na_bin_t *bin = &tcache->bins[cls];
    if (bin->tag != tag || NA_UNLIKELY(bin->head == block) || !extend_push(tcache, cls, block))
        na_free_slow(block, tag, how, NULL);
}

NA_COLD void na_free_wild(void *block, na_release_t how) {
    free_untagged(block, na_self, how);
}

/* Not inlined: it would take the registers that a large block needs. */
NA_RACES_WITH_EMPTY static NA_NOINLINE void small_missed(void *block, uint32_t tag,
                                                         na_release_t how, na_bin_t *bin) {
    na_tcache_t *tcache = (na_tcache_t *)(void *)((char *)bin - na_tag_bin(tag));
    if (na_tag_bin(tag) != 0 && bin->tag != tag &&
        NA_LIKELY(!atomic_load_explicit(&na_every_event, memory_order_relaxed)) &&
        NA_LIKELY(!na_section_alarmed(&tcache->track))) {
        if (NA_UNLIKELY(na_tcache_watched(tcache)))
            free_watched(block, tag, how, tcache);
        else if (NA_UNLIKELY(!na_remote_collect(tcache, tag, block)))
            na_free_slow(block, tag, how, NULL);
    } else if (na_tag_bin(tag) != 0) {
        free_extended(block, tag, how);
    } else if (NA_UNLIKELY(tag >= NA_TAG_OTHERS_LEAST)) {
        na_owners->free(block, how, tcache);
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

void na_free_slow(void *block, uint32_t tag, na_release_t how, const void *moved_to) {
    if (na_tag_bin(tag) == 0) {
        __atomic_store_n(&na_self->bins[0].push, 0, __ATOMIC_RELAXED); /* block.h */
        if (block == NULL) return;
        if (NA_UNLIKELY(na_path.back != NULL) && na_path.back(block, how, moved_to)) return;
    }
    unsigned cls = na_tag_class(tag);
    if (tag != NA_TAG_NONE && na_self->bins[cls].tag == tag) {
        if (NA_UNLIKELY(na_self->bins[cls].head == block)) { /* it was freed last */
            na_misuse(how == NA_RELEASE_REALLOC ? "realloc of freed" : "double free of", block);
            return;
        }
    }

    na_span_t *span = tag == NA_TAG_NONE || na_every_event ? na_span_of(block) : NULL;
    if (span == NULL && tag == NA_TAG_NONE) {
        if (NA_LIKELY(na_path.stray == NULL) || !na_path.stray(block, how, moved_to))
            na_free_foreign(block);
        return;
    }
    na_tcache_t *tcache = na_slow_enter(); /* as for malloc */
    if (NA_UNLIKELY(tcache == NULL)) {     /* no memory for one, or a fork has the list of them */
        na_emergency_free(span != NULL ? span : na_span_of(block), block);
        return;
    }
    if (span == NULL)
        give(tcache, tag, block);
    else if (span->cls == 0)
        na_large_free(tcache, span, block, how, moved_to);
    else
        free_seen(tcache, span, block, how, moved_to);
    na_slow_leave(tcache);
}

/* --- the clock --- */

void na_poll(na_tcache_t *tcache) {
    tcache->slow.calls = 0;
    if (na_child_is_unknown()) na_child_settle(); /* large blocks come here unasked */
    if (NA_UNLIKELY(atomic_load_explicit(&na_deferred_pending, memory_order_relaxed)))
        na_deferred_drain(tcache);
    na_scavenge_poll(tcache);
}

/* --- realloc: what its hot path leaves --- */

static void *resize_small(na_span_t *span, void *block, size_t size) {
    size_t have = na_classes[span->cls].size;
    if (!na_fits_in_place(have, size)) return NULL;
    if (NA_UNLIKELY(span->records != NULL)) {
        na_tcache_t *tcache = na_slow_enter();
        if (tcache != NULL) {
            na_path_kept(&tcache->track, span, block, block, have, size, have);
            na_slow_leave(tcache);
        }
    }
    return block;
}

static void *resize_large(na_span_t *span, size_t size) {
    na_tcache_t *tcache = size > NA_SMALL_MAX ? na_slow_enter() : NULL;
    if (tcache == NULL) return NULL;
    void *block = na_large_resize(tcache, span, size);
    na_slow_leave(tcache);
    return block;
}

NA_RACES_WITH_EMPTY void *na_resize_by_copy(const na_span_t *span, void *block, size_t have,
                                            size_t size, na_entry_t entry) {
    size_t grown = have < NA_CLASS_STEP ? NA_CLASS_STEP : have;
    void *fresh = NULL;
    if (na_span_is_others(span)) /* it stays there */
        fresh = na_owners->beside(span, na_resized(grown, size), entry);
    else if (span->cls == 0)
        fresh = na_large_alloc_grown(size, entry);
    if (fresh == NULL) fresh = na_alloc_resized(grown, size, entry);
    if (fresh == NULL) return NULL;
    memcpy(fresh, block, have < size ? have : size);
    na_free_slow(block, NA_TAG_NONE, NA_RELEASE_REALLOC, fresh);
    return fresh;
}

void *na_resize_plain(na_span_t *span, void *block, size_t size, na_entry_t entry) {
    void *same = span->cls != 0 ? resize_small(span, block, size) : resize_large(span, size);
    return same != NULL ? same : na_resize_by_copy(span, block, na_block_bytes(span), size, entry);
}

NA_RACES_WITH_EMPTY NA_NOINLINE void *na_resize_slow(void *block, size_t size) {
    if (block == NULL) return na_alloc(size, NA_ENTRY_REALLOC);
    if (size == 0) {
        na_free(block);
        return NULL;
    }
    na_span_t *span = na_span_of(block);
    void *resized;
    if (NA_UNLIKELY(na_path.resize != NULL) && na_path.resize(span, block, size, &resized))
        return resized;
    if (NA_UNLIKELY(span == NULL)) return na_realloc_foreign(block, size);
    if (NA_UNLIKELY(!na_is_block_start(span, block) || !na_path_is_live(span, block))) {
        na_misuse("realloc of", block);
        return NULL;
    }
    if (NA_UNLIKELY(span->records != NULL)) return na_path.resize_known(span, block, size);
    return na_resize_plain(span, block, size, NA_ENTRY_REALLOC);
}

/* --- the entry points --- */

NA_AT_LINE NA_RACES_WITH_EMPTY void *NA_FN(malloc)(size_t size) {
    return na_alloc(size, NA_ENTRY_MALLOC);
}

NA_AT_LINE NA_RACES_WITH_EMPTY void NA_FN(free)(void *block) {
    na_free(block);
}

static NA_NOINLINE void *calloc_slow(size_t bytes) {
    bool zeroed = false;
    void *block = bytes <= NA_SMALL_MAX
                      ? na_calloc_missed(bytes, &zeroed)
                      : na_large_alloc(bytes, NA_PAGE_SIZE, NA_ENTRY_CALLOC, &zeroed);
    if (block != NULL && !zeroed) memset(block, 0, bytes);
    return block;
}

NA_AT_LINE NA_RACES_WITH_EMPTY void *NA_FN(calloc)(size_t count, size_t size) {
    size_t bytes;
    if (NA_UNLIKELY(__builtin_mul_overflow(count, size, &bytes))) bytes = SIZE_MAX; /* refused */
    if (NA_UNLIKELY(bytes > NA_SMALL_MAX)) return calloc_slow(bytes);
    void *block = na_pop_to_clear(na_bin_for(bytes), bytes);
    return NA_LIKELY(block != NULL) ? memset(block, 0, bytes) : calloc_slow(bytes);
}

/* --- aligned --- */

NA_INLINE void *alloc_of_class(unsigned cls, size_t size, na_entry_t entry) {
    void *block = na_pop(&na_self->bins[cls]);
    return block != NULL ? block : na_alloc_missed(size, entry, cls);
}

NA_RACES_WITH_EMPTY void *na_alloc_aligned(size_t alignment, size_t size, na_entry_t entry) {
    entry = na_entry_aligned(entry, alignment);
    if (alignment <= NA_CLASS_STEP) return na_alloc(size, entry);
    if (alignment <= NA_PAGE_SIZE && size <= NA_SMALL_MAX) {
        na_init();
        unsigned cls = na_class_of_aligned(size, alignment);
        if (cls != 0) return alloc_of_class(cls, size, entry);
    }
    return na_large_alloc(size, alignment < NA_PAGE_SIZE ? NA_PAGE_SIZE : alignment, entry, NULL);
}

void *NA_FN(aligned_alloc)(size_t alignment, size_t size) {
    if (!na_is_pow2(alignment)) {
        errno = EINVAL;
        return NULL;
    }
    return na_alloc_aligned(alignment, size, NA_ENTRY_ALIGNED);
}

/* Like glibc, rounds an odd alignment up to the next power of two. */
void *NA_FN(memalign)(size_t alignment, size_t size) {
    if (alignment > SIZE_MAX / 2 + 1) {
        errno = EINVAL;
        return NULL;
    }
    size_t power = NA_CLASS_STEP;
    while (power < alignment)
        power *= 2;
    return na_alloc_aligned(power, size, NA_ENTRY_ALIGNED);
}

/* Returns the error, and like glibc's leaves ENOMEM in errno as well. */
int NA_FN(posix_memalign)(void **result, size_t alignment, size_t size) {
    if (!na_is_pow2(alignment) || alignment % sizeof(void *) != 0) return EINVAL;
    void *block = na_alloc_aligned(alignment, size, NA_ENTRY_ALIGNED);
    if (block == NULL) return ENOMEM;
    *result = block;
    return 0;
}

void *NA_FN(valloc)(size_t size) {
    na_init();
    return na_alloc_aligned(na_os_page, size, NA_ENTRY_ALIGNED);
}

void *NA_FN(pvalloc)(size_t size) {
    na_init();
    if (size > SIZE_MAX - na_os_page) {
        errno = ENOMEM;
        return NULL;
    }
    return na_alloc_aligned(na_os_page, na_align_up(size, na_os_page), NA_ENTRY_ALIGNED);
}

/* --- size --- */

/* The block begins here and is live, as far as is known. */
NA_RACES_WITH_EMPTY static bool seems_live(const na_span_t *span, const void *block) {
    return NA_LIKELY(span != NULL) && NA_LIKELY(na_is_block_start(span, block)) &&
           NA_LIKELY(na_path_is_live(span, block)) &&
           NA_LIKELY(na_self->bins[span->cls].head != block); /* freed last */
}

/* NULL has no bytes, nor has what is no block of ours, as far as is known. A small block that was
 * freed has what it had, as other allocators say. */
static NA_COLD size_t usable_otherwise(const na_span_t *span, const void *block) {
    size_t bytes;
    if (block == NULL) return 0;
    if (na_path.usable != NULL) {
        if (na_path.usable(span, block, &bytes)) return bytes;
        if (seems_live(span, block)) return na_block_bytes(span);
    }
    if (span != NULL || na_pageheap_node_of((uintptr_t)block) != NA_NO_NODE)
        na_misuse_asked("malloc_usable_size of", block); /* where no block begins, or a freed one */
    return span != NULL && span->cls != 0 && na_is_block_start(span, block) ? na_block_bytes(span)
                                                                            : 0;
}

NA_RACES_WITH_EMPTY size_t NA_FN(malloc_usable_size)(void *block) {
    const na_span_t *span = na_span_of(block);
    return NA_LIKELY(na_path.usable == NULL) && seems_live(span, block)
               ? na_block_bytes(span)
               : usable_otherwise(span, block);
}

/* --- realloc --- */

static NA_NOINLINE void *move_and_free(void *fresh, void *block, size_t bytes, uint32_t tag) {
    memcpy(fresh, block, bytes);
    na_free_missed(block, tag, NA_RELEASE_REALLOC, na_bin_for_tag(tag));
    return fresh;
}

NA_RACES_WITH_EMPTY static NA_NOINLINE void *move_slowly(void *block, size_t have, size_t size,
                                                         uint32_t tag) {
    void *fresh = na_alloc_resized(have, size, NA_ENTRY_REALLOC);
    if (NA_UNLIKELY(fresh == NULL)) return NULL;
    memcpy(fresh, block, have < size ? have : size);
    na_free_tagged(block, tag, NA_RELEASE_REALLOC);
    return fresh;
}

/* It becomes a large one: there is time to look whether it begins there, and whether the thread has
 * freed it. */
static NA_NOINLINE void *move_to_large(void *block, size_t have, size_t size, uint32_t tag) {
    const na_span_t *span = na_span_by_page(block);
    bool begins = NA_LIKELY(span != NULL) && NA_LIKELY(na_is_block_start(span, block));
    unsigned cls = na_tag_class(tag);
    bool freed =
        begins && na_bin_for_tag(tag)->tag == tag && na_overflow_has_freed(na_self, cls, block);
    if (NA_LIKELY(begins) && NA_LIKELY(!freed)) return move_slowly(block, have, size, tag);
    na_misuse(freed ? "realloc of freed" : "realloc of", block);
    return NULL;
}

/* A block that the hot path can free is in its bin before it is copied, all but its first bytes,
 * where the link is: so nothing has to be remembered across memcpy. Every block has whole steps of
 * 16 bytes. */
NA_HOT void *move_small(void *block, size_t have, size_t size, uint32_t tag) {
    typedef struct first {
        uint64_t word[2];
    } __attribute__((may_alias)) first_t;
    _Static_assert(sizeof(first_t) == NA_CLASS_STEP, "the part that is copied by itself");
    size_t want = na_resized(have, size);
    if (NA_UNLIKELY(want > NA_SMALL_MAX)) return move_to_large(block, have, size, tag);
    void *fresh = na_pop(na_bin_for(want));
    if (NA_UNLIKELY(fresh == NULL)) return move_slowly(block, have, size, tag);
    size_t bytes = na_align_up(have < size ? have : size, NA_CLASS_STEP);
    first_t first = *(first_t *)block;
    if (NA_UNLIKELY(!na_push(na_bin_for_tag(tag), block, tag)))
        return move_and_free(fresh, block, bytes, tag);
    *(first_t *)fresh = first;
    char *rest =
        memcpy((char *)fresh + sizeof first, (char *)block + sizeof first, bytes - sizeof first);
    return rest - sizeof first;
}

/* The page tag says the size of a small block. That it is a block at all is looked at as for free:
 * when the old block has been freed, by the thread's next slow path (misuse.h). */
NA_AT_LINE NA_RACES_WITH_EMPTY void *NA_FN(realloc)(void *block, size_t size) {
    uintptr_t address = (uintptr_t)block; /* NULL's page has no tag */
    uint32_t tag = NA_LIKELY(na_is_address(address)) ? na_page_tag(address) : NA_TAG_NONE;
    if (NA_UNLIKELY((uint16_t)tag == 0)) return na_resize_slow(block, size);
    size_t have = na_class_of_tag(tag)->size;
    const na_bin_t *bin = na_bin_for_tag(tag);
    if (NA_UNLIKELY(bin->head == block) && bin->tag == tag) {
        na_misuse("realloc of freed", block);
        return NULL;
    }
    if (na_fits_in_place(have, size)) return block;
    if (NA_UNLIKELY(size == 0)) return na_resize_slow(block, size);
    return move_small(block, have, size, tag);
}

void *NA_FN(reallocarray)(void *block, size_t count, size_t size) {
    size_t bytes;
    if (__builtin_mul_overflow(count, size, &bytes)) {
        errno = ENOMEM;
        return NULL;
    }
    return NA_FN(realloc)(block, bytes);
}

/* --- other frees. The sizes are the program's word, and are only checked, with NUMALLOC_CHECK=1:
 * free needs the page's tag in any case, for it says whose the block is. --- */

NA_RACES_WITH_EMPTY void NA_FN(free_sized)(void *block, size_t size) {
    if (NA_LIKELY(!na_sizes_count) || na_size_is_right(block, size, 0)) na_free(block);
}

NA_RACES_WITH_EMPTY void NA_FN(free_aligned_sized)(void *block, size_t alignment, size_t size) {
    (void)alignment;
    if (NA_LIKELY(!na_sizes_count) || na_size_is_right(block, size, 0)) na_free(block);
}

NA_RACES_WITH_EMPTY void NA_FN(cfree)(void *block) {
    na_free(block);
}

/* --- names that programs and libraries still bind to --- */

#ifndef NA_PREFIXED
#define NA_ALIAS(name, target, result, ...) NA_EXPORT result name(__VA_ARGS__) NA_ALIAS_OF(target)
NA_ALIAS(__libc_malloc, malloc, void *, size_t);
NA_ALIAS(__libc_free, free, void, void *);
NA_ALIAS(__libc_cfree, cfree, void, void *);
NA_ALIAS(__libc_calloc, calloc, void *, size_t, size_t);
NA_ALIAS(__libc_realloc, realloc, void *, void *, size_t);
NA_ALIAS(__libc_reallocarray, reallocarray, void *, void *, size_t, size_t);
NA_ALIAS(__libc_memalign, memalign, void *, size_t, size_t);
NA_ALIAS(__libc_valloc, valloc, void *, size_t);
NA_ALIAS(__libc_pvalloc, pvalloc, void *, size_t);
NA_ALIAS(__posix_memalign, posix_memalign, int, void **, size_t, size_t);
#endif
