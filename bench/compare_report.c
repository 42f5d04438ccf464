/* compare_report.c - prints a comparison: tables of medians and of ratios, or JSON. */
#include "compare.h"
#include "compare_stats.h"
#include "process.h"
#include "report.h"

#include <dirent.h>
#include <gnu/libc-version.h>
#include <string.h>
#include <unistd.h>

void na_compare_machine(char *out, size_t size) {
    char machine[256];
    unsigned nodes = 0;
    na_machine_describe(machine, sizeof machine);
    double gib = (double)sysconf(_SC_PHYS_PAGES) * (double)sysconf(_SC_PAGESIZE) / 0x1p30;
    DIR *directory = opendir("/sys/devices/system/node");
    for (struct dirent *entry; directory != NULL && (entry = readdir(directory)) != NULL;)
        if (strncmp(entry->d_name, "node", 4) == 0 && entry->d_name[4] >= '0' &&
            entry->d_name[4] <= '9')
            nodes++;
    if (directory != NULL) closedir(directory);
    int length = snprintf(out, size, "%s, %.1f GiB", machine, gib);
    if (nodes > 0 && (size_t)length < size)
        length += snprintf(out + length, size - (size_t)length, ", %u NUMA node%s", nodes,
                           nodes == 1 ? "" : "s");
    if ((size_t)length < size)
        snprintf(out + length, size - (size_t)length, ", glibc %s", gnu_get_libc_version());
}

/* ---- Tables -----------------------------------------------------------------------------------
 */

/* Which metrics of a case a table has. */
typedef enum choice { CHOOSE_MAIN, CHOOSE_MEMORY, CHOOSE_HEADLINES, CHOOSE_ALL } choice_t;

static bool chosen(const na_case_t *which, const na_compared_t *metric, choice_t choice) {
    switch (choice) {
    case CHOOSE_MAIN:
        return metric == na_case_main(which);
    case CHOOSE_MEMORY:
        return metric == na_case_memory(which) && metric != na_case_main(which);
    case CHOOSE_HEADLINES:
        return metric->rank == NA_HEADLINE;
    case CHOOSE_ALL:
        break;
    }
    return true;
}

static void print_names(const na_comparison_t *comparison, int width, FILE *out) {
    for (size_t c = 0; c < comparison->contenders; c++)
        fprintf(out, "  %*.*s", width, width, comparison->contender[c].name);
    fputc('\n', out);
}

static void print_medians(const na_comparison_t *comparison, const na_compared_t *metric,
                          FILE *out) {
    char number[32];
    for (size_t c = 0; c < comparison->contenders; c++) {
        na_stats_t stats = na_case_stats(comparison, metric, c);
        if (stats.count == 0) {
            fprintf(out, "  %19s", "-");
            continue;
        }
        na_report_number(stats.median, number, sizeof number);
        fprintf(out, "  %12s %5.1f%%", number, na_stats_range(&stats));
    }
    fputc('\n', out);
}

static void print_ratio(const na_ratio_t *ratio, FILE *out) {
    if (ratio->pairs == 0)
        fprintf(out, "  %19s", "-");
    else
        fprintf(out, "  %c%5.3f [%5.3f %5.3f]", na_ratio_tie(ratio) ? '=' : ' ', ratio->ratio,
                ratio->low, ratio->high);
}

static void print_ratios(const na_comparison_t *comparison, const na_compared_t *metric,
                         FILE *out) {
    for (size_t c = 0; c < comparison->contenders; c++) {
        na_ratio_t ratio = na_case_ratio(comparison, metric, c, comparison->base);
        if (c == comparison->base)
            fprintf(out, "  %19s", "1");
        else
            print_ratio(&ratio, out);
    }
    fputc('\n', out);
}

/* With one case, the label is the metric's name; with several, the case's too. */
static void print_label(const na_comparison_t *comparison, const na_case_t *which,
                        const na_compared_t *metric, choice_t choice, FILE *out) {
    char label[64], full[160];
    na_case_label(which, label, sizeof label);
    if (comparison->case_count == 1)
        snprintf(full, sizeof full, "%s", metric->name);
    else if (choice == CHOOSE_MAIN || choice == CHOOSE_MEMORY)
        snprintf(full, sizeof full, "%s", label);
    else
        snprintf(full, sizeof full, "%s: %s", label, metric->name);
    fprintf(out, "%-36s %-8s", full, metric->unit);
}

static void print_section(const na_comparison_t *comparison, choice_t choice, const char *what,
                          FILE *out) {
    for (int ratios = 0; ratios < (comparison->contenders > 1 ? 2 : 1); ratios++) {
        if (ratios == 0)
            fprintf(out, "\n%s: median of the rounds, and the distance of the extremes\n", what);
        else
            fprintf(out,
                    "\n%s: cost relative to %s, with the 95%% interval (below 1: better than %s; "
                    "= : a tie)\n",
                    what, comparison->contender[comparison->base].name,
                    comparison->contender[comparison->base].name);
        fprintf(out, "%-45s", "");
        print_names(comparison, 19, out);
        for (size_t i = 0; i < comparison->case_count; i++) {
            const na_case_t *which = &comparison->cases[i];
            for (size_t m = 0; m < which->metrics; m++) {
                if (!chosen(which, &which->metric[m], choice)) continue;
                print_label(comparison, which, &which->metric[m], choice, out);
                if (ratios)
                    print_ratios(comparison, &which->metric[m], out);
                else
                    print_medians(comparison, &which->metric[m], out);
            }
        }
    }
}

/* The distinct numbers of threads, 0 (over all) first. */
static size_t thread_counts(const na_comparison_t *comparison, unsigned *counts) {
    size_t count = 1;
    counts[0] = 0;
    for (size_t i = 0; i < comparison->case_count; i++) {
        bool known = false;
        for (size_t k = 0; k < count; k++)
            known |= counts[k] == comparison->cases[i].threads;
        if (!known && count < NA_THREAD_LISTS_MAX + 1)
            counts[count++] = comparison->cases[i].threads;
    }
    return count;
}

/* Against the base, or (NA_NONE) against the best of the others in each case. */
static void print_means(const na_comparison_t *comparison, size_t against, FILE *out) {
    unsigned counts[NA_THREAD_LISTS_MAX + 1];
    size_t count = thread_counts(comparison, counts);
    fprintf(out, "\nGeometric means of the costs relative to %s\n%-45s",
            against == NA_NONE ? "the best of the others in each case"
                               : comparison->contender[against].name,
            "");
    print_names(comparison, 19, out);
    for (int kind = NA_TIME; kind <= NA_MEMORY; kind++) {
        for (size_t k = 0; k < count; k++) {
            char label[64] = "";
            na_ratio_t mean = {0};
            for (size_t c = 0; c < comparison->contenders && mean.pairs == 0; c++)
                mean = na_mean_ratio(comparison, (na_kind_t)kind, counts[k], c, against);
            if (mean.pairs == 0) continue;
            if (counts[k] != 0)
                snprintf(label, sizeof label, ", %u thread%s", counts[k],
                         counts[k] == 1 ? "" : "s");
            char full[80];
            snprintf(full, sizeof full, "%s%s", kind == NA_TIME ? "time" : "memory", label);
            fprintf(out, "%-45s", full);
            for (size_t c = 0; c < comparison->contenders; c++) {
                bool twin = against == NA_NONE && c == comparison->control;
                mean = twin ? (na_ratio_t){0}
                            : na_mean_ratio(comparison, (na_kind_t)kind, counts[k], c, against);
                if (c == against)
                    fprintf(out, "  %19s", "1");
                else
                    print_ratio(&mean, out);
            }
            fputc('\n', out);
        }
    }
}

static void print_control(const na_comparison_t *comparison, FILE *out) {
    na_control_t control = na_control_of(comparison);
    if (control.cases == 0) return;
    fprintf(out,
            "\ncontrol    %s against itself: %s. %zu of %zu intervals leave out 1 (by chance up to "
            "%zu)",
            comparison->contender[comparison->base].name,
            control.tie ? "a tie" : "NOT a tie, so distrust small differences", control.off,
            control.cases, control.allowed);
    if (control.mean.pairs != 0)
        fprintf(out, "; mean of the times %.3f [%.3f %.3f]", control.mean.ratio, control.mean.low,
                control.mean.high);
    fputc('\n', out);
}

static void print_failures(const na_comparison_t *comparison, FILE *out) {
    bool any = false;
    for (size_t i = 0; i < comparison->case_count; i++) {
        for (size_t c = 0; c < comparison->contenders; c++) {
            const na_failure_t *failure = &comparison->cases[i].failure[c];
            char label[64];
            if (failure->count == 0) continue;
            if (!any) fputs("\nFailed\n", out);
            any = true;
            fprintf(out, "  %s under %s: %s%s\n",
                    na_case_label(&comparison->cases[i], label, sizeof label),
                    comparison->contender[c].name, failure->reason,
                    failure->given_up ? "; not run again" : "");
        }
    }
}

void na_compare_table(const na_comparison_t *comparison, bool details, FILE *out) {
    char machine[512], label[64];
    na_compare_machine(machine, sizeof machine);
    fprintf(out, "rounds     %zu", comparison->rounds_done);
    if (comparison->stopped != NULL)
        fprintf(out, " begun of %zu: %s", comparison->rounds, comparison->stopped);
    fprintf(out, "\nmachine    %s\n", machine);
    for (size_t c = 0; c < comparison->contenders; c++)
        fprintf(out, "%-10s %-16s %s\n", c == 0 ? "malloc" : "", comparison->contender[c].name,
                *comparison->contender[c].object != '\0' ? comparison->contender[c].object
                                                         : comparison->contender[c].path);
    for (size_t i = 0; i < comparison->case_count; i++) {
        const na_case_t *which = &comparison->cases[i];
        fprintf(out, "%-10s %s", i == 0 ? "cases" : "", na_case_label(which, label, sizeof label));
        if (which->bench == NULL) fprintf(out, ": %s", which->command);
        for (size_t w = 0; w < which->words; w++)
            fprintf(out, "%s%s", w == 0 ? ": " : " ", which->word[w]);
        fputc('\n', out);
    }
    for (size_t i = 0; i < comparison->left_out_count; i++)
        fprintf(out, "%-10s %s\n", i == 0 ? "left out" : "", comparison->left_out[i]);
    if (details || comparison->case_count == 1) {
        print_section(comparison, details ? CHOOSE_ALL : CHOOSE_HEADLINES, "All", out);
    } else {
        print_section(comparison, CHOOSE_MAIN, "Headlines", out);
        print_section(comparison, CHOOSE_MEMORY, "Peak memory", out);
    }
    if (comparison->contenders > 1 && comparison->case_count > 1) {
        print_means(comparison, comparison->base, out);
        if (comparison->contenders - (comparison->control != NA_NONE) > 2)
            print_means(comparison, NA_NONE, out);
    }
    print_failures(comparison, out);
    print_control(comparison, out);
}

/* ---- JSON -------------------------------------------------------------------------------------
 */

static void json_ratio(const na_ratio_t *ratio, FILE *out) {
    if (ratio->pairs == 0)
        fputs("null", out);
    else
        fprintf(out, "{\"ratio\": %.6g, \"low\": %.6g, \"high\": %.6g, \"pairs\": %zu}",
                ratio->ratio, ratio->low, ratio->high, ratio->pairs);
}

static void json_value(const na_comparison_t *comparison, const na_compared_t *metric, size_t c,
                       FILE *out) {
    const double *values = metric->value + c * comparison->rounds;
    na_stats_t stats = na_case_stats(comparison, metric, c);
    fputs("    {\"allocator\": ", out);
    na_json_text(comparison->contender[c].name, out);
    fprintf(out,
            ", \"median\": %.9g, \"q1\": %.9g, \"q3\": %.9g, \"min\": %.9g, \"max\": %.9g, "
            "\"rounds\": [",
            stats.median, stats.q1, stats.q3, stats.min, stats.max);
    for (size_t r = 0; r < comparison->rounds; r++) {
        fputs(r == 0 ? "" : ", ", out);
        if (values[r] == values[r])
            fprintf(out, "%.9g", values[r]);
        else
            fputs("null", out);
    }
    /* Below 1: this allocator is better than the other. Of details, the base is the only other. */
    fputs("], \"cost_relative_to\": {", out);
    bool first = true;
    for (size_t other = 0; other < comparison->contenders; other++) {
        if (metric->rank != NA_HEADLINE && other != comparison->base) continue;
        na_ratio_t ratio = na_case_ratio(comparison, metric, c, other);
        fputs(first ? "" : ", ", out);
        first = false;
        na_json_text(comparison->contender[other].name, out);
        fputs(": ", out);
        json_ratio(&ratio, out);
    }
    fputs("}}", out);
}

static void json_case(const na_comparison_t *comparison, const na_case_t *which, FILE *out) {
    const na_compared_t *headline = na_case_main(which), *memory = na_case_memory(which);
    bool first = true;
    fputs("  {\"name\": ", out);
    na_json_text(which->name, out);
    fprintf(out, ", \"threads\": %u, ", which->threads);
    if (which->bench == NULL) {
        fputs("\"command\": ", out);
        na_json_text(which->command, out);
    } else {
        na_knobs_t knobs;
        char error[256];
        fputs("\"knobs\": ", out);
        na_plan_knobs(which->bench, which->word, which->words, &knobs, error, sizeof error);
        na_knobs_json(&knobs, out);
    }
    fputs(",\n   \"failures\": [", out);
    for (size_t c = 0; c < comparison->contenders; c++) {
        if (which->failure[c].count == 0) continue;
        fputs(first ? "{\"allocator\": " : ", {\"allocator\": ", out);
        first = false;
        na_json_text(comparison->contender[c].name, out);
        fprintf(out, ", \"count\": %zu, \"reason\": ", which->failure[c].count);
        na_json_text(which->failure[c].reason, out);
        fputc('}', out);
    }
    fputs("],\n   \"headline\": ", out);
    na_json_text(headline != NULL ? headline->name : "", out);
    fputs(", \"memory\": ", out);
    na_json_text(memory != NULL ? memory->name : "", out);
    fputs(",\n   \"metrics\": [", out);
    for (size_t m = 0; m < which->metrics; m++) {
        const na_compared_t *metric = &which->metric[m];
        fprintf(out, "%s\n   {\"name\": ", m == 0 ? "" : ",");
        na_json_text(metric->name, out);
        fputs(", \"unit\": ", out);
        na_json_text(metric->unit, out);
        fprintf(out, ", \"better\": \"%s\", \"rank\": \"%s\", \"kind\": \"%s\", \"values\": [\n",
                metric->better == NA_LOWER ? "lower" : "higher",
                metric->rank == NA_HEADLINE ? "headline" : "detail", na_kind_word(metric->kind));
        for (size_t c = 0; c < comparison->contenders; c++) {
            json_value(comparison, metric, c, out);
            fputs(c + 1 < comparison->contenders ? ",\n" : "]}", out);
        }
    }
    fputs("]}", out);
}

static void json_means(const na_comparison_t *comparison, FILE *out) {
    unsigned counts[NA_THREAD_LISTS_MAX + 1];
    size_t count = thread_counts(comparison, counts);
    bool first = true;
    for (int kind = NA_TIME; kind <= NA_MEMORY; kind++) {
        for (size_t k = 0; k < count; k++) {
            for (size_t c = 0; c < comparison->contenders; c++) {
                na_ratio_t mean =
                    na_mean_ratio(comparison, (na_kind_t)kind, counts[k], c, comparison->base);
                if (mean.pairs == 0) continue;
                fprintf(out, "%s\n  {\"kind\": \"%s\", \"threads\": %u, \"allocator\": ",
                        first ? "" : ",", na_kind_word((na_kind_t)kind), counts[k]);
                first = false;
                na_json_text(comparison->contender[c].name, out);
                fputs(", \"cost_relative_to_base\": ", out);
                json_ratio(&mean, out);
                if (c != comparison->control) {
                    mean = na_mean_ratio(comparison, (na_kind_t)kind, counts[k], c, NA_NONE);
                    fputs(", \"cost_relative_to_best_other\": ", out);
                    json_ratio(&mean, out);
                }
                fputc('}', out);
            }
        }
    }
}

void na_compare_json(const na_comparison_t *comparison, FILE *out) {
    char machine[512];
    na_control_t control = na_control_of(comparison);
    na_compare_machine(machine, sizeof machine);
    fprintf(out,
            "{\"rounds\": %zu,\n \"rounds_planned\": %zu,\n \"stopped\": ", comparison->rounds_done,
            comparison->rounds);
    if (comparison->stopped != NULL)
        na_json_text(comparison->stopped, out);
    else
        fputs("null", out);
    fputs(",\n \"base\": ", out);
    na_json_text(comparison->contender[comparison->base].name, out);
    fputs(",\n \"machine\": ", out);
    na_json_text(machine, out);
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
    fputs("\n ],\n \"left_out\": [", out);
    for (size_t i = 0; i < comparison->left_out_count; i++) {
        if (i > 0) fputs(", ", out);
        na_json_text(comparison->left_out[i], out);
    }
    fputs("],\n \"control\": ", out);
    if (control.cases == 0) {
        fputs("null", out);
    } else {
        fprintf(out, "{\"tie\": %s, \"cases\": %zu, \"off\": %zu, \"allowed\": %zu, \"mean\": ",
                control.tie ? "true" : "false", control.cases, control.off, control.allowed);
        json_ratio(&control.mean, out);
        fputc('}', out);
    }
    fputs(",\n \"means\": [", out);
    json_means(comparison, out);
    fputs("\n ],\n \"cases\": [\n", out);
    for (size_t i = 0; i < comparison->case_count; i++) {
        json_case(comparison, &comparison->cases[i], out);
        fputs(i + 1 < comparison->case_count ? ",\n" : "\n", out);
    }
    fputs(" ]}\n", out);
}
