/* thrash.c - the cache-thrash benchmark: does the allocator give threads that allocate at the same
 * time objects on the same cache line (active false sharing)?
 *
 *   each of K threads    warm up in chunks of 16 bytes
 *                        N times: malloc an object; read and write it M times; free it
 *
 * linework.c has the loop and says what the time is held against. */
#include "bench/benchmarks/false_sharing/linework.h"

static void thrash_run(const na_knobs_t *knobs, na_result_t *result) {
    na_linework_run("thrash", false, knobs, result);
}

/** Active false sharing: does the allocator give objects on one cache line to threads that
 *  allocate at the same time? Each thread, N times: malloc, read and write each byte M times,
 *  free. *Time divided by that of the same calls with the writing done on lines of the suite's
 *  own, 128 bytes apart*; 1 is none. `false sharing in one line` is the worst that the machine has
 *  to show; where that is near 1 (one thread, one CPU, two CPUs that share their first cache) the
 *  benchmark says nothing. `unit.test_bench_instruments` tests the instrument (nightly) with an
 * allocator that shares lines on purpose, and one that pads. */
const na_bench_t na_bench_thrash = {
    .name = "thrash",
    .summary = "false sharing of objects that threads allocate at the same time",
    .knobs = na_linework_knobs,
    .knob_count = NA_LW_KNOBS,
    .memory = true,
    .work = "iterations",
    .suite = (const char *const[]){"--repetitions=3", "--warmup=1", "--iterations=125", NULL},
    .settle = na_linework_settle,
    .run = thrash_run,
};
