/* bench_small.h - runs a benchmark inside the test, with small knobs, and reads its metrics. */
#ifndef NUMALLOC_TESTS_SUPPORT_BENCH_SMALL_H
#define NUMALLOC_TESTS_SUPPORT_BENCH_SMALL_H

#include "bench/benchmarks/registry.h"

#include <criterion/criterion.h>
#include <string.h>

/* False, with the line in `error`, when the knobs are refused. */
__attribute__((unused)) static bool bench_small_knobs(const char *name, char *const argv[],
                                                      na_knobs_t *knobs, char *error, size_t size) {
    const na_bench_t *bench = na_bench_find(name);
    bool unknown;
    int argc = 0;
    cr_assert(bench != NULL, "no benchmark '%s'", name);
    while (argv[argc] != NULL)
        argc++;
    na_knobs_init(knobs, bench->knobs, bench->knob_count);
    for (int i = 0; i < argc;)
        if (!na_knobs_take(knobs, argc, (char **)(uintptr_t)argv, &i, error, size, &unknown))
            return false;
    return bench->settle == NULL || bench->settle(knobs, error, size);
}

__attribute__((unused)) static const na_result_t *bench_small_run(const char *name,
                                                                  char *const argv[]) {
    static na_result_t result;
    na_knobs_t knobs;
    char error[256] = "";
    memset(&result, 0, sizeof result);
    cr_assert(bench_small_knobs(name, argv, &knobs, error, sizeof error), "%s", error);
    na_bench_find(name)->run(&knobs, &result);
    return &result;
}

#define RUN(name, ...) bench_small_run(name, (char *[]){__VA_ARGS__, NULL})

/* The knobs are refused with a line that has `words` in it. */
__attribute__((unused)) static void bench_small_refused(const char *name, const char *words,
                                                        char *const argv[]) {
    na_knobs_t knobs;
    char error[256] = "";
    cr_expect(!bench_small_knobs(name, argv, &knobs, error, sizeof error), "%s took %s", name,
              argv[0]);
    cr_expect(strstr(error, words) != NULL, "%s: '%s' does not say '%s'", name, error, words);
    cr_expect(strchr(error, '\n') == NULL);
}

#define REFUSED(name, words, ...) bench_small_refused(name, words, (char *[]){__VA_ARGS__, NULL})

__attribute__((unused)) static const na_metric_t *metric_of(const na_result_t *result,
                                                            const char *name) {
    for (size_t i = 0; i < result->count; i++)
        if (strcmp(result->metric[i].name, name) == 0) return &result->metric[i];
    cr_assert(false, "no metric '%s'", name);
    return NULL;
}

#endif
