/* work.h - what several benchmarks do with blocks: get one or end, touch it. */
#ifndef NUMALLOC_BENCH_SUITE_WORK_H
#define NUMALLOC_BENCH_SUITE_WORK_H

#include "bench/load/sizes.h"
#include "bench/suite/bench.h"

#include <stdlib.h>

/* The knobs at the end of many benchmarks' tables: in the enumeration of the knobs' places, and as
 * rows with these defaults. */
#define NA_WORK_KNOBS                                                                              \
    K_MIN, K_MAX, K_STEP, K_DISTRIBUTION, K_SEED, K_TOUCH, K_PIN, K_WARMUP, K_REPETITIONS
#define NA_WORK_KNOB_ROWS(smallest, largest, increment, warmups, repeats)                          \
    [K_MIN] = NA_KNOB_MIN(smallest), [K_MAX] = NA_KNOB_MAX(largest),                               \
    [K_STEP] = NA_KNOB_STEP(increment), [K_DISTRIBUTION] = NA_KNOB_DISTRIBUTION,                   \
    [K_SEED] = NA_KNOB_SEED, [K_TOUCH] = NA_KNOB_TOUCH, [K_PIN] = NA_KNOB_PIN,                     \
    [K_WARMUP] = NA_KNOB_WARMUP(warmups), [K_REPETITIONS] = NA_KNOB_REPETITIONS(repeats)

/* The sizes that a benchmark's values of these knobs describe. */
#define NA_WORK_SIZES_OF(value)                                                                    \
    {                                                                                              \
        (na_distribution_t)(value)[K_DISTRIBUTION].number, (value)[K_MIN].number,                  \
            (value)[K_MAX].number, (value)[K_STEP].number                                          \
    }

/* Entries of a thread's table of sizes, which are drawn before the clock starts: 16 KiB of the
 * cache. A power of two. */
#define NA_WORK_SIZES 4096

/* The step in which large blocks are touched: no Linux has smaller pages. */
#define NA_WORK_PAGE 4096

/* The compiler must assume that the block is looked at here. */
static inline void na_bench_use(void *block) {
    __asm__ volatile("" : : "r"(block) : "memory");
}

/* What a program does with a fresh block at the least. */
static inline void na_bench_touch(void *block, bool write) {
    if (write)
        *(volatile unsigned char *)block = 1;
    else
        na_bench_use(block);
}

_Noreturn static inline void na_work_no_memory(const char *bench, const char *routine,
                                               size_t size) {
    na_bench_fail("%s: %s of %zu bytes gave NULL: the allocator is out of memory", bench, routine,
                  size);
}

/* Ends the program when there is no memory. */
static inline void *na_work_malloc(const char *bench, size_t size) {
    void *block = malloc(size);
    if (__builtin_expect(block == NULL, 0)) na_work_no_memory(bench, "malloc", size);
    return block;
}

/* Writes one byte of each page from `begin` up to `end`, the first byte included: the block is
 * resident then. */
static inline void na_work_touch_pages(void *block, size_t begin, size_t end) {
    volatile unsigned char *bytes = block;
    for (size_t at = begin; at < end; at += NA_WORK_PAGE)
        bytes[at] = 1;
}

/* Between two looks at a word that another thread is going to write. */
static inline void na_work_relax(void) {
#if defined(__x86_64__)
    __builtin_ia32_pause();
#else
    __asm__ volatile("" : : : "memory");
#endif
}

#endif
