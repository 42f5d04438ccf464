/* verdict.c - which groups and objects are judged, and what they are compared with. See verdict.h.
 */
#include "profiler/analyze/accesses/verdict.h"

#include <math.h>
#include <stdlib.h>

#include "profiler/containers/array.h"

/* ---- the source ---- */

uint32_t na_source_evidence(const na_flows_t *set, uint32_t source) {
    const na_nprof_access_source_t *s = &set->sources[source].of;
    uint32_t evidence = NA_EVIDENCE_NODES | NA_EVIDENCE_TURNS;
    if ((s->flags & NA_NPROF_ACCESS_OP) != 0) evidence |= NA_EVIDENCE_OP;
    if ((s->flags & NA_NPROF_ACCESS_LEVEL) != 0) evidence |= NA_EVIDENCE_LEVEL;
    if ((s->flags & NA_NPROF_ACCESS_LATENCY) != 0) evidence |= NA_EVIDENCE_LATENCY;
    switch (s->source) {
    case NA_NPROF_SOURCE_KMOD_IBS:
    case NA_NPROF_SOURCE_PERF_IBS:
    case NA_NPROF_SOURCE_SPE:
        evidence |= NA_EVIDENCE_SHARES;
        break;
    case NA_NPROF_SOURCE_WATCH:
        evidence |= NA_EVIDENCE_SHARES | NA_EVIDENCE_WORDS;
        break;
    case NA_NPROF_SOURCE_NUMA:
        /* After each scan the first thread to come takes the faults of all pages that it passes
         * over: those who use them at once look as if they took turns. */
        evidence = (evidence | NA_EVIDENCE_SHARES) & ~NA_EVIDENCE_TURNS;
        break;
    case NA_NPROF_SOURCE_PEBS:
        /* Loads and stores are of two units, so that no share of writes can be formed. */
        evidence = (evidence | NA_EVIDENCE_SHARES) & ~NA_EVIDENCE_OP;
        break;
    default:
        /* Page faults see only the first access to each page, and a fixed watchpoint one word. */
        break;
    }
    if ((s->flags & NA_NPROF_ACCESS_MADE_UP) != 0) evidence &= ~NA_EVIDENCE_SHARES;
    return evidence;
}

uint32_t na_verdict_source(const na_flows_t *set) {
    uint32_t best = NA_FLOWS_NONE;
    double best_score = -1;
    for (uint32_t i = 0; i < set->source_count; i++) {
        bool probed = set->count == 0 && set->probe_count != 0 &&
                      set->sources[i].of.source == NA_NPROF_SOURCE_WATCH;
        if (set->sources[i].samples == 0 && !probed) continue;
        uint32_t evidence = na_source_evidence(set, i);
        double score = (evidence & NA_EVIDENCE_SHARES) != 0 ? 16 : 0;
        score += __builtin_popcount(evidence);
        score += (double)set->sources[i].samples / (set->count + 1.0);
        if (score > best_score) {
            best_score = score;
            best = i;
        }
    }
    return best;
}

/* ---- latencies and nodes ---- */

static int latencies_by_value(const void *a, const void *b) {
    int32_t x = *(const int32_t *)a, y = *(const int32_t *)b;
    return x < y ? -1 : x > y;
}

/* Sums, and the median latency of local accesses. */
static bool sum_up_flows(const na_flows_t *set, na_verdicts_t *v) {
    int32_t *local = malloc(((size_t)set->count + 1) * sizeof *local);
    if (local == NULL) return false;
    uint32_t locals = 0;
    double known = 0, away = 0;
    for (uint32_t i = 0; i < set->count; i++) {
        const na_touch_t *a = &set->items[i];
        if (!na_verdict_counts(a, v->source, v->dram)) continue;
        v->samples++;
        v->weight += a->weight;
        if (a->latency >= 0) v->latency += a->weight * a->latency;
        if (!na_touch_has_nodes(a)) continue;
        known += a->weight;
        if (a->from != a->home)
            away += a->weight;
        else if (a->latency >= 0 && !na_touch_is_cache(a))
            local[locals++] = a->latency;
    }
    qsort(local, locals, sizeof *local, latencies_by_value);
    v->local_latency = locals != 0 ? (double)local[locals / 2] : (double)NAN;
    v->remote = known > 0 ? away / known : NAN;
    v->enough = v->samples >= na_limit(NA_T_SAMPLES_ALL);
    free(local);
    return true;
}

typedef struct pair {
    double sum, weight, samples; /* of latencies */
} pair_t;

/* Are these two ways equally long? By the firmware's table; without one, local ones are like local
 * ones and remote ones like remote ones. */
static bool same_distance(const na_flows_t *set, uint32_t from, uint32_t to, uint32_t other_from,
                          uint32_t other_to) {
    uint8_t a = set->nodes[from].distance[to], b = set->nodes[other_from].distance[other_to];
    if (a != 0 && b != 0) return a == b;
    return (from == to) == (other_from == other_to);
}

/* A node's mean latency against that of the other nodes, from each node to equally distant ones. */
static void compare_node(const na_flows_t *set, na_verdicts_t *v, const pair_t *pairs,
                         uint32_t node) {
    uint32_t n = set->node_count;
    double own = 0, others = 0, own_samples = 0, other_samples = 0, weight = 0;
    for (uint32_t from = 0; from < n; from++) {
        const pair_t *to = &pairs[from * n + node];
        pair_t peers = {0};
        for (uint32_t f = 0; f < n; f++)
            for (uint32_t h = 0; h < n; h++) {
                if (h == node || !same_distance(set, from, node, f, h)) continue;
                peers.sum += pairs[f * n + h].sum;
                peers.weight += pairs[f * n + h].weight;
                peers.samples += pairs[f * n + h].samples;
            }
        if (!(to->weight > 0) || !(peers.weight > 0)) continue;
        own += to->sum;
        others += peers.sum / peers.weight * to->weight;
        weight += to->weight;
        own_samples += to->samples;
        /* Peers of several ways may be the same samples: no more than once. */
        if (peers.samples > other_samples) other_samples = peers.samples;
    }
    na_node_load_t *load = &v->nodes[node];
    load->latency_ratio = others > 0 && weight > 0 ? own / others : NAN;
    load->latency_samples = own_samples < other_samples ? own_samples : other_samples;
}

static bool load_nodes(const na_flows_t *set, na_verdicts_t *v) {
    uint32_t n = set->node_count;
    pair_t *pairs = calloc((size_t)n * n + 1, sizeof *pairs);
    if (pairs == NULL) return false;
    double all = 0, sum[NA_FLOWS_NODES] = {0}, with[NA_FLOWS_NODES] = {0};
    for (uint32_t i = 0; i < set->count; i++) {
        const na_touch_t *a = &set->items[i];
        if (!na_verdict_counts(a, v->source, v->dram) || a->home < 0) continue;
        if (v->dram && na_touch_is_cache(a)) continue; /* its node has not answered */
        all += a->weight;
        v->nodes[a->home].weight += a->weight;
        if (a->latency < 0) continue;
        sum[a->home] += a->weight * a->latency;
        with[a->home] += a->weight;
        if (a->from < 0) continue;
        pair_t *p = &pairs[(uint32_t)a->from * n + (uint32_t)a->home];
        p->sum += a->weight * a->latency;
        p->weight += a->weight;
        p->samples += 1;
    }
    for (uint32_t i = 0; i < n; i++) {
        na_node_load_t *load = &v->nodes[i];
        load->share = all > 0 ? load->weight / all : NAN;
        load->latency = with[i] > 0 ? sum[i] / with[i] : NAN;
        compare_node(set, v, pairs, i);
        load->saturated = load->share * n >= na_limit(NA_T_NODE_SHARE) &&
                          load->latency_ratio >= na_limit(NA_T_NODE_LATENCY) &&
                          load->latency_samples >= na_limit(NA_T_SAMPLES_LATENCY);
    }
    free(pairs);
    return true;
}

/* ---- what is judged ---- */

static double measure_cost(const na_verdicts_t *v, const na_measure_t *m) {
    if (v->latency > 0 && v->local_latency == v->local_latency) return m->excess;
    return m->weight > 0 && m->known > 0 ? m->remote * m->known * m->weight : 0;
}

static bool add_new_verdict(const na_flows_t *set, na_verdicts_t *v, uint32_t group,
                            uint32_t object, uint32_t skip) {
    if (!NA_ARRAY_RESERVE(v->items, v->room, v->count + 1u)) return false;
    na_verdict_t *to = &v->items[v->count];
    *to = (na_verdict_t){.group = group, .object = object, .apart = skip};
    const na_flow_group_t *g = &set->groups[group];
    bool good = object != NA_FLOWS_NONE
                    ? na_measure_make(set, v, &object, 1, NA_FLOWS_NONE, &to->measure)
                    : na_measure_make(set, v, g->members, g->objects, skip, &to->measure);
    if (!good) return false;
    if (to->measure.samples == 0) return true;
    v->cost += measure_cost(v, &to->measure);
    v->count++;
    return true;
}

/* An object with most of its group's samples is judged by itself, and the others together. */
static bool add_group(const na_flows_t *set, na_verdicts_t *v, uint32_t group) {
    const na_flow_group_t *g = &set->groups[group];
    if (g->samples == 0) return true;
    const na_flow_object_t *first = &set->objects[g->members[0]];
    /* One that is alone with its samples is judged as itself, whatever else there is. */
    uint32_t sampled = 1;
    while (sampled < g->objects && sampled < 3 && set->objects[g->members[sampled]].samples != 0)
        sampled++;
    bool split = sampled > 1 && first->samples >= na_limit(NA_T_SPLIT) * (double)g->samples;
    if (!split)
        return add_new_verdict(set, v, group, sampled == 1 ? g->members[0] : NA_FLOWS_NONE,
                               NA_FLOWS_NONE);
    if (!add_new_verdict(set, v, group, g->members[0], NA_FLOWS_NONE)) return false;
    if (g->samples == first->samples) return true;
    if (sampled == 2) return add_new_verdict(set, v, group, g->members[1], NA_FLOWS_NONE);
    return add_new_verdict(set, v, group, NA_FLOWS_NONE, g->members[0]);
}

/* Dearest first; then by accesses, then by number, so that the order never varies. */
static int verdicts_by_cost(const void *a, const void *b) {
    const na_verdict_t *x = a, *y = b;
    bool first = x->kind == NA_VERDICT_FALSE_SHARING; /* what it costs, nodes do not tell */
    if (first != (y->kind == NA_VERDICT_FALSE_SHARING)) return first ? -1 : 1;
    if (first && x->line != y->line) return x->line < y->line ? -1 : 1;
    if (x->cost_share != y->cost_share) return x->cost_share > y->cost_share ? -1 : 1;
    if (x->measure.weight != y->measure.weight)
        return x->measure.weight > y->measure.weight ? -1 : 1;
    if (x->group != y->group) return x->group < y->group ? -1 : 1;
    return x->object < y->object ? -1 : x->object > y->object;
}

bool na_verdicts_make(const na_flows_t *set, na_verdicts_t *v) {
    *v = (na_verdicts_t){.source = na_verdict_source(set), .local_latency = NAN, .remote = NAN};
    if (v->source == NA_FLOWS_NONE) return true;
    v->evidence = na_source_evidence(set, v->source);
    v->dram = (v->evidence & NA_EVIDENCE_LEVEL) != 0;
    bool good = sum_up_flows(set, v) && load_nodes(set, v) && na_lines_make(set, &v->lines) &&
                na_clusters_find(set, v->source, v->dram, &v->clusters);
    for (uint32_t g = 0; good && g < set->group_count; g++)
        good = add_group(set, v, g);
    if (!good) return false;
    uint32_t kept = 0;
    for (uint32_t i = 0; i < v->count; i++) {
        na_verdict_t *item = &v->items[i];
        item->cost_share = v->cost > 0 ? measure_cost(v, &item->measure) / v->cost : 0;
        if (item->cost_share < na_limit(NA_T_COST) &&
            item->measure.weight < na_limit(NA_T_COST) * v->weight)
            continue;
        na_rules_decide(set, v, item);
        v->items[kept++] = *item;
    }
    v->count = kept;
    if (!na_rules_lines(set, v)) return false;
    if (v->count != 0) qsort(v->items, v->count, sizeof *v->items, verdicts_by_cost);
    return true;
}

void na_verdicts_free(na_verdicts_t *v) {
    free(v->items);
    na_clusters_free(&v->clusters);
    na_lines_free(&v->lines);
    *v = (na_verdicts_t){0};
}
