/* umodules.h - which module holds an address, and is it the one that it was last time.
 *
 * Invariant that makes cached rules safe across dlclose: a rule is used, or stored, only in a walk
 * that has confirmed the identity of its module by asking the loader (na_umodule_find). While the
 * walk lasts, the module cannot be unloaded, because a frame of the calling thread returns into it.
 * When a module is found where another was, every cached rule is dropped first. Modules that the
 * program was started with (lasting.h) are never unloaded and need no confirming. */
#ifndef NUMALLOC_PROFILER_RECORD_UNWIND_UMODULES_H
#define NUMALLOC_PROFILER_RECORD_UNWIND_UMODULES_H

#include <stdatomic.h>

#include "alloc/core/sys/base.h"
#include "profiler/record/unwind/cfi.h"
#include "profiler/record/unwind/unwind.h"

typedef enum na_umodule_state {
    NA_UMODULE_NONE,    /* no module there: generated code, or a wild address */
    NA_UMODULE_FRESH,   /* found, but cached rules must not be used for it (table busy or full) */
    NA_UMODULE_KNOWN,   /* found and confirmed */
    NA_UMODULE_LASTING, /* and will never be unloaded */
} na_umodule_state_t;

/* Lock-free, async-signal-safe. */
na_umodule_state_t na_umodule_find(uintptr_t pc, na_unwind_module_t *m);

/* The same for an address that no frame of the calling thread returns into, so that its module may
 * be unloaded at any moment: LASTING, NONE, or FRESH for one that may go, whose memory is not
 * touched. */
na_umodule_state_t na_umodule_of_others(uintptr_t pc, na_unwind_module_t *m);

/* Raised whenever a module is found where another was, after the cached rules were dropped. */
extern NA_NEAR _Atomic uint32_t na_umodule_generation;

/* `flush` drops all cached rules. From a constructor, once. */
void na_umodule_init(void (*seen)(const na_unwind_seen_t *), void (*flush)(void));

/* Forgets every identity; in a forked child, where no other thread walks. */
void na_umodule_forget(void);

#endif
