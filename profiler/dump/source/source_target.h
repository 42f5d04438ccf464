/* source_target.h - what a call in a piece of C or C++ is assigned to: the name that a programmer
 * gave to the block that it returns. Pure. */
#ifndef NUMALLOC_PROFILER_DUMP_SOURCE_SOURCE_TARGET_H
#define NUMALLOC_PROFILER_DUMP_SOURCE_SOURCE_TARGET_H

#include <stddef.h>

typedef enum na_target {
    NA_TARGET_NONE,    /* the calls there are assigned to nothing, or there is none */
    NA_TARGET_NAMED,   /* `out` has the name */
    NA_TARGET_SEVERAL, /* calls of this line are assigned to several: the column would tell */
} na_target_t;

/* Of the call to `callee` (a demangled name, or NULL: any function that allocates) in the line that
 * begins at text[line] and is in column `column` of it (bytes, from 1; 0: not known). `text` has
 * lines around it, for statements of several lines; comments and literals in it are blanked. */
na_target_t na_target_of(char *text, size_t line, const char *callee, unsigned column, char *out,
                         size_t size);

#endif
