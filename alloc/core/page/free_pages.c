/* free_pages.c - the free pages of one node: lists, choice, growth. */
#include "alloc/core/page/free_pages.h"

#include "alloc/core/machine/pressure.h"
#include "alloc/core/machine/topology.h"
#include "alloc/core/page/backing.h"
#include "alloc/core/page/scavenge_policy.h"
#include "alloc/core/sys/options.h"
#include "alloc/core/sys/os.h"
#include "alloc/core/sys/print.h"
#include "alloc/core/sys/tuned.h"

NA_SPARSE na_free_pages_t na_free_pages[NA_PAGES_SETS];

/* --- lists ------------------------------------------------------------------------------------ */

/* A hugepage has two links; `old` says which one a list is made of (a constant wherever used). */
NA_INLINE na_hugepage_link_t *na_link(na_hugepage_t *hp, bool old) {
    return old ? &hp->old : &hp->fit;
}

NA_INLINE void na_list_remove(na_hugelist_t *list, na_hugepage_t *hp, bool old) {
    na_hugepage_link_t *link = na_link(hp, old);
    if (link->prev)
        na_link(link->prev, old)->next = link->next;
    else
        list->head = link->next;
    if (link->next)
        na_link(link->next, old)->prev = link->prev;
    else
        list->tail = link->prev;
}

NA_INLINE void na_list_push(na_hugelist_t *list, na_hugepage_t *hp, bool old) {
    na_hugepage_link_t *link = na_link(hp, old);
    link->prev = NULL;
    link->next = list->head;
    if (list->head)
        na_link(list->head, old)->prev = hp;
    else
        list->tail = hp;
    list->head = hp;
}

NA_INLINE void na_list_append(na_hugelist_t *list, na_hugepage_t *hp, bool old) {
    na_hugepage_link_t *link = na_link(hp, old);
    link->next = NULL;
    link->prev = list->tail;
    if (list->tail)
        na_link(list->tail, old)->next = hp;
    else
        list->head = hp;
    list->tail = hp;
}

static void na_pages_mark_empty(na_hugepage_t *hp, bool empty) {
    na_region_t *region = hp->region;
    size_t i = (size_t)(hp - region->hugepages);
    uint64_t bit = (uint64_t)1 << (i % 64);
    if (empty) {
        region->empty[i / 64] |= bit;
        region->empties++;
    } else {
        region->empty[i / 64] &= ~bit;
        region->empties--;
    }
}

/* Puts a hugepage on the lists that its bitmaps and `longest` ask for. */
static void na_pages_place(na_free_pages_t *s, na_hugepage_t *hp) {
    bool dirty = !na_bits_empty(&hp->dirty);
    unsigned list = hp->longest;
    if (list == NA_HUGE_PAGES && !dirty) list = NA_LIST_EMPTY_CLEAN;

    unsigned from = hp->list;
    if (list != from) {
        if (from >= NA_LIST_EMPTY_DIRTY) {
            na_list_remove(from == NA_LIST_EMPTY_DIRTY ? &s->empty_dirty : &s->empty_clean, hp,
                           false);
            if (list < NA_LIST_EMPTY_DIRTY) na_pages_mark_empty(hp, false);
        } else if (from != NA_LIST_NONE) {
            na_list_remove(&s->fit[from], hp, false);
            if (!s->fit[from].head) na_bits_clear(&s->fit_map, from, 1);
        }
        if (list >= NA_LIST_EMPTY_DIRTY) {
            if (list == NA_LIST_EMPTY_DIRTY)
                na_list_append(&s->empty_dirty, hp, false);
            else if (hp->touched)
                na_list_push(&s->empty_clean, hp, false);
            else
                na_list_append(&s->empty_clean, hp, false);
            if (from < NA_LIST_EMPTY_DIRTY) na_pages_mark_empty(hp, true);
        } else if (list != NA_LIST_NONE) {
            na_list_push(&s->fit[list], hp, false);
            na_bits_set(&s->fit_map, list, 1);
        }
        hp->list = (uint16_t)list;
    }

    /* Wholly free ones age in empty_dirty. */
    bool old = dirty && list < NA_LIST_EMPTY_DIRTY;
    if (old != hp->in_old) {
        if (old)
            na_list_append(&s->old, hp, true);
        else
            na_list_remove(&s->old, hp, true);
        hp->in_old = old;
    }
}

void na_pages_forget_age(na_free_pages_t *s, na_hugepage_t *hp) {
    if (hp->in_old) na_list_remove(&s->old, hp, true);
    hp->in_old = false;
}

static void na_pages_recount(na_hugepage_t *hp) {
    hp->longest = (uint16_t)na_bits_longest(na_bits_not(hp->used));
}

_Noreturn NA_COLD void na_pages_broken(const char *what, uintptr_t address) {
    na_warn("page heap: %s at %x: the program has overwritten memory, or freed it twice", what,
            (uint64_t)address);
    na_os_abort();
}

/* --- pages of one hugepage ----------------------------------------------------------------------
 */

/* The cap took memory there a short time ago. */
NA_INLINE bool na_pages_may_regret(const na_free_pages_t *s, const na_hugepage_t *hp) {
    return hp->purged_at &&
           atomic_load_explicit(&s->clock, memory_order_relaxed) - hp->purged_at < s->delay;
}

/* These dirty pages are no longer free, or no longer dirty; how many were had ahead. */
static unsigned na_pages_end_ahead(na_free_pages_t *s, na_hugepage_t *hp, na_bits_t pages) {
    na_bits_t ended = na_bits_and(hp->ahead, pages);
    unsigned count = na_bits_count_all(&ended);
    hp->ahead = na_bits_and(hp->ahead, na_bits_not(pages));
    s->ahead -= count;
    return count;
}

static void na_pages_count_taken(na_free_pages_t *s, na_hugepage_t *hp, unsigned n,
                                 unsigned dirty) {
    hp->touched = true;
    unsigned ahead = 0;
    if (dirty && NA_UNLIKELY(!na_bits_empty(&hp->ahead)))
        ahead = na_pages_end_ahead(s, hp, hp->used);
    if (NA_UNLIKELY(n - dirty + ahead != 0) && na_pages_may_regret(s, hp))
        s->cap_regret += n - dirty + ahead / 2; /* in large pieces it costs less */
    s->used += n;
    s->dirty -= dirty;
    na_pages_place(s, hp);
}

static const na_bits_t na_bits_all = {{~UINT64_C(0), ~UINT64_C(0), ~UINT64_C(0), ~UINT64_C(0)}};
static const na_bits_t na_bits_none = {{0, 0, 0, 0}};

/* na_pages_take_at of a whole one. */
static unsigned na_pages_take_whole(na_free_pages_t *s, na_hugepage_t *hp) {
    unsigned dirty = na_bits_count_all(&hp->dirty);
    hp->was_clean = hp->list == NA_LIST_EMPTY_CLEAN;
    hp->used = na_bits_all;
    hp->dirty = na_bits_none;
    hp->longest = 0;
    na_pages_count_taken(s, hp, NA_HUGE_PAGES, dirty);
    return dirty;
}

unsigned na_pages_take_at(na_free_pages_t *s, na_hugepage_t *hp, unsigned start, unsigned n) {
    na_region_use(hp->region, na_hugepage_start(hp) + ((uintptr_t)(start + n) << NA_PAGE_SHIFT));
    if (n == NA_HUGE_PAGES) return na_pages_take_whole(s, hp);
    unsigned left = na_bits_gap_before(&hp->used, start);
    unsigned right = na_bits_gap_after(&hp->used, start + n);
    unsigned dirty = na_bits_count(&hp->dirty, start, n);
    hp->was_clean = hp->list == NA_LIST_EMPTY_CLEAN;
    na_bits_set(&hp->used, start, n);
    if (dirty) na_bits_clear(&hp->dirty, start, n);
    /* Only the end of a longest run can change the longest. */
    if (left + n + right == NA_HUGE_PAGES)
        hp->longest = (uint16_t)(left > right ? left : right);
    else if (left + n + right == hp->longest)
        na_pages_recount(hp);
    na_pages_count_taken(s, hp, n, dirty);
    return dirty;
}

/* Pages from this one of the hugepage on are free again. */
NA_INLINE void na_region_freed(na_hugepage_t *hp, unsigned start) {
    na_region_t *region = hp->region;
    size_t page = (size_t)(hp - region->hugepages) * NA_HUGE_PAGES + start;
    if (NA_LIKELY(region->row_from <= page)) return;
    region->row_from = page > region->row_least ? (uint32_t)page - region->row_least : 0;
}

/* Marks them free; false: some are. */
static bool na_pages_release(na_hugepage_t *hp, unsigned start, unsigned n) {
    if (n == NA_HUGE_PAGES) {
        if (NA_UNLIKELY(!na_bits_full(&hp->used))) return false;
        hp->used = na_bits_none;
        hp->dirty = na_bits_all;
        hp->longest = NA_HUGE_PAGES;
        return true;
    }
    if (NA_UNLIKELY(na_bits_count(&hp->used, start, n) != n)) return false;
    na_bits_clear(&hp->used, start, n);
    na_bits_set(&hp->dirty, start, n);
    unsigned run =
        na_bits_gap_before(&hp->used, start) + n + na_bits_gap_after(&hp->used, start + n);
    if (run > hp->longest) hp->longest = (uint16_t)run;
    return true;
}

void na_pages_give(na_free_pages_t *s, na_hugepage_t *hp, unsigned start, unsigned n,
                   uint64_t now) {
    if (NA_UNLIKELY(!na_pages_release(hp, start, n)))
        na_pages_broken("pages given back that are free",
                        na_hugepage_start(hp) + ((uintptr_t)start << NA_PAGE_SHIFT));
    na_region_freed(hp, start);
    hp->freed_at = now;
    s->used -= n;
    s->dirty += n;
    na_pages_place(s, hp);
    if (hp->in_old && s->old.tail != hp) {
        na_list_remove(&s->old, hp, true);
        na_list_append(&s->old, hp, true);
    }
}

void na_pages_hold(na_free_pages_t *s, na_hugepage_t *hp, unsigned start, unsigned n) {
    /* Before it has memory: mappings of which each has some of its own are never joined again. */
    na_region_use(hp->region, na_hugepage_start(hp) + ((uintptr_t)(start + n) << NA_PAGE_SHIFT));
    na_bits_set(&hp->dirty, start, n);
    na_bits_set(&hp->ahead, start, n);
    s->ahead += n;
    hp->freed_at = atomic_load_explicit(&s->clock, memory_order_relaxed);
    s->dirty += n;
    s->fresh += n;
    na_pages_place(s, hp);
}

unsigned na_pages_isolate(na_free_pages_t *s, na_hugepage_t *hp, na_bits_t pages) {
    na_bits_t taken = na_bits_and(hp->dirty, pages);
    unsigned dirty = na_bits_count(&taken, 0, NA_HUGE_PAGES);
    hp->used = na_bits_or(hp->used, pages);
    hp->dirty = na_bits_and(hp->dirty, na_bits_not(pages));
    na_pages_end_ahead(s, hp, pages);
    s->astray -= dirty < s->astray ? dirty : s->astray;
    na_pages_recount(hp);
    s->dirty -= dirty;
    na_pages_place(s, hp);
    return dirty;
}

void na_pages_restore(na_free_pages_t *s, na_hugepage_t *hp, na_bits_t pages, bool dirty) {
    na_region_freed(hp, 0);
    hp->used = na_bits_and(hp->used, na_bits_not(pages));
    if (dirty) {
        hp->dirty = na_bits_or(hp->dirty, pages);
        s->dirty += na_bits_count(&pages, 0, NA_HUGE_PAGES);
    }
    na_pages_recount(hp);
    na_pages_place(s, hp);
}

/* --- choice -------------------------------------------------------------------------------------
 */

/* Where n pages fit in a hugepage: pages that still hold memory before others, then the lowest. */
NA_INLINE unsigned na_hugepage_find(const na_hugepage_t *hp, uint32_t n, uint32_t align,
                                    bool spares) {
    unsigned at = NA_BITS_NONE;
    na_bits_t dirty = hp->dirty, free = na_bits_not(hp->used);
    if (spares && NA_UNLIKELY(!na_bits_empty(&hp->ahead))) {
        dirty = na_bits_and(dirty, na_bits_not(hp->ahead));
        free = na_bits_and(free, na_bits_not(hp->ahead));
    }
    if (!na_bits_empty(&dirty)) at = na_bits_find_run(dirty, n, align);
    if (at == NA_BITS_NONE) at = na_bits_find_run(free, n, align);
    return at;
}

static na_hugepage_t *na_pages_search(na_free_pages_t *s, uint32_t n, uint32_t align, bool spares,
                                      unsigned tries_each, unsigned *at) {
    for (unsigned list = na_bits_next(&s->fit_map, n); list != NA_BITS_NONE;
         list = na_bits_next(&s->fit_map, list + 1)) {
        na_hugepage_t *hp = s->fit[list].head;
        for (unsigned tries = 0; hp && tries < tries_each; tries++, hp = hp->fit.next) {
            *at = na_hugepage_find(hp, n, align, spares);
            if (*at != NA_BITS_NONE) return hp;
        }
    }
    return NULL;
}

/* n < NA_HUGE_PAGES. A run of n + align - 1 pages always holds an aligned one; of the hugepages
 * with less a few are tried first, and all of them only before the heap grows. */
#define NA_FIT_TRIES NA_TRIES

static na_hugepage_t *na_pages_find(na_free_pages_t *s, uint32_t n, uint32_t align, bool spares,
                                    unsigned *at) {
    na_hugepage_t *hp = na_pages_search(s, n, align, spares, NA_FIT_TRIES, at);
    if (NA_LIKELY(hp)) return hp;
    *at = 0;
    if (s->empty_dirty.tail) return s->empty_dirty.tail;
    if (s->empty_clean.head) return s->empty_clean.head;
    return align > 1 ? na_pages_search(s, n, align, spares, UINT32_MAX, at) : NULL;
}

/* First index >= from whose bit is set; `count` if there is none. */
static size_t na_map_next(const uint64_t *map, size_t from, size_t count) {
    while (from < count) {
        uint64_t word = map[from / 64] >> (from % 64);
        if (word) {
            from += (size_t)__builtin_ctzll(word);
            return from < count ? from : count;
        }
        from = (from / 64 + 1) * 64;
    }
    return count;
}

/* The first of `whole` wholly free hugepages in a row, followed by one whose first `rest` pages are
 * free, at or after `from`. */
static na_hugepage_t *na_region_find_long(na_region_t *region, size_t from, size_t whole,
                                          unsigned rest) {
    size_t count = region->size >> NA_HUGE_SHIFT;
    size_t i = na_map_next(region->empty, from, count);
    while (i + whole <= count) {
        size_t end = i + 1;
        while (end < i + whole && region->empty[end / 64] >> (end % 64) & 1)
            end++;
        if (end == i + whole) {
            if (rest == 0) return &region->hugepages[i];
            na_hugepage_t *last = end < count ? &region->hugepages[end] : NULL;
            if (last && last->region && !na_bits_any(&last->used, 0, rest))
                return &region->hugepages[i];
        }
        /* `end` is no part of a run that could do, unless the rest was what failed: then it is not
         * wholly free, and no part of one either. */
        i = na_map_next(region->empty, end, count);
    }
    return NULL;
}

/* Dirty pages in the whole hugepages of a run that begins at hp. */
static size_t na_count_dirty(const na_hugepage_t *hp, size_t whole) {
    size_t dirty = 0;
    for (size_t i = 0; i < whole; i++)
        dirty += na_bits_count_all(&hp[i].dirty);
    return dirty;
}

/* Of a few places for n >= NA_HUGE_PAGES pages that begin with a wholly free hugepage, the one with
 * most memory, the first of equals. */
#define NA_LONG_TRIES (2 * NA_TRIES)

static na_hugepage_t *na_pages_find_long(na_free_pages_t *s, uint32_t n) {
    size_t whole = n / NA_HUGE_PAGES;
    if (n == NA_HUGE_PAGES) return s->empty_dirty.tail ? s->empty_dirty.tail : s->empty_clean.head;
    na_hugepage_t *best = NULL;
    size_t most = 0;
    unsigned tries = 0;
    for (na_region_t *region = s->regions; region; region = region->next) {
        size_t from = 0;
        na_hugepage_t *hp;
        while (region->empties >= whole && tries < NA_LONG_TRIES &&
               (hp = na_region_find_long(region, from, whole, n % NA_HUGE_PAGES))) {
            size_t dirty = na_count_dirty(hp, whole);
            if (!best || dirty > most) {
                best = hp;
                most = dirty;
            }
            if (dirty == whole * NA_HUGE_PAGES) return hp;
            from = (size_t)(hp - region->hugepages) + 1;
            tries++;
        }
    }
    return best;
}

/* Takes n >= NA_HUGE_PAGES pages from the first one of `hp` on. */
static uintptr_t na_pages_take_from(na_free_pages_t *s, na_hugepage_t *hp, uint32_t n,
                                    uint32_t *dirty) {
    uintptr_t start = na_hugepage_start(hp);
    na_region_use(hp->region, start + ((uintptr_t)n << NA_PAGE_SHIFT));
    *dirty = 0;
    for (; n >= NA_HUGE_PAGES; n -= NA_HUGE_PAGES)
        *dirty += na_pages_take_at(s, hp++, 0, NA_HUGE_PAGES);
    if (n) *dirty += na_pages_take_at(s, hp, 0, n);
    return start;
}

uintptr_t na_pages_take(na_free_pages_t *s, uint32_t n, uint32_t align, bool spares,
                        uint32_t *dirty) {
    if (NA_UNLIKELY(n >= NA_HUGE_PAGES)) {
        na_hugepage_t *first = na_pages_find_long(s, n);
        return first ? na_pages_take_from(s, first, n, dirty) : 0;
    }
    unsigned at;
    na_hugepage_t *hp = na_pages_find(s, n, align, spares, &at);
    if (!hp) return 0;
    *dirty = na_pages_take_at(s, hp, at, n);
    return na_hugepage_start(hp) + ((uintptr_t)at << NA_PAGE_SHIFT);
}

/* Whether n >= NA_HUGE_PAGES pages from the first one of hp on are all free and hold memory. */
static bool na_is_dirty_run(const na_hugepage_t *hp, uint32_t n) {
    const na_region_t *region = hp->region;
    size_t left = (region->size >> NA_HUGE_SHIFT) - (size_t)(hp - region->hugepages);
    if (left < (n + NA_HUGE_PAGES - 1) / NA_HUGE_PAGES) return false;
    for (; n >= NA_HUGE_PAGES; n -= NA_HUGE_PAGES, hp++)
        if (!na_bits_full(&hp->dirty)) return false;
    return n == 0 || na_bits_count(&hp->dirty, 0, n) == n;
}

uintptr_t na_pages_take_dirty(na_free_pages_t *s, uint32_t n, uint32_t align) {
    if (s->dirty < n) return 0;
    if (n >= NA_HUGE_PAGES) {
        na_hugepage_t *first = na_pages_find_long(s, n);
        uint32_t dirty;
        return first && na_is_dirty_run(first, n) ? na_pages_take_from(s, first, n, &dirty) : 0;
    }
    na_hugepage_t *found = NULL;
    unsigned at = NA_BITS_NONE;
    for (unsigned list = na_bits_next(&s->fit_map, n); list != NA_BITS_NONE && !found;
         list = na_bits_next(&s->fit_map, list + 1)) {
        na_hugepage_t *hp = s->fit[list].head;
        for (unsigned tries = 0; hp && tries < NA_FIT_TRIES && !found; tries++, hp = hp->fit.next) {
            at = na_bits_find_run(hp->dirty, n, align);
            if (at != NA_BITS_NONE) found = hp;
        }
    }
    for (na_hugepage_t *hp = s->empty_dirty.tail; hp && !found; hp = hp->fit.prev) {
        at = na_bits_find_run(hp->dirty, n, align);
        if (at != NA_BITS_NONE) found = hp;
    }
    if (!found) return 0;
    na_pages_take_at(s, found, at, n);
    return na_hugepage_start(found) + ((uintptr_t)at << NA_PAGE_SHIFT);
}

/* The pages of a run and of the slack on its sides, which beside long ones is whole hugepages. */
static uint32_t na_growing_pages(uint32_t n, uint32_t *slack) {
    if (n + 2 * *slack >= NA_HUGE_PAGES) *slack = (uint32_t)na_align_up(*slack, NA_HUGE_PAGES);
    return n + 2 * *slack;
}

uintptr_t na_pages_take_growing(na_free_pages_t *s, uint32_t n, uint32_t slack, uint32_t *dirty) {
    uint32_t all = na_growing_pages(n, &slack);
    na_hugepage_t *hp;
    unsigned at = 0;
    if (all < NA_HUGE_PAGES)
        hp = na_pages_find(s, all, 1, false, &at);
    else
        hp = na_pages_find_long(s, all);
    if (!hp) return 0;
    hp += slack / NA_HUGE_PAGES;
    if (n >= NA_HUGE_PAGES) return na_pages_take_from(s, hp, n, dirty);
    at += slack % NA_HUGE_PAGES;
    *dirty = na_pages_take_at(s, hp, at, n);
    return na_hugepage_start(hp) + ((uintptr_t)at << NA_PAGE_SHIFT);
}

/* Free pages in a row from the region's page `from` on, at most n; *next: where to look on. */
static size_t na_free_row(const na_region_t *region, size_t from, size_t n, size_t *next) {
    size_t end = region->frontier >> NA_PAGE_SHIFT, row = 0;
    while (row < n && from + row < end) {
        const na_hugepage_t *hp = &region->hugepages[(from + row) / NA_HUGE_PAGES];
        unsigned at = (unsigned)((from + row) % NA_HUGE_PAGES);
        unsigned free = na_bits_gap_after(&hp->used, at);
        row += free;
        if (at + free < NA_HUGE_PAGES) break;
    }
    *next = from + row;
    return row < n ? row : n;
}

/* Takes the region's n pages from page `from` on, which are free. */
static uintptr_t na_pages_take_row(na_free_pages_t *s, na_region_t *region, size_t from, uint32_t n,
                                   uint32_t *dirty) {
    uintptr_t start = region->start + (from << NA_PAGE_SHIFT);
    *dirty = 0;
    while (n > 0) {
        unsigned at = (unsigned)(from % NA_HUGE_PAGES);
        unsigned part = n < NA_HUGE_PAGES - at ? n : NA_HUGE_PAGES - at;
        *dirty += na_pages_take_at(s, &region->hugepages[from / NA_HUGE_PAGES], at, part);
        from += part;
        n -= part;
    }
    return start;
}

/* The first row of n free pages; NA_NO_ROW: there is none. */
#define NA_NO_ROW SIZE_MAX

static size_t na_region_find_row(na_region_t *region, uint32_t n) {
    size_t end = region->frontier >> NA_PAGE_SHIFT;
    size_t from = n >= region->row_least ? region->row_from : 0, found = NA_NO_ROW;
    while (from + n <= end) {
        const na_hugepage_t *hp = &region->hugepages[from / NA_HUGE_PAGES];
        unsigned at = (unsigned)(from % NA_HUGE_PAGES);
        na_bits_t free = na_bits_not(hp->used);
        unsigned first = hp->longest == 0 ? NA_BITS_NONE : na_bits_next(&free, at);
        if (first == NA_BITS_NONE) {
            from += NA_HUGE_PAGES - at;
            continue;
        }
        from += first - at;
        size_t next;
        if (na_free_row(region, from, n, &next) == n) {
            found = from;
            break;
        }
        if (next >= end) break; /* it may become longer */
        from = next;
    }
    region->row_from = (uint32_t)(from < end ? from : end);
    region->row_least = n;
    return found;
}

NA_COLD uintptr_t na_pages_take_across(na_free_pages_t *s, uint32_t n, uint32_t *dirty) {
    for (na_region_t *region = s->regions; region; region = region->next) {
        size_t row = na_region_find_row(region, n);
        if (row != NA_NO_ROW) return na_pages_take_row(s, region, row, n, dirty);
    }
    return 0;
}

/* --- growth -------------------------------------------------------------------------------------
 */

/* Free pages in a row before the frontier, less than n + NA_HUGE_PAGES. */
static NA_COLD size_t na_free_before(const na_region_t *region, size_t n) {
    size_t frontier = region->frontier >> NA_PAGE_SHIFT, row = 0;
    while (row < n && row < frontier) {
        size_t end = frontier - row; /* of what is looked at next */
        const na_hugepage_t *hp = &region->hugepages[(end - 1) / NA_HUGE_PAGES];
        unsigned at = (unsigned)((end - 1) % NA_HUGE_PAGES) + 1;
        unsigned free = na_bits_gap_before(&hp->used, at);
        row += free;
        if (free < at) break;
    }
    return row;
}

/* How far (bytes) the frontier of a region must come for a run of n; 0: the region is too short. */
static size_t na_region_reach(const na_region_t *region, uint32_t n, uint32_t align) {
    size_t frontier = region->frontier >> NA_PAGE_SHIFT; /* all in pages from the start */
    size_t start = frontier;
    if (na_pages_may_cross(n, align)) {
        start -= na_free_before(region, n);
        size_t end = (start + n) << NA_PAGE_SHIFT;
        return end <= region->space.most ? end : 0;
    }
    unsigned inside = (unsigned)(frontier % NA_HUGE_PAGES);
    const na_hugepage_t *hp = &region->hugepages[frontier / NA_HUGE_PAGES];
    unsigned tail = inside ? na_bits_gap_before(&hp->used, inside) : 0; /* free, left of it */

    if (n < NA_HUGE_PAGES) {
        start = na_align_up(frontier - tail, align);
        if (start % NA_HUGE_PAGES + n > NA_HUGE_PAGES) start = na_align_up(start, NA_HUGE_PAGES);
    } else {
        start = tail == inside ? frontier - tail : na_align_up(frontier, NA_HUGE_PAGES);
        while (start > 0 && start <= frontier && frontier - start < n &&
               region->hugepages[start / NA_HUGE_PAGES - 1].longest == NA_HUGE_PAGES)
            start -= NA_HUGE_PAGES;
    }
    size_t end = (start + n) << NA_PAGE_SHIFT;
    return end <= region->space.most ? end : 0;
}

/* Small steps while the node is small, so that a small program is not charged for megabytes; then
 * larger ones, so that a growing one makes few system calls. */
static size_t na_pages_step(const na_free_pages_t *s) {
    if (s->committed < NA_HUGE_SIZE) return NA_LITTLE_BYTES / 2;
    size_t step = na_align_down((size_t)s->committed / 8, NA_HUGE_SIZE);
    size_t most = NA_CACHED_BYTES / 4;
    return step < NA_HUGE_SIZE ? NA_HUGE_SIZE : step > most ? most : step;
}

/* Nothing is left to open in it. */
static NA_COLD void na_pages_close(na_free_pages_t *s, const na_region_t *region) {
    for (na_region_t **link = &s->open; *link; link = &(*link)->next_open)
        if (*link == region) {
            *link = region->next_open;
            break;
        }
}

static na_reserve_result_t na_pages_try_open(na_free_pages_t *s, na_region_t *region, size_t need) {
    size_t from = region->frontier;
    size_t step = na_pages_step(s);
    need = na_align_up(need, na_os_page > NA_PAGE_SIZE ? na_os_page : NA_PAGE_SIZE);
    size_t to = na_align_up(need, step < NA_HUGE_SIZE ? step : NA_HUGE_SIZE);
    if (to < from + step) to = na_align_up(from + step, step < NA_HUGE_SIZE ? step : NA_HUGE_SIZE);
    if (to > region->space.most) to = region->space.most;
    na_reserve_result_t result = NA_RESERVE_TAKEN;
    if (need <= to) result = na_region_open(region, to, s->committed);
    if (result != NA_RESERVE_DONE && need < to)
        result = na_region_open(region, to = need, s->committed);
    if (region->frontier == region->space.most) na_pages_close(s, region);
    if (result != NA_RESERVE_DONE) return result;
    /* Written under the lock, read by na_pageheap_committed without it. */
    __atomic_store_n(&s->committed, s->committed + (to - from), __ATOMIC_RELAXED);

    while (from < to) {
        na_hugepage_t *hp = &region->hugepages[from >> NA_HUGE_SHIFT];
        size_t end = na_align_down(from, NA_HUGE_SIZE) + NA_HUGE_SIZE;
        if (end > to) end = to;
        na_bits_clear(&hp->used, (unsigned)(from % NA_HUGE_SIZE >> NA_PAGE_SHIFT),
                      (unsigned)((end - from) >> NA_PAGE_SHIFT));
        na_pages_recount(hp);
        na_pages_place(s, hp);
        from = end;
    }
    return result;
}

bool na_pages_open(na_free_pages_t *s, na_region_t *region, size_t need) {
    return na_pages_try_open(s, region, need) == NA_RESERVE_DONE;
}

static na_region_t *na_pages_add_region(na_free_pages_t *s, size_t need) {
    unsigned set = (unsigned)(s - na_free_pages);
    bool by_touch = set > NA_NODE_ANY;
    unsigned node = by_touch ? set - NA_PAGES_FIRST_TOUCH(0) : set;
    bool bind = !s->bind_refused && na_place_binds(node);
    na_region_t *region = na_region_create(node, by_touch, need, bind, s->committed);
    if (!region) return NULL;
    region->set = set;
    s->bind_refused |= bind && !region->bound;
    s->delay = na_option(NA_OPT_PURGE_DELAY);
    if (s->delay > (uint64_t)1 << 40) /* for ever, and no sum with it overflows */
        s->delay = (uint64_t)1 << 40;
    s->region_count++;
    region->next = s->regions;
    s->regions = region;
    /* At the end: what is left of older regions is used up first. */
    na_region_t **link = &s->open;
    while (*link)
        link = &(*link)->next_open;
    *link = region;
    return region;
}

/* 1 done, 0 refused, -1 no region has so many pages left. */
static int na_pages_grow_open(na_free_pages_t *s, uint32_t n, uint32_t align) {
    for (na_region_t *region = s->open; region; region = region->next_open) {
        size_t reach = na_region_reach(region, n, align);
        na_reserve_result_t result = reach ? na_pages_try_open(s, region, reach) : NA_RESERVE_TAKEN;
        /* A refusal concerns memory, not this region: a new region would not help. */
        if (result != NA_RESERVE_TAKEN) return result == NA_RESERVE_DONE;
    }
    return -1;
}

bool na_pages_grow(na_free_pages_t *s, uint32_t n, uint32_t align) {
    int done = na_pages_grow_open(s, n, align);
    if (done >= 0) return done;
    size_t need = (size_t)n << NA_PAGE_SHIFT;
    na_region_t *region = na_pages_add_region(s, need);
    return region && na_pages_open(s, region, need);
}

bool na_pages_grow_growing(na_free_pages_t *s, uint32_t n, uint32_t slack) {
    return na_pages_grow_open(s, na_growing_pages(n, &slack), 1) > 0;
}

/* --- shrinking ----------------------------------------------------------------------------------
 */

/* Less than that, or than an eighth of what is open, is not worth the system calls. */
#define NA_SHRINK_LEAST ((size_t)NA_CACHED_BYTES / 8)

/* Where the free pages without memory begin that the region ends with. */
static size_t na_region_clean_end(const na_region_t *region) {
    size_t end = region->frontier;
    while (end > 0) {
        const na_hugepage_t *hp = &region->hugepages[(end - 1) >> NA_HUGE_SHIFT];
        size_t start = na_align_down(end - 1, NA_HUGE_SIZE);
        if (na_bits_any(&hp->used, 0, (unsigned)((end - start) >> NA_PAGE_SHIFT)) ||
            !na_bits_empty(&hp->dirty))
            break;
        end = start;
    }
    return end;
}

static void na_region_shrink(na_free_pages_t *s, na_region_t *region, size_t to) {
    for (size_t at = to; at < region->frontier; at += NA_HUGE_SIZE) {
        na_hugepage_t *hp = &region->hugepages[at >> NA_HUGE_SHIFT];
        hp->used = na_bits_all;
        hp->longest = 0;
        na_pages_place(s, hp);
    }
    if (region->frontier == region->space.most) {
        region->next_open = s->open;
        s->open = region;
    }
    __atomic_store_n(&s->committed, s->committed - (region->frontier - to), __ATOMIC_RELAXED);
    region->frontier = to;
    if (region->row_from > to >> NA_PAGE_SHIFT) region->row_from = (uint32_t)(to >> NA_PAGE_SHIFT);
    na_reserve_shrink(&region->space, to);
}

void na_pages_shrink(na_free_pages_t *s) {
    for (na_region_t *region = s->regions; region; region = region->next) {
        size_t to = na_region_clean_end(region), bytes = region->frontier - to;
        if (bytes >= NA_SHRINK_LEAST && bytes >= s->committed / 8) na_region_shrink(s, region, to);
    }
}

/* --- how much may be resident --- */

#define NA_SLACK_BASE ((uint64_t)NA_PURGE_SLACK >> NA_PAGE_SHIFT)      /* pages */
#define NA_SLACK_MOST ((uint64_t)NA_CACHED_BYTES / 4 >> NA_PAGE_SHIFT) /* pages */

/* Pages with blocks: runs that are kept count as free ones. */
NA_INLINE uint64_t in_blocks(const na_free_pages_t *s) {
    uint64_t kept = atomic_load_explicit(&s->kept, memory_order_relaxed);
    return s->used > kept ? s->used - kept : 0;
}

NA_INLINE bool is_new_peak(const na_free_pages_t *s, uint64_t now) {
    return in_blocks(s) > s->peak || now > s->peak_at + NA_PURGE_PEAK_MS;
}

/* What was in use at the latest peak, an eighth of it, and a slack that doubles with the cap's base
 * when what was purged is wanted back. */
NA_RACY uint64_t na_pages_bound(const na_free_pages_t *s, uint64_t now) {
    uint64_t peak = is_new_peak(s, now) ? in_blocks(s) : s->peak;
    if (na_pressure_is_critical()) return peak + na_pressure_slack();
    uint64_t slack = NA_SLACK_BASE << s->cap_doublings;
    return peak + peak / 8 + (slack < NA_SLACK_MOST ? slack : NA_SLACK_MOST);
}

NA_INLINE uint64_t lately(const na_free_pages_t *s) {
    return atomic_load_explicit(&s->clock, memory_order_relaxed);
}

bool na_pages_exceed(const na_free_pages_t *s) {
    return s->used + s->dirty > na_pages_bound(s, lately(s));
}

bool na_pages_beyond_peak(na_free_pages_t *s, uint64_t clean) {
    uint64_t now = lately(s);
    if (is_new_peak(s, now)) {
        s->peak = in_blocks(s);
        s->peak_at = now;
    }
    uint64_t lot = na_pressure_is_critical() ? na_pressure_slack() : NA_LOT_PAGES;
    return clean > 0 && s->used + s->dirty > na_pages_bound(s, now) + lot;
}
