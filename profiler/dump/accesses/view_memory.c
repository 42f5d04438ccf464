/* view_memory.c - all accesses at a glance: which node goes to which, how loaded the nodes are over
 * time, what answered, what kinds of objects it was for. */
#include <math.h>
#include <stdio.h>

#include "profiler/dump/accesses/access_totals.h"
#include "profiler/dump/ui/text.h"

static void put_node_matrix(const na_access_view_t *view, const na_access_totals_t *all) {
    const na_flows_t *f = &view->flows;
    printf("\nFrom node (rows) to the memory of node: share of accesses%s\n%6s",
           all->sum.latency_weight > 0 ? ", mean latency in cycles" : "", "");
    for (uint32_t h = 0; h < f->node_count; h++)
        printf("  %*u", all->sum.latency_weight > 0 ? 14 : 7, f->nodes[h].kernel_id);
    putchar('\n');
    for (uint32_t from = 0; from < f->node_count; from++) {
        printf("%6u", f->nodes[from].kernel_id);
        for (uint32_t h = 0; h < f->node_count; h++) {
            const na_touch_sum_t *p = &all->pair[(size_t)from * f->node_count + h];
            printf("  %5.1f %%", 100 * na_touch_ratio(p->weight, all->sum.known));
            double latency = na_touch_ratio(p->latency, p->latency_weight);
            if (all->sum.latency_weight > 0) {
                if (isnan(latency))
                    printf(" %6s", "-");
                else
                    printf(" %6.0f", latency);
            }
        }
        putchar('\n');
    }
}

/* Darkness by share of the busiest step. */
static void put_load(const na_access_view_t *view, const na_access_totals_t *all) {
    static const char dark[] = " .:-=+*#%@";
    const na_flows_t *f = &view->flows;
    double most = 0;
    for (size_t i = 0; i < (size_t)f->node_count * NA_ACCESS_STEPS; i++)
        if (all->step[i] > most) most = all->step[i];
    if (!(most > 0)) return;
    char a[NA_TEXT];
    printf("\nLoad of each node's memory over time (%s a character; @: most)\n",
           na_text_ms(a, all->step_ns / 1000000));
    for (uint32_t h = 0; h < f->node_count; h++) {
        printf("%6u |", f->nodes[h].kernel_id);
        for (size_t s = 0; s < NA_ACCESS_STEPS; s++) {
            double share = all->step[(size_t)h * NA_ACCESS_STEPS + s] / most;
            putchar(dark[share > 0 ? 1 + (size_t)(share * 8.999) : 0]);
        }
        printf("| %.1f %%", 100 * view->verdicts.nodes[h].share);
        if (!isnan(view->verdicts.nodes[h].latency))
            printf(", %.0f cycles", view->verdicts.nodes[h].latency);
        printf("%s\n", view->verdicts.nodes[h].saturated ? ", saturated" : "");
    }
    printf("remote |");
    for (size_t s = 0; s < NA_ACCESS_STEPS; s++) {
        double share = na_touch_ratio(all->step_remote[s], all->step_all[s]);
        putchar(isnan(share) ? ' ' : share <= 0 ? '0' : (char)('0' + (int)(share * 9.999)));
    }
    printf("| tenths\n");
}

static void put_lists(const na_access_view_t *view, const na_access_totals_t *all) {
    if ((view->verdicts.evidence & NA_EVIDENCE_LEVEL) != 0) {
        printf("\nWhat answered (all samples)\n");
        for (uint32_t l = 0; l < NA_NPROF_LEVELS; l++)
            if (all->level[l] > 0)
                printf("  %6.1f %%  %s\n", 100 * all->level[l] / all->levels,
                       na_access_level_name(l));
    }
    printf("\nObjects by kind\n   share   remote  %% of all remote  kind\n");
    for (int k = 0; k < NA_FLOW_KINDS; k++) {
        const na_touch_sum_t *s = &all->kind[k];
        if (s->samples == 0) continue;
        printf("%6.1f %% %6.1f %%         %6.1f %%  %s\n",
               100 * na_touch_ratio(s->weight, all->sum.weight),
               100 * na_touch_ratio(s->remote, s->known),
               100 * na_touch_ratio(s->remote, all->sum.remote),
               na_flow_kind_name((na_flow_kind_t)k));
    }
    if (all->sum.told > 0)
        printf("\nWrites: %.1f %%\n", 100 * na_touch_ratio(all->sum.writes, all->sum.told));
}

/* ---- as a table: nodes by nodes, kinds of objects, what answered, steps of time ---- */

enum { PART, NAME, SHARE, REMOTE, SAMPLES, WEIGHT, REMOTE_WEIGHT, WRITES, LATENCY, FROM, HOME, MS };
static const na_column_t memory_columns[] = {
    {"part", "part", NA_KIND_TEXT, NULL}, /* "nodes", "kind", "answer", "time" */
    {"name", "name", NA_KIND_TEXT, NULL},
    {"share", "share", NA_KIND_SHARE, NULL}, /* of the part's accesses */
    {"remote", "remote", NA_KIND_SHARE, NULL},
    {"samples", "samples", NA_KIND_COUNT, "count"},
    {"weight", NULL, NA_KIND_NUMBER, "total"},
    {"remote_weight", NULL, NA_KIND_NUMBER, NULL},
    {"writes", "writes", NA_KIND_SHARE, NULL},
    {"latency", "latency", NA_KIND_NUMBER, NULL},
    {"from", NULL, NA_KIND_NUMBER, NULL},
    {"home", NULL, NA_KIND_NUMBER, NULL},
    {"ms", NULL, NA_KIND_NUMBER, NULL},
};
static const na_columns_t memory_table = NA_COLUMNS(memory_columns);

static void fill_sum(na_table_t *table, const na_touch_sum_t *s, double all) {
    double latency = na_touch_ratio(s->latency, s->latency_weight);
    na_table_number(table, SHARE, na_touch_ratio(s->weight, all));
    na_table_number(table, REMOTE, na_touch_ratio(s->remote, s->known));
    na_table_number(table, SAMPLES, (double)s->samples);
    na_table_number(table, WEIGHT, s->weight);
    na_table_number(table, REMOTE_WEIGHT, s->remote);
    na_table_number(table, WRITES, na_touch_ratio(s->writes, s->told));
    na_table_number(table, LATENCY, isnan(latency) ? latency : floor(latency + 0.5));
}

static void begin_row(na_table_t *table, const char *part) {
    na_table_row(table, na_table_rows(table));
    na_table_text(table, PART, part);
}

static void fill_table(na_table_t *table, const na_access_view_t *view,
                       const na_access_totals_t *all) {
    const na_flows_t *f = &view->flows;
    for (uint32_t from = 0; from < f->node_count; from++)
        for (uint32_t home = 0; home < f->node_count; home++) {
            begin_row(table, "nodes");
            na_table_format(table, NAME, "%u to %u", f->nodes[from].kernel_id,
                            f->nodes[home].kernel_id);
            fill_sum(table, &all->pair[(size_t)from * f->node_count + home], all->sum.known);
            na_table_number(table, FROM, f->nodes[from].kernel_id);
            na_table_number(table, HOME, f->nodes[home].kernel_id);
        }
    for (int k = 0; k < NA_FLOW_KINDS; k++) {
        if (all->kind[k].samples == 0) continue;
        begin_row(table, "kind");
        na_table_text(table, NAME, na_flow_kind_name((na_flow_kind_t)k));
        fill_sum(table, &all->kind[k], all->sum.weight);
    }
    for (uint32_t l = 0; l < NA_NPROF_LEVELS; l++) {
        if (!(all->level[l] > 0)) continue;
        begin_row(table, "answer");
        na_table_text(table, NAME, na_access_level_name(l));
        na_table_number(table, SHARE, all->level[l] / all->levels);
        na_table_number(table, WEIGHT, all->level[l]);
    }
    for (size_t s = 0; s < NA_ACCESS_STEPS; s++) {
        char from[NA_TEXT];
        double ms = (double)s * (double)all->step_ns / 1e6;
        begin_row(table, "time");
        na_table_format(table, NAME, "from %s", na_text_ms(from, (uint64_t)ms));
        na_table_number(table, SHARE, na_touch_ratio(all->step_all[s], all->sum.weight));
        na_table_number(table, REMOTE, na_touch_ratio(all->step_remote[s], all->step_all[s]));
        na_table_number(table, WEIGHT, all->step_all[s]);
        na_table_number(table, REMOTE_WEIGHT, all->step_remote[s]);
        na_table_number(table, MS, ms);
    }
}

static na_status_t put_memory_json(na_json_t *json, const na_access_view_t *view,
                                   const na_access_totals_t *all, na_table_t *table,
                                   const na_table_print_t *print) {
    const na_flows_t *f = &view->flows;
    na_access_json_head(json, view, "memory");
    na_access_json_sum(json, "all", view, &all->sum);
    na_json_array(json, "matrix");
    for (uint32_t from = 0; from < f->node_count; from++) {
        na_json_array(json, NULL);
        for (uint32_t h = 0; h < f->node_count; h++)
            na_access_json_sum(json, NULL, view, &all->pair[(size_t)from * f->node_count + h]);
        na_json_end(json);
    }
    na_json_end(json);
    na_json_u64(json, "step_ns", all->step_ns);
    na_json_array(json, "load");
    for (uint32_t h = 0; h < f->node_count; h++) {
        na_json_array(json, NULL);
        for (size_t s = 0; s < NA_ACCESS_STEPS; s++)
            na_json_number(json, NULL, all->step[(size_t)h * NA_ACCESS_STEPS + s]);
        na_json_end(json);
    }
    na_json_end(json);
    na_json_array(json, "remote_over_time");
    for (size_t s = 0; s < NA_ACCESS_STEPS; s++)
        na_json_number(json, NULL, na_touch_ratio(all->step_remote[s], all->step_all[s]));
    na_json_end(json);
    na_json_object(json, "levels");
    for (uint32_t l = 0; l < NA_NPROF_LEVELS; l++) {
        if (!(all->level[l] > 0)) continue;
        na_json_number(json, na_access_level_name(l), all->level[l]);
    }
    na_json_end(json);
    na_json_array(json, "kinds");
    for (int k = 0; k < NA_FLOW_KINDS; k++) {
        if (all->kind[k].samples == 0) continue;
        na_json_object(json, NULL);
        na_json_string(json, "kind", na_flow_kind_name((na_flow_kind_t)k));
        na_access_json_sum(json, "sum", view, &all->kind[k]);
        na_json_end(json);
    }
    na_json_end(json);
    na_status_t status = na_table_json_rows(json, "rows", table, view->options, print);
    na_json_end(json);
    return status;
}

static na_status_t show_memory_view(const na_access_view_t *view, const na_access_totals_t *all) {
    const na_options_t *options = view->options;
    if (options->table.format == NA_FORMAT_TEXT) {
        na_access_head(view);
        na_access_notes(view);
        if (!na_table_wanted(options)) {
            put_node_matrix(view, all);
            put_load(view, all);
            put_lists(view, all);
            return NA_STATUS_WHOLE;
        }
    }
    na_json_t json = na_json_open(stdout);
    na_table_t *table = na_table_open(&memory_table);
    if (table == NULL) return NA_STATUS_MEMORY;
    fill_table(table, view, all);
    const na_table_print_t print = {.view = "memory", .title = "\nAccesses (%s)", .all = true};
    na_status_t status = options->table.format == NA_FORMAT_JSON
                             ? put_memory_json(&json, view, all, table, &print)
                             : na_table_write(table, options, &print);
    na_table_close(table);
    return status;
}

static na_status_t show_memory(const char *const *files, size_t count,
                               const na_options_t *options) {
    na_access_view_t view;
    na_status_t status = na_access_view_open(&view, files, count, options);
    if (status != NA_STATUS_WHOLE) return status;
    na_access_totals_t all;
    status = na_access_totals_make(&view, &all) ? show_memory_view(&view, &all) : NA_STATUS_MEMORY;
    na_access_totals_free(&all);
    return na_access_view_close(&view, status);
}

const na_view_t na_view_row_memory = {
    .name = "memory",
    .words = "FILE...",
    .help = "accesses: from which node to which, over time, by kind of object",
    .more = "Several files: the processes of one application. --csv writes a row for each pair of "
            "nodes,\n"
            "each kind of object, what answered, and each step of time; so does text with --sort, "
            "--filter\n"
            "or --top, which hold for these rows (\"rows\" of --json).",
    .modes = NA_IN_ALL,
    .flags = NA_VIEW_ACCESSES,
    .takes = NA_TAKES_TABLE | NA_TAKES(WHERE) | NA_TAKES(WRAPPERS),
    .tables = {{&memory_table, 0}},
    .show_files = show_memory,
};
