/* names.h - functions of a module by name: the addresses behind the calls that they make. */
#ifndef NUMALLOC_PROFILER_POLICY_BIND_NAMES_H
#define NUMALLOC_PROFILER_POLICY_BIND_NAMES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Of the file of a loaded module: its full symbol table if it has one, else the dynamic one. */
typedef struct na_policy_symbols {
    const uint8_t *file; /* mapped; NULL: not readable */
    size_t size;
    const uint8_t *symbols, *strings; /* in it */
    size_t count, strings_size;
    /* Symbols of functions by a hash of their names, up to the first dot: `first` has a power of
     * two of numbers, `next` one for each symbol; 0: none, else the symbol's plus 1. */
    uint32_t *first, *next;
    size_t first_count;
    bool open;
} na_policy_symbols_t;

/* `path`: that of the module, "" for the program. Costs time in proportion to its symbols, and each
 * name then next to none. */
void na_policy_symbols_open(na_policy_symbols_t *symbols, const char *path);
void na_policy_symbols_close(na_policy_symbols_t *symbols);

/* Calls `visit` for the address behind each instruction in functions of that name (length bytes;
 * also its parts, as "name.part.0") that may be a call: bytes that only look like one cost nothing,
 * since they are no return address. The code is read where it is loaded, [text, text_end). */
void na_policy_calls_in(const na_policy_symbols_t *symbols, const char *name, size_t length,
                        uintptr_t base, uintptr_t text, uintptr_t text_end,
                        void (*visit)(uintptr_t pc, void *arg), void *arg);

#endif
