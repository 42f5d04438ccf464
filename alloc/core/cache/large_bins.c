/* large_bins.c - the run cache of each node; large bins: the slow paths, opening, giving back. */
#include "alloc/core/cache/large_bins.h"

#include <string.h>

#include "alloc/core/machine/pressure.h"
#include "alloc/core/machine/topology.h"
#include "alloc/core/page/free_pages.h"
#include "alloc/core/sys/lock.h"
#include "alloc/core/sys/options.h"
#include "alloc/core/track/track.h"

/* --- the run cache of a node --- */

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

/* With the lock. */
static void count_kept(run_cache_t *cache, uint64_t pages) {
    _Atomic(uint64_t) *kept = &na_free_pages[cache - run_caches].kept;
    uint64_t before = atomic_load_explicit(kept, memory_order_relaxed);
    atomic_store_explicit(kept, before + pages, memory_order_relaxed);
}

bool na_run_cache_may_keep(void) {
    return !na_pressure_is_critical() && na_option(NA_OPT_PURGE_DELAY) != 0;
}

uint64_t na_run_cache_bytes(unsigned node) {
    return na_pages_kept(node) << NA_PAGE_SHIFT;
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
    count_kept(cache, -(uint64_t)run->pages);
    return run;
}

/* With the lock: takes some runs, slot after slot, while there are more bytes than may be, but for
 * one run. What came last stays longest. */
static na_span_t *evict(run_cache_t *cache, unsigned node, uint64_t most, unsigned at_once,
                        unsigned newest) {
    na_span_t *evicted = NULL;
    for (unsigned i = 0; i < at_once && na_run_cache_bytes(node) > most && cache->runs > 1; i++) {
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
        count_kept(cache, run->pages);
        count++;
    }
    cache->runs += count;
    /* One more than came: what may be kept falls, too. */
    na_span_t *evicted = NA_UNLIKELY(na_run_cache_bytes(node) > most)
                             ? evict(cache, node, most, count + 1, newest)
                             : NULL;
    na_unlock(&cache->lock);
    release_all(evicted);
}

/* With the lock: there was no run. Of a slot of which several were evicted it would have been. */
static NA_COLD void miss(run_cache_t *cache, unsigned node, uint32_t pages) {
    enum { WAVE = NA_RUN_BATCH / 2 };
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

/* --- a thread's bins --- */

enum {
    CREDIT = NA_CREDIT_MAX, /* takes; they count as NA_SCAVENGE_CALLS slow paths */
    ALONE = NA_TRIES,       /* runs without room before other slots are looked through again */
};

na_span_t na_large_bins_end;

/* Whether each take and give has to be looked at. */
static bool is_watched(const na_tcache_t *tcache) {
    return na_samples_bytes() || na_tcache_watched(tcache);
}

/* `barred`: no give has room. */
static void set_limit(na_tcache_t *tcache, uint64_t bytes, bool barred) {
    enum { FAR = 1 << 24 };
    int32_t limit = (int32_t)(bytes >> NA_PAGE_SHIFT), base = barred ? limit - FAR : limit;
    tcache->large.room.pages += base - tcache->large.base;
    tcache->large.base = base;
    tcache->large.limit = limit;
}

void na_large_draw(na_tcache_t *tcache) {
    tcache->large.next.bytes = na_sampler_draw_bytes(&tcache->track);
    tcache->large.next.blocks = na_sampler_draw_number(&tcache->track, &tcache->large.next.step);
}

/* Counts what the last credit was spent on. */
static void grant_credit(na_tcache_t *tcache, int32_t credit) {
    tcache->large.allocs = na_large_taken(tcache);
    tcache->large.takes = tcache->large.granted = credit;
}

/* Runs come and go otherwise than by blocks that are freed and handed out, one after the other. */
static bool put_in(na_tcache_t *tcache, na_span_t *run) {
    if (na_large_room(tcache) < (int64_t)run->each) return false;
    tcache->large.room.both -= run->toll;
    na_run_push(&tcache->large.bins, run);
    tcache->large.frees--;
    return true;
}

static na_span_t *take_out(na_tcache_t *tcache, na_span_t **head) {
    na_span_t *run = *head;
    *head = run->next;
    tcache->large.room.both += run->toll;
    tcache->large.frees++;
    return run;
}

static void clear_bins(na_tcache_t *tcache) {
    for (unsigned slot = 0; slot < NA_RUN_SLOTS; slot++)
        tcache->large.bins.head[slot] = &na_large_bins_end;
}

/* Large blocks are drawn by number: so many takes that no drawn one is among, which are counted.
 * (That which the slow path hands out is counted there, large.c.) */
static int32_t up_to_drawn(na_tcache_t *tcache, int32_t credit) {
    int64_t undrawn = tcache->large.next.blocks - 1;
    if (credit > undrawn) credit = undrawn < 0 ? 0 : (int32_t)undrawn;
    tcache->large.next.blocks -= credit;
    return credit;
}

/* Beside its part the thread has room for what it earned. */
static void open_bins(na_tcache_t *tcache) {
    uint64_t most = na_run_cache_share(tcache->node),
             share = NA_LARGE_BINS_ALL / na_tcache_attached();
    if (most > NA_LARGE_BINS_MOST) most = NA_LARGE_BINS_MOST;
    most += tcache->large.earned;
    bool may = na_run_cache_may_keep() && !na_every_event;
    if (NA_UNLIKELY(tcache->large.bins.head[0] == NULL)) clear_bins(tcache);
    set_limit(tcache, !may ? 0 : share < most ? share : most, na_tcache_watched(tcache));
    int32_t credit = !may || is_watched(tcache) ? 0 : CREDIT;
    if (NA_UNLIKELY(na_samples_number())) credit = up_to_drawn(tcache, credit);
    grant_credit(tcache, credit);
}

void na_large_bins_close(na_tcache_t *tcache) {
    set_limit(tcache, 0, na_tcache_watched(tcache));
    grant_credit(tcache, 0);
}

/* A profile began or ended, or the thread may be on another node: na_tcache_enter is to see to it.
 * It has no credit. */
static bool must_enter(const na_tcache_t *tcache) {
    return tcache->track.alarm != atomic_load_explicit(&na_alarm, memory_order_acquire) ||
           (NA_UNLIKELY(na_tcache_watched(tcache)) && na_tcache_is_away(tcache));
}

/* In mode sample: counts the bytes of a block that is not to be sampled. False: it is. */
static bool is_unsampled(na_tcache_t *tcache, size_t bytes) {
    if (!na_samples_bytes()) return true;
    if (tcache->large.next.bytes <= (int64_t)bytes) return false;
    tcache->large.next.bytes -= (int64_t)bytes;
    return true;
}

/* There was credit, and it was not spent. */
NA_RACES_WITH_EMPTY static bool gets_back(na_tcache_t *tcache) {
    if (tcache->large.takes >= 0 && tcache->large.granted != 0) {
        tcache->large.takes++;
        return true;
    }
    tcache->large.takes = 0; /* not far below, of the thread caches that many threads share */
    return false;
}

NA_RACES_WITH_EMPTY bool na_large_bins_are_spent(na_tcache_t *tcache) {
    if (gets_back(tcache) || tcache->large.limit == 0 || must_enter(tcache)) return false;
    tcache->slow.calls += is_watched(tcache) ? 1 : NA_SCAVENGE_CALLS;
    return true;
}

NA_RACES_WITH_EMPTY bool na_large_bins_were_barred(na_tcache_t *tcache) {
    if (NA_LIKELY(!na_tcache_watched(tcache)) || tcache->large.limit == 0 || must_enter(tcache))
        return false;
    tcache->slow.calls++;
    return true;
}

void *na_large_bins_take_slow(na_tcache_t *tcache, size_t size) {
    if (tcache->large.limit != 0) open_bins(tcache);
    na_span_t **head = na_run_fit(&tcache->large.bins, na_run_pages(size));
    if (head == NULL || !is_unsampled(tcache, (*head)->each)) return NULL;
    tcache->large.allocs++;
    na_span_t *run = *head;
    *head = run->next;
    tcache->large.room.both += run->toll;
    return na_large_hand_out(run, size);
}

NA_INLINE bool keep(na_tcache_t *tcache, na_span_t *run) {
    if (run->node != tcache->node || !put_in(tcache, run)) return false;
    tcache->large.frees++;
    return true;
}

bool na_large_bins_give_slow(na_tcache_t *tcache, const void *block) {
    if (tcache->large.limit != 0) open_bins(tcache);
    na_span_t *run = na_large_run_of(block);
    return run != NULL && keep(tcache, run);
}

/* Of a slot the runs, up to `bytes` and a batch, that go to the node; linked before `cut`. */
static na_span_t *cut_some(na_tcache_t *tcache, unsigned slot, int64_t bytes, na_span_t *cut) {
    na_span_t **head = &tcache->large.bins.head[slot];
    for (unsigned i = 1; i < NA_RUN_BATCH && *head != &na_large_bins_end; i++) {
        bytes -= (int64_t)(*head)->each;
        if (bytes < 0) break;
        na_span_t *run = take_out(tcache, head);
        run->next = cut;
        cut = run;
    }
    return cut;
}

/* The thread goes on to another size: runs of other slots, one slot after the other, make room. If
 * there are none that is not looked for again at once. */
static na_span_t *cut_others(na_tcache_t *tcache, const na_span_t *run) {
    na_span_t *cut = NULL;
    if (tcache->large.alone != 0) {
        tcache->large.alone--;
        return NULL;
    }
    unsigned slot = tcache->large.hand;
    for (unsigned i = 0; i < NA_RUN_SLOTS && na_large_room(tcache) < (int64_t)run->each; i++) {
        if (slot != run->run_slot && tcache->large.bins.head[slot] != &na_large_bins_end)
            cut = cut_some(tcache, slot, INT64_MAX, cut);
        slot = (slot + 1) % NA_RUN_SLOTS;
    }
    tcache->large.hand = (uint8_t)slot;
    if (cut == NULL) tcache->large.alone = ALONE;
    return cut;
}

/* There are too many runs of this slot: the next few that are freed have room then. */
static na_span_t *cut_own(na_tcache_t *tcache, const na_span_t *run, na_span_t *cut) {
    return cut_some(tcache, run->run_slot, ((int64_t)tcache->large.limit << NA_PAGE_SHIFT) / 8,
                    cut);
}

/* What goes to the node may earn room when it comes back; until then it costs some. */
static void send(na_tcache_t *tcache, na_span_t *runs) {
    uint32_t bytes = 0;
    for (const na_span_t *run = runs; run != NULL; run = run->next)
        bytes += (uint32_t)run->each;
    uint32_t cost = bytes / NA_COST_PART;
    tcache->large.earned -= cost < tcache->large.earned ? cost : tcache->large.earned;
    tcache->large.sent += bytes;
    if (tcache->large.sent > 2 * NA_LARGE_BINS_EARNED)
        tcache->large.sent = 2 * NA_LARGE_BINS_EARNED;
    na_run_cache_put(runs->node, runs);
}

/* Not for more than went there: what others sent is not this thread's to earn. */
static void earn(na_tcache_t *tcache, uint32_t bytes) {
    if (bytes > tcache->large.sent) bytes = tcache->large.sent;
    tcache->large.sent -= bytes;
    tcache->large.earned += bytes;
    if (tcache->large.earned > NA_LARGE_BINS_EARNED) tcache->large.earned = NA_LARGE_BINS_EARNED;
}

bool na_large_bins_keep(na_tcache_t *tcache, na_span_t *run) {
    uint32_t most = na_node_many ? NA_RUN_CACHE_NODES : NA_RUN_CACHE_PAGES;
    if (run->run == 0 || run->pages > most || na_every_event) return false;
    open_bins(tcache);
    if (keep(tcache, run)) return true;
    if (!na_run_cache_may_keep()) return false;
    na_span_t *cut = NULL;
    if (run->node == tcache->node && (uint32_t)tcache->large.limit >= run->pages) {
        cut = cut_others(tcache, run);
        if (cut != NULL && keep(tcache, run)) {
            send(tcache, cut);
            return true;
        }
        cut = cut_own(tcache, run, cut);
    }
    run->next = cut;
    send(tcache, run);
    tcache->large.frees++;
    return true;
}

na_span_t *na_large_bins_refill(na_tcache_t *tcache, uint32_t pages) {
    na_span_t *run = na_run_cache_take(tcache->node, pages, na_large_room(tcache) / 2);
    if (run == NULL) return NULL;
    uint32_t bytes = (uint32_t)run->each;
    for (na_span_t *more = run->next, *next; more != NULL; more = next) {
        next = more->next;
        bytes += (uint32_t)more->each;
        put_in(tcache, more);
    }
    earn(tcache, bytes);
    return run;
}

static void give_slot(na_tcache_t *tcache, unsigned slot) {
    na_span_t **head = &tcache->large.bins.head[slot];
    while (*head != &na_large_bins_end)
        na_run_cache_release(take_out(tcache, head));
}

bool na_large_bins_flush(na_tcache_t *tcache) {
    na_large_bins_close(tcache);
    if (na_large_kept(tcache) == 0) return false;
    for (unsigned slot = 0; slot < NA_RUN_SLOTS; slot++)
        give_slot(tcache, slot);
    return true;
}

/* A slot with the same run on top as the last time was not used in between, or not to the full. */
void na_large_bins_decay(na_tcache_t *tcache) {
    tcache->large.sent = 0;
    tcache->large.earned /= 2;
    if (na_large_kept(tcache) == 0) return;
    for (unsigned slot = 0; slot < NA_RUN_SLOTS; slot++) {
        if (tcache->large.bins.head[slot] == tcache->large.seen[slot]) give_slot(tcache, slot);
        tcache->large.seen[slot] = tcache->large.bins.head[slot];
    }
}

uint64_t na_large_bins_forget(na_tcache_t *tcache) {
    uint64_t lost = na_large_kept(tcache);
    if (lost == 0) return 0;
    clear_bins(tcache);
    tcache->large.frees += tcache->large.room.runs;
    tcache->large.room = (na_large_room_t){.pages = tcache->large.base};
    return lost;
}
