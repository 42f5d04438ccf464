/* rthreads.h - how an event gets its thread's state, and gives it back. */
#ifndef NUMALLOC_RECORD_RTHREADS_H
#define NUMALLOC_RECORD_RTHREADS_H

#include "profiler/record/state.h"
#include "profiler/record/sys.h"

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
/* The thread ends: its state will serve another. */
void na_rthread_retire(na_rthread_t *t);

/* Is the heap's word this thread's state? In a child that no fork handler has seen it may point
 * anywhere inside what is now something else. */
NA_INLINE bool na_rthread_is_mine(const na_rthread_t *t) {
    uintptr_t offset = (uintptr_t)t - (uintptr_t)na_rec.own;
    return offset < atomic_load_explicit(&na_rec.own_used, memory_order_relaxed) && t->self == t &&
           t->owner == na_thread_pointer();
}

NA_INLINE void na_rthread_leave_quietly(void) {
    atomic_signal_fence(memory_order_seq_cst);
    na_rthread_inside = false;
}

/* The calling thread's state; NULL: this event cannot be recorded. After it, na_rthread_leave. */
NA_INLINE na_rthread_t *na_rthread_enter(void **prof) {
    if (NA_UNLIKELY(na_rthread_inside)) {
        na_rec_lost_inside();
        return NULL;
    }
    na_rthread_inside = true;
    atomic_signal_fence(memory_order_seq_cst);
    na_rthread_t *t = NULL;
    if (NA_LIKELY(na_rec_ready()))
        t = NA_LIKELY(na_rthread_is_mine(*prof)) ? *prof : na_rthread_attach(prof);
    if (NA_UNLIKELY(t == NULL)) na_rthread_leave_quietly();
    return t;
}

NA_INLINE void na_rthread_leave(na_rthread_t *t) {
    (void)t;
    na_rthread_leave_quietly();
}

#endif
