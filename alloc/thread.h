/* thread.h - the library's own threads.
 *
 * None runs unless an option asks for one: the allocator works on its callers' time. A thread of
 * ours takes no signals, which are the program's business, has a small stack, and is detached, so
 * that the program's end waits for nobody. */
#ifndef NUMALLOC_ALLOC_THREAD_H
#define NUMALLOC_ALLOC_THREAD_H

#include <stdbool.h>

/* Starts a thread that runs `run(NULL)`. False: refused, and the caller goes on without. It
 * allocates (pthread_create): never from inside the allocator, nor from a signal handler. */
bool na_thread_start(void *(*run)(void *));

#endif
