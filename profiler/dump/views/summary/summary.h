/* summary.h - what the summary of a profile says, for it and for those above: the page and the
 * views of several profiles. */
#ifndef NUMALLOC_PROFILER_DUMP_VIEWS_SUMMARY_SUMMARY_H
#define NUMALLOC_PROFILER_DUMP_VIEWS_SUMMARY_SUMMARY_H

#include "profiler/analyze/blocks/findings.h"
#include "profiler/dump/profile/view.h"

/* view_summary.c: what is missing from the figures; only what is not 0. Returns how many. */
#define NA_LOST_MAX 7u
typedef struct na_lost {
    uint64_t count;
    const char *what;
} na_lost_t;
size_t na_view_lost(const na_view_input_t *in, na_lost_t lost[NA_LOST_MAX]);

/* view_summary_json.c: the summary as JSON. */
void na_view_summary_json(na_view_input_t *in);

/* finding_words.c: a finding in words. Texts are good until the visit ends. */
typedef struct na_finding {
    const char *key;
    double value, threshold;
    const char *line; /* all that matters: where, its share, what to do, what that saves */
    const char *evidence;
    const char *place; /* where most of it comes from; NULL: about the process */
    const char *reason, *remedy;
    const char *saves;   /* "about 1.2 s, 30 % of the run"; NULL: not known */
    uint32_t site;       /* of the place; NA_NPROF_NO_STACK: none */
    double share;        /* the place's, of what the finding is about; 0: not known */
    na_saving_t unit;    /* of `saved` */
    double saved, worth; /* by mending that place; worth: of the peak or the run */
    bool of_profile;     /* about the profile, not about the program */
} na_finding_t;

/* Visits those that apply, the most valuable first, after those about the profile itself; returns
 * how many. */
size_t na_warnings_each(const na_view_input_t *in,
                        void (*visit)(void *arg, const na_finding_t *finding), void *arg);

/* How many apply; symbols are not needed. */
size_t na_warnings_count(const na_view_input_t *in);

/* view_warnings.c: a line for each warning, after a heading; returns how many. */
size_t na_warnings_list(const na_view_input_t *in);

#endif
