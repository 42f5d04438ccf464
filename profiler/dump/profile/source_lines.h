/* source_lines.h - figures by line of source, for `source` and for `diff --lines`. */
#ifndef NUMALLOC_PROFILER_DUMP_PROFILE_SOURCE_LINES_H
#define NUMALLOC_PROFILER_DUMP_PROFILE_SOURCE_LINES_H

#include "profiler/containers/index.h"
#include "profiler/dump/profile/input.h"

/* Figures of one line. */
typedef struct na_source_line {
    const char *file,
        *module; /* as long as the input's symbols; module: a path, of one that has it */
    uint32_t number;
    na_cost_t self;  /* of the sites whose responsible frame is here */
    na_cost_t below; /* of the sites with any frame here */
    double mapped;   /* bytes that the program mapped itself from here */
    size_t seen;     /* number of the site counted last in `below`, from 1 */
} na_source_line_t;

typedef struct na_source_lines {
    na_source_line_t *items; /* by file, then number; each once */
    uint32_t count, room;
    na_index_t index;
} na_source_lines_t;

/* All lines of the stacks of an input, of files that `options` wants; `maps`: those that map
 * memory, too. False: out of memory. *lines is all zeros before; na_source_lines_free in either
 * case. */
bool na_source_lines_gather(const na_view_input_t *in, const na_options_t *options, bool maps,
                            na_source_lines_t *lines);
void na_source_lines_free(na_source_lines_t *lines);

/* By file, then number. */
int na_source_lines_compare(const na_source_line_t *x, const na_source_line_t *y);

#endif
