/* zero.c - sizes of zero: malloc(0) and its kin give unique blocks; realloc(p, 0) frees p and gives
 * NULL, as the C library does, without leaking and without touching errno. */
#include "support/check.h"
#include "support/proc_mem.h"

#include "support/alloc_api.h"

#define MANY 1000

static void *zero_by(int way) {
    void *block = NULL;
    switch (way) {
    case 0:
        return malloc(check_opaque_size(0));
    case 1:
        return calloc(check_opaque_size(0), 8);
    case 2:
        return calloc(8, check_opaque_size(0));
    case 3:
        return realloc(NULL, check_opaque_size(0));
    case 4:
        return memalign(64, check_opaque_size(0));
    case 5:
        return aligned_alloc(64, check_opaque_size(0));
    case 6:
        return posix_memalign(&block, 64, check_opaque_size(0)) == 0 ? block : NULL;
    default:
        return reallocarray(NULL, check_opaque_size(0), 8);
    }
}

int main(void) {
    check_begin();
    static void *blocks[MANY];
    for (int way = 0; way < 8; way++) {
        for (int i = 0; i < MANY; i++) {
            blocks[i] = zero_by(way);
            CHECK_MSG(blocks[i] != NULL && (uintptr_t)blocks[i] % 16 == 0, "way %d gave %p", way,
                      blocks[i]);
        }
        for (int i = 0; i + 1 < MANY; i++)
            for (int j = i + 1; j < MANY; j++)
                if (blocks[i] == blocks[j]) CHECK_MSG(false, "way %d gave one block twice", way);
        for (int i = 0; i < MANY; i++)
            free(blocks[i]);
    }
    static const size_t sizes[] = {1, 16, 1000, 5000, 100000, 2000000};
    long before = proc_rss_kib();
    for (size_t s = 0; s < sizeof sizes / sizeof sizes[0]; s++) {
        size_t rounds = sizes[s] > 50000 ? 200 : 100000;
        for (size_t i = 0; i < rounds; i++) {
            char *block = malloc(sizes[s]);
            REQUIRE(block != NULL);
            block[0] = block[sizes[s] - 1] = 1;
            errno = 4321;
            void *gone =
                i % 2 == 0 ? realloc(block, check_opaque_size(0)) : reallocarray(block, 0, 8);
            CHECK_MSG(gone == NULL && errno == 4321, "realloc(%zu bytes, 0): %p, errno %d",
                      sizes[s], gone, errno);
        }
    }
#ifndef __SANITIZE_ADDRESS__
    long grown = proc_rss_kib() - before;
    CHECK_MSG(grown < 32 * 1024, "realloc(p, 0) leaks: %ld KiB more", grown);
#else
    (void)before;
#endif
    return check_status();
}
