/* prefault.c - populating new memory, and asking for huge pages. */
#include "alloc/page/prefault.h"

#include <stdatomic.h>

#include "alloc/page/pressure.h"
#include "alloc/page/purge.h"
#include "alloc/sys/options.h"
#include "alloc/sys/os.h"
#include "alloc/sys/reserve.h"

enum {
    POPULATE_PART = 32, /* of the pages in use, */
    POPULATE_MOST = 32, /* pages: 256 KiB */
    THREAD_LEAST = 128, /* pages in use for each thread: 1 MiB */
    HUGE_LEAST = 2048,  /* pages in use: 16 MiB, of which a huge page is an eighth */
};

static _Atomic(uint32_t) na_prefault_blocks; /* with advice */
static _Atomic(bool) na_populate_refused;

/* What is done here. */
typedef enum prefault_way {
    WAY_NOTHING,
    WAY_POPULATE,
    WAY_HUGE, /* and populate */
} prefault_way_t;

static prefault_way_t na_prefault_way(void) {
    uint64_t option = na_option(NA_OPT_HUGEPAGES);
    na_huge_grant_t grant = na_reserve_huge_grant();
    if (option == NA_HUGE_NEVER || grant == NA_HUGE_GRANT_NEVER) return WAY_POPULATE;
    if (option == NA_HUGE_ALWAYS || grant == NA_HUGE_GRANT_UNASKED) return WAY_NOTHING;
    return option == NA_HUGE_AUTO && grant == NA_HUGE_GRANT_ASKED ? WAY_HUGE : WAY_POPULATE;
}

bool na_prefault_huge(void) {
    return na_prefault_way() == WAY_HUGE && !na_pressure_is_low();
}

/* So many pages ahead are within bounds, and what the node, or the control group, has room for. */
static bool na_prefault_may(const na_free_pages_t *s, uint32_t pages) {
    return na_purge_has_room(s, pages) && s->fresh + pages <= s->fresh_limit;
}

/* --- huge pages --- */

/* Not for threads with a policy of their user's: it may share pages out, and huge ones are few. */
static bool na_prefault_asks(const na_free_pages_t *s) {
    return s < &na_free_pages[NA_NODE_ANY] && na_prefault_huge();
}

/* With the lock. One page there holds memory from now on: mappings that are cut before any of their
 * pages does are never joined again. (It may be a block's, which its user has made inaccessible:
 * then it is not touched.) */
static void na_prefault_keep_small(na_region_t *region) {
    if (NA_LIKELY(region->keeps_small)) return;
    (void)na_os_populate((void *)region->start, na_os_page);
    na_region_keep_small(region);
}

static bool na_prefault_is_open(const na_hugepage_t *hp) {
    const na_region_t *region = hp->region;
    return na_hugepage_start(hp) + NA_HUGE_SIZE <= region->start + region->frontier;
}

/* A run has begun the hugepage, which was free and held nothing, and ends before page `end`. True:
 * it is to hold memory as a whole. */
static NA_COLD NA_NOINLINE bool na_prefault_begin(na_free_pages_t *s, na_hugepage_t *hp,
                                                  unsigned end) {
    if (!na_prefault_asks(s) || !na_prefault_is_open(hp) || !na_prefault_may(s, NA_HUGE_PAGES))
        return false;
    na_prefault_keep_small(hp->region);
    hp->was_clean = false; /* no memory need be moved there */
    na_pages_hold(s, hp, end, NA_HUGE_PAGES - end);
    na_purge_will_be_due(s);
    return true;
}

static NA_COLD void na_prefault_hugepage(uintptr_t start) {
    na_os_hugepage((void *)start, NA_HUGE_SIZE, true);
    __atomic_fetch_or((char *)start, 0, __ATOMIC_RELAXED);
    na_os_hugepage((void *)start, NA_HUGE_SIZE, false);
}

static bool na_prefault_may_advise(const na_free_pages_t *s) {
    uint32_t blocks = atomic_load_explicit(&na_prefault_blocks, memory_order_relaxed);
    return blocks < NA_PREFAULT_BLOCKS + s->used / NA_PREFAULT_BLOCK_EACH;
}

void na_prefault_block(uintptr_t start, uint32_t pages) {
    na_hugepage_t *hp = na_region_hugepage(start);
    if (hp == NULL || start % NA_HUGE_SIZE != 0) return;
    size_t count = pages / NA_HUGE_PAGES;
    if (pages < HUGE_LEAST) hp++, count--; /* the first may be all that is used */
    na_free_pages_t *s = &na_free_pages[hp->region->set];
    na_lock(&s->lock);
    if (s->used >= HUGE_LEAST && na_prefault_asks(s) && na_prefault_may_advise(s)) {
        atomic_fetch_add_explicit(&na_prefault_blocks, 1, memory_order_relaxed);
        na_prefault_keep_small(hp->region);
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

/* Of what each of many threads uses little, much is used in part only. */
static bool na_prefault_is_sparse(const na_free_pages_t *s) {
    uint64_t threads = atomic_load_explicit(&na_purge_threads, memory_order_relaxed);
    return s->used < threads * THREAD_LEAST;
}

uint32_t na_prefault_plan_slow(na_free_pages_t *s, uintptr_t start, uint32_t pages) {
    if (s->delay == 0 || s > &na_free_pages[NA_NODE_ANY] || na_prefault_is_sparse(s) ||
        na_pressure_is_low() || na_prefault_way() == WAY_NOTHING)
        return 0;
    uintptr_t last = start + ((uintptr_t)(pages - 1) << NA_PAGE_SHIFT);
    na_hugepage_t *hp = na_region_hugepage(last);
    unsigned end = (unsigned)(last >> NA_PAGE_SHIFT) % NA_HUGE_PAGES + 1;
    bool begins = hp->was_clean && pages == end && end < NA_HUGE_PAGES;
    if (begins && s->used >= HUGE_LEAST && na_prefault_begin(s, hp, end)) return NA_PREFAULT_HUGE;
    uint32_t count = (uint32_t)(s->used / POPULATE_PART);
    if (pages > NA_SPAN_PAGES_MAX ||
        atomic_load_explicit(&na_populate_refused, memory_order_relaxed))
        return 0;
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
