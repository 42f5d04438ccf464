/* test_bench_handoff.c - handoff.c: what it calls, by the log of a counting allocator: how
 * many objects of which sizes, who allocates and who frees them, and in which order. */
#include "support/bench_log.h"

#include "bench/load/sizes.h"

#include <criterion/criterion.h>

/* 1000 objects in batches of 16: 62 whole ones. Consumer c of 3 has the batches k % 3 = c. */
#define BATCHES 62
#define OBJECTS (UINT64_C(16) * BATCHES)
#define RUNS    3 /* a warm-up and two repetitions */

#define HANDOFF(...)                                                                               \
    BENCH_LOG("handoff", "--producers=2", "--consumers=3", "--objects=1000", "--batch=16",         \
              "--repetitions=2", "--warmup=1", __VA_ARGS__)

/* The sizes of producer p's objects in one run, as the suite's definition has them. */
static void expected_sizes(uint64_t seed, uint64_t p, uint32_t *out) {
    const na_sizes_t sizes = {NA_DISTRIBUTION_FISHER, 16, 512, 16};
    na_prng_t prng = na_prng_make(seed, 1 + p);
    na_sizes_fill(&sizes, &prng, out, 4096);
}

Test(bench_handoff, consumers_only_free) {
    const bench_log_t *run =
        HANDOFF("--mode=free-only", "--distribution=fisher", "--seed=5", "--pin=off");
    uint64_t seen[3] = {0}, producers = 0;
    cr_assert_eq(run->all.allocations, 2 * OBJECTS * RUNS);
    cr_assert_eq(run->all.frees, 2 * OBJECTS * RUNS);
    cr_assert_eq(run->all.foreign_frees, 2 * OBJECTS * RUNS);
    cr_assert_eq(run->left, 0);
    cr_assert_eq(run->wrong, 0);
    for (uint32_t t = 0; t < BENCH_LOG_THREADS; t++) {
        const bench_log_tally_t *tally = &run->by_thread[t];
        if (tally->allocations != 0) {
            cr_assert_eq(tally->allocations, OBJECTS * RUNS);
            cr_assert_eq(tally->frees, 0);
            producers++;
            /* Its sizes are those of one of the two streams, in order, in every run. */
            uint32_t expected[2][4096];
            uint64_t number = 0;
            bool may_be[2] = {true, true};
            expected_sizes(5, 0, expected[0]);
            expected_sizes(5, 1, expected[1]);
            for (uint64_t i = 0; i < run->count; i++) {
                const counting_record_t *record = &run->log->record[i];
                if (!record->program || record->thread != t) continue;
                for (size_t p = 0; p < 2; p++)
                    may_be[p] &= record->size == expected[p][number % OBJECTS];
                number++;
            }
            cr_assert(may_be[0] != may_be[1]);
        } else if (tally->frees != 0) {
            uint64_t batches = tally->frees / (RUNS * 2 * 16);
            cr_assert(tally->frees % (RUNS * 2 * 16) == 0 && batches >= 20 && batches <= 21);
            seen[batches == 20]++;
        }
    }
    cr_assert_eq(producers, 2);
    cr_assert(seen[0] == 2 && seen[1] == 1); /* 21 + 21 + 20 */
}

/* As many objects of their own, of the same sizes, which they free themselves. */
Test(bench_handoff, plain_consumers_allocate_too) {
    const bench_log_t *run = HANDOFF("--mode=plain");
    cr_assert_eq(run->all.allocations, 4 * OBJECTS * RUNS);
    cr_assert_eq(run->all.frees, 4 * OBJECTS * RUNS);
    cr_assert_eq(run->all.foreign_frees, 2 * OBJECTS * RUNS);
    cr_assert_eq(run->left, 0);
    cr_assert_eq(run->wrong, 0);
    uint64_t given = 0, own = 0;
    for (uint32_t t = 0; t < BENCH_LOG_THREADS; t++) {
        const bench_log_tally_t *tally = &run->by_thread[t];
        if (tally->frees == 0)
            given += tally->bytes;
        else
            own += tally->bytes;
    }
    cr_assert_eq(given, own);
}

/* Everything is allocated before the first object is freed: nobody wakes the owners meanwhile. */
Test(bench_handoff, owners_sleep_while_others_free) {
    const bench_log_t *run = HANDOFF("--mode=sleep");
    uint64_t number = 0;
    for (uint64_t i = 0; i < run->count; i++) {
        const counting_record_t *record = &run->log->record[i];
        if (!record->program) continue;
        bool frees = number++ / (2 * OBJECTS) % 2 == 1;
        cr_assert_eq(record->kind, frees ? COUNTING_FREE : COUNTING_MALLOC, "call %llu",
                     (unsigned long long)number);
    }
    cr_assert_eq(number, 2 * 2 * OBJECTS * RUNS);
    cr_assert_eq(run->all.foreign_frees, 2 * OBJECTS * RUNS);
}

/* A producer is not further ahead than the window. */
Test(bench_handoff, window_bounds_what_is_live) {
    const bench_log_t *run = HANDOFF("--mode=free-only", "--window=2", "--min=64", "--max=64");
    cr_assert_leq(run->peak_bytes, 2 * 2 * 16 * 64);
    cr_assert_geq(run->peak_bytes, 16 * 64);
    cr_assert_eq(run->left, 0);
}

Test(bench_handoff, all_modes_and_batches_by_default) {
    const bench_log_t *run =
        BENCH_LOG("handoff", "--threads=2", "--objects=1000", "--repetitions=1", "--warmup=0");
    uint64_t objects = 1000 + 62 * 16 + 3 * 256;
    cr_assert_eq(run->all.allocations, 4 * objects); /* plain has them twice */
    cr_assert_eq(run->all.foreign_frees, 3 * objects);
    cr_assert_eq(run->left, 0);
}

Test(bench_handoff, same_seed_same_calls) {
    uint64_t first = bench_log_fingerprint(HANDOFF("--mode=plain", "--seed=9"));
    cr_assert_eq(bench_log_fingerprint(HANDOFF("--mode=plain", "--seed=9")), first);
    cr_assert_neq(bench_log_fingerprint(HANDOFF("--mode=plain", "--seed=10")), first);
}
