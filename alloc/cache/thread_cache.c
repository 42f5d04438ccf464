/* thread_cache.c - the table of thread caches, how many threads have one, and the gate. What
 * happens to them is in alloc/thread/attach.c. */
#include "alloc/cache/thread_cache.h"

#include "alloc/cache/deferred.h"
#include "alloc/cache/young.h"
#include "alloc/machine/topology.h"
#include "alloc/page/purge.h"
#include "alloc/page/scavenge_policy.h"
#include "alloc/sys/os.h"
#include "alloc/sys/thread.h"

/* Sections of their own: layout.ld puts what is written of them where other variables are, too. */
__attribute__((section(".bss.tcache_empty"))) na_tcache_t na_tcache_empty;
__attribute__((section(".bss.tcache_gone"))) na_tcache_t na_tcache_gone;
NA_TLS na_tcache_t *na_self = &na_tcache_empty;

NA_SPARSE static na_tcache_t *tcaches[NA_TCACHES_MAX];
static _Atomic(uint32_t) tcache_count; /* ids 1..tcache_count are in use */
static _Atomic(uint32_t) attached;     /* changed by na_tcache_count_threads */
_Atomic(uint32_t) na_bin_share[NA_SHARES];

na_tcache_t *na_tcache_by_id(unsigned id) {
    return tcaches[id];
}

unsigned na_tcache_count(void) {
    return atomic_load_explicit(&tcache_count, memory_order_acquire);
}

void na_tcache_add(na_tcache_t *tcache) {
    tcaches[tcache->id] = tcache;
    atomic_store_explicit(&tcache_count, tcache->id, memory_order_release);
}

void na_tcache_each(void (*visit)(na_tcache_t *tcache, void *arg), void *arg) {
    unsigned count = na_tcache_count();
    for (unsigned id = 1; id <= count; id++)
        visit(tcaches[id], arg);
}

/* --- how many threads --- */

unsigned na_tcache_attached_now(void) {
    return atomic_load_explicit(&attached, memory_order_relaxed);
}

unsigned na_tcache_attached(void) {
    unsigned count = na_tcache_attached_now();
    return count != 0 ? count : 1;
}

void na_tcache_count_threads(uint32_t change) {
    attached += change;
    uint64_t threads = na_tcache_attached();
    atomic_store_explicit(&na_purge_threads, (uint32_t)threads, memory_order_relaxed);
    uint64_t young = NA_YOUNG_BYTES / (threads * threads), left = NA_LEFT_BYTES / threads;
    uint64_t share[] = {[NA_SHARE_GROWN] = NA_GROWN_BYTES / threads,
                        [NA_SHARE_YOUNG] = young,
                        [NA_SHARE_LEFT] = left > young ? left : young};
    for (unsigned i = 0; i < NA_SHARES; i++)
        atomic_store_explicit(&na_bin_share[i], (uint32_t)share[i], memory_order_relaxed);
}

NA_COLD uint16_t na_young_hold_share(const na_tcache_t *tcache, unsigned cls) {
    const na_bin_state_t *state = &tcache->states[cls];
    na_share_t share = na_young_share(tcache, state);
    uint32_t most = atomic_load_explicit(&na_bin_share[share], memory_order_relaxed) / state->size;
    uint32_t least = share == NA_SHARE_GROWN ? na_classes[cls].cap_freeing : 0;
    if (most < least) most = least;
    return most < state->cap ? (uint16_t)most : state->cap;
}

/* --- nodes --- */

bool na_tcache_is_away(const na_tcache_t *tcache) {
    if (tcache->pinned || tcache->node == NA_NODE_ANY) return false;
    return tcache->away || na_node_current() != tcache->node;
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
        if (mine) atomic_store(&tcache->busy, 0);
        uint32_t holder = mine ? 0 : atomic_load(&tcache->busy) & ~NA_LOCK_AWAITED;
        if (holder == me || na_gate_timed_out()) { /* or: what this signal handler interrupted */
            tcache->refused = true;
            return false;
        }
        if (!may_stay())
            na_gate_wait_for_fork();
        else if (holder != 0)
            na_os_yield(); /* a poster is putting our remote frees into our spans */
        uint32_t nobody = 0;
        mine = atomic_compare_exchange_strong(&tcache->busy, &nobody, me);
    }
}
