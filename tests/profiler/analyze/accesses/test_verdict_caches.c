/* test_verdict_caches.c - verdict_measure.c: accesses that another core's cache answered, updates,
 * and lines that one thread has to itself. */
#include "tests/support/verdict_judge.h"

TestSuite(verdict_caches, .timeout = 300);

/* An update whose answer is not told is a write as well. */
Test(verdict_caches, updates_count) {
    made_t m;
    uint32_t block = made_one(&m);
    m.op = NA_NPROF_OP_READ | NA_NPROF_OP_WRITE;
    m.level = NA_NPROF_LEVEL_UNKNOWN;
    for (uint32_t i = 0; i < 1000; i++)
        made_touch(&m, block, 2, 1, 0);
    na_verdict_t v = only(&m);
    cr_assert_eq(v.kind, NA_VERDICT_REMOTE);
    cr_assert_eq(v.measure.samples, 1000);
    cr_assert_float_eq(v.measure.stores, 1, 1e-9);
}

/* A counter of four threads on four nodes: no access gets as far as memory, for the line is in the
 * cache of whoever wrote last. */
Test(verdict_caches, another_cache_counts) {
    made_t m;
    made_begin(&m);
    uint32_t block = made_object(&m, 4, 1, 0, 64);
    for (uint32_t i = 0; i < 1000; i++) {
        m.op = i % 2 == 0 ? NA_NPROF_OP_READ : NA_NPROF_OP_WRITE;
        m.level = i % 8 < 6 ? NA_NPROF_LEVEL_FAR_CACHE : NA_NPROF_LEVEL_NEAR_CACHE;
        m.latency = 600;
        made_touch(&m, block, 2 + i % 4, (int)(i % 4), 0)->address = m.objects[block - 1].base;
    }
    na_verdict_t v = only(&m);
    cr_assert_eq(v.kind, NA_VERDICT_WRITE_SHARED, "%s", na_verdict_texts[v.kind].key);
    cr_assert_eq(v.measure.samples, 1000);
    cr_assert_eq(v.measure.lines, 1);
}

/* What caches deliver is no load of the node's memory, and no measure of how fast that is. */
Test(verdict_caches, another_cache_is_no_memory) {
    made_t m;
    judged_t j;
    uint32_t block = made_one(&m);
    for (uint32_t i = 0; i < 2000; i++) {
        bool cache = i % 4 != 0;
        m.level = cache ? NA_NPROF_LEVEL_NEAR_CACHE : NA_NPROF_LEVEL_LOCAL_DRAM;
        m.latency = cache ? 900 : 200;
        made_touch(&m, block, 1, 0, 0);
    }
    made_judge(&m, &j);
    cr_assert_eq(j.verdicts.samples, 2000);
    cr_assert_float_eq(j.verdicts.local_latency, 200, 1e-9);
    cr_assert_float_eq(j.verdicts.nodes[0].weight, 500, 1e-9);
    cr_assert_float_eq(j.verdicts.nodes[0].latency, 200, 1e-9);
    judged_free(&j);
}

/* Two threads of different nodes, each with a line of its own of one block: these lines go to
 * nobody else, and more distance between them changes nothing. Nor in many such blocks. */
Test(verdict_caches, lines_of_their_own) {
    for (uint32_t blocks = 1; blocks <= 8; blocks += 7) {
        for (uint32_t shared = 0; shared < 2; shared++) {
            made_t m;
            judged_t j;
            made_begin(&m);
            uint32_t block[8];
            for (uint32_t b = 0; b < blocks; b++)
                block[b] = made_object(&m, 4, 1, 0, 128);
            m.op = NA_NPROF_OP_WRITE;
            for (uint32_t i = 0; i < 2000; i++) {
                uint32_t who = i % 2, at = block[i / 2 % blocks];
                na_nprof_access_sample_t *s = made_touch(&m, at, 2 + who, 1 + (int)who, 0);
                s->address = m.objects[at - 1].base + (shared ? 8 : 64) * who;
            }
            made_judge(&m, &j);
            const na_verdict_t *v = &j.verdicts.items[0];
            cr_assert_eq(v->kind, shared ? NA_VERDICT_UNDECIDABLE : NA_VERDICT_WRITE_SHARED, "%s",
                         na_verdict_texts[v->kind].key);
            cr_expect_eq(na_measure_shares_lines(&v->measure), shared != 0, "%u blocks, %.2f",
                         blocks, v->measure.line_own);
            judged_free(&j);
        }
    }
}
