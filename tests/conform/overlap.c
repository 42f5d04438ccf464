/* overlap.c - of many live blocks of all sizes and alignments no two share a byte. */
#include "support/check.h"
#include "support/fill.h"

#include "support/alloc_api.h"

#define BLOCKS 150000

typedef struct span {
    uintptr_t begin;
    uintptr_t end;
} span_t;

static void *blocks[BLOCKS];
static span_t spans[BLOCKS];

static int by_begin(const void *a, const void *b) {
    const span_t *x = a;
    const span_t *y = b;
    return x->begin < y->begin ? -1 : x->begin > y->begin;
}

static void compare_all(const char *when) {
    for (size_t i = 0; i < BLOCKS; i++) {
        spans[i].begin = (uintptr_t)blocks[i];
        spans[i].end = (uintptr_t)blocks[i] + malloc_usable_size(blocks[i]);
    }
    qsort(spans, BLOCKS, sizeof spans[0], by_begin);
    for (size_t i = 0; i + 1 < BLOCKS; i++)
        CHECK_MSG(spans[i].end <= spans[i + 1].begin, "%s: [%#zx, %#zx) and [%#zx, ...)", when,
                  (size_t)spans[i].begin, (size_t)spans[i].end, (size_t)spans[i + 1].begin);
}

static void *any_block(uint64_t *random) {
    uint64_t r = fill_random(random);
    size_t size = fill_random_size(random, r % 1000 == 0 ? 21 : r % 16 == 0 ? 13 : 9);
    void *block = r % 10 == 0   ? memalign((size_t)16 << (r >> 32) % 10, size)
                  : r % 10 == 1 ? calloc(1, size)
                                : malloc(size);
    REQUIRE(block != NULL);
    return block;
}

int main(void) {
    check_begin();
    uint64_t random = 5;
    for (size_t i = 0; i < BLOCKS; i++)
        blocks[i] = any_block(&random);
    compare_all("first fill");
    for (int round = 0; round < 3; round++) {
        for (size_t i = 0; i < BLOCKS; i++)
            if (fill_random(&random) % 2 == 0) {
                free(blocks[i]);
                blocks[i] = NULL;
            }
        for (size_t i = 0; i < BLOCKS; i++)
            if (blocks[i] == NULL)
                blocks[i] = any_block(&random);
            else if (fill_random(&random) % 8 == 0) {
                blocks[i] = realloc(blocks[i], fill_random_size(&random, 12));
                REQUIRE(blocks[i] != NULL);
            }
        compare_all("after reuse");
    }
    for (size_t i = 0; i < BLOCKS; i++)
        free(blocks[i]);
    return check_status();
}
