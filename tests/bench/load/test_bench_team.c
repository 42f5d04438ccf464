/* test_bench_team.c - team.c: the bench suite's worker threads: every worker once a phase, phases
 * apart from each other, times that contain the work; and the churn and speed benchmarks run small.
 */
#include "bench/benchmarks/registry.h"
#include "bench/load/team.h"

#include <criterion/criterion.h>
#include <math.h>
#include <sched.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#define THREADS 6
#define PHASES  50

typedef struct tally {
    unsigned runs[THREADS];
    unsigned inside;  /* atomic: workers in the phase */
    unsigned present; /* the number of the phase, written between phases only */
    unsigned wrong;   /* atomic: workers that saw another phase's number */
} tally_t;

static void count_phase(void *argument, unsigned worker) {
    tally_t *tally = argument;
    unsigned phase = tally->runs[worker]++;
    __atomic_add_fetch(&tally->inside, 1, __ATOMIC_ACQ_REL);
    if (__atomic_load_n(&tally->present, __ATOMIC_ACQUIRE) != phase)
        __atomic_add_fetch(&tally->wrong, 1, __ATOMIC_ACQ_REL);
    __atomic_sub_fetch(&tally->inside, 1, __ATOMIC_ACQ_REL);
}

/* More threads than a small machine has CPUs. */
Test(bench_team, every_worker_once_a_phase) {
    tally_t tally = {0};
    na_team_t *team = na_team_start(THREADS, NA_PIN_AUTO);
    for (unsigned phase = 0; phase < PHASES; phase++) {
        __atomic_store_n(&tally.present, phase, __ATOMIC_RELEASE);
        na_team_run(team, count_phase, &tally);
        cr_assert_eq(tally.inside, 0, "a worker is still inside");
        for (unsigned i = 0; i < THREADS; i++)
            cr_assert_eq(tally.runs[i], phase + 1);
    }
    na_team_stop(team);
    cr_assert_eq(tally.wrong, 0);
}

static void sleep_phase(void *argument, unsigned worker) {
    (void)argument;
    usleep(2000 * (worker + 1));
}

Test(bench_team, times_contain_the_work) {
    na_team_t *team = na_team_start(3, NA_PIN_OFF);
    uint64_t before = na_bench_now();
    uint64_t elapsed = na_team_run(team, sleep_phase, NULL);
    uint64_t around = na_bench_now() - before;
    cr_assert_geq(elapsed, UINT64_C(6000000), "shorter than the longest worker's sleep");
    cr_assert_leq(elapsed, around);
    for (unsigned i = 0; i < 3; i++) {
        cr_assert_geq(na_team_elapsed(team, i), UINT64_C(2000000) * (i + 1));
        cr_assert_leq(na_team_elapsed(team, i), elapsed);
    }
    na_team_stop(team);
}

static void affinity_phase(void *argument, unsigned worker) {
    cpu_set_t *sets = argument;
    sched_getaffinity(0, sizeof sets[worker], &sets[worker]);
}

Test(bench_team, pins_as_the_knob_says) {
    cpu_set_t before, sets[2];
    cr_assert_eq(sched_getaffinity(0, sizeof before, &before), 0);
    na_team_t *pinned = na_team_start(2, NA_PIN_ON);
    na_team_run(pinned, affinity_phase, sets);
    na_team_stop(pinned);
    cr_assert_eq(CPU_COUNT(&sets[0]), 1);
    cr_assert_eq(CPU_COUNT(&sets[1]), 1);
    cr_assert_eq(CPU_EQUAL(&sets[0], &sets[1]), CPU_COUNT(&before) == 1);
    na_team_t *loose = na_team_start(2, NA_PIN_OFF);
    na_team_run(loose, affinity_phase, sets);
    na_team_stop(loose);
    cr_assert(CPU_EQUAL(&sets[0], &before) && CPU_EQUAL(&sets[1], &before));
    cr_assert_eq(na_team_threads(0), (unsigned)CPU_COUNT(&before));
    cr_assert_eq(na_team_threads(5), 5);
}

/* Runs a benchmark with the knobs given and returns its result. */
static const na_result_t *run_small(const char *name, int argc, char **argv) {
    static na_result_t result;
    const na_bench_t *bench = na_bench_find(name);
    na_knobs_t knobs;
    char error[256];
    bool unknown;
    memset(&result, 0, sizeof result);
    na_knobs_init(&knobs, bench->knobs, bench->knob_count);
    for (int i = 0; i < argc;)
        cr_assert(na_knobs_take(&knobs, argc, argv, &i, error, sizeof error, &unknown), "%s",
                  error);
    cr_assert(bench->settle == NULL || bench->settle(&knobs, error, sizeof error), "%s", error);
    bench->run(&knobs, &result);
    return &result;
}

#define RUN(name, ...)                                                                             \
    run_small(name, (int)NA_COUNT(((char *[]){__VA_ARGS__})), (char *[]){__VA_ARGS__})

static const na_metric_t *metric_of(const na_result_t *result, const char *name) {
    for (size_t i = 0; i < result->count; i++)
        if (strcmp(result->metric[i].name, name) == 0) return &result->metric[i];
    cr_assert(false, "no metric '%s'", name);
    return NULL;
}

Test(bench_team, churn_reports_every_repetition) {
    static const char *const both[] = {"--touch=on", "--shared"};
    for (size_t i = 0; i < NA_COUNT(both); i++) {
        const na_result_t *result =
            RUN("churn", "--threads=3", "--spots=50", "--objects=2000", "--repetitions=4",
                "--distribution=fisher", "--max=4096", (char *)(uintptr_t)both[i]);
        cr_assert_eq(metric_of(result, "churn")->count, 4);
        cr_assert_eq(metric_of(result, "throughput per thread")->count, 12);
        for (size_t r = 0; r < 4; r++) {
            double time = metric_of(result, "total time")->samples[r] * 1e6; /* ns */
            double rate = metric_of(result, "throughput")->samples[r] / 1e3; /* objects/ns */
            cr_assert_gt(time, 0);
            cr_assert_float_eq(rate * time, 3 * 2000, 1e-3);
            cr_assert_leq(metric_of(result, "slowest thread")->samples[r],
                          metric_of(result, "fastest thread")->samples[r]);
        }
    }
}

/* The formula of the source, T / (K * N), and the same divided by the length of the chain. */
Test(bench_team, speed_has_all_twelve_chains) {
    const na_result_t *result = RUN("speed", "--threads=2", "--objects=300", "--repetitions=3");
    unsigned chains = 0;
    double product = 1;
    for (size_t i = 0; i < result->count; i++) {
        const na_metric_t *call = &result->metric[i];
        if (call->rank != NA_HEADLINE || strcmp(call->name, "speed") == 0) continue;
        char name[128];
        size_t length = 1;
        for (const char *at = call->name; *at != '\0'; at++)
            length += *at == '-';
        snprintf(name, sizeof name, "%s per object", call->name);
        const na_metric_t *object = metric_of(result, name);
        cr_assert_eq(call->count, 3);
        for (size_t r = 0; r < 3; r++) {
            cr_assert_gt(call->samples[r], 0);
            cr_assert_float_eq(object->samples[r], call->samples[r] * (double)length, 1e-6);
        }
        product *= call->samples[1];
        chains++;
    }
    cr_assert_eq(chains, 12);
    /* What stands for the benchmark is the mean of all. */
    cr_assert_str_eq(na_bench_find("speed")->headline, "speed");
    cr_assert_float_eq(pow(metric_of(result, "speed")->samples[1], 12) / product, 1, 1e-6);
}

/* The choices of --chain are "all" and then the chains by name. */
Test(bench_team, speed_chain_is_chosen_by_name) {
    static char *const names[] = {"free", "malloc-free", "calloc-realloc-free",
                                  "malloc-realloc-free-calloc"};
    for (size_t i = 0; i < NA_COUNT(names); i++) {
        const na_result_t *result =
            RUN("speed", "--threads=1", "--objects=50", "--repetitions=1", "--chain", names[i]);
        cr_assert_str_eq(result->metric[0].name, names[i]);
    }
}

/* Each worker's own time where each has a CPU; with more workers than CPUs, the CPUs' wall time. */
Test(bench_team, time_of_crowded_workers) {
    cpu_set_t set;
    cr_assert_eq(sched_getaffinity(0, sizeof set, &set), 0);
    unsigned cpus = (unsigned)CPU_COUNT(&set);
    cr_assert_float_eq(na_team_time(cpus, 700, 1000), 700, 1e-9);
    cr_assert_float_eq(na_team_time(cpus + 1, 700, 1000), 1000.0 * cpus, 1e-9);
}
