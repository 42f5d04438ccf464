/* source_column.c - columns by libdwfl, for the few lines with several calls. See source_column.h.
 * names of symbols.h have no columns: hardly any are asked for, and the files are in caches. */
#include "profiler/dump/source/source_column.h"

#include <elfutils/libdwfl.h>
#include <stdio.h>
#include <string.h>

static Dwfl *dwfl;
static Dwfl_Module *opened;
static char path[4096];

static void open_line_table(const char *module) {
    static char *nowhere = NULL; /* no search but in the standard places */
    static const Dwfl_Callbacks callbacks = {.find_elf = dwfl_build_id_find_elf,
                                             .find_debuginfo = dwfl_standard_find_debuginfo,
                                             .debuginfo_path = &nowhere};
    if (dwfl != NULL) dwfl_end(dwfl);
    opened = NULL;
    snprintf(path, sizeof path, "%s", module);
    dwfl = dwfl_begin(&callbacks);
    if (dwfl == NULL) return;
    dwfl_report_begin(dwfl);
    opened = dwfl_report_elf(dwfl, path, path, -1, 0, false);
    dwfl_report_end(dwfl, NULL, NULL);
}

unsigned na_source_column(const char *module, uint64_t offset, unsigned line) {
    if (module == NULL || offset == 0) return 0;
    if (strcmp(module, path) != 0) open_line_table(module);
    if (opened == NULL) return 0;
    GElf_Addr bias;
    if (dwfl_module_getdwarf(opened, &bias) == NULL) return 0;
    Dwfl_Line *found = dwfl_module_getsrc(opened, offset - 1 + bias);
    int number = 0, column = 0;
    if (found == NULL || dwfl_lineinfo(found, NULL, &number, &column, NULL, NULL) == NULL) return 0;
    return number == (int)line && column > 0 ? (unsigned)column : 0;
}
