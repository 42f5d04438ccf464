/* fork.h - a consistent child.
 *
 * fork() copies memory while other threads are anywhere. The prepare handler closes the gate
 * (thread_cache.h) and waits until no thread is behind it, so that everything shared is at rest;
 * the parent opens it again; the child, which has only the forking thread, takes over the thread
 * caches of the threads that it does not have. vfork and posix_spawn run no handlers and need none:
 * their children share the parent's memory until they exec.
 *
 * What fork does to each lock and table, in the order in which prepare comes to them:
 *
 *   what                                    prepare            child
 *   fork itself (fork.c)                    locks              the same thread's
 *   the controller of profiles              locks (2 s)        gives back, or resets
 *   the recorder: its file, threads,        copies it if the   its mappings are not there; all
 *     stacks, trace, accesses, Python       thread is inside   begun anew at the first event
 *   guards: tables; the program's handlers  locks (1 s each)   gives back; without the tables
 *     (profiler/guard/handler.c)                               guards no block any more
 *   the list of thread caches               locks (a moment)   gives back; the caches of others
 *                                                              are taken over
 *   bins, remote batches, heaps' lists,     nothing            the thread's own stay; others' may
 *     queues of freed blocks                                   be mid-change: lost, and counted
 *   central lists, heaps,                   closes the gate,   at rest, or the child is LAME;
 *     spans, page heaps, kept runs,         waits (1 s)        resets the locks
 *     regions, metadata, looks at groups
 *   deferred blocks (cache/thread_cache.h)      nothing            inherits the list; resets the
 * lock emergency spans                         nothing            a word each, changed at once the
 * policy (policy/bind/bound.c)        nothing            the holder is of another process: begun
 * anew a scan for leaks, names of pools        nothing            resets options, topology, size
 * classes         nothing            constant
 *
 * Waits end (in brackets), since who is waited for may wait for what the forking thread has.
 * tests/conform/fork_entries.c forks under all of it.
 *
 * Three things make that wait for ever if nothing is done about them:
 *
 * The others. Between our prepare handler (the last, entry_fork.c) and our parent handler the C
 * library takes locks of its own. Their holders may wait for a thread that the gate stops. It is
 * stopped for a moment only, and then served without passing it (emergency.h).
 *
 * The thread itself, in fork. A signal handler may fork where it interrupted fork, at any
 * instruction. One lock says which thread forks; what each call of prepare took on top of that
 * (control.h's lock, the list of thread caches, the gate) it notes in a frame of its own, and that
 * is what its parent or child handler gives back. The inner one finds taken what the outer one has,
 * and completes what is missing. All locks name their holder from the instruction on that takes
 * them (lock.h). With several threads the C library's fork cannot be entered twice; the inner one
 * is its _Fork then (entry_fork.c).
 *
 * The thread itself, in malloc. A signal handler may fork where it interrupted a slow path, with
 * locks that others wait for behind their gates, and in the middle of a change. It waits for nobody
 * for long then. What it holds stays as it is in the child, where the interrupted code goes on;
 * locks that others hold are reset there, and so is what it waits for (lock.h). If somebody else
 * was behind the gate all the same (or another thread waits to fork out of a handler, its gate
 * marked so), the child is LAME: nothing that is shared is touched in it any more, the gate stays
 * closed, and all threads are served by emergency.h for as long as it lives. It uses more memory;
 * it is sound.
 *
 * No handlers. A program may make a child by a system call of its own. Its first slow path finds
 * that (lock.h), and does what the child handler does. Nobody waited for the other threads. What
 * is the own of one that was behind its gate is lost; where one held a lock of what is shared, the
 * child is lame. The copy is sound all the same, for the kernel makes it as of one moment: what a
 * thread wrote before that is there, and nothing that it wrote later. */
#ifndef NUMALLOC_ALLOC_CORE_THREAD_FORK_H
#define NUMALLOC_ALLOC_CORE_THREAD_FORK_H

#include <stdbool.h>

/* Registers the handlers, once: before anybody else registers any (entry_fork.c), from the
 * constructor at the latest. pthread_atfork may allocate. */
void na_fork_init(void);

/* In a child that was made by a system call of the program's own (lock.h): does what the handlers
 * do. False: the handlers are about to. */
bool na_fork_settle(void);
/* The calling thread is between its prepare and its parent or child handler, in what this signal
 * handler interrupted. */
bool na_fork_is_inside(void);
/* Calls a fork that runs no handlers, with ours around it. */
int na_fork_within(int (*fork_without)(void));

#endif
