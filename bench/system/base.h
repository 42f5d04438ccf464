/* base.h - what every part of the suite asks of the system: memory that is not malloc's, the time,
 * the end with a message, a line of progress. */
#ifndef NUMALLOC_BENCH_SYSTEM_BASE_H
#define NUMALLOC_BENCH_SYSTEM_BASE_H

#include <stddef.h>
#include <stdint.h>

#define NA_COUNT(array) (sizeof(array) / sizeof((array)[0]))

/* Zeroed, already resident memory of the suite's own, never returned (page granular). Ends the
 * program with a message when there is none. */
void *na_bench_map(size_t bytes);
/* All of it, in bytes. */
uint64_t na_bench_mapped(void);

/* Nanoseconds of a monotonic clock. */
uint64_t na_bench_now(void);

/* One line on stderr and exit status 1. For what goes wrong while a benchmark runs. */
_Noreturn void na_bench_fail(const char *format, ...) __attribute__((format(printf, 1, 2)));

/* "churn: repetition 3 of 5", rewritten in place; only where stderr is a terminal. The last call,
 * with done == total, wipes the line. */
void na_bench_progress(const char *what, size_t done, size_t total);

/* No progress line from now on: another program shows its own. */
void na_bench_progress_off(void);

#endif
