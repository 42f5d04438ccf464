/* python_lines.h - the tables by which CPython's code objects know lines. They may be damaged. */
#ifndef NUMALLOC_PROFILER_FORMAT_PYTHON_LINES_H
#define NUMALLOC_PROFILER_FORMAT_PYTHON_LINES_H

#include <stdint.h>

/* The line of an instruction (NA_NPROF_PY_UNIT_*); 0: the table says none. `kind`:
 * NA_NPROF_PY_LNOTAB and so on. */
uint32_t na_python_line(uint32_t kind, const uint8_t *table, uint32_t bytes, int32_t first_line,
                        uint32_t unit);

#endif
