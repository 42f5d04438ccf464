/* report.h - prints a comparison, as tables, as JSON or as CSV. */
#ifndef NUMALLOC_BENCH_COMPARE_REPORT_H
#define NUMALLOC_BENCH_COMPARE_REPORT_H

#include "bench/compare/comparison.h"

#include <stdio.h>

void na_compare_table(const na_comparison_t *comparison, bool details, FILE *out);
void na_compare_json(const na_comparison_t *comparison, FILE *out);
/* A row for each value: case, threads, metric, unit, better, rank, allocator, round, value. */
void na_compare_csv(const na_comparison_t *comparison, FILE *out);

/* "AMD EPYC, 2 CPUs, Linux 6.1.0, 8 GiB, 1 NUMA node, glibc 2.36" */
void na_compare_machine(char *out, size_t size);

#endif
