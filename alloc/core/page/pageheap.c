/* pageheap.c - runs of pages for one node: the entry points, the order in which memory is looked
 * for, the heap limit. */
#include "alloc/core/page/pageheap.h"

#include "alloc/core/machine/pressure.h"
#include "alloc/core/machine/topology.h"
#include "alloc/core/page/backing.h"
#include "alloc/core/page/free_pages.h"
#include "alloc/core/page/purge.h"
#include "alloc/core/sys/os.h"

/* --- the heap limit --- */

size_t na_limit;
/* Bytes charged; kept only where there is a limit, so that nodes share no counter without one. */
static _Atomic(size_t) na_limit_used;

bool na_limit_charge(size_t bytes) {
    size_t limit = na_limit;
    if (NA_LIKELY(limit == 0)) return true;
    size_t used = atomic_load_explicit(&na_limit_used, memory_order_relaxed);
    do {
        if (bytes > limit || used > limit - bytes) return false;
    } while (!atomic_compare_exchange_weak_explicit(&na_limit_used, &used, used + bytes,
                                                    memory_order_relaxed, memory_order_relaxed));
    return true;
}

void na_limit_release(size_t bytes) {
    if (NA_UNLIKELY(na_limit != 0))
        atomic_fetch_sub_explicit(&na_limit_used, bytes, memory_order_relaxed);
}

/* --- taking --- */

/* What is asked for beside a number of pages. */
typedef struct na_wish {
    uint32_t align;
    uint32_t slack; /* to grow into, on either side; 0: none */
    bool filled;    /* by blocks of at most a page of the system */
} na_wish_t;

static uintptr_t na_pageheap_find_growing(na_free_pages_t *s, uint32_t pages, uint32_t slack,
                                          uint32_t *dirty) {
    uintptr_t start = na_pages_take_growing(s, pages, slack, dirty);
    if (!start && na_pages_grow_growing(s, pages, slack))
        start = na_pages_take_growing(s, pages, slack, dirty);
    return start;
}

static uintptr_t na_pageheap_take(na_free_pages_t *s, uint32_t pages, na_wish_t wish, bool *zeroed);

/* With the lock, when a run was just taken. `ahead`: what s->ahead was before. */
NA_INLINE void na_pageheap_count(na_free_pages_t *s, uint32_t pages, uint64_t ahead, bool filled) {
    if (filled)
        s->filled += pages;
    else
        s->astray += ahead - s->ahead;
}

/* What is resident exceeds what may be, and the run has no memory. */
static NA_COLD uintptr_t na_pageheap_refit(na_free_pages_t *s, uintptr_t start, uint32_t pages,
                                           na_wish_t wish, bool *zeroed) {
    switch (na_remap(s, start, pages)) {
    case NA_REMAP_NONE:
        break;
    case NA_REMAP_SOME:
        *zeroed = false;
        break;
    case NA_REMAP_LOST: /* at most once a node: then no more is moved there */
        return na_pageheap_take(s, pages, wish, zeroed);
    }
    na_purge_to_peak(s);
    return start;
}

/* While a limit is exhausted, what is given is charged at once (pressure.h), unless it
 * is so large that it may be meant to be used in part. Contents stay. */
static void na_pageheap_touch(uintptr_t start, uint32_t pages) {
    if ((size_t)pages << NA_PAGE_SHIFT > NA_WHOLE_BYTES) return;
    uintptr_t end = start + ((uintptr_t)pages << NA_PAGE_SHIFT);
    for (uintptr_t p = start; p < end; p += na_os_page)
        na_os_touch((void *)p);
}

/* Free memory, else new memory, anywhere; what small blocks will fill next for them, or at last. */
static uintptr_t na_pageheap_take_any(na_free_pages_t *s, uint32_t pages, na_wish_t wish,
                                      uint32_t *dirty) {
    bool spares = !wish.filled && s->ahead != 0;
    for (bool grown = false;; grown = true) {
        bool across = na_pages_may_cross(pages, wish.align); /* growth may have found a limit */
        uintptr_t start = across ? na_pages_take_across(s, pages, dirty)
                                 : na_pages_take(s, pages, wish.align, spares, dirty);
        if (NA_LIKELY(start)) return start;
        if (grown || !na_pages_grow(s, pages, wish.align)) break;
    }
    return spares ? na_pages_take(s, pages, wish.align, false, dirty) : 0;
}

/* Free memory of the node, else new memory of the node. With the lock; lets it go. */
static uintptr_t na_pageheap_take_locked(na_free_pages_t *s, uint32_t pages, na_wish_t wish,
                                         bool *zeroed) {
    uintptr_t start = 0;
    uint32_t dirty;
    uint64_t ahead = s->ahead;
    if (NA_UNLIKELY(wish.slack)) start = na_pageheap_find_growing(s, pages, wish.slack, &dirty);
    if (NA_UNLIKELY(na_pressure_is_critical()) && !start &&
        (start = na_pages_take_dirty(s, pages, wish.align)))
        dirty = pages;
    if (NA_LIKELY(!start)) start = na_pageheap_take_any(s, pages, wish, &dirty);
    bool beyond_peak = start && na_pages_beyond_peak(s, pages - dirty);
    uint32_t populate = 0;
    if (NA_LIKELY(start)) {
        s->fresh += pages - dirty;
        na_pageheap_count(s, pages, ahead, wish.filled);
        if (wish.filled && s->filled >= NA_PREFAULT_LEAST && dirty < pages && !beyond_peak)
            populate = na_prefault_plan(s, start, pages);
    }
    na_unlock(&s->lock);
    if (NA_LIKELY(start)) *zeroed = dirty == 0;
    if (populate != 0) na_prefault(start, populate);
    if (NA_UNLIKELY(beyond_peak)) start = na_pageheap_refit(s, start, pages, wish, zeroed);
    if (NA_UNLIKELY(na_pressure_is_exhausted()) && start) na_pageheap_touch(start, pages);
    return start;
}

static uintptr_t na_pageheap_take(na_free_pages_t *s, uint32_t pages, na_wish_t wish,
                                  bool *zeroed) {
    na_lock(&s->lock);
    return na_pageheap_take_locked(s, pages, wish, zeroed);
}

/* --- several nodes: the order of growth ---
 *
 * A span for a node comes from, in this order:
 *   1. free memory of the node;
 *   2. new memory of the node, for which others give back free memory when the process holds more
 *      than it lately needed (na_pageheap_purge_others);
 *   3. when the node has no room left: its free pages that hold memory but do not fit are given
 *      back, for as much new memory of the node;
 *   4. the nearest other node that has room or fitting free memory: a stray;
 *   5. when none has: the node again, and the kernel does what it can.
 * Pages that the kernel places elsewhere all the same (it only prefers the node) cannot be seen
 * from here without a system call a page, which is why room is looked at before it is used up. */

enum {
    /* Of new memory at most between two looks at a node's room. */
    LOOK_PAGES = NA_CACHED_BYTES / 4 >> NA_PAGE_SHIFT,
    SPLIT_MS = NA_IDLE_MS,       /* the least time between two splittings of a node's huge pages */
    LOOK_MS = NA_POLL_MS,        /* the least time between two looks */
    FULL_PAGES = NA_LOT_PAGES,   /* less than that is no room */
    PURGE_LEAST = NA_HUGE_PAGES, /* given back at a time when the node is full */
};

typedef struct na_strays {
    _Alignas(NA_CACHE_LINE) _Atomic(uint64_t) ever; /* pages that others gave, over time */
    _Atomic(uint64_t) away;                         /* of those, in use now */
    _Atomic(uint64_t) guests;                       /* pages here, in use by others */
} na_strays_t;
NA_SPARSE static na_strays_t na_strays[NA_MAX_NODES + 1];

void na_pageheap_count_stray(unsigned home, unsigned node, uint32_t pages, bool begins) {
    if (begins) {
        atomic_fetch_add_explicit(&na_strays[home].ever, pages, memory_order_relaxed);
        atomic_fetch_add_explicit(&na_strays[home].away, pages, memory_order_relaxed);
        atomic_fetch_add_explicit(&na_strays[node].guests, pages, memory_order_relaxed);
    } else {
        atomic_fetch_sub_explicit(&na_strays[home].away, pages, memory_order_relaxed);
        atomic_fetch_sub_explicit(&na_strays[node].guests, pages, memory_order_relaxed);
    }
}

/* Kaminski's threshold, made exact. His allocator reuses another node's memory once the process
 * holds a fixed amount; this one has the other nodes give back what they do not use, and grows at
 * home: when what all nodes hold passes what each may for itself (na_pages_bound). A guess: the
 * nodes' locks are not held. */
NA_RACY static void na_pageheap_purge_others(unsigned node) {
    uint64_t now = na_os_ms(), bound = 0, held = 0;
    for (unsigned i = 0; i < NA_PAGES_SETS; i = na_pages_next(i)) {
        const na_free_pages_t *s = &na_free_pages[i];
        if (s->committed == 0) continue;
        bound += na_pages_bound(s, now);
        held += s->used + s->dirty;
    }
    for (unsigned i = 0; i < NA_PAGES_SETS && held > bound; i = na_pages_next(i)) {
        if (i == node || i == NA_PAGES_FIRST_TOUCH(node) || na_free_pages[i].dirty == 0) continue;
        uint64_t purged = na_purge_for_others(&na_free_pages[i], held - bound);
        held -= purged < held ? purged : held;
    }
}

/* With the lock, when one of the two has changed. */
static void na_pageheap_set_limit(na_free_pages_t *s) {
    s->fresh_limit = s->ask_limit < s->room_limit ? s->ask_limit : s->room_limit;
}

/* Pages of new memory that the node can give: from the system's figures, or less what was taken
 * since they were read. The next look comes when half of it is used up; at once, when `wanted`
 * pages are more than is left by our count only, since what was taken may not have been touched. */
static uint64_t na_pageheap_room(unsigned node, uint64_t wanted) {
    na_free_pages_t *s = &na_free_pages[node];
    uint64_t now = na_os_ms();
    na_lock(&s->lock);
    bool look = s->room_ms == 0 || now - s->room_ms >= LOOK_MS;
    uint64_t room = s->room > s->fresh ? s->room - s->fresh : 0;
    look = look || (room < wanted && s->room >= wanted);
    if (look) s->room_ms = now; /* one thread does; the others go by the old figure */
    na_unlock(&s->lock);
    if (!look) return room;
    room = na_node_usable(node) ? na_node_free(node) : 0;
    if (room != NA_NODE_FREE_UNKNOWN) room >>= NA_PAGE_SHIFT;
    na_lock(&s->lock);
    s->room = room;
    s->ask_limit = s->ask_limit > s->fresh ? s->ask_limit - s->fresh : 0;
    s->fresh = 0;
    s->room_limit = room / 2 < LOOK_PAGES ? room / 2 : LOOK_PAGES;
    na_pageheap_set_limit(s);
    na_unlock(&s->lock);
    return room;
}

static bool na_pageheap_fits(unsigned node, uint64_t pages) {
    return na_pageheap_room(node, pages + FULL_PAGES) >= pages + FULL_PAGES;
}

/* The kernel does not run short on a node that we keep from running short, so it splits no huge
 * pages there by itself: it is told to. True if that was done now. */
static bool na_pageheap_split_huge(na_free_pages_t *s) {
    uint64_t now = na_os_ms();
    na_lock(&s->lock);
    bool due = s->split_ms == 0 || now - s->split_ms >= SPLIT_MS;
    if (due) s->split_ms = now;
    na_unlock(&s->lock);
    if (due) na_purge_split(s);
    return due;
}

/* A block may grow where it is: not when that would be on a node that is full. */
static bool na_pageheap_has_room(unsigned node, uint32_t pages) {
    if (NA_LIKELY(!na_node_many)) return true;
    na_free_pages_t *s = &na_free_pages[node];
    na_lock(&s->lock);
    bool looks = s->fresh + pages > s->room_limit && na_place_spills(node) && !s->bind_refused;
    na_unlock(&s->lock);
    return !looks || na_pageheap_fits(node, pages);
}

/* While the node has room for a good part the kernel is left to fill it, and to go on with the
 * nearest: large blocks are often used in part only. */
unsigned na_pageheap_node_with_room(unsigned node, uint32_t pages) {
    if (NA_LIKELY(!na_node_many) || !na_place_spills(node) || na_free_pages[node].bind_refused)
        return node;
    uint32_t least = pages < LOOK_PAGES ? pages : LOOK_PAGES;
    for (unsigned i = 0; i < na_node_count; i++) {
        unsigned other = na_node_nearest(node, i);
        if (na_node_usable(other) && na_pageheap_fits(other, least)) return other;
    }
    return node;
}

static uintptr_t na_pageheap_take_dirty(na_free_pages_t *s, uint32_t pages, na_wish_t wish,
                                        bool *zeroed) {
    na_lock(&s->lock);
    uint64_t ahead = s->ahead;
    uintptr_t start = na_pages_take_dirty(s, pages, wish.align);
    if (start) na_pageheap_count(s, pages, ahead, wish.filled);
    na_unlock(&s->lock);
    if (start) *zeroed = false;
    return start;
}

/* A run for `node` from the nearest other node that has it. */
static uintptr_t na_pageheap_take_stray(unsigned node, uint32_t pages, na_wish_t wish,
                                        bool *zeroed) {
    for (unsigned i = 1; i < na_node_count; i++) {
        unsigned other = na_node_nearest(node, i);
        if (other == node || !na_node_usable(other)) continue;
        na_free_pages_t *s = &na_free_pages[other];
        uintptr_t start;
        if (na_pageheap_fits(other, pages)) {
            start = na_pageheap_take(s, pages, wish, zeroed);
        } else {
            start = na_pageheap_take_dirty(s, pages, wish, zeroed);
        }
        if (start) return start;
    }
    return 0;
}

/* Who knows of limits is asked if that is due. False: these pages may not be had. */
static bool na_pageheap_ask(na_free_pages_t *s, uint32_t pages) {
    na_lock(&s->lock);
    bool due = s->fresh + pages > s->ask_limit, exhausted = na_pressure_is_exhausted();
    na_unlock(&s->lock);
    if (!due) return true;
    uint64_t allowance = na_limits_ask((uint64_t)pages << NA_PAGE_SHIFT, false) >> NA_PAGE_SHIFT;
    na_lock(&s->lock);
    if (na_pressure_is_exhausted() && !exhausted && allowance > pages)
        allowance = pages; /* others have looked since */
    s->ask_limit = s->fresh + allowance;
    na_pageheap_set_limit(s);
    na_unlock(&s->lock);
    return allowance != 0;
}

/* The node has used up what it, or a limit, was known to have room for. *refused: by the limit. */
static NA_COLD uintptr_t na_pageheap_take_watched(unsigned node, uint32_t pages, na_wish_t wish,
                                                  bool *zeroed, bool *refused) {
    na_free_pages_t *s = &na_free_pages[node];
    uintptr_t start =
        na_pressure_is_exhausted() ? na_pageheap_take_dirty(s, pages, wish, zeroed) : 0;
    if (start) return start;
    *refused = !na_pageheap_ask(s, pages);
    if (*refused) return 0;
    na_lock(&s->lock);
    if (!na_place_spills(node) || s->bind_refused) {
        s->room_limit = UINT64_MAX;
        na_pageheap_set_limit(s);
    }
    if (s->fresh + pages <= s->room_limit) return na_pageheap_take_locked(s, pages, wish, zeroed);
    na_unlock(&s->lock);
    if ((start = na_pageheap_take_dirty(s, pages, wish, zeroed))) return start;
    na_pageheap_purge_others(node);
    if (na_pageheap_fits(node, pages)) return na_pageheap_take(s, pages, wish, zeroed);
    if (na_pageheap_split_huge(s)) {
        na_lock(&s->lock);
        s->room_ms = 0; /* look again at once */
        na_unlock(&s->lock);
        if (na_pageheap_fits(node, pages)) return na_pageheap_take(s, pages, wish, zeroed);
    }

    na_lock(&s->lock);
    uint64_t dirty = s->dirty, lot = pages > PURGE_LEAST ? pages : PURGE_LEAST;
    na_unlock(&s->lock);
    if (dirty >= pages && na_purge_trim(s, dirty > lot ? dirty - lot : 0) >= pages)
        return na_pageheap_take(s, pages, wish, zeroed);
    start = na_pageheap_take_stray(node, pages, wish, zeroed);
    return start ? start : na_pageheap_take(s, pages, wish, zeroed);
}

/* --- refusal --- */

static uint64_t na_pageheap_purge_all(void) {
    uint64_t purged = 0;
    for (unsigned i = 0; i < NA_PAGES_SETS; i = na_pages_next(i))
        purged += na_purge_trim(&na_free_pages[i], 0);
    return purged;
}

/* A limit refuses: everything that is free goes back, and if that is something, it is asked once
 * more. */
static NA_COLD uintptr_t na_pageheap_take_purged(unsigned node, uint32_t pages, na_wish_t wish,
                                                 bool *zeroed) {
    if (na_pageheap_purge_all() == 0) return 0;
    if (!na_pageheap_ask(&na_free_pages[node], pages)) return 0;
    return na_pageheap_take(&na_free_pages[node], pages, wish, zeroed);
}

/* The system refuses address space or commitment: everything that is free goes back to it, then one
 * more try, then what the other nodes have, nearest first, the pseudo-node last. */
static NA_COLD uintptr_t na_pageheap_take_hard(unsigned node, uint32_t pages, na_wish_t wish,
                                               bool *zeroed) {
    na_pageheap_purge_all();
    uintptr_t start = na_pageheap_take(&na_free_pages[node], pages, wish, zeroed);
    if (start || (na_place_binds(node) && !na_place_spills(node))) return start; /* strict */
    for (unsigned i = 0; i < na_node_count && !start; i++) {
        unsigned other = na_node_nearest(node, i);
        if (other != node) start = na_pageheap_take(&na_free_pages[other], pages, wish, zeroed);
    }
    if (!start && node != NA_NODE_ANY)
        start = na_pageheap_take(&na_free_pages[NA_NODE_ANY], pages, wish, zeroed);
    return start;
}

size_t (*na_pageheap_reclaim)(unsigned node);

static NA_COLD size_t na_pageheap_reclaim_all(void) {
    size_t bytes = 0;
    for (unsigned node = 0; node <= NA_NODE_ANY; node = na_node_next(node))
        if (na_pages_kept(node) != 0) bytes += na_pageheap_reclaim(node);
    return bytes;
}

static uintptr_t na_pageheap_serve(unsigned node, uint32_t pages, na_wish_t wish, bool *zeroed) {
    if (NA_UNLIKELY(pages == 0 || pages > NA_RUN_MAX_PAGES)) return 0;
    size_t bytes = (size_t)pages << NA_PAGE_SHIFT;
    na_free_pages_t *s = &na_free_pages[node];
    if (NA_UNLIKELY(!na_limit_charge(bytes)) &&
        (na_pageheap_reclaim_all() == 0 || !na_limit_charge(bytes)))
        return 0;
    if (NA_UNLIKELY(na_pages_kept(node) != 0) && !na_pageheap_has_dirty(node, pages))
        na_pageheap_reclaim(node);
    uintptr_t start;
    bool refused = false;
    na_lock(&s->lock);
    if (NA_LIKELY(s->fresh + pages <= s->fresh_limit)) {
        start = na_pageheap_take_locked(s, pages, wish, zeroed);
    } else {
        na_unlock(&s->lock);
        bool exhausted = na_pressure_is_exhausted();
        if (exhausted) na_lock(&na_exhausted_lock);
        start = na_pageheap_take_watched(node, pages, wish, zeroed, &refused);
        if (refused) start = na_pageheap_take_purged(node, pages, wish, zeroed);
        if (exhausted) na_unlock(&na_exhausted_lock);
    }
    if (NA_UNLIKELY(!start) && na_pageheap_reclaim_all() != 0)
        start = na_pageheap_take(s, pages, wish, zeroed);
    if (NA_UNLIKELY(!start) && !refused) start = na_pageheap_take_hard(node, pages, wish, zeroed);
    if (NA_UNLIKELY(!start)) {
        na_limit_release(bytes);
        return 0;
    }
    if (NA_UNLIKELY(na_node_many)) {
        unsigned from = na_pageheap_node_of(start);
        if (NA_UNLIKELY(from != node)) na_pageheap_count_stray(node, from, pages, true);
    }
    return start;
}

uintptr_t na_pageheap_alloc(unsigned node, uint32_t pages, uint32_t align_pages, bool *zeroed) {
    return na_pageheap_serve(node, pages, (na_wish_t){.align = align_pages}, zeroed);
}

uintptr_t na_pageheap_alloc_filled(unsigned node, uint32_t pages, bool *zeroed) {
    return na_pageheap_serve(node, pages, (na_wish_t){.align = 1, .filled = true}, zeroed);
}

uintptr_t na_pageheap_alloc_growing(unsigned node, uint32_t pages, uint32_t slack, bool *zeroed) {
    return na_pageheap_serve(node, pages, (na_wish_t){.align = 1, .slack = slack}, zeroed);
}

/* --- large blocks that are to lie where they are first touched --- */

bool na_pageheap_leaves_to_touch(unsigned node) {
    return na_node_many && na_place_spills(node) && !na_free_pages[node].bind_refused &&
           !atomic_load_explicit(&na_free_pages[NA_PAGES_FIRST_TOUCH(node)].touch_refused,
                                 memory_order_relaxed) &&
           !na_pressure_is_critical() && !na_pressure_is_exhausted() &&
           !atomic_load_explicit(&na_reserve_limited, memory_order_relaxed);
}

/* Free pages that all hold memory. */
static uintptr_t na_pageheap_take_held(na_free_pages_t *s, uint32_t pages) {
    bool zeroed;
    return na_pageheap_take_dirty(s, pages, (na_wish_t){.align = 1}, &zeroed);
}

uintptr_t na_pageheap_alloc_held(unsigned node, uint32_t pages) {
    size_t bytes = (size_t)pages << NA_PAGE_SHIFT;
    if (!na_limit_charge(bytes)) return 0;
    uintptr_t start = na_pageheap_take_held(&na_free_pages[node], pages);
    if (start == 0) na_limit_release(bytes);
    return start;
}

/* So much new memory counts as the node's, wherever it will be touched. False: the node may have
 * no room for it, or a limit. */
static bool na_pageheap_count_fresh(unsigned node, uint32_t pages) {
    na_free_pages_t *s = &na_free_pages[node];
    if (!na_pageheap_ask(s, pages) || na_pressure_is_critical() || na_pressure_is_exhausted())
        return false;
    na_lock(&s->lock);
    bool looks = s->fresh + pages > s->room_limit;
    na_unlock(&s->lock);
    if (looks) na_pageheap_purge_others(node);
    if (looks && !na_pageheap_fits(node, pages)) return false;
    na_lock(&s->lock);
    s->fresh += pages;
    na_unlock(&s->lock);
    return true;
}

uintptr_t na_pageheap_alloc_by_touch(unsigned node, uint32_t pages, bool *zeroed, bool *by_touch) {
    size_t bytes = (size_t)pages << NA_PAGE_SHIFT;
    if (!na_limit_charge(bytes)) return 0;
    na_free_pages_t *s = &na_free_pages[NA_PAGES_FIRST_TOUCH(node)];
    uintptr_t start = na_pageheap_take_held(s, pages);
    if (!start) start = na_pageheap_take_held(&na_free_pages[node], pages);
    *by_touch = !start;
    *zeroed = false;
    if (!start && na_pageheap_count_fresh(node, pages))
        start = na_pageheap_take(s, pages, (na_wish_t){.align = NA_HUGE_PAGES}, zeroed);
    if (!start) na_limit_release(bytes);
    return start;
}

bool na_pageheap_is_by_touch(uintptr_t address) {
    const na_hugepage_t *hp = na_region_hugepage(address);
    return hp && hp->region->by_touch;
}

void na_pageheap_refuse_touch(unsigned node) {
    atomic_store_explicit(&na_free_pages[NA_PAGES_FIRST_TOUCH(node)].touch_refused, true,
                          memory_order_relaxed);
}

NA_INLINE unsigned na_page_in_hugepage(uintptr_t address) {
    return (unsigned)(address >> NA_PAGE_SHIFT) % NA_HUGE_PAGES;
}

/* Splits [start, start + pages) at hugepage boundaries: how many pages lie in the first one, and at
 * which page of it they begin. */
NA_INLINE unsigned na_first_part(uintptr_t start, uint32_t pages, unsigned *at) {
    *at = na_page_in_hugepage(start);
    return pages < NA_HUGE_PAGES - *at ? pages : NA_HUGE_PAGES - *at;
}

/* The hugepage of a run that the caller says was taken from `node`. */
NA_INLINE na_hugepage_t *na_pageheap_find(unsigned node, uintptr_t start, uint32_t pages) {
    na_hugepage_t *hp = na_region_hugepage(start);
    if (NA_UNLIKELY(!hp || hp->region->node != node ||
                    start + ((uintptr_t)pages << NA_PAGE_SHIFT) >
                        hp->region->start + hp->region->size))
        na_pages_broken("a run that this node does not own", start);
    return hp;
}

/* The same for pages that were added to a run. False: they are no longer there. */
static NA_COLD bool na_pageheap_refit_added(na_free_pages_t *s, uintptr_t start, uint32_t pages,
                                            bool *zeroed) {
    uintptr_t first = na_align_up(start, NA_HUGE_SIZE); /* before it is a hugepage in use */
    uint32_t before = (uint32_t)((first - start) >> NA_PAGE_SHIFT);
    switch (before < pages ? na_remap(s, first, pages - before) : NA_REMAP_NONE) {
    case NA_REMAP_NONE:
        break;
    case NA_REMAP_SOME:
        *zeroed = false;
        break;
    case NA_REMAP_LOST:
        na_pageheap_free(na_pageheap_node_of(start), start, before);
        na_limit_release((size_t)(pages - before) << NA_PAGE_SHIFT);
        return false;
    }
    na_purge_to_peak(s);
    return true;
}

static bool na_pageheap_extend_now(unsigned node, uintptr_t start, uint32_t pages, uint32_t extra,
                                   bool *zeroed) {
    if (extra == 0 || extra > NA_RUN_MAX_PAGES || pages + extra > NA_RUN_MAX_PAGES) return false;
    na_region_t *region = na_pageheap_find(node, start, pages)->region;
    na_free_pages_t *s = &na_free_pages[region->set];
    uintptr_t from = start + ((uintptr_t)pages << NA_PAGE_SHIFT);
    size_t bytes = (size_t)extra << NA_PAGE_SHIFT;
    if (from + bytes > region->start + region->size || !na_pageheap_has_room(node, extra) ||
        (NA_UNLIKELY(na_pressure_is_exhausted()) &&
         !na_pageheap_ask(&na_free_pages[node], extra)) ||
        !na_limit_charge(bytes))
        return false;

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
    if (free && left) free = na_pages_open(s, region, from + bytes - region->start);
    bool beyond_peak = false;
    if (free) {
        unsigned dirty = 0;
        na_hugepage_t *hp = na_region_hugepage(from);
        uintptr_t at_page = from;
        na_region_use(region, from + bytes);
        for (left = extra; left; hp++) {
            unsigned at, n = na_first_part(at_page, left, &at);
            dirty += na_pages_take_at(s, hp, at, n);
            at_page += (uintptr_t)n << NA_PAGE_SHIFT;
            left -= n;
        }
        *zeroed = dirty == 0;
        s->fresh += extra - dirty;
        beyond_peak = na_pages_beyond_peak(s, extra - dirty);
    }
    na_unlock(&s->lock);
    if (!free) na_limit_release(bytes);
    if (beyond_peak) free = na_pageheap_refit_added(s, from, extra, zeroed);
    if (NA_UNLIKELY(na_pressure_is_exhausted()) && free) na_pageheap_touch(from, extra);
    return free;
}

bool na_pageheap_extend(unsigned node, uintptr_t start, uint32_t pages, uint32_t extra,
                        bool *zeroed) {
    bool exhausted = na_pressure_is_exhausted();
    if (NA_UNLIKELY(exhausted)) na_lock(&na_exhausted_lock);
    bool extended = na_pageheap_extend_now(node, start, pages, extra, zeroed);
    if (NA_UNLIKELY(exhausted)) na_unlock(&na_exhausted_lock);
    return extended;
}

/* --- giving back --- */

/* With the lock, before pages of a run become free, from page `at` of the hugepage on: their advice
 * ends. (A block's advice begins with its first hugepage, or the second.) */
NA_INLINE void na_pageheap_end_advice(na_hugepage_t *hp, unsigned at, uint32_t pages) {
    size_t count = (at + pages + NA_HUGE_PAGES - 1) / NA_HUGE_PAGES;
    if (NA_UNLIKELY(hp[0].advice != NA_ADVICE_NONE) ||
        NA_UNLIKELY(count > 1 && hp[1].advice != NA_ADVICE_NONE))
        na_prefault_withdraw(hp, count);
}

NA_INLINE void na_pageheap_give(unsigned node, uintptr_t start, uint32_t pages, bool filled) {
    if (NA_UNLIKELY(pages == 0)) return;
    na_hugepage_t *hp = na_pageheap_find(node, start, pages);
    na_free_pages_t *s = &na_free_pages[hp->region->set];
    na_lock(&s->lock);
    s->filled -= filled ? pages : 0;
    uint64_t now = na_purge_clock(s, pages);
    na_pageheap_end_advice(hp, na_page_in_hugepage(start), pages);
    uint32_t left = pages;
    for (;;) {
        unsigned at, n = na_first_part(start, left, &at);
        na_pages_give(s, hp++, at, n, now);
        left -= n;
        if (NA_LIKELY(left == 0)) break;
        start += (uintptr_t)n << NA_PAGE_SHIFT;
    }
    bool purge = na_purge_wanted(s, now);
    na_unlock(&s->lock);
    na_limit_release((size_t)pages << NA_PAGE_SHIFT);
    if (NA_UNLIKELY(purge)) na_purge_cap(s);
}

void na_pageheap_free(unsigned node, uintptr_t start, uint32_t pages) {
    na_pageheap_give(node, start, pages, false);
}

void na_pageheap_free_filled(unsigned node, uintptr_t start, uint32_t pages) {
    na_pageheap_give(node, start, pages, true);
}

/* Beside pages that lay elsewhere the system may have put more of its own accord, by huge pages: to
 * the lists they hold no memory, and the next block would begin with them at the wrong node. Under
 * the lock, so that nobody takes them meanwhile. */
static void na_purge_beside(const na_hugepage_t *hp, uintptr_t start) {
    if (na_bits_empty(&hp->used) && na_bits_empty(&hp->dirty))
        (void)na_os_purge((void *)na_align_down(start, NA_HUGE_SIZE), NA_HUGE_SIZE);
}

NA_COLD void na_pageheap_free_purged(unsigned node, uintptr_t start, uint32_t pages) {
    na_hugepage_t *hp = na_pageheap_find(node, start, pages);
    na_free_pages_t *s = &na_free_pages[hp->region->set];
    na_lock(&s->lock);
    na_pageheap_end_advice(hp, na_page_in_hugepage(start), pages);
    for (uint32_t left = pages; left > 0; hp++) {
        na_bits_t part = {{0, 0, 0, 0}};
        unsigned at, n = na_first_part(start, left, &at);
        na_bits_set(&part, at, n);
        na_pages_give(s, hp, at, n, atomic_load_explicit(&s->clock, memory_order_relaxed));
        na_pages_isolate(s, hp, part);
        na_pages_restore(s, hp, part, false);
        if (n != NA_HUGE_PAGES) na_purge_beside(hp, start);
        start += (uintptr_t)n << NA_PAGE_SHIFT;
        left -= n;
    }
    s->purged += (uint64_t)pages << NA_PAGE_SHIFT;
    na_unlock(&s->lock);
    na_limit_release((size_t)pages << NA_PAGE_SHIFT);
}

bool na_pageheap_rebind(unsigned node) {
    if (!na_place_binds(node)) return true;
    na_free_pages_t *s = &na_free_pages[node];
    na_purge_trim(s, 0); /* what is free need not be moved */
    na_purge_trim(&na_free_pages[NA_PAGES_FIRST_TOUCH(node)], 0);
    na_lock(&s->lock);
    na_region_t *region = s->regions; /* regions stay for ever */
    bool all = true;
    s->bind_refused = false; /* it may have been for want of the node */
    s->room_ms = 0;
    s->room_limit = s->fresh_limit = 0; /* look at its room again */
    na_unlock(&s->lock);
    for (; region; region = region->next) {
        na_lock(&s->lock);
        size_t frontier = region->frontier;
        na_unlock(&s->lock);
        /* mbind passes over what is left of a huge page whose first page was given back. */
        na_os_split_huge((void *)region->start, frontier);
        bool bound = na_region_rebind(region, frontier);
        na_lock(&s->lock);
        region->bound = bound;
        s->bind_refused |= !bound;
        na_unlock(&s->lock);
        all &= bound;
    }
    return all;
}

/* The node's first-touch pages, NULL: it can have none. */
NA_INLINE na_free_pages_t *na_pageheap_touch_store(unsigned node) {
    return NA_UNLIKELY(na_node_many) && node < NA_NODE_ANY
               ? &na_free_pages[NA_PAGES_FIRST_TOUCH(node)]
               : NULL;
}

void na_pageheap_tick(unsigned node, uint64_t now) {
    na_purge_tick(&na_free_pages[node], now);
    na_free_pages_t *touch = na_pageheap_touch_store(node);
    if (touch) na_purge_tick(touch, now);
}

size_t na_pageheap_trim(unsigned node, size_t keep_bytes) {
    if (na_pages_kept(node) != 0) na_pageheap_reclaim(node);
    uint64_t keep = keep_bytes >> NA_PAGE_SHIFT, purged = 0;
    na_free_pages_t *touch = na_pageheap_touch_store(node);
    if (touch) {
        purged = na_purge_trim(touch, keep);
        na_lock(&touch->lock);
        keep -= touch->dirty < keep ? touch->dirty : keep;
        na_unlock(&touch->lock);
    }
    purged += na_purge_trim(&na_free_pages[node], keep);
    return (size_t)purged << NA_PAGE_SHIFT;
}

/* --- questions --- */

unsigned na_pageheap_node_of(uintptr_t address) {
    const na_hugepage_t *hp = na_region_hugepage(address);
    return hp ? hp->region->node : NA_NO_NODE;
}

NA_RACY bool na_pageheap_has_dirty(unsigned node, uint32_t pages) {
    const volatile na_free_pages_t *s = &na_free_pages[node];
    return s->dirty >= s->ahead + pages;
}

static void na_pageheap_add_stats(na_free_pages_t *s, na_pageheap_stats_t *stats) {
    na_lock(&s->lock);
    stats->committed += s->committed;
    stats->used += s->used << NA_PAGE_SHIFT;
    stats->dirty += s->dirty << NA_PAGE_SHIFT;
    stats->purged += s->purged;
    stats->regions += s->region_count;
    stats->bind_refused |= s->bind_refused;
    for (const na_region_t *region = s->regions; region; region = region->next) {
        stats->bound &= region->bound;
        stats->reserved += na_reserve_bytes(&region->space);
    }
    na_unlock(&s->lock);
}

void na_pageheap_get_stats(unsigned node, na_pageheap_stats_t *stats) {
    *stats = (na_pageheap_stats_t){.bound = true};
    na_pageheap_add_stats(&na_free_pages[node], stats);
    na_free_pages_t *touch = na_pageheap_touch_store(node);
    if (touch) na_pageheap_add_stats(touch, stats);
    stats->bound &= stats->regions != 0;
    const na_strays_t *strays = &na_strays[node];
    stats->strays = atomic_load_explicit(&strays->ever, memory_order_relaxed) << NA_PAGE_SHIFT;
    stats->away = atomic_load_explicit(&strays->away, memory_order_relaxed) << NA_PAGE_SHIFT;
    stats->guests = atomic_load_explicit(&strays->guests, memory_order_relaxed) << NA_PAGE_SHIFT;
}

uint64_t na_pageheap_committed_on(unsigned node) {
    uint64_t bytes = __atomic_load_n(&na_free_pages[node].committed, __ATOMIC_RELAXED);
    const na_free_pages_t *touch = na_pageheap_touch_store(node);
    return touch ? bytes + __atomic_load_n(&touch->committed, __ATOMIC_RELAXED) : bytes;
}

uint64_t na_pageheap_committed(void) {
    uint64_t bytes = 0;
    for (unsigned node = 0; node <= NA_NODE_ANY; node = na_node_next(node))
        bytes += na_pageheap_committed_on(node);
    return bytes;
}

void na_pageheap_after_fork_child(void) {
    na_region_after_fork_child();
    if (na_limits != NULL) na_limits->after_fork_child();
    for (unsigned i = 0; i < NA_PAGES_SETS; i = na_pages_next(i)) {
        na_lock_reset(&na_free_pages[i].lock);
        if (na_free_pages[i].purging != 0 && na_free_pages[i].purging != na_thread_tag())
            na_free_pages[i].purging = 0; /* the thread that did is not here */
    }
}
