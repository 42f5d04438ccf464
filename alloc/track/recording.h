/* recording.h - keeping the registry, and telling the profiler.
 *
 * The slow paths call these. Records (pagemap/registry.h) exist for blocks whose page is tagged
 * slow: all that were handed out in mode sites and under strict checking, sampled ones in mode
 * sample. No-ops (a few predictable tests) otherwise.
 *
 * The record comes to a span when its first block is handed out under a profile, and its pages are
 * tagged slow before that block is known to the program: so the free of a block with a record is
 * always seen, by whatever thread, and there is no moment at which a profile has to walk the thread
 * cache. Frees of blocks without a record are seen as soon as a thread has no credit left to push
 * without asking (thread/switch.h says when).
 */
#ifndef NUMALLOC_ALLOC_TRACK_RECORDING_H
#define NUMALLOC_ALLOC_TRACK_RECORDING_H

#include <stddef.h>

#include "alloc/track/hooks.h"
#include "alloc/track/section.h"
#include "alloc/track/timing.h"
#include "alloc/track/track.h"
#include "pagemap/span.h"

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
/* The thread gives up its cache. */
void na_record_thread_exit(na_track_t *track);

/* Pages that were slow for the sake of a profile may become fast with the next free in them, or may
 * not; what was so before. For the switch. */
bool na_record_let_quicken(bool may);

#endif
