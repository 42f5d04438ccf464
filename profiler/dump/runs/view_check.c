/* view_check.c - is a profile whole, and within limits? For scripts: exit status 1 and a few lines
 * if not. A sampled profile's figures are estimates, with 95 % intervals (limits.h). */
#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "profiler/analyze/blocks/detail.h"
#include "profiler/dump/profile/suppress.h"
#include "profiler/dump/profile/view.h"
#include "profiler/dump/runs/function_diff.h"
#include "profiler/dump/runs/limits.h"
#include "profiler/dump/ui/text.h"

#define GROWN_SHOWN 3 /* functions named when a figure grew */

/* In the order of values(). */
static const na_figure_t check_figures[] = {
    {"peak", true, "bytes live at the peak"},
    {"live", true, "bytes live at the end"},
    {"leaks", true, "bytes live at the end that no suppression matches"},
    {"leaked-blocks", false, "blocks of leaks"},
    {"total", true, "bytes requested"},
    {"allocations", false, "allocations"},
    {"reallocs", false, "reallocs"},
    {"temporary", false, "blocks freed before their thread allocated again"},
    {"physical", true, "resident memory near the peak"},
    {"waste", true, "what rounding up added to all blocks"},
    {"threads", false, "threads at one time"},
    {"lost", false, "events that are not in the figures"},
};
#define FIGURES (sizeof check_figures / sizeof check_figures[0])

typedef struct values {
    double of[FIGURES];
    double error[FIGURES]; /* half of the 95 % interval; 0: exact */
    bool sampled;
} values_t;

/* Half the interval of a figure that is `value` of `blocks` blocks; `relative` as it is known of
 * it. Where nothing was drawn, three times the interval of draws would have been missed by one run
 * in twenty (e^-3). */
static double half(const na_view_input_t *in, double value, double relative, bool bytes) {
    const na_nprof_header_t *h = na_reader_header(in->reader);
    if (h->mode != NA_NPROF_MODE_SAMPLE) return 0;
    double least = bytes ? 3 * (double)h->sample_interval : 0;
    return isfinite(relative) && value > 0 ? relative * value : least;
}

/* In the order of figures[]. */
static void put_errors(const na_view_input_t *in, const na_leaks_t *leaks, values_t *v) {
    const na_nprof_header_t *h = na_reader_header(in->reader);
    const na_counters_t *t = &in->sites.total;
    uint32_t scale = h->count_scale;
    v->sampled = h->mode == NA_NPROF_MODE_SAMPLE;
    double live = na_counters_estimate_error(t, NA_ESTIMATE_LIVE_BYTES, scale);
    double blocks = na_counters_estimate_error(t, NA_ESTIMATE_LIVE_COUNT, scale);
    double total = na_counters_estimate_error(t, NA_ESTIMATE_ALLOC_BYTES, scale);
    /* Of a part of the blocks less is known, by the square root. */
    double part = leaks->blocks > 0 ? sqrt(na_view_count(in, (double)t->live_count) / leaks->blocks)
                                    : INFINITY;
    const double relative[FIGURES] = {
        na_counters_error(t, t->peak_count, scale),
        live,
        live * part,
        blocks * part,
        total,
        na_counters_estimate_error(t, NA_ESTIMATE_ALLOC_COUNT, scale),
        na_counters_error(t, (int64_t)t->realloc_count, scale),
        na_counters_error(t, (int64_t)t->temporary_count, scale),
        0,
        total,
        0,
        0,
    };
    for (size_t i = 0; i < FIGURES; i++)
        v->error[i] = half(in, v->of[i], relative[i], check_figures[i].bytes);
    static const char *const exact[] = {"physical", "threads", "lost"};
    for (size_t i = 0; i < FIGURES; i++)
        for (size_t k = 0; k < sizeof exact / sizeof exact[0]; k++)
            if (strcmp(check_figures[i].name, exact[k]) == 0) v->error[i] = 0;
}

static bool measure_run(const na_view_input_t *in, values_t *v, na_status_t *status) {
    na_suppressions_t list;
    *status = na_suppressions_read(&list, in->options);
    if (*status != NA_STATUS_WHOLE) return false;
    na_leaks_t leaks;
    bool good = na_leaks_sum(&list, in, &leaks);
    na_suppressions_free(&list);
    if (!good) {
        *status = NA_STATUS_MEMORY;
        return false;
    }
    const na_nprof_header_t *h = na_reader_header(in->reader);
    const na_counters_t *t = &in->sites.total;
    const na_nprof_point_t *point = na_view_point_at_peak(in);
    const double values[FIGURES] = {
        (double)t->peak_bytes,
        (double)t->live_bytes,
        leaks.bytes,
        leaks.blocks,
        (double)t->alloc_bytes,
        na_view_count(in, (double)t->alloc_count),
        na_view_count(in, (double)t->realloc_count),
        na_view_count(in, (double)t->temporary_count),
        point == NULL ? NAN : (double)point->physical,
        (double)t->alloc_usable - (double)t->alloc_bytes,
        na_threads_peak(in->reader),
        (double)h->lost_events,
    };
    memcpy(v->of, values, sizeof values);
    put_errors(in, &leaks, v);
    return true;
}

static na_measured_t measured_of(const values_t *v, size_t figure) {
    double value = v->of[figure], error = v->error[figure];
    return (na_measured_t){value, value - error, value + error};
}

/* With its interval, where there is one. */
static const char *estimate_of(const values_t *v, size_t figure, char out[NA_MEASURED_TEXT]) {
    na_measured_t measured = measured_of(v, figure);
    return na_measured_text(out, &check_figures[figure], &measured);
}

/* ---- against a baseline ---- */

/* The functions that grew most by the figure. */
static bool put_most_grown(const na_view_input_t *old, const na_view_input_t *new,
                           na_order_t order) {
    na_diff_t diff;
    if (!na_diff_make(old, new, &diff)) return false;
    na_view_input_t view = *new;
    view.order = order;
    for (int shown = 0; shown < GROWN_SHOWN; shown++) {
        const na_diff_row_t *best = NULL;
        double most = 0;
        for (size_t i = 0; i < diff.count; i++) {
            double by = na_view_cost(&view, &diff.items[i].cost[1]) -
                        na_view_cost(&view, &diff.items[i].cost[0]);
            if (by > most) {
                most = by;
                best = &diff.items[i];
            }
        }
        if (best == NULL) break;
        char label[NA_LABEL], a[NA_TEXT];
        na_view_function_label(best->name, label);
        printf("  %s more by ", na_view_metric_text(&view, a, most));
        na_text_put(stdout, label);
        putchar('\n');
        memset(diff.items[best - diff.items].cost, 0, sizeof best->cost);
    }
    na_diff_free(&diff);
    return true;
}

/* "5%", "10M" or "peak=5%". */
static na_status_t compare_limit(const char *text, const na_view_input_t *old,
                                 const na_view_input_t *new, const values_t *before,
                                 const values_t *after, unsigned *failed) {
    static const char *const standard[] = {"peak", "live", "total"};
    const char *equals = strchr(text, '=');
    size_t only = FIGURES;
    if (equals != NULL)
        only = na_limit_figure(check_figures, FIGURES, text, (size_t)(equals - text));
    double limit;
    bool percent;
    if ((equals != NULL && only == FIGURES) ||
        !na_limit_value(equals == NULL ? text : equals + 1, &limit, &percent))
        return na_fail("--fail-on-increase takes 5%%, 10M or FIGURE=5%%, not: %s", text);
    for (size_t figure = 0; figure < FIGURES; figure++) {
        bool wanted = only == figure;
        for (size_t i = 0; i < 3 && only == FIGURES; i++)
            wanted = wanted || strcmp(check_figures[figure].name, standard[i]) == 0;
        double x = before->of[figure], y = after->of[figure];
        double allowed = percent ? x * limit / 100 : limit;
        if (!wanted || !(y - x > allowed)) continue;
        /* What grew beyond the limit is a difference of two estimates, if they are. */
        double share = percent ? 1 + limit / 100 : 1;
        double error = hypot(after->error[figure], share * before->error[figure]);
        bool sure = y - x - allowed > error || error == 0;
        char a[NA_MEASURED_TEXT], b[NA_MEASURED_TEXT];
        printf("%s: %s grew from %s to %s", sure ? "failed" : "not sure",
               check_figures[figure].name, estimate_of(before, figure, a),
               estimate_of(after, figure, b));
        if (x > 0) printf(" (%+.1f %%)", 100 * (y - x) / x);
        putchar('\n');
        if (!sure) continue;
        (*failed)++;
        na_order_t order;
        if (!na_view_order(check_figures[figure].name, &order)) {
            if (strcmp(check_figures[figure].name, "leaks") != 0 &&
                strcmp(check_figures[figure].name, "allocations") != 0)
                continue;
            order = check_figures[figure].bytes ? NA_ORDER_LIVE : NA_ORDER_COUNT;
        }
        if (!put_most_grown(old, new, order)) return NA_STATUS_MEMORY;
    }
    return NA_STATUS_WHOLE;
}

static na_status_t show_check(na_view_input_t *in) {
    const na_options_t *o = in->options;
    if ((o->baseline == NULL) != (o->increase == NULL))
        return na_fail("--baseline and --fail-on-increase go together; see numalloc-dump help "
                       "check");
    na_limit_t limits[NA_MAX_REPEATED];
    for (size_t i = 0; i < o->fail_if_count; i++)
        if (!na_limit_read(&limits[i], o->fail_if[i], check_figures, FIGURES))
            return NA_STATUS_NOTHING;
    values_t after, before;
    na_status_t status;
    unsigned failed = 0;
    if (!measure_run(in, &after, &status)) return status;
    /* What main says on stderr is the reason; here it only counts. */
    uint32_t issues = na_reader_issue_count(in->reader);
    if (issues != 0) printf("failed: the file is damaged\n");
    na_measured_t measured[FIGURES];
    for (size_t i = 0; i < FIGURES; i++)
        measured[i] = measured_of(&after, i);
    for (size_t i = 0; i < o->fail_if_count; i++)
        failed += na_limit_fails(&limits[i], check_figures, measured, stdout);
    if (o->baseline != NULL) {
        na_view_input_t old;
        status = na_view_load(&old, o->baseline, o, false);
        if (status != NA_STATUS_WHOLE) return status;
        if (measure_run(&old, &before, &status))
            status = compare_limit(o->increase, &old, in, &before, &after, &failed);
        na_status_t damage = na_view_unload(&old, true);
        if (damage == NA_STATUS_PARTIAL) failed++;
        if (status != NA_STATUS_WHOLE) return status;
    }
    if (failed == 0 && issues == 0) {
        char a[NA_MEASURED_TEXT], b[NA_MEASURED_TEXT], c[NA_MEASURED_TEXT];
        printf("ok: peak %s, live at the end %s, %s allocations%s\n", estimate_of(&after, 0, a),
               estimate_of(&after, 1, b), estimate_of(&after, 5, c),
               after.sampled ? " (estimates)" : "");
    }
    return failed == 0 ? NA_STATUS_WHOLE : NA_STATUS_PARTIAL;
}

const na_view_t na_view_row_check = {
    .name = "check",
    .words = "FILE",
    .help = "is a profile whole, and within limits and a baseline? For scripts",
    .more = "FIGURE: peak, live, leaks, leaked-blocks, total, allocations, reallocs, temporary, "
            "physical,\n"
            "waste, threads, lost. Exit status 1 and a few lines if one fails, or the file is "
            "damaged.",
    .modes = NA_IN_ALL,
    .takes = NA_TAKES_FAIL_IF | NA_TAKES_INCREASE | NA_TAKES_BASELINE | NA_TAKES_SUPPRESSIONS |
             NA_TAKES_WRAPPERS,
    .without = "it answers with its exit status, and says in lines what failed",
    .show = show_check,
};
