/* policy_tree.c - see policy_tree.h. */
#include "profiler/policy/bind/policy_tree.h"

#include <string.h>

#include "alloc/core/sys/os.h"
#include "profiler/policy/bind/bound.h"

enum {
    FIRST_ROOM = 32,
    SEVERAL = NA_POLICY_ROOTS - 1, /* the place of roots that share low bits, or found no place */
};

/* Nodes are numbered from 1, nodes[0] is none's; the table has four places for each node that there
 * is room for. (All that is written is behind what is published: a thread may be forked away in the
 * middle of grow_tree.) */
static uint32_t count, root_places; /* besides those that are none's */
static size_t mapped_for_trees;

static na_policy_live_t *rule_tree(void) {
    return (na_policy_live_t *)(uintptr_t)atomic_load_explicit(&na_policy_live,
                                                               memory_order_relaxed);
}

static na_policy_node_t *nodes_of(const na_policy_live_t *live) {
    return (na_policy_node_t *)(uintptr_t)live->nodes;
}

static na_policy_key_t *table_of(const na_policy_live_t *live) {
    return (na_policy_key_t *)(uintptr_t)live->table;
}

static uint32_t room_of_tree(const na_policy_live_t *live) {
    return live != NULL ? (live->mask + 1) / 4 : 0;
}

/* While it is bound: what each node is to give, and whether a rule begins with it. */
typedef struct wanted {
    na_policy_site_t *site;
    bool root;
} wanted_t;
static wanted_t *wanted_tree;

static void *map_tree(size_t bytes) {
    return na_os_map(na_align_up(bytes, na_os_page));
}

static void unmap_tree(void *at, size_t bytes) {
    if (at != NULL) na_os_unmap(at, na_align_up(bytes, na_os_page));
}

size_t na_policy_tree_bytes(void) {
    return mapped_for_trees;
}

/* --- growing --- */

static void put_key(na_policy_key_t *to, uint32_t mask, uintptr_t pc, uint32_t parent,
                    uint32_t node) {
    uint32_t at = na_policy_hash(pc, parent) & mask;
    while (atomic_load_explicit(&to[at].node, memory_order_relaxed) != 0)
        at = (at + 1) & mask;
    to[at].pc = pc;
    to[at].parent = parent;
    atomic_store_explicit(&to[at].node, node, memory_order_release);
}

static void copy_nodes(na_policy_node_t *to, const na_policy_live_t *from) {
    for (uint32_t i = 1; i <= count; i++) {
        const na_policy_node_t *n = &from->nodes[i];
        to[i].first_pc = n->first_pc;
        to[i].first = n->first != NULL ? &to[n->first - from->nodes] : NULL;
        to[i].cfa = n->cfa;
        to[i].bp_at = n->bp_at;
        to[i].cfa_by_bp = n->cfa_by_bp;
        to[i].children = atomic_load_explicit(&n->children, memory_order_relaxed);
        to[i].site = atomic_load_explicit(&n->site, memory_order_relaxed);
    }
}

static void copy_roots(na_policy_live_t *to, const na_policy_live_t *from) {
    for (unsigned i = 1; i <= root_places; i++) {
        to->roots[i].pc = from->roots[i].pc;
        to->roots[i].site = atomic_load_explicit(&from->roots[i].site, memory_order_relaxed);
        to->root_nodes[i] = &to->nodes[from->root_nodes[i] - from->nodes];
    }
}

/* Into twice the room. Threads that still look at the one before find in it what they would have
 * found a moment ago. */
static bool grow_tree(void) {
    const na_policy_live_t *from = rule_tree();
    uint32_t room = from == NULL ? FIRST_ROOM : 2 * room_of_tree(from), mask = 4 * room - 1;
    size_t nodes_at = na_align_up(sizeof *from, NA_CACHE_LINE);
    size_t table_at = nodes_at + room * sizeof(na_policy_node_t);
    size_t bytes = table_at + ((size_t)mask + 1) * sizeof(na_policy_key_t);
    char *at = map_tree(bytes);
    if (at == NULL) return false;
    na_policy_live_t *to = (na_policy_live_t *)at;
    to->nodes = (na_policy_node_t *)(at + nodes_at);
    to->table = (na_policy_key_t *)(at + table_at);
    to->mask = mask;
    if (from != NULL) {
        copy_nodes(nodes_of(to), from);
        copy_roots(to, from);
        for (uint32_t i = 0; i <= from->mask; i++) {
            const na_policy_key_t *key = &from->table[i];
            uint32_t node = atomic_load_explicit(&key->node, memory_order_relaxed);
            if (node != 0) put_key(table_of(to), mask, key->pc, key->parent, node);
        }
    }
    mapped_for_trees += na_align_up(bytes, na_os_page);
    atomic_store_explicit(&na_policy_live, to, memory_order_release);
    return true;
}

/* --- binding --- */

bool na_policy_tree_begin(void) {
    wanted_tree = map_tree(NA_POLICY_NODES_EVER * sizeof *wanted_tree);
    return wanted_tree != NULL && (rule_tree() != NULL || grow_tree());
}

void na_policy_tree_end(void) {
    unmap_tree(wanted_tree, NA_POLICY_NODES_EVER * sizeof *wanted_tree);
    wanted_tree = NULL;
}

static void join(uint32_t parent, uint32_t node, uintptr_t pc) {
    na_policy_node_t *all = nodes_of(rule_tree()), *above = &all[parent];
    unsigned children = atomic_load_explicit(&above->children, memory_order_relaxed);
    if (parent == 0 || children == 2 || (children == 1 && above->first_pc == pc)) return;
    if (children == 0) {
        above->first_pc = pc;
        above->first = &all[node];
    }
    atomic_store_explicit(&above->children, (uint8_t)(children + 1), memory_order_release);
}

uint32_t na_policy_tree_node(uintptr_t pc, uint32_t parent) {
    uint32_t node = na_policy_find(rule_tree(), pc, parent);
    if (node == 0) {
        if (count + 1 >= NA_POLICY_NODES_EVER ||
            (count + 1 >= room_of_tree(rule_tree()) && !grow_tree())) {
            na_bound.full = true;
            return 0;
        }
        node = ++count; /* before its key: it is nobody else's then */
        put_key(table_of(rule_tree()), rule_tree()->mask, pc, parent, node);
    }
    join(parent, node, pc);
    return node;
}

void na_policy_tree_step(uint32_t node, const na_policy_node_t *step) {
    na_policy_node_t *n = &nodes_of(rule_tree())[node];
    if (atomic_load_explicit(&n->children, memory_order_relaxed) != 0) return; /* it has them */
    n->cfa = step->cfa;
    n->cfa_by_bp = step->cfa_by_bp;
    n->bp_at = step->bp_at;
}

void na_policy_tree_rule(uint32_t node, uint32_t root, na_policy_site_t *site) {
    wanted_tree[node].site = site;
    wanted_tree[root].root = true;
}

/* --- publishing --- */

/* The place of the root, for ever; SEVERAL if all are taken. */
static unsigned place_for(uint32_t node, uintptr_t pc) {
    na_policy_live_t *live = rule_tree();
    for (unsigned i = 1; i <= root_places; i++)
        if (live->root_nodes[i] == &live->nodes[node]) return i;
    if (root_places + 1 >= SEVERAL) return SEVERAL;
    live->root_nodes[root_places + 1] = &live->nodes[node];
    live->roots[root_places + 1].pc = pc;
    return ++root_places;
}

static void fill_root_filter(uint8_t *bytes) {
    na_policy_live_t *live = rule_tree();
    for (uint32_t i = 0; i <= live->mask; i++) {
        const na_policy_key_t *key = &live->table[i];
        uint32_t node = atomic_load_explicit(&key->node, memory_order_relaxed);
        if (node == 0 || key->parent != 0 || !wanted_tree[node].root) continue;
        uint8_t *byte = &bytes[key->pc & (NA_POLICY_FILTER - 1)];
        *byte = *byte != 0 ? SEVERAL : (uint8_t)place_for(node, key->pc);
    }
    for (unsigned i = 1; i <= root_places; i++) {
        const na_policy_node_t *n = live->root_nodes[i];
        bool decides = atomic_load_explicit(&n->children, memory_order_relaxed) == 0;
        atomic_store_explicit(&live->roots[i].site,
                              decides ? atomic_load_explicit(&n->site, memory_order_relaxed) : NULL,
                              memory_order_release);
    }
}

bool na_policy_tree_publish(void) {
    uint8_t *bytes = map_tree(NA_POLICY_FILTER);
    if (bytes == NULL) return false;
    na_policy_node_t *nodes = nodes_of(rule_tree());
    for (uint32_t i = 1; i <= count; i++)
        atomic_store_explicit(&nodes[i].site, wanted_tree[i].site, memory_order_release);
    fill_root_filter(bytes);
    for (size_t i = 0; i < NA_POLICY_FILTER; i++)
        if (na_policy_filter[i] != bytes[i])
            __atomic_store_n(&na_policy_filter[i], bytes[i], __ATOMIC_RELEASE);
    unmap_tree(bytes, NA_POLICY_FILTER);
    return true;
}
