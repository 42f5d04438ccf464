/* bench.h - what a benchmark is, and what it reports.
 *
 * A benchmark is one constant na_bench_t in its own file, listed in registry.c. Its run function
 * reads its knobs and appends metrics to a result; it prints nothing. The driver (main.c) does the
 * rest. The suite's own memory comes from na_bench_map(), never from malloc, so that the allocator
 * under test serves the benchmark's blocks only. */
#ifndef NUMALLOC_BENCH_BENCH_H
#define NUMALLOC_BENCH_BENCH_H

#include "knobs.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* ---- Results ----------------------------------------------------------------------------------
 */

typedef enum na_better { NA_LOWER, NA_HIGHER } na_better_t;

/* Headlines are in every table; details only with --details (the JSON has all). */
typedef enum na_rank { NA_HEADLINE, NA_DETAIL } na_rank_t;

/* What a metric is about: `compare` draws time and memory apart and takes geometric means within
 * each; a ratio (of a falsely shared run to an unshared one, of resident to live bytes) is compared
 * but is part of no mean. na_result_metric() takes the kind from the unit: a word that begins with
 * B, KiB, MiB, GiB, bytes or pages is memory, "x", "%" and "ratio" are ratios, all else (ns, ms,
 * ns/obj, Mobj/s) is time. A benchmark that knows better sets metric->kind itself. */
typedef enum na_kind { NA_TIME, NA_MEMORY, NA_RATIO } na_kind_t;

typedef struct na_metric {
    char name[64]; /* stable: comparisons and scripts find metrics by it; no tabs */
    const char *unit;
    na_better_t better;
    na_rank_t rank;
    na_kind_t kind;
    double *samples;
    size_t count, capacity;
} na_metric_t;

#define NA_METRICS_MAX 512

typedef struct na_result {
    na_metric_t metric[NA_METRICS_MAX];
    size_t count;
} na_result_t;

/* A new metric with room for `capacity` samples. Ends the program when the table is full. The
 * pointer stays valid as long as the result. */
na_metric_t *na_result_metric(na_result_t *result, const char *name, const char *unit,
                              na_better_t better, na_rank_t rank, size_t capacity);

void na_metric_add(na_metric_t *metric, double sample);

/* A headline that stands for several cases: sample i of it is the geometric mean of the i-th
 * samples of all of them, so that each weighs the same whatever its size. The cases have the same
 * unit, and as many samples as each other, all taken. No mean of what is not above zero: 0. */
na_metric_t *na_result_mean(na_result_t *result, const char *name, na_metric_t *const *cases,
                            size_t count);

/* ---- Benchmarks -------------------------------------------------------------------------------
 */

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
    /* Checks what no single knob can say, and puts in what a default stands for (threads=0: the
     * number of CPUs), so that the header tells what is run. False with one line in `error`. */
    bool (*settle)(na_knobs_t *knobs, char *error, size_t size);
    void (*run)(const na_knobs_t *knobs, na_result_t *result);
} na_bench_t;

#define NA_COUNT(array) (sizeof(array) / sizeof((array)[0]))

extern const na_bench_t *const na_benches[];
extern const size_t na_bench_count;

/* NULL when there is none of that name. */
const na_bench_t *na_bench_find(const char *name);

/* ---- Helpers for benchmarks -------------------------------------------------------------------
 */

/* Zeroed, already resident memory of the suite's own, never returned (page granular). Ends the
 * program with a message when there is none. */
void *na_bench_map(size_t bytes);

/* Nanoseconds of a monotonic clock. */
uint64_t na_bench_now(void);

/* One line on stderr and exit status 1. For what goes wrong while a benchmark runs. */
_Noreturn void na_bench_fail(const char *format, ...) __attribute__((format(printf, 1, 2)));

/* "churn: repetition 3 of 5", rewritten in place; only where stderr is a terminal. The last call,
 * with done == total, wipes the line. */
void na_bench_progress(const char *what, size_t done, size_t total);

/* No progress line from now on: another program shows its own. */
void na_bench_progress_off(void);

/* The compiler must assume that the block is looked at here. */
static inline void na_bench_use(void *block) {
    __asm__ volatile("" : : "r"(block) : "memory");
}

/* What a program does with a fresh block at the least. */
static inline void na_bench_touch(void *block, bool write) {
    if (write)
        *(volatile unsigned char *)block = 1;
    else
        na_bench_use(block);
}

#endif
