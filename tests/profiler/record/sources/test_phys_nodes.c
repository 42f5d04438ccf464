/* test_phys_nodes.c - which node a physical address is on: from made directories, and on this
 * machine, where pagemap and move_pages say what is so. */
#include <criterion/criterion.h>
#include <fcntl.h>
#include <sched.h>
#include <stdio.h>
#include <sys/mman.h>
#include <unistd.h>

#include "alloc/core/machine/topology.h"
#include "profiler/record/sources/phys_nodes.h"
#include "tests/support/node_tree.h"
#include "tests/support/own_memory.h"

TestSuite(phys_nodes, .timeout = 300);

static void put_block(const node_tree_t *tree, unsigned node, unsigned block) {
    char path[96];
    snprintf(path, sizeof path, "sys/devices/system/node/node%u/memory%u/state", node, block);
    node_tree_put(tree, path, "online\n");
}

Test(phys_nodes, blocks_of_nodes) {
    node_tree_t tree;
    node_tree_make(&tree);
    node_tree_put(&tree, "sys/devices/system/node/online", "0,2\n");
    node_tree_put(&tree, "sys/devices/system/node/has_memory", "0,2\n");
    node_tree_put_node(&tree, 0, "0\n", "10 20\n");
    node_tree_put_node(&tree, 2, "1\n", "20 10\n");
    node_tree_put(&tree, "sys/devices/system/node/node0/memory_failure/total", "0\n");
    node_tree_put(&tree, "sys/devices/system/node/node0/memory1x/state", "\n");
    na_topology_init(tree.sys, tree.proc);
    cr_assert_eq(na_node_count, 2);
    cr_assert_not(na_phys_nodes_start());                                            /* no size */
    node_tree_put(&tree, "sys/devices/system/memory/block_size_bytes", "8000000\n"); /* 128 MiB */
    for (unsigned i = 0; i < 4; i++)
        put_block(&tree, i < 2 ? 0 : 2, i);
    put_block(&tree, 2, 4000000); /* no processor has so much */
    cr_assert(na_phys_nodes_start());
    const uint64_t block = UINT64_C(1) << 27;
    cr_expect_eq(na_phys_node(0), 0);
    cr_expect_eq(na_phys_node(2 * block - 1), 0);
    cr_expect_eq(na_phys_node(2 * block), 1); /* dense */
    cr_expect_eq(na_phys_node(4 * block - 1), 1);
    cr_expect_eq(na_phys_node(4 * block), NA_NPROF_NO_NODE);
    cr_expect_eq(na_phys_node(4000000 * block), NA_NPROF_NO_NODE);
    cr_expect_eq(na_phys_node(UINT64_MAX), NA_NPROF_NO_NODE);
    node_tree_put(&tree, "sys/devices/system/memory/block_size_bytes", "8000001\n");
    cr_expect_not(na_phys_nodes_start());
    node_tree_put(&tree, "sys/devices/system/memory/block_size_bytes", "what\n");
    cr_expect_not(na_phys_nodes_start());
    node_tree_remove(&tree);
}

/* Of pages of this process, touched on every CPU in turn, if root says where they are. */
Test(phys_nodes, this_machine) {
    enum { PAGES = 64 };
    na_os_init();
    na_topology_init(NULL, NULL);
    if (!na_phys_nodes_start()) return; /* its kernel has no such directories */
    int pagemap = open("/proc/self/pagemap", O_RDONLY);
    unsigned char *pages =
        mmap(NULL, PAGES * na_os_page, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    cr_assert_neq(pages, MAP_FAILED);
    uint32_t told = 0;
    for (uint32_t i = 0; i < PAGES && pagemap >= 0; i++) {
        void *page = pages + i * na_os_page;
        uint64_t entry = 0;
        int status = -1;
        cpu_set_t cpu;
        CPU_ZERO(&cpu);
        CPU_SET(i % (uint32_t)sysconf(_SC_NPROCESSORS_ONLN), &cpu);
        (void)sched_setaffinity(0, sizeof cpu, &cpu);
        *(volatile unsigned char *)page = 1;
        off_t at = (off_t)((uintptr_t)page / na_os_page * 8);
        cr_assert_eq(pread(pagemap, &entry, sizeof entry, at), sizeof entry);
        uint64_t frame = entry & ((UINT64_C(1) << 55) - 1);
        if (frame == 0 || na_os_page_nodes(&page, 1, &status) < 0 || status < 0) continue;
        told++;
        cr_assert_eq(na_phys_node(frame * na_os_page), na_node_dense((unsigned)status));
    }
    printf("%u of %d pages, %u nodes\n", told, PAGES, na_node_count);
    if (geteuid() == 0) cr_assert_gt(told + (pagemap < 0), 0);
}
