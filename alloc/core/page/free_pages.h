/* free_pages.h - bitmaps of pages, regions of address space, and the sets of free pages in them:
 * lists, choice, growth.
 *
 * What the page heap (pageheap.c) and purging (purge.c) share. Every function here wants the
 * set's lock held by the caller, unless said otherwise. Counts are pages, unless said otherwise.
 */
#ifndef NUMALLOC_ALLOC_CORE_PAGE_FREE_PAGES_H
#define NUMALLOC_ALLOC_CORE_PAGE_FREE_PAGES_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "alloc/core/machine/topology.h"
#include "alloc/core/page/pageheap.h"
#include "alloc/core/sys/base.h"
#include "alloc/core/sys/lock.h"
#include "alloc/core/sys/reserve.h"

/* --- Bitmaps: one bit for each page of a hugepage ---
 *
 * Pure functions over values. "Run" is a stretch of bits that are set. Positions and lengths are in
 * pages (0..255 and 1..256); ranges must lie inside the map. */

#define NA_BITS      256u
#define NA_BITS_NONE NA_BITS /* "no such bit" */

typedef struct na_bits {
    uint64_t w[4];
} na_bits_t;

/* The bits of [start, start + n) that fall into word i. */
NA_INLINE uint64_t na_bits_word_mask(unsigned i, unsigned start, unsigned n) {
    unsigned low = i * 64, high = low + 64;
    unsigned from = start > low ? start : low;
    unsigned to = start + n < high ? start + n : high;
    if (from >= to) return 0;
    return (~(uint64_t)0 >> (64 - (to - from))) << (from - low);
}

NA_INLINE void na_bits_set(na_bits_t *b, unsigned start, unsigned n) {
    for (unsigned i = start / 64; i <= (start + n - 1) / 64; i++)
        b->w[i] |= na_bits_word_mask(i, start, n);
}

NA_INLINE void na_bits_clear(na_bits_t *b, unsigned start, unsigned n) {
    for (unsigned i = start / 64; i <= (start + n - 1) / 64; i++)
        b->w[i] &= ~na_bits_word_mask(i, start, n);
}

/* How many bits of the range are set. */
NA_INLINE unsigned na_bits_count(const na_bits_t *b, unsigned start, unsigned n) {
    unsigned sum = 0;
    for (unsigned i = start / 64; i <= (start + n - 1) / 64; i++) {
        uint64_t word = b->w[i] & na_bits_word_mask(i, start, n);
        sum += word ? na_bits_in_word(word) : 0;
    }
    return sum;
}

NA_INLINE bool na_bits_any(const na_bits_t *b, unsigned start, unsigned n) {
    uint64_t seen = 0;
    for (unsigned i = start / 64; i <= (start + n - 1) / 64; i++)
        seen |= b->w[i] & na_bits_word_mask(i, start, n);
    return seen != 0;
}

NA_INLINE bool na_bits_empty(const na_bits_t *b) {
    return (b->w[0] | b->w[1] | b->w[2] | b->w[3]) == 0;
}

NA_INLINE na_bits_t na_bits_not(na_bits_t b) {
    return (na_bits_t){{~b.w[0], ~b.w[1], ~b.w[2], ~b.w[3]}};
}

NA_INLINE na_bits_t na_bits_and(na_bits_t a, na_bits_t b) {
    return (na_bits_t){{a.w[0] & b.w[0], a.w[1] & b.w[1], a.w[2] & b.w[2], a.w[3] & b.w[3]}};
}

NA_INLINE na_bits_t na_bits_or(na_bits_t a, na_bits_t b) {
    return (na_bits_t){{a.w[0] | b.w[0], a.w[1] | b.w[1], a.w[2] | b.w[2], a.w[3] | b.w[3]}};
}

NA_INLINE bool na_bits_full(const na_bits_t *b) {
    return (b->w[0] & b->w[1] & b->w[2] & b->w[3]) == ~(uint64_t)0;
}

/* How many of all bits are set: seldom some. */
NA_INLINE unsigned na_bits_count_all(const na_bits_t *b) {
    if (na_bits_empty(b)) return 0;
    return na_bits_full(b) ? NA_BITS : na_bits_count(b, 0, NA_BITS);
}

/* First set bit at or after `from` (0..256); NA_BITS_NONE if there is none. */
NA_INLINE unsigned na_bits_next(const na_bits_t *b, unsigned from) {
    if (from >= NA_BITS) return NA_BITS_NONE;
    unsigned i = from / 64;
    uint64_t word = b->w[i] & (~(uint64_t)0 << (from % 64));
    while (word == 0) {
        if (++i == 4) return NA_BITS_NONE;
        word = b->w[i];
    }
    return i * 64 + (unsigned)__builtin_ctzll(word);
}

/* Number of bits before `end` (0..256), counted leftwards up to the nearest set bit. */
NA_INLINE unsigned na_bits_gap_before(const na_bits_t *b, unsigned end) {
    unsigned i = end / 64;
    if (end % 64) {
        uint64_t word = b->w[i] & ~(~(uint64_t)0 << (end % 64));
        if (word) return end - (i * 64 + 64 - (unsigned)__builtin_clzll(word));
    }
    while (i-- > 0)
        if (b->w[i]) return end - (i * 64 + 64 - (unsigned)__builtin_clzll(b->w[i]));
    return end;
}

/* Number of bits from `start` on (0..256), up to the nearest set bit. */
NA_INLINE unsigned na_bits_gap_after(const na_bits_t *b, unsigned start) {
    return na_bits_next(b, start) - start;
}

/* Towards bit 0 by n (0..255); zeros enter at the top. */
NA_INLINE na_bits_t na_bits_down(na_bits_t b, unsigned n) {
    na_bits_t r;
    if (NA_LIKELY(n > 0 && n < 64)) {
        r.w[0] = b.w[0] >> n | b.w[1] << (64 - n);
        r.w[1] = b.w[1] >> n | b.w[2] << (64 - n);
        r.w[2] = b.w[2] >> n | b.w[3] << (64 - n);
        r.w[3] = b.w[3] >> n;
        return r;
    }
    unsigned words = n / 64, bits = n % 64;
    for (unsigned i = 0; i < 4; i++) {
        uint64_t low = i + words < 4 ? b.w[i + words] : 0;
        uint64_t high = i + words + 1 < 4 ? b.w[i + words + 1] : 0;
        r.w[i] = bits ? low >> bits | high << (64 - bits) : low;
    }
    return r;
}

/* The positions at which a run of at least n (1..256) bits begins or goes on: the map is and-ed
 * with itself moved, doubling the distance, so the cost is log2(n) moves whatever the pattern. */
NA_INLINE na_bits_t na_bits_starts(na_bits_t b, unsigned n) {
    unsigned have = 1;
    while (have < n) {
        unsigned step = n - have < have ? n - have : have;
        b = na_bits_and(b, na_bits_down(b, step));
        have += step;
    }
    return b;
}

/* Lowest position, a multiple of `align` (a power of two up to 256), where n bits are set in a row;
 * NA_BITS_NONE if there is none. */
NA_INLINE unsigned na_bits_find_run(na_bits_t b, unsigned n, unsigned align) {
    b = na_bits_starts(b, n);
    if (align > 1) {
        uint64_t pattern = 1;
        for (unsigned step = align; step < 64; step *= 2)
            pattern |= pattern << step;
        for (unsigned i = 0; i < 4; i++)
            b.w[i] &= i * 64 % align == 0 ? pattern : 0;
    }
    return na_bits_next(&b, 0);
}

/* The same by doubling while something is left, then adding the powers of two below: at most 16
 * moves, whatever the pattern. */
static inline unsigned na_bits_longest_of_many(na_bits_t b) {
    if (na_bits_empty(&b)) return 0;
    na_bits_t at[9]; /* at[k]: where runs of 2^k begin */
    unsigned k = 0;
    at[0] = b;
    while (k < 8) {
        na_bits_t next = na_bits_and(at[k], na_bits_down(at[k], 1u << k));
        if (na_bits_empty(&next)) break;
        at[++k] = next;
    }
    unsigned have = 1u << k;
    b = at[k]; /* where runs of `have` begin */
    while (k-- > 0 && have < NA_BITS) {
        /* A run of have + 2^k: one of `have` here, and one of 2^k right behind it. */
        na_bits_t longer = na_bits_and(b, na_bits_down(at[k], have));
        if (!na_bits_empty(&longer)) {
            b = longer;
            have += 1u << k;
        }
    }
    return have;
}

/* Length of the longest run of set bits: 0..256. Most maps have few runs: those are walked. */
NA_INLINE unsigned na_bits_longest(na_bits_t b) {
    na_bits_t gaps = na_bits_not(b);
    unsigned longest = 0, end = 0;
    for (unsigned walked = 0; walked < 6; walked++) {
        unsigned from = na_bits_next(&b, end);
        if (NA_BITS - from <= longest) return longest;
        end = na_bits_next(&gaps, from);
        if (end - from > longest) longest = end - from;
    }
    return na_bits_longest_of_many(b);
}

/* --- Large pieces of address space, each of one node, opened from left to right ---
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

typedef struct na_region na_region_t;
typedef struct na_hugepage na_hugepage_t;

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
    na_bits_t ahead;        /* of these, for what small blocks will fill next (backing.h) */
    na_hugepage_link_t fit; /* in the list for its longest free run */
    na_hugepage_link_t old; /* in the list of partly used hugepages with dirty pages, by age */
    na_region_t *region;
    uint64_t freed_at;  /* ms, when a page last became dirty */
    uint64_t purged_at; /* ms, when the cap last took its pages; 0 never */
    uint16_t longest;   /* free run, pages */
    uint16_t list;      /* which list `fit` is in: see free_pages.h */
    bool in_old;
    bool touched;   /* was in use at least once */
    bool was_clean; /* wholly free and without memory before its pages were last taken */
    bool small;     /* the system's huge page there was split, and it may not make another */
    bool remapped;  /* memory was moved here (backing.h), so that it may be a mapping of its own */
    na_advice_t advice; /* of a large block (backing.h) */
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
/* Binds the region again, and brings pages back (backing.h). `frontier`: as it was lately. Returns
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

/* Address -> hugepage: a two-level table over the user's address space, leaves of 16 GiB made on
 * demand. Its pages are touched only where regions are, so a small process pays for three. */
#define NA_REGION_LEAF_BITS 13
#define NA_REGION_ROOT_BITS (NA_ADDRESS_BITS - NA_HUGE_SHIFT - NA_REGION_LEAF_BITS)
typedef struct na_region_leaf {
    _Atomic(na_hugepage_t *) entry[(size_t)1 << NA_REGION_LEAF_BITS];
} na_region_leaf_t;
extern NA_NEAR _Atomic(na_region_leaf_t *) na_region_root[(size_t)1 << NA_REGION_ROOT_BITS];

/* NULL for an address that no region has opened. */
static inline na_hugepage_t *na_region_hugepage(uintptr_t address) {
    if (NA_UNLIKELY(address >> NA_ADDRESS_BITS)) return NULL;
    uintptr_t huge = address >> NA_HUGE_SHIFT;
    na_region_leaf_t *leaf =
        atomic_load_explicit(&na_region_root[huge >> NA_REGION_LEAF_BITS], memory_order_acquire);
    if (NA_UNLIKELY(!leaf)) return NULL;
    return atomic_load_explicit(&leaf->entry[huge % ((uintptr_t)1 << NA_REGION_LEAF_BITS)],
                                memory_order_acquire);
}

NA_INLINE uintptr_t na_hugepage_start(const na_hugepage_t *hp) {
    const na_region_t *region = hp->region;
    return region->start + ((uintptr_t)(hp - region->hugepages) << NA_HUGE_SHIFT);
}

/* Forked child only. */
void na_region_after_fork_child(void);

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

    uint64_t used; /* in spans */
    _Atomic(uint64_t)
        kept; /* of these, in no block: of the node's run cache, under whose lock it changes */
    uint64_t dirty;  /* free, may hold memory */
    uint64_t ahead;  /* of these, had for what small blocks will fill next (backing.h) */
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
    unsigned remap_refusals;     /* backing.c */
    _Atomic(bool) touch_refused; /* of a first-touch set: it is to be left alone (backing.h) */

    /* Regions. Bytes. */
    na_region_t *regions, *open;
    uint64_t committed, purged;
    uint64_t region_count;
    bool bind_refused;

    /* New memory (pageheap.c): pages taken since the last look at the node's room; how many may be
     * taken before the next, before who knows of limits is asked (pressure.h), and before the first
     * of the two; and what the look at the node found (pages, ms). */
    uint64_t fresh, room_limit, ask_limit, fresh_limit;
    uint64_t room, room_ms;
    uint64_t split_ms; /* when huge pages were last split because the node was full */

    na_hugelist_t fit[NA_HUGE_PAGES];
} na_free_pages_t;

/* By number: of each dense node, and of the pseudo-node, its number; then of each dense node its
 * first-touch set, whose regions are not bound to the node. It has the pages of large blocks that
 * hold no memory yet: they are to lie where they are first touched. Of its free pages, those that
 * hold memory lie on the node (backing.h). Valid when all zero. */
extern NA_NEAR na_free_pages_t na_free_pages[];
#define NA_PAGES_FIRST_TOUCH(node) (NA_NODE_ANY + 1u + (node))
#define NA_PAGES_SETS              NA_PAGES_FIRST_TOUCH(NA_MAX_NODES)

/* Pages of the node's runs that are kept. A racing guess, without a lock. */
NA_INLINE uint64_t na_pages_kept(unsigned node) {
    return atomic_load_explicit(&na_free_pages[node].kept, memory_order_relaxed);
}

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

/* --- how much may be resident --- */

/* Pages that are worth a call of the system. */
#define NA_LOT_PAGES (NA_SLACK_BYTES / 2 >> NA_PAGE_SHIFT)

/* Pages that may be: what was in use at the latest peak, and a slack (purge.h). `now` in ms. A
 * racing guess without the lock. */
uint64_t na_pages_bound(const na_free_pages_t *s, uint64_t now);
/* What is resident passes it. With the lock, as the next. */
bool na_pages_exceed(const na_free_pages_t *s);
/* Pages were taken of which `clean` held no memory; true: it is time for na_purge_to_peak, without
 * the lock. */
bool na_pages_beyond_peak(na_free_pages_t *s, uint64_t clean);

_Noreturn void na_pages_broken(const char *what, uintptr_t address);

#endif
