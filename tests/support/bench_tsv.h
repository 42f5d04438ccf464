/* bench_tsv.h - runs numalloc-bench on a preloaded allocator and reads the medians it prints.
 *
 * Needs the definition BENCH_PROGRAM, the path of numalloc-bench. */
#ifndef NUMALLOC_TESTS_SUPPORT_BENCH_TSV_H
#define NUMALLOC_TESTS_SUPPORT_BENCH_TSV_H

#include "support/child.h"

#include <criterion/criterion.h>

/* `preload`: the allocator, or NULL; `variable`: "NAME=value" for it, or NULL. */
__attribute__((unused)) static child_result_t *
bench_tsv_run(const char *preload, const char *variable, char *const arguments[]) {
    static child_result_t result;
    static char entry[PATH_MAX + 16];
    const char *env[3] = {NULL};
    char *argv[32] = {(char *)(uintptr_t)BENCH_PROGRAM};
    size_t count = 1, variables = 0;
    for (; arguments[count - 1] != NULL && count < 30; count++)
        argv[count] = arguments[count - 1];
    argv[count] = (char *)(uintptr_t) "--tsv";
    if (preload != NULL) {
        snprintf(entry, sizeof entry, "LD_PRELOAD=%s", preload);
        env[variables++] = entry;
    }
    if (variable != NULL) env[variables] = variable;
    child_run(&result, argv, env, NULL, NULL);
    cr_assert(child_exited(&result, 0), "%s failed: %s", arguments[0], result.err);
    if (preload != NULL) {
        const char *name = strrchr(preload, '/');
        cr_assert(strstr(strtok(strdup(result.out), "\n"), name) != NULL,
                  "malloc is not that of %s", preload);
    }
    return &result;
}

#define BENCH_TSV(preload, variable, ...)                                                          \
    bench_tsv_run(preload, variable, (char *[]){__VA_ARGS__, NULL})

/* The median of the metric. */
__attribute__((unused)) static double bench_tsv_metric(const child_result_t *result,
                                                       const char *name) {
    char line[128];
    snprintf(line, sizeof line, "metric\t%s\t", name);
    const char *at = strstr(result->out, line);
    cr_assert(at != NULL, "no metric '%s'", name);
    const char *end = at + strcspn(at, "\n");
    while (end[-1] != '\t') /* the median is the line's last field */
        end--;
    return strtod(end, NULL);
}

#endif
