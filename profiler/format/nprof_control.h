/* nprof_control.h - the chunks that say how a profile was made and what the program said itself:
 * sessions, markers, pools, and what a forked child inherited. See nprof.h for the rules. */
#ifndef NUMALLOC_PROFILER_FORMAT_NPROF_CONTROL_H
#define NUMALLOC_PROFILER_FORMAT_NPROF_CONTROL_H

#include "profiler/format/nprof.h"

/* chunk.type; 30 and 31 are reserved for the same end */
#define NA_NPROF_SESSION    24u
#define NA_NPROF_MARKERS    25u
#define NA_NPROF_POOLS      26u
#define NA_NPROF_POOL_CELLS 27u
#define NA_NPROF_ORIGINS    28u
#define NA_NPROF_INHERITED  29u

/* SESSION: one entry (capacity 1), written by the creator; no owner. A file without this chunk is
 * of the only profile of its process. */
#define NA_NPROF_SESSION_FROM_START 1u /* began before the program's first block */
#define NA_NPROF_SESSION_STOPPED                                                                   \
    2u /* ended by a call, a signal or the like: the process ran on                                \
        */

typedef struct na_nprof_session {
    uint32_t session; /* profiles that the process has begun, this one included */
    uint32_t copy;    /* 0: the profile itself. n: the n-th copy of it that was made while it ran;
                       * everything in it is as of one moment, copied_ms */
    uint32_t flags;
    uint32_t missed; /* events of each kind (allocations; frees of blocks from before) that each
                      * running thread may have made unseen, in each size class, at the beginning */
    uint64_t copied_ms;
    char file[488]; /* name of the profile that this is, or is a copy of, as it was opened */
} na_nprof_session_t;

_Static_assert(sizeof(na_nprof_session_t) == 512, "");

/* MARKERS: points in time that the program named. No owner. flags with VALID is stored last
 * (release). PLACED: the entry has what follows the name. */
#define NA_NPROF_MARKER_VALID  1u
#define NA_NPROF_MARKER_PLACED 2u

typedef struct na_nprof_marker {
    uint64_t ms;
    uint32_t thread;
    uint32_t flags;
    char name[48];
    /* Not in entries of 64 bytes: */
    uint64_t ticks; /* since the start of the profile. Mode trace: events before it have a lower
                     * stamp, rounded down as in TRACE chunks, and of its thread all that came
                     * later, and no other, have this one or a higher */
    int64_t live_bytes, live_count;    /* of all threads then; count scaled */
    uint64_t alloc_count, alloc_bytes; /* since the start; count scaled */
} na_nprof_marker_t;

#define NA_NPROF_MARKER_LEAST 64u /* entry_size of files of before `ticks` was there */

_Static_assert(sizeof(na_nprof_marker_t) == 104, "");
_Static_assert(offsetof(na_nprof_marker_t, ticks) == NA_NPROF_MARKER_LEAST, "");

/* POOLS: the program's own allocators that say what they hand out, those of one name together. No
 * owner; entry i is pool first_id + i, ids from 1. flags with VALID is stored last (release) at
 * birth; figures are written under the profiler's lock of the pool. Counts are exact in every mode,
 * never scaled. The blocks of a pool lie in memory that is (mostly) counted as blocks or mappings
 * as well: they are of a kind of their own and belong in no sum with those. */
#define NA_NPROF_POOL_VALID     1u
#define NA_NPROF_POOL_DESTROYED 2u

typedef struct na_nprof_pool {
    uint32_t flags;
    uint32_t peak_epoch; /* plus one at each new peak of the pool, as in the header */
    uint64_t alloc_count, alloc_bytes;
    uint64_t free_count, free_bytes;
    int64_t peak_bytes, peak_count; /* of the pool by itself, in bytes; count at that moment */
    uint64_t peak_ms;
    uint64_t before_frees; /* of blocks that it did not announce while this profile ran */
    uint64_t lost;         /* blocks that found no room in the profiler's tables */
    uint64_t created_ms, destroyed_ms;
    char name[96];
} na_nprof_pool_t;

_Static_assert(sizeof(na_nprof_pool_t) == 192, "");

/* POOL_CELLS: what the blocks of one pool from one site did. No owner; `site` is stored last
 * (release), 0: does not exist. A (pool, site) pair has at most one. */
typedef struct na_nprof_pool_cell {
    uint32_t site;
    uint32_t pool;
    uint64_t alloc_count, alloc_bytes;
    uint64_t free_count, free_bytes;
    int64_t peak_bytes; /* live when the pool was at its peak, if peak_epoch is the pool's; else */
    int64_t peak_count; /* what is live now is what was then */
    uint64_t size_min, size_max;
    uint64_t lifetime_sum_ms; /* of blocks freed */
    uint32_t peak_epoch;
    uint32_t reserved;
} na_nprof_pool_cell_t;

_Static_assert(sizeof(na_nprof_pool_cell_t) == 88, "");

/* ORIGINS: the profiles, of ancestors of this forked process, whose live blocks it inherited. No
 * owner, written by the creator; entry i is origin first_id + i, ids from 1. */
typedef struct na_nprof_origin {
    int32_t pid;
    uint32_t reserved;
    uint64_t start_unix_ns; /* of that profile: together with pid its name for ever */
    uint64_t blocks;        /* inherited, scaled as that profile's mode says */
    uint64_t bytes;
    char file[480]; /* as it was opened; relative to that process's directory then */
} na_nprof_origin_t;

_Static_assert(sizeof(na_nprof_origin_t) == 512, "");

/* INHERITED: the live blocks of one site of an origin, at this profile's beginning, and what became
 * of them. No owner. `site` is a node of the ORIGIN's stacks; entries are written by the creator,
 * free_* later by any. Counts scaled as in CELLS. */
typedef struct na_nprof_inherited {
    uint32_t site; /* stored last (release); 0: does not exist */
    uint32_t origin;
    uint64_t live_count, live_bytes, live_usable;
    uint64_t free_count, free_bytes, free_usable; /* by this process */
    uint64_t reserved;
} na_nprof_inherited_t;

_Static_assert(sizeof(na_nprof_inherited_t) == 64, "");

#endif
