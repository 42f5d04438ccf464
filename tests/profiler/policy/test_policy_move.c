/* test_policy_move.c - policy_move.c: which threads' blocks are followed. Of one round only the
 * source can say whom it found, so it is part of the test. (That pages move is for machines with
 * nodes: tests/lab/ruled.c.) */
#include <criterion/criterion.h>

#include "profiler/policy/policy_move.c"
#include "support/node_tree.h"

enum { OWN = NA_NPROF_THREADS_OWN };

static node_tree_t tree;
static na_policy_pool_t pool = {.place = NA_POLICY_FOLLOW};
static const na_policy_site_t site = {.pool = &pool};

static void start(void) {
    node_tree_make_two(&tree, "0-63\n", "64\n");
    na_topology_init(tree.sys, tree.proc);
}

static void end(void) {
    node_tree_remove(&tree);
}

TestSuite(policy_move, .init = start, .fini = end);

/* A thread that the profile knows as this number runs on the node. */
static void runs(unsigned number, uint8_t node) {
    static na_tcache_t tcache;
    na_rthread_t thread = {.known_as = (uint16_t)number};
    tcache.node = node;
    tcache.track.profile = &thread;
    find_thread(&tcache, NULL);
    tcache.track.profile = NULL;
}

Test(policy_move, each_thread_with_a_number_of_its_own_is_followed) {
    for (unsigned number = 1; number <= OWN; number++)
        runs(number, number % 2);
    for (unsigned number = 1; number <= OWN; number++)
        cr_assert_eq(wanted_node(&site, number), (int)na_node_system_id(number % 2), "thread %u",
                     number);
    runs(OWN, 0);
    cr_assert_eq(wanted_node(&site, OWN), (int)na_node_system_id(0));
}

Test(policy_move, threads_that_share_a_number_are_not) {
    for (unsigned number = OWN + 1; number <= UINT16_MAX; number++) {
        runs(number, 1);
        cr_assert_eq(wanted_node(&site, number), -1, "thread %u", number);
    }
    cr_assert_eq(runs_on_used, 0);
}

Test(policy_move, who_was_not_found_is_not_followed) {
    runs(5000, 1);
    cr_assert_eq(wanted_node(&site, 4999), -1);
    cr_assert_eq(wanted_node(&site, 5001), -1);
    runs(5001, NA_NODE_ANY); /* on no node */
    cr_assert_eq(wanted_node(&site, 5001), -1);
}
