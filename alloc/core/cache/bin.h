/* bin.h - the slow half of a bin: its accounts, what fills it and what empties it.
 *
 * The credit of a bin is renewed when it is spent: what was popped and pushed since is counted, and
 * new credit granted (thread_cache.h says what credits are). Before that the clock is looked at,
 * and what is due; and the blocks that were freed last.
 *
 *   dry bin   <-  overflow batches, remote free list, inbox, transfer cache, span list, new span
 *   full bin  ->  an overflow batch (below)
 *
 * The list of a bin, and of a batch, ends where its count says: its last block links to none. So
 * whoever comes to an end looks: a bin that is counted dry has no block left, and a list that goes
 * home has as many as were counted. A block that was freed twice, or written to, makes a list
 * longer or shorter, mostly; that is reported then (misuse.h), where it is by more than a signal
 * handler may have interrupted (na_list_is_one).
 *
 * All by the thread that the cache belongs to, but for na_bin_count, _empty and _grant and
 * na_list_home, which are its holder's. */
#ifndef NUMALLOC_ALLOC_CORE_CACHE_BIN_H
#define NUMALLOC_ALLOC_CORE_CACHE_BIN_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "alloc/core/cache/thread_cache.h"
#include "alloc/core/central/block.h"
#include "alloc/core/page/pageheap.h"
#include "alloc/core/page/scavenge_policy.h"
#include "alloc/core/sys/base.h"
#include "alloc/core/sys/thread.h"

/* --- How much the bins of many threads may hold ---
 *
 * A bin is YOUNG until its thread has wanted back some of the blocks that it freed. Threads that
 * start up, allocate, free and then sleep for good have young bins only; a bin that is in use grows
 * up within a few calls. What is free in a young bin is most likely of no use, and nobody can take
 * it from a thread that sleeps: so the more threads there are, the less a young bin may hold. When
 * it has more, all of it goes home, and spans that are empty then go to the page heap.
 *
 *   threads        4        8       16      64     128
 *   young bin   64 KiB   16 KiB   4 KiB   256 B   64 B      NA_YOUNG_BYTES / threads^2
 *
 * Up to four threads that is as much as any bin may hold; from some hundred on nothing. Summed up
 * over all threads it has a bound, whatever their number.
 *
 * A grown-up bin may hold `cap` blocks (adapt_cap in bin.c), but no more bytes than its share of
 * NA_GROWN_BYTES; that matters beyond 256 threads. One whose thread goes on wanting blocks back
 * (NA_REUSES_MOST of them) is busy, and may hold `cap` blocks however many threads sleep.
 *
 * A bin that was not used for a second is young again (scavenge.c). */

#define NA_YOUNG_REUSES (NA_BATCH_BLOCKS / 4) /* blocks wanted back before the bin is grown up */
#define NA_REUSES_MOST                                                                             \
    NA_BATCH_BLOCKS /* counted up to: busy; a thread that leaves its thread cache halves it */

/* Of na_threads.bin_share, what a bin may hold: which. Set by na_tcache_count_threads. */
typedef enum na_share { NA_SHARE_GROWN, NA_SHARE_YOUNG } na_share_t;

/* --- accounts --- */

/* Brings a bin's count up to date with what its thread popped and pushed; true if it did any.
 * Leaves no credit: na_bin_grant follows. */
bool na_bin_count(na_tcache_t *tcache, unsigned cls);
/* The thread cache's first use of a class; before that nothing of the bin's state is written, so
 * that a thread touches no page for classes it does not use. */
void na_bin_begin(na_tcache_t *tcache, unsigned cls);
/* Grants credit for what is in the bin now. */
void na_bin_grant(na_tcache_t *tcache, unsigned cls);

/* A renewal for a class that is about to be used, up to the grant, after the look at the clock
 * (malloc/small.h). Not behind the gate. */
void na_bin_renew(na_tcache_t *tcache, unsigned cls);
/* The same without a look at the blocks that were freed last. */
void na_bin_open(na_tcache_t *tcache, unsigned cls);

/* --- filling and emptying --- */

/* The bin has a block, or gets one, for na_bin_take to follow; from new memory if it is to `grow`.
 * False: there is none, or the gate was refused. */
bool na_bin_fill(na_tcache_t *tcache, unsigned cls, bool grow);
/* The bin has a block. If it has but a few, it gets some more from spans that are there: where a
 * thread pops and pushes in turn, credit would be spent every few calls (core.md). After
 * na_bin_renew, which has looked at as many. Not of large classes, whose only block may be
 * untouched. */
void na_bin_top_up(na_tcache_t *tcache, unsigned cls);
/* As na_bin_fill, where its list is empty, though it counts some, by about `want`. Not behind the
 * gate. */
bool na_bin_fill_more(na_tcache_t *tcache, unsigned cls, uint32_t want);
/* The same of a counted bin, from blocks that were freed of late. False: the next one will come
 * from spans. */
bool na_bin_fill_used(na_tcache_t *tcache, unsigned cls);

/* The block of the class goes to the bin, whose credit is renewed. What a full one held goes on.
 * After the look at the clock. */
void na_bin_put(na_tcache_t *tcache, unsigned cls, void *block);

/* Bin and overflow batches of a class go to the transfer cache or to their spans. Counted before,
 * granted after by the caller. Behind the gate. */
void na_bin_empty(na_tcache_t *tcache, unsigned cls);
/* Returns a list of `count` blocks of a class to the spans they came from; the bytes of spans that
 * went to the page heap for it. Behind the gate. */
size_t na_list_home(na_tcache_t *tcache, unsigned cls, void *list, uint32_t count);
NA_INLINE size_t na_batch_home(na_tcache_t *tcache, unsigned cls, na_batch_t batch) {
    return na_list_home(tcache, cls, na_batch_first(batch), na_batch_count(batch));
}

/* Of a bin that is counted, and has a block. Not where the path draws blocks itself (na_path.draw).
 */
void *na_bin_take(na_tcache_t *tcache, unsigned cls);

/* --- A look over the blocks that a thread freed last --- */

/* Looks over the four blocks that a bin's thread freed last, and when the thread has just looked at
 * the clock (malloc/small.h) also at the span of the newest. Reports what is wrong, and cuts the
 * list before it when the program is to go on. */
void na_bin_inspect(na_tcache_t *tcache, unsigned cls);
/* Reports what is wrong with a bin, which is counted: blocks that begin in the middle of one, which
 * are taken out; one that is in the list twice, an end that is not where it should be: the list is
 * cut there. By the span of each block. */
NA_COLD void na_bin_look_over(na_tcache_t *tcache, unsigned cls);

/* --- Batches of free blocks that a thread cache keeps for itself, class by class ---
 *
 *   bin full  ->  batch  ->  states[cls].overflow: a stack of batches  ->  bin empty
 *                               |
 *                               v   when something calls for it
 *                        transfer cache, spans, page heap
 *
 * Sending a batch home costs a look at the page map a block, and bringing the blocks back as much
 * again. A thread that frees what it will soon want again is spared both: its batches are kept, and
 * go home (pooled classes': by way of the transfer cache) only
 *   - before the thread cache, or a large block, takes memory that was never touched
 *     (na_overflow_flush): what other classes keep may hold the pages, so that keeping does not
 *     raise the peak;
 *   - when the thread frees more than the limit in one go: it will not want it back soon. All goes
 *     home then, and nothing is kept until the thread draws from its spans again;
 *   - at once, when blocks are freed in random order: walking them later, out of the cache, costs
 *     more than now, and so does taking them from all over the thread cache again. (Judged by
 *     the newest blocks of the latest batches: in most of them none of sixteen is near the one
 *     before it. Where other threads take what is put into the transfer cache, those of pooled
 *     classes go there as long as it has room);
 *   - of a class of which the thread has freed more than it allocated: others want them;
 *   - when they lie idle, and when the thread exits (scavenge.c).
 * The limit is a thread's share of NA_OVERFLOW_TOTAL, from NA_OVERFLOW_LEAST to NA_OVERFLOW_MAX.
 * What a thread keeps that sleeps others send home for it.
 *
 * All behind the gate, by the thread cache's holder. Sizes are bytes. */

/* The block of the class, which is the program's if all is right, lies among those that the thread
 * freed: in its bin, or in a batch that it keeps. Some thousand blocks are looked at. By the
 * cache's thread, which is not behind the gate. */
NA_COLD bool na_overflow_has_freed(na_tcache_t *tcache, unsigned cls, const void *block);

/* Takes a batch of a bin that is full; older ones may go home for it. */
void na_overflow(na_tcache_t *tcache, unsigned cls, na_batch_t batch);
/* Takes in batches that came by remote frees, a stack of them; they are the thread cache's as if
 * kept. */
void na_overflow_remote(na_tcache_t *tcache, unsigned cls, na_batch_t stack);
/* Takes in a block of the node that came by its inbox: onto the batch that was kept last, if that
 * is short. */
void na_overflow_add(na_tcache_t *tcache, unsigned cls, void *block);
/* Sends everything home if it is more than the limit. After na_overflow_add. */
void na_overflow_bound(na_tcache_t *tcache);
/* The batch that was kept last, or 0. */
na_batch_t na_overflow_take(na_tcache_t *tcache, unsigned cls);

/* Sends everything home, remote frees too. */
void na_overflow_flush(na_tcache_t *tcache);
/* If nothing was kept or taken since the last call, sends home some of what the thread, which seems
 * to sleep, keeps: as much as it can be made to wait for, should it wake. */
void na_overflow_scavenge(na_tcache_t *tcache);
/* Called once in a while: sends home the batches of the class that were not touched since. */
void na_overflow_decay(na_tcache_t *tcache, unsigned cls);

#endif
