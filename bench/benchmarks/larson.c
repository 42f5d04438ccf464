/* larson.c - a server: threads come and go, and their objects outlive them.
 *
 *   main thread          fills an array of M objects for each of K lanes
 *   a lane's thread      N times: pick a random object of the array, free it, allocate another
 *                        pass the array to a new thread, and end
 *
 * It runs for a time; how many generations of threads there are depends on their speed. The result
 * is memory operations (mallocs and frees) per second, thread starts included. With --generations
 * the number of generations is given instead, and the same seed gives the same calls.
 *
 * In larson-sized (or with --sized on) each object is freed with its size, as C++ programs do: by
 * free_sized where the malloc of this process comes with one, else by its operator delete(void *,
 * size_t) on objects of its operator new; an allocator without either gets free, which is what
 * those would call.
 *
 * Each lane has a worker of the team, which sleeps meanwhile: the lane's threads inherit its CPU.
 * A new thread joins the one before it, so that never more than two of a lane exist. */
#include "bench/load/sizes.h"
#include "bench/load/team.h"
#include "bench/measure/rates.h"
#include "bench/suite/limits.h"
#include "bench/suite/work.h"

#include <dlfcn.h>
#include <pthread.h>
#include <semaphore.h>
#include <stdlib.h>
#include <string.h>

enum {
    K_THREADS,
    K_OBJECTS,
    K_OPERATIONS,
    K_DURATION,
    K_GENERATIONS,
    K_SIZED,
    NA_WORK_KNOBS,
    K_COUNT,
};

/* The table of larson, and that of larson-sized. */
/* clang-format off */
#define KNOBS(SIZED)                                                                               \
    {                                                                                              \
        [K_THREADS] = NA_KNOB_THREADS,                                                             \
        [K_OBJECTS] = {"objects", "objects", NA_KNOB_NUMBER, 10000, 1, UINT64_C(1) << 28, NULL,    \
                       "objects in the array that threads pass on"},                               \
        [K_OPERATIONS] = {"operations", "objects", NA_KNOB_NUMBER, 50000, 1, UINT64_C(1) << 40,    \
                          NULL, "objects that a thread replaces before it passes the array on"},   \
        [K_DURATION] = {"duration", "ms", NA_KNOB_NUMBER, 150, 1, 86400000, NULL,                  \
                        "how long a repetition runs"},                                             \
        [K_GENERATIONS] = {"generations", "threads", NA_KNOB_NUMBER, 0, 0, UINT64_C(1) << 32, NULL,\
                           "threads that follow each other; 0: as many as --duration allows"},     \
        [K_SIZED] = {"sized", "", NA_KNOB_CHOICE, SIZED, 0, 0, "off|on",                           \
                     "free objects with their size"},                                              \
        NA_WORK_KNOB_ROWS(8, 1000, 1, 1, 9),                                                       \
    }
/* clang-format on */

static const na_knob_t knobs_table[K_COUNT] = KNOBS(0);
static const na_knob_t sized_table[K_COUNT] = KNOBS(1);

#define SLICE 1024 /* objects between two looks at the clock */

typedef struct slot {
    void *block;
    size_t size;
} slot_t;

typedef void *allocate_fn(size_t size);
typedef void release_fn(void *block, size_t size);

struct larson;

typedef struct lane {
    const struct larson *larson;
    na_prng_t prng;
    slot_t *slots;
    uint64_t deadline, generations, replaced; /* of the present repetition */
    pthread_t before;                         /* the thread that passed the array on */
    sem_t ended;                              /* posted by the last thread */
    uint32_t sizes[NA_WORK_SIZES];
} __attribute__((aligned(128))) lane_t;

typedef struct larson {
    lane_t *lane;
    size_t objects;
    uint64_t operations, duration, generations;
    allocate_fn *allocate; /* these two with --sized on */
    release_fn *release;
    bool sized, touch;
} larson_t;

static void larson_out_of_memory(size_t size) {
    na_bench_fail("larson: no object of %zu bytes: the allocator is out of memory", size);
}

static inline __attribute__((always_inline)) void replace(const larson_t *larson, lane_t *lane,
                                                          uint64_t count, bool sized) {
    na_prng_t prng = lane->prng;
    slot_t *slots = lane->slots;
    for (uint64_t i = count; i != 0; i--) {
        uint64_t random = na_prng_next(&prng);
        slot_t *slot = &slots[na_prng_scale(random, larson->objects)];
        size_t size = lane->sizes[random % NA_WORK_SIZES];
        if (sized) {
            larson->release(slot->block, slot->size);
            slot->block = larson->allocate(size);
        } else {
            free(slot->block);
            slot->block = malloc(size);
        }
        if (slot->block == NULL) larson_out_of_memory(size);
        slot->size = size;
        na_bench_touch(slot->block, larson->touch);
    }
    lane->prng = prng;
    lane->replaced += count;
}

static void *generation(void *argument) {
    lane_t *lane = argument;
    const larson_t *larson = lane->larson;
    bool over = false;
    if (lane->generations != 0) pthread_join(lane->before, NULL);
    for (uint64_t left = larson->operations; left != 0 && !over;) {
        uint64_t count = left < SLICE ? left : SLICE;
        if (larson->sized)
            replace(larson, lane, count, true);
        else
            replace(larson, lane, count, false);
        left -= count;
        over = larson->generations == 0 && na_bench_now() >= lane->deadline;
    }
    lane->generations++;
    lane->before = pthread_self();
    pthread_t next;
    if (over || lane->generations == larson->generations)
        sem_post(&lane->ended);
    else if (pthread_create(&next, NULL, generation, lane) != 0)
        na_bench_fail("larson: cannot start another thread; use fewer --threads");
    return NULL;
}

static void larson_phase(void *argument, unsigned worker) {
    larson_t *larson = argument;
    lane_t *lane = &larson->lane[worker];
    pthread_t first;
    lane->generations = 0;
    lane->replaced = 0;
    lane->deadline = na_bench_now() + larson->duration;
    if (pthread_create(&first, NULL, generation, lane) != 0)
        na_bench_fail("larson: cannot start a thread; use fewer --threads");
    while (sem_wait(&lane->ended) != 0)
        ; /* a signal: wait again */
    pthread_join(lane->before, NULL);
}

/* ---- Sized frees ------------------------------------------------------------------------------
 */

static void release_plain(void *block, size_t size) {
    (void)size;
    free(block);
}

/* A function of this name from the object that malloc comes from, or NULL: an operator delete of a
 * C++ library would only call free. */
static void *beside_malloc(const char *name) {
    Dl_info ours, other;
    void *function = dlsym(RTLD_DEFAULT, name), *malloc_here = dlsym(RTLD_DEFAULT, "malloc");
    if (function == NULL || malloc_here == NULL || dladdr(malloc_here, &ours) == 0 ||
        dladdr(function, &other) == 0 || ours.dli_fbase != other.dli_fbase)
        return NULL;
    return function;
}

/* False when plain free has to do. */
static bool find_sized(larson_t *larson) {
    void *sized = beside_malloc("free_sized");
    larson->allocate = malloc;
    larson->release = release_plain;
    if (sized == NULL) {
        /* operator new and delete, by the names that C++ gives them */
        char letter = sizeof(size_t) == sizeof(unsigned) ? 'j' : 'm';
        char name[16];
        snprintf(name, sizeof name, "_Znw%c", letter);
        void *make = beside_malloc(name);
        snprintf(name, sizeof name, "_ZdlPv%c", letter);
        sized = beside_malloc(name);
        if (make == NULL || sized == NULL) return false;
        memcpy(&larson->allocate, &make, sizeof make);
    }
    memcpy(&larson->release, &sized, sizeof sized);
    return true;
}

/* ---- The benchmark ----------------------------------------------------------------------------
 */

static bool larson_settle(na_knobs_t *knobs, char *error, size_t size) {
    const na_knob_value_t *value = knobs->value;
    knobs->value[K_THREADS].number = na_team_threads(value[K_THREADS].number);
    if (!na_limits_ordered(knobs, K_MIN, K_MAX, error, size)) return false;
    double objects = (double)value[K_THREADS].number * (double)value[K_OBJECTS].number;
    double mean = (double)(value[K_MIN].number + value[K_MAX].number) / 2;
    return na_limits_fit(objects * (mean + sizeof(slot_t) + 16), "--objects, --max or --threads",
                         error, size);
}

static void larson_run(const na_knobs_t *knobs, na_result_t *result) {
    const na_knob_value_t *value = knobs->value;
    const na_sizes_t sizes = NA_WORK_SIZES_OF(value);
    unsigned threads = (unsigned)value[K_THREADS].number;
    size_t warmup = (size_t)value[K_WARMUP].number;
    size_t repetitions = (size_t)value[K_REPETITIONS].number;
    larson_t larson = {
        .lane = na_bench_map(threads * sizeof(lane_t)),
        .objects = (size_t)value[K_OBJECTS].number,
        .operations = value[K_OPERATIONS].number,
        .duration = value[K_DURATION].number * 1000000,
        .generations = value[K_GENERATIONS].number,
        .sized = value[K_SIZED].number != 0,
        .touch = value[K_TOUCH].number != 0,
    };
    bool by_size = find_sized(&larson) && larson.sized;
    if (!larson.sized) {
        larson.allocate = malloc;
        larson.release = release_plain;
    }
    uint64_t *operations = na_bench_map(threads * sizeof *operations);
    na_prng_t filler = na_prng_make(value[K_SEED].number, 0);
    for (unsigned i = 0; i < threads; i++) {
        lane_t *lane = &larson.lane[i];
        lane->larson = &larson;
        lane->prng = na_prng_make(value[K_SEED].number, 1 + i);
        lane->slots = na_bench_map(larson.objects * sizeof(slot_t));
        na_sizes_fill(&sizes, &lane->prng, lane->sizes, NA_WORK_SIZES);
        sem_init(&lane->ended, 0, 0);
        for (size_t at = 0; at < larson.objects; at++) {
            slot_t *slot = &lane->slots[at];
            slot->size = na_sizes_draw(&sizes, &filler);
            slot->block = larson.allocate(slot->size);
            if (slot->block == NULL) larson_out_of_memory(slot->size);
            na_bench_touch(slot->block, larson.touch);
        }
    }
    na_metric_t *time =
        na_result_metric(result, "larson", "ns/obj", NA_LOWER, NA_HEADLINE, repetitions);
    na_rates_t rates = na_rates_make(result, threads, repetitions, "Mop/s");
    na_metric_t *generations =
        na_result_metric(result, "generations", "threads", NA_HIGHER, NA_DETAIL, repetitions);
    if (larson.sized)
        na_metric_add(
            na_result_metric(result, "frees that tell the size", "%", NA_HIGHER, NA_DETAIL, 1),
            by_size ? 100 : 0);

    na_team_t *team = na_team_start(threads, (na_pin_t)value[K_PIN].number);
    for (size_t r = 0; r < warmup + repetitions; r++) {
        na_bench_progress("larson: repetition", r, warmup + repetitions);
        uint64_t elapsed = na_team_run(team, larson_phase, &larson);
        if (r < warmup) continue;
        double ended = 0, own = 0, replaced = 0;
        for (unsigned i = 0; i < threads; i++) {
            const lane_t *lane = &larson.lane[i];
            operations[i] = 2 * lane->replaced;
            ended += (double)lane->generations;
            own += (double)na_team_elapsed(team, i);
            replaced += (double)lane->replaced;
        }
        na_metric_add(time, na_team_time(threads, own, (double)elapsed) / replaced);
        na_metric_add(generations, ended);
        na_rates_add_each(&rates, team, elapsed, operations);
    }
    na_bench_progress("larson: repetition", 1, 1);
    na_team_stop(team);
    for (unsigned i = 0; i < threads; i++)
        for (size_t at = 0; at < larson.objects; at++)
            larson.release(larson.lane[i].slots[at].block, larson.lane[i].slots[at].size);
}

/** A server: a lane's thread replaces random objects, passes the array to a new thread, and ends.
 *  Blocks outlive the threads that allocated them. *A lane's time for an object.* It runs for
 *  `--duration`, or for `--generations`, which gives the same calls each time. */
const na_bench_t na_bench_larson = {
    .name = "larson",
    .summary = "a server: threads replace random objects and pass them on to the next thread",
    .knobs = knobs_table,
    .knob_count = K_COUNT,
    .memory = true,
    .work = "duration",
    .suite = (const char *const[]){"--repetitions=2", "--warmup=1", "--duration=75", NULL},
    .settle = larson_settle,
    .run = larson_run,
};

/** As larson, and each free tells the size. `frees that tell the size` is 0 where the allocator
 *  has no such free. */
const na_bench_t na_bench_larson_sized = {
    .name = "larson-sized",
    .summary = "larson, with frees that tell the size of the object",
    .knobs = sized_table,
    .knob_count = K_COUNT,
    .memory = true,
    .work = "duration",
    .suite = (const char *const[]){"--repetitions=2", "--warmup=1", "--duration=75", NULL},
    .settle = larson_settle,
    .run = larson_run,
};
