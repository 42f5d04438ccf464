/* thread_cache.c - the table of thread caches, how many threads have one, and the gate. What
 * happens to them is in alloc/core/thread/attach.c. */
#include "alloc/core/cache/thread_cache.h"

#include "alloc/core/cache/bin.h"
#include "alloc/core/central/block.h"
#include "alloc/core/machine/topology.h"
#include "alloc/core/page/scavenge_policy.h"
#include "alloc/core/sys/os.h"
#include "alloc/core/sys/thread.h"

/* Sections of their own: layout.ld puts what is written of them where other variables are, too. */
__attribute__((section(".bss.tcache_empty"))) na_tcache_t na_tcache_empty;
__attribute__((section(".bss.tcache_gone"))) na_tcache_t na_tcache_gone;
NA_TLS na_tcache_t *na_self = &na_tcache_empty;

NA_SPARSE uintptr_t na_tcaches[NA_TCACHES_MAX];
static _Atomic(uint32_t) tcache_count; /* ids 1..tcache_count are in use */

unsigned na_tcache_count(void) {
    return atomic_load_explicit(&tcache_count, memory_order_acquire);
}

void na_tcache_add(na_tcache_t *tcache) {
    na_tcaches[tcache->id] = na_batch(tcache, tcache->node);
    atomic_store_explicit(&tcache_count, tcache->id, memory_order_release);
}

void na_tcache_each(void (*visit)(na_tcache_t *tcache, void *arg), void *arg) {
    unsigned count = na_tcache_count();
    for (unsigned id = 1; id <= count; id++)
        visit(na_tcache_by_id(id), arg);
}

/* --- how many threads --- */

unsigned na_tcache_attached_now(void) {
    return atomic_load_explicit(&na_threads.attached, memory_order_relaxed);
}

unsigned na_tcache_attached(void) {
    unsigned count = na_tcache_attached_now();
    return count != 0 ? count : 1;
}

static void set_share(na_share_t share, uint64_t bytes) {
    atomic_store_explicit(&na_threads.bin_share[share], (uint32_t)bytes, memory_order_relaxed);
}

void na_tcache_count_threads(uint32_t change) {
    na_threads.attached += change;
    uint64_t threads = na_tcache_attached();
    set_share(NA_SHARE_GROWN, NA_GROWN_BYTES / threads);
    set_share(NA_SHARE_YOUNG, NA_YOUNG_BYTES / (threads * threads));
}

/* --- nodes --- */

bool na_tcache_is_away(const na_tcache_t *tcache) {
    if (tcache->where.pinned || tcache->node == NA_NODE_ANY) return false;
    return tcache->where.away || na_node_current() != tcache->node;
}

/* --- the gate --- */

_Atomic(uint32_t) na_forking;
_Atomic(bool) na_fork_is_long;

/* Behind the gate, where a fork, or its own signal handler, finds the thread. */
static NA_COLD bool may_stay(void) {
    uint32_t forking = atomic_load(&na_forking);
    return forking == 0 || forking == na_thread_tag(); /* the forking thread's own calls pass */
}

NA_COLD bool na_gate_wait(na_tcache_t *tcache, bool mine) {
    uint32_t me = na_thread_tag();
    for (;;) {
        if (mine && may_stay()) return true;
        if (mine) atomic_store(&tcache->shared.busy, 0);
        uint32_t holder = mine ? 0 : atomic_load(&tcache->shared.busy) & ~NA_LOCK_AWAITED;
        if (holder == me || na_gate_timed_out()) { /* or: what this signal handler interrupted */
            tcache->life.refused = true;
            return false;
        }
        if (!may_stay())
            na_gate_wait_for_fork();
        else if (holder != 0)
            na_os_yield(); /* a poster is putting our remote frees into our spans */
        uint32_t nobody = 0;
        mine = atomic_compare_exchange_strong(&tcache->shared.busy, &nobody, me);
    }
}

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
        tcache->life.next = top;
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
