/* guarded.h - the path of guarded blocks (NUMALLOC_GUARD).
 *
 * A guarded block, or one between canaries, lies in the guard area, one range of addresses that is
 * in no region and not in the page map: so its pages have no tag, every free and realloc of it
 * comes to a slow path that finds no span there, and asks the path. What a block is, which blocks
 * are guarded, and what is said of errors is the business of profiler/guard, which registers itself
 * here.
 *
 * Which blocks: those that the sampler draws (track.h). Without a profile of mode sample it draws
 * one block in so many, of any small size class with the same chance (na_sampler_each), and large
 * ones of up to NA_GUARD_MOST bytes; in mode sample those that the profile draws. In modes that
 * record every event each call of a small block that the hot path misses comes here first, is
 * counted, and goes on to where recorded calls go (recording.h). Where every block is to have a
 * record from the first on (na_record_all), none is guarded.
 *
 * Thread-safe and async-signal-safe, as malloc and free are; nothing here allocates. */
#ifndef NUMALLOC_ALLOC_GUARD_GUARDED_H
#define NUMALLOC_ALLOC_GUARD_GUARDED_H

#include <signal.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "alloc/core/track/hooks.h"
#include "alloc/core/track/track.h"

typedef struct na_guard_found {
    uintptr_t block;
    size_t size; /* as asked for */
    na_record_t *record;
} na_guard_found_t;

typedef int na_sigaction_t(int number, const struct sigaction *action, struct sigaction *old);

typedef struct na_guard {
    /* A block of `size` bytes for one of a class of `usable` that was drawn, which had the chance
     * `chance` to be; NULL: not this one. *record: what the registry keeps of a block, for the
     * profiler's hooks. Inside a section. */
    void *(*take)(size_t size, size_t usable, double chance, na_entry_t entry,
                  na_record_t **record);
    /* The block that begins here is given back. False: there is none, or not any more, which was
     * reported. */
    bool (*give)(void *block, na_release_t how);
    /* Size of the live block that begins here, as asked for; SIZE_MAX: there is none. */
    size_t (*size)(const void *block);
    na_record_t *(*record)(const void *block);
    /* The live block that this address lies in; false: none. Without a lock: it may end meanwhile.
     */
    bool (*find)(const void *address, na_guard_found_t *found);
    /* realloc of no live block. */
    void (*not_live)(const void *block);
    /* Around fork; `taken`: what before_fork said. Nested, where a signal handler forks. */
    unsigned (*before_fork)(void);
    void (*after_fork)(bool child, unsigned taken);
    /* sigaction as the program calls it, where na_guard_handles(number): what it set is kept, and
     * what it asks for is what it set. `next`: the C library's. */
    int (*sigaction)(int number, const struct sigaction *action, struct sigaction *old,
                     na_sigaction_t *next);
} na_guard_t;

#define NA_GUARD_MOST ((size_t)256 << 10) /* bytes of a block */

/* NULL: off. */
extern NA_NEAR const na_guard_t *na_guard;
/* A block of this size may be guarded. */
NA_INLINE bool na_guard_wants(size_t size) {
    return na_guard != NULL && size <= NA_GUARD_MOST && !na_record_all;
}
/* SIGSEGV and SIGBUS come to the guards' handler first. Set after na_guard. */
extern NA_NEAR bool na_guard_has_signals;
NA_INLINE bool na_guard_handles(int number) {
    return na_guard_has_signals && (number == SIGSEGV || number == SIGBUS);
}
/* 0 bytes: there is none. */
extern NA_NEAR uintptr_t na_guard_area;
extern NA_NEAR size_t na_guard_bytes;

NA_INLINE bool na_guard_holds(const void *address) {
    return (uintptr_t)address - na_guard_area < na_guard_bytes;
}

/* Blocks are guarded from now on, by these functions. Once, in the library's constructor. */
void na_guard_begin(const na_guard_t *guard);

#endif
