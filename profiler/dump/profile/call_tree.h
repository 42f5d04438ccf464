/* call_tree.h - the call stacks of all sites as one tree, with what each node and all below it
 * cost. */
#ifndef NUMALLOC_PROFILER_DUMP_PROFILE_CALL_TREE_H
#define NUMALLOC_PROFILER_DUMP_PROFILE_CALL_TREE_H

#include "profiler/containers/index.h"
#include "profiler/dump/profile/input.h"

typedef enum na_tree_kind {
    /* From the outermost frame inwards, a node for each function. */
    NA_TREE_CALLEES,
    /* From the function that is responsible for a site outwards: wrappers, the runtime and the
     * allocator are passed over, so that paths begin where callers diverge. */
    NA_TREE_CALLERS,
    /* From the innermost frame outwards, a node for each place of the code: recursion is not
     * merged. */
    NA_TREE_PLACES,
} na_tree_kind_t;

typedef struct na_tree_node {
    uint32_t parent, child, next;   /* first child, next of the same parent; 0: none */
    const na_symbol_frame_t *frame; /* the first that came here; NULL: the root, or no stack */
    uint32_t group; /* of na_function_row_t: these functions follow each other here; 0: one */
    na_cost_t below, self; /* of all paths through here; of those that end here */
} na_tree_node_t;

typedef struct na_tree {
    na_tree_node_t *nodes; /* [0] is the root */
    uint32_t count, room;
    na_index_t index; /* by (parent, key) */
    bool by_place, grouped;
} na_tree_t;

/* Recursion is merged (but for PLACES): where a function comes up again on a path, the path goes on
 * from where it came up first, so that a function is on a path once.
 * `grouped`: functions without symbols that follow each other in one library are one node, where
 * the library has two or more of them (na_function_table_t). With --filter a path begins at the
 * first frame whose function matches, seen from the tree's root; stacks without one are left out.
 * False: out of memory; na_tree_free in both cases. */
bool na_tree_build(const na_view_input_t *in, na_tree_kind_t kind, bool grouped, na_tree_t *tree);
void na_tree_free(na_tree_t *tree);

/* Children of every node in falling order of what in->order looks at. */
void na_tree_sort(const na_view_input_t *in, na_tree_t *tree);

#endif
