/* test_verdict_rounds.c - verdict.c: verdicts from watchpoints, whose hits come in rounds of one
 * word each: what many hits of few rounds say is not sure. */
#include "tests/support/verdict_judge.h"

TestSuite(verdict_rounds, .timeout = 300);

static void watched(made_t *m) {
    m->source = NA_NPROF_SOURCE_WATCH;
    m->unit = NA_NPROF_UNIT_ACCESSES;
    m->flags = NA_NPROF_ACCESS_VALID | NA_NPROF_ACCESS_USED | NA_NPROF_ACCESS_OP;
    m->level = NA_NPROF_LEVEL_UNKNOWN;
}

/* `rounds` rounds of ten hits of one word each, by threads on all nodes, half of them writes. Of
 * the words, `node[i]` of 100 lie on node i. */
static void interleaved(made_t *m, uint32_t rounds, const uint32_t node[4]) {
    uint32_t block = made_one(m), lies[4] = {0};
    watched(m);
    m->step = 2 * MADE_MS;
    for (uint32_t r = 0; r < rounds; r++) {
        uint32_t at = 0; /* whoever is farthest behind */
        for (uint32_t n = 1; n < 4; n++)
            if (lies[n] * node[at] < lies[at] * node[n]) at = n;
        lies[at]++;
        uint64_t word = m->objects[block - 1].base + (uint64_t)r * 4096 % (1 << 20);
        uint32_t round = made_round(m);
        for (uint32_t i = 0; i < 10; i++) {
            m->op = i % 2 == 0 ? NA_NPROF_OP_WRITE : NA_NPROF_OP_READ;
            na_nprof_access_sample_t *s = made_touch(m, block, 2 + i % 4, (int)(i % 4), (int)at);
            s->address = word;
            s->window = round;
        }
    }
}

/* Where a word lies is drawn once a round: what so few draws say of the nodes is not sure, though
 * their hits are many. */
Test(verdict_rounds, spread_counts_rounds) {
    static const uint32_t even[4] = {25, 25, 25, 25}, below[4] = {37, 21, 21, 21},
                          beyond[4] = {38, 21, 21, 20}, uneven[4] = {49, 17, 17, 17};
    made_t m;
    interleaved(&m, 4000, below);
    is(&m, NA_VERDICT_EVEN);
    interleaved(&m, 4000, beyond);
    is(&m, NA_VERDICT_WRITE_SHARED);
    static const struct {
        const uint32_t *node;
        uint32_t rounds;
        na_verdict_kind_t kind;
        double least, most; /* chance */
    } cases[] = {
        {even, 400, NA_VERDICT_EVEN, 0.899, 0.9},
        {even, 80, NA_VERDICT_EVEN, 0.899, 0.9},
        {even, 56, NA_VERDICT_EVEN, 0.85, 0.9},
        {even, 52, NA_VERDICT_EVEN, 0.8, 0.89},
        {uneven, 52, NA_VERDICT_WRITE_SHARED, 0.9, 0.9},
        {beyond, 52, NA_VERDICT_WRITE_SHARED, 0.5, 0.6},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        interleaved(&m, cases[i].rounds, cases[i].node);
        na_verdict_t v = only(&m);
        cr_assert_eq(v.kind, cases[i].kind, "%zu: %s", i, na_verdict_texts[v.kind].key);
        cr_assert_float_eq(v.measure.independent, cases[i].rounds, 1e-6);
        cr_assert(v.chance >= cases[i].least && v.chance <= cases[i].most, "%zu: %f", i, v.chance);
    }
}

/* Two threads use a block at once, but each works on a word for some time before it goes on: a
 * round sees one of them. Ten rounds make a window of time, five windows are needed. */
static void in_bursts(made_t *m, uint32_t rounds, uint32_t turn) {
    uint32_t block = made_one(m);
    watched(m);
    m->step = 2 * MADE_MS;
    m->op = NA_NPROF_OP_READ;
    for (uint32_t r = 0; r < rounds; r++) {
        uint32_t round = made_round(m), other = r / turn % 2;
        for (uint32_t i = 0; i < 10; i++)
            made_touch(m, block, 2 + other, 1 + (int)other, 0)->window = round;
    }
}

Test(verdict_rounds, turns_count_rounds) {
    made_t m;
    in_bursts(&m, 50, 1);
    is(&m, NA_VERDICT_READ_MOSTLY);
    in_bursts(&m, 50, 10);
    is(&m, NA_VERDICT_ALTERNATING);
    in_bursts(&m, 49, 10);
    undecided(&m, NA_UNDECIDED_SAMPLES, cr_assert_gt(v_.needed, 490));
}

/* Six turns in sixty samples, half a window late: each window has two nodes, and they never use it
 * at once. Of turns that are too short to be any it is said. */
Test(verdict_rounds, turns_as_long_as_windows) {
    for (uint32_t shorter = 0; shorter < 2; shorter++) {
        made_t m;
        uint32_t block = made_one(&m);
        m.op = NA_NPROF_OP_WRITE;
        m.step = shorter != 0 ? MADE_MS / 100 : 2 * MADE_MS;
        for (uint32_t i = 0; i < (shorter != 0 ? 6000 : 60); i++) {
            uint32_t node = 1 + (i + 5) / 10 % 2;
            made_touch(&m, block, 1 + node, (int)node, 0);
        }
        if (shorter != 0)
            is(&m, NA_VERDICT_WRITE_SHARED);
        else
            undecided(&m, NA_UNDECIDED_SAMPLES, cr_assert_gt(v_.needed, 60));
    }
}

/* Words that are known to be used are watched far more often, and weigh less. */
Test(verdict_rounds, lines_by_weight) {
    for (uint32_t heavy = 0; heavy < 2; heavy++) {
        static const uint32_t even[4] = {25, 25, 25, 25};
        made_t m;
        interleaved(&m, 400, even);
        uint64_t base = m.objects[0].base;
        for (uint32_t i = 0; i < m.sample_count; i++) { /* three of four rounds are of one line */
            bool known = i / 10 % 4 != 3;
            if (known) m.samples[i].address = base;
            m.samples[i].weight = known && heavy == 0 ? 0.1 : 1;
            m.samples[i].home_node = (int16_t)(i / 40 % 4);
        }
        judged_t j;
        made_judge(&m, &j);
        const na_verdict_t *v = &j.verdicts.items[0];
        cr_assert_float_eq(v->measure.in_lines, heavy != 0 ? 301.0 / 400 : 31.0 / 130, 0.01);
        cr_assert_eq(v->measure.lines > 2, true, "%u", v->measure.lines);
        judged_free(&j);
    }
}
