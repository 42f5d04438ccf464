/* speed.c - the speed benchmark: the latency of each allocation routine and of chains of them.
 *
 *   main thread          for each chain: time of all workers = T; speed = T / (K * N)
 *   each of K threads    for each routine of the chain: call it N times, on N objects
 *
 * Each routine of a chain is called for all N objects before the next one begins, in the order in
 * which they were allocated. `realloc` gives an object a new size from the same distribution. A
 * chain that begins with realloc or free gets its objects from malloc before the clock starts, and
 * what a chain leaves allocated is freed after it has stopped; neither is measured. All sizes are
 * drawn beforehand and read in sequence.
 *
 * Two figures come of one measurement: per object, the formula above, and per call, which is that
 * divided by the number of routines in the chain and so compares chains of different length. The
 * geometric mean of the chains' times per call stands for the benchmark. The details say what each
 * routine takes within each chain, measured by each thread for itself. */
#include "bench/load/sizes.h"
#include "bench/load/team.h"
#include "bench/suite/limits.h"
#include "bench/suite/work.h"

#include <stdlib.h>
#include <string.h>

enum {
    K_THREADS,
    K_OBJECTS,
    K_MIN,
    K_MAX,
    K_STEP,
    K_DISTRIBUTION,
    K_CHAIN,
    K_SEED,
    K_TOUCH,
    K_PIN,
    K_WARMUP,
    K_REPETITIONS,
    K_COUNT,
};

typedef enum routine { MALLOC, REALLOC, FREE, CALLOC } routine_t;

static const char *const routine_names[] = {"malloc", "realloc", "free", "calloc"};

#define CHAIN_MAX 4

typedef struct chain {
    const char *name;
    unsigned length;
    routine_t routine[CHAIN_MAX];
} chain_t;

static const chain_t chains[] = {
    {"malloc", 1, {MALLOC}},
    {"realloc", 1, {REALLOC}},
    {"free", 1, {FREE}},
    {"calloc", 1, {CALLOC}},
    {"malloc-free", 2, {MALLOC, FREE}},
    {"realloc-free", 2, {REALLOC, FREE}},
    {"calloc-free", 2, {CALLOC, FREE}},
    {"malloc-realloc", 2, {MALLOC, REALLOC}},
    {"calloc-realloc", 2, {CALLOC, REALLOC}},
    {"malloc-realloc-free", 3, {MALLOC, REALLOC, FREE}},
    {"calloc-realloc-free", 3, {CALLOC, REALLOC, FREE}},
    {"malloc-realloc-free-calloc", 4, {MALLOC, REALLOC, FREE, CALLOC}},
};

#define CHAIN_CHOICES                                                                              \
    "all|malloc|realloc|free|calloc|malloc-free|realloc-free|calloc-free|malloc-realloc|"          \
    "calloc-realloc|malloc-realloc-free|calloc-realloc-free|malloc-realloc-free-calloc"

static const na_knob_t knobs_table[K_COUNT] = {
    [K_THREADS] = NA_KNOB_THREADS,
    [K_OBJECTS] = {"objects", "objects", NA_KNOB_NUMBER, 20000, 1, UINT64_C(1) << 28, NULL,
                   "objects of each thread"},
    [K_MIN] = NA_KNOB_MIN(16),
    [K_MAX] = NA_KNOB_MAX(512),
    [K_STEP] = NA_KNOB_STEP(16),
    [K_DISTRIBUTION] = NA_KNOB_DISTRIBUTION,
    [K_CHAIN] = {"chain", "", NA_KNOB_CHOICE, 0, 0, 0, CHAIN_CHOICES, "the chains to measure"},
    [K_SEED] = NA_KNOB_SEED,
    [K_TOUCH] = NA_KNOB_TOUCH,
    [K_PIN] = NA_KNOB_PIN,
    [K_WARMUP] = NA_KNOB_WARMUP(2),
    [K_REPETITIONS] = NA_KNOB_REPETITIONS(21),
};

typedef struct speeder {
    void **block;              /* N, this thread's */
    uint32_t *first;           /* N sizes of malloc and calloc */
    uint32_t *second;          /* N sizes of realloc */
    uint64_t times[CHAIN_MAX]; /* of the routines of the latest chain, nanoseconds */
} __attribute__((aligned(64))) speeder_t;

typedef struct speed {
    speeder_t *speeder;
    const chain_t *chain; /* the present one */
    size_t objects;
    bool touch;
} speed_t;

static void check_block(const void *block, const char *routine, size_t size) {
    if (__builtin_expect(block == NULL, 0))
        na_bench_fail("speed: %s of %zu bytes gave NULL: the allocator is out of memory", routine,
                      size);
}

static void call_routine(const speed_t *speed, speeder_t *self, routine_t routine) {
    void **block = self->block;
    size_t objects = speed->objects;
    bool touch = speed->touch;
    switch (routine) {
    case MALLOC:
        for (size_t i = 0; i < objects; i++) {
            block[i] = malloc(self->first[i]);
            check_block(block[i], "malloc", self->first[i]);
            na_bench_touch(block[i], touch);
        }
        break;
    case CALLOC:
        for (size_t i = 0; i < objects; i++) {
            block[i] = calloc(1, self->first[i]);
            check_block(block[i], "calloc", self->first[i]);
            na_bench_touch(block[i], touch);
        }
        break;
    case REALLOC:
        for (size_t i = 0; i < objects; i++) {
            block[i] = realloc(block[i], self->second[i]);
            check_block(block[i], "realloc", self->second[i]);
            na_bench_touch(block[i], touch);
        }
        break;
    case FREE:
        for (size_t i = 0; i < objects; i++)
            free(block[i]);
        break;
    }
}

static void chain_phase(void *argument, unsigned worker) {
    const speed_t *speed = argument;
    speeder_t *self = &speed->speeder[worker];
    uint64_t before = na_bench_now();
    for (unsigned i = 0; i < speed->chain->length; i++) {
        call_routine(speed, self, speed->chain->routine[i]);
        uint64_t after = na_bench_now();
        self->times[i] = after - before;
        before = after;
    }
}

static void prepare_phase(void *argument, unsigned worker) {
    const speed_t *speed = argument;
    routine_t first = speed->chain->routine[0];
    if (first == REALLOC || first == FREE) call_routine(speed, &speed->speeder[worker], MALLOC);
}

static void speed_clear_phase(void *argument, unsigned worker) {
    const speed_t *speed = argument;
    if (speed->chain->routine[speed->chain->length - 1] != FREE)
        call_routine(speed, &speed->speeder[worker], FREE);
}

typedef struct chain_metrics {
    na_metric_t *call, *object, *part[CHAIN_MAX];
} chain_metrics_t;

static void add_chain_metrics(na_result_t *result, const chain_t *chain, size_t repetitions,
                              chain_metrics_t *metrics) {
    char name[64];
    metrics->call =
        na_result_metric(result, chain->name, "ns/call", NA_LOWER, NA_HEADLINE, repetitions);
    snprintf(name, sizeof name, "%s per object", chain->name);
    metrics->object = na_result_metric(result, name, "ns/obj", NA_LOWER, NA_DETAIL, repetitions);
    for (unsigned i = 0; i < chain->length && chain->length > 1; i++) {
        snprintf(name, sizeof name, "%s: %s", chain->name, routine_names[chain->routine[i]]);
        metrics->part[i] =
            na_result_metric(result, name, "ns/call", NA_LOWER, NA_DETAIL, repetitions);
    }
}

static void measure_chain(speed_t *speed, na_team_t *team, unsigned threads,
                          chain_metrics_t *metrics) {
    const chain_t *chain = speed->chain;
    double objects = (double)speed->objects;
    na_team_run(team, prepare_phase, speed);
    double elapsed = (double)na_team_run(team, chain_phase, speed);
    na_team_run(team, speed_clear_phase, speed);
    if (metrics == NULL) return;
    na_metric_add(metrics->object, elapsed / (threads * objects));
    na_metric_add(metrics->call, elapsed / (threads * objects * chain->length));
    for (unsigned i = 0; i < chain->length && chain->length > 1; i++) {
        double sum = 0;
        for (unsigned t = 0; t < threads; t++)
            sum += (double)speed->speeder[t].times[i];
        na_metric_add(metrics->part[i], sum / threads / objects);
    }
}

static bool speed_settle(na_knobs_t *knobs, char *error, size_t size) {
    const na_knob_value_t *value = knobs->value;
    knobs->value[K_THREADS].number = na_team_threads(value[K_THREADS].number);
    if (!na_limits_ordered(knobs, K_MIN, K_MAX, error, size)) return false;
    double mean = (double)(value[K_MIN].number + value[K_MAX].number) / 2;
    double objects = (double)value[K_THREADS].number * (double)value[K_OBJECTS].number;
    return na_limits_fit(objects * (mean + sizeof(void *) + 2 * sizeof(uint32_t) + 16),
                         "--objects, --max or --threads", error, size);
}

static void speed_run(const na_knobs_t *knobs, na_result_t *result) {
    const na_knob_value_t *value = knobs->value;
    const na_sizes_t sizes = NA_WORK_SIZES_OF(value);
    unsigned threads = (unsigned)value[K_THREADS].number;
    size_t warmup = (size_t)value[K_WARMUP].number;
    size_t repetitions = (size_t)value[K_REPETITIONS].number;
    speed_t speed = {na_bench_map(threads * sizeof(speeder_t)), NULL,
                     (size_t)value[K_OBJECTS].number, value[K_TOUCH].number != 0};
    chain_metrics_t metrics[NA_COUNT(chains)] = {0};

    for (unsigned i = 0; i < threads; i++) {
        speeder_t *speeder = &speed.speeder[i];
        na_prng_t prng = na_prng_make(value[K_SEED].number, 1 + i);
        speeder->block = na_bench_map(speed.objects * sizeof(void *));
        speeder->first = na_bench_map(speed.objects * sizeof(uint32_t));
        speeder->second = na_bench_map(speed.objects * sizeof(uint32_t));
        na_sizes_fill(&sizes, &prng, speeder->first, speed.objects);
        na_sizes_fill(&sizes, &prng, speeder->second, speed.objects);
    }
    size_t from = 0, to = NA_COUNT(chains);
    if (value[K_CHAIN].number != 0) { /* the choices are "all" and the chains in their order */
        from = (size_t)value[K_CHAIN].number - 1;
        to = from + 1;
    }
    for (size_t c = from; c < to; c++)
        add_chain_metrics(result, &chains[c], repetitions, &metrics[c]);

    na_team_t *team = na_team_start(threads, (na_pin_t)value[K_PIN].number);
    for (size_t r = 0; r < warmup + repetitions; r++) {
        na_bench_progress("speed: repetition", r, warmup + repetitions);
        for (size_t c = from; c < to; c++) {
            speed.chain = &chains[c];
            measure_chain(&speed, team, threads, r < warmup ? NULL : &metrics[c]);
        }
    }
    na_bench_progress("speed: repetition", 1, 1);
    na_team_stop(team);
    na_metric_t *calls[NA_COUNT(chains)];
    for (size_t c = from; c < to; c++)
        calls[c - from] = metrics[c].call;
    na_result_mean(result, "speed", calls, to - from);
}

/** Twelve chains of malloc, calloc, realloc and free, each routine called for all N objects before
 *  the next begins. *Geometric mean over the chains of time per call.* What a chain needs before
 *  it begins is made while the clock stands still. */
const na_bench_t na_bench_speed = {
    .name = "speed",
    .summary = "the twelve chains of malloc, calloc, realloc and free",
    .knobs = knobs_table,
    .knob_count = K_COUNT,
    .memory = true,
    .headline = "speed",
    .work = "objects",
    .suite = (const char *const[]){"--repetitions=11", "--warmup=1", NULL},
    .settle = speed_settle,
    .run = speed_run,
};
