/* counters.c - figures to cells. See counters.h. */
#include "profiler/dump/counters.h"

#include <math.h>

const char *na_counters_sort(const na_view_input_t *in) {
    static const char *const keys[] = {
        [NA_ORDER_PEAK] = "peak_bytes",
        [NA_ORDER_LIVE] = "live_bytes",
        [NA_ORDER_TOTAL] = "total_bytes",
        [NA_ORDER_COUNT] = "allocations",
    };
    return keys[in->order];
}

/* In mode sites nothing has an error. */
static double error_of(const na_view_input_t *in, const na_counters_t *sum) {
    const na_nprof_header_t *h = na_reader_header(in->reader);
    if (h->mode != NA_NPROF_MODE_SAMPLE || sum->raw_allocs == 0) return NAN;
    int64_t count = in->order == NA_ORDER_PEAK   ? sum->peak_count
                    : in->order == NA_ORDER_LIVE ? sum->live_count
                                                 : (int64_t)sum->alloc_count;
    return na_counters_error(sum, count, h->count_scale);
}

void na_table_counters(na_table_t *table, const na_view_input_t *in, const na_counters_t *sum) {
    double all = (double)na_counters_key(&in->sites.total, in->order);
    double allocs = na_view_count(in, (double)sum->alloc_count);
    double frees = na_view_count(in, (double)sum->free_count);
    bool sizes = sum->size_min <= sum->size_max;
    const double values[NA_COUNTER_COUNT] = {
        [NA_COL_PEAK] = (double)sum->peak_bytes,
        [NA_COL_SHARE] = all > 0 ? (double)na_counters_key(sum, in->order) / all : NAN,
        [NA_COL_LIVE] = (double)sum->live_bytes,
        [NA_COL_TOTAL] = (double)sum->alloc_bytes,
        [NA_COL_ALLOCATIONS] = allocs,
        [NA_COL_ERROR] = error_of(in, sum),
        [NA_COL_PEAK_BLOCKS] = na_view_count(in, (double)sum->peak_count),
        [NA_COL_LIVE_BLOCKS] = na_view_count(in, (double)sum->live_count),
        [NA_COL_LIVE_USABLE] = (double)sum->live_usable,
        [NA_COL_TOTAL_USABLE] = (double)sum->alloc_usable,
        [NA_COL_FREES] = frees,
        [NA_COL_FREED] = (double)sum->free_bytes,
        [NA_COL_REALLOCS] = na_view_count(in, (double)sum->realloc_count),
        [NA_COL_SIZE_MIN] = sizes ? (double)sum->size_min : NAN,
        [NA_COL_SIZE_MEAN] = allocs > 0 ? (double)sum->alloc_bytes / allocs : NAN,
        [NA_COL_SIZE_MAX] = sizes ? (double)sum->size_max : NAN,
        [NA_COL_LIFETIME] =
            sum->free_count > 0 ? (double)sum->lifetime_sum_ms / (double)sum->free_count : NAN,
        [NA_COL_CROSS_THREAD] = na_view_count(in, (double)sum->cross_thread_free_count),
        [NA_COL_CROSS_NODE] = na_view_count(in, (double)sum->cross_node_free_count),
        [NA_COL_SAMPLES] = na_reader_header(in->reader)->mode == NA_NPROF_MODE_SAMPLE
                               ? (double)sum->raw_allocs
                               : NAN,
    };
    for (size_t i = 0; i < NA_COUNTER_COUNT; i++)
        na_table_number(table, i, values[i]);
}
