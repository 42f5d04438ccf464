/* central.h - what the threads of one node share, class by class.
 *
 *   depot   16 atomic slots, each empty or one chain. Put: compare-and-swap into an empty slot.
 * Take: exchange with empty. No lock, no ABA (a slot's value is used only by whoever exchanged it
 *           out), no walk. Holds blocks of pooled classes, and of owned classes whose owner's
 * mailbox is full (a thread that sleeps while others free its blocks). spans   the spans of a
 * pooled class, under a lock; page-map lookups are made before it is taken. sampled the spans of
 * sampled blocks of any class: their pages are tagged slow, so that their free is seen, and no
 * other block lies on them.
 *
 * Thread-safe. Callers are behind their heap's gate (heap.h). Nodes are dense indices. */
#ifndef NUMALLOC_ALLOC_CENTRAL_H
#define NUMALLOC_ALLOC_CENTRAL_H

#include <stdbool.h>
#include <stdint.h>

#include "alloc/chain.h"
#include "pagemap/span.h"

/* Makes the lists of a node; false: no memory. Idempotent; the caller holds the heap-list lock. */
bool na_central_init(unsigned node);

bool na_depot_put(unsigned node, unsigned cls, na_chain_t chain);
na_chain_t na_depot_take(unsigned node, unsigned cls);

/* Blocks of a pooled class as a list, at least one, aiming at `want`; NULL: no memory. */
void *na_central_take(unsigned node, unsigned cls, uint32_t want, uint32_t *got);
/* Returns a list of blocks (linked by first words) of a pooled class to their spans. */
void na_central_give(unsigned node, unsigned cls, void *list);

/* One block on a slow-tagged page, NULL: no memory. Given back by na_sampled_give. */
void *na_sampled_take(unsigned node, unsigned cls);
void na_sampled_give(na_span_t *span, void *block);

/* Chains that have lain in the depot since the last call go to their spans (pooled classes). */
void na_central_sweep(unsigned node);
/* Everything free goes back to the page heap. */
void na_central_trim(unsigned node);

void na_central_after_fork_child(void);

#endif
