/* deferred.c - see deferred.h. */
#include "alloc/cache/deferred.h"

#include "alloc/central/links.h"
#include "alloc/sys/os.h"
#include "alloc/sys/thread.h"

/* --- a gate that stays closed --- */

static uint32_t forking_other(void) {
    uint32_t forking = atomic_load(&na_forking);
    return forking != na_thread_tag() ? forking : 0;
}

NA_COLD bool na_gate_timed_out(void) {
    return atomic_load(&na_fork_is_long) && forking_other() != 0;
}

NA_COLD void na_gate_wait_for_fork(void) {
    uint32_t forking = forking_other();
    if (forking == 0 || atomic_load(&na_fork_is_long)) return;
    na_os_futex_wait_ms((const uint32_t *)&na_forking, forking, NA_FORK_PATIENCE_MS);
    if (atomic_load(&na_forking) != forking) return;
    atomic_store(&na_fork_is_long, true);
    na_os_futex_wake((const uint32_t *)&na_forking, INT32_MAX);
}

/* --- deferred ---
 *
 * Who puts something on a list says so afterwards; who takes the lists has unsaid it before. All of
 * it in one order (seq_cst): or the word could be unsaid after it was said, and the list be looked
 * at before. */

_Atomic(bool) na_deferred_pending;
na_lock_t na_deferred_lock;
static _Atomic(void *) blocks_later;
static _Atomic(na_tcache_t *) tcaches_later;

NA_COLD void na_defer_free(void *block) {
    void *top = atomic_load_explicit(&blocks_later, memory_order_relaxed);
    do
        na_link_set(block, top);
    while (!atomic_compare_exchange_weak_explicit(&blocks_later, &top, block, memory_order_seq_cst,
                                                  memory_order_relaxed));
    atomic_store(&na_deferred_pending, true);
}

NA_COLD void na_defer_abandon(na_tcache_t *tcache) {
    na_tcache_t *top = atomic_load_explicit(&tcaches_later, memory_order_relaxed);
    do
        tcache->next_idle = top;
    while (!atomic_compare_exchange_weak_explicit(&tcaches_later, &top, tcache,
                                                  memory_order_seq_cst, memory_order_relaxed));
    atomic_store(&na_deferred_pending, true);
}

NA_COLD void *na_deferred_take_blocks(void) {
    return atomic_exchange(&blocks_later, NULL);
}

NA_COLD na_tcache_t *na_deferred_take_tcaches(void) {
    return atomic_exchange(&tcaches_later, NULL);
}

NA_COLD void na_deferred_after_fork_child(void) {
    atomic_store(&tcaches_later, NULL);
    na_lock_reset(&na_deferred_lock);
}
