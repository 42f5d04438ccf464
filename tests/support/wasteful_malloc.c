/* wasteful_malloc.c - a preloadable allocator whose waste is known to the byte: every block is a
 * mapping of its own, of whole pages, and begins HEADER bytes after it (or one alignment, if that
 * is more). A block of n bytes so takes n + HEADER rounded up to whole pages, as long as it lives.
 *
 * Any thread may call: the kernel does all the work. Alignments above a page are refused. */
#include "support/wasteful.h"

#include <errno.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#define EXPORT __attribute__((visibility("default")))

typedef struct header {
    void *base;
    size_t length, size; /* bytes mapped, bytes asked for */
} header_t;

_Static_assert(sizeof(header_t) <= WASTEFUL_HEADER, "the header has its room");

static header_t *header_of(void *block) {
    return (header_t *)((uintptr_t)block - WASTEFUL_HEADER);
}

/* As allocators that take an arena before they are asked: WASTEFUL_AHEAD MiB that nobody gets. */
__attribute__((constructor)) static void take_ahead(void) {
    const char *mib = getenv("WASTEFUL_AHEAD");
    if (mib == NULL) return;
    void *ahead = mmap(NULL, strtoul(mib, NULL, 10) << 20, PROT_READ | PROT_WRITE,
                       MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (ahead == MAP_FAILED) abort();
}

EXPORT void *memalign(size_t alignment, size_t size) {
    size_t before = alignment > WASTEFUL_HEADER ? alignment : WASTEFUL_HEADER, length;
    if (alignment > WASTEFUL_PAGE ||
        __builtin_add_overflow(size, before + WASTEFUL_PAGE - 1, &length)) {
        errno = ENOMEM;
        return NULL;
    }
    length &= ~(size_t)(WASTEFUL_PAGE - 1);
    void *base = mmap(NULL, length, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (base == MAP_FAILED) return NULL;
    void *block = (unsigned char *)base + before;
    *header_of(block) = (header_t){base, length, size};
    return block;
}

EXPORT void *malloc(size_t size) {
    return memalign(1, size);
}

EXPORT void free(void *block) {
    if (block == NULL) return;
    int error = errno;
    header_t header = *header_of(block);
    munmap(header.base, header.length);
    errno = error;
}

EXPORT void *calloc(size_t count, size_t size) {
    size_t bytes;
    if (__builtin_mul_overflow(count, size, &bytes)) {
        errno = ENOMEM;
        return NULL;
    }
    return malloc(bytes); /* fresh pages are zero */
}

EXPORT void *realloc(void *old, size_t size) {
    void *block = malloc(size);
    if (old == NULL || block == NULL) return block;
    size_t had = header_of(old)->size;
    memcpy(block, old, had < size ? had : size);
    free(old);
    return block;
}

EXPORT void *aligned_alloc(size_t alignment, size_t size) {
    return memalign(alignment, size);
}

EXPORT int posix_memalign(void **out, size_t alignment, size_t size) {
    void *block = memalign(alignment, size);
    if (block == NULL) return ENOMEM;
    *out = block;
    return 0;
}
