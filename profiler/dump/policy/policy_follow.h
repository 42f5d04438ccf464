/* policy_follow.h - policy --follow: the policy of a process that runs, as its profile grows.
 *
 * Each look makes the policy of the profile as it is. Rules that come are added, and rules whose
 * actions are others now are changed. A rule that the profile says nothing more of stays: of blocks
 * that lie right there is nothing to say, and the rule is why they do. Rules that were in the file
 * before are kept in the same way. A rule of placement goes when its own control says that it does
 * not pay (policy_control.h); it stays in the file as a comment with the figures, and does not come
 * back with the same actions. When something has changed the file is written whole and renamed into
 * place. */
#ifndef NUMALLOC_PROFILER_DUMP_POLICY_POLICY_FOLLOW_H
#define NUMALLOC_PROFILER_DUMP_POLICY_POLICY_FOLLOW_H

#include "profiler/dump/policy/policy_find.h"

/* files[0]: the number of a process, or a profile; alone. Until it ends, or SIGINT or SIGTERM. */
na_status_t na_policy_follow(const char *const *files, size_t count, const na_options_t *options);

/* view_policy.c: to stdout. */
na_status_t na_policy_write(na_policy_work_t *work);

#endif
