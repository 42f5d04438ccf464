/* aligned.c - memalign, aligned_alloc, posix_memalign, valloc, pvalloc: every power of two up to
 * 1 GiB, posix_memalign's error codes, sized deallocation. */
#include "support/check.h"
#include "support/fill.h"

#include "support/alloc_api.h"

static void *aligned_by(int way, size_t alignment, size_t size) {
    void *block = NULL;
    if (way == 0) return memalign(alignment, size);
    if (way == 1) return aligned_alloc(alignment, size);
    if (alignment < sizeof(void *)) return memalign(alignment, size);
    return posix_memalign(&block, alignment, size) == 0 ? block : NULL;
}

/* Blocks above this are touched at their ends only. */
#define FILL_MAX ((size_t)1 << 20)

static void one(int way, size_t alignment, size_t size) {
    unsigned char *block = check_opaque(aligned_by(way, alignment, size));
    CHECK_MSG(block != NULL, "way %d, alignment %zu, size %zu", way, alignment, size);
    if (block == NULL) return;
    CHECK_MSG((uintptr_t)block % alignment == 0 && (uintptr_t)block % 16 == 0,
              "way %d, alignment %zu, size %zu at %p", way, alignment, size, (void *)block);
    size_t usable = malloc_usable_size(block);
    CHECK_MSG(usable >= size, "way %d, alignment %zu, size %zu: usable %zu", way, alignment, size,
              usable);
    if (usable <= FILL_MAX) {
        fill_block(block, usable, size);
        CHECK_MSG(fill_holds(block, usable, size), "alignment %zu, size %zu", alignment, size);
    } else {
        block[0] = block[usable - 1] = 1;
    }
    free(block);
}

static void powers_of_two(void) {
    for (unsigned k = 0; k <= 30; k++) {
        size_t alignment = (size_t)1 << k;
        const size_t sizes[] = {1, 24, 100, 4097, 70000, alignment - 1, alignment, alignment + 1};
        size_t count = k <= 24 ? 8 : k <= 26 ? 7 : 2;
        for (size_t i = 0; i < count; i++)
            for (int way = 0; way < 3; way++)
                if (sizes[i] != 0) one(way, alignment, sizes[i]);
        one(2, alignment, alignment);
    }
}

/* Many at once, freed in another order: blocks of one alignment do not overlap. */
static void many(void) {
    enum { COUNT = 400 };
    static void *blocks[COUNT];
    static size_t usable[COUNT];
    for (size_t alignment = 32; alignment <= 65536; alignment *= 8) {
        for (size_t i = 0; i < COUNT; i++) {
            blocks[i] = memalign(alignment, i * 13 + 1);
            REQUIRE(blocks[i] != NULL);
            usable[i] = malloc_usable_size(blocks[i]);
            CHECK_MSG((uintptr_t)blocks[i] % alignment == 0, "alignment %zu", alignment);
            fill_block(blocks[i], usable[i], i);
        }
        for (size_t n = 0; n < COUNT; n++) {
            size_t i = n * 7 % COUNT;
            CHECK_MSG(fill_holds(blocks[i], usable[i], i), "alignment %zu", alignment);
            free(blocks[i]);
        }
    }
}

static void posix_errors(void) {
    static const size_t bad[] = {0,
                                 1,
                                 2,
                                 4,
                                 3,
                                 7,
                                 9,
                                 12,
                                 24,
                                 48,
                                 100,
                                 4097,
                                 (size_t)3 << 20,
                                 SIZE_MAX,
                                 SIZE_MAX - 7,
                                 ((size_t)1 << 63) + 8};
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        void *block = &block;
        errno = 4321;
        int result = posix_memalign(&block, check_opaque_size(bad[i]), 100);
        CHECK_MSG(result == EINVAL && errno == 4321 && block == &block,
                  "alignment %zu: gave %d, errno %d", bad[i], result, errno);
    }
    for (size_t size = 100; size < (size_t)256 << 20; size *= 7) {
        void *block = NULL;
        errno = 4321;
        CHECK(posix_memalign(&block, 64, size) == 0 && errno == 4321 && block != NULL);
        free(block);
    }
}

/* An alignment that is no power of two is refused with EINVAL or rounded up, never ignored. */
static void odd_alignments(void) {
    static const size_t odd[] = {24, 48, 100, 5000};
    for (size_t i = 0; i < sizeof odd / sizeof odd[0]; i++)
        for (int way = 0; way < 2; way++) {
            size_t up = 1;
            while (up < odd[i])
                up *= 2;
            errno = 0;
            void *block = check_opaque(aligned_by(way, check_opaque_size(odd[i]), 100));
            if (block == NULL)
                CHECK_MSG(errno == EINVAL, "alignment %zu: errno %d", odd[i], errno);
            else
                CHECK_MSG((uintptr_t)block % up == 0, "alignment %zu at %p", odd[i], block);
            free(block);
        }
}

static void pages(void) {
    size_t page = (size_t)sysconf(_SC_PAGESIZE);
    for (size_t size = 1; size < 300000; size = size * 5 + 1) {
        void *a = check_opaque(valloc(size));
        void *b = check_opaque(pvalloc(size));
        CHECK_MSG(a != NULL && (uintptr_t)a % page == 0, "valloc(%zu) %p", size, a);
        CHECK_MSG(b != NULL && (uintptr_t)b % page == 0, "pvalloc(%zu) %p", size, b);
        CHECK_MSG(malloc_usable_size(b) >= (size + page - 1) / page * page, "pvalloc(%zu): %zu",
                  size, malloc_usable_size(b));
        free(a);
        free(b);
    }
}

static void sized(void) {
#ifndef NA_PREFIXED
    if (free_sized == NULL || free_aligned_sized == NULL) {
        CHECK_MSG(!check_is_ours(), "%s", "free_sized or free_aligned_sized is missing");
        return;
    }
#endif
    static const size_t sizes[] = {0, 1, 16, 100, 1024, 5000, 33000, 300000, 2000000};
    for (int round = 0; round < 100; round++)
        for (size_t i = 0; i < sizeof sizes / sizeof sizes[0]; i++) {
            errno = 4321;
            free_sized(malloc(sizes[i]), sizes[i]);
            free_sized(calloc(1, sizes[i]), sizes[i]);
            free_sized(realloc(malloc(77), sizes[i] + 1), sizes[i] + 1);
            for (size_t alignment = 16; alignment <= 65536; alignment *= 4)
                free_aligned_sized(aligned_alloc(alignment, sizes[i]), alignment, sizes[i]);
            free_sized(NULL, sizes[i]);
            free_aligned_sized(NULL, 64, sizes[i]);
            CHECK_MSG(errno == 4321, "sized free set errno to %d", errno);
        }
}

int main(void) {
    check_begin();
    powers_of_two();
    many();
    posix_errors();
    odd_alignments();
    pages();
    sized();
    return check_status();
}
