/* attach.h - the life of thread caches: made, attached to threads, moved with them, abandoned,
 * adopted; and what the very first attach begins.
 *
 * What a thread cache is, and its states, is in cache/thread_cache.h. The slow paths of malloc/ and
 * the API begin and end here. */
#ifndef NUMALLOC_ALLOC_CORE_THREAD_ATTACH_H
#define NUMALLOC_ALLOC_CORE_THREAD_ATTACH_H

#include <stdbool.h>
#include <stdint.h>

#include "alloc/core/cache/thread_cache.h"

/* --- what is decided once, before the first block is handed out; what stands above the core --- */

struct na_tcache;

/* Options, topology, size classes, the profile. Called by every thread's first slow path; quick and
 * lock-free once done. May run before any constructor, on any thread. */
void na_init(void);
/* It has been done. */
bool na_init_is_done(void);

/* Something that begins and ends with the process, and that the core does not name. NULL: nothing
 * to do. */
typedef struct na_above {
    /* By na_init, under its lock: sets the options, before anything looks at one. Must not
     * allocate. */
    void (*options)(void);
    /* By na_init, under its lock: options hold, there is no block yet. Must not allocate. */
    void (*init)(void);
    /* In the library's constructor, if any option is set: the C library is ready. */
    void (*at_load)(void);
    /* The process ends. `tcache`: the calling thread's, or NULL: there is no memory for one. */
    void (*at_exit)(struct na_tcache *tcache);
    /* Its lines of the statistics. */
    void (*print)(int fd);
} na_above_t;

/* In the order in which they begin; they end the other way round. The last is NULL. Each library
 * defines its own: the core alone in alloc/alone.c, numalloc in profiler/control/above.c. */
extern const na_above_t *const na_above[];

/* The thread cache to work with in a slow path, or NULL: no memory. A thread in its last breath
 * (GONE) gets one for this one call. Every na_tcache_enter is followed by na_tcache_leave. */
na_tcache_t *na_tcache_enter(void);
void na_tcache_leave(na_tcache_t *tcache);

/* Before the thread cache takes memory that was not used yet: the thread's memory policy is looked
 * at again (a program may set it any time), and if it is not what the thread cache is for, the
 * thread takes one that is. Not behind the gate. */
na_tcache_t *na_tcache_check_policy(na_tcache_t *tcache);

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
