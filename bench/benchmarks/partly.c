/* partly.c - the partly benchmark: what is resident of blocks that are written in part.
 *
 *   each case, in a process of its own   allocates blocks of one size and writes to some pages of
 *                                        each; reads what is resident
 *
 * Buffers for input, stacks of coroutines and threads, hash tables and vectors that may grow are
 * such blocks. What nobody wrote needs no memory. The small blocks of the last pattern are between
 * the larger ones: an allocator may have memory ready for what such blocks will fill next, but not
 * under blocks that are used in part. */
#include "bench/suite/limits.h"
#include "bench/suite/work.h"
#include "bench/system/apart.h"

#include <stdio.h>
#include <string.h>

enum { K_TOTAL, K_CALL, K_REPETITIONS, K_COUNT };

static const na_knob_t knobs_table[K_COUNT] = {
    [K_TOTAL] = {"total", "MiB", NA_KNOB_NUMBER, 1024, 64, 1 << 20, NULL,
                 "bytes that each case asks for; where half is written, a quarter of that"},
    [K_CALL] = {"call", "", NA_KNOB_CHOICE, 0, 0, 0, "malloc|calloc", "which routine allocates"},
    [K_REPETITIONS] = NA_KNOB_REPETITIONS(1),
};

static const size_t sizes[] = {4096, 6000, 17000, 32768, 65536, 131072, 262144, 1 << 20, 4 << 20};

typedef enum pattern { FIRST, LAST, EACH_16TH, HALF, BESIDE_SMALL, PATTERNS } pattern_t;
static const char *const pattern_names[PATTERNS] = {
    "first page", "last page", "each 16th page", "first half", "first page, beside small blocks"};

enum { SMALL = 200, SMALL_EACH = 4096 }; /* bytes of a small block, and of those for each block */

typedef struct partly {
    size_t size;
    pattern_t pattern;
    uint64_t blocks;
    bool zeroed;
    uint64_t written; /* bytes: whole pages, and small blocks */
} partly_t;

/* The pages from byte `begin` to byte `end` of a block. */
static uint64_t pages_of(const char *block, size_t begin, size_t end) {
    uint64_t first = ((uintptr_t)block + begin) / NA_WORK_PAGE;
    uint64_t last = ((uintptr_t)block + end - 1) / NA_WORK_PAGE;
    return (last - first + 1) * NA_WORK_PAGE;
}

static void write_some(const partly_t *partly, char *block) {
    volatile char *bytes = block;
    switch (partly->pattern) {
    case LAST:
        bytes[partly->size - 1] = 1;
        return;
    case EACH_16TH:
        for (size_t at = 0; at < partly->size; at += 16 * NA_WORK_PAGE)
            bytes[at] = 1;
        return;
    case HALF:
        memset(block, 1, partly->size / 2);
        na_bench_use(block);
        return;
    case BESIDE_SMALL:
        for (size_t done = 0; done < SMALL_EACH; done += SMALL) {
            void *small = na_work_malloc("partly", SMALL);
            memset(small, 1, SMALL);
            na_bench_use(small);
        }
        bytes[0] = 1;
        return;
    case FIRST:
    case PATTERNS:
        break;
    }
    bytes[0] = 1;
}

static void partly_case(void *argument) {
    const partly_t *partly = argument;
    for (uint64_t i = 0; i < partly->blocks; i++) {
        char *block = partly->zeroed ? calloc(1, partly->size) : malloc(partly->size);
        if (block == NULL) na_work_no_memory("partly", "malloc", partly->size);
        na_bench_use(block);
        write_some(partly, block);
    }
}

/* What has to be resident, at the least: a block's beginning may lie anywhere in a page. */
static uint64_t least_written(const partly_t *partly) {
    switch (partly->pattern) {
    case EACH_16TH:
        return partly->blocks * ((partly->size + 16 * NA_WORK_PAGE - 1) / (16 * NA_WORK_PAGE)) *
               (partly->size < NA_WORK_PAGE ? partly->size : NA_WORK_PAGE);
    case HALF:
        return partly->blocks * partly->size / 2;
    case BESIDE_SMALL:
        return partly->blocks * (pages_of(NULL, 0, 1) + SMALL_EACH);
    case FIRST:
    case LAST:
    case PATTERNS:
        break;
    }
    return partly->blocks * NA_WORK_PAGE;
}

static bool partly_settle(na_knobs_t *knobs, char *error, size_t size) {
    return na_limits_fit((double)knobs->value[K_TOTAL].number * 0x1p20 * 1.3, "--total", error,
                         size);
}

static void partly_run(const na_knobs_t *knobs, na_result_t *result) {
    const na_knob_value_t *value = knobs->value;
    size_t repetitions = (size_t)value[K_REPETITIONS].number, count = 0;
    na_metric_t *cases[NA_COUNT(sizes) * PATTERNS];
    partly_t of[NA_COUNT(cases)];
    for (unsigned p = 0; p < PATTERNS; p++)
        for (unsigned i = 0; i < NA_COUNT(sizes); i++) {
            uint64_t total = value[K_TOTAL].number << 20;
            if (p == HALF || sizes[i] < 32768) total /= 4;
            char name[64];
            snprintf(name, sizeof name, "%zu: %s", sizes[i], pattern_names[p]);
            of[count] = (partly_t){.size = sizes[i],
                                   .pattern = (pattern_t)p,
                                   .blocks = total / sizes[i],
                                   .zeroed = value[K_CALL].number != 0};
            cases[count++] =
                na_result_metric(result, name, "MiB", NA_LOWER, NA_DETAIL, repetitions);
        }
    na_metric_t *most = na_result_metric(result, "resident per written, most", "x", NA_LOWER,
                                         NA_HEADLINE, repetitions);
    for (size_t r = 0; r < repetitions; r++) {
        double worst = 0;
        for (size_t i = 0; i < count; i++) {
            na_bench_progress("partly: case", r * count + i, repetitions * count);
            double resident = (double)na_apart_resident(partly_case, &of[i]);
            double ratio = resident / (double)least_written(&of[i]);
            if (ratio > worst) worst = ratio;
            na_metric_add(cases[i], resident / 0x1p20);
        }
        na_metric_add(most, worst);
    }
    na_bench_progress("partly: case", 1, 1);
    na_result_mean(result, "resident", cases, count);
}

/** Blocks of 4 KiB to 4 MiB of which the first page, the last, each 16th or the first half is
 *  written, and such blocks beside small ones: *resident memory*, as a mean over all cases; the
 *  details have each. The same in each run, whatever else the machine does. */
const na_bench_t na_bench_partly = {
    .name = "partly",
    .summary = "what is resident of blocks that are written in part",
    .knobs = knobs_table,
    .knob_count = K_COUNT,
    .headline = "resident",
    .work = "total",
    .suite = (const char *const[]){"--repetitions=1", "--total=256", NULL},
    .settle = partly_settle,
    .run = partly_run,
};
