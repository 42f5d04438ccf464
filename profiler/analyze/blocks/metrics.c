/* metrics.c - the tables of metrics.h as data. */
#include "profiler/analyze/blocks/metrics.h"

#include <math.h>

#include "profiler/analyze/blocks/site_sums.h"

const na_site_metric_t na_metrics[] = {
#define ROW(name, type, reduction, unit, meaning)                                                  \
    {#name, meaning, NA_UNIT_##unit, false, false, NA_REDUCTION_##reduction},
    NA_COUNTERS(ROW)
#undef ROW
#define ROW(name, unit, alone, above, below, meaning)                                              \
    {#name, meaning, NA_UNIT_##unit, true, alone, NA_REDUCTION_SUM},
        NA_DERIVED(ROW)
#undef ROW
};

size_t na_metric_count(void) {
    return sizeof na_metrics / sizeof na_metrics[0];
}

const char *na_reduction_name(na_reduction_t reduction) {
    switch (reduction) {
    case NA_REDUCTION_MAX:
        return "max";
    case NA_REDUCTION_MIN:
        return "min";
    case NA_REDUCTION_OR:
        return "or";
    case NA_REDUCTION_SUM:
    default:
        return "sum";
    }
}

static double in_unit(double value, na_unit_t unit, uint32_t count_scale) {
    bool scaled = unit == NA_UNIT_COUNT || unit == NA_UNIT_AGE_SUM;
    return scaled && count_scale > 1 ? value / (double)count_scale : value;
}

#define UNIT_OF(name) unit_of_##name
enum {
#define ROW(name, type, reduction, unit, meaning) UNIT_OF(name) = NA_UNIT_##unit,
    NA_COUNTERS(ROW)
#undef ROW
};

double na_metric_value(size_t metric, const struct na_counters *of, uint32_t count_scale) {
    size_t i = 0;
#define ROW(name, type, reduction, unit, meaning)                                                  \
    if (i++ == metric) {                                                                           \
        bool none = NA_REDUCTION_##reduction == NA_REDUCTION_MIN && (double)of->name >= 0x1p64;    \
        return none ? NAN : in_unit((double)of->name, NA_UNIT_##unit, count_scale);                \
    }
    NA_COUNTERS(ROW)
#undef ROW
#define ROW(name, unit, alone, above, below, meaning)                                              \
    if (i++ == metric) {                                                                           \
        double under = in_unit((double)of->below, (na_unit_t)UNIT_OF(below), count_scale);         \
        double over = in_unit((double)of->above, (na_unit_t)UNIT_OF(above), count_scale);          \
        return under > 0 ? over / under : NAN;                                                     \
    }
    NA_DERIVED(ROW)
#undef ROW
    return NAN;
}
