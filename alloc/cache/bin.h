/* bin.h - the slow half of a bin: its accounts, what fills it and what empties it.
 *
 * The credit of a bin is renewed when it is spent: what was popped and pushed since is counted, and
 * new credit granted (thread_cache.h says what credits are). Most renewals have nothing to do but
 * that: they are quick. The next one is complete, and looks besides at the clock, at what is due
 * and at the blocks that were freed last.
 *
 *   dry bin   <-  overflow batches, remote free list, transfer cache, span list, new span
 *   full bin  ->  an overflow batch (overflow.h)
 *
 * The list of a bin, and of a batch, ends where its count says: its last block links to none. So
 * whoever comes to an end looks: a bin that is counted dry has no block left, and a list that goes
 * home has as many as were counted. A block that was freed twice, or written to, makes a list
 * longer or shorter, mostly; that is reported then (misuse.h), where it is by more than a signal
 * handler may have interrupted (na_list_is_one).
 *
 * All by the thread that the cache belongs to, but for na_bin_count, _empty and _grant and
 * na_list_home, which are its holder's. */
#ifndef NUMALLOC_ALLOC_CACHE_BIN_H
#define NUMALLOC_ALLOC_CACHE_BIN_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "alloc/cache/hand.h"
#include "alloc/cache/thread_cache.h"
#include "alloc/track/misuse.h"
#include "alloc/track/section.h"

/* --- accounts --- */

/* Brings a bin's count up to date with what its thread popped and pushed; true if it did any.
 * Leaves no credit: na_bin_grant follows. */
bool na_bin_count(na_tcache_t *tcache, unsigned cls);
/* The thread cache's first use of a class; before that nothing of the bin's state is written, so
 * that a thread touches no page for classes it does not use. */
void na_bin_begin(na_tcache_t *tcache, unsigned cls);
/* Grants credit for what is in the bin now. */
void na_bin_grant(na_tcache_t *tcache, unsigned cls);

/* A complete renewal for a class that is about to be used, up to the grant, after the look at the
 * clock (malloc/poll.h). Not behind the gate. */
void na_bin_renew(na_tcache_t *tcache, unsigned cls);
/* The same without a look at the blocks that were freed last. */
NA_INLINE void na_bin_open(na_tcache_t *tcache, unsigned cls) {
    if (NA_UNLIKELY(tcache->states[cls].cap == 0)) na_bin_begin(tcache, cls);
    na_bin_count(tcache, cls);
}

/* --- filling and emptying --- */

/* The bin has a block, or gets one, for na_bin_take to follow; from new memory if it is to `grow`.
 * False: there is none, or the gate was refused. */
bool na_bin_fill(na_tcache_t *tcache, unsigned cls, bool grow);
/* The same, where it has some: a few more, if it has been short of blocks for a while. */
void na_bin_top_up(na_tcache_t *tcache, unsigned cls);
/* Hardened, of a bin that is counted: any of several blocks (hand.h), or of as many as there is
 * memory for. NULL: none is sound. */
void *na_bin_draw(na_tcache_t *tcache, unsigned cls);
/* The next block will come from the transfer cache or from spans. Not behind the gate. */
bool na_bin_is_dry(na_tcache_t *tcache, unsigned cls);

/* The block of the class goes to the bin, whose credit is renewed. What a full one held goes on.
 * After the look at the clock. */
void na_bin_put(na_tcache_t *tcache, unsigned cls, void *block);

/* Bin and overflow batches of a class go to the transfer cache or to their spans. Counted before,
 * granted after by the caller. Behind the gate. */
void na_bin_empty(na_tcache_t *tcache, unsigned cls);
/* Returns a list of `count` blocks of a class to the spans they came from; the bytes of spans that
 * went to the page heap for it. Behind the gate. */
size_t na_list_home(na_tcache_t *tcache, unsigned cls, void *list, uint32_t count);
NA_INLINE size_t na_batch_home(na_tcache_t *tcache, unsigned cls, na_batch_t batch) {
    return na_list_home(tcache, cls, na_batch_first(batch), na_batch_count(batch));
}

/* Of a bin that is counted, and has a block. Not where malloc is hardened: na_bin_draw. */
NA_INLINE void *na_bin_take(na_tcache_t *tcache, unsigned cls) {
    na_bin_t *bin = &tcache->bins[cls];
    void *block = bin->head;
    na_bin_state_t *state = &tcache->states[cls];
    bin->head = state->untouched ? NULL : *na_block_next(block);
    state->untouched = false;
    state->count--;
    state->pops++;
    state->until_sample -= na_classes[cls].size;
    state->used = true;
    return block;
}

/* A nearly full bin may be overfilled a little: a thread that pops and pushes in turn would renew
 * at every push otherwise, and never run over. One that may hold nothing gets nothing. */
NA_INLINE int32_t na_bin_least_push(const na_bin_state_t *state) {
    return state->hold / 4 + (state->hold != 0);
}

/* --- extending credit ---
 *
 * A bin of a few blocks, all that may be of the larger classes, has credit for as few operations.
 * Where its thread pops and pushes in turn, what it pushed may be popped as well, and the other way
 * round: what was granted grows by that, and nothing else is looked at. A bin that was granted
 * `extended_most`, that is dry or full, is to be renewed: then nothing has changed. */

/* As if granted from the start: for what was popped and pushed since, and for the blocks left. */
NA_INLINE bool na_bin_extend(na_bin_t *bin, na_bin_state_t *state, int32_t popped, int32_t pushed,
                             int32_t blocks) {
    int32_t room = state->hold - blocks, least = na_bin_least_push(state);
    if (room < least) room = least;
    if (popped + blocks > state->extended_most || pushed + room > state->extended_most)
        return false;
    bin->pop = (int16_t)blocks;
    bin->push = (int16_t)room;
    state->granted_pop = (int16_t)(popped + blocks);
    state->granted_push = (int16_t)(pushed + room);
    return true;
}

/* The pop credit is spent: a block, or NULL. */
NA_INLINE void *na_bin_extend_pop(na_tcache_t *tcache, unsigned cls) {
    na_bin_t *bin = &tcache->bins[cls];
    na_bin_state_t *state = &tcache->states[cls];
    if (state->granted_pop >= state->extended_most) return NULL;
    int32_t popped = state->granted_pop + 1, pushed = state->granted_push - bin->push;
    int32_t blocks = (int32_t)state->count + pushed - popped;
    if (blocks < 0 || !na_bin_extend(bin, state, popped, pushed, blocks)) return NULL;
    void *block = bin->head;
    bin->head = *na_block_next(block);
    return block;
}

/* The push credit is spent. */
NA_INLINE bool na_bin_extend_push(na_tcache_t *tcache, unsigned cls, void *block) {
    na_bin_t *bin = &tcache->bins[cls];
    na_bin_state_t *state = &tcache->states[cls];
    if (state->granted_push >= state->extended_most) return false;
    int32_t popped = state->granted_pop - bin->pop, pushed = state->granted_push + 1;
    int32_t blocks = (int32_t)state->count + pushed - popped;
    if (blocks > state->hold || !na_bin_extend(bin, state, popped, pushed, blocks)) return false;
    *na_block_next(block) = bin->head;
    bin->head = block;
    return true;
}

/* --- quick renewals ---
 *
 * Most renewals find a bin that is neither dry nor full and have nothing to do but to count and to
 * grant. NA_QUICK of them in a row do no more than that, and look at the link that the next pop
 * will follow, and at the lowest bits of the block that is freed; the next one is complete: the
 * clock, what is due, misuse. A quick renewal that finds that it will not do has changed nothing.
 */

/* A complete renewal comes: it counts as a slow path for each quick one before it as well. */
NA_INLINE void na_bin_count_quick(na_tcache_t *tcache) {
    if (NA_UNLIKELY(na_every_event)) return;
    tcache->slow_calls += NA_QUICK - tcache->quick;
    tcache->quick = NA_QUICK;
}

/* On a machine with several nodes every renewal sees to it that a thread which has moved is
 * noticed. */
NA_INLINE bool na_bin_may_be_quick(const na_tcache_t *tcache) {
    return NA_LIKELY(tcache->quick != 0) && NA_LIKELY(!na_section_alarmed(&tcache->track)) &&
           (NA_LIKELY(!na_tcache_watched(tcache)) || !na_tcache_is_away(tcache));
}

/* The list behind its first block, which is the newest of `count`, goes on to another block of the
 * class. */
NA_INLINE bool na_bin_goes_on(const void *block, unsigned cls, uint32_t count) {
    const void *next = *na_block_next((void *)(uintptr_t)block);
    return count == 1 || (next != block && na_is_of_class(cls, next));
}

/* Whether all that may be granted is popped before a sample is due, `pops` from now. */
NA_INLINE bool na_bin_is_unsampled(const na_bin_state_t *state, int32_t pops) {
    return NA_LIKELY(state->until_sample >= ((int64_t)NA_CREDIT_MAX + pops) * state->size);
}

NA_INLINE void na_bin_account(na_tcache_t *tcache, unsigned cls, int32_t count, int32_t pops,
                              int32_t pushes) {
    na_bin_t *bin = &tcache->bins[cls];
    na_bin_state_t *state = &tcache->states[cls];
    tcache->quick--;
    state->count = (uint32_t)count;
    state->pops += (uint32_t)pops;
    state->pushes += (uint32_t)pushes;
    state->until_sample -= (int64_t)pops * state->size;
    state->used = true;
    int32_t push = state->hold - count, least = na_bin_least_push(state);
    if (push < least) push = least;
    if (count > NA_CREDIT_MAX) count = NA_CREDIT_MAX;
    bin->push = state->granted_push = (int16_t)push;
    bin->pop = state->granted_pop = (int16_t)count;
}

/* The pop credit is spent: a block, or NULL: this renewal must be a complete one. */
NA_INLINE void *na_bin_quick_pop(na_tcache_t *tcache, unsigned cls) {
    na_bin_t *bin = &tcache->bins[cls];
    na_bin_state_t *state = &tcache->states[cls];
    if (!na_bin_may_be_quick(tcache)) return NULL;
    int32_t pops = state->granted_pop, pushes = state->granted_push - bin->push;
    int32_t count = (int32_t)state->count + pushes - pops;
    void *block = bin->head;
    if (NA_UNLIKELY(count <= state->least) || !na_bin_is_unsampled(state, pops + 1) ||
        NA_UNLIKELY(!na_bin_goes_on(block, cls, (uint32_t)count)))
        return NULL;
    bin->head = *na_block_next(block);
    state->thin = 0;
    na_bin_account(tcache, cls, count - 1, pops + 1, pushes);
    return block;
}

/* The push credit is spent. False: this renewal must be a complete one. */
NA_INLINE bool na_bin_quick_push(na_tcache_t *tcache, unsigned cls, void *block) {
    na_bin_t *bin = &tcache->bins[cls];
    na_bin_state_t *state = &tcache->states[cls];
    if (!na_bin_may_be_quick(tcache)) return false;
    int32_t pops = state->granted_pop - bin->pop, pushes = state->granted_push;
    int32_t count = (int32_t)state->count + pushes - pops;
    if (NA_UNLIKELY(count >= state->hold) || !na_bin_is_unsampled(state, pops) ||
        NA_UNLIKELY((uintptr_t)block % NA_CLASS_STEP != 0)) /* the middle of one */
        return false;
    *na_block_next(block) = bin->head;
    if (NA_UNLIKELY(!na_bin_goes_on(block, cls, (uint32_t)count + 1))) return false;
    bin->head = block;
    na_bin_account(tcache, cls, count + 1, pops, pushes + 1);
    return true;
}

#endif
