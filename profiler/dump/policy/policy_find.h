/* policy_find.h - what profiles say that an allocator could do otherwise, by call site: the
 * evidence that the rules of a policy are made of. */
#ifndef NUMALLOC_PROFILER_DUMP_POLICY_POLICY_FIND_H
#define NUMALLOC_PROFILER_DUMP_POLICY_POLICY_FIND_H

#include "profiler/analyze/policy/life_verdicts.h"
#include "profiler/analyze/policy/place_verdicts.h"
#include "profiler/analyze/policy/site_rules.h"
#include "profiler/analyze/policy/tier_verdicts.h"
#include "profiler/analyze/policy/use_verdicts.h"
#include "profiler/dump/profile/view.h"

/* A module of any of the profiles. */
typedef struct na_policy_elf {
    const char *name; /* of the file, without the folder; belongs to a profile's reader */
    const uint8_t *build_id;
    uint32_t build_id_size;
    bool main;
} na_policy_elf_t;

/* One profile. By index of its sites: verdicts are numbers of verdicts.items, plus 1; 0: none. */
typedef struct na_policy_profile {
    na_view_input_t in;
    uint32_t *module; /* by id of a module: number of the na_policy_elf_t, plus 1; 0: none */
    na_flows_t flows;
    na_verdicts_t verdicts;
    na_lives_found_t lives;
    na_uses_found_t uses;
    bool accesses; /* there were any: the first two are there */
    /* Sites of blocks that were accessed, of which nothing was counted: they follow the others. */
    uint32_t *more_sites;
    size_t more_count;
    uint32_t *place, *lines;
    uint32_t *tier; /* by site: number of the na_policy_tiers_t site, plus 1; 0: none */
} na_policy_profile_t;

/* The stack of a site, by index; what was counted there, NULL: nothing. */
static inline uint32_t na_policy_site(const na_policy_profile_t *p, size_t i) {
    size_t count = p->in.sites.count;
    return i < count ? p->in.sites.items[i].site : p->more_sites[i - count];
}
static inline const na_counters_t *na_policy_sum(const na_policy_profile_t *p, size_t i) {
    return i < p->in.sites.count ? &p->in.sites.items[i].sum : NULL;
}

/* Near and far memory (--near; policy_tiers.h). A site is a run of frames, over all profiles. */
typedef struct na_policy_tiers {
    na_tier_site_t *sites;
    uint32_t count;
    double budget, peak; /* bytes; peak: of the profile with the highest one */
    na_tiers_t found;
    const char *why_not; /* no tier was looked for: why; NULL: it was */
    uint64_t samples;    /* of accesses to blocks */
    double draws;        /* that they are worth, independent ones */
    const char *source;  /* of them; of several profiles, the first one's */
    double pooled;       /* of all accesses to the heap, the share in blocks of announced pools */
    double was_near;     /* share of them as it was; not a number: not known, or no far memory */
    size_t *rule;        /* by run: the rule that means it, plus 1; 0: none */
} na_policy_tiers_t;

typedef struct na_policy_work {
    na_options_t options;
    na_policy_profile_t *profiles;
    size_t count;
    na_policy_elf_t *elfs;
    uint32_t elf_count, elf_room;
    na_judged_site_t *runs;
    size_t run_count;
    na_site_rules_t rules;
    na_policy_tiers_t tiers;
    double least;                /* gain of a rule, a share */
    bool kinds[NA_RULE_KINDS];   /* that are asked for */
    double below[NA_RULE_KINDS]; /* the most gain that was not enough */
    double little_kept;          /* bytes below NA_POLICY_LEAST_KEPT: the most of a profile */
    uint32_t unreached;          /* sites that no rule reaches (na_policy_reaches) */
    uint32_t few_samples;        /* long-lived sites of which too little was drawn to say so */
} na_policy_work_t;

/* Bytes that long-lived blocks keep in vain: what a few spans are is no reason for a rule. */
#define NA_POLICY_LEAST_KEPT (256 * 1024.0)

#define NA_LIFE_LONG 1u
#define NA_OWN_LINES 1u
#define NA_GROUP_HOT 1u

/* Verdicts of placement: the place, and the node or NA_POLICY_NO_NODE. */
static inline uint32_t na_place_value(na_policy_place_t place, uint16_t node) {
    return (uint32_t)place | (uint32_t)node << 8;
}
static inline na_policy_place_t na_place_of(uint32_t value) {
    return (na_policy_place_t)(value & 0xff);
}
static inline uint16_t na_place_node(uint32_t value) {
    return (uint16_t)(value >> 8);
}

extern const char na_rule_kind_names[NA_RULE_KINDS][8]; /* as --only takes them */

/* Loads the files and finds the rules. Any other status than WHOLE: said why. Free in any case; it
 * says what is damaged. */
na_status_t na_policy_find(na_policy_work_t *work, const char *const *files, size_t count,
                           const na_options_t *options);
na_status_t na_policy_work_free(na_policy_work_t *work, na_status_t status);

/* Can a rule mean the blocks of this stack? Not those whose place a call of numalloc.h names. (Mode
 * trace does not tell.) */
bool na_policy_reaches(const na_policy_profile_t *profile, uint32_t site);

/* Has this verdict, by number, made a rule? */
bool na_policy_is_ruled(const na_policy_work_t *work, const na_policy_profile_t *profile,
                        uint32_t verdict);

/* What time a site's growing blocks cost by being copied, as a share of the run, and how large they
 * become; 0: they do not grow so. */
double na_policy_growth(const na_policy_profile_t *p, const na_counters_t *sum, uint64_t *bytes);

/* Sites of a profile, also those of which nothing was counted. */
static inline size_t na_policy_sites(const na_policy_profile_t *p) {
    return p->in.sites.count + p->more_count;
}

/* Bytes that shares of memory are of: the process at its peak, else its blocks. */
double na_policy_memory(const na_policy_profile_t *p);

#endif
