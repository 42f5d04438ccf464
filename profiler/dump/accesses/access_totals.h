/* access_totals.h - all accesses that a view looks at, summed up: from which node to the memory of
 * which, what answered, what kinds of objects they were for, and how loaded nodes were over time.
 * The terminal and the page show the same. */
#ifndef NUMALLOC_PROFILER_DUMP_ACCESSES_ACCESS_TOTALS_H
#define NUMALLOC_PROFILER_DUMP_ACCESSES_ACCESS_TOTALS_H

#include "profiler/dump/accesses/access_view.h"
#include "profiler/format/reader/reader_access.h"

#define NA_ACCESS_STEPS 60u /* parts that the time of the samples is divided into */

typedef struct na_access_totals {
    na_touch_sum_t sum;
    na_touch_sum_t *pair; /* [from * nodes + home]; those whose nodes are known */
    na_touch_sum_t kind[NA_FLOW_KINDS];
    double level[NA_NPROF_LEVELS], levels; /* weights by what answered, and their sum: also of
                                              samples that do not count otherwise */
    double *step;                          /* weights, [home * NA_ACCESS_STEPS + time] */
    double step_remote[NA_ACCESS_STEPS], step_all[NA_ACCESS_STEPS];
    uint64_t step_ns;
} na_access_totals_t;

/* False: out of memory. Free with na_access_totals_free in both cases. */
bool na_access_totals_make(const na_access_view_t *view, na_access_totals_t *all);
void na_access_totals_free(na_access_totals_t *all);

#endif
