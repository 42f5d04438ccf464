/* python_missing.h - why a profile has no Python frames, though they were asked for. */
#ifndef NUMALLOC_PROFILER_DUMP_PROFILE_PYTHON_MISSING_H
#define NUMALLOC_PROFILER_DUMP_PROFILE_PYTHON_MISSING_H

#include "profiler/dump/profile/input.h"

#define NA_PYTHON_WHY 160
/* False: nobody asked for them, or they are there. */
bool na_view_python_missing(const na_view_input_t *in, char why[NA_PYTHON_WHY]);

/* The program's environment had this entry, "NAME=value". */
bool na_view_environment_has(const na_view_input_t *in, const char *entry);

#endif
