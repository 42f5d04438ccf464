/* timing.c - drawing the calls that are timed, and what one took. */
#include "alloc/timing.h"

#include "alloc/recording.h"
#include "alloc/sampler.h"

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

void na_timed_draw(na_heap_t *heap) {
    if (NA_UNLIKELY(!atomic_load_explicit(&measured, memory_order_relaxed))) measure_cost();
    heap->every_left = na_sampler_gap(heap, NA_TIMED_EACH) + 1;
}

void na_timed_begin(na_heap_t *heap) {
    heap->timed_out = 0;
    heap->timed_from = na_clock_read();
}

/* What was measured lacks the readings' own part, which is in what surrounds it. */
void na_timed_leave_out(na_heap_t *heap, uint64_t paused) {
    heap->timed_out +=
        na_clock_read() - paused + atomic_load_explicit(&na_clock_cost, memory_order_relaxed);
}

void na_timed_tell(na_heap_t *heap, const na_hooks_t *hooks, na_call_t call, uint64_t ticks) {
    if (hooks->on_timed != NULL) hooks->on_timed(&heap->profile, call, ticks, true);
}

void na_timed_end(na_heap_t *heap, na_call_t call, bool drawn) {
    if (na_self != heap) return; /* the old one may be another thread's by now */
    uint64_t to = na_clock_read(), from = heap->timed_from;
    heap->timed_from = 0;
    if (from == 0) return;
    uint64_t ticks = na_clock_between(from, to);
    ticks -= heap->timed_out < ticks ? heap->timed_out : ticks;
    const na_hooks_t *hooks = na_section_enter(heap);
    if (hooks != NULL && hooks->on_timed != NULL)
        hooks->on_timed(&heap->profile, call, ticks, drawn);
    na_section_leave(heap);
}
