/* policy_explain.c - see policy_explain.h. */
#include "profiler/dump/policy/policy_explain.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>

#include "profiler/dump/accesses/access_view.h"
#include "profiler/dump/ui/text.h"

#define MOST_VERDICTS 20u
#define WHY           96u

/* Why a verdict that asks for a change has no rule; NULL: it has one, or asks for none. */
static const char *why_no_rule(const na_policy_work_t *w, const na_policy_profile_t *p,
                               uint32_t number, char to[static WHY]) {
    const na_verdict_t *v = &p->verdicts.items[number];
    na_place_t place = na_place_for(&p->flows, &p->verdicts, v);
    na_rule_kind_t kind = place.own_lines ? NA_RULE_LINES : NA_RULE_PLACE;
    double gain = na_place_gain(&p->flows, &p->verdicts, v);
    if (v->kind == NA_VERDICT_UNDECIDABLE && v->undecided == NA_UNDECIDED_SAMPLES)
        snprintf(to, WHY, "of %u samples it takes %.0f to say what is wrong: run longer",
                 v->measure.samples, v->needed);
    else if (!place.own_lines && place.place == NA_POLICY_PLACE_NONE)
        return place.why_not;
    else if (!na_policy_reaches(p, p->flows.groups[v->group].site))
        return "no rule reaches a call of numalloc.h that names the place";
    else if (!w->kinds[kind] || (kind == NA_RULE_PLACE && w->options.policy.near.given))
        snprintf(to, WHY, "rules of kind %s are not asked for", na_rule_kind_names[kind]);
    else if (v->chance < w->options.policy.min_chance)
        snprintf(to, WHY, "its confidence is %.0f %%: run longer, or --min-confidence %.0f",
                 100 * v->chance, floor(100 * v->chance));
    else if (gain < w->least)
        snprintf(to, WHY, "a rule would gain %.2f %%; --min-gain is %.4g %%", 100 * gain,
                 100 * w->least);
    else
        return na_policy_is_ruled(w, p, number) ? NULL
                                                : "its call frames do not tell it from others";
    return to;
}

static void put_group_name(const na_policy_profile_t *p, const na_flow_group_t *g) {
    const na_symbol_frame_t *leaf;
    const na_symbol_frame_t *frame = g->site == 0 ? NULL : na_view_site(&p->in, g->site, &leaf);
    char label[NA_LABEL] = "?";
    if (g->name != NULL)
        snprintf(label, sizeof label, "%s", g->name);
    else if (frame != NULL)
        na_view_frame_label(frame, label);
    na_text_put(stdout, label);
}

/* Each verdict that asks for a change and has no rule. Returns how many. */
static uint32_t explain_verdicts(const na_policy_work_t *w, const na_policy_profile_t *p) {
    uint32_t shown = 0;
    for (uint32_t i = 0; i < p->verdicts.count && shown < MOST_VERDICTS; i++) {
        const na_verdict_t *v = &p->verdicts.items[i];
        char text[WHY];
        const char *why = why_no_rule(w, p, i, text);
        if (why == NULL) continue;
        if (shown++ == 0) printf("# What no rule mends:\n");
        printf("#   ");
        put_group_name(p, &p->flows.groups[v->group]);
        printf(": %s", na_verdict_texts[v->kind].title);
        if (v->cost_share > 0) printf(" (%.1f %% of all remote cost)", 100 * v->cost_share);
        printf("; %s\n", why);
    }
    return shown;
}

static void put_unreached(const na_policy_work_t *w) {
    if (w->unreached != 0)
        printf(
            "# Of %u site%s the place is named by a call of numalloc.h, which no rule reaches.\n",
            w->unreached, w->unreached == 1 ? "" : "s");
}

void na_policy_put_nothing(const na_policy_work_t *w) {
    bool accesses = false;
    uint32_t left = 0;
    for (size_t i = 0; i < w->count; i++)
        accesses |= w->profiles[i].accesses;
    putchar('\n');
    for (size_t i = 0; i < w->count; i++)
        left += explain_verdicts(w, &w->profiles[i]);
    put_unreached(w);
    if (left != 0 || w->unreached != 0)
        printf("# No rules: none would mend that.\n");
    else
        printf("# No rules: nothing is to be gained that these profiles show%s.\n",
               accesses ? "" : ", which say nothing of accesses");
    for (int kind = 0; kind < NA_RULE_KINDS; kind++)
        if (w->below[kind] > 0)
            printf("# The most by %s would be %.2f %%; --min-gain is %.4g %%.\n",
                   na_rule_kind_names[kind], 100 * w->below[kind], 100 * w->least);
    char kept[NA_TEXT], least[NA_TEXT];
    if (w->little_kept > 0)
        printf(
            "# Long-lived blocks keep %s of the memory of others; below %s that makes no rule.\n",
            na_text_bytes(kept, w->little_kept), na_text_bytes(least, NA_POLICY_LEAST_KEPT));
    if (w->few_samples != 0)
        printf("# %u sites may be long-lived, but have too few samples: NUMALLOC_PROFILE=sites, or "
               "a\n# smaller NUMALLOC_SAMPLE_INTERVAL, would tell.\n",
               w->few_samples);
    const na_policy_profile_t *most = NULL; /* is unknown of it */
    for (size_t i = 0; i < w->count && w->kinds[NA_RULE_GROUP]; i++)
        if (most == NULL || w->profiles[i].uses.unknown > most->uses.unknown)
            most = &w->profiles[i];
    if (most == NULL || most->uses.unknown < NA_USE_BYTES) return;
    char often[160] = "";
    for (uint32_t i = 0; i < most->flows.source_count; i++)
        if (most->flows.sources[i].of.source == NA_NPROF_SOURCE_WATCH)
            na_access_more_often(&most->flows.sources[i].of, INFINITY, often, sizeof often);
    printf("# Of %s in small, long-lived blocks it is not known whether they are used: run "
           "longer%s%s\n",
           na_text_bytes(kept, most->uses.unknown),
           often[0] != 0 ? ", or\n# look more often: " : "", often);
}

static void explain_accesses(const na_policy_work_t *w, const na_policy_profile_t *p) {
    if (p->accesses) {
        if (w->rules.count != 0) explain_verdicts(w, p); /* else they were said before */
        return;
    }
    printf("# No accesses in ");
    na_text_put(stdout, p->in.path);
    printf(": nothing is known of placement and lines (NUMALLOC_PROFILE=sites,access=auto).\n");
}

static void put_lives(const na_policy_profile_t *p) {
    char kept[NA_TEXT], memory[NA_TEXT];
    double longs = 0, all = 0;
    for (size_t i = 0; i < p->in.sites.count; i++) {
        const na_site_life_t *life = &p->lives.items[i];
        all += life->blocks;
        if (life->is_long) longs += life->blocks;
    }
    printf("# Life: %.1f %% of all blocks are of sites whose blocks live long; they keep %s%s of "
           "%s.\n",
           all > 0 ? 100 * longs / all : 0, p->lives.measured < p->lives.kept ? "up to " : "",
           na_text_bytes(kept, p->lives.kept), na_text_bytes(memory, na_policy_memory(p)));
}

#define MOST_USES 10u

/* Why a site of small blocks is in no group. */
static const char *no_group(const na_policy_profile_t *p, size_t i) {
    static const char *const why[] = {
        [NA_USES_LITTLE] = "too little in all",
        [NA_USES_DENSE] = "little between them",
        [NA_USES_COSTLY] = "too many calls in all",
    };
    const na_site_use_t *use = &p->uses.items[i];
    if (!p->lives.items[i].is_long) return "short-lived";
    if (!use->may) return "several threads";
    if (use->cost > NA_USE_COST) return "too many calls";
    if (use->looks < NA_USE_LOOKS) return "too few looks";
    if (use->low < NA_USE_LEAST * use->window) return "not surely used";
    return p->uses.say == NA_USES_GROUP ? "" : why[p->uses.say];
}

/* The next one after `last` by bytes at the peak, then by number; SIZE_MAX: none. */
static size_t next_use(const na_uses_found_t *uses, size_t last) {
    double most = last == SIZE_MAX ? INFINITY : uses->items[last].bytes;
    size_t next = SIZE_MAX;
    for (size_t i = 0; i < uses->count; i++) {
        double bytes = uses->items[i].bytes;
        if (!(bytes > 0) || bytes > most || (bytes == most && i <= last)) continue;
        if (next == SIZE_MAX || bytes > uses->items[next].bytes) next = i;
    }
    return next;
}

static void put_uses(const na_policy_profile_t *p) {
    const na_uses_found_t *uses = &p->uses;
    if (uses->items == NULL) return;
    printf("# Use: of the memory around blocks that are surely used, %.0f %% is of idle "
           "ones. Small\n#   blocks at the peak; looks at their words, and how often a word is "
           "used:\n",
           100 * uses->between);
    size_t at = next_use(uses, SIZE_MAX);
    for (unsigned shown = 0; shown < MOST_USES && at != SIZE_MAX; shown++) {
        const na_site_use_t *use = &uses->items[at];
        const na_symbol_frame_t *leaf, *frame = na_view_site(&p->in, na_policy_site(p, at), &leaf);
        char label[NA_LABEL] = "?", bytes[NA_TEXT];
        if (frame != NULL) na_view_frame_label(frame, label);
        printf("#   %10s %6.0f %7.1f /s  %-20s ", na_text_bytes(bytes, use->bytes), use->looks,
               use->rate, use->hot ? "in the group" : no_group(p, at));
        na_text_put(stdout, label);
        putchar('\n');
        at = next_use(uses, at);
    }
}

void na_policy_explain(const na_policy_work_t *w) {
    putchar('\n');
    for (size_t i = 0; i < w->count; i++) {
        explain_accesses(w, &w->profiles[i]);
        put_lives(&w->profiles[i]);
        put_uses(&w->profiles[i]);
    }
    if (w->rules.count != 0) put_unreached(w); /* else it was said before */
    for (int kind = 0; kind < NA_RULE_KINDS; kind++)
        if (w->rules.left_out[kind] != 0)
            printf("# %s: %" PRIu64 " sites left out: %u frames do not tell them from others\n",
                   na_rule_kind_names[kind], w->rules.left_out[kind], NA_JUDGED_FRAMES);
    double bytes = 0, blocks = 0;
    for (size_t i = 0; i < w->run_count; i++) {
        bytes += w->runs[i].bytes;
        blocks += w->runs[i].blocks;
    }
    printf("# Frames that are looked at, and what of all that was allocated would then be in one "
           "with\n# sites of another verdict; and of that, what a rule must get wrong at least:\n"
           "#   frames      bytes  blocks       wrong: bytes  blocks\n");
    for (uint32_t k = 0; k < NA_JUDGED_FRAMES; k++) {
        const na_run_conflict_t *c = &w->rules.conflicts[k];
        printf("#   %6u   %6.2f %% %5.2f %%      %6.2f %% %5.2f %%\n", k + 1,
               bytes > 0 ? 100 * c->bytes / bytes : 0, blocks > 0 ? 100 * c->blocks / blocks : 0,
               bytes > 0 ? 100 * c->wrong_bytes / bytes : 0,
               blocks > 0 ? 100 * c->wrong_blocks / blocks : 0);
    }
}
