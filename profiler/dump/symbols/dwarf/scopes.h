/* scopes.h - which function, and which inlined calls in it, an address lies in, by DWARF.
 *
 * libdw's own answer walks all of a compilation unit for each address. Here a unit is walked once,
 * and then an address costs a binary search and the blocks of its function. */
#ifndef NUMALLOC_PROFILER_DUMP_SYMBOLS_DWARF_SCOPES_H
#define NUMALLOC_PROFILER_DUMP_SYMBOLS_DWARF_SCOPES_H

#include <elfutils/libdw.h>
#include <stdbool.h>
#include <stdint.h>

typedef struct na_scopes na_scopes_t;

/* NULL: out of memory. Units that it was asked about must outlive it. */
na_scopes_t *na_scopes_open(void);
void na_scopes_close(na_scopes_t *scopes);

/* Fills dies[], innermost first: the inlined calls around `pc` (in the unit's own addresses), and
 * last the function. Returns how many, 0: no function there, more than `room` or out of memory. */
uint32_t na_scopes_find(na_scopes_t *scopes, Dwarf_Die *cu, Dwarf_Addr pc, Dwarf_Die *dies,
                        uint32_t room);

/* The DIE that says what a function or type is: the end of its origins and specifications. */
Dwarf_Die na_scopes_root(const Dwarf_Die *die);

/* The function, type, namespace or module that a function or type lies in. False: only the unit. */
bool na_scopes_parent(na_scopes_t *scopes, Dwarf_Die *die, Dwarf_Die *parent);

/* Whether a type without a name is a lambda's. */
bool na_scopes_is_lambda(na_scopes_t *scopes, Dwarf_Die *type);

/* One after the other what lies where `type` does, lambdas if that is one, else others; `other`
 * begins as zeros. */
bool na_scopes_next_sibling(na_scopes_t *scopes, Dwarf_Die *type, Dwarf_Die *other);

/* Whether the unit describes types (-g1 does not): then all parameters are there. */
bool na_scopes_typed(na_scopes_t *scopes, Dwarf_Die *die);

/* Where the code of a function begins that has `root`, in unit `cu`, also where it is inlined.
 * False: it has none of its own. */
bool na_scopes_copy(na_scopes_t *scopes, Dwarf_Die *cu, const Dwarf_Die *root, Dwarf_Addr *entry);

#endif
