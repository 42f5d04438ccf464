/* lock.c - the waiting half of the mutex in lock.h. */
#include "alloc/lock.h"

#include "alloc/os.h"

/* Holders do a few hundred instructions, so a short spin mostly avoids the two system calls. */
#define SPINS 100

static void relax(void) {
#if defined(__x86_64__)
    __builtin_ia32_pause();
#elif defined(__aarch64__)
    __asm__ volatile("yield");
#endif
}

void na_lock_slow(na_lock_t *lock) {
    for (int i = 0; i < SPINS; i++) {
        uint32_t free = 0;
        if (atomic_load_explicit(&lock->word, memory_order_relaxed) == 0 &&
            atomic_compare_exchange_weak_explicit(&lock->word, &free, 1, memory_order_acquire,
                                                  memory_order_relaxed))
            return;
        relax();
    }
    /* From here on take it as 2 only: this thread cannot know whether others sleep, and with a 1 in
     * the word the next unlock would leave them asleep. One needless wake-up is the price. */
    while (atomic_exchange_explicit(&lock->word, 2, memory_order_acquire) != 0)
        na_os_futex_wait((const uint32_t *)&lock->word, 2);
}

void na_unlock_slow(na_lock_t *lock) {
    na_os_futex_wake((const uint32_t *)&lock->word, 1);
}
