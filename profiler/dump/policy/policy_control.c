/* policy_control.c - see policy_control.h. */
#include "profiler/dump/policy/policy_control.h"

#include <stdlib.h>
#include <string.h>

#include "profiler/containers/array.h"

#define LEAST_GAIN 0.05 /* of accesses: a rule that surely brings less than that does not pay */
#define SAMPLES    10.0 /* independent ones, before anything is said */

enum { HEAPS = NA_NPROF_POLICY_HEAPS + 1 };
enum { CONTROL, RULED, PARTS };

/* The rule of a heap; its blocks that were accessed, and its control's. */
typedef struct heap_rule {
    na_nprof_rule_t rule;
    uint32_t *objects[PARTS];
    uint32_t count[PARTS], room[PARTS];
    bool several; /* rules share the heap */
} heap_rule_t;

/* By heap; NULL: no rule with a control. */
typedef struct heap_rules {
    heap_rule_t *of[HEAPS];
    bool failed;
} heap_rules_t;

static void take_heap_rule(void *arg, uint32_t id, const void *entry) {
    heap_rules_t *rules = arg;
    na_nprof_rule_t r;
    (void)id;
    memcpy(&r, entry, sizeof r);
    if (r.heap == 0 || r.heap >= HEAPS) return;
    heap_rule_t *have = rules->of[r.heap];
    if (have != NULL) {
        have->several = true;
        return;
    }
    have = calloc(1, sizeof *have);
    if (have == NULL) {
        rules->failed = true;
        return;
    }
    have->rule = r;
    rules->of[r.heap] = have;
}

static void add_heap_object(heap_rules_t *rules, const na_flow_object_t *o, uint32_t object) {
    uint32_t heap = o->ruled & ~NA_NPROF_RULED_CONTROL;
    if (heap == 0 || heap >= HEAPS || rules->of[heap] == NULL) return;
    heap_rule_t *r = rules->of[heap];
    int part = (o->ruled & NA_NPROF_RULED_CONTROL) != 0 ? CONTROL : RULED;
    if (NA_ARRAY_RESERVE(r->objects[part], r->room[part], r->count[part] + 1u))
        r->objects[part][r->count[part]++] = object;
    else
        rules->failed = true;
}

/* False: out of memory. */
static bool judge_heap_rule(const na_policy_profile_t *p, const heap_rule_t *r,
                            na_policy_control_fn_t *say, void *arg) {
    double share[PARTS], samples[PARTS];
    for (int part = 0; part < PARTS; part++) {
        na_measure_t m;
        if (r->count[part] == 0) return true;
        if (!na_measure_make(&p->flows, &p->verdicts, r->objects[part], r->count[part],
                             NA_FLOWS_NONE, &m))
            return false;
        share[part] = m.remote;
        samples[part] = m.independent * m.known;
        if (samples[part] < SAMPLES) return true;
    }
    na_change_t change =
        na_change_of_shares(share[CONTROL], samples[CONTROL], share[RULED], samples[RULED]);
    say(arg, &r->rule, &change, samples, na_change_says(&change, LEAST_GAIN));
    return true;
}

bool na_policy_controls(const na_policy_work_t *work, na_policy_control_fn_t *say, void *arg) {
    const na_policy_profile_t *p = &work->profiles[0];
    if (!p->accesses) return true;
    heap_rules_t *rules = calloc(1, sizeof *rules);
    if (rules == NULL) return false;
    na_reader_control(p->in.reader, NA_NPROF_POLICY_RULES, take_heap_rule, rules);
    for (uint32_t o = 0; o < p->flows.object_count; o++)
        if (p->flows.objects[o].ruled != 0) add_heap_object(rules, &p->flows.objects[o], o);
    bool good = !rules->failed;
    for (uint32_t heap = 1; heap < HEAPS; heap++) {
        heap_rule_t *r = rules->of[heap];
        if (r == NULL) continue;
        if (good && !r->several && r->rule.control != 0) good = judge_heap_rule(p, r, say, arg);
        free(r->objects[CONTROL]);
        free(r->objects[RULED]);
        free(r);
    }
    free(rules);
    return good;
}
