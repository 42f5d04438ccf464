/* scopes.c - an index of the functions of each compilation unit. See scopes.h. */
#include "profiler/dump/symbols/dwarf/scopes.h"

#include <dwarf.h>
#include <search.h>
#include <stdlib.h>
#include <string.h>

#include "profiler/containers/array.h"

/* Damaged DWARF may nest without end, or lead back to where it came from. */
#define DEEPEST 128u
#define MOST    (UINT32_C(1) << 26)

typedef struct range {
    Dwarf_Addr low, high;
    Dwarf_Die function;
} range_t;

/* A DIE that others lie in: a type, a namespace, a function. In the order of the unit, [0] is the
 * unit itself. */
typedef struct node {
    uint32_t offset; /* from the unit's DIE */
    uint32_t parent; /* index */
    bool lambda;     /* a type without a name that has operator() */
} node_t;

/* A function that has both code of its own and an origin that inlined calls share. */
typedef struct copy {
    void *origin; /* Dwarf_Die.addr: one for each DIE */
    Dwarf_Addr entry;
} copy_t;

typedef struct unit {
    void *addr; /* of its DIE; the key */
    range_t *ranges;
    size_t range_count, range_room;
    node_t *nodes;
    size_t node_count, node_room;
    copy_t *copies;
    size_t copy_count, copy_room;
    uint32_t visited;
    bool types; /* it describes types: what has no parameters here has none */
} unit_t;

struct na_scopes {
    void *units; /* tree of tsearch(3) */
};

na_scopes_t *na_scopes_open(void) {
    return calloc(1, sizeof(na_scopes_t));
}

static void free_unit(void *arg) {
    unit_t *unit = arg;
    free(unit->ranges);
    free(unit->nodes);
    free(unit->copies);
    free(unit);
}

void na_scopes_close(na_scopes_t *scopes) {
    if (scopes == NULL) return;
    tdestroy(scopes->units, free_unit);
    free(scopes);
}

static void add_ranges(unit_t *unit, Dwarf_Die *function) {
    Dwarf_Addr base, low, high;
    for (ptrdiff_t at = 0; (at = dwarf_ranges(function, at, &base, &low, &high)) > 0;) {
        if (low >= high || unit->visited++ >= MOST) continue;
        if (!NA_ARRAY_RESERVE(unit->ranges, unit->range_room, unit->range_count + 1u)) return;
        unit->ranges[unit->range_count++] = (range_t){low, high, *function};
    }
}

Dwarf_Die na_scopes_root(const Dwarf_Die *die) {
    static const unsigned ways[] = {DW_AT_abstract_origin, DW_AT_specification};
    Dwarf_Die root = *die;
    for (uint32_t steps = 0; steps < 8; steps++) {
        Dwarf_Attribute memory;
        Dwarf_Die next;
        bool found = false;
        for (size_t i = 0; i < 2 && !found; i++)
            found = dwarf_attr(&root, ways[i], &memory) != NULL &&
                    dwarf_formref_die(&memory, &next) != NULL;
        if (!found) break;
        root = next;
    }
    return root;
}

static void add_copy(unit_t *unit, Dwarf_Die *function) {
    Dwarf_Addr entry;
    Dwarf_Attribute memory;
    if (dwarf_attr(function, DW_AT_abstract_origin, &memory) == NULL ||
        dwarf_entrypc(function, &entry) != 0 ||
        !NA_ARRAY_RESERVE(unit->copies, unit->copy_room, unit->copy_count + 1u))
        return;
    unit->copies[unit->copy_count++] = (copy_t){na_scopes_root(function).addr, entry};
}

/* The index of `die` as a parent of others: its own, or `around`. */
static uint32_t add_node(unit_t *unit, Dwarf_Die *die, int tag, uint32_t around) {
    switch (tag) {
    case DW_TAG_base_type:
        unit->types = true;
        return around;
    case DW_TAG_subprogram:
    case DW_TAG_class_type:
    case DW_TAG_structure_type:
    case DW_TAG_union_type:
    case DW_TAG_enumeration_type:
    case DW_TAG_interface_type:
    case DW_TAG_namespace:
    case DW_TAG_module:
        break;
    default:
        return around;
    }
    uint64_t offset = (uint64_t)((const char *)die->addr - (const char *)unit->addr);
    if (offset > UINT32_MAX ||
        !NA_ARRAY_RESERVE(unit->nodes, unit->node_room, unit->node_count + 1u))
        return around;
    unit->nodes[unit->node_count] = (node_t){(uint32_t)offset, around, false};
    return (uint32_t)unit->node_count++;
}

static void walk(unit_t *unit, Dwarf_Die *parent, uint32_t around, uint32_t depth) {
    Dwarf_Die die;
    if (depth > DEEPEST || dwarf_child(parent, &die) != 0) return;
    int parent_tag = dwarf_tag(parent);
    bool unnamed = (parent_tag == DW_TAG_class_type || parent_tag == DW_TAG_structure_type) &&
                   dwarf_diename(parent) == NULL;
    do {
        if (unit->visited++ >= MOST) return;
        int tag = dwarf_tag(&die);
        if (tag == DW_TAG_subprogram) {
            add_ranges(unit, &die);
            add_copy(unit, &die);
            const char *name = unnamed ? dwarf_diename(&die) : NULL;
            if (name != NULL && strncmp(name, "operator()", 10) == 0)
                unit->nodes[around].lambda = true;
        }
        /* Functions and types may be inside functions; an inlined call only has what its origin
         * has. */
        if (tag == DW_TAG_inlined_subroutine) continue;
        walk(unit, &die, add_node(unit, &die, tag, around), depth + 1);
    } while (dwarf_siblingof(&die, &die) == 0);
}

static int scopes_by_low(const void *a, const void *b) {
    const range_t *x = a, *y = b;
    return (x->low > y->low) - (x->low < y->low);
}

static int by_origin(const void *a, const void *b) {
    const copy_t *x = a, *y = b;
    if (x->origin != y->origin) return (uintptr_t)x->origin > (uintptr_t)y->origin ? 1 : -1;
    return (x->entry > y->entry) - (x->entry < y->entry);
}

static int by_addr(const void *a, const void *b) {
    uintptr_t x = (uintptr_t)((const unit_t *)a)->addr, y = (uintptr_t)((const unit_t *)b)->addr;
    return (x > y) - (x < y);
}

static const unit_t *get_unit(na_scopes_t *scopes, Dwarf_Die *cu) {
    unit_t key = {.addr = cu->addr};
    void *found = tfind(&key, &scopes->units, by_addr);
    if (found != NULL) return *(unit_t **)found;
    unit_t *unit = calloc(1, sizeof *unit);
    if (unit == NULL) return NULL;
    unit->addr = cu->addr;
    if (tsearch(unit, &scopes->units, by_addr) == NULL) {
        free(unit);
        return NULL;
    }
    if (!NA_ARRAY_RESERVE(unit->nodes, unit->node_room, 1u)) return unit;
    unit->nodes[unit->node_count++] = (node_t){0, 0, false};
    walk(unit, cu, 0, 0);
    if (unit->range_count != 0)
        qsort(unit->ranges, unit->range_count, sizeof *unit->ranges, scopes_by_low);
    if (unit->copy_count != 0)
        qsort(unit->copies, unit->copy_count, sizeof *unit->copies, by_origin);
    return unit;
}

static bool holds_code(int tag) {
    return tag == DW_TAG_inlined_subroutine || tag == DW_TAG_lexical_block ||
           tag == DW_TAG_try_block || tag == DW_TAG_catch_block || tag == DW_TAG_with_stmt;
}

/* Goes to the child of *die that holds pc. False: there is none. */
static bool go_down(Dwarf_Die *die, Dwarf_Addr pc) {
    Dwarf_Die child;
    if (dwarf_child(die, &child) != 0) return false;
    for (uint32_t i = 0; i < MOST; i++) {
        if (holds_code(dwarf_tag(&child)) && dwarf_haspc(&child, pc) == 1) {
            *die = child;
            return true;
        }
        if (dwarf_siblingof(&child, &child) != 0) return false;
    }
    return false;
}

uint32_t na_scopes_find(na_scopes_t *scopes, Dwarf_Die *cu, Dwarf_Addr pc, Dwarf_Die *dies,
                        uint32_t room) {
    const unit_t *unit = get_unit(scopes, cu);
    if (unit == NULL || room == 0) return 0;
    size_t low = 0, high = unit->range_count;
    while (low < high) {
        size_t middle = low + (high - low) / 2;
        if (unit->ranges[middle].low <= pc)
            low = middle + 1;
        else
            high = middle;
    }
    if (low == 0 || pc >= unit->ranges[low - 1].high) return 0;
    uint32_t count = 0;
    Dwarf_Die die = unit->ranges[low - 1].function;
    dies[count++] = die;
    for (uint32_t depth = 0; depth < DEEPEST && go_down(&die, pc); depth++) {
        if (dwarf_tag(&die) != DW_TAG_inlined_subroutine) continue;
        if (count == room) return 0;
        dies[count++] = die;
    }
    for (uint32_t i = 0; i < count / 2; i++) {
        Dwarf_Die swap = dies[i];
        dies[i] = dies[count - 1 - i];
        dies[count - 1 - i] = swap;
    }
    return count;
}

/* The unit that a DIE lies in, and its node there; NULL: it is none that others lie in. */
static const node_t *find_node(na_scopes_t *scopes, Dwarf_Die *die, const unit_t **unit) {
    Dwarf_Die cu;
    if (dwarf_diecu(die, &cu, NULL, NULL) == NULL || (*unit = get_unit(scopes, &cu)) == NULL)
        return NULL;
    uint64_t offset = (uint64_t)((const char *)die->addr - (const char *)(*unit)->addr);
    size_t low = 0, high = (*unit)->node_count;
    while (low < high) {
        size_t middle = low + (high - low) / 2;
        if ((*unit)->nodes[middle].offset < offset)
            low = middle + 1;
        else
            high = middle;
    }
    const node_t *node = &(*unit)->nodes[low];
    return low < (*unit)->node_count && node->offset == offset ? node : NULL;
}

static Dwarf_Die node_die(const unit_t *unit, const node_t *node, const Dwarf_Die *same_unit) {
    return (Dwarf_Die){.addr = (char *)unit->addr + node->offset, .cu = same_unit->cu};
}

bool na_scopes_parent(na_scopes_t *scopes, Dwarf_Die *die, Dwarf_Die *parent) {
    const unit_t *unit;
    const node_t *node = find_node(scopes, die, &unit);
    if (node == NULL || node->parent == 0) return false;
    *parent = node_die(unit, &unit->nodes[node->parent], die);
    return true;
}

bool na_scopes_is_lambda(na_scopes_t *scopes, Dwarf_Die *type) {
    const unit_t *unit;
    const node_t *node = find_node(scopes, type, &unit);
    return node != NULL && node->lambda;
}

bool na_scopes_next_sibling(na_scopes_t *scopes, Dwarf_Die *type, Dwarf_Die *other) {
    const unit_t *unit;
    const node_t *node = find_node(scopes, type, &unit);
    if (node == NULL) return false;
    const node_t *end = unit->nodes + unit->node_count, *at = unit->nodes + 1;
    if (other->addr != NULL) {
        const node_t *last = find_node(scopes, other, &unit);
        at = last == NULL ? end : last + 1;
    }
    while (at < end && (at->parent != node->parent || at->lambda != node->lambda))
        at++;
    if (at == end) return false;
    *other = node_die(unit, at, type);
    return true;
}

bool na_scopes_typed(na_scopes_t *scopes, Dwarf_Die *die) {
    Dwarf_Die cu;
    const unit_t *unit = dwarf_diecu(die, &cu, NULL, NULL) == NULL ? NULL : get_unit(scopes, &cu);
    return unit != NULL && unit->types;
}

bool na_scopes_copy(na_scopes_t *scopes, Dwarf_Die *cu, const Dwarf_Die *root, Dwarf_Addr *entry) {
    const unit_t *unit = get_unit(scopes, cu);
    if (unit == NULL) return false;
    size_t low = 0, high = unit->copy_count;
    while (low < high) {
        size_t middle = low + (high - low) / 2;
        if ((uintptr_t)unit->copies[middle].origin < (uintptr_t)root->addr)
            low = middle + 1;
        else
            high = middle;
    }
    if (low == unit->copy_count || unit->copies[low].origin != root->addr) return false;
    *entry = unit->copies[low].entry;
    return true;
}
