/* access_watch_events.h - the kernel's events of source "watch", in each thread: a leader, which
 * says when the thread gets a CPU; a watchpoint for each debug register; the clock that scouts
 * (access_watch_scout.h).
 *
 * The recorder's, before it opens any. */
#ifndef NUMALLOC_PROFILER_RECORD_SOURCES_WATCH_ACCESS_WATCH_EVENTS_H
#define NUMALLOC_PROFILER_RECORD_SOURCES_WATCH_ACCESS_WATCH_EVENTS_H

#include <stdint.h>

#include "profiler/record/sources/access_perf.h"

#define NA_WATCH_WORDS     2u
#define NA_WATCH_EACH      2u /* registers of a word: writes, any access */
#define NA_WATCH_REGISTERS (NA_WATCH_WORDS * NA_WATCH_EACH)
/* Numbers of events in a plan. */
#define NA_WATCH_LEADER 0u
#define NA_WATCH_FIRST  1u
#define NA_WATCH_CLOCK  (NA_WATCH_FIRST + NA_WATCH_REGISTERS)

/* All events, without rings; and the watchpoints alone, which is what measuring takes. They are on
 * `word`, and off. */
void na_watch_events(uintptr_t word, na_perf_plan_t *all, na_perf_plan_t *registers);

#endif
