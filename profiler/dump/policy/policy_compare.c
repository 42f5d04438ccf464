/* policy_compare.c - see policy_compare.h. Both profiles are read as for writing a policy; the
 * rules say which sites they mean, and of these the same is measured in both. Blocks of a rule's
 * control are left out of what is measured under the policy, and have a column of their own. */
#include "profiler/dump/policy/policy_compare.h"

#include <math.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include "profiler/analyze/policy/rule_change.h"
#include "profiler/containers/array.h"
#include "profiler/dump/policy/policy_match.h"
#include "profiler/dump/ui/text.h"
#include "profiler/format/nprof_policy.h"

#define LEAST_SHARE 0.01 /* of accesses, or of looks: what a rule changes at least */
#define LEAST_WORK  0.8  /* blocks of both runs, the fewer of the more: they did the same */
#define SAMPLES     10.0 /* of accesses, independent ones, before anything is said */

/* What the sites of a rule did in one of the profiles. */
typedef struct sums {
    double blocks;
    uint32_t *objects[2]; /* that were accessed: its own, the control's; NULL: none */
    uint32_t count[2], room[2];
    double looks[2], shared[2]; /* at lines of its own, of the control's; different users */
    double kept, kept_low;      /* by long-lived blocks */
    double copied;              /* bytes, by realloc */
} sums_t;

enum { BEFORE, AFTER, TIMES };

typedef struct compare {
    na_policy_match_t match;
    na_policy_work_t work;
    na_table_t *table;
    sums_t *sums[TIMES];       /* by rule */
    uint32_t *of_stack[TIMES]; /* by stack: the rule of the site, plus 1 */
    na_nprof_rule_t *did;      /* by rule: as AFTER has it; line 0: it has not */
    uint32_t kept;             /* rules */
    bool failed;               /* out of memory */
} compare_t;

enum {
    VERDICT,
    LINE,
    MEASURE,
    BEFORE_TEXT,
    AFTER_TEXT,
    CHANGE_TEXT,
    CONTROL_TEXT,
    BEFORE_VALUE,
    AFTER_VALUE,
    CHANGE_LOW,
    CHANGE_HIGH,
    CONTROL_VALUE,
    BEFORE_COUNT,
    AFTER_COUNT,
    BLOCKS_BEFORE,
    BLOCKS_AFTER,
    WHY,
    RULE,
};
static const na_column_t comparison_columns[] = {
    {"verdict", "verdict", NA_KIND_TEXT, NULL},
    {"line", "line", NA_KIND_NUMBER, NULL},
    {"measure", "measured", NA_KIND_TEXT, NULL},
    {NULL, "before", NA_KIND_TEXT, NULL},
    {NULL, "after", NA_KIND_TEXT, NULL},
    {NULL, "change (95 %)", NA_KIND_TEXT, NULL},
    {NULL, "control", NA_KIND_TEXT, NULL},
    {"before", NULL, NA_KIND_NUMBER, NULL},
    {"after", NULL, NA_KIND_NUMBER, NULL},
    {"change_low", NULL, NA_KIND_NUMBER, NULL},
    {"change_high", NULL, NA_KIND_NUMBER, NULL},
    {"control", NULL, NA_KIND_NUMBER, NULL},
    {"before_samples", NULL, NA_KIND_NUMBER, NULL},
    {"after_samples", NULL, NA_KIND_NUMBER, NULL},
    {"before_blocks", NULL, NA_KIND_COUNT, NULL},
    {"after_blocks", NULL, NA_KIND_COUNT, NULL},
    {"why", "why", NA_KIND_TEXT, NULL},
    {"rule", "rule", NA_KIND_TEXT, NULL},
};
const na_columns_t na_policy_compare_table = NA_COLUMNS(comparison_columns);

static const char *const change_words[] = {
    [NA_CHANGE_KEEP] = "keep", [NA_CHANGE_DROP] = "drop", [NA_CHANGE_UNCLEAR] = "unclear"};

/* ---- what the rules mean ---- */

static void add_ruled_site(compare_t *c, const na_judged_site_t *run) {
    const na_policy_profile_t *p = &c->work.profiles[run->source];
    uint32_t rule = na_policy_match_run(&c->match, run), site = na_policy_site(p, run->item);
    if (rule == NA_NO_RULE || site >= na_reader_stacks(p->in.reader).count) return;
    c->of_stack[run->source][site] = rule + 1;
    sums_t *s = &c->sums[run->source][rule];
    s->blocks += run->blocks;
    if (run->item >= p->in.sites.count) return;
    const na_site_life_t *life = &p->lives.items[run->item];
    if (life->is_long) {
        s->kept += life->kept;
        s->kept_low += life->measured ? life->kept : 0;
    }
    s->copied += (double)p->in.sites.items[run->item].sum.realloc_copy_bytes;
}

/* The rule of a block's site, plus 1; 0: none. Which part of it, its own or the control's. */
static uint32_t ruled_part(const compare_t *c, uint32_t source, uint32_t object, int *part) {
    const na_policy_profile_t *p = &c->work.profiles[source];
    if (object == NA_FLOWS_NONE) return 0;
    const na_flow_object_t *o = &p->flows.objects[object];
    if (o->kind != NA_FLOW_HEAP || o->site == 0 || o->site >= na_reader_stacks(p->in.reader).count)
        return 0;
    *part = source == AFTER && (o->ruled & NA_NPROF_RULED_CONTROL) != 0;
    return c->of_stack[source][o->site];
}

static void add_object_sharing(compare_t *c, uint32_t source, uint32_t object) {
    int part;
    uint32_t rule = ruled_part(c, source, object, &part);
    if (rule == 0) return;
    sums_t *s = &c->sums[source][rule - 1];
    if (!NA_ARRAY_RESERVE(s->objects[part], s->room[part], s->count[part] + 1u)) {
        c->failed = true;
        return;
    }
    s->objects[part][s->count[part]++] = object;
}

/* A line counts for each rule that has a block in it, once. */
static void add_line_sharing(compare_t *c, uint32_t source, const na_line_t *line) {
    for (uint32_t i = 0; i < line->count && line->lives == 1; i++) {
        int part, other;
        uint32_t rule = ruled_part(c, source, line->parts[i].object, &part);
        bool seen = rule == 0;
        for (uint32_t k = 0; k < i && !seen; k++)
            seen = ruled_part(c, source, line->parts[k].object, &other) == rule;
        if (seen) continue;
        c->sums[source][rule - 1].looks[part] += line->probes;
        c->sums[source][rule - 1].shared[part] += line->conflicts;
    }
}

static void take_rule(void *arg, uint32_t id, const void *entry) {
    compare_t *c = arg;
    na_nprof_rule_t rule;
    (void)id;
    memcpy(&rule, entry, sizeof rule);
    for (uint32_t i = 0; i < c->match.policy->rule_count; i++)
        if (c->match.policy->rules[i].line == rule.line) c->did[i] = rule;
}

static bool sum_up_runs(compare_t *c) {
    size_t rules = c->match.policy->rule_count;
    c->did = calloc(rules + 1, sizeof *c->did);
    for (int t = 0; t < TIMES; t++) {
        const na_policy_profile_t *p = &c->work.profiles[t];
        c->sums[t] = calloc(rules + 1, sizeof *c->sums[t]);
        c->of_stack[t] =
            calloc((size_t)na_reader_stacks(p->in.reader).count + 1, sizeof *c->of_stack[t]);
        if (c->sums[t] == NULL || c->of_stack[t] == NULL || c->did == NULL) return false;
    }
    for (size_t i = 0; i < c->work.run_count; i++)
        add_ruled_site(c, &c->work.runs[i]);
    for (uint32_t t = 0; t < TIMES; t++) {
        const na_policy_profile_t *p = &c->work.profiles[t];
        for (uint32_t o = 0; o < p->flows.object_count; o++)
            add_object_sharing(c, t, o);
        for (uint32_t i = 0; i < p->verdicts.lines.count; i++)
            add_line_sharing(c, t, &p->verdicts.lines.items[i]);
    }
    na_reader_control(c->work.profiles[AFTER].in.reader, NA_NPROF_POLICY_RULES, take_rule, c);
    return !c->failed;
}

/* ---- one rule ---- */

/* Share of accesses to other nodes, and how many independent samples say so. */
static double remote_share(compare_t *c, int t, uint32_t rule, int part, double *samples) {
    const na_policy_profile_t *p = &c->work.profiles[t];
    const sums_t *s = &c->sums[t][rule];
    na_measure_t m = {.samples = 0};
    *samples = 0;
    if (!p->accesses || s->count[part] == 0) return NAN;
    if (!na_measure_make(&p->flows, &p->verdicts, s->objects[part], s->count[part], NA_FLOWS_NONE,
                         &m)) {
        c->failed = true;
        return NAN;
    }
    *samples = m.independent * m.known;
    if (*samples < SAMPLES) *samples = 0;
    return m.remote;
}

/* One thing that was measured of a rule. */
typedef struct row {
    const char *measure;
    na_cell_kind_t kind;
    na_change_t change;
    na_change_says_t says;
    double control;        /* not a number: none */
    double samples[TIMES]; /* 0: it is counted, not sampled */
    const char *why;
} row_t;

static bool same_work(const compare_t *c, uint32_t rule) {
    double a = c->sums[BEFORE][rule].blocks, b = c->sums[AFTER][rule].blocks;
    return a > 0 && b > 0 && a >= LEAST_WORK * b && b >= LEAST_WORK * a;
}

static row_t row_of_place(compare_t *c, uint32_t rule) {
    row_t r = {.measure = "remote accesses", .kind = NA_KIND_SHARE, .control = NAN};
    double ignored, share[TIMES];
    for (int t = 0; t < TIMES; t++)
        share[t] = remote_share(c, t, rule, 0, &r.samples[t]);
    double control = remote_share(c, AFTER, rule, 1, &ignored);
    if (ignored > 0) r.control = control;
    r.change =
        na_change_of_shares(share[BEFORE], r.samples[BEFORE], share[AFTER], r.samples[AFTER]);
    r.says = na_change_says(&r.change, LEAST_SHARE);
    na_policy_place_t place = (na_policy_place_t)c->match.policy->rules[rule].action.place;
    if (place == NA_POLICY_NEAR || place == NA_POLICY_FAR) {
        r.says = NA_CHANGE_UNCLEAR;
        r.why =
            "near and far rules make room for each other: compare times (numalloc-run --rounds)";
        return r;
    }
    if (!(r.samples[BEFORE] > 0))
        r.why = "too few accesses before";
    else if (!(r.samples[AFTER] > 0))
        r.why = "too few accesses after";
    return r;
}

static row_t row_of_lines(const compare_t *c, uint32_t rule) {
    row_t r = {.measure = "lines shared", .kind = NA_KIND_SHARE, .control = NAN};
    double share[TIMES];
    for (int t = 0; t < TIMES; t++) {
        const sums_t *s = &c->sums[t][rule];
        r.samples[t] = s->looks[0];
        share[t] = s->looks[0] > 0 ? fmin(1, s->shared[0] / s->looks[0]) : NAN;
    }
    const sums_t *after = &c->sums[AFTER][rule];
    if (after->looks[1] > 0) r.control = after->shared[1] / after->looks[1];
    r.change =
        na_change_of_shares(share[BEFORE], r.samples[BEFORE], share[AFTER], r.samples[AFTER]);
    r.says = na_change_says(&r.change, LEAST_SHARE);
    if (!(r.samples[BEFORE] > 0))
        r.why = "its lines were not looked at before";
    else if (!(r.samples[AFTER] > 0))
        r.why = "its lines were not looked at after";
    return r;
}

static row_t row_of_life(const compare_t *c, uint32_t rule) {
    const sums_t *before = &c->sums[BEFORE][rule], *after = &c->sums[AFTER][rule];
    row_t r = {.measure = "kept in vain", .kind = NA_KIND_BYTES, .control = NAN};
    r.change = na_change_of_bounds(before->kept_low, before->kept, after->kept_low, after->kept);
    r.says = na_change_says(&r.change, NA_POLICY_LEAST_KEPT);
    if (r.says == NA_CHANGE_UNCLEAR)
        r.why = "estimated: complete the profile while its blocks live";
    return r;
}

static row_t row_of_reserve(const compare_t *c, uint32_t rule) {
    row_t r = {.measure = "copied by realloc", .kind = NA_KIND_BYTES, .control = NAN};
    double before = c->sums[BEFORE][rule].copied, after = c->sums[AFTER][rule].copied;
    r.change = na_change_of_bounds(before, before, after, after);
    r.says = na_change_says(&r.change, 0);
    for (int t = 0; t < TIMES; t++)
        if (na_reader_header(c->work.profiles[t].in.reader)->mode == NA_NPROF_MODE_SAMPLE) {
            r.says = NA_CHANGE_UNCLEAR;
            r.why = "sampled profiles do not have it";
        }
    return r;
}

static const char *amount(na_cell_kind_t kind, double value, char text[NA_TEXT]) {
    if (isnan(value)) return NULL;
    if (kind == NA_KIND_BYTES) return na_text_bytes(text, value);
    snprintf(text, NA_TEXT, "%.1f %%", 100 * value);
    return text;
}

static void put_change(na_table_t *t, const row_t *r) {
    char low[NA_TEXT], high[NA_TEXT];
    const na_change_t *c = &r->change;
    if (isnan(c->low) || isnan(c->high)) return;
    if (r->kind == NA_KIND_SHARE) {
        na_table_format(t, CHANGE_TEXT, "%+.1f to %+.1f points", 100 * c->low, 100 * c->high);
        return;
    }
    snprintf(low, sizeof low, "%s", na_text_bytes(high, fabs(c->low)));
    na_text_bytes(high, fabs(c->high));
    if (c->low < c->high)
        na_table_format(t, CHANGE_TEXT, "%s%s to %s%s", c->low < 0 ? "-" : "+", low,
                        c->high < 0 ? "-" : "+", high);
    else
        na_table_format(t, CHANGE_TEXT, "%s%s", c->low < 0 ? "-" : "+", low);
}

static void put_compare_row(compare_t *c, uint32_t rule, const row_t *r, na_change_says_t says,
                            const char *why) {
    na_table_t *t = c->table;
    char text[NA_TEXT];
    na_table_row(t, rule);
    na_table_text(t, VERDICT, change_words[says]);
    na_table_number(t, LINE, c->match.policy->rules[rule].line);
    na_table_text(t, WHY, why);
    na_table_number(t, BLOCKS_BEFORE, c->sums[BEFORE][rule].blocks);
    na_table_number(t, BLOCKS_AFTER, c->sums[AFTER][rule].blocks);
    if (c->did[rule].line != 0) na_table_text(t, RULE, c->did[rule].text);
    if (r == NULL) return;
    na_table_text(t, MEASURE, r->measure);
    na_table_text(t, BEFORE_TEXT, amount(r->kind, r->change.before, text));
    na_table_text(t, AFTER_TEXT, amount(r->kind, r->change.after, text));
    na_table_text(t, CONTROL_TEXT, amount(r->kind, r->control, text));
    put_change(t, r);
    na_table_number(t, BEFORE_VALUE, r->change.before);
    na_table_number(t, AFTER_VALUE, r->change.after);
    na_table_number(t, CHANGE_LOW, r->change.low);
    na_table_number(t, CHANGE_HIGH, r->change.high);
    na_table_number(t, CONTROL_VALUE, r->control);
    if (r->samples[BEFORE] > 0) na_table_number(t, BEFORE_COUNT, r->samples[BEFORE]);
    if (r->samples[AFTER] > 0) na_table_number(t, AFTER_COUNT, r->samples[AFTER]);
}

/* Why nothing can be said of the rule at all; NULL: it can. */
static const char *nothing_to_compare(const compare_t *c, uint32_t rule) {
    const na_policy_rule_t *r = &c->match.policy->rules[rule];
    const na_nprof_rule_t *did = &c->did[rule];
    if (did->line == 0) return "the run under the policy had not this rule";
    if ((did->flags & NA_NPROF_RULE_NO_NODE) != 0) return "node not here";
    if ((did->flags & NA_NPROF_RULE_BOUND) == 0)
        return "it was not applied: see numalloc-dump rules";
    if (did->blocks == 0 && (did->flags & NA_NPROF_RULE_MOVED) == 0) return "it meant no block";
    for (uint32_t i = 0; i < r->depth; i++)
        if (r->frames[i].module == NA_POLICY_NO_MODULE)
            return "it is by function: write it by address";
    if (!(c->sums[BEFORE][rule].blocks > 0) && c->sums[BEFORE][rule].count[0] == 0)
        return "its sites are not in the first profile";
    return NULL;
}

static void compare_rule(compare_t *c, uint32_t rule) {
    const na_policy_action_t *a = &c->match.policy->rules[rule].action;
    const char *why = nothing_to_compare(c, rule);
    if (why != NULL) {
        put_compare_row(c, rule, NULL, NA_CHANGE_UNCLEAR, why);
        return;
    }
    row_t rows[4];
    uint32_t count = 0;
    if (a->place != NA_POLICY_PLACE_NONE) rows[count++] = row_of_place(c, rule);
    if (a->own_lines) rows[count++] = row_of_lines(c, rule);
    bool by_amount = !same_work(c, rule);
    if (a->life != NA_POLICY_LIFE_NONE) rows[count++] = row_of_life(c, rule);
    if (a->reserve != 0) rows[count++] = row_of_reserve(c, rule);
    if (count == 0) {
        put_compare_row(c, rule, NULL, NA_CHANGE_UNCLEAR,
                        "nothing is measured of what it does: compare the times, numalloc-run "
                        "--rounds");
        return;
    }
    bool keeps = false, unclear = false;
    for (uint32_t i = 0; i < count; i++) {
        row_t *r = &rows[i];
        if (by_amount && r->kind == NA_KIND_BYTES) {
            r->says = NA_CHANGE_UNCLEAR;
            r->why = "the runs did not do the same work";
        }
        keeps |= r->says == NA_CHANGE_KEEP;
        unclear |= r->says == NA_CHANGE_UNCLEAR;
    }
    na_change_says_t says = keeps ? NA_CHANGE_KEEP : unclear ? NA_CHANGE_UNCLEAR : NA_CHANGE_DROP;
    for (uint32_t i = 0; i < count; i++)
        put_compare_row(c, rule, &rows[i], says, rows[i].why);
    c->kept += says == NA_CHANGE_KEEP;
}

/* ---- all ---- */

/* The file that the run of the second profile was under. */
static na_status_t find_policy(const char *const *files, const na_options_t *options,
                               na_nprof_policy_t *policy) {
    na_view_input_t in;
    na_status_t status = na_view_load(&in, files[1], options, true);
    if (status != NA_STATUS_WHOLE) return status;
    na_reader_policy(in.reader, policy);
    na_view_drop(&in);
    if (policy->state != NA_NPROF_POLICY_APPLIED)
        return na_fail("%s: the process ran under no policy; the profile of the run with "
                       "NUMALLOC_POLICY comes second",
                       files[1]);
    return NA_STATUS_WHOLE;
}

static na_status_t write_all(compare_t *c, const na_options_t *options) {
    uint32_t rules = c->match.policy->rule_count;
    for (uint32_t i = 0; i < rules; i++)
        compare_rule(c, i);
    const na_table_print_t print = {
        .view = "policy_compare",
        .title = "Rules of the policy (%s), before and under it; control: what kept malloc's "
                 "placement",
        .all = true,
        .lines_from = WHY,
        .empty = "The policy has no rules",
    };
    if (c->failed) return NA_STATUS_MEMORY;
    na_status_t status = na_table_write(c->table, options, &print);
    if (status != NA_STATUS_WHOLE) return status;
    if (options->table.format == NA_FORMAT_TEXT && rules != 0)
        printf("\n%u of %u rule%s to keep\n", c->kept, rules, rules == 1 ? "" : "s");
    return c->kept == rules ? NA_STATUS_WHOLE : NA_STATUS_PARTIAL;
}

static na_status_t compare_runs(compare_t *c, const char *const *files, size_t count,
                                const na_options_t *options) {
    static na_nprof_policy_t policy; /* its name is kept */
    bool named = count == 3 && !na_policy_is_profile(files[0]);
    if (count != 2 && !named)
        return na_fail("--compare takes [POLICY] BEFORE AFTER: two profiles, the second one of a "
                       "run under the policy");
    const char *const *profiles = files + (named ? 1 : 0);
    na_status_t status = find_policy(profiles, options, &policy);
    if (status == NA_STATUS_WHOLE)
        status = na_policy_match_read(&c->match, named ? files[0] : policy.file);
    if (status == NA_STATUS_WHOLE) status = na_policy_find(&c->work, profiles, 2, options);
    if (status != NA_STATUS_WHOLE) return status;
    na_policy_match_elfs(&c->match, &c->work);
    c->table = na_table_open(&na_policy_compare_table);
    if (c->table == NULL || !sum_up_runs(c)) return NA_STATUS_MEMORY;
    return write_all(c, options);
}

na_status_t na_policy_compare(const char *const *files, size_t count, const na_options_t *options) {
    compare_t c = {.kept = 0};
    na_status_t status = compare_runs(&c, files, count, options);
    size_t rules = c.match.policy == NULL ? 0 : c.match.policy->rule_count;
    for (int t = 0; t < TIMES; t++) {
        for (size_t i = 0; c.sums[t] != NULL && i < rules; i++)
            for (int part = 0; part < 2; part++)
                free(c.sums[t][i].objects[part]);
        free(c.sums[t]);
        free(c.of_stack[t]);
    }
    free(c.did);
    na_table_close(c.table);
    na_policy_match_free(&c.match);
    return na_policy_work_free(&c.work, status);
}
