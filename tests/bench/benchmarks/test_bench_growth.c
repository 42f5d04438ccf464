/* test_bench_growth.c - fragment.c, realloc.c, large.c and growth.c: what they call, by the log of
 * a counting allocator: the sequence of calls phase by phase, and the sizes against their
 * definitions. */
#include "support/bench_log.h"

#include <criterion/criterion.h>

/* The program's own records, one after the other; NULL at the end. */
typedef struct reader {
    const bench_log_t *run;
    uint64_t at;
} reader_t;

static const counting_record_t *next(reader_t *reader) {
    while (reader->at < reader->run->count) {
        const counting_record_t *record = &reader->run->log->record[reader->at++];
        if (record->program && record->kind != COUNTING_REALLOC_BEGIN) return record;
    }
    return NULL;
}

static const counting_record_t *next_of(reader_t *reader, counting_kind_t kind) {
    const counting_record_t *record = next(reader);
    cr_assert(record != NULL && record->kind == kind, "at record %llu",
              (unsigned long long)reader->at);
    return record;
}

/* Of counts that are equally likely. */
static double chi_square(const uint64_t *counts, size_t bins) {
    double sum = 0, expected, total = 0;
    for (size_t i = 0; i < bins; i++)
        total += (double)counts[i];
    expected = total / (double)bins;
    cr_assert_gt(expected, 5);
    for (size_t i = 0; i < bins; i++)
        sum += ((double)counts[i] - expected) * ((double)counts[i] - expected) / expected;
    return sum;
}

/* ---- fragment ---------------------------------------------------------------------------------
 */

#define QUOTA UINT64_C(65536)

#define FRAGMENT(...)                                                                              \
    BENCH_LOG("fragment", "--threads=1", "--phases=3", "--live=64", "--churn=2", "--survivors=10", \
              "--quiet=0", "--min=16", "--max=1024", __VA_ARGS__)

/* One phase: fill, churn, drop. Returns how many objects survive it. */
static uint64_t fragment_phase(reader_t *reader, uint64_t low, uint64_t high, uint64_t *bins) {
    uint64_t bytes = 0, objects = 0;
    const counting_record_t *record;
    while (bytes < QUOTA) {
        record = next_of(reader, COUNTING_MALLOC);
        cr_assert(record->size >= low && record->size <= high);
        bytes += record->size;
        objects++;
        if (bins != NULL) bins[record->size - low]++;
    }
    for (uint64_t i = 0; i < 2 * objects; i++) {
        next_of(reader, COUNTING_FREE);
        record = next_of(reader, COUNTING_MALLOC);
        cr_assert(record->size >= low && record->size <= high);
        if (bins != NULL) bins[record->size - low]++;
    }
    for (uint64_t i = objects / 10; i < objects; i++)
        next_of(reader, COUNTING_FREE);
    return objects / 10;
}

Test(bench_growth, fragment_phase_by_phase) {
    const bench_log_t *run = FRAGMENT("--repetitions=2", "--seed=11");
    reader_t reader = {run, 0};
    uint64_t bins[48] = {0};
    for (unsigned r = 0; r < 2; r++) {
        uint64_t survivors = fragment_phase(&reader, 16, 63, r == 0 ? bins : NULL);
        survivors += fragment_phase(&reader, 64, 255, NULL);
        survivors += fragment_phase(&reader, 256, 1024, NULL);
        for (uint64_t i = 0; i < survivors; i++)
            next_of(&reader, COUNTING_FREE);
    }
    cr_assert(next(&reader) == NULL);
    cr_assert_eq(run->left, 0);
    cr_assert_eq(run->wrong, 0);
    /* 47 degrees of freedom: 0.01 % of fair draws are above 93; the seed is fixed. */
    double x = chi_square(bins, 48);
    cr_assert(x > 15 && x < 93, "chi-square %f", x);
}

Test(bench_growth, fragment_same_seed_same_calls) {
    uint64_t first = bench_log_fingerprint(FRAGMENT("--repetitions=1", "--seed=1"));
    cr_assert_eq(bench_log_fingerprint(FRAGMENT("--repetitions=1", "--seed=1")), first);
    cr_assert_neq(bench_log_fingerprint(FRAGMENT("--repetitions=1", "--seed=2")), first);
}

/* ---- realloc ----------------------------------------------------------------------------------
 */

/* 10 vectors of 16 elements, 4 side by side: 32, 64, 128 bytes, and freed when complete. */
Test(bench_growth, vectors_double_side_by_side) {
    const bench_log_t *run =
        BENCH_LOG("realloc", "--threads=1", "--kind=vectors", "--vectors=10", "--width=4",
                  "--elements=16", "--repetitions=2", "--warmup=1");
    reader_t reader = {run, 0};
    for (unsigned r = 0; r < 3; r++) {
        for (unsigned begun = 0; begun < 10; begun += 4) {
            unsigned width = begun + 4 <= 10 ? 4 : 10 - begun;
            uint64_t block[4] = {0};
            for (unsigned size = 32; size <= 128; size *= 2) {
                for (unsigned i = 0; i < width; i++) {
                    const counting_record_t *record = next_of(&reader, COUNTING_REALLOC);
                    cr_assert_eq(record->size, size);
                    cr_assert_eq(record->old, block[i]);
                    block[i] = record->block;
                    if (size == 128) cr_assert_eq(next_of(&reader, COUNTING_FREE)->block, block[i]);
                }
            }
        }
    }
    cr_assert(next(&reader) == NULL);
    cr_assert_eq(run->all.allocations, 3 * 10);
    cr_assert_eq(run->all.reallocs, 3 * 20);
    cr_assert_eq(run->left, 0);
    cr_assert_eq(run->wrong, 0);
}

/* Pieces of 1 to 64 bytes, equally likely; the last one is cut at the length. Fewer pieces than the
 * table has, so that none counts twice. */
Test(bench_growth, strings_grow_by_pieces) {
    const bench_log_t *run =
        BENCH_LOG("realloc", "--threads=1", "--kind=strings", "--strings=2", "--width=1",
                  "--length=60000", "--repetitions=1", "--warmup=0", "--seed=4");
    reader_t reader = {run, 0};
    uint64_t bins[64] = {0};
    for (unsigned s = 0; s < 2; s++) {
        uint64_t length = 0;
        while (length < 60000) {
            const counting_record_t *record = next_of(&reader, COUNTING_REALLOC);
            cr_assert(record->size > length && record->size <= length + 64);
            cr_assert_eq(record->old == 0, length == 0);
            if (record->size < 60000) bins[record->size - length - 1]++;
            length = record->size;
        }
        cr_assert_eq(length, 60000);
        next_of(&reader, COUNTING_FREE);
    }
    cr_assert(next(&reader) == NULL);
    double x = chi_square(bins, 64); /* 63 degrees of freedom */
    cr_assert(x > 25 && x < 115, "chi-square %f", x);
}

Test(bench_growth, arrays_grow_by_a_quarter) {
    const bench_log_t *run =
        BENCH_LOG("realloc", "--threads=1", "--kind=arrays", "--arrays=3", "--width=1",
                  "--array=1000", "--repetitions=1", "--warmup=0");
    reader_t reader = {run, 0};
    for (unsigned a = 0; a < 3; a++) {
        uint64_t size = next_of(&reader, COUNTING_REALLOC)->size;
        cr_assert_eq(size, 65536);
        while (size < 1000 * 1024) {
            uint64_t grown = next_of(&reader, COUNTING_REALLOC)->size;
            if (grown < 1000 * 1024) {
                cr_assert_eq(grown % 4096, 0);
                cr_assert(4 * grown >= 5 * size && 4 * grown < 5 * size + 4 * 4096);
            }
            size = grown;
        }
        cr_assert_eq(size, 1000 * 1024);
        next_of(&reader, COUNTING_FREE);
    }
    cr_assert(next(&reader) == NULL);
}

/* A share of the numbers of things, each rounded down, but none to nothing. */
Test(bench_growth, realloc_grows_a_share) {
    const bench_log_t *run =
        BENCH_LOG("realloc", "--threads=1", "--vectors=10", "--strings=7", "--arrays=1",
                  "--array=64", "--share=50", "--repetitions=1", "--warmup=0");
    cr_assert_eq(run->all.allocations, 5 + 3 + 1);
    cr_assert_eq(run->left, 0);
}

Test(bench_growth, realloc_same_seed_same_calls) {
#define REALLOC(seed)                                                                              \
    BENCH_LOG("realloc", "--threads=2", "--vectors=20", "--strings=20", "--arrays=1",              \
              "--array=256", "--repetitions=1", seed)
    uint64_t first = bench_log_fingerprint(REALLOC("--seed=1"));
    cr_assert_eq(bench_log_fingerprint(REALLOC("--seed=1")), first);
    cr_assert_neq(bench_log_fingerprint(REALLOC("--seed=2")), first);
}

/* ---- large ------------------------------------------------------------------------------------
 */

Test(bench_growth, large_frees_the_oldest_until_it_fits) {
    const bench_log_t *run = BENCH_LOG("large", "--threads=1", "--objects=60", "--live=1024",
                                       "--max=1048576", "--repetitions=2", "--warmup=1");
    reader_t reader = {run, 0};
    for (unsigned r = 0; r < 3; r++) {
        uint64_t block[60], size[60], live = 0;
        unsigned oldest = 0, got = 0;
        const counting_record_t *record;
        while (got < 60) {
            record = next(&reader);
            cr_assert(record != NULL);
            if (record->kind == COUNTING_FREE) {
                /* Only as many as need be: what follows would not have fitted. */
                cr_assert(oldest < got && record->block == block[oldest]);
                live -= size[oldest++];
                reader_t ahead = reader;
                const counting_record_t *then = next(&ahead);
                while (then != NULL && then->kind == COUNTING_FREE)
                    then = next(&ahead);
                cr_assert(then != NULL);
                cr_assert_gt(live + size[oldest - 1] + then->size, 1024 * 1024);
                continue;
            }
            cr_assert_eq(record->kind, COUNTING_MALLOC);
            cr_assert(record->size >= 65536 && record->size <= 1048576);
            block[got] = record->block;
            size[got++] = record->size;
            live += record->size;
            cr_assert_leq(live, 1024 * 1024);
        }
        while (oldest < 60)
            cr_assert_eq(next_of(&reader, COUNTING_FREE)->block, block[oldest++]);
    }
    cr_assert(next(&reader) == NULL);
    cr_assert_eq(run->left, 0);
}

/* As many in each power of two, and evenly within one; calloc where it is asked for. */
Test(bench_growth, large_sizes_are_even_over_powers) {
    const bench_log_t *run =
        BENCH_LOG("large", "--threads=1", "--objects=4000", "--min=1024", "--max=16384",
                  "--live=64", "--call=calloc", "--repetitions=1", "--warmup=0", "--seed=2");
    reader_t reader = {run, 0};
    const counting_record_t *record;
    uint64_t powers[4] = {0}, parts[16] = {0};
    while ((record = next(&reader)) != NULL) {
        if (record->kind == COUNTING_FREE) continue;
        cr_assert_eq(record->kind, COUNTING_CALLOC);
        cr_assert(record->size >= 1024 && record->size <= 16384);
        unsigned power =
            record->size == 16384 ? 3 : 63 - (unsigned)__builtin_clzll(record->size) - 10;
        powers[power]++;
        uint64_t part = (record->size - (UINT64_C(1024) << power)) * 16 / (UINT64_C(1024) << power);
        parts[part < 16 ? part : 15]++;
    }
    cr_assert_eq(powers[0] + powers[1] + powers[2] + powers[3], 4000);
    double x = chi_square(powers, 4), y = chi_square(parts, 16);
    cr_assert(x < 21 && y < 45, "chi-square %f, %f", x, y);
    cr_assert_leq(run->peak_bytes, 64 * 1024);
}

Test(bench_growth, large_same_seed_same_calls) {
#define LARGE(seed)                                                                                \
    BENCH_LOG("large", "--threads=2", "--objects=20", "--max=1048576", "--repetitions=1", seed)
    uint64_t first = bench_log_fingerprint(LARGE("--seed=1"));
    cr_assert_eq(bench_log_fingerprint(LARGE("--seed=1")), first);
    cr_assert_neq(bench_log_fingerprint(LARGE("--seed=2")), first);
}

/* ---- growth -----------------------------------------------------------------------------------
 */

/* Three times (a warm-up and two repetitions) 100 pairs: what is freed is live, and replaced. */
static void churn_of(reader_t *reader, uint32_t thread) {
    for (unsigned i = 0; i < 300; i++) {
        cr_assert_eq(next_of(reader, COUNTING_FREE)->thread, thread);
        cr_assert_eq(next_of(reader, COUNTING_MALLOC)->thread, thread);
    }
}

/* The heap is filled from one step to the next, and all of it is churned. */
Test(bench_growth, growth_fills_up_step_by_step) {
    const bench_log_t *run =
        BENCH_LOG("growth", "--live=1,2,4", "--idle-threads=none", "--min=1024", "--max=1024",
                  "--pairs=100", "--repetitions=2", "--warmup=1");
    reader_t reader = {run, 0};
    uint32_t thread = 0;
    for (unsigned mib = 1, filled = 0; mib <= 4; mib *= 2) {
        for (; filled < 1024 * mib; filled++) {
            const counting_record_t *record = next_of(&reader, COUNTING_MALLOC);
            cr_assert_eq(record->size, 1024);
            if (filled == 0) thread = record->thread;
            cr_assert_eq(record->thread, thread);
        }
        churn_of(&reader, thread);
    }
    for (unsigned i = 0; i < 4096; i++)
        next_of(&reader, COUNTING_FREE);
    cr_assert(next(&reader) == NULL);
    cr_assert_eq(run->left, 0);
    cr_assert_eq(run->wrong, 0);
    cr_assert_eq(run->peak_bytes, UINT64_C(4) << 20);
}

/* 3 and then 5 threads, of 7 objects each, of which 3 stay while another thread churns 1 MiB. */
Test(bench_growth, growth_idle_threads_hold_their_objects) {
    const bench_log_t *run =
        BENCH_LOG("growth", "--live=none", "--idle-threads=3,5", "--objects=7", "--min=512",
                  "--max=512", "--pairs=100", "--repetitions=2", "--warmup=1");
    uint64_t idle = 0, frees = 0, churned = 0;
    uint64_t held[BENCH_LOG_THREADS] = {0}, holding = 0;
    for (uint32_t t = 0; t < BENCH_LOG_THREADS; t++) {
        const bench_log_tally_t *tally = &run->by_thread[t];
        if (tally->allocations == 0) continue;
        cr_assert(tally->allocations == 7 || tally->allocations == 2048 + 600);
        cr_assert_eq(tally->frees, tally->allocations);
        cr_assert_eq(tally->foreign_frees, 0);
        idle += tally->allocations == 7;
    }
    cr_assert_eq(idle, 5);
    for (uint64_t i = 0; i < run->count; i++) {
        const counting_record_t *record = &run->log->record[i];
        if (!record->program) continue;
        bool frees_one = record->kind == COUNTING_FREE;
        if (run->by_thread[record->thread].allocations == 7) {
            held[record->thread] += frees_one ? (uint64_t)-1 : 1;
            holding += frees_one ? (uint64_t)-1 : 1;
        } else if (frees_one && frees++ < 600) { /* a churning pair: 300 beside 3, 300 beside 5 */
            cr_assert_eq(holding, 3u * (churned++ < 300 ? 3 : 5));
        }
    }
    for (uint32_t t = 0; t < BENCH_LOG_THREADS; t++)
        cr_assert_eq(held[t], 0);
    cr_assert_eq(run->left, 0);
    cr_assert_eq(run->wrong, 0);
}

Test(bench_growth, growth_same_seed_same_calls) {
#define GROWTH(seed)                                                                               \
    BENCH_LOG("growth", "--live=1,2", "--idle-threads=2,4", "--pairs=500", "--repetitions=1", seed)
    uint64_t first = bench_log_fingerprint(GROWTH("--seed=1"));
    cr_assert_eq(bench_log_fingerprint(GROWTH("--seed=1")), first);
    cr_assert_neq(bench_log_fingerprint(GROWTH("--seed=2")), first);
}
