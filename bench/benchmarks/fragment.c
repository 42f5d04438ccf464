/* fragment.c - the fragment benchmark: phases of sizes that shift, and survivors that stay.
 *
 * The range from min to max is cut into P bands of equal ratio. Each of K threads, P times:
 *
 *   fill     allocates objects of the phase's band until L / K bytes are live in this phase
 *   churn    C times for every object: frees a random one, allocates a new one of the band
 *   drop     frees all but every S-th object, in random order; the rest survives to the end
 *
 * So an allocator finds its pages strewn with a few survivors of a size that nobody asks for any
 * more. The resident memory is held against the live bytes when a phase is full, when it has been
 * dropped, and after a quiet time at the end, in which an allocator may give back what it kept.
 * Live bytes are those asked for; resident memory is what the process has above what it had before
 * its first object. All bytes of an object's pages are touched when it is allocated.
 *
 * A repetition ends with the freeing of the survivors. The quiet time comes in the last repetition
 * only, before that: its figure is a single one in each run. */
#include "bench/load/sizes.h"
#include "bench/load/team.h"
#include "bench/measure/rates.h"
#include "bench/suite/limits.h"
#include "bench/suite/work.h"
#include "bench/system/process.h"

#include <errno.h>
#include <math.h>
#include <time.h>

enum {
    K_THREADS,
    K_PHASES,
    K_LIVE,
    K_CHURN,
    K_SURVIVORS,
    K_QUIET,
    K_MIN,
    K_MAX,
    K_SEED,
    K_PIN,
    K_WARMUP,
    K_REPETITIONS,
    K_COUNT,
};

#define PHASES_MAX 16

static const na_knob_t knobs_table[K_COUNT] = {
    [K_THREADS] = NA_KNOB_THREADS,
    [K_PHASES] = {"phases", "phases", NA_KNOB_NUMBER, 6, 1, PHASES_MAX, NULL,
                  "phases, and bands of sizes"},
    [K_LIVE] = {"live", "KiB", NA_KNOB_NUMBER, 8192, 1, UINT64_C(1) << 30, NULL,
                "bytes that all threads together have live when a phase is full, survivors of "
                "earlier phases not counted"},
    [K_CHURN] = {"churn", "times", NA_KNOB_NUMBER, 1, 0, 1000, NULL,
                 "times that each object of a phase is replaced, on average"},
    [K_SURVIVORS] = {"survivors", "objects", NA_KNOB_NUMBER, 50, 1, 1000000, NULL,
                     "one in so many objects of a phase lives to the end"},
    [K_QUIET] = {"quiet", "ms", NA_KNOB_NUMBER, 1000, 0, 600000, NULL,
                 "quiet time after the last phase of the last repetition"},
    [K_MIN] = NA_KNOB_MIN(32),
    [K_MAX] = NA_KNOB_MAX(65536),
    [K_SEED] = NA_KNOB_SEED,
    [K_PIN] = NA_KNOB_PIN,
    [K_WARMUP] = NA_KNOB_WARMUP(0),
    [K_REPETITIONS] = NA_KNOB_REPETITIONS(5),
};

/* Packed: the suite's tables are part of the process's memory, and there are many objects. */
typedef struct object {
    void *block;
    uint32_t size;
} __attribute__((packed, aligned(4))) object_t;

typedef struct holder {
    na_prng_t prng;
    object_t *object;   /* of the present phase */
    object_t *survivor; /* of all phases of this repetition */
    uint64_t objects, survivors;
    uint64_t live;  /* bytes of both */
    uint64_t calls; /* allocations in the phase, its survivors included */
} __attribute__((aligned(64))) holder_t;

typedef struct fragment {
    holder_t *holder;
    na_sizes_t band; /* of the present phase */
    uint64_t quota;  /* bytes of each thread when the phase is full */
    uint64_t churn, survivors;
    unsigned threads;
} fragment_t;

static void allocate_object(const fragment_t *fragment, holder_t *self, object_t *object) {
    object->size = (uint32_t)na_sizes_draw(&fragment->band, &self->prng);
    object->block = na_work_malloc("fragment", object->size);
    na_work_touch_pages(object->block, 0, object->size);
    self->live += object->size;
    self->calls++;
}

static void release(holder_t *self, const object_t *object) {
    free(object->block);
    self->live -= object->size;
}

static void fragment_fill_phase(void *argument, unsigned worker) {
    const fragment_t *fragment = argument;
    holder_t *self = &fragment->holder[worker];
    uint64_t until = self->live + fragment->quota;
    self->objects = 0;
    self->calls = 0;
    do
        allocate_object(fragment, self, &self->object[self->objects++]);
    while (self->live < until);
    for (uint64_t i = fragment->churn * self->objects; i != 0; i--) {
        object_t *object = &self->object[na_prng_scale(na_prng_next(&self->prng), self->objects)];
        release(self, object);
        allocate_object(fragment, self, object);
    }
}

static void drop_phase(void *argument, unsigned worker) {
    const fragment_t *fragment = argument;
    holder_t *self = &fragment->holder[worker];
    /* Survivors lie wherever the churn has put them: the first of the table after a shuffle. */
    for (uint64_t i = self->objects - 1; i > 0; i--) {
        uint64_t other = na_prng_scale(na_prng_next(&self->prng), i + 1);
        object_t object = self->object[i];
        self->object[i] = self->object[other];
        self->object[other] = object;
    }
    uint64_t kept = self->objects / fragment->survivors;
    for (uint64_t i = 0; i < self->objects; i++) {
        if (i < kept)
            self->survivor[self->survivors++] = self->object[i];
        else
            release(self, &self->object[i]);
    }
}

static void fragment_clear_phase(void *argument, unsigned worker) {
    const fragment_t *fragment = argument;
    holder_t *self = &fragment->holder[worker];
    for (uint64_t i = 0; i < self->survivors; i++)
        release(self, &self->survivor[i]);
    self->survivors = 0;
}

/* Where band `number` of `count` begins: min * (max / min)^(number / count). */
static uint64_t band_edge(uint64_t min, uint64_t max, uint64_t number, uint64_t count) {
    double share = (double)number / (double)count;
    return (uint64_t)llround((double)min * pow((double)max / (double)min, share));
}

static na_sizes_t band_of(const na_knob_value_t *value, uint64_t phase) {
    uint64_t min = value[K_MIN].number, max = value[K_MAX].number, count = value[K_PHASES].number;
    uint64_t low = band_edge(min, max, phase, count), high = band_edge(min, max, phase + 1, count);
    /* Edges belong to the band above, and max to the last one. */
    if (phase + 1 < count && high > low) high--;
    return (na_sizes_t){NA_DISTRIBUTION_UNIFORM, low, high, 1};
}

/* The most objects that a thread can have when a phase is full. */
static uint64_t objects_bound(uint64_t quota, uint64_t smallest) {
    return quota / smallest + 1;
}

static uint64_t quota_of(const na_knob_value_t *value) {
    uint64_t quota = value[K_LIVE].number * 1024 / value[K_THREADS].number;
    return quota == 0 ? 1 : quota;
}

static bool fragment_settle(na_knobs_t *knobs, char *error, size_t size) {
    na_knob_value_t *value = knobs->value;
    value[K_THREADS].number = na_team_threads(value[K_THREADS].number);
    if (!na_limits_ordered(knobs, K_MIN, K_MAX, error, size)) return false;
    double live = (double)value[K_LIVE].number * 1024, table = 0, threads;
    threads = (double)value[K_THREADS].number;
    for (uint64_t p = 0; p < value[K_PHASES].number; p++)
        table += live / (double)band_of(value, p).min / (double)value[K_SURVIVORS].number + threads;
    table += live / (double)value[K_MIN].number + threads;
    double kept = live * (double)value[K_PHASES].number / (double)value[K_SURVIVORS].number;
    double last = threads * (double)value[K_MAX].number; /* what goes beyond the quotas */
    return na_limits_fit(live + kept + last + table * (double)sizeof(object_t),
                         "--live or --threads, or have fewer survivors (a higher --survivors)",
                         error, size);
}

typedef struct metrics {
    na_rates_t rates;
    na_metric_t *time, *full, *left, *quiet;
    na_metric_t *phase_full[PHASES_MAX], *phase_left[PHASES_MAX], *phase_live[PHASES_MAX];
    na_metric_t *quiet_resident, *quiet_live;
} metrics_t;

static void add_fragment_metrics(na_result_t *result, unsigned threads, uint64_t phases,
                                 size_t repetitions, metrics_t *metrics) {
    char name[64];
    metrics->time =
        na_result_metric(result, "fragment", "ns/obj", NA_LOWER, NA_HEADLINE, repetitions);
    metrics->full = na_result_metric(result, "full, resident over live", "x", NA_LOWER, NA_HEADLINE,
                                     repetitions);
    metrics->left = na_result_metric(result, "dropped, resident over live", "x", NA_LOWER,
                                     NA_HEADLINE, repetitions);
    metrics->quiet =
        na_result_metric(result, "quiet, resident over live", "x", NA_LOWER, NA_HEADLINE, 1);
    metrics->rates = na_rates_make(result, threads, repetitions, "Mobj/s");
    for (uint64_t p = 0; p < phases; p++) {
        snprintf(name, sizeof name, "phase %u full: resident", (unsigned)p + 1);
        metrics->phase_full[p] =
            na_result_metric(result, name, "MiB", NA_LOWER, NA_DETAIL, repetitions);
        snprintf(name, sizeof name, "phase %u dropped: resident", (unsigned)p + 1);
        metrics->phase_left[p] =
            na_result_metric(result, name, "MiB", NA_LOWER, NA_DETAIL, repetitions);
        snprintf(name, sizeof name, "phase %u dropped: live", (unsigned)p + 1);
        metrics->phase_live[p] =
            na_result_metric(result, name, "MiB", NA_LOWER, NA_DETAIL, repetitions);
    }
    metrics->quiet_resident =
        na_result_metric(result, "quiet: resident", "MiB", NA_LOWER, NA_DETAIL, 1);
    metrics->quiet_live = na_result_metric(result, "quiet: live", "MiB", NA_LOWER, NA_DETAIL, 1);
}

static double live_mib(const fragment_t *fragment) {
    uint64_t live = 0;
    for (unsigned i = 0; i < fragment->threads; i++)
        live += fragment->holder[i].live;
    return (double)live / 0x1p20;
}

static double resident_mib(uint64_t before) {
    uint64_t now = na_memory_read().now;
    return now > before ? (double)(now - before) / 0x1p20 : 0;
}

static void sleep_between(uint64_t ms) {
    struct timespec rest = {(time_t)(ms / 1000), (long)(ms % 1000) * 1000000};
    while (nanosleep(&rest, &rest) != 0 && errno == EINTR)
        ;
}

/* Ratios are of what is asked for; no survivors at all (few objects) leave no ratio to tell. */
static void add_ratio(na_metric_t *metric, double resident, double live) {
    if (live > 0) na_metric_add(metric, resident / live);
}

static void fragment_repetition(fragment_t *fragment, na_team_t *team, const na_knob_value_t *value,
                                uint64_t before, metrics_t *metrics, bool last) {
    uint64_t phases = value[K_PHASES].number;
    double resident = 0, live = 0, time = 0, sum = 0, full = 0; /* full: sum of logarithms */
    double own[1024] = {0}, calls[1024] = {0};
    for (uint64_t p = 0; p < phases; p++) {
        fragment->band = band_of(value, p);
        double elapsed = (double)na_team_run(team, fragment_fill_phase, fragment);
        for (unsigned i = 0; i < fragment->threads; i++)
            own[i] += (double)na_team_elapsed(team, i);
        resident = resident_mib(before);
        live = live_mib(fragment);
        if (metrics != NULL) {
            na_metric_add(metrics->phase_full[p], resident);
            full += log(resident / live);
        }
        elapsed += (double)na_team_run(team, drop_phase, fragment);
        for (unsigned i = 0; i < fragment->threads; i++) {
            own[i] += (double)na_team_elapsed(team, i);
            calls[i] += (double)fragment->holder[i].calls;
        }
        time += elapsed;
        resident = resident_mib(before);
        live = live_mib(fragment);
        if (metrics == NULL) continue;
        na_metric_add(metrics->phase_left[p], resident);
        na_metric_add(metrics->phase_live[p], live);
    }
    if (metrics != NULL) {
        double own_sum = 0, low = 0, high = 0;
        for (unsigned i = 0; i < fragment->threads; i++) {
            double rate = 1e3 * calls[i] / own[i];
            na_metric_add(metrics->rates.each, rate);
            low = i == 0 || rate < low ? rate : low;
            high = rate > high ? rate : high;
            sum += calls[i];
            own_sum += own[i];
        }
        na_metric_add(metrics->time, na_team_time(fragment->threads, own_sum, time) / sum);
        na_metric_add(metrics->rates.all, 1e3 * sum / time);
        na_metric_add(metrics->rates.time, time / 1e6);
        na_metric_add(metrics->rates.slowest, low);
        na_metric_add(metrics->rates.fastest, high);
        na_metric_add(metrics->full, exp(full / (double)phases));
        add_ratio(metrics->left, resident, live);
        if (last) {
            sleep_between(value[K_QUIET].number);
            resident = resident_mib(before);
            na_metric_add(metrics->quiet_resident, resident);
            na_metric_add(metrics->quiet_live, live);
            add_ratio(metrics->quiet, resident, live);
        }
    }
    na_team_run(team, fragment_clear_phase, fragment);
}

static void fragment_run(const na_knobs_t *knobs, na_result_t *result) {
    const na_knob_value_t *value = knobs->value;
    size_t warmup = (size_t)value[K_WARMUP].number;
    size_t repetitions = (size_t)value[K_REPETITIONS].number;
    fragment_t fragment = {.quota = quota_of(value),
                           .churn = value[K_CHURN].number,
                           .survivors = value[K_SURVIVORS].number,
                           .threads = (unsigned)value[K_THREADS].number};
    uint64_t objects = objects_bound(fragment.quota, value[K_MIN].number), survivors = 0;
    for (uint64_t p = 0; p < value[K_PHASES].number; p++)
        survivors += objects_bound(fragment.quota, band_of(value, p).min) / fragment.survivors + 1;
    fragment.holder = na_bench_map(fragment.threads * sizeof(holder_t));
    for (unsigned i = 0; i < fragment.threads; i++) {
        holder_t *holder = &fragment.holder[i];
        holder->object = na_bench_map(objects * sizeof(object_t));
        holder->survivor = na_bench_map(survivors * sizeof(object_t));
    }
    metrics_t metrics;
    add_fragment_metrics(result, fragment.threads, value[K_PHASES].number, repetitions, &metrics);
    na_team_t *team = na_team_start(fragment.threads, (na_pin_t)value[K_PIN].number);
    uint64_t before = na_memory_read().now;
    for (size_t r = 0; r < warmup + repetitions; r++) {
        na_bench_progress("fragment: repetition", r, warmup + repetitions);
        for (unsigned i = 0; i < fragment.threads; i++) /* the same objects in each repetition */
            fragment.holder[i].prng = na_prng_make(value[K_SEED].number, 1 + i);
        fragment_repetition(&fragment, team, value, before, r < warmup ? NULL : &metrics,
                            r + 1 == warmup + repetitions);
    }
    na_bench_progress("fragment: repetition", 1, 1);
    na_team_stop(team);
}

/** Phases of different sizes: fill, replace at random, free all but one in S. Later phases ask for
 *  sizes that the pages strewn with survivors do not have. *Time per object, first touch
 *  included*; resident over live when a phase is full, when the last one is dropped, and after a
 *  quiet second without calls, which tells who gives memory back unasked. From the second
 *  repetition on, what the earlier ones left behind counts, too. */
const na_bench_t na_bench_fragment = {
    .name = "fragment",
    .summary = "phases of shifting sizes with survivors: resident against live memory",
    .knobs = knobs_table,
    .knob_count = K_COUNT,
    .memory = true,
    .suite = (const char *const[]){"--repetitions=1", "--warmup=0", NULL},
    .settle = fragment_settle,
    .run = fragment_run,
};
