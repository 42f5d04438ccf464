/* child.h - runs one child: a case under an allocator, in a process of its own. */
#ifndef NUMALLOC_BENCH_COMPARE_CHILD_H
#define NUMALLOC_BENCH_COMPARE_CHILD_H

#include "bench/compare/comparison.h"

typedef enum na_outcome { NA_DONE, NA_FAILED, NA_TIMED_OUT, NA_STOPPED } na_outcome_t;

typedef struct na_child {
    na_outcome_t outcome;
    char reason[200]; /* unless done: what went wrong, one line without tabs */
    char *text;       /* a benchmark's result (na_report_tsv), what a program reports of itself
                         (the `metric` lines of it), or NULL; valid until the next child */
    double seconds;   /* from its start to its end */
    uint64_t peak;    /* resident bytes of its largest process */
} na_child_t;

/* Runs one child of the case under contender c, with `extra` words after those of the case (NULL:
 * none). NA_STOPPED: the user asked for the end meanwhile. */
void na_child_run(const na_comparison_t *comparison, const na_case_t *which, size_t c,
                  const char *const *extra, na_child_t *child);

/* From now on SIGINT and SIGTERM end the running child and set na_child_stop instead of ending this
 * process; a second one ends it at once. */
void na_child_catch_signals(void);
bool na_child_stop(void);

#endif
