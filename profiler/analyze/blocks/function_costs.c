/* function_costs.c - sites to functions, by one walk over the tree of stacks. */
#include "profiler/analyze/blocks/function_costs.h"

#include <stdlib.h>

/* Everything under the root, as child lists; only entries on the way to a site are linked. */
typedef struct tree {
    na_cost_t *sum;   /* of the entry and all below it */
    uint32_t *child;  /* first child, 0: none */
    uint32_t *next;   /* next child of the same parent, 0: none */
    uint32_t *active; /* by function: how often it is on the current path */
} tree_t;

static void enter_functions(tree_t *tree, uint32_t node, na_frames_fn_t frames, void *arg,
                            na_function_t *functions) {
    const uint32_t *ids;
    uint32_t count = frames(arg, node, &ids);
    for (uint32_t i = 0; i < count; i++) {
        if (tree->active[ids[i]]++ == 0) na_cost_add(&functions[ids[i]].below, &tree->sum[node]);
    }
}

static void leave_functions(tree_t *tree, uint32_t node, na_frames_fn_t frames, void *arg) {
    const uint32_t *ids;
    uint32_t count = frames(arg, node, &ids);
    for (uint32_t i = 0; i < count; i++)
        tree->active[ids[i]]--;
}

bool na_functions_fold(na_stack_table_t stacks, const na_sites_t *sites, na_frames_fn_t frames,
                       void *arg, na_function_t *functions, uint32_t function_count) {
    if (stacks.count <= NA_NPROF_ROOT) return true;
    tree_t tree = {
        .sum = calloc(stacks.count, sizeof *tree.sum),
        .child = calloc(stacks.count, sizeof *tree.child),
        .next = calloc(stacks.count, sizeof *tree.next),
        .active = calloc((size_t)function_count + 1, sizeof *tree.active),
    };
    /* wanted: the entry is a site or above one. */
    bool *wanted = calloc(stacks.count, sizeof *wanted);
    bool good = tree.sum != NULL && tree.child != NULL && tree.next != NULL &&
                tree.active != NULL && wanted != NULL;
    if (good) {
        for (size_t s = 0; s < sites->count; s++) {
            const na_site_t *site = &sites->items[s];
            if (site->site == NA_NPROF_NO_STACK || site->site >= stacks.count) continue;
            na_cost_t cost = {site->sum.peak_bytes, site->sum.live_bytes,
                              (int64_t)site->sum.alloc_bytes, (int64_t)site->sum.alloc_count};
            tree.sum[site->site] = cost;
            wanted[site->site] = true;
            const uint32_t *ids;
            if (site->site != NA_NPROF_ROOT && frames(arg, site->site, &ids) > 0)
                na_cost_add(&functions[ids[0]].self, &cost);
        }
        /* Parents have smaller ids: one pass downwards sums subtrees and links children. */
        for (uint32_t node = stacks.count - 1; node > NA_NPROF_ROOT; node--) {
            if (!wanted[node]) continue;
            uint32_t parent = stacks.items[node].parent;
            wanted[parent] = true;
            na_cost_add(&tree.sum[parent], &tree.sum[node]);
            tree.next[node] = tree.child[parent];
            tree.child[parent] = node;
        }
        /* Depth first without a stack of our own: `parent` and `next` lead the way back. */
        uint32_t node = tree.child[NA_NPROF_ROOT];
        while (node != 0) {
            enter_functions(&tree, node, frames, arg, functions);
            if (tree.child[node] != 0) {
                node = tree.child[node];
                continue;
            }
            for (;;) {
                leave_functions(&tree, node, frames, arg);
                if (tree.next[node] != 0) {
                    node = tree.next[node];
                    break;
                }
                node = stacks.items[node].parent;
                if (node == NA_NPROF_ROOT) {
                    node = 0;
                    break;
                }
            }
        }
    }
    free(wanted);
    free(tree.sum);
    free(tree.child);
    free(tree.next);
    free(tree.active);
    return good;
}
