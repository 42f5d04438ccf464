/* result.c - keeps the metrics of one benchmark. */
#include "bench/measure/result.h"

#include "bench/system/base.h"

#include <math.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>

static na_kind_t kind_of_unit(const char *unit) {
    static const char *const memory[] = {"KiB", "MiB", "GiB", "bytes", "pages"};
    if (strcmp(unit, "x") == 0 || strcmp(unit, "%") == 0 || strcmp(unit, "ratio") == 0)
        return NA_RATIO;
    if (strcmp(unit, "B") == 0 || strncmp(unit, "B/", 2) == 0) return NA_MEMORY;
    for (size_t i = 0; i < NA_COUNT(memory); i++)
        if (strncmp(unit, memory[i], strlen(memory[i])) == 0) return NA_MEMORY;
    return NA_TIME;
}

na_metric_t *na_result_metric(na_result_t *result, const char *name, const char *unit,
                              na_better_t better, na_rank_t rank, size_t capacity) {
    if (result->count == NA_METRICS_MAX)
        na_bench_fail("more than %d metrics; NA_METRICS_MAX is too small", NA_METRICS_MAX);
    na_metric_t *metric = &result->metric[result->count++];
    snprintf(metric->name, sizeof metric->name, "%s", name);
    metric->unit = unit;
    metric->better = better;
    metric->rank = rank;
    metric->kind = kind_of_unit(unit);
    metric->samples = na_bench_map(capacity * sizeof(double));
    metric->count = 0;
    metric->capacity = capacity;
    return metric;
}

void na_metric_add(na_metric_t *metric, double sample) {
    if (metric->count == metric->capacity)
        na_bench_fail("metric '%s' has more than the %zu samples it was made for", metric->name,
                      metric->capacity);
    metric->samples[metric->count++] = sample;
}

na_metric_t *na_result_mean(na_result_t *result, const char *name, na_metric_t *const *cases,
                            size_t count) {
    size_t samples = cases[0]->count;
    na_metric_t *mean = na_result_metric(result, name, cases[0]->unit, cases[0]->better,
                                         NA_HEADLINE, samples == 0 ? 1 : samples);
    mean->kind = cases[0]->kind;
    for (size_t s = 0; s < samples; s++) {
        double sum = 0;
        bool positive = true;
        for (size_t c = 0; c < count; c++) {
            if (cases[c]->count != samples || strcmp(cases[c]->unit, mean->unit) != 0)
                na_bench_fail("metric '%s' has not the samples or the unit of '%s'", cases[c]->name,
                              cases[0]->name);
            positive &= cases[c]->samples[s] > 0;
            sum += positive ? log(cases[c]->samples[s]) : 0;
        }
        na_metric_add(mean, positive ? exp(sum / (double)count) : 0);
    }
    return mean;
}
