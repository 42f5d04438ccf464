/* guarded.c - calls through the door, and tells the profiler. */
#include "alloc/guard/guarded.h"

#include <string.h>

#include "alloc/core/cache/large_bins.h"
#include "alloc/core/cache/thread_cache.h"
#include "alloc/core/malloc/small.h"
#include "alloc/core/path/seam.h"
#include "alloc/core/thread/attach.h"
#include "alloc/core/track/track.h"
#include "alloc/record/lookup.h"
#include "alloc/record/recording.h"

const na_guard_t *na_guard;
bool na_guard_has_signals;
uintptr_t na_guard_area;
size_t na_guard_bytes;

/* The profiler is told of blocks in mode sample only: there it drew them. */
static void *take_guarded(na_track_t *track, size_t requested, size_t usable, uint8_t step,
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

/* The thread has a cache, or track is NULL. */
static void give_recorded(na_track_t *track, void *block, na_release_t how, const void *moved_to) {
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

/* A large one: drawn by the profile, by bytes, which then still waits for its sample if there is
 * none; else by number (large_bins.h counts those that the bins give). */
static NA_COLD void *take_large(size_t size, na_entry_t entry) {
    if (!na_guard_wants(size)) return NULL;
    na_tcache_t *tcache = na_tcache_enter();
    if (tcache == NULL) return NULL;
    size_t usable = na_align_up(size, NA_PAGE_SIZE);
    void *block = NULL;
    if (na_samples_bytes() ? tcache->large.next.bytes <= (int64_t)usable
                           : --tcache->large.next.blocks <= 0) {
        block = take_guarded(&tcache->track, size, usable, tcache->large.next.step, entry);
        if (block != NULL || !na_samples_bytes()) na_large_draw(tcache);
    }
    na_tcache_leave(tcache);
    return block;
}

/* --- beside a profile that records every event --- */

/* Where recorded calls go. */
static _Atomic(const na_misses_t *) recorded;

/* NULL: the block is one of the bin's after all. */
static NA_COLD NA_NOINLINE void *take_drawn(size_t requested, na_entry_t entry, na_tcache_t *tcache,
                                            unsigned cls) {
    na_bin_state_t *state = &tcache->states[cls];
    if (state->cap == 0 || na_section_alarmed(&tcache->track)) return NULL;
    tcache->bins[cls].pop = 0; /* as in na_traced_take */
    void *block = take_guarded(&tcache->track, requested, state->size, state->sample_step, entry);
    state->until_sample = na_sampler_draw(&tcache->track, state->size, &state->sample_step);
    return block;
}

/* (What the slow path takes from the bin it counts itself.) */
static void *alloc_or_draw(size_t requested, na_entry_t entry, na_tcache_t *tcache, unsigned cls) {
    na_bin_state_t *state = &tcache->states[cls];
    if (NA_UNLIKELY(state->until_sample < (int64_t)state->size)) {
        void *block = take_drawn(requested, entry, tcache, cls);
        if (block != NULL) return block;
    } else if (state->count != 0) {
        state->until_sample -= state->size;
    }
    return atomic_load_explicit(&recorded, memory_order_relaxed)
        ->alloc(requested, entry, tcache, cls);
}

static void free_recorded(void *block, na_release_t how, na_tcache_t *tcache) {
    atomic_load_explicit(&recorded, memory_order_relaxed)->free(block, how, tcache);
}

static const na_misses_t *guarded_misses(na_tcache_t *tcache) {
    static const na_misses_t drawing = {alloc_or_draw, free_recorded};
    const na_misses_t *behind = na_traced_misses(tcache);
    if (behind == NULL || !na_guard_wants(0)) return behind;
    atomic_store_explicit(&recorded, behind, memory_order_release);
    return &drawing;
}

/* --- free, realloc, asked --- */

static bool give_guarded(void *block, na_release_t how, const void *moved_to) {
    if (!na_guard_holds(block)) return false;
    na_tcache_t *tcache = na_tcache_enter();
    give_recorded(tcache != NULL ? &tcache->track : NULL, block, how, moved_to);
    if (tcache != NULL) na_tcache_leave(tcache);
    return true;
}

/* A guarded block moves, so that what still points to where it was is found; but not where another
 * one would shrink in place, which programs count on. Then it keeps its size. */
static NA_COLD bool resize_guarded(na_span_t *span, void *block, size_t size, void **resized) {
    if (span != NULL || !na_guard_holds(block)) return false;
    size_t have = na_guard->size(block);
    *resized = NULL;
    if (have == SIZE_MAX) {
        na_guard->not_live(block);
        return true;
    }
    if (size <= have && (size > NA_SMALL_MAX || na_fits_in_place(have, size))) {
        *resized = block;
        return true;
    }
    *resized = na_alloc(size, NA_ENTRY_REALLOC);
    if (*resized == NULL) return true;
    memcpy(*resized, block, have < size ? have : size);
    na_free_slow(block, NA_TAG_NONE, NA_RELEASE_REALLOC, *resized);
    return true;
}

static bool usable_bytes(const na_span_t *span, const void *block, size_t *bytes) {
    if (span != NULL || !na_guard_holds(block)) return false;
    size_t size = na_guard->size(block);
    *bytes = size != SIZE_MAX ? size : 0;
    return true;
}

static NA_COLD bool find_guarded_block(const void *address, na_found_t *found) {
    na_guard_found_t guarded;
    if (!na_guard_holds(address)) return false;
    found->kind = NA_LOOKUP_FREE;
    if (!na_guard->find(address, &guarded)) return true;
    bool same = na_record_read(guarded.record, &found->record);
    found->base = guarded.block;
    found->usable = guarded.size + found->record.slack; /* as the profile counts it */
    found->kind = !same                      ? NA_LOOKUP_DEAD
                  : found->record.epoch != 0 ? NA_LOOKUP_BLOCK
                                             : NA_LOOKUP_PLAIN;
    return true;
}

void na_guard_begin(const na_guard_t *guard) {
    static na_layer_t layer;
    na_guard = guard;
    layer = (na_layer_t){.before_fork = guard->before_fork, .after_fork = guard->after_fork};
    na_layer_add(&layer);
    na_lookup_beside = find_guarded_block;
    na_path_ends = true;
    na_path_front(&(na_path_t){.misses = guarded_misses,
                               .drawn = take_guarded,
                               .large = take_large,
                               .stray = give_guarded,
                               .resize = resize_guarded,
                               .usable = usable_bytes});
}
