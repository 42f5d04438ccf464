/* pagemap.h - from any address to what this allocator knows of it.
 *
 * For every 8 KiB page a tag and a span, in two maps of two levels, because only the tag is wanted
 * in a hurry: tag leaves serve 4 GiB each (2 MiB of address space), so that shifting the low half
 * of an address gives the index; span leaves serve 512 MiB (514 KiB), so that a process whose
 * memory is locked or counted pays for little: tags can be written in those parts only that leaves
 * of spans go with. Leaves are mapped when the first pages there are opened (alloc/page/region.h),
 * or a span is entered, and never unmapped; most of a leaf is never touched. The first tag leaf
 * that is wanted and those of the 12 GiB below, where the system maps next, lie side by side: the
 * home leaves. Most blocks of most processes are there, and free finds their tags without a load of
 * a root. (They are no static table, since garbage collectors look through all of a library's
 * variables: Boehm's takes its pace from how many there are.)
 *
 *   tag    {bin offset : 16 (low), owner : 16}   what free needs, in one load
 *          bin offset   of the class's bin in a thread cache (small.h); 0: take the slow path (the
 *                       page is not ours, large, or every free of it must be seen; or no block
 *                       begins there, since they are longer than a page: who frees something there
 *                       is wrong)
 *          owner        of the span; with a bin offset of 0: who opened a mixed one
 *                       (alloc/central/mixed.h)
 *
 *   span   the span that the page belongs to; NULL: not ours
 *
 * An entry of a root is not a pointer but the distance from a static leaf that is always zero (the
 * map's own first bytes, for spans as well); an entry of 0 therefore leads to "not ours" without a
 * test. Writes happen only when spans are made and deleted, before the memory is handed out and
 * after it came back, so readers need no lock; foreign addresses may be looked up at any time, from
 * signal handlers as well.
 *
 * Of a span that has whole hugepages in it (a large block), one entry serves each of them; the
 * pages before its first and behind its last hugepage boundary have their own (a sparse 100 GiB
 * block costs 400 KiB, not 100 MiB, and few writes). */
#ifndef NUMALLOC_PAGEMAP_PAGEMAP_H
#define NUMALLOC_PAGEMAP_PAGEMAP_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "alloc/sys/base.h"
#include "pagemap/span.h"

#define NA_TAG_LEAF_SHIFT   32
#define NA_TAG_LEAF_PAGES   (1u << (NA_TAG_LEAF_SHIFT - 13))
#define NA_TAG_ROOT_ENTRIES (1u << (NA_ADDRESS_BITS - NA_TAG_LEAF_SHIFT))

#define NA_SPAN_LEAF_SHIFT     29
#define NA_SPAN_LEAF_PAGES     (1u << (NA_SPAN_LEAF_SHIFT - 13))
#define NA_SPAN_LEAF_HUGEPAGES (1u << (NA_SPAN_LEAF_SHIFT - 21))
#define NA_SPAN_ROOT_ENTRIES   (1u << (NA_ADDRESS_BITS - NA_SPAN_LEAF_SHIFT))

typedef struct na_tag_leaf {
    uint32_t tag[NA_TAG_LEAF_PAGES];
} na_tag_leaf_t;

typedef struct na_pagemap {
    na_tag_leaf_t nothing; /* always zero; first, so that leaf and root share one base address */
    intptr_t tags[NA_TAG_ROOT_ENTRIES];
    intptr_t spans[NA_SPAN_ROOT_ENTRIES];
} na_pagemap_t;

extern na_pagemap_t na_pagemap;

#define NA_TAG_HOME_LEAVES 4u
#define NA_TAG_HOME_PAGES  (NA_TAG_HOME_LEAVES * NA_TAG_LEAF_PAGES)
/* `start`: the first address that they are for; until the first is wanted, one where nothing is.
 * `tags`: the leaves, stored before it. (Who frees a block has got it from who entered its span,
 * and finds both.) Every free reads this: it is alone on its cache line. */
#define NA_TAG_NO_HOME ((uintptr_t)1 << 62)
typedef struct na_tag_home {
    _Alignas(NA_CACHE_LINE) uintptr_t start;
    uint32_t *tags;
} na_tag_home_t;
extern NA_NEAR na_tag_home_t na_tag_home;

#define NA_SPAN_PAGE_SHIFT 13
typedef struct na_span_leaf {
    na_span_t *span[NA_SPAN_LEAF_PAGES];
    na_span_t *huge[NA_SPAN_LEAF_HUGEPAGES];
} na_span_leaf_t;

_Static_assert(sizeof(na_span_leaf_t) <= sizeof(na_tag_leaf_t), "a leaf of nothing");

NA_INLINE uint32_t na_page_in_span_leaf(uintptr_t address) {
    return (uint32_t)(address >> NA_SPAN_PAGE_SHIFT) % NA_SPAN_LEAF_PAGES;
}

NA_INLINE uint32_t na_hugepage_in_span_leaf(uintptr_t address) {
    return (uint32_t)(address >> 21) % NA_SPAN_LEAF_HUGEPAGES;
}

/* An entry of a root as it was when the caller's block was entered, or later. (ThreadSanitizer
 * takes a compare-and-swap that failed for a write; an atomic load costs an instruction.) */
#ifdef __SANITIZE_THREAD__
#define NA_ROOT_ENTRY(entry) __atomic_load_n(&(entry), __ATOMIC_RELAXED)
#else
#define NA_ROOT_ENTRY(entry) (entry)
#endif

NA_INLINE bool na_is_address(uintptr_t address) {
    return address >> NA_TAG_LEAF_SHIFT < NA_TAG_ROOT_ENTRIES;
}

/* The page's number in the home leaves, any address; it is there if that is below
 * NA_TAG_HOME_PAGES. Its tag takes no other load before it: what a free must wait for until it
 * knows the bin, the next malloc of the class waits for as well. */
NA_INLINE uintptr_t na_home_page(uintptr_t address) {
    return (address - NA_ROOT_ENTRY(na_tag_home.start)) >> 13;
}
NA_INLINE uint32_t na_home_tag(uintptr_t page) {
    return __atomic_load_n(&NA_ROOT_ENTRY(na_tag_home.tags)[page], __ATOMIC_RELAXED);
}

/* The tag of the page; address: na_is_address. One root load, one leaf load. */
NA_INLINE uint32_t na_page_tag(uintptr_t address) {
    const na_tag_leaf_t *leaf =
        (const na_tag_leaf_t *)((const char *)&na_pagemap +
                                NA_ROOT_ENTRY(na_pagemap.tags[address >> NA_TAG_LEAF_SHIFT]));
    /* Hidden from the optimiser, which would otherwise spend an instruction on factoring the sum.
     */
    __asm__("" : "+r"(leaf));
    /* Relaxed: a profile that begins makes pages slow while others free their blocks. */
    return __atomic_load_n(&leaf->tag[(uint32_t)address >> 13], __ATOMIC_RELAXED);
}

/* Keeps huge pages away from the roots, of which a process touches a few pages. Before the library
 * writes to any variable of its own, which a huge page could share with them. Idempotent. */
void na_pagemap_init(void);

/* The live span that holds `address`, NULL: none of ours, or no block is there (NA_RUN_KEPT).
 * Any address. Async-signal-safe. */
na_span_t *na_span_of(const void *address);

/* address: na_is_address */
NA_INLINE const na_span_leaf_t *na_span_leaf_of(uintptr_t address) {
    return (const na_span_leaf_t *)((const char *)&na_pagemap +
                                    NA_ROOT_ENTRY(na_pagemap.spans[address >> NA_SPAN_LEAF_SHIFT]));
}

/* The same, by its page's own entry, which every small span has: NULL may also be a large one. */
NA_INLINE na_span_t *na_span_by_page(const void *address) {
    uintptr_t at = (uintptr_t)address;
    if (NA_UNLIKELY(!na_is_address(at))) return NULL;
    return na_span_leaf_of(at)->span[na_page_in_span_leaf(at)];
}

/* Makes the leaves for a range, so that entering a span there cannot fail. False: no memory. */
bool na_pagemap_prepare(uintptr_t start, size_t bytes);

/* Enters a span under `tag`. If that has a bin offset, only pages in which a block begins get it
 * (by the span's `each` and `capacity`), and the others 0. False: no memory for a leaf. */
bool na_pagemap_enter(na_span_t *span, uint32_t tag);
void na_pagemap_remove(const na_span_t *span);
/* Changes the tag of a small span's pages in the same way (profiles and strict checking turn them
 * slow). */
void na_pagemap_retag(const na_span_t *span, uint32_t tag);

#endif
