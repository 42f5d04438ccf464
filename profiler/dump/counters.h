/* counters.h - the figures of a site, a function, a thread, ... as columns of a table: one list, so
 * that every view has the same figures under the same names. A new figure is a line here and one in
 * counters.c. */
#ifndef NUMALLOC_PROFILER_DUMP_COUNTERS_H
#define NUMALLOC_PROFILER_DUMP_COUNTERS_H

#include "profiler/dump/table.h"
#include "profiler/dump/view.h"

/* clang-format off */
#define NA_COUNTER_COLUMNS                                              \
    {"peak_bytes", "at peak", NA_KIND_BYTES, "peak"},                   \
    {NULL, "share", NA_KIND_SHARE, NULL},                               \
    {"live_bytes", "live", NA_KIND_BYTES, "live"},                      \
    {"total_bytes", "total", NA_KIND_BYTES, "total"},                   \
    {"allocations", "allocations", NA_KIND_COUNT, "count"},             \
    {"error95", "95 %", NA_KIND_ERROR, NULL},                           \
    {"peak_blocks", NULL, NA_KIND_COUNT, NULL},                         \
    {"live_blocks", NULL, NA_KIND_COUNT, NULL},                         \
    {"live_usable_bytes", NULL, NA_KIND_BYTES, NULL},                   \
    {"total_usable_bytes", NULL, NA_KIND_BYTES, NULL},                  \
    {"frees", NULL, NA_KIND_COUNT, NULL},                               \
    {"freed_bytes", NULL, NA_KIND_BYTES, NULL},                         \
    {"reallocs", NULL, NA_KIND_COUNT, NULL},                            \
    {"size_min", NULL, NA_KIND_BYTES, NULL},                            \
    {"size_mean", NULL, NA_KIND_BYTES, NULL},                           \
    {"size_max", NULL, NA_KIND_BYTES, NULL},                            \
    {"lifetime_mean_ms", NULL, NA_KIND_MS, NULL},                       \
    {"cross_thread_frees", NULL, NA_KIND_COUNT, NULL},                  \
    {"cross_node_frees", NULL, NA_KIND_COUNT, NULL},                    \
    {"samples", NULL, NA_KIND_COUNT, NULL}
/* clang-format on */

/* The columns of the list above, when it comes first in a table. */
enum {
    NA_COL_PEAK,
    NA_COL_SHARE,
    NA_COL_LIVE,
    NA_COL_TOTAL,
    NA_COL_ALLOCATIONS,
    NA_COL_ERROR,
    NA_COL_PEAK_BLOCKS,
    NA_COL_LIVE_BLOCKS,
    NA_COL_LIVE_USABLE,
    NA_COL_TOTAL_USABLE,
    NA_COL_FREES,
    NA_COL_FREED,
    NA_COL_REALLOCS,
    NA_COL_SIZE_MIN,
    NA_COL_SIZE_MEAN,
    NA_COL_SIZE_MAX,
    NA_COL_LIFETIME,
    NA_COL_CROSS_THREAD,
    NA_COL_CROSS_NODE,
    NA_COL_SAMPLES,
    NA_COUNTER_COUNT, /* the first column after them */
};

/* Fills them in the last row of `table`. Shares and the error are those of in->order. */
void na_table_counters(na_table_t *table, const na_view_input_t *in, const na_counters_t *sum);

/* Key of the column that in->order orders by. */
const char *na_counters_sort(const na_view_input_t *in);

#endif
