/* view.h - what a view is: na_view_row_NAME, in the file of its function, and a line in the table
 * of views (view_table.c). */
#ifndef NUMALLOC_PROFILER_DUMP_PROFILE_VIEW_H
#define NUMALLOC_PROFILER_DUMP_PROFILE_VIEW_H

#include "profiler/dump/profile/input.h"
#include "profiler/dump/ui/table.h"

/* Modes as a set. */
#define NA_IN(mode) (1u << (mode))
#define NA_IN_ALL                                                                                  \
    (NA_IN(NA_NPROF_MODE_SITES) | NA_IN(NA_NPROF_MODE_SAMPLE) | NA_IN(NA_NPROF_MODE_TRACE))

#define NA_VIEW_LIGHT  1u /* needs neither symbols nor functions */
#define NA_VIEW_FACTS  2u /* shows nothing that is an estimate in mode sample */
#define NA_VIEW_EXPORT 4u /* writes another program's format */
#define NA_VIEW_ORDERS 8u /* --sort takes peak, live, total and count, whatever its columns */
/* Light, but with --filter, which asks for the names on stacks. */
#define NA_VIEW_FILTERS_STACKS 16u
#define NA_VIEW_ACCESSES       32u   /* needs accesses to be recorded, in whatever mode */
#define NA_VIEW_ERRORS         64u   /* of files of errors, which are no profiles */
#define NA_VIEW_FILE           128u  /* nothing to read on a terminal */
#define NA_VIEW_PACKED         256u  /* compressed already */
#define NA_VIEW_PROFILE        512u  /* writes a profile, to -o FILE only */
#define NA_VIEW_PLAYS          1024u /* gets its profile opened only, and calls na_view_sum */

/* Why an export does without the options of tables. */
#define NA_VIEW_WHOLE "an export has what its reader wants, all of it"

/* A table of a view: which one it shows, the options given say. */
typedef struct na_view_table {
    const na_columns_t *columns; /* NULL: none */
    uint64_t with;               /* the option that asks for it; 0: none does */
} na_view_table_t;

typedef struct na_view {
    const char *name;
    const char *words; /* "FILE", "OLD NEW", "FILE..." */
    const char *help;  /* one line */
    const char *more;  /* lines of --help below that; NULL: none */
    uint32_t modes;    /* that record what it shows */
    uint32_t flags;
    uint64_t takes;            /* options */
    const char *without;       /* why it takes not all of NA_TAKES_TABLE; NULL: it does */
    na_view_table_t tables[3]; /* whose columns --sort takes: of those asked for, the last */
    /* One of these: for one profile that is loaded, or for several that the view loads. */
    na_status_t (*show)(na_view_input_t *in);
    na_status_t (*show_files)(const char *const *files, size_t count, const na_options_t *options);
} na_view_t;

#endif
