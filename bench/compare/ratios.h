/* ratios.h - ratios of paired measurements, with bootstrap intervals.
 *
 * All ratios are of costs: a's over b's where lower is better, b's over a's where higher is, so
 * that a number below 1 always says that a is better. */
#ifndef NUMALLOC_BENCH_COMPARE_RATIOS_H
#define NUMALLOC_BENCH_COMPARE_RATIOS_H

#include "bench/compare/comparison.h"
#include "bench/measure/stats.h"

typedef struct na_ratio {
    double ratio;     /* the median over the pairs; 0: there is none */
    double low, high; /* of the 95 % interval from NA_INTERVAL_ROUNDS on, else the extremes */
    size_t pairs;     /* rounds in which both have a value; of a mean: cases */
    size_t rounds;    /* that low and high are of; 1: they say nothing */
} na_ratio_t;

/* The extremes of n values leave out the median with probability 2 * 2^-n, so 95 % take six. */
#define NA_INTERVAL_ROUNDS 6

/* Of costs a[i] / b[i], i < count. NaN marks what is missing. No ratio at all when a value is zero
 * or negative: it would be one of noise.
 *
 * The interval is the expanded percentile bootstrap of the median of the logarithms: pairs are
 * drawn anew NA_BOOTSTRAPS times from a fixed seed, and the quantiles are moved outwards as
 * Student's t is wider than the normal distribution, since few samples make percentile intervals
 * too short. */
#define NA_BOOTSTRAPS 4000
na_ratio_t na_ratio_of(const double *a, const double *b, size_t count);

/* The share that the interval leaves out on each side for `count` samples, NA_INTERVAL_ROUNDS or
 * more. */
double na_ratio_tail(size_t count);

/* "the 95 % interval" or what there is instead, of a comparison of so many rounds. */
const char *na_ratio_words(size_t rounds);

/* That 1 lies between low and high. False where there is no ratio, or one round of it. */
bool na_ratio_tie(const na_ratio_t *ratio);

/* The ratio of one metric of a case between two contenders. */
na_ratio_t na_case_ratio(const na_comparison_t *comparison, const na_compared_t *metric, size_t a,
                         size_t b);

/* The geometric mean of the cases' ratios; threads 0: over all cases. NA_TIME: of the main metrics
 * that are times. NA_MEMORY: of the cases' memory. b == NA_NONE: each case against whichever other
 * contender has the best median there. The interval draws whole rounds anew; the extremes are those
 * of the rounds' means. */
na_ratio_t na_mean_ratio(const na_comparison_t *comparison, na_kind_t kind, unsigned threads,
                         size_t a, size_t b);

/* Median and quartiles of one contender over the rounds that it has. */
na_stats_t na_case_stats(const na_comparison_t *comparison, const na_compared_t *metric, size_t c);

typedef struct na_control {
    bool tie;          /* what follows is what chance alone gives */
    size_t cases, off; /* whose main ratio is known; whose interval leaves out 1 */
    size_t allowed;    /* so many are off in fewer than 1 of 100 runs without a difference */
    na_ratio_t mean;   /* over the times */
} na_control_t;

/* How the base came out against itself. cases 0: there is no control. */
na_control_t na_control_of(const na_comparison_t *comparison);

/* The smallest k with P(more than k of n) < 0.01, each with probability p. */
size_t na_control_allowed(size_t n, double p);

#endif
