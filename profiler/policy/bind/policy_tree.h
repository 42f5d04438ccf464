/* policy_tree.h - the tree of return addresses that is published (pagemap.h), as who binds adds to
 * it.
 *
 *   na_policy_tree_begin      nothing is wanted
 *     na_policy_tree_node     the node of an address below another, made if need be
 *     na_policy_tree_rule     what a node is to give
 *   na_policy_tree_publish    nodes give that, the others nothing; then the bytes of the filter
 *
 * In between nothing that threads find changes, but that there are nodes below others which lead to
 * no site yet. A thread may be forked away in the middle: whoever binds in the child does the same
 * again, and each step is one that may be done twice. All after na_policy_enter. */
#ifndef NUMALLOC_PROFILER_POLICY_BIND_POLICY_TREE_H
#define NUMALLOC_PROFILER_POLICY_BIND_POLICY_TREE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "profiler/policy/apply/ruled_live.h"

#define NA_POLICY_NODES_EVER                                                                       \
    (1u << 16) /* rules by function name have a node for each call in it                           \
                */

/* False: no memory. End in any case. */
bool na_policy_tree_begin(void);
/* 0: there is no room, and na_bound.full. `parent` 0: none. */
uint32_t na_policy_tree_node(uintptr_t pc, uint32_t parent);
/* The node has children from now on: how its caller's frame is found. Before these are made. */
void na_policy_tree_step(uint32_t node, const na_policy_node_t *step);
/* The rule that ends with this node, whose innermost frame is `root`. */
void na_policy_tree_rule(uint32_t node, uint32_t root, na_policy_site_t *site);
/* False: no memory, and all is as it was. */
bool na_policy_tree_publish(void);
void na_policy_tree_end(void);

/* Bytes mapped for trees so far, those that were left behind included. */
size_t na_policy_tree_bytes(void);

#endif
