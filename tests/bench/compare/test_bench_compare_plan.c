/* test_bench_compare_plan.c - plan.c: the order in which compare runs its children, its cases, and
 * how it shares a budget of time. */
#include "tests/support/bench_compare_make.h"

#include "bench/benchmarks/registry.h"

#include <criterion/criterion.h>

Test(bench_compare_plan, every_round_is_a_permutation_and_places_are_shared) {
    for (size_t n = 1; n <= NA_CONTENDERS_MAX; n++) {
        static size_t at[NA_CONTENDERS_MAX][NA_CONTENDERS_MAX];
        static size_t after[NA_CONTENDERS_MAX][NA_CONTENDERS_MAX];
        memset(at, 0, sizeof at);
        memset(after, 0, sizeof after);
        for (size_t round = 0; round < 2 * n; round++) {
            unsigned seen = 0;
            for (size_t i = 0; i < n; i++) {
                size_t c = na_plan_turn(n, round, 3, i);
                cr_assert_lt(c, n);
                cr_assert_eq(seen & 1u << c, 0);
                seen |= 1u << c;
                at[c][i]++;
                if (i > 0) after[na_plan_turn(n, round, 3, i - 1)][c]++;
            }
        }
        for (size_t c = 0; c < n; c++) {
            for (size_t i = 0; i < n; i++)
                cr_assert_eq(at[c][i], 2);
            /* Before its right neighbour as often as after it. */
            if (n > 2) cr_assert_eq(after[c][(c + 1) % n], after[(c + 1) % n][c]);
        }
    }
}

Test(bench_compare_plan, thread_lists) {
    unsigned list[NA_THREAD_LISTS_MAX];
    size_t count;
    char error[256];
    cr_assert(na_plan_threads("1,2,8,2", list, &count, error, sizeof error));
    cr_assert(count == 3 && list[0] == 1 && list[1] == 2 && list[2] == 8);
    cr_assert(na_plan_threads("0", list, &count, error, sizeof error));
    cr_assert(count == 1 && list[0] > 0);
    static const char *const bad[] = {"",   "1,",   ",1",  "x",
                                      "-1", "1025", "1;2", "11111111111111111"};
    for (size_t i = 0; i < NA_COUNT(bad); i++)
        cr_assert_not(na_plan_threads(bad[i], list, &count, error, sizeof error), "'%s'", bad[i]);
    cr_assert_not(na_plan_threads("1,2,3,4,5,6,7,8,9,10,11,12,13,14,15,16,17", list, &count, error,
                                  sizeof error));
}

Test(bench_compare_plan, cases_check_their_knobs) {
    static na_comparison_t comparison;
    char error[256];
    const na_bench_t *churn = na_bench_find("churn");
    const char *bad[] = {"--min=9", "--max=8"}, *unknown[] = {"--nothing=9"}, *good[] = {"--min=9"};
    make_comparison(&comparison, 2, 3);
    cr_assert_null(na_plan_bench(&comparison, churn, 1, bad, 2, error, sizeof error));
    cr_assert_null(na_plan_bench(&comparison, churn, 1, unknown, 1, error, sizeof error));
    cr_assert_eq(comparison.case_count, 0);
    na_case_t *made = na_plan_bench(&comparison, churn, 2, good, 1, error, sizeof error);
    cr_assert(made != NULL && made->words == 2 && strcmp(made->word[1], "--threads=2") == 0);
    cr_assert_null(na_plan_program(&comparison, "=x", error, sizeof error));
    cr_assert_null(na_plan_program(&comparison, "x", error, sizeof error));
    cr_assert_null(na_plan_program(&comparison, "x=", error, sizeof error));
    cr_assert_not_null(na_plan_program(&comparison, "x=a=b", error, sizeof error));
    cr_assert_str_eq(comparison.cases[1].command, "a=b");
    cr_assert_eq(comparison.case_count, 2);
}

/* What the user gave stays; all the rest is a word that the benchmark takes. */
Test(bench_compare_plan, the_work_of_the_suite_is_fixed) {
    static na_comparison_t comparison;
    char error[256];
    make_comparison(&comparison, 2, 3);
    for (size_t i = 0; i < na_bench_count; i++) {
        if (na_benches[i]->operand != NULL) continue; /* in a comparison with its operand only */
        /* startup looks for a program beside numalloc-bench, which this test is not. */
        const char *given[2];
        size_t givens = 0;
        if (na_plan_knob(na_benches[i], "repetitions") != NA_NONE)
            given[givens++] = "--repetitions=4";
        if (na_plan_knob(na_benches[i], "program") != NA_NONE)
            given[givens++] = "--program=/bin/true";
        cr_assert_not_null(
            na_plan_bench(&comparison, na_benches[i], 0, given, givens, error, sizeof error),
            "%s: %s", na_benches[i]->name, error);
    }
    na_plan_fixed(&comparison);
    for (size_t i = 0; i < comparison.case_count; i++) {
        const na_case_t *made = &comparison.cases[i];
        na_knobs_t knobs;
        size_t repetitions = na_plan_knob(made->bench, "repetitions");
        size_t warmup = na_plan_knob(made->bench, "warmup");
        cr_assert(na_plan_knobs(made->bench, made->word, made->words, &knobs, error, sizeof error),
                  "%s: %s", made->name, error);
        if (repetitions != NA_NONE) {
            cr_assert_eq(knobs.value[repetitions].number, 4, "%s", made->name);
            /* Whatever has repetitions says how many a comparison wants. */
            cr_assert_not_null(made->bench->suite, "%s", made->name);
            if (warmup != NA_NONE) cr_assert_leq(knobs.value[warmup].number, 2);
        }
    }
}

static double total(const na_cut_t *cuts, size_t count, size_t children) {
    double sum = 0;
    for (size_t i = 0; i < count; i++)
        sum += na_cut_seconds(&cuts[i]) * (double)children;
    return sum;
}

Test(bench_compare_plan, a_large_budget_cuts_nothing) {
    na_cut_t cuts[] = {
        {.pass_s = 0.1, .fastest_s = 0.1, .repetitions = 11, .warmup = 2, .halvings_max = 6},
        {.pass_s = 3, .fastest_s = 1, .repetitions = 9, .warmup = 1}};
    na_plan_share(cuts, 2, 1e6, 35);
    cr_assert(cuts[0].repetitions == 11 && cuts[0].warmup == 2 && cuts[0].halvings == 0);
    cr_assert(cuts[1].repetitions == 9 && cuts[1].warmup == 1 && cuts[1].halvings == 0);
}

/* What the measured repetitions take under the fastest contender. */
static double measured(const na_cut_t *cut) {
    return cut->fastest_s * ldexp(1, -(int)cut->halvings) * (double)cut->repetitions;
}

/* From 2 ms to 0.7 s for one repetition, with 5 ms around each child. */
static void make_cuts(na_cut_t *cuts, size_t count) {
    for (size_t i = 0; i < count; i++) {
        double pass = 0.02 * (double)(i + 1) * (i < 9 ? 0.1 : 1);
        cuts[i] = (na_cut_t){.fixed_s = 0.005,
                             .pass_s = pass,
                             .fastest_s = 0.7 * pass,
                             .repetitions = pass < 0.004 ? 30 : 11,
                             .warmup = 2,
                             .halvings_max = 6};
    }
}

Test(bench_compare_plan, a_small_budget_is_kept_and_used) {
    na_cut_t cuts[36];
    make_cuts(cuts, 36);
    na_plan_share(cuts, 36, 800, 42);
    double used = total(cuts, 36, 42);
    cr_assert(used <= 800 && used > 700, "%g", used);
    /* The short ones are whole, the long ones have at least one repetition after a warm-up. */
    cr_assert_eq(cuts[0].repetitions, 30);
    cr_assert_eq(cuts[8].repetitions, 11);
    for (size_t i = 0; i < 36; i++) {
        cr_assert(cuts[i].repetitions >= 1 && cuts[i].warmup >= 1 && cuts[i].halvings <= 6);
        cr_assert_geq(measured(&cuts[i]), NA_MEASURED_MIN_S);
    }
}

/* However little time there is, a child measures something. */
Test(bench_compare_plan, no_run_is_too_short_to_measure) {
    na_cut_t cuts[38];
    make_cuts(cuts, 36);
    cuts[36] = (na_cut_t){.pass_s = 10, .fastest_s = 10, .repetitions = 5, .halvings_max = 6};
    cuts[37] = (na_cut_t){.pass_s = 10, .fastest_s = 10, .repetitions = 1, .halvings_max = 6};
    na_plan_share(cuts, 38, 0, 42);
    for (size_t i = 0; i < 36; i++) {
        cr_assert_geq(measured(&cuts[i]), NA_MEASURED_MIN_S);
        cr_assert_leq(measured(&cuts[i]), 3 * NA_MEASURED_MIN_S);
    }
    for (size_t i = 36; i < 38; i++)
        cr_assert(cuts[i].repetitions == 1 && cuts[i].halvings == 6);
}

/* A pause in one case does not take from the others what they would have had of the rest. */
Test(bench_compare_plan, what_is_fixed_is_not_shared) {
    na_cut_t cuts[36];
    make_cuts(cuts, 36);
    cuts[20].fixed_s += 2;
    na_plan_share(cuts, 36, 800 + 2 * 42, 42);
    double used = total(cuts, 36, 42);
    cr_assert(used <= 800 + 2 * 42 && used > 700 + 2 * 42, "%g", used);
    cr_assert_float_eq(na_cut_seconds(&cuts[20]) - 2, na_cut_seconds(&cuts[19]), 0.2);
}
