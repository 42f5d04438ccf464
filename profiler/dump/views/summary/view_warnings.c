/* view_warnings.c - what in a profile asks for attention, each with its evidence, the reason and a
 * remedy. */
#include <stdio.h>

#include "profiler/dump/ui/table.h"
#include "profiler/dump/ui/text.h"
#include "profiler/dump/views/summary/summary.h"

static void list_one(void *arg, const na_finding_t *finding) {
    size_t *count = arg;
    if ((*count)++ == 0)
        printf("Findings, the most valuable first (numalloc-dump warnings has reasons and "
               "remedies)\n");
    printf("  %-16s ", finding->key);
    na_text_put(stdout, finding->line);
    putchar('\n');
}

size_t na_warnings_list(const na_view_input_t *in) {
    size_t count = 0;
    return na_warnings_each(in, list_one, &count);
}

enum {
    KEY,
    VALUE,
    THRESHOLD,
    EVIDENCE,
    SHARE,
    SAVED_BYTES,
    SAVED_MS,
    WORTH,
    PLACE,
    SAVES,
    REASON,
    REMEDY
};
static const na_column_t warnings_columns[] = {
    {"warning", "warning", NA_KIND_TEXT, NULL},  {"value", NULL, NA_KIND_NUMBER, NULL},
    {"threshold", NULL, NA_KIND_NUMBER, NULL},   {"evidence", "evidence", NA_KIND_TEXT, NULL},
    {"share", NULL, NA_KIND_SHARE, NULL},        {"saves_bytes", NULL, NA_KIND_BYTES, NULL},
    {"saves_ms", NULL, NA_KIND_MS, NULL},        {"worth", NULL, NA_KIND_SHARE, NULL},
    {"place", "most of it", NA_KIND_TEXT, NULL}, {NULL, "saves", NA_KIND_TEXT, NULL},
    {"reason", "reason", NA_KIND_TEXT, NULL},    {"remedy", "remedy", NA_KIND_TEXT, NULL},
};
static const na_columns_t warnings_table = NA_COLUMNS(warnings_columns);

static void add_warning_row(void *arg, const na_finding_t *finding) {
    na_table_t *table = arg;
    na_table_row(table, na_table_rows(table));
    na_table_text(table, KEY, finding->key);
    na_table_number(table, VALUE, finding->value);
    na_table_number(table, THRESHOLD, finding->threshold);
    na_table_text(table, EVIDENCE, finding->evidence);
    if (finding->share > 0) na_table_number(table, SHARE, finding->share);
    if (finding->unit == NA_SAVING_BYTES) na_table_number(table, SAVED_BYTES, finding->saved);
    if (finding->unit == NA_SAVING_MS) na_table_number(table, SAVED_MS, finding->saved);
    if (finding->unit != NA_SAVING_UNKNOWN) na_table_number(table, WORTH, finding->worth);
    na_table_text(table, PLACE, finding->place);
    na_table_text(table, SAVES, finding->saves);
    na_table_text(table, REASON, finding->reason);
    na_table_text(table, REMEDY, finding->remedy);
}

static na_status_t show_warnings(na_view_input_t *in) {
    na_table_t *table = na_table_open(&warnings_table);
    if (table == NULL) return NA_STATUS_MEMORY;
    char empty[80];
    size_t count = na_warnings_each(in, add_warning_row, table);
    snprintf(empty, sizeof empty, "Nothing: none of %zu warnings %s.",
             count == 0 ? (size_t)NA_FINDING_KINDS : count,
             count == 0 ? "applies" : "matches --filter");
    const na_table_print_t print = {
        .view = "warnings", .empty = empty, .all = true, .lines_from = PLACE};
    na_status_t status = na_table_write(table, in->options, &print);
    na_table_close(table);
    return status;
}

const na_view_t na_view_row_warnings = {
    .name = "warnings",
    .words = "FILE",
    .help = "what asks for attention, with reason, remedy and what that saves",
    .modes = NA_IN_ALL,
    .takes = NA_TAKES_TABLE | NA_TAKES(WRAPPERS),
    .tables = {{&warnings_table, 0}},
    .show = show_warnings,
};
