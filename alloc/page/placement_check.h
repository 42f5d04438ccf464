/* placement_check.h - whether memory still lies where the page heaps have it.
 *
 * A region's pages are bound to its node, and the kernel moves them all the same when a cpuset
 * forbids the node. A cpuset that changes and changes back between two looks at it (topology.h)
 * leaves no other trace. So a few resident pages of every bound node are looked up, and a node with
 * many that lie elsewhere is bound anew, which brings them back. The first look comes a second
 * after start-up; each that finds all in place doubles the wait, up to eight seconds. */
#ifndef NUMALLOC_ALLOC_PLACEMENT_CHECK_H
#define NUMALLOC_ALLOC_PLACEMENT_CHECK_H

#include <stdint.h>

/* Binds the node's memory anew and has the kernel bring back what lies elsewhere. It passes over
 * pages silently: what is left of a huge page that it could not split, since somebody else was just
 * looking at it, and any that another migration had in hand. So afterwards each page in use is
 * looked up, and if one is still astray this is done again a second later (na_topology_not_yet).
 * Behind the gate, no lock held. */
void na_placement_bring_back(unsigned node);

/* Several nodes only. `now`: na_os_ms. One thread at a time looks, when that is due; others pass.
 * Callers are behind their thread cache's gate and hold no lock. */
void na_placement_nodes(uint64_t now);
/* Pages may have been moved just now: the next look comes soon. */
void na_placement_soon(void);
void na_placement_after_fork_child(void);

#endif
