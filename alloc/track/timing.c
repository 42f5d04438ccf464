/* timing.c - drawing the calls that are timed, and what one took. */
#include "alloc/track/timing.h"

#include "alloc/track/sampler.h"
#include "alloc/track/section.h"

_Atomic(uint32_t) na_clock_cost;
static _Atomic(bool) measured;

/* The least of some: whatever is in a longer one (an interrupt, a miss) is not the readings'.
 * Threads that do it at the same time find the same. */
static NA_COLD void measure_cost(void) {
    uint64_t least = UINT32_MAX;
    for (unsigned i = 0; i < 256; i++) {
        uint64_t from = na_clock_read(), ticks = na_clock_read() - from;
        if (ticks < least) least = ticks;
    }
    atomic_store_explicit(&na_clock_cost, (uint32_t)least, memory_order_relaxed);
    atomic_store_explicit(&measured, true, memory_order_relaxed);
}

void na_timed_draw(na_track_t *track) {
    if (NA_UNLIKELY(!atomic_load_explicit(&measured, memory_order_relaxed))) measure_cost();
    track->until_timed = na_sampler_gap(track, NA_TIMED_EACH) + 1;
}

void na_timed_begin(na_track_t *track) {
    track->timed_out = 0;
    track->timed_from = na_clock_read();
}

/* What was measured lacks the readings' own part, which is in what surrounds it. */
void na_timed_leave_out(na_track_t *track, uint64_t paused) {
    track->timed_out +=
        na_clock_read() - paused + atomic_load_explicit(&na_clock_cost, memory_order_relaxed);
}

void na_timed_tell(na_track_t *track, const na_hooks_t *hooks, na_call_t call, uint64_t ticks) {
    if (hooks->on_timed != NULL) hooks->on_timed(&track->profile, call, ticks, true);
}

void na_timed_end(na_track_t *track, na_call_t call, bool drawn) {
    uint64_t to = na_clock_read(), from = track->timed_from;
    track->timed_from = 0;
    if (from == 0) return;
    uint64_t ticks = na_clock_between(from, to);
    ticks -= track->timed_out < ticks ? track->timed_out : ticks;
    const na_hooks_t *hooks = na_section_enter(track);
    if (hooks != NULL && hooks->on_timed != NULL)
        hooks->on_timed(&track->profile, call, ticks, drawn);
    na_section_leave(track);
}
