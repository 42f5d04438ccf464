/* view_policy.c - numalloc-dump policy: rules for the allocator, written from profiles. The file is
 * for people as well: each rule has its place, its evidence and what it may gain in comments. */
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "profiler/dump/accesses/access_view.h"
#include "profiler/dump/policy/policy_check.h"
#include "profiler/dump/policy/policy_compare.h"
#include "profiler/dump/policy/policy_explain.h"
#include "profiler/dump/policy/policy_find.h"
#include "profiler/dump/policy/policy_follow.h"
#include "profiler/dump/policy/policy_tiers.h"
#include "profiler/dump/ui/text.h"

#define NA_HOT_GROUP "hot"

/* ---- what stands behind a rule ---- */

/* Over its runs. Gains are of one process, of several profiles that which gains most. */
typedef struct evidence {
    double gain[NA_RULE_KINDS], chance[NA_RULE_KINDS]; /* gain 0: nothing of that kind */
    const na_policy_profile_t *placed_by, *lined_by;
    const na_verdict_t *placed, *lined;
    double bytes, blocks;      /* allocated */
    double life_blocks, longs; /* of long-lived sites */
    double kept;               /* bytes, of the process that keeps most */
    bool measured;             /* `kept` is */
    double copied;             /* bytes, of the process that gains most */
    uint32_t grows;            /* profiles and sites that say so */
    na_tier_evidence_t tier;
    double hot, looks, used; /* bytes in a group; looks at them; those that saw a use */
} evidence_t;

typedef struct ruled {
    const na_site_rule_t *rule;
    evidence_t e;
    na_rule_kind_t first; /* its most worthy kind */
} ruled_t;

static void add_evidence(const na_policy_profile_t *p, uint32_t number, na_rule_kind_t kind,
                         evidence_t *e, const na_policy_profile_t **by, const na_verdict_t **of) {
    const na_verdict_t *v = &p->verdicts.items[number - 1];
    double gain = na_place_gain(&p->flows, &p->verdicts, v);
    if (*of != NULL && gain <= e->gain[kind]) return;
    *of = v;
    *by = p;
    e->gain[kind] = gain;
    e->chance[kind] = v->chance;
}

/* Of one process, whose runs of a rule are added up. */
typedef struct sums {
    double kept, hot, copied, gain[NA_RULE_KINDS];
    bool measured;
} sums_t;

static void add_gains(const na_policy_work_t *w, const na_site_rule_t *rule,
                      const na_judged_site_t *run, evidence_t *e, sums_t *sums) {
    const na_policy_profile_t *p = &w->profiles[run->source];
    const na_counters_t *sum = na_policy_sum(p, run->item);
    if (sum == NULL) return; /* only accesses are known */
    if (run->verdict[NA_RULE_LIFE] == NA_LIFE_LONG) {
        const na_site_life_t *life = &p->lives.items[run->item];
        e->life_blocks += life->blocks;
        e->longs += life->longs;
        sums->kept += life->kept;
        sums->measured |= life->measured;
        sums->gain[NA_RULE_LIFE] += life->kept / na_policy_memory(p);
    }
    if (run->verdict[NA_RULE_GROUP] == NA_GROUP_HOT && p->uses.items != NULL) {
        const na_site_use_t *use = &p->uses.items[run->item];
        e->looks += use->looks;
        e->used += use->used * use->looks;
        sums->hot += use->bytes;
        sums->gain[NA_RULE_GROUP] += use->bytes / na_policy_memory(p);
    }
    if (rule->value[NA_RULE_RESERVE] != NA_VERDICT_ALONE &&
        run->verdict[NA_RULE_RESERVE] == rule->value[NA_RULE_RESERVE]) {
        uint64_t bytes;
        sums->gain[NA_RULE_RESERVE] += na_policy_growth(p, sum, &bytes);
        sums->copied += (double)sum->realloc_copy_bytes;
        e->grows++;
    }
}

/* What a process gains; of several profiles, the one that gains most. */
static void keep_best_process(const sums_t *sums, evidence_t *e) {
    if (sums->gain[NA_RULE_LIFE] > e->gain[NA_RULE_LIFE]) {
        e->kept = sums->kept;
        e->measured = sums->measured;
        e->chance[NA_RULE_LIFE] = sums->measured ? 0.95 : 0.8;
    }
    if (sums->gain[NA_RULE_GROUP] > e->gain[NA_RULE_GROUP]) {
        e->hot = sums->hot;
        e->chance[NA_RULE_GROUP] = 0.95;
    }
    if (sums->gain[NA_RULE_RESERVE] > e->gain[NA_RULE_RESERVE]) {
        e->copied = sums->copied;
        e->chance[NA_RULE_RESERVE] = 0.8;
    }
    for (int kind = NA_RULE_LIFE; kind < NA_RULE_KINDS; kind++)
        e->gain[kind] = fmax(e->gain[kind], sums->gain[kind]);
}

static evidence_t evidence_of(const na_policy_work_t *w, const na_site_rule_t *rule) {
    evidence_t e = {0};
    for (size_t i = rule->first; i < rule->first + rule->count; i++) {
        const na_judged_site_t *run = &w->runs[i];
        const na_policy_profile_t *p = &w->profiles[run->source];
        e.bytes += run->bytes;
        e.blocks += run->blocks;
        if (p->place[run->item] != 0 && run->verdict[NA_RULE_PLACE] == rule->value[NA_RULE_PLACE])
            add_evidence(p, p->place[run->item], NA_RULE_PLACE, &e, &e.placed_by, &e.placed);
        if (p->lines[run->item] != 0 && rule->value[NA_RULE_LINES] != NA_VERDICT_ALONE)
            add_evidence(p, p->lines[run->item], NA_RULE_LINES, &e, &e.lined_by, &e.lined);
    }
    for (uint32_t source = 0; source < w->count; source++) {
        sums_t sums = {0};
        for (size_t i = rule->first; i < rule->first + rule->count; i++)
            if (w->runs[i].source == source) add_gains(w, rule, &w->runs[i], &e, &sums);
        keep_best_process(&sums, &e);
    }
    if (w->options.policy.near.given) e.tier = na_policy_tier_evidence(w, rule);
    return e;
}

/* Near memory by accesses per byte, then far memory by bytes. 0: not of that kind, or alike. */
static int by_tier(const ruled_t *x, const ruled_t *y) {
    na_policy_place_t place = na_place_of(x->rule->value[NA_RULE_PLACE]);
    na_policy_place_t other = na_place_of(y->rule->value[NA_RULE_PLACE]);
    if (place != other) return place < other ? -1 : 1;
    const na_tier_evidence_t *e = &x->e.tier, *f = &y->e.tier;
    double p = e->bytes, q = f->bytes;
    if (place == NA_POLICY_NEAR) {
        p = e->share * f->bytes;
        q = f->share * e->bytes;
    }
    return p == q ? 0 : p > q ? -1 : 1;
}

/* By kind, in their order; then by gain. */
static int by_worth(const void *a, const void *b) {
    const ruled_t *x = a, *y = b;
    if (x->first != y->first) return x->first < y->first ? -1 : 1;
    int tier = x->first == NA_RULE_PLACE ? by_tier(x, y) : 0;
    if (tier != 0) return tier;
    double p = x->e.gain[x->first], q = y->e.gain[y->first];
    if (p != q) return p > q ? -1 : 1;
    return (x->rule > y->rule) - (x->rule < y->rule);
}

/* NULL: out of memory. */
static ruled_t *order(const na_policy_work_t *w) {
    ruled_t *ruled = calloc(w->rules.count + 1, sizeof *ruled);
    if (ruled == NULL) return NULL;
    for (size_t i = 0; i < w->rules.count; i++) {
        const na_site_rule_t *rule = &w->rules.items[i];
        ruled[i] = (ruled_t){.rule = rule, .e = evidence_of(w, rule)};
        while (rule->value[ruled[i].first] == NA_VERDICT_ALONE)
            ruled[i].first++;
    }
    qsort(ruled, w->rules.count, sizeof *ruled, by_worth);
    return ruled;
}

/* ---- the head ---- */

static void put_quoted_name(const char *name) {
    printf(strpbrk(name, " \t") != NULL ? "\"%s\"" : "%s", name);
}

static void put_build_id(const na_policy_elf_t *e) {
    putchar(' ');
    for (uint32_t i = 0; i < e->build_id_size; i++)
        printf("%02x", e->build_id[i]);
    if (e->build_id_size == 0) putchar('-');
}

static void put_program_lines(const na_policy_work_t *w) {
    uint32_t count = 0, all = 0;
    for (uint32_t i = 0; i < w->elf_count; i++) {
        if (!w->elfs[i].main) continue;
        if (all++ >= NA_POLICY_PROGRAMS) continue;
        count++;
        printf("program ");
        put_quoted_name(w->elfs[i].name);
        put_build_id(&w->elfs[i]);
        putchar('\n');
    }
    if (count == 0) printf("program any\n");
    if (all > count)
        printf("# and %u programs more: a policy is for %u at most\n", all - count,
               NA_POLICY_PROGRAMS);
}

static void put_files(const na_policy_work_t *w) {
    for (size_t i = 0; i < w->count; i++) {
        const na_policy_profile_t *p = &w->profiles[i];
        const na_nprof_header_t *h = na_reader_header(p->in.reader);
        char ms[NA_TEXT], peak[NA_TEXT];
        printf("# from ");
        na_text_put(stdout, p->in.path);
        printf(": mode %s%s, %s, peak %s\n", na_mode_name(h->mode),
               p->accesses ? " with accesses" : "", na_text_ms(ms, h->last_ms),
               na_text_bytes(peak, (double)p->in.sites.total.peak_bytes));
    }
}

/* ---- a rule ---- */

/* The functions of its frames, innermost first. */
static void comment_functions(const na_policy_work_t *w, const na_site_rule_t *rule) {
    const na_judged_site_t *run = &w->runs[rule->first];
    const na_policy_profile_t *p = &w->profiles[run->source];
    na_stack_table_t stacks = na_reader_stacks(p->in.reader);
    uint32_t node = na_policy_site(p, run->item);
    for (uint32_t i = 0; i < rule->depth && node < stacks.count; i++) {
        const na_symbol_frame_t *frames;
        char label[NA_LABEL];
        if (na_symbols_frames(p->in.symbols, node, &frames) == 0) return;
        na_view_frame_label(&frames[0], label);
        if (i != 0) printf(" < ");
        na_text_put(stdout, label);
        node = stacks.items[node].parent;
    }
}

static void put_agree(double agree) {
    if (agree < 1) printf("; holds for %.0f %% of what has these frames", 100 * agree);
}

static void put_tier_action(const na_policy_work_t *w, const na_site_rule_t *rule,
                            const evidence_t *e, double *near) {
    if (!w->options.policy.near.given || rule->value[NA_RULE_PLACE] == NA_VERDICT_ALONE) return;
    na_policy_put_tier(w, rule, &e->tier, near);
    put_agree(rule->agree[NA_RULE_PLACE]);
    putchar('\n');
}

static void put_place_action(const na_site_rule_t *rule, const evidence_t *e) {
    const na_verdict_t *v = e->placed;
    if (v == NULL) return;
    char count[NA_TEXT];
    printf("#   place: %s, %s samples", na_verdict_texts[v->kind].title,
           na_text_count(count, v->measure.samples));
    if (v->measure.remote == v->measure.remote)
        printf(", %.1f %% of them to another node's memory", 100 * v->measure.remote);
    bool spread = na_place_of(rule->value[NA_RULE_PLACE]) == NA_POLICY_INTERLEAVE;
    na_bounds_t promise = na_place_promise(&e->placed_by->flows, &e->placed_by->verdicts, v);
    printf("\n#     expected: %.1f to %.1f %% of all accesses %s; confidence %s", 100 * promise.low,
           100 * promise.high, spread ? "are spread over the nodes" : "become local",
           na_access_confidence(v->chance));
    put_agree(rule->agree[NA_RULE_PLACE]);
    putchar('\n');
}

static void put_lines_action(const na_site_rule_t *rule, const evidence_t *e) {
    if (e->lined == NULL) return;
    const na_line_t *line = &e->lined_by->verdicts.lines.items[e->lined->line];
    char rate[NA_TEXT];
    printf("#   lines: %u threads use %u blocks of one line, %s accesses a second by others than "
           "the busiest\n",
           line->threads, line->objects, na_text_count(rate, line->others));
    printf("#     expected: at least %.1f %% of the time, which lines are under way; confidence %s",
           100 * e->gain[NA_RULE_LINES], na_access_confidence(e->lined->chance));
    put_agree(rule->agree[NA_RULE_LINES]);
    putchar('\n');
}

static void put_life(const na_site_rule_t *rule, const evidence_t *e) {
    char blocks[NA_TEXT], kept[NA_TEXT];
    if (!(e->life_blocks > 0)) return;
    printf("#   life: %.0f %% of %s blocks lived for half of the run or to its end\n",
           100 * e->longs / e->life_blocks, na_text_count(blocks, e->life_blocks));
    printf("#     expected: %s%s less (%.1f %%), which they kept in the spans of others; "
           "confidence %s",
           e->measured ? "" : "up to ", na_text_bytes(kept, e->kept), 100 * e->gain[NA_RULE_LIFE],
           na_access_confidence(e->chance[NA_RULE_LIFE]));
    put_agree(rule->agree[NA_RULE_LIFE]);
    putchar('\n');
}

static void put_reserve(const na_site_rule_t *rule, const evidence_t *e) {
    char copied[NA_TEXT];
    if (e->grows == 0) return;
    printf("#   reserve: blocks grow by realloc, which copied %s\n",
           na_text_bytes(copied, e->copied));
    printf("#     expected: %.1f %% of the run less; confidence %s", 100 * e->gain[NA_RULE_RESERVE],
           na_access_confidence(e->chance[NA_RULE_RESERVE]));
    put_agree(rule->agree[NA_RULE_RESERVE]);
    putchar('\n');
}

static void put_group(const na_site_rule_t *rule, const evidence_t *e) {
    char bytes[NA_TEXT], looks[NA_TEXT];
    if (rule->value[NA_RULE_GROUP] == NA_VERDICT_ALONE || !(e->looks > 0)) return;
    printf("#   group: %.0f %% of %s looks at them saw a use\n", 100 * e->used / e->looks,
           na_text_count(looks, floor(e->looks)));
    printf("#     expected: %s close together, apart from what is used less",
           na_text_bytes(bytes, e->hot));
    put_agree(rule->agree[NA_RULE_GROUP]);
    putchar('\n');
}

static void put_rule_actions(const na_policy_work_t *w, const na_site_rule_t *rule) {
    const char *comma = "";
    if (rule->value[NA_RULE_PLACE] != NA_VERDICT_ALONE) {
        uint16_t node = na_place_node(rule->value[NA_RULE_PLACE]);
        printf("place=%s", na_policy_places[na_place_of(rule->value[NA_RULE_PLACE])]);
        if (node != NA_POLICY_NO_NODE) printf(" %u", node);
        comma = ", ";
    }
    if (rule->value[NA_RULE_LINES] != NA_VERDICT_ALONE) {
        printf("%slines=own", comma);
        comma = ", ";
    }
    bool compared = *comma != 0;
    /* A control of far blocks would lie near, and take an eighth of their bytes there. */
    if (w->options.policy.near.given && rule->value[NA_RULE_PLACE] != NA_VERDICT_ALONE)
        compared = false;
    if (rule->value[NA_RULE_LIFE] != NA_VERDICT_ALONE) {
        printf("%slife=long", comma);
        comma = ", ";
    }
    bool grouped = rule->value[NA_RULE_GROUP] != NA_VERDICT_ALONE;
    if (grouped) {
        printf("%sgroup=" NA_HOT_GROUP, comma);
        comma = ", ";
    }
    if (rule->value[NA_RULE_RESERVE] != NA_VERDICT_ALONE)
        printf("%sreserve=%u", comma, rule->value[NA_RULE_RESERVE]);
    /* What lives apart, or has room, is not told from others by looking at a few within one run. */
    printf(compared || grouped ? "\n" : ", control=off\n");
}

static bool same_innermost(const na_judged_site_t *a, const na_judged_site_t *b) {
    return b->depth != 0 && a->frames[0].module == b->frames[0].module &&
           a->frames[0].offset == b->frames[0].offset;
}

/* Each call with the innermost frame is looked at, whichever site it is of: by the figures of
 * programs.instructions, 35 instructions for the first frame and 40 for each more. */
static void comment_cost(const na_policy_work_t *w, const na_site_rule_t *rule) {
    const na_judged_site_t *run = &w->runs[rule->first];
    size_t first = rule->first, end = rule->first + 1;
    while (first > 0 && same_innermost(run, &w->runs[first - 1]))
        first--;
    while (end < w->run_count && same_innermost(run, &w->runs[end]))
        end++;
    double calls = 0;
    for (size_t i = first; i < end; i++)
        calls += w->runs[i].blocks;
    char count[NA_TEXT];
    printf("#   costs up to %u instructions in each of %s calls with its innermost frame\n",
           35 + 40 * (rule->depth - 1), na_text_count(count, calls));
}

/* `near`: bytes of near memory that are taken, with this rule's afterwards. */
static void put_found_rule(const na_policy_work_t *w, const ruled_t *ruled, const uint32_t *alias,
                           size_t number, double *near) {
    const na_site_rule_t *rule = ruled->rule;
    const na_judged_site_t *run = &w->runs[rule->first];
    char bytes[NA_TEXT], blocks[NA_TEXT];
    printf("\n# %zu. ", number);
    comment_functions(w, rule);
    printf("\n#   %s in %s blocks\n", na_text_bytes(bytes, ruled->e.bytes),
           na_text_count(blocks, ruled->e.blocks));
    put_tier_action(w, rule, &ruled->e, near);
    put_place_action(rule, &ruled->e);
    put_lines_action(rule, &ruled->e);
    put_life(rule, &ruled->e);
    put_reserve(rule, &ruled->e);
    put_group(rule, &ruled->e);
    comment_cost(w, rule);
    printf("site ");
    for (uint32_t i = 0; i < rule->depth; i++)
        printf("%sm%u+0x%" PRIx64, i == 0 ? "" : " < ", alias[run->frames[i].module],
               run->frames[i].offset);
    printf(" : ");
    put_rule_actions(w, rule);
}

/* ---- the file ---- */

/* Aliases for the modules of the rules, in their order; 0: none, there were too many. Returns how
 * many rules can be written, which come first then. */
static size_t name_modules(const na_policy_work_t *w, ruled_t *ruled, uint32_t *alias) {
    uint32_t named = 0;
    size_t kept = 0;
    for (size_t i = 0; i < w->rules.count && kept < NA_POLICY_SITES; i++) {
        const na_judged_site_t *run = &w->runs[ruled[i].rule->first];
        uint32_t more = 0, before = named;
        for (uint32_t k = 0; k < ruled[i].rule->depth; k++)
            if (alias[run->frames[k].module] == 0) {
                alias[run->frames[k].module] = ++named;
                more++;
            }
        if (named > NA_POLICY_MODULES) {
            for (uint32_t k = 0; k < w->elf_count && more != 0; k++)
                if (alias[k] > before) alias[k] = 0;
            named = before;
            continue;
        }
        ruled[kept++] = ruled[i];
    }
    return kept;
}

static void put_module_lines(const na_policy_work_t *w, const uint32_t *alias) {
    for (uint32_t number = 1; number <= NA_POLICY_MODULES; number++)
        for (uint32_t i = 0; i < w->elf_count; i++) {
            if (alias[i] != number) continue;
            printf("module m%u ", number);
            put_quoted_name(w->elfs[i].name);
            put_build_id(&w->elfs[i]);
            putchar('\n');
        }
}

/* The one group that is written, and what is in it of the first profile that has one. */
static void put_group_line(const na_policy_work_t *w) {
    bool grouped = false;
    for (size_t i = 0; i < w->rules.count; i++)
        grouped |= w->rules.items[i].value[NA_RULE_GROUP] != NA_VERDICT_ALONE;
    for (size_t i = 0; grouped && i < w->count; i++) {
        const na_uses_found_t *uses = &w->profiles[i].uses;
        char hot[NA_TEXT], all[NA_TEXT], looks[NA_TEXT];
        if (uses->items == NULL || uses->say != NA_USES_GROUP) continue;
        printf("\n# blocks that are used as long as they live: %s at the peak, of %s in small "
               "blocks\n#   (by %s looks at words of blocks)\n",
               na_text_bytes(hot, uses->hot), na_text_bytes(all, uses->bytes),
               na_text_count(looks, floor(uses->looks)));
        break;
    }
    if (grouped) printf("group " NA_HOT_GROUP " : pages=huge, control=off\n");
}

na_status_t na_policy_write(na_policy_work_t *w) {
    ruled_t *ruled = order(w);
    uint32_t *alias = calloc((size_t)w->elf_count + 1, sizeof *alias);
    na_status_t status = ruled == NULL || alias == NULL ? NA_STATUS_MEMORY : NA_STATUS_WHOLE;
    if (status == NA_STATUS_WHOLE) {
        size_t kept = name_modules(w, ruled, alias);
        printf("numalloc policy %u\n", NA_POLICY_VERSION);
        put_files(w);
        if (w->options.policy.near.given) na_policy_put_tiers(w);
        put_program_lines(w);
        put_module_lines(w, alias);
        put_group_line(w);
        double near = w->options.policy.near.given ? na_policy_tiers_alone(w) : 0;
        for (size_t i = 0; i < kept; i++)
            put_found_rule(w, &ruled[i], alias, i + 1, &near);
        if (kept < w->rules.count)
            printf("\n# %zu rules more were left out: a policy has %u sites and %u modules at "
                   "most\n",
                   w->rules.count - kept, NA_POLICY_SITES, NA_POLICY_MODULES);
        if (w->rules.count == 0) na_policy_put_nothing(w);
        if (w->options.policy.explain) na_policy_explain(w);
    }
    free(ruled);
    free(alias);
    return status;
}

static na_status_t show_policy(const char *const *files, size_t count,
                               const na_options_t *options) {
    if (options->policy.check + options->policy.compare + options->policy.follow > 1)
        return na_fail("--check, --compare or --follow, not several");
    if (options->policy.near.given &&
        (options->policy.check || options->policy.compare || options->policy.follow))
        return na_fail("--near is for writing a policy, not for --check, --compare or --follow");
    if (options->policy.compare) return na_policy_compare(files, count, options);
    if (na_table_wanted(options))
        return na_fail("a policy is text: --json, --csv, --sort, --top and --filter are for "
                       "--compare");
    if (options->policy.check) return na_policy_check(files, count, options);
    if (options->policy.follow) return na_policy_follow(files, count, options);
    if (options->live.interval_s > 0 || options->live.iterations != 0)
        return na_fail("--interval and --iterations are for --follow");
    na_policy_work_t work;
    na_status_t status = na_policy_find(&work, files, count, options);
    if (status == NA_STATUS_WHOLE) status = na_policy_write(&work);
    return na_policy_work_free(&work, status);
}

const na_view_t na_view_row_policy = {
    .name = "policy",
    .words = "FILE...",
    .help = "rules for the allocator, for NUMALLOC_POLICY",
    .more = "With accesses: where blocks should lie, and which should have cache lines of their "
            "own;\nby watchpoints, which small blocks are used.\nWithout: which live long, and "
            "what grows by realloc.\n"
            "--near SIZE: what should lie in near memory, and what in far memory (CXL).\n"
            "--check POLICY [PROGRAM | PROFILE...] says what of a policy can be obeyed.\n"
            "--compare [POLICY] BEFORE AFTER says of each rule keep, drop or unclear.\n"
            "--follow PID -o POLICY writes it anew as the profile grows; a process under\n"
            "NUMALLOC_POLICY=POLICY takes it.",
    .modes = NA_IN_ALL,
    .takes = NA_TAKES(POLICY) | NA_TAKES_TABLE | NA_TAKES(LIVE),
    .tables = {{&na_policy_compare_table, 0}},
    .show_files = show_policy,
};
