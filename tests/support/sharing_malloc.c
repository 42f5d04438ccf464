/* sharing_malloc.c - a preloadable allocator that puts the small objects of different threads on
 * one cache line on purpose, or keeps them two lines apart: to show that thrash and scratch see it.
 *
 * Objects of 1 to 16 bytes come from a pool for exactly that size, always the lowest free slot,
 * whoever asks: threads that hold one object each hold neighbours. SHARING_MALLOC=share makes slots
 * of 16 bytes, four to a line; SHARING_MALLOC=pad makes slots of 128 bytes. All else is glibc's.
 * Any thread may call; one lock. */
#include <errno.h>
#include <pthread.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#define EXPORT __attribute__((visibility("default")))

extern void *__libc_malloc(size_t);
extern void *__libc_calloc(size_t, size_t);
extern void *__libc_realloc(void *, size_t);
extern void __libc_free(void *);

#define SMALL 16
#define SLOTS 4096 /* of each pool */
#define WIDE  128

static unsigned char pools[SMALL][SLOTS * WIDE] __attribute__((aligned(4096)));
static bool taken[SMALL][SLOTS];
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static size_t slot_size; /* under lock; 0: not known yet */

/* Under lock. A program with neither word would measure nothing: it ends. */
static void choose(void) {
    const char *mode = getenv("SHARING_MALLOC");
    if (mode != NULL && strcmp(mode, "share") == 0)
        slot_size = SMALL;
    else if (mode != NULL && strcmp(mode, "pad") == 0)
        slot_size = WIDE;
    else
        abort();
}

EXPORT void *malloc(size_t size) {
    unsigned char *block = NULL;
    if (size == 0 || size > SMALL) return __libc_malloc(size);
    pthread_mutex_lock(&lock);
    if (slot_size == 0) choose();
    for (size_t i = 0; i < SLOTS && block == NULL; i++) {
        if (taken[size - 1][i]) continue;
        taken[size - 1][i] = true;
        block = &pools[size - 1][i * slot_size];
    }
    pthread_mutex_unlock(&lock);
    return block != NULL ? block : __libc_malloc(size);
}

static bool pooled(const void *block) {
    return (uintptr_t)block - (uintptr_t)pools < sizeof pools;
}

EXPORT void free(void *block) {
    if (!pooled(block)) {
        __libc_free(block);
        return;
    }
    size_t offset = (size_t)((unsigned char *)block - &pools[0][0]);
    pthread_mutex_lock(&lock);
    taken[offset / sizeof pools[0]][offset % sizeof pools[0] / slot_size] = false;
    pthread_mutex_unlock(&lock);
}

EXPORT void *calloc(size_t count, size_t size) {
    size_t bytes;
    if (__builtin_mul_overflow(count, size, &bytes) || bytes == 0 || bytes > SMALL)
        return __libc_calloc(count, size);
    void *block = malloc(bytes);
    return block == NULL ? NULL : memset(block, 0, bytes);
}

EXPORT void *realloc(void *old, size_t size) {
    if (!pooled(old)) return __libc_realloc(old, size);
    size_t bytes = (size_t)((unsigned char *)old - &pools[0][0]) / sizeof pools[0] + 1;
    void *block = __libc_malloc(size);
    if (block == NULL) return NULL;
    memcpy(block, old, bytes < size ? bytes : size);
    free(old);
    return block;
}
