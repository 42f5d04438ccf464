/* growth.c - the growth benchmark: what one malloc and one free cost as a program gets larger.
 *
 *   idle threads   for each number of them: so many threads have been created, have allocated a
 *                  few objects, have freed half of those and sleep; one thread churns 1 MiB
 *   live bytes     for each size of the heap: one thread fills it up to there, then churns all of
 *                  it
 *
 * To churn is: free the object at a random spot, allocate a new one for it, N times. Nothing of
 * that depends on how much else is there, except for caches and address translation, which the same
 * loop without malloc and free shows (details), and the allocator.
 *
 * The idle threads come first, while the heap is small, and end before the heap grows, so that the
 * resident memory of a step is that of its threads or its objects: it is counted from what the
 * process has before the first thread, and before the first of the live objects. */
#include "bench/load/sizes.h"
#include "bench/load/team.h"
#include "bench/suite/limits.h"
#include "bench/suite/work.h"
#include "bench/system/process.h"

#include <inttypes.h>
#include <pthread.h>
#include <string.h>

enum {
    K_LIVE,
    K_IDLE_THREADS,
    K_PAIRS,
    K_OBJECTS,
    NA_WORK_KNOBS,
    K_COUNT,
};

#define STEPS_MAX        8
#define MIB              UINT64_C(1048576)
#define IDLE_OBJECTS_MAX 128
#define IDLE_LIVE        MIB                    /* bytes that are churned beside the idle threads */
#define IDLE_STACK       (UINT64_C(256) * 1024) /* address space; a few pages of it are touched */

/* What an idle thread may take with any allocator, its stacks here and in the kernel included. */
#define IDLE_COST (UINT64_C(192) * 1024)

static const na_knob_t knobs_table[K_COUNT] = {
    [K_LIVE] = {"live", "MiB", NA_KNOB_TEXT, 0, 0, 0, NULL,
                "MiB of live objects, growing, with commas between them, or none; without it, "
                "1,8,64,512,4096 as far as a quarter of the available memory allows"},
    [K_IDLE_THREADS] = {"idle-threads", "threads", NA_KNOB_TEXT, 0, 0, 0, NULL,
                        "numbers of idle threads, growing, with commas between them, or none; "
                        "without it, 10,100,1000,10000 as far as memory and limits allow"},
    [K_PAIRS] = {"pairs", "pairs", NA_KNOB_NUMBER, 200000, 1, UINT64_C(1) << 40, NULL,
                 "objects freed and allocated in one repetition of a step"},
    [K_OBJECTS] = {"objects", "objects", NA_KNOB_NUMBER, 64, 0, IDLE_OBJECTS_MAX, NULL,
                   "objects that each idle thread allocates; it frees every second one at once"},
    NA_WORK_KNOB_ROWS(16, 1024, 16, 1, 5),
};

typedef struct steps {
    uint64_t value[STEPS_MAX];
    size_t count;
} steps_t;

typedef struct growth {
    void **spots;
    uint64_t filled;     /* spots with an object */
    uint64_t wanted;     /* spots to fill in the next fill */
    uint64_t mean_times; /* bytes of NA_WORK_SIZES objects, one of each entry of `sizes` */
    uint64_t pairs;      /* of one repetition */
    uint64_t idle_objects;
    na_prng_t prng;
    bool touch;
    uint32_t sizes[NA_WORK_SIZES];
    /* The idle threads: how many have come to rest, and whether they may leave. */
    pthread_mutex_t mutex;
    pthread_cond_t rested, leave;
    uint64_t resting;
    bool leaving;
} growth_t;

/* ---- The work ---------------------------------------------------------------------------------
 */

/* Spots that hold about so many bytes. */
static uint64_t spots_of(const growth_t *growth, uint64_t bytes) {
    double mean = (double)growth->mean_times / NA_WORK_SIZES;
    uint64_t spots = (uint64_t)((double)bytes / mean);
    return spots == 0 ? 1 : spots;
}

static void growth_fill_phase(void *argument, unsigned worker) {
    growth_t *growth = argument;
    (void)worker;
    for (; growth->filled < growth->wanted; growth->filled++) {
        size_t size = growth->sizes[growth->filled % NA_WORK_SIZES];
        void *block = na_work_malloc("growth", size);
        na_bench_touch(block, growth->touch);
        growth->spots[growth->filled] = block;
    }
}

static void growth_churn_phase(void *argument, unsigned worker) {
    growth_t *growth = argument;
    na_prng_t prng = growth->prng;
    (void)worker;
    for (uint64_t i = growth->pairs; i != 0; i--) {
        uint64_t random = na_prng_next(&prng);
        void **spot = &growth->spots[na_prng_scale(random, growth->filled)];
        free(*spot);
        void *block = na_work_malloc("growth", growth->sizes[random % NA_WORK_SIZES]);
        na_bench_touch(block, growth->touch);
        *spot = block;
    }
    growth->prng = prng;
}

/* The same spots and their objects are looked at, and nothing is freed and allocated. */
static void growth_dry_phase(void *argument, unsigned worker) {
    growth_t *growth = argument;
    na_prng_t prng = growth->prng;
    (void)worker;
    for (uint64_t i = growth->pairs; i != 0; i--) {
        uint64_t random = na_prng_next(&prng);
        void *volatile *spot = &growth->spots[na_prng_scale(random, growth->filled)];
        void *block = *spot;
        na_bench_touch(block, growth->touch);
        *spot = block;
    }
    growth->prng = prng;
}

static void growth_clear_phase(void *argument, unsigned worker) {
    growth_t *growth = argument;
    (void)worker;
    while (growth->filled != 0)
        free(growth->spots[--growth->filled]);
}

static void *idle_thread(void *argument) {
    growth_t *growth = argument;
    void *kept[IDLE_OBJECTS_MAX / 2];
    uint64_t count = 0;
    for (uint64_t i = 0; i < growth->idle_objects; i++) {
        void *block = na_work_malloc("growth", growth->sizes[i % NA_WORK_SIZES]);
        na_bench_touch(block, growth->touch);
        if (i % 2 == 0)
            free(block);
        else
            kept[count++] = block;
    }
    pthread_mutex_lock(&growth->mutex);
    growth->resting++;
    pthread_cond_signal(&growth->rested);
    while (!growth->leaving)
        pthread_cond_wait(&growth->leave, &growth->mutex);
    pthread_mutex_unlock(&growth->mutex);
    while (count != 0)
        free(kept[--count]);
    return NULL;
}

/* More idle threads, up to `count`; returns when all of them sleep. */
static void start_idle(growth_t *growth, pthread_t *threads, uint64_t from, uint64_t count) {
    pthread_attr_t attributes;
    pthread_attr_init(&attributes);
    pthread_attr_setstacksize(&attributes, IDLE_STACK);
    for (uint64_t i = from; i < count; i++) {
        int error = pthread_create(&threads[i], &attributes, idle_thread, growth);
        if (error != 0)
            na_bench_fail("growth: cannot start idle thread %" PRIu64 ": %s; lower --idle-threads",
                          i + 1, strerror(error));
    }
    pthread_attr_destroy(&attributes);
    pthread_mutex_lock(&growth->mutex);
    while (growth->resting < count)
        pthread_cond_wait(&growth->rested, &growth->mutex);
    pthread_mutex_unlock(&growth->mutex);
}

static void end_idle(growth_t *growth, const pthread_t *threads, uint64_t count) {
    pthread_mutex_lock(&growth->mutex);
    growth->leaving = true;
    pthread_cond_broadcast(&growth->leave);
    pthread_mutex_unlock(&growth->mutex);
    for (uint64_t i = 0; i < count; i++)
        pthread_join(threads[i], NULL);
}

/* ---- Knobs ------------------------------------------------------------------------------------
 */

/* The numbers of a list that a knob has, which must grow. "none": there are none. */
static bool read_steps(const na_knobs_t *knobs, unsigned knob, uint64_t max, steps_t *steps,
                       char *error, size_t size) {
    const char *text = knobs->value[knob].text;
    steps->count = 0;
    if (strcmp(text, "none") == 0) return true;
    for (const char *at = text;; at++) {
        char word[24];
        uint64_t number = 0;
        size_t length = strcspn(at, ",");
        bool good = length < sizeof word && steps->count < STEPS_MAX;
        if (good) {
            memcpy(word, at, length);
            word[length] = '\0';
            good = na_knobs_number(word, 1, max, &number) &&
                   (steps->count == 0 || number > steps->value[steps->count - 1]);
        }
        if (!good) {
            snprintf(error, size,
                     "--%s takes up to %d growing numbers from 1 to %" PRIu64
                     " with commas between them, or none, not '%.64s'",
                     knobs->table[knob].name, STEPS_MAX, max, text);
            return false;
        }
        steps->value[steps->count++] = number;
        at += length;
        if (*at == '\0') return true;
    }
}

/* first, first * factor, ... up to `most` and `last`: the text of a knob that the user left out. */
static void default_steps(na_knob_value_t *value, char *text, size_t size, uint64_t factor,
                          uint64_t first, uint64_t last, uint64_t most) {
    size_t length = 0;
    for (uint64_t step = first; step <= last && (step <= most || length == 0); step *= factor)
        length += (size_t)snprintf(text + length, size - length, "%s%" PRIu64,
                                   length == 0 ? "" : ",", step);
    value->text = text;
}

static bool growth_settle(na_knobs_t *knobs, char *error, size_t size) {
    static char live_text[64], idle_text[64];
    na_knob_value_t *value = knobs->value;
    steps_t live, idle;
    uint64_t quarter = na_limits_memory() / 4, threads = na_limits_threads();
    if (*value[K_LIVE].text == '\0')
        default_steps(&value[K_LIVE], live_text, sizeof live_text, 8, 1, 4096, quarter / MIB);
    if (*value[K_IDLE_THREADS].text == '\0')
        default_steps(&value[K_IDLE_THREADS], idle_text, sizeof idle_text, 10, 10, 10000,
                      quarter / IDLE_COST < threads / 2 ? quarter / IDLE_COST : threads / 2);
    if (!na_limits_ordered(knobs, K_MIN, K_MAX, error, size) ||
        !read_steps(knobs, K_LIVE, UINT64_C(1) << 24, &live, error, size) ||
        !read_steps(knobs, K_IDLE_THREADS, 1000000, &idle, error, size))
        return false;
    if (live.count == 0 && idle.count == 0) {
        snprintf(error, size, "--live and --idle-threads must not both be none");
        return false;
    }
    if (live.count != 0) {
        double bytes = (double)live.value[live.count - 1] * (double)MIB;
        double spots = bytes / (double)value[K_MIN].number;
        if (spots > (double)UINT32_MAX) {
            snprintf(error, size, "more than 2^32 objects of --min bytes in --live; raise --min");
            return false;
        }
        /* A table for the mean size; with many small ones it may be half as large again. */
        double mean = (double)(value[K_MIN].number + value[K_MAX].number) / 2;
        double table = 1.5 * bytes / mean * (double)sizeof(void *);
        if (!na_limits_fit(1.1 * bytes + table, "--live", error, size)) return false;
    }
    if (idle.count == 0) return true;
    uint64_t most = idle.value[idle.count - 1];
    if (most > threads) {
        snprintf(error, size,
                 "--idle-threads %" PRIu64 " is more than the %" PRIu64
                 " threads that this system allows (threads-max, pid_max, pids.max); lower it",
                 most, threads);
        return false;
    }
    double each = (double)IDLE_COST + (double)value[K_OBJECTS].number * (double)value[K_MAX].number;
    return na_limits_fit((double)most * each, "--idle-threads or --objects", error, size);
}

/* ---- Measuring --------------------------------------------------------------------------------
 */

typedef struct metrics {
    na_metric_t *time, *dry, *resident;
} metrics_t;

static void add_step_metrics(na_result_t *result, const char *step, size_t repetitions,
                             metrics_t *metrics) {
    char name[64];
    metrics->time = na_result_metric(result, step, "ns/pair", NA_LOWER, NA_HEADLINE, repetitions);
    snprintf(name, sizeof name, "%s: resident", step);
    metrics->resident = na_result_metric(result, name, "MiB", NA_LOWER, NA_DETAIL, 1);
    snprintf(name, sizeof name, "%s: loop without malloc and free", step);
    metrics->dry = na_result_metric(result, name, "ns/pair", NA_LOWER, NA_DETAIL, repetitions);
}

static void measure_step(growth_t *growth, na_team_t *team, const na_knob_value_t *value,
                         uint64_t before, const metrics_t *metrics) {
    double pairs = (double)growth->pairs;
    size_t warmup = (size_t)value[K_WARMUP].number;
    size_t repetitions = (size_t)value[K_REPETITIONS].number;
    for (size_t r = 0; r < warmup + repetitions; r++) {
        double elapsed = (double)na_team_run(team, growth_churn_phase, growth);
        if (r >= warmup) na_metric_add(metrics->time, elapsed / pairs);
    }
    uint64_t now = na_memory_read().now;
    na_metric_add(metrics->resident, now > before ? (double)(now - before) / 0x1p20 : 0);
    for (size_t r = 0; r < repetitions; r++)
        na_metric_add(metrics->dry, (double)na_team_run(team, growth_dry_phase, growth) / pairs);
}

/* How much dearer the last step is than the first, repetition by repetition. */
static void add_growth(na_result_t *result, const char *name, na_metric_t *const *times,
                       size_t count) {
    if (count < 2) return;
    const na_metric_t *first = times[0], *last = times[count - 1];
    na_metric_t *growth = na_result_metric(result, name, "x", NA_LOWER, NA_HEADLINE, first->count);
    for (size_t r = 0; r < first->count; r++)
        na_metric_add(growth, last->samples[r] / first->samples[r]);
}

static void growth_run(const na_knobs_t *knobs, na_result_t *result) {
    const na_knob_value_t *value = knobs->value;
    const na_sizes_t sizes = NA_WORK_SIZES_OF(value);
    size_t repetitions = (size_t)value[K_REPETITIONS].number;
    growth_t *growth = na_bench_map(sizeof *growth);
    na_metric_t *times[2 * STEPS_MAX], **live_times;
    steps_t live, idle;
    char name[48], error[256];
    /* They were read before, and were good. */
    if (!read_steps(knobs, K_LIVE, UINT64_MAX, &live, error, sizeof error) ||
        !read_steps(knobs, K_IDLE_THREADS, UINT64_MAX, &idle, error, sizeof error))
        na_bench_fail("growth: %s", error);

    growth->pairs = value[K_PAIRS].number;
    growth->idle_objects = value[K_OBJECTS].number;
    growth->touch = value[K_TOUCH].number != 0;
    growth->prng = na_prng_make(value[K_SEED].number, 1);
    na_sizes_fill(&sizes, &growth->prng, growth->sizes, NA_WORK_SIZES);
    for (size_t i = 0; i < NA_WORK_SIZES; i++)
        growth->mean_times += growth->sizes[i];
    pthread_mutex_init(&growth->mutex, NULL);
    pthread_cond_init(&growth->rested, NULL);
    pthread_cond_init(&growth->leave, NULL);
    uint64_t most = spots_of(growth, IDLE_LIVE);
    if (live.count != 0 && spots_of(growth, live.value[live.count - 1] * MIB) > most)
        most = spots_of(growth, live.value[live.count - 1] * MIB);
    growth->spots = na_bench_map(most * sizeof(void *));
    na_team_t *team = na_team_start(1, (na_pin_t)value[K_PIN].number);
    size_t total = idle.count + live.count;

    if (idle.count != 0) {
        pthread_t *threads = na_bench_map(idle.value[idle.count - 1] * sizeof(pthread_t));
        growth->wanted = spots_of(growth, IDLE_LIVE);
        na_team_run(team, growth_fill_phase, growth);
        uint64_t before = na_memory_read().now;
        for (size_t s = 0; s < idle.count; s++) {
            metrics_t metrics;
            na_bench_progress("growth: step", s, total);
            start_idle(growth, threads, s == 0 ? 0 : idle.value[s - 1], idle.value[s]);
            snprintf(name, sizeof name, "%" PRIu64 " idle threads", idle.value[s]);
            add_step_metrics(result, name, repetitions, &metrics);
            measure_step(growth, team, value, before, &metrics);
            times[s] = metrics.time;
        }
        end_idle(growth, threads, idle.value[idle.count - 1]);
        na_team_run(team, growth_clear_phase, growth);
    }
    live_times = times + idle.count;
    uint64_t before = na_memory_read().now;
    for (size_t s = 0; s < live.count; s++) {
        metrics_t metrics;
        na_bench_progress("growth: step", idle.count + s, total);
        growth->wanted = spots_of(growth, live.value[s] * MIB);
        na_team_run(team, growth_fill_phase, growth);
        snprintf(name, sizeof name, "%" PRIu64 " MiB live", live.value[s]);
        add_step_metrics(result, name, repetitions, &metrics);
        measure_step(growth, team, value, before, &metrics);
        live_times[s] = metrics.time;
    }
    na_bench_progress("growth: step", 1, 1);
    na_team_run(team, growth_clear_phase, growth);
    na_team_stop(team);
    add_growth(result, "growth with idle threads", times, idle.count);
    add_growth(result, "growth with live bytes", live_times, live.count);
    na_result_mean(result, "growth", times, total);
}

static const char *const brief[] = {"--live=1,16,128", "--idle-threads=10,1000", NULL};

/** A pair of free and malloc at a random spot, with more and more idle threads, then with more and
 *  more live bytes. *Geometric mean of all steps*; the last step divided by the first, 1 being
 *  flat. `compare` takes `--live=1,16,128 --idle-threads=10,1000`. */
const na_bench_t na_bench_growth = {
    .name = "growth",
    .summary = "one malloc and free as the heap grows, and as idle threads become many",
    .knobs = knobs_table,
    .knob_count = K_COUNT,
    .memory = true,
    .headline = "growth",
    .work = "pairs",
    .brief = brief,
    .suite = (const char *const[]){"--repetitions=3", "--warmup=1", NULL},
    .settle = growth_settle,
    .run = growth_run,
};
