/* zstd_sections.h - files whose sections are compressed with zstd, which not every libdw reads:
 * copies of them, without. libzstd is loaded only for such a file. */
#ifndef NUMALLOC_PROFILER_DUMP_SYMBOLS_ZSTD_SECTIONS_H
#define NUMALLOC_PROFILER_DUMP_SYMBOLS_ZSTD_SECTIONS_H

#include <stdbool.h>

/* A file in memory, to be closed, with the sections of `fd`'s inflated. -1: it has none such, or
 * this could not be done. *failed: there are some. */
int na_zstd_inflated(int fd, bool *failed);

#endif
