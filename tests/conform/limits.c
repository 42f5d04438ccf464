/* limits.c - sizes that cannot be: products that overflow, more than PTRDIFF_MAX, roundings that
 * wrap. Every entry point says NULL with ENOMEM (posix_memalign: by its result, too) and what
 * existed stays as it was. */
#include "support/check.h"
#include "support/fill.h"

#include "support/alloc_api.h"

#define EXPECT_ENOMEM(call)                                                                        \
    do {                                                                                           \
        errno = 0;                                                                                 \
        void *got = check_opaque(call);                                                            \
        CHECK_MSG(got == NULL && errno == ENOMEM, "gave %p, errno %d", got, errno);                \
        if (got != NULL) free(got);                                                                \
    } while (0)

static void too_large(size_t size) {
    size = check_opaque_size(size);
    EXPECT_ENOMEM(malloc(size));
    EXPECT_ENOMEM(calloc(1, size));
    EXPECT_ENOMEM(calloc(size, 1));
    EXPECT_ENOMEM(realloc(NULL, size));
    EXPECT_ENOMEM(reallocarray(NULL, 1, size));
    EXPECT_ENOMEM(memalign(16, size));
    EXPECT_ENOMEM(memalign(4096, size));
    EXPECT_ENOMEM(memalign((size_t)1 << 30, size));
    EXPECT_ENOMEM(aligned_alloc(64, size));
    EXPECT_ENOMEM(valloc(size));
    EXPECT_ENOMEM(pvalloc(size));
    for (size_t alignment = sizeof(void *); alignment <= ((size_t)1 << 40); alignment *= 16) {
        void *block = &block;
        errno = 4321;
        int result = posix_memalign(&block, alignment, size);
        CHECK_MSG(result == ENOMEM && block == &block && errno == ENOMEM, "gave %d, %p, errno %d",
                  result, block, errno);
    }
}

static void product_overflows(size_t count, size_t size) {
    count = check_opaque_size(count);
    size = check_opaque_size(size);
    EXPECT_ENOMEM(calloc(count, size));
    EXPECT_ENOMEM(reallocarray(NULL, count, size));
    void *block = malloc(300);
    REQUIRE(block != NULL);
    fill_block(block, 300, 7);
    errno = 0;
    void *moved = check_opaque(reallocarray(check_opaque(block), count, size));
    CHECK_MSG(moved == NULL && errno == ENOMEM, "gave %p, errno %d", moved, errno);
    CHECK(fill_holds(block, 300, 7));
    free(moved != NULL ? moved : block);
}

static void realloc_fails(size_t old_size) {
    void *block = malloc(old_size);
    REQUIRE(block != NULL);
    fill_block(block, old_size, old_size);
    static const size_t sizes[] = {SIZE_MAX, (size_t)PTRDIFF_MAX + 1, PTRDIFF_MAX, SIZE_MAX - 4095};
    for (size_t i = 0; i < sizeof sizes / sizeof sizes[0]; i++) {
        errno = 0;
        void *moved = check_opaque(realloc(check_opaque(block), check_opaque_size(sizes[i])));
        CHECK_MSG(moved == NULL && errno == ENOMEM, "%zu -> %zu gave %p, errno %d", old_size,
                  sizes[i], moved, errno);
        CHECK_MSG(fill_holds(block, old_size, old_size), "%zu -> %zu", old_size, sizes[i]);
    }
    free(block);
}

int main(void) {
    check_begin();
    const size_t over = (size_t)PTRDIFF_MAX + 1;
    const size_t sizes[] = {PTRDIFF_MAX,      over,
                            over + 4096,      SIZE_MAX / 4 * 3,
                            SIZE_MAX - 70000, SIZE_MAX - 8191,
                            SIZE_MAX - 4096,  SIZE_MAX - 4095,
                            SIZE_MAX - 63,    SIZE_MAX - 16,
                            SIZE_MAX - 15,    SIZE_MAX - 8,
                            SIZE_MAX - 1,     SIZE_MAX};
    for (size_t i = 0; i < sizeof sizes / sizeof sizes[0]; i++)
        too_large(sizes[i]);

    const size_t half = (size_t)1 << 32;
    product_overflows(half, half);
    product_overflows(half + 1, half);
    product_overflows(SIZE_MAX, 2);
    product_overflows(2, SIZE_MAX);
    product_overflows(SIZE_MAX / 2, 3);
    product_overflows(3, SIZE_MAX / 2);
    product_overflows(SIZE_MAX / 16 + 1, 16);
    product_overflows(SIZE_MAX / 24 + 1, 24);
    product_overflows(SIZE_MAX, SIZE_MAX);
    product_overflows((size_t)1 << 40, (size_t)1 << 30); /* 2^70, which wraps to 0 */
    product_overflows((size_t)PTRDIFF_MAX, 2);           /* no overflow, but too large */

    static const size_t olds[] = {1, 100, 5000, 100000, 3000000, (size_t)40 << 20};
    for (size_t i = 0; i < sizeof olds / sizeof olds[0]; i++)
        realloc_fails(olds[i]);

    /* Alignments that no address space holds. */
    EXPECT_ENOMEM(memalign(check_opaque_size((size_t)1 << 62), 1));
    EXPECT_ENOMEM(aligned_alloc(check_opaque_size((size_t)1 << 62), 1));
    return check_status();
}
