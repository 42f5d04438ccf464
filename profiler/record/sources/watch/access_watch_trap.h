/* access_watch_trap.h - a watchpoint's exception that the kernel takes for the program's own.
 *
 * The processor says in a register (DR6) which watchpoint fired. Under some hypervisors that is at
 * times lost: it reads as 0, and the kernel, which knows of one other cause only (the instruction
 * int1), sends SIGTRAP. By default that ends the program. So while threads are watched there is a
 * handler that takes such a signal for what it is; one that an int1 asked for, one that somebody
 * sent, and a breakpoint of a debugger's do what they would without it.
 *
 * It is there only where the program has no handler when watching begins, and gives way to one that
 * is set later. What it cannot help: a thread that blocks SIGTRAP is ended by such a signal. */
#ifndef NUMALLOC_RECORD_SOURCES_WATCH_ACCESS_WATCH_TRAP_H
#define NUMALLOC_RECORD_SOURCES_WATCH_ACCESS_WATCH_TRAP_H

/* Once a start; not undone, since an exception may be on its way when watching ends. */
void na_trap_start(void);

#endif
