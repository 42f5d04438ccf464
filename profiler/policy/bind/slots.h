/* slots.h - the import slots of a module: where it keeps the addresses of functions of others.
 *
 * A call of malloc from a module goes through a word of its own (its global offset table), which
 * the loader has filled. Writing there turns the calls of this module alone, those of all its
 * functions, and nothing else has to know. The word is written at once, so a thread that calls
 * meanwhile finds one address or the other. Pages that are read-only by now (RELRO) are writable
 * for that moment. */
#ifndef NUMALLOC_PROFILER_POLICY_BIND_SLOTS_H
#define NUMALLOC_PROFILER_POLICY_BIND_SLOTS_H

#include "alloc/interpose/loaded.h"

/* Slots of the module that lead to a function of the library, or will when they are first used,
 * lead to its entry here (na_policy_entry_for). How many were written. During a visit. */
unsigned na_policy_turn_slots(const na_loaded_t *module);

#endif
