/* check_report.h - what a check has found, as text, as annotations of GitHub, or as JUnit's XML. */
#ifndef NUMALLOC_PROFILER_DUMP_RUNS_CHECK_REPORT_H
#define NUMALLOC_PROFILER_DUMP_RUNS_CHECK_REPORT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>

/* The words of --format, in its order. */
typedef enum na_check_format { NA_CHECK_TEXT, NA_CHECK_GITHUB, NA_CHECK_JUNIT } na_check_format_t;

typedef struct na_check_case {
    char *name; /* of JUnit's test case: "peak > 200 MiB" */
    char *text; /* lines; NULL or "": it holds, and there is nothing to say */
    size_t name_size, text_size;
    bool failed;
    char *file; /* the place to annotate; NULL: none */
    unsigned line;
} na_check_case_t;

typedef struct na_check_report {
    na_check_case_t *items;
    size_t count, room;
    FILE *open; /* the text of the last case, while it is written */
} na_check_report_t;

/* A new case, whose text goes to report->open until na_check_end. NULL: out of memory. */
na_check_case_t *na_check_begin(na_check_report_t *report, const char *name);
/* The place of the last case, if it is known. */
void na_check_place(na_check_report_t *report, const char *file, unsigned line);
/* False: out of memory. */
bool na_check_end(na_check_report_t *report);

/* Writes all cases to stdout; `ok`: the line of text when none failed, NULL: none. */
void na_check_write(const na_check_report_t *report, na_check_format_t format, const char *ok);
void na_check_free(na_check_report_t *report);

#endif
