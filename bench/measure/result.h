/* result.h - what a benchmark reports: metrics, each with its samples. */
#ifndef NUMALLOC_BENCH_MEASURE_RESULT_H
#define NUMALLOC_BENCH_MEASURE_RESULT_H

#include <stddef.h>

typedef enum na_better { NA_LOWER, NA_HIGHER } na_better_t;

/* Headlines are in every table; details only with --details (the JSON has all). */
typedef enum na_rank { NA_HEADLINE, NA_DETAIL } na_rank_t;

/* What a metric is about: `compare` draws time and memory apart and takes geometric means within
 * each; a ratio (of a falsely shared run to an unshared one, of resident to live bytes) is compared
 * but is part of no mean. na_result_metric() takes the kind from the unit: a word that begins with
 * B, KiB, MiB, GiB, bytes or pages is memory, "x", "%" and "ratio" are ratios, all else (ns, ms,
 * ns/obj, Mobj/s) is time. A benchmark that knows better sets metric->kind itself. */
typedef enum na_kind { NA_TIME, NA_MEMORY, NA_RATIO } na_kind_t;

typedef struct na_metric {
    char name[64]; /* stable: comparisons and scripts find metrics by it; no tabs */
    const char *unit;
    na_better_t better;
    na_rank_t rank;
    na_kind_t kind;
    double *samples;
    size_t count, capacity;
} na_metric_t;

#define NA_METRICS_MAX 512

typedef struct na_result {
    na_metric_t metric[NA_METRICS_MAX];
    size_t count;
} na_result_t;

/* A new metric with room for `capacity` samples. Ends the program when the table is full. The
 * pointer stays valid as long as the result. */
na_metric_t *na_result_metric(na_result_t *result, const char *name, const char *unit,
                              na_better_t better, na_rank_t rank, size_t capacity);

void na_metric_add(na_metric_t *metric, double sample);

/* A headline that stands for several cases: sample i of it is the geometric mean of the i-th
 * samples of all of them, so that each weighs the same whatever its size. The cases have the same
 * unit, and as many samples as each other, all taken. No mean of what is not above zero: 0. */
na_metric_t *na_result_mean(na_result_t *result, const char *name, na_metric_t *const *cases,
                            size_t count);

#endif
