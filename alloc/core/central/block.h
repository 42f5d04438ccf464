/* block.h - what a small block is to the core: its size class, the tag of its page, which names
 * class and owner, and its link to another free one.
 *
 * Size classes. One table of the sizes that requests are rounded up to:
 *
 *   16..256      steps of 16          (16 classes)
 *   256..32768   8 steps a doubling   (56 classes, at most 11 % lost)
 *
 * Class 0 is no class: its bin never matches (small.h). A power of two is always a class, and a
 * block of a class that is a multiple of A <= NA_PAGE_SIZE lies at a multiple of A, since spans
 * begin on a page: that is how small aligned requests are served.
 *
 * The line rule: a class whose size is a multiple of the cache line is POOLED. No two of its blocks
 * share a line, so its blocks may wander between the threads of a node. A smaller block of any
 * other class is OWNED: it goes back to the thread cache whose span it was carved from, or two
 * running threads would share a line through no fault of their own (docs/decisions/ownership.md
 * has the figures). A block of more than two lines has lines of its own and shares those at its
 * ends at most: it is pooled, too, since spans that each thread has for itself cost more
 * (docs/decisions/ownership.md). */
#ifndef NUMALLOC_ALLOC_CORE_CENTRAL_BLOCK_H
#define NUMALLOC_ALLOC_CORE_CENTRAL_BLOCK_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "alloc/core/sys/base.h"
#include "alloc/core/sys/os.h"
#include "alloc/core/sys/tuned.h"

/* --- The page tag: what free learns of a block in one load (pagemap.h holds it) ---
 *
 *   31            16 15             0
 *   |  owner        |  bin offset   |
 *
 * The bin offset is class * sizeof(na_bin_t), from the start of the thread cache.
 *
 * A bin expects one tag: its own class with its own owner. Bin 0 expects NA_TAG_NEVER, which no
 * page carries, so a page whose bin offset is 0 never takes the fast path. (In the two thread
 * caches for threads without one all bins expect 0: bin 0 then meets what it expects, but has no
 * credit, and na_free_slow sees to it that it is not counted down until it seems to have.) */

#define NA_BIN_SIZE     16u
#define NA_TAG_BIN_BITS 16
#define NA_TAG_NONE     0u /* not ours, or large */
#define NA_TAG_SLOW     0u /* ours, but every free of it is to be seen; the span says what it is */
/* Pages of another owner (path/seam.h): that, and no bin. */
#define NA_TAG_OTHERS(owner) ((uint32_t)(owner) << NA_TAG_BIN_BITS)
#define NA_TAG_OTHERS_LEAST  NA_TAG_OTHERS(0xc000u) /* no other tag is as large */
#define NA_TAG_NEVER         1u                     /* expected by bin 0 only */

NA_INLINE uint32_t na_tag(unsigned cls, unsigned owner) {
    return (uint32_t)(cls * NA_BIN_SIZE) | (uint32_t)owner << NA_TAG_BIN_BITS;
}

/* Bytes into a thread cache; 0: no bin. */
NA_INLINE uint32_t na_tag_bin(uint32_t tag) {
    return (uint16_t)tag;
}
NA_INLINE unsigned na_tag_class(uint32_t tag) {
    return na_tag_bin(tag) / NA_BIN_SIZE;
}
NA_INLINE unsigned na_tag_owner(uint32_t tag) {
    return tag >> NA_TAG_BIN_BITS;
}

#define NA_CLASS_COUNT 73u /* with class 0 */
#define NA_SMALL_MAX   32768u
#define NA_CLASS_STEP  16u
/* Bins of this class and the larger ones, blocks of more than 2 KiB, hold few. */
#define NA_CLASS_FEW  41u
#define NA_OWNED_MOST (2u * NA_CACHE_LINE) /* larger blocks are pooled */
/* All classes behind this one are. */
#define NA_CLASS_OWNED_LAST (NA_OWNED_MOST / NA_CLASS_STEP)
/* Blocks of one span, at most: 16 bytes each in one page. */
#define NA_CAPACITY_MAX 512u

typedef struct na_class {
    uint32_t size;        /* bytes of a block */
    uint16_t span_pages;  /* pages of a span, */
    uint16_t capacity;    /* and blocks; na_span_t has those of a dense one */
    uint64_t reciprocal;  /* ceil(2^40 / size): offset -> index by one multiplication */
    uint16_t batch;       /* blocks that a refill of a busy bin aims at */
    uint16_t cap_first;   /* blocks a bin may hold: at first, */
    uint16_t cap_freeing; /* when its thread does nothing but free, */
    uint16_t cap_max;     /* and at most */
    bool pooled;          /* the line rule */
    uint8_t dense_pages;  /* of a span that is made while memory is short (pressure.h) */
} na_class_t;

extern NA_NEAR na_class_t na_classes[NA_CLASS_COUNT];

/* (size + 15) / 16 -> how many bytes into a thread cache the class's bin lies, which spares the hot
 * path a multiplication. Zero before na_sizeclass_init: class 0, whose bin has no credit. */
extern uint16_t na_class_table[NA_SMALL_MAX / NA_CLASS_STEP + 1];

void na_sizeclass_init(void);
/* After that: each block is to have a byte more than was asked for, so that what lies right behind
 * it is its own still (profiler/leaks). But for those of 32 KiB; and in heaps of whole cache lines
 * (heap.h) blocks may share lines then. */
void na_sizeclass_spare(void);
extern bool na_sizes_spare;

/* size <= NA_SMALL_MAX */
NA_INLINE unsigned na_class_of(size_t size) {
    return na_class_table[(size + NA_CLASS_STEP - 1) / NA_CLASS_STEP] / NA_BIN_SIZE;
}

/* The class of a page tag. */
NA_INLINE const na_class_t *na_class_of_tag(uint32_t tag) {
    _Static_assert(sizeof(na_class_t) % NA_BIN_SIZE == 0, "bin offsets scale to classes");
    const char *classes = (const char *)na_classes;
    return (const na_class_t *)(classes + na_tag_bin(tag) * (sizeof(na_class_t) / NA_BIN_SIZE));
}

/* Blocks of the class fill the pages of their spans: none is used without being written to, but for
 * the pages of a span's end. */
NA_INLINE bool na_class_fills(unsigned cls) {
    return na_classes[cls].size <= na_os_page;
}

/* Smallest class that holds `size` and whose blocks lie at multiples of `alignment` (a power of two
 * up to the page); 0: none. */
unsigned na_class_of_aligned(size_t size, size_t alignment);

/* Index of the block that holds a byte `offset` bytes into a span. Exact for offsets below 2^20:
 * the error of the rounded-up reciprocal is below offset / 2^40 < 1 / size. */
NA_INLINE uint32_t na_block_index(const na_class_t *c, size_t offset) {
    return (uint32_t)((offset * c->reciprocal) >> 40);
}

/* --- How free blocks are linked, and batches of them ---
 *
 *                free block               first block of a batch on a stack
 *   plain        | ...       | next |       | batch below       | next       |
 *
 * Whoever follows or writes a link of a list that outlives one call does it by the functions here:
 * all links may be checked (na_links: harden/signed.h), whichever list they are of: bins, batches,
 * remote frees, spans, heaps, what was deferred. */

/* --- A list of blocks of one class that moves between threads as one word ---
 *
 *   word   | count : 16 | address of the first block : 48 |        0: no batch
 *   block  | next batch, bytes reversed       | next block of the batch | ...
 *           first word, of the first block only  second word
 *
 * (Every block has at least 16 bytes.)
 *
 * Batches of one class stack through the first word of their first blocks, so that a kept one, a
 * remote free list or a transfer cache slot is a single word, and handing over any number of blocks
 * is O(1).
 *
 * A block's first byte is where a string ends that is too long by one for the block before. So no
 * block's link begins there, and of a batch's what is 0 as a rule, the count's upper byte. */

typedef uintptr_t na_batch_t;

#define NA_BATCH_MAX 0xffffu

NA_INLINE na_batch_t na_batch(void *first, uint32_t count) {
    return (uintptr_t)first | (uintptr_t)count << 48;
}

NA_INLINE void *na_batch_first(na_batch_t batch) {
    return (void *)(batch & (((uintptr_t)1 << 48) - 1));
}

NA_INLINE uint32_t na_batch_count(na_batch_t batch) {
    return (uint32_t)(batch >> 48);
}

NA_INLINE na_batch_t na_batch_next(na_batch_t batch) {
    return __builtin_bswap64(*(const na_batch_t *)na_batch_first(batch));
}

NA_INLINE void na_batch_set_next(na_batch_t batch, na_batch_t next) {
    *(na_batch_t *)na_batch_first(batch) = __builtin_bswap64(next);
}

NA_INLINE void **na_block_next(void *block) {
    return (void **)block + 1;
}

/* What checks links. Each reports what is wrong with one. */
typedef struct na_links {
    /* The link that the block has is right; those of the first `count` of a list. */
    void (*sign)(void *block);
    void (*sign_list)(void *list, uint32_t count);
    /* Where the link leads; NULL: nowhere, or it is wrong. */
    void *(*next)(void *block);
    /* A list of `count` blocks ends before one whose link is wrong: how many there are left. */
    uint32_t (*check)(void **list, uint32_t count);
    /* As na_batch_stack, _below and _unstack. */
    void (*stack)(na_batch_t batch, na_batch_t below);
    na_batch_t (*below)(na_batch_t batch);
    na_batch_t (*unstack)(na_batch_t batch);
    /* A block of the class begins there, and is free. False: a wrong link led to it. */
    bool (*may_give)(unsigned cls, const void *block);
} na_links_t;

/* NULL: links are not checked. Set before there is a block. */
extern NA_NEAR const na_links_t *na_links;

NA_INLINE void na_link_sign(void *block) {
    if (NA_UNLIKELY(na_links != NULL)) na_links->sign(block);
}
NA_INLINE void na_link_sign_list(void *list, uint32_t count) {
    if (NA_UNLIKELY(na_links != NULL)) na_links->sign_list(list, count);
}
NA_INLINE void na_link_set(void *block, void *next) {
    *na_block_next(block) = next;
    na_link_sign(block);
}
NA_INLINE void *na_link_next(void *block) {
    return NA_LIKELY(na_links == NULL) ? *na_block_next(block) : na_links->next(block);
}
/* How many blocks of the list can be trusted, from its first on. */
NA_INLINE uint32_t na_links_check(void **list, uint32_t count) {
    return NA_LIKELY(na_links == NULL) ? count : na_links->check(list, count);
}
NA_INLINE bool na_link_may_give(unsigned cls, const void *block) {
    return NA_LIKELY(na_links == NULL) || na_links->may_give(cls, block);
}

/* --- batches on a stack --- */

/* The batch, which is on no stack, comes to lie on top of `below`, or of nothing (0). */
NA_INLINE void na_batch_stack(na_batch_t batch, na_batch_t below) {
    if (NA_LIKELY(na_links == NULL))
        na_batch_set_next(batch, below);
    else
        na_links->stack(batch, below);
}

/* What it lies on. Checked: 0 where the program wrote there. */
NA_INLINE na_batch_t na_batch_below(na_batch_t batch) {
    return NA_LIKELY(na_links == NULL) ? na_batch_next(batch) : na_links->below(batch);
}

/* The same; and it is on no stack any more. */
NA_INLINE na_batch_t na_batch_unstack(na_batch_t batch) {
    return NA_LIKELY(na_links == NULL) ? na_batch_next(batch) : na_links->unstack(batch);
}

#endif
