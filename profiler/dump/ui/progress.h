/* progress.h - how far a long job is, in one line on a terminal.
 *
 * The line appears on standard error a second after the program began, if that is a terminal (and
 * not TERM=dumb), and is erased before anything else is written. Calls are cheap (on a terminal
 * they read the clock, else nothing); those of other threads than the first do nothing. */
#ifndef NUMALLOC_PROFILER_DUMP_UI_PROGRESS_H
#define NUMALLOC_PROFILER_DUMP_UI_PROGRESS_H

#include <stdint.h>

/* To be called first: the second begins. */
void na_progress_begin(void);

/* `what` is being done, like "reading". */
void na_progress(const char *what, uint64_t done, uint64_t all);

/* Debug information is being downloaded (na_symbols_downloading); all <= 0: nobody knows how much.
 */
void na_progress_download(long done, long all);

/* Erases the line. It may come again, unless standard output, which is written to from here on, is
 * a terminal, too. */
void na_progress_end(void);

#endif
