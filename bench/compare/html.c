/* html.c - draws a comparison into one HTML file that needs no network and no script.
 *
 * Every drawing is inline SVG made here. Colours are CSS variables with a light and a dark set;
 * each allocator keeps its colour in all drawings, and bars carry their names and numbers as text,
 * so that nothing is told by colour alone. */
#include "bench/compare/html.h"

#include "bench/compare/ratios.h"
#include "bench/compare/report.h"
#include "bench/compare/result.h"
#include "bench/suite/report.h"

#include <math.h>
#include <string.h>

/* Pixels of the bar charts (SVG units). */
enum { CHART_WIDTH = 520, NAME_WIDTH = 118, NUMBER_WIDTH = 158, ROW = 22, AXIS = 20, COLOURS = 12 };

static const char style[] =
    ":root{color-scheme:light dark;--bg:#fff;--fg:#1c1f24;--soft:#5b6470;--line:#d8dce2;"
    "--card:#f6f7f9;--bad:#b3261e;--good:#176b3a;"
    "--c0:#1f6fb4;--c1:#d9820f;--c2:#2a8f5b;--c3:#b8468e;--c4:#c14a2b;--c5:#3d9fb8;--c6:#7a5cc0;"
    "--c7:#8a7a1f;--c8:#0f766e;--c9:#a3123f;--c10:#5a4632;--c11:#3b3fa8;--cc:#8b929c}"
    "@media(prefers-color-scheme:dark){:root{--bg:#14171b;--fg:#e6e9ee;--soft:#9aa4b1;"
    "--line:#363c45;--card:#1c2026;--bad:#ff8a80;--good:#6fd39a;"
    "--c0:#5ba7e8;--c1:#f0a94a;--c2:#58c08c;--c3:#e084bd;--c4:#ee8262;--c5:#6fcbe2;--c6:#ab93ee;"
    "--c7:#cdbb55;--c8:#4fd1c5;--c9:#ff7d9c;--c10:#c8a98a;--c11:#8f94ff;--cc:#8f98a4}}"
    "*{box-sizing:border-box}"
    "body{margin:0 auto;max-width:1180px;padding:24px 20px 60px;background:var(--bg);"
    "color:var(--fg);font:15px/1.5 system-ui,sans-serif}"
    "h1{font-size:26px;margin:0 0 4px}h2{font-size:20px;margin:40px 0 8px;padding-top:12px;"
    "border-top:1px solid var(--line)}h3{font-size:16px;margin:0}"
    "p{margin:6px 0;max-width:80ch}.soft{color:var(--soft)}.bad{color:var(--bad);font-weight:600}"
    ".good{color:var(--good);font-weight:600}"
    "code{font:12px ui-monospace,monospace;overflow-wrap:anywhere;color:var(--soft)}"
    "table{border-collapse:collapse;margin:8px 0}td,th{padding:3px 14px 3px 0;text-align:left;"
    "vertical-align:top}th{color:var(--soft);font-weight:500}"
    ".num td+td,.num th+th{text-align:right;font-variant-numeric:tabular-nums;white-space:nowrap}"
    ".num tr{border-top:1px solid var(--line)}.wide{overflow-x:auto}"
    ".case{background:var(--card);border-radius:8px;padding:12px 16px;margin:12px 0}"
    ".pair{display:grid;grid-template-columns:repeat(auto-fit,minmax(min(100%,420px),1fr));"
    "gap:8px 28px;margin-top:8px}"
    "details{margin-top:8px}summary{cursor:pointer;color:var(--soft)}"
    ".grid{display:grid;grid-template-columns:repeat(auto-fill,minmax(min(100%,260px),1fr));"
    "gap:12px}figure{margin:0}figcaption{font-size:13px;color:var(--soft)}"
    ".legend{display:flex;flex-wrap:wrap;gap:4px 18px;margin:8px 0;padding:0;list-style:none}"
    ".legend i{display:inline-block;width:11px;height:11px;border-radius:2px;margin-right:6px}"
    "svg{display:block;width:100%;height:auto}svg text{fill:var(--fg);font:12px system-ui,"
    "sans-serif;font-variant-numeric:tabular-nums}svg .t{fill:var(--soft);font-size:11px}"
    ".ax{stroke:var(--line)}.one{stroke:var(--soft);stroke-dasharray:3 3}"
    ".iv{stroke:var(--fg);stroke-width:1.4;fill:none}"
    "@media print{.case{break-inside:avoid}}";

void na_html_text(const char *text, FILE *out) {
    for (const char *at = text; *at != '\0'; at++) {
        const char *word = *at == '&'    ? "&amp;"
                           : *at == '<'  ? "&lt;"
                           : *at == '>'  ? "&gt;"
                           : *at == '"'  ? "&quot;"
                           : *at == '\'' ? "&#39;"
                                         : NULL;
        if (word != NULL)
            fputs(word, out);
        else if ((unsigned char)*at >= 0x20 || *at == '\n' || *at == '\t')
            fputc(*at, out);
        else
            fputs("&#xfffd;", out); /* control characters are not allowed in HTML */
    }
}

/* The CSS colour of a contender. */
static const char *colour(const na_comparison_t *comparison, size_t c) {
    static const char *const names[COLOURS] = {
        "var(--c0)", "var(--c1)", "var(--c2)", "var(--c3)", "var(--c4)",  "var(--c5)",
        "var(--c6)", "var(--c7)", "var(--c8)", "var(--c9)", "var(--c10)", "var(--c11)"};
    return c == comparison->control ? "var(--cc)" : names[c % COLOURS];
}

static const char *case_allocator(const na_comparison_t *comparison, size_t c) {
    return comparison->contender[c].name;
}

/* A round step for about four ticks up to `most`. */
static double tick_step(double most) {
    double raw = most / 4, power = pow(10, floor(log10(raw)));
    double step = raw / power;
    return power * (step < 1.5 ? 1 : step < 3.5 ? 2 : step < 7.5 ? 5 : 10);
}

/* ---- Bars -------------------------------------------------------------------------------------
 */

typedef struct bar {
    na_ratio_t ratio;
    char number[64]; /* beside the name of the ratio: the median with its unit, or "" */
    const char *absent;
} bar_t;

/* One bar per contender, of its cost relative to the base. */
static void draw_bars(const na_comparison_t *comparison, const bar_t *bars, const char *title,
                      FILE *out) {
    double most = 1.25;
    size_t count = comparison->contenders;
    int height = (int)count * ROW + AXIS, plot = CHART_WIDTH - NAME_WIDTH - NUMBER_WIDTH;
    for (size_t c = 0; c < count; c++)
        if (bars[c].ratio.ratio * 1.08 > most) most = bars[c].ratio.ratio * 1.08;
    double scale = plot / most, step = tick_step(most);
    fputs("<figure><figcaption>", out);
    na_html_text(title, out);
    fprintf(out, "</figcaption><svg viewBox=\"0 0 %d %d\" role=\"img\" aria-label=\"", CHART_WIDTH,
            height);
    na_html_text(title, out);
    fputs("\">", out);
    for (int i = 0; i * step <= most; i++) {
        double tick = i * step;
        double x = NAME_WIDTH + tick * scale;
        fprintf(out,
                "<line class=\"ax\" x1=\"%.1f\" x2=\"%.1f\" y1=\"0\" y2=\"%d\"/>"
                "<text class=\"t\" x=\"%.1f\" y=\"%d\" text-anchor=\"middle\">%g</text>",
                x, x, height - AXIS + 3, x, height - 4, tick);
    }
    for (size_t c = 0; c < count; c++) {
        const bar_t *bar = &bars[c];
        double top = (double)c * ROW, middle = top + ROW / 2.0;
        fprintf(out, "<text x=\"%d\" y=\"%.1f\" text-anchor=\"end\">", NAME_WIDTH - 8, middle + 4);
        na_html_text(case_allocator(comparison, c), out);
        fputs("</text>", out);
        if (bar->ratio.pairs == 0) {
            fprintf(out, "<text class=\"t\" x=\"%d\" y=\"%.1f\">", NAME_WIDTH + 6, middle + 4);
            na_html_text(bar->absent, out);
            fputs("</text>", out);
            continue;
        }
        fprintf(out,
                "<rect x=\"%d\" y=\"%.1f\" width=\"%.1f\" height=\"%d\" rx=\"2\" fill=\"%s\"/>",
                NAME_WIDTH, top + 3, bar->ratio.ratio * scale, ROW - 6, colour(comparison, c));
        if (bar->ratio.high > bar->ratio.low) {
            /* What lies beyond the drawing ends without a cap. */
            bool cut = bar->ratio.high > most;
            double low = NAME_WIDTH + bar->ratio.low * scale;
            double high = NAME_WIDTH + (cut ? most : bar->ratio.high) * scale;
            fprintf(out, "<path class=\"iv\" d=\"M%.1f %.1fv8m0-4H%.1f%s\"/>", low, middle - 4,
                    high, cut ? "" : "m0-4v8");
        }
        fprintf(out, "<text x=\"%d\" y=\"%.1f\">", CHART_WIDTH - NUMBER_WIDTH + 8, middle + 4);
        fprintf(out, "%.*f\xc3\x97",
                bar->ratio.ratio >= 100  ? 0
                : bar->ratio.ratio >= 10 ? 1
                                         : 2,
                bar->ratio.ratio);
        if (*bar->number != '\0') {
            fputs(" <tspan class=\"t\">", out);
            na_html_text(bar->number, out);
            fputs("</tspan>", out);
        }
        fputs("</text>", out);
    }
    double one = NAME_WIDTH + scale;
    fprintf(out,
            "<line class=\"one\" x1=\"%.1f\" x2=\"%.1f\" y1=\"0\" y2=\"%d\"/></svg></figure>\n",
            one, one, height - AXIS);
}

static void draw_metric(const na_comparison_t *comparison, const na_case_t *which,
                        const na_compared_t *metric, FILE *out) {
    bar_t bars[NA_CONTENDERS_MAX];
    char title[256], number[32];
    snprintf(title, sizeof title, "%s (%s, %s is better), relative to %s", metric->name,
             metric->unit, metric->better == NA_LOWER ? "lower" : "higher; the bars are of costs",
             case_allocator(comparison, comparison->base));
    for (size_t c = 0; c < comparison->contenders; c++) {
        na_stats_t stats = na_case_stats(comparison, metric, c);
        bars[c].ratio = na_case_ratio(comparison, metric, c, comparison->base);
        bars[c].number[0] = '\0';
        bars[c].absent = which->failure[c].count > 0 ? "failed, see above"
                         : stats.count == 0          ? "no result"
                                                     : "no ratio: a value is not above zero";
        na_report_number(stats.median, number, sizeof number);
        if (stats.count > 0)
            snprintf(bars[c].number, sizeof bars[c].number, "%s %s", number, metric->unit);
    }
    draw_bars(comparison, bars, title, out);
}

/* Against the base, or (NA_NONE) against the best of the others in each case. */
static void draw_mean(const na_comparison_t *comparison, na_kind_t kind, unsigned threads,
                      size_t against, FILE *out) {
    bar_t bars[NA_CONTENDERS_MAX];
    char title[160];
    size_t cases = 0;
    for (size_t c = 0; c < comparison->contenders; c++) {
        na_ratio_t *ratio = &bars[c].ratio;
        bool twin = against == NA_NONE && c == comparison->control;
        *ratio = twin ? (na_ratio_t){0} : na_mean_ratio(comparison, kind, threads, c, against);
        if (ratio->pairs > cases) cases = ratio->pairs;
        if (ratio->rounds > 1 && c != against)
            snprintf(bars[c].number, sizeof bars[c].number, "[%.3f, %.3f]", ratio->low,
                     ratio->high);
        else
            bars[c].number[0] = '\0';
        bars[c].absent = twin ? "the base again" : "no result";
    }
    if (cases == 0) return;
    int length = snprintf(title, sizeof title, "%s: geometric mean of %zu",
                          kind == NA_TIME ? "Time" : "Memory", cases);
    if (threads != 0)
        length += snprintf(title + length, sizeof title - (size_t)length, ", %u thread%s", threads,
                           threads == 1 ? "" : "s");
    if (against == NA_NONE)
        snprintf(title + length, sizeof title - (size_t)length,
                 ", each case against the best of the others in it");
    draw_bars(comparison, bars, title, out);
}

/* ---- Scaling over threads ---------------------------------------------------------------------
 */

/* The cases of one benchmark in growing numbers of threads; 0 unless `first` is the first of them.
 */
static size_t case_series(const na_comparison_t *comparison, size_t first, size_t *series) {
    const na_case_t *head = &comparison->cases[first];
    size_t count = 0;
    if (head->threads == 0) return 0;
    for (size_t i = 0; i < comparison->case_count; i++) {
        const na_case_t *which = &comparison->cases[i];
        if (which->bench != head->bench || which->threads == 0) continue;
        if (i < first) return 0;
        if (na_case_main(which) == NULL || count == NA_THREAD_LISTS_MAX) continue;
        size_t at = count++;
        for (; at > 0 && comparison->cases[series[at - 1]].threads > which->threads; at--)
            series[at] = series[at - 1];
        series[at] = i;
    }
    return count;
}

static void draw_scaling(const na_comparison_t *comparison, const size_t *series, size_t count,
                         FILE *out) {
    enum { WIDTH = 280, HEIGHT = 190, LEFT = 46, RIGHT = 10, TOP = 8, BOTTOM = 30 };
    const na_case_t *head = &comparison->cases[series[0]];
    const na_compared_t *metric = na_case_main(head);
    double most = 0, low = log2(head->threads);
    double wide = log2(comparison->cases[series[count - 1]].threads) - low;
    for (size_t s = 0; s < count; s++) {
        const na_compared_t *here = na_case_main(&comparison->cases[series[s]]);
        for (size_t c = 0; c < comparison->contenders; c++) {
            na_stats_t stats = na_case_stats(comparison, here, c);
            if (stats.count > 0 && stats.q3 > most) most = stats.q3;
        }
    }
    if (!(most > 0) || !(wide > 0)) return;
    most *= 1.06;
    fputs("<figure><figcaption>", out);
    na_html_text(head->name, out);
    fputs(": ", out);
    na_html_text(metric->name, out);
    fprintf(out, ", %s (%s is better)</figcaption><svg viewBox=\"0 0 %d %d\" role=\"img\">",
            metric->unit, metric->better == NA_LOWER ? "lower" : "higher", WIDTH, HEIGHT);
    double y_scale = (HEIGHT - TOP - BOTTOM) / most, step = tick_step(most);
    double x_scale = (WIDTH - LEFT - RIGHT - 16) / wide;
    for (int i = 0; i * step <= most; i++) {
        double tick = i * step;
        double y = HEIGHT - BOTTOM - tick * y_scale;
        fprintf(out,
                "<line class=\"ax\" x1=\"%d\" x2=\"%d\" y1=\"%.1f\" y2=\"%.1f\"/>"
                "<text class=\"t\" x=\"%d\" y=\"%.1f\" text-anchor=\"end\">%g</text>",
                LEFT, WIDTH - RIGHT, y, y, LEFT - 5, y + 4, tick);
    }
    for (size_t s = 0; s < count; s++)
        fprintf(out, "<text class=\"t\" x=\"%.1f\" y=\"%d\" text-anchor=\"middle\">%u</text>",
                LEFT + 8 + (log2(comparison->cases[series[s]].threads) - low) * x_scale,
                HEIGHT - BOTTOM + 15, comparison->cases[series[s]].threads);
    fprintf(out, "<text class=\"t\" x=\"%d\" y=\"%d\" text-anchor=\"middle\">threads</text>",
            (LEFT + WIDTH) / 2, HEIGHT - 2);
    for (size_t c = 0; c < comparison->contenders; c++) {
        char path[NA_THREAD_LISTS_MAX * 40] = "";
        size_t length = 0;
        fprintf(out, "<g fill=\"%s\" stroke=\"%s\"><title>", colour(comparison, c),
                colour(comparison, c));
        na_html_text(case_allocator(comparison, c), out);
        fputs("</title>", out);
        for (size_t s = 0; s < count; s++) {
            const na_case_t *which = &comparison->cases[series[s]];
            na_stats_t stats = na_case_stats(comparison, na_case_main(which), c);
            if (stats.count == 0) continue;
            double x = LEFT + 8 + (log2(which->threads) - low) * x_scale;
            double y = HEIGHT - BOTTOM - stats.median * y_scale;
            fprintf(out, "<circle cx=\"%.1f\" cy=\"%.1f\" r=\"3\"/><path d=\"M%.1f %.1fV%.1f\"/>",
                    x, y, x, HEIGHT - BOTTOM - stats.q1 * y_scale,
                    HEIGHT - BOTTOM - stats.q3 * y_scale);
            length += (size_t)snprintf(path + length, sizeof path - length, "%s%.1f %.1f",
                                       length == 0 ? "M" : "L", x, y);
        }
        fprintf(out, "<path d=\"%s\" fill=\"none\" stroke-width=\"1.8\"%s/></g>", path,
                c == comparison->control ? " stroke-dasharray=\"4 3\"" : "");
    }
    fputs("</svg></figure>\n", out);
}

static void write_scaling(const na_comparison_t *comparison, FILE *out) {
    bool any = false;
    for (size_t i = 0; i < comparison->case_count; i++) {
        size_t series[NA_THREAD_LISTS_MAX];
        size_t count = case_series(comparison, i, series);
        if (count < 2) continue;
        if (!any) {
            fputs("<h2 id=\"scaling\">Scaling over threads</h2><p class=\"soft\">Medians of the "
                  "headlines with their quartiles, in the units of the benchmarks.</p>"
                  "<ul class=\"legend\">",
                  out);
            for (size_t c = 0; c < comparison->contenders; c++) {
                fprintf(out, "<li><i style=\"background:%s\"></i>", colour(comparison, c));
                na_html_text(case_allocator(comparison, c), out);
                fputs("</li>", out);
            }
            fputs("</ul><div class=\"grid\">\n", out);
        }
        any = true;
        draw_scaling(comparison, series, count, out);
    }
    if (any) fputs("</div>\n", out);
}

/* ---- The document -----------------------------------------------------------------------------
 */

static void write_head(const na_comparison_t *comparison, FILE *out) {
    char machine[512];
    na_control_t control = na_control_of(comparison);
    na_compare_machine(machine, sizeof machine);
    fprintf(out,
            "<!DOCTYPE html>\n<html lang=\"en\"><head><meta charset=\"utf-8\">"
            "<meta name=\"viewport\" content=\"width=device-width,initial-scale=1\">"
            "<title>Allocators compared</title><style>%s</style></head><body>\n"
            "<h1>Allocators compared</h1>\n<p class=\"soft\">",
            style);
    na_html_text(machine, out);
    fprintf(out, "</p>\n<p>%zu case%s, %zu round%s in alternating order", comparison->case_count,
            comparison->case_count == 1 ? "" : "s", comparison->rounds_done,
            comparison->rounds_done == 1 ? "" : "s");
    if (comparison->stopped != NULL)
        fprintf(out, " of %zu planned (%s)", comparison->rounds, comparison->stopped);
    fputs(". A bar is the cost relative to <b>", out);
    na_html_text(case_allocator(comparison, comparison->base), out);
    fputs("</b>: the median of the ratios within each round, shorter is better. The whisker is ",
          out);
    fputs(na_ratio_words(comparison->rounds_done), out);
    fputs("; one that reaches across the dashed line is a tie.</p>\n", out);
    if (control.cases > 0) {
        fprintf(out, "<p>Control: the base against itself is <span class=\"%s\">%s</span>. ",
                control.tie ? "good" : "bad", control.tie ? "a tie" : "not a tie");
        fprintf(out,
                "In %zu of %zu cases 1 is not within, where chance alone gives up to %zu; the mean "
                "of its times is %.3f [%.3f, %.3f].%s</p>\n",
                control.off, control.cases, control.allowed, control.mean.ratio, control.mean.low,
                control.mean.high, control.tie ? "" : " Do not trust small differences.");
    }
    fputs("<table><tr><th>allocator</th><th>malloc comes from</th></tr>\n", out);
    for (size_t c = 0; c < comparison->contenders; c++) {
        fputs("<tr><td>", out);
        na_html_text(case_allocator(comparison, c), out);
        fputs("</td><td><code>", out);
        na_html_text(*comparison->contender[c].object != '\0' ? comparison->contender[c].object
                                                              : comparison->contender[c].path,
                     out);
        fputs("</code></td></tr>\n", out);
    }
    fputs("</table>\n", out);
    for (size_t i = 0; i < comparison->left_out_count; i++) {
        fputs("<p class=\"soft\">Left out: ", out);
        na_html_text(comparison->left_out[i], out);
        fputs("</p>\n", out);
    }
}

static void write_means(const na_comparison_t *comparison, FILE *out) {
    unsigned done[NA_CASES_MAX];
    size_t count = 0;
    fputs("<h2 id=\"means\">All together</h2>\n<div class=\"pair\">\n", out);
    draw_mean(comparison, NA_TIME, 0, comparison->base, out);
    draw_mean(comparison, NA_MEMORY, 0, comparison->base, out);
    if (comparison->contenders - (comparison->control != NA_NONE) > 2) {
        draw_mean(comparison, NA_TIME, 0, NA_NONE, out);
        draw_mean(comparison, NA_MEMORY, 0, NA_NONE, out);
    }
    for (size_t i = 0; i < comparison->case_count; i++) {
        unsigned threads = comparison->cases[i].threads;
        bool known = threads == 0;
        for (size_t k = 0; k < count; k++)
            known |= done[k] == threads;
        if (known) continue;
        done[count++] = threads;
        draw_mean(comparison, NA_TIME, threads, comparison->base, out);
        draw_mean(comparison, NA_MEMORY, threads, comparison->base, out);
    }
    fputs(
        "</div>\n<p class=\"soft\">Time: over the headlines that are times or rates. Memory: over "
        "the peaks of resident memory, or the headline where that is memory. Ratios, such as "
        "those of scratch and thrash, are in no mean.</p>\n",
        out);
}

/* A table of ratios: its head, and the row of one metric. */
static void table_head(const na_comparison_t *comparison, const char *first, FILE *out) {
    fprintf(out, "<div class=\"wide\"><table class=\"num\"><tr><th>%s</th>", first);
    for (size_t c = 0; c < comparison->contenders; c++) {
        fputs("<th>", out);
        na_html_text(case_allocator(comparison, c), out);
        fputs("</th>", out);
    }
    fputs("</tr>\n", out);
}

static void table_row(const na_comparison_t *comparison, const na_compared_t *metric,
                      const char *label, FILE *out) {
    fputs("<tr><td>", out);
    na_html_text(label, out);
    fputs("</td>", out);
    for (size_t c = 0; c < comparison->contenders; c++) {
        na_ratio_t ratio = na_case_ratio(comparison, metric, c, comparison->base);
        if (ratio.pairs == 0)
            fputs("<td>\xe2\x80\x93</td>", out);
        else if (c == comparison->base)
            fputs("<td>1</td>", out);
        else if (ratio.rounds == 1)
            fprintf(out, "<td>%.3f</td>", ratio.ratio);
        else
            fprintf(out, "<td>%s%.3f [%.3f, %.3f]</td>", na_ratio_tie(&ratio) ? "= " : "",
                    ratio.ratio, ratio.low, ratio.high);
    }
    fputs("</tr>\n", out);
}

/* What the drawings of a case sum up or leave out: its other headlines. */
static void write_parts(const na_comparison_t *comparison, const na_case_t *which, FILE *out) {
    const na_compared_t *headline = na_case_main(which), *memory = na_case_memory(which);
    bool any = false;
    for (size_t m = 0; m < which->metrics; m++) {
        const na_compared_t *metric = &which->metric[m];
        char label[96];
        if (metric->rank != NA_HEADLINE || metric == headline || metric == memory) continue;
        if (!any) {
            fputs("<details><summary>all figures, relative to ", out);
            na_html_text(case_allocator(comparison, comparison->base), out);
            fputs("</summary>", out);
            table_head(comparison, "figure", out);
        }
        any = true;
        snprintf(label, sizeof label, "%s, %s", metric->name, metric->unit);
        table_row(comparison, metric, label, out);
    }
    if (any) fputs("</table></div></details>", out);
}

static void write_case(const na_comparison_t *comparison, const na_case_t *which, FILE *out) {
    char label[64];
    const na_compared_t *headline = na_case_main(which), *memory = na_case_memory(which);
    fputs("<section class=\"case\"><h3>", out);
    na_html_text(na_case_label(which, label, sizeof label), out);
    fputs("</h3>", out);
    if (which->bench != NULL) {
        fputs("<p class=\"soft\">", out);
        na_html_text(which->bench->summary, out);
        fputs("</p>", out);
    }
    fputs("<code>", out);
    if (which->bench == NULL) na_html_text(which->command, out);
    for (size_t w = 0; w < which->words; w++) {
        na_html_text(which->word[w], out);
        fputc(' ', out);
    }
    fputs("</code><div class=\"pair\">\n", out);
    if (headline != NULL)
        draw_metric(comparison, which, headline, out);
    else
        fputs("<p class=\"bad\">no result under any allocator</p>", out);
    if (memory != NULL && memory != headline) draw_metric(comparison, which, memory, out);
    fputs("</div>", out);
    write_parts(comparison, which, out);
    fputs("</section>\n", out);
}

static void write_failures(const na_comparison_t *comparison, FILE *out) {
    bool any = false;
    for (size_t i = 0; i < comparison->case_count; i++) {
        for (size_t c = 0; c < comparison->contenders; c++) {
            const na_failure_t *failure = &comparison->cases[i].failure[c];
            char label[64];
            if (failure->count == 0) continue;
            if (!any)
                fputs("<h2 id=\"failures\">Failed</h2><table><tr><th>case</th><th>allocator</th>"
                      "<th>what happened</th></tr>\n",
                      out);
            any = true;
            fputs("<tr><td>", out);
            na_html_text(na_case_label(&comparison->cases[i], label, sizeof label), out);
            fputs("</td><td>", out);
            na_html_text(case_allocator(comparison, c), out);
            fputs("</td><td>", out);
            na_html_text(failure->reason, out);
            fputs(failure->given_up ? "; not run again</td></tr>\n" : "</td></tr>\n", out);
        }
    }
    if (any) fputs("</table>\n", out);
}

static void write_numbers(const na_comparison_t *comparison, FILE *out) {
    fputs("<h2 id=\"numbers\">Numbers</h2><p class=\"soft\">Cost relative to the base with ", out);
    fputs(na_ratio_words(comparison->rounds_done), out);
    fputs("; = marks a tie.</p>", out);
    table_head(comparison, "case", out);
    for (size_t i = 0; i < comparison->case_count; i++) {
        const na_case_t *which = &comparison->cases[i];
        for (int memory = 0; memory < 2; memory++) {
            const na_compared_t *metric = memory ? na_case_memory(which) : na_case_main(which);
            char label[64], full[160];
            if (metric == NULL || (memory && metric == na_case_main(which))) continue;
            snprintf(full, sizeof full, "%s: %s", na_case_label(which, label, sizeof label),
                     metric->name);
            table_row(comparison, metric, full, out);
        }
    }
    fputs("</table></div>\n", out);
}

void na_compare_html(const na_comparison_t *comparison, FILE *out) {
    write_head(comparison, out);
    write_failures(comparison, out);
    write_means(comparison, out);
    write_scaling(comparison, out);
    fputs("<h2 id=\"cases\">Time and memory of each</h2>\n", out);
    for (size_t i = 0; i < comparison->case_count; i++)
        write_case(comparison, &comparison->cases[i], out);
    write_numbers(comparison, out);
    fputs("</body></html>\n", out);
}
