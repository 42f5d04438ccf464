/* test_rule_change.c - did a rule help: intervals of differences, and what follows from them. */
#include <criterion/criterion.h>
#include <math.h>

#include "profiler/analyze/policy/rule_change.h"

static void near(double value, double wanted) {
    cr_assert(fabs(value - wanted) < 0.00006, "%.5f, not %.5f", value, wanted);
}

/* The examples of Newcombe's paper (Statistics in Medicine 17, 1998, table II, method 10); there
 * the first less the second. */
Test(rule_change, shares) {
    static const struct {
        double x, m, y, n, low, high;
    } of[] = {{56, 70, 48, 80, 0.0524, 0.3339},
              {9, 10, 3, 10, 0.1705, 0.8090},
              {5, 56, 0, 29, -0.0381, 0.1926},
              {0, 10, 0, 20, -0.1611, 0.2775},
              {10, 10, 0, 20, 0.6791, 1.0000}};
    for (size_t i = 0; i < sizeof of / sizeof of[0]; i++) {
        na_change_t c = na_change_of_shares(of[i].x / of[i].m, of[i].m, of[i].y / of[i].n, of[i].n);
        near(-c.high, of[i].low);
        near(-c.low, of[i].high);
    }
}

Test(rule_change, nothing_is_known) {
    na_change_t c = na_change_of_shares(NAN, 0, 0.5, 100);
    cr_assert(isnan(c.before) && isnan(c.low) && isnan(c.high));
    cr_assert_eq(na_change_says(&c, 0.01), NA_CHANGE_UNCLEAR);
    c = na_change_of_shares(0.5, 100, 0.5, 0);
    cr_assert(isnan(c.after));
    cr_assert_eq(na_change_says(&c, 0.01), NA_CHANGE_UNCLEAR);
}

Test(rule_change, verdicts) {
    na_change_t c = na_change_of_shares(0.9, 100, 0.02, 100);
    cr_assert_eq(na_change_says(&c, 0.01), NA_CHANGE_KEEP);
    c = na_change_of_shares(0.5, 20, 0.4, 20);
    cr_assert_eq(na_change_says(&c, 0.01), NA_CHANGE_UNCLEAR, "few looks tell nothing");
    c = na_change_of_shares(0.2, 500, 0.9, 500);
    cr_assert_eq(na_change_says(&c, 0.01), NA_CHANGE_DROP, "it became worse");
    c = na_change_of_shares(0.500, 1e8, 0.499, 1e8);
    cr_assert_eq(na_change_says(&c, 0.01), NA_CHANGE_DROP, "for sure, but too little");
}

Test(rule_change, bounds) {
    na_change_t c = na_change_of_bounds(100, 100, 10, 10);
    cr_assert(c.low == -90 && c.high == -90);
    cr_assert_eq(na_change_says(&c, 50), NA_CHANGE_KEEP);
    cr_assert_eq(na_change_says(&c, 95), NA_CHANGE_DROP);
    c = na_change_of_bounds(0, 100, 0, 10); /* up to: nothing may have been gained */
    cr_assert(c.low == -100 && c.high == 10);
    cr_assert_eq(na_change_says(&c, 50), NA_CHANGE_UNCLEAR);
}
