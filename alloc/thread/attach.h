/* attach.h - the life of thread caches: made, attached to threads, moved with them, abandoned,
 * adopted.
 *
 * What a thread cache is, and its states, is in cache/thread_cache.h. The slow paths of malloc/ and
 * the API begin and end here. */
#ifndef NUMALLOC_ALLOC_THREAD_ATTACH_H
#define NUMALLOC_ALLOC_THREAD_ATTACH_H

#include <stdbool.h>
#include <stdint.h>

#include "alloc/cache/thread_cache.h"

/* The thread cache to work with in a slow path, or NULL: no memory. A thread in its last breath
 * (GONE) gets one for this one call. Every na_tcache_enter is followed by na_tcache_leave. */
na_tcache_t *na_tcache_enter(void);
void na_tcache_leave(na_tcache_t *tcache);

/* Before the thread cache takes memory that was not used yet: the thread's memory policy is looked
 * at again (a program may set it any time), and if it is not what the thread cache is for, the
 * thread takes one that is. Not behind the gate. */
na_tcache_t *na_tcache_check_policy(na_tcache_t *tcache);
NA_INLINE na_tcache_t *na_tcache_before_growth(na_tcache_t *tcache) {
    return NA_LIKELY(!na_tcache_watched(tcache)) ? tcache : na_tcache_check_policy(tcache);
}

/* The calling thread takes a thread cache of this node (or the pseudo-node) now; `pinned`: and
 * stays there wherever it runs. Returns its thread cache, which is the old one when there is no
 * memory for another. Not behind the gate; the thread cache is the thread's own, not one for its
 * last breath. */
na_tcache_t *na_tcache_move(na_tcache_t *tcache, unsigned node, bool pinned);
/* The node the calling thread should be served from, whatever its thread cache is. */
unsigned na_tcache_node_for_thread(void);

/* How many had one at one time, at most, since na_tcache_forget_most. */
unsigned na_tcache_most(void);
void na_tcache_forget_most(void);

/* For fork.c: no thread cache is made, adopted or abandoned between the two. False: it is the
 * thread's already, or somebody keeps it for longer than ever happens. */
bool na_tcache_lock_list(void);
void na_tcache_unlock_list(void);
/* In a child that was made without prepare handler: thread caches of which others were behind the
 * gate are lost (NA_GATE_LOST). False: others were changing what is not theirs alone. */
bool na_tcache_lose_busy(void);
/* In the child: every thread cache but the thread's own is abandoned, its bins forgotten, and what
 * they held counted in na_fork_lost. At once; or, where the list lock may be that of code that a
 * signal handler has `interrupted`, when that gives it back. Not where another thread than this one
 * has `forked`, which cannot be told from those that are gone: what they had stays theirs. */
void na_tcache_after_fork_child(bool interrupted, bool forked);
/* For emergency.c: abandons a thread cache whose thread ended while a fork kept the lists; false:
 * not yet. */
bool na_tcache_abandon_late(na_tcache_t *tcache);

/* Upper bound of bytes lost to this process by forks (see Gate). */
extern uint64_t na_fork_lost;

#endif
