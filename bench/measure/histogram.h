/* histogram.h - counts of durations in buckets that are 1/64 wide at most, relative to the value:
 * a quantile is right within 0.8 %, in 15 KiB however many durations there are.
 *
 * A histogram belongs to one thread at a time. The zeroed structure is an empty one. */
#ifndef NUMALLOC_BENCH_MEASURE_HISTOGRAM_H
#define NUMALLOC_BENCH_MEASURE_HISTOGRAM_H

#include <stdint.h>

#define NA_HISTOGRAM_BITS    6 /* buckets of an octave, as a power of two */
#define NA_HISTOGRAM_BUCKETS ((64 - NA_HISTOGRAM_BITS + 1) << NA_HISTOGRAM_BITS)

typedef struct na_histogram {
    uint64_t count, max; /* max is exact */
    uint32_t bucket[NA_HISTOGRAM_BUCKETS];
} na_histogram_t;

/* Values below 2^(BITS+1) have a bucket each. */
static inline unsigned na_histogram_place(uint64_t value) {
    if (value < (UINT64_C(2) << NA_HISTOGRAM_BITS)) return (unsigned)value;
    unsigned octave = 63 - (unsigned)__builtin_clzll(value);
    unsigned shift = octave - NA_HISTOGRAM_BITS;
    return (shift << NA_HISTOGRAM_BITS) + (unsigned)(value >> shift);
}

/* The middle of a bucket. */
static inline double na_histogram_value(unsigned place) {
    if (place < (2u << NA_HISTOGRAM_BITS)) return (double)place;
    unsigned shift = (place >> NA_HISTOGRAM_BITS) - 1;
    uint64_t begin = (uint64_t)(place - (shift << NA_HISTOGRAM_BITS)) << shift;
    return (double)begin + (double)((UINT64_C(1) << shift) - 1) / 2;
}

static inline void na_histogram_add(na_histogram_t *histogram, uint64_t value) {
    histogram->bucket[na_histogram_place(value)]++;
    histogram->count++;
    if (value > histogram->max) histogram->max = value;
}

/* The smallest value with at least the share q (0 < q <= 1) of all values at or below it; 0 when
 * there are none. */
static inline double na_histogram_quantile(const na_histogram_t *histogram, double q) {
    double wanted = q * (double)histogram->count;
    uint64_t seen = 0;
    for (unsigned place = 0; place < NA_HISTOGRAM_BUCKETS; place++) {
        seen += histogram->bucket[place];
        if (seen != 0 && (double)seen >= wanted) {
            double value = na_histogram_value(place), max = (double)histogram->max;
            return value < max ? value : max;
        }
    }
    return 0;
}

static inline void na_histogram_merge(na_histogram_t *into, const na_histogram_t *from) {
    for (unsigned place = 0; place < NA_HISTOGRAM_BUCKETS; place++)
        into->bucket[place] += from->bucket[place];
    into->count += from->count;
    if (from->max > into->max) into->max = from->max;
}

#endif
