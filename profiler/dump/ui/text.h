/* text.h - how figures and names are written for people.
 *
 * Names come from profiled programs and from files that may be hostile: nothing of them reaches a
 * terminal that is not printable, and JSON stays valid whatever they hold. */
#ifndef NUMALLOC_PROFILER_DUMP_UI_TEXT_H
#define NUMALLOC_PROFILER_DUMP_UI_TEXT_H

#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

/* Room for any figure below. */
#define NA_TEXT 40

/* "1.50 MiB", "-12 B" */
const char *na_text_bytes(char out[NA_TEXT], double bytes);

/* "1,234,567" */
const char *na_text_count(char out[NA_TEXT], double count);

/* "1 block", "1,234 accesses": `one` is what there is one of, at most twelve letters. */
const char *na_text_counted(char out[NA_TEXT], double count, const char *one);

/* "950 ms", "12.3 s", "1 h 02 min" */
const char *na_text_ms(char out[NA_TEXT], uint64_t ms);

/* Writes behind what is in `to`; what does not fit is left out. */
__attribute__((format(printf, 3, 4))) void na_text_append(char *to, size_t room, const char *format,
                                                          ...);

/* Writes a name with control characters and broken UTF-8 replaced by '?'. */
void na_text_put(FILE *to, const char *name);

#endif
