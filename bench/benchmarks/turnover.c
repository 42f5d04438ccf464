/* turnover.c - the turnover benchmark: threads die, their blocks live on and cross threads.
 *
 *   K lanes of M spots    filled once
 *   G generations         K new threads, one for each lane; each frees the objects of N random
 *                         spots of its lane and puts new ones there; then all of them end
 *
 * In generation g, thread i works on lane (i + g) % K. So nearly every block that a thread frees
 * was allocated by a thread that is dead, of another place in the team (with --lanes stay: of the
 * same place). At any time K * M objects are live, however many threads there have been: memory
 * that grows with the generations was left behind in the heaps of the dead.
 *
 * The clock of the work runs while the threads work; that of a generation also covers their
 * creation and their end, where an allocator sets up and gives up its heap of a thread. */
#include "bench/load/sizes.h"
#include "bench/load/team.h"
#include "bench/suite/limits.h"
#include "bench/suite/work.h"
#include "bench/system/process.h"

enum {
    K_THREADS,
    K_SPOTS,
    K_OBJECTS,
    K_GENERATIONS,
    K_LANES,
    NA_WORK_KNOBS,
    K_COUNT,
};

static const na_knob_t knobs_table[K_COUNT] = {
    [K_THREADS] = NA_KNOB_THREADS,
    [K_SPOTS] = {"spots", "spots", NA_KNOB_NUMBER, 5000, 1, UINT64_C(1) << 28, NULL,
                 "objects of each lane that live on"},
    [K_OBJECTS] = {"objects", "objects", NA_KNOB_NUMBER, 2000, 1, UINT64_C(1) << 32, NULL,
                   "objects that a thread frees and allocates in its life"},
    [K_GENERATIONS] = {"generations", "times", NA_KNOB_NUMBER, 50, 1, 1000000, NULL,
                       "generations of threads in one repetition"},
    [K_LANES] = {"lanes", "", NA_KNOB_CHOICE, 0, 0, 0, "cross|stay",
                 "cross: a lane goes to the next thread of the team in every generation; stay: to "
                 "the one of the same place"},
    NA_WORK_KNOB_ROWS(16, 512, 16, 1, 7),
};

typedef struct lane {
    na_prng_t prng;
    void **spots;
    uint32_t *size_of; /* of the object at each spot: for the sum of live bytes */
    uint64_t live;     /* bytes */
    uint32_t sizes[NA_WORK_SIZES];
} __attribute__((aligned(64))) lane_t;

typedef struct turnover {
    lane_t *lane;
    uint64_t spots, objects, generation;
    unsigned threads;
    bool cross, touch;
} turnover_t;

static lane_t *lane_of(const turnover_t *turnover, unsigned worker) {
    uint64_t shift = turnover->cross ? turnover->generation : 0;
    return &turnover->lane[(worker + shift) % turnover->threads];
}

static void live_phase(void *argument, unsigned worker) {
    const turnover_t *turnover = argument;
    lane_t *lane = lane_of(turnover, worker);
    na_prng_t prng = lane->prng;
    uint64_t live = lane->live;
    for (uint64_t i = turnover->objects; i != 0; i--) {
        uint64_t random = na_prng_next(&prng);
        uint64_t spot = na_prng_scale(random, turnover->spots);
        uint32_t size = lane->sizes[random % NA_WORK_SIZES];
        live += size - (uint64_t)lane->size_of[spot];
        free(lane->spots[spot]);
        lane->spots[spot] = na_work_malloc("turnover", size);
        lane->size_of[spot] = size;
        na_bench_touch(lane->spots[spot], turnover->touch);
    }
    lane->prng = prng;
    lane->live = live;
}

static void fill(const turnover_t *turnover, lane_t *lane) {
    for (uint64_t i = 0; i < turnover->spots; i++) {
        lane->size_of[i] = lane->sizes[na_prng_next(&lane->prng) % NA_WORK_SIZES];
        lane->spots[i] = na_work_malloc("turnover", lane->size_of[i]);
        lane->live += lane->size_of[i];
        na_bench_touch(lane->spots[i], turnover->touch);
    }
}

static bool turnover_settle(na_knobs_t *knobs, char *error, size_t size) {
    na_knob_value_t *value = knobs->value;
    value[K_THREADS].number = na_team_threads(value[K_THREADS].number);
    if (!na_limits_ordered(knobs, K_MIN, K_MAX, error, size)) return false;
    return na_limits_fit((double)value[K_THREADS].number * (double)value[K_SPOTS].number *
                             (double)(value[K_MAX].number + sizeof(void *) + sizeof(uint32_t)),
                         "--threads, --spots or --max", error, size);
}

typedef struct metrics {
    na_metric_t *object, *generation, *resident, *rate, *each;
} metrics_t;

static void turnover_repetition(turnover_t *turnover, na_pin_t pin, uint64_t generations,
                                uint64_t before, const metrics_t *metrics) {
    double work = 0, sum = 0, own[1024] = {0};
    uint64_t begin = na_bench_now();
    for (uint64_t g = 0; g < generations; g++) {
        na_team_t *team = na_team_start(turnover->threads, pin);
        work += (double)na_team_run(team, live_phase, turnover);
        for (unsigned i = 0; i < turnover->threads; i++)
            own[i] += (double)na_team_elapsed(team, i);
        na_team_stop(team);
        turnover->generation++;
    }
    double elapsed = (double)(na_bench_now() - begin);
    if (metrics == NULL) return;
    double objects = (double)turnover->objects * (double)generations;
    uint64_t live = 0, resident = na_memory_read().now;
    for (unsigned i = 0; i < turnover->threads; i++) {
        na_metric_add(metrics->each, 1e3 * objects / own[i]);
        sum += own[i];
        live += turnover->lane[i].live;
    }
    na_metric_add(metrics->object,
                  na_team_time(turnover->threads, sum, work) / turnover->threads / objects);
    na_metric_add(metrics->generation, elapsed / (double)generations / 1e3);
    na_metric_add(metrics->rate, 1e3 * objects * turnover->threads / work);
    na_metric_add(metrics->resident,
                  resident > before ? (double)(resident - before) / (double)live : 0);
}

static void turnover_run(const na_knobs_t *knobs, na_result_t *result) {
    const na_knob_value_t *value = knobs->value;
    const na_sizes_t sizes = NA_WORK_SIZES_OF(value);
    size_t warmup = (size_t)value[K_WARMUP].number;
    size_t repetitions = (size_t)value[K_REPETITIONS].number;
    turnover_t turnover = {.spots = value[K_SPOTS].number,
                           .objects = value[K_OBJECTS].number,
                           .threads = (unsigned)value[K_THREADS].number,
                           .cross = value[K_LANES].number == 0,
                           .touch = value[K_TOUCH].number != 0};
    metrics_t metrics = {
        na_result_metric(result, "turnover", "ns/obj", NA_LOWER, NA_HEADLINE, repetitions),
        na_result_metric(result, "generation", "us", NA_LOWER, NA_HEADLINE, repetitions),
        na_result_metric(result, "resident over live", "x", NA_LOWER, NA_HEADLINE, repetitions),
        na_result_metric(result, "throughput", "Mobj/s", NA_HIGHER, NA_DETAIL, repetitions),
        na_result_metric(result, "throughput per thread", "Mobj/s", NA_HIGHER, NA_DETAIL,
                         repetitions * turnover.threads),
    };
    turnover.lane = na_bench_map(turnover.threads * sizeof(lane_t));
    for (unsigned i = 0; i < turnover.threads; i++) {
        lane_t *lane = &turnover.lane[i];
        lane->prng = na_prng_make(value[K_SEED].number, 1 + i);
        lane->spots = na_bench_map(turnover.spots * sizeof(void *));
        lane->size_of = na_bench_map(turnover.spots * sizeof(uint32_t));
        na_sizes_fill(&sizes, &lane->prng, lane->sizes, NA_WORK_SIZES);
    }
    uint64_t before = na_memory_read().now; /* all tables are resident by now */
    for (unsigned i = 0; i < turnover.threads; i++)
        fill(&turnover, &turnover.lane[i]);
    for (size_t r = 0; r < warmup + repetitions; r++) {
        na_bench_progress("turnover: repetition", r, warmup + repetitions);
        turnover_repetition(&turnover, (na_pin_t)value[K_PIN].number, value[K_GENERATIONS].number,
                            before, r < warmup ? NULL : &metrics);
    }
    na_bench_progress("turnover: repetition", 1, 1);
    for (unsigned i = 0; i < turnover.threads; i++)
        for (uint64_t s = 0; s < turnover.spots; s++)
            free(turnover.lane[i].spots[s]);
}

/** In each generation K new threads free and replace random objects of a lane and end; lanes move
 *  on, so that most frees are of blocks of the dead. *Time of a thread per object.* `resident over
 *  live` that grows with `--generations` is memory left behind. */
const na_bench_t na_bench_turnover = {
    .name = "turnover",
    .summary = "threads die, their blocks live on and are freed by others",
    .knobs = knobs_table,
    .knob_count = K_COUNT,
    .memory = true,
    .work = "generations",
    .suite = (const char *const[]){"--repetitions=7", "--warmup=1", NULL},
    .settle = turnover_settle,
    .run = turnover_run,
};
