/* policy_explain.h - comments of a policy: why there is no rule, and what frames are good for. */
#ifndef NUMALLOC_PROFILER_DUMP_POLICY_POLICY_EXPLAIN_H
#define NUMALLOC_PROFILER_DUMP_POLICY_POLICY_EXPLAIN_H

#include "profiler/dump/policy/policy_find.h"

/* A sentence for a policy without rules. */
void na_policy_put_nothing(const na_policy_work_t *work);

/* --explain. */
void na_policy_explain(const na_policy_work_t *work);

#endif
