/* hardened.h - malloc and free under NUMALLOC_HARDEN: every free is looked at before it is
 * believed.
 *
 * A path (path/seam.h) in front of the plain one. As while every event is recorded, bins have no
 * credit and pages are slow, so that each call is missed by the hot path, and goes to the functions
 * of this path's table: with a profile they go on to the slow paths, without one the usual call
 * is done at once. docs/hardening.md has the table of checks.
 *
 *   malloc   one of several blocks of the bin, drawn at random (hand.h); it is live from now on
 *            (pagemap/pagemap.h)
 *   free     the block is live, and was given by the entry point that free, delete or delete[]
 *            belongs to; it is no more; it waits (delay.h)
 *   later    the block that waited longest goes where free would have put it
 *
 * What is not the usual call (large, sampled, recorded, of a heap, of a thread without a thread
 * cache, a bin that is dry or full) goes the slow paths, which call `born` for a block that they
 * are about to hand out, and `back` first for one that comes back. */
#ifndef NUMALLOC_ALLOC_HARDEN_HARDENED_H
#define NUMALLOC_ALLOC_HARDEN_HARDENED_H

#include <stdbool.h>
#include <stdint.h>

#include "alloc/core/sys/base.h"
#include "alloc/core/thread/attach.h"

/* NUMALLOC_HARDEN: 0, or the level. Constant since na_init. */
extern NA_NEAR uint8_t na_harden;

/* NULL, or whether operators that are not ours may have made a block or free one (operators.h).
 * Asked for a block whose giver and taker do not match. */
extern bool (*na_hardened_other_runtime)(void);

extern const na_above_t na_hardened_above;

#endif
