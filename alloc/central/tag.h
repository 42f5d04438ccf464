/* tag.h - the page tag: what free learns of a block in one load (pagemap.h holds it).
 *
 *   31            16 15             0
 *   |  owner        |  bin offset   |
 *
 * The bin offset is class * sizeof(na_bin_t), from the start of the thread cache.
 *
 * A bin expects one tag: its own class with its own owner. Bin 0 expects NA_TAG_NEVER, which no
 * page carries, so a page whose bin offset is 0 never takes the fast path. (In the two thread
 * caches for threads without one all bins expect 0: bin 0 then meets what it expects, but has no
 * credit, and na_free_slow sees to it that it is not counted down until it seems to have.) */
#ifndef NUMALLOC_ALLOC_CENTRAL_TAG_H
#define NUMALLOC_ALLOC_CENTRAL_TAG_H

#include <stdint.h>

#include "alloc/sys/base.h"

#define NA_BIN_SIZE 16u
#define NA_TAG_NONE 0u /* not ours, or large */
#define NA_TAG_SLOW 0u /* ours, but every free of it is to be seen; the span says what it is */
/* Pages of a mixed span (mixed.h) name its thread cache as owner and no bin: bin 0, which never
 * matches. */
#define NA_TAG_MIXED(owner) ((uint32_t)(owner) << 16)
/* Pages of a heap of the program's own (heap.h): its owner, and no bin. */
#define NA_TAG_HEAP(owner) ((uint32_t)(owner) << 16)
#define NA_TAG_HEAP_LEAST  NA_TAG_HEAP(0xc000u) /* no other tag is as large */
#define NA_TAG_NEVER       1u                   /* expected by bin 0 only */

NA_INLINE uint32_t na_tag(unsigned cls, unsigned owner) {
    return (uint32_t)(cls * NA_BIN_SIZE) | (uint32_t)owner << 16;
}

#endif
