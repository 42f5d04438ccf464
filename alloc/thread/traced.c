/* traced.c - the usual malloc and free while every event is recorded. */
#include "alloc/thread/traced.h"
#include "alloc/thread/scavenge.h"

#include <string.h>

#include "alloc/thread/small.h"
#include "alloc/thread/traced_usual.h"
#include "alloc/track/timing.h"

_Atomic(na_traced_alloc_t *) na_traced_alloc_by = na_traced_alloc;
_Atomic(na_traced_free_t *) na_traced_free_by = na_traced_free;

void na_traced_choose(const na_hooks_t *hooks) {
    bool theirs = hooks->traced_alloc != NULL && na_section_by_membarrier;
    atomic_store(&na_traced_alloc_by, theirs ? hooks->traced_alloc : na_traced_alloc);
    atomic_store(&na_traced_free_by, theirs ? hooks->traced_free : na_traced_free);
}

typedef enum na_timed { NOT_TIMED, TIMED, PART } na_timed_t; /* PART: of a call that is timed */

/* All from one text. NULL: this is no usual call, and nothing was changed for it. (The frame is
 * that of the function that it is inlined into. Where malloc ended with a jump to here, no other is
 * between it and the program's.) */
NA_INLINE void *alloc(na_tcache_t *tcache, unsigned cls, size_t requested, na_entry_t entry,
                      const na_timed_t how) {
    const bool timed = how == TIMED;
    const na_traced_bin_t b = na_traced_bin(tcache, cls);
    na_traced_no_credit(b.bin);
    const na_hooks_t *hooks = na_section_enter(&tcache->track);
    void *block;
    na_record_t *record;
    size_t usable;
    /* Hooks first, as in na_traced_enter. */
    if (NA_UNLIKELY(hooks == NULL) || !na_traced_now(tcache) ||
        !na_traced_next(tcache, &b, &block, &record, &usable)) {
        na_section_leave(&tcache->track);
        return NULL;
    }
    uint64_t from = timed ? na_clock_read() : 0;
    na_traced_take(&b, block);
    if (timed && na_entry_kind(entry) == NA_ENTRY_CALLOC) memset(block, 0, requested);
    uint64_t to = how != NOT_TIMED ? na_clock_read() : 0;
    na_record_take(record, usable - requested, tcache->node, na_profile_epoch);
    hooks->on_alloc(&tcache->track.profile, record, block, requested, usable, entry,
                    __builtin_frame_address(0));
    if (timed)
        na_timed_tell(&tcache->track, hooks, (na_call_t)na_entry_kind(entry),
                      na_clock_between(from, to));
    na_section_leave(&tcache->track);
    if (how == PART) na_timed_leave_out(&tcache->track, to);
    return block;
}

void *na_traced_alloc(size_t requested, na_entry_t entry, na_tcache_t *tcache, unsigned cls) {
    void *block = alloc(tcache, cls, requested, entry, NOT_TIMED);
    return NA_LIKELY(block != NULL) ? block : na_alloc_slow(requested, entry, cls);
}

void *na_traced_alloc_timed(size_t requested, na_entry_t entry, na_tcache_t *tcache, unsigned cls) {
    if (tcache->track.in_realloc && na_entry_kind(entry) == NA_ENTRY_REALLOC) {
        /* A part of a realloc, which is timed as a whole or not at all. */
        if (tcache->track.timed_from == 0) {
            na_timed_draw(&tcache->track);
            return na_traced_alloc(requested, entry, tcache, cls);
        }
        tcache->track.until_timed = 1;
        void *part = alloc(tcache, cls, requested, entry, PART);
        return part != NULL ? part : na_alloc_slow(requested, entry, cls);
    }
    tcache->track.in_realloc = false; /* left by longjmp, or by a signal */
    tcache->track.timed_from = 0;
    na_timed_draw(&tcache->track);
    void *block = alloc(tcache, cls, requested, entry, TIMED);
    if (NA_LIKELY(block != NULL)) {
        na_scavenge_poll(tcache);
        return block;
    }
    na_timed_begin(&tcache->track);
    block = na_alloc_slow(requested, entry, cls);
    if (block != NULL && na_entry_kind(entry) == NA_ENTRY_CALLOC) memset(block, 0, requested);
    na_timed_finish(tcache, (na_call_t)na_entry_kind(entry), true);
    return block;
}

/* Calls the hook if the block has a record of its life in this profile. */
NA_INLINE bool record_free(na_tcache_t *tcache, const na_traced_given_t *g, void *block,
                           na_release_t how) {
    const na_hooks_t *hooks = na_section_enter(&tcache->track);
    bool known = false;
    if (NA_LIKELY(hooks != NULL) && na_traced_now(tcache) &&
        NA_LIKELY(na_traced_span(tcache, g->span))) {
        na_record_t *record = na_traced_record(g->span, g->index);
        known = record->epoch == na_profile_epoch;
        if (NA_LIKELY(known)) {
            hooks->on_free(&tcache->track.profile, record, block, g->span->each, how, NULL);
            record->epoch = 0;
        }
    }
    na_section_leave(&tcache->track);
    return known;
}

static NA_COLD void push_timed(na_tcache_t *tcache, const na_traced_bin_t *b, void *block,
                               na_release_t how) {
    uint64_t from = na_clock_read();
    na_traced_push(b, block);
    uint64_t to = na_clock_read();
    const na_hooks_t *hooks = na_section_enter(&tcache->track);
    if (hooks != NULL)
        na_timed_tell(&tcache->track, hooks, na_call_of_release(how), na_clock_between(from, to));
    na_section_leave(&tcache->track);
}

/* False: this is no usual call, and nothing was changed for it. */
NA_INLINE bool release(na_tcache_t *tcache, void *block, na_release_t how, const bool timed) {
    na_traced_given_t g;
    if (!na_traced_given(tcache, block, &g) || NA_UNLIKELY(!record_free(tcache, &g, block, how)))
        return false;
    na_traced_counted(&g.b);
    if (timed)
        push_timed(tcache, &g.b, block, how);
    else
        na_traced_push(&g.b, block);
    return true;
}

/* What is unusual; `drawn`: to be timed. */
static NA_NOINLINE void free_unusual(na_tcache_t *tcache, void *block, na_release_t how,
                                     bool drawn) {
    const na_span_t *span = na_span_by_page(block);
    bool large = span != NULL && span->cls == 0;
    bool timed = drawn || (large && na_timed_wants(&tcache->track));
    if (timed) na_timed_begin(&tcache->track);
    na_free_slow(block, NA_TAG_NONE, how, NULL);
    if (timed) na_timed_finish(tcache, na_call_of_release(how), !large);
}

void na_traced_free(void *block, na_release_t how, na_tcache_t *tcache) {
    if (NA_UNLIKELY(!release(tcache, block, how, false))) free_unusual(tcache, block, how, false);
}

void na_traced_free_timed(void *block, na_release_t how, na_tcache_t *tcache) {
    tcache->track.in_realloc =
        false; /* left by longjmp, or by a signal: realloc itself does not come here */
    tcache->track.timed_from = 0;
    na_timed_draw(&tcache->track);
    if (release(tcache, block, how, true))
        na_scavenge_poll(tcache);
    else
        free_unusual(tcache, block, how, true);
}
