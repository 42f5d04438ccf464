/* functions.h - which frames are of one function: a number for each name, module and file. */
#ifndef NUMALLOC_PROFILER_DUMP_SYMBOLS_FUNCTIONS_H
#define NUMALLOC_PROFILER_DUMP_SYMBOLS_FUNCTIONS_H

#include "profiler/containers/index.h"
#include "profiler/dump/symbols/symbols.h"

typedef struct na_functions {
    na_function_name_t *items; /* strings are the caller's, and stay */
    uint32_t count, room;
    na_index_t by_name;
} na_functions_t;

/* The id of a function, which gets one if it is new. UINT32_MAX: out of memory. */
uint32_t na_functions_id(na_functions_t *functions, const na_function_name_t *f);
void na_functions_free(na_functions_t *functions);

#endif
