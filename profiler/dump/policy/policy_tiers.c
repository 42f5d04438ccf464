/* policy_tiers.c - see policy_tiers.h. */
#include "profiler/dump/policy/policy_tiers.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#include "profiler/dump/accesses/access_view.h"
#include "profiler/dump/ui/text.h"
#include "profiler/format/reader/reader_access.h"

#define TINY 0.001 /* share of bytes and of accesses below which a site has no say in rules */

/* ---- sums ---- */

/* Of one site (na_policy_tiers_t.sites) while profiles are summed up. */
typedef struct sums {
    double shares, squares; /* over the profiles: shares, and their variances */
    double bytes;           /* of the profile that is being summed up */
} sums_t;

/* Numbers sites: runs with the same frames, which lie side by side. */
static bool number_sites(na_policy_work_t *w) {
    na_policy_tiers_t *t = &w->tiers;
    t->sites = calloc(w->run_count + 1, sizeof *t->sites);
    if (t->sites == NULL) return false;
    if (w->run_count != 0) qsort(w->runs, w->run_count, sizeof *w->runs, na_judged_sites_order);
    for (size_t i = 0; i < w->run_count; i++) {
        const na_judged_site_t *run = &w->runs[i];
        na_policy_profile_t *p = &w->profiles[run->source];
        if (i == 0 || !na_judged_same_frames(&w->runs[i - 1], run)) t->count++;
        p->tier[run->item] = t->count;
        /* Nothing was counted of it, and so its bytes at the peak are not known. */
        t->sites[t->count - 1].fixed |= run->depth == 0 || na_policy_sum(p, run->item) == NULL;
    }
    return true;
}

static void sum_bytes(const na_policy_work_t *w, uint32_t source, sums_t *sums) {
    const na_policy_profile_t *p = &w->profiles[source];
    const na_policy_tiers_t *t = &w->tiers;
    for (uint32_t i = 0; i < t->count; i++)
        sums[i].bytes = 0;
    for (size_t i = 0; i < w->run_count; i++) {
        const na_judged_site_t *run = &w->runs[i];
        if (run->source != source) continue;
        const na_counters_t *sum = na_policy_sum(p, run->item);
        double bytes = sum == NULL ? run->bytes : (double)sum->peak_bytes;
        if (bytes > 0) sums[p->tier[run->item] - 1].bytes += bytes;
    }
    for (uint32_t i = 0; i < t->count; i++)
        t->sites[i].bytes = fmax(t->sites[i].bytes, sums[i].bytes);
}

/* Near memory, as a share of what accesses went to; not a number: all nodes have processors. */
static double near_share_of(const na_flows_t *set, const double *homes) {
    double near = 0, all = 0;
    bool far = false;
    for (uint32_t n = 0; n < set->node_count; n++) {
        all += homes[n];
        if (set->nodes[n].cpus != 0)
            near += homes[n];
        else
            far |= set->nodes[n].memory_bytes != 0;
    }
    return far && all > 0 ? near / all : NAN;
}

typedef struct profile_sum {
    double weight, draws, pooled;
    uint64_t samples;
    double homes[NA_FLOWS_NODES];
} profile_sum_t;

/* One site of one profile; squares: of the weights of independent samples. */
typedef struct met {
    double weight, squares;
} met_t;

static bool sum_groups(const na_policy_profile_t *p, profile_sum_t *all, met_t *met) {
    uint32_t stacks = na_reader_stacks(p->in.reader).count;
    uint32_t *site = calloc((size_t)stacks + 1, sizeof *site); /* by stack, plus 1 */
    if (site == NULL) return false;
    for (size_t i = 0; i < na_policy_sites(p); i++)
        if (na_policy_site(p, i) < stacks) site[na_policy_site(p, i)] = p->tier[i];
    bool good = true;
    double squares = 0;
    for (uint32_t g = 0; good && g < p->flows.group_count; g++) {
        const na_flow_group_t *group = &p->flows.groups[g];
        na_measure_t m;
        if (group->samples == 0 || (group->kind != NA_FLOW_HEAP && group->kind != NA_FLOW_POOL))
            continue;
        good = na_measure_make(&p->flows, &p->verdicts, group->members, group->objects,
                               NA_FLOWS_NONE, &m);
        if (!good || !(m.weight > 0) || !(m.independent > 0)) continue;
        if (group->kind == NA_FLOW_POOL) {
            all->pooled += m.weight;
            continue;
        }
        all->weight += m.weight;
        all->samples += m.samples;
        squares += m.weight * m.weight / m.independent;
        for (uint32_t n = 0; n < p->flows.node_count; n++)
            all->homes[n] += m.home[n];
        uint32_t number = group->site != 0 && group->site < stacks ? site[group->site] : 0;
        if (number == 0) continue;
        met[number - 1].weight += m.weight;
        met[number - 1].squares += m.weight * m.weight / m.independent;
    }
    free(site);
    all->draws = squares > 0 ? all->weight * all->weight / squares : 0;
    return good;
}

/* Why accesses of a profile say nothing of how often memory is used; NULL: they do. */
static const char *useless(const na_policy_profile_t *p) {
    if (!p->accesses || p->verdicts.source == NA_FLOWS_NONE)
        return "the profile has no accesses (NUMALLOC_PROFILE=sites,access=auto)";
    if (p->flows.sources[p->verdicts.source].of.source == NA_NPROF_SOURCE_NUMA)
        return "NUMA hinting faults see only the first access to a page after each scan";
    if ((p->verdicts.evidence & NA_EVIDENCE_SHARES) == 0)
        return "its samples are not as frequent as accesses";
    return NULL;
}

static bool sum_profile(na_policy_work_t *w, uint32_t source, sums_t *sums, double *homes) {
    const na_policy_profile_t *p = &w->profiles[source];
    na_policy_tiers_t *t = &w->tiers;
    profile_sum_t all = {0};
    met_t *met = calloc((size_t)t->count + 1, sizeof *met);
    bool good = met != NULL && sum_groups(p, &all, met);
    for (uint32_t i = 0; good && i < t->count && all.weight > 0; i++) {
        if (!(met[i].weight > 0)) continue;
        sums[i].shares += met[i].weight / all.weight;
        sums[i].squares += met[i].squares / (all.weight * all.weight);
    }
    free(met);
    t->samples += all.samples;
    t->draws += all.draws;
    if (all.weight + all.pooled > 0)
        t->pooled = fmax(t->pooled, all.pooled / (all.weight + all.pooled));
    for (uint32_t n = 0; n < NA_FLOWS_NODES; n++)
        homes[n] += all.weight > 0 ? all.homes[n] / all.weight : 0;
    if (t->source == NULL)
        t->source = na_access_source_name(p->flows.sources[p->verdicts.source].of.source);
    return good;
}

static bool sum_profiles(na_policy_work_t *w, sums_t *sums) {
    na_policy_tiers_t *t = &w->tiers;
    uint32_t useful = 0;
    double homes[NA_FLOWS_NODES] = {0};
    const na_policy_profile_t *last = NULL;
    for (uint32_t i = 0; i < w->count; i++) {
        const na_policy_profile_t *p = &w->profiles[i];
        t->peak = fmax(t->peak, (double)p->in.sites.total.peak_bytes);
        sum_bytes(w, i, sums);
        const char *why = useless(p);
        if (why != NULL) {
            t->why_not = why;
            continue;
        }
        if (!sum_profile(w, i, sums, homes)) return false;
        last = p;
        useful++;
    }
    if (useful == 0) return true;
    t->why_not = t->peak > 0 ? NULL : "the profile has no blocks with bytes at the peak";
    t->was_near = near_share_of(&last->flows, homes);
    for (uint32_t i = 0; i < t->count; i++) {
        na_tier_site_t *s = &t->sites[i];
        s->share = sums[i].shares / useful;
        s->draws = sums[i].squares > 0 ? sums[i].shares * sums[i].shares / sums[i].squares : 0;
    }
    return true;
}

/* ---- verdicts ---- */

static uint32_t verdict_of(const na_policy_tiers_t *t, const na_tier_site_t *s) {
    switch (s->tier) {
    case NA_TIER_NEAR:
        return na_place_value(NA_POLICY_NEAR, NA_POLICY_NO_NODE);
    case NA_TIER_FAR:
        return na_place_value(NA_POLICY_FAR, NA_POLICY_NO_NODE);
    default:
        return s->bytes >= TINY * t->found.bytes || s->share >= TINY ? NA_VERDICT_ALONE
                                                                     : NA_VERDICT_ANY;
    }
}

bool na_policy_tiers_find(na_policy_work_t *w) {
    na_policy_tiers_t *t = &w->tiers;
    sums_t *sums = calloc(w->run_count + 1, sizeof *sums);
    t->was_near = NAN;
    bool good = sums != NULL && number_sites(w) && sum_profiles(w, sums);
    free(sums);
    if (!good) return false;
    t->budget = w->options.policy.near.bytes > 0 ? w->options.policy.near.bytes
                                                 : w->options.policy.near.share * t->peak;
    if (t->why_not == NULL &&
        !na_tiers_divide(t->sites, t->count, t->budget, t->draws, w->least, &t->found))
        return false;
    for (size_t i = 0; i < w->run_count && w->kinds[NA_RULE_PLACE]; i++) {
        na_judged_site_t *run = &w->runs[i];
        uint32_t number = w->profiles[run->source].tier[run->item];
        run->verdict[NA_RULE_PLACE] = t->why_not != NULL || t->found.say != NA_TIERS_DIVIDED
                                          ? NA_VERDICT_ANY
                                          : verdict_of(t, &t->sites[number - 1]);
    }
    return true;
}

bool na_policy_tiers_rule(na_policy_work_t *w) {
    na_policy_tiers_t *t = &w->tiers;
    t->rule = calloc(w->run_count + 1, sizeof *t->rule);
    if (t->rule == NULL) return false;
    /* A rule comes before those that begin with it, which count where they apply. */
    for (size_t r = 0; r < w->rules.count; r++)
        for (size_t i = 0; i < w->rules.items[r].count; i++)
            t->rule[w->rules.items[r].first + i] = r + 1;
    return true;
}

/* ---- what is said ---- */

static uint32_t number_of(const na_policy_work_t *w, size_t run) {
    return w->profiles[w->runs[run].source].tier[w->runs[run].item];
}

/* The first run of each site stands for it. */
static bool is_first_run(const na_policy_work_t *w, size_t run) {
    return run == 0 || number_of(w, run - 1) != number_of(w, run);
}

static na_policy_place_t place_of_run(const na_policy_work_t *w, size_t run) {
    size_t rule = w->tiers.rule[run];
    return rule == 0 ? NA_POLICY_PLACE_NONE
                     : na_place_of(w->rules.items[rule - 1].value[NA_RULE_PLACE]);
}

na_tier_evidence_t na_policy_tier_evidence(const na_policy_work_t *w, const na_site_rule_t *rule) {
    na_tier_evidence_t e = {.chance = 1};
    double largest = 0;
    for (size_t i = rule->first; i < rule->first + rule->count; i++) {
        if (w->tiers.rule[i] != (size_t)(rule - w->rules.items) + 1 || !is_first_run(w, i))
            continue;
        const na_tier_site_t *s = &w->tiers.sites[number_of(w, i) - 1];
        e.bytes += s->bytes;
        e.share += s->share;
        e.draws += s->draws;
        if (s->tier == NA_TIER_ALONE) continue;
        e.chance = fmin(e.chance, s->chance);
        e.too_large |= s->too_large;
        if (s->bytes > largest) e.left = s->left;
        largest = fmax(largest, s->bytes);
    }
    return e;
}

double na_policy_tiers_alone(const na_policy_work_t *w) {
    double bytes = 0;
    for (size_t i = 0; i < w->run_count; i++)
        if (is_first_run(w, i) && place_of_run(w, i) == NA_POLICY_PLACE_NONE)
            bytes += w->tiers.sites[number_of(w, i) - 1].bytes;
    return bytes;
}

static void put_why_not(const na_policy_work_t *w) {
    const na_policy_tiers_t *t = &w->tiers;
    char draws[NA_TEXT], bytes[NA_TEXT];
    printf("# no rules for near and far memory: ");
    if (t->why_not != NULL)
        printf("%s\n", t->why_not);
    else if (t->found.say == NA_TIERS_ALL_FIT)
        printf("all blocks fit, with %s at the peak\n", na_text_bytes(bytes, t->found.bytes));
    else
        printf("the accesses to blocks are worth %s independent samples,\n#   and it takes %.0f: a "
               "longer run, or more samples a second\n",
               na_text_count(draws, floor(t->draws)), NA_TIER_DRAWS);
}

void na_policy_put_tiers(const na_policy_work_t *w) {
    const na_policy_tiers_t *t = &w->tiers;
    char budget[NA_TEXT], near[NA_TEXT], alone[NA_TEXT], far[NA_TEXT], samples[NA_TEXT];
    char draws[NA_TEXT];
    printf("# near memory: %s, %.1f %% of the peak\n", na_text_bytes(budget, t->budget),
           t->peak > 0 ? 100 * t->budget / t->peak : 0);
    if (t->why_not != NULL || t->found.say != NA_TIERS_DIVIDED) {
        put_why_not(w);
        return;
    }
    double bytes[3] = {0}, share = 0; /* bytes: alone, near, far */
    double met = 0;
    for (size_t i = 0; i < w->run_count; i++) {
        if (!is_first_run(w, i)) continue;
        const na_tier_site_t *s = &t->sites[number_of(w, i) - 1];
        na_policy_place_t place = place_of_run(w, i);
        na_tier_t tier = place == NA_POLICY_NEAR  ? NA_TIER_NEAR
                         : place == NA_POLICY_FAR ? NA_TIER_FAR
                                                  : NA_TIER_ALONE;
        bytes[tier] += s->bytes;
        met += s->share;
        if (tier != NA_TIER_FAR) share += s->share;
    }
    /* Of blocks whose sites are not known nothing is moved. */
    share += fmax(0, 1 - met);
    printf("# at the peak near by rules: %s; left alone, and near: %s; far: %s\n",
           na_text_bytes(near, bytes[NA_TIER_NEAR]), na_text_bytes(alone, bytes[NA_TIER_ALONE]),
           na_text_bytes(far, bytes[NA_TIER_FAR]));
    printf("# expected: %.1f %% of the accesses to blocks are near", 100 * share);
    if (!isnan(t->was_near)) printf(", %.1f %% were", 100 * t->was_near);
    printf(" (%s samples by %s, worth %s independent ones)\n",
           na_text_count(samples, (double)t->samples), t->source,
           na_text_count(draws, floor(t->draws)));
    if (bytes[NA_TIER_ALONE] > t->budget)
        printf("# what is left alone is more than the near memory: a smaller --min-gain moves more "
               "of it\n");
    if (t->pooled >= 0.01)
        printf("# %.1f %% of all accesses are to blocks of announced pools: those say nothing of "
               "the pools' memory,\n#   which counts as if they were none\n",
               100 * t->pooled);
}

void na_policy_put_tier(const na_policy_work_t *w, const na_site_rule_t *rule,
                        const na_tier_evidence_t *e, double *near) {
    const na_policy_tiers_t *t = &w->tiers;
    bool is_near = na_place_of(rule->value[NA_RULE_PLACE]) == NA_POLICY_NEAR;
    char bytes[NA_TEXT], taken[NA_TEXT], budget[NA_TEXT], draws[NA_TEXT];
    double mean = e->bytes > 0 && t->found.bytes > 0 ? e->bytes / t->found.bytes : 0;
    printf("#   place: %.2f %% of the accesses to blocks, ", 100 * e->share);
    double count = fmax(1, floor(e->draws));
    if (e->draws > 0)
        printf("%.2f times the mean for each byte (%s independent sample%s)\n",
               mean > 0 ? e->share / mean : 0, na_text_count(draws, count), count > 1 ? "s" : "");
    else
        printf("no sample met any\n");
    na_text_bytes(bytes, e->bytes);
    na_text_bytes(budget, t->budget);
    if (is_near) {
        *near += e->bytes;
        printf("#     expected: near, %s at the peak; with it %s of %s are taken; confidence %s",
               bytes, na_text_bytes(taken, *near), budget, na_access_confidence(e->chance));
    } else if (e->too_large) {
        printf("#     expected: far, %s at the peak, which do not fit into the %s that were left; "
               "confidence %s",
               bytes, na_text_bytes(taken, e->left), na_access_confidence(e->chance));
    } else {
        printf("#     expected: far, %s less at the peak; confidence %s", bytes,
               na_access_confidence(e->chance));
    }
}
