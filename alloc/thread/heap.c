/* heap.c - the life of heaps: made, attached to threads, tidied, detached, adopted. */
#include "alloc/thread/heap.h"

#include <linux/mempolicy.h>
#include <pthread.h>

#include "alloc/api/init.h"
#include "alloc/central/central.h"
#include "alloc/page/pageheap.h"
#include "alloc/page/purge.h"
#include "alloc/page/tight.h"
#include "alloc/page/verify.h"
#include "alloc/sys/lock.h"
#include "alloc/sys/meta.h"
#include "alloc/sys/os.h"
#include "alloc/sys/thread.h"
#include "alloc/sys/topology.h"
#include "alloc/thread/aside.h"
#include "alloc/thread/cache.h"
#include "alloc/thread/keep.h"
#include "alloc/thread/remote.h"
#include "alloc/thread/switch.h"
#include "alloc/thread/young.h"
#include "alloc/track/recording.h"
#include "alloc/track/sampler.h"

enum {
    POLL_MS = 10,           /* the least time between two polls that do something */
    TIDY_MS = 1000,         /* a bin that was not used for so long is emptied */
    TIDY_DRAWN = 256 << 10, /* or while so many bytes were drawn from spans */
    SWEEP_MS = 500,         /* a chain that lay in the depot for so long goes to its spans */
    COOL_MS = 1000,   /* a heap that nobody adopted for so long gives back what is in its bins */
    MOVED_MS = 10,    /* a thread that was not seen at home for so long has moved */
    HEAP_PAGE = 4096, /* what a heap's first part, used by all, is to lie on one of */
};

/* Sections of their own: layout.ld puts what is written of them where other variables are, too. */
__attribute__((section(".bss.heap_empty"))) na_heap_t na_heap_empty;
__attribute__((section(".bss.heap_gone"))) na_heap_t na_heap_gone;
NA_TLS na_heap_t *na_self = &na_heap_empty;

_Atomic(uint32_t) na_forking;
uint64_t na_fork_lost;

static na_lock_t list_lock; /* guards the four below */
NA_SPARSE static na_heap_t *heaps[NA_HEAPS_MAX];
static _Atomic(uint32_t) heap_count; /* ids 1..heap_count are in use */
static na_heap_t *idle[NA_MAX_NODES + 1];
static _Atomic(uint32_t) attached; /* changed by count_threads */
_Atomic(uint32_t) na_bin_share[2];
static _Atomic(uint32_t) ours_attached; /* of the library's own threads */
static _Atomic(uint32_t) most_attached; /* of the program's, since na_heap_forget_most */

/* Detached heaps that kept what was in their bins. An entry is a hint, and its heap's: whoever
 * holds a heap that is not warm any more removes it. */
#define WARM_MOST  16u
#define WARM_BYTES (512u << 10) /* in the bins of one */
#define WARM_ALL   (2u << 20)
#define WARM_MAIL  (128u << 10) /* for one */
static struct {
    _Atomic(na_heap_t *) heap;
    _Atomic(uint32_t) bytes;
    _Atomic(bool) passed; /* it was there when somebody last came to cool */
} warm[WARM_MOST];
static _Atomic(uint64_t) warm_bytes; /* late by what is being added or removed */
static _Atomic(uint64_t) cooled_ms;

static pthread_key_t exit_key;
static _Atomic(uint32_t) exit_key_made; /* 0 no, 1 being made, 2 yes */
static _Atomic(uint64_t) swept_ms[NA_MAX_NODES + 1];

na_heap_t *na_heap_by_id(unsigned id) {
    return heaps[id];
}

unsigned na_heap_count(void) {
    return atomic_load_explicit(&heap_count, memory_order_acquire);
}

unsigned na_heap_attached(void) {
    unsigned count = atomic_load_explicit(&attached, memory_order_relaxed);
    return count != 0 ? count : 1;
}

/* A thread has got a heap (1) or leaves it (less one). Under the heap-list lock. */
static void count_threads(uint32_t change) {
    attached += change;
    uint64_t threads = na_heap_attached();
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

NA_COLD void na_young_surrender(na_heap_t *heap, unsigned cls) {
    if (!na_gate_enter(heap)) return;
    void *list = heap->bins[cls].head;
    heap->bins[cls].head = NULL;
    heap->states[cls].count = 0;
    na_list_home(heap, cls, list);
    na_heap_trim_spans(heap, cls);
    na_gate_leave(heap);
}

unsigned na_heap_most(void) {
    unsigned most = atomic_load_explicit(&most_attached, memory_order_relaxed);
    return most != 0 ? most : 1;
}

void na_heap_forget_most(void) {
    atomic_store_explicit(&most_attached, attached - ours_attached, memory_order_relaxed);
}

/* The calling thread has got this heap. Under the heap-list lock. */
static void note_most(na_heap_t *heap) {
    heap->ours = na_thread_is_ours();
    if (heap->ours) ours_attached++;
    uint32_t now = attached - ours_attached;
    uint32_t most = atomic_load_explicit(&most_attached, memory_order_relaxed);
    while (now > most && !atomic_compare_exchange_weak(&most_attached, &most, now)) {
    }
}

void na_heap_each(void (*visit)(na_heap_t *heap, void *arg), void *arg) {
    unsigned count = na_heap_count();
    for (unsigned id = 1; id <= count; id++)
        visit(heaps[id], arg);
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

bool na_heap_lock_list(void) {
    enum { LONG_MS = 500 };
    return !na_lock_is_mine(&list_lock) && na_lock_for(&list_lock, LONG_MS);
}

void na_heap_unlock_list(void) {
    unlock_list();
}

/* --- warm heaps --- */

static void no_longer_warm(na_heap_t *heap) {
    if (!atomic_load_explicit(&heap->warm, memory_order_relaxed)) return;
    atomic_store(&heap->warm, false);
    for (unsigned i = 0; i < WARM_MOST; i++) {
        if (atomic_load_explicit(&warm[i].heap, memory_order_relaxed) != heap) continue;
        uint32_t bytes = atomic_load_explicit(&warm[i].bytes, memory_order_relaxed);
        atomic_store_explicit(&warm[i].heap, NULL, memory_order_relaxed);
        atomic_fetch_sub_explicit(&warm_bytes, bytes, memory_order_relaxed);
        return;
    }
}

/* Whether a heap about to be detached may keep what is in its bins: a thread that comes soon finds
 * them filled, and emptying all of them is most of what a short-lived thread costs. Not where
 * memory is short, nor blocks that a policy of the thread's own has placed. Behind the gate. */
static bool keep_warm(na_heap_t *heap) {
    if (heap->node == NA_NODE_ANY || na_tight()) return false;
    uint64_t bytes = heap->kept_bytes;
    for (unsigned cls = 1; cls < NA_CLASS_COUNT; cls++) {
        na_bin_t *bin = &heap->bins[cls];
        na_bin_state_t *state = &heap->states[cls];
        if (bin->pop != state->granted_pop || bin->push != state->granted_push) {
            na_bin_count(heap, cls);
            na_bin_grant(heap, cls);
        }
        bytes += (uint64_t)state->count * state->size;
    }
    if (bytes > WARM_BYTES ||
        bytes + atomic_load_explicit(&warm_bytes, memory_order_relaxed) > WARM_ALL)
        return false;
    for (unsigned i = 0; i < WARM_MOST; i++) {
        na_heap_t *none = NULL;
        if (atomic_load_explicit(&warm[i].heap, memory_order_relaxed) != NULL ||
            !atomic_compare_exchange_strong_explicit(&warm[i].heap, &none, heap,
                                                     memory_order_relaxed, memory_order_relaxed))
            continue;
        atomic_store_explicit(&warm[i].bytes, (uint32_t)bytes, memory_order_relaxed);
        atomic_store_explicit(&warm[i].passed, false, memory_order_relaxed);
        atomic_fetch_add_explicit(&warm_bytes, bytes, memory_order_relaxed);
        atomic_store(&heap->warm, true);
        return true;
    }
    return false;
}

void na_heap_cool(bool all) {
    for (unsigned i = 0; i < WARM_MOST; i++) {
        na_heap_t *heap = atomic_load_explicit(&warm[i].heap, memory_order_relaxed);
        if (heap == NULL) continue;
        if (!atomic_exchange_explicit(&warm[i].passed, true, memory_order_relaxed) && !all)
            continue;
        uint32_t phase = NA_HEAP_DETACHED;
        if (!atomic_compare_exchange_strong(&heap->phase, &phase, na_thread_tag())) continue;
        no_longer_warm(heap);
        na_heap_flush(heap);
        atomic_store(&heap->phase, NA_HEAP_DETACHED);
        na_heap_settle_detached(heap); /* mail whose poster saw it borrowed */
    }
}

/* --- attach --- */

/* A policy that the user set for the thread wins over ours: such a thread lives on the pseudo-node,
 * whose regions are not bound. "Local" is what we do anyway, and better. */
static uint8_t own_policy(void) {
    long policy = na_os_task_policy();
    return policy > MPOL_DEFAULT && policy != MPOL_LOCAL ? (uint8_t)policy : MPOL_DEFAULT;
}

unsigned na_heap_node_for_thread(void) {
    if (!na_node_many) return 0;
    return own_policy() != MPOL_DEFAULT ? NA_NODE_ANY : na_node_current();
}

/* An idle heap of the node, or NULL. Waits for a borrower, who is about to finish. */
static na_heap_t *adopt(unsigned node) {
    na_heap_t *heap = idle[node];
    if (heap == NULL) return NULL;
    idle[node] = heap->next_idle;
    heap->holder = na_thread_tag();
    uint32_t phase = NA_HEAP_DETACHED;
    while (!atomic_compare_exchange_weak_explicit(&heap->phase, &phase, NA_HEAP_ATTACHED,
                                                  memory_order_seq_cst, memory_order_relaxed)) {
        phase = NA_HEAP_DETACHED;
        na_os_yield();
    }
    no_longer_warm(heap);
    heap->pinned = false; /* what the last thread saw or said of nodes is not true of the next */
    heap->away = false;
    heap->policy = MPOL_DEFAULT;
    return heap;
}

static na_heap_t *make(unsigned node) {
    uint32_t id = heap_count + 1;
    if (id >= NA_HEAPS_MAX || !na_central_init(node)) return NULL;
    na_heap_t *heap = na_meta_alloc(sizeof *heap, na_os_page < HEAP_PAGE ? na_os_page : HEAP_PAGE);
    if (heap == NULL) return NULL;
    heap->id = (uint16_t)id;
    heap->node = (uint8_t)node;
    heap->track.id = heap->id;
    heap->track.node = heap->node;
    heap->watched = na_node_many;
    heap->bins[0].tag = NA_TAG_NEVER;
    heap->keep_limit = NA_KEEP_LEAST;
    na_switch_new_heap(heap);
    for (unsigned cls = 1; cls < NA_CLASS_COUNT; cls++)
        heap->bins[cls].tag = na_tag(cls, na_classes[cls].pooled ? NA_OWNER_POOL | node : id);
    heap->large_until_sample = na_sampler_draw(&heap->track);
    heap->holder = na_thread_tag();
    heap->phase = NA_HEAP_ATTACHED;
    heaps[id] = heap;
    atomic_store_explicit(&heap_count, id, memory_order_release);
    return heap;
}

/* When all ids are in use (32,766 threads at once) an idle heap of another node will do; NULL when
 * there is none, or no memory. */
static na_heap_t *attach(void) {
    na_init();
    unsigned node = na_heap_node_for_thread();
    if (!lock_list()) return NULL;
    na_heap_t *heap = adopt(node);
    if (heap == NULL) heap = make(node);
    for (unsigned other = 0; heap == NULL && other <= NA_NODE_ANY; other = na_node_next(other))
        heap = adopt(other);
    if (heap != NULL) count_threads(1);
    if (heap != NULL) note_most(heap);
    unlock_list();
    if (heap != NULL && na_node_many) heap->home_ms = na_os_ms();
    return heap;
}

/* Behind the gate. */
static void put_away(na_heap_t *heap) {
    if (atomic_load_explicit(&heap->warm, memory_order_relaxed)) return; /* tried before */
    if (keep_warm(heap))
        na_remote_flush(heap);
    else
        na_heap_flush(heap);
}

/* The list lock keeps fork away as the gate would. (Behind the gate it could not wait for the list
 * lock: a fork holds that while it waits for the gate.) */
static bool try_detach(na_heap_t *heap) {
    if (!na_gate_enter(heap)) return false;
    put_away(heap);
    na_gate_leave(heap);
    if (!lock_list()) return false;
    if (!na_gate_enter(heap)) {
        unlock_list();
        return false;
    }
    if (heap->ours) ours_attached--;
    heap->next_idle = idle[heap->node];
    idle[heap->node] = heap;
    count_threads(UINT32_MAX);
    atomic_store_explicit(&heap->phase, NA_HEAP_DETACHED, memory_order_seq_cst);
    na_gate_leave(heap);
    /* Mail that came before the line above had a poster that saw us attached. */
    na_heap_settle_detached(heap);
    unlock_list();
    return true;
}

static NA_NOINLINE void detach(na_heap_t *heap) {
    if (heap->track.profile != NULL) na_record_thread_exit(&heap->track);
    if (NA_LIKELY(try_detach(heap))) return;
    heap->holder = 0;
    na_aside_heap_later(heap);
}

NA_COLD bool na_heap_detach_late(na_heap_t *heap) {
    return try_detach(heap);
}

/* Destructor of the thread-specific key. Other destructors, and glibc itself, may call malloc and
 * free after it; na_heap_enter serves them one by one. */
static void at_thread_exit(void *arg) {
    na_self = &na_heap_gone;
    detach(arg);
}

static void watch_thread_exit(na_heap_t *heap) {
    uint32_t state = 0;
    if (atomic_compare_exchange_strong(&exit_key_made, &state, 1)) {
        int failed = pthread_key_create(&exit_key, at_thread_exit);
        atomic_store(&exit_key_made, failed ? 0 : 2);
    } else {
        while (atomic_load(&exit_key_made) == 1)
            na_os_yield();
    }
    /* May call calloc for its second-level table: na_self is set already. */
    if (atomic_load(&exit_key_made) == 2) pthread_setspecific(exit_key, heap);
}

/* --- nodes --- */

na_heap_t *na_heap_move(na_heap_t *heap, unsigned node, bool pinned) {
    na_heap_t *there = heap;
    if (node != heap->node) {
        /* While a fork is under way, perhaps by this very thread, it moves later. */
        if (!lock_list()) return heap;
        there = adopt(node);
        if (there == NULL) there = make(node);
        if (there != NULL) count_threads(1);
        unlock_list();
        if (there == NULL) return heap;
    }
    there->pinned = pinned;
    there->away = false;
    there->home_ms = na_os_ms();
    if (there == heap) return heap;
    there->ours = heap->ours;
    heap->ours = false;
    there->track.profile = heap->track.profile;
    there->track.session = heap->track.session;
    /* Of the two, it may be the one that has noticed the last switch. */
    na_section_renew(&there->track, atomic_load_explicit(&na_session, memory_order_relaxed));
    heap->track.profile = NULL;
    na_self = there;
    watch_thread_exit(there);
    detach(heap);
    return there;
}

static bool is_cpu_of(unsigned cpu, unsigned node) {
    return na_node_of_cpu(cpu) == node;
}

/* Until it is known whether the thread has moved, every malloc and free of it is a slow path, so
 * that the first one after it is known acts on it (na_bin_grant grants nothing meanwhile). */
static void revoke_credits(na_heap_t *heap) {
    for (unsigned cls = 1; cls < NA_CLASS_COUNT; cls++)
        na_bin_count(heap, cls);
}

/* The thread runs on another node than its heap's. It has moved there when it may not run at home
 * any more; or when this is the second slow path in a row that sees it there, and for MOVED_MS none
 * has seen it at home: schedulers carry threads over a border and back, and moving a heap is work.
 * So whatever is allocated once the thread has been there for MOVED_MS (and what the clock is
 * coarse by) and has passed two slow paths, in whatever order, is of that node. */
static NA_COLD na_heap_t *seen_away(na_heap_t *heap, unsigned node) {
    if (heap->away && heap->away_node == node) {
        if (na_os_ms() - heap->home_ms < MOVED_MS) return heap;
    } else {
        heap->away = true;
        heap->away_node = (uint8_t)node;
        revoke_credits(heap);
        if (na_os_may_run_on(is_cpu_of, heap->node)) return heap;
    }
    return na_heap_move(heap, node, false);
}

static na_heap_t *watch(na_heap_t *heap) {
    if (heap->pinned || heap->node == NA_NODE_ANY) return heap;
    unsigned node = na_node_current();
    if (NA_UNLIKELY(node != heap->node)) return seen_away(heap, node);
    heap->away = false;
    return heap;
}

bool na_heap_is_away(const na_heap_t *heap) {
    if (heap->pinned || heap->node == NA_NODE_ANY) return false;
    return heap->away || na_node_current() != heap->node;
}

na_heap_t *na_heap_check_policy(na_heap_t *heap) {
    if (heap->pinned || na_self != heap) return heap;
    uint8_t policy = own_policy();
    if (NA_LIKELY(policy == heap->policy)) return heap;
    bool own = policy != MPOL_DEFAULT;
    if (own != (heap->node == NA_NODE_ANY))
        heap = na_heap_move(heap, own ? NA_NODE_ANY : na_node_current(), false);
    if (!own || heap->node != NA_NODE_ANY) return heap;
    /* What lies free may have been placed by another policy: for a program that changes its own,
     * not for threads that have different ones at the same time. */
    static _Atomic(uint8_t) last;
    heap->policy = policy;
    if (atomic_exchange(&last, policy) == policy || !na_gate_enter(heap)) return heap;
    na_heap_flush(heap);
    na_central_trim(NA_NODE_ANY);
    na_pageheap_trim(NA_NODE_ANY, 0);
    na_gate_leave(heap);
    return heap;
}

/* Races with other threads' decrements; whoever wins, the credit stays near zero (heap.h). */
NA_RACES_WITH_EMPTY static void reset_credits(na_heap_t *shared) {
    for (unsigned cls = 0; cls < NA_CLASS_COUNT; cls++)
        if (*(volatile int16_t *)&shared->bins[cls].pop < 0)
            *(volatile int16_t *)&shared->bins[cls].pop = 0;
}

na_heap_t *na_heap_enter(void) {
    na_heap_t *heap = na_self;
    if (NA_LIKELY(heap != &na_heap_empty && heap != &na_heap_gone)) {
        if (NA_UNLIKELY(heap->track.alarm != atomic_load_explicit(&na_alarm, memory_order_acquire)))
            na_switch_alarmed(heap);
        return NA_LIKELY(!na_heap_watched(heap)) ? heap : watch(heap);
    }
    reset_credits(heap);
    bool last_breath = heap == &na_heap_gone;
    heap = attach();
    if (heap != NULL && !last_breath) {
        na_self = heap;
        watch_thread_exit(heap);
    }
    if (heap != NULL && heap->track.alarm != atomic_load_explicit(&na_alarm, memory_order_acquire))
        na_switch_alarmed(heap);
    return heap;
}

void na_heap_leave(na_heap_t *heap) {
    if (NA_UNLIKELY(na_self == &na_heap_gone)) detach(heap);
}

/* --- the gate --- */

_Atomic(bool) na_fork_is_long;

/* Behind the gate, where a fork, or its own signal handler, finds the thread. */
static NA_COLD bool may_stay(void) {
    uint32_t forking = atomic_load(&na_forking);
    return forking == 0 || forking == na_thread_tag(); /* the forking thread's own calls pass */
}

NA_COLD bool na_gate_wait(na_heap_t *heap, bool mine) {
    uint32_t me = na_thread_tag();
    for (;;) {
        if (mine && may_stay()) return true;
        if (mine) atomic_store(&heap->busy, 0);
        uint32_t holder = mine ? 0 : atomic_load(&heap->busy) & ~NA_LOCK_AWAITED;
        if (holder == me || na_aside_is_time()) { /* or: what this signal handler interrupted */
            heap->refused = true;
            return false;
        }
        if (!may_stay())
            na_aside_wait();
        else if (holder != 0)
            na_os_yield(); /* a poster is putting our mail into our spans */
        uint32_t nobody = 0;
        mine = atomic_compare_exchange_strong(&heap->busy, &nobody, me);
    }
}

/* --- mail of the detached --- */

na_chain_t na_heap_take_mail(na_heap_t *heap, unsigned cls) {
    if (atomic_load_explicit(&heap->mail[cls], memory_order_relaxed) == 0) return 0;
    na_chain_t stack = atomic_exchange_explicit(&heap->mail[cls], 0, memory_order_acquire);
    uint64_t blocks = 0;
    for (na_chain_t chain = stack; chain != 0; chain = *na_chain_next(chain))
        blocks += na_chain_count(chain);
    uint32_t taken = atomic_load_explicit(&heap->mail_taken, memory_order_relaxed);
    atomic_store_explicit(&heap->mail_taken, taken + 1, memory_order_relaxed);
    atomic_fetch_sub_explicit(&heap->mail_bytes, blocks * na_classes[cls].size,
                              memory_order_relaxed);
    return stack;
}

/* Puts the mail of one class into the spans it came from; only who holds the heap. */
static void sort_mail(na_heap_t *heap, unsigned cls) {
    na_chain_t chain = na_heap_take_mail(heap, cls);
    while (chain != 0) {
        na_chain_t next = *na_chain_next(chain);
        na_list_home(heap, cls, na_chain_first(chain));
        chain = next;
    }
}

void na_heap_sort_mail(na_heap_t *heap) {
    for (unsigned cls = 1; cls < NA_CLASS_COUNT; cls++) {
        if (atomic_load_explicit(&heap->mail[cls], memory_order_relaxed) == 0) continue;
        sort_mail(heap, cls);
        na_heap_trim_spans(heap, cls);
    }
}

static bool has_mail(const na_heap_t *heap) {
    for (unsigned cls = 1; cls < NA_CLASS_COUNT; cls++)
        if (atomic_load_explicit(&heap->mail[cls], memory_order_seq_cst) != 0) return true;
    return false;
}

void na_heap_settle_detached(na_heap_t *heap) {
    if (atomic_load(&heap->warm) &&
        atomic_load_explicit(&heap->mail_bytes, memory_order_relaxed) <= WARM_MAIL)
        return;
    while (has_mail(heap)) {
        uint32_t phase = NA_HEAP_DETACHED;
        if (!atomic_compare_exchange_strong(&heap->phase, &phase, na_thread_tag()))
            return; /* adopted, or another poster is at it: whoever holds it looks again */
        na_heap_sort_mail(heap);
        atomic_store(&heap->phase, NA_HEAP_DETACHED);
    }
}

void na_heap_settle_absent(na_heap_t *heap) {
    uint32_t idle = 0;
    if (!atomic_compare_exchange_strong(&heap->busy, &idle, na_thread_tag())) return;
    /* Looked at behind its gate, where it is not changed: who detaches holds the gate. */
    if (atomic_load(&heap->phase) == NA_HEAP_ATTACHED) {
        na_heap_sort_mail(heap);
        atomic_store_explicit(&heap->mail_seen, /* it was not the thread that took it */
                              atomic_load_explicit(&heap->mail_taken, memory_order_relaxed),
                              memory_order_relaxed);
    }
    na_gate_leave(heap);
}

/* --- threads that sleep --- */

static void reclaim(na_heap_t *heap) {
    uint32_t idle = 0;
    if (!atomic_compare_exchange_strong(&heap->busy, &idle, na_thread_tag())) return;
    if (atomic_load(&heap->phase) == NA_HEAP_ATTACHED) na_keep_reclaim(heap);
    na_gate_leave(heap);
}

void na_heap_reclaim(na_heap_t *self) {
    enum { AT_ONCE = 256 }; /* heaps: that there are thousands must not cost any thread much */
    static _Atomic(uint32_t) next;
    na_heap_cool(false);
    unsigned count = na_heap_count(), visits = count < AT_ONCE ? count : AT_ONCE;
    uint32_t first = atomic_fetch_add_explicit(&next, visits, memory_order_relaxed);
    for (unsigned i = 0; i < visits; i++) {
        na_heap_t *heap = heaps[1 + (first + i) % count];
        if (heap != self) reclaim(heap);
    }
}

/* --- tidying --- */

void na_heap_flush(na_heap_t *heap) {
    for (unsigned cls = 1; cls < NA_CLASS_COUNT; cls++) {
        na_bin_state_t *state = &heap->states[cls];
        const na_class_t *c = &na_classes[cls];
        if (state->cap == 0) continue;
        na_bin_count(heap, cls);
        na_bin_empty(heap, cls);
        sort_mail(heap, cls);
        na_heap_trim_spans(heap, cls);
        /* The next thread likely does what this one did. The first filling of a bin doubles what it
         * may hold: without halving, threads that fill a bin once would raise it one by one. */
        state->cap = state->cap / 2 > c->cap_first ? state->cap / 2 : c->cap_first;
        state->reused /= 2;
        na_bin_grant(heap, cls);
    }
    na_remote_flush(heap);
}

/* Memory is short, and all that can be reached was given back: so is what lies in caches. */
static NA_COLD void yield_all(na_heap_t *heap) {
    heap->tight_turn = na_tight_turn();
    na_heap_flush(heap);
    na_heap_cool(true);
    na_central_trim(heap->node);
}

/* Empties the bins that were not used since the last time. */
static void tidy(na_heap_t *heap) {
    heap->drawn = 0;
    for (unsigned cls = 1; cls < NA_CLASS_COUNT; cls++) {
        na_bin_state_t *state = &heap->states[cls];
        if (state->cap == 0) continue;
        na_bin_count(heap, cls);
        if (!state->used) {
            na_bin_empty(heap, cls);
            sort_mail(heap, cls);
            na_heap_trim_spans(heap, cls);
            state->cap = na_classes[cls].cap_first;
            state->reused = 0;
        }
        na_keep_age(heap, cls);
        state->used = false;
        na_bin_grant(heap, cls);
    }
}

static void sweep_depot(unsigned node, uint64_t now) {
    uint64_t last = atomic_load_explicit(&swept_ms[node], memory_order_relaxed);
    if (now - last >= SWEEP_MS && atomic_compare_exchange_strong(&swept_ms[node], &last, now))
        na_central_sweep(node);
}

static void tend_nodes(na_heap_t *heap, uint64_t now) {
    uint64_t last = atomic_load_explicit(&cooled_ms, memory_order_relaxed);
    if (now - last >= COOL_MS && atomic_compare_exchange_strong(&cooled_ms, &last, now))
        na_heap_reclaim(heap);
    if (NA_LIKELY(!na_heap_watched(heap))) {
        sweep_depot(heap->node, now);
        na_pageheap_tick(heap->node, now);
        return;
    }
    if (na_topology_poll(now)) {
        na_verify_soon();
        uint64_t back = na_topology_take_back();
        for (; back != 0; back &= back - 1)
            na_verify_bring_back((unsigned)__builtin_ctzll(back));
    }
    na_verify_nodes(now);
    for (unsigned node = 0; node <= NA_NODE_ANY; node = na_node_next(node)) {
        sweep_depot(node, now);
        na_pageheap_tick(node, now);
    }
}

void na_heap_poll(na_heap_t *heap) {
    heap->settles = 0;
    uint64_t now = na_os_ms();
    if (!heap->away) heap->home_ms = now;
    if (NA_UNLIKELY(atomic_load_explicit(&na_aside_pending, memory_order_relaxed)))
        na_aside_drain(heap);
    if (NA_UNLIKELY(heap->drawn >= TIDY_DRAWN)) {
        if (!na_gate_enter(heap)) return;
        tidy(heap);
        na_gate_leave(heap);
    }
    if (now - heap->polled_ms < POLL_MS) return;
    heap->polled_ms = now;
    if (!na_gate_enter(heap)) return;
    na_remote_flush(heap);
    if (now - heap->tidied_ms >= TIDY_MS) {
        heap->tidied_ms = now;
        tidy(heap);
    }
    if (NA_UNLIKELY(heap->tight_turn != na_tight_turn())) yield_all(heap);
    tend_nodes(heap, now);
    na_gate_leave(heap);
    if (NA_LIKELY(na_controller != NULL)) na_controller->poll(heap, now);
}

/* --- fork --- */

static NA_COLD uint64_t forget_bins(na_heap_t *heap) {
    uint64_t lost = 0;
    for (unsigned cls = 1; cls < NA_CLASS_COUNT; cls++) {
        na_bin_state_t *state = &heap->states[cls];
        if (state->cap == 0) continue;
        lost += ((uint64_t)state->count + (uint64_t)state->granted_push) * na_classes[cls].size;
        heap->bins[cls].head = NULL;
        heap->bins[cls].pop = heap->bins[cls].push = 0;
        state->count = 0;
        state->granted_pop = state->granted_push = 0;
    }
    for (unsigned i = 0; i < NA_OUTGOING; i++) {
        const na_outgoing_t *out = &heap->outgoing[i];
        lost += (uint64_t)out->count * na_classes[(out->tag & 0xffff) / NA_BIN_SIZE].size;
        heap->outgoing[i] = (na_outgoing_t){0};
    }
    heap->outgoing_lists = 0;
    return lost;
}

/* With the list lock. What is the thread's own may be in any state: the code that a signal handler
 * interrupted to fork goes on with it. */
static NA_COLD NA_NOINLINE void take_over(void) {
    takeover_due = false;
    uint32_t me = na_thread_tag();
    for (unsigned id = 1; id <= heap_count; id++) {
        na_heap_t *heap = heaps[id];
        uint32_t phase = atomic_load(&heap->phase);
        if (phase == NA_HEAP_ATTACHED && heap->holder != me) {
            na_fork_lost += forget_bins(heap);
            if (heap->ours) ours_attached--;
            heap->next_idle = idle[heap->node];
            idle[heap->node] = heap;
            count_threads(UINT32_MAX);
            atomic_store(&heap->phase, NA_HEAP_DETACHED);
        } else if (phase > NA_HEAP_ATTACHED && phase != me) {
            atomic_store(&heap->phase, NA_HEAP_DETACHED);
        }
    }
}

void na_heap_after_fork_child(bool interrupted) {
    uint32_t me = na_thread_tag();
    for (unsigned id = 1; id <= heap_count; id++) {
        na_heap_t *heap = heaps[id];
        if ((atomic_load(&heap->busy) & ~NA_LOCK_AWAITED) != me) atomic_store(&heap->busy, 0);
        heap->track.profile = NULL;
        if (heap->holder != me) atomic_store(&heap->track.inside, 0);
    }
    interrupted &= na_lock_is_mine(&list_lock);
    na_lock_reset(&list_lock);
    takeover_due = atomic_load(&na_forking) != NA_FORK_LAME;
    if (takeover_due && !interrupted) take_over();
}
