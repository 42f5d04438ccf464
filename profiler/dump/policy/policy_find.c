/* policy_find.c - see policy_find.h. */
#include "profiler/dump/policy/policy_find.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "profiler/analyze/blocks/findings.h"
#include "profiler/containers/array.h"
#include "profiler/containers/path.h"
#include "profiler/dump/policy/policy_tiers.h"

#define TINY     0.001 /* share of all bytes and blocks below which a site has no say */
#define DRAWN    10u   /* samples behind what is said of a site's blocks */
#define OF_LIFE  0.01  /* share of what all long-lived blocks keep, below which it is no matter */
#define GROWN    2.0   /* times that a block grows, at least, on average */
#define GROWN_TO 8.0   /* the largest block against the mean one: no more is reserved in vain */
#define IN_VAIN  0.01  /* share of memory that is reserved and never used, at most */
#define RESERVED (UINT64_C(1) << 20)

const char na_rule_kind_names[NA_RULE_KINDS][8] = {
    [NA_RULE_PLACE] = "place",     [NA_RULE_LINES] = "lines", [NA_RULE_LIFE] = "life",
    [NA_RULE_RESERVE] = "reserve", [NA_RULE_GROUP] = "group",
};

/* ---- modules and runs ---- */

/* Can a policy name it? Quotes take blanks, but nothing takes quotes. */
static bool can_be_named(const na_nprof_module_t *m) {
    const char *name = na_base_name(m->path);
    if ((m->flags & NA_NPROF_MODULE_VALID) == 0) return false;
    if ((m->flags & (NA_NPROF_MODULE_CUT | NA_NPROF_MODULE_VDSO | NA_NPROF_MODULE_SELF)) != 0)
        return false;
    if (*name == 0) return false;
    for (const char *c = name; *c != 0; c++)
        if ((unsigned char)*c < ' ' || *c == '"' || *c == '#') return false;
    return true;
}

static bool add_elf(na_policy_work_t *w, const na_nprof_module_t *m, uint32_t *number) {
    const char *name = na_base_name(m->path);
    bool main = (m->flags & NA_NPROF_MODULE_MAIN) != 0;
    for (uint32_t i = 0; i < w->elf_count; i++) {
        na_policy_elf_t *e = &w->elfs[i];
        if (strcmp(e->name, name) != 0 || e->build_id_size != m->build_id_size ||
            memcmp(e->build_id, m->build_id, m->build_id_size) != 0)
            continue;
        e->main |= main;
        *number = i + 1;
        return true;
    }
    if (!NA_ARRAY_RESERVE(w->elfs, w->elf_room, w->elf_count + 1u)) return false;
    w->elfs[w->elf_count] = (na_policy_elf_t){name, m->build_id, m->build_id_size, main};
    *number = ++w->elf_count;
    return true;
}

static bool add_elfs(na_policy_work_t *w, na_policy_profile_t *p) {
    na_module_table_t modules = na_reader_modules(p->in.reader);
    p->module = calloc((size_t)modules.count + 1, sizeof *p->module);
    if (p->module == NULL) return false;
    for (uint32_t i = 1; i < modules.count; i++)
        if (can_be_named(&modules.items[i]) && !add_elf(w, &modules.items[i], &p->module[i]))
            return false;
    return true;
}

static void fill_frames(const na_policy_profile_t *p, uint32_t site, na_judged_site_t *run) {
    na_stack_table_t stacks = na_reader_stacks(p->in.reader);
    na_module_table_t modules = na_reader_modules(p->in.reader);
    for (uint32_t node = site; node > NA_NPROF_ROOT && node < stacks.count;
         node = stacks.items[node].parent) {
        const na_nprof_stack_t *s = &stacks.items[node];
        uint32_t module = na_symbols_module(p->in.symbols, node);
        if (run->depth == NA_JUDGED_FRAMES || (s->flags & NA_NPROF_STACK_EXACT) != 0 ||
            module >= modules.count || p->module[module] == 0)
            return;
        run->frames[run->depth++] =
            (na_judged_frame_t){p->module[module] - 1, s->pc - modules.items[module].bias};
    }
}

/* ---- verdicts of accesses ---- */

static bool matters(const na_policy_profile_t *p, const na_counters_t *sum) {
    const na_counters_t *all = &p->in.sites.total;
    return (double)sum->alloc_bytes >= TINY * (double)all->alloc_bytes ||
           (double)sum->alloc_count >= TINY * (double)all->alloc_count;
}

/* Index of the site; na_policy_sites() if there is none. */
static size_t site_index(const na_policy_profile_t *p, uint32_t site) {
    size_t i = 0;
    while (i < na_policy_sites(p) && na_policy_site(p, i) != site)
        i++;
    return i;
}

/* A site of which two things are said has that which more depends on. */
static void note_site(const na_policy_profile_t *p, uint32_t *of, uint32_t site, uint32_t verdict) {
    size_t i = site_index(p, site);
    if (i == na_policy_sites(p)) return;
    const na_verdict_t *items = p->verdicts.items;
    if (of[i] == 0 || na_place_gain(&p->flows, &p->verdicts, &items[verdict]) >
                          na_place_gain(&p->flows, &p->verdicts, &items[of[i] - 1]))
        of[i] = verdict + 1;
}

/* All blocks of the line, also those of other sites. */
static void note_line(const na_policy_profile_t *p, uint32_t verdict) {
    const na_line_t *line = &p->verdicts.lines.items[p->verdicts.items[verdict].line];
    for (uint32_t i = 0; i < line->count; i++) {
        if (line->parts[i].object == NA_FLOWS_NONE) continue;
        const na_flow_object_t *o = &p->flows.objects[line->parts[i].object];
        if (o->kind == NA_FLOW_HEAP && o->site != 0 && o->size < NA_LINE_BYTES)
            note_site(p, p->lines, o->site, verdict);
    }
}

/* In mode sample few sites are counted, and any may be accessed. */
static bool find_more_sites(na_policy_profile_t *p) {
    uint32_t stacks = na_reader_stacks(p->in.reader).count;
    uint8_t *known = calloc((size_t)stacks + 1, 1);
    p->more_sites = calloc((size_t)p->flows.group_count + 1, sizeof *p->more_sites);
    if (known == NULL || p->more_sites == NULL) {
        free(known);
        return false;
    }
    for (size_t i = 0; i < p->in.sites.count; i++)
        if (p->in.sites.items[i].site < stacks) known[p->in.sites.items[i].site] = 1;
    for (uint32_t g = 0; g < p->flows.group_count; g++) {
        const na_flow_group_t *group = &p->flows.groups[g];
        if (group->kind != NA_FLOW_HEAP || group->site == 0 || group->site >= stacks ||
            known[group->site] != 0)
            continue;
        known[group->site] = 1;
        p->more_sites[p->more_count++] = group->site;
    }
    free(known);
    return true;
}

static bool judge_accesses(na_policy_work_t *w, na_policy_profile_t *p) {
    if (!na_flows_read(&p->in.reader, 1, &p->flows) || !find_more_sites(p)) return false;
    p->place = calloc(na_policy_sites(p) + 1, sizeof *p->place);
    p->lines = calloc(na_policy_sites(p) + 1, sizeof *p->lines);
    p->tier = calloc(na_policy_sites(p) + 1, sizeof *p->tier);
    if (p->place == NULL || p->lines == NULL || p->tier == NULL) return false;
    if (p->flows.count == 0 && p->flows.probe_count == 0) return true;
    if (!na_verdicts_make(&p->flows, &p->verdicts)) return false;
    p->accesses = true;
    for (uint32_t i = 0; i < p->verdicts.count; i++) {
        const na_verdict_t *v = &p->verdicts.items[i];
        na_place_t place = na_place_for(&p->flows, &p->verdicts, v);
        na_rule_kind_t kind = place.own_lines ? NA_RULE_LINES : NA_RULE_PLACE;
        if (kind == NA_RULE_PLACE && w->options.policy.near.given) continue;
        if ((!place.own_lines && place.place == NA_POLICY_PLACE_NONE) ||
            v->chance < w->options.policy.min_chance)
            continue;
        double gain = na_place_gain(&p->flows, &p->verdicts, v);
        if (gain < w->least) {
            if (gain > w->below[kind]) w->below[kind] = gain;
            continue;
        }
        if (place.own_lines)
            note_line(p, i);
        else
            note_site(p, p->place, p->flows.groups[v->group].site, i);
    }
    return true;
}

static bool reaches(const na_counters_t *sum) {
    return sum == NULL || (sum->align_mask & NA_NPROF_ALIGN_API) == 0;
}

bool na_policy_reaches(const na_policy_profile_t *p, uint32_t site) {
    size_t i = site_index(p, site);
    return i == na_policy_sites(p) || reaches(na_policy_sum(p, i));
}

static void set_accesses(const na_policy_profile_t *p, size_t i, na_judged_site_t *run) {
    const na_counters_t *sum = na_policy_sum(p, i);
    uint32_t otherwise =
        p->accesses && sum != NULL && matters(p, sum) ? NA_VERDICT_ALONE : NA_VERDICT_ANY;
    run->verdict[NA_RULE_PLACE] = otherwise;
    run->verdict[NA_RULE_LINES] = otherwise;
    if (p->place[i] != 0) {
        na_place_t place =
            na_place_for(&p->flows, &p->verdicts, &p->verdicts.items[p->place[i] - 1]);
        run->verdict[NA_RULE_PLACE] = na_place_value(place.place, place.node);
    }
    if (p->lines[i] != 0) run->verdict[NA_RULE_LINES] = NA_OWN_LINES;
}

/* ---- life and growth ---- */

double na_policy_memory(const na_policy_profile_t *p) {
    return p->lives.resident > 0 ? p->lives.resident : (double)p->in.sites.total.peak_bytes;
}

static uint32_t life_verdict(na_policy_work_t *w, const na_policy_profile_t *p, size_t i) {
    const na_counters_t *sum = na_policy_sum(p, i);
    if (sum == NULL) return NA_VERDICT_ANY;
    const na_site_life_t *life = &p->lives.items[i];
    bool sampled = na_reader_header(p->in.reader)->mode == NA_NPROF_MODE_SAMPLE;
    double gain = p->lives.kept / na_policy_memory(p);
    if (!life->is_long) return matters(p, sum) ? NA_VERDICT_ALONE : NA_VERDICT_ANY;
    if (gain < w->least) {
        if (gain > w->below[NA_RULE_LIFE]) w->below[NA_RULE_LIFE] = gain;
        return NA_VERDICT_ANY;
    }
    if (p->lives.kept < NA_POLICY_LEAST_KEPT) {
        if (p->lives.kept > w->little_kept) w->little_kept = p->lives.kept;
        return NA_VERDICT_ANY;
    }
    /* What lived long, but is gone in the end, must not be among what stays. */
    if (life->kept < OF_LIFE * p->lives.kept)
        return matters(p, sum) && !life->measured ? NA_VERDICT_ALONE : NA_VERDICT_ANY;
    if (sampled && sum->raw_allocs < DRAWN) {
        w->few_samples++;
        return NA_VERDICT_ANY;
    }
    return NA_LIFE_LONG;
}

double na_policy_growth(const na_policy_profile_t *p, const na_counters_t *sum, uint64_t *bytes) {
    double run_ms = (double)na_nprof_together_ms(na_reader_header(p->in.reader));
    double begun = (double)sum->alloc_count - (double)sum->realloc_count;
    bool sampled = na_reader_header(p->in.reader)->mode == NA_NPROF_MODE_SAMPLE;
    if (sampled || !(begun > 0) || !(run_ms > 0) || (double)sum->realloc_count < GROWN * begun)
        return 0;
    double mean = (double)sum->alloc_bytes / na_view_count(&p->in, (double)sum->alloc_count);
    if (sum->size_max > RESERVED || (double)sum->size_max > GROWN_TO * mean) return 0;
    *bytes = (sum->size_max + 63) & ~UINT64_C(63);
    /* Nor may what is reserved and never grown to be much. */
    double live = na_view_count(&p->in, (double)sum->peak_count) * (double)*bytes;
    if (live - (double)sum->peak_bytes > IN_VAIN * na_policy_memory(p)) return 0;
    return (double)sum->realloc_copy_bytes * NA_FINDING_COPY_NS * 1e-6 / run_ms;
}

static uint32_t reserve_verdict(na_policy_work_t *w, const na_policy_profile_t *p, size_t i) {
    const na_counters_t *sum = na_policy_sum(p, i);
    uint64_t bytes = 0;
    if (sum == NULL) return NA_VERDICT_ANY;
    double gain = na_policy_growth(p, sum, &bytes);
    if (gain > 0 && gain >= w->least) return (uint32_t)bytes;
    if (gain > w->below[NA_RULE_RESERVE]) w->below[NA_RULE_RESERVE] = gain;
    return matters(p, sum) ? NA_VERDICT_ALONE : NA_VERDICT_ANY;
}

/* ---- use ---- */

/* A site whose blocks are to lie elsewhere for another reason is in no group. */
static uint32_t group_verdict(na_policy_work_t *w, const na_policy_profile_t *p, size_t i,
                              const na_judged_site_t *run) {
    const na_counters_t *sum = na_policy_sum(p, i);
    if (sum == NULL || p->uses.items == NULL) return NA_VERDICT_ANY;
    const na_site_use_t *use = &p->uses.items[i];
    uint32_t otherwise = matters(p, sum) ? NA_VERDICT_ALONE : NA_VERDICT_ANY;
    if (!use->hot) return otherwise;
    for (int kind = 0; kind < NA_RULE_KINDS; kind++)
        if (na_rule_moves((na_rule_kind_t)kind) && run->verdict[kind] != NA_VERDICT_ANY &&
            run->verdict[kind] != NA_VERDICT_ALONE)
            return otherwise;
    double gain = use->bytes / na_policy_memory(p);
    if (gain >= w->least) return NA_GROUP_HOT;
    if (gain > w->below[NA_RULE_GROUP]) w->below[NA_RULE_GROUP] = gain;
    return NA_VERDICT_ANY;
}

/* ---- all ---- */

static bool is_value(uint32_t verdict) {
    return verdict != NA_VERDICT_ALONE && verdict != NA_VERDICT_ANY;
}

/* How much depends on a site: what was allocated there; if that is not known, what was accessed. */
static void weigh(const na_policy_profile_t *p, size_t i, na_judged_site_t *run) {
    const na_counters_t *sum = na_policy_sum(p, i);
    if (sum != NULL) {
        run->bytes = (double)sum->alloc_bytes;
        run->blocks = na_view_count(&p->in, (double)sum->alloc_count);
        return;
    }
    for (uint32_t g = 0; g < p->flows.group_count; g++) {
        const na_flow_group_t *group = &p->flows.groups[g];
        if (group->kind != NA_FLOW_HEAP || group->site != na_policy_site(p, i)) continue;
        run->bytes += (double)group->bytes;
        run->blocks += group->objects;
    }
}

static void add_runs(na_policy_work_t *w, uint32_t source) {
    na_policy_profile_t *p = &w->profiles[source];
    for (size_t i = 0; i < na_policy_sites(p); i++) {
        const na_counters_t *sum = na_policy_sum(p, i);
        if (sum != NULL && sum->alloc_count == 0) continue;
        na_judged_site_t *run = &w->runs[w->run_count++];
        *run = (na_judged_site_t){.source = source, .item = (uint32_t)i};
        weigh(p, i, run);
        fill_frames(p, na_policy_site(p, i), run);
        set_accesses(p, i, run);
        run->verdict[NA_RULE_LIFE] = life_verdict(w, p, i);
        run->verdict[NA_RULE_RESERVE] = reserve_verdict(w, p, i);
        run->verdict[NA_RULE_GROUP] = group_verdict(w, p, i, run);
        bool said = false;
        for (int kind = 0; kind < NA_RULE_KINDS; kind++) {
            said |= w->kinds[kind] && is_value(run->verdict[kind]);
            if (!w->kinds[kind] || !reaches(sum)) run->verdict[kind] = NA_VERDICT_ANY;
        }
        w->unreached += said && !reaches(sum);
    }
}

static na_status_t read_options(na_policy_work_t *w) {
    w->least = w->options.policy.min_gain;
    for (int kind = 0; kind < NA_RULE_KINDS; kind++)
        w->kinds[kind] = w->options.policy.only == NULL;
    /* A site of near or far memory is in no group; and a group that changes while the program runs
     * would leave half of it elsewhere. */
    if (w->options.policy.near.given || w->options.policy.follow) w->kinds[NA_RULE_GROUP] = false;
    if (w->options.policy.only == NULL) return NA_STATUS_WHOLE;
    for (int kind = 0; kind < NA_RULE_KINDS; kind++)
        w->kinds[kind] = strcmp(w->options.policy.only, na_rule_kind_names[kind]) == 0;
    for (int kind = 0; kind < NA_RULE_KINDS; kind++)
        if (w->kinds[kind])
            return w->options.policy.near.given && kind != NA_RULE_PLACE
                       ? na_fail("--near makes rules of kind place, not of: %s",
                                 w->options.policy.only)
                       : NA_STATUS_WHOLE;
    return na_fail("--only takes place, lines, life, reserve or group, not: %s",
                   w->options.policy.only);
}

static na_status_t load_profiles(na_policy_work_t *w, const char *const *files, size_t count) {
    size_t sites = 0;
    w->profiles = calloc(count + 1, sizeof *w->profiles);
    if (w->profiles == NULL) return NA_STATUS_MEMORY;
    for (; w->count < count; w->count++) {
        na_policy_profile_t *p = &w->profiles[w->count];
        na_status_t status = na_view_load(&p->in, files[w->count], &w->options, false);
        if (status != NA_STATUS_WHOLE) return status;
    }
    for (uint32_t i = 0; i < count; i++) {
        na_policy_profile_t *p = &w->profiles[i];
        if (!add_elfs(w, p) || !judge_accesses(w, p) ||
            !na_life_verdicts(p->in.reader, &p->in.sites, &p->lives) ||
            !na_use_verdicts(p->in.reader, &p->in.sites, &p->lives, &p->uses))
            return NA_STATUS_MEMORY;
        sites += na_policy_sites(p);
    }
    w->runs = calloc(sites + 1, sizeof *w->runs);
    if (w->runs == NULL) return NA_STATUS_MEMORY;
    for (uint32_t i = 0; i < count; i++)
        add_runs(w, i);
    if (w->options.policy.near.given && !na_policy_tiers_find(w)) return NA_STATUS_MEMORY;
    return NA_STATUS_WHOLE;
}

bool na_policy_is_ruled(const na_policy_work_t *w, const na_policy_profile_t *p, uint32_t verdict) {
    for (size_t i = 0; i < w->rules.count; i++) {
        const na_site_rule_t *rule = &w->rules.items[i];
        for (size_t k = rule->first; k < rule->first + rule->count; k++) {
            const na_judged_site_t *run = &w->runs[k];
            if (&w->profiles[run->source] != p) continue;
            /* Of two verdicts on a site one makes the rule. */
            uint32_t placed = p->place[run->item], lined = p->lines[run->item];
            uint32_t group = p->verdicts.items[verdict].group;
            bool place = is_value(rule->value[NA_RULE_PLACE]) && placed != 0 &&
                         p->verdicts.items[placed - 1].group == group;
            bool lines = is_value(rule->value[NA_RULE_LINES]) && lined != 0;
            if (place || (lines && (lined == verdict + 1 ||
                                    p->flows.groups[group].site == na_policy_site(p, run->item))))
                return true;
        }
    }
    return false;
}

/* A rule also has the actions of shorter ones. What says where a block lies leaves no group. */
static void leave_groups(na_policy_work_t *w) {
    for (size_t i = 0; i < w->rules.count; i++) {
        na_site_rule_t *rule = &w->rules.items[i];
        for (int kind = 0; kind < NA_RULE_KINDS; kind++)
            if (na_rule_moves((na_rule_kind_t)kind) && rule->value[kind] != NA_VERDICT_ALONE)
                rule->value[NA_RULE_GROUP] = NA_VERDICT_ALONE;
    }
}

na_status_t na_policy_find(na_policy_work_t *w, const char *const *files, size_t count,
                           const na_options_t *options) {
    *w = (na_policy_work_t){.options = *options};
    w->options.frames.native = true; /* rules are of native frames */
    w->options.frames.python = false;
    na_status_t status = read_options(w);
    if (status == NA_STATUS_WHOLE) status = load_profiles(w, files, count);
    if (status == NA_STATUS_WHOLE && !na_site_rules_make(w->runs, w->run_count, &w->rules))
        status = NA_STATUS_MEMORY;
    if (status == NA_STATUS_WHOLE) leave_groups(w);
    if (status == NA_STATUS_WHOLE && w->options.policy.near.given && !na_policy_tiers_rule(w))
        status = NA_STATUS_MEMORY;
    return status;
}

na_status_t na_policy_work_free(na_policy_work_t *w, na_status_t status) {
    na_site_rules_free(&w->rules);
    free(w->tiers.sites);
    free(w->tiers.rule);
    free(w->runs);
    free(w->elfs);
    for (size_t i = 0; i < w->count; i++) {
        na_policy_profile_t *p = &w->profiles[i];
        free(p->module);
        free(p->more_sites);
        free(p->place);
        free(p->lines);
        free(p->tier);
        na_verdicts_free(&p->verdicts);
        na_flows_free(&p->flows);
        na_life_verdicts_free(&p->lives);
        na_use_verdicts_free(&p->uses);
        na_status_t damage = na_view_unload(&p->in, w->count > 1);
        if (status == NA_STATUS_WHOLE) status = damage;
    }
    free(w->profiles);
    return status;
}
