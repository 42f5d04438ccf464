/* links.h - how free blocks are linked; and by what a link is checked (NUMALLOC_HARDEN).
 *
 *                free block               first block of a batch on a stack
 *   plain        | ...       | next |       | batch below       | next       |
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
 * cipher with a proof. So what malloc hands out does not rest on it alone: cache/hand.h looks at
 * every block that comes from a list.
 *
 * Blocks that wait after their free (cache/delay.h) or are next to be handed out (cache/hand.h)
 * are in no list, but in a table: their two words are known values, and only say whether the
 * program wrote there. */
#ifndef NUMALLOC_ALLOC_CENTRAL_LINKS_H
#define NUMALLOC_ALLOC_CENTRAL_LINKS_H

#include <stdbool.h>
#include <stdint.h>

#include "alloc/central/batch.h"
#include "alloc/sys/base.h"
#include "pagemap/live.h"

extern NA_NEAR uint64_t na_link_keys[4];
/* Draws the keys. Once, by na_init, before there is a block. */
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

/* Signs the link that the block has; those of the first `count` of a list. */
void na_link_sign(void *block);
void na_links_sign(void *list, uint32_t count);
/* Where the link leads. One that is wrong is reported, and leads nowhere. */
void *na_link_checked(void *block);
/* A list of `count` blocks, none of which may be live, ends before one whose link is wrong: how
 * many there are left. */
uint32_t na_links_check(void **list, uint32_t count);

/* --- links --- */

NA_INLINE void na_link_set(void *block, void *next) {
    *na_block_next(block) = next;
    if (NA_UNLIKELY(na_harden != 0)) na_link_sign(block);
}

NA_INLINE void *na_link_next(void *block) {
    return NA_LIKELY(na_harden == 0) ? *na_block_next(block) : na_link_checked(block);
}

/* --- batches on a stack --- */

void na_batch_stack_marked(na_batch_t batch, na_batch_t below);
na_batch_t na_batch_below_marked(na_batch_t batch);
na_batch_t na_batch_unstack_marked(na_batch_t batch);

/* The batch, which is on no stack, comes to lie on top of `below`, or of nothing (0). */
NA_INLINE void na_batch_stack(na_batch_t batch, na_batch_t below) {
    if (NA_LIKELY(na_harden == 0))
        na_batch_set_next(batch, below);
    else
        na_batch_stack_marked(batch, below);
}

/* What it lies on. Hardened: 0 where the program wrote there, which is reported. */
NA_INLINE na_batch_t na_batch_below(na_batch_t batch) {
    return NA_LIKELY(na_harden == 0) ? na_batch_next(batch) : na_batch_below_marked(batch);
}

/* The same; and it is on no stack any more. */
NA_INLINE na_batch_t na_batch_unstack(na_batch_t batch) {
    return NA_LIKELY(na_harden == 0) ? na_batch_next(batch) : na_batch_unstack_marked(batch);
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
