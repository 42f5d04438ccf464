/* access_watch_trap.h - a watchpoint's exception that the kernel takes for the program's own.
 *
 * The processor says in a register (DR6) which watchpoint fired. Under some hypervisors that is at
 * times lost: it reads as 0, and the kernel, which knows of one other cause only (the instruction
 * int1), sends SIGTRAP. By default that ends the program, and always the one whose thread blocks
 * the signal. So while threads are watched there is a handler that takes such a signal for what it
 * is, in front of the one that the program has when watching begins. What an int1 asked for, what
 * somebody sent, and a breakpoint of a debugger's go on to that one.
 *
 * Where there is a hypervisor, a thread that blocks SIGTRAP isn't watched; nor is any while the
 * program has a handler that it set later: that one may lead to ours, which can't lead back. */
#ifndef NUMALLOC_PROFILER_RECORD_SOURCES_WATCH_ACCESS_WATCH_TRAP_H
#define NUMALLOC_PROFILER_RECORD_SOURCES_WATCH_ACCESS_WATCH_TRAP_H

#include <stdbool.h>
#include <stdint.h>

/* Before threads are watched. Not undone, since an exception may be on its way when that ends. */
void na_trap_start(void);
/* Before a round: the handler is there, put back where it was reset to the default, or isn't. */
void na_trap_look(void);
/* As of that: may the thread be watched? Asks the system about its mask under a hypervisor. */
bool na_trap_may_watch(uint32_t tid);

#endif
