/* churn.c - the churn benchmark: free the object at a random spot, put a new one there.
 *
 *   main thread          fills M spots for each of K threads
 *   each of K threads    N times: pick a random spot, free its object, allocate a new one for it
 *
 * Only malloc and free are used. The main thread allocates the first objects, so the first churn of
 * a spot frees another thread's block; the warm-up takes most of these.
 *
 * With --shared all threads churn one array of M spots; nearly every free (K-1 of K) is then of
 * another thread's block. Two threads may want the same spot, so the object is taken out of it
 * atomically, and the new one put in; of two that were put in, the first is freed by who puts the
 * second.
 *
 * The random spot and the size come from one draw within the loop (sizes from a table of 4096 that
 * was drawn beforehand: 16 KiB of the cache). What the loop costs by itself is measured the same
 * way, without malloc and free, and reported as a detail; it is not subtracted. */
#include "bench/load/sizes.h"
#include "bench/load/team.h"
#include "bench/suite/limits.h"
#include "bench/suite/work.h"

enum {
    K_THREADS,
    K_SPOTS,
    K_SHARED,
    K_OBJECTS,
    NA_WORK_KNOBS,
    K_COUNT,
};

static const na_knob_t knobs_table[K_COUNT] = {
    [K_THREADS] = NA_KNOB_THREADS,
    [K_SPOTS] = {"spots", "spots", NA_KNOB_NUMBER, 10000, 1, UINT64_C(1) << 28, NULL,
                 "spots of each thread, or of all threads together with --shared"},
    [K_SHARED] = {"shared", "", NA_KNOB_FLAG, 0, 0, 0, NULL,
                  "all threads churn the same spots (atomic exchange)"},
    [K_OBJECTS] = {"objects", "objects", NA_KNOB_NUMBER, 1000000, 1, UINT64_C(1) << 40, NULL,
                   "objects that each thread frees and allocates in one repetition"},
    NA_WORK_KNOB_ROWS(16, 512, 16, 1, 11),
};

typedef struct churner {
    na_prng_t prng;
    void **spots; /* its own, or everybody's */
    uint32_t sizes[NA_WORK_SIZES];
} __attribute__((aligned(64))) churner_t;

typedef struct churn {
    churner_t *churner;
    uint64_t spots, objects;
    bool shared, touch;
} churn_t;

/* The flags are constants at each of the call sites below, so that the loop has no test of them. */
static inline __attribute__((always_inline)) void churn_loop(const churn_t *churn, churner_t *self,
                                                             bool shared, bool touch) {
    na_prng_t prng = self->prng;
    void **spots = self->spots;
    uint64_t count = churn->spots;
    for (uint64_t i = churn->objects; i != 0; i--) {
        uint64_t random = na_prng_next(&prng);
        void **spot = &spots[na_prng_scale(random, count)];
        size_t size = self->sizes[random % NA_WORK_SIZES];
        if (shared) {
            free(__atomic_exchange_n(spot, NULL, __ATOMIC_ACQ_REL));
            void *block = na_work_malloc("churn", size);
            na_bench_touch(block, touch);
            void *other = __atomic_exchange_n(spot, block, __ATOMIC_ACQ_REL);
            if (other != NULL) free(other);
        } else {
            free(*spot);
            void *block = na_work_malloc("churn", size);
            na_bench_touch(block, touch);
            *spot = block;
        }
    }
    self->prng = prng;
}

static void timed_churn_phase(void *argument, unsigned worker) {
    const churn_t *churn = argument;
    churner_t *self = &churn->churner[worker];
    if (churn->shared && churn->touch)
        churn_loop(churn, self, true, true);
    else if (churn->shared)
        churn_loop(churn, self, true, false);
    else if (churn->touch)
        churn_loop(churn, self, false, true);
    else
        churn_loop(churn, self, false, false);
}

/* The same loop on the same spots with the allocator left out: the blocks change places with
 * themselves, and the size is only looked at. */
static void timed_dry_phase(void *argument, unsigned worker) {
    const churn_t *churn = argument;
    churner_t *self = &churn->churner[worker];
    na_prng_t prng = self->prng;
    for (uint64_t i = churn->objects; i != 0; i--) {
        uint64_t random = na_prng_next(&prng);
        void *volatile *spot = &self->spots[na_prng_scale(random, churn->spots)];
        size_t size = self->sizes[random % NA_WORK_SIZES];
        __asm__ volatile("" : : "r"(size));
        if (churn->shared) {
            na_bench_use(*spot);
        } else {
            void *block = *spot;
            na_bench_use(block);
            *spot = block;
        }
    }
}

static bool churn_settle(na_knobs_t *knobs, char *error, size_t size) {
    const na_knob_value_t *value = knobs->value;
    knobs->value[K_THREADS].number = na_team_threads(value[K_THREADS].number);
    if (!na_limits_ordered(knobs, K_MIN, K_MAX, error, size)) return false;
    double mean = (double)(value[K_MIN].number + value[K_MAX].number) / 2;
    double arrays = value[K_SHARED].number != 0 ? 1 : (double)value[K_THREADS].number;
    double objects = arrays * (double)value[K_SPOTS].number;
    return na_limits_fit(objects * (mean + sizeof(void *) + 16), "--spots, --max or --threads",
                         error, size);
}

static void churn_run(const na_knobs_t *knobs, na_result_t *result) {
    const na_knob_value_t *value = knobs->value;
    const na_sizes_t sizes = NA_WORK_SIZES_OF(value);
    unsigned threads = (unsigned)value[K_THREADS].number;
    size_t warmup = (size_t)value[K_WARMUP].number;
    size_t repetitions = (size_t)value[K_REPETITIONS].number;
    churn_t churn = {na_bench_map(threads * sizeof(churner_t)), value[K_SPOTS].number,
                     value[K_OBJECTS].number, value[K_SHARED].number != 0,
                     value[K_TOUCH].number != 0};
    size_t arrays = churn.shared ? 1 : threads;
    void **spots = na_bench_map(arrays * churn.spots * sizeof(void *));
    na_prng_t filler = na_prng_make(value[K_SEED].number, 0);

    for (unsigned i = 0; i < threads; i++) {
        churner_t *churner = &churn.churner[i];
        churner->prng = na_prng_make(value[K_SEED].number, 1 + i);
        churner->spots = spots + (churn.shared ? 0 : i * churn.spots);
        na_sizes_fill(&sizes, &churner->prng, churner->sizes, NA_WORK_SIZES);
    }
    for (size_t i = 0; i < arrays * churn.spots; i++) {
        spots[i] = na_work_malloc("churn", na_sizes_draw(&sizes, &filler));
        na_bench_touch(spots[i], churn.touch);
    }

    na_metric_t *pair =
        na_result_metric(result, "churn", "ns/obj", NA_LOWER, NA_HEADLINE, repetitions);
    na_metric_t *rate =
        na_result_metric(result, "throughput", "Mobj/s", NA_HIGHER, NA_HEADLINE, repetitions);
    na_metric_t *time =
        na_result_metric(result, "total time", "ms", NA_LOWER, NA_HEADLINE, repetitions);
    na_metric_t *each = na_result_metric(result, "throughput per thread", "Mobj/s", NA_HIGHER,
                                         NA_DETAIL, repetitions * threads);
    na_metric_t *slowest =
        na_result_metric(result, "slowest thread", "Mobj/s", NA_HIGHER, NA_DETAIL, repetitions);
    na_metric_t *fastest =
        na_result_metric(result, "fastest thread", "Mobj/s", NA_HIGHER, NA_DETAIL, repetitions);
    na_metric_t *dry = na_result_metric(result, "loop without malloc and free", "ns/obj", NA_LOWER,
                                        NA_DETAIL, repetitions);

    na_team_t *team = na_team_start(threads, (na_pin_t)value[K_PIN].number);
    double objects = (double)churn.objects;
    for (size_t r = 0; r < warmup + repetitions; r++) {
        na_bench_progress("churn: repetition", r, warmup + repetitions);
        double elapsed = (double)na_team_run(team, timed_churn_phase, &churn);
        if (r < warmup) continue;
        double low = 0, high = 0, sum = 0;
        for (unsigned i = 0; i < threads; i++) {
            double mine = (double)na_team_elapsed(team, i);
            double speed = 1e3 * objects / mine;
            na_metric_add(each, speed);
            low = i == 0 || speed < low ? speed : low;
            high = speed > high ? speed : high;
            sum += mine;
        }
        na_metric_add(pair, na_team_time(threads, sum, elapsed) / threads / objects);
        na_metric_add(rate, 1e3 * objects * threads / elapsed);
        na_metric_add(time, elapsed / 1e6);
        na_metric_add(slowest, low);
        na_metric_add(fastest, high);
    }
    for (size_t r = 0; r < repetitions; r++) {
        double elapsed = (double)na_team_run(team, timed_dry_phase, &churn), sum = 0;
        for (unsigned i = 0; i < threads; i++)
            sum += (double)na_team_elapsed(team, i);
        na_metric_add(dry, na_team_time(threads, sum, elapsed) / threads / objects);
    }
    na_bench_progress("churn: repetition", 1, 1);
    na_team_stop(team);
    for (size_t i = 0; i < arrays * churn.spots; i++)
        free(spots[i]);
}

/** M spots hold objects. Each of K threads, N times: free the object at a random spot and allocate
 *  a new one. *Time of a thread for an object.* With `--shared` all threads churn one array, and
 *  most frees are of another thread's block. */
const na_bench_t na_bench_churn = {
    .name = "churn",
    .summary = "free the object at a random spot, allocate a new one for it",
    .knobs = knobs_table,
    .knob_count = K_COUNT,
    .memory = true,
    .work = "objects",
    .suite = (const char *const[]){"--repetitions=11", "--warmup=1", NULL},
    .settle = churn_settle,
    .run = churn_run,
};
