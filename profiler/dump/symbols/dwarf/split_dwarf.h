/* split_dwarf.h - units whose functions are in a file of their own (-gsplit-dwarf), which libdw
 * opens: .dwo files, and from version 0.191 on packages of them (.dwp); see also package.h. */
#ifndef NUMALLOC_PROFILER_DUMP_SYMBOLS_DWARF_SPLIT_DWARF_H
#define NUMALLOC_PROFILER_DUMP_SYMBOLS_DWARF_SPLIT_DWARF_H

#include <elfutils/libdw.h>
#include <stdbool.h>

/* Whether the unit is such a one; then *split is the DIE of the other file's unit, with .addr NULL
 * if it cannot be had. */
bool na_split_unit(Dwarf_Die *cu, Dwarf_Die *split);

/* A new string: its .dwo file. NULL: out of memory. */
char *na_split_file(Dwarf_Die *cu);

/* A new string: why it cannot be had. */
char *na_split_missing(const char *file, const char *module_path);

#endif
