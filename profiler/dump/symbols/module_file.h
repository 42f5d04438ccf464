/* module_file.h - the file that a module of a profile was mapped from, or one that has its symbols.
 *
 * Looked for by its path, below the directory that stands for the other machine's root if there is
 * one; then by its build-id in the folders of debug files, and on debuginfod servers if
 * DEBUGINFOD_URLS is set. One with another build-id is not it. One without is, unless it was
 * written after the module was loaded. */
#ifndef NUMALLOC_PROFILER_DUMP_SYMBOLS_MODULE_FILE_H
#define NUMALLOC_PROFILER_DUMP_SYMBOLS_MODULE_FILE_H

#include <stdbool.h>
#include <stdint.h>

#include "profiler/format/nprof.h"

typedef struct na_module_file {
    int fd;          /* to be closed; -1: none, and `why` says why */
    const char *why; /* a constant */
    bool elsewhere;  /* not by its own path */
} na_module_file_t;

/* `sysroot`: NULL: none. `start_unix_ns`: when the profile began; 0: not known. */
na_module_file_t na_module_file_open(const na_nprof_module_t *module, const char *sysroot,
                                     uint64_t start_unix_ns);

#endif
