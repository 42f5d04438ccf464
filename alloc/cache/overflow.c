/* overflow.c - keeping batches, and sending them home. */
#include "alloc/cache/overflow.h"

#include <stdatomic.h>

#include "alloc/cache/bin.h"
#include "alloc/cache/remote.h"
#include "alloc/central/central.h"

enum { PROBE_EVERY = 16 }; /* mixed batches */

static uint32_t batch_bytes(unsigned cls, na_batch_t batch) {
    return na_batch_count(batch) * na_classes[cls].size;
}

NA_INLINE void push(na_tcache_t *tcache, unsigned cls, na_batch_t batch) {
    na_bin_state_t *state = &tcache->states[cls];
    na_batch_stack(batch, state->overflow);
    state->overflow = batch;
    state->overflow_batches++;
    tcache->overflow_moves++;
    tcache->overflow_bytes += batch_bytes(cls, batch);
}

static bool list_has(unsigned cls, const void *list, const void *block, uint32_t *left) {
    for (; *left != 0 && list != NULL && na_is_of_class(cls, list); --*left) {
        if (list == block) return true;
        list = *na_block_next((void *)(uintptr_t)list);
    }
    return false;
}

NA_COLD bool na_overflow_has_freed(na_tcache_t *tcache, unsigned cls, const void *block) {
    enum { LOOKED_AT = 4096 };
    const void *link = *na_block_next((void *)(uintptr_t)block);
    if (link != NULL && !na_is_of_class(cls, link)) return false; /* it is in no list */
    uint32_t left = LOOKED_AT;
    if (list_has(cls, tcache->bins[cls].head, block, &left)) return true;
    if (!na_gate_enter(tcache)) return false;
    bool has = false;
    for (na_batch_t batch = tcache->states[cls].overflow; batch != 0 && left != 0 && !has;
         batch = na_batch_below(batch))
        has = list_has(cls, na_batch_first(batch), block, &left);
    na_gate_leave(tcache);
    return has;
}

na_batch_t na_overflow_take(na_tcache_t *tcache, unsigned cls) {
    na_bin_state_t *state = &tcache->states[cls];
    na_batch_t batch = state->overflow;
    if (batch == 0) return 0;
    state->overflow = na_batch_unstack(batch);
    state->overflow_batches--;
    if (state->overflow_low > state->overflow_batches)
        state->overflow_low = state->overflow_batches;
    tcache->overflow_moves++;
    tcache->overflow_bytes -= batch_bytes(cls, batch);
    return batch;
}

static void all_home(na_tcache_t *tcache) {
    for (unsigned cls = 1; cls < NA_CLASS_COUNT && tcache->overflow_bytes != 0; cls++)
        for (na_batch_t batch; (batch = na_overflow_take(tcache, cls)) != 0;)
            na_batch_home(tcache, cls, batch);
}

/* All of it, and no more until the thread draws from its spans. */
static void stop_keeping(na_tcache_t *tcache) {
    all_home(tcache);
    tcache->overflow_limit = NA_OVERFLOW_LEAST;
    tcache->only_frees = true;
}

typedef enum density { SCATTERED, MIXED, DENSE } density_t;

enum { FEW = 4, LOOK = 17, NEAR = 64 * 1024 };

static bool is_near(const void *a, const void *b, uintptr_t near) {
    return (uintptr_t)b - (uintptr_t)a + near <= 2 * near;
}

/* Of the batch's newest blocks, which are in the cache: are the first few near each other (the
 * batch holds on to a span or two, or they lie side by side), or some at least near the one before?
 */
static density_t density_of(unsigned cls, na_batch_t batch) {
    uintptr_t size = na_classes[cls].size, near = FEW * size > NEAR ? FEW * size : NEAR;
    void *first = na_batch_first(batch), *block = first;
    uint32_t count = na_batch_count(batch), i = 1;
    bool some = false;
    for (; i < FEW && i < count; i++) {
        void *next = *na_block_next(block);
        some |= is_near(block, next, near);
        if (!is_near(first, next, near)) break;
        block = next;
    }
    if (i == FEW || i == count) return DENSE;
    for (; !some && i < LOOK && i < count; i++) {
        void *next = *na_block_next(block);
        some = is_near(block, next, near);
        block = next;
    }
    return some ? MIXED : SCATTERED;
}

/* Whether a batch has to do with frees in random order: it is not dense itself, and more of the
 * latest batches were scattered than were not. One scattered batch alone is no sign: a program that
 * frees in the order of allocation has one in five, once realloc has mixed its blocks. */
static bool is_in_random_order(na_tcache_t *tcache, density_t density) {
    enum { MOST = 2 * NA_SCATTERED_MANY };
    if (density == SCATTERED && tcache->scattered < MOST)
        tcache->scattered++;
    else if (density != SCATTERED && tcache->scattered > 0)
        tcache->scattered--;
    return density != DENSE && na_overflow_is_scattered(tcache);
}

/* Sends a batch home to see what keeping the others costs: more in pages than in blocks by far? */
static bool is_costly(na_tcache_t *tcache, unsigned cls, na_batch_t batch) {
    enum { PAGES_TO_BLOCKS = 4 };
    size_t bytes = batch_bytes(cls, batch);
    return na_batch_home(tcache, cls, batch) > PAGES_TO_BLOCKS * bytes;
}

void na_overflow(na_tcache_t *tcache, unsigned cls, na_batch_t batch) {
    const na_bin_state_t *state = &tcache->states[cls];
    bool pooled = na_classes[cls].pooled;
    bool from_others = pooled && state->pushes > state->pops;
    if (tcache->only_frees || from_others) {
        if (!pooled || !na_transfer_put(tcache->node, cls, tcache->id, batch))
            na_batch_home(tcache, cls, batch);
        return;
    }
    density_t density = density_of(cls, batch);
    if (is_in_random_order(tcache, density)) { /* while its blocks are in the cache */
        if (!pooled || !na_transfer_is_wanted(tcache->node, cls) ||
            !na_transfer_put(tcache->node, cls, tcache->id, batch))
            na_batch_home(tcache, cls, batch);
        return;
    }
    if (density != DENSE && ++tcache->overflow_in_a_row == PROBE_EVERY) {
        tcache->overflow_in_a_row = 0;
        if (is_costly(tcache, cls, batch)) stop_keeping(tcache);
        return;
    }
    if (pooled) { /* the older one, if others want it */
        na_batch_t old = na_overflow_take(tcache, cls);
        if (old != 0 && !na_transfer_put(tcache->node, cls, tcache->id, old))
            push(tcache, cls, old);
    }
    push(tcache, cls, batch);
    if (tcache->overflow_bytes > tcache->overflow_limit) {
        tcache->overflow_sent = tcache->overflow_bytes;
        stop_keeping(tcache);
    }
}

void na_overflow_remote(na_tcache_t *tcache, unsigned cls, na_batch_t stack) {
    while (stack != 0) {
        na_batch_t next = na_batch_unstack(stack);
        push(tcache, cls, stack);
        stack = next;
    }
}

void na_overflow_raise(na_tcache_t *tcache) {
    tcache->only_frees = false;
    uint32_t share = NA_OVERFLOW_TOTAL / na_tcache_attached();
    uint32_t most = NA_OVERFLOW_MAX << tcache->overflow_waves;
    if (share > most) share = most;
    if (share < NA_OVERFLOW_LEAST) share = NA_OVERFLOW_LEAST;
    tcache->overflow_limit =
        tcache->overflow_limit < share / 2 ? tcache->overflow_limit * 2 : share;
}

void na_overflow_flush(na_tcache_t *tcache) {
    all_home(tcache);
    na_remote_drain(tcache);
}

NA_COLD void na_overflow_scavenge(na_tcache_t *tcache) {
    if (tcache->overflow_moves == tcache->overflow_seen && tcache->overflow_bytes != 0) {
        uint32_t rest =
            tcache->overflow_bytes > NA_OTHERS_BYTES ? tcache->overflow_bytes - NA_OTHERS_BYTES : 0;
        for (unsigned cls = 1; cls < NA_CLASS_COUNT && tcache->overflow_bytes > rest; cls++) {
            if (tcache->states[cls].overflow == 0) continue;
            while (tcache->overflow_bytes > rest && tcache->states[cls].overflow != 0)
                na_batch_home(tcache, cls, na_overflow_take(tcache, cls));
            na_tcache_trim_spans(tcache, cls);
        }
    }
    tcache->overflow_seen = tcache->overflow_moves;
}

void na_overflow_decay(na_tcache_t *tcache, unsigned cls) {
    na_bin_state_t *state = &tcache->states[cls];
    for (uint16_t idle = state->overflow_low; idle > 0; idle--)
        na_batch_home(tcache, cls, na_overflow_take(tcache, cls));
    state->overflow_low = state->overflow_batches;
}
