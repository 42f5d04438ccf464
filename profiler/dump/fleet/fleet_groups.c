/* fleet_groups.c - aggregate --by: processes put together by their labels, each by its newest
 * dump. */
#include <stdlib.h>
#include <string.h>

#include "profiler/containers/array.h"
#include "profiler/dump/fleet/fleet.h"
#include "profiler/dump/runs/labels.h"

typedef struct group {
    double processes, peak, most, live, total, allocations, resident;
    const char *path; /* of the process with the largest peak */
} group_t;

enum { LABELS, PROCESSES, PEAK, MEAN, MOST, LIVE, TOTAL, COUNT, RESIDENT, FILE_ };
static const na_column_t group_columns[] = {
    {"labels", "labels", NA_KIND_TEXT, NULL},
    {"processes", "processes", NA_KIND_COUNT, NULL},
    {"peak_bytes", "sum of peaks", NA_KIND_BYTES, "peak"},
    {"mean_peak_bytes", "mean", NA_KIND_BYTES, NULL},
    {"largest_peak_bytes", "largest", NA_KIND_BYTES, NULL},
    {"live_bytes", "live last", NA_KIND_BYTES, "live"},
    {"total_bytes", "total", NA_KIND_BYTES, "total"},
    {"allocations", "allocations", NA_KIND_COUNT, "count"},
    {"physical", "resident", NA_KIND_BYTES, NULL},
    {"file", "largest in", NA_KIND_TEXT, NULL},
};
const na_columns_t na_fleet_groups_table = NA_COLUMNS(group_columns);

static void add_to_group(group_t *g, const na_recorded_run_t *run) {
    g->processes++;
    g->peak += run->peak;
    if (g->path == NULL || run->peak > g->most) {
        g->most = run->peak;
        g->path = run->path;
    }
    g->live += run->live;
    g->total += run->total;
    g->allocations += run->allocations;
    if (run->physical > 0) g->resident += run->physical; /* not NaN */
}

static na_status_t put_group_table(const group_t *groups, const na_label_sets_t *sets,
                                   const na_options_t *options) {
    na_table_t *table = na_table_open(&na_fleet_groups_table);
    if (table == NULL) return NA_STATUS_MEMORY;
    for (uint32_t i = 0; i < sets->count; i++) {
        const group_t *g = &groups[i];
        char text[NA_LABELS];
        memcpy(text, sets->items[i], strlen(sets->items[i]) + 1);
        na_labels_in_line(text);
        na_table_row(table, i);
        na_table_text(table, LABELS, text[0] == 0 ? "(none of these)" : text);
        na_table_number(table, PROCESSES, g->processes);
        na_table_number(table, PEAK, g->peak);
        na_table_number(table, MEAN, g->peak / g->processes);
        na_table_number(table, MOST, g->most);
        na_table_number(table, LIVE, g->live);
        na_table_number(table, TOTAL, g->total);
        na_table_number(table, COUNT, g->allocations);
        na_table_number(table, RESIDENT, g->resident);
        na_table_text(table, FILE_, g->path);
    }
    const na_table_print_t print = {
        .view = "aggregate", .title = "Processes by their labels (%s)", .sort = "peak_bytes"};
    na_status_t status = na_table_write(table, options, &print);
    na_table_close(table);
    return status;
}

na_status_t na_fleet_groups(na_recorded_run_t *runs, size_t count, const na_options_t *options) {
    size_t *order = calloc(count + 1, sizeof *order);
    na_label_sets_t sets = {0};
    group_t *groups = NULL;
    uint32_t room = 0;
    bool good = order != NULL;
    size_t n = good ? na_runs_newest(runs, na_runs_by_process(runs, count, order), order) : 0;
    for (size_t i = 0; good && i < n; i++) {
        const na_recorded_run_t *run = &runs[order[i]];
        char set[NA_LABELS];
        na_labels_of(run, options, options->fleet.by, set);
        uint32_t id = na_label_sets_add(&sets, set), had = room;
        good = id != UINT32_MAX && NA_ARRAY_RESERVE(groups, room, id + 1u);
        if (good && room > had) memset(groups + had, 0, (room - had) * sizeof *groups);
        if (good) add_to_group(&groups[id], run);
    }
    na_status_t status = good ? put_group_table(groups, &sets, options) : NA_STATUS_MEMORY;
    free(groups);
    free(order);
    na_label_sets_free(&sets);
    return status;
}
