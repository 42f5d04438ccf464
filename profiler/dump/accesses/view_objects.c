/* view_objects.c - what was accessed: by origin (site, variable, file), or every object by itself.
 */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "profiler/dump/accesses/access_view.h"

enum {
    REMOTE_SHARE,
    SHARE,
    REMOTE,
    SAMPLES,
    WEIGHT,
    ESTIMATE,
    WRITES = ESTIMATE + NA_ESTIMATE_COLUMN_COUNT,
    LATENCY,
    THREADS,
    OWN,
    FROM,
    HOME,
    OBJECTS,
    BYTES,
    KIND,
    VERDICT,
    NUMBER,
    SITE,
    LABEL,
};

static const na_column_t objects_columns[] = {
    {"remote_share", "% of remote", NA_KIND_SHARE, NULL},
    {"share", "of all", NA_KIND_SHARE, NULL},
    {"remote", "remote", NA_KIND_SHARE, NULL},
    {"samples", "samples", NA_KIND_COUNT, "count"},
    {"weight", NULL, NA_KIND_NUMBER, "total"},
    NA_ESTIMATE_COLUMNS,
    {"writes", "writes", NA_KIND_SHARE, NULL},
    {"latency", "latency", NA_KIND_NUMBER, NULL},
    {"threads", "threads", NA_KIND_COUNT, NULL},
    {"own", "by maker", NA_KIND_SHARE, NULL},
    {"from", "from", NA_KIND_TEXT, NULL},
    {"home", "lies on", NA_KIND_TEXT, NULL},
    {"objects", "objects", NA_KIND_COUNT, NULL},
    {"bytes", "size", NA_KIND_BYTES, NULL},
    {"kind", "kind", NA_KIND_TEXT, NULL},
    {"verdict", "verdict", NA_KIND_TEXT, NULL},
    {"object", "id", NA_KIND_NUMBER, NULL},
    {"site", NULL, NA_KIND_NUMBER, NULL},
    {"name", "object", NA_KIND_TEXT, NULL},
};
static const na_columns_t objects_table = NA_COLUMNS(objects_columns);

typedef struct row {
    na_touch_sum_t sum;
    double from[NA_FLOWS_NODES], home[NA_FLOWS_NODES];
    uint32_t threads;
    na_interval_t interval;
} row_t;

/* Adds an object's samples; `seen` is by thread and holds the row that saw it last. */
static void add_object_row(const na_access_view_t *view, uint32_t object, row_t *row,
                           na_watched_t *estimate, uint32_t *seen, uint32_t number) {
    na_flow_t flow = na_flow_of_object(&view->flows, object);
    for (uint32_t i = 0; i < flow.count; i++) {
        const na_touch_t *a = &view->flows.items[flow.items[i]];
        if (!na_access_view_has(view, a)) continue;
        na_touch_sum_add(&row->sum, &view->flows, a);
        na_watched_add(estimate, a);
        if (a->from >= 0) row->from[a->from] += a->weight;
        if (a->home >= 0) row->home[a->home] += a->weight;
        if (seen[a->thread] != number) row->threads++;
        seen[a->thread] = number;
    }
}

/* The verdict of the object, or else of its group. */
static const na_verdict_t *row_verdict(const na_access_view_t *view, uint32_t group,
                                       uint32_t object) {
    const na_verdict_t *found = NULL;
    for (uint32_t i = 0; i < view->verdicts.count; i++) {
        const na_verdict_t *v = &view->verdicts.items[i];
        if (v->group != group) continue;
        if (object != NA_FLOWS_NONE && v->object == object) return v;
        if (found == NULL || (object != NA_FLOWS_NONE && v->object == NA_FLOWS_NONE)) found = v;
    }
    return found;
}

static void fill_object_row(const na_access_view_t *view, na_table_t *table, const row_t *row,
                            double remote, uint32_t group, uint32_t object) {
    const na_touch_sum_t *s = &row->sum;
    const na_flow_group_t *g = &view->flows.groups[group];
    na_table_row(table, object != NA_FLOWS_NONE ? object : group);
    na_table_number(table, REMOTE_SHARE, na_touch_ratio(s->remote, remote));
    na_table_number(table, SHARE, na_touch_ratio(s->weight, view->verdicts.weight));
    na_table_number(table, REMOTE, na_touch_ratio(s->remote, s->known));
    na_table_number(table, SAMPLES, (double)s->samples);
    na_table_number(table, WEIGHT, s->weight);
    na_access_estimate_cells(table, ESTIMATE, &row->interval);
    na_table_number(table, WRITES, na_touch_ratio(s->writes, s->told));
    double latency = na_touch_ratio(s->latency, s->latency_weight);
    na_table_number(table, LATENCY, isnan(latency) ? latency : floor(latency + 0.5));
    na_table_number(table, THREADS, row->threads);
    na_table_number(table, OWN, na_touch_ratio(s->own, s->made));
    char nodes[NA_LABEL];
    na_table_text(table, FROM, na_access_main_nodes(view, row->from, nodes));
    na_table_text(table, HOME, na_access_main_nodes(view, row->home, nodes));
    na_table_text(table, KIND, na_flow_kind_name(g->kind));
    const na_verdict_t *v = row_verdict(view, group, object);
    if (v != NULL) na_table_text(table, VERDICT, na_verdict_texts[v->kind].title);
    if (g->site != 0) na_table_number(table, SITE, g->site);
    char name[NA_LABEL];
    na_access_group_label(view, group, name);
    na_table_text(table, LABEL, name);
    if (object != NA_FLOWS_NONE) {
        na_table_number(table, NUMBER, object);
        if (view->flows.objects[object].size != 0)
            na_table_number(table, BYTES, (double)view->flows.objects[object].size);
        return;
    }
    na_table_number(table, OBJECTS, g->objects);
    if (g->bytes != 0) na_table_number(table, BYTES, (double)g->bytes);
    na_table_number(table, NUMBER, g->members[0]);
}

static na_status_t show_objects_view(na_access_view_t *view) {
    const na_flows_t *f = &view->flows;
    bool each = view->options->accesses.instances;
    na_table_t *table = na_table_open(&objects_table);
    uint32_t *seen = calloc((size_t)f->thread_count + 1, sizeof *seen);
    na_watched_t estimate = {0};
    na_status_t status = NA_STATUS_MEMORY;
    if (table != NULL && seen != NULL) {
        double remote = 0;
        for (uint32_t i = 0; i < f->count; i++)
            if (na_access_view_has(view, &f->items[i]) && na_touch_is_remote(&f->items[i]))
                remote += f->items[i].weight;
        uint32_t number = 0;
        for (uint32_t g = 0; g < f->group_count; g++) {
            row_t row = {0};
            number++;
            for (uint32_t i = 0; i < f->groups[g].objects; i++) {
                uint32_t object = f->groups[g].members[i];
                if (each) {
                    row = (row_t){0};
                    number++;
                }
                add_object_row(view, object, &row, &estimate, seen, number);
                if (each) row.interval = na_watched_take(&estimate, f);
                if (each && row.sum.samples != 0)
                    fill_object_row(view, table, &row, remote, g, object);
            }
            if (!each) row.interval = na_watched_take(&estimate, f);
            if (!each && row.sum.samples != 0)
                fill_object_row(view, table, &row, remote, g, NA_FLOWS_NONE);
        }
        bool text = view->options->table.format == NA_FORMAT_TEXT;
        if (text) {
            na_access_head(view);
            na_access_notes(view);
        }
        const na_table_print_t print = {
            .view = "objects",
            .title = each ? "\nObjects by remote accesses (%s); see numalloc-dump object ID"
                          : "\nObjects by origin and remote accesses (%s); id: of the one with "
                            "most samples",
            .sort = remote > 0 ? "remote_share" : "share"};
        status = na_table_write(table, view->options, &print);
    }
    na_table_close(table);
    na_watched_free(&estimate);
    free(seen);
    return status;
}

static na_status_t show_objects(const char *const *files, size_t count,
                                const na_options_t *options) {
    return na_access_view_show(files, count, options, show_objects_view);
}

const na_view_t na_view_row_objects = {
    .name = "objects",
    .words = "FILE...",
    .help = "accesses by object: what was touched from other nodes",
    .more = "By origin: site, variable, file. --instances: every object by itself.",
    .modes = NA_IN_ALL,
    .flags = NA_VIEW_ACCESSES,
    .takes = NA_TAKES_TABLE | NA_TAKES(WHERE) | NA_TAKES(INSTANCES) | NA_TAKES(WRAPPERS) |
             NA_TAKES(SOURCE_PATH),
    .tables = {{&objects_table, 0}},
    .show_files = show_objects,
};
