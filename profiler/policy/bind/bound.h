/* bound.h - the policy of this process: what was read last, and what it is bound to. Written by who
 * reads and binds (policy.c, and here), read by who reports (report.c), each after na_policy_enter.
 */
#ifndef NUMALLOC_PROFILER_POLICY_BIND_BOUND_H
#define NUMALLOC_PROFILER_POLICY_BIND_BOUND_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "profiler/policy/apply/ruled_live.h"

enum { NA_POLICY_PATIENCE_MS = 200 }; /* for another thread that binds */

enum { NA_POLICY_NOT_LOADED, NA_POLICY_OTHER_BUILD, NA_POLICY_LOADED };

/* One reading of the file, in a mapping of its own (na_policy_text_read). Constant but for what is
 * said of it; gone when the next one has taken its place. */
typedef struct na_policy_reading {
    na_policy_t rules;
    na_policy_site_t *sites[NA_POLICY_SITES]; /* of each rule */
    bool by_name;                             /* some rule names a function */
    /* What it is bound to. */
    uint8_t module_states[NA_POLICY_MODULES];
    uint32_t missing_modules, other_builds, not_constant;
    char text[NA_POLICY_TEXT + 2];
} na_policy_reading_t;

typedef struct na_policy_bound {
    const char *file;             /* as the option has it; NULL: there is none */
    na_policy_reading_t *reading; /* NULL: none could be read */
    _Atomic(bool) on;             /* it has rules for this program; asked by anybody */
    _Atomic(unsigned) adds;       /* na_loaded_count when it was bound last */
    bool unbound;                 /* the reading is newer than what is bound: bind again */
    bool for_others, not_ours, full;
    _Atomic(bool) asks_loader; /* who binds now does, or who was the last; asked by anybody */
    bool linked_in;    /* the library is part of the program, whose calls have no import slots */
    uint32_t slots;    /* that lead to the entries */
    uint32_t readings; /* that took the place of another */
    char refused[256]; /* why the file as it is now was not taken; "": it was */
} na_policy_bound_t;

extern na_policy_bound_t na_bound;

/* For one thread at a time; waits so long at most (0: not). False: another is still at it, or this
 * thread is, and the loader has called us while we called it. */
bool na_policy_enter(unsigned ms);
void na_policy_leave(void);
/* Waits longer, but not for a thread that asks the loader: any other waits for nobody who could
 * wait for us, and comes to an end. */
bool na_policy_enter_after_looks(void);

#endif
