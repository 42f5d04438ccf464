/* place_verdicts.h - what an allocator can do about a verdict on accesses (accesses/verdict.h):
 * where the blocks of the site should lie, or that small ones should not share a line; else in a
 * few words why nothing. Pure. */
#ifndef NUMALLOC_PROFILER_ANALYZE_POLICY_PLACE_VERDICTS_H
#define NUMALLOC_PROFILER_ANALYZE_POLICY_PLACE_VERDICTS_H

#include "profiler/analyze/accesses/verdict.h"
#include "profiler/analyze/policy/rule_change.h"
#include "profiler/policy/rules/rules.h"

typedef struct na_place {
    na_policy_place_t place; /* NA_POLICY_PLACE_NONE: see why_not */
    uint16_t node;           /* the system's number, or NA_POLICY_NO_NODE */
    bool own_lines;
    const char *why_not; /* NULL: nothing is wrong with it */
} na_place_t;

na_place_t na_place_for(const na_flows_t *set, const na_verdicts_t *verdicts,
                        const na_verdict_t *verdict);

/* What that may gain: the share of accesses that become local; where pages are spread, the
 * share to them, if one node has all, and nothing if each has its part; of false sharing, the share
 * of a second that lines are on their way in. */
double na_place_gain(const na_flows_t *set, const na_verdicts_t *verdicts,
                     const na_verdict_t *verdict);

/* What a rule on places promises, for all verdicts on its site that make the same one: the 95 %
 * interval of that share, as far as samples go, had all that were lost spoken against it or for it.
 * The lower end leaves out the control, the blocks that keep default placement (of few blocks there
 * may be none). Of first touch it is 0: samples do not tell that nobody writes to all of it first.
 */
na_bounds_t na_place_promise(const na_flows_t *set, const na_verdicts_t *verdicts,
                             const na_verdict_t *verdict);

#endif
