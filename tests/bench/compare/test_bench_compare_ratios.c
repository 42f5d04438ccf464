/* test_bench_compare_ratios.c - ratios.c: the ratios, intervals, means and the control of compare,
 * on data whose truth is known. */
#include "tests/support/bench_compare_make.h"

#include "bench/compare/ratios.h"

#include <criterion/criterion.h>

#define TRIALS 400

/* How often the interval of `rounds` pairs holds the true ratio, under a drift of the machine that
 * is larger than the ratio itself. */
static double coverage(size_t rounds, double truth, double sigma, uint64_t seed, size_t *ties) {
    na_prng_t prng = na_prng_make(seed, rounds);
    size_t inside = 0;
    *ties = 0;
    for (size_t trial = 0; trial < TRIALS; trial++) {
        double a[32], b[32];
        for (size_t r = 0; r < rounds; r++) {
            double drift = 1 + na_prng_open01(&prng);
            b[r] = 100 * drift * make_noise(&prng, sigma);
            a[r] = 100 * truth * drift * make_noise(&prng, sigma);
        }
        na_ratio_t ratio = na_ratio_of(a, b, rounds);
        cr_assert(ratio.low <= ratio.ratio && ratio.ratio <= ratio.high);
        cr_assert_eq(ratio.pairs, rounds);
        inside += ratio.low <= truth && truth <= ratio.high;
        *ties += na_ratio_tie(&ratio);
    }
    return (double)inside / TRIALS;
}

Test(bench_compare, interval_covers_the_truth) {
    static const size_t rounds[] = {5, 6, 7, 9, 12, 15, 25};
    for (size_t i = 0; i < NA_COUNT(rounds); i++) {
        size_t ties;
        double covered = coverage(rounds[i], 1.0, 0.05, 7, &ties);
        /* 95 % of 400, give or take three standard deviations of the count, and the one step that
         * so few order statistics allow: 93.8 % with 5, 98.4 % with 7. */
        cr_assert(covered > 0.90 && covered < 0.998, "%zu rounds: covered %.3f", rounds[i],
                  covered);
    }
}

Test(bench_compare, interval_finds_a_difference) {
    size_t ties;
    /* Nine: the fewest whose interval stands one disturbed round, and so the suite's default. */
    double covered = coverage(9, 1.5, 0.05, 11, &ties);
    cr_assert_gt(covered, 0.92);
    cr_assert_lt(ties, TRIALS / 50, "%zu of %d missed", ties, TRIALS);
}

Test(bench_compare, extremes_with_few_and_repeats_with_the_same_seed) {
    const double a[] = {2, 3, 4}, b[] = {1, 1, 1};
    na_ratio_t x = na_ratio_of(a, b, 3), y = na_ratio_of(a, b, 3), z = na_ratio_of(b, a, 3);
    cr_assert_float_eq(x.ratio, 3, 1e-12);
    cr_assert_float_eq(x.low, 2, 1e-12);
    cr_assert_float_eq(x.high, 4, 1e-12);
    cr_assert(x.low == y.low && x.high == y.high);
    cr_assert_float_eq(z.ratio, 1 / x.ratio, 1e-12);
    na_ratio_t one = na_ratio_of(a, b, 1);
    cr_assert(one.pairs == 1 && one.low == one.high && one.rounds == 1);
    na_ratio_t same = na_ratio_of(b, b, 1);
    cr_assert(same.ratio == 1 && !na_ratio_tie(&same), "one round is no tie");
    cr_assert(na_ratio_tail(6) < na_ratio_tail(7) && na_ratio_tail(7) < na_ratio_tail(100));
    cr_assert_float_eq(na_ratio_tail(1000), 0.025, 0.001);
}

/* Only rounds with both count; a missing one must not pair a round with the next. */
Test(bench_compare, pairs_within_a_round_only) {
    const double a[] = {10, NAN, 30, 40, 50}, b[] = {5, 10, NAN, 20, 25};
    na_ratio_t ratio = na_ratio_of(a, b, 5);
    cr_assert_eq(ratio.pairs, 3);
    cr_assert(fabs(ratio.ratio - 2) < 1e-12 && fabs(ratio.low - 2) < 1e-12 &&
              fabs(ratio.high - 2) < 1e-12);
}

Test(bench_compare, no_ratio_of_noise_about_zero) {
    const double a[] = {1, 2, 3}, b[] = {1, -0.5, 2}, none[] = {NAN, NAN, NAN};
    na_ratio_t noise = na_ratio_of(a, b, 3), empty = na_ratio_of(a, none, 3);
    cr_assert(noise.pairs == 0 && !na_ratio_tie(&noise));
    cr_assert(empty.pairs == 0 && !na_ratio_tie(&empty));
}

Test(bench_compare, higher_is_better_turns_the_ratio) {
    static na_comparison_t comparison;
    double values[] = {30, 30, 10, 10};
    make_comparison(&comparison, 2, 2);
    na_compared_t metric = {.better = NA_HIGHER, .value = values};
    na_ratio_t first = na_case_ratio(&comparison, &metric, 0, 1);
    cr_assert_float_eq(first.ratio, 1.0 / 3, 1e-12);
    metric.better = NA_LOWER;
    first = na_case_ratio(&comparison, &metric, 0, 1);
    cr_assert_float_eq(first.ratio, 3, 1e-12);
}

/* Contender 0: the base, 1: the base again, 2: `slower` times the cost of 0. */
static void fill(na_comparison_t *comparison, size_t cases, size_t rounds, double slower,
                 uint64_t seed) {
    na_prng_t prng = na_prng_make(seed, 3);
    static na_case_t *kept;
    make_comparison(comparison, 3, rounds);
    comparison->control = 1;
    comparison->cases = kept; /* memory is never given back: use that of the last trial */
    for (size_t i = 0; i < cases; i++) {
        na_compared_t *metrics = kept != NULL ? kept[i].metric : NULL;
        size_t had = kept != NULL ? kept[i].metrics : 0;
        na_case_t *made = make_case(comparison, "p=true");
        made->metric = metrics;
        made->metrics = had;
        for (size_t r = 0; r < rounds; r++) {
            double drift = 1 + na_prng_open01(&prng);
            for (size_t c = 0; c < 3; c++)
                make_run(comparison, i, c, r,
                         drift * (c == 2 ? slower : 1) * make_noise(&prng, 0.04), c == 2 ? 20 : 10,
                         NULL, 0);
        }
    }
    kept = comparison->cases;
}

Test(bench_compare, geometric_means_of_time_and_memory) {
    static na_comparison_t comparison;
    fill(&comparison, 20, 7, 1.2, 1);
    na_ratio_t time = na_mean_ratio(&comparison, NA_TIME, 0, 2, 0);
    na_ratio_t memory = na_mean_ratio(&comparison, NA_MEMORY, 0, 2, 0);
    cr_assert_eq(time.pairs, 20);
    cr_assert(time.low < 1.2 && time.high > 1.2 && time.high / time.low < 1.1, "%g %g %g",
              time.ratio, time.low, time.high);
    cr_assert(memory.pairs == 20 && fabs(memory.ratio - 2) < 1e-6);
    na_ratio_t none = na_mean_ratio(&comparison, NA_TIME, 4, 2, 0);
    cr_assert_eq(none.pairs, 0);
}

/* The best of the others is another one in each case; the control is nobody's rival. */
Test(bench_compare, means_against_the_best_of_the_others) {
    static na_comparison_t comparison;
    static const double cost[3][4] = {{1, 2, 4, 1}, {1, 4, 2, 1}, {3, 3, 3, 3}};
    make_comparison(&comparison, 4, 5);
    comparison.control = 3;
    for (size_t i = 0; i < 3; i++) {
        make_case(&comparison, "p=true");
        for (size_t r = 0; r < 5; r++)
            for (size_t c = 0; c < 4; c++)
                make_run(&comparison, i, c, r, cost[i][c] * (double)(r + 1), 1, NULL, 0);
    }
    na_ratio_t first = na_mean_ratio(&comparison, NA_TIME, 0, 0, NA_NONE);
    cr_assert_float_eq(first.ratio, cbrt(0.5 * 0.5 * 1), 1e-6);
    cr_assert_float_eq(first.low, first.high, 1e-6);
    na_ratio_t second = na_mean_ratio(&comparison, NA_TIME, 0, 1, NA_NONE);
    cr_assert_float_eq(second.ratio, cbrt(2.0 * 4 * 1), 1e-6);
    cr_assert_float_eq(na_mean_ratio(&comparison, NA_MEMORY, 0, 1, NA_NONE).ratio, 1, 1e-6);
}

/* A round in which one has no value leaves the others' pairs where they were; an even number of
 * them has its median between the middle two. */
Test(bench_compare, medians_of_what_was_drawn) {
    const double a[] = {1, 2, NAN, 8, 4}, b[] = {1, 1, 1, 1, 1};
    na_ratio_t four = na_ratio_of(a, b, 5);
    cr_assert_eq(four.pairs, 4);
    cr_assert_float_eq(four.ratio, sqrt(8), 1e-12);
    cr_assert_float_eq(four.low, 1, 1e-12);
    cr_assert_float_eq(four.high, 8, 1e-12);
}

Test(bench_compare, control_ties_and_would_notice) {
    static na_comparison_t comparison;
    size_t ties = 0, missed = 0;
    for (uint64_t trial = 0; trial < 60; trial++) {
        fill(&comparison, 36, 7, 1.1, 100 + trial);
        na_control_t control = na_control_of(&comparison);
        cr_assert_eq(control.cases, 36);
        ties += control.tie;
        comparison.control = 2; /* as if the second run of the base were slower by a tenth */
        control = na_control_of(&comparison);
        missed += control.tie;
    }
    cr_assert_geq(ties, 57, "%zu of 60", ties);
    cr_assert_eq(missed, 0);
}

Test(bench_compare, what_chance_allows) {
    cr_assert_eq(na_control_allowed(1, 0.05), 1);
    cr_assert_eq(na_control_allowed(36, 0.05), 5);
    cr_assert_eq(na_control_allowed(0, 0.05), 0);
}
