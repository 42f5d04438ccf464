/* whose.h - whether the program's malloc is this one.
 *
 * A program that brings an allocator, and a library that was preloaded before ours, come first in
 * the loader's order: their malloc is everybody's, and ours is never called. A profile is then
 * empty and options do nothing, for which the user should hear the reason. A malloc that only
 * watches and goes on to ours is not meant. */
#ifndef NUMALLOC_ALLOC_INTERPOSE_WHOSE_H
#define NUMALLOC_ALLOC_INTERPOSE_WHOSE_H

#include <stdbool.h>

/* Looks, and asks the other malloc for a block to see whether it is ours: where the library is
 * loaded, before anything else of it runs. False: it is that of another numalloc, which the program
 * was linked with; that one has the options, and this one nothing to do. */
bool na_whose_init(void);

/* One line on stderr if malloc is not ours. */
void na_whose_warn(void);

/* Path of the module whose malloc is called in place of ours; "": it is ours. */
const char *na_whose_malloc(void);

#endif
