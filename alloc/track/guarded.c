/* guarded.c - calls through the door, and tells the profiler. */
#include "alloc/track/guarded.h"

#include "alloc/track/recording.h"
#include "alloc/track/sampler.h"

const na_guard_t *na_guard;
bool na_guard_has_signals;
uintptr_t na_guard_area;
size_t na_guard_bytes;

/* The profiler is told of blocks in mode sample only: there it drew them. */
void *na_guard_take(na_track_t *track, size_t requested, size_t usable, uint8_t step,
                    na_entry_t entry) {
    const na_guard_t *guard = na_guard;
    if (guard == NULL) return NULL;
    na_record_t *record;
    const na_hooks_t *hooks = na_section_enter(track);
    double chance = na_sampler_chance(usable, step);
    void *block = guard->take(requested, usable, chance, entry, &record);
    if (block != NULL && hooks != NULL)
        na_event_alloc(track, hooks, record, block, requested, usable, entry, NULL, NULL, true);
    na_section_leave(track);
    return block;
}

void na_guard_free(na_track_t *track, void *block, na_release_t how, const void *moved_to) {
    const na_guard_t *guard = na_guard;
    if (track == NULL) {
        guard->give(block, how);
        return;
    }
    const na_hooks_t *hooks = na_section_enter(track);
    na_record_t *record = hooks != NULL ? guard->record(block) : NULL;
    if (record != NULL && na_record_epoch(record) != 0) {
        size_t size = guard->size(block);
        unsigned slack = record->slack;
        if (size != SIZE_MAX)
            na_event_free(track, hooks, record, block, size + slack, how, moved_to, NULL, true);
    }
    guard->give(block, how);
    na_section_leave(track);
}
