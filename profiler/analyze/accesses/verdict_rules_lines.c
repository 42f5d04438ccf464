/* verdict_rules_lines.c - false sharing, over what shared_lines.c says of the lines that were
 * looked at word by word. It is judged by itself: neither nodes nor shares of all accesses have a
 * part in it. See verdict.h. */
#include <math.h>
#include <stdlib.h>

#include "profiler/analyze/accesses/verdict.h"
#include "profiler/containers/array.h"

/* Of an object of more lines than that, who uses which word is not waited for. */
#define FEW_LINES 64
/* ns: blocks that live no longer may be gone before a look is over. */
#define LIFE 50000000.0

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

/* Each part is one thread's; or threads only read what nobody writes, beside what is written. */
static na_rule_t line_rule(const na_line_t *line) {
    na_rule_t rule = {.holds = line->threads > 1, .chance = 1, .fit = 1};
    double rate = line->others;
    if (na_line_is_beside(line) && line->own < na_limit(NA_T_LINE_OWN)) {
        rate = line->readers < line->writes ? line->readers : line->writes;
        add_lines_condition(
            &rule, "of reads of what nobody writes, by threads that use nothing else",
            NA_T_LINE_READERS, line->reading,
            na_share_chance(line->reading, na_limit(NA_T_LINE_READERS), line->conflicts, true));
    } else {
        double chance = na_share_chance(line->own, na_limit(NA_T_LINE_OWN), line->repeats, true);
        double alike = line->open != 0 ? 1 - pow(0.5, line->apart) : 1;
        add_lines_condition(&rule, "by the thread that each part of the line belongs to",
                            NA_T_LINE_OWN, line->own, chance < alike ? chance : alike);
        if (line->repeats < na_limit(NA_T_LINE_PROBES)) rule.holds = false;
    }
    /* Of many short lives the hand-over of some falls into a look. */
    double limit = na_limit(NA_T_LINE_TURNS), seen = line->conflicts, looks = line->probes;
    double met = line->lives > 1 && looks > 0 ? line->handovers / looks : 0;
    double share = looks > 0 ? seen / looks - met : 0;
    double beyond = limit + met < 1 ? limit + met : 1;
    add_lines_condition(&rule, "looks that saw different threads use different parts, one writing",
                        NA_T_LINE_PROBES, seen, 1 - pow(0.5, seen));
    add_lines_condition(&rule, "of all looks that met a thread", NA_T_LINE_TURNS, share,
                        line->lives > 1 ? na_share_chance(share + met, beyond, looks, true) : 1);
    add_lines_condition(&rule, "accesses a second by others than the thread with most, or writes",
                        NA_T_LINE_RATE, rate, 1);
    return rule;
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

static na_verdict_t *all_of(na_verdicts_t *v, uint32_t group) {
    na_verdict_t *item = item_of(v, group, NA_FLOWS_NONE);
    return item != NULL && item->apart == NA_FLOWS_NONE ? item : NULL;
}

/* Looks at what a verdict is of: at the line with most of an object's accesses, or at any of
 * `lines`, of blocks that come and go. */
static uint32_t looks_at(const na_flows_t *set, const na_verdicts_t *v, const na_verdict_t *item) {
    uint32_t looks = 0;
    bool one = item->object != NA_FLOWS_NONE && item->measure.lines <= na_limit(NA_T_LINES);
    for (uint32_t i = 0; i < v->lines.count; i++) {
        const na_line_t *line = &v->lines.items[i];
        if (line->object == NA_FLOWS_NONE || line->lives != 1) continue;
        const na_flow_object_t *o = &set->objects[line->object];
        bool of = one ? line->address == item->measure.line &&
                            set->objects[item->object].process == line->process
                      : o->group == item->group &&
                            (item->object == NA_FLOWS_NONE || item->object == line->object);
        if (of) looks += line->probes;
    }
    return looks;
}

/* Too little was seen of a line of theirs for more than a suspicion; how much, of what it takes. */
static bool may_be_false(const na_flows_t *set, const na_verdicts_t *v, const na_verdict_t *item,
                         double *seen) {
    double least = na_limit(NA_T_LINE_PROBES);
    for (uint32_t i = 0; i < v->lines.count; i++) {
        const na_line_t *l = &v->lines.items[i];
        bool little = l->conflicts < least || l->repeats < least;
        bool against = l->repeats != 0 && l->own < na_limit(NA_T_LINE_OWN);
        if (l->object != NA_FLOWS_NONE && set->objects[l->object].group == item->group &&
            l->threads > 1 && little && !against &&
            l->conflicts > na_limit(NA_T_LINE_TURNS) * l->probes + l->handovers) {
            *seen = l->conflicts < l->repeats ? l->conflicts : l->repeats;
            return true;
        }
    }
    return false;
}

/* Are they there for long enough to be looked at? */
static bool lasts(const na_flows_t *set, const na_verdict_t *item) {
    const na_flow_group_t *g = &set->groups[item->group];
    double life = 0, count = 0;
    for (uint32_t i = 0; i < g->objects; i++) {
        const na_flow_object_t *o = &set->objects[g->members[i]];
        if (!na_verdict_is_on(item, g->members[i]) || o->samples == 0) continue;
        uint64_t end = o->end_ns < set->end_ns ? o->end_ns : set->end_ns;
        life += end > o->birth_ns ? (double)(end - o->birth_ns) : 0;
        count += 1;
    }
    return count > 0 && life >= LIFE * count;
}

/* Who uses a line that is written often, or by several threads, is not known before it was looked
 * at word by word: what samples say is of the words that were drawn, and the one that is written
 * may not be among them. Where one thread runs there is nothing to see. */
static void wait_for_looks(const na_flows_t *set, const na_verdicts_t *v, na_verdict_t *item) {
    const na_measure_t *m = &item->measure;
    double seconds = (double)(set->end_ns - set->start_ns) / 1e9;
    double busy = m->threads > 1 && !(m->written > 0) ? m->weight : m->written;
    if (item->kind == NA_VERDICT_FALSE_SHARING || item->kind == NA_VERDICT_UNDECIDABLE) return;
    if (set->watched < 2 || set->sources[v->source].of.source != NA_NPROF_SOURCE_WATCH ||
        m->lines == 0 || m->lines > FEW_LINES || !lasts(set, item) ||
        busy < na_limit(NA_T_LINE_RATE) * seconds * m->lines)
        return;
    double looks = looks_at(set, v, item), wanted = na_limit(NA_T_LINE_PROBES), seen = looks;
    if (looks >= wanted && !may_be_false(set, v, item, &seen)) return;
    na_rule_t *rule = &item->rules[NA_VERDICT_FALSE_SHARING];
    *rule = (na_rule_t){.open = true, .chance = 1, .fit = 1};
    add_lines_condition(rule, "looks at the line that has most of it, which met a thread",
                        NA_T_LINE_PROBES, looks, 0);
    item->runners[0] = item->kind;
    item->runners[1] = NA_VERDICT_FALSE_SHARING;
    item->kind = NA_VERDICT_UNDECIDABLE;
    item->undecided = NA_UNDECIDED_SAMPLES;
    item->needed = ceil(m->samples * wanted / (seen > 1 ? seen : 1));
    item->chance = 0;
    item->gain_remote = item->gain_latency = NAN;
}

/* A verdict on a group that has none yet. False: out of memory. */
static bool add_item(const na_flows_t *set, na_verdicts_t *v, uint32_t group, uint32_t object) {
    if (!NA_ARRAY_RESERVE(v->items, v->room, v->count + 1u)) return false;
    na_verdict_t *to = &v->items[v->count];
    const na_flow_group_t *g = &set->groups[group];
    *to = (na_verdict_t){.group = group, .object = object, .apart = NA_FLOWS_NONE};
    bool all = object == NA_FLOWS_NONE;
    if (!na_measure_make(set, v, all ? g->members : &object, all ? g->objects : 1, NA_FLOWS_NONE,
                         &to->measure))
        return false;
    na_rules_decide(set, v, to);
    v->count++;
    return true;
}

/* The line is shared falsely, and has blocks of this group. False: out of memory. */
static bool say_so(const na_flows_t *set, na_verdicts_t *v, uint32_t line, const na_rule_t *rule,
                   uint32_t object) {
    uint32_t group = set->objects[object].group;
    for (uint32_t k = 0; k < v->count; k++)
        if (v->items[k].kind == NA_VERDICT_FALSE_SHARING && v->items[k].group == group) {
            v->items[k].line_count += v->items[k].line != line && v->lines.items[line].lives == 1;
            return true;
        }
    /* Of several lives it is said of all blocks of the origin. */
    if (v->lines.items[line].lives > 1) object = NA_FLOWS_NONE;
    na_verdict_t *to = object == NA_FLOWS_NONE ? all_of(v, group) : item_of(v, group, object);
    if (to == NULL || !is_less(to)) {
        if (!add_item(set, v, group, object)) return false;
        to = &v->items[v->count - 1];
    }
    if (to->runners[0] != NA_VERDICT_FALSE_SHARING) to->runners[1] = to->runners[0];
    to->runners[0] = to->kind == NA_VERDICT_NOTHING ? NA_VERDICT_UNDECIDABLE : to->kind;
    to->kind = NA_VERDICT_FALSE_SHARING;
    to->undecided = NA_UNDECIDED_NOT;
    to->lacks = 0;
    to->needed = 0;
    to->object = object;
    to->apart = NA_FLOWS_NONE;
    to->gain_remote = to->gain_latency = NAN;
    to->rules[NA_VERDICT_FALSE_SHARING] = *rule;
    to->chance = rule->chance;
    to->line = line;
    to->line_count = 1;
    return true;
}

/* Is nothing said of an object that shares the line with the one that has most of it? */
static bool is_partner(const na_flows_t *set, na_verdicts_t *v, const na_line_t *line,
                       uint32_t object) {
    const na_verdict_t *item = item_of(v, set->objects[object].group, object);
    return item != NULL && (line->lives > 1 || item->object == object) &&
           (item->kind == NA_VERDICT_NOTHING || item->kind == NA_VERDICT_UNDECIDABLE);
}

static bool judge_line(const na_flows_t *set, na_verdicts_t *v, uint32_t i) {
    const na_line_t *line = &v->lines.items[i];
    na_rule_t rule = line_rule(line);
    if (!rule.holds || line->object == NA_FLOWS_NONE) return true;
    if (!say_so(set, v, i, &rule, line->object)) return false;
    for (uint32_t k = 0; k < line->count; k++) {
        uint32_t object = line->parts[k].object;
        if (object != NA_FLOWS_NONE && is_partner(set, v, line, object) &&
            !say_so(set, v, i, &rule, object))
            return false;
    }
    return true;
}

/* Blocks that are gone are judged with all of their origin, others by themselves if that will do.
 */
bool na_rules_lines(const na_flows_t *set, na_verdicts_t *v) {
    for (int pass = 0; pass < 2; pass++)
        for (uint32_t i = 0; i < v->lines.count; i++) {
            const na_line_t *line = &v->lines.items[i];
            bool gone = line->lives > 1 && line->object != NA_FLOWS_NONE &&
                        set->objects[line->object].end_ns != UINT64_MAX;
            if (gone == (pass == 0) && !judge_line(set, v, i)) return false;
        }
    for (uint32_t i = 0; i < v->count; i++)
        wait_for_looks(set, v, &v->items[i]);
    return true;
}
