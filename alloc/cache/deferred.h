/* deferred.h - what is put off while a fork keeps the gate closed.
 *
 * Why, and how threads are served meanwhile, is in malloc/emergency.h, which also does what was put
 * off. Here is what those below it need: how long to wait at the gate, and two lists that anyone
 * may put something on without a gate or a lock, also in a signal handler: freed blocks, linked
 * through themselves, and thread caches to abandon, through next_idle. */
#ifndef NUMALLOC_ALLOC_CACHE_DEFERRED_H
#define NUMALLOC_ALLOC_CACHE_DEFERRED_H

#include <stdatomic.h>
#include <stdbool.h>

#include "alloc/cache/thread_cache.h"
#include "alloc/sys/lock.h"

#define NA_FORK_PATIENCE_MS 2u

/* Another thread's fork keeps the gate closed, and has for NA_FORK_PATIENCE_MS. */
bool na_gate_timed_out(void);
/* Waits for that, or for the end of the fork. */
void na_gate_wait_for_fork(void);

/* The block is free, but for the part behind the gate: its record has ended, if it had one. */
void na_defer_free(void *block);
/* The thread cache's thread has ended; it is to be abandoned. */
void na_defer_abandon(na_tcache_t *tcache);
/* Something is on the lists; na_deferred_drain (malloc/emergency.h) clears it, then takes them. */
extern _Atomic(bool) na_deferred_pending;

/* Held by who has taken the blocks, or ends a heap that some of them are of. Not behind the gate.
 */
extern na_lock_t na_deferred_lock;
/* The whole list, which is empty then; NULL: it was. */
void *na_deferred_take_blocks(void);
na_tcache_t *na_deferred_take_tcaches(void);

/* The child's list of thread caches is empty: their threads are not there, so that they are taken
 * over as all others. Its blocks it inherits. */
void na_deferred_after_fork_child(void);

#endif
