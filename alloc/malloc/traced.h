/* traced.h - malloc and free of small blocks while every event is recorded.
 *
 * In modes sites and trace each call misses the hot path (switch.h), and nearly all of them are
 * alike: the bin has a block, or room; nothing is due; the block's span has records. These are done
 * here, in one piece. Whatever is different is the slow path's (small.c), and nothing has been
 * changed for it yet.
 *
 * An event itself is recording.h's, and there is one of each kind: na_event_alloc, na_event_free.
 * Here as there, they call the hook of the table. A profiler may have its own hook inlined, which
 * is a constant then, by giving na_traced_take and na_traced_give a function of its own
 * (na_hooks_t.traced_alloc, profiler/record/usual.c): the same code, with one call less.
 *
 * Where blocks are guarded, each malloc counts down to the next block that is drawn (sampler.h)
 * first, and drawn ones are not the bin's.
 *
 * One call in NA_TIMED_EACH is drawn to be timed (timing.h): traced.c. */
#ifndef NUMALLOC_ALLOC_MALLOC_TRACED_H
#define NUMALLOC_ALLOC_MALLOC_TRACED_H

#include <stdbool.h>
#include <stddef.h>
#include <string.h>

#include "alloc/cache/thread_cache.h"
#include "alloc/central/mixed.h"
#include "alloc/track/hooks.h"
#include "alloc/track/recording.h"
#include "alloc/track/section.h"
#include "alloc/track/timing.h"
#include "pagemap/pagemap.h"

typedef void *na_traced_alloc_t(size_t requested, na_entry_t entry, na_tcache_t *tcache,
                                unsigned cls);
typedef void na_traced_free_t(void *block, na_release_t how, na_tcache_t *tcache);

/* What is called: na_traced_alloc and na_traced_free, or what the profiler has put in their place.
 * Any of them may be called at any time (of a thread that has lately looked here): each sees for
 * itself whether it may do what it is for, and else calls the slow path. */
extern NA_NEAR _Atomic(na_traced_alloc_t *) na_traced_alloc_by;
extern NA_NEAR _Atomic(na_traced_free_t *) na_traced_free_by;
/* Between na_switch_prepare and na_switch_on (thread/switch.h): before a thread can find that every
 * event is wanted. */
void na_traced_choose(const na_hooks_t *hooks);
/* The guards begin, in the library's constructor: for a profile that runs already. */
void na_traced_guard(void);

/* Of the calling thread's cache, whose until_timed is not 0; the hot path has found no credit in
 * the bin. */
na_traced_alloc_t na_traced_alloc;
/* Of anything whose page has no tag. */
na_traced_free_t na_traced_free;
/* What is not as usual of a free; `drawn`: to be timed. */
void na_traced_free_rest(void *block, na_release_t how, na_tcache_t *tcache, bool drawn);
/* The same, of calls that were drawn to be timed (track.until_timed has come to 1). */
NA_COLD void *na_traced_alloc_timed(size_t requested, na_entry_t entry, na_tcache_t *tcache,
                                    unsigned cls);
NA_COLD void na_traced_free_timed(void *block, na_release_t how, na_tcache_t *tcache);

/* na_timed_end, unless the thread's cache became another during the call. */
NA_INLINE void na_timed_finish(na_tcache_t *tcache, na_call_t call, bool drawn) {
    if (na_self == tcache) na_timed_end(&tcache->track, call, drawn);
}

/* --- the usual call --- */

/* A constant wherever it is asked for. PART: of a call that is timed as a whole. */
typedef enum na_traced_how { NA_TRACED, NA_TRACED_TIMED, NA_TRACED_PART } na_traced_how_t;

/* Inside a section: the hooks, if there are some and the thread has noticed the latest switch, and
 * is where its cache is; else NULL. Hooks are read first: between their end and the alarm that
 * tells of it a thread may be granted credit that its bins' counts do not know of. Who finds later
 * hooks finds that alarm, too. (A profile that is held still is alarmed; and a thread that has
 * noticed the beginning of a profile, and not its end, is in its session.) */
NA_INLINE const na_hooks_t *na_traced_hooks(const na_tcache_t *tcache) {
    const na_hooks_t *hooks = atomic_load_explicit(&na_hooks, memory_order_acquire);
    bool now = NA_LIKELY(!na_section_alarmed(&tcache->track)) &&
               (NA_LIKELY(!na_tcache_watched(tcache)) || !na_tcache_is_away(tcache));
    return now ? hooks : NULL;
}

/* The record of the block of that number; NULL: the span's blocks have none in this profile. (Who
 * finds `recorded` finds the records and the slow tags that came before it, whosever they are:
 * other threads hold blocks of a pooled span, too.) */
NA_INLINE na_record_t *na_traced_record(const na_tcache_t *tcache, const na_span_t *span,
                                        uint32_t index) {
    if (NA_UNLIKELY(atomic_load_explicit(&span->recorded, memory_order_acquire) !=
                    tcache->track.session) ||
        NA_UNLIKELY(na_is_mixed(span)))
        return NULL;
    return atomic_load_explicit(&span->records, memory_order_acquire) + index;
}

/* The same of the first block of a bin; NULL also if there is none. */
NA_INLINE na_record_t *na_traced_next(const na_tcache_t *tcache, const na_bin_t *bin,
                                      const na_bin_state_t *state) {
    if (NA_UNLIKELY(state->count == 0)) return NULL;
    uintptr_t at = (uintptr_t)bin->head;
    const na_span_t *span = na_span_leaf_of(at)->span[na_page_in_span_leaf(at)];
    return na_traced_record(tcache, span, (uint32_t)((at - span->start) * span->reciprocal >> 40));
}

/* A block of the class, recorded; NULL: this is no usual call. `on_alloc`: NULL, or to be called
 * instead of the table's. (The frame is that of the function that this is inlined into. Where
 * malloc ended with a jump to there, no other is between it and the program's.) */
NA_INLINE void *na_traced_take(size_t requested, na_entry_t entry, na_tcache_t *tcache,
                               unsigned cls, na_on_alloc_t *const on_alloc,
                               const na_traced_how_t how) {
    const bool timed = how == NA_TRACED_TIMED;
    na_bin_t *bin = &tcache->bins[cls];
    na_bin_state_t *state = &tcache->states[cls];
    __asm__("" : "+r"(state)); /* not to be computed again from the class */
    bin->pop = 0; /* the hot path has counted it below zero; credits to push are left alone: a
                   * thread that has not noticed the end of a profile may have been granted some */
    na_section_announce(&tcache->track);
    const na_hooks_t *hooks = na_traced_hooks(tcache);
    na_record_t *record = NA_LIKELY(hooks != NULL) ? na_traced_next(tcache, bin, state) : NULL;
    if (NA_UNLIKELY(record == NULL)) {
        na_section_leave(&tcache->track);
        return NULL;
    }
    uint64_t from = timed ? na_clock_read() : 0;
    void *block = bin->head;
    bin->head = *na_block_next(block);
    *na_block_next(block) = NULL; /* no block seems to lead to the next one (profiler/leaks) */
    state->count--;
    state->pops++;
    state->used = true;
    if (timed && na_entry_kind(entry) == NA_ENTRY_CALLOC) memset(block, 0, requested);
    uint64_t ticks = timed ? na_clock_between(from, na_clock_read()) : 0;
    na_event_alloc(&tcache->track, hooks, record, block, requested, state->size, entry,
                   __builtin_frame_address(0), on_alloc, how == NA_TRACED_PART);
    if (timed) na_timed_tell(&tcache->track, hooks, (na_call_t)na_entry_kind(entry), ticks);
    na_section_leave(&tcache->track);
    return block;
}

/* Gives the block back, recorded: it is this thread cache's, begins there, the bin has room, and
 * the profile knows of it. (Then it is neither the sampler's nor what is left behind a span's last
 * block. The bin of large blocks never has room.) False: it is none of that. */
NA_INLINE bool na_traced_give(void *block, na_release_t how, na_tcache_t *tcache,
                              na_on_free_t *const on_free, const na_traced_how_t timing) {
    const bool timed = timing == NA_TRACED_TIMED;
    const na_span_t *span = na_span_by_page(block);
    if (NA_UNLIKELY(span == NULL)) return false;
    na_bin_t *bin = &tcache->bins[span->cls];
    na_bin_state_t *state = &tcache->states[span->cls];
    __asm__("" : "+r"(state));
    size_t offset = (uintptr_t)block - span->start;
    uint32_t index = (uint32_t)(offset * span->reciprocal >> 40);
    if (NA_UNLIKELY(bin->tag >> 16 != span->owner) || NA_UNLIKELY(offset != index * span->each) ||
        NA_UNLIKELY(state->count >= state->hold))
        return false;
    na_section_announce(&tcache->track);
    const na_hooks_t *hooks = na_traced_hooks(tcache);
    na_record_t *record = NA_LIKELY(hooks != NULL) ? na_traced_record(tcache, span, index) : NULL;
    if (NA_UNLIKELY(record == NULL) || NA_UNLIKELY(record->epoch != na_profile_epoch)) {
        na_section_leave(&tcache->track);
        return false;
    }
    na_event_free(&tcache->track, hooks, record, block, span->each, how, NULL, on_free, false);
    state->count++;
    state->pushes++;
    state->used = true;
    uint64_t from = timed ? na_clock_read() : 0;
    *na_block_next(block) = bin->head;
    bin->head = block;
    if (timed)
        na_timed_tell(&tcache->track, hooks, na_call_of_release(how),
                      na_clock_between(from, na_clock_read()));
    na_section_leave(&tcache->track);
    return true;
}

#endif
