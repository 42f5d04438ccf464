/* report.c - prints the metrics of one benchmark. */
#include "bench/suite/report.h"

#include "bench/measure/stats.h"

#include <math.h>
#include <string.h>

void na_report_number(double value, char *out, size_t size) {
    double magnitude = fabs(value);
    int decimals = magnitude >= 1000 ? 0 : magnitude >= 100 ? 1 : magnitude >= 10 ? 2 : 3;
    snprintf(out, size, "%.*f", decimals, value);
}

void na_report_header(const na_report_t *report, FILE *out) {
    const na_allocator_id_t *id = report->allocator;
    char machine[256];
    na_machine_describe(machine, sizeof machine);
    fprintf(out, "benchmark  %s: %s\n", report->bench->name, report->bench->summary);
    fprintf(out, "malloc     %s", id->path);
    if (*id->soname) fprintf(out, " (%s)", id->soname);
    if (*id->build_id) fprintf(out, " build-id %.12s", id->build_id);
    fputc('\n', out);
    if (*id->foreign)
        fprintf(out, "WARNING    %s() comes from another object than malloc()\n", id->foreign);
    fprintf(out, "machine    %s\nknobs      ", machine);
    na_knobs_line(report->knobs, out);
    fputs("\n\n", out);
}

/* Statistics of a copy: the samples keep the order in which they were taken. */
static na_stats_t stats_of(const na_metric_t *metric) {
    double *copy = na_bench_map(metric->capacity * sizeof(double));
    memcpy(copy, metric->samples, metric->count * sizeof(double));
    return na_stats_of(copy, metric->count);
}

void na_report_table(const na_report_t *report, bool details, FILE *out) {
    char median[32], q1[32], q3[32], min[32], max[32];
    fprintf(out, "%-36s %-8s %10s %7s %10s %10s %10s %10s %6s\n", "metric", "unit", "median",
            "spread", "lower q.", "upper q.", "min", "max", "n");
    for (size_t i = 0; i < report->result->count; i++) {
        const na_metric_t *metric = &report->result->metric[i];
        if (metric->rank == NA_DETAIL && !details) continue;
        na_stats_t stats = stats_of(metric);
        na_report_number(stats.median, median, sizeof median);
        fprintf(out, "%-36s %-8s %10s", metric->name, metric->unit, median);
        if (stats.count > 1) {
            na_report_number(stats.q1, q1, sizeof q1);
            na_report_number(stats.q3, q3, sizeof q3);
            na_report_number(stats.min, min, sizeof min);
            na_report_number(stats.max, max, sizeof max);
            fprintf(out, " %6.1f%% %10s %10s %10s %10s %6zu", na_stats_spread(&stats), q1, q3, min,
                    max, stats.count);
        }
        fputc('\n', out);
    }
}

const char *na_better_word(na_better_t better) {
    return better == NA_LOWER ? "lower" : "higher";
}

const char *na_kind_word(na_kind_t kind) {
    return kind == NA_TIME ? "time" : kind == NA_MEMORY ? "memory" : "ratio";
}

const char *na_rank_word(na_rank_t rank) {
    return rank == NA_HEADLINE ? "headline" : "detail";
}

void na_stats_json(const na_stats_t *stats, na_json_t *json) {
    na_json_real(json, "median", stats->median, "%.9g");
    na_json_real(json, "q1", stats->q1, "%.9g");
    na_json_real(json, "q3", stats->q3, "%.9g");
    na_json_real(json, "min", stats->min, "%.9g");
    na_json_real(json, "max", stats->max, "%.9g");
}

void na_report_json(const na_report_t *report, FILE *out) {
    const na_allocator_id_t *id = report->allocator;
    char machine[256];
    na_machine_describe(machine, sizeof machine);
    na_json_t json = na_json_open(out);
    json.spaced = true;
    na_json_object(&json, NULL);
    na_json_string(&json, "benchmark", report->bench->name);
    na_json_line(&json);
    na_json_object(&json, "malloc");
    na_json_string(&json, "path", id->path);
    na_json_string(&json, "soname", id->soname);
    na_json_string(&json, "build_id", id->build_id);
    na_json_end(&json);
    na_json_line(&json);
    na_json_string(&json, "machine", machine);
    na_json_line(&json);
    na_knobs_json(report->knobs, &json);
    na_json_line(&json);
    na_json_array(&json, "metrics");
    for (size_t i = 0; i < report->result->count; i++) {
        const na_metric_t *metric = &report->result->metric[i];
        na_stats_t stats = stats_of(metric);
        na_json_line(&json);
        na_json_object(&json, NULL);
        na_json_string(&json, "name", metric->name);
        na_json_string(&json, "unit", metric->unit);
        na_json_string(&json, "better", na_better_word(metric->better));
        na_json_string(&json, "rank", na_rank_word(metric->rank));
        na_json_string(&json, "kind", na_kind_word(metric->kind));
        na_stats_json(&stats, &json);
        na_json_array(&json, "samples");
        for (size_t s = 0; s < metric->count; s++)
            na_json_real(&json, NULL, metric->samples[s], "%.9g");
        na_json_end(&json);
        na_json_end(&json);
    }
    na_json_line(&json);
    na_json_end(&json);
    na_json_end(&json);
}

void na_report_tsv(const na_report_t *report, FILE *out) {
    fprintf(out, "malloc\t%s\n", report->allocator->path);
    for (size_t i = 0; i < report->result->count; i++) {
        const na_metric_t *metric = &report->result->metric[i];
        fprintf(out, "metric\t%s\t%s\t%s\t%s\t%s\t%.17g\n", metric->name, metric->unit,
                na_better_word(metric->better), na_rank_word(metric->rank),
                na_kind_word(metric->kind), stats_of(metric).median);
    }
    fputs("end\n", out);
}
