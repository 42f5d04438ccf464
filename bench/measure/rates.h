/* rates.h - operations per second of all threads together and of each, as every benchmark with a
 * team reports them. */
#ifndef NUMALLOC_BENCH_MEASURE_RATES_H
#define NUMALLOC_BENCH_MEASURE_RATES_H

#include "bench/load/team.h"
#include "bench/measure/result.h"

typedef struct na_rates {
    na_metric_t *all, *each, *slowest, *fastest, *time;
    unsigned threads;
} na_rates_t;

/* Adds the metrics "throughput", "total time" (both of the whole team), "throughput per thread",
 * "slowest thread" and "fastest thread"; `unit` is millions of something a second. */
na_rates_t na_rates_make(na_result_t *result, unsigned threads, size_t repetitions,
                         const char *unit);

/* One repetition: `elapsed` nanoseconds for all; `operations` of every thread in the team's latest
 * phase, or operations[i] of thread i. */
void na_rates_add(na_rates_t *rates, const na_team_t *team, uint64_t elapsed, double operations);
void na_rates_add_each(na_rates_t *rates, const na_team_t *team, uint64_t elapsed,
                       const uint64_t *operations);

#endif
