/* test_lines.c - shared_lines.c: false sharing, of lines that were looked at word by word: what is
 * it, and what only looks like it. */
#include <math.h>

#include "tests/support/access_judge.h"

TestSuite(lines, .timeout = 300);

enum { LINE = 64, BLOCK = 4096 };

/* A block of thread 1, with a few samples, so that it is there, and nothing else wrong. */
static uint64_t begin(made_t *m) {
    made_begin(m);
    m->source = NA_NPROF_SOURCE_WATCH;
    m->flags = NA_NPROF_ACCESS_VALID | NA_NPROF_ACCESS_USED | NA_NPROF_ACCESS_OP;
    m->unit = NA_NPROF_UNIT_ACCESSES;
    m->level = NA_NPROF_LEVEL_UNKNOWN;
    m->threads = 5;
    uint32_t block = made_object(m, 4, 1, 0, BLOCK);
    for (uint32_t i = 0; i < 100; i++)
        made_touch(m, block, 1, 0, 0);
    return m->objects[block - 1].base;
}

static na_nprof_access_probe_t *look(made_t *m, uint64_t one, uint64_t other) {
    m->step = 20 * MADE_MS;
    na_nprof_access_probe_t *p = made_probe(m, one, other);
    p->object[0] = p->object[1] = 1;
    return p;
}

/* The one verdict; whether it is false sharing. */
static bool is_false(made_t *m, judged_t *j) {
    made_judge(m, j);
    cr_assert_geq(j->verdicts.count, 1);
    return j->verdicts.items[0].kind == NA_VERDICT_FALSE_SHARING;
}

static void expect(made_t *m, bool wanted, const char *what) {
    judged_t j;
    cr_expect_eq(is_false(m, &j), wanted, "%s", what);
    judged_free(&j);
}

enum { LOOKS = 12, USES = 6 };

/* What a thread does in a look with one of its two words. Thread 0: there is no more. */
typedef struct use {
    uint8_t range;
    uint32_t thread;
    uint16_t reads, writes;
} use_t;

static void use(na_nprof_access_probe_t *p, const use_t uses[USES]) {
    for (uint32_t i = 0; i < USES && uses[i].thread != 0; i++)
        made_use(p, uses[i].range, uses[i].thread, uses[i].reads, uses[i].writes);
}

/* Words 0 to 3 are counters of threads 1 to 4. */
static void counters(made_t *m, uint64_t line, uint32_t looks, uint16_t hits) {
    for (uint32_t i = 0; i < looks; i++) {
        uint32_t other = 1 + i % 3;
        na_nprof_access_probe_t *p = look(m, line, line + 8 * other);
        made_use(p, 0, 1, hits, hits);
        made_use(p, 1, 1 + other, hits, hits);
    }
}

Test(lines, counters_in_one_line) {
    made_t m;
    judged_t j;
    uint64_t line = begin(&m) + LINE;
    counters(&m, line, 12, 16);
    cr_assert(is_false(&m, &j));
    const na_verdict_t *v = &j.verdicts.items[0];
    const na_line_t *l = &j.verdicts.lines.items[v->line];
    cr_expect_eq(v->object, 0);
    cr_expect_gt(v->chance, 0.7);
    cr_expect_eq(l->address, line);
    cr_expect_eq(l->threads, 4);
    cr_expect_eq(l->count, 4);
    cr_expect_eq(l->probes, 12);
    cr_expect_eq(l->conflicts, 12);
    cr_expect_float_eq(l->own, 1, 1e-9);
    for (uint32_t i = 0; i < 4; i++) {
        cr_expect_eq(l->parts[i].address, line + 8 * i);
        cr_expect_eq(l->parts[i].thread, i);
        /* 16 of each in 2 ms. */
        cr_expect_float_eq(l->parts[i].reads, 8000, 1e-6);
        cr_expect_float_eq(l->parts[i].writes, 8000, 1e-6);
    }
    judged_free(&j);
}

/* Fewer looks, or accesses, than it takes. */
Test(lines, too_little) {
    made_t m;
    uint64_t line = begin(&m);
    counters(&m, line, 2, 16);
    expect(&m, false, "two looks");
    line = begin(&m);
    for (uint32_t i = 0; i < 40; i++) { /* one access in 2 ms, and a tenth of that */
        na_nprof_access_probe_t *p = look(&m, line, line + 8);
        made_use(p, 0, 1, 0, 1);
        if (i % 10 == 0) made_use(p, 1, 2, 0, 1);
    }
    expect(&m, false, "seldom");
}

/* Threads that take turns at a CPU are not seen in one look. */
Test(lines, in_turn) {
    for (uint32_t for_good = 0; for_good < 2; for_good++) {
        made_t m;
        uint64_t line = begin(&m);
        for (uint32_t i = 0; i < (for_good ? 40u : LOOKS); i++) {
            uint32_t who = for_good ? i / 20 : i % 2;
            made_use(look(&m, line, line + 8), (uint8_t)who, 1 + who, 0, 16);
        }
        expect(&m, !for_good, for_good ? "one hands over to the other" : "in turn");
    }
}

/* The same in each look. */
Test(lines, what_it_is) {
    static const struct {
        const char *what;
        bool wanted;
        use_t uses[USES];
    } cases[] = {
        {"one counter", false, {{0, 1, 0, 16}, {0, 2, 0, 16}, {0, 3, 0, 16}}},
        {"two counters of all",
         false,
         {{0, 1, 4, 8}, {1, 1, 4, 8}, {0, 2, 4, 8}, {1, 2, 4, 8}, {0, 3, 4, 8}, {1, 3, 4, 8}}},
        {"nobody writes", false, {{0, 1, 16, 0}, {1, 2, 16, 0}}},
        {"one thread's", false, {{0, 1, 16, 16}, {1, 1, 16, 16}}},
        {"read beside a counter", true, {{0, 1, 16, 16}, {1, 2, 32, 0}, {1, 3, 32, 0}}},
    };
    for (size_t c = 0; c < sizeof cases / sizeof *cases; c++) {
        made_t m;
        uint64_t line = begin(&m);
        for (uint32_t i = 0; i < LOOKS; i++)
            use(look(&m, line, line + 8), cases[c].uses);
        expect(&m, cases[c].wanted, cases[c].what);
    }
}

/* Looks at the first word (and the second), and at its halves, in turn. */
static void look_at_halves(made_t *m, uint64_t line, const use_t word[USES],
                           const use_t halves[USES]) {
    for (uint32_t i = 0; i < LOOKS; i++) {
        use(look(m, line, line % LINE == LINE - 8 ? line - 8 : line + 8), word);
        na_nprof_access_probe_t *p = look(m, line, line + 4);
        p->length[0] = p->length[1] = 4;
        use(p, halves);
    }
}

/* Counters of four bytes: two in a word, which only its halves tell. */
Test(lines, halves_of_words) {
    for (uint32_t really = 0; really < 2; really++) {
        made_t m;
        judged_t j;
        uint64_t line = begin(&m);
        look_at_halves(&m, line, (use_t[USES]){{0, 1, 8, 8}, {0, 2, 8, 8}},
                       (use_t[USES]){{0, 1, 8, 8}, {1, 1 + really, 8, 8}});
        cr_expect_eq(is_false(&m, &j), really == 1);
        if (really) {
            const na_line_t *l = &j.verdicts.lines.items[j.verdicts.items[0].line];
            cr_assert_eq(l->count, 2);
            cr_expect_eq(l->parts[1].address, line + 4);
            cr_expect_eq(l->parts[1].length, 4);
            cr_expect_eq(l->parts[1].thread, 1);
        }
        judged_free(&j);
    }
}

/* The word itself was met with one thread only, and more often than its halves. */
Test(lines, halves_alone) {
    made_t m;
    uint64_t line = begin(&m);
    look_at_halves(&m, line, (use_t[USES]){{0, 1, 100, 100}},
                   (use_t[USES]){{0, 1, 8, 8}, {1, 2, 8, 8}});
    expect(&m, true, "halves");
}

/* The last word of a line has halves like any other. */
Test(lines, halves_at_the_end) {
    made_t m;
    uint64_t line = begin(&m);
    look_at_halves(&m, line + LINE - 8, (use_t[USES]){{0, 1, 8, 8}, {0, 2, 8, 8}},
                   (use_t[USES]){{0, 1, 8, 8}, {1, 2, 8, 8}});
    na_reader_t *r = made_reader(&m);
    na_flows_t flows;
    cr_assert(na_flows_read(&r, 1, &flows));
    cr_expect_eq(na_reader_issue_count(r), 0);
    cr_expect_eq(flows.probe_count, 2 * LOOKS);
    na_flows_free(&flows);
    na_reader_close(r);
}

/* Locks of four bytes, each one thread's, so that each word is two threads'; halves of two words
 * were looked at. One word more is shared truly, or may be. */
static void locks(made_t *m, uint64_t line, uint32_t halves, bool truly) {
    for (uint32_t i = 0; i < 40; i++) {
        uint32_t word = i % 8;
        use(look(m, line, line + 8 * (1 + i % 7)),
            (use_t[USES]){{0, 1 + i % 2, 0, 16}, {1, 1 + i / 7 % 2, 0, 16}});
        if (word >= halves) continue;
        na_nprof_access_probe_t *p = look(m, line + 8 * word, line + 8 * word + 4);
        p->length[0] = p->length[1] = 4;
        use(p, (use_t[USES]){{0, 1, 0, 16}, {1, 2, 0, 16}});
        if (truly && word == 0) use(p, (use_t[USES]){{0, 2, 0, 16}, {1, 1, 0, 16}});
    }
}

Test(lines, lock_array) {
    made_t m;
    judged_t j;
    locks(&m, begin(&m), 6, false);
    cr_expect(is_false(&m, &j));
    cr_expect_gt(j.verdicts.items[0].chance, 0.95);
    judged_free(&j);
    locks(&m, begin(&m), 1, false);
    cr_expect(is_false(&m, &j));
    cr_expect_lt(j.verdicts.items[0].chance, 0.8, "of one word nothing follows for seven");
    judged_free(&j);
    locks(&m, begin(&m), 1, true);
    expect(&m, false, "words of both");
}

/* All threads write one word, others only read beside it; or all do both. */
Test(lines, written_beside_read) {
    for (uint32_t both = 0; both < 2; both++) {
        made_t m;
        judged_t j;
        uint64_t line = begin(&m);
        for (uint32_t i = 0; i < LOOKS; i++)
            use(look(&m, line, line + 8), (use_t[USES]){{0, 1, 4, 8},
                                                        {0, 2, 4, 8},
                                                        {1, both ? 1 : 3, 16, 0},
                                                        {1, both ? 2 : 4, 16, 0}});
        cr_expect_eq(is_false(&m, &j), both == 0);
        if (both == 0)
            cr_expect(na_line_is_beside(&j.verdicts.lines.items[j.verdicts.items[0].line]));
        judged_free(&j);
    }
}

/* Two blocks at a time, at the same addresses each time; the threads swap them. In each life one
 * look or two, and: both threads are at work, one hands over to the other, or one does it all. */
typedef enum life { AT_WORK, HANDED_OVER, ALONE } life_t;

static void lives(made_t *m, life_t kind) {
    enum { LIVES = 12 };
    uint64_t base = begin(m);
    for (uint32_t i = 0; i < LIVES; i++) {
        uint32_t first = 0;
        for (uint32_t k = 0; k < 2; k++) {
            uint32_t block = made_object(m, 4 + k, 1, 0, 8);
            if (k == 0) first = block;
            m->objects[block - 1].base = base + (1 << 20) + 16 * k;
        }
        for (uint32_t k = 0; k < 3; k++) {
            na_nprof_access_probe_t *p = look(m, base + (1 << 20), base + (1 << 20) + 16);
            p->object[0] = first;
            p->object[1] = first + 1;
            uint32_t one = 1 + i % 2, other = kind == ALONE ? one : 3 - one;
            if (kind != HANDED_OVER || k < 2) made_use(p, 0, one, 16, 16);
            if (kind != HANDED_OVER || k == 2) made_use(p, 1, other, 16, 16);
        }
        m->objects[first - 1].death_ns = m->objects[first].death_ns = m->ns + 1;
    }
}

Test(lines, lives_of_blocks) {
    static const char *const names[] = {"at work", "handed over", "alone"};
    for (life_t kind = AT_WORK; kind <= ALONE; kind++) {
        made_t m;
        judged_t j;
        lives(&m, kind);
        cr_expect_eq(is_false(&m, &j), kind == AT_WORK, "%s", names[kind]);
        if (kind == AT_WORK) {
            const na_verdict_t *v = &j.verdicts.items[0];
            cr_expect_eq(v->object, NA_FLOWS_NONE);
            cr_expect_gt(v->chance, 0.9);
            cr_expect_eq(j.verdicts.lines.items[v->line].lives, 12);
            cr_expect_eq(j.verdicts.lines.items[v->line].objects, 2);
        }
        judged_free(&j);
    }
}

/* Lines of one origin are one verdict, and say how many. */
Test(lines, several_lines) {
    made_t m;
    judged_t j;
    uint64_t line = begin(&m);
    counters(&m, line, 12, 16);
    counters(&m, line + LINE, 12, 8);
    cr_assert(is_false(&m, &j));
    cr_expect_eq(j.verdicts.items[0].line_count, 2);
    cr_expect_eq(j.verdicts.lines.items[j.verdicts.items[0].line].address, line);
    judged_free(&j);
}

/* Of a line that three threads seem only to read, the word that is written may not have been drawn:
 * nothing is said before it was looked at. */
Test(lines, written_word_not_drawn) {
    for (uint32_t looks = 0; looks < 5; looks++) {
        made_t m;
        judged_t j;
        made_begin(&m);
        m.source = NA_NPROF_SOURCE_WATCH;
        m.flags = NA_NPROF_ACCESS_VALID | NA_NPROF_ACCESS_USED | NA_NPROF_ACCESS_OP;
        m.unit = NA_NPROF_UNIT_ACCESSES;
        m.level = NA_NPROF_LEVEL_UNKNOWN;
        m.threads = 5;
        uint32_t block = made_object(&m, 4, 1, 0, BLOCK);
        uint64_t line = m.objects[block - 1].base;
        m.windows = calloc(1, sizeof *m.windows);
        cr_assert_not_null(m.windows);
        m.windows[m.window_count++] = (na_nprof_access_window_t){
            .address = line, .length = 8, .object = block, .round = 1, .threads = 3};
        m.op = NA_NPROF_OP_READ;
        for (uint32_t k = 0; k < 300; k++) {
            na_nprof_access_sample_t *s = made_touch(&m, block, 1 + k % 3, 0, 0);
            s->address = line + 8;
            s->weight = 1000;
        }
        for (uint32_t k = 0; k < looks; k++)
            made_use(look(&m, line, line + 8), 0, 2, 16, 0);
        made_judge(&m, &j);
        cr_expect_eq(j.verdicts.items[0].kind,
                     looks < 3 ? NA_VERDICT_UNDECIDABLE : NA_VERDICT_NOTHING, "%u looks", looks);
        judged_free(&j);
    }
}

/* A word that another node's thread writes is nothing of which more is said before its line was
 * looked at; unless it is seldom, or there are no threads that could share it. */
Test(lines, not_looked_at) {
    static const struct {
        const char *what;
        uint32_t looks, both, weight,
            watched; /* both: the last looks, that met another thread, too */
        bool open;
    } cases[] = {
        {"no looks", 0, 0, 1000, 2, true},     {"two looks", 2, 0, 1000, 2, true},
        {"three looks", 3, 0, 1000, 2, false}, {"suspected", 8, 1, 1000, 2, true},
        {"seldom", 0, 0, 1, 2, false},         {"one thread", 0, 0, 1000, 1, false},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        made_t m;
        judged_t j;
        uint64_t line = begin(&m);
        m.windows = calloc(1, sizeof *m.windows);
        cr_assert_not_null(m.windows);
        m.windows[m.window_count++] = (na_nprof_access_window_t){
            .address = line, .length = 8, .object = 1, .round = 1, .threads = cases[i].watched};
        m.op = NA_NPROF_OP_WRITE;
        for (uint32_t k = 0; k < 200; k++) {
            na_nprof_access_sample_t *s = made_touch(&m, 1, 2, 1, 0);
            s->address = line;
            s->weight = cases[i].weight;
        }
        for (uint32_t k = 0; k < cases[i].looks; k++) {
            na_nprof_access_probe_t *p = look(&m, line, line + 8);
            made_use(p, 0, 2, 0, 16);
            if (k + cases[i].both >= cases[i].looks) made_use(p, 1, 3, 0, 16);
        }
        made_judge(&m, &j);
        const na_verdict_t *v = &j.verdicts.items[0];
        cr_expect_eq(v->kind, cases[i].open ? NA_VERDICT_UNDECIDABLE : NA_VERDICT_REMOTE, "%s: %d",
                     cases[i].what, v->kind);
        if (cases[i].open) {
            cr_expect_eq(v->undecided, NA_UNDECIDED_SAMPLES, "%s", cases[i].what);
            cr_expect_eq(v->runners[0], NA_VERDICT_REMOTE, "%s", cases[i].what);
            cr_expect_eq(v->runners[1], NA_VERDICT_FALSE_SHARING, "%s", cases[i].what);
            cr_expect_gt(v->needed, v->measure.samples, "%s", cases[i].what);
        }
        judged_free(&j);
    }
}

/* Threads that work their way through all words, each by itself, as a full machine lets them: looks
 * meet one of them, or both, at both words. Which of them is chance, and must not look like whose
 * words these are. */
Test(lines, swept_in_turn) {
    enum { RUNS = 200 };
    uint32_t claims = 0, random = 1;
    for (uint32_t run = 0; run < RUNS; run++) {
        made_t m;
        judged_t j;
        uint64_t line = begin(&m);
        for (uint32_t i = 0; i < 12 + run % 12; i++) {
            na_nprof_access_probe_t *p = look(&m, line, line + 8 + 8 * (i % 7));
            random = random * 1664525 + 1013904223;
            uint32_t who = random >> 24; /* of 256: 140 nobody, 20 both */
            for (uint32_t thread = 1; thread <= 2; thread++) {
                if (who < 140 || (who < 236 && who % 2 + 1 != thread)) continue;
                made_use(p, 0, thread, 16, 8);
                made_use(p, 1, thread, 16, 8);
            }
        }
        claims += is_false(&m, &j);
        judged_free(&j);
    }
    cr_expect_leq(claims, RUNS / 100, "%u of %u", claims, (uint32_t)RUNS);
}

/* What makes no sense is left out, and said. */
Test(lines, hostile) {
    for (int kind = 0; kind < 6; kind++) {
        made_t m;
        uint64_t line = begin(&m);
        counters(&m, line, 12, 16);
        na_nprof_access_probe_t *p = &m.probes[3];
        if (kind == 0) p->address[1] += LINE; /* of two lines */
        if (kind == 1) p->length[1] = 200;
        if (kind == 2) p->watched_ns = 0;
        if (kind == 3) p->uses[0].range = 7;
        if (kind == 4) p->object[0] = 77;
        if (kind == 5) p->uses[0].thread = 999999;
        na_reader_t *r = made_reader(&m);
        na_flows_t flows;
        na_verdicts_t v;
        cr_assert(na_flows_read(&r, 1, &flows));
        cr_expect_geq(na_reader_issue_count(r), 1, "%d", kind);
        cr_expect_eq(flows.probe_count, kind < 3 ? 11 : 12, "%d: %u", kind, flows.probe_count);
        cr_assert(na_verdicts_make(&flows, &v));
        cr_expect_eq(v.items[0].kind, NA_VERDICT_FALSE_SHARING);
        na_verdicts_free(&v);
        na_flows_free(&flows);
        na_reader_close(r);
    }
}
