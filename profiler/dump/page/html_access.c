/* html_access.c - the part of the page about accesses: nodes, objects, flows and verdicts, as the
 * views of accesses have them. Nothing is written without samples but why there are none. */
#include <math.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "profiler/dump/accesses/access_totals.h"
#include "profiler/dump/page/html_page.h"
#include "profiler/dump/ui/text.h"

#define MOST_OBJECTS   1000u /* rows of the table of origins */
#define MOST_VERDICTS  200u
#define MOST_FLOWS     64u   /* objects whose flow is drawn */
#define MOST_EVENTS    1500u /* of one flow; of more every n-th */
#define MOST_FUNCTIONS 8u    /* that touch an object; and as many that call them */

typedef struct access_part {
    na_webpage_t *r;
    na_access_view_t view;
    na_json_t *json;
    uint32_t *shown; /* objects with a flow, in the order of flows */
    uint32_t shown_count;
} access_part_t;

/* A row of the page's sites; -1: none. */
static int64_t access_row(const access_part_t *p, uint32_t site) {
    uint32_t stacks = na_reader_stacks(p->r->in->reader).count;
    if (site == 0 || site >= stacks || p->r->row_of_site[site] == 0) return -1;
    return (int64_t)p->r->row_of_site[site] - 1;
}

/* ---- the whole ---- */

static void put_access_head(const access_part_t *p) {
    const na_flows_t *f = &p->view.flows;
    const na_verdicts_t *v = &p->view.verdicts;
    const na_nprof_access_source_t *s = &f->sources[v->source].of;
    na_json_string(p->json, "source", na_access_source_name(s->source));
    na_json_string(p->json, "unit", na_access_unit_name(s->unit));
    na_json_bool(p->json, "made_up", (s->flags & NA_NPROF_ACCESS_MADE_UP) != 0);
    na_json_bool(p->json, "dram", v->dram);
    na_json_bool(p->json, "levels_known", (v->evidence & NA_EVIDENCE_LEVEL) != 0);
    na_json_u64(p->json, "samples", v->samples);
    na_json_u64(p->json, "all", f->count);
    na_json_bool(p->json, "enough", v->enough);
    na_json_number(p->json, "enough_samples", na_limit(NA_T_SAMPLES_ALL));
    na_json_number(p->json, "remote", v->remote);
    na_access_json_remote_range(p->json, &p->view);
    na_json_number(p->json, "local_latency", v->local_latency);
    na_json_number(p->json, "start_ms", (double)f->start_ns / 1e6);
    na_json_number(p->json, "end_ms", (double)f->end_ns / 1e6);
    na_access_json_machine(p->json, &p->view);
    na_json_array(p->json, "threads");
    for (uint32_t t = 0; t < f->thread_count; t++) {
        char name[NA_LABEL];
        na_access_thread_label(&p->view, t, name);
        na_json_string(p->json, NULL, name);
    }
    na_json_end(p->json);
}

static void put_access_sources(const access_part_t *p) {
    const na_flows_t *f = &p->view.flows;
    na_json_array(p->json, "sources");
    for (uint32_t i = 0; i < f->source_count; i++) {
        const na_nprof_access_source_t *s = &f->sources[i].of;
        na_json_object(p->json, NULL);
        na_json_string(p->json, "name", na_access_source_name(s->source));
        na_json_bool(p->json, "used", (s->flags & NA_NPROF_ACCESS_USED) != 0);
        na_json_u64(p->json, "samples", f->sources[i].samples);
        na_json_u64(p->json, "lost", s->lost);
        na_json_u64(p->json, "throttled", s->throttled);
        na_json_string(p->json, "why", s->why);
        na_json_end(p->json);
    }
    na_json_end(p->json);
}

static void put_access_matrix(const access_part_t *p, const na_access_totals_t *all) {
    uint32_t nodes = p->view.flows.node_count;
    na_json_array(p->json, "matrix");
    for (uint32_t from = 0; from < nodes; from++) {
        na_json_array(p->json, NULL);
        for (uint32_t home = 0; home < nodes; home++) {
            const na_touch_sum_t *s = &all->pair[(size_t)from * nodes + home];
            na_json_object(p->json, NULL);
            na_json_u64(p->json, "samples", s->samples);
            na_json_number(p->json, "share", na_touch_ratio(s->weight, all->sum.known));
            na_json_number(p->json, "latency", na_touch_ratio(s->latency, s->latency_weight));
            na_json_end(p->json);
        }
        na_json_end(p->json);
    }
    na_json_end(p->json);
}

static void put_access_totals(const access_part_t *p, const na_access_totals_t *all) {
    uint32_t nodes = p->view.flows.node_count;
    na_json_number(p->json, "writes", na_touch_ratio(all->sum.writes, all->sum.told));
    put_access_matrix(p, all);
    na_json_number(p->json, "step_ms", (double)all->step_ns / 1e6);
    na_json_array(p->json, "load");
    for (uint32_t home = 0; home < nodes; home++) {
        na_json_array(p->json, NULL);
        for (size_t s = 0; s < NA_ACCESS_STEPS; s++)
            na_json_number(p->json, NULL, all->step[(size_t)home * NA_ACCESS_STEPS + s]);
        na_json_end(p->json);
    }
    na_json_end(p->json);
    na_json_array(p->json, "remote_over_time");
    for (size_t s = 0; s < NA_ACCESS_STEPS; s++)
        na_json_number(p->json, NULL, na_touch_ratio(all->step_remote[s], all->step_all[s]));
    na_json_end(p->json);
    na_json_array(p->json, "levels");
    for (uint32_t l = 0; l < NA_NPROF_LEVELS; l++) {
        if (!(all->level[l] > 0)) continue;
        na_json_array(p->json, NULL);
        na_json_string(p->json, NULL, na_access_level_name(l));
        na_json_number(p->json, NULL, all->level[l] / all->levels);
        na_json_end(p->json);
    }
    na_json_end(p->json);
    na_json_array(p->json, "kinds");
    for (int k = 0; k < NA_FLOW_KINDS; k++) {
        const na_touch_sum_t *s = &all->kind[k];
        if (s->samples == 0) continue;
        na_json_array(p->json, NULL);
        na_json_string(p->json, NULL, na_flow_kind_name((na_flow_kind_t)k));
        na_json_number(p->json, NULL, na_touch_ratio(s->weight, all->sum.weight));
        na_json_number(p->json, NULL, na_touch_ratio(s->remote, s->known));
        na_json_number(p->json, NULL, na_touch_ratio(s->remote, all->sum.remote));
        na_json_end(p->json);
    }
    na_json_end(p->json);
}

/* ---- origins ---- */

/* The number of the object's flow on the page; it gets one if there is room. -1: none. */
static int64_t flow_of(access_part_t *p, uint32_t object) {
    for (uint32_t i = 0; i < p->shown_count; i++)
        if (p->shown[i] == object) return i;
    if (p->shown_count >= na_webpage_most(p->r, MOST_FLOWS)) return -1;
    p->shown[p->shown_count] = object;
    return p->shown_count++;
}

static void put_main_nodes(const access_part_t *p, const char *name, const double *weights) {
    char text[NA_LABEL];
    na_json_string(p->json, name, na_access_main_nodes(&p->view, weights, text));
}

/* "estimate": [accesses, low, high], low and high null where nothing is determined; absent without
 * watchpoints. Empties it. */
static void put_estimate(const access_part_t *p, na_watched_t *estimate) {
    na_interval_t interval = na_watched_take(estimate, &p->view.flows);
    if (interval.rounds == 0) return;
    na_json_array(p->json, "estimate");
    na_json_number(p->json, NULL, interval.sum);
    na_json_number(p->json, NULL, interval.low);
    na_json_number(p->json, NULL, interval.high);
    na_json_end(p->json);
}

static void put_object(access_part_t *p, uint32_t group, double all_remote, uint32_t *seen) {
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
    na_json_object(p->json, NULL);
    na_json_string(p->json, "kind", na_flow_kind_name(g->kind));
    na_json_i64(p->json, "site", access_row(p, g->site));
    na_json_i64(p->json, "flow", flow_of(p, g->members[0]));
    na_json_string(p->json, "verdict", verdict);
    na_json_string(p->json, "name", name);
    na_json_u64(p->json, "samples", sum.samples);
    na_json_u64(p->json, "objects", g->objects);
    na_json_u64(p->json, "bytes", g->bytes);
    na_json_u64(p->json, "threads", threads);
    na_json_number(p->json, "share", na_touch_ratio(sum.weight, p->view.verdicts.weight));
    na_json_number(p->json, "remote", na_touch_ratio(sum.remote, sum.known));
    na_json_number(p->json, "of_remote", na_touch_ratio(sum.remote, all_remote));
    na_json_number(p->json, "writes", na_touch_ratio(sum.writes, sum.told));
    na_json_number(p->json, "latency", na_touch_ratio(sum.latency, sum.latency_weight));
    na_json_number(p->json, "own", na_touch_ratio(sum.own, sum.made));
    put_main_nodes(p, "from", from);
    put_main_nodes(p, "home", home);
    put_estimate(p, &estimate);
    na_watched_free(&estimate);
    na_json_end(p->json);
}

static int most_samples_first(const void *a, const void *b, void *arg) {
    const na_flow_group_t *groups = arg;
    uint32_t x = *(const uint32_t *)a, y = *(const uint32_t *)b;
    if (groups[x].samples != groups[y].samples)
        return groups[x].samples < groups[y].samples ? 1 : -1;
    return x < y ? -1 : x > y;
}

static bool put_objects(access_part_t *p, double all_remote) {
    const na_flows_t *f = &p->view.flows;
    uint32_t *order = calloc(f->group_count + 1u, sizeof *order);
    uint32_t *seen = calloc(f->thread_count + 1u, sizeof *seen);
    bool good = order != NULL && seen != NULL;
    uint32_t most = na_webpage_most(p->r, MOST_OBJECTS), count = 0;
    for (uint32_t i = 0; good && i < f->group_count; i++)
        if (f->groups[i].samples != 0 && f->groups[i].objects != 0) order[count++] = i;
    if (good && count != 0) qsort_r(order, count, sizeof *order, most_samples_first, f->groups);
    na_json_u64(p->json, "left_out", count > most ? count - most : 0);
    na_json_array(p->json, "objects");
    for (uint32_t i = 0; good && i < count && i < most; i++)
        put_object(p, order[i], all_remote, seen);
    na_json_end(p->json);
    free(order);
    free(seen);
    return good;
}

/* ---- verdicts ---- */

static void put_evidence(const access_part_t *p, const na_rule_t *rule) {
    na_json_array(p->json, "evidence");
    for (uint32_t i = 0; i < rule->count; i++) {
        const na_condition_t *c = &rule->conditions[i];
        const na_threshold_row_t *row = &na_thresholds[c->limit];
        na_json_object(p->json, NULL);
        na_json_string(p->json, "what", c->what);
        na_json_string(p->json, "unit", row->unit);
        na_json_bool(p->json, "at_least", c->at_least);
        if (c->known)
            na_json_bool(p->json, "met", c->met);
        else
            na_json_null(p->json, "met");
        na_json_number(p->json, "limit", row->value);
        na_json_number(p->json, "value", c->known ? c->value : (double)NAN);
        na_json_end(p->json);
    }
    na_json_end(p->json);
    na_json_array(p->json, "lacks");
    for (unsigned bit = 0; bit < NA_EVIDENCE_BITS; bit++)
        if ((rule->lacks >> bit & 1) != 0) na_json_string(p->json, NULL, na_evidence_names[bit]);
    na_json_end(p->json);
}

static void put_access_verdict(access_part_t *p, const na_verdict_t *v) {
    const na_flow_group_t *g = &p->view.flows.groups[v->group];
    uint32_t object = v->object != NA_FLOWS_NONE ? v->object : g->members[0];
    char name[NA_LABEL];
    na_verdict_advice_t advice;
    na_access_verdict_label(&p->view, v, name);
    na_verdict_advice(&p->view, v, &advice);
    na_json_object(p->json, NULL);
    na_json_string(p->json, "verdict", na_verdict_texts[v->kind].key);
    na_json_string(p->json, "title", na_verdict_texts[v->kind].title);
    na_json_string(p->json, "means", na_verdict_texts[v->kind].means);
    na_json_i64(p->json, "site", access_row(p, g->site));
    na_json_i64(p->json, "flow", flow_of(p, object));
    na_json_u64(p->json, "samples", v->measure.samples);
    na_json_u64(p->json, "threads", v->measure.threads);
    na_json_string(p->json, "name", name);
    na_json_number(p->json, "chance", v->kind == NA_VERDICT_UNDECIDABLE ? (double)NAN : v->chance);
    na_json_number(p->json, "cost_share", v->cost_share);
    na_json_number(p->json, "remote_in_all", p->view.verdicts.remote);
    na_json_number(p->json, "handoff_ms",
                   v->measure.handoff_ns == 0 ? (double)NAN : (double)v->measure.handoff_ns / 1e6);
    put_main_nodes(p, "from", v->measure.from);
    put_main_nodes(p, "home", v->measure.home);
    na_json_string(p->json, "reason", advice.reason);
    na_json_string(p->json, "code", advice.code);
    na_json_string(p->json, "command", advice.command);
    na_json_string(p->json, "expected", advice.expected);
    if (v->kind != NA_VERDICT_UNDECIDABLE) put_evidence(p, &v->rules[v->kind]);
    na_json_array(p->json, "runners");
    for (int i = 0; i < 2; i++) {
        if (v->runners[i] == NA_VERDICT_UNDECIDABLE) continue;
        na_json_object(p->json, NULL);
        na_json_string(p->json, "title", na_verdict_texts[v->runners[i]].title);
        put_evidence(p, &v->rules[v->runners[i]]);
        na_json_end(p->json);
    }
    na_json_end(p->json);
    na_json_end(p->json);
}

static void put_access_verdicts(access_part_t *p) {
    const na_verdicts_t *v = &p->view.verdicts;
    na_json_array(p->json, "verdicts");
    for (uint32_t i = 0; i < v->count && i < na_webpage_most(p->r, MOST_VERDICTS); i++)
        put_access_verdict(p, &v->items[i]);
    na_json_end(p->json);
}

/* ---- flows ---- */

typedef struct toucher {
    const na_symbol_frame_t *frame;
    na_access_vote_t caller;
    na_touch_sum_t sum;
    double inclusive; /* weight of its accesses and of all that it calls */
} toucher_t;

/* Functions that touch it, then those that only call such. */
static int touching_first(const void *a, const void *b) {
    const toucher_t *x = a, *y = b;
    if (x->sum.weight != y->sum.weight) return x->sum.weight < y->sum.weight ? 1 : -1;
    if (x->inclusive != y->inclusive) return x->inclusive < y->inclusive ? 1 : -1;
    return strcmp(x->frame->function, y->frame->function);
}

typedef struct touchers {
    toucher_t found[128]; /* the first that are met */
    size_t count;
} touchers_t;

static toucher_t *toucher(touchers_t *of, const na_symbol_frame_t *frame) {
    size_t k = 0;
    while (k < of->count && of->found[k].frame->id != frame->id)
        k++;
    if (k == sizeof of->found / sizeof of->found[0]) return NULL;
    if (k == of->count) of->found[of->count++] = (toucher_t){.frame = frame};
    return &of->found[k];
}

static void put_access_functions(const access_part_t *p, na_flow_t flow) {
    const na_flows_t *f = &p->view.flows;
    touchers_t of = {.count = 0};
    double all = 0;
    for (uint32_t i = 0; i < flow.count; i++) {
        const na_touch_t *a = &f->items[flow.items[i]];
        if (!na_access_view_has(&p->view, a)) continue;
        all += a->weight;
        const na_symbol_frame_t *chain[NA_ACCESS_CHAIN];
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
    qsort(of.found, of.count, sizeof of.found[0], touching_first);
    na_json_array(p->json, "functions");
    uint32_t shown[2] = {0, 0}; /* that touch it, that only call */
    for (size_t k = 0; k < of.count; k++) {
        const toucher_t *x = &of.found[k];
        bool calls_only = x->sum.samples == 0;
        if (shown[calls_only] == MOST_FUNCTIONS) continue;
        na_json_array(p->json, NULL);
        shown[calls_only]++;
        na_json_string(p->json, NULL, x->frame->function);
        na_json_number(p->json, NULL, na_touch_ratio(x->sum.weight, all));
        na_json_number(p->json, NULL, na_touch_ratio(x->sum.remote, x->sum.known));
        na_json_string(p->json, NULL, x->caller.frame != NULL ? x->caller.frame->function : "");
        na_json_number(p->json, NULL, na_touch_ratio(x->inclusive, all));
        na_json_end(p->json);
    }
    na_json_end(p->json);
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

static void put_flow(const access_part_t *p, uint32_t object) {
    static const char *const columns[] = {"ms", "thread", "from", "home", "op", "latency"};
    const na_flows_t *f = &p->view.flows;
    const na_flow_object_t *o = &f->objects[object];
    na_flow_t flow = na_flow_of_object(f, object);
    char name[NA_LABEL], thread[NA_LABEL] = "";
    uint32_t counted = 0, most = na_webpage_most(p->r, MOST_EVENTS);
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
    na_json_object(p->json, NULL);
    na_json_u64(p->json, "object", object);
    na_json_string(p->json, "kind", na_flow_kind_name(o->kind));
    na_json_u64(p->json, "size", o->size);
    na_json_i64(p->json, "site", access_row(p, o->site));
    na_json_u64(p->json, "samples", counted);
    na_json_u64(p->json, "every", every);
    na_json_string(p->json, "name", name);
    na_json_string(p->json, "maker", thread);
    na_json_number(p->json, "node",
                   o->node < 0 ? (double)NAN : (double)f->nodes[o->node].kernel_id);
    na_json_number(p->json, "birth_ms", (double)o->birth_ns / 1e6);
    na_json_number(p->json, "end_ms",
                   o->end_ns == UINT64_MAX ? (double)NAN : (double)o->end_ns / 1e6);
    put_estimate(p, &estimate);
    na_watched_free(&estimate);
    put_access_functions(p, flow);
    na_json_object(p->json, "events");
    for (int column = 0; column < 6; column++) {
        na_json_array(p->json, columns[column]);
        uint32_t n = 0;
        for (uint32_t i = 0; i < flow.count; i++) {
            const na_touch_t *a = &f->items[flow.items[i]];
            if (!na_access_view_has(&p->view, a) || n++ % every != 0) continue;
            na_json_number(p->json, NULL, event_figure(f, a, column));
        }
        na_json_end(p->json);
    }
    na_json_end(p->json);
    na_json_end(p->json);
}

void na_webpage_access(na_webpage_t *r) {
    access_part_t p = {.r = r, .json = r->json};
    na_access_totals_t all = {0};
    p.view =
        (na_access_view_t){.options = r->in->options, .in = r->in, .count = 1, .borrowed = true};
    bool good = na_flows_read(&r->in->reader, 1, &p.view.flows);
    if (good && p.view.flows.source_count != 0) {
        na_json_object(r->json, "access");
        put_access_sources(&p);
        if (p.view.flows.count != 0) {
            p.shown = calloc(MOST_FLOWS, sizeof *p.shown);
            good = p.shown != NULL && na_verdicts_make(&p.view.flows, &p.view.verdicts) &&
                   na_access_totals_make(&p.view, &all);
            if (good) {
                put_access_head(&p);
                put_access_totals(&p, &all);
                put_access_verdicts(&p);
                good = put_objects(&p, all.sum.remote);
                na_json_array(r->json, "flows");
                for (uint32_t i = 0; i < p.shown_count; i++)
                    put_flow(&p, p.shown[i]);
                na_json_end(r->json);
            }
        }
        na_json_end(r->json);
    }
    r->out_of_memory |= !good;
    free(p.shown);
    na_access_totals_free(&all);
    na_verdicts_free(&p.view.verdicts);
    na_flows_free(&p.view.flows);
}
