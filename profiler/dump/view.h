/* view.h - what every view of numalloc-dump gets. A view is one file with one function; main.c
 * lists them. A view writes to stdout and returns false only when it ran out of memory. */
#ifndef NUMALLOC_PROFILER_DUMP_VIEW_H
#define NUMALLOC_PROFILER_DUMP_VIEW_H

#include "profiler/analyze/sites.h"
#include "profiler/dump/symbols.h"

typedef struct na_view_input {
    const char *path;
    na_reader_t *reader;
    na_symbols_t *symbols;
    na_sites_t *sites; /* sorted by `order` */
    na_order_t order;
    size_t top;  /* lines at most */
    bool stacks; /* full call stacks */
} na_view_input_t;

/* Counts are stored scaled; this is the count itself. */
static inline double na_view_count(const na_view_input_t *in, double scaled) {
    return scaled / (double)na_reader_header(in->reader)->count_scale;
}

/* The stack entry and frame that a site is shown as: the innermost one outside the allocator and
 * the C and C++ runtime, else the innermost. `leaf` gets the innermost named frame inside the
 * runtime that led there (fopen, strdup), NULL if none. NULL: the stack is missing. */
const na_frame_t *na_view_site(const na_view_input_t *in, uint32_t site, const na_frame_t **leaf);

/* Time of the peak that the sites' figures are about, in ms. */
uint64_t na_view_peak_ms(const na_view_input_t *in);

/* Largest physical memory at or near the peak (the point that covers it); 0: never sampled. */
uint64_t na_view_physical_at_peak(const na_view_input_t *in);

bool na_view_summary(const na_view_input_t *in);
bool na_view_summary_json(const na_view_input_t *in);

/* timeline.c: the run drawn in characters; nothing if the profile has no timeline. */
void na_view_timeline(const na_view_input_t *in);

#endif
