/* policy.h - NUMALLOC_POLICY=FILE: begun with the program, bound again to what dlopen brings. */
#ifndef NUMALLOC_ALLOC_POLICY_POLICY_H
#define NUMALLOC_ALLOC_POLICY_POLICY_H

#include <stdbool.h>
#include <stdint.h>

#include "profiler/format/nprof_policy.h"

/* In the library's constructor, with the options read: reads the file and binds it. */
void na_policy_at_load(void);
/* There are rules for this program. */
bool na_policy_is_on(void);
/* Binds what was opened since; when it returns, that is done, unless another thread is at it and
 * does not come to an end. Nothing of ours may be locked; asks the loader. */
void na_policy_bind_opened(void);
/* Its part of the statistics. */
void na_policy_print(int fd);

/* For the profile. False: there is no policy, or another thread is binding. */
bool na_policy_report(na_nprof_policy_t *to);
/* Of the first `count` rules; entries of which nothing can be said now stay as they are. */
void na_policy_report_rules(na_nprof_rule_t *to, uint32_t count);
/* The heap of a block, as nprof_policy.h has it; 0: of no rule. Lock-free. */
uint32_t na_policy_ruled(const void *block);

#endif
