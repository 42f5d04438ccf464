/* access.h - access profiles: who touches which memory from where (nprof_access.h).
 *
 *   source (watchpoints, kernel module, counters)          one thread of the recorder's own
 *      | raw samples: time, thread, address, ...            |
 *      v                                                    v
 *   access_store.c: thread, node of the page, block that lived there then, mapping -> file
 *
 * Everything happens in that thread, which is started where threads may be made (hook on_load). It
 * is not started in a forked child, nor where a profile begins by signal, time or file: the
 * profile says so. Sampling never uses signals: samples are read from memory that the kernel
 * shares.
 *
 * What events of the program do for it: a block that is freed or resized leaves a note of its life
 * (access_deaths.c), because samples are looked at after their time. */
#ifndef NUMALLOC_PROFILER_RECORD_ACCESS_ACCESS_H
#define NUMALLOC_PROFILER_RECORD_ACCESS_ACCESS_H

#include "alloc/core/track/hooks.h"
#include "profiler/record/state/record.h"

/* Lives are noted. */
extern _Atomic bool na_access_on;

/* The hooks to install: these, or ones that note lives before they call these. */
const na_hooks_t *na_access_hooks(const na_hooks_t *hooks);
/* A block of this profile ends, or becomes another by realloc; while na_access_on. */
void na_access_death(const void *block, uint64_t usable, const na_record_t *record);

/* A profile begins. */
void na_access_start(const na_profile_config_t *config, bool in_child);
/* Threads can be made here: starts the one of this profile, if it is to have one. */
void na_access_thread(void);
/* The profile ends; the thread is gone afterwards. */
void na_access_finish(void);
/* While the profile is copied, nothing is stored. */
void na_access_hold(void);
void na_access_release(void);
/* This process is a forked child: nothing of the parent's is used, its descriptors are closed. */
void na_access_became_child(void);

#endif
