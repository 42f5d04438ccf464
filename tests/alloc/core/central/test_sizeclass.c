/* test_sizeclass.c - block.c: the table of classes: order, rounding, alignment, and the division of
 * a span.
 */
#include <criterion/criterion.h>

#include "alloc/core/cache/thread_cache.h"
#include "alloc/core/central/block.h"
#include "alloc/core/page/pageheap.h"

TestSuite(sizeclass, .init = na_sizeclass_init);

Test(sizeclass, every_size_gets_the_smallest_class_that_holds_it) {
    for (size_t size = 0; size <= NA_SMALL_MAX; size++) {
        unsigned cls = na_class_of(size);
        cr_assert(cls >= 1 && cls < NA_CLASS_COUNT, "size %zu: class %u", size, cls);
        cr_assert_geq(na_classes[cls].size, size);
        if (cls > 1) cr_assert_lt(na_classes[cls - 1].size, size);
        /* a fifth is lost at most, where the step is not what is lost */
        if (size >= 256) cr_assert_leq((na_classes[cls].size - size) * 5, na_classes[cls].size);
    }
    cr_assert_eq(na_classes[NA_CLASS_COUNT - 1].size, NA_SMALL_MAX);
}

Test(sizeclass, aligned_classes) {
    for (size_t alignment = 16; alignment <= NA_PAGE_SIZE; alignment *= 2)
        for (size_t size = 0; size <= NA_SMALL_MAX; size += 7) {
            unsigned cls = na_class_of_aligned(size, alignment);
            cr_assert_neq(cls, 0, "size %zu alignment %zu", size, alignment);
            cr_assert_geq(na_classes[cls].size, size);
            cr_assert_eq(na_classes[cls].size % alignment, 0);
        }
    cr_assert_eq(na_class_of_aligned(NA_SMALL_MAX + 1, 16), 0);
}

Test(sizeclass, every_offset_of_every_span_finds_its_block) {
    for (unsigned cls = 1; cls < NA_CLASS_COUNT; cls++) {
        const na_class_t *c = &na_classes[cls];
        size_t bytes = c->span_pages * NA_PAGE_SIZE, dense = c->dense_pages * NA_PAGE_SIZE;
        cr_assert(c->capacity >= 1 && c->capacity <= NA_CAPACITY_MAX);
        cr_assert_eq(c->capacity, bytes / c->size);
        cr_assert(dense >= bytes && dense / c->size <= NA_CAPACITY_MAX);
        cr_assert(dense == bytes || dense % c->size * 32 <= dense);
        bytes = dense; /* the longer one */
        for (size_t offset = 0; offset < bytes; offset++)
            cr_assert_eq(na_block_index(c, offset), offset / c->size, "class %u offset %zu", cls,
                         offset);
    }
}

Test(sizeclass, bins_and_tags) {
    for (unsigned cls = 1; cls < NA_CLASS_COUNT; cls++) {
        const na_class_t *c = &na_classes[cls];
        cr_assert_eq(c->pooled, c->size % NA_CACHE_LINE == 0 || c->size > NA_OWNED_MOST);
        cr_assert(c->batch >= 2 && c->cap_first >= 2 && c->cap_first <= c->cap_freeing);
        cr_assert(c->cap_freeing >= 4 && c->cap_freeing <= c->cap_max);
        cr_assert_leq(c->cap_max, NA_CREDIT_MAX);
        uint32_t tag = na_tag(cls, 0xffff);
        cr_assert_eq((tag & 0xffff) / NA_BIN_SIZE, cls);
        cr_assert_eq(tag >> 16, 0xffff);
    }
}
