/* cache.c - the slow paths of small blocks: settle, refill, overflow. */
#include "alloc/thread/cache.h"

#include <errno.h>

#include "alloc/api/init.h"
#include "alloc/central/central.h"
#include "alloc/page/pageheap.h"
#include "alloc/page/tight.h"
#include "alloc/thread/aside.h"
#include "alloc/thread/every.h"
#include "alloc/thread/foreign.h"
#include "alloc/thread/holes.h"
#include "alloc/thread/inspect.h"
#include "alloc/thread/keep.h"
#include "alloc/thread/large.h"
#include "alloc/thread/remote.h"
#include "alloc/thread/switch.h"
#include "alloc/thread/young.h"
#include "alloc/track/misuse.h"
#include "alloc/track/recording.h"
#include "alloc/track/sampler.h"

/* --- settling --- */

static int credit_left(int16_t credit) {
    return credit < 0 ? 0 : credit; /* below zero: the hot path has just run out */
}

bool na_bin_count(na_heap_t *heap, unsigned cls) {
    na_bin_t *bin = &heap->bins[cls];
    na_bin_state_t *state = &heap->states[cls];
    if ((state->granted_pop | state->granted_push) == 0) { /* every event is seen, or none was */
        bin->pop = bin->push = 0;
        return false;
    }
    uint32_t pops = (uint32_t)(state->granted_pop - credit_left(bin->pop));
    uint32_t pushes = (uint32_t)(state->granted_push - credit_left(bin->push));
    state->count += pushes - pops;
    state->pops += pops;
    state->pushes += pushes;
    state->until_sample -= (int64_t)pops * na_classes[cls].size;
    bin->pop = bin->push = 0;
    state->granted_pop = state->granted_push = 0;
    if (pops + pushes == 0) return false;
    na_young_reused(state, pops < pushes ? pops : pushes);
    state->used = true;
    return true;
}

void na_bin_begin(na_heap_t *heap, unsigned cls) {
    na_bin_state_t *state = &heap->states[cls];
    const na_class_t *c = &na_classes[cls];
    state->cap = state->hold = c->cap_first;
    state->least = (uint16_t)(c->thin - 1);
    state->size = c->size;
    state->pushed = (uint16_t)state->pushes;
    state->until_sample = na_sampler_draw(&heap->track);
}

/* A nearly full bin may be overfilled a little: a thread that pops and pushes in turn would settle
 * at every push otherwise, and never run over. One that may hold nothing gets nothing. */
NA_INLINE int32_t least_push(const na_bin_state_t *state) {
    return state->hold / 4 + (state->hold != 0);
}

void na_bin_grant(na_heap_t *heap, unsigned cls) {
    na_bin_t *bin = &heap->bins[cls];
    na_bin_state_t *state = &heap->states[cls];
    state->hold = na_young_hold(state, cls);
    if (na_every_event) {
        bin->pop = bin->push = state->granted_pop = state->granted_push = 0;
        return;
    }
    int64_t pop = state->count, push = (int64_t)state->hold - state->count;
    int64_t least = least_push(state);
    if (push < least) push = least;
    if (na_sample_interval != 0) {
        int64_t unsampled = state->until_sample / na_classes[cls].size;
        if (pop > unsampled) pop = unsampled;
    }
    if (pop > NA_CREDIT_MAX) pop = NA_CREDIT_MAX;
    if (push > NA_CREDIT_MAX) push = NA_CREDIT_MAX;
    if (!NA_ONE_NODE && heap->away) pop = push = 0;
    bin->pop = state->granted_pop = (int16_t)(pop < 0 ? 0 : pop);
    bin->push = state->granted_push = (int16_t)(push < 0 ? 0 : push);
}

static void *pop_uncredited(na_heap_t *heap, unsigned cls) {
    na_bin_t *bin = &heap->bins[cls];
    void *block = bin->head;
    bin->head = *na_block_next(block);
    na_bin_state_t *state = &heap->states[cls];
    state->count--;
    state->pops++;
    state->until_sample -= na_classes[cls].size;
    state->used = true;
    return block;
}

static void push_uncredited(na_heap_t *heap, unsigned cls, void *block) {
    na_bin_t *bin = &heap->bins[cls];
    *na_block_next(block) = bin->head;
    bin->head = block;
    na_bin_state_t *state = &heap->states[cls];
    state->count++;
    state->pushes++;
    state->used = true;
}

/* --- quick settles ---
 *
 * Most settles find a bin that is neither dry nor full and have nothing to do but to count and to
 * grant. NA_QUICK of them in a row do no more than that, and look at the link that the next pop
 * will follow; the next one is thorough: the clock, what is due, misuse. A quick settle
 * that finds that it will not do has changed nothing. */

NA_INLINE bool is_alarmed(const na_heap_t *heap) {
    return heap->track.alarm != atomic_load_explicit(&na_alarm, memory_order_acquire);
}

/* On a machine with several nodes every settle sees to it that a thread which has moved is noticed.
 */
NA_INLINE bool may_be_quick(const na_heap_t *heap) {
    return NA_LIKELY(heap->quick != 0) && NA_LIKELY(!is_alarmed(heap)) &&
           (NA_LIKELY(!na_heap_watched(heap)) || !na_heap_is_away(heap));
}

/* The list behind its first block, which is the newest of `count`, goes on to another block of the
 * class. */
NA_INLINE bool goes_on(const void *block, unsigned cls, uint32_t count) {
    const void *next = *na_block_next((void *)(uintptr_t)block);
    return count == 1 || (next != block && na_is_of_class(cls, next));
}

/* Whether all that may be granted is popped before a sample is due, `pops` from now. */
NA_INLINE bool is_unsampled(const na_bin_state_t *state, int32_t pops) {
    return NA_LIKELY(state->until_sample >= ((int64_t)NA_CREDIT_MAX + pops) * state->size);
}

NA_INLINE void quick_settle(na_heap_t *heap, unsigned cls, int32_t count, int32_t pops,
                            int32_t pushes) {
    na_bin_t *bin = &heap->bins[cls];
    na_bin_state_t *state = &heap->states[cls];
    heap->quick--;
    state->count = (uint32_t)count;
    state->pops += (uint32_t)pops;
    state->pushes += (uint32_t)pushes;
    state->until_sample -= (int64_t)pops * state->size;
    state->used = true;
    int32_t push = state->hold - count, least = least_push(state);
    if (push < least) push = least;
    if (count > NA_CREDIT_MAX) count = NA_CREDIT_MAX;
    bin->push = state->granted_push = (int16_t)push;
    bin->pop = state->granted_pop = (int16_t)count;
}

/* The pop credit is spent: a block, or NULL: this settle must be a thorough one. */
NA_INLINE void *quick_pop(na_heap_t *heap, unsigned cls) {
    na_bin_t *bin = &heap->bins[cls];
    na_bin_state_t *state = &heap->states[cls];
    if (!may_be_quick(heap)) return NULL;
    int32_t pops = state->granted_pop, pushes = state->granted_push - bin->push;
    int32_t count = (int32_t)state->count + pushes - pops;
    void *block = bin->head;
    if (NA_UNLIKELY(count <= state->least) || !is_unsampled(state, pops + 1) ||
        NA_UNLIKELY(!goes_on(block, cls, (uint32_t)count)))
        return NULL;
    bin->head = *na_block_next(block);
    state->thin = 0;
    quick_settle(heap, cls, count - 1, pops + 1, pushes);
    return block;
}

/* The push credit is spent. False: this settle must be a thorough one. */
NA_INLINE bool quick_push(na_heap_t *heap, unsigned cls, void *block) {
    na_bin_t *bin = &heap->bins[cls];
    na_bin_state_t *state = &heap->states[cls];
    if (!may_be_quick(heap)) return false;
    int32_t pops = state->granted_pop - bin->pop, pushes = state->granted_push;
    int32_t count = (int32_t)state->count + pushes - pops;
    if (NA_UNLIKELY(count >= state->hold) || !is_unsampled(state, pops)) return false;
    *na_block_next(block) = bin->head;
    if (NA_UNLIKELY(!goes_on(block, cls, (uint32_t)count + 1))) return false;
    bin->head = block;
    quick_settle(heap, cls, count + 1, pops, pushes + 1);
    return true;
}

/* Brings the bin of a class that is about to be used up to date. */
static void count(na_heap_t *heap, unsigned cls) {
    if (NA_UNLIKELY(heap->states[cls].cap == 0)) na_bin_begin(heap, cls);
    na_bin_count(heap, cls);
}

/* A thorough settle begins. */
static void settle(na_heap_t *heap, unsigned cls) {
    if (NA_LIKELY(!na_every_event)) {
        heap->settles += NA_QUICK - heap->quick;
        heap->quick = NA_QUICK;
    }
    na_heap_pass(heap);
    count(heap, cls);
}

/* --- filling and emptying a bin; behind the gate --- */

/* How much a bin may hold follows its use. It begins small: a thread that uses a class once touches
 * a page for it, not a batch. Running dry or over, it settles too often: it may hold more. While
 * its thread only frees (all it does of late, or of this class and in random order), what it holds
 * is of no use, and pins a span for every block when blocks come in random order, so it may hold
 * less. (Idle bins are emptied, and begin small again: tidy in heap.c.) */
static void adapt_cap(na_heap_t *heap, unsigned cls, bool ran_over) {
    na_bin_state_t *state = &heap->states[cls];
    const na_class_t *c = &na_classes[cls];
    bool pins = ran_over && (uint16_t)state->pops == state->popped && na_keep_is_scattered(heap);
    if (ran_over) state->popped = (uint16_t)state->pops;
    if (ran_over && (heap->only_frees || pins))
        state->cap = state->cap / 2 > c->cap_freeing ? state->cap / 2 : c->cap_freeing;
    else
        state->cap = state->cap * 2 < c->cap_max ? (uint16_t)(state->cap * 2) : c->cap_max;
}

/* Takes blocks of the class from spans; `grow`: new ones, if need be. */
static void *take_from_spans(na_heap_t *heap, unsigned cls, uint32_t want, bool grow,
                             uint32_t *got) {
    if (na_classes[cls].pooled) return na_central_take(heap->node, cls, want, grow, got);
    na_span_kind_t kind = {.cls = (uint8_t)cls, .node = heap->node, .owner = heap->id};
    return na_spanset_take(na_heap_spans(heap, cls), kind, want, grow, got);
}

/* Blocks from the class's spans as a list, for a bin that is nearly empty. Carving may give more
 * than was wanted (up to the end of a page); the bin then may hold them and as many freed ones. */
static void *draw(na_heap_t *heap, unsigned cls, uint32_t want, bool grow, uint32_t *got) {
    na_bin_state_t *state = &heap->states[cls];
    const na_class_t *c = &na_classes[cls];
    void *blocks = NULL;
    na_keep_raise(heap);
    if (na_keep_in_the_way(heap, c->span_pages)) {
        blocks = take_from_spans(heap, cls, want, false, got);
        if (blocks == NULL) na_keep_yield(heap);
    }
    if (blocks == NULL && na_holes_are_wanted(heap, c->span_pages)) {
        blocks = take_from_spans(heap, cls, want, false, got);
        if (blocks == NULL) blocks = na_holes_take(heap, cls, want, got);
    }
    if (blocks == NULL) blocks = take_from_spans(heap, cls, want, grow, got);
    heap->drawn += *got * c->size;
    uint32_t room = 2 * *got < c->cap_max ? 2 * *got : c->cap_max;
    if (state->cap < room) state->cap = (uint16_t)room;
    return blocks;
}

/* Fills an empty bin: kept chains, mail, depot, spans, new ones if it is to `grow`. False: the
 * system refuses memory. */
static bool refill(na_heap_t *heap, unsigned cls, bool grow) {
    na_bin_t *bin = &heap->bins[cls];
    na_bin_state_t *state = &heap->states[cls];
    adapt_cap(heap, cls, false);
    na_young_reused(state, (uint16_t)(state->pushes - state->pushed));
    state->pushed = (uint16_t)state->pushes;
    state->thin = 0;
    if (state->kept == 0) na_keep_mail(heap, cls, na_heap_take_mail(heap, cls));
    na_chain_t chain = na_keep_take(heap, cls);
    if (chain == 0 && na_classes[cls].pooled) chain = na_depot_take(heap->node, cls, heap->id);
    if (chain != 0) {
        bin->head = na_chain_first(chain);
        state->count = na_chain_count(chain);
        return true;
    }
    uint32_t batch = na_classes[cls].batch; /* of a busy bin; of a new one, what it may hold */
    bin->head = draw(heap, cls, state->cap < batch ? state->cap : batch, grow, &state->count);
    return state->count != 0;
}

/* A bin that a thread pops from and pushes to in turn never runs dry; with a few blocks in it, it
 * settles every few operations all the same. When that goes on, it gets a few more. */
static void top_up(na_heap_t *heap, unsigned cls) {
    enum { THIN_SETTLES = 8 };
    na_bin_state_t *state = &heap->states[cls];
    if (state->count >= na_classes[cls].thin) {
        state->thin = 0;
        return;
    }
    if (++state->thin < THIN_SETTLES) return;
    state->thin = 0;
    uint32_t got;
    if (!na_gate_enter(heap)) return;
    void *more = draw(heap, cls, na_classes[cls].thin - state->count, !na_last(), &got);
    na_gate_leave(heap);
    if (more == NULL) return;
    void *last = heap->bins[cls].head; /* the shorter walk */
    for (uint32_t i = 1; i < state->count; i++)
        last = *na_block_next(last);
    *na_block_next(last) = more;
    state->count += got;
}

size_t na_list_home(na_heap_t *heap, unsigned cls, void *list) {
    if (na_classes[cls].pooled) return na_central_give(heap->node, cls, list);
    size_t released = 0;
    na_run_t run;
    while (na_run_cut(&list, cls, &run))
        released += na_spanset_give(na_heap_spans(heap, cls), run.span, run.first, run.last,
                                    run.count, cls);
    return released;
}

/* A full bin becomes a kept chain. */
static void overflow(na_heap_t *heap, unsigned cls) {
    na_bin_t *bin = &heap->bins[cls];
    na_bin_state_t *state = &heap->states[cls];
    na_chain_t chain = na_chain(bin->head, state->count);
    bin->head = NULL;
    state->count = 0;
    na_keep(heap, cls, chain);
    adapt_cap(heap, cls, true);
}

void na_bin_empty(na_heap_t *heap, unsigned cls) {
    na_bin_t *bin = &heap->bins[cls];
    na_bin_state_t *state = &heap->states[cls];
    if (bin->head != NULL) na_list_home(heap, cls, bin->head);
    bin->head = NULL;
    state->count = 0;
    for (na_chain_t chain; (chain = na_keep_take(heap, cls)) != 0;)
        na_list_home(heap, cls, na_chain_first(chain));
}

/* --- malloc --- */

/* Takes a block that the sampler chose, on a page of its own kind. */
static void *take_sampled(na_heap_t *heap, unsigned cls, size_t requested, na_entry_t entry) {
    na_bin_state_t *state = &heap->states[cls];
    if (!na_gate_enter(heap)) return NULL;
    void *block = na_sampled_take(heap->node, cls);
    na_gate_leave(heap);
    state->until_sample = na_sampler_draw(&heap->track);
    if (block == NULL) return NULL;
    state->pops++;
    na_record_alloc(&heap->track, na_span_of(block), block, requested, na_classes[cls].size, entry);
    return block;
}

/* The class's bin has a block, or gets one. */
static bool has_block(na_heap_t *heap, unsigned cls, bool grow) {
    count(heap, cls);
    if (heap->states[cls].count != 0) return true;
    if (!na_gate_enter(heap)) return false;
    bool filled = refill(heap, cls, grow);
    na_gate_leave(heap);
    return filled;
}

/* Of the last that a control group allows (tight.h): the class whose bin has a block for one that
 * is wanted. Its own, the next larger ones, its own by new memory, any larger one; 0: none. (Who
 * wants it aligned looks whether it is.) */
static NA_COLD unsigned last_source(na_heap_t *heap, unsigned cls) {
    enum { NEAR = 2 }; /* up to a quarter more than was to be had */
    unsigned near = cls + NEAR < NA_CLASS_COUNT ? cls + NEAR : NA_CLASS_COUNT - 1;
    for (unsigned from = cls; from <= near; from++)
        if (has_block(heap, from, false)) return from;
    if (has_block(heap, cls, true)) return cls;
    for (unsigned from = near + 1; from < NA_CLASS_COUNT; from++)
        if (has_block(heap, from, false)) return from;
    return 0;
}

static void *take(na_heap_t *heap, unsigned cls, size_t requested, na_entry_t entry) {
    na_bin_state_t *state = &heap->states[cls];
    if (state->until_sample < (int64_t)na_classes[cls].size && na_sample_interval != 0) {
        void *sampled = take_sampled(heap, cls, requested, entry);
        if (sampled != NULL)
            return sampled; /* else: no memory for a sample; a plain block may do */
    }
    if (state->count == 0) {
        if (NA_UNLIKELY(na_last()))
            cls = last_source(heap, cls);
        else if (!has_block(heap, cls, true))
            cls = 0;
        if (cls == 0) return NULL;
    } else if (!na_every_event) {
        top_up(heap, cls);
    }
    void *block = pop_uncredited(heap, cls);
    while (NA_UNLIKELY(na_every_event) && na_is_mixed(na_span_of(block))) { /* has no record */
        *na_block_next(block) = NULL;
        if (!na_gate_enter(heap)) {
            na_aside_free_later(block);
            return NULL;
        }
        na_list_home(heap, cls, block);
        bool filled = heap->states[cls].count != 0 || refill(heap, cls, true);
        na_gate_leave(heap);
        if (!filled) return NULL;
        block = pop_uncredited(heap, cls);
    }
    if (na_every_event)
        na_record_alloc(&heap->track, na_span_of(block), block, requested, na_classes[cls].size,
                        entry);
    return block;
}

/* The next block comes from the depot or from spans. Counted before, not behind the gate. */
static bool is_dry(na_heap_t *heap, unsigned cls) {
    if (heap->states[cls].count != 0 ||
        atomic_load_explicit(&heap->mail[cls], memory_order_relaxed) != 0)
        return false;
    if (!na_gate_enter(heap)) return false; /* na_heap_reclaim */
    bool none = heap->states[cls].kept == 0;
    na_gate_leave(heap);
    return none;
}

/* No memory, or a fork stands before it. */
static NA_COLD NA_NOINLINE void *alloc_otherwise(na_heap_t *heap, unsigned cls, size_t requested,
                                                 na_entry_t entry) {
    void *block = NULL;
    if (heap == NULL || heap->refused) {
        if (heap != NULL) heap->refused = false;
        block = na_aside_alloc(heap, cls, requested, entry);
    }
    if (heap != NULL) na_heap_leave(heap);
    if (block == NULL) errno = ENOMEM;
    return block;
}

NA_NOINLINE void *na_alloc_thoroughly(unsigned cls, size_t requested, na_entry_t entry) {
    na_heap_t *heap = na_heap_enter();
    void *block = NULL;
    if (heap != NULL) {
        settle(heap, cls);
        if (NA_UNLIKELY(na_heap_watched(heap)) && is_dry(heap, cls)) {
            heap = na_heap_check_policy(heap);
            count(heap, cls);
        }
        if (!na_every_event) na_bin_inspect(heap, cls);
        block = take(heap, cls, requested, entry);
        na_bin_grant(heap, cls);
    }
    if (NA_UNLIKELY(block == NULL)) return alloc_otherwise(heap, cls, requested, entry);
    na_heap_leave(heap);
    return block;
}

static NA_NOINLINE void *alloc_quickly(unsigned cls, size_t requested, na_entry_t entry,
                                       na_heap_t *heap) {
    void *block = quick_pop(heap, cls);
    return NA_LIKELY(block != NULL) ? block : na_alloc_thoroughly(cls, requested, entry);
}

/* The next of many calls all of which are recorded, one that is not to be timed. */
NA_INLINE bool is_one_of_every(na_heap_t *heap) {
    uint32_t left = heap->track.every_left;
    if (NA_UNLIKELY(left <= 1)) return false;
    heap->track.every_left = left - 1;
    return true;
}

NA_INLINE void *alloc_recorded(size_t requested, na_entry_t entry, na_heap_t *heap, unsigned cls) {
    return atomic_load_explicit(&na_every_alloc_by, memory_order_relaxed)(requested, entry, heap,
                                                                          cls);
}

void *na_alloc_class_slow(unsigned cls, size_t requested, na_entry_t entry) {
    na_heap_t *heap = na_self;
    if (is_one_of_every(heap)) return alloc_recorded(requested, entry, heap, cls);
    if (NA_LIKELY(heap->quick != 0)) return alloc_quickly(cls, requested, entry, heap);
    if (heap->track.every_left != 0) return na_every_alloc_timed(requested, entry, heap, cls);
    return na_alloc_thoroughly(cls, requested, entry);
}

static NA_NOINLINE void *alloc_first(size_t size, na_entry_t entry) {
    na_init(); /* fills the class table */
    return na_alloc_thoroughly(na_class_of(size), size, entry);
}

void *na_alloc_slow(size_t size, na_entry_t entry) {
    if (size > NA_SMALL_MAX) return na_large_alloc(size, NA_PAGE_SIZE, entry, NULL);
    na_heap_t *heap = na_self;
    if (is_one_of_every(heap)) return alloc_recorded(size, entry, heap, na_class_of(size));
    if (NA_UNLIKELY(heap == &na_heap_empty)) return alloc_first(size, entry);
    return na_alloc_class_slow(na_class_of(size), size, entry);
}

/* --- free --- */

static void push(na_heap_t *heap, unsigned cls, void *block) {
    settle(heap, cls);
    if (!na_every_event) na_bin_inspect(heap, cls);
    na_bin_state_t *state = &heap->states[cls];
    state->hold = na_young_hold(state, cls);
    bool full = state->count >= state->hold;
    bool all = full && NA_UNLIKELY(state->hold < state->cap) && na_is_young(state);
    if (full && !all && NA_LIKELY(na_gate_enter(heap))) {
        overflow(heap, cls);
        na_gate_leave(heap);
    }
    push_uncredited(heap, cls, block);
    if (all) na_young_surrender(heap, cls);
    na_bin_grant(heap, cls);
}

/* A small block that has no record, or one that has ended. */
static NA_NOINLINE void finish_free(na_heap_t *heap, na_span_t *span, void *block, unsigned cls) {
    if (NA_UNLIKELY(atomic_load_explicit(&span->aside, memory_order_relaxed) != 0)) {
        na_aside_give(span, block);
        return;
    }
    if (span->sampled) {
        heap->states[cls].pushes++;
        if (NA_UNLIKELY(span->home != heap->node)) na_heap_crossed(heap, span->home, cls, 1);
        if (NA_UNLIKELY(!na_gate_enter(heap))) {
            na_aside_free_later(block);
            return;
        }
        na_sampled_give(span, block);
        na_gate_leave(heap);
        return;
    }
    uint32_t tag = na_is_mixed(span) ? na_holes_tag(block, NA_TAG_MIXED(span->mix_owner))
                                     : na_tag(cls, span->owner);
    if (heap->bins[cls].tag == tag)
        push(heap, cls, block);
    else
        na_remote_free(heap, tag, block);
}

/* A block on a slow-tagged page, or any while every event is wanted. */
static void free_seen(na_heap_t *heap, na_span_t *span, void *block, na_release_t how,
                      const void *moved_to) {
    if (!na_is_block_start(span, block)) {
        na_misuse("free of", block);
        return;
    }
    unsigned cls = na_class_in(span, block);
    if (na_record_free(&heap->track, span, block, na_classes[cls].size, how, moved_to))
        finish_free(heap, span, block, cls);
}

void na_free_late(na_heap_t *heap, void *block) {
    na_span_t *span = na_span_of(block);
    if (span->cls == 0)
        na_large_free_late(heap, span);
    else
        finish_free(heap, span, block, na_class_in(span, block));
}

NA_NOINLINE void na_free_thoroughly(void *block, uint32_t tag, na_release_t how,
                                    const void *moved_to) {
    na_span_t *span = NULL;
    if (tag == NA_TAG_NONE && (span = na_span_of(block)) == NULL) {
        na_free_foreign(block);
        return;
    }
    na_heap_t *heap = na_heap_enter();
    if (heap == NULL) { /* no memory for a first heap, or a fork has the list of heaps */
        na_aside_free(span != NULL ? span : na_span_of(block), block);
        return;
    }
    if (NA_UNLIKELY(na_every_event) && span == NULL) span = na_span_of(block);
    if (span == NULL) {
        unsigned cls = (tag & 0xffff) / NA_BIN_SIZE;
        if (heap->bins[cls].tag == tag)
            push(heap, cls, block);
        else
            na_remote_free(heap, tag, block);
    } else if (span->cls == 0) {
        na_large_free(heap, span, block, how, moved_to);
    } else {
        free_seen(heap, span, block, how, moved_to);
    }
    na_heap_leave(heap);
}

static NA_NOINLINE void free_to_bin(na_heap_t *heap, void *block, uint32_t tag, na_release_t how) {
    if (NA_UNLIKELY(!quick_push(heap, (tag & 0xffff) / NA_BIN_SIZE, block)))
        na_free_thoroughly(block, tag, how, NULL);
}

/* On a machine with several nodes. */
static NA_NOINLINE void free_watched(na_heap_t *heap, void *block, uint32_t tag, na_release_t how) {
    if (na_heap_is_away(heap) || !na_remote_collect(heap, tag, block))
        na_free_thoroughly(block, tag, how, NULL);
}

static NA_NOINLINE void free_mixed(void *block, uint32_t mixed, na_release_t how) {
    uint32_t tag = na_holes_tag(block, mixed);
    if (NA_UNLIKELY(tag == NA_TAG_NONE))
        na_misuse("free of", block);
    else if (NA_UNLIKELY(!na_push(block, tag)))
        na_free_slow(block, tag, how);
}

/* The way of another owner's block is a hot path, too: no calls but the last. (A thread without a
 * heap has no list that the block could be put on.) */
void na_free_slow(void *block, uint32_t tag, na_release_t how) {
    if (tag == NA_TAG_NONE && NA_LIKELY(block != NULL) && is_one_of_every(na_self)) {
        __atomic_store_n(&na_self->bins[0].push, 0, __ATOMIC_RELAXED); /* tag.h */
        atomic_load_explicit(&na_every_free_by, memory_order_relaxed)(block, how, na_self);
        return;
    }
    na_heap_t *heap = na_self;
    if (NA_UNLIKELY((tag & 0xffff) == 0)) {
        __atomic_store_n(&heap->bins[0].push, 0, __ATOMIC_RELAXED); /* tag.h */
        if (block == NULL) return;
        if (tag != NA_TAG_NONE)
            free_mixed(block, tag, how);
        else if (heap->track.every_left == 0)
            na_free_thoroughly(block, tag, how, NULL);
        else
            na_every_free_timed(block, how, heap);
    } else if (((na_bin_t *)((char *)heap + (tag & 0xffff)))->tag == tag) {
        free_to_bin(heap, block, tag, how);
    } else if (NA_LIKELY(!atomic_load_explicit(&na_every_event, memory_order_relaxed)) &&
               NA_LIKELY(!is_alarmed(heap))) {
        if (NA_UNLIKELY(na_heap_watched(heap)))
            free_watched(heap, block, tag, how);
        else if (NA_UNLIKELY(!na_remote_collect(heap, tag, block)))
            na_free_thoroughly(block, tag, how, NULL);
    } else {
        na_free_thoroughly(block, tag, how, NULL);
    }
}

void na_free_moved(void *block, const void *to) {
    if (block != NULL) na_free_thoroughly(block, NA_TAG_NONE, NA_RELEASE_REALLOC, to);
}
