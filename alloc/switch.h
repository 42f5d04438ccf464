/* switch.h - turning recording on, off and still while threads run.
 *
 * The hot path knows nothing of it: what changes is what slow paths find. A thread that is under
 * way on the credits it was granted before the switch notices at its next slow path, whatever that
 * is for, and from then on has no credit at all (mode sites) or what the sampler allows (mode
 * sample). So the bound on what a profile that begins in the middle of a run misses is: of each
 * running thread, in each size class, at most NA_CREDIT_MAX allocations and as many frees of blocks
 * without a record; and no more than that again of a thread that was inside a slow path just then.
 * A thread that uses one class passes a slow path at least every NA_CREDIT_MAX operations, and the
 * first one in any class ends it for all. Nothing that was missed is ever half there: a block that
 * was handed out unseen has no record of this profile, so its free is one of "before".
 *
 * Turning off costs nothing at once: pages stay tagged slow until the first of their blocks is
 * freed (recording.c), then free is as fast as before.
 *
 * One switch at a time (control.c holds a lock); never by a thread that is inside a section. */
#ifndef NUMALLOC_ALLOC_SWITCH_H
#define NUMALLOC_ALLOC_SWITCH_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "alloc/heap.h"
#include "alloc/hooks.h"
#include "pagemap/span.h"

/* What a slow path compares with the heap's word: raised for every switch and every request to
 * control.c. While the profile is held still it is NA_ALARM_HELD more, which no heap's word is. */
extern NA_NEAR _Atomic(uint32_t) na_alarm;
#define NA_ALARM_HELD  1u
#define NA_ALARM_RAISE 2u
/* What na_hooks points to while all threads that meet an event are to wait. */
extern const na_hooks_t na_hooks_paused;

/* Recording can begin: no thread is inside a section of before. False: one has been inside for a
 * second (stopped, or out of a signal handler by longjmp); nothing has changed. After it, the
 * profiler may make everything new; then na_switch_on or na_switch_give_up. */
bool na_switch_prepare(const na_heap_t *self);
/* every_event: mode sites or trace; else samples at the hooks' interval. */
void na_switch_on(const na_hooks_t *hooks, bool every_event);
void na_switch_give_up(void);
/* No hook is called from here on; true: and none is running, the profiler may take everything down.
 * False: as above; it must leave all as it is. */
bool na_switch_off(const na_heap_t *self);
/* Holds all threads at their next event; true: none is inside a hook. False: nothing is held. */
bool na_switch_pause(const na_heap_t *self);
void na_switch_resume(void);

/* A heap that was made just now, before its first draw of the sampler. */
void na_switch_new_heap(na_heap_t *heap);
/* The heap's word differs from na_alarm: takes credits back and does what control.c was asked. */
NA_COLD void na_switch_alarmed(na_heap_t *heap);

/* The heap's word of the profiler is that of this session from now on. */
NA_INLINE void na_switch_to_session(na_heap_t *heap, uint32_t session) {
    if (heap->profile_session == session) return;
    heap->profile_session = session;
    heap->profile = NULL; /* lay in what is no longer there */
}

/* For recording.c. Waits until the profile is no longer held; false: it is held by this thread. */
NA_COLD bool na_switch_wait(const na_heap_t *heap);
bool na_switch_may_quicken(const na_span_t *span);
void na_switch_after_fork_child(void);
/* A child that no fork handler has seen: what the profiler keeps for its threads was the parent's.
 */
void na_switch_new_process(void);

/* Says that the thread is inside a section, before it looks at anything that the switch changes.
 * Where the kernel has membarrier, the switch makes all threads order the two; otherwise, and for
 * ThreadSanitizer, which does not know it, each thread does. */
extern NA_NEAR _Atomic(bool) na_switch_by_membarrier;
NA_INLINE void na_switch_announce(na_heap_t *heap) {
    uint32_t depth = atomic_load_explicit(&heap->inside, memory_order_relaxed);
    if (NA_LIKELY(atomic_load_explicit(&na_switch_by_membarrier, memory_order_relaxed))) {
        atomic_store_explicit(&heap->inside, depth + 1, memory_order_relaxed);
        atomic_signal_fence(memory_order_seq_cst);
    } else {
        atomic_exchange_explicit(&heap->inside, depth + 1, memory_order_seq_cst);
#ifndef __x86_64__ /* where that alone would let later loads come first */
        atomic_thread_fence(memory_order_seq_cst);
#endif
    }
}

#endif
