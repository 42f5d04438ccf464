/* test_cgroup.c - the room that control groups leave, from trees made for the purpose. */
#include <criterion/criterion.h>
#include <stdint.h>

#include "alloc/core/sys/os.h"
#include "alloc/limits/cgroup.h"
#include "support/node_tree.h"

#define MIB ((uint64_t)1 << 20)

static node_tree_t tree;
static na_cgroup_room_t got;

static void make_root(void) {
    node_tree_make(&tree);
    na_os_init();
}

static void remove_root(void) {
    node_tree_remove(&tree);
}

TestSuite(cgroup, .init = make_root, .fini = remove_root);

static bool look(void) {
    return na_cgroup_room(tree.proc, tree.sys, &got);
}

static void expect(uint64_t limit, uint64_t room) {
    cr_assert(look());
    cr_expect_eq(got.limit, limit, "limit %lu", (unsigned long)got.limit);
    cr_expect_eq(got.room, room, "room %lu", (unsigned long)got.room);
}

Test(cgroup, none) {
    cr_expect_not(look());
    node_tree_put(&tree, "proc/self/cgroup", "0::/a\n");
    cr_expect_not(look());
    node_tree_put(&tree, "sys/fs/cgroup/a/memory.max", "max\n");
    node_tree_put(&tree, "sys/fs/cgroup/a/memory.current", "4096\n");
    cr_expect_not(look());
}

Test(cgroup, ancestor_with_least_room) {
    node_tree_put(&tree, "proc/self/cgroup", "0::/a/b\n");
    node_tree_put(&tree, "sys/fs/cgroup/a/b/memory.max", "104857600\n");
    node_tree_put(&tree, "sys/fs/cgroup/a/b/memory.current", "10485760\n");
    expect(100 * MIB, 90 * MIB);
    node_tree_put(&tree, "sys/fs/cgroup/a/memory.max", "209715200\n");
    node_tree_put(&tree, "sys/fs/cgroup/a/memory.current", "146800640\n");
    expect(200 * MIB, 60 * MIB);
    node_tree_put(&tree, "sys/fs/cgroup/a/b/memory.high", "52428800\n");
    expect(50 * MIB, 40 * MIB);
}

Test(cgroup, caches_are_room) {
    node_tree_put(&tree, "proc/self/cgroup", "0::/a\n");
    node_tree_put(&tree, "sys/fs/cgroup/a/memory.max", "104857600\n");
    node_tree_put(&tree, "sys/fs/cgroup/a/memory.current", "104857600\n");
    expect(100 * MIB, 0);
    node_tree_put(&tree, "sys/fs/cgroup/a/memory.stat",
                  "anon 1\nfile 9\ninactive_file 10485760\nactive_file 20971520\n"
                  "slab_reclaimable 5242880\nslab_unreclaimable 9\n");
    expect(100 * MIB, 35 * MIB);
}

/* Inside a container the group's name is that of outside, where nobody can look. */
Test(cgroup, version_1_seen_from_inside) {
    node_tree_put(&tree, "proc/self/cgroup", "9:cpu,cpuacct:/x\n5:memory:/docker/1\n0::/y\n");
    node_tree_put(&tree, "sys/fs/cgroup/memory/memory.limit_in_bytes", "9223372036854771712\n");
    node_tree_put(&tree, "sys/fs/cgroup/memory/memory.usage_in_bytes", "104857600\n");
    cr_expect_not(look());
    node_tree_put(&tree, "sys/fs/cgroup/memory/memory.limit_in_bytes", "104857600\n");
    node_tree_put(&tree, "sys/fs/cgroup/memory/memory.stat",
                  "inactive_file 1\ntotal_inactive_file 1048576\ntotal_active_file 0\n");
    expect(100 * MIB, MIB);
    node_tree_put(&tree, "sys/fs/cgroup/memory/memory.kmem.usage_in_bytes", "2097152\n");
    expect(100 * MIB, 3 * MIB);
}

static void expect_last(uint64_t uncharged, uint64_t easy) {
    cr_assert(look());
    cr_expect_eq(got.uncharged, uncharged, "uncharged %lu", (unsigned long)got.uncharged);
    cr_expect_eq(got.easy, easy, "easy %lu", (unsigned long)got.easy);
}

Test(cgroup, what_the_limit_that_kills_leaves) {
    node_tree_put(&tree, "proc/self/cgroup", "0::/a\n");
    node_tree_put(&tree, "sys/fs/cgroup/a/memory.high", "83886080\n");
    node_tree_put(&tree, "sys/fs/cgroup/a/memory.max", "max\n");
    node_tree_put(&tree, "sys/fs/cgroup/a/memory.current", "94371840\n");
    expect(80 * MIB, 0);
    expect_last(UINT64_MAX, UINT64_MAX);
    node_tree_put(&tree, "sys/fs/cgroup/a/memory.max", "104857600\n");
    expect(80 * MIB, 0);
    expect_last(10 * MIB, 10 * MIB);
    /* Cached files are easy to give up if nobody has them mapped. */
    node_tree_put(&tree, "sys/fs/cgroup/a/memory.stat",
                  "anon 1048576\nfile_mapped 3145728\ninactive_file 4194304\n"
                  "active_file 1048576\nslab_reclaimable 1048576\n");
    expect_last(10 * MIB, 12 * MIB);
}

Test(cgroup, version_1_may_wait_instead_of_killing) {
    node_tree_put(&tree, "proc/self/cgroup", "3:memory:/a\n");
    node_tree_put(&tree, "sys/fs/cgroup/memory/a/memory.limit_in_bytes", "104857600\n");
    node_tree_put(&tree, "sys/fs/cgroup/memory/a/memory.usage_in_bytes", "99614720\n");
    node_tree_put(&tree, "sys/fs/cgroup/memory/a/memory.stat",
                  "total_mapped_file 1048576\ntotal_inactive_file 0\ntotal_active_file 2097152\n");
    expect_last(5 * MIB, 6 * MIB);
    node_tree_put(&tree, "sys/fs/cgroup/memory/a/memory.oom_control",
                  "oom_kill_disable 0\nunder_oom 0\noom_kill 0\n");
    expect_last(5 * MIB, 6 * MIB);
    node_tree_put(&tree, "sys/fs/cgroup/memory/a/memory.oom_control",
                  "oom_kill_disable 1\nunder_oom 0\noom_kill 0\n");
    expect_last(UINT64_MAX, UINT64_MAX);
}
