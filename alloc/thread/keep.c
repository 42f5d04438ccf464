/* keep.c - keeping chains, and sending them home. */
#include "alloc/thread/keep.h"

#include <stdatomic.h>

#include "alloc/central/central.h"
#include "alloc/thread/cache.h"

enum { PROBE_EVERY = 16 }; /* mixed chains */

static uint32_t bytes_of(unsigned cls, na_chain_t chain) {
    return na_chain_count(chain) * na_classes[cls].size;
}

static void push(na_heap_t *heap, unsigned cls, na_chain_t chain) {
    na_bin_state_t *state = &heap->states[cls];
    *na_chain_next(chain) = state->kept;
    state->kept = chain;
    state->kept_chains++;
    heap->kept_moves++;
    heap->kept_bytes += bytes_of(cls, chain);
}

na_chain_t na_keep_take(na_heap_t *heap, unsigned cls) {
    na_bin_state_t *state = &heap->states[cls];
    na_chain_t chain = state->kept;
    if (chain == 0) return 0;
    state->kept = *na_chain_next(chain);
    state->kept_chains--;
    if (state->kept_low > state->kept_chains) state->kept_low = state->kept_chains;
    heap->kept_moves++;
    heap->kept_bytes -= bytes_of(cls, chain);
    return chain;
}

static void all_home(na_heap_t *heap) {
    for (unsigned cls = 1; cls < NA_CLASS_COUNT && heap->kept_bytes != 0; cls++)
        for (na_chain_t chain; (chain = na_keep_take(heap, cls)) != 0;)
            na_list_home(heap, cls, na_chain_first(chain));
}

/* All of it, and no more until the thread draws from its spans. */
static void stop_keeping(na_heap_t *heap) {
    all_home(heap);
    heap->keep_limit = NA_KEEP_LEAST;
    heap->only_frees = true;
}

typedef enum density { SCATTERED, MIXED, DENSE } density_t;

static bool is_near(const void *a, const void *b) {
    enum { NEAR = 64 * 1024 };
    return (uintptr_t)b - (uintptr_t)a + NEAR <= 2 * NEAR;
}

/* Of the chain's newest blocks, which are in the cache: are the first few near each other (the
 * chain holds on to a span or two), or some at least near the one before? */
static density_t density_of(na_chain_t chain) {
    enum { FEW = 4, LOOK = 17 };
    void *first = na_chain_first(chain), *block = first;
    uint32_t count = na_chain_count(chain), i = 1;
    bool some = false;
    for (; i < FEW && i < count; i++) {
        void *next = *na_block_next(block);
        some |= is_near(block, next);
        if (!is_near(first, next)) break;
        block = next;
    }
    if (i == FEW || i == count) return DENSE;
    for (; !some && i < LOOK && i < count; i++) {
        void *next = *na_block_next(block);
        some = is_near(block, next);
        block = next;
    }
    return some ? MIXED : SCATTERED;
}

/* Whether a chain has to do with frees in random order: it is not dense itself, and more of the
 * latest chains were scattered than were not. One scattered chain alone is no sign: a program that
 * frees in the order of allocation has one in five, once realloc has mixed its blocks. */
static bool is_in_random_order(na_heap_t *heap, density_t density) {
    enum { MOST = 2 * NA_SCATTERED_MANY };
    if (density == SCATTERED && heap->scattered < MOST)
        heap->scattered++;
    else if (density != SCATTERED && heap->scattered > 0)
        heap->scattered--;
    return density != DENSE && na_keep_is_scattered(heap);
}

/* Sends a chain home to see what keeping the others costs: more in pages than in blocks by far? */
static bool is_costly(na_heap_t *heap, unsigned cls, na_chain_t chain) {
    enum { PAGES_TO_BLOCKS = 4 };
    size_t bytes = bytes_of(cls, chain);
    return na_list_home(heap, cls, na_chain_first(chain)) > PAGES_TO_BLOCKS * bytes;
}

void na_keep(na_heap_t *heap, unsigned cls, na_chain_t chain) {
    const na_bin_state_t *state = &heap->states[cls];
    bool pooled = na_classes[cls].pooled;
    bool from_others = pooled && state->pushes > state->pops;
    if (heap->only_frees || from_others) {
        if (!pooled || !na_depot_put(heap->node, cls, heap->id, chain))
            na_list_home(heap, cls, na_chain_first(chain));
        return;
    }
    density_t density = density_of(chain);
    if (is_in_random_order(heap, density)) { /* while its blocks are in the cache */
        na_list_home(heap, cls, na_chain_first(chain));
        return;
    }
    if (density != DENSE && ++heap->kept_in_a_row == PROBE_EVERY) {
        heap->kept_in_a_row = 0;
        if (is_costly(heap, cls, chain)) stop_keeping(heap);
        return;
    }
    if (pooled) { /* the older one, if others want it */
        na_chain_t old = na_keep_take(heap, cls);
        if (old != 0 && !na_depot_put(heap->node, cls, heap->id, old)) push(heap, cls, old);
    }
    push(heap, cls, chain);
    if (heap->kept_bytes > heap->keep_limit) stop_keeping(heap);
}

void na_keep_mail(na_heap_t *heap, unsigned cls, na_chain_t stack) {
    while (stack != 0) {
        na_chain_t next = *na_chain_next(stack);
        push(heap, cls, stack);
        stack = next;
    }
}

void na_keep_raise(na_heap_t *heap) {
    heap->only_frees = false;
    uint32_t share = NA_KEEP_TOTAL / na_heap_attached();
    if (share > NA_KEEP_MAX) share = NA_KEEP_MAX;
    if (share < NA_KEEP_LEAST) share = NA_KEEP_LEAST;
    heap->keep_limit = heap->keep_limit < share / 2 ? heap->keep_limit * 2 : share;
}

void na_keep_yield(na_heap_t *heap) {
    all_home(heap);
    na_heap_sort_mail(heap);
}

void na_keep_reclaim(na_heap_t *heap) {
    enum { AT_ONCE = 1 << 20 };
    if (heap->kept_moves == heap->kept_seen && heap->kept_bytes != 0) {
        uint32_t rest = heap->kept_bytes > AT_ONCE ? heap->kept_bytes - AT_ONCE : 0;
        for (unsigned cls = 1; cls < NA_CLASS_COUNT && heap->kept_bytes > rest; cls++) {
            if (heap->states[cls].kept == 0) continue;
            while (heap->kept_bytes > rest && heap->states[cls].kept != 0)
                na_list_home(heap, cls, na_chain_first(na_keep_take(heap, cls)));
            na_heap_trim_spans(heap, cls);
        }
    }
    heap->kept_seen = heap->kept_moves;
}

void na_keep_age(na_heap_t *heap, unsigned cls) {
    na_bin_state_t *state = &heap->states[cls];
    for (uint16_t idle = state->kept_low; idle > 0; idle--)
        na_list_home(heap, cls, na_chain_first(na_keep_take(heap, cls)));
    state->kept_low = state->kept_chains;
}
