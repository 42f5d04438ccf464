/* test_bench_lives.c - turnover.c, threads.c and latency.c: what they call, by the log of a
 * counting allocator; and that latency finds a delay which was put into an allocator on purpose. */
#include "support/bench_log.h"

#include <criterion/criterion.h>

#define TURNOVER(...)                                                                              \
    BENCH_LOG("turnover", "--threads=3", "--spots=40", "--objects=25", "--generations=4",          \
              "--repetitions=2", "--warmup=1", __VA_ARGS__)

/* 12 generations of 3 threads; the main thread fills and clears the lanes. */
Test(bench_lives, turnover_replaces_in_short_lives) {
    const bench_log_t *run = TURNOVER("--min=64", "--max=64");
    bool freed_last[BENCH_LOG_THREADS] = {false};
    unsigned workers = 0;
    cr_assert_eq(run->all.allocations, 3 * 40 + 12 * 3 * 25);
    cr_assert_eq(run->all.frees, run->all.allocations);
    cr_assert_eq(run->left, 0);
    cr_assert_eq(run->wrong, 0);
    cr_assert_eq(run->peak_bytes, 3 * 40 * 64); /* never more than the spots */
    for (uint32_t t = 0; t < BENCH_LOG_THREADS; t++) {
        const bench_log_tally_t *tally = &run->by_thread[t];
        if (tally->allocations == 0) continue;
        if (tally->allocations == 3 * 40) { /* the main thread */
            cr_assert_eq(tally->frees, 3 * 40);
            continue;
        }
        cr_assert(tally->allocations == 25 && tally->frees == 25);
        workers++;
    }
    cr_assert_eq(workers, 36);
    /* Each worker frees, allocates, frees, ... */
    uint64_t number = 0;
    for (uint64_t i = 0; i < run->count; i++) {
        const counting_record_t *record = &run->log->record[i];
        if (!record->program || number++ < 3 * 40) continue;
        if (number > 3 * 40 + 2 * 36 * 25) {
            cr_assert_eq(record->kind, COUNTING_FREE);
            continue;
        }
        cr_assert_eq(record->kind, freed_last[record->thread] ? COUNTING_MALLOC : COUNTING_FREE);
        freed_last[record->thread] = !freed_last[record->thread];
    }
    /* A thread's own block comes back to it only where it draws a spot twice. */
    cr_assert_gt(run->all.foreign_frees * 10, run->all.frees * 6);
}

/* A thread works on one lane, and a lane has one thread in each generation. */
Test(bench_lives, turnover_one_lane_a_life) {
    const bench_log_t *run = TURNOVER("--seed=8");
    uint64_t block[120], number = 0;
    unsigned place_of[BENCH_LOG_THREADS] = {0};                /* the spot that it has just freed */
    unsigned lane_of[BENCH_LOG_THREADS] = {0}, lives[3] = {0}; /* lane + 1; 0: not known yet */
    for (uint64_t i = 0; i < run->count && number < 120 + 2 * 36 * 25; i++) {
        const counting_record_t *record = &run->log->record[i];
        if (!record->program) continue;
        if (number++ < 120) {
            block[number - 1] = record->block;
        } else if (record->kind == COUNTING_FREE) {
            unsigned place = 0;
            while (place < 120 && block[place] != record->block)
                place++;
            cr_assert_lt(place, 120);
            unsigned *lane = &lane_of[record->thread];
            if (*lane == 0) {
                *lane = place / 40 + 1;
                lives[place / 40]++;
            }
            cr_assert_eq(*lane, place / 40 + 1);
            place_of[record->thread] = place;
            block[place] = 0;
        } else {
            block[place_of[record->thread]] = record->block;
        }
    }
    cr_assert_eq(number, 120 + 2 * 36 * 25);
    cr_assert(lives[0] == 12 && lives[1] == 12 && lives[2] == 12);
}

Test(bench_lives, turnover_same_seed_same_calls) {
    uint64_t first = bench_log_fingerprint(TURNOVER("--seed=3"));
    cr_assert_eq(bench_log_fingerprint(TURNOVER("--seed=3")), first);
    cr_assert_neq(bench_log_fingerprint(TURNOVER("--seed=4")), first);
}

/* (1 warm-up + 2 repetitions) * 2 creators * 5 threads, each with 7 objects, freed in order. */
Test(bench_lives, threads_allocate_a_little_and_end) {
    const bench_log_t *run = BENCH_LOG("threads", "--threads=2", "--rounds=5", "--objects=7",
                                       "--repetitions=2", "--warmup=1");
    uint64_t block[BENCH_LOG_THREADS][7];
    unsigned calls[BENCH_LOG_THREADS] = {0}, lives = 0;
    cr_assert_eq(run->all.allocations, 3 * 2 * 5 * 7);
    cr_assert_eq(run->all.frees, 3 * 2 * 5 * 7);
    cr_assert_eq(run->all.foreign_frees, 0);
    cr_assert_eq(run->left, 0);
    for (uint64_t i = 0; i < run->count; i++) {
        const counting_record_t *record = &run->log->record[i];
        if (!record->program) continue;
        unsigned call = calls[record->thread]++;
        lives += call == 0;
        cr_assert_lt(call, 14);
        cr_assert_eq(record->kind, call < 7 ? COUNTING_MALLOC : COUNTING_FREE);
        if (call < 7)
            block[record->thread][call] = record->block;
        else
            cr_assert_eq(record->block, block[record->thread][call - 7]);
    }
    cr_assert_eq(lives, 30);
}

Test(bench_lives, threads_same_seed_same_calls) {
#define THREADS(seed) BENCH_LOG("threads", "--threads=2", "--rounds=5", "--repetitions=1", seed)
    uint64_t first = bench_log_fingerprint(THREADS("--seed=1"));
    cr_assert_eq(bench_log_fingerprint(THREADS("--seed=1")), first);
    cr_assert_neq(bench_log_fingerprint(THREADS("--seed=2")), first);
}

#define LATENCY(...)                                                                               \
    BENCH_LOG("latency", "--threads=2", "--spots=30", "--objects=100", "--repetitions=2",          \
              "--warmup=1", __VA_ARGS__)

Test(bench_lives, latency_churns) {
    const bench_log_t *run = LATENCY("--min=32", "--max=32");
    bool freed_last[BENCH_LOG_THREADS] = {false};
    uint64_t number = 0, churned = 2 * 3 * 100;
    cr_assert_eq(run->all.allocations, 2 * 30 + churned);
    cr_assert_eq(run->all.frees, run->all.allocations);
    cr_assert_eq(run->left, 0);
    cr_assert_eq(run->wrong, 0);
    cr_assert_eq(run->peak_bytes, 2 * 30 * 32);
    for (uint64_t i = 0; i < run->count; i++) {
        const counting_record_t *record = &run->log->record[i];
        if (!record->program || number++ < 60 || number > 60 + 2 * churned) continue;
        cr_assert_eq(record->kind, freed_last[record->thread] ? COUNTING_MALLOC : COUNTING_FREE);
        freed_last[record->thread] = !freed_last[record->thread];
    }
    uint64_t first = bench_log_fingerprint(LATENCY("--seed=1"));
    cr_assert_eq(bench_log_fingerprint(LATENCY("--seed=1")), first);
    cr_assert_neq(bench_log_fingerprint(LATENCY("--seed=2")), first);
}

/* The median that `numalloc-bench --tsv` gives for a metric. */
static double tsv_median(const char *text, const char *name) {
    char wanted[64];
    snprintf(wanted, sizeof wanted, "\t%s\t", name);
    const char *line = strstr(text, wanted);
    cr_assert(line != NULL, "no metric '%s'", name);
    size_t length = strcspn(line, "\n");
    while (line[length - 1] != '\t')
        length--;
    return strtod(line + length, NULL);
}

/* One malloc in fifty takes 50 us longer: the 99th percentile must say so, the median and free must
 * not, and nothing may be added to what was put in. */
Test(bench_lives, latency_finds_a_delay_made_on_purpose) {
    static char preload[PATH_MAX + 32];
    char *argv[] = {(char *)(uintptr_t)BENCH_PROGRAM,
                    "latency",
                    "--threads=1",
                    "--objects=10000",
                    "--repetitions=5",
                    "--tsv",
                    NULL};
    const char *env[] = {preload, "NA_COUNTING_SLOW=50 50000", NULL};
    static child_result_t child;
    snprintf(preload, sizeof preload, "LD_PRELOAD=%s", BENCH_COUNTING);
    child_run(&child, argv, env, NULL, NULL);
    cr_assert(child_exited(&child, 0), "%s", child.err);
    double p99 = tsv_median(child.out, "malloc p99");
    cr_assert(p99 > 49000 && p99 < 75000, "p99 %f", p99);
    cr_assert_lt(tsv_median(child.out, "malloc p50"), 5000);
    cr_assert_lt(tsv_median(child.out, "free p99"), 25000);
    cr_assert_geq(tsv_median(child.out, "malloc max"), 49000);
}

/* Bad knobs end the program itself with status 2 and one line, before anything runs. */
Test(bench_lives, bad_knobs_end_with_status_2) {
    static char *const knobs[][2] = {
        {"turnover", "--threads=0"}, {"threads", "--min=2000"}, {"latency", "--touch=maybe"}};
    for (size_t i = 0; i < sizeof knobs / sizeof knobs[0]; i++) {
        static child_result_t child;
        char *argv[] = {(char *)(uintptr_t)BENCH_PROGRAM, knobs[i][0], knobs[i][1], NULL};
        child_run(&child, argv, NULL, NULL, NULL);
        cr_assert(child_exited(&child, 2), "%s %s", knobs[i][0], knobs[i][1]);
        cr_assert_eq(strlen(child.out), 0);
        cr_assert_eq(strchr(child.err, '\n'), child.err + strlen(child.err) - 1);
    }
}
