/* lock.h - a four-byte mutex: spins a little, then sleeps on a futex. Its word says whose it is.
 *
 * Not pthread_mutex_t, because it must work before libpthread's thread descriptor is set up, in
 * processes that interpose pthread functions, and be resettable in a forked child. Not recursive.
 * That a thread has it is known from the very instruction that takes it: a signal handler that
 * forks must know what the code that it interrupted holds (fork.h).
 * Lock order (outer first), in which each may be taken while the earlier are held:
 *   cache list -> central (node, class), heap of the program -> mixed spans (cache) -> the last of
 * a control group, looks at it (pressure.h) -> page heap (node) -> region list -> metadata */
#ifndef NUMALLOC_ALLOC_SYS_LOCK_H
#define NUMALLOC_ALLOC_SYS_LOCK_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "alloc/sys/base.h"

/* 0: free; else the tag of the thread that holds it, and NA_LOCK_AWAITED where somebody may sleep.
 */
typedef struct na_lock {
    _Atomic(uint32_t) word;
} na_lock_t;
#define NA_LOCK_AWAITED (1u << 31)

NA_INLINE uintptr_t na_thread_pointer(void) {
    uintptr_t tp;
#if defined(__x86_64__)
    __asm__("movq %%fs:0, %0" : "=r"(tp));
#else
    __asm__("mrs %0, tpidr_el0" : "=r"(tp));
#endif
    return tp;
}

/* Never 0, below NA_LOCK_AWAITED, and the same after fork. Thread control blocks are 64 bytes and
 * more; two threads whose ones lie 128 GiB apart, to the byte, would be taken for one (by fork
 * only). */
NA_INLINE uint32_t na_thread_tag(void) {
    return (uint32_t)(na_thread_pointer() >> 6) & (NA_LOCK_AWAITED - 1);
}

/* The thread of that tag sleeps until it gets a lock; a hint: what shares its place hides it. */
bool na_lock_sleeps(uint32_t tag);
/* In a child: whether what the calling thread is about to wait for is held by one that is not here.
 */
extern bool (*na_lock_may_seize)(void);
/* In a forked child. Frees the locks that the calling thread waits for, in code that the signal
 * handler which forked has interrupted: their holders are not in the child. */
void na_lock_after_fork_child(void);
void na_lock_slow(na_lock_t *lock);
/* Waits for so long at most; false: it is still held. */
bool na_lock_for(na_lock_t *lock, unsigned ms);
void na_unlock_slow(na_lock_t *lock);

NA_INLINE void na_lock(na_lock_t *lock) {
    uint32_t free = 0;
    if (NA_UNLIKELY(!atomic_compare_exchange_strong_explicit(
            &lock->word, &free, na_thread_tag(), memory_order_acquire, memory_order_relaxed)))
        na_lock_slow(lock);
}

/* False: it is held. */
NA_INLINE bool na_try_lock(na_lock_t *lock) {
    uint32_t free = 0;
    return atomic_compare_exchange_strong_explicit(&lock->word, &free, na_thread_tag(),
                                                   memory_order_acquire, memory_order_relaxed);
}

/* The calling thread holds it, perhaps in what a signal handler has interrupted. */
NA_INLINE bool na_lock_is_mine(const na_lock_t *lock) {
    return (atomic_load_explicit(&lock->word, memory_order_relaxed) & ~NA_LOCK_AWAITED) ==
           na_thread_tag();
}

NA_INLINE void na_unlock(na_lock_t *lock) {
    if (NA_UNLIKELY((atomic_exchange_explicit(&lock->word, 0, memory_order_release) &
                     NA_LOCK_AWAITED) != 0))
        na_unlock_slow(lock);
}

/* Only in a forked child, where no other thread exists: free, unless it is the caller's. What is
 * free already is not written: the child shares its page with the parent until one of them does. */
void na_lock_reset(na_lock_t *lock);
/* How many of those were held. */
unsigned na_locks_lost(void);

#endif
