/* runs.h - several profiles at once, each reduced to a few figures; files are read in parallel. */
#ifndef NUMALLOC_PROFILER_DUMP_RUNS_H
#define NUMALLOC_PROFILER_DUMP_RUNS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "numalloc/profile.h"
#include "profiler/dump/options.h"

#define NA_RUN_STEPS 64u /* parts that a run is divided into */

typedef struct na_run {
    const char *path;
    char program[512], host[64], why[256]; /* why: it cannot be read; "" if it can */
    int32_t pid, rank;
    uint64_t duration_ms, peak_ms;
    double peak, live, total, allocations, frees, temporary, physical, lost;
    bool damaged, closed;
    double step[NA_RUN_STEPS]; /* most bytes live in each part of the run */
} na_run_t;

/* Reads all files, by as many threads as there are processors. NULL: out of memory. A file that
 * cannot be read is said on stderr. free() the result. *status: WHOLE, PARTIAL (some cannot be read
 * or are damaged) or NOTHING (none can be read). */
na_run_t *na_runs_read(const char *const *files, size_t count, na_status_t *status);

#endif
