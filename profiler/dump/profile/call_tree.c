/* call_tree.c - merges stacks into a tree. See call_tree.h. */
#include "profiler/dump/profile/call_tree.h"

#include <stdlib.h>
#include <string.h>

#include "profiler/containers/array.h"
#include "profiler/dump/ui/progress.h"
#include "profiler/dump/ui/table.h"

#define GROUPS (UINT64_C(1) << 32) /* keys of groups are above those of functions */

static uint32_t node_group(const na_view_input_t *in, const na_tree_t *tree,
                           const na_symbol_frame_t *frame) {
    bool has = tree->grouped && frame != NULL && frame->id < in->function_count;
    return has ? in->functions.items[frame->id].group : 0;
}

/* What makes two frames the same node. Frames of one pc and inlining depth have one address. */
static uint64_t frame_key(const na_tree_t *tree, const na_symbol_frame_t *frame, uint32_t group) {
    if (frame == NULL) return UINT64_MAX;
    if (group != 0) return GROUPS + group;
    return tree->by_place ? (uint64_t)(uintptr_t)frame : frame->id;
}

/* The child of `parent` for a frame; UINT32_MAX: out of memory. */
static uint32_t step_to_child(na_tree_t *tree, uint32_t parent, const na_symbol_frame_t *frame,
                              uint32_t group) {
    uint64_t key = frame_key(tree, frame, group);
    uint64_t hash = na_hash_number(na_hash_number(NA_HASH_BEGIN, key), parent);
    na_probe_t probe = na_index_probe(&tree->index, hash);
    while (na_index_next(&tree->index, &probe)) {
        const na_tree_node_t *node = &tree->nodes[probe.number];
        if (node->parent == parent && frame_key(tree, node->frame, node->group) == key)
            return probe.number;
    }
    if (!NA_ARRAY_RESERVE(tree->nodes, tree->room, tree->count + 1u) ||
        !na_index_add(&tree->index, hash, tree->count))
        return UINT32_MAX;
    tree->nodes[tree->count] = (na_tree_node_t){
        .parent = parent, .next = tree->nodes[parent].child, .frame = frame, .group = group};
    tree->nodes[parent].child = tree->count;
    return tree->count++;
}

/* The node of this function on the path that ends at `at`, 0: none. A group is only met again where
 * the path has not left it: what it called in between is no recursion of its functions. */
static uint32_t on_path(const na_tree_t *tree, uint32_t at, const na_symbol_frame_t *frame,
                        uint32_t group) {
    if (group != 0) return tree->nodes[at].group == group ? at : 0;
    for (; at != 0; at = tree->nodes[at].parent) {
        const na_tree_node_t *node = &tree->nodes[at];
        if (node->frame != NULL && node->group == 0 && node->frame->id == frame->id) return at;
    }
    return 0;
}

static bool add_site_stack(const na_view_input_t *in, na_tree_t *tree, na_tree_kind_t kind,
                           const na_stack_t *stack, const na_cost_t *cost) {
    uint32_t begin = 0, count = stack->count;
    if (kind == NA_TREE_CALLERS) {
        while (begin < count && na_view_passes_on(in, stack->items[begin]))
            begin++;
        if (begin == count) begin = 0; /* as na_view_site: the innermost */
    }
    bool started = !in->options->table.filter.given;
    uint32_t at = 0;
    for (uint32_t i = begin; i < count; i++) {
        const na_symbol_frame_t *frame = stack->items[kind == NA_TREE_CALLEES ? count - 1 - i : i];
        if (!started && !na_filter_matches(in->options, frame->function)) continue;
        started = true;
        uint32_t group = node_group(in, tree, frame);
        uint32_t before = tree->by_place ? 0 : on_path(tree, at, frame, group);
        at = before != 0 ? before : step_to_child(tree, at, frame, group);
        if (at == UINT32_MAX) return false;
    }
    if (count == 0 && started) at = step_to_child(tree, 0, NULL, 0);
    if (at == UINT32_MAX) return false;
    if (!started) return true;
    na_cost_add(&tree->nodes[at].self, cost);
    for (;; at = tree->nodes[at].parent) {
        na_cost_add(&tree->nodes[at].below, cost);
        if (at == 0) return true;
    }
}

bool na_tree_build(const na_view_input_t *in, na_tree_kind_t kind, bool grouped, na_tree_t *tree) {
    memset(tree, 0, sizeof *tree);
    tree->by_place = kind == NA_TREE_PLACES;
    tree->grouped = grouped;
    if (!NA_ARRAY_RESERVE(tree->nodes, tree->room, 1u)) return false;
    memset(&tree->nodes[0], 0, sizeof tree->nodes[0]);
    tree->count = 1;
    na_stack_t stack = {0};
    bool good = true;
    for (size_t s = 0; s < in->sites.count && good; s++) {
        na_progress("adding up calls", s, in->sites.count);
        na_cost_t cost = na_view_cost_of(&in->sites.items[s].sum);
        good = na_view_stack(in, in->sites.items[s].site, &stack) &&
               add_site_stack(in, tree, kind, &stack, &cost);
    }
    free(stack.items);
    return good;
}

void na_tree_free(na_tree_t *tree) {
    free(tree->nodes);
    na_index_free(&tree->index);
    memset(tree, 0, sizeof *tree);
}

/* Merges two lists of siblings, each in order. Ties: the function that came up first. */
static uint32_t merge_siblings(const na_view_input_t *in, na_tree_t *tree, uint32_t a, uint32_t b) {
    uint32_t head = 0, *tail = &head;
    while (a != 0 && b != 0) {
        double x = na_view_cost(in, &tree->nodes[a].below);
        double y = na_view_cost(in, &tree->nodes[b].below);
        uint32_t *first = x > y || (x == y && a < b) ? &a : &b;
        *tail = *first;
        tail = &tree->nodes[*first].next;
        *first = *tail;
    }
    *tail = a != 0 ? a : b;
    return head;
}

static uint32_t sort_list(const na_view_input_t *in, na_tree_t *tree, uint32_t list) {
    /* Merge sort bottom up: bins[i] holds a sorted list of 2^i. */
    uint32_t bins[32] = {0};
    while (list != 0) {
        uint32_t one = list;
        list = tree->nodes[one].next;
        tree->nodes[one].next = 0;
        size_t i = 0;
        for (; i < 31 && bins[i] != 0; i++) {
            one = merge_siblings(in, tree, bins[i], one);
            bins[i] = 0;
        }
        bins[i] = bins[i] == 0 ? one : merge_siblings(in, tree, bins[i], one);
    }
    for (size_t i = 0; i < 32; i++)
        list = merge_siblings(in, tree, bins[i], list);
    return list;
}

void na_tree_sort(const na_view_input_t *in, na_tree_t *tree) {
    for (uint32_t id = 0; id < tree->count; id++)
        tree->nodes[id].child = sort_list(in, tree, tree->nodes[id].child);
}
