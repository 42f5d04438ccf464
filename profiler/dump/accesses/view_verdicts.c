/* view_verdicts.c - what is wrong with the placement of memory, with the evidence, the nearest
 * other explanations, and what to change. */
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "profiler/dump/accesses/access_view.h"
#include "profiler/dump/ui/text.h"

/* ---- text ---- */

static void put_condition_value(const na_condition_t *c) {
    const na_threshold_row_t *row = &na_thresholds[c->limit];
    if (strcmp(row->unit, "share") == 0)
        printf("%.1f %%", 100 * c->value);
    else if (row->value >= 3)
        printf("%.0f", c->value);
    else
        printf("%.2f", c->value);
}

static void put_limit(const na_condition_t *c) {
    const na_threshold_row_t *row = &na_thresholds[c->limit];
    if (strcmp(row->unit, "share") == 0)
        printf("%s %.0f %%", c->at_least ? "at least" : "below", 100 * row->value);
    else
        printf("%s %.4g", c->at_least ? "at least" : "below", row->value);
}

static void put_verdict_rule(const na_rule_t *rule, const char *indent) {
    for (uint32_t i = 0; i < rule->count; i++) {
        const na_condition_t *c = &rule->conditions[i];
        printf("%s%s ", indent, !c->known ? "?" : c->met ? "+" : "-");
        if (c->known)
            put_condition_value(c);
        else
            printf("not known:");
        printf(" %s (", c->what);
        put_limit(c);
        printf(")\n");
    }
    for (unsigned bit = 0; bit < NA_EVIDENCE_BITS; bit++)
        if ((rule->lacks >> bit & 1) != 0)
            printf("%s? the source does not give: %s\n", indent, na_evidence_names[bit]);
}

static void put_node_shares(const na_access_view_t *view, const char *title,
                            const double *weights) {
    double all = 0;
    for (uint32_t n = 0; n < view->flows.node_count; n++)
        all += weights[n];
    if (!(all > 0)) return;
    printf("%s", title);
    for (uint32_t n = 0; n < view->flows.node_count; n++)
        if (weights[n] > 0)
            printf(" %u: %.0f %%", view->flows.nodes[n].kernel_id, 100 * weights[n] / all);
}

#define MOST_PARTS 16u

static void put_parts(const na_access_view_t *view, uint32_t object) {
    na_verdict_part_t parts[MOST_PARTS];
    char from[NA_TEXT], to[NA_TEXT], node[NA_LABEL], at[NA_LABEL];
    uint32_t count = na_measure_parts(&view->flows, &view->verdicts, object, parts, MOST_PARTS);
    if (count == UINT32_MAX) return;
    for (uint32_t i = 0; i < count && i < MOST_PARTS; i++)
        printf("%s%s to %s: %.0f %% from node %s, lies on %s\n",
               i == 0 ? "  parts       " : "              ",
               na_text_bytes(from, (double)parts[i].from), na_text_bytes(to, (double)parts[i].to),
               100 * parts[i].own / parts[i].weight, na_access_node(view, parts[i].node, node),
               na_access_node(view, parts[i].at, at));
    if (count > MOST_PARTS) printf("              and %u parts more\n", count - MOST_PARTS);
}

static void put_verdict_facts(const na_access_view_t *view, const na_verdict_t *v) {
    const na_measure_t *m = &v->measure;
    char thread[NA_LABEL], a[NA_TEXT], b[NA_TEXT];
    printf("  samples     %s on %s object%s by %u thread%s", na_text_count(a, m->samples),
           na_text_count(b, m->instances), m->instances == 1 ? "" : "s", m->threads,
           m->threads == 1 ? "" : "s");
    if (m->independent < 0.9 * m->samples) printf(", worth %.0f independent ones", m->independent);
    na_access_thread_label(view, m->reader, thread);
    printf("; most by ");
    na_text_put(stdout, thread);
    put_node_shares(view, "\n  nodes       from", m->from);
    put_node_shares(view, "; lies on", m->home);
    putchar('\n');
    if (v->kind == NA_VERDICT_PARTITION && v->object != NA_FLOWS_NONE) put_parts(view, v->object);
    if (m->handoff_ns != 0)
        printf("  hand-off    %s after it was allocated, on average\n",
               na_text_ms(a, m->handoff_ns / 1000000));
    if (!isnan(m->switch_ns) && m->switches != 0)
        printf("  turns       %" PRIu64
               " times another thread than before, a turn is %.3f ms long%s\n",
               m->switches, m->switch_ns / 1e6,
               na_measure_turns_are_seen(m)
                   ? ""
                   : "; looked at too seldom to tell: they may be much shorter");
    if (!isnan(m->stores))
        printf("  writes      %.1f %% after the hand-off%s\n", 100 * m->stores,
               m->last_store_ns == 0 ? "; none was sampled at all" : "");
    if (!isnan(m->latency)) printf("  latency     %.0f cycles on average\n", m->latency);
}

static void put_one(void *arg, uint64_t index, size_t number) {
    const na_access_view_t *view = arg;
    const na_verdict_t *v = &view->verdicts.items[index];
    char name[NA_LABEL], cost[NA_LABEL];
    na_verdict_advice_t advice;
    na_access_verdict_label(view, v, name);
    na_access_cost_text(view, v, cost);
    na_verdict_advice(view, v, &advice);
    printf("\n%zu. %s: ", number, na_verdict_texts[v->kind].title);
    na_text_put(stdout, name);
    printf("\n  %s; %s", na_verdict_means(view, v), cost);
    if (v->kind != NA_VERDICT_UNDECIDABLE)
        printf("; confidence %s (%.0f %%)", na_access_confidence(v->chance),
               floor(100 * v->chance));
    putchar('\n');
    if (advice.reason[0] != 0) printf("  reason      %s\n", advice.reason);
    if (v->kind == NA_VERDICT_FALSE_SHARING) na_verdict_put_line(view, v);
    if (v->measure.samples != 0) put_verdict_facts(view, v);
    if (v->kind != NA_VERDICT_UNDECIDABLE) {
        printf("  evidence\n");
        put_verdict_rule(&v->rules[v->kind], "    ");
    }
    const struct {
        const char *title, *text;
    } lines[] = {{"cause", advice.cause},
                 {"in the code", advice.code},
                 {"by command", advice.command},
                 {"placement", advice.placement},
                 {"expected", advice.expected}};
    for (size_t i = 0; i < sizeof lines / sizeof lines[0]; i++) {
        if (lines[i].text[0] == 0) continue;
        printf("  %-12s", lines[i].title);
        na_text_put(stdout, lines[i].text);
        putchar('\n');
    }
    if (v->kind == NA_VERDICT_NOTHING) return;
    for (int r = 0; r < 2; r++) {
        if (v->runners[r] == NA_VERDICT_UNDECIDABLE) continue;
        printf("  or          %s\n", na_verdict_texts[v->runners[r]].title);
        put_verdict_rule(&v->rules[v->runners[r]], "    ");
    }
}

/* ---- JSON ---- */

static void json_rule(na_json_t *json, const na_rule_t *rule, na_verdict_kind_t kind) {
    na_json_object(json, NULL);
    na_json_string(json, "rule", na_verdict_texts[kind].key);
    na_json_bool(json, "holds", rule->holds);
    na_json_number(json, "fit", rule->fit);
    na_json_array(json, "lacks");
    for (unsigned bit = 0; bit < NA_EVIDENCE_BITS; bit++) {
        if ((rule->lacks >> bit & 1) != 0) na_json_string(json, NULL, na_evidence_names[bit]);
    }
    na_json_end(json);
    na_json_array(json, "conditions");
    for (uint32_t i = 0; i < rule->count; i++) {
        const na_condition_t *c = &rule->conditions[i];
        na_json_object(json, NULL);
        na_json_string(json, "what", c->what);
        na_json_string(json, "threshold", na_thresholds[c->limit].key);
        na_json_number(json, "limit", na_thresholds[c->limit].value);
        na_json_bool(json, "at_least", c->at_least);
        na_json_number(json, "value", c->known ? c->value : (double)NAN);
        if (c->known)
            na_json_bool(json, "met", c->met);
        else
            na_json_null(json, "met");
        na_json_number(json, "chance", c->known ? c->chance : (double)NAN);
        na_json_end(json);
    }
    na_json_end(json);
    na_json_end(json);
}

static void json_measure(na_json_t *json, const na_access_view_t *view, const na_measure_t *m) {
    const struct {
        const char *name;
        double value;
    } members[] = {
        {"samples", m->samples},
        {"independent", m->independent},
        {"objects", m->instances},
        {"sparse", m->sparse},
        {"threads", m->threads},
        {"known", m->known},
        {"remote", m->remote},
        {"own", m->own},
        {"moved", m->moved},
        {"policy", m->policy},
        {"one_node", m->one_node},
        {"settled", m->settled},
        {"allocator", m->allocator},
        {"second", m->second},
        {"windows", m->windows},
        {"pure", m->pure},
        {"stores", m->stores},
        {"switches", (double)m->switches},
        {"switch_ns", m->switch_ns},
        {"handoff_ns", m->handoff_ns == 0 ? (double)NAN : (double)m->handoff_ns},
        {"last_store_ns", m->last_store_ns == 0 ? (double)NAN : (double)m->last_store_ns},
        {"lines", m->lines},
        {"line_own", m->line_own},
        {"word_own", m->word_own},
        {"word_unwritten", m->word_unwritten},
        {"in_cluster", m->in_cluster},
        {"parted", m->parted},
        {"misplaced", m->misplaced},
        {"spread", m->spread},
        {"latency", m->latency},
        {"reader", m->reader == NA_FLOWS_NONE ? (double)NAN : (double)m->reader},
    };
    na_json_object(json, "measure");
    for (size_t i = 0; i < sizeof members / sizeof members[0]; i++)
        na_json_number(json, members[i].name, members[i].value);
    na_json_bool(json, "turns_seen", na_measure_turns_are_seen(m));
    na_access_json_nodes(json, view, "from", m->from);
    na_access_json_nodes(json, view, "home", m->home);
    na_json_end(json);
}

/* Of a partition the ranges, of a cluster the groups of threads. */
static void json_parts(na_json_t *json, const na_access_view_t *view, const na_verdict_t *v) {
    enum { MOST = 1024 };
    if (v->object == NA_FLOWS_NONE) return;
    na_verdict_part_t *parts = calloc(MOST, sizeof *parts);
    if (parts == NULL) return;
    uint32_t count = na_measure_parts(&view->flows, &view->verdicts, v->object, parts, MOST);
    na_json_array(json, "parts");
    for (uint32_t i = 0; count != UINT32_MAX && i < count && i < MOST; i++) {
        const na_flow_node_t *nodes = view->flows.nodes;
        na_json_object(json, NULL);
        na_json_u64(json, "from", parts[i].from);
        na_json_u64(json, "to", parts[i].to);
        na_json_number(json, "node",
                       parts[i].node < 0 ? NAN : (double)nodes[parts[i].node].kernel_id);
        na_json_number(json, "lies_on",
                       parts[i].at < 0 ? NAN : (double)nodes[parts[i].at].kernel_id);
        na_json_number(json, "share", parts[i].own / parts[i].weight);
        na_json_end(json);
    }
    na_json_end(json);
    free(parts);
}

static void json_groups(na_json_t *json, const na_access_view_t *view, const na_verdict_t *v) {
    const na_clusters_t *c = &view->verdicts.clusters;
    const na_flow_group_t *g = &view->flows.groups[v->group];
    na_json_array(json, "groups");
    for (uint32_t group = 0; group < c->count; group++) {
        uint32_t objects = 0;
        if (c->each[group].node < 0) continue;
        for (uint32_t i = 0; i < g->objects; i++) {
            if (c->owner[g->members[i]] != group || !na_verdict_is_on(v, g->members[i])) continue;
            if (objects++ == 0) {
                na_json_object(json, NULL);
                na_json_u64(json, "group", group + 1);
                na_json_u64(json, "node", view->flows.nodes[c->each[group].node].kernel_id);
                na_json_array(json, "objects");
            }
            na_json_u64(json, NULL, g->members[i]);
        }
        if (objects == 0) continue;
        na_json_end(json);
        na_json_array(json, "threads");
        for (uint32_t t = 0; t < view->flows.thread_count; t++)
            if (c->of[t] == group) na_json_u64(json, NULL, t);
        na_json_end(json);
        na_json_end(json);
    }
    na_json_end(json);
}

void na_access_json_verdict(na_json_t *json, const char *name, const na_access_view_t *view,
                            const na_verdict_t *v) {
    char label[NA_LABEL];
    na_verdict_advice_t advice;
    na_access_verdict_label(view, v, label);
    na_verdict_advice(view, v, &advice);
    const na_flow_group_t *g = &view->flows.groups[v->group];
    na_json_object(json, name);
    na_json_string(json, "verdict", na_verdict_texts[v->kind].key);
    na_json_string(json, "title", na_verdict_texts[v->kind].title);
    na_json_string(json, "name", label);
    na_json_string(json, "kind", na_flow_kind_name(g->kind));
    na_json_u64(json, "group", v->group);
    na_json_number(json, "site", g->site == 0 ? (double)NAN : (double)g->site);
    na_json_number(json, "object", v->object == NA_FLOWS_NONE ? (double)NAN : (double)v->object);
    na_json_string(json, "undecided", na_undecided_names[v->undecided]);
    na_json_number(json, "chance", v->kind == NA_VERDICT_UNDECIDABLE ? (double)NAN : v->chance);
    na_json_string(json, "confidence",
                   v->kind == NA_VERDICT_UNDECIDABLE ? "" : na_access_confidence(v->chance));
    na_json_number(json, "needed", v->needed);
    na_json_number(json, "cost_share", v->cost_share);
    na_json_number(json, "remote_in_all", view->verdicts.remote);
    na_json_number(json, "gain_remote", v->gain_remote);
    na_json_number(json, "gain_latency", v->gain_latency);
    const struct {
        const char *name, *text;
    } texts[] = {{"means", na_verdict_means(view, v)},
                 {"reason", advice.reason},
                 {"cause", advice.cause},
                 {"code", advice.code},
                 {"command", advice.command},
                 {"placement", advice.placement},
                 {"expected", advice.expected}};
    for (size_t i = 0; i < sizeof texts / sizeof texts[0]; i++)
        na_json_string(json, texts[i].name, texts[i].text);
    if (v->kind == NA_VERDICT_PARTITION) json_parts(json, view, v);
    if (v->kind == NA_VERDICT_CLUSTER) json_groups(json, view, v);
    na_verdict_json_line(json, view, v);
    json_measure(json, view, &v->measure);
    na_json_array(json, "rules");
    for (int kind = 0; kind <= NA_VERDICT_NOTHING; kind++) {
        if (kind == NA_VERDICT_FALSE_SHARING && v->rules[kind].count == 0) continue;
        json_rule(json, &v->rules[kind], (na_verdict_kind_t)kind);
    }
    na_json_end(json);
    NA_JSON_STRINGS(json, "runners_up", na_verdict_texts[v->runners[0]].key,
                    na_verdict_texts[v->runners[1]].key);
    na_json_end(json);
}

static void put_json_one(na_json_t *json, void *arg, uint64_t index) {
    const na_access_view_t *view = arg;
    na_access_json_verdict(json, NULL, view, &view->verdicts.items[index]);
}

/* ---- the table ---- */

enum {
    NAME,
    VERDICT,
    TITLE,
    COST,
    CHANCE,
    CONFIDENCE,
    SAMPLES,
    OBJECTS,
    THREADS,
    REMOTE,
    GAIN_REMOTE,
    GAIN_LATENCY,
    OBJECT_KIND,
    OBJECT,
    SITE,
    ADVICE /* and what follows it */
};
static const na_column_t verdicts_columns[] = {
    {"name", "name", NA_KIND_TEXT, NULL},
    {"verdict", NULL, NA_KIND_TEXT, NULL},
    {"title", "verdict", NA_KIND_TEXT, NULL},
    {"cost_share", "of remote cost", NA_KIND_SHARE, NULL},
    {"chance", "chance", NA_KIND_SHARE, NULL},
    {"confidence", "confidence", NA_KIND_TEXT, NULL},
    {"samples", "samples", NA_KIND_COUNT, "count"},
    {"objects", "objects", NA_KIND_COUNT, NULL},
    {"threads", "threads", NA_KIND_COUNT, NULL},
    {"remote", "remote", NA_KIND_SHARE, NULL},
    {"gain_remote", NULL, NA_KIND_SHARE, NULL},
    {"gain_latency", NULL, NA_KIND_NUMBER, NULL},
    {"kind", "kind", NA_KIND_TEXT, NULL},
    {"object", NULL, NA_KIND_NUMBER, NULL},
    {"site", NULL, NA_KIND_NUMBER, NULL},
    {"reason", NULL, NA_KIND_TEXT, NULL},
    {"code", NULL, NA_KIND_TEXT, NULL},
    {"command", NULL, NA_KIND_TEXT, NULL},
    {"placement", NULL, NA_KIND_TEXT, NULL},
    {"expected", NULL, NA_KIND_TEXT, NULL},
};
static const na_columns_t verdicts_table = NA_COLUMNS(verdicts_columns);

static void fill_verdict_row(na_table_t *table, const na_access_view_t *view,
                             const na_verdict_t *v) {
    const na_flow_group_t *g = &view->flows.groups[v->group];
    bool decided = v->kind != NA_VERDICT_UNDECIDABLE;
    char name[NA_LABEL];
    na_verdict_advice_t advice;
    na_access_verdict_label(view, v, name);
    na_verdict_advice(view, v, &advice);
    na_table_text(table, NAME, name);
    na_table_text(table, VERDICT, na_verdict_texts[v->kind].key);
    na_table_text(table, TITLE, na_verdict_texts[v->kind].title);
    na_table_number(table, COST, v->cost_share);
    if (decided) na_table_number(table, CHANCE, v->chance);
    if (decided) na_table_text(table, CONFIDENCE, na_access_confidence(v->chance));
    na_table_number(table, SAMPLES, v->measure.samples);
    na_table_number(table, OBJECTS, v->measure.instances);
    na_table_number(table, THREADS, v->measure.threads);
    na_table_number(table, REMOTE, v->measure.remote);
    na_table_number(table, GAIN_REMOTE, v->gain_remote);
    na_table_number(table, GAIN_LATENCY, v->gain_latency);
    na_table_text(table, OBJECT_KIND, na_flow_kind_name(g->kind));
    if (v->object != NA_FLOWS_NONE) na_table_number(table, OBJECT, v->object);
    if (g->site != 0) na_table_number(table, SITE, g->site);
    const char *const texts[] = {advice.reason, advice.code, advice.command, advice.placement,
                                 advice.expected};
    for (size_t i = 0; i < sizeof texts / sizeof texts[0]; i++)
        na_table_text(table, ADVICE + i, texts[i]);
}

/* Is there something to do about it? Of others a text has one line for all, unless they are asked
 * for. */
static bool is_to_do(const na_access_view_t *view, const na_verdict_t *v) {
    const na_options_t *o = view->options;
    if (o->table.format != NA_FORMAT_TEXT || na_option_given(o, NA_SET_TOP) ||
        o->table.filter.given || o->table.sort != NULL)
        return true;
    return v->kind == NA_VERDICT_FALSE_SHARING ||
           (v->kind != NA_VERDICT_NOTHING && v->kind != NA_VERDICT_UNDECIDABLE &&
            !(view->verdicts.remote < na_limit(NA_T_GAIN)));
}

/* Those that are not shown in one line: the dearest that is not decided, and why. */
static void put_idle_verdicts(const na_access_view_t *view) {
    const na_verdict_t *first = NULL;
    uint32_t undecided = 0, fine = 0;
    for (uint32_t i = 0; i < view->verdicts.count; i++) {
        const na_verdict_t *v = &view->verdicts.items[i];
        if (is_to_do(view, v)) continue;
        fine += v->kind == NA_VERDICT_NOTHING;
        if (v->kind != NA_VERDICT_UNDECIDABLE) continue;
        undecided++;
        if (first == NULL || v->cost_share > first->cost_share) first = v;
    }
    if (undecided + fine == 0) return;
    putchar('\n');
    if (first != NULL) {
        char name[NA_LABEL];
        na_verdict_advice_t advice;
        na_access_verdict_label(view, first, name);
        na_verdict_advice(view, first, &advice);
        printf("Not decided: ");
        na_text_put(stdout, name);
        printf(" (%.1f %% of all remote cost): %s; ", 100 * first->cost_share, advice.reason);
        if (undecided > 1) printf("nor %u more; ", undecided - 1);
    }
    if (fine != 0) printf("nothing is wrong with %u more; ", fine);
    printf("--top 0 shows %s\n", undecided + fine > 1 ? "them" : "it");
}

static na_status_t show_verdicts_view(na_access_view_t *view) {
    const na_verdicts_t *v = &view->verdicts;
    na_table_t *table = na_table_open(&verdicts_table);
    if (table == NULL) return NA_STATUS_MEMORY;
    uint32_t fine = 0;
    for (uint32_t i = 0; i < v->count; i++) {
        fine += v->items[i].kind == NA_VERDICT_NOTHING;
        if (!is_to_do(view, &v->items[i])) continue;
        na_table_row(table, i);
        fill_verdict_row(table, view, &v->items[i]);
    }
    const na_table_print_t print = {
        .view = "verdicts", .text = put_one, .json = put_json_one, .arg = view};
    na_status_t status = NA_STATUS_WHOLE;
    bool text = view->options->table.format == NA_FORMAT_TEXT;
    if (view->options->table.format == NA_FORMAT_JSON) {
        na_json_t json = na_json_open(stdout);
        na_access_json_head(&json, view, "verdicts");
        na_json_object(&json, "thresholds");
        for (int t = 0; t < NA_THRESHOLDS; t++)
            na_json_number(&json, na_thresholds[t].key, na_thresholds[t].value);
        na_json_end(&json);
        status = na_table_json_rows(&json, "verdicts", table, view->options, &print);
        na_json_end(&json);
    } else {
        if (text) na_access_head(view);
        if (text) na_access_notes(view);
        if (na_table_rows(table) != 0 || v->count == 0)
            status = na_table_write(table, view->options, &print);
    }
    na_table_close(table);
    bool much = v->remote >= na_limit(NA_T_REMOTE);
    if (text && fine == v->count && !much)
        printf("\nNothing is wrong.\n");
    else if (text && fine == v->count)
        printf("\nNo object is the reason, but %.1f %% of all accesses go to other nodes: to many "
               "objects with less than %.0f %% of them each (numalloc-dump objects).\n",
               100 * v->remote, 100 * na_limit(NA_T_COST));
    else if (text && na_access_no_gain(view))
        printf("\nThere is nothing to gain: of all accesses %.1f %% go to other nodes.\n",
               100 * v->remote);
    else if (text)
        put_idle_verdicts(view);
    for (uint32_t n = 0; text && n < view->flows.node_count; n++)
        if (v->nodes[n].saturated)
            printf("\nNode %u is saturated: %.0f %% of the accesses, at %.2f times the latency of "
                   "others. If no object above is the reason, spread the dearest over the nodes.\n",
                   view->flows.nodes[n].kernel_id, 100 * v->nodes[n].share,
                   v->nodes[n].latency_ratio);
    return status;
}

static na_status_t show_verdicts(const char *const *files, size_t count,
                                 const na_options_t *options) {
    return na_access_view_show(files, count, options, show_verdicts_view);
}

const na_view_t na_view_row_verdicts = {
    .name = "verdicts",
    .words = "FILE...",
    .help = "what is wrong with where memory lies, and what to do about it",
    .more = "docs/access-profiling.md has the rules and their thresholds.",
    .modes = NA_IN_ALL,
    .flags = NA_VIEW_ACCESSES,
    .takes = NA_TAKES_TABLE | NA_TAKES(WHERE) | NA_TAKES(WRAPPERS) | NA_TAKES(SOURCE_PATH),
    .tables = {{&verdicts_table, 0}},
    .show_files = show_verdicts,
};
