/* metrics.h - the one table of what is known of a site, and of how each figure is reduced: over the
 * threads that met at a site, over the sites of a function or a library, over a subtree of calls.
 *
 * SUM: figures add. Inclusive and exclusive totals are both true.
 * MAX, MIN: the extreme of the parts. A local peak is one moment of one site; the peaks of two
 * sites are two moments, so their sum is a figure that never was. What is shown for several sites
 * is the largest of them: a lower bound of what they held together. OR: a set of bits.
 *
 * A derived figure is made from reduced ones, never reduced itself. Where one that it is made of is
 * an extreme, it is true of a single site only ("alone").
 *
 * The counters of site_sums.h, their addition and every list of figures in numalloc-dump are made
 * from these two tables. */
#ifndef NUMALLOC_PROFILER_ANALYZE_BLOCKS_METRICS_H
#define NUMALLOC_PROFILER_ANALYZE_BLOCKS_METRICS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

typedef enum na_reduction {
    NA_REDUCTION_SUM,
    NA_REDUCTION_MAX,
    NA_REDUCTION_MIN,
    NA_REDUCTION_OR
} na_reduction_t;

typedef enum na_unit {
    NA_UNIT_COUNT, /* scaled: divide by header.count_scale */
    NA_UNIT_PLAIN, /* a number that is never scaled */
    NA_UNIT_BYTES,
    NA_UNIT_AGE,     /* 2^header.age_shift ticks */
    NA_UNIT_AGE_SUM, /* the same, scaled */
    NA_UNIT_MASK,
    NA_UNIT_VARIANCE, /* of the estimate beside it, in its unit squared; never scaled */
    NA_UNIT_RATIO,
} na_unit_t;

/* X(name, type, reduction, unit, meaning) */
#define NA_COUNTERS(X)                                                                             \
    X(alloc_count, uint64_t, SUM, COUNT, "allocations")                                            \
    X(alloc_bytes, uint64_t, SUM, BYTES, "bytes asked for")                                        \
    X(alloc_usable, uint64_t, SUM, BYTES, "bytes handed out")                                      \
    X(free_count, uint64_t, SUM, COUNT, "frees")                                                   \
    X(free_bytes, uint64_t, SUM, BYTES, "bytes freed, as they were asked for")                     \
    X(free_usable, uint64_t, SUM, BYTES, "bytes freed, as they were handed out")                   \
    X(live_count, int64_t, SUM, COUNT, "blocks still live")                                        \
    X(live_bytes, int64_t, SUM, BYTES, "bytes still live")                                         \
    X(live_usable, int64_t, SUM, BYTES, "bytes still live, as handed out")                         \
    X(peak_count, int64_t, SUM, COUNT, "blocks live at the peak of the process")                   \
    X(peak_bytes, int64_t, SUM, BYTES, "bytes live at the peak of the process")                    \
    X(local_peak_bytes, int64_t, MAX, BYTES, "most bytes of the site live at any time")            \
    X(size_min, uint64_t, MIN, BYTES, "smallest request")                                          \
    X(size_max, uint64_t, MAX, BYTES, "largest request")                                           \
    X(lifetime_sum, uint64_t, SUM, AGE_SUM, "lifetimes of the blocks freed, summed up")            \
    X(lifetime_min, uint64_t, MIN, AGE, "shortest lifetime of a block freed")                      \
    X(lifetime_max, uint64_t, MAX, AGE, "longest lifetime of a block freed")                       \
    X(temporary_count, uint64_t, SUM, COUNT, "freed before the thread's next allocation")          \
    X(cross_thread_free_count, uint64_t, SUM, COUNT, "freed by another thread")                    \
    X(cross_node_free_count, uint64_t, SUM, COUNT, "freed on another node")                        \
    X(realloc_count, uint64_t, SUM, COUNT, "allocations by realloc of a block")                    \
    X(realloc_grow_bytes, uint64_t, SUM, BYTES, "what reallocs made blocks larger by")             \
    X(realloc_shrink_bytes, uint64_t, SUM, BYTES, "what reallocs made blocks smaller by")          \
    X(realloc_copy_bytes, uint64_t, SUM, BYTES, "bytes that reallocs moved")                       \
    X(growth_count, uint64_t, SUM, COUNT, "blocks grown by allocating, copying, freeing")          \
    X(growth_bytes, uint64_t, SUM, BYTES, "what that made blocks larger by")                       \
    X(growth_copied, uint64_t, SUM, BYTES, "sizes of the blocks that were copied for it")          \
    X(freed_here_count, uint64_t, SUM, COUNT, "calls of free from here")                           \
    X(freed_here_bytes, uint64_t, SUM, BYTES, "bytes freed by calls from here")                    \
    X(aligned_count, uint64_t, SUM, PLAIN, "allocations that asked for an alignment")              \
    X(align_mask, uint64_t, OR, MASK,                                                              \
      "alignments asked for: bit n for 2^n bytes; 0: numalloc.h's")                                \
    X(raw_allocs, uint64_t, SUM, PLAIN, "samples behind the estimates of allocations")             \
    X(raw_frees, uint64_t, SUM, PLAIN, "samples behind the estimates of frees")                    \
    X(var_alloc_count, double, SUM, VARIANCE, "variance of alloc_count")                           \
    X(var_alloc_bytes, double, SUM, VARIANCE, "variance of alloc_bytes")                           \
    X(var_free_count, double, SUM, VARIANCE, "part of it that was freed again")                    \
    X(var_free_bytes, double, SUM, VARIANCE, "part of it that was freed again")

/* X(name, unit, alone, numerator, denominator, meaning): the one divided by the other, both as
 * stored. */
#define NA_DERIVED(X)                                                                              \
    X(size_mean, BYTES, false, alloc_bytes, alloc_count, "mean request")                           \
    X(lifetime_mean, AGE, false, lifetime_sum, free_count, "mean lifetime of the blocks freed")    \
    X(recycling_ratio, RATIO, true, alloc_bytes, local_peak_bytes,                                 \
      "how often the memory of the site was used again")                                           \
    X(usable_ratio, RATIO, false, alloc_usable, alloc_bytes, "handed out for each byte asked for") \
    X(temporary_ratio, RATIO, false, temporary_count, alloc_count, "share of temporaries")         \
    X(realloc_grow_mean, BYTES, false, realloc_grow_bytes, realloc_count,                          \
      "what a realloc made a block larger by, on average")                                         \
    X(growth_ratio, RATIO, false, growth_count, alloc_count, "share of growth by copying")

struct na_counters;

typedef struct na_site_metric {
    const char *name, *meaning;
    na_unit_t unit;
    bool derived;
    bool alone;               /* derived: means something for a single site only */
    na_reduction_t reduction; /* not derived */
} na_site_metric_t;

/* The counters in the order of their table, then the derived figures. */
extern const na_site_metric_t na_metrics[];
size_t na_metric_count(void);
const char *na_reduction_name(na_reduction_t reduction);

/* The value as a number in its unit: counts divided by count_scale. NaN: there is none (nothing was
 * freed, and so on). */
double na_metric_value(size_t metric, const struct na_counters *of, uint32_t count_scale);

#endif
