/* view_object.c - one object's flow: who touched it when, from where, reading or writing; where it
 * came from, and by which functions it was touched. */
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "profiler/dump/accesses/access_view.h"
#include "profiler/dump/profile/profile_json.h"
#include "profiler/dump/ui/text.h"
#include "profiler/format/reader/reader_access.h"

#define STEPS    64u
#define ROWS     24u    /* threads that are drawn, those with most accesses */
#define MOST_RAW 50000u /* accesses in JSON; of more every n-th */

typedef struct cell {
    uint32_t reads, writes, either, remote;
} cell_t;

typedef struct flow {
    na_flow_t of;   /* all */
    uint32_t *kept; /* those that count here */
    uint32_t count;
    uint64_t start, step;
    uint32_t *threads; /* with accesses, those with most first */
    uint32_t *of_thread;
    uint32_t thread_count;
} flow_t;

static int threads_by_samples(const void *a, const void *b, void *arg) {
    const uint32_t *counts = arg;
    uint32_t x = *(const uint32_t *)a, y = *(const uint32_t *)b;
    if (counts[x] != counts[y]) return counts[x] > counts[y] ? -1 : 1;
    return x < y ? -1 : x > y;
}

static bool gather_flow(const na_access_view_t *view, uint32_t object, flow_t *flow) {
    const na_flows_t *f = &view->flows;
    *flow = (flow_t){.of = na_flow_of_object(f, object)};
    flow->kept = calloc((size_t)flow->of.count + 1, sizeof *flow->kept);
    flow->threads = calloc((size_t)f->thread_count + 1, sizeof *flow->threads);
    flow->of_thread = calloc((size_t)f->thread_count + 1, sizeof *flow->of_thread);
    if (flow->kept == NULL || flow->threads == NULL || flow->of_thread == NULL) return false;
    for (uint32_t i = 0; i < flow->of.count; i++) {
        const na_touch_t *a = &f->items[flow->of.items[i]];
        if (!na_access_view_has(view, a)) continue;
        flow->kept[flow->count++] = flow->of.items[i];
        if (flow->of_thread[a->thread]++ == 0) flow->threads[flow->thread_count++] = a->thread;
    }
    qsort_r(flow->threads, flow->thread_count, sizeof *flow->threads, threads_by_samples,
            flow->of_thread);
    if (flow->count != 0) {
        flow->start = f->items[flow->kept[0]].ns;
        flow->step = (f->items[flow->kept[flow->count - 1]].ns - flow->start) / STEPS + 1;
    }
    return true;
}

static void free_flow(flow_t *flow) {
    free(flow->kept);
    free(flow->threads);
    free(flow->of_thread);
}

static void put_origin(const na_access_view_t *view, uint32_t object) {
    const na_flow_object_t *o = &view->flows.objects[object];
    char name[NA_LABEL], thread[NA_LABEL], node[NA_LABEL], a[NA_TEXT], b[NA_TEXT];
    na_access_object_label(view, object, name);
    printf("\n");
    na_text_put(stdout, name);
    printf("\n  kind        %s at 0x%" PRIx64 "\n", na_flow_kind_name(o->kind), o->base);
    if (o->thread != NA_FLOWS_NONE) {
        na_access_thread_label(view, o->thread, thread);
        printf(o->kind == NA_FLOW_STACK ? "  of thread   " : "  allocated   by ");
        na_text_put(stdout, thread);
        if (o->node >= 0) printf(" on node %s", na_access_node(view, o->node, node));
        putchar('\n');
    }
    printf("  lived       from %s to %s\n", na_text_ms(a, o->birth_ns / 1000000),
           o->end_ns == UINT64_MAX ? "the end" : na_text_ms(b, o->end_ns / 1000000));
    if (o->site != 0) {
        printf("  where\n");
        na_view_put_stack(&view->in[o->process], o->site);
    }
}

static void put_drawing(const na_access_view_t *view, const flow_t *flow) {
    const na_flows_t *f = &view->flows;
    char a[NA_TEXT], name[NA_LABEL];
    printf("\nAccesses by thread over time (%s a character). x: read, *: written, o: either; "
           "X, #, O: of another node's memory\n",
           na_text_ms(a, flow->step / 1000000));
    for (uint32_t t = 0; t < flow->thread_count && t < ROWS; t++) {
        cell_t cells[STEPS] = {{0}};
        for (uint32_t i = 0; i < flow->count; i++) {
            const na_touch_t *s = &f->items[flow->kept[i]];
            if (s->thread != flow->threads[t]) continue;
            cell_t *c = &cells[(s->ns - flow->start) / flow->step];
            if ((s->op & NA_NPROF_OP_WRITE) != 0)
                c->writes++;
            else if (s->op != NA_NPROF_OP_UNKNOWN)
                c->reads++;
            else
                c->either++;
            c->remote += na_touch_is_remote(s);
        }
        na_access_thread_label(view, flow->threads[t], name);
        printf("%7u |", flow->of_thread[flow->threads[t]]);
        for (size_t s = 0; s < STEPS; s++) {
            const cell_t *c = &cells[s];
            const char *letters = c->writes != 0   ? "*#"
                                  : c->reads != 0  ? "xX"
                                  : c->either != 0 ? "oO"
                                                   : "  ";
            putchar(letters[c->remote != 0]);
        }
        printf("| ");
        na_text_put(stdout, name);
        putchar('\n');
    }
    if (flow->thread_count > ROWS) printf("        (%u threads more)\n", flow->thread_count - ROWS);
}

typedef struct function {
    const char *name;
    na_touch_sum_t sum;
    const na_symbol_frame_t *by; /* that called it at one access */
    na_access_vote_t caller;
} function_t;

typedef struct functions {
    const na_access_view_t *view;
    function_t *items;
    size_t count;
} functions_t;

static int functions_by_name(const void *a, const void *b) {
    return strcmp(((const function_t *)a)->name, ((const function_t *)b)->name);
}

static int by_weight(const void *a, const void *b) {
    const function_t *x = a, *y = b;
    if (x->sum.weight != y->sum.weight) return x->sum.weight > y->sum.weight ? -1 : 1;
    return strcmp(x->name, y->name);
}

/* Functions that touch it, heaviest first; returns how many. NULL: out of memory. */
static function_t *flow_functions(const na_access_view_t *view, const flow_t *flow, size_t *count) {
    function_t *list = calloc((size_t)flow->count + 1, sizeof *list);
    *count = 0;
    if (list == NULL) return NULL;
    for (uint32_t i = 0; i < flow->count; i++) {
        const na_touch_t *a = &view->flows.items[flow->kept[i]];
        const na_symbol_frame_t *chain[NA_ACCESS_CHAIN];
        uint32_t depth = na_access_chain(view, a, chain);
        list[i].name = depth > 0 ? chain[0]->function : "?";
        list[i].by = depth > 1 ? chain[1] : NULL;
        na_touch_sum_add(&list[i].sum, &view->flows, a);
    }
    qsort(list, flow->count, sizeof *list, functions_by_name);
    for (uint32_t i = 0; i < flow->count; i++) {
        const na_symbol_frame_t *by = list[i].by;
        double weight = list[i].sum.weight;
        if (*count > 0 && strcmp(list[*count - 1].name, list[i].name) == 0) {
            na_touch_sum_merge(&list[*count - 1].sum, &list[i].sum);
        } else {
            list[(*count)++] = list[i];
        }
        na_access_vote(&list[*count - 1].caller, by, weight);
    }
    qsort(list, *count, sizeof *list, by_weight);
    return list;
}

enum { SHARE, FUNCTION_REMOTE, SAMPLES, WEIGHT, FUNCTION_WRITES, LATENCY, CALLER, FUNCTION };
static const na_column_t object_columns[] = {
    {"share", "share", NA_KIND_SHARE, NULL},
    {"remote", "remote", NA_KIND_SHARE, NULL},
    {"samples", "samples", NA_KIND_COUNT, "count"},
    {"weight", NULL, NA_KIND_NUMBER, "total"},
    {"writes", "writes", NA_KIND_SHARE, NULL},
    {"latency", "latency", NA_KIND_NUMBER, NULL},
    {"caller", "mostly called by", NA_KIND_TEXT, NULL},
    {"function", "function", NA_KIND_TEXT, NULL},
};
static const na_columns_t object_table = NA_COLUMNS(object_columns);

static void json_function(na_json_t *json, void *arg, uint64_t index) {
    const functions_t *functions = arg;
    na_json_object(json, NULL);
    na_json_string(json, "function", functions->items[index].name);
    const na_symbol_frame_t *caller = functions->items[index].caller.frame;
    na_json_key(json, "caller");
    if (caller != NULL)
        na_json_string(json, NULL, caller->function);
    else
        na_json_null(json, NULL);
    na_access_json_sum(json, "sum", functions->view, &functions->items[index].sum);
    na_json_end(json);
}

/* The functions that touch it; of JSON only the rows. */
static na_status_t put_flow_functions(na_json_t *json, const na_access_view_t *view,
                                      const flow_t *flow) {
    functions_t functions = {.view = view};
    functions.items = flow_functions(view, flow, &functions.count);
    na_table_t *table = na_table_open(&object_table);
    na_status_t status = NA_STATUS_MEMORY;
    double all = 0;
    for (size_t i = 0; i < functions.count; i++)
        all += functions.items[i].sum.weight;
    for (size_t i = 0; table != NULL && i < functions.count; i++) {
        const na_touch_sum_t *sum = &functions.items[i].sum;
        double latency = na_touch_ratio(sum->latency, sum->latency_weight);
        na_table_row(table, i);
        na_table_number(table, SHARE, na_touch_ratio(sum->weight, all));
        na_table_number(table, FUNCTION_REMOTE, na_touch_ratio(sum->remote, sum->known));
        na_table_number(table, SAMPLES, (double)sum->samples);
        na_table_number(table, WEIGHT, sum->weight);
        na_table_number(table, FUNCTION_WRITES, na_touch_ratio(sum->writes, sum->told));
        na_table_number(table, LATENCY, isnan(latency) ? latency : floor(latency + 0.5));
        const na_symbol_frame_t *caller = functions.items[i].caller.frame;
        if (caller != NULL) na_table_text(table, CALLER, caller->function);
        na_table_text(table, FUNCTION, functions.items[i].name);
    }
    if (functions.items != NULL && table != NULL) {
        const na_table_print_t print = {.view = "object",
                                        .title = "\nBy function (%s)",
                                        .json = json_function,
                                        .arg = &functions};
        status = view->options->table.format == NA_FORMAT_JSON
                     ? na_table_json_rows(json, "functions", table, view->options, &print)
                     : na_table_write(table, view->options, &print);
    }
    na_table_close(table);
    free(functions.items);
    return status;
}

/* Moves of the object's pages: the node of one page, before and after. */
static void put_moves(const na_access_view_t *view, const flow_t *flow) {
    const na_flows_t *f = &view->flows;
    uint64_t moves = 0;
    enum { PAGES = 4096 };
    static struct {
        uint64_t page;
        int16_t home;
    } last[PAGES];
    memset(last, 0, sizeof last);
    for (uint32_t i = 0; i < flow->count; i++) {
        const na_touch_t *a = &f->items[flow->kept[i]];
        if (a->home < 0) continue;
        uint64_t page = a->address >> 12;
        if (last[page % PAGES].page == page && last[page % PAGES].home != a->home) moves++;
        last[page % PAGES].page = page;
        last[page % PAGES].home = a->home;
    }
    if (moves != 0) printf("\nIts pages moved between nodes: seen %" PRIu64 " times.\n", moves);
}

static const na_verdict_t *object_verdict(const na_access_view_t *view, uint32_t object) {
    const na_verdict_t *found = NULL;
    for (uint32_t i = 0; i < view->verdicts.count; i++) {
        const na_verdict_t *v = &view->verdicts.items[i];
        if (v->object == object) return v;
        if (v->group == view->flows.objects[object].group && v->object == NA_FLOWS_NONE) found = v;
    }
    return found;
}

static na_status_t put_object_text(const na_access_view_t *view, uint32_t object,
                                   const flow_t *flow) {
    na_access_head(view);
    na_access_notes(view);
    put_origin(view, object);
    if (flow->count == 0) {
        printf("\nNo access to it was sampled.\n");
        return NA_STATUS_WHOLE;
    }
    const na_verdict_t *v = object_verdict(view, object);
    if (v != NULL)
        printf("  verdict     %s%s (numalloc-dump verdicts has the evidence)\n",
               na_verdict_texts[v->kind].title,
               v->object == NA_FLOWS_NONE ? ", of all objects of this origin" : "");
    put_drawing(view, flow);
    put_moves(view, flow);
    return put_flow_functions(NULL, view, flow);
}

static na_status_t put_object_json(na_json_t *json, const na_access_view_t *view, uint32_t object,
                                   const flow_t *flow) {
    const na_flows_t *f = &view->flows;
    const na_flow_object_t *o = &f->objects[object];
    char name[NA_LABEL];
    na_access_object_label(view, object, name);
    na_access_json_head(json, view, "object");
    na_json_object(json, "object");
    na_json_u64(json, "id", object);
    na_json_string(json, "name", name);
    na_json_string(json, "kind", na_flow_kind_name(o->kind));
    na_json_u64(json, "base", o->base);
    na_json_u64(json, "size", o->size);
    na_json_u64(json, "birth_ns", o->birth_ns);
    na_json_number(json, "end_ns", o->end_ns == UINT64_MAX ? (double)NAN : (double)o->end_ns);
    na_json_u64(json, "process", o->process);
    na_json_number(json, "thread", o->thread == NA_FLOWS_NONE ? (double)NAN : (double)o->thread);
    na_json_number(json, "node", o->node < 0 ? (double)NAN : (double)f->nodes[o->node].kernel_id);
    if (o->site != 0) na_json_stack(json, &view->in[o->process], o->site);
    na_json_end(json);
    na_json_key(json, "verdict");
    const na_verdict_t *v = object_verdict(view, object);
    if (v == NULL)
        na_json_null(json, NULL);
    else
        na_access_json_verdict(json, NULL, view, v);
    na_status_t status = put_flow_functions(json, view, flow);
    if (status != NA_STATUS_WHOLE) return status;
    uint32_t every = flow->count / MOST_RAW + 1;
    na_json_u64(json, "accesses", flow->count);
    na_json_u64(json, "every", every);
    NA_JSON_STRINGS(json, "columns", "ns", "offset", "thread", "from", "home", "op", "latency");
    na_json_array(json, "flow");
    for (uint32_t i = 0; i < flow->count; i += every) {
        const na_touch_t *a = &f->items[flow->kept[i]];
        na_json_line(json);
        na_json_array(json, NULL);
        na_json_u64(json, NULL, a->ns);
        na_json_u64(json, NULL, a->address - o->base);
        na_json_u64(json, NULL, a->thread);
        na_json_i64(json, NULL, a->from < 0 ? -1 : (int)f->nodes[a->from].kernel_id);
        na_json_i64(json, NULL, a->home < 0 ? -1 : (int)f->nodes[a->home].kernel_id);
        na_json_u64(json, NULL, a->op);
        na_json_i64(json, NULL, a->latency);
        na_json_end(json);
    }
    na_json_end(json);
    na_json_end(json);
    return NA_STATUS_WHOLE;
}

static na_status_t show_object(const char *const *files, size_t count,
                               const na_options_t *options) {
    char *end;
    unsigned long number = strtoul(files[0], &end, 10);
    if (files[0][0] < '0' || files[0][0] > '9' || *end != 0)
        return na_fail("'object' takes the id of an object, as 'objects' lists them, not: %s",
                       files[0]);
    na_access_view_t view;
    na_status_t status = na_access_view_open(&view, files + 1, count - 1, options);
    if (status != NA_STATUS_WHOLE) return status;
    if (number >= view.flows.object_count) {
        status = na_fail("%s: there is no object %s; ids go to %u, see numalloc-dump objects",
                         files[1], files[0], view.flows.object_count - 1);
        return na_access_view_close(&view, status);
    }
    flow_t flow;
    na_json_t json = na_json_open(stdout);
    if (!gather_flow(&view, (uint32_t)number, &flow))
        status = NA_STATUS_MEMORY;
    else if (options->table.format == NA_FORMAT_JSON)
        status = put_object_json(&json, &view, (uint32_t)number, &flow);
    else if (options->table.format == NA_FORMAT_CSV)
        status = put_flow_functions(NULL, &view, &flow);
    else
        status = put_object_text(&view, (uint32_t)number, &flow);
    free_flow(&flow);
    return na_access_view_close(&view, status);
}

const na_view_t na_view_row_object = {
    .name = "object",
    .words = "ID FILE...",
    .help = "accesses to one object over time, by thread and function",
    .more = "ID: as 'objects' has it. --sort, --filter, --top and --csv are about the functions.",
    .modes = NA_IN_ALL,
    .flags = NA_VIEW_ACCESSES,
    .takes = NA_TAKES_TABLE | NA_TAKES(WHERE) | NA_TAKES(WRAPPERS) | NA_TAKES(SOURCE_PATH),
    .tables = {{&object_table, 0}},
    .show_files = show_object,
};
