/* test_watch_near.c - access_watch_near.c: whether the recorder goes to a thread's CPU to switch
 * its watchpoints, or waits for that CPU: the cheaper way, whatever single measurements say. */
#include <criterion/criterion.h>

#include "profiler/record/sources/watch/access_watch_near.h"

TestSuite(watch_near, .timeout = 300);

#define US    UINT64_C(1000)
#define MS    UINT64_C(1000000)
#define TIMES 2000u

static uint64_t state;

static uint64_t below(uint64_t n) {
    state ^= state << 13;
    state ^= state >> 7;
    state ^= state << 17;
    return state % n;
}

/* Half to three halves of it, and one in `rare` ten times as much. */
static uint64_t about(uint64_t ns, uint64_t rare) {
    uint64_t some = ns / 2 + below(ns);
    return below(rare) == 0 ? 10 * some : some;
}

typedef struct sum {
    uint64_t ns;
    uint32_t went;
} sum_t;

static sum_t run(na_near_ways_t *ways, uint64_t waiting, uint64_t going, uint32_t times) {
    sum_t sum = {0};
    for (uint32_t i = 0; i < times; i++) {
        bool goes = na_near_choose(ways);
        uint64_t ns = about(goes ? going : waiting, 20);
        na_near_took(ways, goes, ns);
        sum.ns += ns;
        sum.went += goes;
    }
    return sum;
}

/* Where CPUs answer at once nobody goes anywhere. */
Test(watch_near, at_once) {
    state = 88172645463325252u;
    na_near_ways_t ways = {0};
    cr_expect_eq(run(&ways, 20 * US, 10 * US, TIMES).went, 0);
}

/* Where they do not: nearly as cheap as if it were known which way is the better one. */
Test(watch_near, slow) {
    static const struct {
        uint64_t waiting, going;
    } of[] = {{60 * MS, 4 * MS}, {60 * MS, 50 * MS}, {4 * MS, 60 * MS}, {20 * MS, 19 * MS}};
    state = 1;
    for (size_t i = 0; i < sizeof of / sizeof of[0]; i++) {
        na_near_ways_t ways = {0};
        sum_t sum = run(&ways, of[i].waiting, of[i].going, TIMES);
        uint64_t least = of[i].waiting < of[i].going ? of[i].waiting : of[i].going;
        double mean = (double)sum.ns / TIMES, best = 1.45 * (double)least; /* one in 20: tenfold */
        cr_expect_lt(mean, 1.25 * best, "%zu: %.1f ms, best %.1f ms", i, mean / 1e6, best / 1e6);
    }
}

/* A single bad turn does not decide for good, nor does a machine that was busy once. */
Test(watch_near, changes) {
    na_near_ways_t ways = {0};
    na_near_took(&ways, false, 60 * MS);
    cr_assert(na_near_choose(&ways));
    na_near_took(&ways, true, 200 * MS); /* once */
    state = 3;
    cr_expect_gt(run(&ways, 60 * MS, 4 * MS, 200).went, 150);
    cr_expect_gt(run(&ways, 60 * MS, 4 * MS, TIMES).went, TIMES / 10 * 9);
    run(&ways, 20 * US, 4 * MS, TIMES);
    cr_expect_eq(run(&ways, 20 * US, 4 * MS, TIMES).went, 0);
}
