/* rates.c - operations per second, overall and by thread. */
#include "bench/measure/rates.h"

na_rates_t na_rates_make(na_result_t *result, unsigned threads, size_t repetitions,
                         const char *unit) {
    na_rates_t rates = {
        .all = na_result_metric(result, "throughput", unit, NA_HIGHER, NA_HEADLINE, repetitions),
        .time = na_result_metric(result, "total time", "ms", NA_LOWER, NA_DETAIL, repetitions),
        .each = na_result_metric(result, "throughput per thread", unit, NA_HIGHER, NA_DETAIL,
                                 repetitions * threads),
        .slowest =
            na_result_metric(result, "slowest thread", unit, NA_HIGHER, NA_DETAIL, repetitions),
        .fastest =
            na_result_metric(result, "fastest thread", unit, NA_HIGHER, NA_DETAIL, repetitions),
        .threads = threads,
    };
    return rates;
}

/* A phase shorter than the clock's tick counts as one nanosecond: rates stay finite. */
static double at_least_one(uint64_t nanoseconds) {
    return nanoseconds == 0 ? 1.0 : (double)nanoseconds;
}

static void add_run_rates(na_rates_t *rates, const na_team_t *team, uint64_t elapsed,
                          double operations, const uint64_t *by_thread) {
    double low = 0, high = 0, sum = 0;
    for (unsigned i = 0; i < rates->threads; i++) {
        double mine = by_thread == NULL ? operations : (double)by_thread[i];
        double rate = 1e3 * mine / at_least_one(na_team_elapsed(team, i));
        na_metric_add(rates->each, rate);
        low = i == 0 || rate < low ? rate : low;
        high = rate > high ? rate : high;
        sum += mine;
    }
    na_metric_add(rates->all, 1e3 * sum / at_least_one(elapsed));
    na_metric_add(rates->time, (double)elapsed / 1e6);
    na_metric_add(rates->slowest, low);
    na_metric_add(rates->fastest, high);
}

void na_rates_add(na_rates_t *rates, const na_team_t *team, uint64_t elapsed, double operations) {
    add_run_rates(rates, team, elapsed, operations, NULL);
}

void na_rates_add_each(na_rates_t *rates, const na_team_t *team, uint64_t elapsed,
                       const uint64_t *operations) {
    add_run_rates(rates, team, elapsed, 0, operations);
}
