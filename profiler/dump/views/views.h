/* views.h - the tables that views of one profile share with those above: the summary, the exports
 * and the views of several profiles. */
#ifndef NUMALLOC_PROFILER_DUMP_VIEWS_VIEWS_H
#define NUMALLOC_PROFILER_DUMP_VIEWS_VIEWS_H

#include "profiler/analyze/blocks/block_histogram.h"
#include "profiler/dump/profile/view.h"

/* view_histogram.c: of the sites that --filter chooses; for a view that NA_VIEW_PLAYS. A trace is
 * read once without --filter, which asks for names first. */
na_status_t na_view_histogram(na_view_input_t *in, na_block_histogram_t *histogram);

/* view_tables.c: the tables of functions and of sites. They sort in->functions. `below`: by what a
 * function asked for with all that it called. */
na_status_t na_view_function_table(na_view_input_t *in, bool below);
na_status_t na_view_site_table(na_view_input_t *in, bool stacks);
extern const na_columns_t na_columns_functions, na_columns_sites;

#endif
