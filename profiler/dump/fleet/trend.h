/* trend.h - does a figure that was seen a few times grow steadily? Pure.
 *
 * Mann and Kendall's test: of all pairs of points, how many more rise than fall, against what
 * chance would make of it. It asks for an order only: one large step does not make a trend, and an
 * outlier does not hide one. How fast: Theil and Sen's slope, the median of the slopes of all
 * pairs, with the interval of ranks that holds it with 95 % (Sen 1968).
 *
 * Figures that fill up (caches, pools, the start of a program) rise as well. So the second half of
 * the time has to rise by itself, at a quarter of the pace of the whole at least. Garbage that is
 * collected now and then makes teeth that rise: the lowest points have to rise, too. And of
 * estimates the rise has to be larger than their errors. */
#ifndef NUMALLOC_PROFILER_DUMP_FLEET_TREND_H
#define NUMALLOC_PROFILER_DUMP_FLEET_TREND_H

#include <stdbool.h>
#include <stddef.h>

#define NA_GROWTH_LEAST 5u  /* points: with less, chance alone makes a trend too easily */
#define NA_GROWTH_MOST  64u /* points that are looked at; of more, evenly spaced ones */

typedef struct na_growth_point {
    double time, value;
    double variance; /* of the value, where it is an estimate; 0: exact */
} na_growth_point_t;

typedef struct na_growth {
    bool grows;
    double slope, low, high; /* per unit of time; 95 % interval */
    double since;            /* the last time at which next to nothing of the rise was there */
} na_growth_t;

/* Points in the order of their times, which ascend. */
na_growth_t na_growth_of(const na_growth_point_t *points, size_t count);

#endif
