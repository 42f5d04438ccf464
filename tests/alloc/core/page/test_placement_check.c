/* test_placement_check.c - backing.c: memory that the kernel has put elsewhere is brought back.
 *
 * A made-up tree of two nodes. Where a page lies, and whether mbind moves it, the test says in
 * the system's place: one real node is enough. That the kernel does as it says is for machines with
 * nodes (tests/lab/cpusets.c). */
#include <criterion/criterion.h>
#include <errno.h>
#include <sched.h>
#include <string.h>

#include "alloc/core/machine/topology.h"
#include "alloc/core/malloc/api.h"
#include "alloc/core/page/backing.h"
#include "alloc/core/sys/os.h"
#include "alloc/core/thread/attach.h"
#include "support/node_tree.h"

enum { MOST = 4096 };

static node_tree_t tree;
static unsigned elsewhere_of_100; /* of the pages of a node's regions */
static unsigned stubborn;         /* rounds of mbind that move nothing */
static unsigned rounds, looked_up;
static long refusal; /* of move_pages */

long __wrap_na_os_bind(void *start, size_t size, unsigned node, na_bind_t how, bool move);
long __wrap_na_os_bind(void *start, size_t size, unsigned node, na_bind_t how, bool move) {
    (void)start, (void)size, (void)node, (void)how;
    if (!move) return 0;
    rounds++;
    if (stubborn == 0)
        elsewhere_of_100 = 0;
    else
        stubborn--;
    return 0;
}

long __wrap_na_os_page_nodes(void *const *pages, unsigned count, int *status);
long __wrap_na_os_page_nodes(void *const *pages, unsigned count, int *status) {
    if (refusal != 0) return refusal;
    for (unsigned i = 0; i < count; i++) {
        cr_assert_neq(pages[i], NULL);
        status[i] = looked_up++ * 37 % 100 < elsewhere_of_100 ? 1 : 0;
        if (looked_up % 10 == 9) status[i] = -ENOENT; /* not resident: nowhere */
    }
    return 0;
}

static void start(void) {
    node_tree_make_two(&tree, "0-63\n", "64\n");
    na_init();
    na_topology_init(tree.sys, tree.proc);
    static void *blocks[MOST];
    for (unsigned i = 0; i < MOST; i++)
        memset(blocks[i] = NA_FN(malloc)(1000), 1, 1000);
}

static void end(void) {
    node_tree_remove(&tree);
}

TestSuite(verify, .init = start, .fini = end);

Test(verify, all_in_place) {
    na_placement_bring_back(0);
    cr_assert_eq(rounds, 1);
    cr_assert_geq(looked_up, MOST * 1000 / na_os_page); /* every page in use */
    cr_assert_eq(na_topology_take_back(), 0);
}

Test(verify, what_was_passed_over_is_tried_again) {
    elsewhere_of_100 = 1;
    stubborn = 2;
    for (unsigned round = 1; round <= 2; round++) {
        na_placement_bring_back(0);
        cr_assert_eq(na_topology_take_back(), 1, "round %u", round);
    }
    na_placement_bring_back(0);
    cr_assert_eq(rounds, 3);
    cr_assert_eq(na_topology_take_back(), 0);
}

Test(verify, not_for_ever) {
    enum { MORE_THAN_ANY = 1000 };
    elsewhere_of_100 = 100;
    stubborn = MORE_THAN_ANY;
    unsigned again = 0;
    do
        na_placement_bring_back(0);
    while (na_topology_take_back() == 1 && ++again < MORE_THAN_ANY);
    cr_assert(again > 10 && again < 100, "%u times", again);
}

Test(verify, nothing_comes_back_to_a_full_node) {
    node_tree_put_free(&tree, 0, 16384, 1);
    elsewhere_of_100 = 100;
    stubborn = 1;
    na_placement_bring_back(0);
    cr_assert_eq(na_topology_take_back(), 0);
}

Test(verify, a_system_that_does_not_say) {
    refusal = -EPERM;
    na_placement_bring_back(0);
    cr_assert_eq(na_topology_take_back(), 0);
}
