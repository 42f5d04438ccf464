/* test_sampler.c - track.c: the sampler's draws and what it does to a running allocator, as
 * statistics. Seeds are fixed, so that a run is repeatable; the tolerances are 4.5 standard errors.
 */
#include <criterion/criterion.h>
#include <math.h>

#include "alloc/core/cache/bin.h"
#include "alloc/core/cache/thread_cache.h"
#include "alloc/core/malloc/api.h"
#include "alloc/core/thread/attach.h"
#include "alloc/core/track/track.h"
#include "pagemap/pagemap.h"

#define SIGMAS 4.5

TestSuite(sampler, .init = na_init);

Test(sampler, off_is_never) {
    static na_track_t track;
    na_sampler_seed(&track);
    cr_assert_neq(track.random, 0);
    uint8_t step;
    cr_assert_eq(na_sampler_draw(&track, 16, &step), INT64_MAX);
    cr_assert_eq(na_sampler_draw_number(&track, &step), INT64_MAX);
    cr_assert_eq(na_sampler_draw_bytes(&track), INT64_MAX);
}

Test(sampler, draws_are_exponential) {
    enum { DRAWS = 200000 };
    static na_track_t track;
    track.random = 12345;
    na_sample_interval = 100000;
    double mean = (double)na_sample_interval, sum = 0, squares = 0;
    unsigned beyond[4] = {0}; /* of 0.1, 0.5, 1 and 3 intervals */
    const double steps[4] = {0.1, 0.5, 1, 3};
    for (unsigned i = 0; i < DRAWS; i++) {
        int64_t draw = na_sampler_draw_bytes(&track);
        cr_assert_geq(draw, 1);
        double x = (double)draw / mean;
        sum += x;
        squares += x * x;
        for (unsigned k = 0; k < 4; k++)
            beyond[k] += x >= steps[k];
    }
    /* E X = 1, sd 1; E X^2 = 2, sd sqrt(20) */
    cr_assert_lt(fabs(sum / DRAWS - 1), SIGMAS / sqrt(DRAWS), "mean %f", sum / DRAWS);
    cr_assert_lt(fabs(squares / DRAWS - 2), SIGMAS * sqrt(20.0 / DRAWS));
    for (unsigned k = 0; k < 4; k++) {
        double p = exp(-steps[k]);
        cr_assert_lt(fabs(beyond[k] / (double)DRAWS - p), SIGMAS * sqrt(p * (1 - p) / DRAWS),
                     "beyond %f: %u", steps[k], beyond[k]);
    }
}

/* For guards: so many blocks of whatever size, by the step that holds as they are drawn. */
Test(sampler, draws_by_number) {
    enum { DRAWS = 100000 };
    static na_track_t track;
    track.random = 12345;
    na_sample_interval = NA_SAMPLE_EACH;
    const uint32_t sizes[] = {16, 48, 8192};
    const uint8_t steps[] = {16, 53, 100};
    for (unsigned s = 0; s < 3; s++) {
        na_sample_step = steps[s];
        double each = na_sampler_each(steps[s]), sum = 0;
        cr_assert_float_eq(each, pow(2, steps[s] / 8.0), 1e-9 * each);
        unsigned drawn = 0; /* of the first block */
        uint8_t step = 0;
        for (unsigned i = 0; i < DRAWS; i++) {
            int64_t draw = na_sampler_draw(&track, sizes[s], &step);
            cr_assert_eq(step, steps[s]);
            sum += (double)draw / sizes[s];
            drawn += draw < (int64_t)sizes[s];
        }
        double p = na_sampler_chance(sizes[s], step);
        cr_assert_float_eq(p, 1 - exp(-1 / each), 1e-9);
        cr_assert_lt(fabs(sum / DRAWS - each), SIGMAS * each / sqrt(DRAWS) + 0.1);
        cr_assert_lt(fabs(drawn - p * DRAWS), SIGMAS * sqrt(p * (1 - p) * DRAWS));
        cr_assert_eq(na_sampler_draw_bytes(&track), INT64_MAX);
        /* Large ones: their number. */
        na_sample_large_step = steps[s];
        sum = drawn = 0;
        for (unsigned i = 0; i < DRAWS; i++) {
            int64_t draw = na_sampler_draw_number(&track, &step);
            cr_assert(draw >= 1 && step == steps[s]);
            sum += (double)draw;
            drawn += draw == 1;
        }
        cr_assert_lt(fabs(sum / DRAWS - 1 / p), SIGMAS / p / sqrt(DRAWS));
        cr_assert_lt(fabs(drawn - p * DRAWS), SIGMAS * sqrt(p * (1 - p) * DRAWS));
    }
    /* More of a class that is preferred, and of the last ones that were. */
    na_sample_step = 100;
    uint8_t preferred;
    na_sampler_prefer(48);
    na_sampler_draw(&track, 48, &preferred);
    cr_assert_float_eq(na_sampler_each(preferred) * NA_SAMPLE_MORE, na_sampler_each(100), 1e-6);
    na_sampler_draw(&track, 64, &preferred);
    cr_assert_eq(preferred, 100);
    for (uint32_t size = 64; size < 64 + NA_SAMPLE_PREFERRED * 16; size += 16)
        na_sampler_prefer(size);
    na_sampler_draw(&track, 64, &preferred);
    cr_assert_lt(preferred, 100);
    na_sampler_draw(&track, 48, &preferred);
    cr_assert_eq(preferred, 100);
    na_sample_step = 5;
    na_sampler_draw(&track, 64, &preferred);
    cr_assert_eq(preferred, 0);

    na_sample_fixed = 1;
    na_sample_step = NA_SAMPLE_FIXED;
    uint8_t step;
    cr_assert_eq(na_sampler_draw(&track, 100, &step), 1); /* every one */
    cr_assert_eq(na_sampler_chance(100, step), 1);
    na_sample_fixed = 3;
    cr_assert_float_eq(na_sampler_chance(100, step), 1 - exp(-1.0 / 3), 1e-9);
    na_sample_interval = 1000; /* by bytes */
    const size_t usable[] = {1, 100, 1000, 5000, 100000};
    for (unsigned i = 0; i < 5; i++)
        cr_assert_float_eq(na_sampler_chance(usable[i], 0), 1 - exp(-(double)usable[i] / 1000),
                           1e-8);
}

/* A block of b bytes is sampled with probability 1 - exp(-b / interval), whatever lies between. */
static void check_share(size_t size, unsigned blocks) {
    unsigned sampled = 0;
    size_t usable = 0;
    for (unsigned i = 0; i < blocks; i++) {
        void *block = NA_FN(malloc)(size);
        sampled += na_span_of(block)->sampled;
        usable = NA_FN(malloc_usable_size)(block);
        NA_FN(free)(block);
    }
    double p = 1 - exp(-(double)usable / (double)na_sample_interval);
    double sigma = sqrt(p * (1 - p) * blocks);
    cr_assert_lt(fabs(sampled - p * blocks), SIGMAS * sigma,
                 "%zu bytes: %u of %u, expected %f +- %f", size, sampled, blocks, p * blocks,
                 sigma);
}

Test(sampler, share_of_blocks) {
    na_sample_interval = 4096; /* before the first block */
    /* The first block makes the thread cache; its seed then becomes a fixed one. */
    NA_FN(free)(NA_FN(malloc)(1));
    na_self->track.random = 98765;
    for (unsigned cls = 1; cls < NA_CLASS_COUNT; cls++)
        na_bin_begin(na_self, cls);
    check_share(16, 400000);
    check_share(48, 200000);
    check_share(64, 200000);
    check_share(1000, 20000);
    check_share(8192, 5000);
}

Test(sampler, every_block) {
    na_sample_interval = NA_SAMPLE_ALL;
    NA_FN(free)(NA_FN(malloc)(1));
    for (unsigned i = 0; i < 20000; i++) {
        void *block = NA_FN(malloc)(i % 500 == 0 ? 100000 : i % 100);
        const na_span_t *span = na_span_of(block);
        cr_assert(span->sampled || span->records != NULL, "block %u", i);
        NA_FN(free)(block);
    }
}

/* Most blocks are samples here: their spans fill, drain and fill again. */
Test(sampler, sampled_blocks_come_back) {
    na_sample_interval = 64;
    enum { MANY = 5000 };
    static void *blocks[MANY];
    for (unsigned round = 0; round < 3; round++) {
        for (unsigned i = 0; i < MANY; i++) {
            blocks[i] = NA_FN(malloc)(100);
            cr_assert_not_null(blocks[i]);
            ((char *)blocks[i])[99] = 1;
        }
        for (unsigned i = 0; i < MANY; i++)
            NA_FN(free)(blocks[i]);
    }
}
