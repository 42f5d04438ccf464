/* latency.c - the latency benchmark: how long single calls take under churn.
 *
 *   each of K threads    N times: pick a random spot of its own, free its object, allocate a new
 *                        one; every free and every malloc is timed by itself
 *
 * Reported are the median, the 99th and 99.9th percentile and the maximum of all threads' calls in
 * a repetition, over the repetitions. A mean hides what these show: the one call in a thousand that
 * refills a cache, takes a lock or asks the kernel for memory.
 *
 * The timer is the processor's own counter, fenced on both sides so that the call cannot leak out.
 * What two readings take with nothing between them (the median of many, by each thread on its own
 * CPU) is subtracted from each duration; a call that hides in the shadow of the timer counts as 0.
 * The machine itself disturbs, too: the same loop with nothing between the readings is run and
 * reported (details: "nothing"); a maximum or percentile of the allocator that is not above that of
 * nothing says something of the machine only. */
#include "bench/load/sizes.h"
#include "bench/load/team.h"
#include "bench/measure/histogram.h"
#include "bench/measure/rates.h"
#include "bench/suite/limits.h"
#include "bench/suite/work.h"

#include <string.h>
#if defined(__x86_64__)
#include <x86intrin.h>
#endif

enum {
    K_THREADS,
    K_SPOTS,
    K_OBJECTS,
    NA_WORK_KNOBS,
    K_COUNT,
};

static const na_knob_t knobs_table[K_COUNT] = {
    [K_THREADS] = NA_KNOB_THREADS,
    [K_SPOTS] = {"spots", "spots", NA_KNOB_NUMBER, 10000, 1, UINT64_C(1) << 28, NULL,
                 "spots of each thread"},
    [K_OBJECTS] = {"objects", "objects", NA_KNOB_NUMBER, 200000, 1, UINT64_C(1) << 31, NULL,
                   "objects that each thread frees and allocates in one repetition"},
    NA_WORK_KNOB_ROWS(16, 512, 16, 2, 9),
};

enum { MALLOC, FREE, NOTHING, TIMED };

static const char *const timed_names[TIMED] = {"malloc", "free", "nothing"};

typedef struct caller {
    na_prng_t prng;
    void **spots;
    uint64_t timer; /* ticks of the timer itself */
    uint32_t sizes[NA_WORK_SIZES];
    na_histogram_t histogram[TIMED]; /* ticks */
} __attribute__((aligned(64))) caller_t;

typedef struct latency {
    caller_t *caller;
    uint64_t spots, objects;
    bool touch;
} latency_t;

/* Ticks, read after all that comes before and before all that comes after. */
static inline uint64_t ticks(void) {
#if defined(__x86_64__)
    _mm_lfence();
    uint64_t now = __rdtsc();
    _mm_lfence();
    return now;
#elif defined(__aarch64__)
    uint64_t now;
    __asm__ volatile("isb\n\tmrs %0, cntvct_el0\n\tisb" : "=r"(now) : : "memory");
    return now;
#else
    return na_bench_now();
#endif
}

static inline uint64_t without(uint64_t duration, uint64_t timer) {
    return duration > timer ? duration - timer : 0;
}

static double ticks_of_nanosecond(void) {
    uint64_t begin = na_bench_now(), from = ticks(), now;
    do
        now = na_bench_now();
    while (now - begin < 20000000);
    uint64_t passed = ticks() - from;
    return (double)(passed == 0 ? 1 : passed) / (double)(now - begin);
}

static void calibrate_phase(void *argument, unsigned worker) {
    caller_t *self = &((const latency_t *)argument)->caller[worker];
    na_histogram_t *histogram = &self->histogram[NOTHING];
    memset(histogram, 0, sizeof *histogram);
    for (unsigned i = 0; i < 20000; i++) {
        uint64_t begin = ticks();
        na_histogram_add(histogram, ticks() - begin);
    }
    self->timer = (uint64_t)na_histogram_quantile(histogram, 0.5);
}

static void latency_churn_phase(void *argument, unsigned worker) {
    const latency_t *latency = argument;
    caller_t *self = &latency->caller[worker];
    na_prng_t prng = self->prng;
    uint64_t timer = self->timer;
    memset(self->histogram, 0, sizeof self->histogram);
    for (uint64_t i = latency->objects; i != 0; i--) {
        uint64_t random = na_prng_next(&prng);
        void **spot = &self->spots[na_prng_scale(random, latency->spots)];
        size_t size = self->sizes[random % NA_WORK_SIZES];
        void *block = *spot;
        uint64_t begin = ticks();
        free(block);
        uint64_t freed = ticks();
        uint64_t again = ticks();
        block = malloc(size);
        uint64_t end = ticks();
        if (block == NULL) na_work_no_memory("latency", "malloc", size);
        na_bench_touch(block, latency->touch);
        *spot = block;
        na_histogram_add(&self->histogram[FREE], without(freed - begin, timer));
        na_histogram_add(&self->histogram[MALLOC], without(end - again, timer));
    }
    self->prng = prng;
}

/* The same loop on the same spots, without the calls; one pair of readings for each object. */
static void nothing_phase(void *argument, unsigned worker) {
    const latency_t *latency = argument;
    caller_t *self = &latency->caller[worker];
    na_prng_t prng = self->prng;
    memset(&self->histogram[NOTHING], 0, sizeof self->histogram[NOTHING]);
    for (uint64_t i = latency->objects; i != 0; i--) {
        void *volatile *spot = &self->spots[na_prng_scale(na_prng_next(&prng), latency->spots)];
        void *block = *spot;
        uint64_t begin = ticks();
        na_bench_use(block);
        uint64_t end = ticks();
        *spot = block;
        na_histogram_add(&self->histogram[NOTHING], without(end - begin, self->timer));
    }
}

static bool latency_settle(na_knobs_t *knobs, char *error, size_t size) {
    na_knob_value_t *value = knobs->value;
    value[K_THREADS].number = na_team_threads(value[K_THREADS].number);
    if (!na_limits_ordered(knobs, K_MIN, K_MAX, error, size)) return false;
    return na_limits_fit((double)value[K_THREADS].number * (double)value[K_SPOTS].number *
                             (double)(value[K_MAX].number + sizeof(void *)),
                         "--threads, --spots or --max", error, size);
}

typedef struct metrics {
    na_metric_t *p50[TIMED], *p99[TIMED], *p999[TIMED], *max[TIMED], *timer;
    na_rates_t rates;
} metrics_t;

static na_metric_t *add_metric(na_result_t *result, unsigned timed, const char *what,
                               size_t repetitions) {
    char name[64];
    snprintf(name, sizeof name, "%s %s", timed_names[timed], what);
    return na_result_metric(result, name, "ns", NA_LOWER,
                            timed == NOTHING ? NA_DETAIL : NA_HEADLINE, repetitions);
}

static void add_latency_samples(const latency_t *latency, unsigned threads, unsigned timed,
                                double tick, na_histogram_t *sum, const metrics_t *metrics) {
    memset(sum, 0, sizeof *sum);
    for (unsigned i = 0; i < threads; i++)
        na_histogram_merge(sum, &latency->caller[i].histogram[timed]);
    na_metric_add(metrics->p50[timed], na_histogram_quantile(sum, 0.5) / tick);
    na_metric_add(metrics->p99[timed], na_histogram_quantile(sum, 0.99) / tick);
    na_metric_add(metrics->p999[timed], na_histogram_quantile(sum, 0.999) / tick);
    na_metric_add(metrics->max[timed], (double)sum->max / tick);
}

static void latency_run(const na_knobs_t *knobs, na_result_t *result) {
    const na_knob_value_t *value = knobs->value;
    const na_sizes_t sizes = NA_WORK_SIZES_OF(value);
    unsigned threads = (unsigned)value[K_THREADS].number;
    size_t warmup = (size_t)value[K_WARMUP].number;
    size_t repetitions = (size_t)value[K_REPETITIONS].number;
    latency_t latency = {na_bench_map(threads * sizeof(caller_t)), value[K_SPOTS].number,
                         value[K_OBJECTS].number, value[K_TOUCH].number != 0};
    na_histogram_t *sum = na_bench_map(sizeof *sum);
    metrics_t metrics;
    for (unsigned timed = 0; timed < TIMED; timed++) {
        metrics.p50[timed] = add_metric(result, timed, "p50", repetitions);
        metrics.p99[timed] = add_metric(result, timed, "p99", repetitions);
        metrics.p999[timed] = add_metric(result, timed, "p99.9", repetitions);
        metrics.max[timed] = add_metric(result, timed, "max", repetitions);
    }
    metrics.timer =
        na_result_metric(result, "timer, subtracted", "ns", NA_LOWER, NA_DETAIL, threads);
    metrics.rates = na_rates_make(result, threads, repetitions, "Mobj/s");

    na_prng_t filler = na_prng_make(value[K_SEED].number, 0);
    for (unsigned i = 0; i < threads; i++) {
        caller_t *caller = &latency.caller[i];
        caller->prng = na_prng_make(value[K_SEED].number, 1 + i);
        caller->spots = na_bench_map(latency.spots * sizeof(void *));
        na_sizes_fill(&sizes, &caller->prng, caller->sizes, NA_WORK_SIZES);
        for (uint64_t s = 0; s < latency.spots; s++) {
            caller->spots[s] = na_work_malloc("latency", na_sizes_draw(&sizes, &filler));
            na_bench_touch(caller->spots[s], latency.touch);
        }
    }
    double tick = ticks_of_nanosecond();
    na_team_t *team = na_team_start(threads, (na_pin_t)value[K_PIN].number);
    na_team_run(team, calibrate_phase, &latency);
    for (unsigned i = 0; i < threads; i++)
        na_metric_add(metrics.timer, (double)latency.caller[i].timer / tick);
    for (size_t r = 0; r < warmup + repetitions; r++) {
        na_bench_progress("latency: repetition", r, warmup + repetitions);
        uint64_t elapsed = na_team_run(team, latency_churn_phase, &latency);
        if (r < warmup) continue;
        na_rates_add(&metrics.rates, team, elapsed, (double)latency.objects);
        na_team_run(team, nothing_phase, &latency);
        for (unsigned timed = 0; timed < TIMED; timed++)
            add_latency_samples(&latency, threads, timed, tick, sum, &metrics);
    }
    na_bench_progress("latency: repetition", 1, 1);
    na_team_stop(team);
    na_result_mean(result, "latency p99.9",
                   (na_metric_t *[]){metrics.p999[MALLOC], metrics.p999[FREE]}, 2);
    for (unsigned i = 0; i < threads; i++)
        for (uint64_t s = 0; s < latency.spots; s++)
            free(latency.caller[i].spots[s]);
}

/** churn with every call timed by itself. *Geometric mean of p99.9 of malloc and of free.* The
 *  timer's own time is subtracted; percentiles are right within 0.8 %. The details have the same
 *  figures of an empty loop: what is not above that is the machine's. */
const na_bench_t na_bench_latency = {
    .name = "latency",
    .summary = "how long single calls of malloc and free take under churn",
    .knobs = knobs_table,
    .knob_count = K_COUNT,
    .memory = true,
    .headline = "latency p99.9", /* a median can be 0: below what the timer resolves */
    .work = "objects",
    .suite = (const char *const[]){"--repetitions=2", "--warmup=1", NULL},
    .settle = latency_settle,
    .run = latency_run,
};
