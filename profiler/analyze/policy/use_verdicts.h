/* use_verdicts.h - which sites' small blocks a program uses again and again, while others' blocks,
 * which it hardly uses, lie between them: in a heap of their own they take fewer cache lines and
 * pages.
 *
 * What counts is how much of a site's memory is used, not how often its most used word is: a search
 * tree is entered at its root each time, but it is the many lower nodes that miss the caches. The
 * windows of watchpoints say that. Each looks at one word, drawn with a known probability, for some
 * tenths of a millisecond or some milliseconds. So the share of windows that saw a use, each
 * weighted by the inverse of its word's probability, estimates the share of the site's words that
 * are used within such a time; its interval is Wilson's, for as many looks as the weighted ones are
 * worth. By the mean length of the windows that is how often a word is used, where uses that follow
 * each other closely count as one.
 *
 * A site is hot if its blocks are small, live long, are of one thread, and the lower end of that
 * rate is NA_USE_LEAST. Blocks of one heap may share lines, so what several threads allocate is
 * left alone. So are sites that call malloc often: a block of a heap costs more to allocate and to
 * free (docs/heaps.md).
 *
 * Hot sites make a group if all of them together have NA_USE_BYTES (less fits into the caches, or
 * nearly), if of the memory around their blocks NA_USE_BETWEEN is of idle sites, and if their calls
 * cost no more than NA_USE_COST. A site is idle if it was looked at and is used less than
 * NA_USE_IDLE times as much as the hot ones. docs/decisions/placing.md has the gain.
 *
 * Pure. */
#ifndef NUMALLOC_PROFILER_ANALYZE_POLICY_USE_VERDICTS_H
#define NUMALLOC_PROFILER_ANALYZE_POLICY_USE_VERDICTS_H

#include "profiler/analyze/policy/life_verdicts.h"

#define NA_USE_LEAST   10.0   /* uses of a word, a second of the clock: fewer on a busy machine */
#define NA_USE_LOOKS   8.0    /* below that nothing is said of a site */
#define NA_USE_SIZE    1024.0 /* the largest mean size: larger blocks have lines and pages alone */
#define NA_USE_BYTES   (2.0 * 1024 * 1024) /* at the peak: a huge page */
#define NA_USE_BETWEEN 0.2
#define NA_USE_IDLE    0.25  /* of the rate that hot sites have */
#define NA_USE_COST    0.005 /* of the run */
#define NA_USE_NS      25.0  /* that a heap's block costs more, malloc and free */

typedef struct na_site_use {
    /* Given. */
    double bytes;             /* of its blocks at the peak; 0: not small */
    double smallest, largest; /* of its blocks, bytes */
    double looks;             /* independent ones that its windows are worth */
    double used;              /* share of its words, within a window; 0 without looks */
    double window;            /* seconds, the mean */
    double cost;              /* share of the run, if it were in a group */
    bool may;                 /* long-lived, and of one thread */
    /* Found. */
    double low, high; /* of `used`, 95 % */
    double rate;      /* uses of a word, a second */
    bool hot;         /* in the group */
} na_site_use_t;

typedef enum na_uses_say {
    NA_USES_GROUP,
    NA_USES_LITTLE, /* few bytes are surely used */
    NA_USES_DENSE,  /* little lies between them already */
    NA_USES_COSTLY
} na_uses_say_t;

typedef struct na_uses_found {
    na_site_use_t *items; /* by index of the sites; NULL: the profile has no windows */
    size_t count;
    na_uses_say_t say;
    double looks;   /* of all windows on blocks */
    double bytes;   /* of small blocks at the peak */
    double hot;     /* of those that are surely used, also if they make no group */
    double unknown; /* of those that could be, with too few looks */
    double between; /* of the memory around a byte of hot ones, the share of idle ones */
    double cost;    /* of the hot sites */
} na_uses_found_t;

/* Finds what is to be found from what is given of found->items. */
void na_uses_judge(na_uses_found_t *found);

/* Of a profile. False: out of memory. Free in both cases. */
bool na_use_verdicts(na_reader_t *reader, const na_sites_t *sites, const na_lives_found_t *lives,
                     na_uses_found_t *found);
void na_use_verdicts_free(na_uses_found_t *found);

#endif
