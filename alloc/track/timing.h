/* timing.h - how long calls of the allocator take, for the profiler.
 *
 * While every event is recorded, one call in NA_TIMED_EACH on average is timed. Each call is drawn
 * with the same probability, independently of all others (gaps are geometric), so the drawn ones
 * of an entry point are a random sample of its calls, whatever the program's rhythm is. Calls for
 * large blocks take microseconds: all of them are timed.
 *
 * What is timed is the allocator, not the profiler:
 *   - a drawn call of the usual kind (traced.c) does between two readings of the clock what it
 *     would do without a profile: takes a block from its bin, or puts one there; calloc clears it,
 *     too;
 *   - in any other, the clock is stopped while a hook runs (recording.c).
 * What the readings themselves take is measured once and taken off.
 *
 * Times are ticks of the time stamp counter, wall time: where a thread is put to sleep within the
 * call, that counts. A call within a call (realloc's) is part of it. Not timed: the call with which
 * a thread begins, and one during which the thread's cache became another. */
#ifndef NUMALLOC_ALLOC_TRACK_TIMING_H
#define NUMALLOC_ALLOC_TRACK_TIMING_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "alloc/sys/base.h"
#include "alloc/track/hooks.h"
#include "alloc/track/track.h"

#define NA_TIMED_EACH 64u

/* The clock, when all that came before has been done and nothing that follows has begun. */
NA_INLINE uint64_t na_clock_read(void) {
#if defined(__x86_64__)
    uint32_t lo, hi;
    __asm__ volatile("lfence\n\trdtsc\n\tlfence" : "=a"(lo), "=d"(hi) : : "memory");
    return (uint64_t)hi << 32 | lo;
#elif defined(__aarch64__)
    uint64_t t;
    __asm__ volatile("isb\n\tmrs %0, cntvct_el0\n\tisb" : "=r"(t) : : "memory");
    return t;
#else
    return 0;
#endif
}

/* Ticks from one reading to the next with nothing in between. */
extern _Atomic(uint32_t) na_clock_cost;

NA_INLINE uint64_t na_clock_between(uint64_t from, uint64_t to) {
    uint64_t cost = atomic_load_explicit(&na_clock_cost, memory_order_relaxed);
    return to - from > cost ? to - from - cost : 0;
}

/* Draws the call that is timed next (track->until_timed). Measures na_clock_cost first of all. */
void na_timed_draw(na_track_t *track);

/* The call of the thread whose thread cache this is began; what it does is timed from here on. A
 * call that is under way (a signal handler interrupted it, or left it by longjmp) is given up. */
void na_timed_begin(na_track_t *track);
/* It ends: of the same cache as at its beginning. Tells the profiler, unless the call was given up.
 */
void na_timed_end(na_track_t *track, na_call_t call, bool drawn);
/* Tells the profiler of a drawn call that took so long; inside a section. */
void na_timed_tell(na_track_t *track, const na_hooks_t *hooks, na_call_t call, uint64_t ticks);

/* Around a hook: what is in between is not the call's. */
NA_INLINE uint64_t na_timed_pause(const na_track_t *track) {
    return NA_LIKELY(track->timed_from == 0) ? 0 : na_clock_read();
}

void na_timed_leave_out(na_track_t *track, uint64_t paused);

NA_INLINE void na_timed_go_on(na_track_t *track, uint64_t paused) {
    if (NA_UNLIKELY(paused != 0)) na_timed_leave_out(track, paused);
}

/* A call for a large block, or of one, that no other call makes. */
NA_INLINE bool na_timed_wants(const na_track_t *track) {
    return NA_UNLIKELY(track->until_timed != 0) && track->timed_from == 0 && !track->in_realloc &&
           na_harden == 0;
}

#endif
