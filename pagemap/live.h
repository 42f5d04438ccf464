/* live.h - where live blocks begin, and who gave them: the ground of NUMALLOC_HARDEN.
 *
 * Two bits for every 16 bytes of address space, away from the blocks: 0 where no block of the
 * program's begins, else how it was asked for. So one look says of any address whether it may be
 * freed: an address inside a block, one that was freed, and one that was never ours all read 0.
 * The bits are taken by one atomic operation, so of two frees of a block one finds 0, whatever the
 * threads do.
 *
 * A leaf serves 512 MiB (8 MiB of address space, of which a page is touched for 256 KiB of blocks).
 * Leaves are mapped when the first block there begins, and never unmapped. Nothing of this is
 * touched unless blocks are begun: by default none is.
 *
 * Invariant: the bits of a block are set from before the program knows of it until its free is
 * believed; blocks that lie in a list, a bin or a span have none. */
#ifndef NUMALLOC_PAGEMAP_LIVE_H
#define NUMALLOC_PAGEMAP_LIVE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "alloc/sys/base.h"

/* Who gave a block. */
typedef enum na_birth {
    NA_BIRTH_NONE,
    NA_BIRTH_MALLOC, /* and the like of it */
    NA_BIRTH_NEW,
    NA_BIRTH_NEW_ARRAY,
} na_birth_t;

#define NA_LIVE_STEP       16u /* bytes for which there are two bits */
#define NA_LIVE_WORD_SHIFT 9   /* bytes of a word of them, base-2 logarithm */
#define NA_LIVE_LEAF_SHIFT 29
#define NA_LIVE_LEAF_WORDS (1u << (NA_LIVE_LEAF_SHIFT - NA_LIVE_WORD_SHIFT))

typedef uint64_t na_live_leaf_t[NA_LIVE_LEAF_WORDS];
/* By address. NULL: no block ever began there. */
extern NA_NEAR na_live_leaf_t *na_live_leaves[1u << (NA_ADDRESS_BITS - NA_LIVE_LEAF_SHIFT)];
/* There was no memory for a leaf: what is known of addresses without one is not all. */
extern NA_NEAR bool na_live_is_partial;
/* NUMALLOC_HARDEN: 0, or the level (malloc/hardened.h). Constant since na_init. */
extern NA_NEAR uint8_t na_harden;

NA_INLINE uint64_t *na_live_word(na_live_leaf_t *leaf, uintptr_t address) {
    return &(*leaf)[(uint32_t)(address >> NA_LIVE_WORD_SHIFT) % NA_LIVE_LEAF_WORDS];
}

NA_INLINE unsigned na_live_shift(uintptr_t address) {
    return (unsigned)(address / (NA_LIVE_STEP / 2)) & 62u;
}

NA_INLINE na_live_leaf_t *na_live_leaf(uintptr_t address) {
    return __atomic_load_n(&na_live_leaves[address >> NA_LIVE_LEAF_SHIFT], __ATOMIC_ACQUIRE);
}

/* No block is ever begun: the table can only be read from now on, so that it is not made resident
 * where the program locks its memory (mlockall), and does not count as data (RLIMIT_DATA). */
NA_COLD void na_live_never(void);

/* Of an address whose leaf is not there yet. */
NA_COLD void na_live_begin_first(const void *block, na_birth_t birth);

/* The block, whose leaf this is, is the program's from now on; it was nobody's. */
NA_INLINE void na_live_set(na_live_leaf_t *leaf, const void *block, na_birth_t birth) {
    uintptr_t at = (uintptr_t)block;
    __atomic_fetch_or(na_live_word(leaf, at), (uint64_t)birth << na_live_shift(at),
                      __ATOMIC_RELAXED);
}

/* The same. */
NA_INLINE void na_live_begin(const void *block, na_birth_t birth) {
    na_live_leaf_t *leaf = na_live_leaf((uintptr_t)block);
    if (NA_LIKELY(leaf != NULL))
        na_live_set(leaf, block, birth);
    else
        na_live_begin_first(block, birth);
}

/* It is no more. What it was: NA_BIRTH_NONE of any address where no live block begins. */
NA_INLINE na_birth_t na_live_end(const void *block) {
    uintptr_t at = (uintptr_t)block;
    if (NA_UNLIKELY(at >> NA_ADDRESS_BITS != 0) || NA_UNLIKELY(at % NA_LIVE_STEP != 0))
        return NA_BIRTH_NONE;
    na_live_leaf_t *leaf = na_live_leaf(at);
    if (NA_UNLIKELY(leaf == NULL)) return NA_BIRTH_NONE;
    unsigned shift = na_live_shift(at);
    uint64_t was =
        __atomic_fetch_and(na_live_word(leaf, at), ~(UINT64_C(3) << shift), __ATOMIC_RELAXED);
    return (na_birth_t)(was >> shift & 3);
}

/* The same without an end. */
NA_INLINE na_birth_t na_live_at(const void *block) {
    uintptr_t at = (uintptr_t)block;
    if (NA_UNLIKELY(at >> NA_ADDRESS_BITS != 0) || NA_UNLIKELY(at % NA_LIVE_STEP != 0))
        return NA_BIRTH_NONE;
    na_live_leaf_t *leaf = na_live_leaf(at);
    if (NA_UNLIKELY(leaf == NULL)) return NA_BIRTH_NONE;
    uint64_t word = __atomic_load_n(na_live_word(leaf, at), __ATOMIC_RELAXED);
    return (na_birth_t)(word >> na_live_shift(at) & 3);
}

/* All blocks that begin in the range end: their heap has. Multiples of a page. */
NA_COLD void na_live_forget(uintptr_t start, size_t bytes);

#endif
