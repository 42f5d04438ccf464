/* rebind.h - bringing a node's memory back to it.
 *
 * A region's pages are bound to its node, and the kernel moves them all the same when a cpuset
 * forbids the node. When it is allowed again (topology.h) its memory is bound anew, which brings
 * them back. */
#ifndef NUMALLOC_ALLOC_PAGE_REBIND_H
#define NUMALLOC_ALLOC_PAGE_REBIND_H

/* Binds the node's memory anew and has the kernel bring back what lies elsewhere. It passes over
 * pages silently: what is left of a huge page that it could not split, since somebody else was just
 * looking at it, and any that another migration had in hand. So afterwards each page in use is
 * looked up, and if one still lies elsewhere this is done again a second later
 * (na_topology_not_yet). Behind the gate, no lock held. */
void na_placement_bring_back(unsigned node);

#endif
