/* batch.h - a list of blocks of one class that moves between threads as one word.
 *
 *   word   | count : 16 | address of the first block : 48 |        0: no batch
 *   block  | next batch, bytes reversed       | next block of the batch | ...
 *           first word, of the first block only  second word
 *
 * (Every block has at least 16 bytes.)
 *
 * Batches of one class stack through the first word of their first blocks, so that a kept one, a
 * remote free list or a transfer cache slot is a single word, and handing over any number of blocks
 * is O(1).
 *
 * A block's first byte is where a string ends that is too long by one for the block before. So no
 * block's link begins there, and of a batch's what is 0 as a rule, the count's upper byte.
 */
#ifndef NUMALLOC_ALLOC_CENTRAL_BATCH_H
#define NUMALLOC_ALLOC_CENTRAL_BATCH_H

#include <stdint.h>

#include "alloc/sys/base.h"

typedef uintptr_t na_batch_t;

#define NA_BATCH_MAX 0xffffu

NA_INLINE na_batch_t na_batch(void *first, uint32_t count) {
    return (uintptr_t)first | (uintptr_t)count << 48;
}

NA_INLINE void *na_batch_first(na_batch_t batch) {
    return (void *)(batch & (((uintptr_t)1 << 48) - 1));
}

NA_INLINE uint32_t na_batch_count(na_batch_t batch) {
    return (uint32_t)(batch >> 48);
}

NA_INLINE na_batch_t na_batch_next(na_batch_t batch) {
    return __builtin_bswap64(*(const na_batch_t *)na_batch_first(batch));
}

NA_INLINE void na_batch_set_next(na_batch_t batch, na_batch_t next) {
    *(na_batch_t *)na_batch_first(batch) = __builtin_bswap64(next);
}

NA_INLINE void **na_block_next(void *block) {
    return (void **)block + 1;
}

#endif
