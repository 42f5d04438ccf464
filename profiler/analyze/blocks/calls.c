/* calls.c - estimates from the calls that were timed.
 *
 * Of an entry point's calls those for large blocks are all timed. Of the others each was drawn with
 * one probability, so that the n drawn are a random sample of the N: N times their mean estimates
 * the sum without bias, and its variance is N^2 (1 - n / N) s^2 / n, s^2 being the sample's. */
#include "profiler/analyze/blocks/calls.h"

#include <math.h>

const char *const na_call_names[NA_NPROF_ENTRIES] = {
    [NA_NPROF_ENTRY_MALLOC] = "malloc",   [NA_NPROF_ENTRY_CALLOC] = "calloc",
    [NA_NPROF_ENTRY_REALLOC] = "realloc", [NA_NPROF_ENTRY_ALIGNED] = "aligned",
    [NA_NPROF_ENTRY_NEW] = "new",         [NA_NPROF_ENTRY_NEW_ARRAY] = "new[]",
    [NA_NPROF_ENTRY_FREE] = "free",       [NA_NPROF_ENTRY_DELETE] = "delete",
};

typedef struct estimate {
    double ticks, variance; /* not a number: not known */
} estimate_t;

static estimate_t estimate_calls(const na_nprof_thread_t *t, unsigned entry, double calls) {
    double always = (double)t->always[entry], n = (double)t->timed[entry];
    double others = calls > always ? calls - always : 0;
    estimate_t e = {(double)t->always_ticks[entry], 0};
    if (others == 0) {
        if (always == 0) e.ticks = NAN;
        return e;
    }
    if (n == 0) { /* a lower bound: those always timed */
        if (always == 0) e.ticks = NAN;
        e.variance = NAN;
        return e;
    }
    double mean = (double)t->ticks[entry] / n;
    e.ticks += others * mean;
    /* Files of before there were squares have 0; no sum of squares is less than n mean^2. */
    double squares = t->squares[entry] - n * mean * mean;
    if (n < 2 || !(t->squares[entry] > 0) || !isfinite(squares))
        e.variance = NAN;
    else if (n < others && squares > 0)
        e.variance = others * others * (1 - n / others) * squares / (n - 1) / n;
    return e;
}

static na_call_time_t result(const na_nprof_header_t *header, double calls, double timed,
                             estimate_t e) {
    na_call_time_t time = {calls, timed, NAN, NAN};
    if (header->ticks_hz == 0 || isnan(e.ticks)) return time;
    time.ms = e.ticks * 1e3 / (double)header->ticks_hz;
    time.error = e.ticks > 0 ? 1.96 * sqrt(e.variance) / e.ticks : e.variance == 0 ? 0 : NAN;
    return time;
}

static double calls_of(const na_nprof_header_t *header, const na_nprof_thread_t *t,
                       unsigned entry) {
    return (double)t->calls[entry] / (header->count_scale != 0 ? header->count_scale : 1);
}

na_call_time_t na_call_time(const na_nprof_header_t *header, const na_nprof_thread_t *thread,
                            unsigned entry) {
    double calls = calls_of(header, thread, entry);
    double timed = (double)thread->timed[entry] + (double)thread->always[entry];
    return result(header, calls, timed, estimate_calls(thread, entry, calls));
}

na_call_time_t na_call_time_of_all(const na_nprof_header_t *header,
                                   const na_nprof_thread_t *thread) {
    double calls = 0, timed = 0;
    estimate_t all = {NAN, 0};
    for (unsigned entry = 0; entry < NA_NPROF_ENTRIES; entry++) {
        double of_entry = calls_of(header, thread, entry);
        calls += of_entry;
        timed += (double)thread->timed[entry] + (double)thread->always[entry];
        estimate_t e = estimate_calls(thread, entry, of_entry);
        if (isnan(e.ticks)) continue;
        all.ticks = isnan(all.ticks) ? e.ticks : all.ticks + e.ticks;
        all.variance += e.variance;
    }
    return result(header, calls, timed, all);
}
