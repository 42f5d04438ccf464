/* html_blocks.h - what a trace tells of blocks one by one, gathered while it is played back:
 * sizes over time, sizes and lifetimes of the whole and of the sites that are told apart, who freed
 * what who had allocated, chains of reallocs, and size classes. Memory: fixed for each site told
 * apart (at most NA_WEBPAGE_COURSES), and a few words for each live block that a realloc made. */
#ifndef NUMALLOC_PROFILER_DUMP_PAGE_HTML_BLOCKS_H
#define NUMALLOC_PROFILER_DUMP_PAGE_HTML_BLOCKS_H

#include "profiler/analyze/blocks/trace_replay.h"

#define NA_BLOCKS_POINTS 64u /* intervals of the map of sizes over time */
#define NA_CHAIN_TRAIL   24u /* sizes kept of one chain */
#define NA_CHAIN_STEPS   12u /* buckets of chains by steps: 2^(n-1) up to, but not, 2^n */

/* Blocks that a thread allocated and a thread freed. */
typedef struct na_handover {
    uint32_t from, to; /* from 0: not known which of several */
    uint64_t count;    /* scaled */
} na_handover_t;

typedef struct na_handovers {
    na_handover_t *items;
    size_t count, room;
} na_handovers_t;

/* False: out of memory. A pair may come more than once until na_handovers_join. */
bool na_handovers_add(na_handovers_t *pairs, uint32_t from, uint32_t to, uint64_t count);
/* Puts equal pairs together; the most blocks first. */
void na_handovers_join(na_handovers_t *pairs);

/* Chains of reallocs that ended at a site: from an allocation to the block's last size. */
typedef struct na_chains {
    uint64_t count, steps, in_place; /* steps that did not move are in place */
    uint64_t first_bytes, last_bytes, moved_bytes;
    uint64_t by_steps[NA_CHAIN_STEPS];
    uint64_t trail[NA_CHAIN_TRAIL]; /* the sizes of the longest chain whose sizes were kept */
    uint32_t trail_count, trail_steps;
} na_chains_t;

typedef struct na_site_blocks {
    uint32_t lives[NA_NPROF_SIZE_BUCKETS][NA_NPROF_AGE_BUCKETS];
    uint64_t sizes[NA_NPROF_SIZE_BUCKETS];
    na_handovers_t pairs;
    na_chains_t chains;
} na_site_blocks_t;

/* Blocks of one size as handed out; above NA_CLASS_MOST of all up to `usable`, more than half of
 * it. */
#define NA_CLASS_MOST 65536u
typedef struct na_size_sums {
    uint64_t usable;
    uint64_t count, bytes, usable_bytes; /* ever allocated */
    /* Live now; modulo 2^64, so that a damaged file may sum up to anything. */
    uint64_t live_count, live_bytes, live_usable;
} na_size_sums_t;

typedef struct na_webpage_blocks na_webpage_blocks_t;

/* `sites` are told apart, as rows 0 up to it; `ticks`: duration of the run. NULL: out of memory. */
na_webpage_blocks_t *na_blocks_open(uint32_t sites, uint64_t ticks, unsigned age_shift);
void na_blocks_close(na_webpage_blocks_t *blocks);

/* One event that was played; `freed` as of na_replay_next. Rows at or above `sites`: not told
 * apart. False: out of memory. */
bool na_blocks_see(na_webpage_blocks_t *blocks, const na_event_t *event, const na_live_t *freed,
                   uint32_t row, uint32_t freed_row);
/* After the last one: ends what is open. */
void na_blocks_end(na_webpage_blocks_t *blocks);

/* NULL: the row is not told apart. */
const na_site_blocks_t *na_blocks_site(const na_webpage_blocks_t *blocks, uint32_t row);
const na_nprof_sizes_t *na_blocks_sizes(const na_webpage_blocks_t *blocks);
/* Allocations by size in each of NA_BLOCKS_POINTS intervals: [bucket * NA_BLOCKS_POINTS + point] */
const uint64_t *na_blocks_over_time(const na_webpage_blocks_t *blocks);
const na_handovers_t *na_blocks_pairs(const na_webpage_blocks_t *blocks);
/* In the order of sizes. */
const na_size_sums_t *na_blocks_classes(const na_webpage_blocks_t *blocks, size_t *count);

#endif
