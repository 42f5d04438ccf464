/* sizes.h - the two distributions of object sizes. See sizes.c for their definitions. */
#ifndef NUMALLOC_BENCH_LOAD_SIZES_H
#define NUMALLOC_BENCH_LOAD_SIZES_H

#include "bench/load/prng.h"

#include <stddef.h>
#include <stdint.h>

typedef enum na_distribution {
    NA_DISTRIBUTION_UNIFORM,
    NA_DISTRIBUTION_FISHER,
} na_distribution_t;

/* As the knobs list them, in the order of the enumeration. */
#define NA_DISTRIBUTION_CHOICES "uniform|fisher"

/* Sizes are min, min+step, ..., the last one not above max. 1 <= min <= max, 1 <= step. */
typedef struct na_sizes {
    na_distribution_t distribution;
    uint64_t min, max, step; /* bytes */
} na_sizes_t;

/* The degrees of freedom of the F-distribution, and the value of F that is mapped to max. */
#define NA_FISHER_D1  4
#define NA_FISHER_D2  10
#define NA_FISHER_CUT 10.0

/* How many different sizes there are (at least one). */
uint64_t na_sizes_count(const na_sizes_t *sizes);

uint64_t na_sizes_draw(const na_sizes_t *sizes, na_prng_t *prng);

/* Draws `count` sizes into `out`. Every size must fit in 32 bits (the knobs see to it). */
void na_sizes_fill(const na_sizes_t *sizes, na_prng_t *prng, uint32_t *out, size_t count);

/* One variate of F(NA_FISHER_D1, NA_FISHER_D2), not cut. */
double na_fisher_draw(na_prng_t *prng);

#endif
