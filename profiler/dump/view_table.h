/* view_table.h - the table of views, and the help that comes from it. */
#ifndef NUMALLOC_PROFILER_DUMP_VIEW_TABLE_H
#define NUMALLOC_PROFILER_DUMP_VIEW_TABLE_H

#include "profiler/dump/profile/view.h"

extern const na_view_t *const na_views[];
extern const size_t na_view_count_all;

/* NULL: no view of that name. Of a name of before, the view that it is now with other options,
 * which are set (NULL: not wanted). */
const na_view_t *na_view_find(const char *name, na_options_t *options);

/* How many files its words ask for: *least to *most (SIZE_MAX: any). */
void na_view_files(const na_view_t *view, size_t *least, size_t *most);

/* False: said in one line that the file's mode does not record it, and which one does. */
bool na_view_has_data(const na_view_t *view, const na_view_input_t *in);

/* The keys of --sort, those that users are told first; with `given` options. */
void na_view_sort_keys(const na_view_t *view, uint64_t given,
                       void (*visit)(void *arg, const char *key), void *arg);
bool na_view_has_key(const na_view_t *view, uint64_t given, const char *key);
na_status_t na_view_refuse_key(const na_view_t *view, uint64_t given, const char *key);

/* Says in one line that the view does not take the option, one of `set`, and why, or which views
 * do. */
na_status_t na_view_refuse_option(const na_view_t *view, const char *option, uint64_t set);

/* The help of all views with the table of views and modes, or of one. */
void na_views_help(bool names);
typedef enum na_help {
    NA_HELP_TEXT,
    NA_HELP_NAMES, /* for completion: options, a line each */
    NA_HELP_KEYS,  /* the same: keys of --sort, as they are with the options `given` */
} na_help_t;
void na_view_help(const na_view_t *view, na_help_t what, uint64_t given);

#endif
