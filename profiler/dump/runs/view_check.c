/* view_check.c - is a profile whole, and within limits? For scripts: exit status 1 and a few lines
 * if not. A sampled profile's figures are estimates, with 95 % intervals (figure_limits.h). */
#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "profiler/analyze/blocks/detail.h"
#include "profiler/dump/profile/suppress.h"
#include "profiler/dump/profile/view.h"
#include "profiler/dump/runs/check_report.h"
#include "profiler/dump/runs/figure_limits.h"
#include "profiler/dump/runs/function_diff.h"
#include "profiler/dump/ui/text.h"

#define SHOWN 3 /* sites named when a figure is too large; functions, when it grew */

/* What the sites of a figure are sorted by. */
#define NA_ORDER_NONE -1
static const int figure_orders[] = {
#define NA_CHECK_FIGURE(name, bytes, what, order) NA_ORDER_##order,
#include "profiler/dump/runs/check_figures.def"
#undef NA_CHECK_FIGURE
};

/* In the order of values(). */
static const na_figure_t check_figures[] = {
#define NA_CHECK_FIGURE(name, bytes, what, order) {name, bytes, what},
#include "profiler/dump/runs/check_figures.def"
#undef NA_CHECK_FIGURE
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
static bool put_most_grown(na_check_report_t *report, const na_view_input_t *old,
                           const na_view_input_t *new, na_order_t order) {
    na_diff_t diff;
    if (!na_diff_make(old, new, &diff)) return false;
    na_view_input_t view = *new;
    view.order = order;
    for (int shown = 0; shown < SHOWN; shown++) {
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
        if (shown == 0) na_check_place(report, best->name->file, best->name->line);
        fprintf(report->open, "  %s more by ", na_view_metric_text(&view, a, most));
        na_text_put(report->open, label);
        fputc('\n', report->open);
        memset(diff.items[best - diff.items].cost, 0, sizeof best->cost);
    }
    na_diff_free(&diff);
    return true;
}

/* The sites that have most of it. False: out of memory. */
static bool put_sites(na_check_report_t *report, const na_view_input_t *in, size_t figure) {
    if (figure_orders[figure] < 0) return true;
    na_view_input_t view = *in;
    view.order = (na_order_t)figure_orders[figure];
    bool leaks = strncmp(check_figures[figure].name, "leak", 4) == 0;
    na_suppressions_t list;
    na_stack_t stack = {0};
    if (na_suppressions_read(&list, in->options) != NA_STATUS_WHOLE) return false;
    double below = INFINITY;
    bool good = true;
    for (int shown = 0; shown < SHOWN && good; shown++) {
        const na_site_t *best = NULL;
        double most = 0;
        for (size_t i = 0; i < in->sites.count && good; i++) {
            const na_site_t *site = &in->sites.items[i];
            double value = na_view_metric(&view, &site->sum);
            if (!(value > most && value < below)) continue;
            good = !leaks || na_view_stack(in, site->site, &stack);
            if (!good || (leaks && na_suppressed(&list, in, site, &stack))) continue;
            most = value;
            best = site;
        }
        if (best == NULL) break;
        below = most;
        const na_symbol_frame_t *leaf, *frame = na_view_site(in, best->site, &leaf);
        char label[NA_LABEL] = "a stack that is missing", a[NA_TEXT];
        if (frame != NULL) na_view_frame_label(frame, label);
        if (shown == 0 && frame != NULL) na_check_place(report, frame->file, frame->line);
        fprintf(report->open, "  %s by ", na_view_metric_text(&view, a, most));
        na_text_put(report->open, label);
        fputc('\n', report->open);
    }
    free(stack.items);
    na_suppressions_free(&list);
    return good;
}

/* One figure of the two, in the case that is open. False: out of memory. */
static bool compare_figure(na_check_report_t *report, size_t figure, bool percent, double limit,
                           const na_view_input_t *old, const na_view_input_t *new,
                           const values_t *before, const values_t *after) {
    double x = before->of[figure], y = after->of[figure];
    double allowed = percent ? x * limit / 100 : limit;
    if (!(y - x > allowed)) return true;
    /* What grew beyond the limit is a difference of two estimates, if they are. */
    double share = percent ? 1 + limit / 100 : 1;
    double error = hypot(after->error[figure], share * before->error[figure]);
    bool sure = y - x - allowed > error || error == 0;
    char a[NA_MEASURED_TEXT], b[NA_MEASURED_TEXT];
    fprintf(report->open, "%s: %s grew from %s to %s", sure ? "failed" : "not sure",
            check_figures[figure].name, estimate_of(before, figure, a),
            estimate_of(after, figure, b));
    if (x > 0) fprintf(report->open, " (%+.1f %%)", 100 * (y - x) / x);
    fputc('\n', report->open);
    report->items[report->count - 1].failed = sure;
    return !sure || figure_orders[figure] < 0 ||
           put_most_grown(report, old, new, (na_order_t)figure_orders[figure]);
}

/* "5%", "10M" or "peak=5%". */
static na_status_t compare_limit(na_check_report_t *report, const na_view_input_t *old,
                                 const na_view_input_t *new, const values_t *before,
                                 const values_t *after) {
    const char *text = new->options->check.increase;
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
        if (!wanted) continue;
        char name[NA_TEXT];
        snprintf(name, sizeof name, "%s over the baseline", check_figures[figure].name);
        if (na_check_begin(report, name) == NULL) return NA_STATUS_MEMORY;
        bool good = compare_figure(report, figure, percent, limit, old, new, before, after);
        if (!na_check_end(report) || !good) return NA_STATUS_MEMORY;
    }
    return NA_STATUS_WHOLE;
}

/* The limits of --fail-if. */
static na_status_t hold_limits(na_check_report_t *report, const na_view_input_t *in,
                               const values_t *now, const na_limit_t *limits) {
    const na_options_t *o = in->options;
    na_measured_t measured[FIGURES];
    for (size_t i = 0; i < FIGURES; i++)
        measured[i] = measured_of(now, i);
    for (size_t i = 0; i < o->check.fail_if.count; i++) {
        na_check_case_t *item = na_check_begin(report, o->check.fail_if.items[i]);
        if (item == NULL) return NA_STATUS_MEMORY;
        item->failed = na_limit_fails(&limits[i], check_figures, measured, report->open);
        bool good = !item->failed || put_sites(report, in, limits[i].figure);
        if (!na_check_end(report) || !good) return NA_STATUS_MEMORY;
    }
    return NA_STATUS_WHOLE;
}

/* The baseline's part. */
static na_status_t hold_baseline(na_check_report_t *report, const na_view_input_t *in,
                                 const values_t *now) {
    na_view_input_t old;
    values_t before;
    na_status_t status = na_view_load(&old, in->options->check.baseline, in->options, false);
    if (status != NA_STATUS_WHOLE) return status;
    if (measure_run(&old, &before, &status)) status = compare_limit(report, &old, in, &before, now);
    if (na_view_unload(&old, true) == NA_STATUS_PARTIAL && status == NA_STATUS_WHOLE) {
        na_check_case_t *item = na_check_begin(report, "the baseline is whole");
        if (item == NULL) return NA_STATUS_MEMORY;
        item->failed = true;
        fprintf(report->open, "failed: the baseline is damaged\n");
        if (!na_check_end(report)) return NA_STATUS_MEMORY;
    }
    return status;
}

static na_status_t hold_all(na_check_report_t *report, const na_view_input_t *in,
                            const na_limit_t *limits, values_t *now) {
    na_status_t status;
    if (!measure_run(in, now, &status)) return status;
    /* What main says on stderr is the reason; here it only counts. */
    na_check_case_t *whole = na_check_begin(report, "the profile is whole");
    if (whole == NULL) return NA_STATUS_MEMORY;
    whole->failed = na_reader_issue_count(in->reader) != 0;
    if (whole->failed) fprintf(report->open, "failed: the file is damaged\n");
    if (!na_check_end(report)) return NA_STATUS_MEMORY;
    status = hold_limits(report, in, now, limits);
    if (status == NA_STATUS_WHOLE && in->options->check.baseline != NULL)
        status = hold_baseline(report, in, now);
    return status;
}

static na_status_t show_check(na_view_input_t *in) {
    const na_options_t *o = in->options;
    if ((o->check.baseline == NULL) != (o->check.increase == NULL))
        return na_fail("--baseline and --fail-on-increase go together; see numalloc-dump help "
                       "check");
    na_limit_t limits[NA_MAX_REPEATED];
    for (size_t i = 0; i < o->check.fail_if.count; i++)
        if (!na_limit_read(&limits[i], o->check.fail_if.items[i], check_figures, FIGURES))
            return NA_STATUS_NOTHING;
    na_check_report_t report = {0};
    values_t now;
    na_status_t status = hold_all(&report, in, limits, &now);
    size_t failed = 0;
    for (size_t i = 0; i < report.count; i++)
        failed += report.items[i].failed;
    if (status == NA_STATUS_WHOLE) {
        char a[NA_MEASURED_TEXT], b[NA_MEASURED_TEXT], c[NA_MEASURED_TEXT];
        char ok[4 * NA_MEASURED_TEXT];
        estimate_of(&now, 5, c);
        snprintf(ok, sizeof ok, "ok: peak %s, still live %s, %s allocation%s%s",
                 estimate_of(&now, 0, a), estimate_of(&now, 1, b), c,
                 strcmp(c, "1") == 0 ? "" : "s", now.sampled ? " (estimates)" : "");
        na_check_write(&report, (na_check_format_t)o->check.format, failed == 0 ? ok : NULL);
        if (failed != 0) status = NA_STATUS_PARTIAL;
    }
    na_check_free(&report);
    return status;
}

const na_view_t na_view_row_check = {
    .name = "check",
    .words = "FILE",
    .help = "is a profile whole, and within limits and a baseline? For scripts",
    .more = "FIGURE: peak, live, leaks, leaked-blocks, total, allocations, reallocs, temporary, "
            "physical,\n"
            "waste, threads, lost. Exit status 1 and the sites that have most of it if one fails, "
            "or the\nfile is damaged.",
    .modes = NA_IN_ALL,
    .takes = NA_TAKES(FAIL_IF) | NA_TAKES(INCREASE) | NA_TAKES(BASELINE) | NA_TAKES(SUPPRESSIONS) |
             NA_TAKES(WRAPPERS),
    .without = "it answers with its exit status, and says in lines what failed",
    .show = show_check,
};
