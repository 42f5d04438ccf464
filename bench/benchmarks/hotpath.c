/* hotpath.c - the shortest way through malloc and free, in one thread and of one size.
 *
 *   lifo    N times: p = malloc(size); free(p)
 *   batch   N / B times: B mallocs, then B frees, oldest or newest block first
 *
 * The main thread runs it in a process without other threads, as a small program would be; some C
 * libraries have a shorter path for that. The cost of the loop (a compare, a store and a load of
 * the batch) is part of the figures: well below half a nanosecond. */
#include "bench/load/team.h"
#include "bench/suite/work.h"

#include <stdlib.h>

enum {
    K_SIZE,
    K_PAIRS,
    K_BATCH,
    K_ORDER,
    K_TOUCH,
    K_PIN,
    K_WARMUP,
    K_REPETITIONS,
    K_COUNT,
};

static const na_knob_t knobs_table[K_COUNT] = {
    [K_SIZE] = {"size", "bytes", NA_KNOB_NUMBER, 64, 1, UINT64_C(1) << 30, NULL, "object size"},
    [K_PAIRS] = {"pairs", "pairs", NA_KNOB_NUMBER, 2000000, 1, UINT64_C(1) << 40, NULL,
                 "pairs of malloc and free in one repetition"},
    [K_BATCH] = {"batch", "blocks", NA_KNOB_NUMBER, 256, 1, UINT64_C(1) << 24, NULL,
                 "blocks allocated before the first is freed, in the batch loop"},
    [K_ORDER] = {"order", "", NA_KNOB_CHOICE, 0, 0, 0, "fifo|lifo",
                 "which block of a batch is freed first: fifo the oldest, lifo the newest"},
    [K_TOUCH] = {"touch", "", NA_KNOB_CHOICE, 0, 0, 0, "off|on",
                 "write the first byte of every new block"},
    [K_PIN] = NA_KNOB_PIN,
    [K_WARMUP] = NA_KNOB_WARMUP(2),
    [K_REPETITIONS] = NA_KNOB_REPETITIONS(9),
};

static void hotpath_out_of_memory(size_t size) {
    na_bench_fail("hotpath: malloc(%zu) gave NULL: the allocator is out of memory", size);
}

static uint64_t lifo_loop(size_t size, uint64_t pairs, bool touch) {
    uint64_t begin = na_bench_now();
    for (uint64_t i = pairs; i != 0; i--) {
        void *block = malloc(size);
        if (block == NULL) hotpath_out_of_memory(size);
        na_bench_touch(block, touch);
        free(block);
    }
    return na_bench_now() - begin;
}

static uint64_t batch_loop(size_t size, uint64_t rounds, size_t batch, bool newest_first,
                           bool touch, void **blocks) {
    uint64_t begin = na_bench_now();
    for (uint64_t r = rounds; r != 0; r--) {
        for (size_t i = 0; i < batch; i++) {
            void *block = malloc(size);
            if (block == NULL) hotpath_out_of_memory(size);
            na_bench_touch(block, touch);
            blocks[i] = block;
        }
        if (newest_first)
            for (size_t i = batch; i-- != 0;)
                free(blocks[i]);
        else
            for (size_t i = 0; i < batch; i++)
                free(blocks[i]);
    }
    return na_bench_now() - begin;
}

static void hotpath_run(const na_knobs_t *knobs, na_result_t *result) {
    const na_knob_value_t *value = knobs->value;
    size_t size = (size_t)value[K_SIZE].number, batch = (size_t)value[K_BATCH].number;
    size_t warmup = (size_t)value[K_WARMUP].number;
    size_t repetitions = (size_t)value[K_REPETITIONS].number;
    uint64_t pairs = value[K_PAIRS].number;
    uint64_t rounds = pairs / batch == 0 ? 1 : pairs / batch;
    bool touch = value[K_TOUCH].number != 0;
    void **blocks = na_bench_map(batch * sizeof(void *));

    na_metric_t *lifo =
        na_result_metric(result, "malloc-free", "ns/pair", NA_LOWER, NA_HEADLINE, repetitions);
    na_metric_t *batched =
        na_result_metric(result, "batch", "ns/pair", NA_LOWER, NA_HEADLINE, repetitions);
    na_team_pin_self((na_pin_t)value[K_PIN].number);
    for (size_t r = 0; r < warmup + repetitions; r++) {
        na_bench_progress("hotpath: repetition", r, warmup + repetitions);
        double first = (double)lifo_loop(size, pairs, touch);
        double second =
            (double)batch_loop(size, rounds, batch, value[K_ORDER].number != 0, touch, blocks);
        if (r < warmup) continue;
        na_metric_add(lifo, first / (double)pairs);
        na_metric_add(batched, second / (double)(rounds * batch));
    }
    na_bench_progress("hotpath: repetition", 1, 1);
    na_result_mean(result, "hotpath", (na_metric_t *[]){lifo, batched}, 2);
}

/** One thread, one size: malloc(64) and free in a tight loop, and in batches of 256. *Geometric
 *  mean of nanoseconds a pair.* The least cost that an allocator can have; real programs see
 *  churn's. */
const na_bench_t na_bench_hotpath = {
    .name = "hotpath",
    .summary = "malloc and free of one size in one thread, one by one and in batches",
    .knobs = knobs_table,
    .knob_count = K_COUNT,
    .memory = true,
    .headline = "hotpath",
    .work = "pairs",
    .suite = (const char *const[]){"--repetitions=9", "--warmup=2", NULL},
    .settle = NULL,
    .run = hotpath_run,
};
