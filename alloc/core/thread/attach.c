/* attach.c - the life of thread caches: made, attached to threads, abandoned, adopted. */
#include "alloc/core/thread/attach.h"

#include <linux/mempolicy.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stddef.h>

#include "alloc/core/cache/bin.h"
#include "alloc/core/cache/large_bins.h"
#include "alloc/core/cache/thread_cache.h"
#include "alloc/core/central/block.h"
#include "alloc/core/central/central.h"
#include "alloc/core/machine/topology.h"
#include "alloc/core/page/pageheap.h"
#include "alloc/core/path/seam.h"
#include "alloc/core/sys/lock.h"
#include "alloc/core/sys/options.h"
#include "alloc/core/sys/os.h"
#include "alloc/core/sys/reserve.h"
#include "alloc/core/sys/thread.h"
#include "alloc/core/thread/fork.h"
#include "alloc/core/thread/scavenge.h"
#include "alloc/core/thread/switch.h"
#include "alloc/core/track/misuse.h"
#include "alloc/core/track/track.h"
#include "pagemap/pagemap.h"

enum {
    MOVED_MS = NA_POLL_MS, /* a thread that was not seen at home for so long has moved */
    TCACHE_PAGE = 4096,    /* what a thread cache's first part, used by all, is to lie on one of */
};

uint64_t na_fork_lost;

static na_lock_t list_lock; /* guards what follows, and na_tcache_add and _count_threads */
static na_tcache_t *idle[NA_MAX_NODES + 1];
static _Atomic(uint32_t) ours_attached; /* of the library's own threads */
static _Atomic(uint32_t) most_attached; /* of the program's, since na_tcache_forget_most */

static pthread_key_t exit_key;
static _Atomic(uint32_t) exit_key_made; /* 0 no, 1 being made, 2 yes */

unsigned na_tcache_most(void) {
    unsigned most = atomic_load_explicit(&most_attached, memory_order_relaxed);
    return most != 0 ? most : 1;
}

void na_tcache_forget_most(void) {
    atomic_store_explicit(&most_attached, na_tcache_attached_now() - ours_attached,
                          memory_order_relaxed);
}

/* The calling thread has got this thread cache. Under the cache-list lock. */
static void note_most(na_tcache_t *tcache) {
    tcache->life.ours = na_thread_is_ours();
    if (tcache->life.ours) ours_attached++;
    uint32_t now = na_tcache_attached_now() - ours_attached;
    uint32_t most = atomic_load_explicit(&most_attached, memory_order_relaxed);
    while (now > most && !atomic_compare_exchange_weak(&most_attached, &most, now)) {
    }
}

/* False: a fork has the list, and is long; or the thread itself has, in what this signal handler
 * interrupted. */
static NA_COLD NA_NOINLINE bool wait_for_list(void) {
    for (;;) {
        if (na_gate_timed_out() || na_lock_is_mine(&list_lock)) return false;
        if (na_lock_for(&list_lock, NA_FORK_PATIENCE_MS)) return true;
        na_gate_wait_for_fork();
    }
}

/* (In a lame child the list may be in the middle of a change.) */
NA_INLINE bool lock_list(void) {
    if (NA_UNLIKELY(atomic_load_explicit(&na_forking, memory_order_relaxed) == NA_FORK_LAME))
        return false;
    return NA_LIKELY(na_try_lock(&list_lock)) || wait_for_list();
}

static bool takeover_due; /* this is a child, and the list was being changed when it was made */
static NA_COLD NA_NOINLINE void take_over(void);

NA_INLINE void unlock_list(void) {
    if (NA_UNLIKELY(takeover_due)) take_over();
    na_unlock(&list_lock);
}

bool na_tcache_lock_list(void) {
    enum { LONG_MS = NA_IDLE_MS / 2 };
    return !na_lock_is_mine(&list_lock) && na_lock_for(&list_lock, LONG_MS);
}

void na_tcache_unlock_list(void) {
    unlock_list();
}

/* --- attach --- */

/* A policy that the user set for the thread wins over ours: such a thread lives on the pseudo-node,
 * whose regions are not bound. "Local" is what we do anyway, and better. */
static uint8_t own_policy(void) {
    long policy = na_os_task_policy();
    return policy > MPOL_DEFAULT && policy != MPOL_LOCAL ? (uint8_t)policy : MPOL_DEFAULT;
}

unsigned na_tcache_node_for_thread(void) {
    if (!na_node_many) return 0;
    return own_policy() != MPOL_DEFAULT ? NA_NODE_ANY : na_node_current();
}

/* An idle thread cache of the node, or NULL. Waits for a borrower, who is about to finish. */
static na_tcache_t *adopt(unsigned node) {
    na_tcache_t *tcache = idle[node];
    if (tcache == NULL) return NULL;
    idle[node] = tcache->life.next;
    tcache->life.holder = na_thread_tag();
    uint32_t user = NA_TCACHE_ABANDONED;
    while (!atomic_compare_exchange_weak_explicit(&tcache->shared.user, &user, NA_TCACHE_ATTACHED,
                                                  memory_order_seq_cst, memory_order_relaxed)) {
        user = NA_TCACHE_ABANDONED;
        na_os_yield();
    }
    na_warm_forget(tcache);
    tcache->where.pinned =
        false; /* what the last thread saw or said of nodes is not true of the next */
    tcache->where.away = false;
    tcache->where.policy = MPOL_DEFAULT;
    return tcache;
}

static na_tcache_t *make_tcache(unsigned node) {
    uint32_t id = na_tcache_count() + 1;
    if (id >= NA_TCACHES_MAX || !na_central_init(node)) return NULL;
    size_t size = na_node_many ? sizeof(na_tcache_t) : offsetof(na_tcache_t, posts.outbox.blocks);
    na_tcache_t *tcache = na_meta_alloc(size, na_os_page < TCACHE_PAGE ? na_os_page : TCACHE_PAGE);
    if (tcache == NULL) return NULL;
    tcache->id = (uint16_t)id;
    tcache->node = (uint8_t)node;
    tcache->track.id = tcache->id;
    tcache->track.node = tcache->node;
    tcache->where.watched = na_node_many;
    tcache->bins[0].tag = NA_TAG_NEVER;
    na_switch_new_tcache(tcache);
    for (unsigned cls = 1; cls < NA_CLASS_COUNT; cls++)
        tcache->bins[cls].tag = na_tag(cls, na_classes[cls].pooled ? NA_OWNER_POOL | node : id);
    na_large_draw(tcache);
    tcache->life.holder = na_thread_tag();
    tcache->shared.user = NA_TCACHE_ATTACHED;
    na_tcache_add(tcache);
    return tcache;
}

/* When all ids are in use (32,766 threads at once) an idle thread cache of another node will do;
 * NULL when there is none, or no memory. */
static na_tcache_t *attach(void) {
    na_init();
    unsigned node = na_tcache_node_for_thread();
    /* Before it holds what a child would wait for. (And below, for two that come first at once.) */
    if (na_tcache_attached_now() != 0) na_child_watch(na_fork_settle);
    if (!lock_list()) return NULL;
    na_tcache_t *tcache = adopt(node);
    if (tcache == NULL) tcache = make_tcache(node);
    for (unsigned other = 0; tcache == NULL && other <= NA_NODE_ANY; other = na_node_next(other))
        tcache = adopt(other);
    if (tcache != NULL) {
        na_tcache_count_threads(1);
        note_most(tcache);
        if (na_tcache_attached_now() > 1) na_child_watch(na_fork_settle);
    }
    unlock_list();
    if (tcache != NULL && na_node_many) tcache->where.home_ms = na_os_ms();
    return tcache;
}

/* Behind the gate. */
static void put_away(na_tcache_t *tcache) {
    if (na_tcache_is_warm(tcache)) return; /* tried before */
    na_large_bins_flush(tcache);
    na_layers_flush(tcache);
    if (na_warm_keep(tcache))
        na_remote_flush(tcache);
    else
        na_tcache_flush(tcache);
}

/* The list lock keeps fork away as the gate would. (Behind the gate it could not wait for the list
 * lock: a fork holds that while it waits for the gate.) */
static bool try_abandon(na_tcache_t *tcache) {
    if (!na_gate_enter(tcache)) return false;
    put_away(tcache);
    na_gate_leave(tcache);
    if (!lock_list()) return false;
    if (!na_gate_enter(tcache)) {
        unlock_list();
        return false;
    }
    if (tcache->life.ours) ours_attached--;
    tcache->life.next = idle[tcache->node];
    idle[tcache->node] = tcache;
    na_tcache_count_threads(UINT32_MAX);
    atomic_store_explicit(&tcache->shared.user, NA_TCACHE_ABANDONED, memory_order_seq_cst);
    na_gate_leave(tcache);
    /* Remote frees that came before the line above had a poster that saw us attached. */
    na_remote_drain_abandoned(tcache);
    unlock_list();
    return true;
}

static NA_NOINLINE void abandon(na_tcache_t *tcache) {
    na_layers_leave(tcache);
    if (NA_LIKELY(try_abandon(tcache))) return;
    tcache->life.holder = 0;
    na_defer_abandon(tcache);
}

NA_COLD bool na_tcache_abandon_late(na_tcache_t *tcache) {
    return try_abandon(tcache);
}

/* Destructor of the thread-specific key. Other destructors, and glibc itself, may call malloc and
 * free after it; na_tcache_enter serves them one by one. */
static void at_thread_exit(void *arg) {
    na_self = &na_tcache_gone;
    abandon(arg);
}

static void watch_thread_exit(na_tcache_t *tcache) {
    uint32_t state = 0;
    if (atomic_compare_exchange_strong(&exit_key_made, &state, 1)) {
        int failed = pthread_key_create(&exit_key, at_thread_exit);
        atomic_store(&exit_key_made, failed ? 0 : 2);
    } else {
        while (atomic_load(&exit_key_made) == 1)
            na_os_yield();
    }
    /* May call calloc for its second-level table: na_self is set already. */
    if (atomic_load(&exit_key_made) == 2) pthread_setspecific(exit_key, tcache);
}

/* --- nodes --- */

na_tcache_t *na_tcache_move(na_tcache_t *tcache, unsigned node, bool pinned) {
    na_tcache_t *there = tcache;
    if (node != tcache->node) {
        /* While a fork is under way, perhaps by this very thread, it moves later. */
        if (!lock_list()) return tcache;
        there = adopt(node);
        if (there == NULL) there = make_tcache(node);
        if (there != NULL) na_tcache_count_threads(1);
        unlock_list();
        if (there == NULL) return tcache;
    }
    there->where.pinned = pinned;
    there->where.away = false;
    there->where.home_ms = na_os_ms();
    if (there == tcache) return tcache;
    there->life.ours = tcache->life.ours;
    tcache->life.ours = false;
    there->track.profile = tcache->track.profile;
    there->track.session = tcache->track.session;
    /* Of the two, it may be the one that has noticed the last switch. */
    na_section_join(&there->track, atomic_load_explicit(&na_session, memory_order_relaxed));
    tcache->track.profile = NULL;
    na_self = there;
    watch_thread_exit(there);
    abandon(tcache);
    return there;
}

static bool is_cpu_of(unsigned cpu, unsigned node) {
    return na_node_of_cpu(cpu) == node;
}

/* Until it is known whether the thread has moved, every malloc and free of it is a slow path, so
 * that the first one after it is known acts on it (na_bin_grant grants nothing meanwhile). */
static void revoke_credits(na_tcache_t *tcache) {
    for (unsigned cls = 1; cls < NA_CLASS_COUNT; cls++)
        na_bin_count(tcache, cls);
}

/* The thread runs on another node than its thread cache's. It has moved there when it may not run
 * at home any more; or when this is the second slow path in a row that sees it there, and for
 * MOVED_MS none has seen it at home: schedulers carry threads over a border and back, and moving a
 * thread cache is work. So whatever is allocated once the thread has been there for MOVED_MS (and
 * what the clock is coarse by) and has passed two slow paths, in whatever order, is of that node.
 */
static NA_COLD na_tcache_t *seen_away(na_tcache_t *tcache, unsigned node) {
    if (tcache->where.away && tcache->where.away_node == node) {
        if (na_os_ms() - tcache->where.home_ms < MOVED_MS) return tcache;
    } else {
        tcache->where.away = true;
        tcache->where.away_node = (uint8_t)node;
        revoke_credits(tcache);
        if (na_os_may_run_on(is_cpu_of, tcache->node)) return tcache;
    }
    return na_tcache_move(tcache, node, false);
}

static na_tcache_t *watch(na_tcache_t *tcache) {
    if (tcache->where.pinned || tcache->node == NA_NODE_ANY) return tcache;
    unsigned node = na_node_current();
    if (NA_UNLIKELY(node != tcache->node)) return seen_away(tcache, node);
    tcache->where.away = false;
    return tcache;
}

na_tcache_t *na_tcache_check_policy(na_tcache_t *tcache) {
    if (NA_LIKELY(!na_tcache_watched(tcache)) || tcache->where.pinned || na_self != tcache)
        return tcache;
    uint8_t policy = own_policy();
    if (NA_LIKELY(policy == tcache->where.policy)) return tcache;
    bool own = policy != MPOL_DEFAULT;
    if (own != (tcache->node == NA_NODE_ANY))
        tcache = na_tcache_move(tcache, own ? NA_NODE_ANY : na_node_current(), false);
    if (!own || tcache->node != NA_NODE_ANY) return tcache;
    /* What lies free may have been placed by another policy: for a program that changes its own,
     * not for threads that have different ones at the same time. */
    static _Atomic(uint8_t) last;
    tcache->where.policy = policy;
    if (atomic_exchange(&last, policy) == policy || !na_gate_enter(tcache)) return tcache;
    na_tcache_flush(tcache);
    na_inbox_home(NA_NODE_ANY, false);
    na_central_trim(NA_NODE_ANY);
    na_pageheap_trim(NA_NODE_ANY, 0);
    na_gate_leave(tcache);
    return tcache;
}

/* Races with other threads' decrements; whoever wins, the credit stays near zero (thread_cache.h).
 */
NA_RACES_WITH_EMPTY static void reset_credits(na_tcache_t *shared) {
    for (unsigned cls = 0; cls < NA_CLASS_COUNT; cls++)
        if (*(volatile int16_t *)&shared->bins[cls].pop < 0)
            *(volatile int16_t *)&shared->bins[cls].pop = 0;
}

na_tcache_t *na_tcache_enter(void) {
    if (na_child_is_unknown()) na_child_settle();
    na_tcache_t *tcache = na_self;
    if (NA_LIKELY(tcache != &na_tcache_empty && tcache != &na_tcache_gone)) {
        if (NA_UNLIKELY(na_section_alarmed(&tcache->track))) na_switch_alarmed(tcache);
        return NA_LIKELY(!na_tcache_watched(tcache)) ? tcache : watch(tcache);
    }
    reset_credits(tcache);
    bool last_breath = tcache == &na_tcache_gone;
    tcache = attach();
    if (tcache != NULL && !last_breath) {
        na_self = tcache;
        watch_thread_exit(tcache);
    }
    if (tcache != NULL && na_section_alarmed(&tcache->track)) na_switch_alarmed(tcache);
    return tcache;
}

void na_tcache_leave(na_tcache_t *tcache) {
    if (NA_UNLIKELY(na_self == &na_tcache_gone)) abandon(tcache);
}

/* --- fork --- */

static NA_COLD uint64_t forget_bins(na_tcache_t *tcache) {
    uint64_t lost = 0;
    for (unsigned cls = 1; cls < NA_CLASS_COUNT; cls++) {
        na_bin_state_t *state = &tcache->states[cls];
        if (state->cap == 0) continue;
        lost += ((uint64_t)state->count + (uint64_t)state->granted.push) * na_classes[cls].size;
        tcache->bins[cls].head = NULL;
        tcache->bins[cls].pop = tcache->bins[cls].push = 0;
        state->count = 0;
        state->granted.pop = state->granted.push = 0;
    }
    for (unsigned i = 0; i < NA_REMOTE_BATCHES; i++) {
        const na_remote_batch_t *out = &tcache->posts.batches[i];
        if (out->tag == 0) continue;
        lost += (uint64_t)out->count * na_classes[na_tag_class(out->tag)].size;
        tcache->posts.batches[i] = (na_remote_batch_t){0};
    }
    tcache->posts.used = 0;
    lost += tcache->posts.outbox.bytes;
    if (tcache->posts.outbox.count != 0) tcache->posts.outbox = (na_outbox_t){0};
    return lost + na_large_bins_forget(tcache) + na_layers_forget(tcache);
}

/* With the list lock. What is the thread's own may be in any state: the code that a signal handler
 * interrupted to fork goes on with it. */
static NA_COLD NA_NOINLINE void take_over(void) {
    takeover_due = false;
    uint32_t me = na_thread_tag();
    na_layers_forget_counts();
    for (unsigned id = 1; id <= na_tcache_count(); id++) {
        na_tcache_t *tcache = na_tcache_by_id(id);
        uint32_t user = atomic_load(&tcache->shared.user);
        if (tcache->life.holder == me) na_layers_recount(tcache);
        if (atomic_load(&tcache->shared.busy) == NA_GATE_LOST) continue;
        if (user == NA_TCACHE_ATTACHED && tcache->life.holder != me) {
            na_fork_lost += forget_bins(tcache);
            if (tcache->life.ours) ours_attached--;
            tcache->life.next = idle[tcache->node];
            idle[tcache->node] = tcache;
            na_tcache_count_threads(UINT32_MAX);
            atomic_store(&tcache->shared.user, NA_TCACHE_ABANDONED);
        } else if (user > NA_TCACHE_ATTACHED && user != me) {
            atomic_store(&tcache->shared.user, NA_TCACHE_ABANDONED);
        }
    }
}

/* Not known to be its thread's alone: attached to another, whose it is. */
static NA_COLD bool is_another_own(const na_tcache_t *tcache) {
    return atomic_load(&tcache->shared.user) == NA_TCACHE_ATTACHED && tcache != na_self &&
           tcache->life.holder != na_thread_tag();
}

bool na_tcache_lose_busy(void) {
    uint32_t me = na_thread_tag();
    if (atomic_load(&list_lock.word) != 0 && !na_lock_is_mine(&list_lock)) return false;
    for (unsigned id = 1; id <= na_tcache_count(); id++) {
        na_tcache_t *tcache = na_tcache_by_id(id);
        uint32_t busy = atomic_load(&tcache->shared.busy) & ~NA_LOCK_AWAITED;
        uint32_t user = atomic_load(&tcache->shared.user);
        if (user > NA_TCACHE_ATTACHED && user != me) return false; /* borrowed */
        if (busy <= NA_GATE_LOST || busy == me) continue;
        if (!is_another_own(tcache)) return false;
        tcache->life.holder = 0;
        atomic_store(&tcache->shared.busy, NA_GATE_LOST);
    }
    return true;
}

void na_tcache_after_fork_child(bool interrupted, bool forked) {
    uint32_t me = na_thread_tag();
    for (unsigned id = 1; id <= na_tcache_count(); id++) {
        na_tcache_t *tcache = na_tcache_by_id(id);
        /* No write where none is needed: of many thread caches each would cost a page. */
        uint32_t busy = atomic_load(&tcache->shared.busy);
        if (busy > NA_GATE_LOST && (busy & ~NA_LOCK_AWAITED) != me)
            atomic_store(&tcache->shared.busy, 0);
        if (tcache->track.profile != NULL) tcache->track.profile = NULL;
        if (tcache->life.holder != me && atomic_load(&tcache->track.inside) != 0)
            atomic_store(&tcache->track.inside, 0);
    }
    interrupted &= na_lock_is_mine(&list_lock);
    na_lock_reset(&list_lock);
    takeover_due = forked && atomic_load(&na_forking) != NA_FORK_LAME;
    if (takeover_due && !interrupted) take_over();
}

/* --- The first slow path of the first thread --- */

static na_lock_t init_lock;
NA_FIRST static _Atomic(bool) done;

void na_init(void) {
    if (NA_LIKELY(atomic_load_explicit(&done, memory_order_acquire))) return;
    na_pagemap_init();
    na_lock(&init_lock);
    if (!atomic_load_explicit(&done, memory_order_relaxed)) {
        na_os_init();
        for (const na_above_t *const *above = na_above; *above != NULL; above++)
            if ((*above)->options != NULL) (*above)->options();
        na_limit = (size_t)na_option(NA_OPT_LIMIT);
        na_reserve_init(na_option(NA_OPT_CGROUPS) != NA_CGROUPS_IGNORE,
                        na_option(NA_OPT_HUGEPAGES) == NA_HUGE_ALWAYS);
        na_sizeclass_init();
        na_span_fault = na_misuse_late;
        na_pageheap_reclaim = na_run_cache_trim;
        na_topology_init(NULL, NULL);
        if (na_option(NA_OPT_NUMA) == NA_NUMA_OFF) na_topology_ignore();
        na_strict = na_option(NA_OPT_CHECK) != 0;
        if (na_strict) na_record_each();
        na_sizes_count = na_strict;
        for (const na_above_t *const *above = na_above; *above != NULL; above++)
            if ((*above)->init != NULL) (*above)->init();
        atomic_store_explicit(&done, true, memory_order_release);
    }
    na_unlock(&init_lock);
}

bool na_init_is_done(void) {
    return atomic_load_explicit(&done, memory_order_acquire);
}
