/* policy_match.h - a policy's file beside profiles: which of their sites its rules mean. */
#ifndef NUMALLOC_PROFILER_DUMP_POLICY_POLICY_MATCH_H
#define NUMALLOC_PROFILER_DUMP_POLICY_POLICY_MATCH_H

#include <stdio.h>

#include "profiler/dump/policy/policy_find.h"

#define NA_NO_RULE UINT32_MAX

/* How a module of the policy, or its program, stands to what is there. */
typedef enum na_policy_found {
    NA_POLICY_FOUND_NOT,
    NA_POLICY_FOUND_OTHER, /* another build */
    NA_POLICY_FOUND,
} na_policy_found_t;

/* A policy that was read. All zeros: empty. */
typedef struct na_policy_match {
    const char *file; /* the caller's */
    char *text;
    na_policy_t *policy;
    char *faults; /* lines: what is wrong in the file */
    size_t faults_size;
    na_policy_found_t *modules; /* by module of the policy */
    uint32_t *elfs;  /* the same: number of the na_policy_elf_t, plus 1; 0: the profiles lack it */
    bool program_is; /* the profiles are of a program that it is for */
} na_policy_match_t;

/* Any other status than WHOLE: said why. Free in any case. */
na_status_t na_policy_match_read(na_policy_match_t *match, const char *file);
void na_policy_match_free(na_policy_match_t *match);

/* Does the file begin as a profile does? */
bool na_policy_is_profile(const char *path);

/* Looks for the policy's modules in those of the profiles. */
void na_policy_match_elfs(na_policy_match_t *match, const na_policy_work_t *work);

/* The rule that means a run, the longest; NA_NO_RULE: none. Rules by function mean none here. */
uint32_t na_policy_match_run(const na_policy_match_t *match, const na_judged_site_t *run);

#endif
