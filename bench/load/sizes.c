/* sizes.c - draws object sizes.
 *
 * uniform: every size of the ladder min, min+step, ... is equally likely.
 *
 * fisher: Fisher's F-distribution, the ratio of two mean squares, here with 4 and 10 degrees of
 * freedom: many small objects and a long tail of large ones, as programs have it. The part of F up
 * to 10 is stretched over the ladder (the rest, 0.16 % of the draws, is drawn again), which puts
 * the mode at about 4 % and the mean at about 12 % of the way from min to max.
 *
 * With an even number d of degrees of freedom a chi-square variate is -2 ln of the product of d/2
 * uniform ones, so the draw is exact and needs no table. */
#include "bench/load/sizes.h"

#include <math.h>

_Static_assert(NA_FISHER_D1 % 2 == 0 && NA_FISHER_D2 % 2 == 0,
               "the product formula needs even degrees of freedom");

static double chi_square_over_degrees(na_prng_t *prng, unsigned degrees) {
    double product = 1.0;
    for (unsigned i = 0; i < degrees / 2; i++)
        product *= na_prng_open01(prng);
    return -2.0 * log(product) / (double)degrees;
}

double na_fisher_draw(na_prng_t *prng) {
    double numerator = chi_square_over_degrees(prng, NA_FISHER_D1);
    return numerator / chi_square_over_degrees(prng, NA_FISHER_D2);
}

uint64_t na_sizes_count(const na_sizes_t *sizes) {
    return (sizes->max - sizes->min) / sizes->step + 1;
}

uint64_t na_sizes_draw(const na_sizes_t *sizes, na_prng_t *prng) {
    uint64_t count = na_sizes_count(sizes);
    uint64_t rung;
    if (sizes->distribution == NA_DISTRIBUTION_FISHER) {
        double f;
        do
            f = na_fisher_draw(prng);
        while (f >= NA_FISHER_CUT);
        rung = (uint64_t)(f / NA_FISHER_CUT * (double)count);
        if (rung >= count) /* rounding of the product just below the cut */
            rung = count - 1;
    } else {
        rung = na_prng_scale(na_prng_next(prng), count);
    }
    return sizes->min + rung * sizes->step;
}

void na_sizes_fill(const na_sizes_t *sizes, na_prng_t *prng, uint32_t *out, size_t count) {
    for (size_t i = 0; i < count; i++)
        out[i] = (uint32_t)na_sizes_draw(sizes, prng);
}
