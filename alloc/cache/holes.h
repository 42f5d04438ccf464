/* holes.h - a thread cache's use of holes in mixed spans (alloc/central/mixed.h).
 *
 * A thread cache that would take memory that was never touched looks for holes first: where sparse
 * spans of classes that nobody draws from any more are a good part of what its node holds, some are
 * opened to all classes. */
#ifndef NUMALLOC_ALLOC_CACHE_HOLES_H
#define NUMALLOC_ALLOC_CACHE_HOLES_H

#include <stdbool.h>
#include <stdint.h>

#include "alloc/cache/thread_cache.h"
#include "alloc/central/mixed.h"

/* Accessible bytes of a node; with less it is not worth it. */
#define NA_HOLES_LEAST ((uint64_t)4 << 20)

typedef struct na_holes na_holes_t;

/* Whether the thread cache, about to take `pages` from the page heap, should look for holes
 * instead. */
bool na_holes_are_wanted(const na_tcache_t *tcache, uint32_t pages);
/* Blocks of a class as a list, at most `want`, from mixed spans, of which some are made if need be;
 * NULL: there are no holes for it. Behind the gate. */
void *na_holes_take(na_tcache_t *tcache, unsigned cls, uint32_t want, uint32_t *got);

/* What the tag of the block's page, which is `mixed`, would be if it lay in a span of its own
 * class; NA_TAG_NONE: no block begins there. */
NA_INLINE uint32_t na_holes_tag(const void *block, uint32_t mixed) {
    unsigned cls = na_mix_class(block);
    return NA_LIKELY(cls != 0) ? na_tcache_by_id(mixed >> 16)->bins[cls].tag : NA_TAG_NONE;
}

#endif
