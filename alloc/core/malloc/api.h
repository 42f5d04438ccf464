/* api.h - names of the entry points, and what they share.
 *
 * Sanitizers replace malloc themselves; builds under them (NA_PREFIXED) call the entry points
 * numalloc_malloc, numalloc_free and so on, which tests use through the same names. */
#ifndef NUMALLOC_ALLOC_CORE_MALLOC_API_H
#define NUMALLOC_ALLOC_CORE_MALLOC_API_H

#include <stddef.h>

#include "alloc/core/sys/base.h"
#include "alloc/core/track/hooks.h"

#ifdef NA_PREFIXED
#define NA_FN(name) numalloc_##name
#else
#define NA_FN(name) name
#endif

/* `target` under another name as well. gcc wants the aliases' attributes to agree, clang does not
 * know how to be told. */
#if __has_attribute(copy)
#define NA_ALIAS_OF(target) __attribute__((alias(#target), copy(target)))
#else
#define NA_ALIAS_OF(target) __attribute__((alias(#target)))
#endif

NA_EXPORT void *NA_FN(malloc)(size_t size);
NA_EXPORT void NA_FN(free)(void *block);
NA_EXPORT void *NA_FN(calloc)(size_t count, size_t size);
NA_EXPORT void *NA_FN(realloc)(void *block, size_t size);
NA_EXPORT void *NA_FN(reallocarray)(void *block, size_t count, size_t size);
NA_EXPORT void *NA_FN(aligned_alloc)(size_t alignment, size_t size);
NA_EXPORT void *NA_FN(memalign)(size_t alignment, size_t size);
NA_EXPORT int NA_FN(posix_memalign)(void **result, size_t alignment, size_t size);
NA_EXPORT void *NA_FN(valloc)(size_t size);
NA_EXPORT void *NA_FN(pvalloc)(size_t size);
NA_EXPORT size_t NA_FN(malloc_usable_size)(void *block);
NA_EXPORT void NA_FN(free_sized)(void *block, size_t size);
NA_EXPORT void NA_FN(free_aligned_sized)(void *block, size_t alignment, size_t size);
NA_EXPORT void NA_FN(cfree)(void *block);

/* A block aligned to a power of two; NULL and errno ENOMEM. Shared by the aligned entry points. */
void *na_alloc_aligned(size_t alignment, size_t size, na_entry_t entry);

#endif
