/* estimate.h - 95 % intervals of what windows of watchpoints estimate: how many accesses of some
 * kind (to a site's blocks, by a thread) the run had.
 *
 * The weights of the hits of one round sum up to an unbiased estimate of the accesses in its time,
 * and given what was before, rounds are independent (nprof_access.h). So the sum over the rounds is
 * unbiased, and its variance is that of the sums of all rounds, with hits or without, or less (less
 * where the program's accesses are uneven in time). A normal interval of these two is far too short
 * where few rounds had hits and one of them weighs as much as the rest: what was never drawn does
 * not show in the variance. The interval is the one for weighted sums of
 * Poisson counts instead, with a round's sum in the place of a weight (M. Fay and E. Feuer, 1997: a
 * gamma distribution of the estimate's mean and variance, and for the upper end of both with one
 * more round like the heaviest). The lower end is that of the even mixture of the two (M. Fay and
 * S. Kim, 2017: "mid-p"). With many rounds alike it becomes the normal one.
 *
 * A thread that is stopped by hits is late. What it does afterwards may be late for good, or it may
 * make up for it by sleeping less: then the time that hits cost is time that it was watched for,
 * and each hit weighs less. A window cannot tell, so the interval holds both: the upper end is that
 * of the weights as they are, which take the thread for late, the lower one that of lesser weights
 * (`if_kept`). The two are alike for words that a thread touches less than some thousand times a
 * second. No interval can tell of accesses of a kind of
 * which none was met. */
#ifndef NUMALLOC_PROFILER_ANALYZE_ACCESSES_ESTIMATE_H
#define NUMALLOC_PROFILER_ANALYZE_ACCESSES_ESTIMATE_H

#include "profiler/analyze/accesses/flows.h"

#define NA_WATCHED_ROUNDS 5u /* with hits; with fewer, nothing is determined */

/* The sums of rounds. All zeros: empty. */
typedef struct na_watched {
    struct na_watched_item {
        uint64_t round;
        double weight, kept; /* kept: if threads keep to timetables */
    } * items;
    size_t count, room;
    bool sampled; /* there are samples that no watchpoint made: no interval */
    bool failed;  /* out of memory */
} na_watched_t;

typedef struct na_interval {
    double sum, low, high; /* low and high: not numbers where there is none */
    uint32_t rounds;       /* that had hits */
} na_interval_t;

/* Adds a sample; those of one round may come in any order. */
void na_watched_add(na_watched_t *estimate, const na_touch_t *a);
/* What was added since the last na_watched_take, which it forgets. There is no interval with fewer
 * than NA_WATCHED_ROUNDS rounds, with samples of other sources, and when memory ran out. */
na_interval_t na_watched_take(na_watched_t *estimate, const na_flows_t *set);
void na_watched_free(na_watched_t *estimate);

/* The interval, without a thought for timetables, that belongs to a sum of `rounds` rounds, the sum
 * of their squares, and the largest of them; there were `all` rounds, 0: not known. */
na_interval_t na_watched_interval(double sum, double squares, double most, uint32_t rounds,
                                  uint64_t all);

#endif
