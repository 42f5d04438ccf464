/* view.h - what every view of numalloc-dump gets. A view is one file with one function; main.c
 * lists them. A view writes to stdout and returns false only when it ran out of memory. */
#ifndef NUMALLOC_PROFILER_DUMP_VIEW_H
#define NUMALLOC_PROFILER_DUMP_VIEW_H

#include <regex.h>

#include "profiler/analyze/functions.h"
#include "profiler/analyze/sites.h"
#include "profiler/dump/symbols.h"

/* Frames of one stack that are shown or looked at, from the innermost on: what the recorder keeps
 * at most. Only a file that no recorder wrote has more, and it must not cost the square of them. */
#define NA_VIEW_DEEPEST 1024u

typedef struct na_function_row {
    uint32_t id;        /* na_symbols_function */
    uint32_t sites;     /* that this function is responsible for */
    na_counters_t self; /* exclusive: of those sites */
    na_cost_t below;    /* inclusive: of all stacks with this function, recursion once */
    bool wrapper;       /* never responsible, except where there is nobody else */
    uint32_t by;        /* id + 1 of a function that it allocates through; 0: none */
    bool by_more;       /* and there are others */
    bool shown;         /* for the view */
} na_function_row_t;

typedef struct na_function_table {
    na_function_row_t *items; /* every function on a stack */
    size_t count;
    size_t responsible;    /* rows with sites */
    na_counters_t nowhere; /* sites without a stack */
    size_t nowhere_sites;
} na_function_table_t;

typedef struct na_view_input {
    const char *path;
    na_reader_t *reader;
    na_symbols_t *symbols;
    na_sites_t *sites; /* sorted by `order` */
    na_order_t order;
    na_function_table_t functions;
    bool *wrappers; /* by function id, function_count of them */
    uint32_t function_count;
    size_t top;      /* lines of a table at most */
    bool site_table; /* show sites, not functions (text) */
    bool stacks;     /* full call stacks */
} na_view_input_t;

/* Counts are stored scaled; this is the count itself. */
static inline double na_view_count(const na_view_input_t *in, double scaled) {
    return scaled / (double)na_reader_header(in->reader)->count_scale;
}

/* Fills in->functions and in->wrappers. A function is a wrapper if
 *   - nine in ten of its stack entries or more called the allocator, the runtime or a wrapper,
 *   - at least two other functions call it, and
 *   - the last part of its name contains alloc, strdup, or new not followed by a small letter, in
 *     any case
 * (`automatic`); also if its name matches one of `skip`, whatever it does.
 * False: out of memory. Free with na_view_functions_free in both cases. */
bool na_view_functions(na_view_input_t *in, bool automatic, const regex_t *skip, size_t skip_count);
void na_view_functions_free(na_view_input_t *in);

/* By the figures of the order: exclusive ones, or inclusive (`below`). */
void na_view_functions_sort(na_function_table_t *table, na_order_t order, bool below);

/* Is the frame part of the runtime or a wrapper, so that its caller is responsible? */
bool na_view_passes_on(const na_view_input_t *in, const na_frame_t *frame);

/* The frame that is responsible for a site, and that it is shown as: the innermost one outside the
 * allocator, the C and C++ runtime and wrappers, else the innermost. `leaf` gets what that one
 * called of those (fopen, strdup, xmalloc), NULL if it has no name. NULL: the stack is missing. */
const na_frame_t *na_view_site(const na_view_input_t *in, uint32_t site, const na_frame_t **leaf);

/* Time of the peak that the sites' figures are about, in ms. */
uint64_t na_view_peak_ms(const na_view_input_t *in);

/* The sampled point of the timeline that covers the peak or is next to it; NULL: never sampled. */
const na_nprof_point_t *na_view_point_at_peak(const na_view_input_t *in);

bool na_view_summary(na_view_input_t *in);
bool na_view_summary_json(na_view_input_t *in);

/* tables.c: the tables of the summary. They sort in->functions. */
void na_view_function_tables(na_view_input_t *in);
void na_view_site_table(const na_view_input_t *in);

/* timeline.c: the run drawn in characters; nothing if the profile has no timeline. */
void na_view_timeline(const na_view_input_t *in);

#endif
