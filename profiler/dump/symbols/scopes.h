/* scopes.h - which function, and which inlined calls in it, an address lies in, by DWARF.
 *
 * libdw's own answer walks all of a compilation unit for each address. Here a unit is walked once,
 * and then an address costs a binary search and the blocks of its function. */
#ifndef NUMALLOC_PROFILER_DUMP_SYMBOLS_SCOPES_H
#define NUMALLOC_PROFILER_DUMP_SYMBOLS_SCOPES_H

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

/* The type of the lambda whose operator() `member` declares. False: none of this unit's. */
bool na_scopes_lambda(na_scopes_t *scopes, Dwarf_Die *cu, const Dwarf_Die *member, Dwarf_Die *type);

#endif
