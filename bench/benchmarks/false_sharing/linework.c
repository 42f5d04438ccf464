/* linework.c - the common part of thrash and scratch.
 *
 *   each of K threads    warm up: allocate chunks of 16 bytes, write them, free them
 *                        [scratch: free the object that the main thread has passed]
 *                        N times: malloc an object; read and write it M times; free it
 *
 * This runs in three arms, which differ only in the memory that is read and written:
 *
 *   object     the object itself: what is measured
 *   apart      a place of the suite's own for each thread, at least 128 bytes from all others
 *              (processors fetch lines of 64 bytes in pairs): false sharing is impossible
 *   one line   neighbouring places in one line of the suite's own: false sharing at its worst
 *
 * Each arm makes the same calls of malloc and free, so that the ratio of the first two is false
 * sharing and nothing else; the ratio of the last two says what the machine has to show. Each arm
 * of each repetition has new threads, so that no repetition inherits the caches of another, and the
 * order of the arms changes from one to the next. "Read and write" is a load, an addition and a
 * store of each byte of the object. */
#include "bench/benchmarks/false_sharing/linework.h"

#include "bench/load/team.h"
#include "bench/measure/rates.h"
#include "bench/suite/limits.h"
#include "bench/suite/work.h"

#include <stdlib.h>

#define LINE_PAIR  128
#define CHUNK_SIZE 16

const na_knob_t na_linework_knobs[NA_LW_KNOBS] = {
    [NA_LW_THREADS] = {"threads", "threads", NA_KNOB_NUMBER, 0, 2, 1024, NULL,
                       "worker threads; without it, one for each CPU that this process may use, at "
                       "least 2"},
    [NA_LW_ITERATIONS] = {"iterations", "times", NA_KNOB_NUMBER, 500, 1, UINT64_C(1) << 40, NULL,
                          "objects that each thread allocates, uses and frees, one by one"},
    [NA_LW_CACHE_RW] = {"cacheRW", "times", NA_KNOB_NUMBER, 10000, 1, UINT64_C(1) << 40, NULL,
                        "reads and writes of each object"},
    [NA_LW_SIZE] = {"size", "bytes", NA_KNOB_NUMBER, 8, 1, UINT64_C(1) << 30, NULL, "object size"},
    [NA_LW_CHUNKS] = {"chunks", "chunks", NA_KNOB_NUMBER, 64, 0, UINT64_C(1) << 24, NULL,
                      "chunks of 16 bytes in each thread's warm-up"},
    [NA_LW_PIN] = NA_KNOB_PIN,
    [NA_LW_WARMUP] = NA_KNOB_WARMUP(1),
    [NA_LW_REPETITIONS] = NA_KNOB_REPETITIONS(7),
};

enum arm { ARM_OBJECT, ARM_APART, ARM_ONE_LINE, ARM_COUNT };

typedef struct worker {
    void *passed;         /* scratch: the main thread's object, NULL once freed */
    void **chunk;         /* room for the warm-up */
    unsigned char *place; /* what to read and write instead of the object, or NULL */
} __attribute__((aligned(LINE_PAIR))) worker_t;

typedef struct linework {
    const char *name;
    worker_t *worker;
    uint64_t iterations, cache_rw;
    size_t size, chunks;
} linework_t;

static void *allocate_line_block(const linework_t *work, size_t size) {
    void *block = malloc(size);
    if (block == NULL)
        na_bench_fail("%s: malloc(%zu) gave NULL: the allocator is out of memory", work->name,
                      size);
    return block;
}

static void warm_phase(void *argument, unsigned number) {
    const linework_t *work = argument;
    void **chunk = work->worker[number].chunk;
    for (size_t i = 0; i < work->chunks; i++) {
        chunk[i] = allocate_line_block(work, CHUNK_SIZE);
        na_bench_touch(chunk[i], true);
    }
    for (size_t i = 0; i < work->chunks; i++)
        free(chunk[i]);
}

/* Volatile: each access happens, and in this order. Not inlined: the same code for all arms. */
__attribute__((noinline)) static void read_write(volatile unsigned char *place, size_t size,
                                                 uint64_t times) {
    for (uint64_t i = times; i != 0; i--)
        for (size_t byte = 0; byte < size; byte++)
            place[byte] = (unsigned char)(place[byte] + 1);
}

static void work_phase(void *argument, unsigned number) {
    const linework_t *work = argument;
    worker_t *self = &work->worker[number];
    if (self->passed != NULL) {
        free(self->passed);
        self->passed = NULL;
    }
    for (uint64_t i = work->iterations; i != 0; i--) {
        unsigned char *block = allocate_line_block(work, work->size);
        read_write(self->place != NULL ? self->place : block, work->size, work->cache_rw);
        free(block);
    }
}

bool na_linework_settle(na_knobs_t *knobs, char *error, size_t size) {
    const na_knob_value_t *value = knobs->value;
    unsigned settled = na_team_threads(value[NA_LW_THREADS].number);
    knobs->value[NA_LW_THREADS].number = settled < 2 ? 2 : settled; /* one shares no line */
    double threads = (double)value[NA_LW_THREADS].number;
    double each = 3.0 * (double)(value[NA_LW_SIZE].number + 2 * LINE_PAIR) +
                  4.0 * CHUNK_SIZE * (double)value[NA_LW_CHUNKS].number;
    return na_limits_fit(threads * each, "--size, --chunks or --threads", error, size);
}

typedef struct place_set {
    unsigned char *memory;
    size_t distance; /* bytes from one thread's place to the next one's */
} place_set_t;

static size_t round_up(size_t value, size_t unit) {
    return (value + unit - 1) / unit * unit;
}

void na_linework_run(const char *name, bool pass, const na_knobs_t *knobs, na_result_t *result) {
    const na_knob_value_t *value = knobs->value;
    unsigned threads = (unsigned)value[NA_LW_THREADS].number;
    size_t warmup = (size_t)value[NA_LW_WARMUP].number;
    size_t repetitions = (size_t)value[NA_LW_REPETITIONS].number;
    linework_t work = {name,
                       na_bench_map(threads * sizeof(worker_t)),
                       value[NA_LW_ITERATIONS].number,
                       value[NA_LW_CACHE_RW].number,
                       (size_t)value[NA_LW_SIZE].number,
                       (size_t)value[NA_LW_CHUNKS].number};
    /* In one line, places are as near to each other as malloc's alignment lets objects be. */
    place_set_t places[ARM_COUNT] = {
        [ARM_APART] = {NULL, round_up(work.size, LINE_PAIR) + LINE_PAIR},
        [ARM_ONE_LINE] = {NULL, round_up(work.size, CHUNK_SIZE)},
    };
    for (size_t arm = ARM_APART; arm < ARM_COUNT; arm++)
        places[arm].memory = na_bench_map(threads * places[arm].distance);
    for (unsigned i = 0; i < threads; i++)
        work.worker[i].chunk = na_bench_map((work.chunks + 1) * sizeof(void *));

    na_metric_t *ratio =
        na_result_metric(result, "false sharing", "x", NA_LOWER, NA_HEADLINE, repetitions);
    na_metric_t *times[ARM_COUNT] = {
        na_result_metric(result, name, "ns/rw", NA_LOWER, NA_HEADLINE, repetitions),
        na_result_metric(result, "apart", "ns/rw", NA_LOWER, NA_DETAIL, repetitions),
        na_result_metric(result, "one line", "ns/rw", NA_LOWER, NA_DETAIL, repetitions),
    };
    na_metric_t *worst = na_result_metric(result, "false sharing in one line", "x", NA_LOWER,
                                          NA_DETAIL, repetitions);
    na_metric_t *total =
        na_result_metric(result, "total time", "ms", NA_LOWER, NA_HEADLINE, repetitions);
    na_rates_t rates = na_rates_make(result, threads, repetitions, "Mrw/s");
    double operations = (double)work.iterations * (double)work.cache_rw;

    char title[64];
    snprintf(title, sizeof title, "%s: repetition", name);
    for (size_t r = 0; r < warmup + repetitions; r++) {
        double elapsed[ARM_COUNT];
        na_bench_progress(title, r, warmup + repetitions);
        for (size_t a = 0; a < ARM_COUNT; a++) {
            size_t arm = (a + r) % ARM_COUNT;
            for (unsigned i = 0; i < threads; i++) {
                worker_t *worker = &work.worker[i];
                worker->passed = pass ? allocate_line_block(&work, work.size) : NULL;
                worker->place = places[arm].memory == NULL
                                    ? NULL
                                    : places[arm].memory + i * places[arm].distance;
            }
            na_team_t *team = na_team_start(threads, (na_pin_t)value[NA_LW_PIN].number);
            na_team_run(team, warm_phase, &work);
            uint64_t wall = na_team_run(team, work_phase, &work);
            elapsed[arm] = (double)(wall == 0 ? 1 : wall);
            if (r >= warmup && arm == ARM_OBJECT) na_rates_add(&rates, team, wall, operations);
            na_team_stop(team);
        }
        if (r < warmup) continue;
        na_metric_add(total, elapsed[ARM_OBJECT] / 1e6);
        for (size_t arm = 0; arm < ARM_COUNT; arm++)
            na_metric_add(times[arm], elapsed[arm] / operations);
        na_metric_add(ratio, elapsed[ARM_OBJECT] / elapsed[ARM_APART]);
        na_metric_add(worst, elapsed[ARM_ONE_LINE] / elapsed[ARM_APART]);
    }
    na_bench_progress(title, 1, 1);
}
