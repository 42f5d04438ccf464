/* prefault.c - populating new memory, and asking for huge pages. */
#include "alloc/page/prefault.h"

#include <stdatomic.h>

#include "alloc/page/pressure.h"
#include "alloc/page/purge.h"
#include "alloc/sys/options.h"
#include "alloc/sys/os.h"
#include "alloc/sys/reserve.h"

enum {
    POPULATE_MOST = 32, /* pages: 256 KiB */
    THREAD_LEAST = 128, /* pages of small blocks for each thread: 1 MiB */
    BLOCK_WHOLE = 2048, /* pages, 16 MiB: of a smaller block only an end may be used */
};

static _Atomic(uint32_t) na_prefault_blocks; /* with advice */
static _Atomic(bool) na_populate_refused;

/* The system makes huge pages when asked, or unasked, and may be asked. */
static bool na_prefault_huge(bool unasked_only) {
    na_huge_grant_t grant = na_reserve_huge_grant();
    return na_option(NA_OPT_HUGEPAGES) == NA_HUGE_AUTO && !na_pressure_is_low() &&
           (grant == NA_HUGE_GRANT_UNASKED || (grant == NA_HUGE_GRANT_ASKED && !unasked_only));
}

/* So many pages ahead are within bounds, and what the node, or the control group, has room for. */
static bool na_prefault_may(const na_free_pages_t *s, uint32_t pages) {
    return s->ahead + s->astray + pages <= s->filled / NA_PREFAULT_PART &&
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
    if (pages < BLOCK_WHOLE) {
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
    uint64_t threads = atomic_load_explicit(&na_purge_threads, memory_order_relaxed);
    return threads > 1 && s->filled < threads * THREAD_LEAST;
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

uint32_t na_prefault_plan_slow(na_free_pages_t *s, uintptr_t start, uint32_t pages) {
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
    uint32_t count = (uint32_t)(s->filled / NA_PREFAULT_PART);
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
