/* loaded.h - what the loaded modules (program and libraries) define, read from their own tables.
 *
 * The answers of dlsym without its costs: it tells one definition of a name where all of them are
 * wanted, in the order in which the loader looks, and takes a lock that the loader holds while it
 * runs constructors. Modules come in the order in which they were loaded: the program, what was
 * preloaded, what they need; then what dlopen has brought. */
#ifndef NUMALLOC_ALLOC_INTERPOSE_LOADED_H
#define NUMALLOC_ALLOC_INTERPOSE_LOADED_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* As a visitor sees it; its memory is there during the visit only. */
typedef struct na_loaded {
    const char *name; /* path; "" for the program */
    unsigned index;   /* in the order above, from 0 */
    uintptr_t base;
    const void *symbols;
    const char *strings;
    const uint32_t *gnu, *sysv; /* hash tables; NULL: has none */
    const void *headers;        /* ElfW(Phdr), so many */
    unsigned header_count;
    const char *soname; /* NULL: has none */
} na_loaded_t;

typedef struct na_symbol_name {
    const char *text;
    uint32_t hash; /* the usual one, DT_GNU_HASH's */
} na_symbol_name_t;

na_symbol_name_t na_symbol_name(const char *text);

/* The module's own definition of a function, to be found by others; NULL: it has none. */
void *na_loaded_function(const na_loaded_t *module, const na_symbol_name_t *name);

/* True: the next one, please. The loader keeps its list meanwhile: must not call out. */
typedef bool na_loaded_visit_t(const na_loaded_t *module, void *context);

/* Nothing of ours may be locked. Does not allocate. */
void na_loaded_visit(na_loaded_visit_t *visit, void *context);

/* How many modules have been loaded so far; 0: not known. */
unsigned na_loaded_count(void);

/* NULL, or what dlopen is to call before and after it has opened something; false: it need not be
 * called again after. Nothing of ours may be locked. Set in the library's constructor. */
extern bool (*na_loaded_opened)(void);

#endif
