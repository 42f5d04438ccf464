/* placement_check.c - looking up where pages lie, and bringing them back. */
#include "alloc/page/placement_check.h"

#include <stdatomic.h>
#include <stdbool.h>

#include "alloc/page/node_free.h"
#include "alloc/page/pagestore.h"
#include "alloc/page/place.h"
#include "alloc/page/region.h"
#include "alloc/sys/os.h"
#include "alloc/sys/topology.h"

enum {
    SAMPLE = 16,         /* pages of a node */
    WAIT_LEAST = 1000,   /* ms */
    WAIT_MOST = 8000,    /* while all is in place */
    FUTILE_MOST = 64000, /* while binding anew does not help: the node is full, say */
    ROOM_LEAST = 256,    /* pages: with less the kernel could bring nothing back */
    BATCH = 64,          /* pages of the system that are looked up at a time */
};

static _Atomic(uint64_t) due; /* ms; 0: the first look is to come */
static _Atomic(uint64_t) wait = WAIT_LEAST;
static _Atomic(bool) looking; /* one thread; it alone uses what follows */
static unsigned turn;         /* which pages are sampled next */

/* --- all of them --- */

/* False: one of these pages is resident elsewhere. Where the system does not say, none is. */
static bool are_on(unsigned node, void *pages[], unsigned n) {
    int status[BATCH];
    if (n == 0 || na_os_page_nodes(pages, n, status) < 0) return true;
    for (unsigned i = 0; i < n; i++)
        if (status[i] >= 0 && (unsigned)status[i] != na_node_system_id(node)) return false;
    return true;
}

static bool is_hugepage_on(unsigned node, uintptr_t start, const na_bits_t *used) {
    void *pages[BATCH];
    unsigned n = 0;
    for (uintptr_t at = start; at < start + NA_HUGE_SIZE; at += na_os_page) {
        unsigned page = (unsigned)((at - start) >> NA_PAGE_SHIFT);
        if (na_bits_next(used, page) != page) continue;
        pages[n++] = (void *)at;
        if (n < BATCH) continue;
        if (!are_on(node, pages, n)) return false;
        n = 0;
    }
    return are_on(node, pages, n);
}

/* All pages in use. Nothing beside mbind, which has just looked at every one of them, too. */
static bool is_in_place(unsigned node) {
    na_pagestore_t *s = &na_pagestores[node];
    na_lock(&s->lock);
    const na_region_t *region = s->regions; /* regions stay for ever */
    na_unlock(&s->lock);
    for (; region; region = region->next) {
        for (size_t i = 0;; i++) {
            const na_hugepage_t *hp = &region->hugepages[i];
            na_lock(&s->lock);
            bool is_open = i << NA_HUGE_SHIFT < region->frontier;
            na_bits_t used = is_open ? hp->used : (na_bits_t){{0}};
            na_unlock(&s->lock);
            if (!is_open) break;
            if (!is_hugepage_on(node, na_hugepage_start(hp), &used)) return false;
        }
    }
    return true;
}

static bool has_room(unsigned node) {
    return na_node_free(node) >> NA_PAGE_SHIFT >= ROOM_LEAST;
}

void na_placement_bring_back(unsigned node) {
    if (!na_pageheap_rebind(node) || (has_room(node) && !is_in_place(node)))
        na_topology_not_yet(node);
}

/* --- a few of them, now and then --- */

/* A page at or after this one, in the same hugepage, that is likely resident; a free one if there
 * is any, those are handed out next. 0: none. */
static uintptr_t pick(const na_region_t *region, uint64_t page) {
    const na_hugepage_t *hp = &region->hugepages[page / NA_HUGE_PAGES];
    unsigned from = (unsigned)(page % NA_HUGE_PAGES), at = na_bits_next(&hp->dirty, from);
    if (at == NA_BITS_NONE) at = na_bits_next(&hp->used, from);
    if (at == NA_BITS_NONE) return 0;
    uintptr_t address = na_hugepage_start(hp) + ((uintptr_t)at << NA_PAGE_SHIFT);
    return address < region->start + region->frontier ? address : 0;
}

/* Other numbers at each look. */
static uint64_t draw(unsigned i) {
    uint64_t x = ((uint64_t)turn * SAMPLE + i + 1) * UINT64_C(0x9E3779B97F4A7C15);
    x = (x ^ (x >> 32)) * UINT64_C(0xD6E8FEB86659FD93);
    return x ^ (x >> 32);
}

/* Pages from all over the node's regions. */
static unsigned sample(na_pagestore_t *s, void *pages[SAMPLE]) {
    unsigned n = 0, number = 0;
    na_lock(&s->lock);
    for (const na_region_t *region = s->regions; region; region = region->next, number++) {
        uint64_t all = region->frontier >> NA_PAGE_SHIFT;
        if (!region->bound || all == 0) continue;
        for (unsigned i = 0; i < SAMPLE; i++) {
            uint64_t random = draw(i);
            if (random % s->region_count != number) continue;
            uintptr_t at = pick(region, (random >> 16) % all);
            if (at != 0) pages[n++] = (void *)at;
        }
    }
    na_unlock(&s->lock);
    return n;
}

typedef enum finding { IN_PLACE, ASTRAY, REFUSED } finding_t;

/* A few pages elsewhere may be migrated blocks, or what the node had no room for at the time. */
static finding_t look_at(unsigned node) {
    void *pages[SAMPLE];
    int status[SAMPLE];
    unsigned n = sample(&na_pagestores[node], pages), found = 0, elsewhere = 0;
    if (n == 0) return IN_PLACE;
    if (na_os_page_nodes(pages, n, status) < 0) return REFUSED;
    for (unsigned i = 0; i < n; i++) {
        if (status[i] < 0) continue; /* not resident */
        found++;
        elsewhere += (unsigned)status[i] != na_node_system_id(node);
    }
    return elsewhere * 4 > found ? ASTRAY : IN_PLACE;
}

static uint64_t look(uint64_t now) {
    bool futile = false;
    turn++;
    for (unsigned node = 0; node < na_node_count; node++) {
        if (!na_place_binds(node) || !na_node_usable(node)) continue;
        finding_t finding = look_at(node);
        if (finding == REFUSED) return UINT64_MAX;
        if (finding == IN_PLACE) continue;
        futile = true; /* until the next look says otherwise */
        if (has_room(node)) na_placement_bring_back(node);
    }
    uint64_t next = atomic_load_explicit(&wait, memory_order_relaxed);
    uint64_t most = futile ? FUTILE_MOST : WAIT_MOST, longer = 2 * next < most ? 2 * next : most;
    atomic_store_explicit(&wait, longer, memory_order_relaxed);
    return now + next;
}

void na_placement_nodes(uint64_t now) {
    uint64_t at = atomic_load_explicit(&due, memory_order_relaxed);
    if (NA_LIKELY(now < at)) return;
    if (atomic_exchange_explicit(&looking, true, memory_order_acquire)) return;
    uint64_t next = at == 0 ? now + WAIT_LEAST : look(now);
    atomic_store_explicit(&due, next, memory_order_relaxed);
    atomic_store_explicit(&looking, false, memory_order_release);
}

void na_placement_soon(void) {
    if (atomic_load_explicit(&due, memory_order_relaxed) == UINT64_MAX) return;
    atomic_store_explicit(&wait, WAIT_LEAST, memory_order_relaxed);
    atomic_store_explicit(&due, 0, memory_order_relaxed);
}

void na_placement_after_fork_child(void) {
    atomic_store_explicit(&looking, false, memory_order_relaxed);
}
