/* function_costs.h - folds sites to functions: what a function asked for itself (exclusive) and
 * what was asked for below it (inclusive). A function that occurs several times on a stack
 * (recursion) is counted once. Pure; time and memory are linear in stacks and frames, however deep
 * the stacks. */
#ifndef NUMALLOC_PROFILER_ANALYZE_BLOCKS_FUNCTION_COSTS_H
#define NUMALLOC_PROFILER_ANALYZE_BLOCKS_FUNCTION_COSTS_H

#include "profiler/analyze/blocks/site_sums.h"

typedef struct na_cost {
    int64_t peak_bytes, live_bytes, alloc_bytes, alloc_count; /* alloc_count: scaled */
} na_cost_t;

static inline void na_cost_add(na_cost_t *to, const na_cost_t *from) {
    to->peak_bytes = na_add_signed(to->peak_bytes, from->peak_bytes);
    to->live_bytes = na_add_signed(to->live_bytes, from->live_bytes);
    to->alloc_bytes = na_add_signed(to->alloc_bytes, from->alloc_bytes);
    to->alloc_count = na_add_signed(to->alloc_count, from->alloc_count);
}

typedef struct na_function {
    na_cost_t self, below; /* exclusive; inclusive (contains self) */
} na_function_t;

/* The functions of one stack entry, innermost first: more than one where calls were inlined.
 * Returns how many, 0: to be left out. Each id must be below the function_count given to the fold.
 * The array must stay valid until the next call. Called at most three times for each entry. */
typedef uint32_t (*na_frames_fn_t)(void *arg, uint32_t node, const uint32_t **functions);

/* Fills functions[0 .. function_count), which the caller zeroed. False: out of memory. */
bool na_functions_fold(na_stack_table_t stacks, const na_sites_t *sites, na_frames_fn_t frames,
                       void *arg, na_function_t *functions, uint32_t function_count);

#endif
