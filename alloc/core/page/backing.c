/* backing.c - address space with memory behind it: regions, and what the system is told of them;
 * and how pages come to have memory. See free_pages.h and backing.h. */
#include "alloc/core/page/backing.h"

#include <errno.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>

#include "alloc/core/machine/pressure.h"
#include "alloc/core/machine/topology.h"
#include "alloc/core/page/free_pages.h"
#include "alloc/core/page/pageheap.h"
#include "alloc/core/page/purge.h"
#include "alloc/core/sys/lock.h"
#include "alloc/core/sys/options.h"
#include "alloc/core/sys/os.h"
#include "alloc/core/sys/reserve.h"
#include "alloc/core/sys/thread.h"
#include "alloc/core/sys/tuned.h"
#include "pagemap/pagemap.h"

/* --- what the system is told of a range --- */

bool na_place_binds(unsigned node) {
    uint64_t mode = na_option(NA_OPT_NUMA);
    return na_node_many && node < na_node_count && mode <= NA_NUMA_STRICT;
}

bool na_place_spills(unsigned node) {
    return na_place_binds(node) && na_option(NA_OPT_NUMA) != NA_NUMA_STRICT;
}

static bool place_on(void *start, size_t size, unsigned node, bool move) {
    bool strict = na_option(NA_OPT_NUMA) == NA_NUMA_STRICT;
    return na_os_bind(start, size, node, strict ? NA_BIND_STRICT : NA_BIND_PREFERRED, move) >= 0;
}

static void advise(void *start, size_t size) {
    uint64_t huge = na_pressure_is_critical() ? NA_HUGE_NEVER : na_option(NA_OPT_HUGEPAGES);
    if (huge >= NA_HUGE_ALWAYS) na_os_hugepage(start, size, huge == NA_HUGE_ALWAYS);
}

bool na_place_keeps_small(void) {
    return na_option(NA_OPT_HUGEPAGES) == NA_HUGE_AUTO &&
           na_reserve_huge_grant() == NA_HUGE_GRANT_UNASKED;
}

bool na_place(void *start, size_t size, unsigned node, bool bind) {
    bool bound = bind && place_on(start, size, na_node_system_id(node), false);
    advise(start, size);
    return bound;
}

bool na_place_by_touch(void *start, size_t size) {
    bool done = na_node_balanced || na_os_bind(start, size, 0, NA_BIND_LOCAL, false) >= 0;
    advise(start, size);
    return done;
}

bool na_place_back(void *start, size_t size, unsigned node) {
    return place_on(start, size, na_node_system_id(node), true);
}

/* Huge pages are dealt out whole: with few of them for a node the shares would be uneven. */
bool na_place_interleaved(void *start, size_t size, const uint64_t *set, unsigned nodes) {
    enum { HUGE_PAGES_EACH = 16, HUGE = 2 << 20 };
    unsigned members = 0;
    for (unsigned i = 0; i < (nodes + 63) / 64; i++)
        members += na_bits_in_word(set[i]);
    bool bound = na_node_many && na_os_interleave(start, size, set, nodes) >= 0;
    advise(start, size);
    if (na_node_many && na_option(NA_OPT_HUGEPAGES) <= NA_HUGE_KEEP &&
        size / HUGE < (size_t)members * HUGE_PAGES_EACH)
        na_os_hugepage(start, size, false);
    return bound;
}

/* --- regions --- */

NA_SPARSE _Atomic(na_region_leaf_t *) na_region_root[(size_t)1 << NA_REGION_ROOT_BITS];
static na_lock_t na_region_lock; /* guards making leaves */

/* Makes every leaf that the range needs, so that opening cannot fail for want of one. */
static bool na_region_make_leaves(uintptr_t start, size_t size) {
    uintptr_t last = (start + size - 1) >> (NA_HUGE_SHIFT + NA_REGION_LEAF_BITS);
    for (uintptr_t i = start >> (NA_HUGE_SHIFT + NA_REGION_LEAF_BITS); i <= last; i++) {
        if (atomic_load_explicit(&na_region_root[i], memory_order_acquire)) continue;
        na_lock(&na_region_lock);
        na_region_leaf_t *leaf = atomic_load_explicit(&na_region_root[i], memory_order_relaxed);
        if (!leaf) {
            leaf = na_meta_alloc(sizeof(na_region_leaf_t), NA_CACHE_LINE);
            atomic_store_explicit(&na_region_root[i], leaf, memory_order_release);
        }
        na_unlock(&na_region_lock);
        if (!leaf) return false;
    }
    return true;
}

static void na_region_publish(na_hugepage_t *hp, uintptr_t address) {
    uintptr_t huge = address >> NA_HUGE_SHIFT;
    na_region_leaf_t *leaf =
        atomic_load_explicit(&na_region_root[huge >> NA_REGION_LEAF_BITS], memory_order_acquire);
    atomic_store_explicit(&leaf->entry[huge & (((uintptr_t)1 << NA_REGION_LEAF_BITS) - 1)], hp,
                          memory_order_release);
}

/* Ahead of what a node has opened, so much is reserved: few system calls, and little that limits
 * count and nobody uses. */
#define NA_AHEAD_LEAST ((size_t)NA_CACHED_BYTES / 4)

static size_t na_region_ahead(size_t committed) {
    size_t ahead = na_align_down(committed / NA_SPARE_PART, NA_HUGE_SIZE);
    return ahead > NA_AHEAD_LEAST ? ahead : NA_AHEAD_LEAST;
}

/* Reserves `first` bytes of a place for `size` and makes the tables for all of it; NULL: something
 * was refused. */
static na_region_t *na_region_try(size_t first, size_t size) {
    na_reserve_t space;
    if (!na_reserve_find(&space, first, size)) return NULL;
    size_t count = size >> NA_HUGE_SHIFT;
    size_t map_words = (count + 63) / 64;
    na_hugepage_t *hugepages = NULL;
    na_region_t *region = NULL;
    if ((space.start + size - 1) >> NA_ADDRESS_BITS == 0 &&
        na_region_make_leaves(space.start, size))
        hugepages = na_meta_alloc(count * sizeof(na_hugepage_t), NA_CACHE_LINE);
    if (hugepages)
        region = na_meta_alloc(sizeof(na_region_t) + map_words * sizeof(uint64_t), NA_CACHE_LINE);
    if (!region) {
        na_reserve_drop(&space);
        return NULL;
    }
    region->space = space;
    region->start = space.start;
    region->size = size;
    region->empty = (uint64_t *)(region + 1);
    region->hugepages = hugepages;
    return region;
}

static bool na_region_place_new(const na_region_t *region, void *start, size_t bytes) {
    bool bound = NA_UNLIKELY(region->by_touch)
                     ? na_place_by_touch(start, bytes)
                     : na_place(start, bytes, region->node, region->bound);
    if (region->keeps_small) na_os_hugepage(start, bytes, false);
    return bound;
}

na_region_t *na_region_create(unsigned node, bool by_touch, size_t need, bool bind,
                              size_t committed) {
    size_t least = na_align_up(need, NA_HUGE_SIZE), first = na_region_ahead(committed);
    size_t size = na_align_up((size_t)na_option(NA_OPT_REGION_SIZE), NA_HUGE_SIZE);
    if (size < least) size = least;
    if (first > size) first = size;
    if (first < least) first = least;
    na_region_t *region = na_region_try(first, size);
    if (!region && first > least) region = na_region_try(least, size);
    if (!region) return NULL;
    region->node = node;
    region->by_touch = by_touch;
    region->bound = bind;
    region->bound = na_region_place_new(region, (void *)region->start, region->space.reserved);
    na_reserve_join(&region->space);
    return region;
}

void na_region_place(void *owner, void *start, size_t bytes) {
    (void)na_region_place_new(owner, start, bytes);
}

na_reserve_result_t na_region_open(na_region_t *region, size_t to, size_t committed) {
    if (to <= region->space.most &&
        !na_pagemap_prepare(region->start + region->frontier, to - region->frontier))
        return NA_RESERVE_REFUSED;
    na_reserve_result_t result =
        na_reserve_open(&region->space, to, na_region_ahead(committed), na_region_place, region);
    if (result != NA_RESERVE_DONE) return result;
    size_t first = na_align_up(region->frontier, NA_HUGE_SIZE) >> NA_HUGE_SHIFT;
    size_t end = na_align_up(to, NA_HUGE_SIZE) >> NA_HUGE_SHIFT;
    for (size_t i = first; i < end; i++) {
        na_hugepage_t *hp = &region->hugepages[i];
        hp->region = region;
        na_bits_set(&hp->used, 0, NA_HUGE_PAGES);
        na_region_publish(hp, region->start + (i << NA_HUGE_SHIFT));
    }
    region->frontier = to;
    return result;
}

bool na_region_rebind(na_region_t *region, size_t frontier) {
    bool bound = na_place_back((void *)region->start, frontier, region->node);
    if (bound)
        na_reserve_each(&region->space, frontier, na_region_place, region); /* no pages there */
    return bound;
}

static void na_region_advise_small(void *owner, void *start, size_t bytes) {
    (void)owner;
    na_os_hugepage(start, bytes, false);
}

void na_region_end_huge_pages(na_region_t *region) {
    na_reserve_each(&region->space, 0, na_region_advise_small, region);
}

void na_region_keep_small(na_region_t *region) {
    region->keeps_small = true;
    na_region_end_huge_pages(region);
}

void na_region_use_more(na_region_t *region, size_t to) {
    if (to > NA_HUGE_SIZE && !region->keeps_small && na_place_keeps_small())
        na_region_keep_small(region);
    na_reserve_dump_to(&region->space, to);
}

void na_region_after_fork_child(void) {
    na_lock_reset(&na_region_lock);
    na_reserve_after_fork_child();
}

/* --- moving the memory of free hugepages --- */

enum {
    PLACES_MOST = NA_OS_MAPPINGS /
                  8, /* hugepages that memory was ever moved to: each may be two mappings more */
    REFUSALS_MOST = NA_TRIES, /* of the system, before it is no longer asked */
    AT_ONCE = NA_TRIES, /* hugepages a system call, so that page faults elsewhere wait little */
};

static _Atomic(uint32_t) places;

static const na_bits_t all_pages = {{~UINT64_C(0), ~UINT64_C(0), ~UINT64_C(0), ~UINT64_C(0)}};

/* The hugepages of a run that was just taken. The last one may belong to it in part. */
typedef struct target {
    na_hugepage_t *hp, *end;
    unsigned rest; /* pages of the run in the last one; 0: all of them are whole */
} target_t;

static bool is_partial(const target_t *t, const na_hugepage_t *hp) {
    return t->rest != 0 && hp + 1 == t->end;
}

/* Whether memory may be moved there: it holds none, and there are places left. */
static bool is_place(const target_t *t, const na_hugepage_t *hp) {
    if (!hp->was_clean ||
        (!hp->remapped && atomic_load_explicit(&places, memory_order_relaxed) >= PLACES_MOST))
        return false;
    /* Others may have taken from what the run has left over, and given back. */
    return !is_partial(t, hp) ||
           (na_bits_empty(&hp->dirty) && !na_bits_any(&hp->used, t->rest, NA_HUGE_PAGES - t->rest));
}

static bool is_source(const na_hugepage_t *hp) {
    return hp->region != NULL && hp->list == NA_LIST_EMPTY_DIRTY;
}

/* How many hugepages from t->hp on can have the memory of those from `from` on. A place that memory
 * was moved to is moved by itself, because the system moves no more than one mapping at a time. */
static unsigned count_pairs(const target_t *t, const na_hugepage_t *from) {
    const na_region_t *region = from->region;
    size_t most = (region->size >> NA_HUGE_SHIFT) - (size_t)(from - region->hugepages);
    if (most > (size_t)(t->end - t->hp)) most = (size_t)(t->end - t->hp);
    if (most > AT_ONCE) most = AT_ONCE;
    unsigned n = 1;
    while (n < most && !from[0].remapped && !from[n].remapped && is_source(&from[n]) &&
           is_place(t, &t->hp[n]))
        n++;
    return n;
}

static void mark_moved(na_hugepage_t *hp) {
    hp->was_clean = false;
    if (hp->remapped) return;
    hp->remapped = true;
    atomic_fetch_add_explicit(&places, 1, memory_order_relaxed);
}

/* With the lock, which it lets go meanwhile. */
static na_os_remap_t move_some(na_free_pages_t *s, const target_t *t, na_hugepage_t *from,
                               unsigned n) {
    for (unsigned i = 0; i < n; i++)
        na_pages_isolate(s, &from[i], all_pages);
    na_hugepage_t *last = &t->hp[n - 1];
    na_bits_t over = {{0, 0, 0, 0}}; /* free pages of the last one */
    if (is_partial(t, last)) na_bits_set(&over, t->rest, NA_HUGE_PAGES - t->rest);
    if (!na_bits_empty(&over)) na_pages_isolate(s, last, over);
    na_unlock(&s->lock);

    void *target = (void *)na_hugepage_start(t->hp);
    size_t bytes = (size_t)n << NA_HUGE_SHIFT;
    bool fresh;
    na_os_remap_t result = na_os_remap((void *)na_hugepage_start(from), bytes, target, &fresh);
    if (fresh) na_region_place(last->region, target, bytes);

    na_lock(&s->lock);
    for (unsigned i = 0; i < n; i++) {
        na_pages_restore(s, &from[i], all_pages, result != NA_OS_REMAP_DONE);
        if (result == NA_OS_REMAP_DONE) mark_moved(&t->hp[i]);
    }
    /* What was lost stays marked as in use. */
    if (!na_bits_empty(&over) && result != NA_OS_REMAP_LOST)
        na_pages_restore(s, last, over, result == NA_OS_REMAP_DONE);
    return result;
}

/* Gives back the run but for n hugepages from t->hp on, whose addresses are no longer ours. */
static void give_back_rest(na_free_pages_t *s, const target_t *t, na_hugepage_t *first,
                           unsigned n) {
    uint64_t now = atomic_load_explicit(&s->clock, memory_order_relaxed);
    for (na_hugepage_t *hp = first; hp < t->end; hp++)
        if (hp < t->hp || hp >= t->hp + n)
            na_pages_give(s, hp, 0, is_partial(t, hp) ? t->rest : NA_HUGE_PAGES, now);
}

na_remap_t na_remap(na_free_pages_t *s, uintptr_t start, uint32_t pages) {
    na_remap_t outcome = NA_REMAP_NONE;
    if (start % NA_HUGE_SIZE != 0) return outcome; /* then it is a short one */
    na_lock(&s->lock);
    na_hugepage_t *first = na_region_hugepage(start);
    unsigned rest = pages % NA_HUGE_PAGES;
    target_t t = {first, first + pages / NA_HUGE_PAGES + (rest != 0), rest};
    while (t.hp < t.end && s->empty_dirty.head && s->remap_refusals < REFUSALS_MOST &&
           na_pages_exceed(s)) {
        if (!is_place(&t, t.hp)) {
            t.hp++;
            continue;
        }
        na_hugepage_t *from = s->empty_dirty.head;
        unsigned n = count_pairs(&t, from);
        switch (move_some(s, &t, from, n)) {
        case NA_OS_REMAP_DONE:
            outcome = NA_REMAP_SOME;
            break;
        case NA_OS_REMAP_REFUSED:
            s->remap_refusals++;
            break;
        case NA_OS_REMAP_LOST:
            s->remap_refusals = REFUSALS_MOST;
            give_back_rest(s, &t, first, n);
            na_unlock(&s->lock);
            return NA_REMAP_LOST;
        }
        t.hp += n;
    }
    na_unlock(&s->lock);
    return outcome;
}

/* --- Populating new memory, and asking for huge pages --- */

enum { POPULATE_MOST = NA_LITTLE_BYTES >> NA_PAGE_SHIFT };

static _Atomic(uint32_t) na_prefault_blocks; /* with advice */
static _Atomic(bool) na_populate_refused;

/* The system makes huge pages when asked, or unasked, and may be asked. */
static bool na_prefault_huge(bool unasked_only) {
    na_huge_grant_t grant = na_reserve_huge_grant();
    return na_option(NA_OPT_HUGEPAGES) == NA_HUGE_AUTO && !na_pressure_is_low() &&
           (grant == NA_HUGE_GRANT_UNASKED || (grant == NA_HUGE_GRANT_ASKED && !unasked_only));
}

/* So many pages ahead are within bounds, and what the node, or a limit, has room for. */
static bool na_prefault_may(const na_free_pages_t *s, uint32_t pages) {
    return s->ahead + s->astray + pages <= s->filled / NA_SPARE_PART &&
           s->fresh + pages <= s->fresh_limit;
}

/* --- huge pages --- */

/* With the lock. One page there holds memory from now on: mappings that are cut before any of their
 * pages does are never joined again. (It may be a block's, which its user has made inaccessible:
 * then it is not touched.) */
static void na_prefault_cut(na_region_t *region) {
    if (NA_LIKELY(region->was_cut)) return;
    (void)na_os_populate((void *)region->start, na_os_page);
    region->was_cut = true;
    if (!region->keeps_small) na_region_keep_small(region);
}

static bool na_prefault_is_open(const na_hugepage_t *hp) {
    const na_region_t *region = hp->region;
    return na_hugepage_start(hp) + NA_HUGE_SIZE <= region->start + region->frontier;
}

/* A span has begun the hugepage, which was free and held nothing, and ends before page `end`. True:
 * it is to hold memory as a whole. */
static NA_COLD NA_NOINLINE bool na_prefault_begin(na_free_pages_t *s, na_hugepage_t *hp,
                                                  unsigned end) {
    if (!na_prefault_huge(false) || !na_prefault_is_open(hp)) return false;
    na_prefault_cut(hp->region);
    hp->was_clean = false; /* no memory need be moved there */
    na_pages_hold(s, hp, end, NA_HUGE_PAGES - end);
    na_purge_will_be_due(s);
    return true;
}

static NA_COLD void na_prefault_hugepage(uintptr_t start) {
    na_os_hugepage((void *)start, NA_HUGE_SIZE, true);
    na_os_touch((void *)start);
    na_os_hugepage((void *)start, NA_HUGE_SIZE, false);
}

void na_prefault_block(uintptr_t start, uint32_t pages) {
    if (!na_prefault_huge(true) || start % NA_HUGE_SIZE != 0) return;
    na_hugepage_t *hp = na_region_hugepage(start);
    size_t count = pages / NA_HUGE_PAGES;
    if (pages < NA_PREFAULT_WHOLE) {
        hp++;
        count -= pages % NA_HUGE_PAGES == 0 ? 2 : 1; /* an end of less has no advice anyway */
    }
    if (count == 0) return;
    na_free_pages_t *s = &na_free_pages[hp->region->set];
    na_lock(&s->lock);
    if (hp->region->keeps_small &&
        atomic_load_explicit(&na_prefault_blocks, memory_order_relaxed) < NA_PREFAULT_BLOCKS) {
        atomic_fetch_add_explicit(&na_prefault_blocks, 1, memory_order_relaxed);
        na_prefault_cut(hp->region);
        for (size_t i = 0; i < count; i++)
            hp[i].advice = i == 0 ? NA_ADVICE_BEGINS : NA_ADVICE_GOES_ON;
        na_os_hugepage((void *)na_hugepage_start(hp), count << NA_HUGE_SHIFT, true);
    }
    na_unlock(&s->lock);
}

NA_COLD void na_prefault_withdraw(na_hugepage_t *hp, size_t count) {
    const na_hugepage_t *end = hp + count;
    if (hp->advice == NA_ADVICE_NONE) hp++;
    uintptr_t start = na_hugepage_start(hp);
    size_t bytes = 0;
    for (; hp < end && hp->advice != NA_ADVICE_NONE; hp++, bytes += NA_HUGE_SIZE) {
        if (hp->advice == NA_ADVICE_BEGINS)
            atomic_fetch_sub_explicit(&na_prefault_blocks, 1, memory_order_relaxed);
        hp->advice = NA_ADVICE_NONE;
    }
    na_os_hugepage((void *)start, bytes, false);
}

/* --- populating --- */

static bool na_prefault_is_sparse(const na_free_pages_t *s) {
    uint64_t threads = atomic_load_explicit(&na_threads.attached, memory_order_relaxed);
    return threads > 1 && s->filled < threads * NA_PREFAULT_THREAD;
}

/* The first touch of a hugepage makes all of it resident. */
static bool na_prefault_is_given(void) {
    na_huge_grant_t grant = na_reserve_huge_grant();
    switch ((na_hugepages_t)na_option(NA_OPT_HUGEPAGES)) {
    case NA_HUGE_ALWAYS:
        return grant != NA_HUGE_GRANT_NEVER;
    case NA_HUGE_KEEP:
        return grant == NA_HUGE_GRANT_UNASKED;
    case NA_HUGE_AUTO:
    case NA_HUGE_NEVER:
        break;
    }
    return false;
}

uint32_t na_prefault_plan(na_free_pages_t *s, uintptr_t start, uint32_t pages) {
    if (s->delay == 0 || s > &na_free_pages[NA_NODE_ANY] || na_prefault_is_sparse(s) ||
        na_pressure_is_low())
        return 0;
    uintptr_t last = start + ((uintptr_t)(pages - 1) << NA_PAGE_SHIFT);
    na_hugepage_t *hp = na_region_hugepage(last);
    unsigned end = (unsigned)(last >> NA_PAGE_SHIFT) % NA_HUGE_PAGES + 1;
    bool begins = hp->was_clean && pages == end && end < NA_HUGE_PAGES;
    if (begins && na_prefault_may(s, NA_HUGE_PAGES) && na_prefault_begin(s, hp, end))
        return NA_PREFAULT_HUGE;
    if (atomic_load_explicit(&na_populate_refused, memory_order_relaxed) || na_prefault_is_given())
        return 0;
    uint32_t count = (uint32_t)(s->filled / NA_SPARE_PART);
    if (count > POPULATE_MOST) count = POPULATE_MOST;
    if (count <= pages) return count;
    unsigned ahead = end < NA_HUGE_PAGES ? na_bits_gap_after(&hp->used, end) : 0;
    if (ahead > count - pages) ahead = count - pages;
    if (ahead == 0 || na_bits_any(&hp->dirty, end, ahead) || !na_prefault_may(s, ahead))
        return pages;
    na_pages_hold(s, hp, end, ahead);
    na_purge_will_be_due(s);
    return pages + ahead;
}

void na_prefault(uintptr_t start, uint32_t pages) {
    if (pages == NA_PREFAULT_HUGE)
        na_prefault_hugepage(start);
    else if (!na_os_populate((void *)start, (size_t)pages << NA_PAGE_SHIFT))
        atomic_store_explicit(&na_populate_refused, true, memory_order_relaxed);
}

/* --- Giving back large blocks whose pages lie where they were first touched --- */

enum {
    EACH = 64 << 10, /* bytes of which one page is looked up */
    MOST = NA_HUGE_SIZE / EACH,
    MOST_ALL = NA_OS_MOVE_PAGES, /* of one block: of larger ones fewer are */
};

/* A part of one hugepage: some pages of it, all at the node. Not always the first of 64 KiB. */
static bool is_home(unsigned node, uintptr_t start, size_t bytes, size_t each) {
    void *pages[MOST] = {NULL};
    int status[MOST];
    unsigned count = 0, system = na_node_system_id(node);
    for (size_t at = 0; at < bytes && count < MOST; at += each) {
        size_t left = bytes - at < each ? bytes - at : each;
        uintptr_t page = start + at + (size_t)count * 5 * na_os_page % left;
        pages[count++] = (void *)na_align_down(page, na_os_page);
    }
    if (na_os_is_confined() || na_os_page_nodes(pages, count, status) < 0) {
        na_pageheap_refuse_touch(node);
        return false;
    }
    for (unsigned i = 0; i < count; i++)
        if (status[i] < 0 || (unsigned)status[i] != system) return false;
    return true;
}

/* Pages within one hugepage. Where the system's pages are larger than ours, those at the ends are
 * somebody else's, too, and stay. */
static void give_back(unsigned node, uintptr_t start, uintptr_t end, bool keep) {
    uintptr_t from = na_align_up(start, na_os_page), to = na_align_down(end, na_os_page);
    if (keep || from >= to || !na_os_purge((void *)from, to - from)) {
        na_pageheap_free(node, start, (uint32_t)((end - start) >> NA_PAGE_SHIFT));
        return;
    }
    na_pageheap_free(node, start, (uint32_t)((from - start) >> NA_PAGE_SHIFT));
    na_pageheap_free_purged(node, from, (uint32_t)((to - from) >> NA_PAGE_SHIFT));
    na_pageheap_free(node, to, (uint32_t)((end - to) >> NA_PAGE_SHIFT));
}

void na_touch_free(unsigned node, uintptr_t start, uint32_t pages, bool look) {
    size_t bytes = (size_t)pages << NA_PAGE_SHIFT, each = EACH;
    while (bytes / each > MOST_ALL)
        each *= 2;
    for (uintptr_t end = start + bytes, next; start < end; start = next) {
        next = na_align_down(start, NA_HUGE_SIZE) + NA_HUGE_SIZE;
        if (next > end) next = end;
        give_back(node, start, next, look && is_home(node, start, next - start, each));
    }
}

/* --- Bringing pages back to their node, and looking up whether they came --- */

enum {
    ROOM_LEAST = NA_HUGE_PAGES, /* with less the kernel could bring nothing back */
    BATCH = 64,                 /* pages of the system that are looked up at a time */
};

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
    na_free_pages_t *s = &na_free_pages[node];
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
