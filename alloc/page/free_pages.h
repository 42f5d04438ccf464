/* free_pages.h - the sets of free pages: lists, choice, growth.
 *
 * What the page heap (pageheap.c) and purging (purge.c) share. Every function here wants the
 * set's lock held by the caller, unless said otherwise. Counts are pages, unless said otherwise.
 */
#ifndef NUMALLOC_ALLOC_PAGE_FREE_PAGES_H
#define NUMALLOC_ALLOC_PAGE_FREE_PAGES_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "alloc/machine/topology.h"
#include "alloc/page/pageheap.h"
#include "alloc/page/region.h"
#include "alloc/sys/base.h"
#include "alloc/sys/bits256.h"
#include "alloc/sys/lock.h"

typedef struct na_hugelist {
    na_hugepage_t *head, *tail;
} na_hugelist_t;

/* Values of hp->list: 0 on none (no free page), 1..255 fit[longest], then the wholly free ones. */
#define NA_LIST_NONE        0u
#define NA_LIST_EMPTY_DIRTY 256u /* oldest first: purging takes the head, allocation the tail */
#define NA_LIST_EMPTY_CLEAN 257u /* once used first, then never used ones by address */

typedef struct na_free_pages {
    _Alignas(NA_CACHE_LINE) na_lock_t lock;
    na_bits_t fit_map; /* bit i: fit[i] is not empty */
    na_hugelist_t empty_dirty, empty_clean;
    na_hugelist_t old; /* partly used, with dirty pages; the longest untouched by a free first */

    uint64_t used;   /* in spans */
    uint64_t dirty;  /* free, may hold memory */
    uint64_t ahead;  /* of these, had for what small blocks will fill next (prefault.h) */
    uint64_t filled; /* in spans of blocks of at most a page of the system */
    uint64_t astray; /* pages had ahead that others took, and that were not given back since */

    /* Purging (purge.c). Times in ms. */
    _Atomic(uint64_t) clock; /* a recent na_os_ms: the clock is not read at every free */
    _Atomic(uint64_t) due;   /* nothing is to be purged by age before; 0: nothing at all */
    uint64_t delay;          /* NA_OPT_PURGE_DELAY */
    int64_t clock_credit;    /* pages that may be freed before the clock is read again */
    uint32_t purging;        /* tag of the thread that purges by age or cap: one is enough */
    unsigned cap_doublings;  /* cap base is 8 MiB doubled that often */
    uint64_t cap_purged;     /* pages purged because of the cap in the current spell */
    uint64_t cap_purged_at;
    uint64_t cap_regret; /* of those, pages wanted back */
    uint64_t cap_changed_at;
    uint64_t peak, peak_at;      /* highest `used` of late, and when (ms) */
    uint64_t purge_not_before;   /* after a refusal of the system (locked memory) */
    unsigned remap_refusals;     /* remap.c */
    _Atomic(bool) touch_refused; /* of a first-touch set: it is to be left alone (first_touch.h) */

    /* Regions. Bytes. */
    na_region_t *regions, *open;
    uint64_t committed, purged;
    uint64_t region_count;
    bool bind_refused;

    /* New memory (pageheap.c): pages taken since the last look at the node's room; how many may be
     * taken before the next, before the control group's room is asked for (pressure.h), and before
     * the first of the two; and what the look at the node found (pages, ms). */
    uint64_t fresh, room_limit, ask_limit, fresh_limit;
    uint64_t room, room_ms;
    uint64_t split_ms; /* when huge pages were last split because the node was full */

    na_hugelist_t fit[NA_HUGE_PAGES];
} na_free_pages_t;

/* By number: of each dense node, and of the pseudo-node, its number; then of each dense node its
 * first-touch set, whose regions are not bound to the node. It has the pages of large blocks that
 * hold no memory yet: they are to lie where they are first touched. Of its free pages, those that
 * hold memory lie on the node (first_touch.h). Valid when all zero. */
extern NA_NEAR na_free_pages_t na_free_pages[];
#define NA_PAGES_FIRST_TOUCH(node) (NA_NODE_ANY + 1u + (node))
#define NA_PAGES_SETS              NA_PAGES_FIRST_TOUCH(NA_MAX_NODES)

/* All of them in turn: for (unsigned i = 0; i < NA_PAGES_SETS; i = na_pages_next(i)) */
NA_INLINE unsigned na_pages_next(unsigned set) {
    if (set < NA_NODE_ANY) return na_node_next(set);
    return na_node_many && set - NA_NODE_ANY < na_node_count ? set + 1 : NA_PAGES_SETS;
}

/* Takes n (1..NA_RUN_MAX_PAGES) free pages, accessible already. *dirty: how many of them may hold
 * memory. 0 if there are none. `spares`: not those that hold it ahead, if they are a hugepage's
 * part. */
uintptr_t na_pages_take(na_free_pages_t *s, uint32_t n, uint32_t align, bool spares,
                        uint32_t *dirty);

/* The same among pages that all hold memory, so that no more is asked of the system. */
uintptr_t na_pages_take_dirty(na_free_pages_t *s, uint32_t n, uint32_t align);
/* The same for a run that is to grow: in the middle of so many free pages that at least `slack` are
 * left on either side, one for it to grow into and one for its neighbour. */
uintptr_t na_pages_take_growing(na_free_pages_t *s, uint32_t n, uint32_t slack, uint32_t *dirty);

/* Where address space is limited: a run of more pages than any small span has may lie across
 * hugepages, since what would be left over between two counts against the limit. */
#define NA_ACROSS_LEAST 33u
NA_INLINE bool na_pages_may_cross(uint32_t n, uint32_t align) {
    return n >= NA_ACROSS_LEAST && align == 1 &&
           NA_UNLIKELY(atomic_load_explicit(&na_reserve_limited, memory_order_relaxed));
}
/* The first n free pages in a row, wherever they begin. Looks through all regions. */
uintptr_t na_pages_take_across(na_free_pages_t *s, uint32_t n, uint32_t *dirty);

/* Takes exactly these pages of one hugepage, which are free; how many were dirty. */
unsigned na_pages_take_at(na_free_pages_t *s, na_hugepage_t *hp, unsigned start, unsigned n);

/* Gives back pages of one hugepage; they are dirty from `now` on. Ends the process with a message
 * if one of them is not in use: the tables of the caller are broken. */
void na_pages_give(na_free_pages_t *s, na_hugepage_t *hp, unsigned start, unsigned n, uint64_t now);

/* Moves frontiers or makes a region so that na_pages_take(n, align) succeeds; false: the system
 * refuses. */
bool na_pages_grow(na_free_pages_t *s, uint32_t n, uint32_t align);
/* The same for na_pages_take_growing, within the regions that there are. */
bool na_pages_grow_growing(na_free_pages_t *s, uint32_t n, uint32_t slack);
/* Moves a region's frontier to at least `need` bytes (at most its size). */
bool na_pages_open(na_free_pages_t *s, na_region_t *region, size_t need);

/* Where address space is limited, and much of it is free and without memory at the ends of regions:
 * frontiers go back, so that it may be had for stacks, libraries and tables. */
void na_pages_shrink(na_free_pages_t *s);

/* Free pages of one hugepage that hold no memory are about to: they are dirty from now on. */
void na_pages_hold(na_free_pages_t *s, na_hugepage_t *hp, unsigned start, unsigned n);

/* For purging: free pages out of everybody's reach, and back, clean or still dirty. isolate returns
 * how many of them were dirty. */
unsigned na_pages_isolate(na_free_pages_t *s, na_hugepage_t *hp, na_bits_t pages);
void na_pages_restore(na_free_pages_t *s, na_hugepage_t *hp, na_bits_t pages, bool dirty);
/* Takes a hugepage off the list of old ones until its pages change again. */
void na_pages_forget_age(na_free_pages_t *s, na_hugepage_t *hp);

_Noreturn void na_pages_broken(const char *what, uintptr_t address);

#endif
