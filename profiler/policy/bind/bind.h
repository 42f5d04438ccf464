/* bind.h - binds the rules that were read last to what is loaded.
 *
 * Done as a whole each time, from the rules as read; sites are found again (policy_sites.h), and
 * the tree only grows (policy_tree.h), so it may be done at any time, and twice. */
#ifndef NUMALLOC_PROFILER_POLICY_BIND_BIND_H
#define NUMALLOC_PROFILER_POLICY_BIND_BIND_H

#include <stdbool.h>

/* na_bound.reading is there. After na_policy_enter. `loader`: it may be asked. */
void na_policy_bind(bool loader);

#endif
