/* run_cache.c - the run cache of each node. See run_cache.h. */
#include "alloc/page/run_cache.h"

#include "alloc/page/pagestore.h"
#include "alloc/page/pressure.h"
#include "alloc/page/scavenge_policy.h"
#include "alloc/sys/lock.h"
#include "alloc/sys/options.h"
#include "alloc/sys/topology.h"
#include "pagemap/pagemap.h"

/* 10 halves of a page or more: three bits behind the highest. */
#define DOUBLING(halves) (31u ^ (unsigned)__builtin_clz(halves))
#define OF_HALVES(halves)                                                                          \
    (uint8_t)(8 * DOUBLING(halves) + ((halves) >> (DOUBLING(halves) - 3)) - 34)
#define SLOT(pages)    OF_HALVES(2u * ((pages) < NA_RUN_CACHE_LEAST ? NA_RUN_CACHE_LEAST : (pages)))
#define SLOTS_4(pages) SLOT(pages), SLOT((pages) + 1), SLOT((pages) + 2), SLOT((pages) + 3)
#define SLOTS_16(pages)                                                                            \
    SLOTS_4(pages), SLOTS_4((pages) + 4), SLOTS_4((pages) + 8), SLOTS_4((pages) + 12)
#define SLOTS_64(pages)                                                                            \
    SLOTS_16(pages), SLOTS_16((pages) + 16), SLOTS_16((pages) + 32), SLOTS_16((pages) + 48)
const uint8_t na_run_slots[NA_RUN_CACHE_PAGES] = {
    SLOTS_64(1u),   SLOTS_64(65u),  SLOTS_64(129u), SLOTS_64(193u),
    SLOTS_64(257u), SLOTS_64(321u), SLOTS_64(385u), SLOTS_64(449u),
};

typedef struct run_cache {
    _Alignas(NA_CACHE_LINE) na_lock_t lock;
    _Atomic(uint64_t) bytes; /* changed under the lock */
    na_run_slots_t slots;
    uint32_t count[NA_RUN_SLOTS], least[NA_RUN_SLOTS]; /* runs; the fewest since the last decay */
    uint32_t runs;
    unsigned hand;   /* slot that evicts next */
    uint64_t filled; /* slots with a run: one bit each */
} run_cache_t;

na_large_spans_t na_large_spans[NA_MAX_NODES + 1] NA_SPARSE;
static run_cache_t run_caches[NA_MAX_NODES + 1] NA_SPARSE;

static size_t bytes_of(const na_span_t *run) {
    return (size_t)run->pages << NA_PAGE_SHIFT;
}

static void change_bytes(run_cache_t *cache, uint64_t by) {
    uint64_t bytes = atomic_load_explicit(&cache->bytes, memory_order_relaxed);
    atomic_store_explicit(&cache->bytes, bytes + by, memory_order_relaxed);
}

bool na_run_cache_may_keep(void) {
    return !na_pressure_is_critical() && na_option(NA_OPT_PURGE_DELAY) != 0;
}

uint64_t na_run_cache_bytes(unsigned node) {
    return atomic_load_explicit(&run_caches[node].bytes, memory_order_relaxed);
}

/* A guess: the page heap's lock is not held. */
NA_RACY uint64_t na_run_cache_share(unsigned node) {
    uint64_t used = *(volatile uint64_t *)&na_pagestores[node].used << NA_PAGE_SHIFT;
    uint64_t part = used / NA_KEPT_PART;
    return part < NA_KEPT_LEAST ? NA_KEPT_LEAST : part > NA_KEPT_MOST ? NA_KEPT_MOST : part;
}

void na_run_cache_release(na_span_t *run) {
    atomic_fetch_sub_explicit(&na_large_spans[run->home].bytes, bytes_of(run),
                              memory_order_relaxed);
    na_pagemap_remove(run);
    na_pageheap_free(run->node, run->start, run->pages);
    na_span_delete(run);
}

static size_t release_all(na_span_t *runs) {
    size_t bytes = 0;
    while (runs != NULL) {
        na_span_t *next = runs->next;
        bytes += bytes_of(runs);
        na_run_cache_release(runs);
        runs = next;
    }
    return bytes;
}

/* With the lock. */
static na_span_t *pop(run_cache_t *cache, na_span_t **head) {
    na_span_t *run = *head;
    *head = run->next;
    unsigned slot = run->run_slot;
    if (--cache->count[slot] < cache->least[slot]) cache->least[slot] = cache->count[slot];
    if (cache->count[slot] == 0) cache->filled &= ~(UINT64_C(1) << slot);
    cache->runs--;
    change_bytes(cache, -(uint64_t)bytes_of(run));
    return run;
}

/* With the lock: takes a few runs, slot after slot, while there are more bytes than may be, but for
 * one run. */
static na_span_t *evict(run_cache_t *cache, uint64_t most) {
    enum { AT_ONCE = 2 }; /* more than the one that was put: what may be kept falls, too */
    na_span_t *evicted = NULL;
    for (unsigned i = 0; i < AT_ONCE && cache->bytes > most && cache->runs > 1; i++) {
        uint64_t ahead = cache->filled >> cache->hand << cache->hand;
        unsigned slot = (unsigned)__builtin_ctzll(ahead != 0 ? ahead : cache->filled);
        na_span_t *run = pop(cache, &cache->slots.head[slot]);
        cache->hand = slot + 1; /* below 64 */
        run->next = evicted;
        evicted = run;
    }
    return evicted;
}

bool na_run_cache_put(na_span_t *run) {
    run_cache_t *cache = &run_caches[run->node];
    if (!na_run_cache_may_keep()) return false;
    uint64_t most = na_run_cache_share(run->node);
    na_lock(&cache->lock);
    na_run_push(&cache->slots, run);
    cache->count[run->run_slot]++;
    cache->filled |= UINT64_C(1) << run->run_slot;
    cache->runs++;
    change_bytes(cache, bytes_of(run));
    na_span_t *evicted = NA_UNLIKELY(cache->bytes > most) ? evict(cache, most) : NULL;
    na_unlock(&cache->lock);
    release_all(evicted);
    return true;
}

na_span_t *na_run_cache_take(unsigned node, uint32_t pages) {
    run_cache_t *cache = &run_caches[node];
    if (na_run_cache_bytes(node) == 0) return NULL;
    na_lock(&cache->lock);
    na_span_t **head = na_run_fit(&cache->slots, pages);
    na_span_t *run = head != NULL ? pop(cache, head) : NULL;
    na_unlock(&cache->lock);
    return run;
}

/* Of each slot all runs, or as many as were not used since the last time. */
static size_t give_back(run_cache_t *cache, bool all) {
    na_span_t *given = NULL;
    na_lock(&cache->lock);
    for (unsigned slot = 0; slot < NA_RUN_SLOTS; slot++) {
        uint32_t left = all ? cache->count[slot] : cache->least[slot];
        for (; left > 0; left--) {
            na_span_t *run = pop(cache, &cache->slots.head[slot]);
            run->next = given;
            given = run;
        }
        cache->least[slot] = cache->count[slot];
    }
    na_unlock(&cache->lock);
    return release_all(given);
}

void na_run_cache_decay(unsigned node) {
    if (na_run_cache_bytes(node) != 0) give_back(&run_caches[node], false);
}

size_t na_run_cache_trim(unsigned node) {
    return na_run_cache_bytes(node) != 0 ? give_back(&run_caches[node], true) : 0;
}

size_t na_run_cache_trim_all(void) {
    size_t bytes = 0;
    for (unsigned node = 0; node <= NA_NODE_ANY; node = na_node_next(node))
        bytes += na_run_cache_trim(node);
    return bytes;
}

void na_run_cache_after_fork_child(void) {
    for (unsigned node = 0; node <= NA_NODE_ANY; node = na_node_next(node))
        na_lock_reset(&run_caches[node].lock);
}
