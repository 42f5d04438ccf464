/* compare_report.c - prints a comparison: a table of medians, a table of ratios, or JSON. */
#include "compare.h"
#include "process.h"
#include "report.h"
#include "stats.h"

#include <math.h>
#include <string.h>

/* Statistics over the rounds, of a copy. */
static na_stats_t stats_of(const na_comparison_t *comparison, const double *values) {
    static double copy[NA_ROUNDS_MAX];
    memcpy(copy, values, comparison->rounds * sizeof(double));
    return na_stats_of(copy, comparison->rounds);
}

static double ratio_of(const na_comparison_t *comparison, const double *a, const double *b) {
    static double scratch[NA_ROUNDS_MAX];
    return na_stats_paired_ratio(a, b, comparison->rounds, scratch);
}

static void print_label(const na_compared_t *metric, FILE *out) {
    fprintf(out, "%-34s %-8s", metric->name, metric->unit);
}

static void print_names(const na_comparison_t *comparison, FILE *out) {
    for (size_t c = 0; c < comparison->contenders; c++)
        fprintf(out, "  %15.15s", comparison->contender[c].name);
    fputc('\n', out);
}

void na_compare_table(const na_comparison_t *comparison, bool details, FILE *out) {
    const char *base = comparison->contender[comparison->base].name;
    char machine[256], number[32];
    na_machine_describe(machine, sizeof machine);
    fprintf(out, "compare    %s: %s\nrounds     %zu, rotated order\nmachine    %s\nknobs      ",
            comparison->bench->name, comparison->bench->summary, comparison->rounds, machine);
    na_knobs_line(comparison->knobs, out);
    for (size_t c = 0; c < comparison->contenders; c++)
        fprintf(out, "\n%-10s %-15s %s", c == 0 ? "malloc" : "", comparison->contender[c].name,
                comparison->contender[c].object);

    fprintf(out,
            "\n\nMedian of the rounds, and the distance of the extremes from each other\n%-43s",
            "");
    print_names(comparison, out);
    for (size_t m = 0; m < comparison->metrics; m++) {
        const na_compared_t *metric = &comparison->metric[m];
        if (metric->rank == NA_DETAIL && !details) continue;
        print_label(metric, out);
        for (size_t c = 0; c < comparison->contenders; c++) {
            na_stats_t stats = stats_of(comparison, metric->value[c]);
            na_report_number(stats.median, number, sizeof number);
            fprintf(out, "  %8s %5.1f%%", number, na_stats_range(&stats));
        }
        fputc('\n', out);
    }

    if (comparison->contenders < 2) return;
    fprintf(out, "\nHow many times better %s is than each (above 1: better; below 1: worse)\n%-43s",
            base, "");
    print_names(comparison, out);
    for (size_t m = 0; m < comparison->metrics; m++) {
        const na_compared_t *metric = &comparison->metric[m];
        if (metric->rank == NA_DETAIL && !details) continue;
        print_label(metric, out);
        for (size_t c = 0; c < comparison->contenders; c++) {
            const double *mine = metric->value[comparison->base], *other = metric->value[c];
            double ratio = metric->better == NA_LOWER ? ratio_of(comparison, other, mine)
                                                      : ratio_of(comparison, mine, other);
            if (ratio > 0)
                fprintf(out, "  %15.3f", ratio);
            else
                fprintf(out, "  %15s", "-");
        }
        fputc('\n', out);
    }
}

static void json_value(const na_comparison_t *comparison, const na_compared_t *metric, size_t c,
                       FILE *out) {
    na_stats_t stats = stats_of(comparison, metric->value[c]);
    fprintf(out, "%s\n    {\"allocator\": ", c == 0 ? "" : ",");
    na_json_text(comparison->contender[c].name, out);
    fprintf(out,
            ", \"median\": %.9g, \"q1\": %.9g, \"q3\": %.9g, \"min\": %.9g, \"max\": %.9g, "
            "\"rounds\": [",
            stats.median, stats.q1, stats.q3, stats.min, stats.max);
    for (size_t r = 0; r < comparison->rounds; r++)
        fprintf(out, "%s%.9g", r == 0 ? "" : ", ", metric->value[c][r]);
    /* Raw quotients, this allocator's value over the other's, whichever direction is better. */
    fputs("], \"ratio_to\": {", out);
    for (size_t other = 0; other < comparison->contenders; other++) {
        double ratio = ratio_of(comparison, metric->value[c], metric->value[other]);
        fputs(other == 0 ? "" : ", ", out);
        na_json_text(comparison->contender[other].name, out);
        if (ratio > 0)
            fprintf(out, ": %.6g", ratio);
        else
            fputs(": null", out);
    }
    fputs("}}", out);
}

void na_compare_json(const na_comparison_t *comparison, FILE *out) {
    char machine[256];
    na_machine_describe(machine, sizeof machine);
    fprintf(out,
            "{\"comparison\": \"%s\",\n \"rounds\": %zu,\n \"base\": ", comparison->bench->name,
            comparison->rounds);
    na_json_text(comparison->contender[comparison->base].name, out);
    fputs(",\n \"machine\": ", out);
    na_json_text(machine, out);
    fputs(",\n \"knobs\": ", out);
    na_knobs_json(comparison->knobs, out);
    fputs(",\n \"allocators\": [", out);
    for (size_t c = 0; c < comparison->contenders; c++) {
        fputs(c == 0 ? "\n  {\"name\": " : ",\n  {\"name\": ", out);
        na_json_text(comparison->contender[c].name, out);
        fputs(", \"preload\": ", out);
        na_json_text(comparison->contender[c].path, out);
        fputs(", \"malloc\": ", out);
        na_json_text(comparison->contender[c].object, out);
        fputc('}', out);
    }
    fputs("\n ],\n \"metrics\": [", out);
    for (size_t m = 0; m < comparison->metrics; m++) {
        const na_compared_t *metric = &comparison->metric[m];
        fprintf(out,
                "%s\n  {\"name\": \"%s\", \"unit\": \"%s\", \"better\": \"%s\", \"rank\": \"%s\", "
                "\"values\": [",
                m == 0 ? "" : ",", metric->name, metric->unit,
                metric->better == NA_LOWER ? "lower" : "higher",
                metric->rank == NA_HEADLINE ? "headline" : "detail");
        for (size_t c = 0; c < comparison->contenders; c++)
            json_value(comparison, metric, c, out);
        fputs("\n  ]}", out);
    }
    fputs("\n ]}\n", out);
}
