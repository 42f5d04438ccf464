/* test_tiers.c - tier_verdicts.c: which sites are near, where near memory has no room for all. */
#include <criterion/criterion.h>
#include <math.h>
#include <string.h>

#include "profiler/analyze/policy/tier_verdicts.h"

#define MOST 64

static na_tier_site_t sites[MOST];
static size_t count;
static na_tiers_t tiers;

/* Draws as a source has them of which each says the same: `all` in all. */
static void site(double bytes, double share, double all) {
    sites[count++] = (na_tier_site_t){.bytes = bytes, .share = share, .draws = share * all};
}

/* "NF-": near, far, left alone. */
static const char *divided(double budget, double draws, double least) {
    static char text[MOST + 1];
    cr_assert(na_tiers_divide(sites, count, budget, draws, least, &tiers));
    double near = 0, alone = 0, bytes = 0;
    for (size_t i = 0; i < count; i++) {
        text[i] = "-NF"[sites[i].tier];
        bytes += sites[i].bytes;
        if (sites[i].tier == NA_TIER_NEAR) near += sites[i].bytes;
        if (sites[i].tier == NA_TIER_ALONE) alone += sites[i].bytes;
        cr_assert(sites[i].chance >= 0 && sites[i].chance <= 1, "chance %g", sites[i].chance);
    }
    text[count] = 0;
    cr_assert_float_eq(tiers.bytes, bytes, 1e-6);
    cr_assert_float_eq(tiers.near, near, 1e-6);
    cr_assert_float_eq(tiers.alone, alone, 1e-6);
    return text;
}

static void is(double budget, double draws, double least, const char *wanted) {
    const char *got = divided(budget, draws, least);
    cr_assert(strcmp(got, wanted) == 0, "divided '%s', expected '%s'", got, wanted);
}

Test(tiers, nothing) {
    is(100, 1000, 0.01, "");
    cr_assert_eq(tiers.say, NA_TIERS_ALL_FIT);
}

Test(tiers, hottest_for_each_byte_first) {
    site(600, 0.50, 1000); /* most accesses, but of most bytes */
    site(100, 0.20, 1000);
    site(200, 0.25, 1000);
    site(100, 0.05, 1000);
    is(300, 1000, 0.01, "FNNF");
    cr_assert_eq(tiers.say, NA_TIERS_DIVIDED);
    cr_assert(sites[1].chance > 0.99 && sites[2].chance > 0.99, "%g, %g", sites[1].chance,
              sites[2].chance);
    cr_assert_not(sites[0].too_large); /* nothing colder is near */
    cr_assert_eq(sites[0].left, 0);
}

Test(tiers, too_large_is_skipped) {
    site(100, 0.40, 1000);
    site(500, 0.50, 1000);
    site(150, 0.08, 1000);
    site(250, 0.02, 1000);
    is(300, 1000, 0.01, "NFNF");
    cr_assert(sites[1].too_large);
    cr_assert_eq(sites[1].left, 200);
    cr_assert_not(sites[3].too_large);
    cr_assert_eq(sites[3].left, 50);
    cr_assert(tiers.near + tiers.alone <= 300);
}

Test(tiers, exactly_full) {
    site(100, 0.5, 1000);
    site(200, 0.3, 1000);
    site(300, 0.2, 1000);
    is(300, 1000, 0.01, "NNF");
    is(299, 1000, 0.01, "NFF");
    is(0.5, 1000, 0.01, "FFF");
    cr_assert_eq(sites[0].chance, 1);
    cr_assert_not(sites[0].too_large);
}

Test(tiers, all_fit) {
    site(100, 0.5, 1000);
    site(200, 0.5, 1000);
    is(300, 1000, 0.01, "--");
    cr_assert_eq(tiers.say, NA_TIERS_ALL_FIT);
}

Test(tiers, too_few_samples) {
    site(100, 0.9, 49);
    site(200, 0.1, 49);
    is(100, 49, 0.01, "--");
    cr_assert_eq(tiers.say, NA_TIERS_FEW);
    is(100, 50, 0.01, "NF");
}

/* What is too small to matter, and what no rule can mean, comes first. */
Test(tiers, left_alone_counts_as_near) {
    site(9, 0.009, 1000);
    site(300, 0.50, 1000);
    site(100, 0.391, 1000);
    site(591, 0.10, 1000);
    is(400, 1000, 0.01, "-FNF"); /* without the small one both would fit */
    is(409, 1000, 0.01, "-NNF");
    is(400, 1000, 0.001, "FNNF"); /* small ones matter as well, and it is the coldest to fit */
    sites[1].fixed = true;
    is(400, 1000, 0.01, "--FF");
    is(200, 1000, 0.01, "--FF"); /* already too much */
    cr_assert(tiers.alone > 200);
}

/* Small, but used: it matters. Without bytes it takes no room. */
Test(tiers, small_and_hot) {
    site(1, 0.3, 1000);
    site(0, 0.3, 1000);
    site(500, 0.4, 1000);
    is(10, 1000, 0.01, "N-F");
}

Test(tiers, unsampled) {
    site(100, 0.8, 1000);
    site(100, 0.2, 1000);
    site(500, 0, 1000);
    is(200, 1000, 0.01, "NNF"); /* it would have been met some thousand times */
    cr_assert(sites[2].chance > 0.999, "%g", sites[2].chance);
    is(700, 1000, 0.01, "---");
    is(699, 1000, 0.01, "NNF");

    /* Of so few bytes, so few samples: nobody knows. There is room: nothing is said. */
    count = 0;
    site(1000, 0.9, 60);
    site(1000, 0.1, 60);
    site(40, 0, 60);
    site(1000, 0, 60);
    is(2500, 60, 0.01, "NN-F");
    cr_assert(sites[3].chance > 0.99, "%g", sites[3].chance);
    /* There is none: far, and not sure. */
    is(2010, 60, 0.01, "NNFF");
    cr_assert(sites[2].chance < 0.3, "%g", sites[2].chance);
}

/* The chance is that of two counts: 2 to 1 by 30 samples is little, by 3000 certain. */
Test(tiers, chances) {
    site(100, 0.67, 30);
    site(100, 0.33, 30);
    is(100, 60, 0.01, "NF");
    double z = log(0.67 / 0.33) / sqrt(1 / (0.67 * 30) + 1 / (0.33 * 30));
    cr_assert_float_eq(sites[0].chance, 0.5 * erfc(-z / sqrt(2)), 1e-9);
    cr_assert_float_eq(sites[1].chance, sites[0].chance, 1e-9);
    count = 0;
    site(100, 0.67, 3000);
    site(100, 0.33, 3000);
    is(100, 3000, 0.01, "NF");
    cr_assert(sites[0].chance > 0.9999, "%g", sites[0].chance);
    /* Alike: a coin. */
    count = 0;
    site(100, 0.5, 1000);
    site(100, 0.5, 1000);
    is(100, 1000, 0.01, "NF");
    cr_assert_float_eq(sites[0].chance, 0.5, 1e-9);
}

/* Whatever there is: near memory is not overfull, and nothing that is far fits where it was tried.
 */
Test(tiers, random) {
    unsigned state = 1;
    for (int round = 0; round < 2000; round++) {
        count = 0;
        double sum = 0, bytes = 0;
        size_t wanted = 1 + (size_t)round % (MOST - 1);
        for (size_t i = 0; i < wanted; i++) {
            state = state * 1664525 + 1013904223;
            double share = state % 5 == 0 ? 0 : (double)(state >> 16 & 1023);
            site((double)(state >> 8 & 4095), share, 1);
            sites[i].fixed = state % 17 == 0;
            sum += share;
            bytes += sites[i].bytes;
        }
        for (size_t i = 0; i < wanted && sum > 0; i++) {
            sites[i].share /= sum;
            sites[i].draws = sites[i].share * 500;
        }
        double budget = bytes * (round % 10) / 10;
        (void)divided(budget, 500, 0.01);
        cr_assert(tiers.near + tiers.alone <= budget || tiers.near == 0);
        for (size_t i = 0; i < count; i++)
            if (sites[i].tier == NA_TIER_FAR && sites[i].draws > 0)
                cr_assert(sites[i].bytes > sites[i].left);
    }
}
