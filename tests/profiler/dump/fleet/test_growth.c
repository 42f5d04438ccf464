/* test_growth.c - trend.c: what grows steadily, and what only looks like it. */
#include <criterion/criterion.h>
#include <math.h>
#include <stdint.h>

#include "profiler/dump/fleet/trend.h"

static uint64_t seed;

static double noise(void) { /* uniform in -1 .. 1 */
    seed = seed * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
    return (double)(int64_t)seed / 9223372036854775808.0;
}

typedef double (*curve_t)(double part);

static na_growth_t judged(curve_t curve, size_t count, double spread, double variance) {
    na_growth_point_t points[200];
    for (size_t i = 0; i < count; i++) {
        double part = (double)i / (double)(count - 1);
        points[i] = (na_growth_point_t){part * 100, curve(part) + spread * noise(), variance};
    }
    return na_growth_of(points, count);
}

static double line(double part) {
    return 1000 + 500 * part;
}
static double flat(double part) {
    return 1000 + 0 * part;
}
static double falls(double part) {
    return 1000 - 500 * part;
}
static double fills(double part) {
    return part < 0.3 ? 5000 * part : 1500;
}
static double settles(double part) {
    return 1000 * (1 - exp(-8 * part));
}
static double steps(double part) {
    return part < 0.4 ? 100 : 900;
}
static double late(double part) {
    return part < 0.5 ? 100 : 100 + 800 * (part - 0.5);
}
static double saw(double part) {
    return 1000 + 300 * fmod(part * 3, 1);
}

Test(growth, a_line_grows) {
    for (size_t count = NA_GROWTH_LEAST; count <= 200; count += 13) {
        na_growth_t g = judged(line, count, 0, 0);
        cr_assert(g.grows, "%zu points", count);
        cr_assert_float_eq(g.slope, 5, 1e-9);
        cr_assert(g.low <= g.slope && g.slope <= g.high);
    }
    cr_assert(!judged(line, NA_GROWTH_LEAST - 1, 0, 0).grows);
    cr_assert(!judged(line, 0, 0, 0).grows && !judged(line, 1, 0, 0).grows);
}

Test(growth, what_fills_up_or_falls_does_not) {
    for (size_t count = 6; count <= 200; count += 7) {
        cr_assert(!judged(flat, count, 0, 0).grows);
        cr_assert(!judged(falls, count, 0, 0).grows);
        cr_assert(!judged(fills, count, 0, 0).grows, "%zu", count);
        cr_assert(!judged(steps, count, 0, 0).grows, "%zu", count);
    }
    for (size_t count = 9; count <= 200; count += 7) {
        cr_assert(!judged(settles, count, 0, 0).grows, "%zu", count);
        cr_assert(!judged(saw, count, 0, 0).grows, "%zu", count);
    }
}

Test(growth, since_when) {
    na_growth_t g = judged(late, 41, 0, 0);
    cr_assert(g.grows && g.since >= 50 && g.since <= 57, "since %g", g.since);
    cr_assert(judged(line, 41, 0, 0).since <= 5);
}

Test(growth, errors_of_estimates) {
    cr_assert(judged(line, 20, 0, 50 * 50).grows);
    cr_assert(!judged(line, 20, 0, 400 * 400).grows, "a rise of 500, give or take 800");
}

/* Independent noise passes for growth about as often as it should by the test of trend alone, 1 in
 * 44, and less by the other conditions; the interval holds the truth in 95 % or more. */
Test(growth, noise) {
    size_t grows = 0, holds = 0, missed = 0, all = 4000;
    for (seed = 1; all-- > 0;) {
        grows += judged(flat, 12, 100, 0).grows;
        na_growth_t g = judged(line, 12, 100, 0);
        missed += !g.grows;
        holds += g.low <= 5 && 5 <= g.high;
    }
    cr_assert(grows <= 4000 / 44, "%zu of 4000 flat ones grow", grows);
    cr_assert(holds >= 4000 * 93 / 100, "the interval holds in %zu of 4000", holds);
    cr_assert(missed < 4000 / 20, "%zu of 4000 that grow are missed", missed);
}

Test(growth, times_that_are_equal) {
    na_growth_point_t points[8] = {0};
    for (size_t i = 0; i < 8; i++)
        points[i].value = (double)i;
    cr_assert(!na_growth_of(points, 8).grows);
}
