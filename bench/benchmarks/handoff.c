/* handoff.c - the handoff benchmark: producers allocate, consumers free.
 *
 *   each producer        N times: allocate an object; every B of them are handed over at once
 *   each consumer        takes batches and frees every object of them
 *
 * Three modes:
 *   plain       the consumers have heaps of their own, too: for every object that one frees, it
 *               allocates one of the same size and frees it one batch later
 *   free-only   the consumers never allocate: all that they ever do is to free others' blocks
 *   sleep       the producers allocate everything and go to sleep; only then do the consumers free.
 *               Nobody is there to collect what is sent back to its owner: the memory that is still
 *               resident while the owners sleep is reported
 *
 * Consumer c of C takes the batches k of every producer with k % C = c, so that who frees what does
 * not depend on the scheduler. A producer is at most W batches ahead (--window; all in the mode
 * sleep); the ring between a producer and the consumers is the suite's own memory. A batch is
 * published by a release store of the number of batches, on a cache line of its own. */
#include "bench/load/sizes.h"
#include "bench/load/team.h"
#include "bench/suite/limits.h"
#include "bench/suite/work.h"
#include "bench/system/process.h"

#include <sched.h>

enum {
    K_THREADS,
    K_PRODUCERS,
    K_CONSUMERS,
    K_MODE,
    K_BATCH,
    K_WINDOW,
    K_OBJECTS,
    NA_WORK_KNOBS,
    K_COUNT,
};

typedef enum mode { PLAIN, FREE_ONLY, SLEEP, MODES } handoff_mode_t;

static const char *const mode_names[MODES] = {"plain", "free-only", "sleep"};

/* What --batch 0 runs, in turn. */
static const uint64_t batches[] = {1, 16, 256};

/* The table of handoff, and that of handoff-mixed: objects, and what NA_WORK_KNOB_ROWS takes. */
/* clang-format off */
#define KNOBS(OBJECTS, ...)                                                                        \
    {                                                                                              \
        [K_THREADS] = {"threads", "threads", NA_KNOB_NUMBER, 0, 2, 2048, NULL,                     \
                       "producers and consumers together, half of each; without it, one for each " \
                       "CPU that this process may use, at least 2"},                               \
        [K_PRODUCERS] = {"producers", "threads", NA_KNOB_NUMBER, 0, 1, 1024, NULL,                 \
                         "threads that allocate; without it, half of --threads"},                  \
        [K_CONSUMERS] = {"consumers", "threads", NA_KNOB_NUMBER, 0, 1, 1024, NULL,                 \
                         "threads that free; without it, the rest of --threads"},                  \
        [K_MODE] = {"mode", "", NA_KNOB_CHOICE, 0, 0, 0, "all|plain|free-only|sleep",              \
                    "what the threads do besides (free-only: consumers never allocate; sleep: "    \
                    "the producers sleep while their objects are freed)"},                         \
        [K_BATCH] = {"batch", "objects", NA_KNOB_NUMBER, 0, 0, 1000000, NULL,                      \
                     "objects handed over at once; 0: 1, 16 and 256 in turn"},                     \
        [K_WINDOW] = {"window", "batches", NA_KNOB_NUMBER, 64, 1, 1000000, NULL,                   \
                      "how far a producer may be ahead of the consumers"},                         \
        [K_OBJECTS] = {"objects", "objects", NA_KNOB_NUMBER, OBJECTS, 1, UINT64_C(1) << 32, NULL,  \
                       "objects of each producer in one repetition (rounded down to whole "        \
                       "batches, at least one)"},                                                  \
        NA_WORK_KNOB_ROWS(__VA_ARGS__),                                                            \
    }
/* clang-format on */

static const na_knob_t knobs_table[K_COUNT] = KNOBS(60000, 16, 512, 16, 1, 7);
static const na_knob_t mixed_table[K_COUNT] = KNOBS(6000, 8, 65536, 8, 1, 7);

typedef struct producer {
    void **ring; /* room for `window` batches */
    uint32_t *sizes;
    uint64_t published __attribute__((aligned(64))); /* atomic: batches handed over so far */
} __attribute__((aligned(64))) producer_t;

/* Batches of one producer that one consumer has freed; written by that consumer only. */
typedef struct taken {
    uint64_t batches; /* atomic */
} __attribute__((aligned(64))) taken_t;

typedef struct consumer {
    void **own; /* the objects of the latest batch, in the mode plain */
    uint64_t own_count;
} __attribute__((aligned(64))) consumer_t;

typedef struct handoff {
    producer_t *producer;
    consumer_t *consumer;
    taken_t *taken; /* [producer * consumers + consumer] */
    uint64_t producers, consumers;
    uint64_t batch, batches, window; /* batches: of each producer in a repetition */
    handoff_mode_t mode;
    bool touch;
} handoff_t;

/* Spins for some microseconds, then gives way: the other side may need this CPU. */
static void await(const uint64_t *word, uint64_t least) {
    for (unsigned spins = 0; __atomic_load_n(word, __ATOMIC_ACQUIRE) < least; spins++) {
        if (spins < 256)
            na_work_relax();
        else
            sched_yield();
    }
}

static void produce_blocks(const handoff_t *handoff, uint64_t p) {
    producer_t *self = &handoff->producer[p];
    const taken_t *taken = &handoff->taken[p * handoff->consumers];
    uint64_t batch = handoff->batch, object = 0, slot = 0;
    uint64_t next = 0, lap = 1; /* who frees the oldest batch of the ring; its how many-th */
    for (uint64_t k = 0; k < handoff->batches; k++) {
        if (k >= handoff->window) { /* the batch that had this place in the ring must be freed */
            await(&taken[next].batches, lap);
            if (++next == handoff->consumers) {
                next = 0;
                lap++;
            }
        }
        void **place = &self->ring[slot * batch];
        if (++slot == handoff->window) slot = 0;
        for (uint64_t i = 0; i < batch; i++) {
            place[i] = na_work_malloc("handoff", self->sizes[object++ % NA_WORK_SIZES]);
            na_bench_touch(place[i], handoff->touch);
        }
        __atomic_store_n(&self->published, k + 1, __ATOMIC_RELEASE);
    }
}

/* The consumer looks at an object before it frees it, as a program would. */
static void consume_batch(const handoff_t *handoff, consumer_t *self, producer_t *from,
                          uint64_t k) {
    uint64_t batch = handoff->batch;
    void **place = &from->ring[k % handoff->window * batch];
    for (uint64_t i = 0; i < batch; i++) {
        if (handoff->touch) (void)*(volatile unsigned char *)place[i];
        free(place[i]);
        if (handoff->mode != PLAIN) continue;
        if (i < self->own_count) free(self->own[i]);
        self->own[i] = na_work_malloc("handoff", from->sizes[(k * batch + i) % NA_WORK_SIZES]);
        na_bench_touch(self->own[i], handoff->touch);
    }
    if (handoff->mode == PLAIN) self->own_count = batch;
}

static void consume_blocks(const handoff_t *handoff, uint64_t c) {
    consumer_t *self = &handoff->consumer[c];
    for (uint64_t k = c; k < handoff->batches; k += handoff->consumers) {
        for (uint64_t p = 0; p < handoff->producers; p++) {
            producer_t *from = &handoff->producer[p];
            await(&from->published, k + 1);
            consume_batch(handoff, self, from, k);
            taken_t *taken = &handoff->taken[p * handoff->consumers + c];
            __atomic_store_n(&taken->batches, k / handoff->consumers + 1, __ATOMIC_RELEASE);
        }
    }
    for (uint64_t i = 0; i < self->own_count; i++)
        free(self->own[i]);
    self->own_count = 0;
}

static void produce_phase(void *argument, unsigned worker) {
    const handoff_t *handoff = argument;
    if (worker < handoff->producers) produce_blocks(handoff, worker);
}

static void consume_phase(void *argument, unsigned worker) {
    const handoff_t *handoff = argument;
    if (worker >= handoff->producers) consume_blocks(handoff, worker - handoff->producers);
}

static void both_phase(void *argument, unsigned worker) {
    produce_phase(argument, worker);
    consume_phase(argument, worker);
}

typedef struct metrics {
    na_metric_t *time, *rate, *producer, *consumer, *left;
} metrics_t;

static void add_handoff_metrics(na_result_t *result, const handoff_t *handoff, size_t repetitions,
                                metrics_t *metrics) {
    char name[64];
    const char *mode = mode_names[handoff->mode];
    unsigned long long batch = (unsigned long long)handoff->batch;
    snprintf(name, sizeof name, "%s, batch %llu", mode, batch);
    metrics->time = na_result_metric(result, name, "ns/obj", NA_LOWER, NA_HEADLINE, repetitions);
    snprintf(name, sizeof name, "%s, batch %llu: throughput", mode, batch);
    metrics->rate = na_result_metric(result, name, "Mobj/s", NA_HIGHER, NA_DETAIL, repetitions);
    snprintf(name, sizeof name, "%s, batch %llu: each producer", mode, batch);
    metrics->producer = na_result_metric(result, name, "Mobj/s", NA_HIGHER, NA_DETAIL,
                                         repetitions * handoff->producers);
    snprintf(name, sizeof name, "%s, batch %llu: each consumer", mode, batch);
    metrics->consumer = na_result_metric(result, name, "Mobj/s", NA_HIGHER, NA_DETAIL,
                                         repetitions * handoff->consumers);
    metrics->left = NULL;
    if (handoff->mode != SLEEP) return;
    snprintf(name, sizeof name, "sleep, batch %llu: resident while owners sleep", batch);
    metrics->left = na_result_metric(result, name, "MiB", NA_LOWER, NA_DETAIL, repetitions);
}

/* Batches k < count with k % consumers = c. */
static uint64_t share_of(uint64_t count, uint64_t consumers, uint64_t c) {
    return count / consumers + (c < count % consumers);
}

static void add_rates(const handoff_t *handoff, const na_team_t *team, const metrics_t *metrics,
                      bool producers) {
    uint64_t count = producers ? handoff->producers : handoff->consumers;
    for (uint64_t i = 0; i < count; i++) {
        uint64_t done =
            handoff->batch *
            (producers ? handoff->batches
                       : handoff->producers * share_of(handoff->batches, handoff->consumers, i));
        uint64_t time = na_team_elapsed(team, (unsigned)(producers ? i : handoff->producers + i));
        na_metric_add(producers ? metrics->producer : metrics->consumer,
                      1e3 * (double)done / (double)(time == 0 ? 1 : time));
    }
}

static void handoff_repetition(handoff_t *handoff, na_team_t *team, const metrics_t *metrics) {
    double elapsed, objects = (double)(handoff->producers * handoff->batches * handoff->batch);
    for (uint64_t p = 0; p < handoff->producers; p++)
        handoff->producer[p].published = 0;
    for (uint64_t i = 0; i < handoff->producers * handoff->consumers; i++)
        handoff->taken[i].batches = 0;
    if (handoff->mode == SLEEP) {
        elapsed = (double)na_team_run(team, produce_phase, handoff);
        if (metrics != NULL) add_rates(handoff, team, metrics, true);
        elapsed += (double)na_team_run(team, consume_phase, handoff);
        if (metrics != NULL) {
            add_rates(handoff, team, metrics, false);
            na_metric_add(metrics->left, (double)na_memory_read().now / 0x1p20);
        }
    } else {
        elapsed = (double)na_team_run(team, both_phase, handoff);
        if (metrics != NULL) {
            add_rates(handoff, team, metrics, true);
            add_rates(handoff, team, metrics, false);
        }
    }
    if (metrics == NULL) return;
    na_metric_add(metrics->time, elapsed / objects);
    na_metric_add(metrics->rate, 1e3 * objects / elapsed);
}

/* Batches of each producer, with batches of that size. */
static uint64_t batches_of(const na_knob_value_t *value, uint64_t batch) {
    uint64_t whole = value[K_OBJECTS].number / batch;
    return whole == 0 ? 1 : whole;
}

static uint64_t batch_places(const na_knob_value_t *value, uint64_t *from) {
    *from = value[K_BATCH].number;
    return *from == 0 ? NA_COUNT(batches) : 1;
}

/* The places of a producer's ring that any of the runs needs. */
static uint64_t ring_places(const na_knob_value_t *value) {
    uint64_t batch, most = 0, count = batch_places(value, &batch);
    bool sleeps = value[K_MODE].number == 0 || value[K_MODE].number == 1 + SLEEP;
    for (uint64_t b = 0; b < count; b++) {
        uint64_t size = batch != 0 ? batch : batches[b], number = batches_of(value, size);
        uint64_t window = value[K_WINDOW].number;
        uint64_t places = (sleeps || window > number ? number : window) * size;
        if (places > most) most = places;
    }
    return most;
}

static bool handoff_settle(na_knobs_t *knobs, char *error, size_t size) {
    na_knob_value_t *value = knobs->value;
    uint64_t threads = na_team_threads(value[K_THREADS].number);
    uint64_t producers = value[K_PRODUCERS].number, consumers = value[K_CONSUMERS].number;
    if (producers == 0)
        producers = consumers == 0 ? threads / 2 : threads > consumers ? threads - consumers : 1;
    if (producers == 0) producers = 1;
    if (consumers == 0) consumers = threads > producers ? threads - producers : 1;
    value[K_PRODUCERS].number = producers;
    value[K_CONSUMERS].number = consumers;
    value[K_THREADS].number = producers + consumers;
    if (!na_limits_ordered(knobs, K_MIN, K_MAX, error, size)) return false;
    double places = (double)ring_places(value) * (double)producers;
    return na_limits_fit(places * (double)(sizeof(void *) + value[K_MAX].number),
                         "--objects, --window, --batch, --producers or --max", error, size);
}

static void handoff_run(const na_knobs_t *knobs, na_result_t *result) {
    const na_knob_value_t *value = knobs->value;
    const na_sizes_t sizes = NA_WORK_SIZES_OF(value);
    size_t warmup = (size_t)value[K_WARMUP].number;
    size_t repetitions = (size_t)value[K_REPETITIONS].number;
    handoff_t handoff = {.producers = value[K_PRODUCERS].number,
                         .consumers = value[K_CONSUMERS].number,
                         .touch = value[K_TOUCH].number != 0};
    uint64_t batch, batch_count = batch_places(value, &batch), places = ring_places(value);
    uint64_t largest = batch != 0 ? batch : batches[NA_COUNT(batches) - 1];

    handoff.producer = na_bench_map(handoff.producers * sizeof(producer_t));
    handoff.consumer = na_bench_map(handoff.consumers * sizeof(consumer_t));
    handoff.taken = na_bench_map(handoff.producers * handoff.consumers * sizeof(taken_t));
    for (uint64_t p = 0; p < handoff.producers; p++) {
        na_prng_t prng = na_prng_make(value[K_SEED].number, 1 + p);
        handoff.producer[p].ring = na_bench_map(places * sizeof(void *));
        handoff.producer[p].sizes = na_bench_map(NA_WORK_SIZES * sizeof(uint32_t));
        na_sizes_fill(&sizes, &prng, handoff.producer[p].sizes, NA_WORK_SIZES);
    }
    for (uint64_t c = 0; c < handoff.consumers; c++)
        handoff.consumer[c].own = na_bench_map(largest * sizeof(void *));

    unsigned threads = (unsigned)(handoff.producers + handoff.consumers);
    na_team_t *team = na_team_start(threads, (na_pin_t)value[K_PIN].number);
    unsigned from = value[K_MODE].number == 0 ? 0 : (unsigned)value[K_MODE].number - 1;
    unsigned to = value[K_MODE].number == 0 ? MODES : from + 1;
    size_t done = 0, total = (to - from) * batch_count * (warmup + repetitions), cases = 0;
    na_metric_t *times[MODES * NA_COUNT(batches)];
    for (unsigned mode = from; mode < to; mode++) {
        for (uint64_t b = 0; b < batch_count; b++) {
            metrics_t metrics;
            handoff.mode = (handoff_mode_t)mode;
            handoff.batch = batch != 0 ? batch : batches[b];
            handoff.batches = batches_of(value, handoff.batch);
            handoff.window = value[K_WINDOW].number;
            if (mode == SLEEP || handoff.window > handoff.batches) handoff.window = handoff.batches;
            add_handoff_metrics(result, &handoff, repetitions, &metrics);
            times[cases++] = metrics.time;
            for (size_t r = 0; r < warmup + repetitions; r++) {
                na_bench_progress("handoff: repetition", done++, total);
                handoff_repetition(&handoff, team, r < warmup ? NULL : &metrics);
            }
        }
    }
    na_bench_progress("handoff: repetition", 1, 1);
    na_team_stop(team);
    na_result_mean(result, "handoff", times, cases);
}

/** Producers allocate, consumers free, in batches of 1, 16 and 256. *plain*: a consumer allocates
 *  as many itself. *free-only*: it never allocates. *sleep*: the producers sleep when their
 *  objects are freed. *Geometric mean of wall time per object over modes and batches.* With a
 *  batch of 1 the hand-over itself is much of the figure. */
const na_bench_t na_bench_handoff = {
    .name = "handoff",
    .summary = "producers allocate, consumers free: in batches, free-only, with sleeping owners",
    .knobs = knobs_table,
    .knob_count = K_COUNT,
    .memory = true,
    .headline = "handoff",
    .work = "objects",
    .suite = (const char *const[]){"--repetitions=5", "--warmup=1", NULL},
    .settle = handoff_settle,
    .run = handoff_run,
};

/** As handoff, with objects of 8 bytes to 64 KiB. */
const na_bench_t na_bench_handoff_mixed = {
    .name = "handoff-mixed",
    .summary = "handoff, with objects of 8 bytes to 64 KiB",
    .knobs = mixed_table,
    .knob_count = K_COUNT,
    .memory = true,
    .headline = "handoff",
    .work = "objects",
    .suite = (const char *const[]){"--repetitions=5", "--warmup=1", NULL},
    .settle = handoff_settle,
    .run = handoff_run,
};
