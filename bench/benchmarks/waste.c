/* waste.c - the waste benchmark: what is resident of blocks that are written whole, by size.
 *
 *   each size, in a process of its own   allocates blocks of it, writes all bytes of each; reads
 *                                        what is resident
 *
 * Sizes go from 16 bytes to 16 MiB in equal steps of the logarithm. */
#include "bench/suite/limits.h"
#include "bench/suite/work.h"
#include "bench/system/apart.h"

#include <stdio.h>
#include <string.h>

enum { K_TOTAL, K_STEP, K_MIN, K_MAX, K_REPETITIONS, K_COUNT };

#define LARGEST_BLOCKS UINT64_C(8) /* so many at least */

static const na_knob_t knobs_table[K_COUNT] = {
    [K_TOTAL] = {"total", "MiB", NA_KNOB_NUMBER, 32, 1, 1 << 20, NULL,
                 "bytes of each size, and eight blocks at least"},
    [K_STEP] = {"step", "percent", NA_KNOB_NUMBER, 3, 1, 100, NULL, "from one size to the next"},
    [K_MIN] = NA_KNOB_MIN(16),
    [K_MAX] = NA_KNOB_MAX(16 << 20),
    [K_REPETITIONS] = NA_KNOB_REPETITIONS(1),
};

typedef struct waste {
    size_t size;
    uint64_t blocks;
} waste_t;

static void waste_case(void *argument) {
    const waste_t *waste = argument;
    for (uint64_t i = 0; i < waste->blocks; i++) {
        void *block = na_work_malloc("waste", waste->size);
        memset(block, 1, waste->size);
        na_bench_use(block);
    }
}

/* Resident over asked for. */
static double waste_of(size_t size, uint64_t total) {
    waste_t waste = {size, total / size < LARGEST_BLOCKS ? LARGEST_BLOCKS : total / size};
    return (double)na_apart_resident(waste_case, &waste) / (double)(waste.blocks * size);
}

static const size_t band_ends[] = {128, 1024, 4096, 32768, 262144, SIZE_MAX};
static const char *const band_names[] = {
    "below 128", "128 bytes to 1 KiB", "1 to 4 KiB", "4 to 32 KiB", "32 to 256 KiB", "from 256 KiB",
};
enum { BANDS = NA_COUNT(band_ends) };
typedef struct band {
    double sum, most;
    unsigned count;
} band_t;

static void add_to(band_t *band, double waste) {
    band->sum += waste;
    if (waste > band->most) band->most = waste;
    band->count++;
}

static bool waste_settle(na_knobs_t *knobs, char *error, size_t size) {
    const na_knob_value_t *value = knobs->value;
    if (!na_limits_ordered(knobs, K_MIN, K_MAX, error, size)) return false;
    double least = (double)LARGEST_BLOCKS * (double)value[K_MAX].number;
    double total = (double)value[K_TOTAL].number * 0x1p20;
    return na_limits_fit(2 * (total > least ? total : least), "--total or --max", error, size);
}

static void waste_run(const na_knobs_t *knobs, na_result_t *result) {
    const na_knob_value_t *value = knobs->value;
    size_t repetitions = (size_t)value[K_REPETITIONS].number;
    na_metric_t *mean =
        na_result_metric(result, "waste, mean", "x", NA_LOWER, NA_HEADLINE, repetitions);
    na_metric_t *means[BANDS], *mosts[BANDS];
    for (unsigned b = 0; b < BANDS; b++) {
        char name[64];
        snprintf(name, sizeof name, "%s, mean", band_names[b]);
        means[b] = na_result_metric(result, name, "x", NA_LOWER, NA_DETAIL, repetitions);
        snprintf(name, sizeof name, "%s, most", band_names[b]);
        mosts[b] = na_result_metric(result, name, "x", NA_LOWER, NA_DETAIL, repetitions);
    }
    double step = 1 + (double)value[K_STEP].number / 100, largest = (double)value[K_MAX].number;
    for (size_t r = 0; r < repetitions; r++) {
        band_t all = {0}, bands[BANDS] = {{0}};
        for (double size = (double)value[K_MIN].number; size <= largest; size *= step) {
            na_bench_progress("waste: KiB", (size_t)size >> 10, (size_t)largest >> 10);
            double waste = waste_of((size_t)size, value[K_TOTAL].number << 20);
            unsigned b = 0;
            while ((size_t)size >= band_ends[b])
                b++;
            add_to(&bands[b], waste);
            add_to(&all, waste);
        }
        na_metric_add(mean, all.sum / all.count);
        for (unsigned b = 0; b < BANDS; b++) {
            if (bands[b].count == 0) continue;
            na_metric_add(means[b], bands[b].sum / bands[b].count);
            na_metric_add(mosts[b], bands[b].most);
        }
    }
    na_bench_progress("waste: KiB", 1, 1);
}

/** Blocks of one size after the other, from 16 bytes to 16 MiB at steps of 3 %, each written whole:
 *  *resident memory over bytes asked for*, the mean over all sizes; the details have it, and the
 *  most, by bands of sizes. The same in each run, whatever else the machine does. */
const na_bench_t na_bench_waste = {
    .name = "waste",
    .summary = "what is resident of blocks of each size, over what was asked for",
    .knobs = knobs_table,
    .knob_count = K_COUNT,
    .headline = "waste, mean",
    .work = "total",
    .suite = (const char *const[]){"--repetitions=1", "--step=30", "--total=8", NULL},
    .settle = waste_settle,
    .run = waste_run,
};
