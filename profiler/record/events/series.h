/* series.h - figures over time by rows (NA_NPROF_SERIES), and the sites' shares that feed them. */
#ifndef NUMALLOC_PROFILER_RECORD_EVENTS_SERIES_H
#define NUMALLOC_PROFILER_RECORD_EVENTS_SERIES_H

#include "profiler/record/state/state.h"

/* Makes what there is room for; the rest is missing from the file. */
void na_series_start(void);

/* The level of what a row is about changed. Ignored if the row is about something else by now. */
typedef struct na_level_change {
    uint32_t row, id;
    int64_t before, after;
} na_level_change_t;
void na_series_level(uint32_t kind, const na_level_change_t *change, uint64_t ms);

/* Row of the series of sites for a site that has `live` bytes now, plus 1; 0: it is not among the
 * largest. `*lost`: the site that it took the row from, 0: none. */
uint32_t na_series_claim(uint32_t site, uint64_t ms, int64_t live, uint32_t *lost);

/* What the thread allocated by size, and what it holds by node, since it last came here. */
void na_series_publish(na_rthread_t *t, uint64_t ms, bool at_once);

/* Nothing is noted in between. */
void na_series_hold(void);
void na_series_let_go(void);

/* ---- resident.c ---- */
void na_resident_start(bool wanted);
/* The C library is ready: starts the thread that reads, if it is wanted. It allocates. */
void na_resident_thread(void);
/* The thread has ended. */
void na_resident_finish(void);

/* ---- shares.c ---- */
bool na_shares_start(void);

#endif
