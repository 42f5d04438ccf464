/* fork.c - handlers around fork. */
#include "alloc/core/thread/fork.h"

#include <pthread.h>
#include <stdatomic.h>

#include "alloc/core/cache/large_bins.h"
#include "alloc/core/cache/thread_cache.h"
#include "alloc/core/central/central.h"
#include "alloc/core/page/pageheap.h"
#include "alloc/core/path/seam.h"
#include "alloc/core/sys/lock.h"
#include "alloc/core/sys/os.h"
#include "alloc/core/sys/reserve.h"
#include "alloc/core/sys/thread.h"
#include "alloc/core/sys/tuned.h"
#include "alloc/core/thread/attach.h"
#include "alloc/core/thread/switch.h"
#include "alloc/core/track/track.h"

enum {
    NESTED_MOST = 32,
    PATIENCE_MS = NA_IDLE_MS, /* for others to come out from behind the gate */
    INTERRUPTED_MS =
        NA_IDLE_MS / 20, /* the same, where they may wait for what the forking thread holds, */
    ASLEEP_NS = 1000000, /* and do, as it seems */
};

/* What one call of prepare took, and its parent or child handler gives back. A fork in a handler
 * that interrupted a fork finds some of it taken. */
typedef struct frame {
    bool first, control, list, gate;
    bool whole;     /* nobody was behind the gate when it had been closed */
    unsigned taken; /* by layers beside the core (seam.h) */
} frame_t;

static na_lock_t forking; /* one thread forks at a time */
static frame_t frames[NESTED_MOST];
static unsigned nested; /* of the holder of the lock, as what follows and the frames */

/* --- who is behind the gate --- */

static void mark_busy(na_tcache_t *tcache, void *busy) {
    uint32_t *to = busy, mine = na_thread_tag();
    uint32_t from = *to != 0 ? mine : mine | NA_LOCK_AWAITED;
    atomic_compare_exchange_strong(&tcache->shared.busy, &from, mine | *to);
}

/* Tells other threads that fork not to wait for what this one interrupted, nor to any more. */
static void mark_interrupted(bool on) {
    uint32_t to = on ? NA_LOCK_AWAITED : 0;
    na_tcache_each(mark_busy, &to);
}

typedef struct wait {
    uint32_t me;
    uint64_t until;
    bool interrupted; /* the forking thread is behind a gate itself */
    bool all;
} wait_t;

static void look_for_own(na_tcache_t *tcache, void *arg) {
    wait_t *w = arg;
    if ((atomic_load(&tcache->shared.busy) & ~NA_LOCK_AWAITED) == w->me) w->interrupted = true;
}

static void wait_until_idle(na_tcache_t *tcache, void *arg) {
    wait_t *w = arg;
    uint32_t busy;
    uint64_t awake = na_os_ns(); /* last seen so, as far as can be seen */
    while (w->all && (busy = atomic_load(&tcache->shared.busy)) != 0) {
        if ((busy & ~NA_LOCK_AWAITED) == w->me || busy == NA_GATE_LOST) return;
        uint64_t now = na_os_ns();
        if (!w->interrupted || !na_lock_sleeps(busy)) awake = now;
        if ((busy & NA_LOCK_AWAITED) != 0 || now > w->until || now > awake + ASLEEP_NS)
            w->all = false;
        else
            na_os_yield();
    }
}

static bool wait_for_others(void) {
    wait_t w = {.me = na_thread_tag(), .all = true};
    na_tcache_each(look_for_own, &w);
    w.until = na_os_ns() + (w.interrupted ? INTERRUPTED_MS : PATIENCE_MS) * UINT64_C(1000000);
    na_tcache_each(wait_until_idle, &w);
    return w.all;
}

/* --- the handlers --- */

static void prepare(void) {
    bool first = !na_lock_is_mine(&forking);
    if (first) {
        mark_interrupted(true);
        na_lock(&forking);
    }
    unsigned at = nested;
    nested = at + 1;
    if (at >= NESTED_MOST) return;
    frame_t *f = &frames[at];
    *f = (frame_t){.first = first};
    f->control = na_controller != NULL && na_controller->before_fork();
    f->taken = na_layers_before_fork();
    f->list = na_tcache_lock_list();
    if (atomic_load(&na_forking) == 0) {
        f->gate = true;
        atomic_store(&na_fork_is_long, false);
        atomic_store(&na_forking, na_thread_tag());
    }
    f->whole = atomic_load(&na_forking) != NA_FORK_LAME && wait_for_others();
}

/* The frame of the innermost prepare; NULL: there is none. */
static frame_t *innermost(void) {
    if (!na_lock_is_mine(&forking) || nested == 0) return NULL;
    static frame_t nothing;
    return nested <= NESTED_MOST ? &frames[nested - 1] : &nothing;
}

/* Last: after it the frame is nobody's. */
static void leave(bool first) {
    nested--;
    if (!first) return;
    mark_interrupted(false);
    na_unlock(&forking);
}

static void open_gate(void) {
    atomic_store(&na_fork_is_long, false);
    atomic_store(&na_forking, 0);
}

static void in_parent(void) {
    frame_t *f = innermost();
    if (f == NULL) return;
    if (f->gate && atomic_load(&na_forking) != NA_FORK_LAME) open_gate();
    if (f->list) na_tcache_unlock_list();
    if (f->gate) na_os_futex_wake((const uint32_t *)&na_forking, INT32_MAX);
    na_sampler_forked(false);
    na_layers_after_fork(false, f->taken);
    if (f->control) na_controller->after_fork_parent();
    leave(f->first);
    /* What this fork interrupted has made a child without us, where the call came back as well. */
    if (na_child_is_unknown()) na_child_settle();
}

static void be_lame(void) {
    atomic_store(&na_forking, NA_FORK_LAME);
    atomic_store(&na_fork_is_long, true);
}

/* What other threads held, who are not in this child. */
static void reset_shared(void) {
    na_lock_after_fork_child();
    na_meta_after_fork_child();
    na_span_after_fork_child();
    na_pageheap_after_fork_child();
    na_run_cache_after_fork_child();
    na_central_after_fork_child();
    na_layers_reset();
    na_sampler_forked(true);
    na_switch_forked_samples();
    na_deferred_after_fork_child();
}

/* What interrupted code holds stays as it is: it goes on in the child. */
static void in_child(void) {
    frame_t *f = innermost();
    if (f == NULL) return;
    na_child_is_settled();
    if (!f->whole) be_lame();
    reset_shared();
    bool taken = false; /* the list of thread caches, by a fork */
    for (unsigned i = 0; i < nested && i < NESTED_MOST; i++)
        taken |= frames[i].list;
    na_tcache_after_fork_child(!taken, true);
    if (f->list) na_tcache_unlock_list();
    if (f->whole && f->gate) open_gate();
    if (na_controller != NULL) na_controller->after_fork_child(f->control);
    na_layers_after_fork(true, f->taken);
    na_thread_after_fork_child();
    leave(f->first);
}

NA_COLD bool na_fork_settle(void) {
    if (na_fork_is_inside()) return false; /* in_child is about to, or in_parent */
    nested = 0;
    na_lock_reset(&forking);
    unsigned lost = na_locks_lost();
    reset_shared();
    bool whole = na_locks_lost() == lost && na_tcache_lose_busy();
    if (!whole || atomic_load(&na_forking) == NA_FORK_LAME)
        be_lame();
    else
        open_gate();
    /* A thread that the child has started has no thread cache yet. */
    bool forked = na_self != &na_tcache_empty && na_self != &na_tcache_gone;
    na_tcache_after_fork_child(true, forked);
    if (na_controller != NULL) na_controller->after_fork_child(false);
    na_layers_after_fork(true, 0);
    na_thread_after_fork_child();
    return true;
}

bool na_fork_is_inside(void) {
    return na_lock_is_mine(&forking);
}

int na_fork_within(int (*fork_without)(void)) {
    prepare();
    int pid = fork_without();
    if (pid == 0)
        in_child();
    else
        in_parent();
    return pid;
}

void na_fork_init(void) {
    static atomic_bool done;
    if (!atomic_exchange(&done, true)) pthread_atfork(prepare, in_parent, in_child);
}
