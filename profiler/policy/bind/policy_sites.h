/* policy_sites.h - the sites of rules and the memory that they share, found again when the file is
 * read again.
 *
 * A site is known by its key: its frames (build-ids and offsets, or names of functions) and its
 * actions, written out. The same rule in a later file is the same site, wherever it stands there:
 * sums, heap and control go on. A rule that was changed is another site. Pools of groups and lives
 * are known by name and actions in the same way.
 *
 * None is ever freed (pagemap.h). A site takes about 1.5 KiB, and a process makes
 * NA_POLICY_SITES_EVER at most; then new rules are refused. All after na_policy_enter. */
#ifndef NUMALLOC_PROFILER_POLICY_BIND_POLICY_SITES_H
#define NUMALLOC_PROFILER_POLICY_BIND_POLICY_SITES_H

#include "profiler/policy/bind/bound.h"

#define NA_POLICY_SITES_EVER 4096u

/* Fills reading->sites. False: no memory, or there are too many. */
bool na_policy_make_sites(na_policy_reading_t *reading);

/* The pool that was made last, and from there all others; NULL: none. Anybody may ask. */
const na_policy_pool_t *na_policy_pools(void);

#endif
