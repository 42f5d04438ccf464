/* verdict_rules_lines.c - false sharing, over what shared_lines.c says of the lines that were
 * looked at word by word. It is judged by itself: neither nodes nor shares of all accesses have a
 * part in it. See verdict.h. */
#include <math.h>
#include <stdlib.h>

#include "profiler/analyze/accesses/verdict.h"
#include "profiler/containers/array.h"

#define LEAST 0.1 /* of all looks */

static void add_lines_condition(na_rule_t *rule, const char *what, na_threshold_t limit,
                                double value, double chance) {
    bool met = value >= na_limit(limit);
    rule->conditions[rule->count++] = (na_condition_t){.what = what,
                                                       .limit = limit,
                                                       .value = value,
                                                       .chance = chance,
                                                       .at_least = true,
                                                       .known = true,
                                                       .met = met};
    rule->holds = rule->holds && met;
    if (chance < rule->chance) rule->chance = chance;
    double near = met ? 1 : value / na_limit(limit);
    if (near < rule->fit) rule->fit = near;
}

static na_rule_t line_rule(const na_line_t *line) {
    na_rule_t rule = {.holds = line->threads > 1, .chance = 1, .fit = 1};
    add_lines_condition(&rule, "by the thread that each part of the line belongs to", NA_T_LINE_OWN,
                        line->own,
                        na_share_chance(line->own, na_limit(NA_T_LINE_OWN), line->repeats, true));
    if (line->conflicts < LEAST * line->probes) rule.holds = false; /* one after the other */
    if (line->repeats < na_limit(NA_T_LINE_PROBES)) rule.holds = false;
    add_lines_condition(&rule, "looks that saw different threads use different parts, one writing",
                        NA_T_LINE_PROBES, line->conflicts, 1 - pow(0.5, line->conflicts));
    add_lines_condition(&rule, "accesses a second by others than the thread with most, or writes",
                        NA_T_LINE_RATE, line->others, 1);
    return rule;
}

static uint32_t line_group(const na_flows_t *set, const na_line_t *line) {
    return line->object == NA_FLOWS_NONE ? NA_FLOWS_NONE : set->objects[line->object].group;
}

/* Is it about one or two lines? */
static bool of_lines(const na_measure_t *m) {
    return m->lines != 0 && m->lines <= na_limit(NA_T_LINES);
}

/* Says less than that the line is shared falsely, which takes its place. Of one or two lines any
 * verdict does: moving a line changes little while it goes from thread to thread. */
static bool is_less(const na_verdict_t *v) {
    return v->kind == NA_VERDICT_NOTHING || v->kind == NA_VERDICT_UNDECIDABLE ||
           of_lines(&v->measure);
}

static na_verdict_t *item_of(na_verdicts_t *v, uint32_t group, uint32_t object) {
    for (uint32_t i = 0; i < v->count; i++)
        if (v->items[i].group == group &&
            (v->items[i].object == object || v->items[i].object == NA_FLOWS_NONE))
            return &v->items[i];
    return NULL;
}

/* Looks at the line with most of an object's accesses. */
static uint32_t looks_at(const na_flows_t *set, const na_verdicts_t *v, const na_verdict_t *item) {
    for (uint32_t i = 0; i < v->lines.count; i++) {
        const na_line_t *line = &v->lines.items[i];
        if (line->address == item->measure.line &&
            set->objects[item->object].process == line->process)
            return line->probes;
    }
    return 0;
}

/* Who uses a line that is written often is not known before it was looked at word by word: what
 * samples say is of the words that were drawn. Where one thread runs there is nothing to see; and
 * blocks that come and go there may be gone before a look is over. */
static void wait_for_looks(const na_flows_t *set, const na_verdicts_t *v, na_verdict_t *item) {
    const na_measure_t *m = &item->measure;
    double seconds = (double)(set->end_ns - set->start_ns) / 1e9;
    if (item->kind == NA_VERDICT_FALSE_SHARING || item->kind == NA_VERDICT_UNDECIDABLE) return;
    if (item->object == NA_FLOWS_NONE || set->watched < 2 ||
        set->sources[v->source].of.source != NA_NPROF_SOURCE_WATCH || !of_lines(m) ||
        m->written < na_limit(NA_T_LINE_RATE) * seconds)
        return;
    double looks = looks_at(set, v, item), wanted = na_limit(NA_T_LINE_PROBES);
    if (looks >= wanted) return;
    na_rule_t *rule = &item->rules[NA_VERDICT_FALSE_SHARING];
    *rule = (na_rule_t){.open = true, .chance = 1, .fit = 1};
    add_lines_condition(rule, "looks at the line that has most of it, which met a thread",
                        NA_T_LINE_PROBES, looks, 0);
    item->runners[0] = item->kind;
    item->runners[1] = NA_VERDICT_FALSE_SHARING;
    item->kind = NA_VERDICT_UNDECIDABLE;
    item->undecided = NA_UNDECIDED_SAMPLES;
    item->needed = ceil(m->samples * wanted / (looks > 1 ? looks : 1));
    item->chance = 0;
    item->gain_remote = item->gain_latency = NAN;
}

bool na_rules_lines(const na_flows_t *set, na_verdicts_t *v) {
    for (uint32_t i = 0; i < v->lines.count; i++) {
        const na_line_t *line = &v->lines.items[i];
        uint32_t group = line_group(set, line);
        na_rule_t rule = line_rule(line);
        if (!rule.holds || group == NA_FLOWS_NONE) continue;
        na_verdict_t *known = NULL;
        for (uint32_t k = 0; k < v->count && known == NULL; k++)
            if (v->items[k].kind == NA_VERDICT_FALSE_SHARING && v->items[k].group == group)
                known = &v->items[k];
        if (known != NULL) {
            known->line_count++;
            continue;
        }
        na_verdict_t *to = item_of(v, group, line->object);
        if (to == NULL || !is_less(to)) {
            if (!NA_ARRAY_RESERVE(v->items, v->room, v->count + 1u)) return false;
            to = &v->items[v->count];
            *to = (na_verdict_t){.group = group, .object = line->object, .apart = NA_FLOWS_NONE};
            if (!na_measure_make(set, v, &line->object, 1, NA_FLOWS_NONE, &to->measure))
                return false;
            na_rules_decide(set, v, to);
            v->count++;
        }
        if (to->runners[0] != NA_VERDICT_FALSE_SHARING) to->runners[1] = to->runners[0];
        to->runners[0] = to->kind == NA_VERDICT_NOTHING ? NA_VERDICT_UNDECIDABLE : to->kind;
        to->kind = NA_VERDICT_FALSE_SHARING;
        to->undecided = NA_UNDECIDED_NOT;
        to->lacks = 0;
        to->needed = 0;
        to->object = line->object;
        to->apart = NA_FLOWS_NONE;
        to->gain_remote = to->gain_latency = NAN;
        to->rules[NA_VERDICT_FALSE_SHARING] = rule;
        to->chance = rule.chance;
        to->line = i;
        to->line_count = 1;
    }
    for (uint32_t i = 0; i < v->count; i++)
        wait_for_looks(set, v, &v->items[i]);
    return true;
}
