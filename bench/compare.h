/* compare.h - `numalloc-bench compare`: one benchmark under several allocators, in turn.
 *
 * compare.c reads the command line, finds the allocators and runs the rounds; compare_child.c runs
 * the benchmark once in a process of its own; compare_report.c prints. */
#ifndef NUMALLOC_BENCH_COMPARE_H
#define NUMALLOC_BENCH_COMPARE_H

#include "bench.h"

#define NA_CONTENDERS_MAX 16
#define NA_ROUNDS_MAX     1000

typedef struct na_contender {
    char name[32];
    char path[1024];   /* what is preloaded; "": nothing, the C library's own malloc */
    char object[1024]; /* where malloc really came from, as the child found */
} na_contender_t;

typedef struct na_compared {
    char name[64];
    char unit[16];
    na_better_t better;
    na_rank_t rank;
    double *value[NA_CONTENDERS_MAX]; /* by round; each the median of the child's repetitions */
} na_compared_t;

typedef struct na_comparison {
    const na_bench_t *bench;
    const na_knobs_t *knobs;
    char **passed; /* the knobs as the user wrote them, for the children; ends with NULL */
    size_t passed_count;
    size_t rounds;
    uint64_t timeout_s;
    size_t base; /* the contender that the others are held against */
    na_contender_t contender[NA_CONTENDERS_MAX];
    size_t contenders;
    na_compared_t metric[NA_METRICS_MAX];
    size_t metrics;
} na_comparison_t;

/* argv[0] is the word after "compare". Returns the exit status of the program. */
int na_compare(int argc, char **argv);

/* Runs the benchmark once under contender `c` and stores its metrics as those of `round`. Ends the
 * program when the child fails, hangs, or does not have the contender's malloc. */
void na_compare_run(na_comparison_t *comparison, size_t c, size_t round);

void na_compare_table(const na_comparison_t *comparison, bool details, FILE *out);
void na_compare_json(const na_comparison_t *comparison, FILE *out);

#endif
