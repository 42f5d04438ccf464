/* prng.h - the suite's own random numbers: SplitMix64, one word of state.
 *
 * A draw costs about a nanosecond, so that drawing inside a timed loop stays small beside the
 * malloc that it is drawn for, and the same seed gives the same sequence with every allocator. Not
 * for secrets. A generator belongs to one thread. */
#ifndef NUMALLOC_BENCH_LOAD_PRNG_H
#define NUMALLOC_BENCH_LOAD_PRNG_H

#include <stdint.h>

typedef struct na_prng {
    uint64_t state;
} na_prng_t;

static inline uint64_t na_prng_mix(uint64_t z) {
    z = (z ^ (z >> 30)) * UINT64_C(0xbf58476d1ce4e5b9);
    z = (z ^ (z >> 27)) * UINT64_C(0x94d049bb133111eb);
    return z ^ (z >> 31);
}

/* Streams of one seed are unrelated points of the one cycle of 2^64: two of them meeting within a
 * run of 2^32 draws has a probability of about 2^-31. */
static inline na_prng_t na_prng_make(uint64_t seed, uint64_t stream) {
    na_prng_t prng = {na_prng_mix(na_prng_mix(seed + UINT64_C(0x9e3779b97f4a7c15)) ^
                                  na_prng_mix(stream + UINT64_C(0xd1b54a32d192ed03)))};
    return prng;
}

static inline uint64_t na_prng_next(na_prng_t *prng) {
    prng->state += UINT64_C(0x9e3779b97f4a7c15);
    return na_prng_mix(prng->state);
}

/* The high half of `random` scaled to 0 .. bound-1, for bound <= 2^32. The low half stays free for
 * a second use of the same draw. The bias is below bound / 2^32. */
static inline uint64_t na_prng_scale(uint64_t random, uint64_t bound) {
    return ((random >> 32) * bound) >> 32;
}

/* Uniform in the open interval (0, 1): a logarithm of it is always finite. */
static inline double na_prng_open01(na_prng_t *prng) {
    return ((double)(na_prng_next(prng) >> 12) + 0.5) * 0x1p-52;
}

#endif
