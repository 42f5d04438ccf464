/* site_sums.h - folds the cells of a profile, one for each (thread, site), into one line per site.
 *
 * Pure functions over the reader: nothing is printed and no symbol is looked up. Memory grows with
 * the number of sites, not with threads or events. */
#ifndef NUMALLOC_PROFILER_ANALYZE_BLOCKS_SITE_SUMS_H
#define NUMALLOC_PROFILER_ANALYZE_BLOCKS_SITE_SUMS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "profiler/analyze/blocks/metrics.h"
#include "profiler/analyze/blocks/trace_replay.h"
#include "profiler/format/reader/reader.h"

/* What is known of a site, a function, a module or the whole. Units as in na_nprof_cell_t; counts
 * marked "scaled" there are scaled here. How each figure is reduced, over threads, and where sites
 * are put together, stands in metrics.h. */
#define NA_COUNTERS_MEMBER(name, type, reduction, unit, meaning) type name;
typedef struct na_counters {
    NA_COUNTERS(NA_COUNTERS_MEMBER)
} na_counters_t;
#undef NA_COUNTERS_MEMBER

/* Nothing: zeros, but the smallest figures as large as can be. */
na_counters_t na_counters_none(void);

typedef struct na_site {
    uint32_t site;  /* stack id; NA_NPROF_NO_STACK: everything whose stack is missing */
    uint32_t cells; /* threads that allocated or freed its blocks */
    /* local_peak_bytes is exact, or within cells x header.site_quantum, as nprof.h says; false: it
     * is an upper bound only. */
    bool local_peak_known;
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
    /* Frames of the stacks of all allocations (estimated in mode sample): the mean over allocations
     * and the deepest. Stacks whose outer end is missing count by the frames that are there. */
    double depth_mean;
    uint32_t depth_max;
} na_sites_t;

/* False: out of memory. Free with na_sites_free in both cases. */
bool na_sites_fold(na_reader_t *reader, na_sites_t *sites);
/* The same; a trace's events are not read again that `replay` has played. It is closed; NULL: none
 * was opened. */
bool na_sites_fold_replay(na_reader_t *reader, na_replay_t *replay, na_sites_t *sites);
void na_sites_free(na_sites_t *sites);

typedef enum na_order {
    NA_ORDER_PEAK,  /* bytes live at the peak */
    NA_ORDER_LIVE,  /* bytes live now */
    NA_ORDER_TOTAL, /* bytes ever requested */
    NA_ORDER_COUNT, /* allocations */
} na_order_t;

/* A file may hold any value: sums wrap instead of overflowing. */
static inline int64_t na_add_signed(int64_t a, int64_t b) {
    return (int64_t)((uint64_t)a + (uint64_t)b);
}

/* Puts together by the reductions of metrics.h. `to` begins as na_counters_none. */
void na_counters_add(na_counters_t *to, const na_counters_t *from);

/* The figure that an order looks at. */
int64_t na_counters_key(const na_counters_t *sum, na_order_t order);

/* Largest first; ties: by the other figures, then by id, so that the result never varies. */
void na_sites_sort(na_sites_t *sites, na_order_t order);

/* Half the width of the 95 % interval of an estimate that stands for `count` (scaled) of the
 * allocations in `sum`, as a fraction of it; 0 if every event was seen; infinity if nothing that
 * it stands for was sampled. */
double na_counters_error(const na_counters_t *sum, int64_t count, uint32_t count_scale);

/* The same for a figure itself, by the variance that the recorder summed up: blocks of different
 * sizes at one site are drawn with different probabilities. For the figures at the peak there is
 * only na_counters_error. */
typedef enum na_estimate {
    NA_ESTIMATE_ALLOC_BYTES,
    NA_ESTIMATE_ALLOC_COUNT,
    NA_ESTIMATE_LIVE_BYTES,
    NA_ESTIMATE_LIVE_COUNT,
} na_estimate_t;
double na_counters_estimate_error(const na_counters_t *sum, na_estimate_t figure,
                                  uint32_t count_scale);

#endif
