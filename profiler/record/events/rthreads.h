/* rthreads.h - how an event gets its thread's state, and gives it back. */
#ifndef NUMALLOC_PROFILER_RECORD_EVENTS_RTHREADS_H
#define NUMALLOC_PROFILER_RECORD_EVENTS_RTHREADS_H

#include "alloc/core/sys/syscall.h"
#include "profiler/record/state/state.h"

/* The calling thread is inside the recorder: an event of a signal handler that interrupts it there
 * is counted as lost, because the thread's state is half changed and locks may be held. */
extern NA_TLS bool na_rthread_inside;
/* What the calling thread allocates is the recorder's own: not the program's, and not lost. Set
 * together with na_rthread_inside. */
extern NA_TLS bool na_rthread_own;

/* Gives the calling thread a state and stores it in *prof. NULL: no memory; counted as lost. */
NA_COLD na_rthread_t *na_rthread_attach(void **prof);
/* The thread, or the process, ends: publishes what it holds back, stores name and end. */
void na_rthread_end(na_rthread_t *t);
/* A thread that runs may have got its name after its first event. For any thread; no hook may be
 * running. */
void na_rthread_rename(na_rthread_t *t);
/* The thread ends: its state will serve another. */
void na_rthread_retire(na_rthread_t *t);

/* For the recorder's own threads, once a second or so: the program's have all ended, and the caller
 * is to return, after it left the profile as one that has no such thread. What the process still
 * does at its end is then recorded as the program's. */
bool na_rthread_left_alone(void);

NA_COLD void na_rthread_change_node(na_rthread_t *t, uint8_t node);

/* na_rthread_enter where the word holds no state of this process, or nothing is recorded. */
na_rthread_t *na_rthread_enter_slow(void **prof);

/* The calling thread's state; NULL: this event cannot be recorded. After it, na_rthread_leave. */
NA_INLINE na_rthread_t *na_rthread_enter(void **prof) {
    if (NA_UNLIKELY(na_rthread_inside)) {
        na_rec_lost_inside();
        return NULL;
    }
    na_rthread_inside = true;
    atomic_signal_fence(memory_order_seq_cst);
    na_rthread_t *t = *prof;
    if (NA_LIKELY(t != NULL) &&
        NA_LIKELY(atomic_load_explicit(na_rec_sentinel, memory_order_acquire) == NA_REC_OPEN))
        return t;
    return na_rthread_enter_slow(prof);
}

/* What the thread allocates from now on is this node's. */
NA_INLINE void na_rthread_on_node(na_rthread_t *t, uint8_t node) {
    if (NA_UNLIKELY(t->node != node)) na_rthread_change_node(t, node);
}

NA_INLINE void na_rthread_leave(void) {
    atomic_signal_fence(memory_order_seq_cst);
    na_rthread_inside = false;
}

#endif
