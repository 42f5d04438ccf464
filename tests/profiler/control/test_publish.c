/* test_publish.c - the page of figures on a machine with more nodes than its first 4 KiB have room
 * for. */
#include <criterion/criterion.h>
#include <fcntl.h>
#include <stdlib.h>
#include <sys/stat.h>

#include "alloc/core/machine/topology.h"
#include "alloc/core/sys/options.h"
#include "profiler/control/publish.h"
#include "profiler/format/status.h"
#include "support/node_tree.h"

/* `count` nodes, and the size of the page that is made there. */
static off_t publish(unsigned count, na_status_page_t *page) {
    node_tree_t tree;
    char list[16], path[128], distances[NA_MAX_NODES * 3 + 1] = "";
    free(malloc(1)); /* the library has begun, on this machine */
    node_tree_make(&tree);
    snprintf(list, sizeof list, "0-%u\n", count - 1);
    node_tree_put_lists(&tree, list, list);
    for (unsigned node = 0; node < count; node++)
        strcat(distances, "10 ");
    for (unsigned node = 0; node < count; node++) {
        char cpus[16];
        snprintf(cpus, sizeof cpus, "%u\n", node);
        node_tree_put_node(&tree, node, cpus, distances);
    }
    na_topology_init(tree.sys, tree.proc);
    cr_assert_eq(na_node_count, count);
    na_option_values.texts[NA_OPT_PUBLISH] = tree.root;
    na_publish_at_load();
    na_publish(UINT64_MAX - 1);
    snprintf(path, sizeof path, "%s/" NA_STATUS_PREFIX "%d" NA_STATUS_SUFFIX, tree.root,
             (int)getpid());
    int fd = open(path, O_RDONLY);
    struct stat st;
    cr_assert(fd >= 0 && fstat(fd, &st) == 0, "%s", path);
    memset(page, 0, sizeof *page);
    cr_assert_eq(read(fd, page, sizeof *page),
                 st.st_size < (off_t)sizeof *page ? st.st_size : (off_t)sizeof *page);
    close(fd);
    na_publish_at_exit();
    cr_assert_neq(access(path, F_OK), 0);
    node_tree_remove(&tree);
    cr_assert_eq(strcmp(page->magic, NA_STATUS_MAGIC), 0);
    for (unsigned node = 0; node < count; node++)
        cr_assert_eq(page->node[node].id, node, "place %u", node);
    return st.st_size;
}

Test(publish, few_nodes) {
    na_status_page_t page;
    cr_assert_eq(publish(NA_STATUS_NODES_FEW - 1, &page), NA_STATUS_SIZE);
    cr_assert_geq(page.nodes, NA_STATUS_NODES_FEW - 1);
}

Test(publish, as_many_nodes_as_there_can_be) {
    na_status_page_t page;
    cr_assert_eq(publish(NA_MAX_NODES, &page), NA_STATUS_MOST);
    cr_assert_geq(page.nodes, NA_MAX_NODES);
    cr_assert_leq(page.nodes, NA_STATUS_NODES);
}
