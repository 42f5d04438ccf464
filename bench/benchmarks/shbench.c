/* shbench.c - each thread randomly allocates and frees objects of random sizes.
 *
 *   each of K threads    N times: pick a random slot of its own; free the object that is there, or
 *                        allocate one of a random size where there is none
 *                        free what is left
 *
 * As threadtest, but in no order: half of the slots are full in the long run, and what is freed is
 * as likely old as new. Its result is the run time. The slot and the size come of one draw within
 * the loop (sizes from a table of 4096 that was drawn beforehand). */
#include "bench/load/sizes.h"
#include "bench/load/team.h"
#include "bench/measure/rates.h"
#include "bench/suite/limits.h"
#include "bench/suite/work.h"

#include <stdlib.h>

enum {
    K_THREADS,
    K_SLOTS,
    K_OPERATIONS,
    NA_WORK_KNOBS,
    K_COUNT,
};

static const na_knob_t knobs_table[K_COUNT] = {
    [K_THREADS] = NA_KNOB_THREADS,
    [K_SLOTS] = {"slots", "slots", NA_KNOB_NUMBER, 5000, 1, UINT64_C(1) << 28, NULL,
                 "slots of each thread"},
    [K_OPERATIONS] = {"operations", "times", NA_KNOB_NUMBER, 1000000, 1, UINT64_C(1) << 40, NULL,
                      "mallocs and frees together, of each thread in one repetition"},
    NA_WORK_KNOB_ROWS(1, 1000, 1, 1, 11),
};

typedef struct shuffler {
    na_prng_t prng;
    void **slot;
    uint64_t calls; /* malloc and free in the latest repetition */
    uint32_t sizes[NA_WORK_SIZES];
} __attribute__((aligned(128))) shuffler_t;

typedef struct shbench {
    shuffler_t *shuffler;
    size_t slots;
    uint64_t operations;
    bool touch;
} shbench_t;

static void shbench_phase(void *argument, unsigned worker) {
    const shbench_t *bench = argument;
    shuffler_t *self = &bench->shuffler[worker];
    na_prng_t prng = self->prng;
    void **slots = self->slot;
    uint64_t calls = bench->operations;
    for (uint64_t i = bench->operations; i != 0; i--) {
        uint64_t random = na_prng_next(&prng);
        void **slot = &slots[na_prng_scale(random, bench->slots)];
        if (*slot != NULL) {
            free(*slot);
            *slot = NULL;
            continue;
        }
        size_t size = self->sizes[random % NA_WORK_SIZES];
        *slot = malloc(size);
        if (*slot == NULL)
            na_bench_fail("shbench: malloc(%zu) gave NULL: the allocator is out of memory", size);
        na_bench_touch(*slot, bench->touch);
    }
    for (size_t i = 0; i < bench->slots; i++) {
        if (slots[i] == NULL) continue;
        free(slots[i]);
        slots[i] = NULL;
        calls++;
    }
    self->prng = prng;
    self->calls = calls;
}

static bool shbench_settle(na_knobs_t *knobs, char *error, size_t size) {
    const na_knob_value_t *value = knobs->value;
    knobs->value[K_THREADS].number = na_team_threads(value[K_THREADS].number);
    if (!na_limits_ordered(knobs, K_MIN, K_MAX, error, size)) return false;
    double slots = (double)value[K_THREADS].number * (double)value[K_SLOTS].number;
    /* Half of the slots are full, with objects of half the largest size. */
    return na_limits_fit(slots * ((double)(value[K_MIN].number + value[K_MAX].number) / 4 + 16),
                         "--slots, --max or --threads", error, size);
}

static void shbench_run(const na_knobs_t *knobs, na_result_t *result) {
    const na_knob_value_t *value = knobs->value;
    const na_sizes_t sizes = NA_WORK_SIZES_OF(value);
    unsigned threads = (unsigned)value[K_THREADS].number;
    size_t warmup = (size_t)value[K_WARMUP].number;
    size_t repetitions = (size_t)value[K_REPETITIONS].number;
    shbench_t bench = {na_bench_map(threads * sizeof(shuffler_t)), (size_t)value[K_SLOTS].number,
                       value[K_OPERATIONS].number, value[K_TOUCH].number != 0};
    uint64_t *calls = na_bench_map(threads * sizeof *calls);
    for (unsigned i = 0; i < threads; i++) {
        shuffler_t *shuffler = &bench.shuffler[i];
        shuffler->prng = na_prng_make(value[K_SEED].number, 1 + i);
        shuffler->slot = na_bench_map(bench.slots * sizeof(void *));
        na_sizes_fill(&sizes, &shuffler->prng, shuffler->sizes, NA_WORK_SIZES);
    }
    na_metric_t *time =
        na_result_metric(result, "shbench", "ns/op", NA_LOWER, NA_HEADLINE, repetitions);
    na_rates_t rates = na_rates_make(result, threads, repetitions, "Mop/s");

    na_team_t *team = na_team_start(threads, (na_pin_t)value[K_PIN].number);
    for (size_t r = 0; r < warmup + repetitions; r++) {
        na_bench_progress("shbench: repetition", r, warmup + repetitions);
        uint64_t elapsed = na_team_run(team, shbench_phase, &bench);
        if (r < warmup) continue;
        double sum = 0;
        for (unsigned i = 0; i < threads; i++) {
            calls[i] = bench.shuffler[i].calls;
            sum += (double)calls[i];
        }
        na_metric_add(time, (double)elapsed * threads / sum);
        na_rates_add_each(&rates, team, elapsed, calls);
    }
    na_bench_progress("shbench: repetition", 1, 1);
    na_team_stop(team);
}

/** Each thread picks a random slot of its own, frees the object there or allocates one. Old and
 *  young objects of all sizes die in random order. *Time for a malloc or free.* */
const na_bench_t na_bench_shbench = {
    .name = "shbench",
    .summary = "each thread allocates and frees objects of random sizes in random order",
    .knobs = knobs_table,
    .knob_count = K_COUNT,
    .memory = true,
    .work = "operations",
    .suite = (const char *const[]){"--repetitions=11", "--warmup=1", NULL},
    .settle = shbench_settle,
    .run = shbench_run,
};
