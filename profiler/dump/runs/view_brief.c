/* view_brief.c - a run in some ten lines: the peak, who has it, and what asks for attention. Of
 * several processes the largest ones by name, and the lines of the first. What numalloc-run shows
 * when a program ends. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "profiler/containers/path.h"
#include "profiler/dump/accesses/access_view.h"
#include "profiler/dump/profile/python_missing.h"
#include "profiler/dump/runs/runs.h"
#include "profiler/dump/ui/text.h"
#include "profiler/dump/views/summary/summary.h"

enum {
    FUNCTIONS = 4, /* lines of each kind */
    FINDINGS = 3,
    PROCESSES = 4,
};

/* Less of the peak is not worth a line, unless it is the first one. */
#define WORTH 0.02

static void put_label(bool first, const char *label) {
    printf("  %-12s ", first ? label : "");
}

static void put_process(const na_view_input_t *in) {
    const na_nprof_header_t *h = na_reader_header(in->reader);
    char a[NA_TEXT];
    na_text_put(stdout, na_base_name(h->program));
    if (h->processes != 0)
        printf(" (%s): %s in all%s\n",
               na_text_counted((char[NA_TEXT]){0}, (double)h->processes, "process"),
               na_text_ms(a, h->together_ms),
               h->mode == NA_NPROF_MODE_SAMPLE ? "; figures are estimates" : "");
    else
        printf(" (process %d): %s%s%s\n", h->pid, na_text_ms(a, h->last_ms),
               na_begun_late(in->reader) ? ", begun after the process" : "",
               h->mode == NA_NPROF_MODE_SAMPLE ? "; figures are estimates" : "");
    if (h->other_malloc[0] != 0) {
        put_label(true, "malloc");
        printf("that of ");
        na_text_put(stdout, h->other_malloc);
        printf(", not numalloc's: its blocks are not in here\n");
    }
}

static void put_brief_figures(const na_view_input_t *in) {
    const na_counters_t *t = &in->sites.total;
    char a[NA_TEXT], b[NA_TEXT], c[NA_TEXT];
    double peak = (double)t->peak_bytes;
    put_label(true, "peak");
    printf("%s in %s, %s after the start", na_text_bytes(a, peak),
           na_text_counted(b, na_view_count(in, (double)t->peak_count), "block"),
           na_text_ms(c, na_view_peak_ms(in)));
    const na_nprof_point_t *point = na_view_point_at_peak(in);
    if (point != NULL && point->physical != 0)
        printf("; %s resident, and %s of the profile's", na_text_bytes(a, (double)point->physical),
               na_text_bytes(b, (double)point->own));
    putchar('\n');
    put_label(true, na_view_moment(in)->live);
    printf("%s in %s", na_text_bytes(a, (double)t->live_bytes),
           na_text_counted(b, na_view_count(in, (double)t->live_count), "block"));
    if (t->live_bytes > 0 && peak > 0)
        printf(", %.0f %% of the peak", 100 * (double)t->live_bytes / peak);
    putchar('\n');
    put_label(true, "allocated");
    printf("%s in %s\n", na_text_bytes(a, (double)t->alloc_bytes),
           na_text_counted(b, na_view_count(in, (double)t->alloc_count), "block"));
}

/* The responsible functions with most of the peak. */
static void put_top_functions(na_view_input_t *in) {
    double all = (double)in->sites.total.peak_bytes;
    unsigned shown = 0;
    na_view_functions_sort(&in->functions, NA_ORDER_PEAK, false);
    for (size_t i = 0; i < in->functions.count && shown < FUNCTIONS; i++) {
        const na_function_row_t *row = &in->functions.items[i];
        double bytes = (double)row->self.peak_bytes;
        if (row->sites == 0 || bytes <= 0) continue;
        if (shown != 0 && bytes < WORTH * all) break;
        char a[NA_TEXT], label[NA_LABEL];
        na_view_function_label(na_symbols_function(in->symbols, row->id), label);
        put_label(shown++ == 0, "at the peak");
        printf("%10s %5.1f %%  ", na_text_bytes(a, bytes), all > 0 ? 100 * bytes / all : 0.0);
        na_text_put(stdout, label);
        putchar('\n');
    }
}

static void put_finding_line(void *arg, const na_finding_t *finding) {
    unsigned *count = arg;
    if ((*count)++ >= FINDINGS) return;
    put_label(*count == 1, "findings");
    na_text_put(stdout, finding->line);
    putchar('\n');
}

static void put_finding_lines(const na_view_input_t *in) {
    unsigned count = 0;
    na_warnings_each(in, put_finding_line, &count);
    if (count <= FINDINGS) return;
    put_label(false, "");
    printf("and %u more (numalloc-dump warnings)\n", count - FINDINGS);
}

/* What is wrong with where memory lies: the dearest verdicts; nothing where no access was sampled,
 * but the reason. */
static na_status_t put_brief_accesses(na_view_input_t *in) {
    if (na_reader_entries(in->reader, NA_NPROF_ACCESS_SAMPLES) == 0) return NA_STATUS_WHOLE;
    na_access_view_t view;
    na_status_t status = na_access_view_of(&view, in);
    if (status != NA_STATUS_WHOLE) return status == NA_STATUS_MEMORY ? status : NA_STATUS_WHOLE;
    char a[NA_TEXT];
    put_label(true, "accesses");
    printf("%s sampled", na_text_count(a, view.verdicts.samples));
    if (view.verdicts.remote == view.verdicts.remote)
        printf(", %.1f %% of them to another node's memory", 100 * view.verdicts.remote);
    unsigned shown = 0;
    for (uint32_t i = 0; i < view.verdicts.count && shown < FINDINGS; i++) {
        const na_verdict_t *v = &view.verdicts.items[i];
        if (v->kind == NA_VERDICT_NOTHING || v->kind == NA_VERDICT_UNDECIDABLE) continue;
        char name[NA_LABEL];
        na_access_verdict_label(&view, v, name);
        putchar('\n');
        put_label(false, "");
        printf("%s: ", na_verdict_texts[v->kind].title);
        na_text_put(stdout, name);
        shown++;
    }
    printf(shown != 0 ? " (numalloc-dump verdicts)\n" : "\n");
    return na_access_view_close(&view, NA_STATUS_WHOLE);
}

static na_status_t show_brief_of(const char *path, const na_options_t *options) {
    na_view_input_t in;
    na_status_t status = na_view_load(&in, path, options, false);
    if (status != NA_STATUS_WHOLE) return status;
    put_process(&in);
    put_brief_figures(&in);
    char why[NA_PYTHON_WHY];
    if (na_view_python_missing(&in, why)) {
        put_label(true, "Python");
        puts(why);
    }
    put_top_functions(&in);
    put_finding_lines(&in);
    status = put_brief_accesses(&in);
    na_status_t damage = na_view_unload(&in, false);
    return status == NA_STATUS_WHOLE ? damage : status;
}

static int by_peak(const void *a, const void *b) {
    const na_recorded_run_t *x = a, *y = b;
    bool bad_x = x->why[0] != 0, bad_y = y->why[0] != 0;
    if (bad_x != bad_y) return bad_x ? 1 : -1;
    if (x->peak != y->peak) return x->peak < y->peak ? 1 : -1;
    return x->pid != y->pid ? (x->pid > y->pid) - (x->pid < y->pid) : strcmp(x->path, y->path);
}

/* Of each process one; of one alone none. */
static void put_processes(const na_recorded_run_t *runs, size_t count, const char *what) {
    char a[NA_TEXT];
    size_t shown = 0, more = 0, all = 0;
    for (size_t i = 0; i < count; i++)
        all += runs[i].part != NA_PART_EARLIER;
    printf("%s%s\n", what, all > 1 ? ", by peak" : "");
    if (all <= 1) return;
    double rest = 0;
    for (size_t i = 0; i < count; i++) {
        if (runs[i].part == NA_PART_EARLIER) continue;
        if (shown == PROCESSES) {
            rest += runs[i].peak;
            more++;
            continue;
        }
        shown++;
        printf("  %10s  ", na_text_bytes(a, runs[i].peak));
        na_text_put(stdout, na_base_name(runs[i].program));
        printf(" (process %d)  ", runs[i].pid);
        na_text_put(stdout, runs[i].path);
        putchar('\n');
    }
    if (more != 0) printf("  %10s  %zu more together\n", na_text_bytes(a, rest), more);
}

static na_status_t show_brief(const char *const *files, size_t count, const na_options_t *options) {
    if (count == 1) return show_brief_of(files[0], options);
    na_status_t status;
    na_recorded_run_t *runs = na_runs_read(files, count, false, &status);
    if (runs == NULL) return NA_STATUS_MEMORY;
    if (status != NA_STATUS_NOTHING) {
        qsort(runs, count, sizeof *runs, by_peak);
        size_t good = 0;
        while (good < count && runs[good].why[0] == 0)
            good++;
        char what[96];
        (void)na_runs_mark_dumps(runs, good, what);
        put_processes(runs, good, what);
        na_status_t shown = show_brief_of(runs[0].path, options);
        if (shown != NA_STATUS_WHOLE) status = shown;
    }
    free(runs);
    return status;
}

const na_view_t na_view_row_brief = {
    .name = "brief",
    .words = "FILE...",
    .help = "a run in ten lines: the peak, who has it, what asks for attention",
    .more = "What numalloc-run shows when a program ends. Of several profiles, or of a directory, "
            "the largest\nones are named, and the lines are those of the first.",
    .modes = NA_IN_ALL,
    .takes = NA_TAKES(WRAPPERS),
    .without = "these lines are for people; summary, warnings and list have the figures for "
               "programs",
    .show_files = show_brief,
};
