/* split_dwarf.c - see split_dwarf.h. */
#include "profiler/dump/symbols/dwarf/split_dwarf.h"

#include <dwarf.h>
#include <elfutils/libdwfl.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

bool na_split_unit(Dwarf_Die *cu, Dwarf_Die *split) {
    Dwarf_Die skeleton;
    uint8_t type;
    return dwarf_cu_info(cu->cu, NULL, &type, &skeleton, split, NULL, NULL, NULL) == 0 &&
           type == DW_UT_skeleton;
}

char *na_split_file(Dwarf_Die *cu) {
    Dwarf_Attribute memory;
    const char *directory = dwarf_formstring(dwarf_attr(cu, DW_AT_comp_dir, &memory));
    const char *name = dwarf_formstring(dwarf_attr(cu, DW_AT_dwo_name, &memory));
    if (name == NULL) name = dwarf_formstring(dwarf_attr(cu, DW_AT_GNU_dwo_name, &memory));
    char *file = NULL;
    bool below = name != NULL && name[0] != '/' && directory != NULL;
    if (asprintf(&file, "%s%s%s", below ? directory : "", below ? "/" : "",
                 name == NULL ? "?" : name) < 0)
        return NULL;
    return file;
}

char *na_split_missing(const char *file, const char *module_path) {
    char *package = NULL, *text = NULL;
    if (asprintf(&package, "%s.dwp", module_path) < 0) package = NULL;
    const char *there = file != NULL && access(file, R_OK) == 0         ? file
                        : package != NULL && access(package, R_OK) == 0 ? package
                                                                        : NULL;
    if (asprintf(&text, "split DWARF: %s is %s%s%s; inlined calls count as their caller's",
                 there != NULL  ? there
                 : file != NULL ? file
                                : "",
                 there != NULL ? "of another build, or not what libdw " : "missing",
                 there != NULL ? dwfl_version(NULL) : "", there != NULL ? " reads" : "") < 0)
        text = NULL;
    free(package);
    return text;
}
