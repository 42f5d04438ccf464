/* view_compare.c - several runs, or one at several scales, beside each other: figures, and memory
 * over the time of each run from 0 to 100 per cent. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "profiler/dump/profile/view.h"
#include "profiler/dump/runs/runs.h"
#include "profiler/dump/ui/table.h"
#include "profiler/dump/ui/text.h"

static void put_steps(const na_recorded_run_t *runs, size_t count) {
    static const char levels[] = " .:-=+*#%@";
    double most = 0;
    for (size_t i = 0; i < count; i++)
        for (size_t s = 0; s < NA_RUN_STEPS; s++)
            if (runs[i].step[s] > most) most = runs[i].step[s];
    if (most <= 0) return;
    char text[NA_TEXT];
    printf("\nBytes live over each run, 0 to 100 %% of its time (%c is %s or nearly so)\n",
           levels[sizeof levels - 2], na_text_bytes(text, most));
    for (size_t i = 0; i < count; i++) {
        if (runs[i].why[0] != 0) continue;
        putchar('|');
        for (size_t s = 0; s < NA_RUN_STEPS; s++) {
            double part = runs[i].step[s] / most;
            size_t level = (size_t)ceil(part * (double)(sizeof levels - 2));
            putchar(levels[part <= 0 ? 0 : level]);
        }
        printf("| ");
        na_text_put(stdout, runs[i].path);
        putchar('\n');
    }
}

static void put_members(na_json_t *json, void *arg, uint64_t tag) {
    const na_recorded_run_t *run = &((const na_recorded_run_t *)arg)[tag];
    na_json_array(json, "steps");
    for (size_t s = 0; s < NA_RUN_STEPS; s++)
        na_json_number(json, NULL, run->step[s]);
    na_json_end(json);
}

enum { AT, RATIO, TEMPORARY, PROGRAM, RUN };
static const na_column_t compare_columns[] = {
    {"peak_at", "peak at", NA_KIND_SHARE, NULL},
    {"peak_ratio", "to first", NA_KIND_SHARE, NULL},
    {"temporary", NULL, NA_KIND_COUNT, NULL},
    {"program", NULL, NA_KIND_TEXT, NULL},
    NA_RUN_COLUMNS,
};
static const na_columns_t compare_table = NA_COLUMNS(compare_columns);

static void fill_compare_row(na_table_t *table, const na_recorded_run_t *run,
                             const na_recorded_run_t *runs) {
    if (run->duration_ms != 0)
        na_table_number(table, AT, (double)run->peak_ms / (double)run->duration_ms);
    if (runs[0].peak > 0) na_table_number(table, RATIO, run->peak / runs[0].peak);
    na_table_number(table, TEMPORARY, run->temporary);
    na_table_text(table, PROGRAM, run->program);
}

static na_status_t show_compare(const char *const *files, size_t count,
                                const na_options_t *options) {
    na_status_t status, shown = NA_STATUS_MEMORY;
    na_recorded_run_t *runs = na_runs_read(files, count, false, &status);
    na_table_t *table = na_table_open(&compare_table);
    if (runs != NULL && table != NULL && status != NA_STATUS_NOTHING) {
        na_table_runs(table, RUN, runs, count, fill_compare_row);
        const na_table_print_t print = {
            .view = "compare", .all = true, .members = put_members, .arg = runs};
        shown = na_table_write(table, options, &print);
        if (shown == NA_STATUS_WHOLE && options->table.format == NA_FORMAT_TEXT)
            put_steps(runs, count);
    } else if (runs != NULL && table != NULL) {
        shown = NA_STATUS_NOTHING;
    }
    na_table_close(table);
    free(runs);
    return shown == NA_STATUS_WHOLE ? status : shown;
}

const na_view_t na_view_row_compare = {
    .name = "compare",
    .words = "FILE...",
    .help = "several runs beside each other, on one relative time axis",
    .modes = NA_IN_ALL,
    .takes = NA_TAKES_TABLE,
    .tables = {{&compare_table, 0}},
    .show_files = show_compare,
};
