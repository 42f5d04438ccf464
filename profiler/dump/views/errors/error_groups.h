/* error_groups.h - the errors of many files put together: the same kind of error with the same
 * stacks is one, wherever its modules lay (docs/guard.md).
 *
 * How often such an error has happened is more than how often it was found: of the blocks of its
 * allocation site only a part is guarded, and that part is known. */
#ifndef NUMALLOC_PROFILER_DUMP_VIEWS_ERRORS_ERROR_GROUPS_H
#define NUMALLOC_PROFILER_DUMP_VIEWS_ERRORS_ERROR_GROUPS_H

#include "profiler/dump/views/errors/error_files.h"

typedef struct na_error_group {
    char *key;
    const na_error_file_t *file; /* of the first one */
    const na_gf_error_t *error;
    size_t *files; /* those that it is in; a file once for each time */
    size_t times, room;
    size_t processes;
    uint64_t first_ns, last_ns;
    double happened; /* estimated; 0: no chance is known */
} na_error_group_t;

typedef struct na_errors {
    na_error_file_t *files;
    size_t file_count;
    na_error_group_t *groups; /* the most frequent ones first, once they are sorted */
    size_t count, room;
    size_t lost; /* errors that were found, and are not in the files */
    const na_options_t *options;
} na_errors_t;

/* All errors of these files, sorted. What cannot be read was named on stderr: then *status is
 * NA_STATUS_PARTIAL, or NA_STATUS_NOTHING where none could be. False: out of memory. Free it with
 * na_errors_free in any case. */
bool na_errors_read(na_errors_t *all, const char *const *paths, size_t count,
                    const na_options_t *options, na_status_t *status);
void na_errors_free(na_errors_t *all);

/* Other errors instead: none; one of all->files[file], which lives as long (false: out of memory);
 * and their order. */
void na_errors_forget(na_errors_t *all);
bool na_errors_add(na_errors_t *all, size_t file, const na_gf_error_t *error);
void na_errors_sort(na_errors_t *all);

/* How many frames it has of this stack. */
uint32_t na_error_frames(const na_gf_error_t *error, unsigned which);

/* "use-after-free", "use after free"; "read", "write", NULL: not known. */
const char *na_error_key(uint32_t kind);
const char *na_error_words(uint32_t kind);
const char *na_error_access(uint32_t access);
/* It was found by what the block's surroundings, or the freed block, held: the stack of the access
 * is that of a free, or none. */
bool na_error_is_late(uint32_t kind);

#endif
