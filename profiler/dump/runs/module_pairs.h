/* module_pairs.h - which modules of two profiles are versions of one, so that their functions
 * compare.
 *
 * Modules are paired by build-id; what is left by soname, then by the file's name without
 * directories; then the two programs themselves, whatever they are called. A soname is read from
 * the file where that still is what was profiled, else taken from a name such as libx.so.1.2. A
 * module is in one pair at most. */
#ifndef NUMALLOC_PROFILER_DUMP_RUNS_MODULE_PAIRS_H
#define NUMALLOC_PROFILER_DUMP_RUNS_MODULE_PAIRS_H

#include "profiler/dump/profile/input.h"

typedef struct na_pairs na_pairs_t;

/* Side 0 is the old profile, 1 the new one; both must outlive the result. NULL: out of memory. */
na_pairs_t *na_pairs_open(const na_view_input_t *old, const na_view_input_t *new);
void na_pairs_close(na_pairs_t *pairs);

/* Two functions are one if these are the same texts for both, and their source files' names are.
 * A function without a name is known by its offset, which says nothing in another build. */
void na_pairs_key(const na_pairs_t *pairs, int side, const na_function_name_t *f,
                  const char **module, const char **function);

/* Each pair of modules with different names: why says by what. */
void na_pairs_renamed(const na_pairs_t *pairs,
                      void (*say)(void *arg, const char *old, const char *new, const char *why),
                      void *arg);

#endif
