/* report.c - prints a comparison: tables of medians and of ratios, or JSON. */
#include "bench/compare/report.h"

#include "bench/compare/plan.h"
#include "bench/compare/ratios.h"
#include "bench/compare/result.h"
#include "bench/suite/report.h"
#include "bench/system/process.h"

#include <dirent.h>
#include <gnu/libc-version.h>
#include <math.h>
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

static bool is_chosen(const na_case_t *which, const na_compared_t *metric, choice_t choice) {
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

static void print_column_names(const na_comparison_t *comparison, int width, FILE *out) {
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
        if (stats.count == 1)
            fprintf(out, "  %12s %6s", number, "-");
        else
            fprintf(out, "  %12s %5.1f%%", number, na_stats_range(&stats));
    }
    fputc('\n', out);
}

static void print_ratio(const na_ratio_t *ratio, FILE *out) {
    if (ratio->pairs == 0)
        fprintf(out, "  %19s", "-");
    else if (ratio->rounds == 1)
        fprintf(out, "  %6.3f %-12s", ratio->ratio, "[-]");
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
                    "\n%s: cost relative to %s, with %s (below 1: better than %s; = : a tie)\n",
                    what, comparison->contender[comparison->base].name,
                    na_ratio_words(comparison->rounds_done),
                    comparison->contender[comparison->base].name);
        fprintf(out, "%-45s", "");
        print_column_names(comparison, 19, out);
        for (size_t i = 0; i < comparison->case_count; i++) {
            const na_case_t *which = &comparison->cases[i];
            for (size_t m = 0; m < which->metrics; m++) {
                if (!is_chosen(which, &which->metric[m], choice)) continue;
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
    print_column_names(comparison, 19, out);
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
            "\ncontrol    %s against itself: %s. In %zu of %zu cases 1 is not within (by chance up "
            "to %zu)",
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

/* ---- CSV --------------------------------------------------------------------------------------
 */

static void csv_text(const char *text, FILE *out) {
    if (strpbrk(text, ",\"\n") == NULL) {
        fputs(text, out);
        return;
    }
    fputc('"', out);
    for (; *text != '\0'; text++)
        fprintf(out, *text == '"' ? "\"\"" : "%c", *text);
    fputc('"', out);
}

static void csv_metric(const na_comparison_t *comparison, const na_case_t *which,
                       const na_compared_t *metric, FILE *out) {
    for (size_t i = 0; i < comparison->contenders * comparison->rounds; i++) {
        if (isnan(metric->value[i])) continue;
        csv_text(which->name, out);
        fprintf(out, ",%u,", which->threads);
        csv_text(metric->name, out);
        fprintf(out, ",%s,%s,%s,", metric->unit, na_better_word(metric->better),
                na_rank_word(metric->rank));
        csv_text(comparison->contender[i / comparison->rounds].name, out);
        fprintf(out, ",%zu,%.9g\n", i % comparison->rounds + 1, metric->value[i]);
    }
}

void na_compare_csv(const na_comparison_t *comparison, FILE *out) {
    fputs("case,threads,metric,unit,better,rank,allocator,round,value\n", out);
    for (size_t i = 0; i < comparison->case_count; i++)
        for (size_t m = 0; m < comparison->cases[i].metrics; m++)
            csv_metric(comparison, &comparison->cases[i], &comparison->cases[i].metric[m], out);
}

/* ---- JSON -------------------------------------------------------------------------------------
 */

static void json_ratio(na_json_t *json, const char *name, const na_ratio_t *ratio) {
    if (ratio->pairs == 0) {
        na_json_null(json, name);
        return;
    }
    na_json_object(json, name);
    na_json_real(json, "ratio", ratio->ratio, "%.6g");
    na_json_real(json, "low", ratio->low, "%.6g");
    na_json_real(json, "high", ratio->high, "%.6g");
    na_json_string(json, "low_high", ratio->rounds >= NA_INTERVAL_ROUNDS ? "95 %" : "extremes");
    na_json_u64(json, "pairs", ratio->pairs);
    na_json_end(json);
}

static void json_value(const na_comparison_t *comparison, const na_compared_t *metric, size_t c,
                       na_json_t *json) {
    const double *values = metric->value + c * comparison->rounds;
    na_stats_t stats = na_case_stats(comparison, metric, c);
    na_json_line(json);
    na_json_object(json, NULL);
    na_json_string(json, "allocator", comparison->contender[c].name);
    na_stats_json(&stats, json);
    na_json_array(json, "rounds");
    for (size_t r = 0; r < comparison->rounds; r++)
        na_json_real(json, NULL, values[r], "%.9g");
    na_json_end(json);
    /* Below 1: this allocator is better than the other. Of details, the base is the only other. */
    na_json_object(json, "cost_relative_to");
    for (size_t other = 0; other < comparison->contenders; other++) {
        if (metric->rank != NA_HEADLINE && other != comparison->base) continue;
        na_ratio_t ratio = na_case_ratio(comparison, metric, c, other);
        json_ratio(json, comparison->contender[other].name, &ratio);
    }
    na_json_end(json);
    na_json_end(json);
}

static void json_case(const na_comparison_t *comparison, const na_case_t *which, na_json_t *json) {
    const na_compared_t *headline = na_case_main(which), *memory = na_case_memory(which);
    na_json_line(json);
    na_json_object(json, NULL);
    na_json_string(json, "name", which->name);
    na_json_u64(json, "threads", which->threads);
    if (which->bench == NULL) {
        na_json_string(json, "command", which->command);
    } else {
        na_knobs_t knobs;
        char error[256];
        na_plan_knobs(which->bench, which->word, which->words, &knobs, error, sizeof error);
        na_knobs_json(&knobs, json);
    }
    na_json_line(json);
    na_json_array(json, "failures");
    for (size_t c = 0; c < comparison->contenders; c++) {
        if (which->failure[c].count == 0) continue;
        na_json_object(json, NULL);
        na_json_string(json, "allocator", comparison->contender[c].name);
        na_json_u64(json, "count", which->failure[c].count);
        na_json_string(json, "reason", which->failure[c].reason);
        na_json_end(json);
    }
    na_json_end(json);
    na_json_line(json);
    na_json_string(json, "headline", headline != NULL ? headline->name : "");
    na_json_string(json, "memory", memory != NULL ? memory->name : "");
    na_json_line(json);
    na_json_array(json, "metrics");
    for (size_t m = 0; m < which->metrics; m++) {
        const na_compared_t *metric = &which->metric[m];
        na_json_line(json);
        na_json_object(json, NULL);
        na_json_string(json, "name", metric->name);
        na_json_string(json, "unit", metric->unit);
        na_json_string(json, "better", na_better_word(metric->better));
        na_json_string(json, "rank", na_rank_word(metric->rank));
        na_json_string(json, "kind", na_kind_word(metric->kind));
        na_json_array(json, "values");
        for (size_t c = 0; c < comparison->contenders; c++)
            json_value(comparison, metric, c, json);
        na_json_end(json);
        na_json_end(json);
    }
    na_json_end(json);
    na_json_end(json);
}

static void json_means(const na_comparison_t *comparison, na_json_t *json) {
    unsigned counts[NA_THREAD_LISTS_MAX + 1];
    size_t count = thread_counts(comparison, counts);
    for (int kind = NA_TIME; kind <= NA_MEMORY; kind++) {
        for (size_t k = 0; k < count; k++) {
            for (size_t c = 0; c < comparison->contenders; c++) {
                na_ratio_t mean =
                    na_mean_ratio(comparison, (na_kind_t)kind, counts[k], c, comparison->base);
                if (mean.pairs == 0) continue;
                na_json_line(json);
                na_json_object(json, NULL);
                na_json_string(json, "kind", na_kind_word((na_kind_t)kind));
                na_json_u64(json, "threads", counts[k]);
                na_json_string(json, "allocator", comparison->contender[c].name);
                json_ratio(json, "cost_relative_to_base", &mean);
                if (c != comparison->control) {
                    mean = na_mean_ratio(comparison, (na_kind_t)kind, counts[k], c, NA_NONE);
                    json_ratio(json, "cost_relative_to_best_other", &mean);
                }
                na_json_end(json);
            }
        }
    }
}

void na_compare_json(const na_comparison_t *comparison, FILE *out) {
    char machine[512];
    na_control_t control = na_control_of(comparison);
    na_compare_machine(machine, sizeof machine);
    na_json_t json = na_json_open(out);
    json.spaced = true;
    na_json_object(&json, NULL);
    na_json_u64(&json, "rounds", comparison->rounds_done);
    na_json_line(&json);
    na_json_u64(&json, "rounds_planned", comparison->rounds);
    na_json_line(&json);
    na_json_string(&json, "stopped", comparison->stopped);
    na_json_line(&json);
    na_json_string(&json, "base", comparison->contender[comparison->base].name);
    na_json_line(&json);
    na_json_string(&json, "machine", machine);
    na_json_line(&json);
    na_json_array(&json, "allocators");
    for (size_t c = 0; c < comparison->contenders; c++) {
        na_json_line(&json);
        na_json_object(&json, NULL);
        na_json_string(&json, "name", comparison->contender[c].name);
        na_json_string(&json, "preload", comparison->contender[c].path);
        na_json_string(&json, "malloc", comparison->contender[c].object);
        na_json_end(&json);
    }
    na_json_line(&json);
    na_json_end(&json);
    na_json_line(&json);
    na_json_array(&json, "left_out");
    for (size_t i = 0; i < comparison->left_out_count; i++)
        na_json_string(&json, NULL, comparison->left_out[i]);
    na_json_end(&json);
    na_json_line(&json);
    if (control.cases == 0) {
        na_json_null(&json, "control");
    } else {
        na_json_object(&json, "control");
        na_json_bool(&json, "tie", control.tie);
        na_json_u64(&json, "cases", control.cases);
        na_json_u64(&json, "off", control.off);
        na_json_u64(&json, "allowed", control.allowed);
        json_ratio(&json, "mean", &control.mean);
        na_json_end(&json);
    }
    na_json_line(&json);
    na_json_array(&json, "means");
    json_means(comparison, &json);
    na_json_line(&json);
    na_json_end(&json);
    na_json_line(&json);
    na_json_array(&json, "cases");
    for (size_t i = 0; i < comparison->case_count; i++)
        json_case(comparison, &comparison->cases[i], &json);
    na_json_line(&json);
    na_json_end(&json);
    na_json_end(&json);
}
