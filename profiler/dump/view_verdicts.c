/* view_verdicts.c - what is wrong with the placement of memory, with the evidence, the nearest
 * other explanations, and what to change. */
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "profiler/dump/access_view.h"
#include "profiler/dump/text.h"

static const char *sure(double chance) {
    return chance >= 0.95 ? "high" : chance >= 0.8 ? "medium" : "low";
}

static void label(const na_access_view_t *view, const na_verdict_t *v, char out[NA_LABEL]) {
    if (v->object != NA_FLOWS_NONE && view->flows.groups[v->group].kind <= NA_FLOW_POOL)
        na_access_object_label(view, v->object, out);
    else
        na_access_group_label(view, v->group, out);
}

/* ---- text ---- */

static void put_value(const na_condition_t *c) {
    const na_threshold_row_t *row = &na_thresholds[c->limit];
    if (strcmp(row->unit, "share") == 0)
        printf("%.1f %%", 100 * c->value);
    else
        printf("%.2f", c->value);
}

static void put_limit(const na_condition_t *c) {
    const na_threshold_row_t *row = &na_thresholds[c->limit];
    if (strcmp(row->unit, "share") == 0)
        printf("%s %.0f %%", c->at_least ? "at least" : "below", 100 * row->value);
    else
        printf("%s %.3g", c->at_least ? "at least" : "below", row->value);
}

static void put_rule(const na_rule_t *rule, const char *indent) {
    for (uint32_t i = 0; i < rule->count; i++) {
        const na_condition_t *c = &rule->conditions[i];
        printf("%s%s ", indent, !c->known ? "?" : c->met ? "+" : "-");
        if (c->known)
            put_value(c);
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

static void put_nodes(const na_access_view_t *view, const char *title, const double *weights) {
    double all = 0;
    for (uint32_t n = 0; n < view->flows.node_count; n++)
        all += weights[n];
    if (!(all > 0)) return;
    printf("%s", title);
    for (uint32_t n = 0; n < view->flows.node_count; n++)
        if (weights[n] > 0)
            printf(" %u: %.0f %%", view->flows.nodes[n].kernel_id, 100 * weights[n] / all);
}

static void put_facts(const na_access_view_t *view, const na_verdict_t *v) {
    const na_measure_t *m = &v->measure;
    char thread[NA_LABEL], a[NA_TEXT], b[NA_TEXT];
    printf("  samples     %s on %s object%s by %u thread%s", na_text_count(a, m->samples),
           na_text_count(b, m->instances), m->instances == 1 ? "" : "s", m->threads,
           m->threads == 1 ? "" : "s");
    if (m->independent < 0.9 * m->samples) printf(", worth %.0f independent ones", m->independent);
    na_access_thread_label(view, m->reader, thread);
    printf("; most by ");
    na_text_put(stdout, thread);
    put_nodes(view, "\n  nodes       from", m->from);
    put_nodes(view, "; lies on", m->home);
    putchar('\n');
    if (m->handoff_ns != 0)
        printf("  hand-off    %s after it was allocated, on average\n",
               na_text_ms(a, m->handoff_ns / 1000000));
    if (!isnan(m->switch_ns) && m->switches != 0)
        printf("  turns       %" PRIu64 " times another thread than before, %.3f ms apart\n",
               m->switches, m->switch_ns / 1e6);
    if (!isnan(m->stores))
        printf("  writes      %.1f %% after the hand-off%s\n", 100 * m->stores,
               m->last_store_ns == 0 ? "; none was sampled at all" : "");
    if (!isnan(m->latency)) printf("  latency     %.0f cycles on average\n", m->latency);
}

static void put_one(void *arg, uint64_t index, size_t number) {
    const na_access_view_t *view = arg;
    const na_verdict_t *v = &view->verdicts.items[index];
    char name[NA_LABEL];
    na_advice_t advice;
    label(view, v, name);
    na_verdict_advice(view, v, &advice);
    printf("\n%zu. %s: ", number, na_verdict_texts[v->kind].title);
    na_text_put(stdout, name);
    printf("\n  %s; %.1f %% of all remote cost", na_verdict_texts[v->kind].means,
           100 * v->cost_share);
    if (v->kind != NA_VERDICT_UNDECIDABLE)
        printf("; confidence %s (%.0f %%)", sure(v->chance), floor(100 * v->chance));
    putchar('\n');
    if (advice.reason[0] != 0) printf("  reason      %s\n", advice.reason);
    put_facts(view, v);
    if (v->kind != NA_VERDICT_UNDECIDABLE) {
        printf("  evidence\n");
        put_rule(&v->rules[v->kind], "    ");
    }
    const struct {
        const char *title, *text;
    } lines[] = {{"in the code", advice.code},
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
        put_rule(&v->rules[v->runners[r]], "    ");
    }
}

/* ---- JSON ---- */

static void json_rule(const na_rule_t *rule, na_verdict_kind_t kind) {
    printf("{\"rule\":\"%s\",\"holds\":%s,\"fit\":", na_verdict_texts[kind].key,
           rule->holds ? "true" : "false");
    na_json_number(stdout, rule->fit);
    printf(",\"lacks\":[");
    for (unsigned bit = 0, first = 1; bit < NA_EVIDENCE_BITS; bit++) {
        if ((rule->lacks >> bit & 1) == 0) continue;
        printf("%s\"%s\"", first ? "" : ",", na_evidence_names[bit]);
        first = 0;
    }
    printf("],\"conditions\":[");
    for (uint32_t i = 0; i < rule->count; i++) {
        const na_condition_t *c = &rule->conditions[i];
        printf("%s{\"what\":\"%s\",\"threshold\":\"%s\",\"limit\":", i == 0 ? "" : ",", c->what,
               na_thresholds[c->limit].key);
        na_json_number(stdout, na_thresholds[c->limit].value);
        printf(",\"at_least\":%s,\"value\":", c->at_least ? "true" : "false");
        na_json_number(stdout, c->known ? c->value : (double)NAN);
        printf(",\"met\":%s,\"chance\":", !c->known ? "null" : c->met ? "true" : "false");
        na_json_number(stdout, c->known ? c->chance : (double)NAN);
        putchar('}');
    }
    printf("]}");
}

static void json_measure(const na_access_view_t *view, const na_measure_t *m) {
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
        {"one_node", m->one_node},
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
        {"in_cluster", m->in_cluster},
        {"spread", m->spread},
        {"latency", m->latency},
        {"reader", m->reader == NA_FLOWS_NONE ? (double)NAN : (double)m->reader},
    };
    for (size_t i = 0; i < sizeof members / sizeof members[0]; i++) {
        printf("%s\"%s\":", i == 0 ? "{" : ",", members[i].name);
        na_json_number(stdout, members[i].value);
    }
    na_access_json_nodes(view, "from", m->from);
    na_access_json_nodes(view, "home", m->home);
    putchar('}');
}

void na_access_json_verdict(const na_access_view_t *view, const na_verdict_t *v) {
    char name[NA_LABEL];
    na_advice_t advice;
    label(view, v, name);
    na_verdict_advice(view, v, &advice);
    const na_flow_group_t *g = &view->flows.groups[v->group];
    printf("{\"verdict\":\"%s\",\"title\":\"%s\",\"name\":", na_verdict_texts[v->kind].key,
           na_verdict_texts[v->kind].title);
    na_json_put(stdout, name);
    printf(",\"kind\":\"%s\",\"group\":%u,\"site\":", na_flow_kind_name(g->kind), v->group);
    na_json_number(stdout, g->site == 0 ? (double)NAN : (double)g->site);
    printf(",\"object\":");
    na_json_number(stdout, v->object == NA_FLOWS_NONE ? (double)NAN : (double)v->object);
    printf(",\"undecided\":\"%s\",\"chance\":", na_undecided_names[v->undecided]);
    na_json_number(stdout, v->kind == NA_VERDICT_UNDECIDABLE ? (double)NAN : v->chance);
    printf(",\"confidence\":\"%s\",\"needed\":",
           v->kind == NA_VERDICT_UNDECIDABLE ? "" : sure(v->chance));
    na_json_number(stdout, v->needed);
    printf(",\"cost_share\":");
    na_json_number(stdout, v->cost_share);
    printf(",\"gain_remote\":");
    na_json_number(stdout, v->gain_remote);
    printf(",\"gain_latency\":");
    na_json_number(stdout, v->gain_latency);
    const struct {
        const char *name, *text;
    } texts[] = {{"means", na_verdict_texts[v->kind].means},
                 {"reason", advice.reason},
                 {"code", advice.code},
                 {"command", advice.command},
                 {"placement", advice.placement},
                 {"expected", advice.expected}};
    for (size_t i = 0; i < sizeof texts / sizeof texts[0]; i++) {
        printf(",\"%s\":", texts[i].name);
        na_json_put(stdout, texts[i].text);
    }
    printf(",\"measure\":");
    json_measure(view, &v->measure);
    printf(",\"rules\":[");
    for (int kind = 0; kind <= NA_VERDICT_NOTHING; kind++) {
        if (kind != 0) putchar(',');
        json_rule(&v->rules[kind], (na_verdict_kind_t)kind);
    }
    printf("],\"runners_up\":[\"%s\",\"%s\"]}", na_verdict_texts[v->runners[0]].key,
           na_verdict_texts[v->runners[1]].key);
}

static void put_json_one(void *arg, uint64_t index) {
    const na_access_view_t *view = arg;
    na_access_json_verdict(view, &view->verdicts.items[index]);
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
const na_columns_t na_columns_verdicts = NA_COLUMNS(verdicts_columns);

static void fill(na_table_t *table, const na_access_view_t *view, const na_verdict_t *v) {
    const na_flow_group_t *g = &view->flows.groups[v->group];
    bool decided = v->kind != NA_VERDICT_UNDECIDABLE;
    char name[NA_LABEL];
    na_advice_t advice;
    label(view, v, name);
    na_verdict_advice(view, v, &advice);
    na_table_text(table, NAME, name);
    na_table_text(table, VERDICT, na_verdict_texts[v->kind].key);
    na_table_text(table, TITLE, na_verdict_texts[v->kind].title);
    na_table_number(table, COST, v->cost_share);
    if (decided) na_table_number(table, CHANCE, v->chance);
    if (decided) na_table_text(table, CONFIDENCE, sure(v->chance));
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

static na_status_t show(na_access_view_t *view) {
    const na_verdicts_t *v = &view->verdicts;
    na_table_t *table = na_table_open(&na_columns_verdicts);
    if (table == NULL) return NA_STATUS_MEMORY;
    uint32_t fine = 0;
    for (uint32_t i = 0; i < v->count; i++) {
        na_table_row(table, i);
        fill(table, view, &v->items[i]);
        fine += v->items[i].kind == NA_VERDICT_NOTHING;
    }
    const na_table_print_t print = {
        .view = "verdicts", .text = put_one, .json = put_json_one, .arg = view};
    na_status_t status = NA_STATUS_WHOLE;
    bool text = view->options->format == NA_FORMAT_TEXT;
    if (view->options->format == NA_FORMAT_JSON) {
        putchar('{');
        na_access_json_head(view, "verdicts");
        printf(",\"thresholds\":{");
        for (int t = 0; t < NA_THRESHOLDS; t++) {
            printf("%s\"%s\":", t == 0 ? "" : ",", na_thresholds[t].key);
            na_json_number(stdout, na_thresholds[t].value);
        }
        printf("},\"verdicts\":");
        status = na_table_json_rows(table, view->options, &print);
        printf("}\n");
    } else {
        if (text) na_access_head(view);
        if (text) na_access_notes(view);
        status = na_table_write(table, view->options, &print);
    }
    na_table_close(table);
    if (text && fine == v->count) printf("\nNothing is wrong.\n");
    for (uint32_t n = 0; text && n < view->flows.node_count; n++)
        if (v->nodes[n].saturated)
            printf("\nNode %u is saturated: %.0f %% of the accesses, at %.2f times the latency of "
                   "others. If no object above is the reason, spread the dearest over the nodes.\n",
                   view->flows.nodes[n].kernel_id, 100 * v->nodes[n].share,
                   v->nodes[n].latency_ratio);
    return status;
}

na_status_t na_view_verdicts(const char *const *files, size_t count, const na_options_t *options) {
    na_access_view_t view;
    na_status_t status = na_access_view_open(&view, files, count, options);
    return status == NA_STATUS_WHOLE ? na_access_view_close(&view, show(&view)) : status;
}
