/* scratch.c - the cache-scratch benchmark: does the allocator give a thread the place of another
 * thread's object again after the thread has freed it (passive false sharing)?
 *
 *   main thread          mallocs K objects in a row, one for each worker
 *   each of K threads    warm up in chunks of 16 bytes; free the object passed
 *                        N times: malloc an object; read and write it M times; free it
 *
 * linework.c has the loop and says what the time is held against. */
#include "bench/benchmarks/false_sharing/linework.h"

static void scratch_run(const na_knobs_t *knobs, na_result_t *result) {
    na_linework_run("scratch", true, knobs, result);
}

/** Passive false sharing: the main thread mallocs K objects in a row and passes one to each of K
 *  threads, which free it and go on as in thrash. A ratio above thrash's is a line that came back
 *  to another thread. */
const na_bench_t na_bench_scratch = {
    .name = "scratch",
    .summary = "false sharing that stays after a thread has freed another one's neighbour",
    .knobs = na_linework_knobs,
    .knob_count = NA_LW_KNOBS,
    .memory = true,
    .work = "iterations",
    .suite = (const char *const[]){"--repetitions=3", "--warmup=1", "--iterations=250", NULL},
    .settle = na_linework_settle,
    .run = scratch_run,
};
