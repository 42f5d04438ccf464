/* usual.c - malloc and free in modes sites and trace, each in one piece from where the hot path is
 * missed to the counters, or to the units of the event: na_traced_take and na_traced_give with the
 * hooks of the mode (count.h, tell.h) inlined.
 * What handing on costs (a call, registers saved, arguments) is a fifth of an event. */
#include "alloc/core/malloc/small.h"
#include "alloc/record/recording.h"
#include "profiler/record/access/access_priv.h"
#include "profiler/record/events/count.h"
#include "profiler/record/events/tell.h"

NA_INLINE void on_alloc(void **prof, na_record_t *record, void *block, size_t requested,
                        size_t usable, na_entry_t entry, const void *entered) {
    count_on_alloc(prof, record, block, requested, usable, entry, entered, NA_COUNT_USUAL);
}

NA_INLINE void on_free(void **prof, const na_record_t *record, void *block, size_t usable,
                       na_release_t how, const void *moved_to) {
    count_on_free(prof, record, block, usable, how, moved_to, NA_COUNT_USUAL);
}

/* The usual calls, whatever is recorded of them (inlined). */
NA_INLINE void *alloc_by(size_t requested, na_entry_t entry, na_tcache_t *tcache, unsigned cls,
                         na_on_alloc_t *const on) {
    if (NA_UNLIKELY(na_traced_is_drawn(tcache)))
        return na_traced_alloc_timed(requested, entry, tcache, cls);
    void *block = na_traced_take(requested, entry, tcache, cls, on, NA_TRACED);
    return NA_LIKELY(block != NULL) ? block : na_alloc_slow(requested, entry, cls, NULL);
}

NA_INLINE void free_by(void *block, na_release_t how, na_tcache_t *tcache, na_on_free_t *const on) {
    if (NA_UNLIKELY(na_traced_is_drawn(tcache)))
        na_traced_free_timed(block, how, tcache);
    else if (NA_UNLIKELY(!na_traced_give(block, how, tcache, on, NA_TRACED)))
        na_traced_free_rest(block, how, tcache, false);
}

static void *alloc_usual(size_t requested, na_entry_t entry, na_tcache_t *tcache, unsigned cls) {
    return alloc_by(requested, entry, tcache, cls, on_alloc);
}

static void free_usual(void *block, na_release_t how, na_tcache_t *tcache) {
    free_by(block, how, tcache, on_free);
}

/* How long the block is does not have to be known: usual ones are small. */
static void free_noted(void *block, na_release_t how, na_tcache_t *tcache) {
    if (NA_UNLIKELY(na_deaths_is_watched((uintptr_t)block, NA_SMALL_MAX) || na_deaths_all()) &&
        NA_LIKELY(atomic_load_explicit(&na_access_on, memory_order_acquire)))
        na_traced_free(block, how, tcache);
    else
        free_usual(block, how, tcache);
}

NA_INLINE void on_trace_alloc(void **prof, na_record_t *record, void *block, size_t requested,
                              size_t usable, na_entry_t entry, const void *entered) {
    na_trace_alloc_event(prof, record, block, requested, usable, entry, entered);
}

NA_INLINE void on_trace_free(void **prof, const na_record_t *record, void *block, size_t usable,
                             na_release_t how, const void *moved_to) {
    na_trace_free_event(prof, record, block, usable, how, moved_to, true);
}

static void *alloc_traced(size_t requested, na_entry_t entry, na_tcache_t *tcache, unsigned cls) {
    return alloc_by(requested, entry, tcache, cls, on_trace_alloc);
}

static void free_traced(void *block, na_release_t how, na_tcache_t *tcache) {
    free_by(block, how, tcache, on_trace_free);
}

const na_misses_t na_usual_trace = {alloc_traced, free_traced};
const na_misses_t na_usual_sites = {alloc_usual, free_usual};
const na_misses_t na_usual_noted = {alloc_usual, free_noted};
