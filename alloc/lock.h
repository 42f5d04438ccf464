/* lock.h - a four-byte mutex: spins a little, then sleeps on a futex.
 *
 * Not pthread_mutex_t, because it must work before libpthread's thread descriptor is set up, in
 * processes that interpose pthread functions, and be resettable in a forked child. Not recursive.
 * Lock order (outer first), in which each may be taken while the earlier are held:
 *   heap list -> central (node, class) -> mixed spans (heap) -> the last of a control group,
 * looks at it (tight.h) -> page heap (node) -> region list -> metadata */
#ifndef NUMALLOC_ALLOC_LOCK_H
#define NUMALLOC_ALLOC_LOCK_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "alloc/base.h"

/* 0 free, 1 held, 2 held and somebody may sleep */
typedef struct na_lock {
    _Atomic(uint32_t) word;
} na_lock_t;

void na_lock_slow(na_lock_t *lock);
void na_unlock_slow(na_lock_t *lock);

NA_INLINE void na_lock(na_lock_t *lock) {
    uint32_t free = 0;
    if (NA_UNLIKELY(!atomic_compare_exchange_strong_explicit(
            &lock->word, &free, 1, memory_order_acquire, memory_order_relaxed)))
        na_lock_slow(lock);
}

/* False: it is held. */
NA_INLINE bool na_try_lock(na_lock_t *lock) {
    uint32_t free = 0;
    return atomic_compare_exchange_strong_explicit(&lock->word, &free, 1, memory_order_acquire,
                                                   memory_order_relaxed);
}

NA_INLINE void na_unlock(na_lock_t *lock) {
    if (NA_UNLIKELY(atomic_exchange_explicit(&lock->word, 0, memory_order_release) == 2))
        na_unlock_slow(lock);
}

/* Only in a forked child, where no other thread exists. */
NA_INLINE void na_lock_reset(na_lock_t *lock) {
    atomic_store_explicit(&lock->word, 0, memory_order_relaxed);
}

#endif
