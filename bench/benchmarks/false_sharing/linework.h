/* linework.h - what thrash and scratch share: threads that read and write an object of their own,
 * timed on the allocator's memory and on memory whose cache lines are known. */
#ifndef NUMALLOC_BENCH_BENCHMARKS_FALSE_SHARING_LINEWORK_H
#define NUMALLOC_BENCH_BENCHMARKS_FALSE_SHARING_LINEWORK_H

#include "bench/suite/bench.h"

enum {
    NA_LW_THREADS,
    NA_LW_ITERATIONS,
    NA_LW_CACHE_RW,
    NA_LW_SIZE,
    NA_LW_CHUNKS,
    NA_LW_PIN,
    NA_LW_WARMUP,
    NA_LW_REPETITIONS,
    NA_LW_KNOBS,
};

/* The knobs of both benchmarks, by the places above. */
extern const na_knob_t na_linework_knobs[NA_LW_KNOBS];

bool na_linework_settle(na_knobs_t *knobs, char *error, size_t size);

/* With `pass`, the main thread allocates one object for each worker and the worker frees it first
 * (scratch); without, workers begin with nothing (thrash). `name` is the benchmark's. */
void na_linework_run(const char *name, bool pass, const na_knobs_t *knobs, na_result_t *result);

#endif
