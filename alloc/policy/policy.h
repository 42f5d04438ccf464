/* policy.h - NUMALLOC_POLICY=FILE: begun with the program, bound again to what dlopen brings. */
#ifndef NUMALLOC_ALLOC_POLICY_POLICY_H
#define NUMALLOC_ALLOC_POLICY_POLICY_H

#include <stdbool.h>

/* In the library's constructor, with the options read: reads the file and binds it. */
void na_policy_at_load(void);
/* There are rules for this program. */
bool na_policy_is_on(void);
/* Binds what was opened since; when it returns, that is done, unless another thread is at it and
 * does not come to an end. Nothing of ours may be locked; asks the loader. */
void na_policy_bind_opened(void);

#endif
