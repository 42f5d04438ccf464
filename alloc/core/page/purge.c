/* purge.c - giving the memory of free pages back to the system. */
#include "alloc/core/page/purge.h"

#include "alloc/core/machine/pressure.h"
#include "alloc/core/sys/options.h"
#include "alloc/core/sys/os.h"

#define NA_CAP_BASE     ((uint64_t)NA_PURGE_CAP_BASE >> NA_PAGE_SHIFT) /* pages */
#define NA_REGRET_LEAST NA_LOT_PAGES                                   /* less says nothing */
#define NA_TICK_PAGES   ((uint64_t)NA_PURGE_TICK >> NA_PAGE_SHIFT)     /* pages */
#define NA_CLOCK_PAGES  ((int64_t)NA_LOT_PAGES) /* freed between two looks at the clock */
#define NA_REFUSED_WAIT NA_IDLE_MS
#define NA_PRESSURE_CAP ((uint64_t)NA_PURGE_CAP_CRITICAL >> NA_PAGE_SHIFT) /* pages */

/* Free dirty pages of the node's other store: one has what lies at home, one what its user touches
 * first. A guess, without its lock. */
NA_RACY static uint64_t na_purge_dirty_beside(const na_free_pages_t *s) {
    size_t set = (size_t)(s - na_free_pages);
    if (set == NA_NODE_ANY) return 0;
    size_t other = set < NA_NODE_ANY ? NA_PAGES_FIRST_TOUCH(set) : set - NA_PAGES_FIRST_TOUCH(0);
    return *(const volatile uint64_t *)&na_free_pages[other].dirty;
}

static uint64_t na_purge_cap_pages(const na_free_pages_t *s) {
    if (na_pressure_is_critical()) return NA_PRESSURE_CAP;
    uint64_t base = NA_CAP_BASE << s->cap_doublings;
    if (na_node_many) { /* what one store may keep two do together, each a fourth in any case */
        uint64_t beside = na_purge_dirty_beside(s);
        base = beside < base / 4 * 3 ? base - beside : base / 4;
    }
    return s->used / 8 > base ? s->used / 8 : base;
}

/* Every quarter of what the cap took that is wanted back is one doubling. */
static void na_purge_adapt(na_free_pages_t *s, uint64_t now) {
    uint64_t much = s->cap_purged / 4 > NA_REGRET_LEAST ? s->cap_purged / 4 : NA_REGRET_LEAST;
    if (s->cap_regret >= much) {
        s->cap_changed_at = now;
        for (; s->cap_regret >= much; s->cap_regret -= much)
            if (s->cap_doublings < NA_PURGE_CAP_MOST) s->cap_doublings++;
    } else if (s->cap_doublings > 0 && now > s->cap_changed_at + NA_PURGE_CALM_MS) {
        s->cap_changed_at = now;
        s->cap_doublings--;
    }
}

/* The free pages to purge in a hugepage: every free run that has dirty pages, from the first to the
 * last of them, which is one system call instead of several; a wholly free hugepage from end to
 * end, because pages that were never used are there too when a huge page of the system is, and one
 * of them would hold it all. Stretched (or cut) to whole pages of the system. */
static na_bits_t na_purge_choose(const na_hugepage_t *hp, bool clean_too) {
    na_bits_t chosen = {{0, 0, 0, 0}};
    na_bits_t free = na_bits_not(hp->used), wanted = clean_too ? free : hp->dirty;
    if (hp->longest == NA_HUGE_PAGES) return na_bits_empty(&wanted) ? chosen : free;
    uintptr_t unit = na_os_page > NA_PAGE_SIZE ? na_os_page >> NA_PAGE_SHIFT : 1;
    unsigned from, end = 0;
    while ((from = na_bits_next(&free, end)) != NA_BITS_NONE) {
        end = from + na_bits_gap_after(&hp->used, from);
        unsigned first = na_bits_next(&wanted, from);
        if (first >= end) continue;
        unsigned last = end - na_bits_gap_before(&wanted, end);
        first = (unsigned)na_align_down(first, unit);
        last = (unsigned)na_align_up(last, unit);
        if (first < from) first = (unsigned)na_align_up(from, unit);
        if (last > end) last = (unsigned)na_align_down(end, unit);
        /* Where every dirty page lies on a system page that is in use as well, there is nothing to
         * be had, however much that is clean lies between them. */
        if (first < last && (unit == 1 || na_bits_next(&wanted, first) < last))
            na_bits_set(&chosen, first, last - first);
    }
    return chosen;
}

/* Purges these free pages of one hugepage, letting the lock go meanwhile; false when the system
 * refuses. *purged: dirty pages that were given back. */
static bool na_purge_pages(na_free_pages_t *s, na_hugepage_t *hp, na_bits_t chosen, bool by_cap,
                           uint64_t *purged) {
    *purged = 0;
    if (na_bits_empty(&chosen)) {
        na_pages_forget_age(s, hp);
        return true;
    }
    bool splits = na_pressure_is_critical() && !hp->small && hp->longest != NA_HUGE_PAGES;
    unsigned dirty = na_pages_isolate(s, hp, chosen);
    na_unlock(&s->lock);

    uintptr_t base = na_hugepage_start(hp);
    na_bits_t rest = na_bits_not(chosen);
    bool done = true;
    unsigned from, end = 0;
    while (done && (from = na_bits_next(&chosen, end)) != NA_BITS_NONE) {
        end = na_bits_next(&rest, from);
        done = na_os_purge((void *)(base + ((uintptr_t)from << NA_PAGE_SHIFT)),
                           (size_t)(end - from) << NA_PAGE_SHIFT);
    }
    if (splits) na_os_split_huge((void *)base, NA_HUGE_SIZE);
    if (na_limits != NULL) na_limits->given_back();

    na_lock(&s->lock);
    hp->small |= splits;
    uint64_t now = atomic_load_explicit(&s->clock, memory_order_relaxed);
    if (done) {
        *purged = dirty;
        s->purged += (uint64_t)dirty << NA_PAGE_SHIFT;
        hp->purged_at = by_cap ? now : 0;
    }
    na_pages_restore(s, hp, chosen, !done);
    if (!done) na_pages_forget_age(s, hp);
    return done;
}

/* Its dirty pages. */
static bool na_purge_hugepage(na_free_pages_t *s, na_hugepage_t *hp, bool by_cap,
                              uint64_t *purged) {
    return na_purge_pages(s, hp, na_purge_choose(hp, false), by_cap, purged);
}

/* With the lock, when much may have been purged. */
static void na_purge_done(na_free_pages_t *s) {
    if (NA_UNLIKELY(atomic_load_explicit(&na_reserve_limited, memory_order_relaxed)))
        na_pages_shrink(s);
}

static na_hugepage_t *na_purge_oldest(const na_free_pages_t *s) {
    return s->empty_dirty.head ? s->empty_dirty.head : s->old.head;
}

static uint64_t na_now(na_free_pages_t *s) {
    uint64_t now = na_os_ms();
    atomic_store_explicit(&s->clock, now, memory_order_relaxed);
    return now;
}

uint64_t na_purge_clock(na_free_pages_t *s, uint32_t pages) {
    s->clock_credit -= pages;
    if (NA_LIKELY(s->clock_credit > 0))
        return atomic_load_explicit(&s->clock, memory_order_relaxed);
    s->clock_credit = NA_CLOCK_PAGES;
    uint64_t now = na_now(s);
    na_purge_adapt(s, now);
    return now;
}

static void na_purge_be_due(na_free_pages_t *s, uint64_t now) {
    if (atomic_load_explicit(&s->due, memory_order_relaxed) == 0)
        atomic_store_explicit(&s->due, now + s->delay, memory_order_relaxed);
}

void na_purge_will_be_due(na_free_pages_t *s) {
    na_purge_be_due(s, atomic_load_explicit(&s->clock, memory_order_relaxed));
}

bool na_purge_wanted(na_free_pages_t *s, uint64_t now) {
    na_purge_be_due(s, now);
    uint64_t cap = s->delay ? na_purge_cap_pages(s) : 0;
    return NA_UNLIKELY(s->dirty > cap) && !s->purging && now >= s->purge_not_before;
}

/* With the lock: pages are purged that may be wanted back. */
static uint64_t na_purge_spell(na_free_pages_t *s) {
    uint64_t now = na_now(s);
    if (now > s->cap_purged_at + s->delay) s->cap_purged = s->cap_regret = 0; /* a new spell */
    s->cap_purged_at = now;
    return now;
}

void na_purge_cap(na_free_pages_t *s) {
    na_lock(&s->lock);
    if (!s->purging) {
        s->purging = na_thread_tag();
        uint64_t now = na_purge_spell(s);
        na_hugepage_t *hp;
        while (s->dirty > (s->delay ? na_purge_cap_pages(s) / 2 : 0) && (hp = na_purge_oldest(s))) {
            uint64_t purged;
            if (!na_purge_hugepage(s, hp, true, &purged)) {
                s->purge_not_before = now + NA_REFUSED_WAIT;
                break;
            }
            s->cap_purged += purged;
        }
        s->purging = 0;
        na_purge_done(s);
    }
    na_unlock(&s->lock);
}

/* Moving memory costs little, giving it back and clearing new memory 50 times as much: that waits
 * for a sixteenth more. */
static bool na_purge_far_exceeds(const na_free_pages_t *s) {
    uint64_t bound = na_pages_bound(s, atomic_load_explicit(&s->clock, memory_order_relaxed));
    return s->used + s->dirty > bound + (na_pressure_is_critical() ? 0 : s->peak / 16);
}

void na_purge_to_peak(na_free_pages_t *s) {
    na_lock(&s->lock);
    if (!s->purging && na_purge_far_exceeds(s)) {
        s->purging = na_thread_tag();
        uint64_t now = na_purge_spell(s);
        na_hugepage_t *hp;
        uint64_t purged;
        while (na_pages_exceed(s) && (hp = na_purge_oldest(s))) {
            if (!na_purge_hugepage(s, hp, true, &purged)) break;
            s->cap_purged += purged;
        }
        na_purge_adapt(s, now);
        s->purging = 0;
    }
    na_unlock(&s->lock);
}

void na_purge_tick(na_free_pages_t *s, uint64_t now) {
    atomic_store_explicit(&s->clock, now, memory_order_relaxed);
    uint64_t due = atomic_load_explicit(&s->due, memory_order_relaxed);
    if (NA_LIKELY(due == 0 || now < due)) return;
    na_lock(&s->lock);
    if (!s->purging) {
        s->purging = na_thread_tag();
        na_purge_adapt(s, now);
        uint64_t left = NA_TICK_PAGES;
        bool waits = false; /* there is something due that this call does not purge */
        for (unsigned pass = 0; pass < 2; pass++) {
            na_hugelist_t *list = pass == 0 ? &s->empty_dirty : &s->old;
            while (list->head && now >= list->head->freed_at + s->delay) {
                uint64_t purged;
                if (left == 0) {
                    waits = true;
                    break;
                }
                if (!na_purge_hugepage(s, list->head, false, &purged)) {
                    s->purge_not_before = now + NA_REFUSED_WAIT;
                    left = 0;
                    break;
                }
                left = purged < left ? left - purged : 0;
            }
        }
        uint64_t next = 0;
        if (s->empty_dirty.head) next = s->empty_dirty.head->freed_at + s->delay;
        if (s->old.head && (next == 0 || s->old.head->freed_at + s->delay < next))
            next = s->old.head->freed_at + s->delay;
        if (next && now < s->purge_not_before && next < s->purge_not_before)
            next = s->purge_not_before;
        if (waits && next == 0) next = now;
        atomic_store_explicit(&s->due, next, memory_order_relaxed);
        s->purging = 0;
        na_purge_done(s);
    }
    na_unlock(&s->lock);
}

static uint64_t na_purge_down_to(na_free_pages_t *s, uint64_t keep, bool by_cap) {
    uint64_t sum = 0, purged;
    na_hugepage_t *hp;
    uint64_t most = s->dirty; /* others may go on freeing: no more than there is now */
    while (s->dirty > keep && sum < most && (hp = na_purge_oldest(s))) {
        if (!na_purge_hugepage(s, hp, by_cap, &purged)) break;
        sum += purged;
    }
    return sum;
}

uint64_t na_purge_trim(na_free_pages_t *s, uint64_t keep) {
    na_lock(&s->lock);
    uint64_t sum = na_purge_down_to(s, keep, false);
    na_unlock(&s->lock);
    return sum;
}

uint64_t na_purge_for_others(na_free_pages_t *s, uint64_t pages) {
    na_lock(&s->lock);
    na_purge_spell(s);
    uint64_t sum = na_purge_down_to(s, s->dirty > pages ? s->dirty - pages : 0, true);
    s->cap_purged += sum;
    na_unlock(&s->lock);
    return sum;
}

/* Regions are for ever, and their hugepages, up to a frontier that only moves right. */
static size_t na_region_opened(na_free_pages_t *s, const na_region_t *region) {
    na_lock(&s->lock);
    size_t count = na_align_up(region->frontier, NA_HUGE_SIZE) >> NA_HUGE_SHIFT;
    na_unlock(&s->lock);
    return count;
}

static const na_region_t *na_pages_regions(na_free_pages_t *s) {
    na_lock(&s->lock);
    const na_region_t *regions = s->regions;
    na_unlock(&s->lock);
    return regions;
}

static bool na_is_partial(const na_hugepage_t *hp) {
    return hp->touched && hp->longest != 0 && hp->longest != NA_HUGE_PAGES;
}

void na_purge_split(na_free_pages_t *s) {
    for (const na_region_t *region = na_pages_regions(s); region; region = region->next) {
        size_t count = na_region_opened(s, region);
        for (size_t i = 0; i < count; i++) {
            const na_hugepage_t *hp = &region->hugepages[i];
            na_lock(&s->lock);
            bool partial = na_is_partial(hp);
            na_unlock(&s->lock);
            if (partial) na_os_split_huge((void *)na_hugepage_start(hp), NA_HUGE_SIZE);
        }
    }
}

void na_purge_everything(na_free_pages_t *s) {
    for (const na_region_t *region = na_pages_regions(s); region; region = region->next) {
        size_t count = na_region_opened(s, region);
        na_lock(&s->lock);
        for (size_t i = 0; i < count; i++) {
            na_hugepage_t *hp = &region->hugepages[i];
            uint64_t purged;
            bool clean_too = na_is_partial(hp);
            if ((clean_too || !na_bits_empty(&hp->dirty)) &&
                !na_purge_pages(s, hp, na_purge_choose(hp, clean_too), false, &purged))
                break;
        }
        na_unlock(&s->lock);
    }
    na_purge_split(s);
}

void na_purge_set_delay(uint64_t delay) {
    na_option_values.numbers[NA_OPT_PURGE_DELAY] = delay;
    for (unsigned i = 0; i < NA_PAGES_SETS; i = na_pages_next(i)) {
        na_free_pages_t *s = &na_free_pages[i];
        na_lock(&s->lock);
        s->delay = delay;
        na_unlock(&s->lock);
        atomic_store_explicit(&s->due, 1, memory_order_relaxed); /* the next tick looks */
    }
}
