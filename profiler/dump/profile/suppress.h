/* suppress.h - LeakSanitizer's suppression files: lines "leak:PATTERN", where PATTERN is found
 * anywhere in the function, source file or module of any frame of the stack; '*' stands for any
 * text, '^' and '$' for the beginning and the end. '#' begins a comment line. */
#ifndef NUMALLOC_PROFILER_DUMP_PROFILE_SUPPRESS_H
#define NUMALLOC_PROFILER_DUMP_PROFILE_SUPPRESS_H

#include "profiler/dump/profile/input.h"

typedef struct na_suppression {
    char *pattern;
    bool builtin;
    double bytes, blocks; /* what it suppressed */
} na_suppression_t;

typedef struct na_suppressions {
    na_suppression_t *items;
    size_t count, room;
} na_suppressions_t;

typedef struct na_leaks {
    double bytes, blocks;
    size_t sites;
} na_leaks_t;

/* Reads the files that the options name, after the built-in ones (unless --no-builtin). A file that
 * cannot be read, or a line that is none, is refused. */
na_status_t na_suppressions_read(na_suppressions_t *list, const na_options_t *options);
void na_suppressions_free(na_suppressions_t *list);

/* Does one of them match a frame of the site's stack? Its figures grow by the site's. */
bool na_suppressed(na_suppressions_t *list, const na_view_input_t *in, const na_site_t *site,
                   const na_stack_t *stack);

/* What is live and not suppressed. False: out of memory. */
bool na_leaks_sum(na_suppressions_t *list, const na_view_input_t *in, na_leaks_t *leaks);

#endif
