/* output.h - where a view's output goes: views write to stdout, and with -o that is a temporary
 * file beside the wanted one, which takes its name when all is written. An interrupt, an error or a
 * full disk leaves what was there before. */
#ifndef NUMALLOC_PROFILER_DUMP_OUTPUT_H
#define NUMALLOC_PROFILER_DUMP_OUTPUT_H

#include <stdbool.h>

/* Turns stdout to the file. NULL: nothing to do. False: one line on stderr said why. */
bool na_output_begin(const char *path);

/* Flushes, and if `keep`, gives the file its name; otherwise removes it. False: it could not be
 * written in full, which was said in one line on stderr. Also without -o. */
bool na_output_end(bool keep);

#endif
