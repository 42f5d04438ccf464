/* bin.c - a bin: renewing its credit, filling and emptying it. */
#include "alloc/cache/bin.h"

#include "alloc/cache/deferred.h"
#include "alloc/cache/holes.h"
#include "alloc/cache/inspect.h"
#include "alloc/cache/large_bins.h"
#include "alloc/cache/overflow.h"
#include "alloc/cache/remote.h"
#include "alloc/cache/young.h"
#include "alloc/central/central.h"
#include "alloc/page/pageheap.h"
#include "alloc/page/pressure.h"
#include "alloc/track/sampler.h"

/* --- accounts --- */

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
    state->granted_pop = state->granted_push = state->extended_most = 0;
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
    state->until_sample = na_sampler_draw(&tcache->track, c->size, &state->sample_step);
}

void na_bin_grant(na_tcache_t *tcache, unsigned cls) {
    na_bin_t *bin = &tcache->bins[cls];
    na_bin_state_t *state = &tcache->states[cls];
    state->hold = na_young_hold(tcache, cls);
    if (na_every_event) {
        bin->pop = bin->push = 0;
        state->granted_pop = state->granted_push = state->extended_most = 0;
        return;
    }
    int64_t pop = state->count, push = (int64_t)state->hold - state->count;
    bool extends = cls >= NA_CLASS_EXTENDED && !na_tcache_watched(tcache);
    int64_t most = extends ? NA_EXTENDED_MAX : 0;
    int64_t least = na_bin_least_push(state);
    if (push < least) push = least;
    if (na_sample_interval != 0) {
        int64_t unsampled = state->until_sample / na_classes[cls].size;
        if (pop > unsampled) pop = unsampled;
        if (most > unsampled) most = unsampled;
    }
    if (pop > NA_CREDIT_MAX) pop = NA_CREDIT_MAX;
    if (push > NA_CREDIT_MAX) push = NA_CREDIT_MAX;
    if (!NA_ONE_NODE && tcache->away) pop = push = 0;
    bin->pop = state->granted_pop = (int16_t)(pop < 0 ? 0 : pop);
    bin->push = state->granted_push = (int16_t)(push < 0 ? 0 : push);
    state->extended_most = (uint8_t)(most < 0 ? 0 : most);
}

void na_bin_renew(na_tcache_t *tcache, unsigned cls) {
    na_bin_open(tcache, cls);
    if (NA_LIKELY(tcache->quick != 0)) /* else every event is wanted, and records tell of misuse */
        na_bin_inspect(tcache, cls);
}

/* --- filling and emptying a bin; behind the gate --- */

/* Of the larger classes a bin may hold few blocks: there are many such classes, and a thread that
 * uses blocks of random sizes would have some of each. One that takes and frees many of one size
 * has a larger bin for them. */
#define NA_CAP_ALONE 16u
#define NA_ALONE     4u /* its bin was dry or full so often, and no other larger class's */

static void note_moved(na_tcache_t *tcache, unsigned cls) {
    if (cls < NA_CLASS_EXTENDED) return;
    if (tcache->moved != cls) {
        tcache->moved = (uint8_t)cls;
        tcache->moved_in_a_row = 0;
    } else if (tcache->moved_in_a_row < NA_ALONE) {
        tcache->moved_in_a_row++;
    }
}

static uint32_t cap_usual(const na_tcache_t *tcache, unsigned cls) {
    uint32_t most = na_classes[cls].cap_max;
    bool alone = tcache->moved == cls && tcache->moved_in_a_row == NA_ALONE;
    return alone && most < NA_CAP_ALONE ? NA_CAP_ALONE : most;
}

/* The most that a bin may hold. Where blocks of the larger classes go from thread to thread in any
 * order, all that these exchange are bins: larger ones spare them half of it. */
static uint32_t cap_most(const na_tcache_t *tcache, unsigned cls) {
    uint32_t most = cap_usual(tcache, cls);
    if (cls < NA_CLASS_EXTENDED || !na_overflow_is_scattered(tcache) ||
        !na_transfer_is_wanted(tcache->node, cls))
        return most;
    const na_class_t *c = &na_classes[cls];
    uint32_t twice = 2u * c->cap_max, threads = na_tcache_attached();
    return twice > most && twice * c->size <= NA_FLOW_BYTES / threads / threads ? twice : most;
}

/* How much a bin may hold follows its use. It begins small: a thread that uses a class once touches
 * a page for it, not a batch. Running dry or over, its credit is renewed too often: it may hold
 * more. While its thread only frees (all it does of late, or of this class and in random order),
 * what it holds is of no use, and pins a span for every block when blocks come in random order, so
 * it may hold less. (Idle bins are emptied, and begin small again: scavenge.c.) */
static void adapt_cap(na_tcache_t *tcache, unsigned cls, bool ran_over) {
    na_bin_state_t *state = &tcache->states[cls];
    const na_class_t *c = &na_classes[cls];
    note_moved(tcache, cls);
    uint32_t most = cap_most(tcache, cls);
    bool pins =
        ran_over && (uint16_t)state->pops == state->popped && na_overflow_is_scattered(tcache);
    if (ran_over) state->popped = (uint16_t)state->pops;
    if (ran_over && (tcache->only_frees || pins))
        state->cap = state->cap / 2 > c->cap_freeing ? state->cap / 2 : c->cap_freeing;
    else
        state->cap = state->cap * 2u < most ? (uint16_t)(state->cap * 2u) : (uint16_t)most;
}

/* Takes blocks of the class from spans; `grow`: new ones, if need be. */
static void *take_from_spans(na_tcache_t *tcache, unsigned cls, uint32_t want, bool grow,
                             uint32_t *got) {
    bool zeroed = false;
    bool *untouched = NA_UNLIKELY(na_harden != 0) ? NULL : &zeroed; /* each has a signed link */
    na_span_kind_t kind = {
        .cls = (uint8_t)cls, .node = tcache->node, .owner = tcache->id, .untouched = untouched};
    void *blocks = na_classes[cls].pooled
                       ? na_central_take(tcache->node, cls, want, grow, untouched, got)
                       : na_span_list_take(na_tcache_spans(tcache, cls), kind, want, grow, got);
    tcache->zero_block = zeroed ? blocks : NULL;
    return blocks;
}

/* Blocks from the class's spans as a list, for a bin that is nearly empty. Carving may give more
 * than was wanted (up to the end of a page); the bin then may hold them and as many freed ones. */
static void *draw(na_tcache_t *tcache, unsigned cls, uint32_t want, bool grow, uint32_t *got) {
    na_bin_state_t *state = &tcache->states[cls];
    const na_class_t *c = &na_classes[cls];
    void *blocks = NULL;
    na_overflow_raise(tcache);
    if (na_large_bins_in_the_way(tcache, c->span_pages)) na_large_bins_flush(tcache);
    if (na_overflow_in_the_way(tcache, c->span_pages)) {
        blocks = take_from_spans(tcache, cls, want, false, got);
        if (blocks == NULL) na_overflow_flush(tcache);
    }
    if (blocks == NULL && na_holes_are_wanted(tcache, c->span_pages)) {
        blocks = take_from_spans(tcache, cls, want, false, got);
        if (blocks == NULL) blocks = na_holes_take(tcache, cls, want, got);
    }
    if (blocks == NULL) blocks = take_from_spans(tcache, cls, want, grow, got);
    if (NA_UNLIKELY(blocks == NULL) && grow && na_large_bins_flush(tcache))
        blocks = take_from_spans(tcache, cls, want, grow, got);
    tcache->drawn += *got * c->size;
    na_overflow_drawn(tcache, *got * c->size);
    uint32_t room = 2 * *got, most = cap_usual(tcache, cls);
    if (room > most) room = most;
    if (state->cap < room) state->cap = (uint16_t)room;
    return blocks;
}

/* All blocks of the list are counted to have been handed out, but it goes on. */
static NA_COLD void drop_rest(na_bin_t *bin, unsigned cls) {
    if (!na_list_is_one(cls, bin->head)) na_misuse_late(na_list_goes_on, bin->head);
    bin->head = NULL;
}

/* Fills an empty bin: overflow batches, remote frees, transfer cache, spans, new ones if it is to
 * `grow`. False: the system refuses memory. */
static bool refill_bin(na_tcache_t *tcache, unsigned cls, bool grow) {
    na_bin_t *bin = &tcache->bins[cls];
    na_bin_state_t *state = &tcache->states[cls];
    if (NA_UNLIKELY(bin->head != NULL)) drop_rest(bin, cls);
    adapt_cap(tcache, cls, false);
    na_young_reused(state, (uint16_t)(state->pushes - state->pushed));
    state->pushed = (uint16_t)state->pushes;
    state->thin = 0;
    if (state->overflow == 0) na_overflow_remote(tcache, cls, na_remote_take(tcache, cls));
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
    state->untouched = NA_LIKELY(na_harden == 0) && na_span_list_is_untouched(cls, state->count);
    return state->count != 0;
}

/* Of a bin with few blocks. NULL: a block was written to, which is told of, and the bin is as long
 * as what is left. */
static void *last_block(na_tcache_t *tcache, unsigned cls) {
    void *last = tcache->bins[cls].head;
    for (uint32_t i = 1; i < tcache->states[cls].count; i++) {
        last = *na_block_next(last);
        if (NA_LIKELY(na_is_of_class(cls, last))) continue;
        na_bin_look_over(tcache, cls);
        return NULL;
    }
    return last;
}

/* A bin that a thread pops from and pushes to in turn never runs dry; with a few blocks in it, its
 * credit is spent every few operations all the same. When that goes on, it gets a few more. */
void na_bin_top_up(na_tcache_t *tcache, unsigned cls) {
    enum { THIN_RENEWALS = 8 };
    na_bin_state_t *state = &tcache->states[cls];
    if (state->count >= na_classes[cls].thin) {
        state->thin = 0;
        return;
    }
    if (++state->thin < THIN_RENEWALS) return;
    state->thin = 0;
    void *last = last_block(tcache, cls);
    uint32_t got;
    if (last == NULL || !na_gate_enter(tcache)) return;
    void *more =
        draw(tcache, cls, na_classes[cls].thin - state->count, !na_pressure_is_exhausted(), &got);
    na_gate_leave(tcache);
    if (more == NULL) return;
    if (na_harden == 0 && na_span_list_is_untouched(cls, got)) *na_block_next(more) = NULL;
    *na_block_next(last) = more;
    state->count += got;
}

/* The next block to be taken is to be one of several. */
static void widen(na_tcache_t *tcache, unsigned cls) {
    na_bin_state_t *state = &tcache->states[cls];
    uint32_t least = na_hand_least(cls), batch_size = na_classes[cls].batch;
    uint32_t want = least > batch_size ? least : batch_size;
    while (state->count < least && !na_pressure_is_exhausted()) {
        na_hand_fill(tcache, cls);
        if (tcache->bins[cls].head != NULL || !na_gate_enter(tcache)) return;
        na_batch_t batch = na_overflow_take(tcache, cls);
        uint32_t got = na_batch_count(batch);
        void *more = batch != 0 ? na_batch_first(batch) : draw(tcache, cls, want, true, &got);
        na_gate_leave(tcache);
        if (more == NULL) return;
        tcache->bins[cls].head = more;
        state->count += got;
    }
}

void *na_bin_draw(na_tcache_t *tcache, unsigned cls) {
    widen(tcache, cls);
    return na_hand_take(tcache, cls);
}

size_t na_list_home(na_tcache_t *tcache, unsigned cls, void *list, uint32_t count) {
    if (na_classes[cls].pooled) return na_central_give(tcache->node, cls, list, count);
    if (NA_UNLIKELY(na_harden != 0)) count = na_links_check(&list, count);
    size_t released = 0;
    na_part_t part;
    while (na_part_cut(&list, &count, cls, &part))
        released += na_span_list_give(na_tcache_spans(tcache, cls), &part, cls);
    return released;
}

/* Blocks of a class lie at multiples of the power of two that its size is a multiple of, but for
 * those of mixed spans. So the lowest bits of all addresses together tell of one that was freed in
 * its middle: it would be handed out like that, again and again. And the list ends here, or a block
 * is in it twice; or one was written to, and it leads elsewhere before. Of the larger classes only,
 * whose bins hold few. (Of small blocks following the list takes a third of a wave's time.) */
static bool lies_oddly(const na_bin_t *bin, uint32_t count, unsigned cls) {
    const uintptr_t most = ((uintptr_t)1 << NA_ADDRESS_BITS) - 1;
    uintptr_t size = na_classes[cls].size, all = 0;
    const void *block = bin->head;
    for (; count != 0; count--) {
        if (NA_UNLIKELY((uintptr_t)block - 1 >= most)) return true; /* NULL, or no address */
        all |= (uintptr_t)block;
        block = *na_block_next((void *)(uintptr_t)block);
    }
    return NA_UNLIKELY((all & ((size & -size) - 1)) != 0) || NA_UNLIKELY(block != NULL);
}

/* A full bin becomes an overflow batch. */
static void overflow(na_tcache_t *tcache, unsigned cls) {
    na_bin_t *bin = &tcache->bins[cls];
    na_bin_state_t *state = &tcache->states[cls];
    if (NA_UNLIKELY(na_harden != 0)) {
        na_hand_close(tcache, cls);
        state->count = na_links_check(&bin->head, state->count);
    } else if (cls >= NA_CLASS_EXTENDED && lies_oddly(bin, state->count, cls)) {
        na_bin_look_over(tcache, cls);
    }
    if (NA_UNLIKELY(bin->head == NULL)) return;
    na_batch_t batch = na_batch(bin->head, state->count);
    bin->head = NULL;
    state->count = 0;
    na_overflow(tcache, cls, batch);
    adapt_cap(tcache, cls, true);
}

void na_bin_empty(na_tcache_t *tcache, unsigned cls) {
    na_bin_t *bin = &tcache->bins[cls];
    na_bin_state_t *state = &tcache->states[cls];
    if (NA_UNLIKELY(na_harden != 0)) na_hand_close(tcache, cls);
    if (NA_UNLIKELY(bin->head != NULL && state->count == 0)) drop_rest(bin, cls);
    if (state->count != 0) na_list_home(tcache, cls, bin->head, state->count);
    bin->head = NULL;
    state->count = 0;
    for (na_batch_t batch; (batch = na_overflow_take(tcache, cls)) != 0;)
        na_batch_home(tcache, cls, batch);
}

NA_COLD void na_young_flush(na_tcache_t *tcache, unsigned cls) {
    if (!na_gate_enter(tcache)) return;
    if (NA_UNLIKELY(na_harden != 0)) na_hand_close(tcache, cls);
    void *list = tcache->bins[cls].head;
    uint32_t count = tcache->states[cls].count;
    tcache->bins[cls].head = NULL;
    tcache->states[cls].count = 0;
    na_list_home(tcache, cls, list, count);
    na_tcache_trim_spans(tcache, cls);
    na_gate_leave(tcache);
}

bool na_bin_fill(na_tcache_t *tcache, unsigned cls, bool grow) {
    na_bin_open(tcache, cls);
    if (tcache->states[cls].count != 0) return true;
    if (!na_gate_enter(tcache)) return false;
    bool filled = refill_bin(tcache, cls, grow);
    na_gate_leave(tcache);
    return filled;
}

/* Counted before, not behind the gate. */
bool na_bin_is_dry(na_tcache_t *tcache, unsigned cls) {
    if (tcache->states[cls].count != 0 ||
        atomic_load_explicit(&tcache->remote_free[cls], memory_order_relaxed) != 0)
        return false;
    if (!na_gate_enter(tcache)) return false; /* na_scavenge_others */
    bool none = tcache->states[cls].overflow == 0;
    na_gate_leave(tcache);
    return none;
}

void na_bin_put(na_tcache_t *tcache, unsigned cls, void *block) {
    na_bin_renew(tcache, cls);
    na_bin_t *bin = &tcache->bins[cls];
    na_bin_state_t *state = &tcache->states[cls];
    state->hold = na_young_hold(tcache, cls);
    bool full = state->count >= state->hold;
    bool all = full && NA_UNLIKELY(state->hold < state->cap) && na_is_young(state);
    if (full) {
        if (!all && NA_LIKELY(na_gate_enter(tcache))) {
            overflow(tcache, cls);
            na_gate_leave(tcache);
        } else if (NA_UNLIKELY(state->count >=
                               NA_BATCH_MAX - NA_CREDIT_MAX)) { /* a fork takes that long */
            na_defer_free(block);
            return;
        }
    }
    if (NA_UNLIKELY(na_harden != 0)) {
        na_link_set_waiting(block);
        na_hand_put(tcache, cls, block);
    } else {
        *na_block_next(block) = bin->head;
        bin->head = block;
        state->count++;
        state->pushes++;
        state->used = true;
    }
    if (all) na_young_flush(tcache, cls);
    na_bin_grant(tcache, cls);
}
