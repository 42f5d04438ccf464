/* rule_change.h - did a rule help? What was measured before it and under it, the change with its
 * 95 % interval, and what follows. Less is better in all that is measured here: accesses to other
 * nodes, lines shared, memory kept, bytes copied.
 *
 * Pure. */
#ifndef NUMALLOC_PROFILER_ANALYZE_POLICY_RULE_CHANGE_H
#define NUMALLOC_PROFILER_ANALYZE_POLICY_RULE_CHANGE_H

#include <stdbool.h>

/* before, after: not numbers where they are not known, and then there is no interval. */
typedef struct na_change {
    double before, after;
    double low, high; /* of after - before */
} na_change_t;

typedef struct na_bounds {
    double low, high;
} na_bounds_t;

/* Wilson's score interval, 95 %, of a share of `n` independent looks; n > 0. */
na_bounds_t na_score_interval(double share, double n);

/* Of shares of so many independent looks or samples each: the interval of the difference by R.
 * Newcombe's method 10 (1998), from Wilson's score intervals of both. It holds for few looks, too,
 * and where a share is 0 or 1. */
na_change_t na_change_of_shares(double before, double before_count, double after,
                                double after_count);

/* Of figures that are known to lie between bounds; the figures themselves are the upper ones. */
na_change_t na_change_of_bounds(double before_low, double before, double after_low, double after);

typedef enum na_change_says {
    NA_CHANGE_KEEP,   /* it helps for sure */
    NA_CHANGE_DROP,   /* for sure it helps by no more than `least` */
    NA_CHANGE_UNCLEAR /* neither */
} na_change_says_t;

/* `least`: in the unit of the change; what is less is no reason for a rule. */
na_change_says_t na_change_says(const na_change_t *change, double least);

#endif
