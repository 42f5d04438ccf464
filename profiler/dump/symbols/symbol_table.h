/* symbol_table.h - which symbol of a module an address lies in.
 *
 * All symbols of a module are read once and sorted, with those of its debug file and of the part
 * that some distributions keep in .gnu_debugdata; a look-up is then a search in that order.
 * libdwfl's own looks through the whole table for each address, which for a library with 100,000
 * symbols is most of a view's time.
 *
 * Of several symbols around an address the one that begins nearest counts: of those that begin
 * together the smallest, then global before weak before local. Locals count where no global holds
 * the address; labels without a size last, where nothing ends behind them, up to their section's
 * end. Those are libdwfl's rules. Not for several threads at once. */
#ifndef NUMALLOC_PROFILER_DUMP_SYMBOLS_SYMBOL_TABLE_H
#define NUMALLOC_PROFILER_DUMP_SYMBOLS_SYMBOL_TABLE_H

#include <elfutils/libdwfl.h>
#include <stdbool.h>
#include <stdint.h>

typedef struct na_symbol_table na_symbol_table_t;

/* One name. */
typedef struct na_symbol {
    const char *name;     /* as it is in the file; lives as long as the module */
    const char *readable; /* what the caller made of it and keeps here; begins as NULL */
    const char *file;     /* source file of a local one, without directory; NULL: not known */
    uint32_t apart;       /* local ones of two files have two numbers, others 0 */
} na_symbol_t;

/* NULL: out of memory. The module must outlive it. */
na_symbol_table_t *na_symbol_table_open(Dwfl_Module *module);
void na_symbol_table_close(na_symbol_table_t *table);

/* True if one of the symbols is one that only Ada's compiler makes, or its library has. */
bool na_symbol_table_is_ada(const na_symbol_table_t *table);

/* Whether there is a symbol that is not local and is called so. */
bool na_symbol_table_has(const na_symbol_table_t *table, const char *name, size_t length);

/* `address` as in the process. NULL: none. */
na_symbol_t *na_symbol_table_find(na_symbol_table_t *table, GElf_Addr address);

#endif
