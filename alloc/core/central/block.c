/* block.c - fills the size-class table and the map from size to class. */
#include "alloc/core/central/block.h"

#include <string.h>

#include "alloc/core/page/pageheap.h"

na_class_t na_classes[NA_CLASS_COUNT];
uint16_t na_class_table[NA_SMALL_MAX / NA_CLASS_STEP + 1];

/* Of a span so much lies unused in its tail, at most; where memory is short half of that, if that
 * takes no more than NA_DENSE_PAGES. */
enum { TAIL_PART = NA_SPARE_PART, DENSE_TAIL_PART = 2 * TAIL_PART };

/* A bin may hold this much, or LEAST blocks (twice, three times so many). */
enum {
    CAP_FIRST_BYTES = NA_BATCH_BYTES / 16,  /* at first, */
    CAP_FREEING_BYTES = NA_BATCH_BYTES / 4, /* when its thread only frees, */
    CAP_MAX_BYTES = 4 * NA_BATCH_BYTES,     /* when it proves to need it */
    LEAST = 2,
};

static uint32_t clamp32(uint32_t x, uint32_t low, uint32_t high) {
    return x < low ? low : x > high ? high : x;
}

/* The smallest span of at most `most` pages that wastes at most 1 / part of itself in its tail, or
 * `otherwise`. */
static uint32_t span_pages_for(uint32_t size, uint32_t part, uint32_t most, uint32_t otherwise) {
    for (uint32_t pages = 1; pages <= most; pages++) {
        uint32_t bytes = pages * (uint32_t)NA_PAGE_SIZE;
        if (bytes >= size && (bytes % size) * part <= bytes) return pages;
    }
    return otherwise;
}

static void define(unsigned index, uint32_t size) {
    na_class_t *c = &na_classes[index];
    uint32_t pages = span_pages_for(size, TAIL_PART, NA_SPAN_PAGES_MAX, NA_SPAN_PAGES_MAX);
    c->size = size;
    c->span_pages = (uint16_t)pages;
    c->dense_pages = (uint8_t)span_pages_for(size, DENSE_TAIL_PART, NA_DENSE_PAGES, pages);
    c->capacity = (uint16_t)(pages * (uint32_t)NA_PAGE_SIZE / size);
    c->reciprocal = (((uint64_t)1 << 40) + size - 1) / size;
    c->batch = (uint16_t)clamp32(NA_BATCH_BYTES / size, LEAST, NA_BATCH_BLOCKS);
    c->cap_first = (uint16_t)clamp32(CAP_FIRST_BYTES / size, LEAST, NA_CREDIT_MAX);
    c->cap_freeing = (uint16_t)clamp32(CAP_FREEING_BYTES / size, 2 * LEAST, NA_CREDIT_MAX);
    c->cap_max = (uint16_t)clamp32(CAP_MAX_BYTES / size, 3 * LEAST, NA_CREDIT_MAX);
    c->pooled = size % NA_CACHE_LINE == 0 || size > NA_OWNED_MOST;
}

/* Entries `from` to `last`, four at once: every process does this as it starts. */
static void map_to(unsigned cls, unsigned from, unsigned last) {
    uint16_t offset = (uint16_t)(cls * NA_BIN_SIZE);
    uint64_t four = offset * UINT64_C(0x0001000100010001);
    for (; from + 4 <= last + 1; from += 4)
        memcpy(&na_class_table[from], &four, sizeof four);
    for (; from <= last; from++)
        na_class_table[from] = offset;
}

void na_sizeclass_init(void) {
    unsigned index = 1;
    for (uint32_t size = 16; size <= 256; size += 16)
        define(index++, size);
    for (uint32_t base = 256; base < NA_SMALL_MAX; base *= 2)
        for (uint32_t step = 1; step <= 8; step++)
            define(index++, base + base / 8 * step);

    unsigned steps = 0; /* malloc(0) is of class 1, too */
    for (unsigned cls = 1; cls < NA_CLASS_COUNT; cls++) {
        unsigned last = na_classes[cls].size / NA_CLASS_STEP;
        map_to(cls, steps, last);
        steps = last + 1;
    }
}

bool na_sizes_spare;

void na_sizeclass_spare(void) {
    na_sizes_spare = true;
    for (unsigned i = 1; i < NA_SMALL_MAX / NA_CLASS_STEP; i++)
        na_class_table[i] = na_class_table[i + 1];
}

unsigned na_class_of_aligned(size_t size, size_t alignment) {
    if (size > NA_SMALL_MAX) return 0;
    for (unsigned index = na_class_of(size); index < NA_CLASS_COUNT; index++)
        if (na_classes[index].size % alignment == 0) return index;
    return 0;
}
