/* sites.h - folds the cells of a profile, one for each (thread, site), into one line per site.
 *
 * Pure functions over the reader: nothing is printed and no symbol is looked up. Memory grows with
 * the number of sites, not with threads or events. */
#ifndef NUMALLOC_PROFILER_ANALYZE_SITES_H
#define NUMALLOC_PROFILER_ANALYZE_SITES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "profiler/format/reader.h"

/* Sums over threads. Units as in na_nprof_cell_t; counts marked "scaled" there are scaled here. */
typedef struct na_counters {
    uint64_t alloc_count, alloc_bytes, alloc_usable;
    uint64_t free_count, free_bytes, free_usable;
    uint64_t realloc_count, cross_thread_free_count, cross_node_free_count, lifetime_sum_ms;
    uint64_t raw_allocs, raw_frees;
    uint64_t size_min, size_max; /* UINT64_MAX and 0: no allocation seen */
    int64_t peak_bytes, peak_count;
    int64_t live_bytes, live_count, live_usable; /* now, that is, when the file was last written */
} na_counters_t;

typedef struct na_site {
    uint32_t site;  /* stack id; NA_NPROF_NO_STACK: everything whose stack is missing */
    uint32_t cells; /* threads that allocated or freed its blocks */
    na_counters_t sum;
} na_site_t;

typedef struct na_sites {
    na_site_t *items; /* in the order of ids */
    size_t count;
    na_counters_t total;
    uint64_t cells;
    /* More lives now than at the last peak that was published: now is the peak, and the sites'
     * peak figures are their live figures. The time is then header.last_ms, not header.peak_ms. */
    bool peak_is_now;
} na_sites_t;

/* False: out of memory. Free with na_sites_free in both cases. */
bool na_sites_fold(na_reader_t *reader, na_sites_t *sites);
void na_sites_free(na_sites_t *sites);

typedef enum na_order {
    NA_ORDER_PEAK,  /* bytes live at the peak */
    NA_ORDER_LIVE,  /* bytes live now */
    NA_ORDER_TOTAL, /* bytes ever requested */
    NA_ORDER_COUNT, /* allocations */
} na_order_t;

/* Adds up. `to` begins as zeros, but size_min as UINT64_MAX. */
void na_counters_add(na_counters_t *to, const na_counters_t *from);

/* The figure that an order looks at. */
int64_t na_counters_key(const na_counters_t *sum, na_order_t order);

/* Largest first; ties: by the other figures, then by id, so that the result never varies. */
void na_sites_sort(na_sites_t *sites, na_order_t order);

/* Half the width of the 95 % interval of an estimate that stands for `count` (scaled) of the
 * allocations in `sum`, as a fraction of it; 0 if every event was seen; infinity if nothing that
 * it stands for was sampled. */
double na_counters_error(const na_counters_t *sum, int64_t count, uint32_t count_scale);

#endif
