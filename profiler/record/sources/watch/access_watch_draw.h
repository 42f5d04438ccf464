/* access_watch_draw.h - which words of the heap are watched: drawn at random, with a probability
 * that is known, from the memory of all spans that have records. */
#ifndef NUMALLOC_PROFILER_RECORD_SOURCES_WATCH_ACCESS_WATCH_DRAW_H
#define NUMALLOC_PROFILER_RECORD_SOURCES_WATCH_ACCESS_WATCH_DRAW_H

#include "profiler/record/state/record.h"

#define NA_DRAW_STRATA 128u  /* 64 classes, then large blocks by size */
#define NA_DRAW_KNOWN  128u  /* words that had hits */
#define NA_DRAW_SITES  1024u /* places of sites (access_watch_sites.h) */
#define NA_DRAW_SLOTS  (NA_DRAW_STRATA + NA_DRAW_KNOWN + NA_DRAW_SITES)

typedef struct na_draw {
    uintptr_t address; /* of 8 bytes */
    double inverse;    /* 1 / probability of this word in one draw */
    uint32_t slot;     /* what it was drawn from: a stratum, a word that had hits, or a site */
    uint32_t stratum;  /* of the word */
    uint32_t words;    /* of its span */
} na_draw_t;

/* Memory for the list of spans. False: none. */
bool na_draw_start(uint64_t seed);
/* Makes the list anew: which spans there are now. Returns how many. */
uint32_t na_draw_look(const na_profile_config_t *config);
/* False: there is nothing to draw from. */
bool na_draw(na_draw_t *draw);
/* What became of a draw: accesses a ns of the word. A word that had some is known from then on;
 * returns its slot if it is new, else UINT32_MAX. */
uint32_t na_draw_learn(const na_draw_t *draw, double rate);
/* A word that may be used much, by what is known besides: it is known from then on. */
void na_draw_suspect(uintptr_t word);
/* Uniform in [0, below). */
uint64_t na_draw_below(uint64_t below);

#endif
