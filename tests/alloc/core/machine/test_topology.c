/* test_topology.c - reading nodes, cpus, distances and cpusets from trees made for the purpose.
 *
 * Each test writes the files that a kernel would show into a new directory and points
 * na_topology_init at it. Linked with the few sources it needs and not with the library: an
 * allocator that is in use must not see its topology change. */
#include <criterion/criterion.h>
#include <sched.h>
#include <stdio.h>

#include "alloc/core/machine/topology.h"
#include "alloc/core/sys/os.h"
#include "support/node_tree.h"

static node_tree_t tree;

static void make_root(void) {
    node_tree_make(&tree);
    na_os_init();
}

static void remove_root(void) {
    node_tree_remove(&tree);
}

TestSuite(topology, .init = make_root, .fini = remove_root);

static void put(const char *path, const char *content) {
    node_tree_put(&tree, path, content);
}

static void put_node(unsigned id, const char *cpus, const char *distances) {
    node_tree_put_node(&tree, id, cpus, distances);
}

static void put_lists(const char *online, const char *memory) {
    node_tree_put_lists(&tree, online, memory);
}

static void put_allowed(const char *list) {
    node_tree_put_allowed(&tree, list);
}

static void init(void) {
    na_topology_init(tree.sys, tree.proc);
}

static void expect_one_node(unsigned id) {
    cr_assert_eq(na_node_count, 1);
    cr_assert_eq(na_node_system_id(0), id);
    cr_assert_eq(na_node_dense(id), 0);
    cr_assert_eq(na_node_dense(id + 1), -1);
    cr_assert_eq(na_node_of_cpu(0), 0);
    cr_assert_eq(na_node_of_cpu(NA_MAX_CPUS - 1), na_node_many ? NA_NODE_ANY : 0);
    cr_assert_eq(na_node_nearest(0, 0), 0);
    cr_assert(na_node_has_cpus(0));
    cr_assert_eq(na_node_current(), 0);
}

/* The nearest-first order of one node, as text "0 1 2". */
static const char *order(unsigned node) {
    static char line[512];
    size_t length = 0;
    line[0] = 0;
    for (unsigned i = 0; i < na_node_count; i++)
        length += (size_t)snprintf(line + length, sizeof line - length, i == 0 ? "%u" : " %u",
                                   na_node_nearest(node, i));
    return line;
}

Test(topology, no_sysfs) {
    init();
    expect_one_node(0);
}

Test(topology, one_node_reads_nothing_else) {
    put_lists("0\n", NULL);
    /* Would make it two nodes if it were read. */
    put("sys/devices/system/node/has_memory", "0-1\n");
    put_node(0, "0-3\n", "10 20\n");
    put_node(1, "4-7\n", "20 10\n");
    put_allowed("0-1");
    init();
    expect_one_node(0);
}

Test(topology, one_node_that_is_not_node_0) {
    put_lists("3\n", "3\n");
    init();
    expect_one_node(3);
}

Test(topology, empty_online_file) {
    put_lists("\n", NULL);
    init();
    expect_one_node(0);
}

Test(topology, two_nodes) {
    put_lists("0-1\n", "0-1\n");
    put_node(0, "0-3,8-11\n", "10 21\n");
    put_node(1, "4-7,12-15\n", "21 10\n");
    put_allowed("0-1");
    init();
    cr_assert_eq(na_node_count, 2);
    for (unsigned cpu = 0; cpu < 16; cpu++)
        cr_assert_eq(na_node_of_cpu(cpu), cpu / 4 % 2, "cpu %u", cpu);
    cr_assert_eq(na_node_of_cpu(16), NA_NODE_ANY, "unknown cpu");
    cr_assert_eq(na_node_of_cpu(NA_MAX_CPUS), NA_NODE_ANY);
    cr_assert_eq(na_node_of_cpu(UINT32_MAX), NA_NODE_ANY);
    cr_assert_str_eq(order(0), "0 1");
    cr_assert_str_eq(order(1), "1 0");
    cr_assert(na_node_has_cpus(0) && na_node_has_cpus(1));
    cr_assert_not(na_node_has_cpus(2));
    cr_assert_eq(na_node_system_id(2), UINT32_MAX, "the pseudo-node has no number");
}

/* 2: memory of other speed, which is another matter. */
Test(topology, balanced) {
    static const struct {
        const char *setting;
        bool balanced;
    } cases[] = {{NULL, false},  {"0\n", false}, {"1\n", true},
                 {"2\n", false}, {"3\n", true},  {"\n", false}};
    put_lists("0-1\n", "0-1\n");
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        if (cases[i].setting != NULL) put("proc/sys/kernel/numa_balancing", cases[i].setting);
        init();
        cr_expect_eq(na_node_balanced, cases[i].balanced, "%zu", i);
    }
    put_lists("0\n", "0\n");
    put("proc/sys/kernel/numa_balancing", "1\n");
    init();
    cr_expect_not(na_node_balanced);
}

Test(topology, current_is_the_node_of_this_cpu) {
    cpu_set_t all, one;
    cr_assert_eq(sched_getaffinity(0, sizeof all, &all), 0);
    unsigned mine = 0;
    while (!CPU_ISSET(mine, &all))
        mine++;
    CPU_ZERO(&one);
    CPU_SET(mine, &one);
    cr_assert_eq(sched_setaffinity(0, sizeof one, &one), 0);
    char list[32];
    snprintf(list, sizeof list, "%u\n", mine);
    put_lists("0-1\n", "0-1\n");
    put_node(0, "8000-8001\n", "10 20\n");
    put_node(1, list, "20 10\n");
    init();
    cr_assert_eq(na_os_cpu(), mine);
    cr_assert_eq(na_node_current(), 1);
}

Test(topology, four_nodes_by_distance) {
    put_lists("0-3\n", "0-3\n");
    put_node(0, "0\n", "10 16 32 22\n");
    put_node(1, "1\n", "16 10 22 32\n");
    put_node(2, "2\n", "32 22 10 16\n");
    put_node(3, "3\n", "22 32 16 10\n");
    init();
    cr_assert_eq(na_node_count, 4);
    cr_assert_str_eq(order(0), "0 1 3 2");
    cr_assert_str_eq(order(1), "1 0 2 3");
    cr_assert_str_eq(order(2), "2 3 1 0");
    cr_assert_str_eq(order(3), "3 2 0 1");
}

Test(topology, equal_distances_go_round) {
    put_lists("0-3\n", "0-3\n");
    put_node(0, "0\n", "10 20 20 20\n");
    put_node(1, "1\n", "20 10 20 20\n");
    put_node(2, "2\n", "20 20 10 20\n");
    put_node(3, "3\n", "20 20 20 10\n");
    init();
    cr_assert_str_eq(order(0), "0 1 2 3");
    cr_assert_str_eq(order(2), "2 3 0 1");
}

Test(topology, missing_distance_files) {
    put_lists("0-1\n", "0-1\n");
    put("sys/devices/system/node/node0/cpulist", "0\n");
    put("sys/devices/system/node/node1/cpulist", "1\n");
    init();
    cr_assert_eq(na_node_count, 2);
    cr_assert_str_eq(order(1), "1 0");
    cr_assert_eq(na_node_of_cpu(1), 1);
}

Test(topology, sparse_numbers) {
    put_lists("0,2,5\n", "0,2,5\n");
    put_node(0, "0-1\n", "10 40 20\n"); /* columns are the nodes 0, 2 and 5 */
    put_node(2, "2-3\n", "40 10 30\n");
    put_node(5, "4-5\n", "20 30 10\n");
    init();
    cr_assert_eq(na_node_count, 3);
    cr_assert_eq(na_node_system_id(0), 0);
    cr_assert_eq(na_node_system_id(1), 2);
    cr_assert_eq(na_node_system_id(2), 5);
    cr_assert_eq(na_node_dense(5), 2);
    cr_assert_eq(na_node_dense(1), -1);
    cr_assert_eq(na_node_of_cpu(3), 1);
    cr_assert_eq(na_node_of_cpu(4), 2);
    cr_assert_str_eq(order(0), "0 2 1");
    cr_assert_str_eq(order(1), "1 2 0");
}

Test(topology, node_without_memory) {
    put_lists("0-2\n", "0,2\n");
    put_node(0, "0-1\n", "10 20 40\n");
    put_node(1, "2-3\n", "20 10 15\n");
    put_node(2, "4-5\n", "40 15 10\n");
    init();
    cr_assert_eq(na_node_count, 2);
    cr_assert_eq(na_node_dense(1), -1);
    cr_assert_eq(na_node_of_cpu(1), 0);
    cr_assert_eq(na_node_of_cpu(2), 1, "node 2, which is nearer to node 1 than node 0");
    cr_assert_eq(na_node_of_cpu(5), 1);
}

Test(topology, memory_from_meminfo_of_old_kernels) {
    put_lists("0-2\n", NULL);
    put_node(0, "0\n", "10 20 20\n");
    put_node(1, "1\n", "20 10 20\n");
    put_node(2, "2\n", "20 20 10\n");
    put("sys/devices/system/node/node0/meminfo", "Node 0 MemTotal:       16384 kB\n");
    put("sys/devices/system/node/node1/meminfo",
        "Node 1 MemTotal:       0 kB\nNode 1 MemFree: 0 kB\n");
    put("sys/devices/system/node/node2/meminfo", "Node 2 MemTotal:       1024 kB\n");
    init();
    cr_assert_eq(na_node_count, 2);
    cr_assert_eq(na_node_system_id(1), 2);
    cr_assert_eq(na_node_of_cpu(1), 0);
    cr_assert_eq(na_node_of_cpu(2), 1);
}

Test(topology, node_without_cpus_is_a_fallback_only) {
    put_lists("0-3\n", "0,2-3\n");
    put_node(0, "0-1\n", "10 30 20 17\n");
    put_node(1, "2-3\n", "30 10 20 11\n"); /* no memory; nearest is 3, which has no cpus */
    put_node(2, "4-5\n", "20 20 10 17\n");
    put_node(3, "\n", "17 11 17 10\n");
    init();
    cr_assert_eq(na_node_count, 3);
    cr_assert(na_node_has_cpus(0) && na_node_has_cpus(1));
    cr_assert_not(na_node_has_cpus(2));
    for (unsigned cpu = 0; cpu < NA_MAX_CPUS; cpu++)
        cr_assert_neq(na_node_of_cpu(cpu), 2);
    cr_assert_eq(na_node_of_cpu(3), 1, "node 2 is nearer to node 1 than node 0");
    cr_assert_str_eq(order(0), "0 2 1");
}

Test(topology, cpus_and_memory_on_different_nodes_only) {
    put_lists("0-2\n", "1-2\n");
    put_node(0, "0-3\n", "10 40 20\n");
    put_node(1, "\n", "40 10 40\n");
    put_node(2, "\n", "20 40 10\n");
    init();
    cr_assert_eq(na_node_count, 2);
    cr_assert_eq(na_node_of_cpu(3), 1, "nothing else is left");
    cr_assert(na_node_has_cpus(1), "a cpu's node counts as having cpus");
    cr_assert_not(na_node_has_cpus(0));
}

Test(topology, restricted_by_cpuset) {
    put_lists("0-3\n", "0-3\n");
    put_node(0, "0\n", "10 20 30 40\n");
    put_node(1, "1\n", "20 10 40 30\n");
    put_node(2, "2\n", "30 40 10 20\n");
    put_node(3, "3\n", "40 30 20 10\n");
    put_allowed("1-2");
    init();
    cr_assert_eq(na_node_count, 2);
    cr_assert_eq(na_node_system_id(0), 1);
    cr_assert_eq(na_node_system_id(1), 2);
    cr_assert_eq(na_node_of_cpu(0), 0);
    cr_assert_eq(na_node_of_cpu(3), 1);
}

Test(topology, restricted_to_one_node) {
    put_lists("0-1\n", "0-1\n");
    put_node(0, "0\n", "10 20\n");
    put_node(1, "1\n", "20 10\n");
    put_allowed("1");
    init();
    expect_one_node(1);
    cr_assert_eq(na_node_of_cpu(1), 0);
}

Test(topology, nothing_left) {
    put_lists("0-1\n", "0-1\n");
    put_node(0, "0\n", "10 20\n");
    put_node(1, "1\n", "20 10\n");
    put_allowed("7");
    init();
    expect_one_node(0);
}

Test(topology, more_nodes_than_are_served_apart) {
    char distances[1024];
    put_lists("0-69\n", "0-69\n");
    for (unsigned node = 0; node < 70; node++) {
        size_t length = 0;
        for (unsigned other = 0; other < 70; other++) {
            unsigned distance = node == other             ? 10
                                : node / 10 == other / 10 ? 15
                                : node + other == 69      ? 12 /* 65 lies next to 4 */
                                                          : 40;
            length +=
                (size_t)snprintf(distances + length, sizeof distances - length, "%u ", distance);
        }
        char cpus[16];
        snprintf(cpus, sizeof cpus, "%u\n", node);
        put_node(node, cpus, distances);
    }
    init();
    cr_assert_eq(na_node_count, NA_MAX_NODES);
    cr_assert_eq(na_node_of_cpu(63), 63);
    cr_assert_eq(na_node_of_cpu(65), 4);
    cr_assert_eq(na_node_dense(65), -1);
    for (unsigned node = 0; node < NA_MAX_NODES; node++) {
        bool seen[NA_MAX_NODES] = {false};
        cr_assert_eq(na_node_nearest(node, 0), node);
        for (unsigned i = 0; i < NA_MAX_NODES; i++)
            seen[na_node_nearest(node, i)] = true;
        for (unsigned i = 0; i < NA_MAX_NODES; i++)
            cr_assert(seen[i], "node %u is not in the order of %u", i, node);
    }
}

Test(topology, cpus_beyond_the_table) {
    put_lists("0-1\n", "0-1\n");
    put_node(0, "0-3\n", "10 20\n");
    put_node(1, "4-99999999999999\n", "20 10\n");
    init();
    cr_assert_eq(na_node_of_cpu(NA_MAX_CPUS - 1), 1);
    cr_assert_eq(na_node_of_cpu(NA_MAX_CPUS), NA_NODE_ANY);
}

Test(topology, garbage) {
    put_lists("0-1\n", "zero\n");
    init();
    expect_one_node(0);
    put_lists("0,-,7--9,x\n", "0-1\n");
    init();
    cr_assert_geq(na_node_count, 1);
    put_lists("5-2\n", NULL); /* an empty range */
    init();
    expect_one_node(0);
}

Test(topology, later_init_forgets_the_earlier) {
    put_lists("0-1\n", "0-1\n");
    put_node(0, "0\n", "10 20\n");
    put_node(1, "1-63\n", "20 10\n");
    init();
    cr_assert_eq(na_node_of_cpu(63), 1);
    put_lists("0\n", NULL);
    init();
    expect_one_node(0);
    cr_assert_eq(na_node_of_cpu(63), 0);
}

/* --- changes while the program runs --- */

static void put_two_nodes(void) {
    put_lists("0-1\n", "0-1\n");
    put_node(0, "0-3\n", "10 20\n");
    put_node(1, "4-7\n", "20 10\n");
    put_allowed("0-3");
}

Test(topology, polled_at_most_once_a_second) {
    put_two_nodes();
    init();
    cr_assert_not(na_topology_poll(5000), "the first look is start-up's");
    put_lists("0-2\n", "0-2\n");
    put_node(0, "0-3\n", "10 20 30\n");
    put_node(1, "4-7\n", "20 10 30\n");
    put_node(2, "8-9\n", "30 30 10\n");
    cr_assert_not(na_topology_poll(5999));
    cr_assert_eq(na_node_count, 2);
    cr_assert(na_topology_poll(6000));
    cr_assert_eq(na_node_count, 3);
    cr_assert_not(na_topology_poll(7000), "nothing new");
    cr_assert_eq(na_node_of_cpu(9), 2);
    cr_assert_eq(na_node_system_id(2), 2);
    cr_assert_str_eq(order(2), "2 0 1");
}

Test(topology, memory_comes_to_a_node_without) {
    put_lists("0-1\n", "0\n");
    put_node(0, "0-3\n", "10 20\n");
    put_node(1, "4-7\n", "20 10\n");
    put_allowed("0");
    init();
    cr_assert_eq(na_node_count, 1);
    cr_assert(na_node_many, "another may come");
    cr_assert_eq(na_node_of_cpu(5), 0);
    na_topology_poll(1000);
    put_lists("0-1\n", "0-1\n");
    put_allowed("0-1");
    cr_assert(na_topology_poll(2000));
    cr_assert_eq(na_node_count, 2);
    cr_assert_eq(na_node_of_cpu(5), 1);
    cr_assert(na_node_usable(1));
    /* and goes again */
    put_lists("0-1\n", "0\n");
    cr_assert(na_topology_poll(3000));
    cr_assert_eq(na_node_count, 2, "numbers stay");
    cr_assert_not(na_node_usable(1));
    cr_assert_eq(na_node_of_cpu(5), 0);
}

Test(topology, a_new_node_between_others_keeps_their_places) {
    put_lists("0,4\n", "0,4\n");
    put_node(0, "0\n", "10 20\n");
    put_node(4, "1\n", "20 10\n");
    init();
    na_topology_poll(1000);
    put_lists("0,2,4\n", "0,2,4\n");
    put_node(0, "0\n", "10 15 20\n");
    put_node(2, "2\n", "15 10 15\n");
    put_node(4, "1\n", "20 15 10\n");
    cr_assert(na_topology_poll(2000));
    cr_assert_eq(na_node_system_id(1), 4);
    cr_assert_eq(na_node_system_id(2), 2);
    cr_assert_eq(na_node_of_cpu(2), 2);
    cr_assert_str_eq(order(0), "0 2 1");
}

Test(topology, a_cpuset_that_changes) {
    put_two_nodes();
    init();
    na_topology_poll(1000);
    put_allowed("1");
    cr_assert(na_topology_poll(2000));
    cr_assert_not(na_node_usable(0));
    cr_assert_eq(na_node_of_cpu(0), 1);
    cr_assert_str_eq(order(1), "1 0");
    put_allowed("9");
    cr_assert_not(na_topology_poll(3000), "nothing left: not believed");
    cr_assert(na_node_usable(1));
    put_allowed("0-1");
    cr_assert(na_topology_poll(4000));
    cr_assert_eq(na_node_of_cpu(0), 0);
}

Test(topology, a_cpu_that_came_later) {
    cpu_set_t all, one;
    cr_assert_eq(sched_getaffinity(0, sizeof all, &all), 0);
    unsigned mine = 0;
    while (!CPU_ISSET(mine, &all))
        mine++;
    CPU_ZERO(&one);
    CPU_SET(mine, &one);
    cr_assert_eq(sched_setaffinity(0, sizeof one, &one), 0);
    put_lists("0-1\n", "0-1\n");
    put_node(0, "8000\n", "10 20\n");
    put_node(1, "8001\n", "20 10\n");
    init();
    na_topology_poll(1000);
    unsigned cpu = 0, node = 0;
    cr_assert_eq(getcpu(&cpu, &node), 0);
    cr_assert_eq(na_os_cpu_node(), node);
    cr_assert_eq(na_node_current(), node <= 1 ? node : 0, "the kernel's word");
    char list[32];
    snprintf(list, sizeof list, "8001,%u\n", mine);
    put_node(1, list, "20 10\n");
    cr_assert(na_topology_poll(2000), "only the cpu is new");
    cr_assert_eq(na_node_current(), 1);
}

Test(topology, a_cpu_that_others_ask_for_is_read_too) {
    put_two_nodes();
    init();
    na_topology_poll(1000);
    put_node(1, "4-8\n", "20 10\n");
    cr_assert_not(na_topology_poll(2000), "nobody has met it");
    cr_assert_eq(na_node_of_cpu(8), NA_NODE_ANY);
    cr_assert(na_topology_poll(3000));
    cr_assert_eq(na_node_of_cpu(8), 1);
}

Test(topology, nothing_is_polled_on_one_node) {
    put_lists("0\n", NULL);
    init();
    put_two_nodes();
    cr_assert_not(na_topology_poll(1000));
    cr_assert_not(na_topology_poll(9000));
    expect_one_node(0);
    cr_assert_not(na_node_many);
}

Test(topology, one_allowed_of_two_until_the_cpuset_changes) {
    put_two_nodes();
    put_allowed("1");
    init();
    expect_one_node(1);
    cr_assert(na_node_many, "the other may be allowed later");
    na_topology_poll(1000);
    put_allowed("0-1");
    cr_assert(na_topology_poll(2000));
    cr_assert_eq(na_node_count, 2);
    cr_assert_eq(na_node_system_id(0), 1, "places stay");
    cr_assert_eq(na_node_of_cpu(0), 1);
    cr_assert(na_node_usable(0) && na_node_usable(1));
    cr_assert_eq(na_topology_take_back(), 0, "neither was ever lost");
}

Test(topology, nodes_that_come_back) {
    put_two_nodes();
    init();
    na_topology_poll(1000);
    put_allowed("1");
    cr_assert(na_topology_poll(2000));
    cr_assert_eq(na_topology_take_back(), 0);
    put_allowed("0");
    cr_assert(na_topology_poll(3000));
    cr_assert_eq(na_topology_take_back(), 1);
    put_allowed("0-1");
    cr_assert(na_topology_poll(4000));
    cr_assert_eq(na_topology_take_back(), 2);
    cr_assert_eq(na_topology_take_back(), 0, "once");
}

Test(topology, every_node_and_the_pseudo_node) {
    put_two_nodes();
    init();
    unsigned seen[4] = {0}, n = 0;
    for (unsigned node = 0; node <= NA_NODE_ANY; node = na_node_next(node))
        seen[n++] = node;
    cr_assert_eq(n, 3);
    cr_assert(seen[0] == 0 && seen[1] == 1 && seen[2] == NA_NODE_ANY);
}

Test(topology, this_machine) {
    na_topology_init(NULL, NULL);
    cr_assert_geq(na_node_count, 1);
    cr_assert_leq(na_node_count, NA_MAX_NODES);
    cr_assert_lt(na_node_current(), na_node_count);
    for (unsigned node = 0; node < na_node_count; node++)
        cr_assert_eq(na_node_dense(na_node_system_id(node)), (int)node);
}
