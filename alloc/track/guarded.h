/* guarded.h - the allocator's side of guarded blocks (NUMALLOC_GUARD).
 *
 * A guarded block lies in the guard area, one range of addresses that is in no region and not in
 * the page map: so its pages have no tag, every free and realloc of it comes to a slow path that
 * finds no span there, and asks na_guard_holds. What a block is, which blocks are guarded, and what
 * is said of errors is the business of profiler/guard, which registers itself here; the allocator
 * knows its functions.
 *
 * Which blocks: those that the sampler draws (sampler.h). Without a profile of mode sample it draws
 * one block in so many, of any small size class with the same chance (na_sampler_each); in mode
 * sample those that the profile draws. In modes that record every event nobody draws, and none is
 * guarded. The hot path does not know of any of it.
 *
 * Thread-safe and async-signal-safe, as malloc and free are; nothing here allocates. */
#ifndef NUMALLOC_ALLOC_TRACK_GUARDED_H
#define NUMALLOC_ALLOC_TRACK_GUARDED_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "alloc/track/hooks.h"
#include "alloc/track/track.h"

typedef struct na_guard {
    /* A block of `size` bytes for one that was drawn, which had the chance `chance` to be; NULL:
     * not this one. *record: what the registry keeps of a block, for the profiler's hooks. Inside a
     * section. */
    void *(*take)(size_t size, double chance, na_entry_t entry, na_record_t **record);
    /* The block that begins here is given back. False: there is none, or not any more, which was
     * reported. */
    bool (*give)(void *block, na_release_t how);
    /* Size of the live block that begins here, as asked for; SIZE_MAX: there is none. */
    size_t (*size)(const void *block);
    na_record_t *(*record)(const void *block);
    /* realloc of no live block. */
    void (*not_live)(const void *block);
    void (*before_fork)(void);
    void (*after_fork)(bool child);
} na_guard_t;

/* NULL: off. Set once, before the area is there. */
extern NA_NEAR const na_guard_t *na_guard;
/* SIGSEGV and SIGBUS come to the guards' handler first. */
extern NA_NEAR bool na_guard_has_signals;
/* 0 bytes: there is none. */
extern NA_NEAR uintptr_t na_guard_area;
extern NA_NEAR size_t na_guard_bytes;

NA_INLINE bool na_guard_holds(const void *address) {
    return (uintptr_t)address - na_guard_area < na_guard_bytes;
}

/* For a block of `requested` bytes that the sampler drew by `step` (sampler.h), and that would have
 * had `usable`: one in the area, recorded, or NULL. */
NA_COLD void *na_guard_take(na_track_t *track, size_t requested, size_t usable, uint8_t step,
                            na_entry_t entry);
/* na_guard_holds(block). `track`: NULL where the thread has no cache. */
NA_COLD void na_guard_free(na_track_t *track, void *block, na_release_t how, const void *moved_to);

#endif
