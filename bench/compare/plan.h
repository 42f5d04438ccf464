/* plan.h - which cases there are, in which order their children run, and how long. */
#ifndef NUMALLOC_BENCH_COMPARE_PLAN_H
#define NUMALLOC_BENCH_COMPARE_PLAN_H

#include "bench/compare/comparison.h"

/* Which contender runs as the i-th of its case in this round. Each round begins with another one,
 * and every second pass over the contenders goes backwards, so that none always follows the same
 * neighbour. Over 2 * contenders rounds each contender has each place twice. */
size_t na_plan_turn(size_t contenders, size_t round, size_t index, size_t i);

/* "1,2,8" or "0" (the number of CPUs) to a list of distinct counts. False with a line in `error`.
 */
bool na_plan_threads(const char *text, unsigned *list, size_t *count, char *error, size_t size);

/* One case more; NULL with one line in `error` when the benchmark refuses these knobs. `words` are
 * copied by reference. threads 0: the benchmark has no such knob, or its own is among the words. */
na_case_t *na_plan_bench(na_comparison_t *comparison, const na_bench_t *bench, unsigned threads,
                         const char *const *words, size_t count, char *error, size_t size);

/* "NAME=command". */
na_case_t *na_plan_program(na_comparison_t *comparison, const char *text, char *error, size_t size);

/* "FILE" or "NAME=FILE": a trace as a case. Its program is made here. */
na_case_t *na_plan_replay(na_comparison_t *comparison, const char *text, char *error, size_t size);

/* A knob's place in a benchmark's table, or NA_NONE. */
size_t na_plan_knob(const na_bench_t *bench, const char *name);

/* The words of a case as knobs. False with one line in `error`. */
bool na_plan_knobs(const na_bench_t *bench, const char *const *words, size_t count,
                   na_knobs_t *knobs, char *error, size_t size);

/* What the measured repetitions of a child take at least, under the fastest contender: less is
 * mostly timer ticks, wake-ups and cold caches. */
#define NA_MEASURED_MIN_S 0.03

/* How one case may be cut to fit a budget; all times are of one child. */
typedef struct na_cut {
    double fixed_s;        /* in: what no cut changes: its start, its tables, pauses */
    double pass_s;         /* in: of one repetition, on average over the contenders */
    double fastest_s;      /* in: of one repetition under the fastest of them */
    uint64_t repetitions;  /* in: the most that make sense; out: how many */
    uint64_t warmup;       /* in: the most; out: how many */
    unsigned halvings_max; /* in: how often the work may be halved */
    unsigned halvings;     /* out */
} na_cut_t;

/* Shares `total_s` among the cases, `children` processes each: what remains of it after the fixed
 * parts is divided evenly, and cases that are short by nature leave their time to the others. No
 * case is cut below NA_MEASURED_MIN_S of measured work, even if the total is exceeded then. */
void na_plan_share(na_cut_t *cuts, size_t count, double total_s, size_t children);

/* The time of one child after the cut. */
double na_cut_seconds(const na_cut_t *cut);

/* Gives each case the work that its benchmark names for a comparison of the suite (na_bench_t.brief
 * and .suite), whatever the machine: two comparisons then differ in nothing but what they measure.
 */
void na_plan_fixed(na_comparison_t *comparison);

/* Runs each case briefly under all contenders and cuts the cases so that all rounds end within
 * `seconds` from now. Returns what the rounds will take, in seconds. */
double na_plan_fit(na_comparison_t *comparison, double seconds);

#endif
