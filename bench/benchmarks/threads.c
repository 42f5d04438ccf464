/* threads.c - the threads benchmark: create a thread, which allocates a little and ends.
 *
 *   each of K creators    N times: create a thread, wait for its end
 *   each thread           allocates M objects, frees all of them, oldest first
 *
 * The same is done with threads that allocate nothing. The difference of the two, taken within a
 * repetition, is what the allocator adds to the life of a small thread: setting up its cache,
 * filling it, and giving all of it back. What the C library itself allocates for a thread is in
 * both. A thread inherits its creator's CPU. */
#include "bench/load/sizes.h"
#include "bench/load/team.h"
#include "bench/measure/rates.h"
#include "bench/suite/limits.h"
#include "bench/suite/work.h"

#include <pthread.h>
#include <string.h>

enum {
    K_THREADS,
    K_ROUNDS,
    K_OBJECTS,
    NA_WORK_KNOBS,
    K_COUNT,
};

#define OBJECTS_MAX 4096

static const na_knob_t knobs_table[K_COUNT] = {
    [K_THREADS] = {"threads", "threads", NA_KNOB_NUMBER, 0, 1, 1024, NULL,
                   "threads that create threads; without it, one for each CPU that this "
                   "process may use"},
    [K_ROUNDS] = {"rounds", "threads", NA_KNOB_NUMBER, 300, 1, 100000000, NULL,
                  "threads that each creator starts in one repetition, one after the other"},
    [K_OBJECTS] = {"objects", "objects", NA_KNOB_NUMBER, 20, 1, OBJECTS_MAX, NULL,
                   "objects that a thread allocates and frees"},
    NA_WORK_KNOB_ROWS(16, 1024, 16, 1, 11),
};

typedef struct creator {
    uint64_t at; /* place in the table where the present thread's sizes begin */
    uint64_t objects;
    bool touch;
    uint32_t sizes[NA_WORK_SIZES];
} __attribute__((aligned(64))) creator_t;

typedef struct threads {
    creator_t *creator;
    uint64_t rounds;
} threads_t;

static void *live(void *argument) {
    const creator_t *creator = argument;
    void *block[OBJECTS_MAX];
    for (uint64_t i = 0; i < creator->objects; i++) {
        uint32_t size = creator->sizes[(creator->at + i) % NA_WORK_SIZES];
        block[i] = na_work_malloc("threads", size);
        na_bench_touch(block[i], creator->touch);
    }
    for (uint64_t i = 0; i < creator->objects; i++)
        free(block[i]);
    return NULL;
}

static void *live_empty(void *argument) {
    return argument;
}

static void create(const threads_t *threads, unsigned worker, void *(*life)(void *)) {
    creator_t *creator = &threads->creator[worker];
    for (uint64_t i = 0; i < threads->rounds; i++) {
        pthread_t thread;
        int error = pthread_create(&thread, NULL, life, creator);
        if (error != 0)
            na_bench_fail("threads: cannot create a thread: %s; use fewer --threads",
                          strerror(error));
        pthread_join(thread, NULL);
        creator->at = (creator->at + creator->objects) % NA_WORK_SIZES;
    }
}

static void full_phase(void *argument, unsigned worker) {
    create(argument, worker, live);
}

static void thread_empty_phase(void *argument, unsigned worker) {
    create(argument, worker, live_empty);
}

static bool threads_settle(na_knobs_t *knobs, char *error, size_t size) {
    na_knob_value_t *value = knobs->value;
    value[K_THREADS].number = na_team_threads(value[K_THREADS].number);
    if (!na_limits_ordered(knobs, K_MIN, K_MAX, error, size)) return false;
    return na_limits_fit((double)value[K_THREADS].number * (double)value[K_OBJECTS].number *
                             (double)value[K_MAX].number,
                         "--threads, --objects or --max", error, size);
}

/* The time of a creator in the phase. */
static double run_phase(na_team_t *team, na_team_fn *phase, threads_t *threads, unsigned count,
                        uint64_t *elapsed) {
    double sum = 0;
    *elapsed = na_team_run(team, phase, threads);
    for (unsigned i = 0; i < count; i++)
        sum += (double)na_team_elapsed(team, i);
    return na_team_time(count, sum, (double)*elapsed) / count;
}

static void threads_run(const na_knobs_t *knobs, na_result_t *result) {
    const na_knob_value_t *value = knobs->value;
    const na_sizes_t sizes = NA_WORK_SIZES_OF(value);
    unsigned count = (unsigned)value[K_THREADS].number;
    size_t warmup = (size_t)value[K_WARMUP].number;
    size_t repetitions = (size_t)value[K_REPETITIONS].number;
    threads_t threads = {na_bench_map(count * sizeof(creator_t)), value[K_ROUNDS].number};
    for (unsigned i = 0; i < count; i++) {
        na_prng_t prng = na_prng_make(value[K_SEED].number, 1 + i);
        threads.creator[i].objects = value[K_OBJECTS].number;
        threads.creator[i].touch = value[K_TOUCH].number != 0;
        na_sizes_fill(&sizes, &prng, threads.creator[i].sizes, NA_WORK_SIZES);
    }
    na_metric_t *whole =
        na_result_metric(result, "thread", "us/thread", NA_LOWER, NA_HEADLINE, repetitions);
    na_metric_t *extra = na_result_metric(result, "thread minus empty thread", "us/thread",
                                          NA_LOWER, NA_HEADLINE, repetitions);
    na_metric_t *empty =
        na_result_metric(result, "empty thread", "us/thread", NA_LOWER, NA_DETAIL, repetitions);
    na_rates_t rates = na_rates_make(result, count, repetitions, "kthread/s");

    na_team_t *team = na_team_start(count, (na_pin_t)value[K_PIN].number);
    double scale = 1e3 * (double)threads.rounds;
    for (size_t r = 0; r < warmup + repetitions; r++) {
        double time[2];
        uint64_t elapsed;
        na_bench_progress("threads: repetition", r, warmup + repetitions);
        time[0] = run_phase(team, thread_empty_phase, &threads, count, &elapsed) / scale;
        time[1] = run_phase(team, full_phase, &threads, count, &elapsed) / scale;
        if (r < warmup) continue;
        na_metric_add(whole, time[1]);
        na_metric_add(extra, time[1] - time[0]);
        na_metric_add(empty, time[0]);
        na_rates_add(&rates, team, elapsed, 1e3 * (double)threads.rounds); /* kilo, not mega */
    }
    na_bench_progress("threads: repetition", 1, 1);
    na_team_stop(team);
}

/** Creators start threads one after the other; each allocates a few objects, frees them and ends.
 *  *Microseconds for one life*; `thread minus empty thread` is what the allocator adds. */
const na_bench_t na_bench_threads = {
    .name = "threads",
    .summary = "create a thread, which allocates a little and ends",
    .knobs = knobs_table,
    .knob_count = K_COUNT,
    .memory = true,
    .work = "rounds",
    .suite = (const char *const[]){"--repetitions=9", "--warmup=1", NULL},
    .settle = threads_settle,
    .run = threads_run,
};
