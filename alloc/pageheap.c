/* pageheap.c - runs of pages for one node: the entry points, the order in which memory is looked
 * for, the heap limit. */
#include "alloc/pageheap.h"

#include "alloc/options.h"
#include "alloc/pagestore.h"
#include "alloc/purge.h"
#include "alloc/region.h"
#include "alloc/topology.h"

/* --- the heap limit
 * ------------------------------------------------------------------------------- */

/* Bytes charged; kept only where there is a limit, so that nodes share no counter without one. */
static _Atomic(size_t) na_limit_used;

bool na_limit_charge(size_t bytes) {
    size_t limit = (size_t)na_option(NA_OPT_LIMIT);
    if (NA_LIKELY(limit == 0)) return true;
    size_t used = atomic_load_explicit(&na_limit_used, memory_order_relaxed);
    do {
        if (bytes > limit || used > limit - bytes) return false;
    } while (!atomic_compare_exchange_weak_explicit(&na_limit_used, &used, used + bytes,
                                                    memory_order_relaxed, memory_order_relaxed));
    return true;
}

void na_limit_release(size_t bytes) {
    if (NA_UNLIKELY(na_option(NA_OPT_LIMIT) != 0))
        atomic_fetch_sub_explicit(&na_limit_used, bytes, memory_order_relaxed);
}

/* --- taking
 * --------------------------------------------------------------------------------------- */

/* Free memory of the node, else new memory of the node. */
static uintptr_t na_pageheap_take(na_pagestore_t *s, uint32_t pages, uint32_t align, bool *zeroed) {
    uint32_t dirty;
    na_lock(&s->lock);
    uintptr_t start = na_store_take(s, pages, align, &dirty);
    if (NA_UNLIKELY(!start) && na_store_grow(s, pages, align))
        start = na_store_take(s, pages, align, &dirty);
    bool exchange = start && na_purge_exchange_due(s, pages - dirty);
    na_unlock(&s->lock);
    if (NA_LIKELY(start)) *zeroed = dirty == 0;
    if (NA_UNLIKELY(exchange)) na_purge_exchange(s);
    return start;
}

/* The system refuses new memory on the node: everything that is free goes back to it, then one more
 * try, then the other nodes, nearest first, the pseudo-node last. */
static NA_COLD uintptr_t na_pageheap_take_hard(unsigned node, uint32_t pages, uint32_t align,
                                               bool *zeroed) {
    for (unsigned i = 0; i <= na_node_count; i++)
        na_purge_trim(&na_pagestores[i], 0);
    uintptr_t start = na_pageheap_take(&na_pagestores[node], pages, align, zeroed);
    for (unsigned i = 0; i <= na_node_count && !start; i++) {
        unsigned other = i;
        if (node < na_node_count && i < na_node_count) other = na_node_nearest(node, i);
        if (other == node) continue;
        start = na_pageheap_take(&na_pagestores[other], pages, align, zeroed);
    }
    if (start && na_pageheap_node_of(start) != node) {
        na_pagestore_t *s = &na_pagestores[node];
        na_lock(&s->lock);
        s->strays += pages;
        na_unlock(&s->lock);
    }
    return start;
}

uintptr_t na_pageheap_alloc(unsigned node, uint32_t pages, uint32_t align_pages, bool *zeroed) {
    if (NA_UNLIKELY(pages == 0 || pages > NA_RUN_MAX_PAGES)) return 0;
    size_t bytes = (size_t)pages << NA_PAGE_SHIFT;
    if (NA_UNLIKELY(!na_limit_charge(bytes))) return 0;
    uintptr_t start = na_pageheap_take(&na_pagestores[node], pages, align_pages, zeroed);
    if (NA_UNLIKELY(!start)) {
        start = na_pageheap_take_hard(node, pages, align_pages, zeroed);
        if (!start) na_limit_release(bytes);
    }
    return start;
}

/* Splits [start, start + pages) at hugepage boundaries: how many pages lie in the first one, and at
 * which page of it they begin. */
NA_INLINE unsigned na_first_part(uintptr_t start, uint32_t pages, unsigned *at) {
    *at = (unsigned)(start >> NA_PAGE_SHIFT) % NA_HUGE_PAGES;
    return pages < NA_HUGE_PAGES - *at ? pages : NA_HUGE_PAGES - *at;
}

/* The hugepage of a run that the caller says was taken from `node`. */
NA_INLINE na_hugepage_t *na_pageheap_find(unsigned node, uintptr_t start, uint32_t pages) {
    na_hugepage_t *hp = na_region_hugepage(start);
    if (NA_UNLIKELY(!hp || hp->region->node != node ||
                    start + ((uintptr_t)pages << NA_PAGE_SHIFT) >
                        hp->region->start + hp->region->size))
        na_store_broken("a run that this node does not own", start);
    return hp;
}

bool na_pageheap_extend(unsigned node, uintptr_t start, uint32_t pages, uint32_t extra,
                        bool *zeroed) {
    if (extra == 0 || extra > NA_RUN_MAX_PAGES || pages + extra > NA_RUN_MAX_PAGES) return false;
    na_pagestore_t *s = &na_pagestores[node];
    na_region_t *region = na_pageheap_find(node, start, pages)->region;
    uintptr_t from = start + ((uintptr_t)pages << NA_PAGE_SHIFT);
    size_t bytes = (size_t)extra << NA_PAGE_SHIFT;
    if (from + bytes > region->start + region->size || !na_limit_charge(bytes)) return false;

    na_lock(&s->lock);
    uintptr_t frontier = region->start + region->frontier;
    bool free = true;
    uint32_t left = extra;
    for (uintptr_t p = from; left && p < frontier && free;) {
        unsigned at, n = na_first_part(p, left, &at);
        if (n > (frontier - p) >> NA_PAGE_SHIFT) n = (unsigned)((frontier - p) >> NA_PAGE_SHIFT);
        free = !na_bits_any(&na_region_hugepage(p)->used, at, n);
        p += (uintptr_t)n << NA_PAGE_SHIFT;
        left -= n;
    }
    if (free && left) free = na_store_open(s, region, from + bytes - region->start);
    if (free) {
        unsigned dirty = 0;
        na_hugepage_t *hp = na_region_hugepage(from);
        for (left = extra; left; hp++) {
            unsigned at, n = na_first_part(from, left, &at);
            dirty += na_store_take_at(s, hp, at, n);
            from += (uintptr_t)n << NA_PAGE_SHIFT;
            left -= n;
        }
        *zeroed = dirty == 0;
    }
    na_unlock(&s->lock);
    if (!free) na_limit_release(bytes);
    return free;
}

/* --- giving back
 * ---------------------------------------------------------------------------------- */

void na_pageheap_free(unsigned node, uintptr_t start, uint32_t pages) {
    if (NA_UNLIKELY(pages == 0)) return;
    na_pagestore_t *s = &na_pagestores[node];
    na_hugepage_t *hp = na_pageheap_find(node, start, pages);
    na_lock(&s->lock);
    uint64_t now = na_purge_clock(s, pages);
    uint32_t left = pages;
    for (;;) {
        unsigned at, n = na_first_part(start, left, &at);
        na_store_give(s, hp++, at, n, now);
        left -= n;
        if (NA_LIKELY(left == 0)) break;
        start += (uintptr_t)n << NA_PAGE_SHIFT;
    }
    bool purge = na_purge_wanted(s, now);
    na_unlock(&s->lock);
    na_limit_release((size_t)pages << NA_PAGE_SHIFT);
    if (NA_UNLIKELY(purge)) na_purge_cap(s);
}

void na_pageheap_tick(unsigned node, uint64_t now) {
    na_purge_tick(&na_pagestores[node], now);
}

size_t na_pageheap_trim(unsigned node, size_t keep_bytes) {
    return (size_t)na_purge_trim(&na_pagestores[node], keep_bytes >> NA_PAGE_SHIFT)
           << NA_PAGE_SHIFT;
}

/* --- questions
 * ------------------------------------------------------------------------------------ */

unsigned na_pageheap_node_of(uintptr_t address) {
    const na_hugepage_t *hp = na_region_hugepage(address);
    return hp ? hp->region->node : NA_NO_NODE;
}

__attribute__((no_sanitize("thread"))) bool na_pageheap_has_dirty(unsigned node, uint32_t pages) {
    return *(volatile uint64_t *)&na_pagestores[node].dirty >= pages;
}

void na_pageheap_get_stats(unsigned node, na_pageheap_stats_t *stats) {
    na_pagestore_t *s = &na_pagestores[node];
    na_lock(&s->lock);
    stats->reserved = s->reserved;
    stats->committed = s->committed;
    stats->used = s->used << NA_PAGE_SHIFT;
    stats->dirty = s->dirty << NA_PAGE_SHIFT;
    stats->purged = s->purged;
    stats->regions = s->region_count;
    stats->strays = s->strays << NA_PAGE_SHIFT;
    stats->bound = s->regions != NULL;
    for (const na_region_t *region = s->regions; region; region = region->next)
        stats->bound &= region->bound;
    na_unlock(&s->lock);
}

uint64_t na_pageheap_committed(void) {
    uint64_t bytes = 0;
    for (unsigned node = 0; node <= na_node_count; node++)
        bytes += __atomic_load_n(&na_pagestores[node].committed, __ATOMIC_RELAXED);
    return bytes;
}

void na_pageheap_after_fork_child(void) {
    na_region_after_fork_child();
    for (unsigned i = 0; i <= na_node_count; i++) {
        na_lock_reset(&na_pagestores[i].lock);
        na_pagestores[i].purging = false; /* the thread that did is not here */
    }
}
