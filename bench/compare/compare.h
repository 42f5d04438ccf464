/* compare.h - `numalloc-bench compare`: benchmarks and programs under several allocators, in turn.
 *
 * A comparison is a table of cases (a benchmark at a number of threads, or a program) by contenders
 * (allocators) by rounds; each entry is one child process. compare.c reads the command line and
 * drives the rounds, allocators.c finds the allocators, plan.c says which cases there are, in which
 * order and how long, child.c runs one child, result.c keeps what it measured, journal.c writes it
 * down for a later resume, ratios.c makes ratios with intervals of it, report.c and html.c show
 * them. */
#ifndef NUMALLOC_BENCH_COMPARE_COMPARE_H
#define NUMALLOC_BENCH_COMPARE_COMPARE_H

#include "bench/suite/bench.h"

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

/* ---- compare.c --------------------------------------------------------------------------------
 */

/* argv[0] is the word after "compare". Returns the exit status of the program. */
int na_compare(int argc, char **argv);

/* Zeroed memory for as long as the process lives; never from malloc. */
void *na_compare_memory(size_t bytes);

/* A copy of the first `length` bytes of `text` in such memory. */
char *na_compare_text(const char *text, size_t length);

/* ---- allocators.c ------------------------------------------------------------------------------
 */

/* Adds "NAME" (of a known allocator, looked for where it is usually installed) or "NAME=PATH".
 * NA_ABSENT: known but not installed, with one line in `error` that names the package. */
typedef enum na_added { NA_ADDED, NA_ABSENT, NA_REFUSED } na_added_t;
na_added_t na_compare_add(na_comparison_t *comparison, const char *text, char *error, size_t size);

/* Adds all known allocators that are there, and the control. */
void na_compare_add_known(na_comparison_t *comparison);
bool na_compare_add_control(na_comparison_t *comparison, char *error, size_t size);

void na_compare_list_known(FILE *out);

/* ---- plan.c ------------------------------------------------------------------------------------
 */

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

/* ---- child.c -----------------------------------------------------------------------------------
 */

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

/* ---- result.c ----------------------------------------------------------------------------------
 */

/* Stores what a finished child measured, or counts its failure. `line`, if not NULL, gets the
 * journal's line of it, without a newline. */
void na_result_take(na_comparison_t *comparison, size_t index, size_t c, size_t round,
                    na_child_t *child, char *line, size_t size);

/* The same from such a line, which is cut up. False when it is not one of this comparison's. */
bool na_result_line(na_comparison_t *comparison, char *line, bool *present);

/* The metric that stands for the case, the one of its memory; NULL when no child gave one. */
const na_compared_t *na_case_main(const na_case_t *which);
const na_compared_t *na_case_memory(const na_case_t *which);

/* "churn, 2 threads", "sqlite". */
const char *na_case_label(const na_case_t *which, char *buffer, size_t size);

/* ---- journal.c ---------------------------------------------------------------------------------
 */

typedef struct na_journal {
    int file;
    char path[1024];
    bool temporary; /* removed once the comparison is complete */
    bool resumed;   /* the plan and some runs are from the file */
    bool *present;  /* [round][case][contender]: already there when resumed */
} na_journal_t;

/* The words recorded in an existing journal. Count 0 and true: there is no such file. False with
 * one line in `error`: it is something else, or cannot be read. */
bool na_journal_words(const char *path, const char **words, size_t *count, size_t max, char *error,
                      size_t size);

/* Starts a new journal ("" : a temporary file), or reads an existing one into the comparison, whose
 * cases get the words that were settled then. */
bool na_journal_begin(na_journal_t *journal, const char *path, na_comparison_t *comparison,
                      int argc, char **argv, char *error, size_t size);

/* After na_plan_fit() for a new journal: what was settled. */
void na_journal_plan(na_journal_t *journal, const na_comparison_t *comparison);

bool na_journal_has(const na_journal_t *journal, const na_comparison_t *comparison, size_t round,
                    size_t index, size_t c);
void na_journal_add(na_journal_t *journal, const char *line);
void na_journal_end(na_journal_t *journal, bool complete);

/* ---- report.c, html.c --------------------------------------------------------------------------
 */

void na_compare_table(const na_comparison_t *comparison, bool details, FILE *out);
void na_compare_json(const na_comparison_t *comparison, FILE *out);
void na_compare_html(const na_comparison_t *comparison, FILE *out);

/* "AMD EPYC, 2 CPUs, Linux 6.1.0, 8 GiB, 1 NUMA node, glibc 2.36" */
void na_compare_machine(char *out, size_t size);

/* Writes text so that it is only text in HTML, in an attribute too. */
void na_html_text(const char *text, FILE *out);

#endif
