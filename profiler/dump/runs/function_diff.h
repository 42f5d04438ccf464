/* function_diff.h - the functions of two profiles, paired (view_diff.c). */
#ifndef NUMALLOC_PROFILER_DUMP_RUNS_FUNCTION_DIFF_H
#define NUMALLOC_PROFILER_DUMP_RUNS_FUNCTION_DIFF_H

#include "profiler/dump/profile/input.h"
#include "profiler/dump/runs/module_pairs.h"

typedef struct na_diff_row {
    const na_function_name_t *name; /* of one of the two */
    na_cost_t cost[2];              /* old, new; what the function is responsible for */
    const char *module, *function;  /* what pairs it: na_pairs_key */
    uint32_t side;
    uint32_t number; /* of those on its side that agree in all that pairs, by their lines */
    bool several;    /* lambdas of which is not known which is which; then the name is the row's */
} na_diff_row_t;

typedef struct na_diff {
    na_diff_row_t *items; /* by name */
    size_t count;
    na_pairs_t *pairs;
} na_diff_t;

/* Both inputs must outlive the result. False: out of memory. */
bool na_diff_make(const na_view_input_t *old, const na_view_input_t *new, na_diff_t *diff);
void na_diff_free(na_diff_t *diff);

#endif
