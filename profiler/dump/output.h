/* output.h - where a view's output goes: views write to stdout, and with -o that is a temporary
 * file beside the wanted one, which takes its name when all is written. An interrupt, an error or a
 * full disk leaves what was there before. Text is compressed if the name ends with .gz. */
#ifndef NUMALLOC_PROFILER_DUMP_OUTPUT_H
#define NUMALLOC_PROFILER_DUMP_OUTPUT_H

#include <stdbool.h>

typedef enum na_output_kind {
    NA_OUTPUT_TEXT,
    NA_OUTPUT_PACKED,  /* compressed already, whatever its name */
    NA_OUTPUT_PROFILE, /* written here and there: a regular file, not compressed */
} na_output_kind_t;

/* Turns stdout to the file. NULL: nothing to do. False: one line on stderr said why. */
bool na_output_begin(const char *path, na_output_kind_t kind);

/* Flushes, and if `keep`, gives the file its name; otherwise removes it. False: it could not be
 * written in full, which was said in one line on stderr. Also without -o. */
bool na_output_end(bool keep);

#endif
