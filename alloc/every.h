/* every.h - malloc and free of small blocks while every event is recorded.
 *
 * In modes sites and trace each call is a slow path (switch.h), and nearly all of them are alike:
 * the bin has a block, or room; nothing is due; the block's span has records. These are done here,
 * in one piece, with one call of a hook. Whatever is different goes the thorough way (cache.c), and
 * nothing has been changed for it yet. */
#ifndef NUMALLOC_ALLOC_EVERY_H
#define NUMALLOC_ALLOC_EVERY_H

#include <stddef.h>

#include "alloc/heap.h"
#include "alloc/hooks.h"

/* Of the calling thread's heap, whose every_left is not 0; the hot path has found no credit in the
 * bin.
 */
void *na_every_alloc(na_heap_t *heap, unsigned cls, size_t requested, na_entry_t entry);
/* Of anything whose page has no tag. */
void na_every_free(na_heap_t *heap, void *block, na_release_t how);
/* The same, of calls that were drawn to be timed (heap->every_left has become 0). */
NA_COLD void *na_every_alloc_timed(na_heap_t *heap, unsigned cls, size_t requested,
                                   na_entry_t entry);
NA_COLD void na_every_free_timed(na_heap_t *heap, void *block, na_release_t how);

#endif
