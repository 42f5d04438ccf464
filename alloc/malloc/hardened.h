/* hardened.h - malloc and free under NUMALLOC_HARDEN: every free is looked at before it is
 * believed.
 *
 * Nothing of it is in the hot path. As while every event is recorded, bins have no credit and pages
 * are slow, so that each call comes to what the hot path leaves, and on through the two pointers of
 * traced.h: they lead here, with or without a profile. docs/hardening.md has the table of checks.
 *
 *   malloc   one of several blocks of the bin, drawn at random (cache/hand.h); it is live from now
 *            on (pagemap/live.h)
 *   free     the block is live, and was given by the entry point that free, delete or delete[]
 *            belongs to; it is no more; it waits (cache/delay.h)
 *   later    the block that waited longest goes where free would have put it
 *
 * What is not the usual call (large, sampled, recorded, of a heap, of a thread without a thread
 * cache, a bin that is dry or full) goes the ways of small.c and large.c: these call
 * na_hardened_born for a block that they are about to hand out, and na_hardened_free first for one
 * that comes back. */
#ifndef NUMALLOC_ALLOC_MALLOC_HARDENED_H
#define NUMALLOC_ALLOC_MALLOC_HARDENED_H

#include <stdbool.h>

#include "alloc/malloc/traced.h"
#include "alloc/track/hooks.h"
#include "alloc/track/track.h"
#include "pagemap/live.h"

/* Once, by na_init, before there is a block. `level`: 1 or 2. */
void na_hardened_init(unsigned level);

/* The block is about to be the program's. NULL is none. */
void na_hardened_begin(void *block, size_t asked, na_entry_t entry);
NA_INLINE void na_hardened_born(void *block, size_t asked, na_entry_t entry) {
    if (NA_UNLIKELY(na_harden != 0)) na_hardened_begin(block, asked, entry);
}

/* free's slow path, of any pointer but NULL. */
void na_hardened_free(void *block, na_release_t how, const void *moved_to);

/* There is no memory: what the thread has freed waits no longer. False: nothing did. */
NA_COLD bool na_hardened_release(void);

/* --- level 2 --- */

/* Room that blocks have besides what was asked for: a byte, which is checked (track/slack.h). */
NA_INLINE size_t na_hardened_room(void) {
    return NA_UNLIKELY(na_harden > 1) ? 1 : 0;
}
/* The class of a block that is to be of `cls`, or larger; 0: it must be a large one. */
unsigned na_hardened_class(size_t size, unsigned cls, na_entry_t entry);
/* A block of no bytes, which nobody can read or write; NULL: there is none left. Live. */
void *na_hardened_nothing(na_entry_t entry);
/* A live one of these. */
bool na_hardened_is_nothing(const void *block);
/* The block was given by an aligned form of new, if `aligned`, else not; or it is no live one. */
bool na_hardened_is_of_form(const void *block, bool aligned);
/* The program ends: what waits is looked over, and what lies around live blocks. */
NA_COLD void na_hardened_at_exit(na_tcache_t *tcache);

/* The block is live; else it is reported as `what`. (True of all where nothing is hardened.) */
bool na_hardened_is_live(const char *what, const void *block);

#endif
