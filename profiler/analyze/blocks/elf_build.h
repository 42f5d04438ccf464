/* elf_build.h - is an ELF file still the one that was profiled? */
#ifndef NUMALLOC_PROFILER_ANALYZE_BLOCKS_ELF_BUILD_H
#define NUMALLOC_PROFILER_ANALYZE_BLOCKS_ELF_BUILD_H

#include <libelf.h>
#include <stdbool.h>

#include "profiler/format/nprof.h"

/* By its build id; true if neither has one. */
bool na_elf_same_build(Elf *elf, const na_nprof_module_t *module);

#endif
