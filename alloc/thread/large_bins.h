/* large_bins.h - the large blocks that a thread freed last, for itself to take again.
 *
 * The hot path of blocks from NA_SMALL_MAX to 4 MiB: no lock, no atomic, no write to the page map.
 * What the bins do not hold goes to the run cache of the node and comes from there (run_cache.h,
 * which also says what a kept run is).
 *
 * A thread's bins hold `large_limit` bytes at most: a 32nd part of what its node's spans hold, 256
 * KiB to 4 MiB, and 16 MiB for all threads together. Bins that hold nothing take one run of any
 * length. Runs go to the page heap when nothing was taken from
 * their slot or put there between two tidyings (thread_cache.c), when the thread cache is about to
 * take memory that holds none, under memory pressure, and when the thread ends.
 *
 * Credit. Each take and give counts `large_credit` down; a take or give without credit is a slow
 * path, which looks at the clock and for what else threads are to notice, and grants new credit. It
 * grants none where every take has to be looked at: in mode sample, whose large blocks are drawn
 * one by one, and on machines with several nodes, where the thread may have moved. While every
 * event is wanted, under memory pressure, and where nothing is to be kept (NUMALLOC_PURGE_DELAY=0)
 * the bins are closed: the limit is 0.
 *
 * Written by the owning thread only. Taking and giving is not behind the gate; what goes to the
 * page heap is. A forked child loses what other threads' bins held, as of all bins. */
#ifndef NUMALLOC_ALLOC_LARGE_BINS_H
#define NUMALLOC_ALLOC_LARGE_BINS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "alloc/page/run_cache.h"
#include "alloc/thread/small.h"
#include "alloc/thread/thread_cache.h"
#include "pagemap/pagemap.h"

/* There is a run, and credit or what stands for it. */
NA_HOT void *na_large_bins_pop(na_tcache_t *tcache, na_span_t **head, size_t size) {
    na_span_t *run = *head;
    *head = run->next;
    tcache->large_kept -= run->each;
    tcache->large_allocs++;
    run->list = NA_SPAN_PLAIN;
    run->requested = size;
    return (void *)run->start;
}

/* A block of more than NA_SMALL_MAX bytes; NULL: there is none, or the slow path has to look. */
NA_HOT void *na_large_bins_take(na_tcache_t *tcache, size_t size) {
    if (NA_UNLIKELY(size > NA_RUN_CACHE_PAGES * NA_PAGE_SIZE) ||
        NA_UNLIKELY(--tcache->large_credit < 0))
        return NULL;
    na_span_t **head = na_run_fit(&tcache->large_bins, na_run_pages(size));
    return NA_LIKELY(head != NULL) ? na_large_bins_pop(tcache, head, size) : NULL;
}
/* The slow path's look. The same, for any size. */
void *na_large_bins_take_slow(na_tcache_t *tcache, size_t size);

/* The span of a plain run that begins at `block`, and that the bins have room for; or NULL. */
NA_HOT na_span_t *na_large_bins_room_for(const na_tcache_t *tcache, const void *block) {
    na_span_t *run = na_span_by_page(block);
    /* A small span's list is its owner's, who may be changing it. */
    if (NA_UNLIKELY(run == NULL) || NA_UNLIKELY(run->cls != 0) ||
        NA_UNLIKELY(run->list != NA_SPAN_PLAIN) || NA_UNLIKELY(run->start != (uintptr_t)block) ||
        NA_UNLIKELY(tcache->large_kept + run->each > tcache->large_limit) ||
        NA_UNLIKELY(run->node != tcache->node))
        return NULL;
    return run;
}

/* Keeps a run that there is room and credit for. */
NA_HOT void na_large_bins_push(na_tcache_t *tcache, na_span_t *run) {
    na_run_push(&tcache->large_bins, run);
    tcache->large_kept += run->each;
    tcache->large_frees++;
}

/* Without credit: the same for the block at an address on a page without a tag. False: there is
 * none that the bins take, or na_tcache_enter has to look first. */
bool na_large_bins_give_slow(na_tcache_t *tcache, const void *block);

/* The same for a span that the slow path has looked at; behind the gate. The run goes to the bins,
 * or to the node's run cache. False: neither keeps it. */
bool na_large_bins_keep(na_tcache_t *tcache, na_span_t *run);

/* The thread and its node keep enough to be worth a look before more memory is taken. */
bool na_large_bins_keep_much(const na_tcache_t *tcache);
/* The thread cache is about to take `pages`, and the thread keeps enough: that is to go first, or
 * the process grows. */
bool na_large_bins_in_the_way(const na_tcache_t *tcache, uint32_t pages);
/* Gives everything to the page heap, and closes the bins until the thread frees a large block
 * again; false: there was nothing. Behind the gate. */
bool na_large_bins_flush(na_tcache_t *tcache);
/* Gives what was not used since the last time. Behind the gate. */
void na_large_bins_decay(na_tcache_t *tcache);
/* Forked child: what another thread had is lost. Bytes. */
uint64_t na_large_bins_forget(na_tcache_t *tcache);

#endif
