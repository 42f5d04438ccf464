/* scavenge.h - what lies free in thread caches goes down: to spans, transfer caches, other owners.
 *
 * The table of what goes when, where to, how much at a time and at what cost, with all of its
 * constants, is in alloc/core/page/scavenge_policy.h. There is no thread for it (unless
 * NUMALLOC_BACKGROUND=1): slow paths drive it, each thread for its own cache, whoever comes by
 * first for what belongs to nobody awake. To FLUSH is to give back all of something now; what
 * DECAYS gives back what was not used since the last look.
 *
 *   slow path -> every NA_SCAVENGE_CALLS of them (malloc/small.h) -> na_scavenge_poll
 *       IDLE_DRAWN drawn:  own idle bins
 *       each POLL_MS:      own remote batches; the nodes' free pages (na_pageheap_tick)
 *         each IDLE_MS:      own idle bins and overflow batches
 *         each TRANSFER_..:  the node's transfer cache (one thread)
 *         each OTHERS_MS:    warm thread caches, threads that sleep (one thread)
 *         pressure rose:     all of its own, once */
#ifndef NUMALLOC_ALLOC_CORE_THREAD_SCAVENGE_H
#define NUMALLOC_ALLOC_CORE_THREAD_SCAVENGE_H

#include <stdbool.h>

#include "alloc/core/cache/thread_cache.h"
#include "alloc/core/page/scavenge_policy.h"

/* Looks at the clock and does what is due; also changes of the nodes. Not behind the gate. */
void na_scavenge_poll(na_tcache_t *tcache);

/* Everything free in this thread's cache goes where other threads can use it or to the page heap.
 * Behind the gate. */
void na_tcache_flush(na_tcache_t *tcache);

/* For those who sleep or are gone; to be called once a second or so: warm thread caches that nobody
 * adopted since the last time, and what threads keep that sleep. Behind the caller's own gate. */
void na_scavenge_others(na_tcache_t *self);
/* Warm thread caches are flushed: those that nobody adopted since the last time, or all. Behind the
 * caller's own gate, if it has a thread cache. */
void na_scavenge_warm(bool all);

/* Whether a thread cache about to be abandoned may keep what is in its bins: a thread that comes
 * soon finds them filled, and emptying all of them is most of what a short-lived thread costs. Not
 * where memory is short, nor blocks that a policy of the thread's own has placed. Behind the gate.
 */
bool na_warm_keep(na_tcache_t *tcache);
/* It was adopted, or flushed. By its holder. */
void na_warm_forget(na_tcache_t *tcache);

/* --- The thread that gives memory back while the program sleeps --- */

/* Starts it, if NUMALLOC_BACKGROUND asks for it. Not started in forked children. */
void na_background_init(void);

#endif
