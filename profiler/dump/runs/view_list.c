/* view_list.c - several profiles, or those of a directory: which of them matter, largest first. A
 * shell script leaves dozens of files, of which one is worth a look. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "profiler/containers/path.h"
#include "profiler/dump/runs/labels.h"
#include "profiler/dump/runs/runs.h"
#include "profiler/dump/ui/table.h"
#include "profiler/dump/ui/text.h"
#include "profiler/dump/views/summary/summary.h"
#include "profiler/format/process_info.h"

/* A profile with less than this part of the largest peak, and of the largest sum allocated, is of
 * no weight. */
#define WEIGHT 0.01
/* Of fewer dumps none would be told to grow. */
#define ENOUGH_TO_GROW 5
/* Programs of no weight that are named. */
#define NAMED 4

typedef struct list {
    na_recorded_run_t *runs;
    size_t count;
    double peak, total; /* the largest */
} list_t;

static bool has_weight(const list_t *l, const na_recorded_run_t *run) {
    return run->peak >= WEIGHT * l->peak || run->total >= WEIGHT * l->total;
}

static void count_findings(na_recorded_run_t *run, const na_options_t *options) {
    na_options_t own = *options;
    own.table.sort = own.drawing.metric = NULL;
    na_view_input_t in;
    run->findings = SIZE_MAX;
    if (na_view_load(&in, run->path, &own, true) != NA_STATUS_WHOLE) return;
    run->findings = na_warnings_count(&in);
    na_view_drop(&in);
}

enum {
    PROGRAM,
    PID,
    RANK,
    PEAK,
    TOTAL,
    EVENTS,
    DURATION,
    FINDINGS,
    LIVE,
    RESIDENT,
    CLOSED,
    WRITING,
    HOST,
    START,
    LABELS,
    COMMAND,
    ARGUMENTS,
    STARTED,
    FILE_
};
static const na_column_t list_columns[] = {
    {"program", "program", NA_KIND_TEXT, NULL},
    {"pid", "pid", NA_KIND_NUMBER, NULL},
    {"rank", "rank", NA_KIND_NUMBER, NULL},
    {"peak_bytes", "peak", NA_KIND_BYTES, "peak"},
    {"total_bytes", "allocated", NA_KIND_BYTES, "total"},
    {"events", "events", NA_KIND_COUNT, "count"},
    {"duration_ms", "time", NA_KIND_MS, NULL},
    {"findings", "findings", NA_KIND_COUNT, NULL},
    {"live_bytes", NULL, NA_KIND_BYTES, "live"},
    {"physical", NULL, NA_KIND_BYTES, NULL},
    {"closed", NULL, NA_KIND_NUMBER, NULL},
    {"writing", NULL, NA_KIND_NUMBER, NULL},
    {"host", NULL, NA_KIND_TEXT, NULL},
    {"start_unix_ms", NULL, NA_KIND_NUMBER, NULL},
    {"labels", NULL, NA_KIND_TEXT, NULL},
    {"command", NULL, NA_KIND_TEXT, NULL},
    {NULL, "arguments", NA_KIND_TEXT, NULL},
    {NULL, "started (UTC)", NA_KIND_TEXT, NULL},
    {"file", "file", NA_KIND_TEXT, NULL},
};
static const na_columns_t list_table = NA_COLUMNS(list_columns);

/* Processes of one program are told apart, where there are several: by what is behind its name. */
static bool has_sibling(const list_t *l, const na_recorded_run_t *run) {
    for (size_t i = 0; i < l->count; i++)
        if (l->runs[i].why[0] == 0 && !na_runs_same_process(&l->runs[i], run) &&
            strcmp(l->runs[i].program, run->program) == 0)
            return true;
    return false;
}

static void tell_apart(na_table_t *table, const na_recorded_run_t *run) {
    enum { MOST = 48 };
    const char *end = strstr(run->command, na_base_name(run->program));
    const char *arguments = strchr(end != NULL ? end : run->command, ' ');
    if (arguments != NULL) {
        size_t length = strlen(++arguments), part = length > MOST ? MOST : length;
        while (part < length && part > 0 && ((unsigned char)arguments[part] & 0xc0) == 0x80)
            part--;
        na_table_format(table, ARGUMENTS, "%.*s%s", (int)part, arguments,
                        part < length ? "..." : "");
    }
    time_t since = (time_t)(run->start_unix_ns / 1000000000);
    struct tm parts;
    char when[32];
    if (gmtime_r(&since, &parts) != NULL &&
        strftime(when, sizeof when, "%Y-%m-%d %H:%M:%S", &parts) != 0)
        na_table_text(table, STARTED, when);
}

static void add_run_row(na_table_t *table, const na_recorded_run_t *run,
                        const na_options_t *options, size_t tag) {
    char set[NA_LABELS];
    na_labels_of(run, options, NULL, set);
    na_table_row(table, tag);
    na_table_text(table, PROGRAM, na_base_name(run->program));
    na_table_number(table, PID, run->pid);
    if (run->rank >= 0) na_table_number(table, RANK, run->rank);
    na_table_number(table, PEAK, run->peak);
    na_table_number(table, TOTAL, run->total);
    na_table_number(table, EVENTS, run->allocations + run->frees);
    na_table_number(table, DURATION, (double)run->duration_ms);
    if (run->findings != SIZE_MAX) na_table_number(table, FINDINGS, (double)run->findings);
    na_table_number(table, LIVE, run->live);
    na_table_number(table, RESIDENT, run->physical);
    na_table_number(table, CLOSED, run->closed);
    int writing = options->table.format != NA_FORMAT_TEXT ? na_process_writes(run->path) : -1;
    if (writing >= 0) na_table_number(table, WRITING, writing);
    na_table_text(table, HOST, run->host);
    na_table_number(table, START, (double)run->start_unix_ns / 1e6);
    na_labels_in_line(set);
    na_table_text(table, LABELS, set);
    na_table_text(table, COMMAND, run->command);
    na_table_text(table, FILE_, run->path);
}

/* "sh (20), sed (12) and others" */
static void put_program_counts(const list_t *l) {
    bool *seen = calloc(l->count + 1, sizeof *seen);
    for (unsigned shown = 0; seen != NULL; shown++) {
        size_t best = 0, most = 0;
        for (size_t i = 0; i < l->count; i++) {
            if (seen[i] || l->runs[i].why[0] != 0 || has_weight(l, &l->runs[i])) continue;
            size_t same = 0;
            for (size_t k = i; k < l->count; k++)
                same += l->runs[k].why[0] == 0 && !has_weight(l, &l->runs[k]) &&
                        strcmp(l->runs[k].program, l->runs[i].program) == 0;
            if (same > most) {
                most = same;
                best = i;
            }
        }
        if (most == 0) break;
        if (shown == NAMED) {
            printf(" and others");
            break;
        }
        printf(shown == 0 ? ": " : ", ");
        na_text_put(stdout, na_base_name(l->runs[best].program));
        if (most > 1) printf(" (%zu)", most);
        for (size_t k = 0; k < l->count; k++)
            if (strcmp(l->runs[k].program, l->runs[best].program) == 0) seen[k] = true;
    }
    free(seen);
}

static void put_rest(list_t *l, bool all) {
    size_t rest = 0, first = l->count;
    double allocated = 0;
    for (size_t i = 0; i < l->count; i++) {
        const na_recorded_run_t *run = &l->runs[i];
        if (run->why[0] != 0) continue;
        if (first == l->count || run->peak > l->runs[first].peak) first = i;
        if (has_weight(l, run)) continue;
        rest++;
        allocated += run->total;
    }
    char a[NA_TEXT];
    if (rest != 0 && !all) {
        printf("\n%zu more of no weight, %s allocated by all of them", rest,
               na_text_bytes(a, allocated));
        put_program_counts(l);
        putchar('\n');
    }
    char what[96];
    size_t dumps = na_runs_mark_dumps(l->runs, l->count, what);
    if (dumps != 0)
        printf("\n%s%s\n", what,
               dumps >= ENOUGH_TO_GROW ? "; numalloc-dump aggregate --leaks says what grows" : "");
    if (first != l->count) {
        printf("\nThe first one: numalloc-dump ");
        na_text_put(stdout, l->runs[first].path);
        putchar('\n');
    }
}

static na_status_t show_list(const char *const *files, size_t count, const na_options_t *options) {
    if (!na_labels_check(options)) return NA_STATUS_NOTHING;
    na_status_t status, shown = NA_STATUS_MEMORY;
    list_t l = {.runs = na_runs_read(files, count, false, &status), .count = count};
    na_table_t *table = na_table_open(&list_table);
    if (l.runs != NULL && table != NULL && status == NA_STATUS_NOTHING) {
        shown = NA_STATUS_NOTHING;
    } else if (l.runs != NULL && table != NULL) {
        for (size_t i = 0; i < count; i++) {
            if (l.runs[i].why[0] != 0) continue;
            if (l.runs[i].peak > l.peak) l.peak = l.runs[i].peak;
            if (l.runs[i].total > l.total) l.total = l.runs[i].total;
        }
        bool text = options->table.format == NA_FORMAT_TEXT;
        bool chosen = na_option_given(options, NA_SET_TOP) || options->table.filter.given;
        for (size_t i = 0; i < count; i++) {
            na_recorded_run_t *run = &l.runs[i];
            if (run->why[0] != 0) continue;
            run->findings = SIZE_MAX;
            if (has_weight(&l, run)) count_findings(run, options);
            if (!text || chosen || has_weight(&l, run)) {
                add_run_row(table, run, options, i);
                if (text && has_sibling(&l, run)) tell_apart(table, run);
            }
        }
        const na_table_print_t print = {
            .view = "list", .title = "Profiles by peak (%s)", .sort = "peak_bytes"};
        shown = na_table_write(table, options, &print);
        if (shown == NA_STATUS_WHOLE && text) put_rest(&l, chosen);
    }
    na_table_close(table);
    free(l.runs);
    return shown == NA_STATUS_WHOLE ? status : shown;
}

const na_view_t na_view_row_list = {
    .name = "list",
    .words = "FILE...",
    .help = "several profiles, or those of a directory: which of them matter, largest first",
    .more = "The view of several files, or of a directory, where none is named. Those with less "
            "than 1 % of the\nlargest peak and of the most allocated are one line; --top 0 shows "
            "all.",
    .modes = NA_IN_ALL,
    .takes = NA_TAKES_TABLE | NA_TAKES(LABELS),
    .tables = {{&list_table, 0}},
    .show_files = show_list,
};
