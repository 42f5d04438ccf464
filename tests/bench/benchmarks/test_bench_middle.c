/* test_bench_middle.c - middle.c: what it calls, by the log of a counting allocator: the number
 * of calls, which block is freed next, and who frees it. */
#include "support/bench_log.h"

#include <criterion/criterion.h>

#define THREADS 2
#define PASSES  3 /* a warm-up and two repetitions */
#define LIVE    7
#define SIZE    5000
#define STEPS   60 /* 1 % of the operations that such blocks have */

#define MIDDLE(...)                                                                                \
    BENCH_LOG("middle", "--threads=2", "--size=5000", "--live=7", "--share=1", "--repetitions=2",  \
              "--warmup=1", __VA_ARGS__)

typedef struct calls {
    const counting_record_t *record[4096];
    size_t count;
} calls_t;

/* The program's calls by the first thread that has any, or by the one after it. */
static const calls_t *calls_of(const bench_log_t *run, unsigned which) {
    static calls_t calls;
    uint32_t thread = 0;
    for (unsigned seen = 0; seen <= which; thread++)
        seen += run->by_thread[thread].allocations != 0;
    calls.count = 0;
    for (uint64_t i = 0; i < run->count; i++) {
        const counting_record_t *record = &run->log->record[i];
        if (!record->program || record->thread != thread - 1) continue;
        cr_assert_lt(calls.count, 4096);
        calls.record[calls.count++] = record;
    }
    return &calls;
}

static void check_counts(const bench_log_t *run, uint64_t each) {
    cr_assert_eq(run->all.allocations, THREADS * PASSES * each);
    cr_assert_eq(run->all.frees, run->all.allocations);
    cr_assert_eq(run->all.bytes, run->all.allocations * SIZE);
    cr_assert_eq(run->left, 0);
    cr_assert_eq(run->wrong, 0);
}

Test(bench_middle, fifo_frees_the_oldest) {
    const bench_log_t *run = MIDDLE("--order=fifo");
    check_counts(run, LIVE + STEPS);
    cr_assert_eq(run->peak_bytes, THREADS * LIVE * SIZE);
    cr_assert_eq(run->all.foreign_frees, 0);
    for (unsigned t = 0; t < THREADS; t++) {
        const calls_t *calls = calls_of(run, t);
        uint64_t queue[LIVE + STEPS];
        size_t in = 0, out = 0;
        for (size_t i = 0; i < LIVE + 2 * STEPS; i++) { /* the first pass */
            const counting_record_t *record = calls->record[i];
            if (record->kind == COUNTING_MALLOC)
                queue[in++] = record->block;
            else
                cr_assert_eq(record->block, queue[out++], "free %zu", out);
            cr_assert_eq(record->kind == COUNTING_MALLOC, i < LIVE || (i - LIVE) % 2 == 1);
        }
    }
}

Test(bench_middle, lifo_frees_the_newest) {
    const bench_log_t *run = MIDDLE("--order=lifo");
    uint64_t waves = (STEPS + LIVE - 1) / LIVE;
    check_counts(run, LIVE + waves * LIVE);
    const calls_t *calls = calls_of(run, 0);
    uint64_t stack[LIVE];
    size_t depth = 0;
    for (size_t i = 0; i < LIVE + 2 * waves * LIVE; i++) {
        const counting_record_t *record = calls->record[i];
        if (record->kind == COUNTING_MALLOC)
            stack[depth++] = record->block;
        else
            cr_assert_eq(record->block, stack[--depth]);
        cr_assert_leq(depth, LIVE);
    }
}

Test(bench_middle, random_is_the_same_for_a_seed) {
    const bench_log_t *run = MIDDLE("--order=random");
    check_counts(run, LIVE + STEPS);
    cr_assert_eq(run->peak_bytes, THREADS * LIVE * SIZE);
    /* Which place of the live blocks is freed, in the order of their ages. */
    uint64_t out_of_order = 0, queue[LIVE + STEPS];
    size_t in = 0, out = 0;
    const calls_t *calls = calls_of(run, 0);
    for (size_t i = 0; i < LIVE + 2 * STEPS; i++) {
        const counting_record_t *record = calls->record[i];
        if (record->kind == COUNTING_MALLOC)
            queue[in++] = record->block;
        else
            out_of_order += record->block != queue[out++];
    }
    cr_assert_gt(out_of_order, STEPS / 2);
}

/* Nobody frees a block of its own, and no more are on their way than --live says, beside the one
 * that each thread holds. */
Test(bench_middle, handed_blocks_are_freed_by_others) {
    const bench_log_t *run = MIDDLE("--order=handed");
    check_counts(run, STEPS);
    cr_assert_eq(run->all.foreign_frees, run->all.frees);
    cr_assert_leq(run->peak_bytes, THREADS * (LIVE + 2) * SIZE);
    for (uint32_t t = 0; t < BENCH_LOG_THREADS; t++)
        cr_assert_eq(run->by_thread[t].frees, run->by_thread[t].allocations);
}

Test(bench_middle, growth_is_by_realloc) {
    const bench_log_t *run = MIDDLE("--size=20000", "--order=growth");
    /* 4096, 6144, 9216, 13824, 20000: one allocation and four reallocs. */
    cr_assert_eq(run->all.reallocs, 4 * run->all.allocations);
    cr_assert_eq(run->all.frees, run->all.allocations);
    cr_assert_eq(run->all.bytes / run->all.allocations, 4096 + 6144 + 9216 + 13824 + 20000);
    cr_assert_eq(run->left, 0);
}

Test(bench_middle, calloc_is_calloc) {
    const bench_log_t *run = MIDDLE("--call=calloc");
    uint64_t zeroed = 0;
    for (uint64_t i = 0; i < run->count; i++)
        zeroed += run->log->record[i].program && run->log->record[i].kind == COUNTING_CALLOC;
    cr_assert_eq(zeroed, run->all.allocations);
    cr_assert_gt(zeroed, 0);
}

Test(bench_middle, every_case_is_a_metric) {
    static child_result_t child;
    char *argv[] = {(char *)(uintptr_t)BENCH_PROGRAM,
                    "middle",
                    "--threads=2",
                    "--cases=all",
                    "--repetitions=1",
                    "--warmup=0",
                    "--share=1",
                    "--most=4",
                    "--tsv",
                    NULL};
    child_run(&child, argv, NULL, NULL, NULL);
    cr_assert(child_exited(&child, 0), "%s", child.err);
    unsigned cases = 0;
    for (const char *at = child.out; (at = strstr(at, "\tns\tlower\tdetail\t")) != NULL; at++)
        cases++;
    cr_assert_eq(cases, 182);
    cr_assert(strstr(child.out, "metric\tmiddle\tns\tlower\theadline\ttime\t") != NULL);
    cr_assert(strstr(child.out, "\tfifo 8388608 x1000 page\t") == NULL, "beyond --most");
    cr_assert(strstr(child.out, "\nend\n") != NULL);
}

Test(bench_middle, bad_knobs_end_with_status_2) {
    static char *const knobs[][4] = {
        {"--size=30000", "--order=handed", "--threads=1", NULL},
        {"--size=30000", "--live=1000", "--most=1", NULL},
        {"--size=30000", "--live=1001", NULL},
        {"--touch=maybe", NULL},
    };
    for (size_t i = 0; i < sizeof knobs / sizeof knobs[0]; i++) {
        static child_result_t child;
        char *argv[6] = {(char *)(uintptr_t)BENCH_PROGRAM, "middle"};
        for (size_t k = 0; knobs[i][k] != NULL; k++)
            argv[2 + k] = knobs[i][k];
        child_run(&child, argv, NULL, NULL, NULL);
        cr_assert(child_exited(&child, 2), "%s", knobs[i][0]);
        cr_assert_eq(strlen(child.out), 0);
        cr_assert_eq(strchr(child.err, '\n'), child.err + strlen(child.err) - 1);
    }
}
