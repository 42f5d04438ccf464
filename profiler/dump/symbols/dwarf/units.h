/* units.h - which compilation unit of a module an address lies in, for files that do not say it
 * themselves (.debug_aranges, which clang leaves out): by the units' own ranges, read once. */
#ifndef NUMALLOC_PROFILER_DUMP_SYMBOLS_DWARF_UNITS_H
#define NUMALLOC_PROFILER_DUMP_SYMBOLS_DWARF_UNITS_H

#include <elfutils/libdwfl.h>

typedef struct na_units na_units_t;

/* NULL: out of memory. The module must outlive it. */
na_units_t *na_units_open(Dwfl_Module *module);
void na_units_close(na_units_t *units);

/* NULL: none. *bias: what to take off `address` to have it as the unit has it. */
Dwarf_Die *na_units_find(const na_units_t *units, Dwarf_Addr address, Dwarf_Addr *bias);

#endif
