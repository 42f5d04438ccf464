/* site_rules.h - which run of call frames says enough of a call site: the shortest one that tells
 * the sites of one verdict from all sites with another.
 *
 * A site is known by a run: the return addresses of its stack as offsets in modules, innermost
 * first, up to NA_JUDGED_FRAMES. Of each kind of action it has a verdict: a value, "leave alone",
 * or nothing that speaks for or against. A rule is a run with an action: the longest rule that is
 * the beginning of a call's stack is the one that counts, as in the allocator
 * (profiler/policy/rules/rules.h).
 *
 * For each kind the runs are taken as a tree, innermost frame at the root. Where all that lies
 * below a node has one verdict, or none to speak of, the way to that node is a rule; else one more
 * frame is looked at. Where there is no more frame, nine tenths of bytes and blocks decide; what
 * not even they agree on is left out, and counted. A rule also has the actions of the shorter ones
 * that it begins with, since they no longer apply where it does.
 *
 * Pure. */
#ifndef NUMALLOC_PROFILER_ANALYZE_POLICY_SITE_RULES_H
#define NUMALLOC_PROFILER_ANALYZE_POLICY_SITE_RULES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "profiler/policy/rules/rules.h"

#define NA_JUDGED_FRAMES NA_POLICY_FRAMES

typedef enum na_rule_kind {
    NA_RULE_PLACE,
    NA_RULE_LINES,
    NA_RULE_LIFE,
    NA_RULE_RESERVE,
    NA_RULE_GROUP,
    NA_RULE_KINDS
} na_rule_kind_t;

/* Kinds that say which memory a block comes from. */
static inline bool na_rule_moves(na_rule_kind_t kind) {
    return kind == NA_RULE_PLACE || kind == NA_RULE_LINES || kind == NA_RULE_LIFE;
}

/* Verdicts; all others are values that mean something to the caller. */
#define NA_VERDICT_ALONE 0u         /* leave it as it is */
#define NA_VERDICT_ANY   UINT32_MAX /* nothing is known, or too little depends on it */

typedef struct na_judged_frame {
    uint32_t module; /* the caller's number */
    uint64_t offset;
} na_judged_frame_t;

typedef struct na_judged_site {
    na_judged_frame_t frames[NA_JUDGED_FRAMES];
    uint32_t depth; /* frames that are known; 0: no rule can mean it */
    uint32_t verdict[NA_RULE_KINDS];
    double bytes, blocks;  /* how much depends on it: what was allocated */
    uint32_t source, item; /* the caller's */
} na_judged_site_t;

typedef struct na_site_rule {
    size_t first, count;           /* the runs that begin with it */
    uint32_t depth;                /* frames, those of runs[first] */
    uint32_t value[NA_RULE_KINDS]; /* NA_VERDICT_ALONE: nothing is said */
    /* The least of the two shares, bytes and blocks, of the verdict among those that have one; 1
     * but for the longest runs. */
    double agree[NA_RULE_KINDS];
} na_site_rule_t;

/* With runs of k frames: what lies in runs that sites of different verdicts have in common, and
 * what at least goes wrong, whatever the rule for such a run says. */
typedef struct na_run_conflict {
    double bytes, blocks, wrong_bytes, wrong_blocks;
} na_run_conflict_t;

typedef struct na_site_rules {
    na_site_rule_t *items;
    size_t count, room;
    uint64_t left_out[NA_RULE_KINDS];              /* runs that nothing tells apart */
    na_run_conflict_t conflicts[NA_JUDGED_FRAMES]; /* [k - 1] */
} na_site_rules_t;

/* In the order of frames (for qsort): those with the same ones, which no rule tells apart, lie side
 * by side. */
int na_judged_sites_order(const void *a, const void *b);
bool na_judged_same_frames(const na_judged_site_t *a, const na_judged_site_t *b);

/* Sorts the runs, as na_judged_sites_order has it. False: out of memory. Free in both cases. */
bool na_site_rules_make(na_judged_site_t *runs, size_t count, na_site_rules_t *rules);
void na_site_rules_free(na_site_rules_t *rules);

#endif
