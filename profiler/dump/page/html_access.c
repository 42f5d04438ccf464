/* html_access.c - the part of the page about accesses: nodes, objects, flows and verdicts, as the
 * views of accesses have them. Nothing is written without samples but why there are none. */
#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "profiler/dump/accesses/access_totals.h"
#include "profiler/dump/page/html.h"
#include "profiler/dump/ui/text.h"

#define MOST_OBJECTS   1000u /* rows of the table of origins */
#define MOST_VERDICTS  200u
#define MOST_FLOWS     64u   /* objects whose flow is drawn */
#define MOST_EVENTS    1500u /* of one flow; of more every n-th */
#define MOST_FUNCTIONS 8u    /* that touch an object; and as many that call them */

typedef struct report_access {
    na_report_t *r;
    na_access_view_t view;
    FILE *to;
    uint32_t *shown; /* objects with a flow, in the order of flows */
    uint32_t shown_count;
} report_access_t;

static void put_text(const report_access_t *p, const char *name, const char *text) {
    fprintf(p->to, ",\"%s\":", name);
    na_json_put(p->to, text);
}

static void put_number(const report_access_t *p, const char *name, double value) {
    fprintf(p->to, ",\"%s\":", name);
    na_json_number(p->to, value);
}

/* A row of the page's sites; -1: none. */
static int64_t row_of(const report_access_t *p, uint32_t site) {
    uint32_t stacks = na_reader_stacks(p->r->in->reader).count;
    if (site == 0 || site >= stacks || p->r->row_of_site[site] == 0) return -1;
    return (int64_t)p->r->row_of_site[site] - 1;
}

/* ---- the whole ---- */

static void put_head(const report_access_t *p) {
    const na_flows_t *f = &p->view.flows;
    const na_verdicts_t *v = &p->view.verdicts;
    const na_nprof_access_source_t *s = &f->sources[v->source].of;
    fprintf(p->to,
            ",\"source\":\"%s\",\"unit\":\"%s\",\"made_up\":%s,\"dram\":%s,\"levels_known\":%s,"
            "\"samples\":%u,\"all\":%u,\"enough\":%s",
            na_access_source_name(s->source), na_access_unit_name(s->unit),
            (s->flags & NA_NPROF_ACCESS_MADE_UP) != 0 ? "true" : "false",
            v->dram ? "true" : "false", (v->evidence & NA_EVIDENCE_LEVEL) != 0 ? "true" : "false",
            v->samples, f->count, v->enough ? "true" : "false");
    put_number(p, "enough_samples", na_limit(NA_T_SAMPLES_ALL));
    put_number(p, "remote", v->remote);
    put_number(p, "local_latency", v->local_latency);
    put_number(p, "start_ms", (double)f->start_ns / 1e6);
    put_number(p, "end_ms", (double)f->end_ns / 1e6);
    fputs(",\"nodes\":[", p->to);
    for (uint32_t n = 0; n < f->node_count; n++) {
        fprintf(p->to, "%s{\"node\":%u,\"cpus\":%u,\"memory_bytes\":%" PRIu64 ",\"distance\":[",
                n == 0 ? "" : ",", f->nodes[n].kernel_id, f->nodes[n].cpus,
                f->nodes[n].memory_bytes);
        for (uint32_t m = 0; m < f->node_count; m++)
            fprintf(p->to, "%s%u", m == 0 ? "" : ",", f->nodes[n].distance[m]);
        putc(']', p->to);
        put_number(p, "share", v->nodes[n].share);
        put_number(p, "latency", v->nodes[n].latency);
        put_number(p, "latency_ratio", v->nodes[n].latency_ratio);
        fprintf(p->to, ",\"saturated\":%s}", v->nodes[n].saturated ? "true" : "false");
    }
    fputs("],\"threads\":[", p->to);
    for (uint32_t t = 0; t < f->thread_count; t++) {
        char name[NA_LABEL];
        na_access_thread_label(&p->view, t, name);
        if (t != 0) putc(',', p->to);
        na_json_put(p->to, name);
    }
    putc(']', p->to);
}

static void put_sources(const report_access_t *p) {
    const na_flows_t *f = &p->view.flows;
    fputs("\"sources\":[", p->to);
    for (uint32_t i = 0; i < f->source_count; i++) {
        const na_nprof_access_source_t *s = &f->sources[i].of;
        fprintf(p->to, "%s{\"name\":\"%s\",\"used\":%s,\"samples\":%" PRIu64 ",\"lost\":%" PRIu64,
                i == 0 ? "" : ",", na_access_source_name(s->source),
                (s->flags & NA_NPROF_ACCESS_USED) != 0 ? "true" : "false", f->sources[i].samples,
                s->lost);
        put_text(p, "why", s->why);
        putc('}', p->to);
    }
    putc(']', p->to);
}

static void put_matrix(const report_access_t *p, const na_access_totals_t *all) {
    uint32_t nodes = p->view.flows.node_count;
    fputs(",\"matrix\":[", p->to);
    for (uint32_t from = 0; from < nodes; from++) {
        fputs(from == 0 ? "[" : ",[", p->to);
        for (uint32_t home = 0; home < nodes; home++) {
            const na_touch_sum_t *s = &all->pair[(size_t)from * nodes + home];
            fprintf(p->to, "%s{\"samples\":%" PRIu64, home == 0 ? "" : ",", s->samples);
            put_number(p, "share", na_touch_ratio(s->weight, all->sum.known));
            put_number(p, "latency", na_touch_ratio(s->latency, s->latency_weight));
            putc('}', p->to);
        }
        putc(']', p->to);
    }
    putc(']', p->to);
}

static void put_all(const report_access_t *p, const na_access_totals_t *all) {
    uint32_t nodes = p->view.flows.node_count;
    put_number(p, "writes", na_touch_ratio(all->sum.writes, all->sum.told));
    put_matrix(p, all);
    put_number(p, "step_ms", (double)all->step_ns / 1e6);
    fputs(",\"load\":[", p->to);
    for (uint32_t home = 0; home < nodes; home++) {
        fputs(home == 0 ? "[" : ",[", p->to);
        for (size_t s = 0; s < NA_ACCESS_STEPS; s++) {
            if (s != 0) putc(',', p->to);
            na_json_number(p->to, all->step[(size_t)home * NA_ACCESS_STEPS + s]);
        }
        putc(']', p->to);
    }
    fputs("],\"remote_over_time\":[", p->to);
    for (size_t s = 0; s < NA_ACCESS_STEPS; s++) {
        if (s != 0) putc(',', p->to);
        na_json_number(p->to, na_touch_ratio(all->step_remote[s], all->step_all[s]));
    }
    fputs("],\"levels\":[", p->to);
    for (uint32_t l = 0, n = 0; l < NA_NPROF_LEVELS; l++) {
        if (!(all->level[l] > 0)) continue;
        fprintf(p->to, "%s[\"%s\",", n++ == 0 ? "" : ",", na_access_level_name(l));
        na_json_number(p->to, all->level[l] / all->levels);
        putc(']', p->to);
    }
    fputs("],\"kinds\":[", p->to);
    for (int k = 0, n = 0; k < NA_FLOW_KINDS; k++) {
        const na_touch_sum_t *s = &all->kind[k];
        if (s->samples == 0) continue;
        fprintf(p->to, "%s[\"%s\",", n++ == 0 ? "" : ",", na_flow_kind_name((na_flow_kind_t)k));
        na_json_number(p->to, na_touch_ratio(s->weight, all->sum.weight));
        putc(',', p->to);
        na_json_number(p->to, na_touch_ratio(s->remote, s->known));
        putc(',', p->to);
        na_json_number(p->to, na_touch_ratio(s->remote, all->sum.remote));
        putc(']', p->to);
    }
    putc(']', p->to);
}

/* ---- origins ---- */

/* The number of the object's flow on the page; it gets one if there is room. -1: none. */
static int64_t flow_of(report_access_t *p, uint32_t object) {
    for (uint32_t i = 0; i < p->shown_count; i++)
        if (p->shown[i] == object) return i;
    if (p->shown_count >= na_report_most(p->r, MOST_FLOWS)) return -1;
    p->shown[p->shown_count] = object;
    return p->shown_count++;
}

/* "2 0 3": nodes with a tenth of the weight or more, heaviest first. */
static void put_nodes(const report_access_t *p, const char *name, const double *weights) {
    const na_flows_t *f = &p->view.flows;
    bool used[NA_FLOWS_NODES] = {false};
    double all = 0;
    for (uint32_t n = 0; n < f->node_count; n++)
        all += weights[n];
    fprintf(p->to, ",\"%s\":\"", name);
    for (int shown = 0;; shown++) {
        uint32_t best = NA_FLOWS_NONE;
        for (uint32_t n = 0; n < f->node_count; n++)
            if (!used[n] && weights[n] > 0 && weights[n] >= 0.1 * all &&
                (best == NA_FLOWS_NONE || weights[n] > weights[best]))
                best = n;
        if (best == NA_FLOWS_NONE) break;
        used[best] = true;
        fprintf(p->to, "%s%u", shown == 0 ? "" : " ", f->nodes[best].kernel_id);
    }
    putc('"', p->to);
}

/* "estimate": [accesses, low, high], low and high null where nothing is determined; absent without
 * watchpoints. Empties it. */
static void put_estimate(const report_access_t *p, na_watched_t *estimate) {
    na_interval_t interval = na_watched_take(estimate, &p->view.flows);
    if (interval.rounds == 0) return;
    fputs(",\"estimate\":[", p->to);
    na_json_number(p->to, interval.sum);
    putc(',', p->to);
    na_json_number(p->to, interval.low);
    putc(',', p->to);
    na_json_number(p->to, interval.high);
    putc(']', p->to);
}

static void put_object(report_access_t *p, uint32_t group, double all_remote, uint32_t *seen) {
    const na_flows_t *f = &p->view.flows;
    const na_flow_group_t *g = &f->groups[group];
    na_touch_sum_t sum = {0};
    double from[NA_FLOWS_NODES] = {0}, home[NA_FLOWS_NODES] = {0};
    uint32_t threads = 0;
    na_watched_t estimate = {0};
    for (uint32_t m = 0; m < g->objects; m++) {
        na_flow_t flow = na_flow_of_object(f, g->members[m]);
        for (uint32_t i = 0; i < flow.count; i++) {
            const na_touch_t *a = &f->items[flow.items[i]];
            if (!na_access_view_has(&p->view, a)) continue;
            na_touch_sum_add(&sum, f, a);
            na_watched_add(&estimate, a);
            if (a->from >= 0) from[a->from] += a->weight;
            if (a->home >= 0) home[a->home] += a->weight;
            threads += seen[a->thread] != group + 1;
            seen[a->thread] = group + 1;
        }
    }
    const char *verdict = "";
    for (uint32_t i = 0; i < p->view.verdicts.count && verdict[0] == 0; i++)
        if (p->view.verdicts.items[i].group == group)
            verdict = na_verdict_texts[p->view.verdicts.items[i].kind].title;
    char name[NA_LABEL];
    na_access_group_label(&p->view, group, name);
    fprintf(p->to, "{\"kind\":\"%s\",\"site\":%" PRId64 ",\"flow\":%" PRId64 ",\"verdict\":\"%s\"",
            na_flow_kind_name(g->kind), row_of(p, g->site), flow_of(p, g->members[0]), verdict);
    put_text(p, "name", name);
    fprintf(p->to, ",\"samples\":%" PRIu64 ",\"objects\":%u,\"bytes\":%" PRIu64 ",\"threads\":%u",
            sum.samples, g->objects, g->bytes, threads);
    put_number(p, "share", na_touch_ratio(sum.weight, p->view.verdicts.weight));
    put_number(p, "remote", na_touch_ratio(sum.remote, sum.known));
    put_number(p, "of_remote", na_touch_ratio(sum.remote, all_remote));
    put_number(p, "writes", na_touch_ratio(sum.writes, sum.told));
    put_number(p, "latency", na_touch_ratio(sum.latency, sum.latency_weight));
    put_number(p, "own", na_touch_ratio(sum.own, sum.made));
    put_nodes(p, "from", from);
    put_nodes(p, "home", home);
    put_estimate(p, &estimate);
    na_watched_free(&estimate);
    putc('}', p->to);
}

static int most_samples(const void *a, const void *b, void *arg) {
    const na_flow_group_t *groups = arg;
    uint32_t x = *(const uint32_t *)a, y = *(const uint32_t *)b;
    if (groups[x].samples != groups[y].samples)
        return groups[x].samples < groups[y].samples ? 1 : -1;
    return x < y ? -1 : x > y;
}

static bool put_objects(report_access_t *p, double all_remote) {
    const na_flows_t *f = &p->view.flows;
    uint32_t *order = calloc(f->group_count + 1u, sizeof *order);
    uint32_t *seen = calloc(f->thread_count + 1u, sizeof *seen);
    bool good = order != NULL && seen != NULL;
    uint32_t most = na_report_most(p->r, MOST_OBJECTS), count = 0;
    for (uint32_t i = 0; good && i < f->group_count; i++)
        if (f->groups[i].samples != 0 && f->groups[i].objects != 0) order[count++] = i;
    if (good && count != 0) qsort_r(order, count, sizeof *order, most_samples, f->groups);
    fprintf(p->to, ",\"left_out\":%u,\"objects\":[", count > most ? count - most : 0);
    for (uint32_t i = 0; good && i < count && i < most; i++) {
        if (i != 0) putc(',', p->to);
        put_object(p, order[i], all_remote, seen);
    }
    putc(']', p->to);
    free(order);
    free(seen);
    return good;
}

/* ---- verdicts ---- */

static void put_evidence(const report_access_t *p, const na_rule_t *rule) {
    fputs(",\"evidence\":[", p->to);
    for (uint32_t i = 0; i < rule->count; i++) {
        const na_condition_t *c = &rule->conditions[i];
        const na_threshold_row_t *row = &na_thresholds[c->limit];
        fprintf(p->to, "%s{\"what\":\"%s\",\"unit\":\"%s\",\"at_least\":%s,\"met\":%s",
                i == 0 ? "" : ",", c->what, row->unit, c->at_least ? "true" : "false",
                !c->known ? "null"
                : c->met  ? "true"
                          : "false");
        put_number(p, "limit", row->value);
        put_number(p, "value", c->known ? c->value : (double)NAN);
        putc('}', p->to);
    }
    fputs("],\"lacks\":[", p->to);
    for (unsigned bit = 0, n = 0; bit < NA_EVIDENCE_BITS; bit++)
        if ((rule->lacks >> bit & 1) != 0)
            fprintf(p->to, "%s\"%s\"", n++ == 0 ? "" : ",", na_evidence_names[bit]);
    putc(']', p->to);
}

static void put_verdict(report_access_t *p, const na_verdict_t *v) {
    const na_flow_group_t *g = &p->view.flows.groups[v->group];
    uint32_t object = v->object != NA_FLOWS_NONE ? v->object : g->members[0];
    char name[NA_LABEL];
    na_advice_t advice;
    na_access_verdict_label(&p->view, v, name);
    na_verdict_advice(&p->view, v, &advice);
    fprintf(p->to,
            "{\"verdict\":\"%s\",\"title\":\"%s\",\"means\":\"%s\",\"site\":%" PRId64
            ",\"flow\":%" PRId64 ",\"samples\":%u,\"threads\":%u",
            na_verdict_texts[v->kind].key, na_verdict_texts[v->kind].title,
            na_verdict_texts[v->kind].means, row_of(p, g->site), flow_of(p, object),
            v->measure.samples, v->measure.threads);
    put_text(p, "name", name);
    put_number(p, "chance", v->kind == NA_VERDICT_UNDECIDABLE ? (double)NAN : v->chance);
    put_number(p, "cost_share", v->cost_share);
    put_number(p, "remote_in_all", p->view.verdicts.remote);
    put_number(p, "handoff_ms",
               v->measure.handoff_ns == 0 ? (double)NAN : (double)v->measure.handoff_ns / 1e6);
    put_nodes(p, "from", v->measure.from);
    put_nodes(p, "home", v->measure.home);
    put_text(p, "reason", advice.reason);
    put_text(p, "code", advice.code);
    put_text(p, "command", advice.command);
    put_text(p, "expected", advice.expected);
    if (v->kind != NA_VERDICT_UNDECIDABLE) put_evidence(p, &v->rules[v->kind]);
    fputs(",\"runners\":[", p->to);
    for (int i = 0, n = 0; i < 2; i++) {
        if (v->runners[i] == NA_VERDICT_UNDECIDABLE) continue;
        fprintf(p->to, "%s{\"title\":\"%s\"", n++ == 0 ? "" : ",",
                na_verdict_texts[v->runners[i]].title);
        put_evidence(p, &v->rules[v->runners[i]]);
        putc('}', p->to);
    }
    fputs("]}", p->to);
}

static void put_verdicts(report_access_t *p) {
    const na_verdicts_t *v = &p->view.verdicts;
    fputs(",\"verdicts\":[", p->to);
    for (uint32_t i = 0; i < v->count && i < na_report_most(p->r, MOST_VERDICTS); i++) {
        if (i != 0) putc(',', p->to);
        put_verdict(p, &v->items[i]);
    }
    putc(']', p->to);
}

/* ---- flows ---- */

typedef struct toucher {
    const na_frame_t *frame;
    na_access_vote_t caller;
    na_touch_sum_t sum;
    double inclusive; /* weight of its accesses and of all that it calls */
} toucher_t;

/* Functions that touch it, then those that only call such. */
static int heavier_first(const void *a, const void *b) {
    const toucher_t *x = a, *y = b;
    if (x->sum.weight != y->sum.weight) return x->sum.weight < y->sum.weight ? 1 : -1;
    if (x->inclusive != y->inclusive) return x->inclusive < y->inclusive ? 1 : -1;
    return strcmp(x->frame->function, y->frame->function);
}

typedef struct touchers {
    toucher_t found[128]; /* the first that are met */
    size_t count;
} touchers_t;

static toucher_t *toucher(touchers_t *of, const na_frame_t *frame) {
    size_t k = 0;
    while (k < of->count && of->found[k].frame->id != frame->id)
        k++;
    if (k == sizeof of->found / sizeof of->found[0]) return NULL;
    if (k == of->count) of->found[of->count++] = (toucher_t){.frame = frame};
    return &of->found[k];
}

static void put_functions(const report_access_t *p, na_flow_t flow) {
    const na_flows_t *f = &p->view.flows;
    touchers_t of = {.count = 0};
    double all = 0;
    for (uint32_t i = 0; i < flow.count; i++) {
        const na_touch_t *a = &f->items[flow.items[i]];
        if (!na_access_view_has(&p->view, a)) continue;
        all += a->weight;
        const na_frame_t *chain[NA_ACCESS_CHAIN];
        uint32_t depth = na_access_chain(&p->view, a, chain);
        for (uint32_t k = 0; k < depth; k++) {
            toucher_t *to = toucher(&of, chain[k]);
            if (to == NULL) continue;
            to->inclusive += a->weight;
            if (k != 0) continue;
            na_touch_sum_add(&to->sum, f, a);
            na_access_vote(&to->caller, depth > 1 ? chain[1] : NULL, a->weight);
        }
    }
    qsort(of.found, of.count, sizeof of.found[0], heavier_first);
    fputs(",\"functions\":[", p->to);
    uint32_t shown[2] = {0, 0}; /* that touch it, that only call */
    for (size_t k = 0; k < of.count; k++) {
        const toucher_t *x = &of.found[k];
        bool calls_only = x->sum.samples == 0;
        if (shown[calls_only] == MOST_FUNCTIONS) continue;
        fputs(shown[0] + shown[1] == 0 ? "[" : ",[", p->to);
        shown[calls_only]++;
        na_json_put(p->to, x->frame->function);
        putc(',', p->to);
        na_json_number(p->to, na_touch_ratio(x->sum.weight, all));
        putc(',', p->to);
        na_json_number(p->to, na_touch_ratio(x->sum.remote, x->sum.known));
        putc(',', p->to);
        na_json_put(p->to, x->caller.frame != NULL ? x->caller.frame->function : "");
        putc(',', p->to);
        na_json_number(p->to, na_touch_ratio(x->inclusive, all));
        putc(']', p->to);
    }
    putc(']', p->to);
}

static double event_figure(const na_flows_t *f, const na_touch_t *a, int column) {
    switch (column) {
    case 0:
        return (double)(a->ns / 1000) / 1e3;
    case 1:
        return a->thread;
    case 2:
        return a->from < 0 ? -1 : (double)f->nodes[a->from].kernel_id;
    case 3:
        return a->home < 0 ? -1 : (double)f->nodes[a->home].kernel_id;
    case 4:
        return a->op;
    default:
        return a->latency;
    }
}

static void put_flow(const report_access_t *p, uint32_t object) {
    static const char *const columns[] = {"ms", "thread", "from", "home", "op", "latency"};
    const na_flows_t *f = &p->view.flows;
    const na_flow_object_t *o = &f->objects[object];
    na_flow_t flow = na_flow_of_object(f, object);
    char name[NA_LABEL], thread[NA_LABEL] = "";
    uint32_t counted = 0, most = na_report_most(p->r, MOST_EVENTS);
    na_watched_t estimate = {0};
    for (uint32_t i = 0; i < flow.count; i++) {
        const na_touch_t *a = &f->items[flow.items[i]];
        if (!na_access_view_has(&p->view, a)) continue;
        counted++;
        na_watched_add(&estimate, a);
    }
    uint32_t every = counted / most + 1;
    na_access_object_label(&p->view, object, name);
    if (o->thread != NA_FLOWS_NONE) na_access_thread_label(&p->view, o->thread, thread);
    fprintf(p->to,
            "{\"object\":%" PRIu32 ",\"kind\":\"%s\",\"size\":%" PRIu64 ",\"site\":%" PRId64
            ",\"samples\":%" PRIu32 ",\"every\":%" PRIu32,
            object, na_flow_kind_name(o->kind), o->size, row_of(p, o->site), counted, every);
    put_text(p, "name", name);
    put_text(p, "maker", thread);
    put_number(p, "node", o->node < 0 ? (double)NAN : (double)f->nodes[o->node].kernel_id);
    put_number(p, "birth_ms", (double)o->birth_ns / 1e6);
    put_number(p, "end_ms", o->end_ns == UINT64_MAX ? (double)NAN : (double)o->end_ns / 1e6);
    put_estimate(p, &estimate);
    na_watched_free(&estimate);
    put_functions(p, flow);
    fputs(",\"events\":{", p->to);
    for (int column = 0; column < 6; column++) {
        fprintf(p->to, "%s\"%s\":[", column == 0 ? "" : ",", columns[column]);
        uint32_t n = 0;
        for (uint32_t i = 0; i < flow.count; i++) {
            const na_touch_t *a = &f->items[flow.items[i]];
            if (!na_access_view_has(&p->view, a) || n++ % every != 0) continue;
            if (n != 1) putc(',', p->to);
            na_json_number(p->to, event_figure(f, a, column));
        }
        putc(']', p->to);
    }
    fputs("}}", p->to);
}

void na_report_access(na_report_t *r) {
    report_access_t p = {.r = r, .to = r->json};
    na_access_totals_t all = {0};
    p.view =
        (na_access_view_t){.options = r->in->options, .in = r->in, .count = 1, .borrowed = true};
    bool good = na_flows_read(&r->in->reader, 1, &p.view.flows);
    if (good && p.view.flows.source_count != 0) {
        fputs(",\"access\":{", r->json);
        put_sources(&p);
        if (p.view.flows.count != 0) {
            p.shown = calloc(MOST_FLOWS, sizeof *p.shown);
            good = p.shown != NULL && na_verdicts_make(&p.view.flows, &p.view.verdicts) &&
                   na_access_totals_make(&p.view, &all);
            if (good) {
                put_head(&p);
                put_all(&p, &all);
                put_verdicts(&p);
                good = put_objects(&p, all.sum.remote);
                fputs(",\"flows\":[", r->json);
                for (uint32_t i = 0; i < p.shown_count; i++) {
                    if (i != 0) putc(',', r->json);
                    put_flow(&p, p.shown[i]);
                }
                putc(']', r->json);
            }
        }
        putc('}', r->json);
    }
    r->out_of_memory |= !good;
    free(p.shown);
    na_access_totals_free(&all);
    na_verdicts_free(&p.view.verdicts);
    na_flows_free(&p.view.flows);
}
