/* stats.c - order statistics of a handful of measurements.
 *
 * Medians and quartiles only: timings have a floor and a long tail of disturbances, for which means
 * and standard deviations are poor words. */
#include "bench/measure/stats.h"

#include <math.h>

/* Shell sort: qsort() of the C library may call malloc, which is the thing under test. */
static void sort_values(double *v, size_t count) {
    static const size_t gaps[] = {29524, 9841, 3280, 1093, 364, 121, 40, 13, 4, 1};
    for (size_t g = 0; g < sizeof gaps / sizeof gaps[0]; g++) {
        size_t gap = gaps[g];
        for (size_t i = gap; i < count; i++) {
            double x = v[i];
            size_t j = i;
            for (; j >= gap && v[j - gap] > x; j -= gap)
                v[j] = v[j - gap];
            v[j] = x;
        }
    }
}

double na_stats_quantile(const double *sorted, size_t count, double q) {
    double place = q * (double)(count - 1);
    size_t below = (size_t)place;
    if (below + 1 >= count) return sorted[count - 1];
    double share = place - (double)below;
    return sorted[below] + share * (sorted[below + 1] - sorted[below]);
}

na_stats_t na_stats_of(double *samples, size_t count) {
    na_stats_t stats = {0};
    if (count == 0) return stats;
    sort_values(samples, count);
    stats.count = count;
    stats.min = samples[0];
    stats.q1 = na_stats_quantile(samples, count, 0.25);
    stats.median = na_stats_quantile(samples, count, 0.5);
    stats.q3 = na_stats_quantile(samples, count, 0.75);
    stats.max = samples[count - 1];
    return stats;
}

static double percent_of_median(const na_stats_t *stats, double distance) {
    double size = fabs(stats->median);
    return size > 0 ? 100.0 * distance / size : 0.0;
}

double na_stats_spread(const na_stats_t *stats) {
    return percent_of_median(stats, stats->q3 - stats->q1);
}

double na_stats_range(const na_stats_t *stats) {
    return percent_of_median(stats, stats->max - stats->min);
}

double na_stats_paired_ratio(const double *a, const double *b, size_t count, double *scratch) {
    size_t pairs = 0;
    for (size_t i = 0; i < count; i++)
        if (a[i] > 0 && b[i] > 0) scratch[pairs++] = a[i] / b[i];
    return na_stats_of(scratch, pairs).median;
}
