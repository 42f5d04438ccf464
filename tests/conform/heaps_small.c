/* heaps_small.c - many blocks of each small size of a heap, side by side, freed in any order: each
 * is what it was, and none is taken for another. */
#include "support/check.h"
#include "support/fill.h"

#include "numalloc/numalloc.h"

enum { BLOCKS = 200, LARGEST = 300 };

static void try_size(numalloc_heap_t *heap, size_t size) {
    void *at[BLOCKS];
    for (size_t i = 0; i < BLOCKS; i++) {
        at[i] =
            i % 4 == 3 ? numalloc_heap_aligned(heap, 64, size) : numalloc_heap_malloc(heap, size);
        REQUIRE(at[i] != NULL);
        fill_block(at[i], size, i);
    }
    for (size_t i = 0; i < BLOCKS; i++) {
        size_t one = i * 77 % BLOCKS; /* no common divisor */
        CHECK_MSG(fill_holds(at[one], size, one), "%zu bytes", size);
        free(at[one]);
    }
}

int main(void) {
    check_begin();
    numalloc_heap_t *heap = numalloc_heap_create(NULL);
    REQUIRE(heap != NULL);
    for (size_t size = 1; size <= LARGEST; size++)
        try_size(heap, size);
    numalloc_heap_destroy(heap);
    return check_status();
}
