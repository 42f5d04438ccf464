/* globals.h - global and thread-local variables, read from the modules' own files with libelf:
 * what the process has of them, by module and by variable.
 *
 * They cost nothing to record, and nothing of them is in the profile but the list of modules. A
 * file that is gone, or is another one by now (its build id says so), is left out and counted.
 * Thread-local variables exist once for each thread, the first included; what is shown is their
 * size times the largest number of the program's threads at one time (na_threads_peak): the
 * recorder's own never count. */
#ifndef NUMALLOC_PROFILER_ANALYZE_BLOCKS_GLOBALS_H
#define NUMALLOC_PROFILER_ANALYZE_BLOCKS_GLOBALS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "profiler/format/reader/reader.h"

typedef struct na_global_module {
    const char *path; /* belongs to the reader */
    uint32_t module;  /* id */
    uint64_t data;    /* writable and initialised in memory, constants after relocation included */
    uint64_t zeroed;  /* writable and zero at first (.bss) */
    uint64_t tls;     /* of one thread */
} na_global_module_t;

typedef struct na_global {
    char *name; /* as in the symbol table */
    uint32_t module;
    uint64_t size; /* of one, if there is one for each thread */
    bool tls;
} na_global_t;

typedef struct na_globals {
    na_global_module_t *modules; /* largest first, by what the whole process has */
    size_t module_count;
    na_global_t *items; /* the largest variables by what the whole process has, largest first */
    size_t count;
    uint64_t variables; /* how many were found in all */
    uint64_t unnamed;   /* bytes of modules whose symbols are stripped or do not cover them */
    uint32_t threads;   /* at one time, at most */
    uint32_t missing;   /* modules whose file is gone or another */
} na_globals_t;

/* Keeps `most` variables. False: out of memory. Free in both cases. */
bool na_globals_read(na_reader_t *reader, size_t most, na_globals_t *globals);
void na_globals_free(na_globals_t *globals);

/* What the whole process has of a variable or of a module. */
static inline uint64_t na_global_bytes(const na_globals_t *globals, const na_global_t *v) {
    return v->tls ? v->size * globals->threads : v->size;
}
static inline uint64_t na_global_module_bytes(const na_globals_t *globals,
                                              const na_global_module_t *m) {
    return m->data + m->zeroed + m->tls * globals->threads;
}

#endif
