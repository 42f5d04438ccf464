/* policy_check.h - policy --check: what of a policy a program, or the processes of profiles, can
 * obey. */
#ifndef NUMALLOC_PROFILER_DUMP_POLICY_POLICY_CHECK_H
#define NUMALLOC_PROFILER_DUMP_POLICY_POLICY_CHECK_H

#include "profiler/dump/ui/command_line.h"

/* files[0] is the policy; then at most one program, or profiles. PARTIAL: some rules can not be
 * obeyed, or some lines are wrong. */
na_status_t na_policy_check(const char *const *files, size_t count, const na_options_t *options);

#endif
