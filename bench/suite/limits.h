/* limits.h - what a benchmark checks of its knobs before anything runs.
 *
 * Each function returns true, or false with one line in `error`: what is wrong and how to mend it.
 * They are called from a benchmark's settle function. */
#ifndef NUMALLOC_BENCH_SUITE_LIMITS_H
#define NUMALLOC_BENCH_SUITE_LIMITS_H

#include "bench/suite/knobs.h"

/* Bytes that this process can still get: the machine's available memory, or less where a control
 * group or a limit of the process leaves less. UINT64_MAX where nothing can be found out. */
uint64_t na_limits_memory(void);

/* Threads that this process can still get, by the system's and its group's limits. UINT64_MAX where
 * nothing can be found out. */
uint64_t na_limits_threads(void);

/* The run needs about `bytes` (a double, so that a product of large knobs cannot wrap) at once.
 * `mend` names the knobs to lower: "--objects or --threads". */
bool na_limits_fit(double bytes, const char *mend, char *error, size_t size);

/* Knob `low` must not be above knob `high` (both are numbers, given by their places). */
bool na_limits_ordered(const na_knobs_t *knobs, size_t low, size_t high, char *error, size_t size);

#endif
