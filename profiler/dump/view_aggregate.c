/* view_aggregate.c - the processes of one job: high-water marks over the ranks, and where the
 * memory of the highest and the lowest rank went. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "profiler/dump/runs.h"
#include "profiler/dump/table.h"
#include "profiler/dump/text.h"
#include "profiler/dump/views.h"

/* Rows of each table of functions, unless --top says otherwise. */
#define FUNCTIONS 8

typedef struct spread {
    double min, max, mean, sd;
    size_t lowest, highest, count;
} spread_t;

/* Over the runs that could be read; sd of the whole, not of a sample: these are all ranks. */
static spread_t spread_of(const na_run_t *runs, size_t count, size_t offset) {
    spread_t s = {.min = INFINITY, .max = -INFINITY};
    double sum = 0, squares = 0;
    for (size_t i = 0; i < count; i++) {
        double value;
        memcpy(&value, (const char *)&runs[i] + offset, sizeof value);
        if (runs[i].why[0] != 0 || isnan(value)) continue;
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
        if (runs[i].why[0] == 0 && !isnan(value)) squares += (value - s.mean) * (value - s.mean);
    }
    s.sd = sqrt(squares / (double)s.count);
    return s;
}

static const struct {
    const char *name;
    size_t offset;
    bool bytes;
} figures[] = {
    {"peak", offsetof(na_run_t, peak), true},
    {"live at end", offsetof(na_run_t, live), true},
    {"total", offsetof(na_run_t, total), true},
    {"resident", offsetof(na_run_t, physical), true},
    {"allocations", offsetof(na_run_t, allocations), false},
};

static void put_spreads(const na_run_t *runs, size_t count) {
    printf("%-12s  %12s  %12s  %12s  %12s\n", "", "min", "max", "mean", "sd");
    for (size_t i = 0; i < sizeof figures / sizeof figures[0]; i++) {
        spread_t s = spread_of(runs, count, figures[i].offset);
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

static void put_name(const na_run_t *run) {
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
static na_status_t put_rank(const char *which, const na_run_t *run, const na_options_t *options) {
    na_view_input_t in;
    na_options_t own = *options;
    if (!own.top_given) own.top = FUNCTIONS;
    /* The order and the filter are those of the processes; functions have other columns. */
    na_order_t order;
    if (own.sort != NULL && !na_view_order(own.sort, &order)) own.sort = NULL;
    own.filtered = false;
    na_status_t status = na_view_load(&in, run->path, &own, false);
    if (status != NA_STATUS_WHOLE) return status;
    printf("\n%s peak: ", which);
    put_name(run);
    printf("\n\n");
    na_view_draw_timeline(&in, 64, 6);
    status = na_view_function_table(&in, false);
    na_status_t damage = na_view_unload(&in, true);
    return status == NA_STATUS_WHOLE ? damage : status;
}

enum { RANK, PID, HOST, CLOSED, RUN };
static const na_column_t aggregate_columns[] = {
    {"rank", "rank", NA_KIND_NUMBER, NULL},
    {"pid", "pid", NA_KIND_NUMBER, NULL},
    {"host", "host", NA_KIND_TEXT, NULL},
    {"closed", NULL, NA_KIND_NUMBER, NULL},
    NA_RUN_COLUMNS,
};
const na_columns_t na_columns_aggregate = NA_COLUMNS(aggregate_columns);

static void fill(na_table_t *table, const na_run_t *run, const na_run_t *runs) {
    (void)runs;
    if (run->rank >= 0) na_table_number(table, RANK, run->rank);
    na_table_number(table, PID, run->pid);
    na_table_text(table, HOST, run->host);
    na_table_number(table, CLOSED, run->closed);
}

static na_status_t put_rows(const na_run_t *runs, size_t count, const na_options_t *options) {
    na_table_t *table = na_table_open(&na_columns_aggregate);
    if (table == NULL) return NA_STATUS_MEMORY;
    na_table_runs(table, RUN, runs, count, fill);
    const na_table_print_t print = {
        .view = "aggregate", .title = "\nProcesses by peak (%s)", .sort = "peak_bytes"};
    na_status_t status = na_table_write(table, options, &print);
    na_table_close(table);
    return status;
}

na_status_t na_view_aggregate(const char *const *files, size_t count, const na_options_t *options) {
    na_status_t status;
    na_run_t *runs = na_runs_read(files, count, &status);
    if (runs == NULL) return NA_STATUS_MEMORY;
    if (status == NA_STATUS_NOTHING) {
        free(runs);
        return status;
    }
    bool text = options->format == NA_FORMAT_TEXT;
    if (text) put_spreads(runs, count);
    na_status_t shown = put_rows(runs, count, options);
    spread_t peak = spread_of(runs, count, offsetof(na_run_t, peak));
    if (shown == NA_STATUS_WHOLE && text) {
        shown = put_rank("Highest", &runs[peak.highest], options);
        if (shown <= NA_STATUS_PARTIAL && peak.lowest != peak.highest)
            shown = put_rank("Lowest", &runs[peak.lowest], options);
    }
    free(runs);
    return shown == NA_STATUS_WHOLE ? status : shown;
}
