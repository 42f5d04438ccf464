/* made_up_nodes.h - for unit tests: the library reads a made-up tree in which cpu 0 is on node 0
 * and cpu 1 on node 1. The kernel has no node 1: it refuses to bind there, and all pages lie on
 * node 0.
 *
 *     TestSuite(name, .init = two_nodes, .fini = remove_tree); */
#ifndef NUMALLOC_TESTS_SUPPORT_MADE_UP_NODES_H
#define NUMALLOC_TESTS_SUPPORT_MADE_UP_NODES_H

#include <criterion/criterion.h>
#include <sched.h>

#include "alloc/core/machine/topology.h"
#include "alloc/core/malloc/api.h"
#include "alloc/core/thread/attach.h"
#include "numalloc/numalloc.h"
#include "support/node_tree.h"

static node_tree_t tree;

/* Before the first malloc of ours. */
static inline void two_nodes(void) {
    node_tree_make_two(&tree, "0,2-63\n", "1\n");
    na_init();
    na_topology_init(tree.sys, tree.proc);
}

static inline void remove_tree(void) {
    node_tree_remove(&tree);
}

static inline bool run_on(unsigned cpu) {
    cpu_set_t set;
    CPU_ZERO(&set);
    CPU_SET(cpu, &set);
    return sched_setaffinity(0, sizeof set, &set) == 0;
}

/* The thread runs on this node (of the tree) from now on; skips the test where it cannot. */
static inline void go_to_node(unsigned node) {
    if (!run_on(node)) cr_skip_test("there is no second cpu");
}

static inline numalloc_node_stats_t stats_of(int node) {
    numalloc_node_stats_t stats;
    cr_assert_eq(numalloc_read_node_stats(node, &stats, sizeof stats), 0);
    return stats;
}

#endif
