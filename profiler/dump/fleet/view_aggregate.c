/* view_aggregate.c - the processes of a job: high-water marks over the ranks, and where the memory
 * of the highest and the lowest rank went. Jobs that are mixed come one after the other; files of
 * processes that are no ranks are left out, and named (jobs.h). */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "profiler/dump/fleet/fleet.h"
#include "profiler/dump/fleet/trend.h"
#include "profiler/dump/runs/jobs.h"
#include "profiler/dump/runs/labels.h"
#include "profiler/dump/runs/runs.h"
#include "profiler/dump/ui/table.h"
#include "profiler/dump/ui/text.h"
#include "profiler/dump/views/views.h"

/* Rows of each table of functions, unless --top says otherwise. */
#define FUNCTIONS 8

/* Files of each kind that are named when they are left out. */
#define LEFT_OUT 5

typedef struct spread {
    double min, max, mean, sd;
    size_t lowest, highest, count;
} spread_t;

/* The runs that are looked at: those of a job that count. */
typedef struct ranks {
    const na_recorded_run_t *runs;
    size_t count, job;
} ranks_t;

static bool is_in(const ranks_t *ranks, size_t i) {
    const na_recorded_run_t *run = &ranks->runs[i];
    return run->why[0] == 0 && run->part == NA_PART_COUNTS && run->job == ranks->job;
}

/* sd of the whole, not of a sample: these are all ranks. */
static spread_t spread_of(const ranks_t *ranks, size_t offset) {
    const na_recorded_run_t *runs = ranks->runs;
    size_t count = ranks->count;
    spread_t s = {.min = INFINITY, .max = -INFINITY};
    double sum = 0, squares = 0;
    for (size_t i = 0; i < count; i++) {
        double value;
        memcpy(&value, (const char *)&runs[i] + offset, sizeof value);
        if (!is_in(ranks, i) || isnan(value)) continue;
        if (value < s.min) {
            s.min = value;
            s.lowest = i;
        }
        if (value > s.max) {
            s.max = value;
            s.highest = i;
        }
        sum += value;
        s.count++;
    }
    if (s.count == 0) return s;
    s.mean = sum / (double)s.count;
    for (size_t i = 0; i < count; i++) {
        double value;
        memcpy(&value, (const char *)&runs[i] + offset, sizeof value);
        if (is_in(ranks, i) && !isnan(value)) squares += (value - s.mean) * (value - s.mean);
    }
    s.sd = sqrt(squares / (double)s.count);
    return s;
}

static const struct {
    const char *name;
    size_t offset;
    bool bytes;
} figures[] = {
    {"peak", offsetof(na_recorded_run_t, peak), true},
    {"live last", offsetof(na_recorded_run_t, live), true},
    {"total", offsetof(na_recorded_run_t, total), true},
    {"resident", offsetof(na_recorded_run_t, physical), true},
    {"allocations", offsetof(na_recorded_run_t, allocations), false},
};

static void put_spreads(const ranks_t *ranks) {
    printf("%-12s  %12s  %12s  %12s  %12s\n", "", "min", "max", "mean", "sd");
    for (size_t i = 0; i < sizeof figures / sizeof figures[0]; i++) {
        spread_t s = spread_of(ranks, figures[i].offset);
        if (s.count == 0) continue;
        const double values[] = {s.min, s.max, s.mean, s.sd};
        printf("%-12s", figures[i].name);
        for (size_t v = 0; v < 4; v++) {
            char text[NA_TEXT];
            printf("  %12s", figures[i].bytes ? na_text_bytes(text, values[v])
                                              : na_text_count(text, values[v]));
        }
        putchar('\n');
    }
}

static void put_run_name(const na_recorded_run_t *run) {
    if (run->rank >= 0)
        printf("rank %d", run->rank);
    else
        printf("process %d", run->pid);
    printf(" on ");
    na_text_put(stdout, run->host);
    printf(" (");
    na_text_put(stdout, run->path);
    putchar(')');
}

/* Timeline and functions of one rank. */
static na_status_t put_rank(const char *which, const na_recorded_run_t *run,
                            const na_options_t *options) {
    na_view_input_t in;
    na_options_t own = *options;
    if (!na_option_given(&own, NA_SET_TOP)) own.table.top = FUNCTIONS;
    /* The order and the filter are those of the processes; functions have other columns. */
    na_order_t order;
    if (own.table.sort != NULL && !na_view_order(own.table.sort, &order)) own.table.sort = NULL;
    own.table.filter.given = false;
    na_status_t status = na_view_load(&in, run->path, &own, false);
    if (status != NA_STATUS_WHOLE) return status;
    printf("\n%s peak: ", which);
    put_run_name(run);
    printf("\n\n");
    na_view_draw_timeline(&in, 64, 6);
    status = na_view_function_table(&in, false);
    na_status_t damage = na_view_unload(&in, true);
    return status == NA_STATUS_WHOLE ? damage : status;
}

enum { RANK, PID, HOST, CLOSED, JOB, SIZE, RUN };
static const na_column_t aggregate_columns[] = {
    {"rank", "rank", NA_KIND_NUMBER, NULL},
    {"pid", "pid", NA_KIND_NUMBER, NULL},
    {"host", "host", NA_KIND_TEXT, NULL},
    {"closed", NULL, NA_KIND_NUMBER, NULL},
    {"job", NULL, NA_KIND_TEXT, NULL},
    {"ranks", NULL, NA_KIND_NUMBER, NULL},
    NA_RUN_COLUMNS,
};
static const na_columns_t aggregate_table = NA_COLUMNS(aggregate_columns);

static void fill_aggregate_row(na_table_t *table, const na_recorded_run_t *run,
                               const na_recorded_run_t *runs) {
    (void)runs;
    if (run->rank >= 0) na_table_number(table, RANK, run->rank);
    na_table_number(table, PID, run->pid);
    na_table_text(table, HOST, run->host);
    na_table_number(table, CLOSED, run->closed);
    if (run->job_name[0] != 0) na_table_text(table, JOB, run->job_name);
    if (run->ranks != 0) na_table_number(table, SIZE, run->ranks);
}

/* Of one job in text, else of all. */
static na_status_t put_rows(const ranks_t *ranks, const na_options_t *options) {
    na_table_t *table = na_table_open(&aggregate_table);
    if (table == NULL) return NA_STATUS_MEMORY;
    for (size_t i = 0; i < ranks->count; i++)
        if (options->table.format != NA_FORMAT_TEXT || is_in(ranks, i))
            na_table_runs(table, RUN, &ranks->runs[i], 1, fill_aggregate_row);
    const na_table_print_t print = {
        .view = "aggregate", .title = "\nProcesses by peak (%s)", .sort = "peak_bytes"};
    na_status_t status = na_table_write(table, options, &print);
    na_table_close(table);
    return status;
}

static void put_job_name(FILE *to, const na_job_t *job) {
    fputs("job", to);
    if (job->name[0] != 0) {
        putc(' ', to);
        na_text_put(to, job->name);
    }
}

static na_status_t put_job(const na_jobs_t *jobs, const ranks_t *ranks,
                           const na_options_t *options) {
    const na_job_t *job = &jobs->items[ranks->job];
    if (job->has_ranks) {
        if (ranks->job != 0) putchar('\n');
        if (jobs->count > 1) printf("%zu of %zu: ", ranks->job + 1, jobs->count);
        put_job_name(stdout, job);
        if (job->size != 0)
            printf(", %zu of %u ranks%s\n\n", job->ranks, job->size,
                   job->by_request ? " (NUMALLOC_PROFILE_RANKS chose some)" : "");
        else
            printf(", %zu ranks; of how many is not known\n\n", job->ranks);
    }
    put_spreads(ranks);
    na_status_t shown = put_rows(ranks, options);
    spread_t peak = spread_of(ranks, offsetof(na_recorded_run_t, peak));
    if (shown != NA_STATUS_WHOLE || peak.count == 0) return shown;
    shown = put_rank("Highest", &ranks->runs[peak.highest], options);
    if (shown <= NA_STATUS_PARTIAL && peak.lowest != peak.highest)
        shown = put_rank("Lowest", &ranks->runs[peak.lowest], options);
    return shown;
}

/* What is wrong with the jobs. */
static na_status_t say_missing_jobs(const na_jobs_t *jobs) {
    na_status_t status = NA_STATUS_WHOLE;
    for (size_t i = 0; i < jobs->count; i++) {
        const na_job_t *job = &jobs->items[i];
        const char *name = job->name[0] != 0 ? job->name : "without a name";
        char size[32] = "";
        if (job->size != 0) snprintf(size, sizeof size, " of %u ranks", job->size);
        if (job->missing[0] != 0)
            na_fail("job %s%s: no profile of %s %s", name, size,
                    strpbrk(job->missing, ",- ") != NULL ? "ranks" : "rank", job->missing);
        if (job->twice[0] != 0)
            na_fail(
                "job %s: two runs are mixed, rank %s is there twice: the later one counts; keep "
                "each run's profiles in a directory of its own",
                name, job->twice);
        if (job->missing[0] != 0 || job->twice[0] != 0) status = NA_STATUS_PARTIAL;
    }
    return status;
}

/* The files that are no ranks', by kind. */
static void put_left_out(const na_recorded_run_t *runs, size_t count, bool text) {
    size_t each[NA_PARTS] = {0}, all = 0;
    for (size_t i = 0; i < count; i++)
        if (runs[i].why[0] == 0 && runs[i].part != NA_PART_COUNTS) {
            each[runs[i].part]++;
            all++;
        }
    if (all == 0) return;
    if (!text) {
        char kinds[256] = "";
        size_t used = 0;
        for (na_job_part_t part = NA_PART_CHILD; part < NA_PARTS; part++)
            if (each[part] != 0 && used < sizeof kinds)
                used += (size_t)snprintf(kinds + used, sizeof kinds - used, "%s%s (%zu)",
                                         used == 0 ? "" : ", ", na_part_name(part), each[part]);
        na_fail("left out: %zu file%s: %s", all, all == 1 ? "" : "s", kinds);
        return;
    }
    printf("\nLeft out: %zu file%s\n", all, all == 1 ? "" : "s");
    for (na_job_part_t part = NA_PART_CHILD; part < NA_PARTS; part++) {
        size_t shown = 0;
        for (size_t i = 0; i < count && shown <= LEFT_OUT; i++) {
            const na_recorded_run_t *run = &runs[i];
            if (run->why[0] != 0 || run->part != part) continue;
            if (shown++ == LEFT_OUT) {
                printf("  %s: and %zu more\n", na_part_name(part), each[part] - LEFT_OUT);
                break;
            }
            const char *slash = strrchr(run->program, '/');
            char what[96];
            na_part_text(run, what, sizeof what);
            printf("  %s: ", what);
            na_text_put(stdout, slash != NULL ? slash + 1 : run->program);
            printf(" (pid %d, ", run->pid);
            na_text_put(stdout, run->path);
            printf(")\n");
        }
    }
}

static na_status_t show_aggregate(const char *const *files, size_t count,
                                  const na_options_t *options) {
    if (!na_labels_check(options)) return NA_STATUS_NOTHING;
    const char *with_leaks = options->frames.stacks                   ? "stacks"
                             : options->check.fail_if.count != 0      ? "fail-if"
                             : options->leaks.suppressions.count != 0 ? "suppressions"
                             : options->leaks.no_builtin              ? "no-builtin"
                                                                      : NULL;
    if (with_leaks != NULL && !options->fleet.leaks)
        return na_fail("'aggregate' takes --%s with --leaks only", with_leaks);
    na_status_t status;
    na_recorded_run_t *runs = na_runs_read(files, count, true, &status);
    if (runs == NULL) return NA_STATUS_MEMORY;
    na_jobs_t jobs = {0};
    char what[96];
    size_t dumps = status != NA_STATUS_NOTHING ? na_runs_mark_dumps(runs, count, what) : 0;
    if (dumps != 0 && options->table.format == NA_FORMAT_TEXT && !options->fleet.leaks)
        printf("%s%s\n\n", what, dumps >= NA_GROWTH_LEAST ? "; --leaks says what grows" : "");
    na_status_t shown = NA_STATUS_WHOLE;
    if (status != NA_STATUS_NOTHING && (options->fleet.leaks || options->fleet.by != NULL)) {
        shown = options->fleet.leaks ? na_fleet_growth(runs, count, options, status)
                                     : na_fleet_groups(runs, count, options);
        free(runs);
        return shown == NA_STATUS_WHOLE ? status : shown;
    }
    if (status == NA_STATUS_NOTHING || !na_jobs_find(runs, count, &jobs)) {
        shown = status == NA_STATUS_NOTHING ? status : NA_STATUS_MEMORY;
    } else if (options->table.format == NA_FORMAT_TEXT) {
        for (size_t job = 0; job < jobs.count && shown <= NA_STATUS_PARTIAL; job++) {
            na_status_t this = put_job(&jobs, &(ranks_t){runs, count, job}, options);
            if (this > shown) shown = this;
        }
        put_left_out(runs, count, true);
    } else {
        shown = put_rows(&(ranks_t){runs, count, 0}, options);
        put_left_out(runs, count, false);
    }
    if (shown <= NA_STATUS_PARTIAL && say_missing_jobs(&jobs) != NA_STATUS_WHOLE)
        shown = NA_STATUS_PARTIAL;
    na_jobs_free(&jobs);
    free(runs);
    return shown == NA_STATUS_WHOLE ? status : shown;
}

const na_view_t na_view_row_aggregate = {
    .name = "aggregate",
    .words = "FILE...",
    .help = "many processes, or the ranks of a job: spread of peaks, what grows over dumps",
    .more = "Of each rank the process counts that is the rank; its children, launchers and what "
            "starts\nranks are left out, and named; so are files that cannot be read or are "
            "damaged. Of each\nprocess its newest dump counts. Exit status 1 where files are left "
            "out or ranks are missing.\nA directory stands for the profiles in it and below.\n"
            "--leaks: dumps alone are judged, five of a process or more; FIGURE of --fail-if is "
            "growing\n"
            "(sites that grow steadily) or growth (bytes an hour that they grow by, all together). "
            "Exit\nstatus 2 if nothing can be judged.",
    .modes = NA_IN_ALL,
    .takes = NA_TAKES_TABLE | NA_TAKES(WRAPPERS) | NA_TAKES(LABELS) | NA_TAKES(BY) |
             NA_TAKES(LEAKS) | NA_TAKES(STACKS) | NA_TAKES(FAIL_IF) | NA_TAKES(SUPPRESSIONS),
    .tables = {{&aggregate_table, 0},
               {&na_fleet_groups_table, NA_TAKES(BY)},
               {&na_fleet_growth_table, NA_TAKES(LEAKS)}},
    .show_files = show_aggregate,
};
