/* stats.h - order statistics of a handful of measurements. */
#ifndef NUMALLOC_BENCH_MEASURE_STATS_H
#define NUMALLOC_BENCH_MEASURE_STATS_H

#include <stddef.h>

/* In the unit of the samples. */
typedef struct na_stats {
    size_t count;
    double min, q1, median, q3, max;
} na_stats_t;

/* Sorts `samples` in place. All zero when count is 0. */
na_stats_t na_stats_of(double *samples, size_t count);

/* The quantile q (0 .. 1) of sorted samples, interpolated linearly between neighbours; count >= 1.
 */
double na_stats_quantile(const double *sorted, size_t count, double q);

/* The distance between the quartiles as a share of the median's size, in percent; 0 for median 0.
 */
double na_stats_spread(const na_stats_t *stats);

/* The distance between the extremes likewise: what is left to say of very few samples. */
double na_stats_range(const na_stats_t *stats);

/* The median of a[i] / b[i] over the pairs with both above zero; 0 when there is none. Pairs taken
 * in the same round cancel the drift of the machine, which a ratio of two medians does not. Needs
 * `scratch` of `count` doubles. */
double na_stats_paired_ratio(const double *a, const double *b, size_t count, double *scratch);

#endif
