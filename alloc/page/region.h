/* region.h - large pieces of address space, each of one node, opened from left to right.
 *
 * A region is reserved without access rights (nothing is charged or touched), bound to its node
 * before its first touch (or, of first-touch pages, to none), and made accessible by moving one
 * frontier to the right: three VMAs a region (used, opened, reserved) whatever happens inside.
 * Little more is reserved than is opened (reserve.h): the region has a place of 1 GiB to grow into,
 * and what is added is bound as what was there. What was opened is never given back; neither are
 * the tables, so pointers to regions and hugepages stay good for the life of the process.
 *
 * Opening is all that happens here. Which pages are free is the page heap's business: it owns the
 * bitmaps and links in na_hugepage_t and guards them, and the frontier, by the node's lock.
 *
 * The two ways from an address to its hugepage and region are lock-free and async-signal-safe. */
#ifndef NUMALLOC_ALLOC_PAGE_REGION_H
#define NUMALLOC_ALLOC_PAGE_REGION_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "alloc/page/pageheap.h"
#include "alloc/sys/base.h"
#include "alloc/sys/bits256.h"
#include "alloc/sys/reserve.h"

typedef struct na_region na_region_t;
typedef struct na_hugepage na_hugepage_t;

/* Of a map of the blocks of mixed spans (mixed.h): 64 units of 16 bytes. */
typedef struct na_mix_word {
    _Atomic(uint64_t) used, starts;
} na_mix_word_t;

typedef struct na_hugepage_link {
    na_hugepage_t *next, *prev;
} na_hugepage_link_t;

/* The system was advised to use huge pages. */
typedef enum __attribute__((packed)) na_advice {
    NA_ADVICE_NONE,
    NA_ADVICE_BEGINS, /* a block's advice begins here */
    NA_ADVICE_GOES_ON,
} na_advice_t;

/* 2 MiB of a region: the bitmaps, then the rest. */
struct na_hugepage {
    na_bits_t used;         /* in a span, being purged, or right of the frontier */
    na_bits_t dirty;        /* free, may hold memory of the system */
    na_bits_t ahead;        /* of these, for what small blocks will fill next (prefault.h) */
    na_hugepage_link_t fit; /* in the list for its longest free run */
    na_hugepage_link_t old; /* in the list of partly used hugepages with dirty pages, by age */
    na_region_t *region;
    uint64_t freed_at;            /* ms, when a page last became dirty */
    uint64_t purged_at;           /* ms, when the cap last took its pages; 0 never */
    _Atomic(na_mix_word_t *) mix; /* of all its pages; NULL: none was ever in a mixed span */
    uint16_t longest;             /* free run, pages */
    uint16_t list;                /* which list `fit` is in: see free_pages.h */
    bool in_old;
    bool touched;   /* was in use at least once */
    bool was_clean; /* wholly free and without memory before its pages were last taken */
    bool small;     /* the system's huge page there was split, and it may not make another */
    bool remapped;  /* memory was moved here (remap.h), so that it may be a mapping of its own */
    na_advice_t advice; /* of a large block (prefault.h) */
};

struct na_region {
    na_region_t *next;      /* of the node, newest first */
    na_region_t *next_open; /* of the node's regions that have something right of the frontier */
    uintptr_t start;
    size_t size;        /* of the place that was found for it; multiple of NA_HUGE_SIZE */
    size_t frontier;    /* bytes from start that are accessible; multiple of NA_PAGE_SIZE */
    na_reserve_t space; /* space.most: how far the frontier may come; at most the size */
    unsigned node;      /* dense; or NA_NODE_ANY, the pseudo-node */
    unsigned set;       /* whose pages they are, an index of na_free_pages; by who made it */
    bool by_touch;      /* pages lie where they are first touched */
    bool bound;
    bool keeps_small; /* advised against huge pages, but where one is asked for */
    bool was_cut;     /* parts of it have other advice, or had */
    /* No row of row_least or more free pages begins before page row_from (pages from start). */
    uint32_t row_from, row_least;
    uint32_t empties;         /* hugepages that are accessible and wholly free */
    uint64_t *empty;          /* one bit for each of them */
    na_hugepage_t *hugepages; /* size / NA_HUGE_SIZE of them, zero until the frontier comes */
};

/* Finds a place for a region of NA_OPT_REGION_SIZE and reserves as much of it as a node that has so
 * many bytes open is given ahead, at least `need`. NULL when the system refuses that. `bind`: try
 * mbind; region->bound says whether it worked. `by_touch`: not to the node. */
na_region_t *na_region_create(unsigned node, bool by_touch, size_t need, bool bind,
                              size_t committed);

/* Moves the frontier to `to` bytes from the start (more than now, at most space.most), reserving
 * ahead as above where that is needed. On success the pages between are accessible, read as zero
 * and are still marked used; a hugepage that the frontier enters for the first time has its lookup
 * entry and all its pages marked used. NA_RESERVE_TAKEN: the region ends at space.most. The pages'
 * leaves of the page map come first: a page that is free without its leaf could not be handed out
 * once address space has run out, and would be tried each time. */
na_reserve_result_t na_region_open(na_region_t *region, size_t to, size_t committed);

/* Says to the system of a part of it what was said of the whole (owner: the region). */
void na_region_place(void *owner, void *start, size_t bytes);
/* Binds the region again, and brings pages back (place.h). `frontier`: as it was lately. Returns
 * whether it is bound. */
bool na_region_rebind(na_region_t *region, size_t frontier);
/* No huge pages from now on, as far as the region is reserved. */
void na_region_end_huge_pages(na_region_t *region);
/* Nor in what is reserved later, but where one is asked for. With the set's lock. */
void na_region_keep_small(na_region_t *region);

/* The second half of na_region_use. With the set's lock. */
void na_region_use_more(na_region_t *region, size_t to);
/* Pages up to this address are in use: core files have them, and where huge pages come unasked,
 * they do so no more. (The first hugepage is several mappings until then, so that it gets none.) */
NA_INLINE void na_region_use(na_region_t *region, uintptr_t end) {
    if (NA_UNLIKELY(end - region->start > region->space.dumped))
        na_region_use_more(region, end - region->start);
}

/* NULL for an address that no region has opened. */
na_hugepage_t *na_region_hugepage(uintptr_t address);

NA_INLINE uintptr_t na_hugepage_start(const na_hugepage_t *hp) {
    const na_region_t *region = hp->region;
    return region->start + ((uintptr_t)(hp - region->hugepages) << NA_HUGE_SHIFT);
}

/* Forked child only. */
void na_region_after_fork_child(void);

#endif
