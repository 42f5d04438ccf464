/* findings.h - what in a profile asks for attention, and what mending it would save. Pure: figures
 * only; numalloc-dump has the words, names the place and puts the most valuable first.
 *
 * What a finding says is of the peak, of the whole run, or of a moment that the process spent time
 * in. So what lives in the end counts for the peak as far as it lived then, and spans count as they
 * are at a dump; at the end only if the process had been at that level for a while.
 *
 * A finding holds if its figure is above its threshold and, where its cost can be told, that cost
 * is above a hundredth: of the peak for memory, of the run for time. What costs less is not worth a
 * line, whatever its share of something may be. */
#ifndef NUMALLOC_PROFILER_ANALYZE_BLOCKS_FINDINGS_H
#define NUMALLOC_PROFILER_ANALYZE_BLOCKS_FINDINGS_H

#include "profiler/analyze/blocks/site_sums.h"

/* Those up to FEW_SAMPLES are about the profile: what they say holds for all its figures. */
typedef enum na_finding_kind {
    NA_FINDING_OTHER_MALLOC,
    NA_FINDING_LOST_EVENTS,
    NA_FINDING_TRUNCATED_STACKS,
    NA_FINDING_FEW_SAMPLES,
    NA_FINDING_NOT_FREED,
    NA_FINDING_ALLOCATION_RATE,
    NA_FINDING_TEMPORARIES,
    NA_FINDING_TINY_BLOCKS,
    NA_FINDING_ROUNDING,
    NA_FINDING_RESIDENT,
    NA_FINDING_FRAGMENTATION,
    NA_FINDING_CROSS_THREAD,
    NA_FINDING_CROSS_NODE,
    NA_FINDING_REALLOCS,
    NA_FINDING_GROWTH,
    NA_FINDING_THREADS,
    NA_FINDING_KINDS
} na_finding_kind_t;

typedef enum na_saving {
    NA_SAVING_UNKNOWN,
    NA_SAVING_BYTES,
    NA_SAVING_MS,
} na_saving_t;

/* Time that is counted for what no profile measures. One allocation with its free, caches included;
 * one byte that is copied from memory to memory. */
#define NA_FINDING_PAIR_NS 40.0
#define NA_FINDING_COPY_NS 0.25

/* Of the peak, or of the run. */
#define NA_FINDING_WORTH 0.01

/* Of the run: so long the process must have had no more live than about what it has at the end, for
 * that to be a moment of its work and not of its end. */
#define NA_FINDING_STAY 0.05
#define NA_FINDING_NEAR 1.5 /* "about": times what lives at the end */

typedef struct na_finding_figure {
    na_finding_kind_t kind;
    double value, threshold; /* value > threshold */
    double figure[3];        /* what the value is made of, for the words; which: in findings.c */
    na_saving_t unit;
    double saves;  /* bytes, or ms, if all of it were mended */
    double whole;  /* na_finding_part over all sites */
    double worth;  /* that as a share of the peak or the run, 1 at most; 0: not known */
    double error;  /* half the width of the 95 % interval of what was drawn, as a share; 0: exact */
    bool at_most;  /* the memory may be needed: what is saved is somewhere below */
    bool not_peak; /* bytes of another moment, that of the spans; of figure[0] + figure[1] */
} na_finding_figure_t;

/* Those that hold, in the order of their kinds; returns how many. */
size_t na_findings(na_reader_t *reader, const na_sites_t *sites,
                   na_finding_figure_t found[NA_FINDING_KINDS]);

/* Did the profile begin after the process? Then its peak and its time are not those of the run. */
bool na_begun_late(na_reader_t *reader);

/* Is the finding about the profile, and not about the program? */
static inline bool na_finding_of_profile(na_finding_kind_t kind) {
    return kind <= NA_FINDING_FEW_SAMPLES;
}

/* Does the finding have a place: a site or a function where most of it comes from? */
bool na_finding_has_place(na_finding_kind_t kind);

/* What a site or a function has of it; the savings are in proportion. 0 for a finding without a
 * place, and for fragmentation, whose sites the spans name (na_reader_span_sites). */
double na_finding_part(na_finding_kind_t kind, const na_counters_t *sum);

/* The sampled point of the timeline that covers the peak or is next to it; NULL: never sampled. */
const na_nprof_point_t *na_point_at_peak(na_reader_t *reader, const na_sites_t *sites);

#endif
