/* threadtest.c - threads that allocate and free independently of each other.
 *
 *   each of K threads    repeatedly: malloc 100000 objects of 8 bytes, then free them in the order
 *                        in which they were allocated
 *
 * No object is shared. Its result is the time of the whole, and the same for one object. */
#include "bench/load/team.h"
#include "bench/measure/rates.h"
#include "bench/suite/limits.h"
#include "bench/suite/work.h"

#include <stdlib.h>

enum {
    K_THREADS,
    K_OBJECTS,
    K_SIZE,
    K_ITERATIONS,
    K_TOUCH,
    K_PIN,
    K_WARMUP,
    K_REPETITIONS,
    K_COUNT,
};

static const na_knob_t knobs_table[K_COUNT] = {
    [K_THREADS] = NA_KNOB_THREADS,
    [K_OBJECTS] = {"objects", "objects", NA_KNOB_NUMBER, 100000, 1, UINT64_C(1) << 32, NULL,
                   "objects that each thread has at a time"},
    [K_SIZE] = {"size", "bytes", NA_KNOB_NUMBER, 8, 1, UINT64_C(1) << 30, NULL, "object size"},
    [K_ITERATIONS] = {"iterations", "times", NA_KNOB_NUMBER, 10, 1, UINT64_C(1) << 32, NULL,
                      "how often each thread allocates and frees all of them in one repetition"},
    [K_TOUCH] = NA_KNOB_TOUCH,
    [K_PIN] = NA_KNOB_PIN,
    [K_WARMUP] = NA_KNOB_WARMUP(1),
    [K_REPETITIONS] = NA_KNOB_REPETITIONS(11),
};

typedef struct threadtest {
    void **block; /* threads x objects */
    size_t objects, size;
    uint64_t iterations;
    bool touch;
} threadtest_t;

static void threadtest_phase(void *argument, unsigned worker) {
    const threadtest_t *test = argument;
    size_t objects = test->objects, size = test->size;
    void **block = test->block + worker * objects;
    for (uint64_t i = test->iterations; i != 0; i--) {
        for (size_t at = 0; at < objects; at++) {
            block[at] = malloc(size);
            if (block[at] == NULL)
                na_bench_fail("threadtest: malloc(%zu) gave NULL: the allocator is out of memory",
                              size);
            na_bench_touch(block[at], test->touch);
        }
        for (size_t at = 0; at < objects; at++)
            free(block[at]);
    }
}

static bool threadtest_settle(na_knobs_t *knobs, char *error, size_t size) {
    const na_knob_value_t *value = knobs->value;
    knobs->value[K_THREADS].number = na_team_threads(value[K_THREADS].number);
    double objects = (double)value[K_THREADS].number * (double)value[K_OBJECTS].number;
    return na_limits_fit(objects * ((double)value[K_SIZE].number + 24),
                         "--objects, --size or --threads", error, size);
}

static void threadtest_run(const na_knobs_t *knobs, na_result_t *result) {
    const na_knob_value_t *value = knobs->value;
    unsigned threads = (unsigned)value[K_THREADS].number;
    size_t warmup = (size_t)value[K_WARMUP].number;
    size_t repetitions = (size_t)value[K_REPETITIONS].number;
    threadtest_t test = {NULL, (size_t)value[K_OBJECTS].number, (size_t)value[K_SIZE].number,
                         value[K_ITERATIONS].number, value[K_TOUCH].number != 0};
    test.block = na_bench_map(threads * test.objects * sizeof(void *));
    na_metric_t *pair =
        na_result_metric(result, "threadtest", "ns/obj", NA_LOWER, NA_HEADLINE, repetitions);
    na_rates_t rates = na_rates_make(result, threads, repetitions, "Mobj/s");
    double objects = (double)test.objects * (double)test.iterations;

    na_team_t *team = na_team_start(threads, (na_pin_t)value[K_PIN].number);
    for (size_t r = 0; r < warmup + repetitions; r++) {
        na_bench_progress("threadtest: repetition", r, warmup + repetitions);
        uint64_t elapsed = na_team_run(team, threadtest_phase, &test);
        if (r < warmup) continue;
        na_metric_add(pair, (double)elapsed / objects);
        na_rates_add(&rates, team, elapsed, objects);
    }
    na_bench_progress("threadtest: repetition", 1, 1);
    na_team_stop(team);
}

/** Each thread allocates 100,000 objects of 8 bytes and frees them in order, more than a thread
 *  cache holds. *Time until all are done, divided by a thread's objects.* */
const na_bench_t na_bench_threadtest = {
    .name = "threadtest",
    .summary = "each thread allocates many small objects, then frees them in the same order",
    .knobs = knobs_table,
    .knob_count = K_COUNT,
    .memory = true,
    .work = "iterations",
    .suite = (const char *const[]){"--repetitions=11", "--warmup=1", NULL},
    .settle = threadtest_settle,
    .run = threadtest_run,
};
