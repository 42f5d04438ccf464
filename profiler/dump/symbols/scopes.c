/* scopes.c - an index of the functions of each compilation unit. See scopes.h. */
#include "profiler/dump/symbols/scopes.h"

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

typedef struct lambda {
    void *member; /* Dwarf_Die.addr: one for each DIE */
    Dwarf_Die type;
} lambda_t;

typedef struct unit {
    void *addr; /* of its DIE; the key */
    range_t *ranges;
    size_t range_count, range_room;
    lambda_t *lambdas;
    size_t lambda_count, lambda_room;
    uint32_t visited;
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
    free(unit->lambdas);
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

static void walk(unit_t *unit, Dwarf_Die *parent, uint32_t depth) {
    Dwarf_Die die;
    if (depth > DEEPEST || dwarf_child(parent, &die) != 0) return;
    int parent_tag = dwarf_tag(parent);
    do {
        if (unit->visited++ >= MOST) return;
        int tag = dwarf_tag(&die);
        if (tag == DW_TAG_subprogram) {
            add_ranges(unit, &die);
            const char *name = dwarf_diename(&die);
            if ((parent_tag == DW_TAG_class_type || parent_tag == DW_TAG_structure_type) &&
                name != NULL && strcmp(name, "operator()") == 0 &&
                NA_ARRAY_RESERVE(unit->lambdas, unit->lambda_room, unit->lambda_count + 1u))
                unit->lambdas[unit->lambda_count++] = (lambda_t){die.addr, *parent};
        }
        /* Functions and types may be inside functions; an inlined call only has what its origin
         * has. */
        if (tag != DW_TAG_inlined_subroutine) walk(unit, &die, depth + 1);
    } while (dwarf_siblingof(&die, &die) == 0);
}

static int scopes_by_low(const void *a, const void *b) {
    const range_t *x = a, *y = b;
    return (x->low > y->low) - (x->low < y->low);
}

static int by_member(const void *a, const void *b) {
    uintptr_t x = (uintptr_t)((const lambda_t *)a)->member;
    uintptr_t y = (uintptr_t)((const lambda_t *)b)->member;
    return (x > y) - (x < y);
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
    walk(unit, cu, 0);
    if (unit->range_count != 0)
        qsort(unit->ranges, unit->range_count, sizeof *unit->ranges, scopes_by_low);
    if (unit->lambda_count != 0)
        qsort(unit->lambdas, unit->lambda_count, sizeof *unit->lambdas, by_member);
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

bool na_scopes_lambda(na_scopes_t *scopes, Dwarf_Die *cu, const Dwarf_Die *member,
                      Dwarf_Die *type) {
    const unit_t *unit = get_unit(scopes, cu);
    if (unit == NULL || unit->lambda_count == 0) return false;
    lambda_t key = {.member = member->addr};
    const lambda_t *found =
        bsearch(&key, unit->lambdas, unit->lambda_count, sizeof *unit->lambdas, by_member);
    if (found == NULL) return false;
    *type = found->type;
    return true;
}
