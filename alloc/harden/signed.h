/* signed.h - by what a link is checked (NUMALLOC_HARDEN).
 *
 *                free block               first block of a batch on a stack
 *   hardened     | signature | next |       | batch below, mark | next, mark |
 *
 * Hardened, every link is signed, whichever list it is of (bins, batches, remote frees, spans,
 * heaps, what was deferred), and is checked before it is followed. The signature is made with keys
 * that the process draws at its start. So a write to a block's first 16 bytes after its free is
 * found, and no list leads to an address that the program wrote there: who does not know the keys
 * cannot sign it, and an old signature does for its own block and link only. The first block of a
 * batch that lies on a stack links to the next batch, too; there is room for a signature of
 * NA_MARK_BITS.
 *
 * The mix is two multiplications of 128 bits, each with two words that nobody knows, folded: from
 * the signatures that a program reads the keys are not to be had by inverting anything. It is no
 * cipher with a proof. So what malloc hands out does not rest on it alone: hand.h looks at
 * every block that comes from a list.
 *
 * Blocks that wait after their free (delay.h) or are next to be handed out (hand.h)
 * are in no list, but in a table: their two words are known values, and only say whether the
 * program wrote there. */
#ifndef NUMALLOC_ALLOC_HARDEN_SIGNED_H
#define NUMALLOC_ALLOC_HARDEN_SIGNED_H

#include <stdbool.h>
#include <stdint.h>

#include "alloc/core/central/block.h"
#include "alloc/core/sys/base.h"
#include "pagemap/pagemap.h"

extern NA_NEAR uint64_t na_link_keys[4];
/* Draws the keys; all links are checked from now on. Once, before there is a block. */
void na_links_init(void);

NA_INLINE uint64_t na_link_fold(uint64_t a, uint64_t b) {
    __extension__ typedef unsigned __int128 wide_t;
    wide_t product = (wide_t)a * b;
    return (uint64_t)product ^ (uint64_t)(product >> 64);
}

/* A number that nobody can tell; `state` is its caller's, and any at first. */
NA_INLINE uint64_t na_links_draw(uint64_t *state) {
    uint64_t x = *state += na_link_keys[3]; /* which is odd */
    return na_link_fold(x ^ na_link_keys[1], x ^ na_link_keys[2]);
}

/* Reports a write to a freed block. */
NA_COLD void na_link_report(const void *block);

/* --- links, hardened --- */

NA_INLINE uint64_t *na_link_signature(void *block) {
    return block;
}

NA_INLINE uint64_t na_link_mix(const void *block, uint64_t link, uint64_t batch) {
    uint64_t first = na_link_fold((uintptr_t)block ^ na_link_keys[0], link ^ na_link_keys[1]);
    return na_link_fold(first ^ batch ^ na_link_keys[2], na_link_keys[3]);
}

NA_INLINE void na_link_set_signed(void *block, void *next) {
    *na_block_next(block) = next;
    *na_link_signature(block) = na_link_mix(block, (uintptr_t)next, 0);
}
/* False: it is not as it was signed. */
NA_INLINE bool na_link_is_right(void *block) {
    return *na_link_signature(block) == na_link_mix(block, (uintptr_t)*na_block_next(block), 0);
}

/* --- blocks in tables, hardened --- */

extern NA_NEAR uint64_t na_link_waits_key;

NA_INLINE void na_link_set_waiting(void *block) {
    *na_block_next(block) = NULL;
    *na_link_signature(block) = na_link_waits_key ^ (uintptr_t)block;
}
/* False: it was written to, and must not be used. */
NA_INLINE bool na_link_waits(void *block) {
    return ((uintptr_t)*na_block_next(block) |
            (*na_link_signature(block) ^ na_link_waits_key ^ (uintptr_t)block)) == 0;
}

#endif
