/* thread.h - how many threads there are; the library's own ones.
 *
 * None of these runs unless an option asks for one: the allocator works on its callers' time. A
 * thread of ours takes no signals, which are the program's business, has a small stack, and is
 * detached, so that the program's end waits for nobody. But a program may end by its last thread's
 * end, and for the C library ours count: so each asks from time to time whether it is left alone.
 */
#ifndef NUMALLOC_ALLOC_CORE_SYS_THREAD_H
#define NUMALLOC_ALLOC_CORE_SYS_THREAD_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "alloc/core/sys/base.h"

/* Threads that have a thread cache, and what a bin may hold with so many (bin.h): read by all,
 * written when one comes or goes. So nothing else lies on the line. */
typedef struct na_threads {
    _Alignas(NA_CACHE_LINE) _Atomic(uint32_t) attached;
    _Atomic(uint32_t) bin_share[2]; /* bytes */
} na_threads_t;
extern na_threads_t na_threads;

/* Starts a thread that runs `run(NULL)`. False: refused, and the caller goes on without. It
 * allocates (pthread_create): never from inside the allocator, nor from a signal handler. */
bool na_thread_start(void *(*run)(void *));
/* Has the program's first thread ended (by pthread_exit), and are none but ours left? Then `run` is
 * to return; the C library ends the process with the last one. Reads a file of /proc: once a second
 * is enough. */
bool na_thread_is_left_alone(void);
/* How many of ours run. */
extern NA_NEAR _Atomic uint32_t na_thread_own;
/* The calling thread is one of ours. */
bool na_thread_is_among_ours(void);
NA_INLINE bool na_thread_is_ours(void) {
    return NA_UNLIKELY(atomic_load_explicit(&na_thread_own, memory_order_relaxed) != 0) &&
           na_thread_is_among_ours();
}
/* The same of any thread, by the kernel's number. From when it runs to its end. */
bool na_thread_tid_is_ours(uint32_t tid);
/* A child has none of them. */
void na_thread_after_fork_child(void);

#endif
