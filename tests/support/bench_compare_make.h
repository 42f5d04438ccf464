/* bench_compare_make.h - comparisons made by hand for the unit tests of compare. */
#ifndef NUMALLOC_TESTS_SUPPORT_BENCH_COMPARE_MAKE_H
#define NUMALLOC_TESTS_SUPPORT_BENCH_COMPARE_MAKE_H

#include "bench/compare/plan.h"
#include "bench/compare/result.h"
#include "bench/load/prng.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

static inline double make_normal(na_prng_t *prng) {
    double radius = sqrt(-2 * log(na_prng_open01(prng)));
    return radius * cos(2 * M_PI * na_prng_open01(prng));
}

/* Noise as timings have it: mostly a few percent, now and then a disturbance upwards. */
static inline double make_noise(na_prng_t *prng, double sigma) {
    double noise = sigma * make_normal(prng);
    if (na_prng_open01(prng) < 0.1) noise += 5 * sigma * fabs(make_normal(prng));
    return exp(noise);
}

static inline void make_comparison(na_comparison_t *comparison, size_t contenders, size_t rounds) {
    *comparison = (na_comparison_t){
        .contenders = contenders, .rounds = rounds, .control = NA_NONE, .timeout_s = 60};
    for (size_t c = 0; c < contenders; c++)
        snprintf(comparison->contender[c].name, sizeof comparison->contender[c].name, "a%zu", c);
}

/* A case with no child run yet. */
static inline na_case_t *make_case(na_comparison_t *comparison, const char *text) {
    char error[256];
    na_case_t *made = na_plan_program(comparison, text, error, sizeof error);
    if (made == NULL) na_bench_fail("%s", error);
    return made;
}

/* What a child would have measured. */
static inline void make_run(na_comparison_t *comparison, size_t index, size_t c, size_t round,
                            double seconds, double mib, char *line, size_t size) {
    na_child_t child = {
        .outcome = NA_DONE, .seconds = seconds, .peak = (uint64_t)(mib * 1024 * 1024)};
    na_result_take(comparison, index, c, round, &child, line, size);
    if (comparison->rounds_done <= round) comparison->rounds_done = round + 1;
}

#endif
