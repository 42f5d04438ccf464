/* bound.h - the policy of this process: the file's rules, and what they are bound to. Written by
 * who binds (policy.c), read by who reports (report.c), each after na_policy_enter. */
#ifndef NUMALLOC_ALLOC_POLICY_BOUND_H
#define NUMALLOC_ALLOC_POLICY_BOUND_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "alloc/policy/live.h"

enum { NA_POLICY_PATIENCE_MS = 200 }; /* for another thread that binds */

enum { NA_POLICY_NOT_LOADED, NA_POLICY_OTHER_BUILD, NA_POLICY_LOADED };

typedef struct na_policy_bound {
    const char *file;
    na_policy_t *rules;      /* NULL: could not be read */
    na_policy_site_t *sites; /* of each rule; NULL: nothing is applied */
    na_policy_pool_t *pools;
    uint32_t pool_count;
    bool by_name;           /* some rule names a function */
    _Atomic(unsigned) adds; /* na_loaded_count when it was bound last */
    uint32_t nodes;         /* of the tables that are published */
    uint8_t module_states[NA_POLICY_MODULES];
    /* What the summary says. */
    uint32_t missing_modules, other_builds, not_constant, missing_nodes, slots;
    bool full, not_ours;
    _Atomic(bool) for_others; /* asked by anybody */
    bool linked_in; /* the library is part of the program, whose calls have no import slots */
} na_policy_bound_t;

extern na_policy_bound_t na_bound;

/* For one thread at a time; waits so long at most. False: another is still at it, or this thread
 * is, and the loader has called us while we called it. */
bool na_policy_enter(unsigned ms);
void na_policy_leave(void);

#endif
