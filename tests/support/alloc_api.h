/* alloc_api.h - the allocation functions, under the names of the build at hand.
 *
 * Normally the standard names, interposed by preloading. With NA_PREFIXED (sanitizer builds, where
 * the sanitizer owns malloc) the same calls go to numalloc_malloc and its kin in the static
 * library. Include it after all system headers: the mapping is by macro. */
#ifndef NUMALLOC_TESTS_SUPPORT_ALLOC_API_H
#define NUMALLOC_TESTS_SUPPORT_ALLOC_API_H

#include <malloc.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#ifndef __GLIBC__ /* musl has neither; numalloc does */
void *pvalloc(size_t size);
int malloc_trim(size_t pad);
#endif

#ifdef NA_PREFIXED

void *numalloc_malloc(size_t size);
void numalloc_free(void *block);
void *numalloc_calloc(size_t count, size_t size);
void *numalloc_realloc(void *block, size_t size);
void *numalloc_reallocarray(void *block, size_t count, size_t size);
void *numalloc_memalign(size_t alignment, size_t size);
void *numalloc_aligned_alloc(size_t alignment, size_t size);
int numalloc_posix_memalign(void **block, size_t alignment, size_t size);
void *numalloc_valloc(size_t size);
void *numalloc_pvalloc(size_t size);
size_t numalloc_malloc_usable_size(void *block);
void numalloc_free_sized(void *block, size_t size);
void numalloc_free_aligned_sized(void *block, size_t alignment, size_t size);

#define malloc             numalloc_malloc
#define free               numalloc_free
#define calloc             numalloc_calloc
#define realloc            numalloc_realloc
#define reallocarray       numalloc_reallocarray
#define memalign           numalloc_memalign
#define aligned_alloc      numalloc_aligned_alloc
#define posix_memalign     numalloc_posix_memalign
#define valloc             numalloc_valloc
#define pvalloc            numalloc_pvalloc
#define malloc_usable_size numalloc_malloc_usable_size
#define free_sized         numalloc_free_sized
#define free_aligned_sized numalloc_free_aligned_sized

#else

/* C23; the C library at hand may not declare (or, not preloaded, have) them. */
__attribute__((weak)) void free_sized(void *block, size_t size);
__attribute__((weak)) void free_aligned_sized(void *block, size_t alignment, size_t size);

#endif
#endif
