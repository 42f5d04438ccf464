/* nprof_policy.h - what a profile says of the policy that the process ran under: types 56 and 57.
 *
 * Written when the profile begins, again about every second while the process allocates, and when
 * the profile or a copy of it is completed: so each is a snapshot, and after a kill the last one.
 * A file without these chunks is of a process without a policy. */
#ifndef NUMALLOC_PROFILER_FORMAT_NPROF_POLICY_H
#define NUMALLOC_PROFILER_FORMAT_NPROF_POLICY_H

#include <stdint.h>

#define NA_NPROF_POLICY       56u
#define NA_NPROF_POLICY_RULES 57u

/* Numbers of heaps go from 1 to this, of all that a process ever has. */
#define NA_NPROF_POLICY_HEAPS 4096u

typedef enum na_nprof_policy_state {
    NA_NPROF_POLICY_APPLIED = 1,
    NA_NPROF_POLICY_FOR_OTHERS, /* programs */
    NA_NPROF_POLICY_NOT_OURS,   /* the program calls another malloc */
    NA_NPROF_POLICY_UNREADABLE, /* no file, or no policy */
    NA_NPROF_POLICY_WITHOUT,    /* rules */
} na_nprof_policy_state_t;

#define NA_NPROF_POLICY_FULL      1u /* more calls by function name than there is room for */
#define NA_NPROF_POLICY_LINKED_IN 2u /* calls of the program itself cannot be ruled */
#define NA_NPROF_POLICY_REFUSED   4u /* the file was changed, and what is in it now was not taken */

/* POLICY: one entry. */
typedef struct na_nprof_policy {
    uint32_t state; /* 0: does not exist */
    uint32_t flags;
    uint32_t rules, bound, faults; /* faults: lines that were left out */
    uint32_t modules, missing_modules, other_builds;
    uint32_t readings; /* of changed files, that were taken */
    uint32_t reserved[7];
    char file[448];
} na_nprof_policy_t;
_Static_assert(sizeof(na_nprof_policy_t) == 512, "");

/* Why a rule does nothing, or less. */
#define NA_NPROF_RULE_BOUND     1u  /* it means some calls of what is loaded */
#define NA_NPROF_RULE_NO_MODULE 2u  /* one that it names is not loaded */
#define NA_NPROF_RULE_BUILD     4u  /* one that it names has another build-id */
#define NA_NPROF_RULE_NO_CALL   8u  /* no such function, or nothing of the module lies there */
#define NA_NPROF_RULE_NO_FRAME  16u /* its frames are at no constant distance */
#define NA_NPROF_RULE_NO_NODE   32u /* this machine has not the nodes: blocks are malloc's */
#define NA_NPROF_RULE_MOVED     64u /* blocks of before were moved to where it says */

/* POLICY_RULES, in the order of the file. Blocks and bytes count calls and the sizes they asked
 * for, those of the control included. Rules with one heap share the figures of that. */
typedef struct na_nprof_rule {
    uint32_t line; /* of the file; 0: does not exist */
    uint32_t flags;
    uint32_t heap;    /* from 1; 0: its blocks are malloc's */
    uint32_t control; /* one of so many is the control's; 0: none */
    uint64_t blocks, bytes, control_blocks, control_bytes;
    uint64_t failed; /* given by malloc for want of memory */
    uint64_t live, in_spans, control_live, control_in_spans; /* bytes of the heap and its control */
    int32_t node; /* the kernel's number, that blocks to come lie on; -1: none, or not one */
    uint32_t reserved32;
    uint64_t reserved[4];
    char text[256]; /* as the file has it, cut */
} na_nprof_rule_t;
_Static_assert(sizeof(na_nprof_rule_t) == 384, "");

/* ACCESS_OBJECTS, `ruled`: the heap that the block is from, and whether it is the control's. */
#define NA_NPROF_RULED_CONTROL (UINT32_C(1) << 31)

#endif
