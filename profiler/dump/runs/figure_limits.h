/* figure_limits.h - figures held against limits that the user gives: --fail-if 'FIGURE OP VALUE'.
 *
 * An estimate fails only where its whole interval does, so that the same program does not pass one
 * day and fail the next. Where the interval holds the limit, a line says that it is not sure. */
#ifndef NUMALLOC_PROFILER_DUMP_RUNS_FIGURE_LIMITS_H
#define NUMALLOC_PROFILER_DUMP_RUNS_FIGURE_LIMITS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>

#include "profiler/dump/ui/text.h"

typedef struct na_figure {
    const char *name;
    bool bytes;
    const char *what;
} na_figure_t;

typedef struct na_measured {
    double value;     /* not a number: not known */
    double low, high; /* its interval; an exact one has none: all three are equal */
} na_measured_t;

typedef struct na_limit {
    size_t figure; /* index of the figures */
    unsigned op;
    double value;
} na_limit_t;

/* "200M", "1.5 GiB", "1000", "5%" (*percent). False: something else. */
bool na_limit_value(const char *text, double *value, bool *percent);

/* The figure of that name; `count`: none. */
size_t na_limit_figure(const na_figure_t *figures, size_t count, const char *name, size_t length);

/* Reads a --fail-if. False: said why in one line on stderr. */
bool na_limit_read(na_limit_t *limit, const char *text, const na_figure_t *figures, size_t count);

/* True: it fails. A line to `to` says so, or that it is not sure. */
bool na_limit_fails(const na_limit_t *limit, const na_figure_t *figures,
                    const na_measured_t *measured, FILE *to);

/* The value as the figure is written, with its interval where it has one. */
#define NA_MEASURED_TEXT (4 * NA_TEXT)
const char *na_measured_text(char out[NA_MEASURED_TEXT], const na_figure_t *figure,
                             const na_measured_t *measured);

#endif
