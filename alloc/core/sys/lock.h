/* lock.h - a four-byte mutex: spins a little, then sleeps on a futex. Its word says whose it is.
 * And how a process finds that it is a child which no fork handler has seen.
 *
 * Not pthread_mutex_t, because it must work before libpthread's thread descriptor is set up, in
 * processes that interpose pthread functions, and be resettable in a forked child. Not recursive.
 * That a thread has it is known from the very instruction that takes it: a signal handler that
 * forks must know what the code that it interrupted holds (fork.h).
 * Lock order (outer first), in which each may be taken while the earlier are held:
 *   cache list -> central (node, class), heap of the program -> na_exhausted_lock (pressure.h), a
 *   look at limits (alloc/limits/) -> page heap (node) -> region list, pool of spans -> their
 *   records -> metadata */
#ifndef NUMALLOC_ALLOC_CORE_SYS_LOCK_H
#define NUMALLOC_ALLOC_CORE_SYS_LOCK_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "alloc/core/sys/base.h"

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

/* --- How a process finds that it is a child that no fork handler has seen ---
 *
 * A child of a system call of the program's own (fork or clone without CLONE_VM) has one thread and
 * the locks and tables of all of them. A word that reads as zero in each child (MADV_WIPEONFORK,
 * Linux 4.14) says so; children that share the memory, by vfork or CLONE_VM, have it as it is. A
 * process has the word before its second thread takes a lock: nobody else held anything. Without
 * the system's help the child is not found, and may wait for ever for a thread that it has not. */

/* What the word is: 0 in a child, until a thread of it finds that and leaves its tag there
 * (na_thread_tag); then NA_CHILD_KNOWN, as in every other process. */
#define NA_CHILD_KNOWN 1u
typedef _Atomic(uint32_t) na_child_word_t;
extern NA_NEAR _Atomic(na_child_word_t *) na_child_word;

/* Slow paths ask before they touch anything that is shared, and who waits for a lock. */
NA_INLINE bool na_child_is_unknown(void) {
    const na_child_word_t *word = atomic_load_explicit(&na_child_word, memory_order_acquire);
    return NA_UNLIKELY(atomic_load_explicit(word, memory_order_acquire) != NA_CHILD_KNOWN);
}

/* There are to be two threads: children are to be found from now on, and `settle` called in them;
 * where the system does not help, they are not. By the second thread, before it holds any lock. */
void na_child_watch(bool (*settle)(void));
/* Has a child settled that is not known to be one; a thread that comes meanwhile waits. Does
 * nothing for the thread that is settling it. */
void na_child_settle(void);
/* This is a child, of which all is known. */
void na_child_is_settled(void);

#endif
