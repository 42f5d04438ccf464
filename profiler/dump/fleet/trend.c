/* trend.c - a trend and its slope. See trend.h. */
#include "profiler/dump/fleet/trend.h"

#include <math.h>
#include <stdlib.h>

#define PAIRS (NA_GROWTH_MOST * (NA_GROWTH_MOST - 1) / 2)

/* Standard deviations of the count of rising pairs: 1 in 44 by chance, one-sided. Five points that
 * all rise are 2.2. */
#define TREND 2.0
/* The same for the rise itself, of estimates. */
#define ABOVE_ERROR 2.0
/* Of the whole slope, what the second half must have. */
#define STEADY 0.25
/* Of the rise, what the lowest points must have. */
#define FLOOR 0.5
/* Of the rise: next to nothing. */
#define BEGIN 0.05

static int ascending(const void *a, const void *b) {
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

/* Slopes of all pairs, sorted; rising pairs less falling ones in *surplus. How many pairs. */
static size_t slopes_of(const na_growth_point_t *points, size_t count, double *slopes,
                        double *surplus) {
    size_t n = 0;
    *surplus = 0;
    for (size_t i = 0; i < count; i++) {
        for (size_t j = i + 1; j < count; j++) {
            double time = points[j].time - points[i].time;
            double rise = points[j].value - points[i].value;
            if (!(time > 0)) continue;
            *surplus += (rise > 0) - (rise < 0);
            slopes[n++] = rise / time;
        }
    }
    qsort(slopes, n, sizeof *slopes, ascending);
    return n;
}

static double sorted_median(const double *sorted, size_t count) {
    if (count == 0) return 0;
    return (sorted[(count - 1) / 2] + sorted[count / 2]) / 2;
}

/* Of the surplus, where there is no trend; equal values make it less. */
static double surplus_variance(const na_growth_point_t *points, size_t count) {
    double values[NA_GROWTH_MOST], n = (double)count;
    for (size_t i = 0; i < count; i++)
        values[i] = points[i].value;
    qsort(values, count, sizeof *values, ascending);
    double variance = n * (n - 1) * (2 * n + 5);
    for (size_t i = 0, same; i < count; i += same) {
        for (same = 1; i + same < count && values[i + same] == values[i];)
            same++;
        double t = (double)same;
        variance -= t * (t - 1) * (2 * t + 5);
    }
    return variance / 18;
}

/* Mean of a stretch of points, and the variance of that. */
static double mean_of(const na_growth_point_t *points, size_t count, double *variance) {
    double sum = 0;
    *variance = 0;
    for (size_t i = 0; i < count; i++) {
        sum += points[i].value;
        /* Blocks that live on are in every dump: errors of neighbours are alike, and a mean over
         * them is no better than one of them. */
        if (points[i].variance > *variance) *variance = points[i].variance;
    }
    return sum / (double)count;
}

static double lowest(const na_growth_point_t *points, size_t count) {
    double least = points[0].value;
    for (size_t i = 1; i < count; i++)
        if (points[i].value < least) least = points[i].value;
    return least;
}

na_growth_t na_growth_of(const na_growth_point_t *all, size_t all_count) {
    na_growth_t g = {.grows = false};
    na_growth_point_t points[NA_GROWTH_MOST];
    double slopes[PAIRS];
    size_t count = all_count < NA_GROWTH_MOST ? all_count : NA_GROWTH_MOST;
    for (size_t i = 0; i < count; i++)
        points[i] = all[count < 2 ? 0 : i * (all_count - 1) / (count - 1)];
    if (count < NA_GROWTH_LEAST) return g;

    double surplus;
    size_t pairs = slopes_of(points, count, slopes, &surplus);
    double deviation = sqrt(surplus_variance(points, count));
    if (pairs == 0 || !(deviation > 0)) return g;
    g.slope = sorted_median(slopes, pairs);
    double out = 1.96 * deviation; /* ranks on both sides of the middle, together */
    double first = ((double)pairs - out) / 2, last = ((double)pairs + out) / 2;
    g.low = slopes[first < 0 ? 0 : (size_t)first];
    g.high = slopes[last >= (double)pairs ? pairs - 1 : (size_t)last];

    double half_surplus;
    size_t half = count - (count + 1) / 2 + 1; /* points from the middle one on */
    size_t half_pairs = slopes_of(points + count - half, half, slopes, &half_surplus);
    double second = sorted_median(slopes, half_pairs);

    size_t third = count / 3;
    double before_variance, after_variance;
    double before = mean_of(points, third, &before_variance);
    double after = mean_of(points + count - third, third, &after_variance);
    double error = ABOVE_ERROR * sqrt(before_variance + after_variance);
    const na_growth_point_t *end = points + count - third;
    double floors = lowest(end, third) - lowest(points, third);
    double expected = g.slope * (end[0].time - points[0].time);

    double from = points[0].value, rise = points[count - 1].value - from;
    g.since = points[0].time;
    for (size_t i = 0; i < count && points[i].value <= from + BEGIN * rise; i++)
        g.since = points[i].time;
    g.grows = (surplus - 1) / deviation > TREND && g.slope > 0 && half_surplus > 0 &&
              second >= STEADY * g.slope && after - before > error && floors >= FLOOR * expected;
    return g;
}
