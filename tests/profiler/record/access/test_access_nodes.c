/* test_access_nodes.c - what a profile says of a node whose list of processors is the longest. */
#include <criterion/criterion.h>

#include "alloc/core/machine/topology.h"
#include "profiler/record/access/access_priv.h"
#include "support/node_tree.h"

Test(access_nodes, every_other_processor_of_as_many_as_there_can_be) {
    static char cpus[2][NA_CPULIST_BYTES];
    size_t length[2] = {0};
    for (unsigned cpu = 0; cpu < NA_MAX_CPUS; cpu++)
        length[cpu % 2] += (size_t)sprintf(cpus[cpu % 2] + length[cpu % 2], "%u,", cpu);
    for (unsigned node = 0; node < 2; node++)
        cpus[node][length[node] - 1] = '\n';
    node_tree_t tree;
    node_tree_make_two(&tree, cpus[0], cpus[1]);
    na_topology_init(tree.sys, tree.proc);
    cr_assert_eq(na_node_of_cpu(NA_MAX_CPUS - 1), 1);
    cr_assert_eq(na_node_of_cpu(NA_MAX_CPUS - 2), 0);
    for (unsigned node = 0; node < 2; node++) {
        na_nprof_access_node_t facts = {0};
        na_node_facts(node, &facts);
        cr_assert_eq(facts.kernel_id, node);
        cr_assert_eq(facts.cpus, NA_MAX_CPUS / 2, "node %u: %u", node, facts.cpus);
        cr_assert_eq(facts.memory_bytes, UINT64_C(16384) << 20);
    }
    node_tree_remove(&tree);
}
