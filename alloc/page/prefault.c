/* prefault.c - populating new memory, and asking for huge pages. */
#include "alloc/page/prefault.h"

#include <stdatomic.h>

#include "alloc/page/pressure.h"
#include "alloc/page/purge.h"
#include "alloc/sys/options.h"
#include "alloc/sys/os.h"
#include "alloc/sys/reserve.h"

enum {
    SHORT_RUN = 8,      /* pages: that of any span of small blocks */
    POPULATE_PART = 32, /* of the pages in use, */
    POPULATE_MOST = 32, /* pages: 256 KiB */
    HUGE_LEAST = 2048,  /* pages in use: 16 MiB, of which a huge page is an eighth */
    ROWS_LEAST = 16,    /* rows of hugepages with advice that there may be, */
    ROW_PAGES = 32768,  /* and one more for so many pages in use: 256 MiB */
};

static _Atomic(uint32_t) na_prefault_rows;
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

/* One row more, if no hugepage beside has advice; or with NULL, since one is cut in two. False:
 * there are enough. (They are not counted down.) */
static bool na_prefault_count_row(const na_free_pages_t *s, const na_hugepage_t *hp) {
    if (hp != NULL) {
        const na_region_t *region = hp->region;
        if (hp != region->hugepages && hp[-1].huge) return true;
        if (hp + 1 != region->hugepages + (region->size >> NA_HUGE_SHIFT) && hp[1].huge)
            return true;
    }
    uint32_t rows = atomic_load_explicit(&na_prefault_rows, memory_order_relaxed);
    if (rows >= ROWS_LEAST + s->used / ROW_PAGES) return false;
    atomic_fetch_add_explicit(&na_prefault_rows, 1, memory_order_relaxed);
    return true;
}

static void na_prefault_advise(na_hugepage_t *hp, size_t count, bool on) {
    for (size_t i = 0; i < count; i++)
        hp[i].huge = on;
    na_os_hugepage((void *)na_hugepage_start(hp), count << NA_HUGE_SHIFT, on);
}

static bool na_prefault_is_open(const na_hugepage_t *hp) {
    const na_region_t *region = hp->region;
    return na_hugepage_start(hp) + NA_HUGE_SIZE <= region->start + region->frontier;
}

/* A run has begun the hugepage, which was free and held nothing, and leaves it from page `end` on.
 * True: it will hold memory as a whole. */
static NA_COLD NA_NOINLINE bool na_prefault_begin(na_free_pages_t *s, na_hugepage_t *hp,
                                                  unsigned end) {
    if (!hp->huge) {
        if (!na_prefault_asks(s) || !na_prefault_is_open(hp) ||
            !na_prefault_may(s, NA_HUGE_PAGES) || !na_prefault_count_row(s, hp))
            return false;
        na_prefault_advise(hp, 1, true);
    }
    hp->was_clean = false; /* no memory need be moved there */
    na_pages_hold(s, hp, end, NA_HUGE_PAGES - end);
    na_purge_will_be_due(s);
    return true;
}

static bool na_prefault_is_advised(const na_hugepage_t *hp, size_t count) {
    for (size_t i = 0; i < count; i++)
        if (hp[i].huge) return true;
    return false;
}

void na_prefault_block(uintptr_t start, uint32_t pages, bool dense) {
    na_hugepage_t *hp = na_region_hugepage(start);
    if (hp == NULL || start % NA_HUGE_SIZE != 0) return;
    size_t count = pages / NA_HUGE_PAGES,
           first = pages < HUGE_LEAST; /* it may be all that is used */
    na_free_pages_t *s = &na_free_pages[hp->region->set];
    na_lock(&s->lock);
    if (dense) {
        if (s->used >= HUGE_LEAST && na_prefault_asks(s) && na_prefault_count_row(s, hp + first))
            na_prefault_advise(hp + first, count - first, true);
    } else if (na_prefault_is_advised(hp, count) && na_prefault_count_row(s, NULL)) {
        na_prefault_advise(hp, count, false);
    }
    na_unlock(&s->lock);
}

/* --- populating --- */

uint32_t na_prefault_plan_slow(na_free_pages_t *s, uintptr_t start, uint32_t pages) {
    if (s->delay == 0 || s > &na_free_pages[NA_NODE_ANY] || na_pressure_is_low() ||
        na_prefault_way() == WAY_NOTHING)
        return 0;
    uintptr_t last = start + ((uintptr_t)(pages - 1) << NA_PAGE_SHIFT);
    na_hugepage_t *hp = na_region_hugepage(last);
    unsigned end = (unsigned)(last >> NA_PAGE_SHIFT) % NA_HUGE_PAGES + 1;
    bool begins = hp->was_clean && end < NA_HUGE_PAGES;
    bool large = s->used >= HUGE_LEAST && pages == end; /* and the run is all that is taken of it */
    if (begins && (hp->huge || large) && na_prefault_begin(s, hp, end)) return 0;
    uint32_t count = (uint32_t)(s->used / POPULATE_PART);
    if (pages > SHORT_RUN || atomic_load_explicit(&na_populate_refused, memory_order_relaxed))
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
    if (!na_os_populate((void *)start, (size_t)pages << NA_PAGE_SHIFT))
        atomic_store_explicit(&na_populate_refused, true, memory_order_relaxed);
}
