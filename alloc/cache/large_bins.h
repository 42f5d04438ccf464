/* large_bins.h - the large blocks that a thread freed last, for itself to take again.
 *
 * The hot path of blocks from NA_SMALL_MAX to 8 MiB: no lock, no atomic, no write to the page map.
 * What the bins do not hold goes to the run cache of the node and comes from there (run_cache.h,
 * which also says what a kept run is).
 *
 * A thread's bins hold `large_limit` bytes at most: a 32nd part of what its node's spans hold, 256
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
 * Room. One word says what room is left and how many runs there are, so that a give, or a take,
 * changes one word. It is the limit, less for each run its bytes less one (`reach`). The limit and
 * all lengths being whole pages, the runs are the low bits, and the room is the rest:
 *
 *   large_room = (limit - bytes of runs) + runs       runs < a page: NA_LARGE_BINS_ALL has no more
 *
 * A run fits exactly where the word less its reach is not negative.
 *
 * Written by the owning thread only. Taking and giving is not behind the gate; what goes to the
 * page heap is. A forked child loses what other threads' bins held, as of all bins. */
#ifndef NUMALLOC_ALLOC_CACHE_LARGE_BINS_H
#define NUMALLOC_ALLOC_CACHE_LARGE_BINS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "alloc/cache/thread_cache.h"
#include "alloc/page/run_cache.h"
#include "alloc/page/scavenge_policy.h"
#include "pagemap/pagemap.h"

#define NA_LARGE_BINS_SIZE ((size_t)NA_RUN_CACHE_PAGES << NA_PAGE_SHIFT)

/* Ends each slot's list: serves no block. (Slots of which none was opened are NULL.) */
extern NA_NEAR na_span_t na_large_bins_end;

#define NA_LARGE_BARRED ((int64_t)1 << 48)
_Static_assert(NA_LARGE_BINS_ALL / NA_RUN_CACHE_LEAST < (NA_PAGE_SIZE << NA_PAGE_SHIFT),
               "the runs are counted in less than a page");

/* Where it is not barred, in pages and runs. */
NA_INLINE int64_t na_large_word(const na_tcache_t *tcache) {
    return tcache->large_room + (tcache->large_barred ? NA_LARGE_BARRED : 0);
}
NA_INLINE uint64_t na_large_runs(const na_tcache_t *tcache) {
    return (uint64_t)na_large_word(tcache) % NA_PAGE_SIZE;
}
/* Less than nothing where the limit fell. */
NA_INLINE int64_t na_large_room(const na_tcache_t *tcache) {
    return na_large_word(tcache) & -(int64_t)NA_PAGE_SIZE;
}
/* Bytes that they hold. */
NA_INLINE uint64_t na_large_kept(const na_tcache_t *tcache) {
    return tcache->large_limit - (uint64_t)na_large_room(tcache);
}

/* All large blocks that the thread cache handed out, and took back: what it handed out comes from
 * the bins, and what it takes back goes there, or that is made up for in `large_frees`. */
NA_INLINE uint64_t na_large_taken(const na_tcache_t *tcache) {
    int32_t left = tcache->large_takes < 0 ? 0 : tcache->large_takes;
    return tcache->large_allocs + (uint64_t)(tcache->large_granted - left);
}
NA_INLINE uint64_t na_large_given(const na_tcache_t *tcache) {
    return tcache->large_frees + na_large_taken(tcache) + na_large_runs(tcache);
}

/* A block lives in the run. */
NA_HOT void *na_large_hand_out(na_span_t *run, size_t size) {
    void *block = (void *)run->start;
    if (block == NULL) __builtin_unreachable(); /* so that callers need not ask */
    run->requested = size;
    run->run = (uintptr_t)block;
    return block;
}

/* A block of more than NA_SMALL_MAX bytes; NULL: there is none, or the slow path has to look. */
NA_HOT void *na_large_bins_take(na_tcache_t *tcache, size_t size) {
    size_t reach = size - 1;
    if (NA_UNLIKELY(reach >= NA_LARGE_BINS_SIZE)) return NULL;
    unsigned slot = na_run_slots[reach >> NA_PAGE_SHIFT];
    if (NA_UNLIKELY(--tcache->large_takes < 0)) return NULL;
    na_span_t *run = tcache->large_bins.head[slot];
    size_t run_reach = run->reach;
    if (NA_UNLIKELY(run_reach < reach)) return NULL;
    tcache->large_bins.head[slot] = run->next;
    tcache->large_room += (int64_t)run_reach;
    return na_large_hand_out(run, size);
}
/* What the slow path does after that, in three steps. 1: whether the credit is spent, and the bins
 * can grant more; it counts for as many slow paths as it was for (in mode sample and the like: for
 * one). False: there was credit all the same, the bins are closed, or na_tcache_enter has to look.
 * 2: the look at the clock (malloc/poll.h), which may close the bins. 3: grants credit, and looks
 * again. For a give: whether it was barred. */
bool na_large_bins_are_spent(na_tcache_t *tcache);
bool na_large_bins_were_barred(na_tcache_t *tcache);
void *na_large_bins_take_slow(na_tcache_t *tcache, size_t size);

/* The plain run whose block begins at an address on a page without a tag; or NULL. `block`:
 * na_is_address. */
NA_HOT na_span_t *na_large_run_of(const void *block) {
    uintptr_t at = (uintptr_t)block;
    const na_span_leaf_t *leaf = na_span_leaf_of(at);
    na_span_t *run = leaf->span[na_page_in_span_leaf(at)];
    if (NA_UNLIKELY(run == NULL)) run = leaf->huge[na_hugepage_in_span_leaf(at)];
    return NA_LIKELY(run != NULL) && NA_LIKELY(run->run == at) ? run : NULL;
}

/* Keeps the run of a block on a page without a tag; false: the slow path has to look. (On machines
 * with several nodes it is barred, so the node is the right one.) */
NA_HOT bool na_large_bins_give(na_tcache_t *tcache, void *block) {
    na_span_t *run = na_large_run_of(block);
    if (NA_UNLIKELY(run == NULL)) return false;
    int64_t room = tcache->large_room - (int64_t)run->reach;
    if (NA_UNLIKELY(room < 0)) return false;
    tcache->large_room = room;
    na_run_push(&tcache->large_bins, run);
    return true;
}
/* Step 3 of it. `block`: na_is_address. False: it is no run that the bins take. */
bool na_large_bins_give_slow(na_tcache_t *tcache, const void *block);

/* The same for a span that the slow path has looked at; behind the gate. The run goes to the bins,
 * or to the node's run cache. False: neither keeps it. */
bool na_large_bins_keep(na_tcache_t *tcache, na_span_t *run);

/* A run for so many pages of those that the node keeps, and a few more for the bins. NULL: it has
 * none. Behind the gate. */
na_span_t *na_large_bins_refill(na_tcache_t *tcache, uint32_t pages);

/* Nothing is kept from now on, until the thread frees a large block again. */
void na_large_bins_close(na_tcache_t *tcache);
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
