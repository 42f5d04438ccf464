/* result.h - what the children measured. */
#ifndef NUMALLOC_BENCH_COMPARE_RESULT_H
#define NUMALLOC_BENCH_COMPARE_RESULT_H

#include "bench/compare/child.h"
#include "bench/compare/comparison.h"

/* Stores what a finished child measured, or counts its failure. `line`, if not NULL, gets the
 * journal's line of it, without a newline. */
void na_result_take(na_comparison_t *comparison, size_t index, size_t c, size_t round,
                    na_child_t *child, char *line, size_t size);

/* The same from such a line, which is cut up. False when it is not one of this comparison's. */
bool na_result_line(na_comparison_t *comparison, char *line, bool *present);

/* The metric that stands for the case, the one of its memory; NULL when no child gave one. */
const na_compared_t *na_case_main(const na_case_t *which);
const na_compared_t *na_case_memory(const na_case_t *which);

/* "churn, 2 threads", "sqlite". */
const char *na_case_label(const na_case_t *which, char *buffer, size_t size);

#endif
