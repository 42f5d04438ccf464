/* inbox.h - free blocks on their way home to a node, from threads of other nodes.
 *
 *   outbox of a thread  --- node by node --->  inbox of the node  --- whole parcels --->
 *   (thread_cache.h)       (cache/remote.c)    32 parcels               overflow batches of a
 *                                                                       thread of the node
 *
 * A parcel is an array of up to 63 blocks of one node, of any classes. Nothing is written to the
 * blocks meanwhile: a freed block's lines move once, to the thread that will hand it out. (A list
 * would move them to who frees, for a link, and then home: bench/cores, load `cold`.)
 *
 * A parcel is empty, full or HELD. Who makes an empty one HELD fills it; who makes a full one HELD
 * empties it; either lets it go by one store. No lock, no ABA, and no word is waited for. Holders
 * are behind their thread cache's gate, so that a forked child finds none held. */
#ifndef NUMALLOC_ALLOC_CORE_CENTRAL_INBOX_H
#define NUMALLOC_ALLOC_CORE_CENTRAL_INBOX_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "alloc/core/central/block.h"
#include "alloc/core/machine/topology.h"
#include "alloc/core/sys/base.h"
#include "alloc/core/sys/tuned.h"

/* A block on its way; 0: none.      | class : 9 | home : 7 | address : 48 | */
typedef uintptr_t na_sent_t;

#define NA_SENT_HOMES 128u
_Static_assert(NA_MAX_NODES < NA_SENT_HOMES, "seven bits");

NA_INLINE na_sent_t na_sent(void *block, unsigned home, unsigned cls) {
    return na_batch(block, cls * NA_SENT_HOMES + home);
}
NA_INLINE void *na_sent_block(na_sent_t sent) {
    return na_batch_first(sent);
}
NA_INLINE unsigned na_sent_home(na_sent_t sent) {
    return na_batch_count(sent) % NA_SENT_HOMES;
}
NA_INLINE unsigned na_sent_class(na_sent_t sent) {
    return na_batch_count(sent) / NA_SENT_HOMES;
}

#define NA_PARCEL_BLOCKS (NA_BATCH_BLOCKS - 1)
#define NA_INBOX_PARCELS (NA_BATCH_BLOCKS / 2)
#define NA_PARCEL_HELD   UINT16_MAX

typedef struct na_parcel {
    _Alignas(NA_CACHE_LINE) _Atomic(uint16_t) count; /* 0: empty */
    _Atomic(bool) seen;                              /* full when last looked for idle ones */
    na_sent_t blocks[NA_PARCEL_BLOCKS];
} na_parcel_t;
_Static_assert(sizeof(na_parcel_t) == NA_BATCH_BLOCKS * sizeof(na_sent_t), "whole lines");

/* Valid when all zero. */
typedef struct na_inbox {
    /* Parcels behind the first so many were never full: who finds no mail reads one line. */
    _Alignas(NA_CACHE_LINE) _Atomic(uint32_t) used;
    na_parcel_t parcels[NA_INBOX_PARCELS];
} na_inbox_t;

/* An empty parcel, HELD for the caller; NULL: there is none. */
na_parcel_t *na_inbox_open(na_inbox_t *inbox);
/* It has so many blocks, at least one, and is anyone's. */
void na_inbox_post(na_inbox_t *inbox, na_parcel_t *parcel, unsigned count);

/* The first full one from place *at on, which becomes the place behind it, HELD for the caller, and
 * how many blocks it has; NULL: there is none. `idle`: one that was full the last time that idle
 * ones were asked for. */
na_parcel_t *na_inbox_take(na_inbox_t *inbox, unsigned *at, bool idle, unsigned *count);
/* It is empty. */
NA_INLINE void na_parcel_done(na_parcel_t *parcel) {
    atomic_store_explicit(&parcel->count, 0, memory_order_release);
}

#endif
