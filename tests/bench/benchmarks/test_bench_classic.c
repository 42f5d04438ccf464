/* test_bench_classic.c - thrash.c, scratch.c, memory.c, threadtest.c, shbench.c, larson.c and
 * numa.c call malloc and free as often, in the order and with the sizes that they say; and refuse
 * bad knobs.
 *
 * numalloc-bench runs on an allocator that records every call. Seeds are fixed: what is checked of
 * a distribution never changes by chance. */
#include "support/bench_log.h"
#include "support/bench_small.h"

#include "bench/load/sizes.h"

#include <math.h>

/* ---- The calls of one thread ------------------------------------------------------------------
 */

typedef struct calls {
    const counting_record_t *record[COUNTING_CAPACITY];
    size_t count;
} calls_t;

/* The program's calls by `thread`, in order. Static: one at a time. */
static const calls_t *calls_of(const bench_log_t *run, uint32_t thread) {
    static calls_t calls;
    calls.count = 0;
    for (uint64_t i = 0; i < run->count; i++) {
        const counting_record_t *record = &run->log->record[i];
        if (record->program && record->thread == thread) calls.record[calls.count++] = record;
    }
    return &calls;
}

static bool is(const counting_record_t *record, counting_kind_t kind, uint64_t size) {
    return record->kind == kind && (kind == COUNTING_FREE || record->size == size);
}

/* The threads that made calls, those with `allocations` of them. */
static size_t threads_with(const bench_log_t *run, uint64_t allocations, uint32_t *out) {
    size_t count = 0;
    for (uint32_t t = 0; t < BENCH_LOG_THREADS; t++)
        if (run->by_thread[t].allocations == allocations &&
            run->by_thread[t].allocations + run->by_thread[t].frees != 0)
            out[count++] = t;
    return count;
}

/* Pearson's statistic of `count` cells against their shares. `inflated`: how much larger than that
 * of independent draws its mean is, 1 + n/T where n draws come from a table of T that was drawn. */
static void check_fit(const uint64_t *hits, const double *share, size_t cells, double inflated) {
    double all = 0, statistic = 0, degrees = (double)(cells - 1);
    for (size_t i = 0; i < cells; i++)
        all += (double)hits[i];
    for (size_t i = 0; i < cells; i++) {
        double expected = all * share[i];
        cr_assert_gt(expected, 5, "too few draws for cell %zu", i);
        statistic += ((double)hits[i] - expected) * ((double)hits[i] - expected) / expected;
    }
    statistic /= inflated;
    cr_assert_leq(fabs(statistic - degrees), 5 * sqrt(2 * degrees), "chi-square %g for %g degrees",
                  statistic, degrees);
}

/* ---- thrash and scratch -----------------------------------------------------------------------
 */

#define ARMS    3 /* object, apart, one line: the same calls in each */
#define CHUNKS  7
#define ROUNDS  5
#define OBJECT  24
#define WORKERS 2

/* Chunks of 16 bytes, freed in their order; [the passed object;] then malloc and free in turn. */
static void check_worker(const bench_log_t *run, uint32_t thread, bool passed) {
    const calls_t *calls = calls_of(run, thread);
    const counting_record_t *const *at = calls->record;
    cr_assert_eq(calls->count, 2 * CHUNKS + passed + 2 * ROUNDS);
    for (size_t i = 0; i < CHUNKS; i++) {
        cr_assert(is(at[i], COUNTING_MALLOC, 16));
        cr_assert(is(at[CHUNKS + i], COUNTING_FREE, 0));
        cr_assert_eq(at[CHUNKS + i]->block, at[i]->block);
    }
    at += 2 * CHUNKS;
    if (passed) cr_assert(is(*at++, COUNTING_FREE, 0));
    for (size_t i = 0; i < 2 * ROUNDS; i += 2) {
        cr_assert(is(at[i], COUNTING_MALLOC, OBJECT));
        cr_assert(is(at[i + 1], COUNTING_FREE, 0));
        cr_assert_eq(at[i + 1]->block, at[i]->block);
    }
}

static bench_log_t *run_linework(const char *name) {
    return BENCH_LOG((char *)(uintptr_t)name, "--threads=2", "--iterations=5", "--cacheRW=3",
                     "--size=24", "--chunks=7", "--warmup=0", "--repetitions=1");
}

Test(bench_classic, thrash_calls) {
    const bench_log_t *run = run_linework("thrash");
    uint32_t threads[BENCH_LOG_THREADS];
    cr_assert_eq(threads_with(run, CHUNKS + ROUNDS, threads), ARMS * WORKERS);
    for (size_t i = 0; i < ARMS * WORKERS; i++)
        check_worker(run, threads[i], false);
    cr_assert_eq(run->all.allocations, ARMS * WORKERS * (CHUNKS + ROUNDS));
    cr_assert_eq(run->all.frees, run->all.allocations);
    cr_assert_eq(run->all.foreign_frees, 0);
    cr_assert_eq(run->wrong + run->left, 0);
}

/* The main thread's objects are freed by a worker each, and are its only foreign frees. */
Test(bench_classic, scratch_calls) {
    const bench_log_t *run = run_linework("scratch");
    uint32_t threads[BENCH_LOG_THREADS], mains[BENCH_LOG_THREADS];
    cr_assert_eq(threads_with(run, CHUNKS + ROUNDS, threads), ARMS * WORKERS);
    for (size_t i = 0; i < ARMS * WORKERS; i++) {
        check_worker(run, threads[i], true);
        cr_assert_eq(run->by_thread[threads[i]].foreign_frees, 1);
    }
    cr_assert_eq(threads_with(run, ARMS * WORKERS, mains), 1);
    const calls_t *calls = calls_of(run, mains[0]);
    cr_assert_eq(calls->count, ARMS * WORKERS);
    for (size_t i = 0; i < calls->count; i++)
        cr_assert(is(calls->record[i], COUNTING_MALLOC, OBJECT));
    cr_assert_eq(run->wrong + run->left, 0);
}

/* ---- threadtest -------------------------------------------------------------------------------
 */

Test(bench_classic, threadtest_calls) {
    const bench_log_t *run = BENCH_LOG("threadtest", "--threads=3", "--objects=40",
                                       "--iterations=6", "--warmup=1", "--repetitions=2");
    uint32_t threads[BENCH_LOG_THREADS];
    cr_assert_eq(threads_with(run, 3 * 6 * 40, threads), 3);
    for (size_t i = 0; i < 3; i++) {
        const calls_t *calls = calls_of(run, threads[i]);
        cr_assert_eq(calls->count, 2 * 3 * 6 * 40);
        for (size_t from = 0; from < calls->count; from += 80)
            for (size_t at = from; at < from + 40; at++) {
                cr_assert(is(calls->record[at], COUNTING_MALLOC, 8));
                cr_assert(is(calls->record[at + 40], COUNTING_FREE, 0));
                cr_assert_eq(calls->record[at]->block, calls->record[at + 40]->block);
            }
    }
    cr_assert_eq(run->all.allocations, 3 * 3 * 6 * 40);
    cr_assert_eq(run->all.foreign_frees + run->wrong + run->left, 0);
}

/* ---- shbench ----------------------------------------------------------------------------------
 */

Test(bench_classic, shbench_calls) {
    enum { OPERATIONS = 40000, SLOTS = 100 };
    const bench_log_t *run =
        BENCH_LOG("shbench", "--threads=2", "--slots=100", "--operations=40000", "--min=16",
                  "--max=512", "--step=16", "--warmup=0", "--repetitions=1");
    uint64_t hits[32] = {0};
    double share[32];
    size_t active = 0;
    for (uint32_t t = 0; t < BENCH_LOG_THREADS; t++) {
        const bench_log_tally_t *mine = &run->by_thread[t];
        if (mine->allocations == 0) continue;
        active++;
        cr_assert_eq(mine->allocations, mine->frees);
        cr_assert_eq(mine->foreign_frees, 0);
        /* Every operation is one call, and what is left in a slot at the end is freed. */
        uint64_t after = mine->allocations + mine->frees - OPERATIONS;
        cr_assert(after > 0 && after <= SLOTS);
        const calls_t *calls = calls_of(run, t);
        size_t live = 0, most = 0;
        for (size_t i = 0; i < calls->count; i++) {
            const counting_record_t *call = calls->record[i];
            live += call->kind == COUNTING_MALLOC ? 1 : (size_t)-1;
            if (live > most) most = live;
            if (i >= OPERATIONS) cr_assert(is(call, COUNTING_FREE, 0));
            if (call->kind != COUNTING_MALLOC) continue;
            cr_assert(call->size >= 16 && call->size <= 512 && call->size % 16 == 0);
            hits[call->size / 16 - 1]++;
        }
        cr_assert(most <= SLOTS && most > SLOTS / 2);
    }
    cr_assert_eq(active, 2);
    for (size_t i = 0; i < 32; i++)
        share[i] = 1.0 / 32;
    check_fit(hits, share, 32, 1 + (double)run->all.allocations / (2 * 4096));
}

/* ---- larson -----------------------------------------------------------------------------------
 */

static void check_larson(const bench_log_t *run) {
    enum { OBJECTS = 50, OPERATIONS = 400, GENERATIONS = 3, LANES = 2 };
    uint32_t threads[BENCH_LOG_THREADS], mains[BENCH_LOG_THREADS];
    cr_assert_eq(threads_with(run, OPERATIONS, threads), GENERATIONS * LANES);
    for (size_t i = 0; i < GENERATIONS * LANES; i++) {
        const calls_t *calls = calls_of(run, threads[i]);
        cr_assert_eq(calls->count, 2 * OPERATIONS);
        for (size_t at = 0; at < calls->count; at += 2) {
            cr_assert(is(calls->record[at], COUNTING_FREE, 0));
            cr_assert_eq(calls->record[at + 1]->kind, COUNTING_MALLOC);
            cr_assert(calls->record[at + 1]->size >= 8 && calls->record[at + 1]->size <= 1000);
        }
        /* Each inherits the objects of the one before it, or of the main thread. */
        cr_assert(run->by_thread[threads[i]].foreign_frees > OBJECTS / 2 &&
                  run->by_thread[threads[i]].foreign_frees <= OBJECTS);
    }
    cr_assert_eq(threads_with(run, OBJECTS * LANES, mains), 1);
    cr_assert_eq(run->by_thread[mains[0]].frees, OBJECTS * LANES);
    cr_assert_eq(run->wrong + run->left, 0);
}

Test(bench_classic, larson_calls) {
    check_larson(BENCH_LOG("larson", "--threads=2", "--objects=50", "--operations=400",
                           "--generations=3", "--warmup=0", "--repetitions=1"));
}

/* The recording allocator has no sized free: free it is. */
Test(bench_classic, larson_sized_calls) {
    check_larson(BENCH_LOG("larson-sized", "--threads=2", "--objects=50", "--operations=400",
                           "--generations=3", "--warmup=0", "--repetitions=1"));
}

/* ---- memory -----------------------------------------------------------------------------------
 */

/* Producers only allocate, consumers only free, in the order of the allocations, and the live
 * objects stay where free-start and round put them. */
Test(bench_classic, memory_calls) {
    enum { PRODUCERS = 2, CONSUMERS = 3, OBJECTS = 200, ROUND = 20, START = 60, SIZE = 100 };
    const bench_log_t *run =
        BENCH_LOG("memory", "--producers=2", "--consumers=3", "--objects=200", "--round=20",
                  "--free-start=60", "--min=100", "--max=100", "--repetitions=1");
    uint32_t producers[BENCH_LOG_THREADS], consumers[BENCH_LOG_THREADS];
    cr_assert_eq(threads_with(run, CONSUMERS * OBJECTS, producers), PRODUCERS);
    cr_assert_eq(threads_with(run, 0, consumers), PRODUCERS * CONSUMERS);
    for (size_t i = 0; i < PRODUCERS; i++)
        cr_assert_eq(run->by_thread[producers[i]].frees, 0);
    for (size_t i = 0; i < PRODUCERS * CONSUMERS; i++) {
        cr_assert_eq(run->by_thread[consumers[i]].frees, OBJECTS);
        cr_assert_eq(run->by_thread[consumers[i]].foreign_frees, OBJECTS);
        const calls_t *calls = calls_of(run, consumers[i]);
        const counting_record_t *previous = NULL;
        for (size_t at = 0; at < calls->count; at++) {
            const counting_record_t *made = calls->record[at];
            while (made->kind != COUNTING_MALLOC || made->block != calls->record[at]->block)
                made--;
            cr_assert(made > previous, "object %zu is freed before an older one", at);
            previous = made;
        }
    }
    cr_assert_eq(run->all.allocations, PRODUCERS * CONSUMERS * OBJECTS);
    cr_assert_eq(run->wrong + run->left, 0);
    cr_assert_geq(run->peak_bytes, PRODUCERS * START * SIZE);
    cr_assert_leq(run->peak_bytes, PRODUCERS * CONSUMERS * (START + 2 * ROUND) * SIZE);
}

/* The distribution function of F(4, 10), as test_bench_sizes holds it against printed tables. */
static double fisher_below(double x) {
    double y = NA_FISHER_D1 * x / (NA_FISHER_D1 * x + NA_FISHER_D2), z = 1 - y;
    return 1 - pow(z, 6) - 6 * y * pow(z, 5);
}

static void check_memory_sizes(const char *distribution, const double *share) {
    char knob[64];
    uint64_t hits[16] = {0};
    snprintf(knob, sizeof knob, "--distribution=%s", distribution);
    const bench_log_t *run = BENCH_LOG("memory", knob, "--objects=10000", "--min=16", "--max=256",
                                       "--snapshot=100000", "--repetitions=1");
    for (uint64_t i = 0; i < run->count; i++) {
        const counting_record_t *call = &run->log->record[i];
        if (!call->program || call->kind != COUNTING_MALLOC) continue;
        cr_assert(call->size >= 16 && call->size <= 256 && call->size % 16 == 0);
        hits[call->size / 16 - 1]++;
    }
    cr_assert_eq(run->all.allocations, 2 * 2 * 10000);
    check_fit(hits, share, 16, 1);
}

Test(bench_classic, memory_sizes) {
    double uniform[16], fisher[16], step = NA_FISHER_CUT / 16;
    for (size_t i = 0; i < 16; i++) {
        uniform[i] = 1.0 / 16;
        fisher[i] = (fisher_below((double)(i + 1) * step) - fisher_below((double)i * step)) /
                    fisher_below(NA_FISHER_CUT);
    }
    check_memory_sizes("uniform", uniform);
    check_memory_sizes("fisher", fisher);
}

/* One snapshot before, one for every 50 calls, one after; nothing is requested at both ends. */
Test(bench_classic, memory_snapshots) {
    char path[] = "/tmp/numalloc-bench-series-XXXXXX", knob[64], line[256];
    int made = mkstemp(path);
    cr_assert_geq(made, 0);
    close(made);
    snprintf(knob, sizeof knob, "--series=%s", path);
    const na_result_t *result =
        RUN("memory", knob, "--producers=2", "--consumers=2", "--objects=500", "--min=100",
            "--max=100", "--round=50", "--free-start=200", "--snapshot=50", "--repetitions=2");
    cr_assert_eq(metric_of(result, "overhead")->count, 2);
    cr_assert_eq(metric_of(result, "series: requested")->count, 2 + 4 * 500 * 2 / 50);
    FILE *series = fopen(path, "r");
    cr_assert(series != NULL && fgets(line, sizeof line, series) != NULL);
    cr_assert_str_eq(line, "repetition\tcalls\trequested\twritable\tmapped\tresident\n");
    unsigned long long found[6], calls = 0;
    size_t count = 0;
    while (fgets(line, sizeof line, series) != NULL) {
        cr_assert_eq(sscanf(line, "%llu%llu%llu%llu%llu%llu", &found[0], &found[1], &found[2],
                            &found[3], &found[4], &found[5]),
                     6);
        size_t place = count++ == 0 ? 0 : (count - 2) % 82;
        cr_assert_eq(found[0], count == 1 ? 0 : 1 + (count - 2) / 82);
        cr_assert(found[4] >= found[3] && found[3] != 0 && found[5] != 0);
        /* A snapshot waits until every thread has finished the call that it is in. */
        if (count != 1 && place <= 80)
            cr_assert(found[1] >= 50 * place && found[1] < 50 * place + 6);
        if (place == 81) cr_assert_eq(found[1], 4000);
        calls = found[1];
        cr_assert_eq(found[2] % 100, 0, "a snapshot within an operation");
        cr_assert_leq(found[2], 4 * 300 * 100);
        if (calls == 0 || calls == 4000) cr_assert_eq(found[2], 0);
        /* Objects made minus objects freed is what is live, at every snapshot. */
        cr_assert_leq(found[2] / 100, calls);
        cr_assert_eq((calls - found[2] / 100) % 2, 0);
    }
    fclose(series);
    unlink(path);
    cr_assert_eq(count, 1 + 2 * 82);
}

/* ---- numa -------------------------------------------------------------------------------------
 */

/* 2^(6 + rand % 19) bytes: 19 powers, each equally likely. The control accesses nothing. */
Test(bench_classic, numa_calls) {
    uint64_t hits[19] = {0};
    double share[19];
    const bench_log_t *run = BENCH_LOG("numa", "--threads=2", "--rounds=5000", "--passes=0",
                                       "--warmup=0", "--repetitions=1");
    uint32_t threads[BENCH_LOG_THREADS];
    cr_assert_eq(threads_with(run, 5000, threads), 2);
    for (size_t i = 0; i < 2; i++) {
        const calls_t *calls = calls_of(run, threads[i]);
        cr_assert_eq(calls->count, 2 * 5000);
        for (size_t at = 0; at < calls->count; at += 2) {
            unsigned power = (unsigned)__builtin_ctzll(calls->record[at]->size | UINT64_C(1) << 63);
            cr_assert(is(calls->record[at], COUNTING_MALLOC, UINT64_C(1) << power));
            cr_assert(power >= 6 && power < 6 + 19);
            hits[power - 6]++;
            cr_assert(is(calls->record[at + 1], COUNTING_FREE, 0));
            cr_assert_eq(calls->record[at]->block, calls->record[at + 1]->block);
        }
    }
    for (size_t i = 0; i < 19; i++)
        share[i] = 1.0 / 19;
    check_fit(hits, share, 19, 1);
    cr_assert_eq(run->wrong + run->left, 0);
}

/* One more repetition, which asks where the pages are, where there are passes. */
Test(bench_classic, numa_placement_is_a_repetition_of_its_own) {
    const bench_log_t *run = BENCH_LOG("numa", "--threads=2", "--rounds=20", "--passes=1",
                                       "--max-log2=16", "--warmup=0", "--repetitions=1");
    cr_assert_eq(run->all.allocations, 2 * 20 * 2);
}

/* ---- Seeds and knobs --------------------------------------------------------------------------
 */

Test(bench_classic, the_seed_decides_the_calls) {
    static char *const each[][5] = {
        {"shbench", "--operations=5000", "--slots=50", "--warmup=0", "--repetitions=2"},
        {"larson", "--generations=2", "--operations=500", "--warmup=0", "--repetitions=2"},
        {"larson-sized", "--generations=2", "--operations=500", "--warmup=0", "--repetitions=2"},
        {"numa", "--rounds=50", "--max-log2=18", "--passes=0", "--repetitions=1"},
        {"memory", "--objects=500", "--round=100", "--snapshot=1000", "--repetitions=1"},
    };
    for (size_t i = 0; i < NA_COUNT(each); i++) {
        uint64_t sum[3];
        for (size_t run = 0; run < 3; run++)
            sum[run] =
                bench_log_fingerprint(BENCH_LOG(each[i][0], each[i][1], each[i][2], each[i][3],
                                                each[i][4], run < 2 ? "--seed=5" : "--seed=6"));
        cr_assert_eq(sum[0], sum[1], "%s: another sequence for the same seed", each[i][0]);
        cr_assert_neq(sum[0], sum[2], "%s: the same sequence for another seed", each[i][0]);
    }
}

static char *const with_threads[] = {"churn", "speed", "threadtest", "shbench", "larson", "numa"};
static char *const with_two[] = {"thrash", "scratch", "handoff", "handoff-mixed"};

Test(bench_classic, bad_knobs_are_refused) {
    for (size_t i = 0; i < NA_COUNT(with_threads); i++)
        REFUSED(with_threads[i], "--threads takes a whole number from 1", "--threads=0");
    for (size_t i = 0; i < NA_COUNT(with_two); i++)
        REFUSED(with_two[i], "--threads takes a whole number from 2", "--threads=1");
    REFUSED("memory", "--producers takes a whole number from 1", "--producers=0");
    REFUSED("memory", "--consumers takes a whole number from 1", "--consumers=0");
    REFUSED("memory", "--min (64) must not be above --max (32)", "--min=64", "--max=32");
    REFUSED("memory", "must not be above --objects", "--free-start=11", "--objects=10");
    REFUSED("memory", "cannot write --series", "--series=/nowhere/file");
    REFUSED("churn", "--min (64) must not be above --max (32)", "--min=64", "--max=32");
    REFUSED("speed", "--min (64) must not be above --max (32)", "--min=64", "--max=32");
    REFUSED("shbench", "--min (64) must not be above --max (32)", "--min=64", "--max=32");
    REFUSED("larson", "--min (64) must not be above --max (32)", "--min=64", "--max=32");
    REFUSED("numa", "--min-log2 (9) must not be above --max-log2 (8)", "--min-log2=9",
            "--max-log2=8");
    REFUSED("memory", "takes one of uniform|fisher", "--distribution=normal");
    REFUSED("shbench", "takes one of uniform|fisher", "--distribution=normal");
    REFUSED("larson", "takes one of uniform|fisher", "--distribution=normal");
}

Test(bench_classic, more_memory_than_there_is_is_refused) {
    REFUSED("churn", "GiB of memory", "--spots=268435456", "--max=1073741824");
    REFUSED("speed", "GiB of memory", "--objects=268435456", "--max=1073741824");
    REFUSED("thrash", "GiB of memory", "--size=1073741824", "--threads=1024");
    REFUSED("scratch", "GiB of memory", "--size=1073741824", "--threads=1024");
    REFUSED("memory", "GiB of memory", "--objects=4294967296", "--max=1073741824");
    REFUSED("threadtest", "GiB of memory", "--objects=4294967296", "--size=1073741824");
    REFUSED("shbench", "GiB of memory", "--slots=268435456", "--max=1073741824");
    REFUSED("larson", "GiB of memory", "--objects=268435456", "--max=1073741824");
    REFUSED("numa", "GiB of memory", "--max-log2=40", "--threads=1024");
}

/* One line, status 2, and nothing on standard output: nothing ran. */
Test(bench_classic, a_bad_knob_ends_the_program_with_2) {
    for (size_t i = 0; i < NA_COUNT(with_threads); i++) {
        char *argv[] = {(char *)(uintptr_t)BENCH_PROGRAM, with_threads[i], "--threads", "0", NULL};
        child_result_t result;
        child_run(&result, argv, NULL, NULL, NULL);
        cr_assert(child_exited(&result, 2));
        cr_assert_str_eq(result.out, "");
        cr_assert_eq(strchr(result.err, '\n'), result.err + strlen(result.err) - 1);
    }
}

/* What the sources say where they give a number. */
Test(bench_classic, defaults_are_those_of_the_sources) {
    static const struct {
        const char *bench, *knob;
        uint64_t value;
    } defaults[] = {
        {"threadtest", "objects", 100000},
        {"threadtest", "size", 8},
        {"larson", "objects", 10000},
        {"numa", "min-log2", 6},
        {"numa", "max-log2", 24},
        {"numa", "passes", 10},
        {"numa", "stride", 64},
    };
    for (size_t i = 0; i < NA_COUNT(defaults); i++) {
        const na_bench_t *bench = na_bench_find(defaults[i].bench);
        size_t at = 0;
        while (at < bench->knob_count && strcmp(bench->knobs[at].name, defaults[i].knob) != 0)
            at++;
        cr_assert_lt(at, bench->knob_count);
        cr_assert_eq(bench->knobs[at].def, defaults[i].value, "%s --%s", bench->name,
                     defaults[i].knob);
    }
}
