/* policy_control.h - what the control says of the rules that a process is under: one profile has
 * the accesses to the blocks of a rule and to those that kept malloc's placement. */
#ifndef NUMALLOC_PROFILER_DUMP_POLICY_POLICY_CONTROL_H
#define NUMALLOC_PROFILER_DUMP_POLICY_POLICY_CONTROL_H

#include "profiler/analyze/policy/rule_change.h"
#include "profiler/dump/policy/policy_find.h"
#include "profiler/format/nprof_policy.h"

/* A rule, and the share of accesses to other nodes: `change` is from the control to the rule, of so
 * many independent samples each. Of a rule with too few of either nothing is said. */
typedef void na_policy_control_fn_t(void *arg, const na_nprof_rule_t *rule,
                                    const na_change_t *change, const double samples[2],
                                    na_change_says_t says);

/* Of the first profile, each rule with a heap of its own and a control. False: out of memory. */
bool na_policy_controls(const na_policy_work_t *work, na_policy_control_fn_t *say, void *arg);

#endif
