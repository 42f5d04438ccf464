/* runtime.h - what is the language's runtime: never where a program decided to allocate. */
#ifndef NUMALLOC_PROFILER_DUMP_SYMBOLS_NAMES_RUNTIME_H
#define NUMALLOC_PROFILER_DUMP_SYMBOLS_NAMES_RUNTIME_H

#include <stdbool.h>

#include "profiler/format/nprof.h"

/* The module is such a library: the C library's, C++'s, the allocator itself. */
bool na_runtime_module(const na_nprof_module_t *module);

/* The function is the runtime's though it is in the program, as templates are. `home`: the file
 * that it is defined in, or NULL; `file`: that of its code, or NULL. Names tell it; what a program
 * adds to std is defined elsewhere. An inlined call may have no more than the last part of its
 * name: then files tell. */
bool na_runtime_function(const char *function, bool inlined, const char *home, const char *file);

#endif
