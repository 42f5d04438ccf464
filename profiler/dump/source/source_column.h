/* source_column.h - the column of a call in its line, where the line table has it. */
#ifndef NUMALLOC_PROFILER_DUMP_SOURCE_SOURCE_COLUMN_H
#define NUMALLOC_PROFILER_DUMP_SOURCE_SOURCE_COLUMN_H

#include <stdint.h>

/* Of the instruction that ends before `offset` (an address of the module's file) and must be of
 * this line; 0: not known. The module last asked for stays open. One thread at a time. */
unsigned na_source_column(const char *module, uint64_t offset, unsigned line);

#endif
