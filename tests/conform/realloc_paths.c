/* realloc_paths.c - realloc between all kinds of blocks, both ways, keeps the contents: small to
 * small, to medium, to large, to huge and back; from aligned blocks; creeping growth and shrinking;
 * two that grow side by side. */
#include "support/check.h"
#include "support/fill.h"

#include "support/alloc_api.h"

static size_t least(size_t a, size_t b) {
    return a < b ? a : b;
}

static void *resize(void *block, size_t from, size_t to, uint64_t seed) {
    void *moved = check_opaque(realloc(block, to));
    REQUIRE(moved != NULL);
    CHECK_MSG((uintptr_t)moved % 16 == 0, "%zu -> %zu at %p", from, to, moved);
    CHECK_MSG(malloc_usable_size(moved) >= to, "%zu -> %zu usable %zu", from, to,
              malloc_usable_size(moved));
    CHECK_MSG(fill_holds(moved, least(from, to) & ~(size_t)7, seed), "%zu -> %zu", from, to);
    /* All of it is usable, whatever was kept. */
    fill_block(moved, malloc_usable_size(moved), seed);
    return moved;
}

static void all_pairs(void) {
    static const size_t sizes[] = {1,      8,      16,      24,      100,     256,
                                   1000,   1024,   4000,    4096,    8192,    10000,
                                   32768,  40000,  65536,   100000,  262144,  300000,
                                   524288, 786432, 1048576, 1100000, 4194304, (size_t)20 << 20};
    const size_t count = sizeof sizes / sizeof sizes[0];
    for (size_t i = 0; i < count; i++)
        for (size_t j = 0; j < count; j++) {
            uint64_t seed = i * 100 + j + 1;
            void *block = check_opaque(malloc(sizes[i]));
            REQUIRE(block != NULL);
            fill_block(block, sizes[i], seed);
            free(resize(block, sizes[i], sizes[j], seed));
        }
}

static void from_aligned(void) {
    for (size_t alignment = 16; alignment <= 65536; alignment *= 4)
        for (size_t from = 50; from < 3000000; from = from * 7 + 1)
            for (size_t to = 20; to < 5000000; to = to * 11 + 3) {
                void *block = check_opaque(memalign(alignment, from));
                REQUIRE(block != NULL);
                fill_block(block, from, from);
                free(resize(block, from, to, from));
            }
}

static void creep(void) {
    size_t size = 1;
    void *block = malloc(1);
    REQUIRE(block != NULL);
    fill_block(block, 1, 9);
    for (size_t next = 2; next < 6000; next++) {
        block = resize(block, size, next, 9);
        size = next;
    }
    for (; size < ((size_t)48 << 20);) {
        size_t next = size + size / 3;
        block = resize(block, size, next, 9);
        size = next;
    }
    for (; size > 64;) {
        size_t next = size - size / 3;
        block = resize(block, size, next, 9);
        size = next;
    }
    free(block);
}

/* Neighbours that grow by pages in turn: neither may grow into the other. */
static void side_by_side(void) {
    enum { BLOCKS = 5 };
    void *blocks[BLOCKS];
    size_t sizes[BLOCKS];
    uint64_t random = 77;
    for (size_t i = 0; i < BLOCKS; i++) {
        sizes[i] = 4096;
        blocks[i] = malloc(sizes[i]);
        REQUIRE(blocks[i] != NULL);
        fill_block(blocks[i], sizes[i], i);
    }
    for (int round = 0; round < 1500; round++) {
        size_t i = (size_t)(fill_random(&random) % BLOCKS);
        size_t next = sizes[i] + (fill_random(&random) % 4) * 4096 + 8;
        if (next > 3000000) next = 3000;
        blocks[i] = resize(blocks[i], sizes[i], next, i);
        sizes[i] = next;
    }
    for (size_t i = 0; i < BLOCKS; i++) {
        CHECK(fill_holds(blocks[i], sizes[i] & ~(size_t)7, i));
        free(blocks[i]);
    }
}

int main(void) {
    check_begin();
    all_pairs();
    from_aligned();
    creep();
    side_by_side();
    return check_status();
}
