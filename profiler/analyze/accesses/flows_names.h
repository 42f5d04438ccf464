/* flows_names.h - what lies at an address of a program or library: a variable, or a section. From
 * the files' own symbol tables; a file that is gone, or another by now, has no names. */
#ifndef NUMALLOC_PROFILER_ANALYZE_ACCESSES_FLOWS_NAMES_H
#define NUMALLOC_PROFILER_ANALYZE_ACCESSES_FLOWS_NAMES_H

#include <stdbool.h>
#include <stdint.h>

#include "profiler/format/reader/reader.h"

typedef struct na_variables na_variables_t;

/* The modules' files are opened when they are asked for first. NULL: out of memory. */
na_variables_t *na_variables_open(na_module_table_t modules);
void na_variables_close(na_variables_t *variables);

typedef struct na_variable {
    uint32_t module;  /* id; 0: none is known there */
    bool named;       /* `name` is a variable's */
    const char *name; /* of the variable, else of the section; NULL: neither is known */
    const char *path; /* of the module; NULL without one */
    uint64_t base, size;
} na_variable_t;

/* What is at the address at this time (ms since the start of the profile). Texts live as long as
 * the object. */
na_variable_t na_variables_at(na_variables_t *variables, uint64_t address, uint64_t ms);

#endif
