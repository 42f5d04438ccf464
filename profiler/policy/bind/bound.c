/* bound.c - the policy of this process, and the lock of those who bind it.
 *
 * One thread at a time (`lock`). It may ask the loader, whose locks others may hold who wait for
 * ours: so nobody waits for long. A child that was forked meanwhile finds the lock taken by a
 * thread that it has not: it sees that the holder is of another process, and begins anew. */
#include "profiler/policy/bind/bound.h"

#include <sys/syscall.h>

#include "alloc/core/sys/lock.h"
#include "alloc/core/sys/syscall.h"

NA_SPARSE na_policy_bound_t na_bound;
static na_lock_t bound_lock;
static _Atomic(int) process; /* that the lock is of */

bool na_policy_enter(unsigned ms) {
    if (na_lock_is_mine(&bound_lock)) return false; /* the loader called us while we called it */
    int pid = (int)na_syscall(SYS_getpid, 0, 0, 0, 0, 0, 0);
    uint32_t held = atomic_load_explicit(&bound_lock.word, memory_order_relaxed);
    int of = atomic_load_explicit(&process, memory_order_relaxed);
    if (of != pid && atomic_compare_exchange_strong(&process, &of, pid) && of != 0 && held != 0)
        atomic_compare_exchange_strong(&bound_lock.word, &held, 0);
    return ms == 0 ? na_try_lock(&bound_lock) : na_lock_for(&bound_lock, ms);
}

void na_policy_leave(void) {
    na_unlock(&bound_lock);
}

bool na_policy_enter_after_looks(void) {
    for (unsigned tries = 0; tries < 20; tries++) {
        if (na_policy_enter(NA_POLICY_PATIENCE_MS)) return true;
        if (na_lock_is_mine(&bound_lock) || atomic_load(&na_bound.asks_loader)) return false;
    }
    return false;
}
