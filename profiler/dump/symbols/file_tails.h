/* file_tails.h - what of a file's path tells it from all others: its name, or as many folders in
 * front of it as that takes. */
#ifndef NUMALLOC_PROFILER_DUMP_SYMBOLS_FILE_TAILS_H
#define NUMALLOC_PROFILER_DUMP_SYMBOLS_FILE_TAILS_H

#include <stdbool.h>
#include <stdint.h>

/* Begins as zeros; paths are the caller's. */
typedef struct na_file_tails {
    const char **files;
    uint32_t count, room;
} na_file_tails_t;

bool na_file_tails_add(na_file_tails_t *tails, const char *file); /* false: out of memory */
/* After the last one was added, before the first is asked for. */
void na_file_tails_sort(na_file_tails_t *tails);
/* The end of `file`, which was added. */
const char *na_file_tail(const na_file_tails_t *tails, const char *file);
void na_file_tails_free(na_file_tails_t *tails);

#endif
