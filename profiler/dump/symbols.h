/* symbols.h - names for stack entries: function, inlined calls, file and line.
 *
 * Looked up in the modules' own files where these still are what was profiled (build-id), by their
 * separate debug files (.build-id, .gnu_debuglink, .debug) where there are any, and by symbol table
 * where there is no DWARF. Nothing is fetched from a network. A module is opened when the first of
 * its frames is asked for; every pc is looked up once. */
#ifndef NUMALLOC_PROFILER_DUMP_SYMBOLS_H
#define NUMALLOC_PROFILER_DUMP_SYMBOLS_H

#include <stdbool.h>
#include <stdint.h>

#include "profiler/format/reader.h"

/* Strings belong to the symbols object. */
typedef struct na_frame {
    const char *function; /* demangled; "module+0xoffset" if there is no name; never NULL */
    const char *file;     /* NULL: not known */
    uint32_t line;        /* 0: not known */
    const char *module;   /* path; "?" if the address belongs to none */
    uint64_t offset;      /* pc - load bias */
    bool inlined;         /* into the frame that follows */
    bool named;           /* function is a name, not an address */
    bool runtime;         /* part of the C or C++ runtime or of the allocator */
} na_frame_t;

typedef struct na_symbols na_symbols_t;

/* NULL: out of memory. The tables must outlive the object. */
na_symbols_t *na_symbols_open(na_stack_table_t stacks, na_module_table_t modules);
void na_symbols_close(na_symbols_t *symbols);

/* The frames of one stack entry, innermost first: one, and one more for each inlined call. 0 for
 * the root and for entries that do not exist. Valid until na_symbols_close. */
uint32_t na_symbols_frames(na_symbols_t *symbols, uint32_t node, const na_frame_t **frames);

/* Modules whose symbols could not be had: calls say(arg, path, why) for each that was needed. */
void na_symbols_missing(const na_symbols_t *symbols,
                        void (*say)(void *arg, const char *path, const char *why), void *arg);

#endif
