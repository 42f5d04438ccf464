/* life_verdicts.h - which sites' small blocks live long, and what memory they keep that nobody
 * uses: a span with one live block in it cannot go back. In a heap of their own such blocks lie
 * close together, and what short-lived blocks leave becomes free as a whole.
 *
 * Long is what lives for half of the run, or to its end. What a site keeps is either measured
 * (the spans as they were when the profile was completed, where most of its long-lived blocks still
 * lived), or estimated: as if long- and short-lived blocks of about one size had come in no
 * particular order until the peak, which is the most that it can be.
 *
 * Pure. */
#ifndef NUMALLOC_PROFILER_ANALYZE_POLICY_LIFE_VERDICTS_H
#define NUMALLOC_PROFILER_ANALYZE_POLICY_LIFE_VERDICTS_H

#include "profiler/analyze/blocks/site_sums.h"

typedef struct na_site_life {
    double blocks, longs; /* allocated, and those that lived long; not scaled */
    double peak;          /* blocks at the peak or at the end, the larger */
    double kept;          /* bytes that they keep of what nobody uses */
    bool small;           /* of blocks that share spans */
    bool is_long;         /* most of its blocks */
    bool measured;        /* `kept` is */
} na_site_life_t;

typedef struct na_lives_found {
    na_site_life_t *items; /* by index of the sites */
    double kept, measured; /* sums over long-lived sites; measured: that part of it */
    double resident;       /* bytes of the process at the peak; 0: not known */
    double run_s;
} na_lives_found_t;

/* False: out of memory. Free in both cases. */
bool na_life_verdicts(na_reader_t *reader, const na_sites_t *sites, na_lives_found_t *found);
void na_life_verdicts_free(na_lives_found_t *found);

#endif
