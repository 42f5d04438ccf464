/* allocators.h - finds the allocators to compare. */
#ifndef NUMALLOC_BENCH_COMPARE_ALLOCATORS_H
#define NUMALLOC_BENCH_COMPARE_ALLOCATORS_H

#include "bench/compare/comparison.h"

#include <stdio.h>

/* Adds "NAME" (of a known allocator, looked for where it is usually installed) or "NAME=PATH".
 * NA_ABSENT: known but not installed, with one line in `error` that names the package. */
typedef enum na_added { NA_ADDED, NA_ABSENT, NA_REFUSED } na_added_t;
na_added_t na_compare_add(na_comparison_t *comparison, const char *text, char *error, size_t size);

/* The name of known allocator i, or NULL behind the last. */
const char *na_compare_known(size_t i);

/* Adds the base once more. */
bool na_compare_add_control(na_comparison_t *comparison, char *error, size_t size);

void na_compare_list_known(FILE *out);

#endif
