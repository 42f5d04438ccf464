/* detail.h - what a profile tells beside the counters of its sites: lifetimes by site, sizes,
 * the program's own mappings. Pure functions over the reader; time and memory are linear in what
 * the file holds, memory in sites. Each fold: false: out of memory; free in both cases. */
#ifndef NUMALLOC_PROFILER_ANALYZE_BLOCKS_DETAIL_H
#define NUMALLOC_PROFILER_ANALYZE_BLOCKS_DETAIL_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "profiler/format/reader/reader.h"

/* Lifetimes of the blocks of one site that were freed; buckets as in na_nprof_lives_t, not scaled
 * (in mode sample: of samples). Blocks that still live are censored: their number is the site's
 * live_count, and nothing is known of their lifetimes but that they are not over. */
typedef struct na_site_lives {
    uint32_t site;
    uint64_t count[NA_NPROF_AGE_BUCKETS];
} na_site_lives_t;

typedef struct na_lives_table {
    na_site_lives_t *items; /* in the order of sites; only those with frees */
    size_t count;
} na_lives_table_t;

bool na_lives_fold(na_reader_t *reader, na_lives_table_t *table);
void na_lives_free(na_lives_table_t *table);
/* NULL: nothing of the site was freed. */
const na_site_lives_t *na_lives_of(const na_lives_table_t *table, uint32_t site);

/* One age in nanoseconds, by the best rate of the clock that the file gives. */
double na_age_ns(const na_nprof_header_t *header);
/* One tick in milliseconds, by the same. */
double na_tick_ms(const na_nprof_header_t *header);

/* Sums over all places of threads. */
void na_sizes_fold(na_reader_t *reader, na_nprof_sizes_t *sum);

/* mmap, munmap, mremap and brk called by the program, by call and site. */
typedef struct na_maps_table {
    na_nprof_map_t *items; /* by call, then largest bytes first */
    size_t count;
} na_maps_table_t;

bool na_maps_fold(na_reader_t *reader, na_maps_table_t *table);
void na_maps_free(na_maps_table_t *table);

/* Adds spans, blocks and bytes; node, class and eighths stay as they are. */
void na_span_sum_add(na_nprof_span_sum_t *to, const na_nprof_span_sum_t *s);

/* The largest number of the program's threads at one time, at least 1. Those that called malloc or
 * free are counted exactly, in every mode; others are where two looks at the process in a row, some
 * 10 ms apart, saw them. (Of files that do not have the first: as sampled, and as the list of
 * threads shows; the larger of both.) */
uint32_t na_threads_peak(na_reader_t *reader);

#endif
