/* site_rules.c - see site_rules.h. Runs are sorted, so what a node of the tree has below it is a
 * range. */
#include "profiler/analyze/policy/site_rules.h"

#include <stdlib.h>
#include <string.h>

#include "profiler/containers/array.h"

/* Of bytes and of blocks, where no frame is left to tell sites apart. */
#define AGREED 0.9

static int by_frame(const na_judged_frame_t *a, const na_judged_frame_t *b) {
    if (a->module != b->module) return a->module < b->module ? -1 : 1;
    return (a->offset > b->offset) - (a->offset < b->offset);
}

/* A run that is the beginning of others comes before them. */
int na_judged_sites_order(const void *a, const void *b) {
    const na_judged_site_t *x = a, *y = b;
    for (uint32_t i = 0; i < x->depth && i < y->depth; i++) {
        int order = by_frame(&x->frames[i], &y->frames[i]);
        if (order != 0) return order;
    }
    if (x->depth != y->depth) return x->depth < y->depth ? -1 : 1;
    if (x->source != y->source) return x->source < y->source ? -1 : 1;
    return (x->item > y->item) - (x->item < y->item);
}

/* ---- what a range of runs says ---- */

/* Most verdicts that are told apart in one range; those beyond count as against all. */
#define VERDICTS 64u

typedef struct opinion {
    uint32_t verdict; /* the one with most bytes; NA_VERDICT_ANY: none */
    bool divided;
    double agree;               /* its share: the lesser one of bytes and blocks */
    double bytes, blocks;       /* of all that have a verdict */
    double wrong, wrong_blocks; /* of those with another one */
} opinion_t;

static opinion_t opinion_of(const na_judged_site_t *runs, size_t first, size_t end,
                            na_rule_kind_t kind) {
    struct {
        uint32_t verdict;
        double bytes, blocks;
    } sums[VERDICTS];
    uint32_t count = 0;
    opinion_t o = {.verdict = NA_VERDICT_ANY};
    for (size_t i = first; i < end; i++) {
        uint32_t verdict = runs[i].verdict[kind], at = 0;
        if (verdict == NA_VERDICT_ANY) continue;
        o.bytes += runs[i].bytes;
        o.blocks += runs[i].blocks;
        while (at < count && sums[at].verdict != verdict)
            at++;
        if (at == VERDICTS) continue;
        if (at == count) {
            sums[count].verdict = verdict;
            sums[count].bytes = sums[count].blocks = 0;
            count++;
        }
        sums[at].bytes += runs[i].bytes;
        sums[at].blocks += runs[i].blocks;
    }
    if (count == 0) return o;
    uint32_t most = 0;
    for (uint32_t at = 1; at < count; at++)
        if (sums[at].bytes > sums[most].bytes) most = at;
    o.verdict = sums[most].verdict;
    o.divided = count > 1;
    o.wrong = o.bytes - sums[most].bytes;
    o.wrong_blocks = o.blocks - sums[most].blocks;
    double bytes = o.bytes > 0 ? sums[most].bytes / o.bytes : 1;
    double blocks = o.blocks > 0 ? sums[most].blocks / o.blocks : 1;
    o.agree = !o.divided ? 1 : bytes < blocks ? bytes : blocks;
    return o;
}

/* ---- rules of one kind ---- */

typedef struct search {
    const na_judged_site_t *runs;
    na_site_rules_t *rules;
    na_rule_kind_t kind;
    bool failed;
} search_t;

static void add_site_rule(search_t *s, size_t first, size_t end, uint32_t depth, uint32_t verdict,
                          double agree) {
    na_site_rules_t *rules = s->rules;
    if (!NA_ARRAY_RESERVE(rules->items, rules->room, rules->count + 1)) {
        s->failed = true;
        return;
    }
    na_site_rule_t *rule = &rules->items[rules->count++];
    *rule = (na_site_rule_t){.first = first, .count = end - first, .depth = depth};
    rule->value[s->kind] = verdict;
    rule->agree[s->kind] = agree;
}

static bool has_value(uint32_t verdict) {
    return verdict != NA_VERDICT_ALONE && verdict != NA_VERDICT_ANY;
}

/* No frame is left for runs [first, end) of a node that has all up to `below`. */
static void decide_last(search_t *s, size_t first, size_t end, size_t below, uint32_t depth) {
    bool any = false;
    for (size_t i = first; i < end && !any; i++)
        any = has_value(s->runs[i].verdict[s->kind]);
    if (!any) return;
    opinion_t o = opinion_of(s->runs, first, below, s->kind);
    if (depth != 0 && has_value(o.verdict) && o.agree >= AGREED) {
        add_site_rule(s, first, below, depth, o.verdict, o.agree);
        return;
    }
    for (size_t i = first; i < end; i++)
        s->rules->left_out[s->kind] += has_value(s->runs[i].verdict[s->kind]);
}

/* Runs [first, end) have `depth` frames in common. */
static void split_runs(search_t *s, size_t first, size_t end, uint32_t depth) {
    opinion_t o = opinion_of(s->runs, first, end, s->kind);
    if (o.verdict == NA_VERDICT_ANY) return;
    if (!o.divided && depth != 0) {
        if (o.verdict != NA_VERDICT_ALONE) add_site_rule(s, first, end, depth, o.verdict, 1);
        return;
    }
    size_t at = first;
    while (at < end && s->runs[at].depth == depth)
        at++;
    decide_last(s, first, at, end, depth);
    while (at < end) {
        size_t next = at + 1;
        while (next < end &&
               by_frame(&s->runs[next].frames[depth], &s->runs[at].frames[depth]) == 0)
            next++;
        split_runs(s, at, next, depth + 1);
        at = next;
    }
}

/* ---- of all kinds ---- */

/* A rule before those that begin with it. */
static int by_range(const void *a, const void *b) {
    const na_site_rule_t *x = a, *y = b;
    if (x->first != y->first) return x->first < y->first ? -1 : 1;
    return (x->depth > y->depth) - (x->depth < y->depth);
}

static void take_over(na_site_rule_t *to, const na_site_rule_t *from) {
    for (int kind = 0; kind < NA_RULE_KINDS; kind++) {
        if (to->value[kind] != NA_VERDICT_ALONE || from->value[kind] == NA_VERDICT_ALONE) continue;
        to->value[kind] = from->value[kind];
        to->agree[kind] = from->agree[kind];
    }
}

static void join_rules(na_site_rules_t *rules) {
    if (rules->count == 0) return;
    qsort(rules->items, rules->count, sizeof *rules->items, by_range);
    size_t kept = 0;
    for (size_t i = 0; i < rules->count; i++) {
        na_site_rule_t *last = kept == 0 ? NULL : &rules->items[kept - 1];
        if (last != NULL && last->first == rules->items[i].first &&
            last->depth == rules->items[i].depth)
            take_over(last, &rules->items[i]);
        else
            rules->items[kept++] = rules->items[i];
    }
    rules->count = kept;
    /* Those that a rule begins with come before it, and are complete when its turn comes. */
    na_site_rule_t *above[NA_JUDGED_FRAMES + 1];
    uint32_t depth = 0;
    for (size_t i = 0; i < rules->count; i++) {
        na_site_rule_t *rule = &rules->items[i];
        while (depth != 0 && above[depth - 1]->first + above[depth - 1]->count <= rule->first)
            depth--;
        if (depth != 0) take_over(rule, above[depth - 1]);
        above[depth++] = rule;
    }
}

/* ---- how many frames are needed ---- */

static bool same_run(const na_judged_site_t *a, const na_judged_site_t *b, uint32_t frames) {
    uint32_t x = a->depth < frames ? a->depth : frames, y = b->depth < frames ? b->depth : frames;
    if (x != y) return false;
    for (uint32_t i = 0; i < x; i++)
        if (by_frame(&a->frames[i], &b->frames[i]) != 0) return false;
    return true;
}

bool na_judged_same_frames(const na_judged_site_t *a, const na_judged_site_t *b) {
    return same_run(a, b, NA_JUDGED_FRAMES);
}

static void count_conflicts(const na_judged_site_t *runs, size_t count, uint32_t frames,
                            na_run_conflict_t *sum) {
    for (size_t first = 0, end; first < count; first = end) {
        for (end = first + 1; end < count && same_run(&runs[first], &runs[end], frames);)
            end++;
        opinion_t worst = {.verdict = NA_VERDICT_ANY};
        for (int kind = 0; kind < NA_RULE_KINDS; kind++) {
            opinion_t o = opinion_of(runs, first, end, (na_rule_kind_t)kind);
            if (o.divided && o.wrong >= worst.wrong) worst = o;
        }
        if (!worst.divided) continue;
        sum->bytes += worst.bytes;
        sum->blocks += worst.blocks;
        sum->wrong_bytes += worst.wrong;
        sum->wrong_blocks += worst.wrong_blocks;
    }
}

bool na_site_rules_make(na_judged_site_t *runs, size_t count, na_site_rules_t *rules) {
    memset(rules, 0, sizeof *rules);
    if (count == 0) return true;
    qsort(runs, count, sizeof *runs, na_judged_sites_order);
    search_t s = {.runs = runs, .rules = rules};
    for (int kind = 0; kind < NA_RULE_KINDS && !s.failed; kind++) {
        s.kind = (na_rule_kind_t)kind;
        split_runs(&s, 0, count, 0);
    }
    join_rules(rules);
    for (uint32_t k = 1; k <= NA_JUDGED_FRAMES; k++)
        count_conflicts(runs, count, k, &rules->conflicts[k - 1]);
    return !s.failed;
}

void na_site_rules_free(na_site_rules_t *rules) {
    free(rules->items);
    memset(rules, 0, sizeof *rules);
}
