/* run_cache.c - the run cache of each node. See run_cache.h. */
#include "alloc/page/run_cache.h"

#include <string.h>

#include "alloc/machine/topology.h"
#include "alloc/page/free_pages.h"
#include "alloc/page/pressure.h"
#include "alloc/page/scavenge_policy.h"
#include "alloc/sys/lock.h"
#include "alloc/sys/options.h"
#include "pagemap/pagemap.h"

/* Three bits behind the highest of 8 halves of a page or more. */
#define DOUBLING(halves) (31u ^ (unsigned)__builtin_clz(halves))
#define OF_HALVES(halves)                                                                          \
    (uint8_t)(8 * DOUBLING(halves) + ((halves) >> (DOUBLING(halves) - 3)) - 32)
#define LEAST          (NA_RUN_CACHE_LEAST - 1)
#define SLOT(last)     OF_HALVES(2u * ((last) < LEAST ? LEAST : (last)))
#define SLOTS_4(last)  SLOT(last), SLOT((last) + 1), SLOT((last) + 2), SLOT((last) + 3)
#define SLOTS_16(last) SLOTS_4(last), SLOTS_4((last) + 4), SLOTS_4((last) + 8), SLOTS_4((last) + 12)
#define SLOTS_64(last)                                                                             \
    SLOTS_16(last), SLOTS_16((last) + 16), SLOTS_16((last) + 32), SLOTS_16((last) + 48)
#define SLOTS_256(last)                                                                            \
    SLOTS_64(last), SLOTS_64((last) + 64), SLOTS_64((last) + 128), SLOTS_64((last) + 192)
const uint8_t na_run_slots[NA_RUN_CACHE_PAGES] = {SLOTS_256(0u), SLOTS_256(256u), SLOTS_256(512u),
                                                  SLOTS_256(768u)};

typedef struct run_cache {
    _Alignas(NA_CACHE_LINE) na_lock_t lock;
    _Atomic(uint64_t) bytes; /* changed under the lock */
    na_run_slots_t slots;
    uint32_t count[NA_RUN_SLOTS], least[NA_RUN_SLOTS]; /* runs; the fewest since the last decay */
    uint32_t runs;
    unsigned hand;   /* slot that evicts next */
    uint64_t filled; /* slots with a run: one bit each */
    /* Since the last decay: runs evicted that were not wanted back; bytes that were; of the latter
     * none is left to double for. */
    uint16_t evicted[NA_RUN_SLOTS];
    bool any_evicted;
    uint64_t regret;
    _Atomic(uint32_t) doublings; /* of the part that may be kept */
} run_cache_t;

na_large_spans_t na_large_spans[NA_MAX_NODES + 1] NA_SPARSE;
static run_cache_t run_caches[NA_MAX_NODES + 1] NA_SPARSE;

static size_t run_bytes(const na_span_t *run) {
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
    uint64_t used = *(volatile uint64_t *)&na_free_pages[node].used << NA_PAGE_SHIFT;
    uint32_t doublings = atomic_load_explicit(&run_caches[node].doublings, memory_order_relaxed);
    uint64_t part = (used << doublings) / NA_KEPT_PART;
    return part < NA_KEPT_LEAST ? NA_KEPT_LEAST : part > NA_KEPT_MOST ? NA_KEPT_MOST : part;
}

void na_run_cache_release(na_span_t *run) {
    atomic_fetch_sub_explicit(&na_large_spans[run->home].bytes, run_bytes(run),
                              memory_order_relaxed);
    na_pagemap_remove(run);
    na_pageheap_free(run->node, run->start, run->pages);
    na_span_delete(run);
}

static size_t release_all(na_span_t *runs) {
    size_t bytes = 0;
    while (runs != NULL) {
        na_span_t *next = runs->next;
        bytes += run_bytes(runs);
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
    change_bytes(cache, -(uint64_t)run_bytes(run));
    return run;
}

/* With the lock: takes some runs, slot after slot, while there are more bytes than may be, but for
 * one run. What came last stays longest. */
static na_span_t *evict(run_cache_t *cache, uint64_t most, unsigned at_once, unsigned newest) {
    na_span_t *evicted = NULL;
    for (unsigned i = 0; i < at_once && cache->bytes > most && cache->runs > 1; i++) {
        uint64_t from = cache->filled & ~(UINT64_C(1) << newest);
        if (from == 0) from = cache->filled;
        uint64_t ahead = from >> cache->hand << cache->hand;
        unsigned slot = (unsigned)__builtin_ctzll(ahead != 0 ? ahead : from);
        na_span_t *run = pop(cache, &cache->slots.head[slot]);
        cache->hand = (slot + 1) % NA_RUN_SLOTS;
        if (cache->evicted[slot] < UINT16_MAX) cache->evicted[slot]++;
        __atomic_store_n(&cache->any_evicted, true, __ATOMIC_RELAXED);
        run->next = evicted;
        evicted = run;
    }
    return evicted;
}

void na_run_cache_put(unsigned node, na_span_t *runs) {
    run_cache_t *cache = &run_caches[node];
    uint64_t most = na_run_cache_share(node);
    unsigned count = 0, newest = runs->run_slot;
    na_lock(&cache->lock);
    while (runs != NULL) {
        na_span_t *run = runs;
        runs = run->next;
        na_run_push(&cache->slots, run);
        cache->count[run->run_slot]++;
        cache->filled |= UINT64_C(1) << run->run_slot;
        change_bytes(cache, run_bytes(run));
        count++;
    }
    cache->runs += count;
    /* One more than came: what may be kept falls, too. */
    na_span_t *evicted =
        NA_UNLIKELY(cache->bytes > most) ? evict(cache, most, count + 1, newest) : NULL;
    na_unlock(&cache->lock);
    release_all(evicted);
}

/* With the lock: there was no run. Of a slot of which several were evicted it would have been. */
static NA_COLD void miss(run_cache_t *cache, unsigned node, uint32_t pages) {
    enum { WAVE = 4 };
    unsigned slot = na_run_slot(pages);
    if (na_node_many || cache->evicted[slot] < WAVE) return;
    cache->evicted[slot]--;
    cache->regret += (uint64_t)pages << NA_PAGE_SHIFT;
    uint32_t doublings = atomic_load_explicit(&cache->doublings, memory_order_relaxed);
    _Static_assert((NA_KEPT_PART & (NA_KEPT_PART - 1)) == 0, "it doubles up to all");
    if (cache->regret < na_run_cache_share(node) || NA_KEPT_PART >> doublings == 1) return;
    cache->regret = 0;
    atomic_store_explicit(&cache->doublings, doublings + 1, memory_order_relaxed);
}

na_span_t *na_run_cache_take(unsigned node, uint32_t pages, int64_t room) {
    run_cache_t *cache = &run_caches[node];
    if (na_run_cache_bytes(node) == 0 && !__atomic_load_n(&cache->any_evicted, __ATOMIC_RELAXED))
        return NULL;
    na_lock(&cache->lock);
    na_span_t **head = na_run_fit(&cache->slots, pages);
    na_span_t *run = head != NULL ? pop(cache, head) : NULL;
    if (NA_LIKELY(run != NULL)) {
        na_span_t *last = run;
        for (unsigned i = 1; i < NA_RUN_BATCH && *head != NULL; i++) {
            room -= (int64_t)run_bytes(*head);
            if (room < 0) break;
            last->next = pop(cache, head);
            last = last->next;
        }
        last->next = NULL;
    } else if (cache->any_evicted) {
        miss(cache, node, pages);
    }
    na_unlock(&cache->lock);
    return run;
}

/* Of each slot all runs, or as many as were not used since the last time. */
static size_t trim_slots(run_cache_t *cache, bool all) {
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

/* The program has not worked in waves since the last time. */
static void forget_waves(run_cache_t *cache) {
    na_lock(&cache->lock);
    uint32_t doublings = atomic_load_explicit(&cache->doublings, memory_order_relaxed);
    if (cache->regret == 0 && doublings != 0)
        atomic_store_explicit(&cache->doublings, doublings - 1, memory_order_relaxed);
    cache->regret = 0;
    memset(cache->evicted, 0, sizeof cache->evicted);
    __atomic_store_n(&cache->any_evicted, false, __ATOMIC_RELAXED);
    na_unlock(&cache->lock);
}

void na_run_cache_decay(unsigned node) {
    run_cache_t *cache = &run_caches[node];
    if (na_run_cache_bytes(node) != 0) trim_slots(cache, false);
    if (__atomic_load_n(&cache->any_evicted, __ATOMIC_RELAXED) ||
        atomic_load_explicit(&cache->doublings, memory_order_relaxed) != 0)
        forget_waves(cache);
}

size_t na_run_cache_trim(unsigned node) {
    return na_run_cache_bytes(node) != 0 ? trim_slots(&run_caches[node], true) : 0;
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
