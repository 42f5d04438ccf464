/* table.h - one table for people, for programs and for spreadsheets: a view fills rows, and --sort,
 * --filter, --top, --json and --csv mean the same for all views.
 *
 * A column has a key (its name in JSON, CSV and --sort) or a title (its heading in text), or both.
 * Running out of memory is remembered and said by na_table_write. */
#ifndef NUMALLOC_PROFILER_DUMP_UI_TABLE_H
#define NUMALLOC_PROFILER_DUMP_UI_TABLE_H

#include <stddef.h>
#include <stdint.h>

#include "profiler/dump/ui/command_line.h"
#include "profiler/json/json.h"

typedef enum na_cell_kind {
    NA_KIND_TEXT,
    NA_KIND_BYTES,
    NA_KIND_COUNT,
    NA_KIND_MS,
    NA_KIND_SHARE,   /* a fraction; text has per cent */
    NA_KIND_ERROR,   /* half the width of a 95 % interval, as a fraction */
    NA_KIND_US,      /* microseconds, to the nanosecond */
    NA_KIND_ADDRESS, /* text and CSV have it in hexadecimal */
    NA_KIND_NUMBER,  /* anything else */
} na_cell_kind_t;

typedef struct na_column {
    const char *key;   /* NULL: in text only */
    const char *title; /* NULL: in JSON and CSV only */
    na_cell_kind_t kind;
    const char *alias; /* another name for --sort; NULL: none */
} na_column_t;

/* What columns a table has; the table of views (view_table.c) names them, so that help, --sort and
 * the completion of its keys know them without a profile. */
typedef struct na_columns {
    const na_column_t *items;
    size_t count;
    bool counters; /* the figures of counter_columns.h come before these: na_table_open_counters */
} na_columns_t;

#define NA_COLUMNS(list)                                                                           \
    { list, sizeof(list) / sizeof(list)[0], false }
#define NA_COUNTERS_AND(list)                                                                      \
    { list, sizeof(list) / sizeof(list)[0], true }

typedef struct na_table na_table_t;

typedef struct na_table_print {
    const char *view;  /* goes into the JSON */
    const char *title; /* text: the line above; NULL: none. "%s" in it: how many rows of how many */
    const char *sort;  /* key of the order that holds if the user asks for none; NULL: as filled */
    const char *empty; /* text: said instead of a table without rows; NULL: the bare heading */
    bool ascending;    /* of that order: smallest first */
    bool all;          /* --top holds only where it was asked for */
    size_t lines_from; /* text: columns from here on are lines below the row; 0: none are */
    /* Text: more lines under a row, and more members of a JSON row. NULL: none. `tag` is the row's.
     */
    void (*below)(void *arg, uint64_t tag);
    void (*members)(na_json_t *json, void *arg, uint64_t tag);
    /* All of a row, instead of its columns: text (rank: from 1), and the JSON value. NULL: none. */
    void (*text)(void *arg, uint64_t tag, size_t rank);
    void (*json)(na_json_t *json, void *arg, uint64_t tag);
    void *arg;
} na_table_print_t;

/* Columns are copied, their strings must outlive the table. NULL: out of memory. */
na_table_t *na_table_open(const na_columns_t *columns);
na_table_t *na_table_open_joined(const na_column_t *first, size_t first_count,
                                 const na_columns_t *then);
void na_table_close(na_table_t *table);

/* Of a column whose cells are counts for one --sort and bytes for others. */
void na_table_kind(na_table_t *table, size_t column, na_cell_kind_t kind);

/* Begins a row whose cells are all absent: null, nothing, or "-". */
void na_table_row(na_table_t *table, uint64_t tag);

/* Cells of the row begun last. Texts are copied; NULL: absent. Not a number: absent. */
void na_table_number(na_table_t *table, size_t column, double value);
void na_table_text(na_table_t *table, size_t column, const char *text);
__attribute__((format(printf, 3, 4))) void na_table_format(na_table_t *table, size_t column,
                                                           const char *format, ...);

size_t na_table_rows(const na_table_t *table);

/* Is it text, JSON or CSV that was asked for; writes it to stdout. Columns whose cells are all
 * absent are left out of the text. (main has checked the key of --sort.) */
na_status_t na_table_write(na_table_t *table, const na_options_t *options,
                           const na_table_print_t *print);

/* Begins the JSON document of a view: its schema and version first. */
void na_json_document(na_json_t *json, const char *view);

/* Only [row, ...], for a view whose JSON has more than a table. */
na_status_t na_table_json_rows(na_json_t *json, const char *name, na_table_t *table,
                               const na_options_t *options, const na_table_print_t *print);

/* Of a table that may have very many rows: after each was filled, those go that na_table_write
 * would not show. False: out of memory, or no such order. */
bool na_table_thin(na_table_t *table, const na_options_t *options, const na_table_print_t *print);
/* So many more rows were not filled, since they would not be shown. */
void na_table_skip(na_table_t *table, size_t count);

/* A table that is too long to be kept. After each row was filled na_table_pass writes it, as it
 * came; or, with --sort, keeps it if it is among the first --top so far. False: no more rows are
 * wanted. na_table_end ends the table. --filter is the caller's; text has fixed widths. */
bool na_table_pass(na_table_t *table, const na_options_t *options, const na_table_print_t *print);
na_status_t na_table_end(na_table_t *table, const na_options_t *options,
                         const na_table_print_t *print);

/* Does the user want rows of what text otherwise draws? Any format or option of tables says so. */
bool na_table_wanted(const na_options_t *options);

/* Does --filter let this text through? True without --filter. */
bool na_filter_matches(const na_options_t *options, const char *text);

#endif
