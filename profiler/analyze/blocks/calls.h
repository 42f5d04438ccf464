/* calls.h - how often a thread called each entry point of the allocator, and how long that took. */
#ifndef NUMALLOC_PROFILER_ANALYZE_BLOCKS_CALLS_H
#define NUMALLOC_PROFILER_ANALYZE_BLOCKS_CALLS_H

#include "profiler/format/nprof.h"

/* By NA_NPROF_ENTRY_*. */
extern const char *const na_call_names[NA_NPROF_ENTRIES];

/* Not a number: not known. */
typedef struct na_call_time {
    double calls, timed;
    double ms;    /* estimate of what all calls took */
    double error; /* half the width of its 95 % interval, as a fraction of it */
} na_call_time_t;

/* Of one entry point. */
na_call_time_t na_call_time(const na_nprof_header_t *header, const na_nprof_thread_t *thread,
                            unsigned entry);
/* Of all. Entry points of which no call was timed are in `calls` only. */
na_call_time_t na_call_time_of_all(const na_nprof_header_t *header,
                                   const na_nprof_thread_t *thread);

#endif
