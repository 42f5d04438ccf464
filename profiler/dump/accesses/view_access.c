/* view_access.c - accesses by function and by thread: `functions --access`, `threads --access`. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "profiler/containers/array.h"
#include "profiler/dump/accesses/access_view.h"

/* Columns that both tables have. */
enum { REMOTE_SHARE, SHARE, REMOTE, SAMPLES, WEIGHT, WRITES, LATENCY, COMMON };
#define COMMON_COLUMNS                                                                             \
    {"remote_share", "% of remote", NA_KIND_SHARE, NULL},                                          \
        {"share", "of all", NA_KIND_SHARE, NULL}, {"remote", "remote", NA_KIND_SHARE, NULL},       \
        {"samples", "samples", NA_KIND_COUNT, "count"}, {"weight", NULL, NA_KIND_NUMBER, "total"}, \
        {"writes", "writes", NA_KIND_SHARE, NULL}, {                                               \
        "latency", "latency", NA_KIND_NUMBER, NULL                                                 \
    }

static void fill_touch_row(const na_access_view_t *view, na_table_t *table, const na_touch_sum_t *s,
                           double remote) {
    na_table_number(table, REMOTE_SHARE, na_touch_ratio(s->remote, remote));
    na_table_number(table, SHARE, na_touch_ratio(s->weight, view->verdicts.weight));
    na_table_number(table, REMOTE, na_touch_ratio(s->remote, s->known));
    na_table_number(table, SAMPLES, (double)s->samples);
    na_table_number(table, WEIGHT, s->weight);
    na_table_number(table, WRITES, na_touch_ratio(s->writes, s->told));
    double latency = na_touch_ratio(s->latency, s->latency_weight);
    na_table_number(table, LATENCY, isnan(latency) ? latency : floor(latency + 0.5));
}

static double all_remote(const na_access_view_t *view) {
    double remote = 0;
    for (uint32_t i = 0; i < view->flows.count; i++)
        if (na_access_view_has(view, &view->flows.items[i]) &&
            na_touch_is_remote(&view->flows.items[i]))
            remote += view->flows.items[i].weight;
    return remote;
}

static na_status_t write_table(na_access_view_t *view, na_table_t *table,
                               const na_table_print_t *print) {
    if (view->options->table.format == NA_FORMAT_TEXT) {
        na_access_head(view);
        na_access_notes(view);
        putchar('\n');
    }
    return na_table_write(table, view->options, print);
}

/* ---- functions ---- */

typedef struct function {
    const na_symbol_frame_t *frame; /* of the first access; NULL: not known */
    na_touch_sum_t sum;
    double inclusive; /* weight of its accesses and of those of what it called */
    na_watched_t estimate;
    uint32_t group; /* most of its accesses so far: by majority vote */
    double votes;
    na_access_vote_t caller;
} function_t;

static const na_column_t access_functions_columns[] = {
    COMMON_COLUMNS,
    NA_ESTIMATE_COLUMNS,
    {"inclusive", "with callees", NA_KIND_SHARE, NULL},
    {"object", "mostly on", NA_KIND_TEXT, NULL},
    {"caller", "mostly called by", NA_KIND_TEXT, NULL},
    {"function", NULL, NA_KIND_TEXT, NULL},
    {"file", NULL, NA_KIND_TEXT, NULL},
    {"line", NULL, NA_KIND_NUMBER, NULL},
    {"module", NULL, NA_KIND_TEXT, NULL},
    {NULL, "function", NA_KIND_TEXT, NULL},
};
const na_columns_t na_columns_access_functions = NA_COLUMNS(access_functions_columns);

/* By function id, plus one for those that are not known; ids appear while frames are found. */
typedef struct function_list {
    function_t *items;
    size_t room;
} function_list_t;

/* NULL: out of memory. */
static function_t *accessing_function(function_list_t *list, const na_symbol_frame_t *frame) {
    size_t id = frame == NULL ? 0 : frame->id + (size_t)1;
    if (!NA_ARRAY_RESERVE_ZERO(list->items, list->room, id + 1)) return NULL;
    if (list->items[id].frame == NULL) list->items[id].frame = frame;
    return &list->items[id];
}

static bool add_access(const na_access_view_t *view, function_list_t *list, const na_touch_t *a) {
    const na_flows_t *f = &view->flows;
    const na_symbol_frame_t *chain[NA_ACCESS_CHAIN];
    uint32_t depth = na_access_chain(view, a, chain), group = f->objects[a->object].group;
    for (uint32_t i = 1; i < depth; i++) {
        function_t *outer = accessing_function(list, chain[i]);
        if (outer == NULL) return false;
        outer->inclusive += a->weight;
    }
    function_t *to = accessing_function(list, depth == 0 ? NULL : chain[0]);
    if (to == NULL) return false;
    na_touch_sum_add(&to->sum, f, a);
    na_watched_add(&to->estimate, a);
    to->inclusive += a->weight;
    if (to->votes <= 0) to->group = group;
    to->votes += to->group == group ? a->weight : -a->weight;
    if (to->votes < 0) to->votes = 0;
    na_access_vote(&to->caller, depth > 1 ? chain[1] : NULL, a->weight);
    return true;
}

static na_status_t show_accessing_functions(na_access_view_t *view) {
    enum {
        ESTIMATE = COMMON,
        INCLUSIVE = ESTIMATE + NA_ESTIMATE_COLUMN_COUNT,
        GROUP,
        CALLER,
        FUNCTION,
        FILE_NAME,
        LINE,
        MODULE,
        LABEL
    };
    const na_flows_t *f = &view->flows;
    double remote = all_remote(view);
    const na_nprof_access_source_t *source = &f->sources[view->verdicts.source].of;
    bool chains = (source->flags & NA_NPROF_ACCESS_STACK) != 0;
    function_list_t list = {0};
    na_table_t *table = na_table_open(&na_columns_access_functions);
    na_status_t status = NA_STATUS_MEMORY;
    bool good = table != NULL;
    for (uint32_t i = 0; good && i < f->count; i++)
        if (na_access_view_has(view, &f->items[i])) good = add_access(view, &list, &f->items[i]);
    for (size_t id = 0; good && id < list.room; id++) {
        function_t *to = &list.items[id];
        if (!(to->inclusive > 0) && to->sum.samples == 0) continue;
        char name[NA_LABEL] = "?";
        na_interval_t interval = na_watched_take(&to->estimate, f);
        na_table_row(table, id);
        fill_touch_row(view, table, &to->sum, remote);
        na_access_estimate_cells(table, ESTIMATE, &interval);
        if (chains)
            na_table_number(table, INCLUSIVE, na_touch_ratio(to->inclusive, view->verdicts.weight));
        if (to->frame != NULL) {
            na_view_frame_label(to->frame, name);
            na_table_text(table, FUNCTION, to->frame->function);
            na_table_text(table, FILE_NAME, to->frame->file);
            if (to->frame->line != 0) na_table_number(table, LINE, to->frame->line);
            na_table_text(table, MODULE, to->frame->module);
        }
        na_table_text(table, LABEL, name);
        if (to->sum.samples == 0) continue; /* it only calls others */
        na_access_group_label(view, to->group, name);
        na_table_text(table, GROUP, name);
        if (to->caller.frame != NULL) {
            na_view_frame_label(to->caller.frame, name);
            na_table_text(table, CALLER, name);
        }
    }
    if (good) {
        const na_table_print_t print = {.view = "access_functions",
                                        .title = "Functions by accesses to other nodes (%s)",
                                        .sort = remote > 0 ? "remote_share" : "share"};
        status = write_table(view, table, &print);
    }
    na_table_close(table);
    for (size_t id = 0; id < list.room; id++)
        na_watched_free(&list.items[id].estimate);
    free(list.items);
    return status;
}

na_status_t na_view_access_functions(na_view_input_t *in) {
    na_access_view_t view;
    na_status_t status = na_access_view_of(&view, in);
    return status == NA_STATUS_WHOLE ? na_access_view_close(&view, show_accessing_functions(&view))
                                     : status;
}

/* ---- threads ---- */

#define STRIP 24u

static const na_column_t access_threads_columns[] = {
    COMMON_COLUMNS,
    NA_ESTIMATE_COLUMNS,
    {"own", "own data", NA_KIND_SHARE, NULL},
    {"nodes", "nodes", NA_KIND_COUNT, NULL},
    {"moves", "moves", NA_KIND_COUNT, NULL},
    {"strip", "node over time", NA_KIND_TEXT, NULL},
    {"cluster", "group", NA_KIND_NUMBER, NULL},
    {"object", "mostly on", NA_KIND_TEXT, NULL},
    {"tid", "tid", NA_KIND_NUMBER, NULL},
    {"name", "name", NA_KIND_TEXT, NULL},
};
const na_columns_t na_columns_access_threads = NA_COLUMNS(access_threads_columns);

static na_status_t show_accessing_threads(na_access_view_t *view) {
    enum {
        ESTIMATE = COMMON,
        OWN = ESTIMATE + NA_ESTIMATE_COLUMN_COUNT,
        NODES,
        MOVES,
        STRIP_COLUMN,
        GROUP,
        OBJECT,
        TID,
        NAME
    };
    const na_flows_t *f = &view->flows;
    double remote = all_remote(view);
    na_table_t *table = na_table_open(&na_columns_access_threads);
    if (table == NULL) return NA_STATUS_MEMORY;
    na_watched_t estimate = {0};
    uint64_t step = (f->end_ns - f->start_ns) / STRIP + 1;
    for (uint32_t t = 0; t < f->thread_count; t++) {
        na_flow_t flow = na_flow_of_thread(f, t);
        na_touch_sum_t sum = {0};
        char strip[STRIP + 1], name[NA_LABEL];
        memset(strip, '.', STRIP);
        strip[STRIP] = 0;
        bool seen[NA_FLOWS_NODES] = {false};
        uint32_t nodes = 0, moves = 0, group = 0;
        int last = -1;
        double votes = 0;
        for (uint32_t i = 0; i < flow.count; i++) {
            const na_touch_t *a = &f->items[flow.items[i]];
            if (!na_access_view_has(view, a)) continue;
            na_touch_sum_add(&sum, f, a);
            na_watched_add(&estimate, a);
            uint32_t of = f->objects[a->object].group;
            if (votes <= 0) group = of;
            votes += group == of ? a->weight : -a->weight;
            if (votes < 0) votes = 0;
            if (a->from < 0) continue;
            moves += last >= 0 && last != a->from;
            last = a->from;
            nodes += !seen[a->from];
            seen[a->from] = true;
            uint32_t node = f->nodes[a->from].kernel_id;
            char *at = &strip[(a->ns - f->start_ns) / step];
            char digit = node < 10 ? (char)('0' + node) : '+';
            *at = *at == '.' || *at == digit ? digit : '~';
        }
        na_interval_t interval = na_watched_take(&estimate, f);
        if (sum.samples == 0) continue;
        na_table_row(table, t);
        fill_touch_row(view, table, &sum, remote);
        na_access_estimate_cells(table, ESTIMATE, &interval);
        na_table_number(table, OWN, na_touch_ratio(sum.own, sum.made));
        na_table_number(table, NODES, nodes);
        na_table_number(table, MOVES, moves);
        na_table_text(table, STRIP_COLUMN, strip);
        uint32_t cluster = view->verdicts.clusters.of[t];
        if (view->verdicts.clusters.apart && cluster != NA_FLOWS_NONE)
            na_table_number(table, GROUP, cluster + 1);
        na_access_group_label(view, group, name);
        na_table_text(table, OBJECT, name);
        na_table_number(table, TID, f->threads[t].tid);
        na_table_text(table, NAME, f->threads[t].name);
    }
    const na_table_print_t print = {
        .view = "access_threads",
        .title = "Threads by accesses to other nodes (%s); ~: several nodes in that time",
        .sort = remote > 0 ? "remote_share" : "share"};
    na_status_t status = write_table(view, table, &print);
    na_table_close(table);
    na_watched_free(&estimate);
    return status;
}

na_status_t na_view_access_threads(na_view_input_t *in) {
    na_access_view_t view;
    na_status_t status = na_access_view_of(&view, in);
    return status == NA_STATUS_WHOLE ? na_access_view_close(&view, show_accessing_threads(&view))
                                     : status;
}
