/* policy_compare.h - policy --compare: what each rule did, by a profile from before and one from
 * under the policy. */
#ifndef NUMALLOC_PROFILER_DUMP_POLICY_POLICY_COMPARE_H
#define NUMALLOC_PROFILER_DUMP_POLICY_POLICY_COMPARE_H

#include "profiler/dump/ui/table.h"

extern const na_columns_t na_policy_compare_table;

/* files: BEFORE AFTER, or POLICY BEFORE AFTER where the policy is not where AFTER says. PARTIAL:
 * not all rules are to be kept. */
na_status_t na_policy_compare(const char *const *files, size_t count, const na_options_t *options);

#endif
