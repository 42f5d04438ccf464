/* test_bench_stats.c - stats.c: the order statistics of the bench suite against hand-made and
 * sorted data. */
#include "bench/load/prng.h"
#include "bench/measure/stats.h"
#include "bench/suite/bench.h"

#include <criterion/criterion.h>
#include <math.h>
#include <stdlib.h>

static bool near(double a, double b) {
    return fabs(a - b) <= 1e-12 * (fabs(a) + fabs(b) + 1);
}

Test(bench_stats, odd_and_even_counts) {
    double odd[] = {9, 1, 5}, even[] = {4, 1, 3, 2};
    na_stats_t a = na_stats_of(odd, 3), b = na_stats_of(even, 4);
    cr_assert(near(a.median, 5) && near(a.min, 1) && near(a.max, 9));
    cr_assert(near(a.q1, 3) && near(a.q3, 7));
    cr_assert(near(b.median, 2.5) && near(b.q1, 1.75) && near(b.q3, 3.25));
}

Test(bench_stats, one_sample_and_none) {
    double one[] = {7};
    na_stats_t a = na_stats_of(one, 1), b = na_stats_of(NULL, 0);
    cr_assert(near(a.min, 7) && near(a.q1, 7) && near(a.median, 7) && near(a.q3, 7));
    cr_assert_eq(a.count, 1);
    cr_assert_eq(b.count, 0);
    cr_assert(near(b.median, 0) && near(b.max, 0));
}

static int by_value(const void *a, const void *b) {
    double x = *(const double *)a, y = *(const double *)b;
    return x < y ? -1 : x > y;
}

Test(bench_stats, sorts_like_qsort) {
    static double mine[50000], other[50000];
    na_prng_t prng = na_prng_make(42, 0);
    const size_t counts[] = {2, 3, 4, 13, 40, 41, 1000, 29524, 29525, 50000};
    for (size_t c = 0; c < sizeof counts / sizeof counts[0]; c++) {
        for (size_t i = 0; i < counts[c]; i++) /* few values, so that many are equal */
            mine[i] = other[i] = (double)(int)(na_prng_next(&prng) % 1000) - 500;
        na_stats_t stats = na_stats_of(mine, counts[c]);
        qsort(other, counts[c], sizeof(double), by_value);
        for (size_t i = 0; i < counts[c]; i++)
            cr_assert(near(mine[i], other[i]), "place %zu of %zu", i, counts[c]);
        cr_assert(near(stats.min, other[0]) && near(stats.max, other[counts[c] - 1]));
    }
}

Test(bench_stats, spread_is_relative_to_the_size_of_the_median) {
    double up[] = {8, 9, 10, 11, 12}, down[] = {-8, -9, -10, -11, -12}, zero[] = {-1, 0, 1};
    na_stats_t a = na_stats_of(up, 5), b = na_stats_of(down, 5), c = na_stats_of(zero, 3);
    cr_assert(near(na_stats_spread(&a), 20) && near(na_stats_range(&a), 40));
    cr_assert(near(na_stats_spread(&b), 20) && near(na_stats_range(&b), 40));
    cr_assert(near(na_stats_spread(&c), 0) && near(na_stats_range(&c), 0));
}

/* A machine that gets slower by half between rounds: the ratio within the rounds is steady. */
Test(bench_stats, paired_ratio_cancels_drift) {
    const double a[] = {10, 15, 22.5, 33.75}, b[] = {20, 30, 45, 67.5};
    double scratch[4];
    cr_assert(near(na_stats_paired_ratio(a, b, 4, scratch), 0.5));
    cr_assert(near(na_stats_paired_ratio(b, a, 4, scratch), 2));
}

Test(bench_stats, paired_ratio_leaves_out_what_has_no_ratio) {
    const double a[] = {-1, 6, 0}, b[] = {2, 3, 5};
    double scratch[3];
    cr_assert(near(na_stats_paired_ratio(a, b, 3, scratch), 2));
    cr_assert(near(na_stats_paired_ratio(a, b, 1, scratch), 0));
}

/* Each repetition by itself: the median of the means is not the mean of the medians. */
Test(bench_stats, mean_over_cases_by_repetition) {
    static na_result_t result;
    static const double samples[2][3] = {{1, 100, 4}, {16, 4, 9}};
    na_metric_t *cases[2];
    for (size_t c = 0; c < 2; c++) {
        cases[c] = na_result_metric(&result, c == 0 ? "a" : "b", "MiB", NA_HIGHER, NA_DETAIL, 3);
        for (size_t r = 0; r < 3; r++)
            na_metric_add(cases[c], samples[c][r]);
    }
    const na_metric_t *mean = na_result_mean(&result, "both", cases, 2);
    cr_assert(mean->rank == NA_HEADLINE && mean->better == NA_HIGHER && mean->kind == NA_MEMORY);
    cr_assert_eq(mean->count, 3);
    cr_assert(near(mean->samples[0], 4) && near(mean->samples[1], 20) && near(mean->samples[2], 6));
    cases[1]->samples[1] = 0;
    mean = na_result_mean(&result, "noise", cases, 2);
    cr_assert(near(mean->samples[0], 4) && near(mean->samples[1], 0));
    mean = na_result_mean(&result, "one", cases, 1);
    cr_assert(near(mean->samples[1], 100));
}
