/* record.h - starting, ending and copying a profile. One at a time; the caller sees to it that
 * these calls do not overlap. */
#ifndef NUMALLOC_PROFILER_RECORD_STATE_RECORD_H
#define NUMALLOC_PROFILER_RECORD_STATE_RECORD_H

#include <stdbool.h>
#include <stdint.h>

#include "alloc/core/track/hooks.h"
#include "profiler/format/nprof_policy.h"

struct na_span;

typedef enum na_profile_mode {
    NA_PROFILE_SAMPLE,
    NA_PROFILE_SITES,
    NA_PROFILE_TRACE
} na_profile_mode_t;

typedef enum na_trace_stacks {
    NA_TRACE_STACKS_ALLOCS, /* of allocations and reallocs */
    NA_TRACE_STACKS_ALL,    /* of frees as well */
    NA_TRACE_STACKS_NONE
} na_trace_stacks_t;

/* Where samples of accesses come from; in the order of the words of ACCESS, then of TEST_ACCESS. */
typedef enum na_access_choice {
    NA_ACCESS_OFF,
    NA_ACCESS_AUTO, /* the best that works of the next five */
    NA_ACCESS_KMOD,
    NA_ACCESS_IBS,
    NA_ACCESS_PEBS,
    NA_ACCESS_SPE,
    NA_ACCESS_WATCH,
    NA_ACCESS_NUMA,
    NA_ACCESS_FAULT,
    NA_ACCESS_KMOD_FAULT, /* for tests */
    NA_ACCESS_KMOD_SIM,
} na_access_choice_t;

struct na_found;

typedef struct na_profile_config {
    na_profile_mode_t mode;
    uint64_t sample_interval; /* mean bytes between samples; mode sample */
    /* Name pattern, or a directory for the default name; NULL or empty: that in the working
     * directory. */
    const char *file;
    /* Bytes of memory that the allocator holds for blocks; NULL: not known. Called from inside
     * hooks, also in signal handlers: must take no lock. */
    uint64_t (*mapped)(void);
    /* Visits the memory of blocks' records, which is the profile's own; NULL: there is none. As
     * `mapped`. */
    void (*each_records_room)(void (*visit)(void *arg, uintptr_t start, size_t bytes), void *arg);
    /* Mode trace. */
    na_trace_stacks_t trace_stacks;
    uint64_t trace_buffer; /* bytes of a buffer; a thread's first one is smaller. 0: 1 MiB */
    unsigned trace_level;  /* 1 to 9: zlib's; 0: not compressed, nor coded */
    bool trace_lossy;      /* rather lose events (counted) than let a thread wait */
    bool trace_no_thread;  /* threads compress their buffers themselves */
    uint64_t trace_max;    /* bytes of events that the file may hold: the oldest go. 0: no limit */
    uint64_t (*mapped_on)(unsigned node); /* the same of a node (dense index) */
    /* Threads that called malloc or free and ran at one time, at most, since the last call with
     * `from_now`; NULL: not known. Takes no lock. */
    uint32_t (*threads_most)(bool from_now);
    uint64_t own_limit; /* bytes of memory and file for what is recorded, 0: no limit; beyond it new
                         * stacks and sites are put together */
    bool python;        /* stacks of CPython have Python frames */
    bool free_sites;    /* record from where free and delete are called, too */
    /* Makes records of all epochs so far those of none (na_span_age_records); NULL: there are none.
     */
    void (*age_records)(void);
    /* Every thread's word reads NULL from its next event on; NULL: there is no other than that of
     * the calling thread. */
    void (*forget_threads)(void);
    /* Visits the records of all live blocks (na_span_each_records); NULL: there are none. */
    void (*each_records)(void (*visit)(const struct na_span *span, na_record_t *records,
                                       uint32_t count, void *arg),
                         void *arg);
    /* The record of the block that begins at `block`; NULL: there is none. Async-signal-safe. */
    const na_record_t *(*record_of)(const void *block);
    /* Usable bytes of a block of the span. */
    uint64_t (*usable)(const struct na_span *span);
    na_access_choice_t access;
    uint64_t access_period; /* 0: the source's choice */
    unsigned access_cost;   /* watch: percent of the busiest thread's time at most, 1 to 100 */
    uint32_t access_stack;  /* bytes copied for a sample's call chain: a multiple of 8; 0: none */
    uint32_t access_frames; /* of a sample's call chain by frame pointers, at most; 0: none */
    /* From an address to a block (alloc/record/lookup.h); NULL: nothing is resolved. */
    void (*find)(const void *address, struct na_found *found);
    /* What the rules of a policy did (profiler/policy/policy.h); NULL: there can be none. */
    bool (*policy)(na_nprof_policy_t *to);
    void (*policy_rules)(na_nprof_rule_t *to, uint32_t count);
    uint32_t (*policy_ruled)(const void *block); /* async-signal-safe */
    /* Path of the module whose malloc the program calls in place of this one; NULL or empty: it
     * does not. */
    const char *other_malloc;
    bool unnamed;             /* the file has no name, and goes with the process */
    bool unnamed_in_children; /* and children have one, too */
    bool named_by_call;       /* `file` is the program's word of this moment (where.h) */
    bool from_start;          /* no block has been handed out yet */
    uint32_t missed;          /* see na_nprof_session_t */
} na_profile_config_t;

/* Opens the profile and returns the hook table to install; NULL after one warning line on stderr
 * when the file cannot be made. No hook may be running. May be called again after
 * na_profile_discard. */
const na_hooks_t *na_profile_start(const na_profile_config_t *config);

/* Completes the file. No hook will begin any more. Where one may still be running (not `quiet`),
 * the file is completed by na_profile_discard. */
void na_profile_stop(bool quiet);
/* After that, when no hook is running: lets go of file and memory. */
void na_profile_discard(void);

/* The policy was bound, or some time has passed: the file says again what it did. Not inside a
 * hook; between start and stop. */
void na_profile_note_policy(void);

/* Copies the profile as it is now to a file of the next number. No hook may be running meanwhile.
 * 0, or ENODATA: nothing was recorded yet; EIO: said on stderr. */
int na_profile_dump(void);

/* Bytes live, as published. Any time between start and stop. */
int64_t na_profile_live_bytes(void);

#endif
