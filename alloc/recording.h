/* recording.h - keeping the registry, and telling the profiler.
 *
 * The slow paths call these for blocks whose page is tagged slow: all of them in mode sites and
 * under strict checking, sampled ones in mode sample. No-ops (one predictable test) otherwise. */
#ifndef NUMALLOC_ALLOC_RECORDING_H
#define NUMALLOC_ALLOC_RECORDING_H

#include <stddef.h>

#include "alloc/heap.h"
#include "alloc/hooks.h"
#include "pagemap/span.h"

/* The record of the block that begins at `block`, NULL if its span keeps none. */
na_record_t *na_record_of(const na_span_t *span, const void *block);

/* `block` was taken from a span with records and is about to be handed out. */
void na_record_alloc(na_heap_t *heap, na_span_t *span, void *block, size_t requested, size_t usable,
                     na_entry_t entry);
/* `block` is about to be given back. False: it is not live, which was reported. */
bool na_record_free(na_heap_t *heap, na_span_t *span, void *block, size_t usable, na_release_t how,
                    const void *moved_to);
/* False: the span keeps records, and `block` was freed. */
bool na_record_is_live(const na_span_t *span, const void *block);
/* The pages of the block that is all of `span` are about to move. */
void na_record_before_move(na_heap_t *heap, const na_span_t *span);
/* realloc kept the block, which now is at `block`. */
void na_record_resize(na_heap_t *heap, na_span_t *span, const void *old_block, void *block,
                      size_t old_usable, size_t requested, size_t usable);

/* The program mapped memory itself, or gave it back. */
void na_record_map(na_map_call_t call, size_t bytes);

#endif
