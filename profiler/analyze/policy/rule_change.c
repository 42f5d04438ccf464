/* rule_change.c - see rule_change.h. */
#include "profiler/analyze/policy/rule_change.h"

#include <math.h>

#define Z 1.959963985 /* of 95 % */

na_bounds_t na_score_interval(double share, double n) {
    double middle = share + Z * Z / (2 * n);
    double half = Z * sqrt(share * (1 - share) / n + Z * Z / (4 * n * n));
    double all = 1 + Z * Z / n;
    return (na_bounds_t){fmax(0, (middle - half) / all), fmin(1, (middle + half) / all)};
}

static double norm(double a, double b) {
    return sqrt(a * a + b * b);
}

na_change_t na_change_of_shares(double before, double before_count, double after,
                                double after_count) {
    na_change_t c = {before, after, NAN, NAN};
    if (!(before_count > 0)) c.before = NAN;
    if (!(after_count > 0)) c.after = NAN;
    if (isnan(c.before) || isnan(c.after)) return c;
    na_bounds_t x = na_score_interval(before, before_count),
                y = na_score_interval(after, after_count);
    c.low = after - before - norm(after - y.low, x.high - before);
    c.high = after - before + norm(y.high - after, before - x.low);
    return c;
}

na_change_t na_change_of_bounds(double before_low, double before, double after_low, double after) {
    return (na_change_t){before, after, after_low - before, after - before_low};
}

na_change_says_t na_change_says(const na_change_t *c, double least) {
    if (isnan(c->low) || isnan(c->high)) return NA_CHANGE_UNCLEAR;
    if (c->high < 0 && c->after - c->before < -least) return NA_CHANGE_KEEP;
    if (c->low >= -least) return NA_CHANGE_DROP;
    return NA_CHANGE_UNCLEAR;
}
