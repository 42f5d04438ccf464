/* test_verdict_parts.c - objects of which each node uses a part of its own, and their like: nodes
 * that use all of it, parts that lie right already, parts that are no pages. */
#include <math.h>

#include "tests/support/verdict_judge.h"

TestSuite(verdict_parts, .timeout = 300);

#define PAGE UINT64_C(4096)

typedef enum layout { QUARTERS, PAGES, LINES, ANYWHERE } layout_t;
typedef enum place { ON_FIRST, SPREAD, AT_HOME } place_t;

typedef struct shape {
    uint64_t size;
    layout_t layout;                 /* which node uses what */
    place_t place;                   /* where it lies */
    uint32_t samples, stray, stores; /* `stray` and `stores` of 1000 */
    uint32_t threads;                /* of each node */
} shape_t;

static uint64_t random_word(void) {
    static uint64_t state = 1;
    state = state * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
    return state >> 24;
}

static int user_of(const shape_t *s, uint64_t offset) {
    return s->layout == QUARTERS ? (int)(offset * 4 / s->size)
           : s->layout == PAGES  ? (int)(offset / PAGE % 4)
           : s->layout == LINES  ? (int)(offset / 64 % 4)
                                 : (int)(random_word() % 4);
}

static int home_of(const shape_t *s, uint64_t offset) {
    return s->place == ON_FIRST ? 0
           : s->place == SPREAD ? (int)(offset / PAGE % 4)
                                : user_of(s, offset / PAGE * PAGE);
}

static na_nprof_access_sample_t *touch_at(made_t *m, uint32_t block, uint64_t offset,
                                          uint32_t thread, int from, int home) {
    na_nprof_access_sample_t *a = made_touch(m, block, thread, from, home);
    a->address = m->objects[block - 1].base + offset;
    return a;
}

/* Thread 1 fills it from node 0; then threads of all nodes use it. */
static void make(made_t *m, const shape_t *s) {
    made_begin(m);
    uint32_t block = made_object(m, 4, 1, 0, s->size);
    m->op = NA_NPROF_OP_WRITE;
    for (uint32_t i = 0; i < 40; i++) {
        uint64_t at = i * s->size / 40 & ~UINT64_C(7);
        touch_at(m, block, at, 1, 0, home_of(s, at));
    }
    for (uint32_t i = 0; i < s->samples; i++) {
        uint64_t at = random_word() % s->size & ~UINT64_C(7);
        int node = user_of(s, at);
        if (made_of(i, s->stray, 1000)) node = (node + 1 + (int)(random_word() % 3)) % 4;
        m->op = made_of(i, s->stores, 1000) ? NA_NPROF_OP_WRITE : NA_NPROF_OP_READ;
        uint32_t threads = s->threads == 0 ? 1 : s->threads;
        uint32_t thread = 2 + (uint32_t)node + 4 * (uint32_t)(random_word() % threads);
        touch_at(m, block, at, thread, node, home_of(s, at));
    }
}

static na_verdict_t judge(const shape_t *s) {
    made_t m;
    make(&m, s);
    return only(&m);
}

#define expect(wanted, ...)                                                                        \
    do {                                                                                           \
        na_verdict_t e_ = judge(&(shape_t){__VA_ARGS__});                                          \
        cr_assert_eq(e_.kind, wanted, "%s, not %s (undecided %d): parted %f, misplaced %f",        \
                     na_verdict_texts[e_.kind].key, na_verdict_texts[wanted].key, e_.undecided,    \
                     e_.measure.parted, e_.measure.misplaced);                                     \
    } while (0)

/* Main fills it, workers use it by quarters: whatever its size, read or written, with one thread of
 * each node or several, and wherever it lies, but where it should. */
Test(verdict_parts, partition) {
    static const uint64_t sizes[] = {8 * PAGE, 16 * PAGE, 256 * PAGE, 4096 * PAGE};
    for (size_t i = 0; i < sizeof sizes / sizeof sizes[0]; i++)
        for (uint32_t stores = 0; stores <= 500; stores += 250)
            for (uint32_t threads = 1; threads <= 4; threads += 3) {
                expect(NA_VERDICT_PARTITION, .size = sizes[i], .samples = 2000, .stores = stores,
                       .threads = threads);
                expect(NA_VERDICT_PARTITION, .size = sizes[i], .samples = 2000, .stores = stores,
                       .threads = threads, .place = SPREAD);
                expect(NA_VERDICT_NOTHING, .size = sizes[i], .samples = 2000, .stores = stores,
                       .threads = threads, .place = AT_HOME);
            }
    na_verdict_t v = judge(&(shape_t){.size = 256 * PAGE, .samples = 2000, .stores = 300});
    cr_assert_gt(v.chance, 0.95);
    cr_assert_float_eq(v.gain_remote, 1500.0 / 2040, 0.02);
    cr_assert_gt(v.measure.parted, 0.99);
    cr_assert_float_eq(v.measure.misplaced, 0.75, 0.02);
}

/* Pages in turn are parts; lines in turn are none, and cannot be placed apart. */
Test(verdict_parts, cyclic) {
    expect(NA_VERDICT_PARTITION, .size = 64 * PAGE, .samples = 2000, .stores = 300,
           .layout = PAGES);
    expect(NA_VERDICT_WRITE_SHARED, .size = 64 * PAGE, .samples = 2000, .stores = 300,
           .layout = LINES);
    expect(NA_VERDICT_READ_MOSTLY, .size = 64 * PAGE, .samples = 2000, .layout = LINES);
}

/* What all nodes use has no parts, however few samples of a page there are; spread over the nodes,
 * it is even, and not right. */
Test(verdict_parts, used_by_all) {
    static const uint32_t samples[] = {200, 1000, 4000};
    for (size_t i = 0; i < sizeof samples / sizeof samples[0]; i++) {
        expect(NA_VERDICT_WRITE_SHARED, .size = 1024 * PAGE, .samples = samples[i], .stores = 400,
               .layout = ANYWHERE);
        expect(NA_VERDICT_EVEN, .size = 1024 * PAGE, .samples = samples[i], .stores = 400,
               .layout = ANYWHERE, .place = SPREAD);
    }
    expect(NA_VERDICT_READ_MOSTLY, .size = 1024 * PAGE, .samples = 1000, .layout = ANYWHERE);
}

/* From four fifths on they are parts, below it the nodes share it. */
Test(verdict_parts, parted_threshold) {
    expect(NA_VERDICT_PARTITION, .size = 64 * PAGE, .samples = 20000, .stores = 300, .stray = 190);
    expect(NA_VERDICT_WRITE_SHARED, .size = 64 * PAGE, .samples = 20000, .stores = 300,
           .stray = 210);
}

/* Each page lies where it is used most; what else comes to it cannot be helped. */
Test(verdict_parts, halo) {
    expect(NA_VERDICT_NOTHING, .size = 64 * PAGE, .samples = 4000, .stores = 300, .stray = 150,
           .place = AT_HOME);
    expect(NA_VERDICT_PARTITION, .size = 64 * PAGE, .samples = 4000, .stores = 300, .stray = 150,
           .place = SPREAD);
}

/* Whatever the shape: what goes to other nodes most of the time is never called right. */
Test(verdict_parts, never_right_while_mostly_remote) {
    for (uint32_t i = 0; i < 200; i++) {
        shape_t s = {.size = PAGE << random_word() % 11,
                     .layout = (layout_t)(random_word() % 4),
                     .place = (place_t)(random_word() % 3),
                     .samples = 60 + (uint32_t)(random_word() % 1000),
                     .stray = (uint32_t)(random_word() % 1000),
                     .stores = (uint32_t)(random_word() % 300)};
        na_verdict_t v = judge(&s);
        if (v.measure.remote >= 0.5)
            cr_assert_neq(v.kind, NA_VERDICT_NOTHING, "%u: %f remote", i, v.measure.remote);
    }
}

/* ---- the ranges ---- */

Test(verdict_parts, ranges) {
    made_t m;
    shape_t s = {.size = 256 * PAGE, .samples = 2000, .stores = 300};
    make(&m, &s);
    judged_t j;
    made_judge(&m, &j);
    na_verdict_part_t parts[8];
    cr_assert_eq(na_measure_parts(&j.flows, &j.verdicts, 0, parts, 8), 4);
    for (uint32_t i = 0; i < 4; i++) {
        cr_assert_eq(parts[i].node, (int)i);
        cr_assert_eq(parts[i].at, 0);
        cr_assert_eq(parts[i].from, i * 64 * PAGE, "%lu", parts[i].from);
        cr_assert_eq(parts[i].to, (i + 1) * 64 * PAGE);
        cr_assert_float_eq(parts[i].own, parts[i].weight, 1e-6);
    }
    /* Only so many are written. */
    cr_assert_eq(na_measure_parts(&j.flows, &j.verdicts, 0, parts, 2), 4);
    cr_assert_eq(parts[1].to, 128 * PAGE);
    judged_free(&j);
}

/* ---- watchpoints and hinting faults ---- */

/* Rounds of ten hits of one word by one thread, whose word it is (`parts`) or which is just there.
 */
static void watched(made_t *m, uint32_t rounds, bool parts) {
    made_begin(m);
    m->source = NA_NPROF_SOURCE_WATCH;
    m->unit = NA_NPROF_UNIT_ACCESSES;
    m->flags = NA_NPROF_ACCESS_VALID | NA_NPROF_ACCESS_USED | NA_NPROF_ACCESS_OP;
    m->level = NA_NPROF_LEVEL_UNKNOWN;
    m->step = 2 * MADE_MS;
    uint32_t block = made_object(m, 4, 1, 0, 256 * PAGE);
    m->windows = calloc(rounds, sizeof *m->windows);
    cr_assert_not_null(m->windows);
    for (uint32_t r = 0; r < rounds; r++) {
        uint64_t at = random_word() % (256 * PAGE) & ~UINT64_C(7);
        int node = parts ? (int)(at / (64 * PAGE)) : (int)(random_word() % 4);
        m->windows[m->window_count++] = (na_nprof_access_window_t){
            .start_ns = m->ns, .watched_ns = MADE_MS, .length = 8, .round = r + 1};
        for (uint32_t i = 0; i < 10; i++) {
            m->op = i % 2 == 0 ? NA_NPROF_OP_WRITE : NA_NPROF_OP_READ;
            touch_at(m, block, at, 2 + (uint32_t)node, node, 0)->window = r + 1;
        }
    }
}

Test(verdict_parts, rounds) {
    made_t m;
    for (uint32_t rounds = 60; rounds <= 960; rounds *= 4) {
        watched(&m, rounds, true);
        na_verdict_t v = only(&m);
        cr_assert_eq(v.kind, NA_VERDICT_PARTITION, "%u: %s, %f", rounds,
                     na_verdict_texts[v.kind].key, v.measure.parted);
        cr_assert_float_eq(v.measure.independent, rounds, 1e-6);
        cr_assert_gt(v.chance, 0.8);
        watched(&m, rounds, false);
        v = only(&m);
        cr_assert_neq(v.kind, NA_VERDICT_PARTITION, "%u: %f", rounds, v.measure.parted);
        cr_assert_lt(v.measure.parted, 0.5);
    }
}

/* After each scan of the kernel's the first thread to come takes the faults of all pages that it
 * passes over: neighbours are of one burst, and say nothing of each other. */
static void hinted(made_t *m, uint32_t scans, bool parts) {
    made_begin(m);
    m->source = NA_NPROF_SOURCE_NUMA;
    m->unit = NA_NPROF_UNIT_SCANS;
    m->flags = NA_NPROF_ACCESS_VALID | NA_NPROF_ACCESS_USED | NA_NPROF_ACCESS_HOME;
    m->op = NA_NPROF_OP_UNKNOWN;
    m->level = NA_NPROF_LEVEL_UNKNOWN;
    m->step = MADE_MS / 10;
    uint32_t block = made_object(m, 4, 1, 0, 64 * PAGE);
    for (uint32_t scan = 0; scan < scans; scan++) {
        m->ns = (scan + 1) * 200 * MADE_MS;
        int node = (int)(random_word() % 4);
        for (uint32_t page = 0; page < 64; page++) {
            int by = parts ? (int)(page / 16) : node;
            touch_at(m, block, page * PAGE, 2 + (uint32_t)by, by, 0);
        }
    }
}

Test(verdict_parts, hinting_faults) {
    made_t m;
    hinted(&m, 40, true);
    is(&m, NA_VERDICT_PARTITION);
    hinted(&m, 40, false);
    na_verdict_t v = only(&m);
    cr_assert_neq(v.kind, NA_VERDICT_PARTITION);
    cr_assert_lt(v.measure.parted, 0.5);
}

/* A block of one page has no parts. */
Test(verdict_parts, one_page) {
    na_verdict_t v = judge(&(shape_t){.size = PAGE, .samples = 2000, .stores = 400});
    cr_assert(isnan(v.measure.parted));
    cr_assert_eq(v.kind, NA_VERDICT_WRITE_SHARED);
}

/* ---- placed by the program's own policy ---- */

/* Thread 1 allocates 1 MiB under a policy of its own, or where nothing says on which node; thread
 * `user` uses it from node 1. Its pages lie on all nodes in turn, or on node 0. */
static void own_policy(made_t *m, bool policy, bool spread, uint32_t user) {
    uint32_t block = made_one(m);
    m->objects[0].node = NA_NPROF_NO_NODE;
    m->objects[0].flags = policy ? NA_NPROF_OBJECT_OWN_POLICY : 0;
    for (uint32_t i = 0; i < 20; i++)
        made_touch(m, block, 1, 1, spread ? (int)(i % 4) : 0);
    for (uint32_t i = 0; i < 1000; i++) {
        uint32_t page = i * 7 % 256;
        na_nprof_access_sample_t *s = made_touch(m, block, user, 1, spread ? (int)(page % 4) : 0);
        s->address = m->objects[0].base + 4096 * page;
    }
}

/* That the node where it was allocated is not known does not say that the thread has moved. */
Test(verdict_parts, node_of_allocation_unknown) {
    made_t m;
    own_policy(&m, false, true, 1);
    undecided(&m, NA_UNDECIDED_SOURCE, cr_assert_eq(v_.lacks, NA_EVIDENCE_ALLOCATION));
}

Test(verdict_parts, own_policy_is_the_cause) {
    for (int spread = 0; spread < 2; spread++) {
        made_t m;
        own_policy(&m, true, spread, 1);
        na_verdict_t v = only(&m);
        cr_expect_eq(v.kind, NA_VERDICT_OWN, "%s", na_verdict_texts[v.kind].key);
        cr_expect(na_measure_by_policy(&v.measure));
        own_policy(&m, true, spread, 2);
        v = only(&m);
        cr_expect_eq(v.kind, NA_VERDICT_REMOTE, "%s", na_verdict_texts[v.kind].key);
        cr_expect(na_measure_by_policy(&v.measure));
    }
}

/* What was lost may have been all against it; and when the kernel paused, most may have been. */
Test(verdict_parts, lost_and_paused) {
    static const struct {
        uint64_t lost, throttled;
        double most;
    } cases[] = {{0, 0, 1}, {200, 0, 0.9}, {0, 1, 0.9}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        made_t m;
        uint32_t block = made_one(&m);
        for (uint32_t k = 0; k < 1000; k++)
            made_touch(&m, block,
                       k < 100       ? 1
                       : k % 20 != 0 ? 2
                                     : 3,
                       k < 100       ? 0
                       : k % 20 != 0 ? 1
                                     : 2,
                       0);
        m.lost = cases[i].lost;
        m.throttled = cases[i].throttled;
        na_verdict_t v = only(&m);
        cr_expect_eq(v.kind, NA_VERDICT_REMOTE);
        cr_expect_leq(v.chance, cases[i].most, "%zu: %f", i, v.chance);
        if (i == 0) cr_expect_gt(v.chance, 0.95);
    }
}
