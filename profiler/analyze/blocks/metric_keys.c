/* metric_keys.c - see metric_keys.h. */
#include "profiler/analyze/blocks/metric_keys.h"

#include <string.h>

#include "profiler/analyze/blocks/detail.h"

/* Names that users see, where they are not those of metrics.h. */
static const struct {
    const char *metric, *key;
} names[] = {
    {"alloc_count", "allocations"},
    {"alloc_bytes", "total_bytes"},
    {"alloc_usable", "total_usable_bytes"},
    {"free_count", "frees"},
    {"free_bytes", "freed_bytes"},
    {"free_usable", "freed_usable_bytes"},
    {"live_count", "live_blocks"},
    {"live_usable", "live_usable_bytes"},
    {"peak_count", "peak_blocks"},
    {"lifetime_sum", "lifetime_sum_ms"},
    {"lifetime_min", "lifetime_min_ms"},
    {"lifetime_max", "lifetime_max_ms"},
    {"lifetime_mean", "lifetime_mean_ms"},
    {"temporary_count", "temporary"},
    {"cross_thread_free_count", "cross_thread_frees"},
    {"cross_node_free_count", "cross_node_frees"},
    {"realloc_count", "reallocs"},
    {"raw_allocs", "samples"},
    {"raw_frees", "free_samples"},
    {"aligned_count", "aligned"},
};

const char *na_metric_key(size_t metric) {
    if (na_metrics[metric].unit == NA_UNIT_VARIANCE) return NULL;
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++)
        if (strcmp(names[i].metric, na_metrics[metric].name) == 0) return names[i].key;
    return na_metrics[metric].name;
}

double na_metric_shown(const na_nprof_header_t *h, size_t metric, const na_counters_t *sum) {
    double value = na_metric_value(metric, sum, h->count_scale);
    na_unit_t unit = na_metrics[metric].unit;
    return unit == NA_UNIT_AGE || unit == NA_UNIT_AGE_SUM ? value * na_age_ns(h) / 1e6 : value;
}

uint64_t na_peak_ms(const na_nprof_header_t *h, const na_sites_t *sites) {
    return sites->peak_is_now || h->peak_ms > h->last_ms ? h->last_ms : h->peak_ms;
}
