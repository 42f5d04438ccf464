/* counter_columns.h - the figures of a site, a function, a library, ... as columns of a table and
 * as members of JSON: the list of metrics.h, so that every view has the same figures under the same
 * names. A metric that is new there is in all of them. */
#ifndef NUMALLOC_PROFILER_DUMP_PROFILE_COUNTER_COLUMNS_H
#define NUMALLOC_PROFILER_DUMP_PROFILE_COUNTER_COLUMNS_H

#include "profiler/dump/profile/input.h"
#include "profiler/dump/ui/table.h"

#define NA_ONE(...) +1
enum {
    /* What text shows, in this order. */
    NA_COL_PEAK,
    NA_COL_SHARE, /* of in->order's figure */
    NA_COL_LIVE,
    NA_COL_TOTAL,
    NA_COL_ALLOCATIONS,
    NA_COL_ERROR,
    /* Then every metric; those above have no second column. */
    NA_COL_METRICS,
    NA_COUNTER_COUNT = NA_COL_METRICS NA_COUNTERS(NA_ONE) NA_DERIVED(NA_ONE),
};
#undef NA_ONE

void na_counters_columns(na_column_t columns[NA_COUNTER_COUNT]);

/* A table of these columns and, after them, the view's own. NULL: out of memory. */
na_table_t *na_table_open_counters(const na_columns_t *own);

/* Fills them in the last row. Shares and the error are those of in->order. `alone`: of a single
 * site, so that figures that mean something only then are there. */
void na_table_counters(na_table_t *table, const na_view_input_t *in, const na_counters_t *sum,
                       bool alone);

/* What a site is called, as columns of a table; na_table_site fills them, from column `first` on.
 */
#define NA_SITE_COLUMNS                                                                            \
    {NULL, "site", NA_KIND_TEXT, NULL}, {"site", NULL, NA_KIND_NUMBER, NULL},                      \
        {"function", NULL, NA_KIND_TEXT, NULL}, {"file", NULL, NA_KIND_TEXT, NULL},                \
        {"line", NULL, NA_KIND_NUMBER, NULL}, {"module", NULL, NA_KIND_TEXT, NULL}, {              \
        "by", NULL, NA_KIND_TEXT, NULL                                                             \
    }
#define NA_SITE_COLUMN_COUNT 7u
void na_table_site(na_table_t *table, const na_view_input_t *in, size_t first, uint32_t site);

/* Does --filter let the site through, by one of these names? True without --filter. */
bool na_site_matches(const na_view_input_t *in, uint32_t site);
bool na_site_wanted(void *in, uint32_t site); /* the same as a na_wanted_fn_t */

/* The same for a function. */
bool na_function_matches(const na_view_input_t *in, const na_function_row_t *row);

/* Key of the column that in->order orders by. */
const char *na_counters_sort(const na_view_input_t *in);

#endif
