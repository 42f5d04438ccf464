/* test_bench_patterns.c - the benchmarks of programs' patterns (handoff.c, turnover.c, fragment.c,
 * realloc.c, large.c, threads.c, latency.c, growth.c) run small inside the test: every metric has
 * its samples, figures agree with each other, bad knobs are refused; and the histogram of
 * latencies. */
#include "tests/support/bench_small.h"

#include "bench/load/prng.h"
#include "bench/measure/histogram.h"
#include "bench/measure/stats.h"

#include <math.h>
#include <stdlib.h>

Test(bench_patterns, handoff_reports_each_mode_and_batch) {
    const na_result_t *result =
        RUN("handoff", "--threads=3", "--objects=2000", "--repetitions=3", "--pin=off");
    static const char *const modes[] = {"plain", "free-only", "sleep"};
    static const unsigned batches[] = {1, 16, 256};
    for (size_t m = 0; m < NA_COUNT(modes); m++) {
        for (size_t b = 0; b < NA_COUNT(batches); b++) {
            char name[64];
            snprintf(name, sizeof name, "%s, batch %u", modes[m], batches[b]);
            const na_metric_t *time = metric_of(result, name);
            snprintf(name, sizeof name, "%s, batch %u: throughput", modes[m], batches[b]);
            const na_metric_t *rate = metric_of(result, name);
            cr_assert_eq(time->count, 3);
            for (size_t r = 0; r < 3; r++) {
                cr_assert_gt(time->samples[r], 0);
                cr_assert_float_eq(time->samples[r] * rate->samples[r], 1e3, 1e-6);
            }
            snprintf(name, sizeof name, "%s, batch %u: each producer", modes[m], batches[b]);
            cr_assert_eq(metric_of(result, name)->count, 3); /* one of three threads */
            snprintf(name, sizeof name, "%s, batch %u: each consumer", modes[m], batches[b]);
            cr_assert_eq(metric_of(result, name)->count, 6);
        }
    }
    metric_of(result, "sleep, batch 256: resident while owners sleep");
    /* The headline has all nine in it. */
    double sum = 0;
    for (size_t m = 0; m < NA_COUNT(modes); m++) {
        for (size_t b = 0; b < NA_COUNT(batches); b++) {
            char name[64];
            snprintf(name, sizeof name, "%s, batch %u", modes[m], batches[b]);
            sum += log(metric_of(result, name)->samples[1]);
        }
    }
    cr_assert_str_eq(na_bench_find("handoff")->headline, "handoff");
    cr_assert_float_eq(metric_of(result, "handoff")->samples[1], exp(sum / 9), 1e-6);
}

Test(bench_patterns, handoff_shares_out_its_threads) {
    static const struct {
        char *given[2];
        uint64_t producers, consumers;
    } cases[] = {
        {{"--threads=2", "--batch=4"}, 1, 1},     {{"--threads=3", "--batch=4"}, 1, 2},
        {{"--threads=5", "--batch=4"}, 2, 3},     {{"--threads=5", "--producers=4"}, 4, 1},
        {{"--threads=5", "--consumers=4"}, 1, 4}, {{"--producers=3", "--consumers=7"}, 3, 7},
    };
    for (size_t i = 0; i < NA_COUNT(cases); i++) {
        na_knobs_t knobs;
        char error[256];
        char *argv[] = {cases[i].given[0], cases[i].given[1], NULL};
        cr_assert(bench_small_knobs("handoff", argv, &knobs, error, sizeof error), "%s", error);
        for (size_t k = 0; k < knobs.count; k++) {
            uint64_t number = knobs.value[k].number;
            if (strcmp(knobs.table[k].name, "producers") == 0)
                cr_assert_eq(number, cases[i].producers);
            if (strcmp(knobs.table[k].name, "consumers") == 0)
                cr_assert_eq(number, cases[i].consumers);
            if (strcmp(knobs.table[k].name, "threads") == 0)
                cr_assert_eq(number, cases[i].producers + cases[i].consumers);
        }
    }
}

Test(bench_patterns, turnover_holds_resident_against_live) {
    static char *const lanes[] = {"cross", "stay"};
    for (size_t i = 0; i < NA_COUNT(lanes); i++) {
        const na_result_t *result =
            RUN("turnover", "--threads=3", "--spots=3000", "--objects=500", "--generations=4",
                "--repetitions=2", "--min=1024", "--max=1024", "--lanes", lanes[i]);
        cr_assert_eq(metric_of(result, "turnover")->count, 2);
        cr_assert_eq(metric_of(result, "throughput per thread")->count, 6);
        for (size_t r = 0; r < 2; r++) {
            /* 9 MB of blocks, of which the first byte is touched: they cannot be gone. (The
             * second run has the memory that the first one freed: it need not get any.) */
            if (i == 0) cr_assert_gt(metric_of(result, "resident over live")->samples[r], 0.5);
            cr_assert_gt(metric_of(result, "generation")->samples[r] * 1e3,
                         metric_of(result, "turnover")->samples[r] * 500);
        }
    }
}

/* What is live after each phase follows from the knobs, with any allocator. */
Test(bench_patterns, fragment_counts_live_bytes) {
    const na_result_t *result =
        RUN("fragment", "--threads=2", "--phases=4", "--live=4096", "--survivors=10", "--quiet=0",
            "--repetitions=2", "--min=16", "--max=4096");
    for (unsigned p = 0; p < 4; p++) {
        char name[64];
        snprintf(name, sizeof name, "phase %u dropped: live", p + 1);
        const na_metric_t *live = metric_of(result, name);
        cr_assert_eq(live->count, 2);
        /* A tenth of 4 MiB in each phase so far. */
        double expected = 0.4 * (p + 1);
        cr_assert(fabs(live->samples[0] - expected) < 0.03 * (p + 1), "%f", live->samples[0]);
        cr_assert_float_eq(live->samples[0], live->samples[1], 0);
        snprintf(name, sizeof name, "phase %u full: resident", p + 1);
        cr_assert_geq(metric_of(result, name)->samples[0], 3.9 + 0.35 * p);
    }
    cr_assert_eq(metric_of(result, "full, resident over live")->count, 2);
    cr_assert_eq(metric_of(result, "quiet, resident over live")->count, 1);
    cr_assert_gt(metric_of(result, "dropped, resident over live")->samples[0], 0.8);
}

Test(bench_patterns, realloc_counts_moves) {
    const na_result_t *result = RUN("realloc", "--threads=2", "--vectors=50", "--strings=50",
                                    "--arrays=2", "--array=1024", "--repetitions=2");
    static const char *const kinds[] = {"vectors", "strings", "arrays"};
    for (size_t i = 0; i < NA_COUNT(kinds); i++) {
        char name[64];
        cr_assert_eq(metric_of(result, kinds[i])->count, 2);
        snprintf(name, sizeof name, "%s: calls that moved the block", kinds[i]);
        const na_metric_t *moved = metric_of(result, name);
        cr_assert(moved->samples[0] >= 0 && moved->samples[0] <= 100);
        snprintf(name, sizeof name, "%s: throughput per thread", kinds[i]);
        cr_assert_eq(metric_of(result, name)->count, 4);
    }
    double product = 1;
    for (size_t i = 0; i < NA_COUNT(kinds); i++)
        product *= metric_of(result, kinds[i])->samples[1];
    cr_assert_float_eq(metric_of(result, "realloc")->samples[1], cbrt(product), 1e-6);
    cr_assert_eq(
        RUN("realloc", "--threads=1", "--kind=strings", "--strings=3", "--repetitions=1")->count,
        5);
}

Test(bench_patterns, large_times_calls_and_touch) {
    static char *const calls[] = {"malloc", "calloc"};
    for (size_t i = 0; i < NA_COUNT(calls); i++) {
        const na_result_t *result = RUN("large", "--threads=2", "--objects=10", "--max=1048576",
                                        "--repetitions=3", "--call", calls[i]);
        for (size_t r = 0; r < 3; r++) {
            double calling = metric_of(result, "calls")->samples[r];
            cr_assert_gt(calling, 0);
            cr_assert_gt(metric_of(result, "large")->samples[r], calling);
        }
    }
}

Test(bench_patterns, threads_and_latency_report) {
    const na_result_t *result =
        RUN("threads", "--threads=2", "--rounds=20", "--objects=5", "--repetitions=4");
    for (size_t r = 0; r < 4; r++)
        cr_assert_float_eq(metric_of(result, "thread")->samples[r] -
                               metric_of(result, "empty thread")->samples[r],
                           metric_of(result, "thread minus empty thread")->samples[r], 1e-9);
    result = RUN("latency", "--threads=2", "--spots=100", "--objects=20000", "--repetitions=3");
    static const char *const timed[] = {"malloc", "free", "nothing"};
    for (size_t i = 0; i < NA_COUNT(timed); i++) {
        static const char *const steps[] = {"p50", "p99", "p99.9", "max"};
        for (size_t r = 0; r < 3; r++) {
            double before = 0;
            for (size_t s = 0; s < NA_COUNT(steps); s++) {
                char name[64];
                snprintf(name, sizeof name, "%s %s", timed[i], steps[s]);
                double value = metric_of(result, name)->samples[r];
                cr_assert_geq(value, before, "%s", name);
                before = value;
            }
        }
    }
    /* The timer's cost is out of it: nothing takes, mostly, next to nothing. */
    cr_assert_lt(metric_of(result, "nothing p50")->samples[0], 100);
}

Test(bench_patterns, growth_reports_each_step) {
    const na_result_t *result = RUN("growth", "--live=1,4,16", "--idle-threads=2,20",
                                    "--pairs=2000", "--repetitions=3", "--pin=off");
    static const char *const steps[] = {"2 idle threads", "20 idle threads", "1 MiB live",
                                        "4 MiB live", "16 MiB live"};
    double product = 1;
    for (size_t i = 0; i < NA_COUNT(steps); i++) {
        char name[64];
        const na_metric_t *time = metric_of(result, steps[i]);
        cr_assert(time->count == 3 && time->kind == NA_TIME);
        product *= time->samples[2];
        snprintf(name, sizeof name, "%s: resident", steps[i]);
        cr_assert_eq(metric_of(result, name)->count, 1);
        snprintf(name, sizeof name, "%s: loop without malloc and free", steps[i]);
        cr_assert_eq(metric_of(result, name)->count, 3);
    }
    cr_assert_geq(metric_of(result, "16 MiB live: resident")->samples[0], 14);
    cr_assert_float_eq(metric_of(result, "growth")->samples[2], pow(product, 0.2), 1e-6);
    cr_assert_float_eq(metric_of(result, "growth with live bytes")->samples[1],
                       metric_of(result, "16 MiB live")->samples[1] /
                           metric_of(result, "1 MiB live")->samples[1],
                       1e-9);
    metric_of(result, "growth with idle threads");
}

/* Without the lists, steps that the machine has room for. */
Test(bench_patterns, growth_finds_its_steps) {
    na_knobs_t knobs;
    char error[256], *argv[] = {NULL};
    cr_assert(bench_small_knobs("growth", argv, &knobs, error, sizeof error), "%s", error);
    for (size_t k = 0; k < knobs.count; k++) {
        if (strcmp(knobs.table[k].name, "live") == 0)
            cr_assert_eq(strncmp(knobs.value[k].text, "1", 1), 0);
        if (strcmp(knobs.table[k].name, "idle-threads") == 0)
            cr_assert_eq(strncmp(knobs.value[k].text, "10", 2), 0);
    }
    static char *const bad[] = {"--live=2,1", "--live=0",   "--live=1,,2",
                                "--live=x",   "--live=1,1", "--live=1,2,3,4,5,6,7,8,9"};
    for (size_t i = 0; i < NA_COUNT(bad); i++)
        REFUSED("growth", "--live takes up to 8 growing numbers", bad[i]);
    REFUSED("growth", "--idle-threads takes", "--idle-threads=10,5");
    REFUSED("growth", "both be none", "--live=none", "--idle-threads=none");
    REFUSED("growth", "memory", "--live=1,16777216", "--min=65536", "--max=65536");
    REFUSED("growth", "2^32", "--live=1,16777216");
    REFUSED("growth", "--idle-threads", "--idle-threads=1000000", "--objects=0");
    REFUSED("growth", "--min", "--min=100000", "--max=90000");
    REFUSED("growth", "--pairs", "--pairs=0");
}

Test(bench_patterns, bad_knobs_are_refused) {
    static char *const all[] = {"handoff", "turnover", "fragment", "realloc",
                                "large",   "threads",  "latency"};
    for (size_t i = 0; i < NA_COUNT(all); i++) {
        REFUSED(all[i], "--threads takes a whole number", "--threads=0");
        REFUSED(all[i], "--repetitions", "--repetitions=0");
        REFUSED(all[i], "--seed", "--seed=-1");
        REFUSED(all[i], "unknown argument", "--no-such-knob=1");
        if (strcmp(all[i], "realloc") == 0) continue;
        REFUSED(all[i], "--min", "--min=100000", "--max=90000");
    }
    static char *const distributed[] = {"handoff", "turnover", "threads", "latency"};
    for (size_t i = 0; i < NA_COUNT(distributed); i++)
        REFUSED(distributed[i], "uniform|fisher", "--distribution=normal");
    REFUSED("handoff", "plain", "--mode=none");
    REFUSED("handoff", "from 2", "--threads=1");
    REFUSED("realloc", "--share", "--share=0");
    REFUSED("handoff", "--producers", "--producers=0");
    REFUSED("fragment", "--phases", "--phases=17");
    REFUSED("large", "malloc|calloc", "--call=new");
    /* More memory than any machine has. */
    REFUSED("handoff", "memory", "--mode=sleep", "--objects=4294967296", "--max=1073741824");
    REFUSED("turnover", "memory", "--spots=268435456", "--max=1073741824");
    REFUSED("fragment", "memory", "--live=1073741824", "--min=1024", "--max=1073741824",
            "--threads=1024");
    REFUSED("realloc", "memory", "--array=67108864", "--threads=1024");
    REFUSED("large", "memory", "--live=68719476736", "--max=1073741824", "--threads=1024",
            "--objects=4294967296");
    REFUSED("threads", "memory", "--objects=4096", "--max=1073741824", "--threads=1024");
    REFUSED("latency", "memory", "--spots=268435456", "--max=1073741824");
}

/* Every value lies in a bucket whose middle is within 1/128 of it, and buckets are in order. */
Test(bench_patterns, histogram_buckets) {
    na_prng_t prng = na_prng_make(7, 0);
    unsigned last = 0;
    for (uint64_t value = 0; value < 100000; value++) {
        unsigned place = na_histogram_place(value);
        cr_assert(place == last || place == last + 1);
        last = place;
        cr_assert_leq(fabs(na_histogram_value(place) - (double)value), (double)value / 128);
    }
    for (unsigned i = 0; i < 100000; i++) {
        uint64_t value = na_prng_next(&prng) >> (i % 64);
        unsigned place = na_histogram_place(value);
        cr_assert_lt(place, NA_HISTOGRAM_BUCKETS);
        cr_assert_leq(fabs(na_histogram_value(place) - (double)value), (double)value / 128);
    }
    cr_assert_eq(na_histogram_place(UINT64_MAX), NA_HISTOGRAM_BUCKETS - 1);
}

/* Against the sorted values themselves, of a distribution with a long tail. */
Test(bench_patterns, histogram_quantiles) {
    enum { COUNT = 20000 };
    static na_histogram_t whole, half[2];
    static double sorted[COUNT];
    static const double q[] = {0.001, 0.5, 0.9, 0.99, 0.999, 1.0};
    na_prng_t prng = na_prng_make(3, 0);
    cr_assert_eq(na_histogram_quantile(&whole, 0.5), 0);
    for (size_t i = 0; i < COUNT; i++) {
        uint64_t value = (uint64_t)exp(20 * na_prng_open01(&prng));
        sorted[i] = (double)value;
        na_histogram_add(&half[i % 2], value);
    }
    na_histogram_merge(&whole, &half[0]);
    na_histogram_merge(&whole, &half[1]);
    double max = na_stats_of(sorted, COUNT).max; /* sorts */
    cr_assert_eq(whole.count, COUNT);
    cr_assert_float_eq((double)whole.max, max, 0);
    for (size_t i = 0; i < NA_COUNT(q); i++) {
        double expected = sorted[(size_t)ceil(q[i] * COUNT) - 1];
        double got = na_histogram_quantile(&whole, q[i]);
        cr_assert_leq(fabs(got - expected), expected / 64, "q %g: %g, not %g", q[i], got, expected);
    }
}
