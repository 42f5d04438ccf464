/* debuginfod.h - how far a download of debug information is. libdw loads libdebuginfod itself, and
 * only if DEBUGINFOD_URLS is set; so does this. */
#ifndef NUMALLOC_PROFILER_DUMP_SYMBOLS_DEBUGINFOD_H
#define NUMALLOC_PROFILER_DUMP_SYMBOLS_DEBUGINFOD_H

#include <elfutils/libdwfl.h>

/* What this Dwfl downloads is told to whom na_symbols_downloading named (symbols.h). */
void na_debuginfod_watch(Dwfl *dwfl);

#endif
