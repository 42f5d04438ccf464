/* policy_modules.h - the program and its libraries, as far as rules may lie in them.
 *
 *   the loader's list   all that is loaded, asked for where that is allowed: when the program
 *                       starts, after dlopen, by a thread of ours
 *   known               what never goes: what was there at the start, and what rules lie in. Both
 *                       are pinned (RTLD_NODELETE). A slow path of the program's threads, who may
 *                       hold any lock, binds to these alone
 *
 * So rules of a later reading that lie in a library which dlopen brought, and which no rule named
 * before, hold from the next dlopen on (or from the next look, if a thread of ours looks). All
 * after na_policy_enter. */
#ifndef NUMALLOC_PROFILER_POLICY_BIND_POLICY_MODULES_H
#define NUMALLOC_PROFILER_POLICY_BIND_POLICY_MODULES_H

#include <stdbool.h>
#include <stdint.h>

#include "alloc/interpose/loaded.h"
#include "profiler/policy/bind/bound.h"
#include "profiler/record/unwind/cfi.h"
#include "profiler/record/unwind/elf_note.h"

#define NA_POLICY_KNOWN 256u /* that rules may lie in: of the file, or any for functions */

typedef struct na_policy_here {
    na_unwind_module_t unwind;
    na_loaded_t loaded;       /* its pointers hold while it is held, or known */
    uintptr_t text, text_end; /* the part that is code */
    na_build_id_t build_id;
    uint32_t rules_module; /* of the file; NA_POLICY_NO_MODULE: none */
    char path[512];
    void *handle; /* keeps it loaded while it is looked at */
    bool known;
    bool innermost, named; /* innermost frames of rules lie here; any do */
} na_policy_here_t;

typedef struct na_policy_modules {
    na_policy_here_t *items;
    uint32_t count;
} na_policy_modules_t;

/* Once, at the start: what is there is known. Asks the loader. */
void na_policy_modules_first(void);

/* The modules that rules of the reading may lie in, and what of its modules is there
 * (module_states). False: no memory, or the file is for other programs (na_bound.for_others). With
 * `loader` all that is loaded, which asks the loader; else what is known. Release in any case. */
bool na_policy_modules_take(na_policy_modules_t *modules, bool loader);
/* What was named stays for good, and its slots lead to the entries. */
void na_policy_modules_turn(na_policy_modules_t *modules);
void na_policy_modules_release(na_policy_modules_t *modules, bool loader);

#endif
