/* trampoline.h - the code that a signal handler returns to.
 *
 * It is a few instructions of the C library without a symbol in what is installed, and it lies on
 * the stack between a handler and what the signal interrupted. */
#ifndef NUMALLOC_PROFILER_DUMP_SYMBOLS_TRAMPOLINE_H
#define NUMALLOC_PROFILER_DUMP_SYMBOLS_TRAMPOLINE_H

#include <elfutils/libdwfl.h>
#include <stdbool.h>

/* What such a frame is called, as in gdb. */
#define NA_TRAMPOLINE "<signal handler called>"

/* Whether the code at `address` (as in the process), or one byte behind it, calls rt_sigreturn: a
 * return address is looked up as the byte before it. */
bool na_trampoline_at(Dwfl_Module *module, GElf_Addr address);

#endif
