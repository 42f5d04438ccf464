/* scavenge.c - what a thread cache gives back, and when. The table is in scavenge_policy.h. */
#include "alloc/core/thread/scavenge.h"

#include <sys/syscall.h>
#include <time.h>

#include "alloc/core/cache/bin.h"
#include "alloc/core/cache/large_bins.h"
#include "alloc/core/cache/thread_cache.h"
#include "alloc/core/central/central.h"
#include "alloc/core/machine/pressure.h"
#include "alloc/core/machine/topology.h"
#include "alloc/core/page/backing.h"
#include "alloc/core/page/pageheap.h"
#include "alloc/core/path/seam.h"
#include "alloc/core/sys/options.h"
#include "alloc/core/sys/os.h"
#include "alloc/core/sys/thread.h"
#include "alloc/core/thread/attach.h"
#include "alloc/core/thread/switch.h"
#include "pagemap/pagemap.h"

static _Atomic(uint64_t) warm_bytes; /* charged to all warm thread caches */

static _Atomic(uint64_t) others_ms;                     /* when it was last done for others */
static _Atomic(uint64_t) transfer_ms[NA_MAX_NODES + 1]; /* and for what a node keeps */

/* --- warm thread caches --- */

void na_warm_forget(na_tcache_t *tcache) {
    if (!na_tcache_is_warm(tcache)) return;
    uint32_t charged = atomic_exchange(&tcache->shared.warm, 0);
    atomic_fetch_sub_explicit(&warm_bytes, charged, memory_order_relaxed);
}

/* Flushes one that nobody is adopting. */
static void flush_warm(na_tcache_t *tcache) {
    uint32_t user = NA_TCACHE_ABANDONED;
    if (!atomic_compare_exchange_strong(&tcache->shared.user, &user, na_thread_tag())) return;
    na_warm_forget(tcache);
    na_tcache_flush(tcache);
    atomic_store(&tcache->shared.user, NA_TCACHE_ABANDONED);
    na_remote_drain_abandoned(tcache); /* remote frees whose poster saw it borrowed */
}

/* `bytes` are in its bins; the rest is for remote frees. */
NA_INLINE bool keep_warm(na_tcache_t *tcache, uint64_t bytes) {
    uint64_t charge = bytes + NA_WARM_REMOTE;
    uint64_t before = atomic_fetch_add_explicit(&warm_bytes, charge, memory_order_relaxed);
    if (before + charge > NA_WARM_ALL) {
        atomic_fetch_sub_explicit(&warm_bytes, charge, memory_order_relaxed);
        return false;
    }
    atomic_store_explicit(&tcache->shared.passed, false, memory_order_relaxed);
    atomic_store(&tcache->shared.warm, (uint32_t)charge);
    return true;
}

bool na_warm_keep(na_tcache_t *tcache) {
    if (tcache->node == NA_NODE_ANY || na_pressure_is_critical()) return false;
    uint64_t bytes = tcache->overflow.bytes;
    for (unsigned cls = 1; cls < NA_CLASS_COUNT; cls++) {
        na_bin_t *bin = &tcache->bins[cls];
        na_bin_state_t *state = &tcache->states[cls];
        if (bin->pop != state->granted.pop || bin->push != state->granted.push) {
            na_bin_count(tcache, cls);
            na_bin_grant(tcache, cls);
        }
        bytes += (uint64_t)state->count * state->size;
    }
    return bytes <= NA_WARM_BYTES && keep_warm(tcache, bytes);
}

void na_scavenge_warm(bool all) {
    unsigned count = na_tcache_count();
    for (unsigned id = 1;
         id <= count && atomic_load_explicit(&warm_bytes, memory_order_relaxed) != 0; id++) {
        na_tcache_t *tcache = na_tcache_by_id(id);
        if (!na_tcache_is_warm(tcache)) continue;
        if (atomic_exchange_explicit(&tcache->shared.passed, true, memory_order_relaxed) || all)
            flush_warm(tcache);
    }
}

/* --- threads that sleep --- */

static void scavenge_other(na_tcache_t *tcache) {
    uint32_t idle = 0;
    if (!atomic_compare_exchange_strong(&tcache->shared.busy, &idle, na_thread_tag())) return;
    if (atomic_load(&tcache->shared.user) == NA_TCACHE_ATTACHED) na_overflow_scavenge(tcache);
    na_gate_leave(tcache);
}

void na_scavenge_others(na_tcache_t *self) {
    static _Atomic(uint32_t) next;
    na_scavenge_warm(false);
    unsigned count = na_tcache_count(),
             visits = count < NA_OTHERS_AT_ONCE ? count : NA_OTHERS_AT_ONCE;
    uint32_t first = atomic_fetch_add_explicit(&next, visits, memory_order_relaxed);
    for (unsigned i = 0; i < visits; i++) {
        na_tcache_t *tcache = na_tcache_by_id(1 + (first + i) % count);
        if (tcache != self) scavenge_other(tcache);
    }
}

/* --- the thread's own --- */

void na_tcache_flush(na_tcache_t *tcache) {
    na_layers_flush(tcache); /* first: what waits may be of any class */
    for (unsigned cls = 1; cls < NA_CLASS_COUNT; cls++) {
        na_bin_state_t *state = &tcache->states[cls];
        const na_class_t *c = &na_classes[cls];
        if (state->cap == 0) continue;
        na_bin_count(tcache, cls);
        na_bin_empty(tcache, cls);
        na_remote_drain_class(tcache, cls);
        na_tcache_trim_spans(tcache, cls);
        /* The next thread likely does what this one did. The first filling of a bin doubles what it
         * may hold: without halving, threads that fill a bin once would raise it one by one. */
        state->cap = state->cap / 2 > c->cap_first ? state->cap / 2 : c->cap_first;
        state->reused /= 2;
        na_bin_grant(tcache, cls);
    }
    na_large_bins_flush(tcache);
    na_remote_flush(tcache);
}

/* Memory is short, and all that can be reached was given back: so is what lies in caches. */
static NA_COLD void flush_all(na_tcache_t *tcache) {
    tcache->slow.pressure_turn = na_pressure_turn();
    na_tcache_flush(tcache);
    na_inbox_home(tcache->node, false);
    na_remote_drain(tcache);
    na_scavenge_warm(true);
    na_central_trim(tcache->node);
    na_run_cache_trim_all();
}

/* Bins and overflow batches that were not used since the last time. */
static void decay_bins(na_tcache_t *tcache) {
    tcache->slow.drawn = 0;
    na_large_bins_decay(tcache);
    na_layers_decay(tcache);
    for (unsigned cls = 1; cls < NA_CLASS_COUNT; cls++) {
        na_bin_state_t *state = &tcache->states[cls];
        if (state->cap == 0) continue;
        na_bin_count(tcache, cls);
        if (!state->used) {
            na_bin_empty(tcache, cls);
            na_remote_drain_class(tcache, cls);
            na_tcache_trim_spans(tcache, cls);
            state->cap = na_classes[cls].cap_first;
            state->reused = 0;
        }
        na_overflow_decay(tcache, cls);
        state->used = false;
        na_bin_grant(tcache, cls);
    }
}

static void decay_transfer(unsigned node, uint64_t now) {
    uint64_t last = atomic_load_explicit(&transfer_ms[node], memory_order_relaxed);
    if (now - last >= NA_TRANSFER_IDLE_MS &&
        atomic_compare_exchange_strong(&transfer_ms[node], &last, now)) {
        na_inbox_home(node, true);
        na_transfer_decay(node);
        na_run_cache_decay(node);
    }
}

static void scavenge_nodes(na_tcache_t *tcache, uint64_t now) {
    uint64_t last = atomic_load_explicit(&others_ms, memory_order_relaxed);
    if (now - last >= NA_OTHERS_MS && atomic_compare_exchange_strong(&others_ms, &last, now))
        na_scavenge_others(tcache);
    if (NA_LIKELY(!na_tcache_watched(tcache))) {
        decay_transfer(tcache->node, now);
        na_pageheap_tick(tcache->node, now);
        return;
    }
    if (na_topology_poll(now)) {
        uint64_t back = na_topology_take_back();
        for (; back != 0; back &= back - 1)
            na_placement_bring_back((unsigned)__builtin_ctzll(back));
    }
    for (unsigned node = 0; node <= NA_NODE_ANY; node = na_node_next(node)) {
        decay_transfer(node, now);
        na_pageheap_tick(node, now);
    }
}

void na_scavenge_poll(na_tcache_t *tcache) {
    uint64_t now = na_os_ms();
    if (!tcache->where.away) tcache->where.home_ms = now;
    if (NA_UNLIKELY(tcache->slow.drawn >= NA_IDLE_DRAWN)) {
        if (!na_gate_enter(tcache)) return;
        decay_bins(tcache);
        na_gate_leave(tcache);
    }
    if (now - tcache->slow.polled_ms < NA_POLL_MS) return;
    tcache->slow.polled_ms = now;
    if (!na_gate_enter(tcache)) return;
    na_remote_flush(tcache);
    if (now - tcache->slow.idle_ms >= NA_IDLE_MS) {
        tcache->slow.idle_ms = now;
        decay_bins(tcache);
    }
    if (NA_UNLIKELY(tcache->slow.pressure_turn != na_pressure_turn())) flush_all(tcache);
    scavenge_nodes(tcache, now);
    na_gate_leave(tcache);
    if (NA_LIKELY(na_controller != NULL)) na_controller->poll(tcache, now);
}

/* --- the thread that gives memory back while the program sleeps --- */

static void *background_main(void *unused) {
    (void)unused;
    na_tcache_t *tcache = na_tcache_enter();
    if (tcache == NULL) return NULL;
    uint64_t last = 0;
    for (;;) {
        struct timespec pause = {.tv_nsec = 100 * 1000 * 1000};
        na_syscall(SYS_nanosleep, (long)&pause, 0, 0, 0, 0, 0);
        uint64_t now = na_os_ms();
        if (!na_gate_enter(tcache)) continue;
        for (unsigned node = 0; node <= NA_NODE_ANY; node = na_node_next(node)) {
            na_pageheap_tick(node, now);
            if (now - last < NA_OTHERS_MS) continue;
            na_inbox_home(node, true);
            na_transfer_decay(node);
            na_run_cache_decay(node);
        }
        if (now - last >= NA_OTHERS_MS) na_scavenge_others(tcache);
        na_gate_leave(tcache);
        if (na_controller != NULL) na_controller->poll(tcache, now);
        if (now - last < NA_OTHERS_MS) continue;
        last = now;
        if (na_thread_is_left_alone()) break;
    }
    na_tcache_leave(tcache);
    return NULL;
}

void na_background_init(void) {
    if (!na_option(NA_OPT_BACKGROUND)) return;
    na_thread_start(background_main); /* refused: memory waits for slow paths */
}
