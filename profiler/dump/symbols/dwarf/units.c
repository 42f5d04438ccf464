/* units.c - the ranges of all compilation units of a module, sorted. See units.h. */
#include "profiler/dump/symbols/dwarf/units.h"

#include <stdlib.h>

#include "profiler/containers/array.h"

/* Damaged DWARF may have ranges without end. */
#define MOST ((size_t)1 << 24)

typedef struct range {
    Dwarf_Addr low, high;
    Dwarf_Die *unit; /* belongs to libdwfl */
} range_t;

struct na_units {
    range_t *ranges;
    size_t count, room;
    Dwarf_Addr bias;
};

static int units_by_low(const void *a, const void *b) {
    const range_t *x = a, *y = b;
    return (x->low > y->low) - (x->low < y->low);
}

na_units_t *na_units_open(Dwfl_Module *module) {
    na_units_t *units = calloc(1, sizeof *units);
    if (units == NULL) return NULL;
    Dwarf_Die *unit = NULL;
    while ((unit = dwfl_module_nextcu(module, unit, &units->bias)) != NULL && units->count < MOST) {
        Dwarf_Addr base, low, high;
        for (ptrdiff_t at = 0; (at = dwarf_ranges(unit, at, &base, &low, &high)) > 0;) {
            if (low >= high || units->count == MOST) continue;
            if (!NA_ARRAY_RESERVE(units->ranges, units->room, units->count + 1u)) {
                na_units_close(units);
                return NULL;
            }
            units->ranges[units->count++] = (range_t){low, high, unit};
        }
    }
    if (units->count != 0) qsort(units->ranges, units->count, sizeof *units->ranges, units_by_low);
    return units;
}

void na_units_close(na_units_t *units) {
    if (units == NULL) return;
    free(units->ranges);
    free(units);
}

Dwarf_Die *na_units_find(const na_units_t *units, Dwarf_Addr address, Dwarf_Addr *bias) {
    Dwarf_Addr pc = address - units->bias;
    size_t low = 0, high = units->count;
    while (low < high) {
        size_t middle = low + (high - low) / 2;
        if (units->ranges[middle].low <= pc)
            low = middle + 1;
        else
            high = middle;
    }
    if (low == 0 || pc >= units->ranges[low - 1].high) return NULL;
    *bias = units->bias;
    return units->ranges[low - 1].unit;
}
