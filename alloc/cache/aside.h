/* aside.h - when a thread is served aside, and what is put off until the gate is open again.
 *
 * How and why is in malloc/emergency.h, which serves them, and does what was put off. Here is what
 * those below it need: whether to go on waiting at the gate, and two lists that anyone may put
 * something on without a gate or a lock, also in a signal handler: blocks, linked through
 * themselves, and thread caches, through next_idle. */
#ifndef NUMALLOC_ALLOC_CACHE_ASIDE_H
#define NUMALLOC_ALLOC_CACHE_ASIDE_H

#include <stdatomic.h>
#include <stdbool.h>

#include "alloc/cache/thread_cache.h"

#define NA_FORK_PATIENCE_MS 2u

/* Another thread's fork keeps the gate closed, and is long. */
bool na_aside_is_time(void);
/* Waits for that, or for the end of the fork. */
void na_aside_wait(void);

/* The block is free, but for the part behind the gate: its record has ended, if it had one. */
void na_aside_free_later(void *block);
/* The thread cache's thread has ended; it is to be abandoned. */
void na_aside_tcache_later(na_tcache_t *tcache);
/* There is something for later: for na_aside_drain (malloc/emergency.h), which clears it before it
 * takes the lists. */
extern _Atomic(bool) na_aside_pending;

/* The whole list, which is empty then; NULL: it was. */
void *na_aside_take_blocks(void);
na_tcache_t *na_aside_take_tcaches(void);

/* The child's list of thread caches is empty: their threads are not there, so that they are taken
 * over as all others. Its blocks it inherits. */
void na_aside_after_fork_child(void);

#endif
