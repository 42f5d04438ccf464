/* numa.c - the benchmark of the NUMA-aware TCMalloc: large blocks, used hard by one thread each.
 *
 *   each of K threads    5000 times: allocate a block of 2^(6 + rand % 19) bytes
 *                                    10 times: read and write every 64th byte of it
 *                                    free the block
 *
 * The time until all threads are done is the result. With 0 passes the memory is never accessed
 * (the control: what allocating alone costs). The sizes of a repetition depend on the seed only and
 * are the same in each.
 *
 * After the timed repetitions, one more that is not timed makes one pass in each round and asks the
 * kernel for the node of every page touched before the block is freed. An access is local when its
 * page lies on the node on which the thread runs at that moment. */
#include "bench/load/prng.h"
#include "bench/load/team.h"
#include "bench/measure/rates.h"
#include "bench/suite/limits.h"
#include "bench/suite/work.h"
#include "bench/system/placement.h"

#include <sched.h>
#include <stdlib.h>

enum {
    K_THREADS,
    K_ROUNDS,
    K_MIN_LOG2,
    K_MAX_LOG2,
    K_PASSES,
    K_STRIDE,
    K_SEED,
    K_PIN,
    K_REPIN,
    K_WARMUP,
    K_REPETITIONS,
    K_COUNT,
};

static const na_knob_t knobs_table[K_COUNT] = {
    [K_THREADS] = NA_KNOB_THREADS,
    [K_ROUNDS] = {"rounds", "times", NA_KNOB_NUMBER, 500, 1, UINT64_C(1) << 40, NULL,
                  "blocks that each thread allocates, uses and frees; the source has 5000"},
    [K_MIN_LOG2] = {"min-log2", "", NA_KNOB_NUMBER, 6, 0, 40, NULL,
                    "the smallest block has 2 to the power of this bytes"},
    [K_MAX_LOG2] = {"max-log2", "", NA_KNOB_NUMBER, 24, 0, 40, NULL,
                    "the largest block likewise; each power between is equally likely"},
    [K_PASSES] = {"passes", "times", NA_KNOB_NUMBER, 10, 0, UINT64_C(1) << 32, NULL,
                  "reads and writes of each block; 0: the memory is not accessed"},
    [K_STRIDE] = {"stride", "bytes", NA_KNOB_NUMBER, 64, 1, UINT64_C(1) << 30, NULL,
                  "distance of the bytes that are read and written"},
    [K_SEED] = NA_KNOB_SEED,
    [K_PIN] = NA_KNOB_PIN,
    [K_REPIN] = {"repin", "", NA_KNOB_CHOICE, 0, 0, 0, "off|on",
                 "on: in the repetition that is judged, each worker moves to another node's CPU "
                 "half way"},
    [K_WARMUP] = NA_KNOB_WARMUP(1),
    [K_REPETITIONS] = NA_KNOB_REPETITIONS(5),
};

#define NODES 64 /* nodes with a line of their own in the result */

typedef struct worker {
    na_placement_t on[NODES]; /* accesses made while it ran on each node */
    na_placement_t all;
    na_placement_t moved; /* of all, those after it moved to another node */
} __attribute__((aligned(128))) worker_t;

typedef struct numa {
    worker_t *worker;
    uint64_t rounds, passes, seed;
    unsigned min_log2, powers;
    size_t stride;
    bool repin;
    cpu_set_t cpus; /* that the process may use */
} numa_t;

static unsigned char *allocate_touched(size_t size) {
    unsigned char *block = malloc(size);
    if (block == NULL)
        na_bench_fail("numa: malloc(%zu) gave NULL: the allocator is out of memory", size);
    return block;
}

static size_t draw_numa_size(const numa_t *numa, na_prng_t *prng) {
    return (size_t)1 << (numa->min_log2 + na_prng_scale(na_prng_next(prng), numa->powers));
}

static void access_block(volatile unsigned char *block, size_t size, size_t stride,
                         uint64_t passes) {
    for (uint64_t pass = passes; pass != 0; pass--)
        for (size_t at = 0; at < size; at += stride)
            block[at] = (unsigned char)(block[at] + 1);
}

static void numa_timed_phase(void *argument, unsigned number) {
    const numa_t *numa = argument;
    na_prng_t prng = na_prng_make(numa->seed, 1 + number);
    for (uint64_t round = numa->rounds; round != 0; round--) {
        size_t size = draw_numa_size(numa, &prng);
        unsigned char *block = allocate_touched(size);
        na_bench_use(block);
        access_block(block, size, numa->stride, numa->passes);
        free(block);
    }
}

/* Binds the calling thread to the next CPU that is on another node than it runs on; false: there is
 * none, and it stays. */
static bool move_to_another_node(const numa_t *numa) {
    cpu_set_t before, one;
    unsigned here = na_placement_node();
    int cpu = sched_getcpu();
    if (cpu < 0 || sched_getaffinity(0, sizeof before, &before) != 0) return false;
    for (size_t i = 1; i < CPU_SETSIZE; i++) {
        size_t next = ((size_t)cpu + i) % CPU_SETSIZE;
        if (!CPU_ISSET(next, &numa->cpus)) continue;
        CPU_ZERO(&one);
        CPU_SET(next, &one);
        if (sched_setaffinity(0, sizeof one, &one) == 0 && na_placement_node() != here) return true;
    }
    sched_setaffinity(0, sizeof before, &before);
    return false;
}

static void placement_phase(void *argument, unsigned number) {
    const numa_t *numa = argument;
    worker_t *self = &numa->worker[number];
    na_prng_t prng = na_prng_make(numa->seed, 1 + number);
    bool moved = false;
    for (uint64_t round = numa->rounds; round != 0; round--) {
        if (numa->repin && round == (numa->rounds + 1) / 2) moved = move_to_another_node(numa);
        size_t size = draw_numa_size(numa, &prng);
        unsigned char *block = allocate_touched(size);
        na_placement_t here = {0};
        access_block(block, size, numa->stride, 1);
        unsigned node = na_placement_node();
        na_placement_count(block, size, numa->stride, node, &here);
        free(block);
        na_placement_t *sums[] = {&self->all, node < NODES ? &self->on[node] : NULL,
                                  moved ? &self->moved : NULL};
        for (size_t i = 0; i < NA_COUNT(sums); i++) {
            if (sums[i] == NULL) continue;
            sums[i]->local += here.local;
            sums[i]->remote += here.remote;
            sums[i]->unknown += here.unknown;
        }
    }
}

static double local_percent(const na_placement_t *sum) {
    return 100.0 * (double)sum->local / (double)(sum->local + sum->remote);
}

static void add_placement(na_placement_t *sum, const na_placement_t *part) {
    sum->local += part->local;
    sum->remote += part->remote;
    sum->unknown += part->unknown;
}

/* The local ratio overall, of each node on which a thread ran, and what could not be told. */
static void report_placement(const numa_t *numa, unsigned threads, na_result_t *result) {
    na_placement_t all = {0};
    for (unsigned i = 0; i < threads; i++)
        add_placement(&all, &numa->worker[i].all);
    if (all.local + all.remote != 0)
        na_metric_add(na_result_metric(result, "local accesses", "%", NA_HIGHER, NA_HEADLINE, 1),
                      local_percent(&all));
    for (unsigned node = 0; node < NODES; node++) {
        na_placement_t on = {0};
        char name[64];
        for (unsigned i = 0; i < threads; i++)
            add_placement(&on, &numa->worker[i].on[node]);
        if (on.local + on.remote == 0) continue;
        snprintf(name, sizeof name, "local accesses on node %u", node);
        na_metric_add(na_result_metric(result, name, "%", NA_HIGHER, NA_DETAIL, 1),
                      local_percent(&on));
    }
    na_placement_t moved = {0};
    for (unsigned i = 0; i < threads; i++)
        add_placement(&moved, &numa->worker[i].moved);
    if (moved.local + moved.remote != 0)
        na_metric_add(
            na_result_metric(result, "local accesses after the move", "%", NA_HIGHER, NA_DETAIL, 1),
            local_percent(&moved));
    if (all.local + all.remote + all.unknown != 0)
        na_metric_add(
            na_result_metric(result, "accesses of unknown place", "%", NA_LOWER, NA_DETAIL, 1),
            100.0 * (double)all.unknown / (double)(all.local + all.remote + all.unknown));
}

static bool numa_settle(na_knobs_t *knobs, char *error, size_t size) {
    const na_knob_value_t *value = knobs->value;
    knobs->value[K_THREADS].number = na_team_threads(value[K_THREADS].number);
    if (!na_limits_ordered(knobs, K_MIN_LOG2, K_MAX_LOG2, error, size)) return false;
    double largest = (double)(UINT64_C(1) << value[K_MAX_LOG2].number);
    return na_limits_fit((double)value[K_THREADS].number * largest, "--max-log2 or --threads",
                         error, size);
}

static void numa_run(const na_knobs_t *knobs, na_result_t *result) {
    const na_knob_value_t *value = knobs->value;
    unsigned threads = (unsigned)value[K_THREADS].number;
    size_t warmup = (size_t)value[K_WARMUP].number;
    size_t repetitions = (size_t)value[K_REPETITIONS].number;
    unsigned min_log2 = (unsigned)value[K_MIN_LOG2].number;
    numa_t numa = {na_bench_map(threads * sizeof(worker_t)),
                   value[K_ROUNDS].number,
                   value[K_PASSES].number,
                   value[K_SEED].number,
                   min_log2,
                   (unsigned)value[K_MAX_LOG2].number - min_log2 + 1,
                   (size_t)value[K_STRIDE].number,
                   value[K_REPIN].number != 0,
                   {{0}}};
    if (sched_getaffinity(0, sizeof numa.cpus, &numa.cpus) != 0) numa.repin = false;
    na_metric_t *time = na_result_metric(result, "numa", "ms", NA_LOWER, NA_HEADLINE, repetitions);
    na_rates_t rates = na_rates_make(result, threads, repetitions, "kround/s");

    na_team_t *team = na_team_start(threads, (na_pin_t)value[K_PIN].number);
    size_t total = warmup + repetitions + (numa.passes != 0);
    for (size_t r = 0; r < warmup + repetitions; r++) {
        na_bench_progress("numa: repetition", r, total);
        uint64_t elapsed = na_team_run(team, numa_timed_phase, &numa);
        if (r < warmup) continue;
        na_metric_add(time, (double)elapsed / 1e6);
        na_rates_add(&rates, team, elapsed, 1e3 * (double)numa.rounds);
    }
    if (numa.passes != 0) {
        na_bench_progress("numa: repetition", total - 1, total);
        na_team_run(team, placement_phase, &numa);
        report_placement(&numa, threads, result);
    }
    na_bench_progress("numa: repetition", 1, 1);
    na_team_stop(team);
}

/** The benchmark of the NUMA-aware TCMalloc: each thread allocates a block of 64 bytes to 16 MiB,
 *  reads and writes every 64th byte ten times, and frees it (500 rounds; `--rounds 5000` is the
 *  source's; `--passes 0` is its control). *Time until all are done*; `local accesses` asks the
 *  kernel for the place of every page, in a repetition that is not timed. */
const na_bench_t na_bench_numa = {
    .name = "numa",
    .summary = "blocks up to 16 MiB, read and written hard; how much of that is on the own node",
    .knobs = knobs_table,
    .knob_count = K_COUNT,
    .memory = true,
    .work = "rounds",
    .suite = (const char *const[]){"--repetitions=1", "--warmup=1", "--rounds=125", NULL},
    .settle = numa_settle,
    .run = numa_run,
};
