/* files.h - the profiles that the words of a command line mean: a directory stands for the profiles
 * in it and below. */
#ifndef NUMALLOC_PROFILER_DUMP_FILES_H
#define NUMALLOC_PROFILER_DUMP_FILES_H

#include "profiler/dump/ui/command_line.h"

typedef struct na_files {
    char **items;
    size_t count;
} na_files_t;

bool na_is_directory(const char *path);

/* A file of errors (profiler/format/guard_file.h), by its first bytes. */
bool na_is_error_file(const char *path);

/* What is no directory stays as it is, readable or not. `errors`: it stands for the files of errors
 * in it instead. NA_STATUS_NOTHING: a directory cannot be read, or has none; said. Free in any
 * case.
 */
na_status_t na_files_find(const char *const *words, size_t count, bool errors, na_files_t *files);
void na_files_free(na_files_t *files);

#endif
