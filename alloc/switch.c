/* switch.c - the handshakes between who switches recording and the threads that run. */
#include "alloc/switch.h"

#include <sys/syscall.h>

#include "alloc/control.h"
#include "alloc/every.h"
#include "alloc/init.h"
#include "alloc/mix.h"
#include "alloc/os.h"
#include "alloc/recording.h"
#include "alloc/sampler.h"
#include "alloc/timing.h"

/* linux/membarrier.h */
#define COMMAND_PRIVATE  (1 << 3)
#define COMMAND_REGISTER (1 << 4)

enum { PATIENCE_MS = 1000 };

_Atomic(uint32_t) na_alarm;
const na_hooks_t na_hooks_paused;
_Atomic(bool) na_switch_by_membarrier;

/* Raised with each switch, before na_alarm: what credits were granted under. */
static _Atomic(uint32_t) switches;
/* Pages that were slow for the sake of a profile may become fast. */
static _Atomic(bool) quicken;
static _Atomic(uint32_t) paused_by; /* id of the heap whose thread holds the profile still */
static _Atomic(uint32_t) pauses;    /* a futex: changes when the profile goes on */
static const na_hooks_t *held;      /* while na_hooks is &na_hooks_paused */

static void raise_alarm(void) {
    atomic_fetch_add(&switches, 1);
    atomic_fetch_add(&na_alarm, NA_ALARM_RAISE);
}

/* --- waiting for threads to leave --- */

/* After it, every thread sees what the caller stored before it, or shows that it is inside. */
static void order_all(void) {
    if (na_switch_by_membarrier)
        na_syscall(SYS_membarrier, COMMAND_PRIVATE, 0, 0, 0, 0, 0);
    else
        atomic_thread_fence(memory_order_seq_cst);
}

static void register_membarrier(void) {
#ifndef __SANITIZE_THREAD__
    /* Threads that announced themselves the dear way before this did more than they have to. */
    na_switch_by_membarrier = na_syscall(SYS_membarrier, COMMAND_REGISTER, 0, 0, 0, 0, 0) == 0 &&
                              na_syscall(SYS_membarrier, COMMAND_PRIVATE, 0, 0, 0, 0, 0) == 0;
#endif
}

typedef struct leaving {
    const na_heap_t *self;
    uint64_t until_ms;
    bool all;
} leaving_t;

static void wait_for(na_heap_t *heap, void *arg) {
    leaving_t *leaving = arg;
    if (heap == leaving->self) return;
    while (leaving->all && atomic_load_explicit(&heap->inside, memory_order_seq_cst) != 0) {
        if (na_os_ms() > leaving->until_ms)
            leaving->all = false;
        else
            na_os_yield();
    }
}

static bool all_left(const na_heap_t *self) {
    leaving_t leaving = {self, na_os_ms() + PATIENCE_MS, true};
    order_all();
    na_heap_each(wait_for, &leaving);
    return leaving.all;
}

/* --- the switch --- */

bool na_switch_prepare(const na_heap_t *self) {
    static bool registered;
    if (!registered) register_membarrier();
    registered = true;
    bool was = atomic_exchange(&quicken, false);
    if (all_left(self)) return true;
    atomic_store(&quicken, was);
    return false;
}

void na_switch_give_up(void) {
    atomic_store(&quicken, !na_strict);
}

void na_switch_on(const na_hooks_t *hooks, bool every_event) {
    atomic_fetch_add(&na_session, 1);
    na_sample_interval = every_event ? 0 : hooks->sample_interval;
    atomic_store_explicit(&na_hooks, hooks, memory_order_release);
    na_every_choose(hooks); /* before a thread can find that every event is wanted */
    na_every_event = every_event || na_strict;
    raise_alarm();
}

bool na_switch_off(const na_heap_t *self) {
    atomic_store(&na_hooks, NULL);
    na_every_event = na_strict;
    na_sample_interval = 0;
    raise_alarm();
    bool all = all_left(self);
    atomic_fetch_add(&na_session, 1);
    atomic_store(&quicken, all && !na_strict);
    return all;
}

bool na_switch_pause(const na_heap_t *self) {
    held = na_hooks;
    atomic_store(&paused_by, self->id);
    atomic_store(&na_hooks, &na_hooks_paused);
    atomic_fetch_or(&na_alarm, NA_ALARM_HELD);
    if (all_left(self)) return true;
    na_switch_resume();
    return false;
}

void na_switch_resume(void) {
    atomic_store(&na_hooks, held);
    atomic_fetch_and(&na_alarm, ~NA_ALARM_HELD);
    atomic_store(&paused_by, 0);
    atomic_fetch_add(&pauses, 1);
    na_os_futex_wake((const uint32_t *)&pauses, INT32_MAX);
}

/* --- the threads' side --- */

bool na_switch_wait(const na_heap_t *heap) {
    uint32_t word = atomic_load(&pauses);
    if (atomic_load(&na_hooks) != &na_hooks_paused) return true;
    if (atomic_load(&paused_by) == heap->id) return false;
    na_os_futex_wait((const uint32_t *)&pauses, word);
    return true;
}

bool na_switch_may_quicken(const na_span_t *span) {
    return atomic_load_explicit(&quicken, memory_order_relaxed) && span->cls != 0 &&
           !span->sampled && !na_is_mixed(span) &&
           atomic_load_explicit(&span->aside, memory_order_relaxed) == 0;
}

static void notice(na_heap_t *heap) {
    heap->alarm = atomic_load_explicit(&na_alarm, memory_order_acquire) & ~NA_ALARM_HELD;
}

/* Whether calls go the ways of every.h. (Those of usual.h do not look at na_session: a thread that
 * has noticed the beginning of a profile, and not its end, is in its session.) */
static void set_every(na_heap_t *heap) {
    heap->every_left = 0;
    heap->timed_from = 0;
    heap->in_realloc = false;
    if (!na_every_event || na_strict) return;
    na_switch_to_session(heap, atomic_load_explicit(&na_session, memory_order_relaxed));
    na_timed_draw(heap);
}

void na_switch_new_heap(na_heap_t *heap) {
    notice(heap);
    heap->switches = atomic_load_explicit(&switches, memory_order_acquire);
    set_every(heap);
}

void na_switch_alarmed(na_heap_t *heap) {
    notice(heap);
    uint32_t now = atomic_load_explicit(&switches, memory_order_acquire);
    if (heap->switches != now) {
        heap->switches = now;
        set_every(heap);
        heap->quick = 0; /* the next settle is thorough; all are while every event is wanted */
        for (unsigned cls = 1; cls < NA_CLASS_COUNT; cls++) {
            if (heap->states[cls].cap == 0) continue;
            na_bin_count(heap, cls);
            heap->states[cls].until_sample = na_sampler_draw(heap); /* has no memory */
            na_bin_grant(heap, cls);
        }
        heap->large_until_sample = na_sampler_draw(heap);
    }
    na_control_attend(heap);
}

void na_switch_after_fork_child(void) {
    if (atomic_load(&na_hooks) == &na_hooks_paused) na_switch_resume();
    atomic_fetch_and(&na_alarm, ~NA_ALARM_HELD); /* the parent was about to */
}

void na_switch_new_process(void) {
    uint32_t session = atomic_fetch_add(&na_session, 1) + 1;
    na_heap_t *heap = na_self;
    if (heap != &na_heap_empty && heap != &na_heap_gone) na_switch_to_session(heap, session);
    raise_alarm();
}
