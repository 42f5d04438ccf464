/* policy_report.h - what the rules of the policy did: for the statistics, and for the profile. */
#ifndef NUMALLOC_PROFILER_POLICY_POLICY_REPORT_H
#define NUMALLOC_PROFILER_POLICY_POLICY_REPORT_H

#include <stdbool.h>
#include <stdint.h>

#include "profiler/format/nprof_policy.h"

/* Its part of the statistics. */
void na_policy_print(int fd);

/* For the profile. False: there is no policy, or another thread is binding. */
bool na_policy_report(na_nprof_policy_t *to);
/* Of the first `count` rules; entries of which nothing can be said now stay as they are. */
void na_policy_report_rules(na_nprof_rule_t *to, uint32_t count);
/* The heap of a block, as nprof_policy.h has it; 0: of no rule. Lock-free. */
uint32_t na_policy_ruled(const void *block);

#endif
