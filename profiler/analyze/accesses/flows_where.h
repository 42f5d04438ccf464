/* flows_where.h - which samples a view looks at: conditions such as "remote,node=2,latency>300".
 * All of them must hold.
 *
 *     remote local read write      dram                the access
 *     node=N home=N cpu=N          N: as the kernel numbers it
 *     process=PID thread=TID       thread=NAME is the same for a name
 *     latency>N latency<N          cycles; samples without a latency do not pass
 *     time=FROM-TO                 milliseconds since the start; either may be left out
 *     source=NAME                  "kmod-ibs", "watch", ...
 *     site=N object=N kind=WORD    as the views number them; heap, pool, static, file, anonymous,
 *                                  code, stack or unknown */
#ifndef NUMALLOC_PROFILER_ANALYZE_ACCESSES_FLOWS_WHERE_H
#define NUMALLOC_PROFILER_ANALYZE_ACCESSES_FLOWS_WHERE_H

#include "profiler/analyze/accesses/flows.h"

#define NA_WHERE_WHY 160

/* Keeps the samples that fulfil all conditions and makes the flows anew. Objects keep their
 * numbers. False: `why` has one line that says what is not understood, or that memory ran out. */
bool na_flows_select(na_flows_t *set, const char *conditions, char why[NA_WHERE_WHY]);

#endif
