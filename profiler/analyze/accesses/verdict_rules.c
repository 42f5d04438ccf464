/* verdict_rules.c - the rules of the verdicts, over what verdict_measure.c measured. See verdict.h.
 */
#include <math.h>
#include <string.h>

#include "profiler/analyze/accesses/verdict.h"

/* Certainty that accesses can give which caches may have answered (they cost less than they seem),
 * or which the kernel did not let be sampled when there were most. */
#define CACHED_MOST 0.9
/* What is not known is neither near nor far. */
#define UNKNOWN_FIT 0.5

typedef struct judging {
    const na_flows_t *set;
    const na_verdicts_t *verdicts;
    na_verdict_t *to;
    const na_measure_t *m;
    uint32_t evidence; /* of the source, and of these objects */
    double n, after;   /* independent samples: all, and after the hand-off */
} judging_t;

double na_share_chance(double value, double limit, double n, bool at_least) {
    double variance = limit * (1 - limit) / n;
    if (!(n > 0) || !(variance > 0)) return isnan(value) || at_least != (value >= limit) ? 0 : 1;
    double z = (value - limit) / sqrt(variance);
    return 0.5 * erfc((at_least ? -z : z) / sqrt(2));
}

/* A condition with a chance that was worked out elsewhere. */
static na_condition_t *add_condition(judging_t *j, na_verdict_kind_t kind, const char *what,
                                     na_threshold_t limit, double value, bool at_least, bool known,
                                     double chance) {
    na_rule_t *rule = &j->to->rules[kind];
    na_condition_t *c = &rule->conditions[rule->count++];
    double least = na_limit(limit);
    *c = (na_condition_t){.what = what,
                          .limit = limit,
                          .value = value,
                          .at_least = at_least,
                          .known = known && !isnan(value)};
    c->met = c->known && (at_least ? value >= least : value < least);
    c->chance = c->known ? chance : 0;
    return c;
}

double na_share_at_worst(const na_nprof_access_source_t *s, double share, bool least) {
    double all = (double)(s->lost + s->stored);
    double lost = all > 0 ? (double)s->lost / all : 0;
    return share * (1 - lost) + (least ? 0 : lost);
}

/* A condition on a share of `n` samples. */
static void demand_share(judging_t *j, na_verdict_kind_t kind, const char *what,
                         na_threshold_t limit, double value, bool at_least, double n) {
    bool known = n >= 1;
    const na_nprof_access_source_t *s = &j->set->sources[j->verdicts->source].of;
    double worst = na_share_at_worst(s, value, at_least);
    add_condition(j, kind, what, limit, value, at_least, known,
                  known ? na_share_chance(worst, na_limit(limit), n, at_least) : 0);
}

static void demand_remote(judging_t *j, na_verdict_kind_t kind) {
    demand_share(j, kind, "to other nodes", NA_T_REMOTE, j->m->remote, true, j->n * j->m->known);
}

static void close_rule(judging_t *j, na_verdict_kind_t kind) {
    na_rule_t *rule = &j->to->rules[kind];
    rule->lacks = na_verdict_needs[kind] & ~j->evidence;
    rule->holds = rule->lacks == 0;
    bool refuted = false, any = false;
    rule->chance = 1;
    rule->fit = 1;
    for (uint32_t i = 0; i < rule->count; i++) {
        const na_condition_t *c = &rule->conditions[i];
        rule->holds = rule->holds && c->met;
        refuted = refuted || (c->known && !c->met);
        if (!c->known) {
            if (UNKNOWN_FIT < rule->fit) rule->fit = UNKNOWN_FIT;
            continue;
        }
        any = true;
        if (c->chance < rule->chance) rule->chance = c->chance;
        double limit = na_limit(c->limit);
        double near = c->met        ? 1
                      : c->at_least ? c->value / limit
                                    : limit / (c->value > limit ? c->value : limit);
        if (near < rule->fit) rule->fit = near;
    }
    if (!any) rule->chance = rule->fit = 0;
    rule->open = !rule->holds && !refuted;
}

/* ---- the rules ---- */

static void one_thread(judging_t *j) {
    const na_measure_t *m = j->m;
    double own_remote = j->n * m->known * m->remote;
    for (int i = 0; i < 2; i++) {
        na_verdict_kind_t kind = i == 0 ? NA_VERDICT_MIGRATED : NA_VERDICT_OWN;
        demand_remote(j, kind);
        demand_share(j, kind, "by the thread that allocated it", NA_T_OWN, m->own, true, j->n);
        demand_share(j, kind,
                     i == 0 ? "of those to other nodes, made off the node where it was allocated"
                     : na_measure_by_policy(m)
                         ? "of those to other nodes, to memory that the program's own policy placed"
                         : "of those to other nodes, made on the node where it was allocated",
                     NA_T_STAYED, i == 0 ? m->moved : m->stayed, true, own_remote);
        close_rule(j, kind);
    }
}

static void one_other_node(judging_t *j) {
    const na_measure_t *m = j->m;
    demand_remote(j, NA_VERDICT_REMOTE);
    /* Each one's node: some lie there by chance, or parts where a policy spread them. */
    if ((m->instances > 1 || na_measure_by_policy(m)) && m->settled > 0) {
        demand_share(j, NA_VERDICT_REMOTE, "after the hand-off, from one node for each object",
                     NA_T_ONE_NODE, m->one_node + m->settled, true, j->after);
        demand_share(j, NA_VERDICT_REMOTE,
                     "after the hand-off, from that node, to another one's memory", NA_T_REMOTE,
                     m->one_node, true, j->after);
    } else {
        demand_share(j, NA_VERDICT_REMOTE,
                     "after the hand-off, from one node that is not the page's", NA_T_ONE_NODE,
                     m->one_node, true, j->after);
    }
    demand_share(j, NA_VERDICT_REMOTE,
                 "after the hand-off, by the thread that allocated it, from elsewhere",
                 NA_T_ALLOCATOR, m->allocator, false, j->after);
    close_rule(j, NA_VERDICT_REMOTE);
}

static void in_parts(judging_t *j) {
    const na_measure_t *m = j->m;
    double parted = isnan(m->parted) && m->after > 0 ? 0 : m->parted; /* of one page: no parts */
    demand_remote(j, NA_VERDICT_PARTITION);
    demand_share(j, NA_VERDICT_PARTITION, "from the node that most others to their page come from",
                 NA_T_PARTED, parted, true, j->after);
    demand_share(j, NA_VERDICT_PARTITION,
                 "in pages of other nodes than the one that has most of them", NA_T_SECOND,
                 m->part_second, true, j->after);
    demand_share(j, NA_VERDICT_PARTITION, "from that node, and to another node's memory",
                 NA_T_REMOTE, m->misplaced, true, j->after);
    close_rule(j, NA_VERDICT_PARTITION);
}

/* Not so: what is all nodes' can be copied or spread. Of one page or less this is no question. */
static void no_parts(judging_t *j, na_verdict_kind_t kind) {
    if (!isnan(j->m->parted))
        demand_share(j, kind, "from the node that most others to their page come from", NA_T_PARTED,
                     j->m->parted, false, j->after);
}

/* Of several nodes: this condition is of all rules below. */
static void several_nodes(judging_t *j, na_verdict_kind_t kind) {
    demand_remote(j, kind);
    demand_share(j, kind, "from the node that comes second", NA_T_SECOND, j->m->second, true,
                 j->after);
}

static bool has_windows(const judging_t *j) {
    return (j->evidence & NA_EVIDENCE_TURNS) != 0 && j->m->windows >= na_limit(NA_T_WINDOWS_LEAST);
}

/* Turns of half a window's draws, too long to be none, look like use at once in such windows. */
static bool tells_turns(const judging_t *j) {
    bool turns = 2 * j->m->run >= na_limit(NA_T_WINDOW_SAMPLES) &&
                 j->m->run_ns >= na_limit(NA_T_WINDOW_MS) * 1e6;
    return has_windows(j) && !turns;
}

static void at_once(judging_t *j, na_verdict_kind_t kind) {
    several_nodes(j, kind);
    double mixed = 1 - j->m->pure;
    add_condition(j, kind, "of windows of time, used by several nodes", NA_T_MIXED_WINDOWS, mixed,
                  true, tells_turns(j),
                  na_share_chance(mixed, na_limit(NA_T_MIXED_WINDOWS), j->m->windows, true));
}

static void cluster(judging_t *j) {
    const na_clusters_t *clusters = &j->verdicts->clusters;
    several_nodes(j, NA_VERDICT_CLUSTER);
    add_condition(j, NA_VERDICT_CLUSTER, "modularity of the groups of threads", NA_T_MODULARITY,
                  clusters->useful >= 2 ? clusters->modularity : 0, true, true,
                  clusters->apart ? 1 : 0);
    demand_share(j, NA_VERDICT_CLUSTER, "inside of one group of threads", NA_T_CLUSTER,
                 j->m->in_cluster, true, j->after);
    close_rule(j, NA_VERDICT_CLUSTER);
}

static void judge_turns(judging_t *j) {
    several_nodes(j, NA_VERDICT_ALTERNATING);
    add_condition(j, NA_VERDICT_ALTERNATING, "of windows of time, used by one node",
                  NA_T_PURE_WINDOWS, j->m->pure, true, has_windows(j),
                  na_share_chance(j->m->pure, na_limit(NA_T_PURE_WINDOWS), j->m->windows, true));
    close_rule(j, NA_VERDICT_ALTERNATING);
}

/* Chance that no node has more of it than `spread` allows. Of any node: that the one with most is
 * looked at, of few draws, must not make it look uneven. */
static double spread_chance(const judging_t *j) {
    const na_measure_t *m = j->m;
    double nodes = j->set->node_count, limit = na_limit(NA_T_SPREAD) / nodes, all = 0, beyond = 0;
    if (limit >= 1) return 1;
    for (uint32_t n = 0; n < j->set->node_count; n++)
        all += m->home[n];
    for (uint32_t n = 0; all > 0 && n < j->set->node_count; n++)
        beyond += na_share_chance(m->home[n] / all, limit, j->n, true);
    return beyond < 1 ? 1 - beyond : 0;
}

/* Lying everywhere helps what takes more than the few lines that each thread could have its own of.
 */
static bool has_lines(const judging_t *j) {
    return j->set->node_count >= 2 && j->m->lines > na_limit(NA_T_LINES);
}

static void reads_and_writes(judging_t *j) {
    const na_measure_t *m = j->m;
    double n = m->samples != 0 ? j->n * m->store_samples / m->samples : 0;
    at_once(j, NA_VERDICT_READ_MOSTLY);
    add_condition(j, NA_VERDICT_READ_MOSTLY, "writes after the hand-off", NA_T_STORES_READ_MOSTLY,
                  m->stores, false,
                  m->store_samples >= na_limit(NA_T_SAMPLES_STORES) ||
                      m->stores >= na_limit(NA_T_STORES_READ_MOSTLY),
                  na_share_chance(m->stores, na_limit(NA_T_STORES_READ_MOSTLY), n, false));
    no_parts(j, NA_VERDICT_READ_MOSTLY);
    close_rule(j, NA_VERDICT_READ_MOSTLY);
    at_once(j, NA_VERDICT_WRITE_SHARED);
    demand_share(j, NA_VERDICT_WRITE_SHARED, "writes after the hand-off", NA_T_STORES_SHARED,
                 m->stores, true, n);
    if (has_lines(j)) {
        add_condition(j, NA_VERDICT_WRITE_SHARED,
                      "of a node's fair share, on the node with most of it", NA_T_SPREAD, m->spread,
                      true, true, 1 - spread_chance(j));
        no_parts(j, NA_VERDICT_WRITE_SHARED);
    }
    close_rule(j, NA_VERDICT_WRITE_SHARED);
    na_rule_t *rule = &j->to->rules[NA_VERDICT_WRITE_SHARED];
    if (!na_measure_may_be_false_sharing(m) || (j->evidence & NA_EVIDENCE_WORDS) != 0) return;
    rule->open |= rule->holds;
    rule->holds = false;
    rule->lacks |= NA_EVIDENCE_WORDS;
}

/* It is used and written from everywhere, and lies everywhere. */
static void evenly(judging_t *j) {
    const na_measure_t *m = j->m;
    na_rule_t *rule = &j->to->rules[NA_VERDICT_EVEN];
    demand_remote(j, NA_VERDICT_EVEN);
    if (has_lines(j)) {
        add_condition(j, NA_VERDICT_EVEN, "of a node's fair share, on the node with most of it",
                      NA_T_SPREAD, m->spread, false, true, spread_chance(j));
        demand_share(j, NA_VERDICT_EVEN, "in the lines of the cache with most of it",
                     NA_T_LINES_SHARE, m->in_lines, false, j->after);
        double mixed = 1 - m->pure;
        add_condition(j, NA_VERDICT_EVEN, "of windows of time, used by several nodes",
                      NA_T_MIXED_WINDOWS, mixed, true, tells_turns(j),
                      na_share_chance(mixed, na_limit(NA_T_MIXED_WINDOWS), m->windows, true));
        demand_share(j, NA_VERDICT_EVEN, "writes after the hand-off", NA_T_STORES_READ_MOSTLY,
                     m->stores, true, j->after);
        no_parts(j, NA_VERDICT_EVEN);
    }
    close_rule(j, NA_VERDICT_EVEN);
    if (has_lines(j)) return;
    rule->holds = rule->open = false;
    rule->fit = 0;
}

static void saturated(judging_t *j) {
    const na_measure_t *m = j->m;
    const na_node_load_t *node = m->at >= 0 ? &j->verdicts->nodes[m->at] : NULL;
    double fair = j->set->node_count;
    double times = node != NULL ? node->share * fair : NAN;
    double part = node != NULL && node->weight > 0 ? m->home[m->at] / node->weight : NAN;
    double ratio = node != NULL ? node->latency_ratio : NAN;
    bool enough = node != NULL && node->latency_samples >= na_limit(NA_T_SAMPLES_LATENCY);
    demand_remote(j, NA_VERDICT_SATURATED);
    add_condition(j, NA_VERDICT_SATURATED, "its node's part of the fair share", NA_T_NODE_SHARE,
                  times, true, true,
                  fair > na_limit(NA_T_NODE_SHARE)
                      ? na_share_chance(times / fair, na_limit(NA_T_NODE_SHARE) / fair, j->n, true)
                      : 0);
    /* Latencies vary by a factor: the mean of n has an error of about that over the root of n. */
    add_condition(j, NA_VERDICT_SATURATED, "its node's latency against others as far away",
                  NA_T_NODE_LATENCY, ratio, true, enough,
                  enough ? 0.5 * erfc(-(ratio / na_limit(NA_T_NODE_LATENCY) - 1) *
                                      sqrt(node->latency_samples) / sqrt(2))
                         : 0);
    demand_share(j, NA_VERDICT_SATURATED, "of its node's accesses", NA_T_NODE_OBJECT, part, true,
                 j->n);
    close_rule(j, NA_VERDICT_SATURATED);
}

/* It lies where it is used; or, where nodes use pages of each other too, each page lies with the
 * node that uses it most. */
static void judge_nothing(judging_t *j) {
    const na_measure_t *m = j->m;
    na_rule_t *rule = &j->to->rules[NA_VERDICT_NOTHING];
    demand_share(j, NA_VERDICT_NOTHING, "to other nodes", NA_T_REMOTE, m->remote, false,
                 j->n * m->known);
    close_rule(j, NA_VERDICT_NOTHING);
    if (rule->holds || isnan(m->parted)) return;
    na_rule_t first = *rule;
    *rule = (na_rule_t){0};
    demand_share(j, NA_VERDICT_NOTHING, "from the node that most others to their page come from",
                 NA_T_PARTED, m->parted, true, j->after);
    demand_share(j, NA_VERDICT_NOTHING, "from that node, and to another node's memory", NA_T_REMOTE,
                 m->misplaced, false, j->after);
    close_rule(j, NA_VERDICT_NOTHING);
    if (!rule->holds) *rule = first;
}

/* ---- the decision ---- */

static void undecidable(judging_t *j, na_undecided_t why, uint32_t lacks, double needed) {
    j->to->kind = NA_VERDICT_UNDECIDABLE;
    j->to->undecided = why;
    j->to->lacks = lacks;
    j->to->needed = needed;
    j->to->chance = 0;
}

/* Samples of all that it takes until the rule's unknown conditions become known. */
static double samples_for(const judging_t *j, const na_rule_t *rule) {
    const na_measure_t *m = j->m;
    double needed = na_limit(NA_T_SAMPLES), factor = 1;
    for (uint32_t i = 0; i < rule->count; i++) {
        const na_condition_t *c = &rule->conditions[i];
        if (c->known) continue;
        double have = 0, want = 1;
        if (c->limit == NA_T_PURE_WINDOWS || c->limit == NA_T_MIXED_WINDOWS) {
            bool turns = has_windows(j); /* then a turn is to be as many windows as make it pure */
            have = turns ? m->run : j->n;
            want = na_limit(NA_T_WINDOW_SAMPLES) *
                   (turns ? 1 / (1 - na_limit(NA_T_PURE_WINDOWS)) : na_limit(NA_T_WINDOWS_LEAST));
        } else if (c->limit == NA_T_STORES_READ_MOSTLY) {
            have = m->store_samples;
            want = na_limit(NA_T_SAMPLES_STORES);
        }
        double more = want / (have > 1 ? have : 1);
        if (more > factor) factor = more;
    }
    double grown = ceil(m->samples * factor);
    return grown > needed ? grown : needed;
}

/* The open rule that is likeliest to hold, of those whose evidence the source gives, if any is. */
static const na_rule_t *best_open_rule(const judging_t *j) {
    const na_rule_t *best = NULL;
    for (int pass = 0; pass < 2 && best == NULL; pass++) {
        for (int kind = 0; kind < NA_VERDICT_NOTHING; kind++) {
            const na_rule_t *rule = &j->to->rules[kind];
            bool fits = rule->open && (pass == 0) == (rule->lacks == 0);
            /* More samples need not bring any of a node to compare with. */
            if (kind == NA_VERDICT_SATURATED && rule->lacks == 0) fits = false;
            if (fits && (best == NULL || rule->chance > best->chance)) best = rule;
        }
    }
    return best;
}

/* Samples that it takes to decide: for every hurdle that is known to be ahead, and what so few
 * draws may be wrong by, one standard deviation. */
static double samples_needed(const judging_t *j) {
    const na_measure_t *m = j->m;
    double draws = j->n > 1 ? j->n : 1;
    double needed = fmax(na_limit(NA_T_SAMPLES), m->samples * na_limit(NA_T_INDEPENDENT) / draws);
    const na_rule_t *best = m->remote >= na_limit(NA_T_REMOTE) ? best_open_rule(j) : NULL;
    if (best != NULL && best->lacks == 0) needed = fmax(needed, samples_for(j, best));
    if (na_measure_is_sparse(m)) needed = fmax(needed, na_limit(NA_T_SPARSE) * m->instances);
    return ceil(needed * (1 + 1 / sqrt(draws)));
}

static bool decide(judging_t *j) {
    na_verdict_t *v = j->to;
    const na_measure_t *m = j->m;
    uint32_t basic = (NA_EVIDENCE_SHARES | NA_EVIDENCE_NODES) & ~j->evidence;
    if (j->set->groups[v->group].kind == NA_FLOW_UNKNOWN) basic |= NA_EVIDENCE_ALLOCATION;
    if (basic != 0) {
        undecidable(j, NA_UNDECIDED_SOURCE, basic, 0);
        return false;
    }
    if (m->samples < na_limit(NA_T_SAMPLES) || j->n < na_limit(NA_T_INDEPENDENT)) {
        undecidable(j, NA_UNDECIDED_SAMPLES, 0, samples_needed(j));
        return false;
    }
    if (m->remote < na_limit(NA_T_REMOTE)) {
        v->kind = NA_VERDICT_NOTHING;
        return true;
    }
    for (int kind = 0; kind <= NA_VERDICT_NOTHING; kind++) {
        /* What is spread already is as good as it gets, before it is called shared. */
        if (kind == NA_VERDICT_SATURATED && v->rules[NA_VERDICT_EVEN].holds) kind = NA_VERDICT_EVEN;
        if (!v->rules[kind].holds) continue;
        v->kind = (na_verdict_kind_t)kind;
        return true;
    }
    /* What one thread uses is nothing of what is said of several. */
    if (v->rules[NA_VERDICT_OWN].open && v->rules[NA_VERDICT_OWN].lacks != 0) {
        undecidable(j, NA_UNDECIDED_SOURCE, v->rules[NA_VERDICT_OWN].lacks, 0);
        return false;
    }
    const na_rule_t *best = best_open_rule(j);
    if (best == NULL)
        undecidable(j, NA_UNDECIDED_BETWEEN, 0, 0);
    else if (best->lacks != 0)
        undecidable(j, NA_UNDECIDED_SOURCE, best->lacks, 0);
    else
        undecidable(j, NA_UNDECIDED_SAMPLES, 0, samples_needed(j));
    return false;
}

/* The two other rules that are nearest: those that hold, then the best fitting. */
static void choose_runners(na_verdict_t *v) {
    v->runners[0] = v->runners[1] = NA_VERDICT_UNDECIDABLE;
    for (int r = 0; r < 2; r++) {
        double best = -1;
        for (int kind = 0; kind <= NA_VERDICT_NOTHING; kind++) {
            if (kind == (int)v->kind || (r == 1 && kind == (int)v->runners[0])) continue;
            const na_rule_t *rule = &v->rules[kind];
            double score = (rule->holds ? 2 : 0) + rule->fit - (rule->lacks != 0 ? 0.25 : 0);
            if (score <= best) continue;
            best = score;
            v->runners[r] = (na_verdict_kind_t)kind;
        }
    }
}

static void estimate_gain(const judging_t *j) {
    na_verdict_t *v = j->to;
    const na_measure_t *m = j->m;
    const na_verdicts_t *all = j->verdicts;
    double away = m->remote * m->known * m->weight, part = NAN;
    switch (v->kind) {
    case NA_VERDICT_MIGRATED:
    case NA_VERDICT_OWN:
    case NA_VERDICT_READ_MOSTLY:
        part = 1;
        break;
    case NA_VERDICT_REMOTE: /* what the node uses becomes local, what others used there remote */
        part = m->instances > 1 && away > 0 ? m->one_node * m->after / away
               : away > 0 && m->to >= 0 ? (m->from[m->to] - (m->known * m->weight - away)) / away
                                        : 0;
        break;
    case NA_VERDICT_PARTITION:
        part = away > 0 ? m->misplaced * m->after / away : 0;
        break;
    case NA_VERDICT_CLUSTER:
        part = m->in_cluster;
        break;
    case NA_VERDICT_ALTERNATING:
        part = m->pure;
        break;
    case NA_VERDICT_SATURATED:
        if (all->latency > 0 && m->at >= 0)
            v->gain_latency =
                m->latency * m->weight * (1 - 1 / all->nodes[m->at].latency_ratio) / all->latency;
        return;
    default:
        return;
    }
    if (part < 0) part = 0;
    if (part > 1) part = 1;
    if (all->weight > 0) v->gain_remote = part * away / all->weight;
    if (all->latency > 0) v->gain_latency = part * m->excess / all->latency;
}

void na_rules_decide(const na_flows_t *set, const na_verdicts_t *verdicts, na_verdict_t *v) {
    judging_t j = {.set = set, .verdicts = verdicts, .to = v, .m = &v->measure};
    const na_measure_t *m = j.m;
    j.evidence = verdicts->evidence & ~(NA_EVIDENCE_NODES | NA_EVIDENCE_ALLOCATION);
    if (m->known >= na_limit(NA_T_KNOWN)) j.evidence |= NA_EVIDENCE_NODES;
    na_flow_kind_t kind = set->groups[v->group].kind;
    if (kind == NA_FLOW_STACK) j.evidence |= NA_EVIDENCE_ALLOCATION;
    for (uint32_t i = 0; i < set->groups[v->group].objects; i++) {
        uint32_t object = set->groups[v->group].members[i];
        if (v->object != NA_FLOWS_NONE && object != v->object) continue;
        const na_flow_object_t *o = &set->objects[object];
        bool placed = o->node >= 0 || o->own_policy || o->kind > NA_FLOW_POOL;
        if (o->thread != NA_FLOWS_NONE && placed) j.evidence |= NA_EVIDENCE_ALLOCATION;
        break;
    }
    j.n = m->independent;
    j.after = m->weight > 0 ? j.n * m->after / m->weight : 0;
    memset(v->rules, 0, sizeof v->rules);
    v->gain_remote = v->gain_latency = NAN;
    v->chance = v->needed = 0;
    v->undecided = NA_UNDECIDED_NOT;
    one_thread(&j);
    one_other_node(&j);
    in_parts(&j);
    cluster(&j);
    judge_turns(&j);
    reads_and_writes(&j);
    evenly(&j);
    saturated(&j);
    judge_nothing(&j);
    if (decide(&j)) {
        v->chance = v->rules[v->kind].chance;
        bool paused = set->sources[verdicts->source].of.throttled != 0;
        if (((j.evidence & NA_EVIDENCE_LEVEL) == 0 || paused) && v->chance > CACHED_MOST)
            v->chance = CACHED_MOST;
        estimate_gain(&j);
    }
    choose_runners(v);
}
