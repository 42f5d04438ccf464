/* lock.c - the waiting half of the mutex in lock.h, and children. */
#include "alloc/core/sys/lock.h"

#include <stddef.h>

#include "alloc/core/sys/os.h"
#include "alloc/core/sys/tuned.h"

/* Holders do a few hundred instructions, so a short spin mostly avoids the two system calls. */
#define SPINS NA_SPINS

static void relax(void) {
#if defined(__x86_64__)
    __builtin_ia32_pause();
#elif defined(__aarch64__)
    __asm__ volatile("yield");
#endif
}

bool (*na_lock_may_seize)(void);

#define PLACES 64u
static _Atomic(uint32_t) sleepers[PLACES]; /* tags */

static _Atomic(uint32_t) *place_of(uint32_t tag) {
    return &sleepers[tag * 0x9e3779b1u >> 26];
}

NA_COLD bool na_lock_sleeps(uint32_t tag) {
    return atomic_load_explicit(place_of(tag), memory_order_relaxed) == tag;
}

/* What a thread waits for, in what a signal handler has interrupted first. */
typedef struct awaited {
    na_lock_t *lock;
    struct awaited *outer;
} awaited_t;
static NA_TLS awaited_t *volatile innermost_awaited;

static unsigned lost;

NA_COLD void na_lock_reset(na_lock_t *lock) {
    if (atomic_load_explicit(&lock->word, memory_order_relaxed) == 0 || na_lock_is_mine(lock))
        return;
    atomic_store_explicit(&lock->word, 0, memory_order_relaxed);
    lost++;
}

unsigned na_locks_lost(void) {
    return lost;
}

void na_lock_after_fork_child(void) {
    for (awaited_t *a = innermost_awaited; a != NULL; a = a->outer)
        na_lock_reset(a->lock);
}

static bool seize(na_lock_t *lock) {
    if (NA_LIKELY(na_lock_may_seize == NULL) || !na_lock_may_seize()) return false;
    atomic_store(&lock->word, na_thread_tag());
    return true;
}

/* ms 0: for ever. A child that is made while its thread sleeps here wakes up: it has freed the lock
 * (na_lock_after_fork_child), and the kernel goes on sleeping only while the word is what it was.
 */
static bool sleep_until_free(na_lock_t *lock, unsigned ms) {
    /* From here on take it as awaited only: this thread cannot know whether others sleep, and the
     * next unlock would leave them asleep. One needless wake-up is the price. */
    uint32_t me = na_thread_tag(), awaited = me | NA_LOCK_AWAITED;
    _Atomic(uint32_t) *place = place_of(me);
    for (unsigned left = ms;;) {
        uint32_t word = atomic_load_explicit(&lock->word, memory_order_relaxed);
        if (word == 0) {
            if (atomic_compare_exchange_weak_explicit(&lock->word, &word, awaited,
                                                      memory_order_acquire, memory_order_relaxed))
                return true;
        } else if ((word & NA_LOCK_AWAITED) != 0 ||
                   atomic_compare_exchange_weak_explicit(&lock->word, &word, word | NA_LOCK_AWAITED,
                                                         memory_order_relaxed,
                                                         memory_order_relaxed)) {
            const uint32_t *at = (const uint32_t *)&lock->word;
            /* Only now: a wake-up that was for this thread is another's then. */
            if (ms != 0 && left == 0) return false;
            atomic_store_explicit(place, me, memory_order_relaxed);
            if (ms == 0)
                na_os_futex_wait(at, word | NA_LOCK_AWAITED);
            else
                na_os_futex_wait_ms(at, word | NA_LOCK_AWAITED, 1);
            atomic_store_explicit(place, 0, memory_order_relaxed);
            left--;
        }
    }
}

static bool wait(na_lock_t *lock, unsigned ms) {
    for (int i = 0; i < SPINS; i++) {
        uint32_t free = 0;
        if (atomic_load_explicit(&lock->word, memory_order_relaxed) == 0 &&
            atomic_compare_exchange_weak_explicit(&lock->word, &free, na_thread_tag(),
                                                  memory_order_acquire, memory_order_relaxed))
            return true;
        relax();
    }
    awaited_t me = {lock, innermost_awaited};
    innermost_awaited = &me;
    if (na_child_is_unknown()) na_child_settle();
    /* In this order: a child that is made before the lock is noted as awaited can still seize it,
     * one that is made later frees it. */
    bool taken = seize(lock) || sleep_until_free(lock, ms);
    innermost_awaited = me.outer;
    return taken;
}

void na_lock_slow(na_lock_t *lock) {
    wait(lock, 0);
}

NA_COLD bool na_lock_for(na_lock_t *lock, unsigned ms) {
    return na_try_lock(lock) || wait(lock, ms);
}

void na_unlock_slow(na_lock_t *lock) {
    na_os_futex_wake((const uint32_t *)&lock->word, 1);
}

/* --- children that no handler has seen --- */

static na_child_word_t alone = NA_CHILD_KNOWN; /* of a process that has not been watched */
_Atomic(na_child_word_t *) na_child_word = &alone;

/* On a page of its own; once made, it is so in children, too. */
static _Atomic(na_child_word_t *) wiped;
static _Atomic(bool (*)(void)) settle_child; /* written by each thread that watches: the same */

/* The page; NULL: the system does not wipe it in children. Without a lock, which a child that is
 * made now would find taken. */
static na_child_word_t *make_wiped(void) {
    static _Atomic(bool) refused;
    na_child_word_t *page = atomic_load(&wiped);
    if (page != NULL || atomic_load(&refused) || (page = na_os_map(na_os_page)) == NULL)
        return page;
    na_child_word_t *other = NULL;
    bool wipes = na_os_wipe_in_children(page, na_os_page);
    if (wipes && atomic_compare_exchange_strong(&wiped, &other, page)) return page;
    if (!wipes) atomic_store(&refused, true);
    na_os_unmap(page, na_os_page);
    return other;
}

NA_COLD void na_child_watch(bool (*settle)(void)) {
    if (na_child_word != &alone) return;
    na_child_word_t *word = make_wiped();
    if (word == NULL) return;
    atomic_store_explicit(&settle_child, settle, memory_order_relaxed);
    atomic_store_explicit(word, NA_CHILD_KNOWN, memory_order_relaxed);
    atomic_store_explicit(&na_child_word, word, memory_order_release);
}

NA_COLD void na_child_settle(void) {
    na_child_word_t *word = na_child_word;
    uint32_t me = na_thread_tag(), nobody = 0;
    if (atomic_compare_exchange_strong(word, &nobody, me)) {
        atomic_store(word, settle_child() ? NA_CHILD_KNOWN : 0);
    } else if (nobody != me) {
        while (atomic_load(word) > NA_CHILD_KNOWN)
            na_os_yield();
    }
}

void na_child_is_settled(void) {
    if (na_child_word != &alone) na_child_word = &alone;
}
