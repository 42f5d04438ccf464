/* pow2_align.c - a block of 2^k bytes lies on a multiple of 2^k, up to the page: a promise of
 * numalloc (the C library makes none), and what keeps a cache line's objects in one line. */
#include "support/check.h"

#include "support/alloc_api.h"

int main(void) {
    check_begin();
    static void *blocks[256];
    for (size_t size = 16; size <= 4096; size *= 2) {
        for (size_t i = 0; i < 256; i++) {
            blocks[i] = i % 2 == 0 ? malloc(size) : calloc(1, size);
            CHECK_MSG((uintptr_t)blocks[i] % size == 0, "size %zu at %p", size, blocks[i]);
        }
        for (size_t i = 0; i < 256; i++)
            free(blocks[i]);
    }
    return check_status();
}
