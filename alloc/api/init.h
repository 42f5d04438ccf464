/* init.h - what is decided once, before the first block is handed out. */
#ifndef NUMALLOC_ALLOC_API_INIT_H
#define NUMALLOC_ALLOC_API_INIT_H

/* Options, topology, size classes, the profile. Called by every thread's first slow path; quick and
 * lock-free once done. May run before any constructor, on any thread. */
void na_init(void);

#endif
