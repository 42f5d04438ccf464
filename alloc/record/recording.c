/* recording.c - registry records and profiler hooks around an allocation's life; drawing the calls
 * that are timed, and what one took; recorded malloc and free by the hooks of the table. */
#include "alloc/record/recording.h"

#include <string.h>

#include "alloc/core/central/block.h"
#include "alloc/core/malloc/small.h"
#include "alloc/core/path/seam.h"
#include "alloc/core/track/misuse.h"
#include "alloc/record/lookup.h"

/* --- timing --- */

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
    track->countdown = na_sampler_gap(track, NA_TIMED_EACH) + 1;
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

_Atomic(uint8_t) na_profile_epoch = 1;

static bool may_quicken(const na_span_t *span) {
    return na_section_may_quicken() && span->cls != 0 && !span->sampled &&
           !na_span_is_others(span) &&
           atomic_load_explicit(&span->emergency, memory_order_relaxed) == 0;
}

/* A processor reads its time stamp counter early if it can. What follows reads it after all that
 * came before has been done. */
NA_INLINE void clock_fence(void) {
#if defined(__x86_64__)
    __asm__ volatile("lfence" ::: "memory");
#endif
}

/* --- records --- */

na_record_t *na_record_of(const na_span_t *span, const void *block) {
    na_record_t *records = atomic_load_explicit(&span->records, memory_order_acquire);
    if (records == NULL) return NULL;
    return &records[na_span_index(span, block)];
}

/* Every block that the program has of this span has a record that says so: it was made when all
 * threads had noticed the session, or were about to. (Once na_every_is_recorded() is false again,
 * blocks are handed out without, before the session's number changes.) */
static bool is_complete(const na_span_t *span) {
    return na_strict || span->sampled || span->cls == 0 ||
           (na_every_is_recorded() &&
            span->born == atomic_load_explicit(&na_session, memory_order_relaxed));
}

/* The record of a block that the caller holds, made if every event is wanted. A new one is of no
 * life: the caller begins it, or the block would pass for freed. */
static na_record_t *wanted_record(na_span_t *span, const void *block, bool every_event) {
    if (every_event) {
        if (!na_span_add_records(span)) return NULL;
        uint32_t session = atomic_load_explicit(&na_session, memory_order_relaxed);
        bool said = atomic_load_explicit(&span->recorded, memory_order_acquire) == session;
        /* All pages, also where this block's is slow: another thread may be at it, and have got as
         * far as that. (All frees of large blocks, and of a heap's, are seen.) */
        if ((!said || NA_UNLIKELY(na_page_tag((uintptr_t)block) != NA_TAG_SLOW)) &&
            span->cls != 0 && !na_span_is_others(span))
            na_pagemap_retag(span, NA_TAG_SLOW); /* the block holds the span in its place */
        if (!said) atomic_store_explicit(&span->recorded, session, memory_order_release);
    }
    return na_record_of(span, block);
}

void na_record_alloc(na_track_t *track, na_span_t *span, void *block, size_t requested,
                     size_t usable, na_entry_t entry) {
    if (!na_path_knows(span)) return;
    if (track == NULL) { /* no thread to record it for, but it is live */
        if (span->records != NULL)
            na_record_take(na_record_of(span, block), 0, span->node, NA_EPOCH_BEFORE);
        return;
    }
    const na_hooks_t *hooks = na_section_enter(track);
    na_record_t *record = wanted_record(span, block, na_every_is_recorded());
    if (record != NULL) {
        if (na_record_all && span->cls != 0)
            *na_block_next(block) = NULL; /* as in na_traced_take */
        clock_fence();
        na_event_alloc(track, hooks, record, block, requested, usable, entry, NULL, NULL, true);
    }
    na_section_leave(track);
}

bool na_record_free(na_track_t *track, na_span_t *span, void *block, size_t usable,
                    na_release_t how, const void *moved_to) {
    if (!na_path_knows(span)) return true;
    if (track == NULL) { /* the same, and not live any more: else it would be taken for a leak */
        na_record_t *unseen = na_record_of(span, block);
        if (unseen != NULL && na_is_block_start(span, block)) na_record_set_epoch(unseen, 0);
        return true;
    }
    const na_hooks_t *hooks = na_section_enter(track);
    na_record_t *record = na_record_of(span, block);
    bool known = record != NULL && na_record_epoch(record) != 0;
    bool live = known || record == NULL || !is_complete(span);
    if (known || (live && na_every_is_recorded()))
        na_event_free(track, hooks, known ? record : NULL, block, usable, how, moved_to, NULL,
                      true);
    if (live && may_quicken(span)) /* the block holds the span in its place */
        na_pagemap_retag(span, na_tag(span->cls, span->owner));
    na_section_leave(track);
    if (!live) na_misuse("double free of", block);
    return live;
}

bool na_record_is_live(const na_span_t *span, const void *block) {
    const na_record_t *record = na_record_of(span, block);
    return record == NULL || na_record_epoch(record) != 0 || !is_complete(span);
}

bool na_record_is_told(const na_span_t *span, const void *block) {
    const na_record_t *record = na_record_of(span, block);
    return record != NULL && na_record_epoch(record) == na_profile_epoch;
}

void na_record_before_move(na_track_t *track, const na_span_t *span) {
    static const na_record_t before;
    if (!na_path_knows(span)) return;
    const na_hooks_t *hooks = na_section_enter(track);
    const na_record_t *record = span->records;
    bool known = record != NULL && na_record_epoch(record) != 0;
    if (hooks != NULL && hooks->before_move != NULL && (known || na_every_is_recorded())) {
        uint64_t paused = na_timed_pause(track);
        hooks->before_move(&track->profile, known ? record : &before, (const void *)span->start);
        na_timed_go_on(track, paused);
    }
    na_section_leave(track);
}

void na_record_resize(na_track_t *track, na_span_t *span, const void *old_block, void *block,
                      size_t old_usable, size_t requested, size_t usable) {
    if (!na_path_knows(span)) return;
    const na_hooks_t *hooks = na_section_enter(track);
    const bool every_event = na_every_is_recorded(); /* asked once: it may end at any time */
    na_record_t *record = wanted_record(span, block, every_event);
    /* In mode sample the other blocks of a span with records were never drawn. */
    if (record != NULL && (every_event || na_record_epoch(record) == na_profile_epoch)) {
        clock_fence();
        uint64_t paused = na_timed_pause(track);
        if (hooks != NULL)
            hooks->on_resize(&track->profile, record, old_block, block, old_usable, requested,
                             usable);
        else if (na_record_epoch(record) == 0)
            na_record_set_epoch(record, NA_EPOCH_BEFORE);
        na_timed_go_on(track, paused);
        na_record_set_slack(record, (uint16_t)(usable - requested));
    }
    na_section_leave(track);
}

/* --- realloc --- */

/* While every event is recorded, calls of which one block is large are timed, and of others those
 * that are drawn. What realloc does is no call by itself. */
static void *resize_recorded(na_span_t *span, void *block, size_t size) {
    na_tcache_t *tcache = na_self;
    na_entry_t moves = NA_ENTRY_REALLOC | (na_entry_t)NA_ENTRY_MOVES;
    if (!tcache->track.is_timed)
        return na_resize_plain(
            span, block, size,
            na_every_is_recorded() || na_record_is_told(span, block) ? moves : NA_ENTRY_REALLOC);
    bool large = span->cls == 0 || size > NA_SMALL_MAX,
         timed = --tcache->track.countdown == 0 || large;
    if (timed) {
        tcache->track.countdown =
            1; /* its parts go ways on which the clock stops for the profiler */
        na_timed_begin(&tcache->track);
    }
    tcache->track.in_realloc = true;
    void *resized = na_resize_plain(span, block, size, moves);
    if (na_self == tcache) {
        if (timed) {
            na_timed_end(&tcache->track, NA_CALL_REALLOC, !large);
            /* else the thread has noticed meanwhile that the profile has ended */
            if (tcache->track.is_timed) na_timed_draw(&tcache->track);
        }
        tcache->track.in_realloc = false;
    }
    return resized;
}

/* --- the usual calls --- */

static const na_misses_t by_table = {na_traced_alloc, na_traced_free};
static _Atomic(const na_misses_t *) chosen = &by_table;

void na_traced_choose(const na_hooks_t *hooks) {
    bool theirs = hooks->misses != NULL && na_section_by_membarrier;
    atomic_store(&chosen, theirs ? hooks->misses : &by_table);
}

const na_misses_t *na_traced_misses(na_tcache_t *tcache) {
    if (!na_every_event || na_strict) return NULL;
    na_section_join(&tcache->track, atomic_load_explicit(&na_session, memory_order_relaxed));
    tcache->track.is_timed = true;
    na_timed_draw(&tcache->track);
    return atomic_load(&chosen);
}

NA_INLINE void *take_traced(size_t requested, na_entry_t entry, na_tcache_t *tcache, unsigned cls,
                            const na_traced_how_t how) {
    void *block = na_traced_take(requested, entry, tcache, cls, NULL, how);
    return NA_LIKELY(block != NULL) ? block : na_alloc_slow(requested, entry, cls, NULL);
}

void *na_traced_alloc(size_t requested, na_entry_t entry, na_tcache_t *tcache, unsigned cls) {
    if (NA_UNLIKELY(na_traced_is_drawn(tcache)))
        return na_traced_alloc_timed(requested, entry, tcache, cls);
    return take_traced(requested, entry, tcache, cls, NA_TRACED);
}

void *na_traced_alloc_timed(size_t requested, na_entry_t entry, na_tcache_t *tcache, unsigned cls) {
    na_track_t *track = &tcache->track;
    if (track->in_realloc && na_entry_kind(entry) == NA_ENTRY_REALLOC) {
        /* A part of a realloc, which is timed as a whole or not at all. */
        if (track->timed_from == 0) {
            na_timed_draw(track);
            return take_traced(requested, entry, tcache, cls, NA_TRACED);
        }
        track->countdown = 1;
        return take_traced(requested, entry, tcache, cls, NA_TRACED_PART);
    }
    track->in_realloc = false; /* left by longjmp, or by a signal */
    track->timed_from = 0;
    na_timed_draw(track);
    void *block = na_traced_take(requested, entry, tcache, cls, NULL, NA_TRACED_TIMED);
    if (NA_LIKELY(block != NULL)) {
        na_poll(tcache);
        return block;
    }
    na_timed_begin(track);
    block = na_alloc_slow(requested, entry, cls, NULL);
    if (block != NULL && na_entry_kind(entry) == NA_ENTRY_CALLOC) memset(block, 0, requested);
    na_timed_finish(tcache, (na_call_t)na_entry_kind(entry), true);
    return block;
}

NA_NOINLINE void na_traced_free_rest(void *block, na_release_t how, na_tcache_t *tcache,
                                     bool drawn) {
    const na_span_t *span = na_span_of(block);
    bool large = span != NULL && span->cls == 0;
    bool timed = drawn || (large && na_timed_wants(&tcache->track));
    if (timed) na_timed_begin(&tcache->track);
    na_free_slow(block, NA_TAG_NONE, how, NULL);
    if (timed) na_timed_finish(tcache, na_call_of_release(how), !large);
}

void na_traced_free(void *block, na_release_t how, na_tcache_t *tcache) {
    if (NA_UNLIKELY(na_traced_is_drawn(tcache)))
        na_traced_free_timed(block, how, tcache);
    else if (NA_UNLIKELY(!na_traced_give(block, how, tcache, NULL, NA_TRACED)))
        na_traced_free_rest(block, how, tcache, false);
}

void na_traced_free_timed(void *block, na_release_t how, na_tcache_t *tcache) {
    na_track_t *track = &tcache->track;
    track->in_realloc = false; /* left by longjmp, or by a signal: realloc does not come here */
    track->timed_from = 0;
    na_timed_draw(track);
    if (na_traced_give(block, how, tcache, NULL, NA_TRACED_TIMED))
        na_poll(tcache);
    else
        na_traced_free_rest(block, how, tcache, true);
}

na_tcache_t *na_traced_starts(void) {
    na_tcache_t *tcache = na_self;
    if (!na_timed_wants(&tcache->track)) return NULL;
    na_timed_begin(&tcache->track);
    return tcache;
}

void na_traced_ends(na_tcache_t *tcache, void *block, size_t size, na_entry_t entry, bool *zeroed) {
    if (block != NULL && na_entry_kind(entry) == NA_ENTRY_CALLOC && !*zeroed) {
        memset(block, 0, size);
        *zeroed = true;
    }
    na_timed_finish(tcache, (na_call_t)na_entry_kind(entry), false);
}

/* --- the path, and what is kept of threads --- */

static void leave_profile(na_tcache_t *tcache) {
    na_track_t *track = &tcache->track;
    if (track->profile == NULL) return;
    const na_hooks_t *hooks = na_section_enter(track);
    if (hooks != NULL && track->profile != NULL) hooks->on_thread_exit(&track->profile);
    na_section_leave(track);
}

static unsigned tell_of_fork(void) {
    const na_hooks_t *hooks = na_hooks;
    if (hooks != NULL && hooks->before_fork != NULL) hooks->before_fork();
    return 1;
}

/* A child that comes without our handlers the recorder finds by itself. */
static void tell_after_fork(bool child, unsigned told) {
    const na_hooks_t *hooks = na_hooks;
    void *none = NULL;
    if (told == 0 || hooks == NULL) return;
    if (child)
        hooks->after_fork_child(&none);
    else if (hooks->after_fork_parent != NULL)
        hooks->after_fork_parent();
}

static bool size_asked(const void *block, uint64_t *asked) {
    na_found_t found = {0};
    na_lookup(block, &found);
    *asked = found.usable - found.record.slack;
    return found.kind == NA_LOOKUP_BLOCK && found.base == (uintptr_t)block;
}

static void begin_recording(void) {
    static na_layer_t layer; /* filled as it is wanted: the loader would write it for all */
    layer = (na_layer_t){
        .leave = leave_profile, .before_fork = tell_of_fork, .after_fork = tell_after_fork};
    na_layer_add(&layer);
    na_size_asked = size_asked;
    na_path_front(&(na_path_t){.misses = na_traced_misses,
                               .taken = na_record_alloc,
                               .given = na_record_free,
                               .is_live = na_record_is_live,
                               .resize_known = resize_recorded,
                               .moving = na_record_before_move,
                               .kept = na_record_resize,
                               .starts = na_traced_starts,
                               .ends = na_traced_ends});
}

const na_above_t na_recording_above = {.init = begin_recording};
