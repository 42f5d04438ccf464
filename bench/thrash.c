/* thrash.c - the cache-thrash benchmark: does the allocator give threads that allocate at the same
 * time objects on the same cache line (active false sharing)?
 *
 *   each of K threads    warm up in chunks of 16 bytes
 *                        N times: malloc an object; read and write it M times; free it
 *
 * linework.c has the loop and says what the time is held against. */
#include "linework.h"

static void thrash_run(const na_knobs_t *knobs, na_result_t *result) {
    na_linework_run("thrash", false, knobs, result);
}

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
