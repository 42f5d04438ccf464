/* chain.h - a list of blocks of one class that moves between threads as one word.
 *
 *   word   | count : 16 | address of the first block : 48 |        0: no chain
 *   block  | next block of the chain | next chain | ...
 *           first word                second word, of the first block only
 *
 * (Every block has at least 16 bytes.)
 *
 * Chains of one class stack through the second word of their first blocks, so that a kept one, a
 * mailbox or a depot slot is a single word, and handing over any number of blocks is O(1). */
#ifndef NUMALLOC_ALLOC_CHAIN_H
#define NUMALLOC_ALLOC_CHAIN_H

#include <stdint.h>

#include "alloc/sys/base.h"

typedef uintptr_t na_chain_t;

#define NA_CHAIN_MAX 0xffffu

NA_INLINE na_chain_t na_chain(void *first, uint32_t count) {
    return (uintptr_t)first | (uintptr_t)count << 48;
}

NA_INLINE void *na_chain_first(na_chain_t chain) {
    return (void *)(chain & (((uintptr_t)1 << 48) - 1));
}

NA_INLINE uint32_t na_chain_count(na_chain_t chain) {
    return (uint32_t)(chain >> 48);
}

NA_INLINE na_chain_t *na_chain_next(na_chain_t chain) {
    return (na_chain_t *)na_chain_first(chain) + 1;
}

NA_INLINE void **na_block_next(void *block) {
    return (void **)block;
}

#endif
