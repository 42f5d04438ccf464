/* recording.c - registry records and profiler hooks around an allocation's life. */
#include "alloc/track/recording.h"

#include "alloc/central/batch.h"
#include "alloc/central/sizeclass.h"
#include "alloc/central/tag.h"
#include "alloc/track/misuse.h"
#include "alloc/track/timing.h"
#include "pagemap/pagemap.h"

bool na_strict;
bool na_record_all;
bool na_sizes_count;
_Atomic(uint8_t) na_profile_epoch = 1;

static _Atomic(bool) quicken;

bool na_record_let_quicken(bool may) {
    return atomic_exchange(&quicken, may);
}

static bool may_quicken(const na_span_t *span) {
    return atomic_load_explicit(&quicken, memory_order_relaxed) && span->cls != 0 &&
           !span->sampled && !na_is_mixed(span) && !na_span_is_heaps(span) &&
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
    if (records == NULL || na_is_mixed(span)) return NULL;
    if (span->cls == 0) return &records[0];
    return &records[na_block_index(&na_classes[span->cls], (uintptr_t)block - span->start)];
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
    if (every_event && !na_is_mixed(span)) {
        if (!na_span_add_records(span)) return NULL;
        uint32_t session = atomic_load_explicit(&na_session, memory_order_relaxed);
        bool said = atomic_load_explicit(&span->recorded, memory_order_acquire) == session;
        /* All pages, also where this block's is slow: another thread may be at it, and have got as
         * far as that. (All frees of large blocks, and of a heap's, are seen.) */
        if ((!said || NA_UNLIKELY(na_page_tag((uintptr_t)block) != NA_TAG_SLOW)) &&
            span->cls != 0 && !na_span_is_heaps(span))
            na_pagemap_retag(span, NA_TAG_SLOW); /* the block holds the span in its place */
        if (!said) atomic_store_explicit(&span->recorded, session, memory_order_release);
    }
    return na_record_of(span, block);
}

void na_record_alloc(na_track_t *track, na_span_t *span, void *block, size_t requested,
                     size_t usable, na_entry_t entry) {
    if (!na_every_is_recorded() && span->records == NULL) return;
    const na_hooks_t *hooks = na_section_enter(track);
    na_record_t *record = wanted_record(span, block, na_every_is_recorded());
    if (record != NULL) {
        if (na_record_all && span->cls != 0) *na_block_next(block) = NULL; /* as in traced.h */
        clock_fence();
        na_event_alloc(track, hooks, record, block, requested, usable, entry, NULL, NULL, true);
    }
    na_section_leave(track);
}

bool na_record_free(na_track_t *track, na_span_t *span, void *block, size_t usable,
                    na_release_t how, const void *moved_to) {
    if (!na_every_is_recorded() && span->records == NULL) return true;
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
    if (!na_every_is_recorded() && span->records == NULL) return;
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
    if (!na_every_is_recorded() && span->records == NULL) return;
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

void na_record_thread_exit(na_track_t *track) {
    const na_hooks_t *hooks = na_section_enter(track);
    if (hooks != NULL && track->profile != NULL) hooks->on_thread_exit(&track->profile);
    na_section_leave(track);
}
