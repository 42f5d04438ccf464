/* test_numa.c - place.c and api_numa.c: heaps, growth and the API on several nodes, as far as one
 * real node goes.
 *
 * The library reads a made-up tree in which cpu 0 is on node 0 and cpu 1 on node 1. The kernel
 * has no node 1: it refuses to bind there, and all pages lie on node 0. What is tested is what the
 * allocator decides; that the kernel obeys is for machines with nodes (tests/lab). */
#include <criterion/criterion.h>
#include <errno.h>
#include <linux/mempolicy.h>
#include <pthread.h>
#include <sched.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "alloc/core/cache/thread_cache.h"
#include "alloc/core/machine/pressure.h"
#include "alloc/core/machine/topology.h"
#include "alloc/core/malloc/api.h"
#include "alloc/core/page/pageheap.h"
#include "alloc/core/page/scavenge_policy.h"
#include "alloc/core/sys/os.h"
#include "numalloc/numalloc.h"
#include "support/made_up_nodes.h"

#define KIB ((size_t)1 << 10)
#define MIB ((size_t)1 << 20)

TestSuite(numa, .init = two_nodes, .fini = remove_tree);

static const size_t sizes[] = {1, 16, 48, 64, 100, 1000, 4096, 20000, 40000, 300 * KIB, 3 * MIB};
#define SIZES (sizeof sizes / sizeof sizes[0])

/* Every block of every size comes from `node`. */
static void expect_all_from(int node) {
    for (unsigned i = 0; i < SIZES; i++) {
        void *blocks[200];
        for (unsigned n = 0; n < 200; n++) {
            blocks[n] = NA_FN(malloc)(sizes[i]);
            cr_assert_not_null(blocks[n]);
            cr_assert_eq(numalloc_node_of(blocks[n]), node, "block %u of %zu bytes", n, sizes[i]);
        }
        for (unsigned n = 0; n < 200; n++)
            NA_FN(free)(blocks[n]);
    }
}

/* --- which node a thread gets --- */

Test(numa, the_node_of_the_cpu) {
    go_to_node(1);
    expect_all_from(1);
    cr_assert_eq(numalloc_current_node(), 1);
    cr_assert_eq(stats_of(0).in_spans, 0);
}

Test(numa, a_thread_that_may_not_run_at_home_moves_at_its_next_slow_path) {
    go_to_node(0);
    expect_all_from(0);
    void *kept = NA_FN(malloc)(100);
    go_to_node(1);
    NA_FN(free)(NA_FN(malloc)(50 * KIB)); /* a slow path: twice */
    expect_all_from(1);
    cr_assert_eq(numalloc_node_of(kept), 0);
    go_to_node(0);
    NA_FN(free)(NA_FN(malloc)(50 * KIB));
    expect_all_from(0);
    NA_FN(free)(kept);
}

/* What is at hand in the heap's bins, by their credits. */
static unsigned credits(const na_tcache_t *heap) {
    unsigned sum = 0;
    for (unsigned cls = 1; cls < NA_CLASS_COUNT; cls++)
        sum += (unsigned)(heap->bins[cls].pop > 0 ? heap->bins[cls].pop : 0) +
               (unsigned)(heap->bins[cls].push > 0 ? heap->bins[cls].push : 0);
    return sum;
}

/* May run on both, so that being away once means nothing yet; but then every malloc looks again, so
 * that the first after 10 ms moves, of whatever size. */
Test(numa, a_thread_that_may_go_back_moves_when_it_has_stayed_away) {
    go_to_node(0);
    expect_all_from(0);
    cpu_set_t both;
    CPU_ZERO(&both);
    CPU_SET(0, &both);
    CPU_SET(1, &both);
    for (unsigned attempt = 0; attempt < 50; attempt++) {
        go_to_node(0);
        void *small = NA_FN(malloc)(200);
        uint64_t came = na_os_ms();
        for (unsigned i = 0; i < 40 || (na_self->node != 0 && na_os_ms() < came + 2000); i++)
            NA_FN(free)(NA_FN(malloc)(50 * KIB)); /* some poll */
        NA_FN(free)
        (NA_FN(malloc)(200)); /* back for sure: what was at hand when away was not kept */
        na_tcache_t *home = na_self;
        cr_assert_eq(home->node, 0);
        cr_assert_gt(credits(home), 0);
        uint64_t began = na_os_ms();
        go_to_node(1);
        cr_assert_eq(sched_setaffinity(0, sizeof both, &both), 0);
        NA_FN(free)(NA_FN(malloc)(50 * KIB));
        NA_FN(free)(NA_FN(malloc)(50 * KIB));
        NA_FN(free)(small);
        small = NA_FN(malloc)(200);
        if (sched_getcpu() != 1 || na_os_ms() - began >= 8) { /* put elsewhere, or held up */
            NA_FN(free)(small);
            continue;
        }
        cr_assert_eq(na_self, home, "it may be back in no time");
        cr_assert(home->where.away);
        cr_assert_eq(credits(home), 0);
        NA_FN(free)(small);
        home->where.home_ms -= 20; /* as if it had been long ago */
        void *block = NA_FN(malloc)(200);
        if (sched_getcpu() != 1) {
            NA_FN(free)(block);
            continue;
        }
        cr_assert_eq(na_self->node, 1);
        cr_assert_not(na_self->where.away);
        cr_assert_eq(home->shared.user, NA_TCACHE_ABANDONED);
        cr_assert_eq(numalloc_node_of(block), 1);
        NA_FN(free)(block);
        return;
    }
    cr_skip_test("the scheduler did not leave the thread where it was put");
}

static long set_policy(int mode, unsigned long nodes) {
    return syscall(SYS_set_mempolicy, mode, nodes == 0 ? NULL : &nodes, nodes == 0 ? 0 : 64);
}

Test(numa, a_policy_that_the_program_sets_wins) {
    go_to_node(0);
    expect_all_from(0);
    if (set_policy(MPOL_BIND, 1) != 0) cr_skip_test("set_mempolicy is forbidden here");
    void *large = NA_FN(malloc)(MIB);
    cr_assert_eq(na_self->node, NA_NODE_ANY);
    cr_assert_eq(numalloc_node_of(large), -1, "nobody knows before it is touched");
    memset(large, 1, MIB);
    cr_assert_eq(numalloc_node_of(large), 0, "the kernel knows");
    void *small = NA_FN(malloc)(48);
    cr_assert_eq(na_pageheap_node_of((uintptr_t)small), NA_NODE_ANY);
    cr_assert_geq(stats_of(-1).live, MIB + 48);
    NA_FN(free)(large);
    NA_FN(free)(small);
    cr_assert_eq(stats_of(-1).live, 0);

    cr_assert_eq(set_policy(MPOL_LOCAL, 0), 0);
    expect_all_from(0); /* what "local" asks for is what we do */
    cr_assert_eq(set_policy(MPOL_INTERLEAVE, 1), 0);
    NA_FN(free)(NA_FN(malloc)(MIB));
    cr_assert_eq(na_self->node, NA_NODE_ANY);
    cr_assert_eq(set_policy(MPOL_DEFAULT, 0), 0);
    expect_all_from(0);
}

/* Small blocks alone show it too: when a bin has nothing left, before it is filled. */
Test(numa, a_policy_is_seen_when_a_span_is_filled) {
    go_to_node(0);
    NA_FN(free)(NA_FN(malloc)(48));
    if (set_policy(MPOL_BIND, 1) != 0) cr_skip_test("set_mempolicy is forbidden here");
    unsigned before = 0;
    for (; before < 1000; before++)
        if (na_pageheap_node_of((uintptr_t)NA_FN(malloc)(48)) == NA_NODE_ANY) break;
    cr_assert_leq(before, 2 * 4096 / 48, "%u blocks from what was in the bin already", before);
}

Test(numa, a_node_set_for_the_thread) {
    go_to_node(0);
    cr_assert_eq(numalloc_thread_node(), -1);
    cr_assert_eq(numalloc_set_thread_node(1), 0);
    cr_assert_eq(numalloc_thread_node(), 1);
    expect_all_from(1);
    void *local = numalloc_alloc_local(100);
    cr_assert_eq(numalloc_node_of(local), 0);
    NA_FN(free)(local);
    if (set_policy(MPOL_BIND, 1) == 0) expect_all_from(1);
    cr_assert_eq(numalloc_set_thread_node(0), 0);
    expect_all_from(0);
    cr_assert_eq(set_policy(MPOL_DEFAULT, 0), 0);
    cr_assert_eq(numalloc_set_thread_node(1), 0);
    cr_assert_eq(numalloc_clear_thread_node(), 0);
    cr_assert_eq(numalloc_thread_node(), -1);
    expect_all_from(0);
    static const int bad[] = {-1, 2, 63, 1 << 30};
    for (unsigned i = 0; i < 4; i++) {
        errno = 0;
        cr_assert_eq(numalloc_set_thread_node(bad[i]), -1);
        cr_assert_eq(errno, EINVAL);
    }
}

static void *tell_node(void *unused) {
    (void)unused;
    NA_FN(free)(NA_FN(malloc)(1));
    return (void *)(intptr_t)(numalloc_thread_node() * 100 + na_self->node);
}

Test(numa, new_threads_do_not_inherit_the_node) {
    go_to_node(0);
    cr_assert_eq(numalloc_set_thread_node(1), 0);
    NA_FN(free)(NA_FN(malloc)(1));
    pthread_t thread;
    void *result;
    cr_assert_eq(pthread_create(&thread, NULL, tell_node, NULL), 0);
    pthread_join(thread, &result);
    cr_assert_eq((intptr_t)result, -100);
}

/* --- blocks on a node --- */

Test(numa, on_a_node) {
    go_to_node(0);
    NA_FN(free)(NA_FN(malloc)(1));
    for (int node = 0; node < 2; node++)
        for (unsigned i = 0; i < SIZES; i++) {
            char *blocks[100];
            for (unsigned n = 0; n < 100; n++) {
                blocks[n] = numalloc_alloc_onnode(sizes[i], node);
                cr_assert_not_null(blocks[n]);
                cr_assert_eq(numalloc_node_of(blocks[n]), node);
                cr_assert_geq(NA_FN(malloc_usable_size)(blocks[n]), sizes[i]);
                memset(blocks[n], (int)n, sizes[i]);
            }
            for (unsigned n = 0; n < 100; n++) {
                cr_assert_eq(blocks[n][0], (char)n);
                cr_assert_eq(blocks[n][sizes[i] - 1], (char)n);
                NA_FN(free)(blocks[n]);
            }
        }
    expect_all_from(0); /* what was freed here did not stay here */
    errno = 0;
    cr_assert_null(numalloc_alloc_onnode(10, 2));
    cr_assert_eq(errno, EINVAL);
    errno = 0;
    cr_assert_null(numalloc_alloc_onnode(SIZE_MAX / 2, 1));
    cr_assert_eq(errno, ENOMEM);
    void *zero = numalloc_alloc_onnode(0, 1);
    cr_assert_not_null(zero);
    NA_FN(free)(zero);
}

static void *free_all(void *argument) {
    void **blocks = argument;
    run_on(1);
    for (unsigned i = 0; blocks[i] != NULL; i++)
        NA_FN(free)(blocks[i]);
    return NULL;
}

Test(numa, live_bytes_and_frees_from_other_nodes) {
    go_to_node(1); /* is there one? */
    go_to_node(0);
    enum { BLOCKS = 10000 };
    static void *blocks[BLOCKS + 1];
    for (unsigned i = 0; i < BLOCKS; i++)
        blocks[i] = NA_FN(malloc)(i % 2 == 0 ? 48 : 64); /* owned and pooled */
    numalloc_node_stats_t stats = stats_of(0);
    cr_assert_geq(stats.live, BLOCKS * 56);
    cr_assert_leq(stats.live, BLOCKS * 56 + 4096);
    cr_assert_geq(stats.in_spans, stats.live);
    cr_assert_eq(stats.live + stats.cached, stats.in_spans);
    cr_assert_eq(stats.remote_frees, 0);
    pthread_t thread;
    cr_assert_eq(pthread_create(&thread, NULL, free_all, blocks), 0);
    pthread_join(thread, NULL);
    stats = stats_of(0);
    cr_assert_leq(stats.live, 4096);
    cr_assert_eq(stats.remote_frees, BLOCKS);
    cr_assert_eq(stats_of(1).live, 0);
    cr_assert_eq(stats_of(1).remote_frees, 0);
    /* on purpose, there and back */
    for (unsigned i = 0; i < 1000; i++)
        blocks[i] = numalloc_alloc_onnode(1000, 1);
    cr_assert_eq(stats_of(1).live, 1000 * 1024);
    for (unsigned i = 0; i < 1000; i++)
        NA_FN(free)(blocks[i]);
    numalloc_trim(0);
    cr_assert_eq(stats_of(1).live, 0);
    cr_assert_eq(stats_of(1).remote_frees, 1000);
    void *large = numalloc_alloc_onnode(MIB, 1);
    cr_assert_eq(stats_of(1).live, MIB);
    NA_FN(free)(large);
    cr_assert_eq(stats_of(1).live, 0);
    errno = 0;
    cr_assert_eq(numalloc_read_node_stats(2, &stats, sizeof stats), -1);
    cr_assert_eq(errno, EINVAL);
    cr_assert_eq(numalloc_read_node_stats(0, NULL, 0), -1);
    cr_assert_eq(numalloc_read_node_stats(-2, &stats, sizeof stats), -1);
}

Test(numa, stats_say_what_the_system_refused) {
    go_to_node(0);
    NA_FN(free)(NA_FN(malloc)(1));
    NA_FN(free)(numalloc_alloc_onnode(1, 1));
    if (!stats_of(0).bound) cr_skip_test("mbind is forbidden here");
    cr_assert_eq(stats_of(0).refused, 0);
    cr_assert_eq(stats_of(1).bound, 0, "there is no such node");
    cr_assert_eq(stats_of(1).refused, 1);
    cr_assert_eq(stats_of(1).usable, 1);
}

static int policy_at(void *address) {
    int mode = -1;
    if (syscall(SYS_get_mempolicy, &mode, NULL, 0, address, MPOL_F_ADDR) != 0) return -1;
    return mode & ~MPOL_MODE_FLAGS;
}

Test(numa, interleaved) {
    go_to_node(0);
    static const int both[] = {1, 0, 1};
    char *block = numalloc_alloc_interleaved(MIB, both, 3);
    cr_assert_not_null(block);
    int policy = policy_at(block);
    if (policy == -1) cr_skip_test("get_mempolicy is forbidden here");
    cr_assert_eq(policy, MPOL_INTERLEAVE);
    cr_assert_eq(policy_at(block + MIB - 1), MPOL_INTERLEAVE);
    memset(block, 7, MIB);
    cr_assert_eq(numalloc_node_of(block), 0, "the kernel's word");
    block = NA_FN(realloc)(block, 20 * MIB);
    cr_assert_not_null(block);
    cr_assert_eq(policy_at(block + 20 * MIB - 1), MPOL_INTERLEAVE);
    cr_assert_eq(block[MIB - 1], 7);
    cr_assert_eq(stats_of(-1).live, 20 * MIB);
    block = NA_FN(realloc)(block, 100);
    cr_assert_eq(block[99], 7);
    NA_FN(free)(block);
    cr_assert_eq(stats_of(-1).live, 0);

    /* All nodes; small blocks take turns. */
    block = numalloc_alloc_interleaved(MIB, NULL, 0);
    cr_assert_eq(policy_at(block), MPOL_INTERLEAVE);
    NA_FN(free)(block);
    unsigned on[2] = {0};
    for (unsigned i = 0; i < 100; i++)
        on[numalloc_node_of(numalloc_alloc_interleaved(100, NULL, 0))]++;
    cr_assert(on[0] == 50 && on[1] == 50);
    static const int one[] = {1};
    cr_assert_eq(numalloc_node_of(numalloc_alloc_interleaved(MIB, one, 1)), 1);

    static const int bad[] = {0, 2};
    errno = 0;
    cr_assert_null(numalloc_alloc_interleaved(MIB, bad, 2));
    cr_assert_eq(errno, EINVAL);
    errno = 0;
    cr_assert_null(numalloc_alloc_interleaved(MIB, NULL, 2));
    cr_assert_eq(errno, EINVAL);
    cr_assert_null(numalloc_alloc_interleaved(MIB, one, 0));
    errno = 0;
    cr_assert_null(numalloc_alloc_interleaved(SIZE_MAX, NULL, 0));
    cr_assert_eq(errno, ENOMEM);
}

/* --- where things are, and moving them --- */

Test(numa, node_of_any_address) {
    go_to_node(0);
    static char global[1];
    char *block = NA_FN(malloc)(MIB);
    cr_assert_eq(numalloc_node_of(block + MIB - 1), 0);
    cr_assert_eq(numalloc_node_of(global), -1);
    cr_assert_eq(numalloc_node_of(NULL), -1);
    cr_assert_eq(numalloc_node_of((void *)UINTPTR_MAX), -1);
    errno = 0;
    int node = numalloc_page_node(global);
    if (node < 0 && (errno == EPERM || errno == ENOSYS)) cr_skip_test("move_pages is forbidden");
    global[0] = 1;
    cr_assert_eq(numalloc_page_node(global), 0);
    cr_assert_eq(numalloc_page_node(block + MIB / 2), -1);
    cr_assert(errno == ENOENT || errno == EFAULT);
    block[MIB / 2] = 1;
    cr_assert_eq(numalloc_page_node(block + MIB / 2), 0);
    NA_FN(free)(block);
    cr_assert_eq(numalloc_node_of(block), -1);
}

Test(numa, migrate) {
    go_to_node(0);
    char *block = NA_FN(malloc)(MIB);
    memset(block, 1, MIB / 2);
    numalloc_migration_t m;
    errno = 0;
    int result = numalloc_migrate(block, 0, &m);
    if (result < 0 && (errno == EPERM || errno == ENOSYS)) cr_skip_test("move_pages is forbidden");
    cr_assert_eq(result, 0);
    cr_assert_eq(m.already + m.untouched, MIB);
    cr_assert_geq(m.already, MIB / 2);
    cr_assert_eq(m.moved + m.refused + m.shared, 0);
    cr_assert_eq(numalloc_migrate(block, 0, NULL), 0);
    /* The kernel has no node 1, and says so. */
    errno = 0;
    cr_assert_eq(numalloc_migrate(block, 1, &m), -1);
    cr_assert(errno == ENODEV || errno == EACCES, "errno %d", errno);
    cr_assert_eq(m.moved, 0);
    cr_assert_eq(numalloc_node_of(block), 0);

    void *small = NA_FN(malloc)(20000);
    cr_assert_eq(numalloc_migrate(small, 1, &m), 1);
    cr_assert_geq(m.shared, 20000);
    cr_assert_eq(numalloc_migrate(small, 0, &m), 0);
    static int global;
    void *const bad[] = {NULL, &global, block + 1, (char *)small + 16};
    for (unsigned i = 0; i < 4; i++) {
        errno = 0;
        cr_assert_eq(numalloc_migrate(bad[i], 0, &m), -1);
        cr_assert_eq(errno, EINVAL);
    }
    errno = 0;
    cr_assert_eq(numalloc_migrate(block, 5, &m), -1);
    cr_assert_eq(errno, EINVAL);
    NA_FN(free)(block);
    NA_FN(free)(small);
}

/* Parts of a block: whole pages in the range count, the rest is shared. */
Test(numa, migrate_range) {
    go_to_node(0);
    char *block = NA_FN(malloc)(MIB);
    memset(block, 1, MIB / 2);
    numalloc_migration_t m;
    errno = 0;
    int result = numalloc_migrate_range(block + 65536, 65536, 0, &m);
    if (result < 0 && (errno == EPERM || errno == ENOSYS)) cr_skip_test("move_pages is forbidden");
    cr_assert_eq(result, 0);
    cr_assert_eq(m.already, 65536);
    cr_assert_eq(m.moved + m.refused + m.shared + m.untouched, 0);
    cr_assert_eq(numalloc_migrate_range(block + 65536 - 100, 65536 + 200, 0, &m), 1);
    cr_assert_eq(m.already, 65536);
    cr_assert_eq(m.shared, 200);
    /* Less than a page, of one page or two. */
    cr_assert_eq(numalloc_migrate_range(block + 100, 3000, 0, &m), 1);
    cr_assert(m.shared == 3000 && m.already == 0);
    cr_assert_eq(numalloc_migrate_range(block + 4000, 4000, 0, &m), 1);
    cr_assert(m.shared == 4000 && m.already == 0);
    cr_assert_eq(numalloc_migrate_range(block + 4000, 0, 0, &m), 0);
    cr_assert_eq(m.shared + m.already, 0);
    /* To the end, and no farther. */
    cr_assert_eq(numalloc_migrate_range(block + MIB - 8192, 8192, 0, NULL), 0);
    cr_assert_eq(numalloc_migrate_range(block + MIB - 8192, 8193, 0, &m), -1);
    cr_assert_eq(errno, EINVAL);
    char *odd = NA_FN(malloc)(100001);
    memset(odd, 1, 100001);
    cr_assert_eq(numalloc_migrate_range(odd + 65536, 100001 - 65536, 0, &m), 0);
    cr_assert_eq(m.already + m.untouched, NA_FN(malloc_usable_size)(odd) - 65536);
    cr_assert_eq(numalloc_migrate_range(odd + 65536, 100000 - 65536, 0, &m), 1);
    cr_assert_eq(m.shared, 100000 % 4096);
    /* The kernel has no node 1, and says so. */
    errno = 0;
    cr_assert_eq(numalloc_migrate_range(block, 65536, 1, &m), -1);
    cr_assert(errno == ENODEV || errno == EACCES, "errno %d", errno);
    cr_assert_eq(m.moved, 0);

    char *small = NA_FN(malloc)(20000);
    cr_assert_eq(numalloc_migrate_range(small + 4096, 8192, 1, &m), 1);
    cr_assert_eq(m.shared, 8192);
    static int global;
    void *const bad[] = {NULL, &global};
    for (unsigned i = 0; i < 2; i++) {
        errno = 0;
        cr_assert_eq(numalloc_migrate_range(bad[i], 1, 0, &m), -1);
        cr_assert_eq(errno, EINVAL);
    }
    errno = 0;
    cr_assert_eq(numalloc_migrate_range(block, 4096, 5, &m), -1);
    cr_assert_eq(errno, EINVAL);
    NA_FN(free)(block);
    NA_FN(free)(odd);
    NA_FN(free)(small);
}

static void *copy_of(void *argument) {
    run_on(1);
    return (void *)(uintptr_t)numalloc_replica(argument);
}

Test(numa, replicas) {
    go_to_node(1);
    go_to_node(0);
    for (size_t size = 1; size <= 4 * MIB; size *= 16) {
        char *data = NA_FN(malloc)(size);
        memset(data, 42, size);
        numalloc_replicas_t *set = numalloc_replicate(data, size);
        cr_assert_not_null(set);
        memset(data, 1, size);
        NA_FN(free)(data);
        const char *here = numalloc_replica(set);
        pthread_t thread;
        void *there;
        cr_assert_eq(pthread_create(&thread, NULL, copy_of, set), 0);
        pthread_join(thread, &there);
        cr_assert_neq(here, there);
        cr_assert_eq(numalloc_node_of(here), 0);
        cr_assert_eq(numalloc_node_of(there), 1);
        cr_assert_eq(numalloc_replica_onnode(set, 0), here);
        cr_assert_eq(numalloc_replica_onnode(set, 1), there);
        cr_assert_eq(memcmp(here, there, size), 0);
        cr_assert(here[0] == 42 && here[size - 1] == 42);
        errno = 0;
        cr_assert_null(numalloc_replica_onnode(set, 2));
        cr_assert_eq(errno, EINVAL);
        numalloc_free_replicas(set);
        cr_assert_eq(numalloc_node_of(here), size <= NA_SMALL_MAX ? 0 : -1,
                     "small: its span stays");
    }
    numalloc_free_replicas(NULL);
    errno = 0;
    cr_assert_null(numalloc_replicate(NULL, 10));
    cr_assert_eq(errno, EINVAL);
    cr_assert_null(numalloc_replicate(&tree, 0));
    numalloc_trim(0);
    cr_assert_eq(stats_of(1).live, 0);
}

Test(numa, nodes) {
    int ids[4] = {-9, -9, -9, -9};
    cr_assert_eq(numalloc_nodes(NULL, 0), 2);
    cr_assert_eq(numalloc_nodes(ids, 1), 2);
    cr_assert(ids[0] == 0 && ids[1] == -9);
    cr_assert_eq(numalloc_nodes(ids, 4), 2);
    cr_assert(ids[1] == 1 && ids[2] == -9);
}

/* --- a full node --- */

Test(room, from_the_kernels_text) {
    static const char text[] = "Node 0 MemTotal:        65536 kB\nNode 0 MemFree:   32768 kB\n";
    cr_assert_eq(na_node_free_parse(text), 32 * MIB - 64 * MIB / 100 * 8, "8 %% are kept free");
    cr_assert_eq(na_node_free_parse("Node 0 MemTotal: 65536 kB\nNode 0 MemFree: 4096 kB\n"), 0);
    cr_assert_eq(
        na_node_free_parse("Node 0 MemTotal: 524288000 kB\nNode 0 MemFree: 524288000 kB\n"),
        500 * KIB * MIB - 128 * MIB - 500 * KIB * MIB / 400, "a large node keeps less");
    cr_assert_eq(na_node_free_parse(""), NA_NODE_FREE_UNKNOWN);
    cr_assert_eq(na_node_free_parse("Node 0 MemTotal: 65536 kB\n"), NA_NODE_FREE_UNKNOWN);
    cr_assert_eq(na_node_free_parse("Node 0 MemTotal: x\nNode 0 MemFree: 1 kB\n"),
                 NA_NODE_FREE_UNKNOWN);
}

static void wait_for_a_look(void) {
    usleep(30 * 1000); /* two looks are 10 ms apart, by a clock of a few ms */
}

Test(numa, a_full_node_strays_to_the_nearest_and_is_used_again) {
    go_to_node(0);
    NA_FN(free)(NA_FN(malloc)(1));
    if (!stats_of(0).bound) cr_skip_test("mbind is forbidden here");
    node_tree_put_free(&tree, 0, 16384, 10); /* by other programs */
    wait_for_a_look();
    enum { BLOCKS = 400 };
    static void *blocks[BLOCKS]; /* 40 MB: more than may be taken between two looks */
    unsigned away = 0;
    for (unsigned i = 0; i < BLOCKS; i++) {
        blocks[i] = NA_FN(malloc)(100000);
        away += numalloc_node_of(blocks[i]) == 1;
    }
    cr_assert_geq(away, BLOCKS - 16 * MIB / 100000 - 1, "%u strays", away);
    numalloc_node_stats_t full = stats_of(0), other = stats_of(1);
    cr_assert_geq(full.strays, away * 100000ul);
    cr_assert_eq(full.strays, full.strays_total);
    cr_assert_eq(other.guests, full.strays);
    cr_assert_geq(full.live, BLOCKS * 100000ul, "live by the node that it was meant for");
    cr_assert_leq(other.live, 4096);

    /* Local free memory is used before any stray. */
    unsigned last_home = 0;
    while (numalloc_node_of(blocks[last_home]) == 0)
        last_home++;
    cr_assert_gt(last_home, 0);
    NA_FN(free)(blocks[0]);
    blocks[0] = NA_FN(malloc)(100000);
    cr_assert_eq(numalloc_node_of(blocks[0]), 0);

    /* A block on a full node does not grow there. */
    void *small = NA_FN(malloc)(40000);
    cr_assert_not_null(small);
    small = NA_FN(realloc)(small, 20 * MIB);
    cr_assert_eq(numalloc_node_of(small), 1);
    NA_FN(free)(small);

    /* Room again. */
    node_tree_put_free(&tree, 0, 16384, 8192);
    wait_for_a_look();
    void *more = NA_FN(malloc)(10 * MIB);
    cr_assert_eq(numalloc_node_of(more), 0);
    NA_FN(free)(more);
    for (unsigned i = 0; i < BLOCKS; i++)
        NA_FN(free)(blocks[i]);
    full = stats_of(0);
    cr_assert_eq(full.strays, 0);
    cr_assert_gt(full.strays_total, 0);
    cr_assert_eq(stats_of(1).guests, 0);
}

/* Small blocks' spans too; they come home when their blocks do. */
Test(numa, strays_in_small_blocks) {
    go_to_node(0);
    NA_FN(free)(NA_FN(malloc)(1));
    if (!stats_of(0).bound) cr_skip_test("mbind is forbidden here");
    node_tree_put_free(&tree, 0, 16384, 10);
    wait_for_a_look();
    enum { BLOCKS = 100000 };
    static void *blocks[BLOCKS];
    for (unsigned i = 0; i < BLOCKS; i++)
        blocks[i] = NA_FN(malloc)(i % 2 == 0 ? 300 : 320);
    cr_assert_geq(stats_of(0).strays, 10 * MIB);
    for (unsigned i = 0; i < BLOCKS; i++)
        NA_FN(free)(blocks[i]);
    numalloc_trim(0);
    cr_assert_eq(stats_of(0).strays, 0);
    cr_assert_eq(stats_of(1).guests, 0);
    cr_assert_eq(stats_of(1).in_spans, 0);
}

Test(numa, all_nodes_full_is_no_reason_to_fail) {
    go_to_node(0);
    NA_FN(free)(NA_FN(malloc)(1));
    node_tree_put_free(&tree, 0, 16384, 10);
    node_tree_put_free(&tree, 1, 16384, 10);
    wait_for_a_look();
    for (unsigned i = 0; i < 500; i++) {
        void *block = NA_FN(malloc)(100000);
        cr_assert_not_null(block);
        cr_assert_eq(numalloc_node_of(block), 0, "the kernel's business");
    }
}

/* What other nodes keep free goes back to the system before this one takes more than the process
 * lately needed. Node 1 works in waves first, so that it may keep its free memory. */
Test(growth, other_nodes_free_memory_is_given_back_first, .fini = remove_tree) {
    setenv("NUMALLOC_PURGE_DELAY", "3600s", 1);
    two_nodes();
    go_to_node(0);
    enum { BLOCKS = 1000 };
    static void *blocks[BLOCKS];
    for (unsigned wave = 0; wave < 12; wave++) {
        for (unsigned i = 0; i < BLOCKS; i++)
            blocks[i] = numalloc_alloc_onnode(100000, 1);
        for (unsigned i = 0; i < BLOCKS; i++)
            NA_FN(free)(blocks[i]);
    }
    uint64_t dirty = stats_of(1).dirty;
    cr_assert_geq(dirty, 90 * MIB, "%lu kept", (unsigned long)dirty);
    for (unsigned i = 0; i < 100; i++)
        cr_assert_not_null(NA_FN(malloc)(100000));
    cr_assert_eq(stats_of(1).dirty, dirty, "within what was needed lately");
    usleep((NA_PURGE_PEAK_MS + 100) * 1000);
    for (unsigned i = 0; i < 600; i++)
        cr_assert_not_null(NA_FN(malloc)(100000));
    uint64_t used = stats_of(0).in_spans, held = used + stats_of(0).dirty + stats_of(1).dirty;
    cr_assert_lt(stats_of(1).dirty, dirty);
    cr_assert_leq(held, used * 9 / 8 + (16 + 16 + 2) * MIB, "an eighth, the slack, a look");
}
