/* other_malloc.c - a malloc that is not numalloc's: with WATCHES one that goes on to the next, else
 * a region that is never given back. As a library, or with PROGRAM in a program. */
#include <dlfcn.h>
#include <errno.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#ifdef WATCHES

void *malloc(size_t size) {
    static void *(*next)(size_t);
    if (next == NULL) *(void **)&next = dlsym(RTLD_NEXT, "malloc");
    return next(size);
}

void free(void *block) {
    static void (*next)(void *);
    if (next == NULL) *(void **)&next = dlsym(RTLD_NEXT, "free");
    next(block);
}

#else

static char region[64 << 20] __attribute__((aligned(16)));
static size_t used;

void *malloc(size_t size) {
    size_t need = (size + 31) & ~(size_t)15;
    size_t at = __atomic_fetch_add(&used, need, __ATOMIC_RELAXED);
    if (at + need > sizeof region) return NULL;
    *(size_t *)(void *)(region + at) = size;
    return region + at + 16;
}

void free(void *block) {
    (void)block;
}

void *calloc(size_t count, size_t size) {
    return malloc(count * size); /* it is zero */
}

void *realloc(void *block, size_t size) {
    void *to = malloc(size);
    if (block == NULL || to == NULL) return to;
    size_t had = *(size_t *)(void *)((char *)block - 16);
    return memcpy(to, block, had < size ? had : size);
}

#endif

#ifdef PROGRAM
int main(void) {
    char *text = strdup("a block");
    puts(text);
    free(text);
    return 0;
}
#endif
