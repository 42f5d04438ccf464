/* pattern.h - the patterns of LeakSanitizer's suppressions. */
#ifndef NUMALLOC_PROFILER_DUMP_PROFILE_PATTERN_H
#define NUMALLOC_PROFILER_DUMP_PROFILE_PATTERN_H

#include <stdbool.h>

/* Does the pattern occur anywhere in `text`? '*' stands for any text, '^' at the beginning and '$'
 * at the end for those of `text`. Time is at most the product of both lengths. */
bool na_suppression_matches(const char *pattern, const char *text);

#endif
