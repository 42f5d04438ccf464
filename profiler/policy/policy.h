/* policy.h - NUMALLOC_POLICY=FILE: begun with the program, bound again to what dlopen brings, read
 * again when the file was changed.
 *
 * Who looks at the file: whoever passes a slow path, about once a second in all, through the
 * controller's poll. No thread is started for it. So a process that allocates nothing looks at
 * nothing, and has nothing to rule either. A look is one stat. What a change takes (some
 * milliseconds, of which the symbol tables are most where rules name functions) one call of malloc
 * or free takes.
 *
 * A thread of the program may hold any lock when it calls malloc, so it does not ask the loader,
 * and binds to what never goes (policy_modules.h). A thread of ours, where one runs for another
 * reason, binds to all. A forked child goes on with the same rules and looks as its parent does. */
#ifndef NUMALLOC_PROFILER_POLICY_POLICY_H
#define NUMALLOC_PROFILER_POLICY_POLICY_H

#include <stdbool.h>

/* In the library's constructor, with the options read: reads the file and binds it. */
void na_policy_at_load(void);
/* There are rules for this program. */
bool na_policy_is_on(void);
/* There is a file, with or without rules for this program, and it may come to have some. */
bool na_policy_is_named(void);
/* Binds what was opened since; when it returns, that is done, unless another thread is at it and
 * does not come to an end. False: there are no rules. Nothing of ours may be locked; asks the
 * loader. dlopen calls it (na_loaded_opened). */
bool na_policy_bind_opened(void);
/* Looks at the file, and takes it if it has changed. Nothing of ours may be locked, but the caller
 * may hold any lock of others. At once if another thread is at it. */
void na_policy_look(void);

#endif
