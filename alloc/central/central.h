/* central.h - what the threads of one node share, class by class.
 *
 *   transfer cache  16 atomic slots, each empty or one batch. Put: compare-and-swap into an empty
 *                   slot. Take: exchange with empty. No lock, no ABA (a slot's value is used only
 *                   by whoever exchanged it out), no walk. Pooled classes only.
 *   spans           the spans of a pooled class, under a lock; page-map lookups are made before it
 *                   is taken.
 *   sampled         the spans of sampled blocks of any class: their pages are tagged slow, so that
 *                   their free is seen, and no other block lies on them.
 *
 * How many slots may be in use is earned. Blocks that one thread freed in random order pin a span
 * each, for nothing unless another thread takes them: so there is one slot, more when a thread
 * cache takes, or would have taken, what another had put, and fewer when a batch lies there idle.
 *
 * Thread-safe. Callers are behind their thread cache's gate (thread_cache.h). Nodes are dense
 * indices. */
#ifndef NUMALLOC_ALLOC_CENTRAL_CENTRAL_H
#define NUMALLOC_ALLOC_CENTRAL_CENTRAL_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "alloc/central/batch.h"
#include "alloc/central/mixed.h"
#include "alloc/central/span_list.h"
#include "pagemap/span.h"

/* Makes the lists of a node; false: no memory. Idempotent; the caller holds the cache-list lock. */
bool na_central_init(unsigned node);

/* `tcache`: who puts or takes (its id); for blocks on their way to another owner,
 * NA_OWNER_NONE: they may use all slots. False: no slot is to be had. */
bool na_transfer_put(unsigned node, unsigned cls, unsigned tcache, na_batch_t batch);
/* Thread caches take what others put there, of late. */
bool na_transfer_is_wanted(unsigned node, unsigned cls);
/* 0: there is none. */
na_batch_t na_transfer_take(unsigned node, unsigned cls, unsigned tcache);
/* Blocks of a pooled class as a list, at least one, aiming at `want`; NULL: no memory. */
void *na_central_take(unsigned node, unsigned cls, uint32_t want, bool may_grow, uint32_t *got);
/* Returns a list of `count` blocks (linked by na_block_next) of a pooled class to their spans; the
 * bytes of spans that went to the page heap for it. */
size_t na_central_give(unsigned node, unsigned cls, void *list, uint32_t count);

/* The spans of a pooled class, to be looked at without the lock. */
const na_span_list_t *na_central_spans(unsigned node, unsigned cls);
/* Opens a sparse span of a pooled class to all classes, as one of the mixer; false: none is. */
bool na_central_open(na_mixer_t *mixer, unsigned node, unsigned cls);

/* One block on a slow-tagged page, NULL: no memory. Given back by na_sampled_give. */
void *na_sampled_take(unsigned node, unsigned cls);
void na_sampled_give(na_span_t *span, void *block);

/* Batches that have lain in the transfer cache since the last call go to their spans. */
void na_transfer_decay(unsigned node);
/* Everything free goes back to the page heap. */
void na_central_trim(unsigned node);

void na_central_after_fork_child(void);

#endif
