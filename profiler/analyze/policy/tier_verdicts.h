/* tier_verdicts.h - which call sites' blocks belong into near memory, where there is room for some
 * of them only: those with most accesses per byte. The others belong into far memory.
 *
 * Sites are taken in the order of accesses per byte that they have live at the peak, most first. A
 * site that fits into what is left is near. One that does not is far, and the next ones go on: so
 * near memory is filled well, though not always as well as it could be. Before all others come the
 * bytes of sites that are left alone, which lie near: those that no rule can mean, and those with
 * less than `least` of the bytes and of the accesses.
 *
 * A site that no sample met is far if that is sure: had it as many accesses per byte as the coldest
 * site that is near, it would have been met. If it is not sure, and there is room, nothing is said
 * of the site.
 *
 * Data: an array of sites, whose first members are given and the others found, and sums. The order
 * of the array stays. Invariant: what is near and what is left alone is at most the budget, unless
 * what is left alone is more than that already; then everything else is far.
 *
 * Pure, and for any caller: it knows neither profiles nor rules. */
#ifndef NUMALLOC_PROFILER_ANALYZE_POLICY_TIER_VERDICTS_H
#define NUMALLOC_PROFILER_ANALYZE_POLICY_TIER_VERDICTS_H

#include <stdbool.h>
#include <stddef.h>

typedef enum na_tier { NA_TIER_ALONE, NA_TIER_NEAR, NA_TIER_FAR } na_tier_t;

typedef struct na_tier_site {
    /* Given. */
    double bytes; /* live at the peak */
    double share; /* of all accesses to blocks, 0 to 1 */
    double draws; /* independent samples behind `share`; 0: none met it */
    bool fixed;   /* no rule can mean it: left alone */
    /* Found. */
    na_tier_t tier;
    bool too_large; /* far because it did not fit, and others that fit have fewer accesses */
    double left;    /* bytes of near memory that were left when its turn came */
    double chance;  /* 0 to 1, that its accesses per byte are as the order has them: of a near one,
                     * against the next far one; of a far one, against the last near one */
} na_tier_site_t;

typedef enum na_tiers_say {
    NA_TIERS_DIVIDED, /* each site has a tier */
    NA_TIERS_ALL_FIT, /* all is left alone: there is room for all */
    NA_TIERS_FEW      /* the same: fewer draws than NA_TIER_DRAWS */
} na_tiers_say_t;

/* Draws in all, so that anything is said. */
#define NA_TIER_DRAWS 50.0

typedef struct na_tiers {
    na_tiers_say_t say;
    double bytes; /* of all sites */
    double alone; /* bytes that are left alone */
    double near;  /* bytes of near sites */
} na_tiers_t;

/* `draws`: independent samples in all. `least`: a share. False: out of memory. */
bool na_tiers_divide(na_tier_site_t *sites, size_t count, double budget, double draws, double least,
                     na_tiers_t *tiers);

#endif
