/* sizeclass.h - the block sizes that small requests are rounded up to: ONE table.
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
 * running threads would share a line through no fault of their own (docs/decisions/0001-hot-path.md
 * has the figures). A block of more than two lines has lines of its own and shares those at its
 * ends at most: it is pooled, too, since spans that each thread has for itself cost more
 * (docs/decisions/0027-pooling.md). */
#ifndef NUMALLOC_ALLOC_CENTRAL_SIZECLASS_H
#define NUMALLOC_ALLOC_CENTRAL_SIZECLASS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "alloc/central/tag.h"
#include "alloc/sys/base.h"
#include "alloc/sys/os.h"

#define NA_CLASS_COUNT 73u /* with class 0 */
#define NA_SMALL_MAX   32768u
#define NA_CLASS_STEP  16u
/* Bins of blocks from this size on hold few: their credit is extended (cache/bin.h). */
#define NA_EXTENDED_LEAST 2048u
#define NA_CLASS_EXTENDED 40u
#define NA_OWNED_MOST     (2u * NA_CACHE_LINE) /* larger blocks are pooled */
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
    uint16_t thin;        /* a busy bin with fewer blocks is renewed too often */
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
    return (const na_class_t *)(classes + (tag & 0xffff) * (sizeof(na_class_t) / NA_BIN_SIZE));
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

#endif
