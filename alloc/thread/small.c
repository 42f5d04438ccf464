/* small.c - the slow paths of small blocks: settle, refill, overflow. */
#include "alloc/thread/small.h"

#include <errno.h>

#include "alloc/api/init.h"
#include "alloc/central/central.h"
#include "alloc/page/pageheap.h"
#include "alloc/page/pressure.h"
#include "alloc/thread/aside.h"
#include "alloc/thread/foreign.h"
#include "alloc/thread/holes.h"
#include "alloc/thread/inspect.h"
#include "alloc/thread/large.h"
#include "alloc/thread/overflow.h"
#include "alloc/thread/remote.h"
#include "alloc/thread/switch.h"
#include "alloc/thread/traced.h"
#include "alloc/thread/young.h"
#include "alloc/track/misuse.h"
#include "alloc/track/recording.h"
#include "alloc/track/sampler.h"

/* --- settling --- */

static int credit_left(int16_t credit) {
    return credit < 0 ? 0 : credit; /* below zero: the hot path has just run out */
}

bool na_bin_count(na_tcache_t *tcache, unsigned cls) {
    na_bin_t *bin = &tcache->bins[cls];
    na_bin_state_t *state = &tcache->states[cls];
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

void na_bin_begin(na_tcache_t *tcache, unsigned cls) {
    na_bin_state_t *state = &tcache->states[cls];
    const na_class_t *c = &na_classes[cls];
    state->cap = state->hold = c->cap_first;
    state->least = (uint16_t)(c->thin - 1);
    state->size = c->size;
    state->pushed = (uint16_t)state->pushes;
    state->until_sample = na_sampler_draw(&tcache->track);
}

/* A nearly full bin may be overfilled a little: a thread that pops and pushes in turn would settle
 * at every push otherwise, and never run over. One that may hold nothing gets nothing. */
NA_INLINE int32_t least_push(const na_bin_state_t *state) {
    return state->hold / 4 + (state->hold != 0);
}

void na_bin_grant(na_tcache_t *tcache, unsigned cls) {
    na_bin_t *bin = &tcache->bins[cls];
    na_bin_state_t *state = &tcache->states[cls];
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
    if (!NA_ONE_NODE && tcache->away) pop = push = 0;
    bin->pop = state->granted_pop = (int16_t)(pop < 0 ? 0 : pop);
    bin->push = state->granted_push = (int16_t)(push < 0 ? 0 : push);
}

static void *pop_uncredited(na_tcache_t *tcache, unsigned cls) {
    na_bin_t *bin = &tcache->bins[cls];
    void *block = bin->head;
    bin->head = *na_block_next(block);
    na_bin_state_t *state = &tcache->states[cls];
    state->count--;
    state->pops++;
    state->until_sample -= na_classes[cls].size;
    state->used = true;
    return block;
}

static void push_uncredited(na_tcache_t *tcache, unsigned cls, void *block) {
    na_bin_t *bin = &tcache->bins[cls];
    *na_block_next(block) = bin->head;
    bin->head = block;
    na_bin_state_t *state = &tcache->states[cls];
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

NA_INLINE bool is_alarmed(const na_tcache_t *tcache) {
    return tcache->track.alarm != atomic_load_explicit(&na_alarm, memory_order_acquire);
}

/* On a machine with several nodes every settle sees to it that a thread which has moved is noticed.
 */
NA_INLINE bool may_be_quick(const na_tcache_t *tcache) {
    return NA_LIKELY(tcache->quick != 0) && NA_LIKELY(!is_alarmed(tcache)) &&
           (NA_LIKELY(!na_tcache_watched(tcache)) || !na_tcache_is_away(tcache));
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

NA_INLINE void quick_settle(na_tcache_t *tcache, unsigned cls, int32_t count, int32_t pops,
                            int32_t pushes) {
    na_bin_t *bin = &tcache->bins[cls];
    na_bin_state_t *state = &tcache->states[cls];
    tcache->quick--;
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
NA_INLINE void *quick_pop(na_tcache_t *tcache, unsigned cls) {
    na_bin_t *bin = &tcache->bins[cls];
    na_bin_state_t *state = &tcache->states[cls];
    if (!may_be_quick(tcache)) return NULL;
    int32_t pops = state->granted_pop, pushes = state->granted_push - bin->push;
    int32_t count = (int32_t)state->count + pushes - pops;
    void *block = bin->head;
    if (NA_UNLIKELY(count <= state->least) || !is_unsampled(state, pops + 1) ||
        NA_UNLIKELY(!goes_on(block, cls, (uint32_t)count)))
        return NULL;
    bin->head = *na_block_next(block);
    state->thin = 0;
    quick_settle(tcache, cls, count - 1, pops + 1, pushes);
    return block;
}

/* The push credit is spent. False: this settle must be a thorough one. */
NA_INLINE bool quick_push(na_tcache_t *tcache, unsigned cls, void *block) {
    na_bin_t *bin = &tcache->bins[cls];
    na_bin_state_t *state = &tcache->states[cls];
    if (!may_be_quick(tcache)) return false;
    int32_t pops = state->granted_pop - bin->pop, pushes = state->granted_push;
    int32_t count = (int32_t)state->count + pushes - pops;
    if (NA_UNLIKELY(count >= state->hold) || !is_unsampled(state, pops)) return false;
    *na_block_next(block) = bin->head;
    if (NA_UNLIKELY(!goes_on(block, cls, (uint32_t)count + 1))) return false;
    bin->head = block;
    quick_settle(tcache, cls, count + 1, pops, pushes + 1);
    return true;
}

/* Brings the bin of a class that is about to be used up to date. */
static void count(na_tcache_t *tcache, unsigned cls) {
    if (NA_UNLIKELY(tcache->states[cls].cap == 0)) na_bin_begin(tcache, cls);
    na_bin_count(tcache, cls);
}

/* A thorough settle begins. */
static void settle(na_tcache_t *tcache, unsigned cls) {
    if (NA_LIKELY(!na_every_event)) {
        tcache->settles += NA_QUICK - tcache->quick;
        tcache->quick = NA_QUICK;
    }
    na_tcache_pass(tcache);
    count(tcache, cls);
}

/* --- filling and emptying a bin; behind the gate --- */

/* How much a bin may hold follows its use. It begins small: a thread that uses a class once touches
 * a page for it, not a batch. Running dry or over, it settles too often: it may hold more. While
 * its thread only frees (all it does of late, or of this class and in random order), what it holds
 * is of no use, and pins a span for every block when blocks come in random order, so it may hold
 * less. (Idle bins are emptied, and begin small again: tidy in thread_cache.c.) */
static void adapt_cap(na_tcache_t *tcache, unsigned cls, bool ran_over) {
    na_bin_state_t *state = &tcache->states[cls];
    const na_class_t *c = &na_classes[cls];
    bool pins =
        ran_over && (uint16_t)state->pops == state->popped && na_overflow_is_scattered(tcache);
    if (ran_over) state->popped = (uint16_t)state->pops;
    if (ran_over && (tcache->only_frees || pins))
        state->cap = state->cap / 2 > c->cap_freeing ? state->cap / 2 : c->cap_freeing;
    else
        state->cap = state->cap * 2 < c->cap_max ? (uint16_t)(state->cap * 2) : c->cap_max;
}

/* Takes blocks of the class from spans; `grow`: new ones, if need be. */
static void *take_from_spans(na_tcache_t *tcache, unsigned cls, uint32_t want, bool grow,
                             uint32_t *got) {
    if (na_classes[cls].pooled) return na_central_take(tcache->node, cls, want, grow, got);
    na_span_kind_t kind = {.cls = (uint8_t)cls, .node = tcache->node, .owner = tcache->id};
    return na_span_list_take(na_tcache_spans(tcache, cls), kind, want, grow, got);
}

/* Blocks from the class's spans as a list, for a bin that is nearly empty. Carving may give more
 * than was wanted (up to the end of a page); the bin then may hold them and as many freed ones. */
static void *draw(na_tcache_t *tcache, unsigned cls, uint32_t want, bool grow, uint32_t *got) {
    na_bin_state_t *state = &tcache->states[cls];
    const na_class_t *c = &na_classes[cls];
    void *blocks = NULL;
    na_overflow_raise(tcache);
    if (na_overflow_in_the_way(tcache, c->span_pages)) {
        blocks = take_from_spans(tcache, cls, want, false, got);
        if (blocks == NULL) na_overflow_yield(tcache);
    }
    if (blocks == NULL && na_holes_are_wanted(tcache, c->span_pages)) {
        blocks = take_from_spans(tcache, cls, want, false, got);
        if (blocks == NULL) blocks = na_holes_take(tcache, cls, want, got);
    }
    if (blocks == NULL) blocks = take_from_spans(tcache, cls, want, grow, got);
    tcache->drawn += *got * c->size;
    uint32_t room = 2 * *got < c->cap_max ? 2 * *got : c->cap_max;
    if (state->cap < room) state->cap = (uint16_t)room;
    return blocks;
}

/* Fills an empty bin: overflow batches, remote frees, transfer cache, spans, new ones if it is to
 * `grow`. False: the system refuses memory. */
static bool refill(na_tcache_t *tcache, unsigned cls, bool grow) {
    na_bin_t *bin = &tcache->bins[cls];
    na_bin_state_t *state = &tcache->states[cls];
    adapt_cap(tcache, cls, false);
    na_young_reused(state, (uint16_t)(state->pushes - state->pushed));
    state->pushed = (uint16_t)state->pushes;
    state->thin = 0;
    if (state->overflow == 0) na_overflow_remote(tcache, cls, na_tcache_take_remote(tcache, cls));
    na_batch_t batch = na_overflow_take(tcache, cls);
    if (batch == 0 && na_classes[cls].pooled)
        batch = na_transfer_take(tcache->node, cls, tcache->id);
    if (batch != 0) {
        bin->head = na_batch_first(batch);
        state->count = na_batch_count(batch);
        return true;
    }
    uint32_t batch_size = na_classes[cls].batch; /* of a busy bin; of a new one, what it may hold */
    bin->head =
        draw(tcache, cls, state->cap < batch_size ? state->cap : batch_size, grow, &state->count);
    return state->count != 0;
}

/* A bin that a thread pops from and pushes to in turn never runs dry; with a few blocks in it, it
 * settles every few operations all the same. When that goes on, it gets a few more. */
static void top_up(na_tcache_t *tcache, unsigned cls) {
    enum { THIN_SETTLES = 8 };
    na_bin_state_t *state = &tcache->states[cls];
    if (state->count >= na_classes[cls].thin) {
        state->thin = 0;
        return;
    }
    if (++state->thin < THIN_SETTLES) return;
    state->thin = 0;
    uint32_t got;
    if (!na_gate_enter(tcache)) return;
    void *more =
        draw(tcache, cls, na_classes[cls].thin - state->count, !na_pressure_is_exhausted(), &got);
    na_gate_leave(tcache);
    if (more == NULL) return;
    void *last = tcache->bins[cls].head; /* the shorter walk */
    for (uint32_t i = 1; i < state->count; i++)
        last = *na_block_next(last);
    *na_block_next(last) = more;
    state->count += got;
}

size_t na_list_home(na_tcache_t *tcache, unsigned cls, void *list) {
    if (na_classes[cls].pooled) return na_central_give(tcache->node, cls, list);
    size_t released = 0;
    na_run_t run;
    while (na_run_cut(&list, cls, &run))
        released += na_span_list_give(na_tcache_spans(tcache, cls), run.span, run.first, run.last,
                                      run.count, cls);
    return released;
}

/* A full bin becomes a overflow batch. */
static void overflow(na_tcache_t *tcache, unsigned cls) {
    na_bin_t *bin = &tcache->bins[cls];
    na_bin_state_t *state = &tcache->states[cls];
    na_batch_t batch = na_batch(bin->head, state->count);
    bin->head = NULL;
    state->count = 0;
    na_overflow(tcache, cls, batch);
    adapt_cap(tcache, cls, true);
}

void na_bin_empty(na_tcache_t *tcache, unsigned cls) {
    na_bin_t *bin = &tcache->bins[cls];
    na_bin_state_t *state = &tcache->states[cls];
    if (bin->head != NULL) na_list_home(tcache, cls, bin->head);
    bin->head = NULL;
    state->count = 0;
    for (na_batch_t batch; (batch = na_overflow_take(tcache, cls)) != 0;)
        na_list_home(tcache, cls, na_batch_first(batch));
}

/* --- malloc --- */

/* Takes a block that the sampler chose, on a page of its own kind. */
static void *take_sampled(na_tcache_t *tcache, unsigned cls, size_t requested, na_entry_t entry) {
    na_bin_state_t *state = &tcache->states[cls];
    if (!na_gate_enter(tcache)) return NULL;
    void *block = na_sampled_take(tcache->node, cls);
    na_gate_leave(tcache);
    state->until_sample = na_sampler_draw(&tcache->track);
    if (block == NULL) return NULL;
    state->pops++;
    na_record_alloc(&tcache->track, na_span_of(block), block, requested, na_classes[cls].size,
                    entry);
    return block;
}

/* The class's bin has a block, or gets one. */
static bool has_block(na_tcache_t *tcache, unsigned cls, bool grow) {
    count(tcache, cls);
    if (tcache->states[cls].count != 0) return true;
    if (!na_gate_enter(tcache)) return false;
    bool filled = refill(tcache, cls, grow);
    na_gate_leave(tcache);
    return filled;
}

/* Of the last that a control group allows (pressure.h): the class whose bin has a block for one
 * that is wanted. Its own, the next larger ones, its own by new memory, any larger one; 0: none.
 * (Who wants it aligned looks whether it is.) */
static NA_COLD unsigned last_source(na_tcache_t *tcache, unsigned cls) {
    enum { NEAR = 2 }; /* up to a quarter more than was to be had */
    unsigned near = cls + NEAR < NA_CLASS_COUNT ? cls + NEAR : NA_CLASS_COUNT - 1;
    for (unsigned from = cls; from <= near; from++)
        if (has_block(tcache, from, false)) return from;
    if (has_block(tcache, cls, true)) return cls;
    for (unsigned from = near + 1; from < NA_CLASS_COUNT; from++)
        if (has_block(tcache, from, false)) return from;
    return 0;
}

static void *take(na_tcache_t *tcache, unsigned cls, size_t requested, na_entry_t entry) {
    na_bin_state_t *state = &tcache->states[cls];
    if (state->until_sample < (int64_t)na_classes[cls].size && na_sample_interval != 0) {
        void *sampled = take_sampled(tcache, cls, requested, entry);
        if (sampled != NULL)
            return sampled; /* else: no memory for a sample; a plain block may do */
    }
    if (state->count == 0) {
        if (NA_UNLIKELY(na_pressure_is_exhausted()))
            cls = last_source(tcache, cls);
        else if (!has_block(tcache, cls, true))
            cls = 0;
        if (cls == 0) return NULL;
    } else if (!na_every_event) {
        top_up(tcache, cls);
    }
    void *block = pop_uncredited(tcache, cls);
    while (NA_UNLIKELY(na_every_event) && na_is_mixed(na_span_of(block))) { /* has no record */
        *na_block_next(block) = NULL;
        if (!na_gate_enter(tcache)) {
            na_aside_free_later(block);
            return NULL;
        }
        na_list_home(tcache, cls, block);
        bool filled = tcache->states[cls].count != 0 || refill(tcache, cls, true);
        na_gate_leave(tcache);
        if (!filled) return NULL;
        block = pop_uncredited(tcache, cls);
    }
    if (na_every_event)
        na_record_alloc(&tcache->track, na_span_of(block), block, requested, na_classes[cls].size,
                        entry);
    return block;
}

/* The next block comes from the transfer cache or from spans. Counted before, not behind the gate.
 */
static bool is_dry(na_tcache_t *tcache, unsigned cls) {
    if (tcache->states[cls].count != 0 ||
        atomic_load_explicit(&tcache->remote_free[cls], memory_order_relaxed) != 0)
        return false;
    if (!na_gate_enter(tcache)) return false; /* na_tcache_reclaim */
    bool none = tcache->states[cls].overflow == 0;
    na_gate_leave(tcache);
    return none;
}

/* No memory, or a fork stands before it. */
static NA_COLD NA_NOINLINE void *alloc_otherwise(na_tcache_t *tcache, unsigned cls,
                                                 size_t requested, na_entry_t entry) {
    void *block = NULL;
    if (tcache == NULL || tcache->refused) {
        if (tcache != NULL) tcache->refused = false;
        block = na_aside_alloc(tcache, cls, requested, entry);
    }
    if (tcache != NULL) na_tcache_leave(tcache);
    if (block == NULL) errno = ENOMEM;
    return block;
}

NA_NOINLINE void *na_alloc_thoroughly(unsigned cls, size_t requested, na_entry_t entry) {
    na_tcache_t *tcache = na_tcache_enter();
    void *block = NULL;
    if (tcache != NULL) {
        settle(tcache, cls);
        if (NA_UNLIKELY(na_tcache_watched(tcache)) && is_dry(tcache, cls)) {
            tcache = na_tcache_check_policy(tcache);
            count(tcache, cls);
        }
        if (!na_every_event) na_bin_inspect(tcache, cls);
        block = take(tcache, cls, requested, entry);
        na_bin_grant(tcache, cls);
    }
    if (NA_UNLIKELY(block == NULL)) return alloc_otherwise(tcache, cls, requested, entry);
    na_tcache_leave(tcache);
    return block;
}

static NA_NOINLINE void *alloc_quickly(unsigned cls, size_t requested, na_entry_t entry,
                                       na_tcache_t *tcache) {
    void *block = quick_pop(tcache, cls);
    return NA_LIKELY(block != NULL) ? block : na_alloc_thoroughly(cls, requested, entry);
}

/* The next of many calls all of which are recorded, one that is not to be timed. */
NA_INLINE bool is_traced(na_tcache_t *tcache) {
    uint32_t left = tcache->track.until_timed;
    if (NA_UNLIKELY(left <= 1)) return false;
    tcache->track.until_timed = left - 1;
    return true;
}

NA_INLINE void *alloc_recorded(size_t requested, na_entry_t entry, na_tcache_t *tcache,
                               unsigned cls) {
    return atomic_load_explicit(&na_traced_alloc_by, memory_order_relaxed)(requested, entry, tcache,
                                                                           cls);
}

void *na_alloc_class_slow(unsigned cls, size_t requested, na_entry_t entry) {
    na_tcache_t *tcache = na_self;
    if (is_traced(tcache)) return alloc_recorded(requested, entry, tcache, cls);
    if (NA_LIKELY(tcache->quick != 0)) return alloc_quickly(cls, requested, entry, tcache);
    if (tcache->track.until_timed != 0) return na_traced_alloc_timed(requested, entry, tcache, cls);
    return na_alloc_thoroughly(cls, requested, entry);
}

static NA_NOINLINE void *alloc_first(size_t size, na_entry_t entry) {
    na_init(); /* fills the class table */
    return na_alloc_thoroughly(na_class_of(size), size, entry);
}

void *na_alloc_slow(size_t size, na_entry_t entry) {
    if (size > NA_SMALL_MAX) return na_large_alloc(size, NA_PAGE_SIZE, entry, NULL);
    na_tcache_t *tcache = na_self;
    if (is_traced(tcache)) return alloc_recorded(size, entry, tcache, na_class_of(size));
    if (NA_UNLIKELY(tcache == &na_tcache_empty)) return alloc_first(size, entry);
    return na_alloc_class_slow(na_class_of(size), size, entry);
}

/* --- free --- */

static void push(na_tcache_t *tcache, unsigned cls, void *block) {
    settle(tcache, cls);
    if (!na_every_event) na_bin_inspect(tcache, cls);
    na_bin_state_t *state = &tcache->states[cls];
    state->hold = na_young_hold(state, cls);
    bool full = state->count >= state->hold;
    bool all = full && NA_UNLIKELY(state->hold < state->cap) && na_is_young(state);
    if (full && !all && NA_LIKELY(na_gate_enter(tcache))) {
        overflow(tcache, cls);
        na_gate_leave(tcache);
    }
    push_uncredited(tcache, cls, block);
    if (all) na_young_surrender(tcache, cls);
    na_bin_grant(tcache, cls);
}

/* A small block that has no record, or one that has ended. */
static NA_NOINLINE void finish_free(na_tcache_t *tcache, na_span_t *span, void *block,
                                    unsigned cls) {
    if (NA_UNLIKELY(atomic_load_explicit(&span->aside, memory_order_relaxed) != 0)) {
        na_aside_give(span, block);
        return;
    }
    if (span->sampled) {
        tcache->states[cls].pushes++;
        if (NA_UNLIKELY(span->home != tcache->node)) na_tcache_crossed(tcache, span->home, cls, 1);
        if (NA_UNLIKELY(!na_gate_enter(tcache))) {
            na_aside_free_later(block);
            return;
        }
        na_sampled_give(span, block);
        na_gate_leave(tcache);
        return;
    }
    uint32_t tag = na_is_mixed(span) ? na_holes_tag(block, NA_TAG_MIXED(span->mix_owner))
                                     : na_tag(cls, span->owner);
    if (tcache->bins[cls].tag == tag)
        push(tcache, cls, block);
    else
        na_remote_free(tcache, tag, block);
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
    if (span->cls == 0)
        na_large_free_late(tcache, span);
    else
        finish_free(tcache, span, block, na_class_in(span, block));
}

NA_NOINLINE void na_free_thoroughly(void *block, uint32_t tag, na_release_t how,
                                    const void *moved_to) {
    na_span_t *span = NULL;
    if (tag == NA_TAG_NONE && (span = na_span_of(block)) == NULL) {
        na_free_foreign(block);
        return;
    }
    na_tcache_t *tcache = na_tcache_enter();
    if (tcache ==
        NULL) { /* no memory for a first thread cache, or a fork has the list of thread caches */
        na_aside_free(span != NULL ? span : na_span_of(block), block);
        return;
    }
    if (NA_UNLIKELY(na_every_event) && span == NULL) span = na_span_of(block);
    if (span == NULL) {
        unsigned cls = (tag & 0xffff) / NA_BIN_SIZE;
        if (tcache->bins[cls].tag == tag)
            push(tcache, cls, block);
        else
            na_remote_free(tcache, tag, block);
    } else if (span->cls == 0) {
        na_large_free(tcache, span, block, how, moved_to);
    } else {
        free_seen(tcache, span, block, how, moved_to);
    }
    na_tcache_leave(tcache);
}

static NA_NOINLINE void free_to_bin(na_tcache_t *tcache, void *block, uint32_t tag,
                                    na_release_t how) {
    if (NA_UNLIKELY(!quick_push(tcache, (tag & 0xffff) / NA_BIN_SIZE, block)))
        na_free_thoroughly(block, tag, how, NULL);
}

/* On a machine with several nodes. */
static NA_NOINLINE void free_watched(na_tcache_t *tcache, void *block, uint32_t tag,
                                     na_release_t how) {
    if (na_tcache_is_away(tcache) || !na_remote_collect(tcache, tag, block))
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
 * thread cache has no list that the block could be put on.) */
void na_free_slow(void *block, uint32_t tag, na_release_t how) {
    if (tag == NA_TAG_NONE && NA_LIKELY(block != NULL) && is_traced(na_self)) {
        __atomic_store_n(&na_self->bins[0].push, 0, __ATOMIC_RELAXED); /* tag.h */
        atomic_load_explicit(&na_traced_free_by, memory_order_relaxed)(block, how, na_self);
        return;
    }
    na_tcache_t *tcache = na_self;
    if (NA_UNLIKELY((tag & 0xffff) == 0)) {
        __atomic_store_n(&tcache->bins[0].push, 0, __ATOMIC_RELAXED); /* tag.h */
        if (block == NULL) return;
        if (tag != NA_TAG_NONE)
            free_mixed(block, tag, how);
        else if (tcache->track.until_timed == 0)
            na_free_thoroughly(block, tag, how, NULL);
        else
            na_traced_free_timed(block, how, tcache);
    } else if (((na_bin_t *)((char *)tcache + (tag & 0xffff)))->tag == tag) {
        free_to_bin(tcache, block, tag, how);
    } else if (NA_LIKELY(!atomic_load_explicit(&na_every_event, memory_order_relaxed)) &&
               NA_LIKELY(!is_alarmed(tcache))) {
        if (NA_UNLIKELY(na_tcache_watched(tcache)))
            free_watched(tcache, block, tag, how);
        else if (NA_UNLIKELY(!na_remote_collect(tcache, tag, block)))
            na_free_thoroughly(block, tag, how, NULL);
    } else {
        na_free_thoroughly(block, tag, how, NULL);
    }
}

void na_free_moved(void *block, const void *to) {
    if (block != NULL) na_free_thoroughly(block, NA_TAG_NONE, NA_RELEASE_REALLOC, to);
}
