/* run_cache.h - runs that large blocks left, kept whole for the next ones.
 *
 * A kept run goes on being a span: it is in the page map, its pages count as used in the page heap,
 * and the span says that no block is there (NA_RUN_KEPT), so that na_span_of does not find it.
 * To hand it out again takes neither the page heap's lock nor a write to the page map.
 *
 *   slot   one for each number of pages up to 16, then eight a doubling, up to NA_RUN_CACHE_PAGES.
 *          Each a stack, linked by na_span_t.next, of runs of at least the slot's first size.
 *
 * There are two holders. A thread has a few runs in its large bins (alloc/cache/large_bins.h),
 * without a lock. Behind these is the run cache of a node: this file, under a lock of its own. What
 * the latter keeps is bounded by a 32nd part of what the node's spans hold, 256 KiB to 64 MiB: what
 * is too much is evicted slot by slot, that of what came last only when no other holds a run; one
 * run always stays. Where runs are wanted back of a slot of which several were evicted, the program
 * works in waves: the part doubles, up to all that the spans hold, and halves when that has not
 * happened between two looks. (Not on several nodes: what one keeps the others cannot use.) Runs go
 * to the page heap
 *   - when the node would have to take memory that holds none, though runs are kept
 *     (na_pageheap_alloc asks): a run that is kept never raises the peak, but for its place;
 *   - when it lay unused between two looks (the least that a slot held since the last one);
 *   - when memory is refused, under memory pressure, and by malloc_trim.
 * With NUMALLOC_PURGE_DELAY=0 nothing is kept.
 *
 * Only plain runs are kept: of a region, on the node that they were wanted on, nobody having moved
 * or recorded them (na_span_t.run).
 *
 * Thread-safe. Callers are behind their thread cache's gate, and hold no page heap's lock. Nodes
 * are dense indices. */
#ifndef NUMALLOC_ALLOC_PAGE_RUN_CACHE_H
#define NUMALLOC_ALLOC_PAGE_RUN_CACHE_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "alloc/page/pageheap.h"
#include "alloc/sys/base.h"
#include "pagemap/span.h"

#define NA_RUN_CACHE_LEAST 5u    /* pages */
#define NA_RUN_CACHE_PAGES 1024u /* 8 MiB; */
#define NA_RUN_CACHE_NODES 512u  /* on several nodes 4, since such blocks lie where touched */
#define NA_RUN_SLOTS       64u   /* a word has a bit for each */

/* Stacks of kept runs. Valid when all zero. */
typedef struct na_run_slots {
    na_span_t *head[NA_RUN_SLOTS];
} na_run_slots_t;

/* Pages for so many bytes. */
NA_INLINE uint32_t na_run_pages(size_t bytes) {
    return (uint32_t)((bytes - 1) >> NA_PAGE_SHIFT) + 1;
}

/* The slot of runs of so many pages (NA_RUN_CACHE_LEAST to NA_RUN_CACHE_PAGES), by the pages less
 * one. */
extern NA_NEAR const uint8_t na_run_slots[NA_RUN_CACHE_PAGES];
NA_INLINE unsigned na_run_slot(uint32_t pages) {
    return na_run_slots[pages - 1];
}

NA_INLINE void na_run_push(na_run_slots_t *slots, na_span_t *run) {
    na_span_t **head = &slots->head[run->run_slot];
    run->run = NA_RUN_KEPT;
    run->next = *head;
    *head = run;
}

/* Where there is a run for so many pages, at most an eighth longer: on top of their slot. NULL: it
 * is not there. */
NA_INLINE na_span_t **na_run_fit(na_run_slots_t *slots, uint32_t pages) {
    na_span_t **head = &slots->head[na_run_slot(pages)];
    return NA_LIKELY(*head != NULL) && NA_LIKELY((*head)->pages >= pages) ? head : NULL;
}

/* Bytes in the spans of large blocks that were wanted on a node, those of kept runs among them; and
 * of mappings of their own that lie on it. Changed by who makes and deletes such spans. */
typedef struct na_large_spans {
    _Alignas(NA_CACHE_LINE) _Atomic(uint64_t) bytes;
    _Atomic(uint64_t) dedicated;
} na_large_spans_t;
extern na_large_spans_t na_large_spans[];

/* Whether anything is to be kept at all, as the options and memory pressure are. */
bool na_run_cache_may_keep(void);
/* What may be kept of a node, and by each of its first threads: a 32nd part of what its spans hold,
 * 256 KiB to 64 MiB. */
uint64_t na_run_cache_share(unsigned node);

/* Keeps free plain runs of a node, a list linked by `next`. (Whether anything is to be kept was
 * asked before.) */
void na_run_cache_put(unsigned node, na_span_t *runs);
/* A run for so many pages, still marked as kept, or NULL. Behind it, linked by `next`, more of its
 * slot: NA_RUN_BATCH in all at most, and of these no more than `room` bytes. */
#define NA_RUN_BATCH 8u
na_span_t *na_run_cache_take(unsigned node, uint32_t pages, int64_t room);
/* Bytes that the node keeps. A racing guess, without a lock. */
uint64_t na_run_cache_bytes(unsigned node);

/* The page heap gets this kept run, which nobody holds any more. */
void na_run_cache_release(na_span_t *run);
/* What was not used since the last call goes to the page heap. */
void na_run_cache_decay(unsigned node);
/* Everything does. Bytes. */
size_t na_run_cache_trim(unsigned node);
size_t na_run_cache_trim_all(void);

void na_run_cache_after_fork_child(void);

#endif
