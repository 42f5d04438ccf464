/* debuginfod.h - how far a download of debug information is. libdw loads libdebuginfod itself, and
 * only if DEBUGINFOD_URLS is set; so does this. */
#ifndef NUMALLOC_PROFILER_DUMP_SYMBOLS_DEBUGINFOD_H
#define NUMALLOC_PROFILER_DUMP_SYMBOLS_DEBUGINFOD_H

#include <elfutils/libdwfl.h>
#include <stdint.h>

/* What this Dwfl downloads is told to whom na_symbols_downloading named (symbols.h). */
void na_debuginfod_watch(Dwfl *dwfl);

/* The file of a build-id, from the servers of DEBUGINFOD_URLS: the program itself, else its debug
 * file. A descriptor to be closed; -1: none is asked, or none has it. */
int na_debuginfod_find(const unsigned char *build_id, uint32_t size);

#endif
