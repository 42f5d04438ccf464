/* journal.h - the file that an interrupted comparison is resumed from. */
#ifndef NUMALLOC_BENCH_COMPARE_JOURNAL_H
#define NUMALLOC_BENCH_COMPARE_JOURNAL_H

#include "bench/compare/comparison.h"

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

#endif
