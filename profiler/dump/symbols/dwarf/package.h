/* package.h - units of split DWARF that libdw cannot read, or reads wrongly: in a package (.dwp,
 * before version 0.191); in a .dwo file that has several sections of units (type units of gcc) or
 * a table of lines for type units alone (clang).
 *
 * A unit's sections are written to an ELF file in memory, as a plain .dwo file has them. A second
 * such file has a skeleton unit that names the first one, and the sections of the module that
 * skeletons need. So libdw itself opens the one and ties both. */
#ifndef NUMALLOC_PROFILER_DUMP_SYMBOLS_DWARF_PACKAGE_H
#define NUMALLOC_PROFILER_DUMP_SYMBOLS_DWARF_PACKAGE_H

#include <elfutils/libdwfl.h>
#include <stdbool.h>

typedef struct na_package na_package_t;

/* With the package beside the module's file or its debug file, if there is one. NULL: out of
 * memory, or the module has no DWARF. */
na_package_t *na_package_open(Dwfl_Module *module);
void na_package_close(na_package_t *package);

/* The unit of skeleton `cu` of the module; belongs to the package. False: it is not there. `file`:
 * its .dwo file; it need not exist. */
bool na_package_unit(na_package_t *package, Dwarf_Die *cu, const char *file, Dwarf_Die *split);

/* Whether libdw takes the names of files of this unit from a table that is not its own. */
bool na_package_misread(Dwarf_Die *split);

#endif
