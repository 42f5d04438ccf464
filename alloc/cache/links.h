/* links.h - signed links: what a bin's blocks link to is checked before it is followed
 * (NUMALLOC_HARDEN).
 *
 *   free block   | signature of block and next | next | ...
 *
 * The signature is made with a key that the process draws at its start. A block's two words are
 * signed when it is freed and begins to wait (delay.h; next is NULL then), again when it is put in
 * a bin, and checked each time that it leaves one of them. So a write to its first 16 bytes after
 * the free is found, and no address that the program wrote there is ever handed out: who does not
 * know the key cannot sign it, and an old signature does for its own block and link only.
 *
 * Batches and spans link without signatures: a list is looked over, put in random order and signed
 * when a bin is filled with it. Each of its blocks must be one of the class, begin there, and not
 * be live.
 *
 * By the thread that the cache belongs to. */
#ifndef NUMALLOC_ALLOC_CACHE_LINKS_H
#define NUMALLOC_ALLOC_CACHE_LINKS_H

#include <stdbool.h>
#include <stdint.h>

#include "alloc/cache/thread_cache.h"

extern NA_NEAR uint64_t na_link_key, na_link_waits_key; /* of links, and of blocks that wait */
/* Draws the key. Once, by na_init. */
void na_links_init(void);

NA_INLINE uint64_t na_link_signature(const void *block, const void *next) {
    const uint64_t spread = UINT64_C(0x9e3779b97f4a7c15); /* 2^64 / golden ratio, odd */
    return (((uintptr_t)next ^ na_link_key) * spread) ^ (uintptr_t)block;
}

NA_INLINE uint64_t *na_link_signed(void *block) {
    return block;
}

NA_INLINE void na_link_set(void *block, void *next) {
    *na_block_next(block) = next;
    *na_link_signed(block) = na_link_signature(block, next);
}

NA_INLINE bool na_link_is_right(void *block) {
    return NA_LIKELY(*na_link_signed(block) == na_link_signature(block, *na_block_next(block)));
}

/* Reports the write to a freed block. */
NA_COLD void na_link_report(const void *block);

NA_INLINE void na_link_set_waiting(void *block) {
    *na_block_next(block) = NULL;
    *na_link_signed(block) = na_link_waits_key ^ (uintptr_t)block;
}
/* False: it was written to, and must not be used. */
NA_INLINE bool na_link_waits(void *block) {
    return ((uintptr_t)*na_block_next(block) |
            (*na_link_signed(block) ^ na_link_waits_key ^ (uintptr_t)block)) == 0;
}

/* The bin was filled: looks its list over, and signs it. Cuts it before a block that is none, which
 * it reports. */
NA_COLD void na_links_sign(na_tcache_t *tcache, unsigned cls);

#endif
