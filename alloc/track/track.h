/* track.h - what tracking keeps of a thread: a member of its thread cache
 * (alloc/cache/thread_cache.h).
 *
 * Tracking is all that makes blocks known: records, samples, timed calls, the profiler's hooks. It
 * lies below the thread caches, and knows nothing of them but this. Written by the thread that the
 * cache belongs to, where nothing else is said. */
#ifndef NUMALLOC_ALLOC_TRACK_TRACK_H
#define NUMALLOC_ALLOC_TRACK_TRACK_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "alloc/sys/base.h"
#include "pagemap/live.h"

typedef struct na_track {
    void *profile;            /* the profiler's word (hooks.h) */
    uint32_t session;         /* that it is of (section.h) */
    uint32_t alarm, switches; /* as last noticed (thread/switch.h) */
    _Atomic(uint32_t) inside; /* sections that the thread is in; read by the switch */
    uint32_t until_timed;     /* how many calls from now one is timed; not 0 as long as the thread
                               * has noticed a profile that records every event, and not its end:
                               * only switch.c makes it 0, or something else again */
    uint64_t timed_from;      /* ticks when the call that is being timed began; 0: none is */
    uint64_t timed_out;       /* of those since, not the call's */
    uint64_t random;          /* state of the sampler's generator; 0: no seed yet */
    uint32_t lineage;         /* of the process that it draws for (sampler.h) */
    uint16_t id;              /* of the thread cache */
    uint8_t node;             /* the thread cache's */
    bool in_realloc;          /* the calls that it makes are no calls of the program (timing.h) */
    bool only_hardened;       /* of hardened.h's calls: as last noticed, no profile wants any */
} na_track_t;

/* NUMALLOC_CHECK: every free is verified against the registry before it is believed. */
extern bool na_strict;
/* Every block has a record from the first on, whether or not a profile runs: strict, or a scan for
 * leaks is to come. Constant since na_init. */
extern bool na_record_all;
/* One of both: sized frees are checked. */
extern NA_NEAR bool na_sizes_count;

#endif
