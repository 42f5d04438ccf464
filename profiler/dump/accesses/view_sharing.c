/* view_sharing.c - which threads share which objects, and which groups of threads that makes. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#include "profiler/dump/accesses/access_view.h"
#include "profiler/dump/ui/text.h"

typedef struct shared {
    na_touch_sum_t sum;
    double *by_thread;
    uint32_t threads, nodes;
    double most; /* weight of the thread with most */
} shared_t;

static void gather_shared(const na_access_view_t *view, uint32_t object, shared_t *s) {
    const na_flows_t *f = &view->flows;
    bool seen[NA_FLOWS_NODES] = {false};
    double *by_thread = s->by_thread;
    *s = (shared_t){.by_thread = by_thread};
    na_flow_t flow = na_flow_of_object(f, object);
    for (uint32_t i = 0; i < flow.count; i++)
        by_thread[f->items[flow.items[i]].thread] = 0;
    for (uint32_t i = 0; i < flow.count; i++) {
        const na_touch_t *a = &f->items[flow.items[i]];
        if (!na_access_view_has(view, a)) continue;
        na_touch_sum_add(&s->sum, f, a);
        if (by_thread[a->thread] == 0) s->threads++;
        by_thread[a->thread] += a->weight;
        if (by_thread[a->thread] > s->most) s->most = by_thread[a->thread];
        if (a->from >= 0 && !seen[a->from]) s->nodes++;
        if (a->from >= 0) seen[a->from] = true;
    }
}

static int by_group(const void *a, const void *b, void *arg) {
    const uint32_t *of = arg;
    uint32_t x = *(const uint32_t *)a, y = *(const uint32_t *)b;
    if (of[x] != of[y]) return of[x] < of[y] ? -1 : 1;
    return x < y ? -1 : x > y;
}

static void put_groups(const na_access_view_t *view) {
    const na_clusters_t *c = &view->verdicts.clusters;
    const na_flows_t *f = &view->flows;
    if (c->useful == 0) {
        printf("\nNo groups of threads share objects.\n");
        return;
    }
    printf("\nGroups of threads that share objects (modularity %.2f%s)\n", c->modularity,
           c->apart ? "" : ": they are not clearly apart");
    uint32_t *order = calloc((size_t)f->thread_count + 1, sizeof *order);
    if (order == NULL) return;
    for (uint32_t t = 0; t < f->thread_count; t++)
        order[t] = t;
    qsort_r(order, f->thread_count, sizeof *order, by_group, c->of);
    for (uint32_t i = 0, shown = NA_FLOWS_NONE; i < f->thread_count; i++) {
        uint32_t group = c->of[order[i]];
        if (group == NA_FLOWS_NONE) continue;
        char name[NA_LABEL];
        na_access_thread_label(view, order[i], name);
        if (group != shown) {
            double nodes[NA_FLOWS_NODES] = {0};
            for (uint32_t j = i; j < f->thread_count && c->of[order[j]] == group; j++) {
                na_flow_t flow = na_flow_of_thread(f, order[j]);
                for (uint32_t k = 0; k < flow.count; k++)
                    if (f->items[flow.items[k]].from >= 0)
                        nodes[f->items[flow.items[k]].from] += f->items[flow.items[k]].weight;
            }
            printf("%s  %u on nodes", i == 0 ? "" : "\n", group + 1);
            for (uint32_t n = 0; n < f->node_count; n++)
                if (nodes[n] > 0) printf(" %u", f->nodes[n].kernel_id);
            printf(":");
            shown = group;
        } else {
            putchar(',');
        }
        putchar(' ');
        na_text_put(stdout, name);
    }
    putchar('\n');
    free(order);
}

static const na_column_t sharing_columns[] = {
    {"share", "of all", NA_KIND_SHARE, NULL},
    {"remote", "remote", NA_KIND_SHARE, NULL},
    {"samples", "samples", NA_KIND_COUNT, "count"},
    {"writes", "writes", NA_KIND_SHARE, NULL},
    {"threads", "threads", NA_KIND_COUNT, NULL},
    {"nodes", "nodes", NA_KIND_COUNT, NULL},
    {"others", "not by first", NA_KIND_SHARE, NULL},
    {"object", "id", NA_KIND_NUMBER, NULL},
    {"kind", "kind", NA_KIND_TEXT, NULL},
    {"name", "object", NA_KIND_TEXT, NULL},
};
static const na_columns_t sharing_table = NA_COLUMNS(sharing_columns);

static na_status_t put_sharing_table(const na_access_view_t *view, shared_t *s) {
    enum { SHARE, REMOTE, SAMPLES, WRITES, THREADS, NODES, OTHERS, NUMBER, KIND, LABEL };
    const na_flows_t *f = &view->flows;
    na_table_t *table = na_table_open(&sharing_table);
    if (table == NULL) return NA_STATUS_MEMORY;
    for (uint32_t o = 0; o < f->object_count; o++) {
        if (f->objects[o].samples < 2) continue;
        gather_shared(view, o, s);
        if (s->threads < 2) continue;
        char name[NA_LABEL];
        na_access_group_label(view, f->objects[o].group, name);
        na_table_row(table, o);
        na_table_number(table, SHARE, na_touch_ratio(s->sum.weight, view->verdicts.weight));
        na_table_number(table, REMOTE, na_touch_ratio(s->sum.remote, s->sum.known));
        na_table_number(table, SAMPLES, (double)s->sum.samples);
        na_table_number(table, WRITES, na_touch_ratio(s->sum.writes, s->sum.told));
        na_table_number(table, THREADS, s->threads);
        na_table_number(table, NODES, s->nodes);
        na_table_number(table, OTHERS, 1 - na_touch_ratio(s->most, s->sum.weight));
        na_table_number(table, NUMBER, o);
        na_table_text(table, KIND, na_flow_kind_name(f->objects[o].kind));
        na_table_text(table, LABEL, name);
    }
    const na_table_print_t print = {
        .view = "sharing",
        .title = "\nObjects that threads share (%s); \"not by first\": accesses by others than the "
                 "thread with most",
        .sort = "share"};
    na_status_t status = na_table_write(table, view->options, &print);
    na_table_close(table);
    return status;
}

/* The graph: objects with the weight of each of their threads, and the groups. */
static void put_sharing_json(na_json_t *json, const na_access_view_t *view, shared_t *s) {
    const na_flows_t *f = &view->flows;
    const na_clusters_t *c = &view->verdicts.clusters;
    na_access_json_head(json, view, "sharing");
    na_json_number(json, "modularity", c->modularity);
    na_json_bool(json, "apart", c->apart);
    na_json_u64(json, "group_count", c->useful);
    na_json_array(json, "group_of_thread");
    for (uint32_t t = 0; t < f->thread_count; t++)
        na_json_number(json, NULL, c->of[t] == NA_FLOWS_NONE ? (double)NAN : (double)c->of[t] + 1);
    na_json_end(json);
    na_json_array(json, "rows");
    size_t shown = 0;
    for (uint32_t o = 0; o < f->object_count && shown < view->options->table.top; o++) {
        if (f->objects[o].samples < 2) continue;
        gather_shared(view, o, s);
        if (s->threads < 2) continue;
        char name[NA_LABEL];
        na_access_group_label(view, f->objects[o].group, name);
        if (!na_filter_matches(view->options, name)) continue;
        shown++;
        na_json_line(json);
        na_json_object(json, NULL);
        na_json_u64(json, "object", o);
        na_json_string(json, "name", name);
        na_access_json_sum(json, "sum", view, &s->sum);
        na_json_array(json, "by_thread");
        for (uint32_t t = 0; t < f->thread_count; t++) {
            na_flow_t flow = na_flow_of_thread(f, t);
            bool touched = false;
            if (s->by_thread[t] > 0)
                for (uint32_t i = 0; i < flow.count && !touched; i++)
                    touched = f->items[flow.items[i]].object == o;
            if (!touched) continue;
            na_json_array(json, NULL);
            na_json_u64(json, NULL, t);
            na_json_number(json, NULL, s->by_thread[t]);
            na_json_end(json);
        }
        na_json_end(json);
        na_json_end(json);
    }
    na_json_end(json);
    na_json_end(json);
}

static na_status_t show_sharing(const char *const *files, size_t count,
                                const na_options_t *options) {
    na_access_view_t view;
    na_status_t status = na_access_view_open(&view, files, count, options);
    if (status != NA_STATUS_WHOLE) return status;
    shared_t s = {.by_thread = calloc((size_t)view.flows.thread_count + 1, sizeof(double))};
    if (s.by_thread == NULL) {
        status = NA_STATUS_MEMORY;
    } else if (options->table.format == NA_FORMAT_JSON) {
        na_json_t json = na_json_open(stdout);
        put_sharing_json(&json, &view, &s);
    } else {
        if (options->table.format == NA_FORMAT_TEXT) {
            na_access_head(&view);
            na_access_notes(&view);
            put_groups(&view);
        }
        status = put_sharing_table(&view, &s);
    }
    free(s.by_thread);
    return na_access_view_close(&view, status);
}

const na_view_t na_view_row_sharing = {
    .name = "sharing",
    .words = "FILE...",
    .help = "objects that threads share, and the groups of threads that they make",
    .modes = NA_IN_ALL,
    .flags = NA_VIEW_ACCESSES,
    .takes = NA_TAKES_TABLE | NA_TAKES(WHERE) | NA_TAKES(WRAPPERS) | NA_TAKES(SOURCE_PATH),
    .tables = {{&sharing_table, 0}},
    .show_files = show_sharing,
};
