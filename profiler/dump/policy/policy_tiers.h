/* policy_tiers.h - near and far memory in a policy (--near): sums up profiles for
 * analyze/policy/tier_verdicts.h, hands its verdicts to the search for rules, and says what they
 * come to.
 *
 * Sites that have the same frames are one, whatever profile or process they are of: no rule can
 * tell them apart. Of several profiles a site has the mean of its shares of the accesses, and the
 * most bytes that any has at its peak.
 *
 * Called by policy_find.c (find, rule) and view_policy.c (the rest), in this order. */
#ifndef NUMALLOC_PROFILER_DUMP_POLICY_POLICY_TIERS_H
#define NUMALLOC_PROFILER_DUMP_POLICY_POLICY_TIERS_H

#include "profiler/dump/policy/policy_find.h"

/* Before the search: sets the runs' verdicts of kind place. Sorts them. False: out of memory. */
bool na_policy_tiers_find(na_policy_work_t *w);
/* After it: which run has which rule, the longest one. False: out of memory. */
bool na_policy_tiers_rule(na_policy_work_t *w);

/* What stands behind a rule of kind place: its sites, but for those of longer rules. */
typedef struct na_tier_evidence {
    double bytes, share, draws; /* as na_tier_site_t has them, summed */
    double chance;              /* the least */
    double left;                /* of near memory, when its largest site's turn came */
    bool too_large;             /* a site of it is */
} na_tier_evidence_t;
na_tier_evidence_t na_policy_tier_evidence(const na_policy_work_t *w, const na_site_rule_t *rule);

/* Comments: at the head of the file what is near and what of the accesses, or why there are no
 * tiers; and of a rule. */
void na_policy_put_tiers(const na_policy_work_t *w);
void na_policy_put_tier(const na_policy_work_t *w, const na_site_rule_t *rule,
                        const na_tier_evidence_t *e, double *near);
/* Bytes that no rule of kind place means, which lie near. */
double na_policy_tiers_alone(const na_policy_work_t *w);

#endif
