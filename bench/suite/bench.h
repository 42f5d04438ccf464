/* bench.h - what a benchmark is.
 *
 * A benchmark is one constant na_bench_t in its own file, listed in benchmarks/registry.c. Its run
 * function reads its knobs and appends metrics to a result; it prints nothing. The driver (main.c)
 * does the rest. The suite's own memory comes from na_bench_map(), never from malloc, so that the
 * allocator under test serves the benchmark's blocks only. */
#ifndef NUMALLOC_BENCH_SUITE_BENCH_H
#define NUMALLOC_BENCH_SUITE_BENCH_H

#include "bench/measure/result.h"
#include "bench/suite/knobs.h"
#include "bench/system/base.h"

#include <stdbool.h>
#include <stddef.h>

typedef struct na_bench {
    const char *name;
    const char *summary; /* one line */
    const na_knob_t *knobs;
    size_t knob_count;
    bool memory; /* the driver adds peak and final memory of this process to the result */
    /* The metric that stands for the benchmark in a comparison; NULL: the first headline. It should
     * be above zero with every allocator, since ratios are taken of it. A benchmark of several
     * cases names the mean over all of them (na_result_mean). */
    const char *headline;
    /* The number knob that a repetition's length is proportional to ("objects"); NULL: none. A
     * comparison with little time runs fewer --repetitions first (a knob of that name, if there is
     * one, with --warmup beside it), and then halves this one. */
    const char *work;
    /* "--name=value" of knobs, NULL at the end, that a comparison of the suite sets unless they are
     * given: smaller work where the defaults take seconds. NULL: none. */
    const char *const *brief;
    /* The same for one without a budget of time: how often, and how much. Such a comparison does
     * the same work whenever and wherever it is run; a child takes about a quarter of a second. */
    const char *const *suite;
    /* The text knob that a word without dashes is the value of; NULL: none. A benchmark that has
     * one cannot run without it, and is in a comparison only when it is asked for. */
    const char *operand;
    bool own; /* of numalloc alone: in a comparison only when it is asked for */
    /* Checks what no single knob can say, and puts in what a default stands for (threads=0: the
     * number of CPUs), so that the header tells what is run. False with one line in `error`. */
    bool (*settle)(na_knobs_t *knobs, char *error, size_t size);
    void (*run)(const na_knobs_t *knobs, na_result_t *result);
} na_bench_t;

#endif
