/* test_touch.c - backing.c: large blocks whose pages lie where they are first touched.
 *
 * A made-up tree of two nodes; where a page that holds memory lies, the test says in the system's
 * place. That the kernel does as it says is for machines with nodes (tests/lab/first_touch.c). */
#include <criterion/criterion.h>
#include <errno.h>
#include <sched.h>
#include <stdlib.h>
#include <string.h>

#include "alloc/core/machine/topology.h"
#include "alloc/core/malloc/api.h"
#include "alloc/core/page/pageheap.h"
#include "alloc/core/sys/os.h"
#include "alloc/core/thread/attach.h"
#include "numalloc/numalloc.h"
#include "support/node_tree.h"

#define MIB ((size_t)1 << 20)

static node_tree_t tree;
static uintptr_t away_from, away_to; /* pages there lie on node 1 */
static unsigned looks, local_binds, binds;
static long refusal; /* of move_pages */

long __wrap_na_os_bind(void *start, size_t size, unsigned node, na_bind_t how, bool move);
long __wrap_na_os_bind(void *start, size_t size, unsigned node, na_bind_t how, bool move) {
    (void)start, (void)size, (void)node, (void)move;
    local_binds += how == NA_BIND_LOCAL;
    binds++;
    return 0;
}

long __wrap_na_os_page_nodes(void *const *pages, unsigned count, int *status);
long __wrap_na_os_page_nodes(void *const *pages, unsigned count, int *status) {
    looks++;
    if (refusal != 0) return refusal;
    for (unsigned i = 0; i < count; i++) {
        uintptr_t page = (uintptr_t)pages[i];
        bool away = page >= away_from && page < away_to;
        status[i] = !na_os_is_resident(pages[i]) ? -ENOENT : away ? 1 : 0;
    }
    return 0;
}

static void start(void) {
    node_tree_make_two(&tree, "0-63\n", "64\n");
    na_init();
    na_topology_init(tree.sys, tree.proc);
}

static void start_strict(void) {
    setenv("NUMALLOC_NUMA", "strict", 1);
    start();
}

static void start_unbound(void) {
    setenv("NUMALLOC_NUMA", "unbound", 1);
    start();
}

static void start_balanced(void) {
    node_tree_make_two(&tree, "0-63\n", "64\n");
    node_tree_put(&tree, "proc/sys/kernel/numa_balancing", "1\n");
    na_init();
    na_topology_init(tree.sys, tree.proc);
}

static void end(void) {
    node_tree_remove(&tree);
}

TestSuite(touch, .init = start, .fini = end);
TestSuite(touch_strict, .init = start_strict, .fini = end);
TestSuite(touch_unbound, .init = start_unbound, .fini = end);
TestSuite(touch_balanced, .init = start_balanced, .fini = end);

static char *must_alloc(size_t size) {
    char *block = NA_FN(malloc)(size);
    cr_assert_not_null(block);
    return block;
}

static bool is_by_touch(const void *block) {
    return na_pageheap_is_by_touch((uintptr_t)block);
}

static uint64_t dirty(void) {
    numalloc_node_stats_t stats;
    cr_assert_eq(numalloc_read_node_stats(0, &stats, sizeof stats), 0);
    return stats.dirty;
}

/* Without what other sizes have left. */
static char *fresh_and_full(size_t size) {
    numalloc_trim(0);
    cr_assert_eq(dirty(), 0);
    char *block = must_alloc(size);
    cr_assert(is_by_touch(block));
    memset(block, 42, size);
    return block;
}

Test(touch, from_two_mib_on) {
    cr_assert_not(is_by_touch(must_alloc(2 * MIB - NA_PAGE_SIZE)));
    cr_assert_eq(local_binds, 0);
    cr_assert(is_by_touch(must_alloc(2 * MIB)));
    cr_assert_eq(local_binds, 1);
    cr_assert(is_by_touch(must_alloc(100 * MIB)));
    unsigned before = local_binds;
    must_alloc(136 * MIB);
    cr_assert_eq(local_binds, before + 1);
    char *cleared = NA_FN(calloc)(8, MIB);
    cr_assert(is_by_touch(cleared));
    cr_assert_eq(cleared[5 * MIB], 0);
    cr_assert(is_by_touch(NA_FN(aligned_alloc)(2 * MIB, 8 * MIB)));
}

Test(touch, not_where_the_program_names_the_node) {
    cr_assert_not(is_by_touch(numalloc_alloc_onnode(8 * MIB, 0)));
    cr_assert_not(is_by_touch(numalloc_alloc_local(8 * MIB)));
    cr_assert_not_null(numalloc_alloc_onnode(136 * MIB, 1));
    cr_assert_eq(numalloc_set_thread_node(1), 0);
    cr_assert_not(is_by_touch(must_alloc(8 * MIB)));
    cr_assert_eq(local_binds, 0);
    cr_assert_eq(numalloc_clear_thread_node(), 0);
    cr_assert(is_by_touch(must_alloc(8 * MIB)));
}

Test(touch_strict, not_where_nodes_are_bound_strictly) {
    cr_assert_not(is_by_touch(must_alloc(8 * MIB)));
    must_alloc(136 * MIB);
    cr_assert_eq(local_binds, 0);
}

/* It moves nothing that has a policy, but to the nodes of that (mpol_misplaced). */
Test(touch_unbound, no_policy_where_the_kernel_is_to_balance) {
    must_alloc(64);
    must_alloc(256 << 10);
    must_alloc(8 * MIB);
    must_alloc(136 * MIB);
    cr_assert_eq(binds, 0);
}

/* What is large has none there either; the rest is bound. */
Test(touch_balanced, what_is_large_is_left_to_the_kernel) {
    cr_assert(is_by_touch(must_alloc(8 * MIB)));
    cr_assert_not_null(must_alloc(136 * MIB));
    cr_assert_eq(binds, 0);
    must_alloc(256 << 10);
    cr_assert_eq(binds, 1);
    cr_assert_eq(local_binds, 0);
    must_alloc(2 * MIB - NA_PAGE_SIZE);
    cr_assert_not_null(numalloc_alloc_onnode(136 * MIB, 1));
    cr_assert_eq(binds, 2);
    cr_assert_eq(local_binds, 0);
}

Test(touch, where_a_page_lies) {
    char *block = fresh_and_full(8 * MIB), *huge = must_alloc(136 * MIB);
    away_from = (uintptr_t)block + 4 * MIB;
    away_to = (uintptr_t)block + 8 * MIB;
    cr_assert_eq(numalloc_node_of(block), 0);
    cr_assert_eq(numalloc_node_of(block + 5 * MIB), 1);
    cr_assert_eq(numalloc_node_of(huge + MIB), 0, "not touched: whose it is");
    huge[MIB] = 1;
    away_from = (uintptr_t)huge;
    away_to = (uintptr_t)huge + 2 * MIB;
    cr_assert_eq(numalloc_node_of(huge + MIB), 1);
}

/* It is taken again as it is, and then nothing is looked up. */
Test(touch, what_lies_at_home_is_kept) {
    char *block = fresh_and_full(8 * MIB);
    NA_FN(free)(block);
    cr_assert_eq(dirty(), 8 * MIB);
    cr_assert_eq(looks, 4);
    cr_assert_eq(must_alloc(8 * MIB), block);
    cr_assert_eq(block[6 * MIB], 42);
    NA_FN(free)(block);
    cr_assert_eq(looks, 4);
    cr_assert_eq(dirty(), 8 * MIB);
}

Test(touch, what_lies_elsewhere_is_given_up) {
    char *block = fresh_and_full(8 * MIB);
    away_from = (uintptr_t)block + 3 * MIB; /* the second and third of its huge pages */
    away_to = (uintptr_t)block + 5 * MIB;
    NA_FN(free)(block);
    cr_assert_eq(dirty(), 4 * MIB);
    cr_assert_eq(must_alloc(8 * MIB), block);
    cr_assert_eq(block[MIB], 42);
    cr_assert_eq(block[7 * MIB], 42);
    for (size_t at = 2 * MIB; at < 6 * MIB; at += 4096)
        cr_assert_eq(block[at], 0);
    memset(block, 43, 8 * MIB); /* all of it is looked up again */
    NA_FN(free)(block);
    cr_assert_eq(dirty(), 4 * MIB);
    cr_assert_eq(looks, 8);
}

Test(touch, what_was_not_used_is_not_held) {
    numalloc_trim(0);
    char *block = must_alloc(9 * MIB);
    na_os_hugepage(block, 9 * MIB, false); /* the system may give them unasked */
    memset(block, 42, 3 * MIB);
    NA_FN(free)(block);
    cr_assert_eq(dirty(), 2 * MIB);
    block = NA_FN(calloc)(9, MIB);
    for (size_t at = 0; at < 9 * MIB; at += 4096)
        cr_assert_eq(block[at], 0);
}

/* What is added, or cut off. */
Test(touch, resized_in_place) {
    char *block = fresh_and_full(8 * MIB);
    NA_FN(free)(block);
    cr_assert_eq(must_alloc(8 * MIB), block);
    unsigned before = looks;
    cr_assert_eq(NA_FN(realloc)(block, 12 * MIB), block);
    cr_assert_eq(NA_FN(realloc)(block, 6 * MIB), block);
    cr_assert_eq(looks, before + 3);
    cr_assert_eq(dirty(), 2 * MIB);
    NA_FN(free)(block);
    cr_assert_eq(dirty(), 8 * MIB);
}

/* Where nobody says where pages lie they are bound, from then on. */
Test(touch, move_pages_refused) {
    char *block = fresh_and_full(8 * MIB);
    refusal = -EPERM;
    NA_FN(free)(block);
    cr_assert_eq(dirty(), 0);
    cr_assert_not(is_by_touch(must_alloc(8 * MIB)));
}

/* A size for which there are only pieces: whichever there is. */
Test(touch, many_sizes) {
    enum { SLOTS = 12, ROUNDS = 3000 };
    static struct {
        char *start;
        size_t size;
    } slot[SLOTS];
    uint64_t state = 1;
    away_to = UINTPTR_MAX;
    for (unsigned round = 0; round < ROUNDS; round++) {
        state = state * UINT64_C(6364136223846793005) + 1442695040888963407;
        size_t i = state >> 60 < SLOTS ? state >> 60 : 0;
        if (slot[i].start != NULL) {
            for (size_t at = 0; at < slot[i].size; at += 65536)
                cr_assert_eq(slot[i].start[at], (char)i);
            NA_FN(free)(slot[i].start);
        }
        away_from = (uintptr_t)slot[i].start + (state >> 40) % (8 * MIB); /* other blocks, too */
        slot[i].size = MIB + (state >> 33) % (12 * MIB);
        slot[i].start = must_alloc(slot[i].size);
        for (size_t at = 0; at < slot[i].size; at += 65536)
            slot[i].start[at] = (char)i;
    }
    for (unsigned i = 0; i < SLOTS; i++)
        NA_FN(free)(slot[i].start);
    numalloc_trim(0);
    numalloc_node_stats_t stats;
    cr_assert_eq(numalloc_read_node_stats(0, &stats, sizeof stats), 0);
    cr_assert_eq(stats.dirty, 0);
    cr_assert_lt(stats.in_spans, MIB);
}
