/* recording.h - keeping the registry, and telling the profiler.
 *
 * The slow paths call these, through the path in force. Records (pagemap/pagemap.h) exist for
 * blocks whose page is tagged slow: all that were handed out in mode sites and under strict
 * checking, sampled ones in mode sample. No-ops (a few predictable tests) otherwise.
 *
 * The record comes to a span when its first block is handed out under a profile, and its pages are
 * tagged slow before that block is known to the program: so the free of a block with a record is
 * always seen, by whatever thread, and there is no moment at which a profile has to walk the thread
 * cache. Frees of blocks without a record are seen as soon as a thread has no credit left to push
 * without asking (thread/switch.h says when).
 */
#ifndef NUMALLOC_ALLOC_RECORD_RECORDING_H
#define NUMALLOC_ALLOC_RECORD_RECORDING_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include "alloc/core/cache/thread_cache.h"
#include "alloc/core/sys/base.h"
#include "alloc/core/thread/attach.h"
#include "alloc/core/track/hooks.h"
#include "alloc/core/track/track.h"
#include "pagemap/pagemap.h"

/* --- How long calls of the allocator take, for the profiler ---
 *
 * While every event is recorded, one call in NA_TIMED_EACH on average is timed. Each call is drawn
 * with the same probability, independently of all others (gaps are geometric), so the drawn ones
 * of an entry point are a random sample of its calls, whatever the program's rhythm is. Calls for
 * large blocks take microseconds: all of them are timed.
 *
 * What is timed is the allocator, not the profiler:
 *   - a drawn call of the usual kind (na_traced_take, na_traced_give) does between two readings of
 * the clock what it would do without a profile: takes a block from its bin, or puts one there;
 * calloc clears it, too;
 *   - in any other, the clock is stopped while a hook runs.
 * What the readings themselves take is measured once and taken off.
 *
 * Times are ticks of the time stamp counter, wall time: where a thread is put to sleep within the
 * call, that counts. A call within a call (realloc's) is part of it. Not timed: the call with which
 * a thread begins, and one during which the thread's cache became another. */

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

/* Draws the call that is timed next (track->countdown). Measures na_clock_cost first of all. */
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
    return NA_UNLIKELY(track->is_timed) && track->timed_from == 0 && !track->in_realloc;
}

/* --- the event --- *
 *
 * An allocation was seen, a free was seen: in all modes, by whatever way, the record begins or ends
 * and the profiler is told here. Inside a section, whose hooks these are (NULL: no profile; the
 * record is kept for strict checking). The hook is the table's, or the one that is given, a
 * constant then, to be inlined. `timed`: the call may be one that is being timed; the hook's part
 * is no part of it. */

NA_INLINE void na_event_alloc(na_track_t *track, const na_hooks_t *hooks, na_record_t *record,
                              void *block, size_t requested, size_t usable, na_entry_t entry,
                              const void *entered, na_on_alloc_t *const hook, const bool timed) {
    na_record_take(record, usable - requested, track->node,
                   hooks != NULL ? na_profile_epoch : NA_EPOCH_BEFORE);
    if (hooks == NULL) return;
    uint64_t paused = timed ? na_timed_pause(track) : 0;
    (hook != NULL ? hook : hooks->on_alloc)(&track->profile, record, block, requested, usable,
                                            entry, entered);
    if (timed) na_timed_go_on(track, paused);
}

/* `record`: NULL, if the block has none or it is of no life. */
NA_INLINE void na_event_free(na_track_t *track, const na_hooks_t *hooks, na_record_t *record,
                             void *block, size_t usable, na_release_t how, const void *moved_to,
                             na_on_free_t *const hook, const bool timed) {
    static const na_record_t before; /* of no profile */
    if (hooks != NULL) {
        uint64_t paused = timed ? na_timed_pause(track) : 0;
        (hook != NULL ? hook : hooks->on_free)(&track->profile, record != NULL ? record : &before,
                                               block, usable, how, moved_to);
        if (timed) na_timed_go_on(track, paused);
    }
    if (record != NULL) na_record_set_epoch(record, 0);
}

/* --- for slow paths --- */

/* The record of the block that begins at `block`, NULL if its span keeps none. */
na_record_t *na_record_of(const na_span_t *span, const void *block);

/* `block` was taken and is about to be handed out; it gets a record if every event is wanted or its
 * span has records. */
void na_record_alloc(na_track_t *track, na_span_t *span, void *block, size_t requested,
                     size_t usable, na_entry_t entry);
/* `block` is about to be given back. False: it is not live, which was reported. */
bool na_record_free(na_track_t *track, na_span_t *span, void *block, size_t usable,
                    na_release_t how, const void *moved_to);
/* False: the span knows of every block, and this one was freed. */
bool na_record_is_live(const na_span_t *span, const void *block);
/* The profile under way knows of the block, and will be told of its free. The caller holds it. */
bool na_record_is_told(const na_span_t *span, const void *block);
/* The pages of the block that is all of `span` are about to move. */
void na_record_before_move(na_track_t *track, const na_span_t *span);
/* realloc kept the block, which now is at `block`. */
void na_record_resize(na_track_t *track, na_span_t *span, const void *old_block, void *block,
                      size_t old_usable, size_t requested, size_t usable);
/* Recorded, in front of plain (path/seam.h). */
extern const na_above_t na_recording_above;

/* --- malloc and free of small blocks while every event is recorded ---
 *
 * In modes sites and trace each call misses the hot path (switch.h), and nearly all of them are
 * alike: the bin has a block, or room; nothing is due; the block's span has records. These are done
 * here, in one piece. Whatever is different is the slow path's (entry.c), and nothing has been
 * changed for it yet.
 *
 * They call the hook of the table. A profiler may have its own hook inlined, which
 * is a constant then, by giving na_traced_take and na_traced_give a function of its own
 * (na_hooks_t.misses, profiler/record/usual.c): the same code, with one call less.
 *
 * One call in NA_TIMED_EACH is drawn to be timed (above): track.countdown comes to 0. */

/* Between na_switch_prepare and na_switch_on (thread/switch.h): before a thread can find that every
 * event is wanted. */
void na_traced_choose(const na_hooks_t *hooks);
/* na_path.misses: where the thread's calls go, which notices that every event is wanted: the hooks'
 * own, or na_traced_alloc and na_traced_free. (Whoever is late to notice that profiles have changed
 * calls those of before: each sees for itself whether it may do what it is for, and else calls the
 * slow path.) */
const na_misses_t *na_traced_misses(na_tcache_t *tcache);

/* Of the calling thread's cache; the hot path has found no credit in the bin. */
void *na_traced_alloc(size_t requested, na_entry_t entry, na_tcache_t *tcache, unsigned cls);
/* Of anything whose page has no tag. */
void na_traced_free(void *block, na_release_t how, na_tcache_t *tcache);
/* Each call asks once: it is to be timed. */
NA_INLINE bool na_traced_is_drawn(na_tcache_t *tcache) {
    return --tcache->track.countdown == 0;
}
/* What is not as usual of a free; `drawn`: to be timed. */
void na_traced_free_rest(void *block, na_release_t how, na_tcache_t *tcache, bool drawn);
/* The same, of calls that were drawn to be timed. */
NA_COLD void *na_traced_alloc_timed(size_t requested, na_entry_t entry, na_tcache_t *tcache,
                                    unsigned cls);
NA_COLD void na_traced_free_timed(void *block, na_release_t how, na_tcache_t *tcache);

/* na_path.starts and ends: all calls for large blocks are timed while every event is recorded. The
 * clearing is calloc's. */
na_tcache_t *na_traced_starts(void);
void na_traced_ends(na_tcache_t *tcache, void *block, size_t size, na_entry_t entry, bool *zeroed);

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
                    tcache->track.session))
        return NULL;
    return atomic_load_explicit(&span->records, memory_order_acquire) + index;
}

/* The same of the first block of a bin; NULL also if there is none. */
NA_INLINE na_record_t *na_traced_next(const na_tcache_t *tcache, const na_bin_t *bin,
                                      const na_bin_state_t *state) {
    if (NA_UNLIKELY(state->count == 0)) return NULL;
    uintptr_t at = (uintptr_t)bin->head;
    const na_span_t *span = na_span_leaf_of(at)->span[na_page_in_span_leaf(at)];
    return na_traced_record(tcache, span, na_span_index(span, bin->head));
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
    uint32_t index = na_span_index(span, block);
    if (NA_UNLIKELY(na_tag_owner(bin->tag) != span->owner) ||
        NA_UNLIKELY(offset != index * span->each) || NA_UNLIKELY(state->count >= state->hold))
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
