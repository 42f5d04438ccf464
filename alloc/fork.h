/* fork.h - a consistent child.
 *
 * fork() copies memory while other threads are anywhere. The prepare handler closes the gate
 * (heap.h) and waits until no thread is behind it, so that everything shared is at rest; the parent
 * opens it again; the child, which has only the forking thread, takes over the heaps of the threads
 * that it does not have. vfork and posix_spawn run no handlers and need none: their children share
 * the parent's memory until they exec. */
#ifndef NUMALLOC_ALLOC_FORK_H
#define NUMALLOC_ALLOC_FORK_H

/* Registers the handlers, once: before anybody else registers any (entry_fork.c), from the
 * constructor at the latest. pthread_atfork may allocate. */
void na_fork_init(void);

#endif
