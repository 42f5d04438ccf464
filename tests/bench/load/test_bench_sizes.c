/* test_bench_sizes.c - sizes.c: the bench suite's random numbers and its two distributions of
 * sizes, held against their exact distribution functions. Seeds are fixed: a result never changes
 * by chance. */
#include "bench/load/sizes.h"

#include <criterion/criterion.h>
#include <math.h>
#include <string.h>

#define DRAWS 400000

Test(bench_sizes, same_seed_same_sizes) {
    const na_sizes_t sizes = {NA_DISTRIBUTION_FISHER, 16, 4096, 16};
    static uint32_t a[1000], b[1000], c[1000], d[1000];
    na_prng_t one = na_prng_make(7, 3), same = na_prng_make(7, 3);
    na_prng_t stream = na_prng_make(7, 4), seed = na_prng_make(8, 3);
    na_sizes_fill(&sizes, &one, a, 1000);
    na_sizes_fill(&sizes, &same, b, 1000);
    na_sizes_fill(&sizes, &stream, c, 1000);
    na_sizes_fill(&sizes, &seed, d, 1000);
    cr_assert_arr_eq(a, b, sizeof a);
    cr_assert_neq(memcmp(a, c, sizeof a), 0, "another stream draws the same sizes");
    cr_assert_neq(memcmp(a, d, sizeof a), 0, "another seed draws the same sizes");
}

Test(bench_sizes, scaling_covers_the_bounds) {
    cr_assert_eq(na_prng_scale(0, 10), 0);
    cr_assert_eq(na_prng_scale(UINT64_MAX, 10), 9);
    cr_assert_eq(na_prng_scale(UINT64_MAX, 1), 0);
    cr_assert_eq(na_prng_scale(UINT64_MAX, UINT64_C(1) << 32), UINT32_MAX);
}

Test(bench_sizes, open_interval_stays_open) {
    na_prng_t prng = na_prng_make(1, 1);
    double sum = 0;
    for (int i = 0; i < DRAWS; i++) {
        double u = na_prng_open01(&prng);
        cr_assert(u > 0 && u < 1);
        sum += u;
    }
    /* standard error of the mean: 1 / sqrt(12 n) */
    cr_assert_lt(fabs(sum / DRAWS - 0.5), 5 / sqrt(12.0 * DRAWS));
}

/* Every rung equally often: Pearson's statistic within 5 standard deviations of its mean. */
static void check_uniform(uint64_t min, uint64_t max, uint64_t step, size_t rungs) {
    const na_sizes_t sizes = {NA_DISTRIBUTION_UNIFORM, min, max, step};
    static unsigned hits[4096];
    na_prng_t prng = na_prng_make(11, rungs);
    memset(hits, 0, sizeof hits);
    cr_assert_eq(na_sizes_count(&sizes), rungs);
    for (int i = 0; i < DRAWS; i++) {
        uint64_t size = na_sizes_draw(&sizes, &prng);
        cr_assert(size >= min && size <= max && (size - min) % step == 0, "size %zu", size);
        hits[(size - min) / step]++;
    }
    double expected = (double)DRAWS / (double)rungs, statistic = 0;
    for (size_t r = 0; r < rungs; r++)
        statistic += (hits[r] - expected) * (hits[r] - expected) / expected;
    double degrees = (double)(rungs - 1);
    cr_assert_leq(fabs(statistic - degrees), 5 * sqrt(2 * degrees), "statistic %g for %g degrees",
                  statistic, degrees);
}

Test(bench_sizes, uniform_is_uniform_over_the_ladder) {
    check_uniform(16, 512, 16, 32);
    check_uniform(1, 100, 1, 100);
    check_uniform(10, 47, 10, 4); /* the step does not divide the range: 10, 20, 30, 40 */
    check_uniform(8, 15, 100, 1); /* the step is larger than the range */
    check_uniform(24, 24, 1, 1);
}

/* The distribution function of F(4, 10): with y = 4x / (4x + 10) it is that of Beta(2, 5). */
static double fisher_below(double x) {
    double y = NA_FISHER_D1 * x / (NA_FISHER_D1 * x + NA_FISHER_D2), z = 1 - y;
    return 1 - pow(z, 6) - 6 * y * pow(z, 5);
}

Test(bench_sizes, fisher_follows_its_distribution_function) {
    const double points[] = {0.05, 0.2, 0.4167, 0.8, 1, 1.25, 2, 3.478, 5.994, 10};
    unsigned below[sizeof points / sizeof points[0]] = {0};
    na_prng_t prng = na_prng_make(5, 0);
    for (int i = 0; i < DRAWS; i++) {
        double f = na_fisher_draw(&prng);
        cr_assert(f > 0 && isfinite(f));
        for (size_t p = 0; p < sizeof points / sizeof points[0]; p++)
            below[p] += f < points[p];
    }
    /* A value of the printed tables, so that the formula above is checked too. */
    cr_assert_lt(fabs(fisher_below(3.478) - 0.95), 1e-4);
    cr_assert_lt(fabs(fisher_below(5.994) - 0.99), 1e-4);
    for (size_t p = 0; p < sizeof points / sizeof points[0]; p++) {
        double share = fisher_below(points[p]);
        double error = sqrt(share * (1 - share) / DRAWS);
        cr_assert_lt(fabs((double)below[p] / DRAWS - share), 5 * error, "below %g: %u of %d",
                     points[p], below[p], DRAWS);
    }
}

Test(bench_sizes, fisher_sizes_are_the_cut_distribution_on_the_ladder) {
    const na_sizes_t sizes = {NA_DISTRIBUTION_FISHER, 64, 64 + 16 * 99, 16};
    static unsigned hits[100];
    na_prng_t prng = na_prng_make(6, 0);
    memset(hits, 0, sizeof hits);
    cr_assert_eq(na_sizes_count(&sizes), 100);
    for (int i = 0; i < DRAWS; i++) {
        uint64_t size = na_sizes_draw(&sizes, &prng);
        cr_assert(size >= sizes.min && size <= sizes.max && size % 16 == 0);
        hits[(size - sizes.min) / 16]++;
    }
    double all = fisher_below(NA_FISHER_CUT);
    for (size_t r = 0; r < 100; r++) {
        double width = NA_FISHER_CUT / 100;
        double share =
            (fisher_below((double)(r + 1) * width) - fisher_below((double)r * width)) / all;
        double error = sqrt(share * (1 - share) / DRAWS);
        cr_assert_lt(fabs(hits[r] / (double)DRAWS - share), 5 * error, "rung %zu: %u", r, hits[r]);
    }
}
