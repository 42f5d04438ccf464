/* place_verdicts.c - see place_verdicts.h. */
#include "profiler/analyze/policy/place_verdicts.h"

#include <math.h>

#define SHARES_PAGES 32768 /* blocks up to this size do (alloc/core/central/block.h) */
#define PAGE         4096.0
#define BY_TOUCH     (UINT64_C(2) << 20) /* from this size on malloc binds nothing (large.h) */
#define SOME         0.1  /* share of a site's accesses that a rule must not make worse */
#define MOVE_S       1e-7 /* a line from one processor to another */

static na_place_t no_place(const char *why_not) {
    return (na_place_t){.node = NA_POLICY_NO_NODE, .why_not = why_not};
}

static na_place_t at(na_policy_place_t place) {
    return (na_place_t){.place = place, .node = NA_POLICY_NO_NODE};
}

static bool has_one_user(const na_flows_t *set, const na_verdict_t *v) {
    const na_measure_t *m = &v->measure;
    double all = 0;
    for (uint32_t n = 0; n < set->node_count; n++)
        all += m->from[n];
    return m->to >= 0 && m->from[m->to] >= na_limit(NA_T_ONE_NODE) * all;
}

/* On the node that uses it. */
static na_place_t at_user(const na_flows_t *set, const na_verdict_t *v, na_policy_place_t place) {
    na_place_t p = at(place);
    p.node = (uint16_t)set->nodes[v->measure.to].kernel_id;
    return p;
}

/* A rule is for all blocks of the site: those of its other verdict that lie right, with another
 * user, would no longer. */
static bool others_lie_right(const na_verdicts_t *all, const na_verdict_t *v) {
    for (uint32_t i = 0; i < all->count; i++) {
        const na_verdict_t *o = &all->items[i];
        if (o->group == v->group && o->kind == NA_VERDICT_NOTHING &&
            o->measure.to != v->measure.to &&
            o->measure.weight >= SOME * (o->measure.weight + v->measure.weight))
            return true;
    }
    return false;
}

static na_place_t spread_place(const na_flow_group_t *g) {
    return (double)g->bytes / PAGE >= na_limit(NA_T_PAGES)
               ? at(NA_POLICY_INTERLEAVE)
               : no_place("all of them are too little to interleave");
}

na_place_t na_place_for(const na_flows_t *set, const na_verdicts_t *verdicts,
                        const na_verdict_t *v) {
    const na_flow_group_t *g = &set->groups[v->group];
    if (v->kind == NA_VERDICT_NOTHING || v->kind == NA_VERDICT_EVEN) return no_place(NULL);
    if (v->kind == NA_VERDICT_UNDECIDABLE) return no_place("too little is known of it");
    if (g->kind != NA_FLOW_HEAP || g->site == 0)
        return no_place("no call of malloc that is known made it");
    if (na_measure_by_policy(&v->measure) && v->kind == NA_VERDICT_OWN)
        return no_place("the program's own memory policy places it (numactl, set_mempolicy)");
    if (v->kind != NA_VERDICT_FALSE_SHARING && others_lie_right(verdicts, v))
        return no_place("others of its blocks lie right, and are used from elsewhere");
    switch (v->kind) {
    case NA_VERDICT_REMOTE:
        return has_one_user(set, v) ? at_user(set, v, NA_POLICY_CONSUMER)
                                    : no_place("each of its blocks is used from another node");
    case NA_VERDICT_OWN:
        if (has_one_user(set, v)) return at_user(set, v, NA_POLICY_NODE);
        return no_place(g->bytes_most >= BY_TOUCH
                            ? "it lies where it is first written: let the thread that uses it do "
                              "that, or allocate it with numalloc_alloc_local"
                            : "malloc meant it for its thread's node: that had no memory left");
    case NA_VERDICT_MIGRATED:
        return has_one_user(set, v)
                   ? at_user(set, v, NA_POLICY_NODE)
                   : no_place("its threads have moved, each to another node: pin them");
    case NA_VERDICT_PARTITION:
        if (g->bytes_most >= BY_TOUCH)
            return no_place("it lies where it is first written already: let each thread write its "
                            "own part first");
        if (v->measure.after < v->measure.weight)
            return no_place("the thread that allocates it uses it first, and has all of its pages");
        return g->bytes_most > SHARES_PAGES
                   ? at(NA_POLICY_FIRST_TOUCH)
                   : no_place("its blocks are smaller than the pages that could lie elsewhere");
    case NA_VERDICT_SATURATED:
        return spread_place(g);
    case NA_VERDICT_WRITE_SHARED:
        if (!na_measure_shares_lines(&v->measure))
            return no_place("its threads use lines of their own in it: let each allocate its part");
        return v->measure.lines <= na_limit(NA_T_LINES)
                   ? no_place("a few cache lines take most of it: divide it in the source")
                   : spread_place(g);
    case NA_VERDICT_CLUSTER:
        return no_place("groups of threads share it: pin each group to a node");
    case NA_VERDICT_ALTERNATING:
        return no_place("nodes use it in turn: run its threads on one node");
    case NA_VERDICT_READ_MOSTLY:
        return no_place("several nodes read it: a copy for each (numalloc_replicate)");
    case NA_VERDICT_FALSE_SHARING:
        if (verdicts->lines.items[v->line].objects < 2)
            return no_place("parts of one block share a line: separate them in the source");
        return (na_place_t){.node = NA_POLICY_NO_NODE, .own_lines = true};
    default:
        return no_place(NULL);
    }
}

/* All of it if one node has all, nothing if each node has its part. */
static double spread_gain(const na_flows_t *set, const na_verdicts_t *verdicts,
                          const na_verdict_t *v) {
    const na_measure_t *m = &v->measure;
    double nodes = set->node_count;
    return m->known * m->weight / verdicts->weight * (m->spread - 1) / (nodes - 1);
}

double na_place_gain(const na_flows_t *set, const na_verdicts_t *verdicts, const na_verdict_t *v) {
    if (v->kind == NA_VERDICT_FALSE_SHARING) {
        const na_line_t *line = &verdicts->lines.items[v->line];
        double moves = line->rate < 2 * line->others ? line->rate : 2 * line->others;
        double share = moves * v->line_count * MOVE_S;
        return share < 1 ? share : 1;
    }
    if (v->kind == NA_VERDICT_WRITE_SHARED || v->kind == NA_VERDICT_SATURATED)
        return spread_gain(set, verdicts, v);
    if (!isnan(v->gain_remote)) return v->gain_remote;
    return isnan(verdicts->remote) ? 0 : v->cost_share * verdicts->remote;
}

na_bounds_t na_place_promise(const na_flows_t *set, const na_verdicts_t *verdicts,
                             const na_verdict_t *v) {
    const na_nprof_access_source_t *s = &set->sources[verdicts->source].of;
    na_place_t place = na_place_for(set, verdicts, v);
    double gain = 0, independent = 0, weight = 0;
    for (uint32_t i = 0; i < verdicts->count; i++) { /* a rule is for all blocks of the site */
        const na_verdict_t *o = &verdicts->items[i];
        if (o->group != v->group) continue;
        na_place_t other = na_place_for(set, verdicts, o);
        if (other.place != place.place || other.node != place.node) continue;
        gain += na_place_gain(set, verdicts, o);
        independent += o->measure.independent;
        weight += o->measure.weight;
    }
    /* As many of all accesses as of the site's, by weight. */
    na_bounds_t b = na_score_interval(gain < 1 ? gain : 1, independent * verdicts->weight / weight);
    if (v->kind == NA_VERDICT_PARTITION) b.low = 0; /* who fills it is done before many samples */
    return (na_bounds_t){na_share_at_worst(s, b.low, true) * (1 - 1.0 / NA_POLICY_CONTROL),
                         na_share_at_worst(s, b.high, false)};
}
