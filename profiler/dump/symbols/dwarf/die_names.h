/* die_names.h - the name of a function as its DIE and those around it give it, where it is defined,
 * and what tells it from others that print alike.
 *
 * A linkage name says all. gcc gives none to what is local to a file: then scope and parameters are
 * written here, as a demangler writes them. */
#ifndef NUMALLOC_PROFILER_DUMP_SYMBOLS_DWARF_DIE_NAMES_H
#define NUMALLOC_PROFILER_DUMP_SYMBOLS_DWARF_DIE_NAMES_H

#include <elfutils/libdw.h>
#include <stdbool.h>
#include <stdint.h>

#include "profiler/dump/symbols/dwarf/scopes.h"

/* A new string (free it). NULL: it has no name, or out of memory. *whole: false if what the
 * function lies in is not known, as with -g1; a symbol says more then. */
char *na_die_name(na_scopes_t *scopes, Dwarf_Die *function, bool *whole);

/* Where a function is defined. */
typedef struct na_home {
    const char *file; /* as in the unit, which it lives as long as; NULL: not known */
    uint32_t line;    /* 0: not known */
    uint32_t apart;   /* other functions of this name, file's name and line have another */
} na_home_t;

na_home_t na_die_home(na_scopes_t *scopes, Dwarf_Die *function);

/* The directory that relative files of a DIE's unit count from; NULL: not known. */
const char *na_die_directory(Dwarf_Die *die);

#endif
