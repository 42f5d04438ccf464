/* metric_keys.h - the names of metrics that users see (JSON, CSV, --sort, profile.h), where they
 * are not those of metrics.h, and values in the unit that these names say. */
#ifndef NUMALLOC_PROFILER_ANALYZE_BLOCKS_METRIC_KEYS_H
#define NUMALLOC_PROFILER_ANALYZE_BLOCKS_METRIC_KEYS_H

#include "profiler/analyze/blocks/site_sums.h"

/* NULL: internal, not shown. */
const char *na_metric_key(size_t metric);

/* Ages in milliseconds, counts unscaled. NaN: none. */
double na_metric_shown(const na_nprof_header_t *header, size_t metric, const na_counters_t *sum);

/* Time of the peak that the figures are about, in ms. */
uint64_t na_peak_ms(const na_nprof_header_t *header, const na_sites_t *sites);

#endif
