/* node_tree.h - the files that a kernel shows about its nodes, made for a test in a new directory.
 *
 * For unit tests (Criterion): node_tree_make, node_tree_put..., then na_topology_init(tree.sys,
 * tree.proc); node_tree_remove at the end. */
#ifndef NUMALLOC_TESTS_SUPPORT_NODE_TREE_H
#define NUMALLOC_TESTS_SUPPORT_NODE_TREE_H

#include <criterion/criterion.h>
#include <errno.h>
#include <ftw.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

typedef struct node_tree {
    char root[64];
    char sys[80];
    char proc[80];
} node_tree_t;

static inline void node_tree_make(node_tree_t *tree) {
    strcpy(tree->root, "/tmp/numalloc_nodes.XXXXXX");
    cr_assert_not_null(mkdtemp(tree->root));
    snprintf(tree->sys, sizeof tree->sys, "%s/sys", tree->root);
    snprintf(tree->proc, sizeof tree->proc, "%s/proc", tree->root);
}

static inline int node_tree_remove_entry(const char *path, const struct stat *s, int kind,
                                         struct FTW *ftw) {
    (void)s;
    (void)kind;
    (void)ftw;
    return remove(path);
}

static inline void node_tree_remove(const node_tree_t *tree) {
    nftw(tree->root, node_tree_remove_entry, 16, FTW_DEPTH | FTW_PHYS);
}

/* Writes root/path, and the directories above it. */
static inline void node_tree_put(const node_tree_t *tree, const char *path, const char *content) {
    char full[256];
    snprintf(full, sizeof full, "%s/%s", tree->root, path);
    for (char *c = full + strlen(tree->root) + 1; *c != 0; c++)
        if (*c == '/') {
            *c = 0;
            cr_assert(mkdir(full, 0700) == 0 || errno == EEXIST, "mkdir %s", full);
            *c = '/';
        }
    FILE *f = fopen(full, "w");
    cr_assert_not_null(f, "%s", full);
    fputs(content, f);
    cr_assert_eq(fclose(f), 0);
}

static inline void node_tree_put_node(const node_tree_t *tree, unsigned id, const char *cpus,
                                      const char *distances) {
    char path[128];
    snprintf(path, sizeof path, "sys/devices/system/node/node%u/cpulist", id);
    node_tree_put(tree, path, cpus);
    snprintf(path, sizeof path, "sys/devices/system/node/node%u/distance", id);
    node_tree_put(tree, path, distances);
}

/* `memory` NULL: as on kernels without has_memory. */
static inline void node_tree_put_lists(const node_tree_t *tree, const char *online,
                                       const char *memory) {
    node_tree_put(tree, "sys/devices/system/node/online", online);
    if (memory != NULL) node_tree_put(tree, "sys/devices/system/node/has_memory", memory);
}

static inline void node_tree_put_allowed(const node_tree_t *tree, const char *list) {
    char status[256];
    snprintf(status, sizeof status,
             "Name:\tx\nCpus_allowed_list:\t0-1\nMems_allowed:\t00000000,0000ffff\n"
             "Mems_allowed_list:\t%s\nvoluntary_ctxt_switches:\t1\n",
             list);
    node_tree_put(tree, "proc/self/status", status);
}

static inline void node_tree_put_free(const node_tree_t *tree, unsigned id, unsigned long total_mib,
                                      unsigned long free_mib) {
    char path[128], text[256];
    snprintf(path, sizeof path, "sys/devices/system/node/node%u/meminfo", id);
    snprintf(text, sizeof text,
             "Node %u MemTotal:       %lu kB\nNode %u MemFree:        %lu kB\n"
             "Node %u MemUsed:        %lu kB\n",
             id, total_mib << 10, id, free_mib << 10, id, (total_mib - free_mib) << 10);
    node_tree_put(tree, path, text);
}

/* A machine of two nodes, each with half of its 16 GiB free, and all of it allowed. */
static inline void node_tree_make_two(node_tree_t *tree, const char *cpus0, const char *cpus1) {
    node_tree_make(tree);
    node_tree_put_lists(tree, "0-1\n", "0-1\n");
    node_tree_put_node(tree, 0, cpus0, "10 20\n");
    node_tree_put_node(tree, 1, cpus1, "20 10\n");
    node_tree_put_free(tree, 0, 16384, 8192);
    node_tree_put_free(tree, 1, 16384, 8192);
    node_tree_put_allowed(tree, "0-1");
}

#endif
