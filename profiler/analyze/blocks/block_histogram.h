/* block_histogram.h - sizes and lifetimes of blocks, of the whole profile or of chosen sites.
 *
 * A trace tells every block by size and lifetime. The other modes keep sums: allocations by size
 * and frees by size and lifetime of the whole, lifetimes and the range of sizes of each site. The
 * bytes of a site are put to a bucket if all its blocks are of that one; the rest is in `mixed`, so
 * that sums are right, and `told` says of how many blocks a bucket's bytes are. Blocks that still
 * live are censored: of their lifetimes only a lower bound is known, their age at the end, and only
 * from a trace.
 *
 * Buckets are those of nprof.h. Counts are scaled, as there. */
#ifndef NUMALLOC_PROFILER_ANALYZE_BLOCKS_BLOCK_HISTOGRAM_H
#define NUMALLOC_PROFILER_ANALYZE_BLOCKS_BLOCK_HISTOGRAM_H

#include "profiler/analyze/blocks/site_sums.h"

/* Blocks of one bucket of sizes. */
typedef struct na_size_sum {
    uint64_t count; /* allocations; of `mixed`: that are in no bucket's count */
    int64_t live_count;
    uint64_t told; /* allocations that the following are of */
    uint64_t bytes, usable;
    int64_t live_bytes;
} na_size_sum_t;

typedef struct na_block_histogram {
    na_size_sum_t size[NA_NPROF_SIZE_BUCKETS];
    na_size_sum_t mixed;
    uint64_t freed[NA_NPROF_AGE_BUCKETS];                          /* by lifetime */
    uint64_t by_size[NA_NPROF_SIZE_BUCKETS][NA_NPROF_AGE_BUCKETS]; /* the same by size, */
    bool sized;                                                    /* which is known */
    uint64_t live[NA_NPROF_AGE_BUCKETS]; /* still live, by age at the end; a trace only */
    int64_t live_count;                  /* still live, in all */
    bool raw; /* freed[] counts samples: mode sample, chosen sites; not scaled */
} na_block_histogram_t;

/* `replay`: of a trace, just opened, which it plays to the end; else NULL, and the sites are looked
 * at. `wanted`: is the site (a stack id) to be counted? NULL: all are. False: out of memory. */
typedef bool (*na_wanted_fn_t)(void *arg, uint32_t site);
bool na_block_histogram_read(na_reader_t *reader, na_replay_t *replay, const na_sites_t *sites,
                             na_wanted_fn_t wanted, void *arg, na_block_histogram_t *histogram);

/* Bucket of a size or an age, and what a bucket begins with; it ends where the next one begins. */
static inline uint32_t na_bucket_of(uint64_t value, uint32_t buckets) {
    uint32_t digits = value == 0 ? 0 : 64 - (uint32_t)__builtin_clzll(value);
    return digits < buckets ? digits : buckets - 1;
}
static inline double na_bucket_from(uint32_t bucket) {
    return bucket == 0 ? 0 : (double)(UINT64_C(1) << (bucket - 1));
}

#endif
