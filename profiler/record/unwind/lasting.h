/* lasting.h - modules that stay loaded as long as the process: the program, the dynamic loader, the
 * vdso, this library, and what they need (DT_NEEDED), directly or not. What dlopen brought may go
 * at any time, so rules for its code must be confirmed in each walk (umodules.h). */
#ifndef NUMALLOC_PROFILER_RECORD_UNWIND_LASTING_H
#define NUMALLOC_PROFILER_RECORD_UNWIND_LASTING_H

#include <stdbool.h>
#include <stdint.h>

/* Asks the loader; from a constructor or another place where that is allowed. */
void na_lasting_find(void);

/* Does the module whose first address is `start` stay? Async-signal-safe. */
bool na_lasting(uintptr_t start);

#endif
