/* init.h - what is decided once, before the first block is handed out. */
#ifndef NUMALLOC_ALLOC_INIT_H
#define NUMALLOC_ALLOC_INIT_H

#include <stdatomic.h>
#include <stdbool.h>

/* Every malloc and free must take the slow path: profile mode "sites", or strict checking. Then no
 * bin is granted credit, and every span that blocks come from is tagged slow. Changed by switch.h.
 */
extern _Atomic(bool) na_every_event;
/* NUMALLOC_CHECK: every free is verified against the registry before it is believed. */
extern bool na_strict;

/* Options, topology, size classes, the profile. Called by every thread's first slow path; quick and
 * lock-free once done. May run before any constructor, on any thread. */
void na_init(void);

#endif
