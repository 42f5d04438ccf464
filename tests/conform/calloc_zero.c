/* calloc_zero.c - calloc's memory is zero also where dirty blocks lay before: in the thread's
 * cache, in pages of other classes, in runs given back to the system or kept. */
#include "support/check.h"
#include "support/fill.h"

#include <pthread.h>

#include "support/alloc_api.h"

#define SLOTS 256

/* Blocks of `dirty` bytes are soiled and freed, then the same memory is asked for as `clean`. */
static void reuse(size_t dirty, size_t clean) {
    static void *blocks[SLOTS];
    size_t largest = dirty > clean ? dirty : clean;
    size_t count = largest > 200000 ? 4 : largest > 20000 ? 32 : SLOTS;
    for (size_t i = 0; i < count; i++) {
        blocks[i] = malloc(dirty);
        REQUIRE(blocks[i] != NULL);
        memset(blocks[i], 0xA5, malloc_usable_size(blocks[i]));
    }
    for (size_t i = 0; i < count; i++)
        free(blocks[i]);
    for (size_t i = 0; i < count; i++) {
        blocks[i] = i % 2 == 0 ? calloc(1, clean) : calloc(clean, 1);
        REQUIRE(blocks[i] != NULL);
        CHECK_MSG(fill_is_zero(blocks[i], clean), "%zu after %zu bytes", clean, dirty);
        memset(blocks[i], 0x5A, malloc_usable_size(blocks[i]));
    }
    for (size_t i = 0; i < count; i++)
        free(blocks[i]);
}

/* The first call of a thread: its thread cache may be one that a thread that ended has left, with
 * what it drew last. */
static void *soil(void *size) {
    void *block = malloc((size_t)(uintptr_t)size);
    REQUIRE(block != NULL);
    memset(block, 0xA5, malloc_usable_size(block));
    free(block);
    return NULL;
}

static void *look(void *size) {
    void *block = calloc(1, (size_t)(uintptr_t)size);
    CHECK_MSG(block != NULL && fill_is_zero(block, (size_t)(uintptr_t)size),
              "the first block of a thread, %zu bytes", (size_t)(uintptr_t)size);
    free(block);
    return NULL;
}

static void first_call(void) {
    for (size_t size = 16; size <= 4000000; size += size / 4) {
        pthread_t thread;
        for (int i = 0; i < 2; i++) {
            REQUIRE(pthread_create(&thread, NULL, i == 0 ? soil : look, (void *)size) == 0);
            REQUIRE(pthread_join(thread, NULL) == 0);
        }
    }
}

static void mixed(void) {
    static void *slots[SLOTS];
    uint64_t random = 3;
    for (int i = 0; i < 60000; i++) {
        size_t at = (size_t)(fill_random(&random) % SLOTS);
        size_t size = fill_random_size(&random, 17);
        free(slots[at]);
        bool zeroed = fill_random(&random) % 2 == 0;
        slots[at] = zeroed ? calloc(1, size) : memalign((size_t)16 << (size % 9), size);
        REQUIRE(slots[at] != NULL);
        if (zeroed) CHECK_MSG(fill_is_zero(slots[at], size), "%zu bytes", size);
        memset(slots[at], 0xC3, malloc_usable_size(slots[at]));
    }
    for (size_t i = 0; i < SLOTS; i++)
        free(slots[i]);
}

int main(void) {
    check_begin();
    first_call(); /* while memory is new */
    static const size_t sizes[] = {1,     16,    40,     128,    1000,    4096,
                                   10000, 40000, 131072, 300000, 1500000, 5000000};
    const size_t count = sizeof sizes / sizeof sizes[0];
    for (size_t i = 0; i < count; i++)
        for (size_t j = 0; j < count; j++)
            reuse(sizes[i], sizes[j]);
    mixed();
    return check_status();
}
