/* section.h - where threads are while they touch records or call hooks.
 *
 * What reads or changes records, and every call of a hook, runs between na_section_enter and
 * na_section_leave: the switch (thread/switch.h) waits until no thread is there. They nest, for the
 * sake of signal handlers. */
#ifndef NUMALLOC_ALLOC_TRACK_SECTION_H
#define NUMALLOC_ALLOC_TRACK_SECTION_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "alloc/track/hooks.h"
#include "alloc/track/track.h"

/* What a slow path compares with the thread's word: raised for every switch, every request to the
 * controller, and when a profile that was held still goes on. While it is held still the alarm is
 * NA_ALARM_HELD more, which no thread's word is. */
extern NA_NEAR _Atomic(uint32_t) na_alarm;
#define NA_ALARM_HELD  1u
#define NA_ALARM_RAISE 2u

/* There is a switch, or a request, that the thread has not noticed (na_switch_alarmed). */
NA_INLINE bool na_section_alarmed(const na_track_t *track) {
    return track->alarm != atomic_load_explicit(&na_alarm, memory_order_acquire);
}

/* What na_hooks points to while all threads that meet an event are to wait. */
extern NA_NEAR const na_hooks_t na_hooks_paused;

/* The thread's word of the profiler is that of this session from now on. */
NA_INLINE void na_section_join(na_track_t *track, uint32_t session) {
    if (track->session == session) return;
    track->session = session;
    track->profile = NULL; /* lay in what is no longer there */
}

/* Says that the thread is inside a section, before it looks at anything that the switch changes.
 * Where the kernel has membarrier, the switch makes all threads order the two; otherwise, and for
 * ThreadSanitizer, which does not know it, each thread does. */
extern NA_NEAR _Atomic(bool) na_section_by_membarrier;
NA_INLINE void na_section_announce(na_track_t *track) {
    uint32_t depth = atomic_load_explicit(&track->inside, memory_order_relaxed);
    if (NA_LIKELY(atomic_load_explicit(&na_section_by_membarrier, memory_order_relaxed))) {
        atomic_store_explicit(&track->inside, depth + 1, memory_order_relaxed);
        atomic_signal_fence(memory_order_seq_cst);
    } else {
        atomic_exchange_explicit(&track->inside, depth + 1, memory_order_seq_cst);
#ifndef __x86_64__ /* where that alone would let later loads come first */
        atomic_thread_fence(memory_order_seq_cst);
#endif
    }
}

/* na_section_enter while the profile is held still, or in a session that is new to the thread. */
const na_hooks_t *na_section_enter_slow(na_track_t *track);

NA_INLINE void na_section_leave(na_track_t *track) {
    uint32_t depth = atomic_load_explicit(&track->inside, memory_order_relaxed);
    atomic_store_explicit(&track->inside, depth - 1, memory_order_release);
}

/* The hooks to call, or NULL; waits while the profile is held still. */
NA_INLINE const na_hooks_t *na_section_enter(na_track_t *track) {
    na_section_announce(track);
    const na_hooks_t *hooks = atomic_load_explicit(&na_hooks, memory_order_acquire);
    if (NA_UNLIKELY(hooks == &na_hooks_paused) ||
        NA_UNLIKELY(track->session != atomic_load_explicit(&na_session, memory_order_relaxed))) {
        na_section_leave(track);
        return na_section_enter_slow(track);
    }
    return hooks;
}

/* For the switch. Threads announce themselves by plain stores from now on, if the kernel lets. */
void na_section_use_membarrier(void);
/* After it, every thread sees what the caller stored before it, or shows that it is inside. */
void na_section_order_all(void);
/* Threads that meet an event wait, but the one of `self`; until the profile goes on. */
void na_section_hold(const na_track_t *self);
void na_section_release(void);

#endif
