/* large_bins.h - runs that large blocks left, kept whole for the next ones: by the thread that
 * freed them, and behind it by its node.
 *
 * Bins. The hot path of blocks from NA_SMALL_MAX to 8 MiB: no lock, no atomic, no write to the page
 * map. What a thread's bins do not hold goes to the run cache of the node and comes from there
 * (below).
 *
 * A thread's bins hold `limit` pages at most: a 32nd part of what its node's spans hold, 256
 * KiB to 4 MiB, and what it earned, up to 8 MiB; 16 MiB for all threads together. What is freed is
 * kept if it fits in at all, and runs of other slots, one slot after the other, go to the node for
 * it; if there are none, some of its own slot.
 *
 * Earning. The bytes that the thread sends to the node and takes back earn room; each byte sent
 * costs a fourth. So a program that goes on to another size, or works in waves, has its runs here
 * after a few; one that asks for sizes in no order earns the less the more sizes there are. What
 * was earned halves with each decay.
 *
 * A block that realloc makes grow is not kept when it is freed (`run` is 0): nobody asks for that
 * very size again, and the next one that grows wants the page heap's room (large.c).
 *
 * Runs go to the page heap when their slot was not used between two looks (scavenge.c), when the
 * thread cache is about to take memory that holds none, under memory pressure, and when the thread
 * ends.
 *
 * Credit. Takes count down what was granted of them; one without credit is a slow path, which looks
 * at the clock and for what else threads are to notice, and grants new credit. It grants none where
 * every take has to be looked at: in mode sample, whose large blocks are drawn one by one, and on
 * machines with several nodes, where the thread may have moved. Where blocks are guarded, it ends
 * before the next one that is drawn. Gives need no credit: who only
 * gives soon has no room. On several nodes they are barred from the hot path: there is no room to
 * be seen. While every event is wanted, under memory pressure, and where nothing is to be kept
 * (NUMALLOC_PURGE_DELAY=0) the bins are closed: the limit is 0.
 *
 * Written by the owning thread only. Taking and giving is not behind the gate; what goes to the
 * page heap is. A forked child loses what other threads' bins held, as of all bins. */
#ifndef NUMALLOC_ALLOC_CORE_CACHE_LARGE_BINS_H
#define NUMALLOC_ALLOC_CORE_CACHE_LARGE_BINS_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "alloc/core/cache/thread_cache.h"
#include "alloc/core/page/pageheap.h"
#include "alloc/core/page/scavenge_policy.h"
#include "alloc/core/sys/base.h"
#include "pagemap/pagemap.h"

/* --- The run cache of a node, and what a kept run is ---
 *
 * A kept run goes on being a span: it is in the page map, its pages count as used in the page heap,
 * and the span says that no block is there (NA_RUN_KEPT), so that na_span_of does not find it.
 * To hand it out again takes neither the page heap's lock nor a write to the page map.
 *
 *   slot   one for each number of pages up to 16, then eight a doubling, up to NA_RUN_CACHE_PAGES.
 *          Each a stack, linked by na_span_t.next, of runs of at least the slot's first size.
 *
 * A thread has a few runs in its large bins, without a lock. Behind these is the run cache of a
 * node, under a lock of its own. What that keeps is bounded by a 32nd part of what the node's spans
 * hold, 256 KiB to 64 MiB: what is too much is evicted slot by slot, that of what came last only
 * when no other holds a run; one run always stays. Where runs are wanted back of a slot of which
 * several were evicted, the program works in waves: the part doubles, up to all that the spans
 * hold, and halves when that has not happened between two looks. (Not on several nodes: what one
 * keeps the others cannot use.) Runs go to the page heap
 *   - when the node would have to take memory that holds none, though runs are kept
 *     (na_pageheap_reclaim): a run that is kept never raises the peak, but for its place;
 *   - when it lay unused between two looks (the least that a slot held since the last one);
 *   - when memory is refused, under memory pressure, and by malloc_trim.
 * With NUMALLOC_PURGE_DELAY=0 nothing is kept.
 *
 * Only plain runs are kept: of a region, on the node that they were wanted on, nobody having moved
 * or recorded them (na_span_t.run).
 *
 * Thread-safe. Callers are behind their thread cache's gate, and hold no page heap's lock. Nodes
 * are dense indices. */

#define NA_RUN_CACHE_NODES                                                                         \
    512u /* NA_RUN_CACHE_PAGES on several nodes: 4 MiB, since such blocks lie                      \
          * where touched */

/* Pages for so many bytes. */
NA_INLINE uint32_t na_run_pages(size_t bytes) {
    return (uint32_t)((bytes - 1) >> NA_PAGE_SHIFT) + 1;
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
#define NA_RUN_BATCH NA_TRIES
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

/* --- A thread's bins --- */

/* Ends each slot's list: serves no block. (Slots of which none was opened are NULL.) */
extern NA_NEAR na_span_t na_large_bins_end;

/* Draws the next block that is sampled, or that the path wants. */
void na_large_draw(na_tcache_t *tcache);

/* All large blocks that the thread cache handed out, and took back: what it handed out comes from
 * the bins, and what it takes back goes there, or that is made up for in `frees`. */
NA_INLINE uint64_t na_large_taken(const na_tcache_t *tcache) {
    int32_t left = tcache->large.takes < 0 ? 0 : tcache->large.takes;
    return tcache->large.allocs + (uint64_t)(tcache->large.granted - left);
}
NA_INLINE uint64_t na_large_given(const na_tcache_t *tcache) {
    return tcache->large.frees + na_large_taken(tcache) + tcache->large.room.runs;
}

/* What the slow path does after na_large_bins_take (thread_cache.h), in three steps. 1: whether the
 * credit is spent, and the bins can grant more; it counts for as many slow paths as it was for (in
 * mode sample and the like: for one). False: there was credit all the same, the bins are closed, or
 * na_tcache_enter has to look. 2: the look at the clock (malloc/small.h), which may close the bins.
 * 3: grants credit, and looks again. For a give: whether it was barred. */
bool na_large_bins_are_spent(na_tcache_t *tcache);
bool na_large_bins_were_barred(na_tcache_t *tcache);
void *na_large_bins_take_slow(na_tcache_t *tcache, size_t size);

/* Step 3 of a give. `block`: na_is_address. False: it is no run that the bins take. */
bool na_large_bins_give_slow(na_tcache_t *tcache, const void *block);

/* The same for a span that the slow path has looked at; behind the gate. The run goes to the bins,
 * or to the node's run cache. False: neither keeps it. */
bool na_large_bins_keep(na_tcache_t *tcache, na_span_t *run);

/* A run for so many pages of those that the node keeps, and a few more for the bins. NULL: it has
 * none. Behind the gate. */
na_span_t *na_large_bins_refill(na_tcache_t *tcache, uint32_t pages);

/* Nothing is kept from now on, until the thread frees a large block again. */
void na_large_bins_close(na_tcache_t *tcache);
/* Gives everything to the page heap, and closes the bins until the thread frees a large block
 * again; false: there was nothing. Behind the gate. */
bool na_large_bins_flush(na_tcache_t *tcache);
/* Gives what was not used since the last time. Behind the gate. */
void na_large_bins_decay(na_tcache_t *tcache);
/* Forked child: what another thread had is lost. Bytes. */
uint64_t na_large_bins_forget(na_tcache_t *tcache);

#endif
