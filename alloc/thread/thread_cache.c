/* thread_cache.c - the life of thread caches: made, attached to threads, tidied, abandoned,
 * adopted. */
#include "alloc/thread/thread_cache.h"

#include <linux/mempolicy.h>
#include <pthread.h>

#include "alloc/api/init.h"
#include "alloc/central/central.h"
#include "alloc/page/pageheap.h"
#include "alloc/page/placement_check.h"
#include "alloc/page/pressure.h"
#include "alloc/page/purge.h"
#include "alloc/sys/lock.h"
#include "alloc/sys/meta.h"
#include "alloc/sys/os.h"
#include "alloc/sys/thread.h"
#include "alloc/sys/topology.h"
#include "alloc/thread/aside.h"
#include "alloc/thread/bin.h"
#include "alloc/thread/overflow.h"
#include "alloc/thread/remote.h"
#include "alloc/thread/switch.h"
#include "alloc/thread/young.h"
#include "alloc/track/recording.h"
#include "alloc/track/sampler.h"

enum {
    POLL_MS = 10,           /* the least time between two polls that do something */
    TIDY_MS = 1000,         /* a bin that was not used for so long is emptied */
    TIDY_DRAWN = 256 << 10, /* or while so many bytes were drawn from spans */
    SWEEP_MS = 500, /* a batch that lay in the transfer cache for so long goes to its spans */
    COOL_MS =
        1000, /* a thread cache that nobody adopted for so long gives back what is in its bins */
    MOVED_MS = 10,      /* a thread that was not seen at home for so long has moved */
    TCACHE_PAGE = 4096, /* what a thread cache's first part, used by all, is to lie on one of */
};

/* Sections of their own: layout.ld puts what is written of them where other variables are, too. */
__attribute__((section(".bss.heap_empty"))) na_tcache_t na_tcache_empty;
__attribute__((section(".bss.heap_gone"))) na_tcache_t na_tcache_gone;
NA_TLS na_tcache_t *na_self = &na_tcache_empty;

_Atomic(uint32_t) na_forking;
uint64_t na_fork_lost;

static na_lock_t list_lock; /* guards the four below */
NA_SPARSE static na_tcache_t *tcaches[NA_TCACHES_MAX];
static _Atomic(uint32_t) tcache_count; /* ids 1..tcache_count are in use */
static na_tcache_t *idle[NA_MAX_NODES + 1];
static _Atomic(uint32_t) attached; /* changed by count_threads */
_Atomic(uint32_t) na_bin_share[2];
static _Atomic(uint32_t) ours_attached; /* of the library's own threads */
static _Atomic(uint32_t) most_attached; /* of the program's, since na_tcache_forget_most */

/* Abandoned thread caches that kept what was in their bins. An entry is a hint, and its thread
 * cache's: whoever holds a thread cache that is not warm any more removes it. */
#define WARM_MOST   16u
#define WARM_BYTES  (512u << 10) /* in the bins of one */
#define WARM_ALL    (2u << 20)
#define WARM_REMOTE (128u << 10) /* for one */
static struct {
    _Atomic(na_tcache_t *) tcache;
    _Atomic(uint32_t) bytes;
    _Atomic(bool) passed; /* it was there when somebody last came to cool */
} warm[WARM_MOST];
static _Atomic(uint64_t) warm_bytes; /* late by what is being added or removed */
static _Atomic(uint64_t) cooled_ms;

static pthread_key_t exit_key;
static _Atomic(uint32_t) exit_key_made; /* 0 no, 1 being made, 2 yes */
static _Atomic(uint64_t) swept_ms[NA_MAX_NODES + 1];

na_tcache_t *na_tcache_by_id(unsigned id) {
    return tcaches[id];
}

unsigned na_tcache_count(void) {
    return atomic_load_explicit(&tcache_count, memory_order_acquire);
}

unsigned na_tcache_attached(void) {
    unsigned count = atomic_load_explicit(&attached, memory_order_relaxed);
    return count != 0 ? count : 1;
}

/* A thread has got a thread cache (1) or leaves it (less one). Under the cache-list lock. */
static void count_threads(uint32_t change) {
    attached += change;
    uint64_t threads = na_tcache_attached();
    atomic_store_explicit(&na_purge_many, threads >= NA_PURGE_MANY, memory_order_relaxed);
    atomic_store_explicit(&na_bin_share[false], (uint32_t)(NA_GROWN_BYTES / threads),
                          memory_order_relaxed);
    atomic_store_explicit(&na_bin_share[true], (uint32_t)(NA_YOUNG_BYTES / (threads * threads)),
                          memory_order_relaxed);
}

NA_COLD uint16_t na_young_hold_share(const na_bin_state_t *state, unsigned cls) {
    bool young = na_is_young(state);
    uint32_t most = atomic_load_explicit(&na_bin_share[young], memory_order_relaxed) / state->size;
    uint32_t least = young ? 0 : na_classes[cls].cap_freeing;
    if (most < least) most = least;
    return most < state->cap ? (uint16_t)most : state->cap;
}

NA_COLD void na_young_surrender(na_tcache_t *tcache, unsigned cls) {
    if (!na_gate_enter(tcache)) return;
    void *list = tcache->bins[cls].head;
    tcache->bins[cls].head = NULL;
    tcache->states[cls].count = 0;
    na_list_home(tcache, cls, list);
    na_tcache_trim_spans(tcache, cls);
    na_gate_leave(tcache);
}

unsigned na_tcache_most(void) {
    unsigned most = atomic_load_explicit(&most_attached, memory_order_relaxed);
    return most != 0 ? most : 1;
}

void na_tcache_forget_most(void) {
    atomic_store_explicit(&most_attached, attached - ours_attached, memory_order_relaxed);
}

/* The calling thread has got this thread cache. Under the cache-list lock. */
static void note_most(na_tcache_t *tcache) {
    tcache->ours = na_thread_is_ours();
    if (tcache->ours) ours_attached++;
    uint32_t now = attached - ours_attached;
    uint32_t most = atomic_load_explicit(&most_attached, memory_order_relaxed);
    while (now > most && !atomic_compare_exchange_weak(&most_attached, &most, now)) {
    }
}

void na_tcache_each(void (*visit)(na_tcache_t *tcache, void *arg), void *arg) {
    unsigned count = na_tcache_count();
    for (unsigned id = 1; id <= count; id++)
        visit(tcaches[id], arg);
}

/* False: a fork has the list, and is long; or the thread itself has, in what this signal handler
 * interrupted. */
static NA_COLD NA_NOINLINE bool wait_for_list(void) {
    for (;;) {
        if (na_aside_is_time() || na_lock_is_mine(&list_lock)) return false;
        if (na_lock_for(&list_lock, NA_FORK_PATIENCE_MS)) return true;
        na_aside_wait();
    }
}

NA_INLINE bool lock_list(void) {
    return NA_LIKELY(na_try_lock(&list_lock)) || wait_for_list();
}

static bool takeover_due; /* this is a child, and the list was being changed when it was made */
static NA_COLD NA_NOINLINE void take_over(void);

NA_INLINE void unlock_list(void) {
    if (NA_UNLIKELY(takeover_due)) take_over();
    na_unlock(&list_lock);
}

bool na_tcache_lock_list(void) {
    enum { LONG_MS = 500 };
    return !na_lock_is_mine(&list_lock) && na_lock_for(&list_lock, LONG_MS);
}

void na_tcache_unlock_list(void) {
    unlock_list();
}

/* --- warm thread caches --- */

static void no_longer_warm(na_tcache_t *tcache) {
    if (!atomic_load_explicit(&tcache->warm, memory_order_relaxed)) return;
    atomic_store(&tcache->warm, false);
    for (unsigned i = 0; i < WARM_MOST; i++) {
        if (atomic_load_explicit(&warm[i].tcache, memory_order_relaxed) != tcache) continue;
        uint32_t bytes = atomic_load_explicit(&warm[i].bytes, memory_order_relaxed);
        atomic_store_explicit(&warm[i].tcache, NULL, memory_order_relaxed);
        atomic_fetch_sub_explicit(&warm_bytes, bytes, memory_order_relaxed);
        return;
    }
}

/* Whether a thread cache about to be abandoned may keep what is in its bins: a thread that comes
 * soon finds them filled, and emptying all of them is most of what a short-lived thread costs. Not
 * where memory is short, nor blocks that a policy of the thread's own has placed. Behind the gate.
 */
static bool keep_warm(na_tcache_t *tcache) {
    if (tcache->node == NA_NODE_ANY || na_pressure_is_critical()) return false;
    uint64_t bytes = tcache->overflow_bytes;
    for (unsigned cls = 1; cls < NA_CLASS_COUNT; cls++) {
        na_bin_t *bin = &tcache->bins[cls];
        na_bin_state_t *state = &tcache->states[cls];
        if (bin->pop != state->granted_pop || bin->push != state->granted_push) {
            na_bin_count(tcache, cls);
            na_bin_grant(tcache, cls);
        }
        bytes += (uint64_t)state->count * state->size;
    }
    if (bytes > WARM_BYTES ||
        bytes + atomic_load_explicit(&warm_bytes, memory_order_relaxed) > WARM_ALL)
        return false;
    for (unsigned i = 0; i < WARM_MOST; i++) {
        na_tcache_t *none = NULL;
        if (atomic_load_explicit(&warm[i].tcache, memory_order_relaxed) != NULL ||
            !atomic_compare_exchange_strong_explicit(&warm[i].tcache, &none, tcache,
                                                     memory_order_relaxed, memory_order_relaxed))
            continue;
        atomic_store_explicit(&warm[i].bytes, (uint32_t)bytes, memory_order_relaxed);
        atomic_store_explicit(&warm[i].passed, false, memory_order_relaxed);
        atomic_fetch_add_explicit(&warm_bytes, bytes, memory_order_relaxed);
        atomic_store(&tcache->warm, true);
        return true;
    }
    return false;
}

void na_tcache_cool(bool all) {
    for (unsigned i = 0; i < WARM_MOST; i++) {
        na_tcache_t *tcache = atomic_load_explicit(&warm[i].tcache, memory_order_relaxed);
        if (tcache == NULL) continue;
        if (!atomic_exchange_explicit(&warm[i].passed, true, memory_order_relaxed) && !all)
            continue;
        uint32_t phase = NA_TCACHE_ABANDONED;
        if (!atomic_compare_exchange_strong(&tcache->phase, &phase, na_thread_tag())) continue;
        no_longer_warm(tcache);
        na_tcache_flush(tcache);
        atomic_store(&tcache->phase, NA_TCACHE_ABANDONED);
        na_tcache_settle_abandoned(tcache); /* remote frees whose poster saw it borrowed */
    }
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
    idle[node] = tcache->next_idle;
    tcache->holder = na_thread_tag();
    uint32_t phase = NA_TCACHE_ABANDONED;
    while (!atomic_compare_exchange_weak_explicit(&tcache->phase, &phase, NA_TCACHE_ATTACHED,
                                                  memory_order_seq_cst, memory_order_relaxed)) {
        phase = NA_TCACHE_ABANDONED;
        na_os_yield();
    }
    no_longer_warm(tcache);
    tcache->pinned = false; /* what the last thread saw or said of nodes is not true of the next */
    tcache->away = false;
    tcache->policy = MPOL_DEFAULT;
    return tcache;
}

static na_tcache_t *make(unsigned node) {
    uint32_t id = tcache_count + 1;
    if (id >= NA_TCACHES_MAX || !na_central_init(node)) return NULL;
    na_tcache_t *tcache =
        na_meta_alloc(sizeof *tcache, na_os_page < TCACHE_PAGE ? na_os_page : TCACHE_PAGE);
    if (tcache == NULL) return NULL;
    tcache->id = (uint16_t)id;
    tcache->node = (uint8_t)node;
    tcache->track.id = tcache->id;
    tcache->track.node = tcache->node;
    tcache->watched = na_node_many;
    tcache->bins[0].tag = NA_TAG_NEVER;
    tcache->overflow_limit = NA_OVERFLOW_LEAST;
    na_switch_new_tcache(tcache);
    for (unsigned cls = 1; cls < NA_CLASS_COUNT; cls++)
        tcache->bins[cls].tag = na_tag(cls, na_classes[cls].pooled ? NA_OWNER_POOL | node : id);
    tcache->large_until_sample = na_sampler_draw(&tcache->track);
    tcache->holder = na_thread_tag();
    tcache->phase = NA_TCACHE_ATTACHED;
    tcaches[id] = tcache;
    atomic_store_explicit(&tcache_count, id, memory_order_release);
    return tcache;
}

/* When all ids are in use (32,766 threads at once) an idle thread cache of another node will do;
 * NULL when there is none, or no memory. */
static na_tcache_t *attach(void) {
    na_init();
    unsigned node = na_tcache_node_for_thread();
    if (!lock_list()) return NULL;
    na_tcache_t *tcache = adopt(node);
    if (tcache == NULL) tcache = make(node);
    for (unsigned other = 0; tcache == NULL && other <= NA_NODE_ANY; other = na_node_next(other))
        tcache = adopt(other);
    if (tcache != NULL) count_threads(1);
    if (tcache != NULL) note_most(tcache);
    unlock_list();
    if (tcache != NULL && na_node_many) tcache->home_ms = na_os_ms();
    return tcache;
}

/* Behind the gate. */
static void put_away(na_tcache_t *tcache) {
    if (atomic_load_explicit(&tcache->warm, memory_order_relaxed)) return; /* tried before */
    if (keep_warm(tcache))
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
    if (tcache->ours) ours_attached--;
    tcache->next_idle = idle[tcache->node];
    idle[tcache->node] = tcache;
    count_threads(UINT32_MAX);
    atomic_store_explicit(&tcache->phase, NA_TCACHE_ABANDONED, memory_order_seq_cst);
    na_gate_leave(tcache);
    /* Mail that came before the line above had a poster that saw us attached. */
    na_tcache_settle_abandoned(tcache);
    unlock_list();
    return true;
}

static NA_NOINLINE void abandon(na_tcache_t *tcache) {
    if (tcache->track.profile != NULL) na_record_thread_exit(&tcache->track);
    if (NA_LIKELY(try_abandon(tcache))) return;
    tcache->holder = 0;
    na_aside_tcache_later(tcache);
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
        if (there == NULL) there = make(node);
        if (there != NULL) count_threads(1);
        unlock_list();
        if (there == NULL) return tcache;
    }
    there->pinned = pinned;
    there->away = false;
    there->home_ms = na_os_ms();
    if (there == tcache) return tcache;
    there->ours = tcache->ours;
    tcache->ours = false;
    there->track.profile = tcache->track.profile;
    there->track.session = tcache->track.session;
    /* Of the two, it may be the one that has noticed the last switch. */
    na_section_renew(&there->track, atomic_load_explicit(&na_session, memory_order_relaxed));
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
    if (tcache->away && tcache->away_node == node) {
        if (na_os_ms() - tcache->home_ms < MOVED_MS) return tcache;
    } else {
        tcache->away = true;
        tcache->away_node = (uint8_t)node;
        revoke_credits(tcache);
        if (na_os_may_run_on(is_cpu_of, tcache->node)) return tcache;
    }
    return na_tcache_move(tcache, node, false);
}

static na_tcache_t *watch(na_tcache_t *tcache) {
    if (tcache->pinned || tcache->node == NA_NODE_ANY) return tcache;
    unsigned node = na_node_current();
    if (NA_UNLIKELY(node != tcache->node)) return seen_away(tcache, node);
    tcache->away = false;
    return tcache;
}

bool na_tcache_is_away(const na_tcache_t *tcache) {
    if (tcache->pinned || tcache->node == NA_NODE_ANY) return false;
    return tcache->away || na_node_current() != tcache->node;
}

na_tcache_t *na_tcache_check_policy(na_tcache_t *tcache) {
    if (tcache->pinned || na_self != tcache) return tcache;
    uint8_t policy = own_policy();
    if (NA_LIKELY(policy == tcache->policy)) return tcache;
    bool own = policy != MPOL_DEFAULT;
    if (own != (tcache->node == NA_NODE_ANY))
        tcache = na_tcache_move(tcache, own ? NA_NODE_ANY : na_node_current(), false);
    if (!own || tcache->node != NA_NODE_ANY) return tcache;
    /* What lies free may have been placed by another policy: for a program that changes its own,
     * not for threads that have different ones at the same time. */
    static _Atomic(uint8_t) last;
    tcache->policy = policy;
    if (atomic_exchange(&last, policy) == policy || !na_gate_enter(tcache)) return tcache;
    na_tcache_flush(tcache);
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

/* --- the gate --- */

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
        if (holder == me || na_aside_is_time()) { /* or: what this signal handler interrupted */
            tcache->refused = true;
            return false;
        }
        if (!may_stay())
            na_aside_wait();
        else if (holder != 0)
            na_os_yield(); /* a poster is putting our remote frees into our spans */
        uint32_t nobody = 0;
        mine = atomic_compare_exchange_strong(&tcache->busy, &nobody, me);
    }
}

/* --- remote frees of the abandoned --- */

na_batch_t na_tcache_take_remote(na_tcache_t *tcache, unsigned cls) {
    if (atomic_load_explicit(&tcache->remote_free[cls], memory_order_relaxed) == 0) return 0;
    na_batch_t stack = atomic_exchange_explicit(&tcache->remote_free[cls], 0, memory_order_acquire);
    uint64_t blocks = 0;
    for (na_batch_t batch = stack; batch != 0; batch = *na_batch_next(batch))
        blocks += na_batch_count(batch);
    uint32_t taken = atomic_load_explicit(&tcache->remote_taken, memory_order_relaxed);
    atomic_store_explicit(&tcache->remote_taken, taken + 1, memory_order_relaxed);
    atomic_fetch_sub_explicit(&tcache->remote_bytes, blocks * na_classes[cls].size,
                              memory_order_relaxed);
    return stack;
}

/* Puts the remote frees of one class into the spans it came from; only who holds the thread cache.
 */
static void sort_remote(na_tcache_t *tcache, unsigned cls) {
    na_batch_t batch = na_tcache_take_remote(tcache, cls);
    while (batch != 0) {
        na_batch_t next = *na_batch_next(batch);
        na_list_home(tcache, cls, na_batch_first(batch));
        batch = next;
    }
}

void na_tcache_sort_remote(na_tcache_t *tcache) {
    for (unsigned cls = 1; cls < NA_CLASS_COUNT; cls++) {
        if (atomic_load_explicit(&tcache->remote_free[cls], memory_order_relaxed) == 0) continue;
        sort_remote(tcache, cls);
        na_tcache_trim_spans(tcache, cls);
    }
}

static bool has_remote(const na_tcache_t *tcache) {
    for (unsigned cls = 1; cls < NA_CLASS_COUNT; cls++)
        if (atomic_load_explicit(&tcache->remote_free[cls], memory_order_seq_cst) != 0) return true;
    return false;
}

void na_tcache_settle_abandoned(na_tcache_t *tcache) {
    if (atomic_load(&tcache->warm) &&
        atomic_load_explicit(&tcache->remote_bytes, memory_order_relaxed) <= WARM_REMOTE)
        return;
    while (has_remote(tcache)) {
        uint32_t phase = NA_TCACHE_ABANDONED;
        if (!atomic_compare_exchange_strong(&tcache->phase, &phase, na_thread_tag()))
            return; /* adopted, or another poster is at it: whoever holds it looks again */
        na_tcache_sort_remote(tcache);
        atomic_store(&tcache->phase, NA_TCACHE_ABANDONED);
    }
}

void na_tcache_settle_absent(na_tcache_t *tcache) {
    uint32_t idle = 0;
    if (!atomic_compare_exchange_strong(&tcache->busy, &idle, na_thread_tag())) return;
    /* Looked at behind its gate, where it is not changed: who abandons holds the gate. */
    if (atomic_load(&tcache->phase) == NA_TCACHE_ATTACHED) {
        na_tcache_sort_remote(tcache);
        atomic_store_explicit(&tcache->remote_seen, /* it was not the thread that took it */
                              atomic_load_explicit(&tcache->remote_taken, memory_order_relaxed),
                              memory_order_relaxed);
    }
    na_gate_leave(tcache);
}

/* --- threads that sleep --- */

static void reclaim(na_tcache_t *tcache) {
    uint32_t idle = 0;
    if (!atomic_compare_exchange_strong(&tcache->busy, &idle, na_thread_tag())) return;
    if (atomic_load(&tcache->phase) == NA_TCACHE_ATTACHED) na_overflow_reclaim(tcache);
    na_gate_leave(tcache);
}

void na_tcache_reclaim(na_tcache_t *self) {
    enum {
        AT_ONCE = 256
    }; /* thread caches: that there are thousands must not cost any thread much */
    static _Atomic(uint32_t) next;
    na_tcache_cool(false);
    unsigned count = na_tcache_count(), visits = count < AT_ONCE ? count : AT_ONCE;
    uint32_t first = atomic_fetch_add_explicit(&next, visits, memory_order_relaxed);
    for (unsigned i = 0; i < visits; i++) {
        na_tcache_t *tcache = tcaches[1 + (first + i) % count];
        if (tcache != self) reclaim(tcache);
    }
}

/* --- tidying --- */

void na_tcache_flush(na_tcache_t *tcache) {
    for (unsigned cls = 1; cls < NA_CLASS_COUNT; cls++) {
        na_bin_state_t *state = &tcache->states[cls];
        const na_class_t *c = &na_classes[cls];
        if (state->cap == 0) continue;
        na_bin_count(tcache, cls);
        na_bin_empty(tcache, cls);
        sort_remote(tcache, cls);
        na_tcache_trim_spans(tcache, cls);
        /* The next thread likely does what this one did. The first filling of a bin doubles what it
         * may hold: without halving, threads that fill a bin once would raise it one by one. */
        state->cap = state->cap / 2 > c->cap_first ? state->cap / 2 : c->cap_first;
        state->reused /= 2;
        na_bin_grant(tcache, cls);
    }
    na_remote_flush(tcache);
}

/* Memory is short, and all that can be reached was given back: so is what lies in caches. */
static NA_COLD void yield_all(na_tcache_t *tcache) {
    tcache->pressure_turn = na_pressure_turn();
    na_tcache_flush(tcache);
    na_tcache_cool(true);
    na_central_trim(tcache->node);
}

/* Empties the bins that were not used since the last time. */
static void tidy(na_tcache_t *tcache) {
    tcache->drawn = 0;
    for (unsigned cls = 1; cls < NA_CLASS_COUNT; cls++) {
        na_bin_state_t *state = &tcache->states[cls];
        if (state->cap == 0) continue;
        na_bin_count(tcache, cls);
        if (!state->used) {
            na_bin_empty(tcache, cls);
            sort_remote(tcache, cls);
            na_tcache_trim_spans(tcache, cls);
            state->cap = na_classes[cls].cap_first;
            state->reused = 0;
        }
        na_overflow_age(tcache, cls);
        state->used = false;
        na_bin_grant(tcache, cls);
    }
}

static void sweep_transfer(unsigned node, uint64_t now) {
    uint64_t last = atomic_load_explicit(&swept_ms[node], memory_order_relaxed);
    if (now - last >= SWEEP_MS && atomic_compare_exchange_strong(&swept_ms[node], &last, now))
        na_central_sweep(node);
}

static void tend_nodes(na_tcache_t *tcache, uint64_t now) {
    uint64_t last = atomic_load_explicit(&cooled_ms, memory_order_relaxed);
    if (now - last >= COOL_MS && atomic_compare_exchange_strong(&cooled_ms, &last, now))
        na_tcache_reclaim(tcache);
    if (NA_LIKELY(!na_tcache_watched(tcache))) {
        sweep_transfer(tcache->node, now);
        na_pageheap_tick(tcache->node, now);
        return;
    }
    if (na_topology_poll(now)) {
        uint64_t back = na_topology_take_back();
        for (; back != 0; back &= back - 1)
            na_placement_bring_back((unsigned)__builtin_ctzll(back));
    }
    for (unsigned node = 0; node <= NA_NODE_ANY; node = na_node_next(node)) {
        sweep_transfer(node, now);
        na_pageheap_tick(node, now);
    }
}

void na_tcache_poll(na_tcache_t *tcache) {
    tcache->settles = 0;
    uint64_t now = na_os_ms();
    if (!tcache->away) tcache->home_ms = now;
    if (NA_UNLIKELY(atomic_load_explicit(&na_aside_pending, memory_order_relaxed)))
        na_aside_drain(tcache);
    if (NA_UNLIKELY(tcache->drawn >= TIDY_DRAWN)) {
        if (!na_gate_enter(tcache)) return;
        tidy(tcache);
        na_gate_leave(tcache);
    }
    if (now - tcache->polled_ms < POLL_MS) return;
    tcache->polled_ms = now;
    if (!na_gate_enter(tcache)) return;
    na_remote_flush(tcache);
    if (now - tcache->tidied_ms >= TIDY_MS) {
        tcache->tidied_ms = now;
        tidy(tcache);
    }
    if (NA_UNLIKELY(tcache->pressure_turn != na_pressure_turn())) yield_all(tcache);
    tend_nodes(tcache, now);
    na_gate_leave(tcache);
    if (NA_LIKELY(na_controller != NULL)) na_controller->poll(tcache, now);
}

/* --- fork --- */

static NA_COLD uint64_t forget_bins(na_tcache_t *tcache) {
    uint64_t lost = 0;
    for (unsigned cls = 1; cls < NA_CLASS_COUNT; cls++) {
        na_bin_state_t *state = &tcache->states[cls];
        if (state->cap == 0) continue;
        lost += ((uint64_t)state->count + (uint64_t)state->granted_push) * na_classes[cls].size;
        tcache->bins[cls].head = NULL;
        tcache->bins[cls].pop = tcache->bins[cls].push = 0;
        state->count = 0;
        state->granted_pop = state->granted_push = 0;
    }
    for (unsigned i = 0; i < NA_REMOTE_BATCHES; i++) {
        const na_remote_batch_t *out = &tcache->remote_batches[i];
        lost += (uint64_t)out->count * na_classes[(out->tag & 0xffff) / NA_BIN_SIZE].size;
        tcache->remote_batches[i] = (na_remote_batch_t){0};
    }
    tcache->remote_batches_used = 0;
    return lost;
}

/* With the list lock. What is the thread's own may be in any state: the code that a signal handler
 * interrupted to fork goes on with it. */
static NA_COLD NA_NOINLINE void take_over(void) {
    takeover_due = false;
    uint32_t me = na_thread_tag();
    for (unsigned id = 1; id <= tcache_count; id++) {
        na_tcache_t *tcache = tcaches[id];
        uint32_t phase = atomic_load(&tcache->phase);
        if (phase == NA_TCACHE_ATTACHED && tcache->holder != me) {
            na_fork_lost += forget_bins(tcache);
            if (tcache->ours) ours_attached--;
            tcache->next_idle = idle[tcache->node];
            idle[tcache->node] = tcache;
            count_threads(UINT32_MAX);
            atomic_store(&tcache->phase, NA_TCACHE_ABANDONED);
        } else if (phase > NA_TCACHE_ATTACHED && phase != me) {
            atomic_store(&tcache->phase, NA_TCACHE_ABANDONED);
        }
    }
}

void na_tcache_after_fork_child(bool interrupted) {
    uint32_t me = na_thread_tag();
    for (unsigned id = 1; id <= tcache_count; id++) {
        na_tcache_t *tcache = tcaches[id];
        if ((atomic_load(&tcache->busy) & ~NA_LOCK_AWAITED) != me) atomic_store(&tcache->busy, 0);
        tcache->track.profile = NULL;
        if (tcache->holder != me) atomic_store(&tcache->track.inside, 0);
    }
    interrupted &= na_lock_is_mine(&list_lock);
    na_lock_reset(&list_lock);
    takeover_due = atomic_load(&na_forking) != NA_FORK_LAME;
    if (takeover_due && !interrupted) take_over();
}
