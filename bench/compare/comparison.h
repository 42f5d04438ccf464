/* comparison.h - a comparison: a table of cases (a benchmark at a number of threads, or a program)
 * by contenders (allocators) by rounds. Each entry is one child process.
 *
 * compare.c reads the command line and drives the rounds, allocators.c finds the allocators, plan.c
 * says which cases there are, in which order and how long, child.c runs one child, result.c keeps
 * what it measured, journal.c writes it down for a later resume, ratios.c makes ratios with
 * intervals of it, report.c and html.c show them. */
#ifndef NUMALLOC_BENCH_COMPARE_COMPARISON_H
#define NUMALLOC_BENCH_COMPARE_COMPARISON_H

#include "bench/suite/bench.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define NA_CONTENDERS_MAX   16
#define NA_CASES_MAX        256
#define NA_ROUNDS_MAX       1000
#define NA_CASE_WORDS_MAX   64
#define NA_THREAD_LISTS_MAX 16
#define NA_NOTES_MAX        64
#define NA_NONE             SIZE_MAX

typedef struct na_contender {
    char name[40];     /* no blanks or signs, except for " (A/A)" of the control */
    char path[1024];   /* what is preloaded; "": nothing, the C library's own malloc */
    char object[1024]; /* where malloc really came from, as a child found; "" until then */
} na_contender_t;

typedef struct na_compared {
    char name[64];
    char unit[16];
    na_better_t better;
    na_rank_t rank;
    na_kind_t kind;
    /* [contender * rounds + round]; the median of the child's repetitions, NaN where none is. */
    double *value;
} na_compared_t;

/* Why children gave no result. */
typedef struct na_failure {
    size_t count;     /* of children of this case and contender */
    bool timed_out;   /* one of them */
    bool given_up;    /* no more of them are run */
    char reason[200]; /* of the last */
} na_failure_t;

typedef struct na_case {
    char name[32];                       /* of the benchmark or the program */
    unsigned threads;                    /* 0: has no such knob */
    const na_bench_t *bench;             /* NULL: a program */
    const char *command;                 /* of a program, for /bin/sh -c */
    const char *word[NA_CASE_WORDS_MAX]; /* knobs, as words for the child */
    size_t words;
    const char *program_file; /* of a replay: what was made of its trace, once for all; else NULL */
    na_compared_t *metric;
    size_t metrics;
    na_failure_t failure[NA_CONTENDERS_MAX];
} na_case_t;

typedef struct na_comparison {
    na_contender_t contender[NA_CONTENDERS_MAX];
    size_t contenders;
    size_t base;    /* the contender that the others are held against */
    size_t control; /* the base a second time, or NA_NONE */
    na_case_t *cases;
    size_t case_count;
    size_t rounds;       /* planned: the stride of the tables of values */
    size_t rounds_done;  /* begun, when interrupted */
    uint64_t timeout_s;  /* of one child */
    uint64_t budget_s;   /* of everything; 0: no limit */
    const char *stopped; /* why fewer rounds were run than planned, or NULL */
    /* What was asked for and is not compared, and why: one line each. */
    const char *left_out[NA_NOTES_MAX];
    size_t left_out_count;
} na_comparison_t;

/* Zeroed memory for as long as the process lives; never from malloc. */
void *na_compare_memory(size_t bytes);

/* A copy of the first `length` bytes of `text` in such memory. */
char *na_compare_text(const char *text, size_t length);

#endif
