/* test_verdict.c - every rule of the verdicts, just below and just above each of its thresholds, on
 * samples that were written to a file and read back. Latencies are made up here. */
#include <math.h>

#include "tests/support/verdict_judge.h"

TestSuite(verdict, .timeout = 300);

/* ---- remote after allocation ---- */

/* Thread 1 on node 0 makes a block and hands it over; of what follows, `one` of 1000 are by thread
 * 2 on node 1, `own` by thread 1, the others by thread 3 on node 2. */
static void handed_over(made_t *m, uint32_t before, uint32_t one, uint32_t own) {
    uint32_t block = made_one(m);
    for (uint32_t i = 0; i < before; i++)
        made_touch(m, block, 1, 0, 0);
    made_touch(m, block, one != 0 ? 2 : 3, one != 0 ? 1 : 2, 0);
    for (uint32_t i = 1; i < 1000; i++) {
        if (made_of(i, one - (one < 1000), 1000))
            made_touch(m, block, 2, 1, 0);
        else if (made_of(i, own, 1000))
            made_touch(m, block, 1, 0, 0);
        else
            made_touch(m, block, 3, 2, 0);
    }
}

Test(verdict, remote_after_allocation) {
    made_t m;
    handed_over(&m, 100, 1000, 0);
    judged_t j;
    made_judge(&m, &j);
    const na_verdict_t *v = &j.verdicts.items[0];
    cr_assert_eq(v->kind, NA_VERDICT_REMOTE);
    cr_assert_gt(v->chance, 0.95);
    cr_assert_eq(v->measure.to, 1);
    cr_assert_eq(v->measure.at, 0);
    cr_assert_eq(v->measure.samples, 1100);
    cr_assert_float_eq(v->measure.remote, 1000.0 / 1100, 1e-9);
    cr_assert_float_eq(v->measure.one_node, 1, 1e-9);
    /* 1000 become local, and the 100 of the thread that made it remote. */
    cr_assert_float_eq(v->gain_remote, 900.0 / 1100, 1e-9);
    cr_assert_eq(v->measure.handoff_ns, 101 * MADE_MS - 1);
    cr_assert_neq(v->runners[0], v->runners[1]);
    cr_assert_neq(v->runners[0], NA_VERDICT_REMOTE);
    judged_free(&j);
}

Test(verdict, one_node_threshold) {
    made_t m;
    handed_over(&m, 10, per_mille(NA_T_ONE_NODE) + 1, 0);
    is(&m, NA_VERDICT_REMOTE);
    handed_over(&m, 10, per_mille(NA_T_ONE_NODE) - 1, 0);
    cr_assert_neq(only(&m).kind, NA_VERDICT_REMOTE);
}

Test(verdict, allocator_threshold) {
    made_t m;
    uint32_t too_many = per_mille(NA_T_ALLOCATOR) + 1; /* if all others are */
    handed_over(&m, 10, 1000 - too_many, 950);
    is(&m, NA_VERDICT_REMOTE);
    handed_over(&m, 10, 1000 - too_many, 1000);
    cr_assert_neq(only(&m).kind, NA_VERDICT_REMOTE);
}

/* A pair that was put on one node after one of the two had allocated: the buffer stayed behind, and
 * who allocated it is one of those that want it there. With one sample of each block as well. */
Test(verdict, moved_without_its_buffer) {
    made_t m;
    uint32_t block = made_one(&m);
    for (uint32_t i = 0; i < 1000; i++)
        made_touch(&m, block, 1 + i % 2, i < 20 ? 0 : 1, 0);
    is(&m, NA_VERDICT_REMOTE);
    made_begin(&m);
    for (uint32_t i = 0; i < 500; i++) {
        block = made_object(&m, 4, 1, 0, 64);
        made_touch(&m, block, 2, 1, 0);
        made_touch(&m, block, 1, 1, 0);
    }
    is(&m, NA_VERDICT_REMOTE);
}

/* A matrix of rows: main allocates and fills them, a worker of each node uses its own. A quarter
 * lies with its worker by chance; when all do, nothing is wrong. */
Test(verdict, rows) {
    for (uint32_t mended = 0; mended < 2; mended++) {
        made_t m;
        made_begin(&m);
        uint32_t row[64];
        for (uint32_t r = 0; r < 64; r++)
            row[r] = made_object(&m, 4, 1, 0, 40000);
        for (uint32_t i = 0; i < 6400; i++) {
            int node = (int)(i % 64 / 16);
            m.op = i < 64 || i % 3 == 0 ? NA_NPROF_OP_WRITE : NA_NPROF_OP_READ;
            if (i < 64)
                made_touch(&m, row[i], 1, 0, 0);
            else
                made_touch(&m, row[i % 64], 2 + (uint32_t)node, node, mended ? node : 0);
        }
        na_verdict_t v = only(&m);
        cr_assert_eq(v.kind, mended ? NA_VERDICT_NOTHING : NA_VERDICT_REMOTE, "%s",
                     na_verdict_texts[v.kind].key);
        if (!mended) cr_assert_float_eq(v.gain_remote, 0.75, 0.01);
    }
    /* One that its node uses mostly is no such thing, however many of them there are. */
    made_t m;
    made_begin(&m);
    uint32_t block[4];
    for (uint32_t b = 0; b < 4; b++)
        block[b] = made_object(&m, 4, 1, 0, 4096);
    for (uint32_t i = 0; i < 4000; i++)
        made_touch(&m, block[i % 4], i % 20 < 3 ? 3 : 2, i % 20 < 3 ? 1 : 0, 0);
    cr_assert_neq(only(&m).kind, NA_VERDICT_REMOTE);
}

/* Nothing is wrong up to so many remote accesses. */
Test(verdict, remote_threshold) {
    const uint32_t limit = per_mille(NA_T_REMOTE);
    for (uint32_t remote = limit - 1; remote <= limit + 1; remote++) {
        made_t m;
        uint32_t block = made_one(&m);
        for (uint32_t i = 0; i < 1000 - remote; i++)
            made_touch(&m, block, 1, 0, 0);
        for (uint32_t i = 0; i < remote; i++)
            made_touch(&m, block, 2, 1, 0);
        is(&m, remote >= limit ? NA_VERDICT_REMOTE : NA_VERDICT_NOTHING);
    }
}

Test(verdict, too_few_samples) {
    const uint32_t least = least_of(NA_T_SAMPLES);
    for (uint32_t n = least - 1; n <= least; n++) {
        made_t m;
        uint32_t block = made_one(&m);
        for (uint32_t i = 0; i < n; i++)
            made_touch(&m, block, 2, 1, 0);
        if (n < least)
            undecided(&m, NA_UNDECIDED_SAMPLES, {
                cr_assert_geq(v_.needed, least);
                cr_assert_lt(v_.needed, 2 * least);
            });
        else
            is(&m, NA_VERDICT_REMOTE);
    }
}

/* One sample that stands for much more than the others leaves few that say something. */
Test(verdict, too_few_independent_samples) {
    for (int few = 0; few < 2; few++) {
        made_t m;
        handed_over(&m, 0, 1000, 0);
        /* of (999 + w)^2 / (999 + w^2) = worth */
        double worth = na_thresholds[NA_T_INDEPENDENT].value + (few != 0 ? -0.1 : 0.1);
        m.samples[500].weight =
            (999 + sqrt(999 * 999 - (worth - 1) * 999 * (worth - 999))) / (worth - 1);
        if (few != 0)
            undecided(&m, NA_UNDECIDED_SAMPLES, cr_assert_gt(v_.needed, 1000));
        else
            is(&m, NA_VERDICT_REMOTE);
    }
}

/* Samples of one round of watchpoints say what one says: the chance is less than theirs. */
Test(verdict, windows_of_watchpoints_count_once) {
    double chance[2];
    for (uint32_t together = 0; together < 2; together++) {
        made_t m;
        handed_over(&m, 10, 820, 0);
        for (uint32_t i = 0; together != 0 && i < m.sample_count; i++)
            m.samples[i].weight = i < 100 ? 10 : 1;
        judged_t j;
        made_judge(&m, &j);
        if (together != 0) cr_assert_lt(j.verdicts.items[0].measure.independent, 400);
        if (together == 0) cr_assert_float_eq(j.verdicts.items[0].measure.independent, 1010, 1e-6);
        chance[together] = j.verdicts.items[0].chance;
        judged_free(&j);
    }
    cr_assert_gt(chance[0], chance[1]);
}

/* ---- own data ---- */

/* Thread 1 allocates on node 0. It makes `own` of 1000 accesses, `off` of 1000 of those from node
 * 2, to a page on node 1; thread 2 makes the others from node 3. */
static void own_data(made_t *m, uint32_t own, uint32_t off) {
    uint32_t block = made_one(m);
    uint32_t made = 0;
    for (uint32_t i = 0; i < 1000; i++) {
        if (made_of(i, own, 1000))
            made_touch(m, block, 1, made_of(made++, off, own) ? 2 : 0, 1);
        else
            made_touch(m, block, 2, 3, 1);
    }
}

Test(verdict, own_data_wrong_page) {
    made_t m;
    own_data(&m, 1000, 0);
    is(&m, NA_VERDICT_OWN);
    const uint32_t own = per_mille(NA_T_OWN), stayed = per_mille(NA_T_STAYED);
    own_data(&m, own, 0);
    is(&m, NA_VERDICT_OWN);
    own_data(&m, own - 1, 0);
    cr_assert_neq(only(&m).kind, NA_VERDICT_OWN);
    own_data(&m, 1000, 1000 - stayed);
    is(&m, NA_VERDICT_OWN);
    own_data(&m, 1000, 1001 - stayed);
    cr_assert_neq(only(&m).kind, NA_VERDICT_OWN);
}

Test(verdict, thread_migrated) {
    made_t m;
    own_data(&m, 1000, 1000);
    is(&m, NA_VERDICT_MIGRATED);
    const uint32_t own = per_mille(NA_T_OWN), stayed = per_mille(NA_T_STAYED);
    own_data(&m, 1000, stayed);
    is(&m, NA_VERDICT_MIGRATED);
    own_data(&m, 1000, stayed - 1);
    cr_assert_neq(only(&m).kind, NA_VERDICT_MIGRATED);
    own_data(&m, own - 1, own - 1);
    cr_assert_neq(only(&m).kind, NA_VERDICT_MIGRATED);
}

/* Psearchy's shape: thousands of small blocks, each of one thread, all on pages of node 0. */
Test(verdict, many_small_own_blocks) {
    made_t m;
    made_begin(&m);
    for (uint32_t i = 0; i < 2000; i++) {
        uint32_t thread = 1 + i % 8;
        uint32_t block = made_object(&m, 4, thread, (int)(thread % 4), 64);
        made_touch(&m, block, thread, (int)(thread % 4), 0);
    }
    is(&m, NA_VERDICT_OWN);
}

/* ---- several nodes ---- */

/* A matrix of node 0 that thread 1 fills; then threads 2 and 3, on nodes 1 and 2, use it. In each
 * of 100 windows of ten accesses one of them uses it alone, but in `mixed` windows both do. */
static void windows(made_t *m, uint32_t mixed, uint32_t second) {
    uint32_t block = made_one(m);
    m->step = 2 * MADE_MS;
    m->op = NA_NPROF_OP_WRITE;
    for (uint32_t i = 0; i < 20; i++)
        made_touch(m, block, 1, 0, 0);
    m->op = NA_NPROF_OP_READ;
    for (uint32_t w = 0; w < 100; w++) {
        bool both = made_of(w, mixed, 100), other = made_of(w, second, 100);
        for (uint32_t i = 0; i < 10; i++) {
            bool third = both ? i % 2 == 1 : other;
            /* The hand-off begins the first window; the last one ends with it. */
            made_touch(m, block, third ? 3 : 2, third ? 2 : 1, 0);
        }
    }
}

Test(verdict, alternating) {
    made_t m;
    windows(&m, 0, 50);
    judged_t j;
    made_judge(&m, &j);
    cr_assert_eq(j.verdicts.items[0].kind, NA_VERDICT_ALTERNATING);
    cr_assert_eq(j.verdicts.items[0].measure.windows, 100);
    cr_assert_float_eq(j.verdicts.items[0].measure.pure, 1, 1e-9);
    judged_free(&j);
    windows(&m, 20, 50);
    is(&m, NA_VERDICT_ALTERNATING);
    windows(&m, 21, 50);
    undecided(&m, NA_UNDECIDED_BETWEEN, cr_assert_eq(v_.runners[0], NA_VERDICT_ALTERNATING));
}

Test(verdict, second_node_threshold) {
    made_t m;
    windows(&m, 0, 21);
    is(&m, NA_VERDICT_ALTERNATING);
    /* Less than one in seven from the second node: it is the first one's. */
    windows(&m, 0, 14);
    is(&m, NA_VERDICT_REMOTE);
}

Test(verdict, windows_at_least) {
    /* A window less says nothing of turns, of however many samples. */
    const uint32_t n = least_of(NA_T_WINDOWS_LEAST) * least_of(NA_T_WINDOW_SAMPLES);
    for (uint32_t missing = 0; missing < 2; missing++) {
        made_t m;
        uint32_t block = made_one(&m);
        m.step = 2 * MADE_MS;
        for (uint32_t i = n - missing; i == n - missing || i < least_of(NA_T_SAMPLES); i++)
            made_touch(&m, block, 1, 0, 0);
        for (uint32_t i = 0; i < n - missing; i++)
            made_touch(&m, block, i < n / 2 ? 2 : 3, i < n / 2 ? 1 : 2, 0);
        if (missing != 0)
            undecided(&m, NA_UNDECIDED_SAMPLES, cr_assert_gt(v_.needed, n));
        else
            is(&m, NA_VERDICT_ALTERNATING);
    }
}

Test(verdict, turns_shorter_than_a_window) {
    /* Turns of 1 ms: windows of 10 ms are mixed. */
    made_t m;
    uint32_t block = made_one(&m);
    m.step = MADE_MS / 10;
    for (uint32_t i = 0; i < 2000; i++)
        made_touch(&m, block, 2 + i / 10 % 2, 1 + (int)(i / 10 % 2), 0);
    is(&m, NA_VERDICT_READ_MOSTLY);
}

/* The matrix of FaceRec: written by thread 1, then read by all nodes at once; of 1000 accesses
 * `stores` are writes, on `pages` that lie on node 0, or on all. */
static void shared(made_t *m, uint32_t all, uint32_t stores, bool spread) {
    uint32_t block = made_one(m);
    m->op = NA_NPROF_OP_WRITE;
    for (uint32_t i = 0; i < 20; i++)
        made_touch(m, block, 1, 0, spread ? (int)(i % 4) : 0);
    for (uint32_t i = 0; i < all; i++) {
        m->op = made_of(i, stores, all) ? NA_NPROF_OP_WRITE : NA_NPROF_OP_READ;
        made_touch(m, block, 2 + i % 4, (int)(i % 4), spread ? (int)(i / 4 % 4) : 0);
    }
}

Test(verdict, concurrent_read_mostly) {
    made_t m;
    shared(&m, 1000, 0, false);
    is(&m, NA_VERDICT_READ_MOSTLY);
    const uint32_t stores = per_mille(NA_T_STORES_READ_MOSTLY),
                   reads = least_of(NA_T_SAMPLES_STORES);
    shared(&m, 1000, stores - 1, false);
    is(&m, NA_VERDICT_READ_MOSTLY);
    shared(&m, 1000, stores, false);
    undecided(&m, NA_UNDECIDED_BETWEEN, {
        cr_assert(v_.runners[0] == NA_VERDICT_READ_MOSTLY ||
                  v_.runners[1] == NA_VERDICT_READ_MOSTLY);
    });
    /* So many reads are needed to say that writes are few. */
    shared(&m, reads - 1, 0, false);
    undecided(&m, NA_UNDECIDED_SAMPLES, cr_assert_gt(v_.needed, reads + 19));
    shared(&m, reads, 0, false);
    is(&m, NA_VERDICT_READ_MOSTLY);
}

Test(verdict, write_shared) {
    made_t m;
    shared(&m, 1000, per_mille(NA_T_STORES_SHARED), false);
    is(&m, NA_VERDICT_WRITE_SHARED);
    shared(&m, 1000, per_mille(NA_T_STORES_SHARED) - 1, false);
    undecided(&m, NA_UNDECIDED_BETWEEN, );
    shared(&m, 1000, 500, false);
    is(&m, NA_VERDICT_WRITE_SHARED);
}

Test(verdict, mixed_windows_threshold) {
    made_t m;
    windows(&m, 50, 50);
    is(&m, NA_VERDICT_READ_MOSTLY);
    windows(&m, 49, 50);
    cr_assert_neq(only(&m).kind, NA_VERDICT_READ_MOSTLY);
}

/* What is written from everywhere and lies everywhere is even, and as remote as before; what is
 * only read could still have a copy on each node. */
Test(verdict, interleaved) {
    made_t m;
    shared(&m, 1000, 500, true);
    is(&m, NA_VERDICT_EVEN);
    shared(&m, 1000, 0, true);
    is(&m, NA_VERDICT_READ_MOSTLY);
}

/* Lines that everybody writes are not helped by being somewhere else. If each word is one thread's,
 * this source does not tell whether they are used at once. */
Test(verdict, one_line) {
    for (uint32_t words = 0; words < 2; words++) {
        made_t m;
        made_begin(&m);
        uint32_t block = made_object(&m, 4, 1, 0, 64);
        m.op = NA_NPROF_OP_WRITE;
        for (uint32_t i = 0; i < 1000; i++)
            made_touch(&m, block, 2 + i % 4, (int)(i % 4), 0)->address =
                m.objects[block - 1].base + (words != 0 ? 4 * (i % 4) : 8 * (i / 4 % 8));
        judged_t j;
        made_judge(&m, &j);
        const na_verdict_t *v = &j.verdicts.items[0];
        cr_assert_eq(v->measure.lines, 1);
        cr_assert_eq(v->kind, words != 0 ? NA_VERDICT_UNDECIDABLE : NA_VERDICT_WRITE_SHARED);
        cr_assert_eq(v->undecided, words != 0 ? NA_UNDECIDED_SOURCE : NA_UNDECIDED_NOT);
        cr_assert(words == 0 || v->lacks == NA_EVIDENCE_WORDS);
        judged_free(&j);
    }
}

/* Two threads count in one word, others read the word beside it, which nobody writes. */
Test(verdict, read_beside_what_is_written) {
    made_t m;
    made_begin(&m);
    uint32_t block = made_object(&m, 4, 1, 0, 64);
    for (uint32_t i = 0; i < 1000; i++) {
        m.op = i % 4 < 2 ? NA_NPROF_OP_READ | NA_NPROF_OP_WRITE : NA_NPROF_OP_READ;
        made_touch(&m, block, 2 + i % 4, (int)(i % 4), 0)->address =
            m.objects[block - 1].base + (i % 4 < 2 ? 0 : 8);
    }
    undecided(&m, NA_UNDECIDED_SOURCE, cr_assert_eq(v_.lacks, NA_EVIDENCE_WORDS));
}

/* ---- saturated node ---- */

/* Streamcluster: a block of node 0 that all nodes read and write, with `slow` cycles, and each
 * node's own data, which with `others` from other nodes. */
static void streamcluster(made_t *m, int slow, uint32_t part) {
    made_begin(m);
    uint32_t block = made_object(m, 4, 1, 0, 1 << 24), rest[4];
    for (uint32_t n = 0; n < 4; n++)
        rest[n] = made_object(m, 5, 2 + n, (int)n, 1 << 20);
    for (uint32_t i = 0; i < 2000; i++) {
        int node = (int)(i / 10 % 4);
        uint32_t thread = 2 + (uint32_t)node;
        m->op = i % 3 == 0 ? NA_NPROF_OP_WRITE : NA_NPROF_OP_READ;
        if (made_of(i, part, 1000)) {
            m->latency = node == 0 ? slow / 2 : slow;
            made_touch(m, block, thread, node, 0);
        } else { /* near and far, so that there is something to compare with */
            uint32_t at = i % 2 == 0 ? (uint32_t)node : (uint32_t)(node + 1) % 4;
            if (at == 0) at = 1;
            m->latency = at == (uint32_t)node ? 200 : 400;
            made_touch(m, rest[at], thread, node, (int)at);
        }
    }
}

static const na_verdict_t *of_site(const judged_t *j, uint32_t site) {
    for (uint32_t i = 0; i < j->verdicts.count; i++)
        if (j->flows.groups[j->verdicts.items[i].group].site == site) return &j->verdicts.items[i];
    return NULL;
}

Test(verdict, saturated_node) {
    /* 700 cycles where it should be 400, as in the paper. */
    for (int slow = 598; slow <= 602; slow += 4) {
        made_t m;
        streamcluster(&m, slow, 800);
        judged_t j;
        made_judge(&m, &j);
        const na_verdict_t *v = of_site(&j, 4);
        cr_assert_eq(v->kind, slow > 600 ? NA_VERDICT_SATURATED : NA_VERDICT_WRITE_SHARED, "%s",
                     na_verdict_texts[v->kind].key);
        cr_assert_eq(j.verdicts.nodes[0].saturated, slow > 600);
        cr_assert(!j.verdicts.nodes[1].saturated);
        if (slow > 600) cr_assert_gt(v->gain_latency, 0.1);
        cr_assert(isnan(v->gain_remote), "interleaving makes nothing local");
        judged_free(&j);
    }
}

Test(verdict, saturated_node_share) {
    /* A quarter is fair. */
    const double limit = na_thresholds[NA_T_NODE_SHARE].value / 4;
    made_t m;
    judged_t j;
    streamcluster(&m, 800, (uint32_t)(limit * 1000) + 5);
    made_judge(&m, &j);
    cr_assert_geq(j.verdicts.nodes[0].share, limit);
    cr_assert(j.verdicts.nodes[0].saturated);
    judged_free(&j);
    streamcluster(&m, 800, (uint32_t)(limit * 1000) - 5);
    made_judge(&m, &j);
    cr_assert_lt(j.verdicts.nodes[0].share, limit);
    cr_assert(!j.verdicts.nodes[0].saturated);
    judged_free(&j);
}

/* Without latencies the same block is write-shared, and saturation is among what is not known. */
Test(verdict, saturation_needs_latency) {
    made_t m;
    streamcluster(&m, 900, 800);
    m.flags &= ~(uint32_t)NA_NPROF_ACCESS_LATENCY;
    judged_t j;
    made_judge(&m, &j);
    const na_verdict_t *v = of_site(&j, 4);
    cr_assert_eq(v->kind, NA_VERDICT_WRITE_SHARED);
    cr_assert_eq(v->rules[NA_VERDICT_SATURATED].lacks, NA_EVIDENCE_LATENCY);
    judged_free(&j);
}

/* ---- sharing clusters ---- */

/* Apache: `groups` processes of four threads, one on each node; each process's pools are shared by
 * its threads, of 1000 accesses `strange` by the next group. */
static void apache(made_t *m, uint32_t groups, uint32_t strange) {
    made_begin(m);
    uint32_t pool[8];
    for (uint32_t g = 0; g < groups; g++)
        pool[g] = made_object(m, 4, 1 + 4 * g, 0, 1 << 20);
    for (uint32_t i = 0; i < 4000; i++) {
        uint32_t group = i % groups, node = i / groups % 4;
        uint32_t by = made_of(i, strange, 1000) ? (group + 1) % groups : group;
        m->op = i % 7 == 0 ? NA_NPROF_OP_WRITE : NA_NPROF_OP_READ;
        made_touch(m, pool[group], 1 + 4 * by + node, (int)node, 0);
    }
}

Test(verdict, sharing_cluster) {
    made_t m;
    judged_t j;
    apache(&m, 4, 0);
    made_judge(&m, &j);
    cr_assert_eq(j.verdicts.clusters.useful, 4);
    cr_assert(j.verdicts.clusters.apart);
    cr_assert_float_eq(j.verdicts.clusters.modularity, 0.75, 1e-6);
    for (uint32_t a = 0; a < j.flows.thread_count; a++)
        for (uint32_t b = 0; b < j.flows.thread_count; b++)
            cr_assert_eq(j.verdicts.clusters.of[a] == j.verdicts.clusters.of[b],
                         (j.flows.threads[a].tid - 101) / 4 == (j.flows.threads[b].tid - 101) / 4);
    judged_free(&j);
    apache(&m, 4, 0);
    is(&m, NA_VERDICT_CLUSTER);
    apache(&m, 4, 190);
    is(&m, NA_VERDICT_CLUSTER);
    apache(&m, 4, 210);
    cr_assert_neq(only(&m).kind, NA_VERDICT_CLUSTER);
    /* One group is no group. */
    apache(&m, 1, 0);
    is(&m, NA_VERDICT_WRITE_SHARED);
    /* A counter of all, however hot, unites none. */
    apache(&m, 4, 0);
    uint32_t counter = made_object(&m, 5, 1, 0, 8);
    for (uint32_t i = 0; i < 8000; i++)
        made_touch(&m, counter, 1 + i % 16, (int)(i % 4), 0);
    made_judge(&m, &j);
    cr_assert(j.verdicts.clusters.apart);
    cr_assert_eq(of_site(&j, 4)->kind, NA_VERDICT_CLUSTER);
    judged_free(&j);
}

/* ---- evidence ---- */

Test(verdict, what_a_source_does_not_give) {
    made_t m;
    /* Page faults see the first access to a page only. */
    handed_over(&m, 100, 1000, 0);
    m.source = NA_NPROF_SOURCE_KMOD_FAULT;
    m.unit = NA_NPROF_UNIT_FAULTS;
    m.flags = NA_NPROF_ACCESS_VALID | NA_NPROF_ACCESS_USED | NA_NPROF_ACCESS_HOME;
    undecided(&m, NA_UNDECIDED_SOURCE, cr_assert_eq(v_.lacks, NA_EVIDENCE_SHARES));
    /* Made-up samples are never evidence. */
    handed_over(&m, 100, 1000, 0);
    m.source = NA_NPROF_SOURCE_KMOD_SIM;
    m.unit = NA_NPROF_UNIT_MADE_UP;
    m.flags |= NA_NPROF_ACCESS_MADE_UP;
    undecided(&m, NA_UNDECIDED_SOURCE, cr_assert_eq(v_.lacks, NA_EVIDENCE_SHARES));
    /* Hinting faults: do they take turns, or come first after a scan each once? */
    windows(&m, 0, 50);
    m.source = NA_NPROF_SOURCE_NUMA;
    m.unit = NA_NPROF_UNIT_SCANS;
    m.flags = NA_NPROF_ACCESS_VALID | NA_NPROF_ACCESS_USED | NA_NPROF_ACCESS_HOME;
    undecided(&m, NA_UNDECIDED_SOURCE,
              cr_assert_eq(v_.rules[NA_VERDICT_ALTERNATING].lacks, NA_EVIDENCE_TURNS));
    /* A watchpoint that does not tell reads from writes: shared, but how? */
    shared(&m, 1000, 0, false);
    m.source = NA_NPROF_SOURCE_WATCH;
    m.unit = NA_NPROF_UNIT_ACCESSES;
    m.flags = NA_NPROF_ACCESS_VALID | NA_NPROF_ACCESS_USED;
    for (uint32_t i = 0; i < m.sample_count; i++) {
        m.samples[i].op = NA_NPROF_OP_UNKNOWN;
        m.samples[i].level = NA_NPROF_LEVEL_UNKNOWN;
    }
    undecided(&m, NA_UNDECIDED_SOURCE, cr_assert_eq(v_.lacks, NA_EVIDENCE_OP));
    /* The hand-over needs no more than a watchpoint gives; but caches may have answered. */
    handed_over(&m, 100, 1000, 0);
    m.source = NA_NPROF_SOURCE_WATCH;
    m.unit = NA_NPROF_UNIT_ACCESSES;
    m.flags = NA_NPROF_ACCESS_VALID | NA_NPROF_ACCESS_USED;
    na_verdict_t v = only(&m);
    cr_assert_eq(v.kind, NA_VERDICT_REMOTE);
    cr_assert_leq(v.chance, 0.9);
    cr_assert(isnan(v.gain_latency));
}

/* Arm's tells all that IBS does. */
Test(verdict, by_spe) {
    made_t m;
    handed_over(&m, 100, 1000, 0);
    m.source = NA_NPROF_SOURCE_SPE;
    is(&m, NA_VERDICT_REMOTE);
    shared(&m, 1000, 500, false);
    m.source = NA_NPROF_SOURCE_SPE;
    is(&m, NA_VERDICT_WRITE_SHARED);
}

Test(verdict, known_nodes_threshold) {
    const uint32_t limit = per_mille(NA_T_KNOWN);
    for (uint32_t known = limit - 1; known <= limit; known++) {
        made_t m;
        uint32_t block = made_one(&m);
        for (uint32_t i = 0; i < 1000; i++)
            made_touch(&m, block, 2, 1, made_of(i, known, 1000) ? 0 : -1);
        if (known < limit)
            undecided(&m, NA_UNDECIDED_SOURCE, cr_assert_eq(v_.lacks, NA_EVIDENCE_NODES));
        else
            is(&m, NA_VERDICT_REMOTE);
    }
}

/* Accesses that a cache answered count for nothing where the source tells. */
Test(verdict, caches_do_not_count) {
    made_t m;
    uint32_t block = made_one(&m);
    for (uint32_t i = 0; i < 2000; i++) {
        m.level = i % 2 == 0 ? NA_NPROF_LEVEL_L1 : NA_NPROF_LEVEL_LOCAL_DRAM;
        made_touch(&m, block, i % 2 == 0 ? 2 : 1, i % 2 == 0 ? 1 : 0, 0);
    }
    is(&m, NA_VERDICT_NOTHING);
}

/* What answered a store is not told, but that the first cache did not. What is only written is
 * seen, and has writes. Of a load the same says nothing. */
Test(verdict, stores_count) {
    made_t m;
    uint32_t block = made_one(&m);
    m.op = NA_NPROF_OP_WRITE;
    for (uint32_t i = 0; i < 1000; i++) {
        m.level = i % 4 == 0 ? NA_NPROF_LEVEL_L1 : NA_NPROF_LEVEL_UNKNOWN;
        made_touch(&m, block, 2, 1, 0);
    }
    na_verdict_t v = only(&m);
    cr_assert_eq(v.kind, NA_VERDICT_REMOTE);
    cr_assert_eq(v.measure.samples, 750);
    cr_assert_float_eq(v.measure.stores, 1, 1e-9);

    block = made_one(&m);
    for (uint32_t i = 0; i < 1000; i++) {
        m.op = i % 4 == 0 ? NA_NPROF_OP_READ : NA_NPROF_OP_WRITE;
        m.level = i % 4 == 1 ? NA_NPROF_LEVEL_L2 : NA_NPROF_LEVEL_UNKNOWN;
        if (i % 8 == 0) m.level = NA_NPROF_LEVEL_LOCAL_DRAM;
        made_touch(&m, block, 2, 1, 0);
    }
    v = only(&m);
    cr_assert_eq(v.measure.samples, 625);
    cr_assert_float_eq(v.measure.stores, 0.8, 1e-9);
}

/* ---- what is judged ---- */

Test(verdict, cost_threshold) {
    const uint32_t limit = per_mille(NA_T_COST);
    for (uint32_t some = limit - 1; some <= limit + 1; some++) {
        made_t m;
        made_begin(&m);
        uint32_t large = made_object(&m, 4, 1, 0, 1 << 20);
        uint32_t small = made_object(&m, 5, 1, 0, 1 << 20);
        for (uint32_t i = 0; i < 1000 - some; i++)
            made_touch(&m, large, 2, 1, 0);
        for (uint32_t i = 0; i < some; i++)
            made_touch(&m, small, 2, 1, 0);
        m.flags &= ~(uint32_t)NA_NPROF_ACCESS_LATENCY;
        judged_t j;
        made_judge(&m, &j);
        cr_assert_eq(j.verdicts.count, some >= limit ? 2 : 1);
        judged_free(&j);
    }
}

Test(verdict, split_threshold) {
    const uint32_t limit = per_mille(NA_T_SPLIT);
    for (uint32_t first = limit - 1; first <= limit; first++) {
        made_t m;
        made_begin(&m);
        uint32_t block[3];
        for (uint32_t i = 0; i < 3; i++)
            block[i] = made_object(&m, 4, 1, 0, 1 << 20);
        for (uint32_t i = 0; i < 1000; i++)
            made_touch(&m, i < first ? block[0] : block[1 + i % 2], i < first ? 2 : 1,
                       i < first ? 1 : 0, 0);
        judged_t j;
        made_judge(&m, &j);
        cr_assert_eq(j.verdicts.count, first >= limit ? 2 : 1);
        if (first >= limit) {
            cr_assert_eq(j.verdicts.items[0].kind, NA_VERDICT_REMOTE);
            cr_assert_eq(j.verdicts.items[1].kind, NA_VERDICT_NOTHING);
        }
        judged_free(&j);
    }
}

/* Blocks with a few samples each: who uses them is known, whether at once or in turn is not. */
Test(verdict, sparse_threshold) {
    const uint32_t least = least_of(NA_T_SPARSE);
    for (uint32_t each = least - 1; each <= least; each++) {
        made_t m;
        made_begin(&m);
        for (uint32_t i = 0; i < 100; i++) {
            uint32_t block = made_object(&m, 4, 1, 0, 4096);
            int node = 1 + (int)(i % 3); /* each block has one consumer, of three */
            for (uint32_t k = 0; k < each; k++)
                made_touch(&m, block, 1 + (uint32_t)node, node, 0);
        }
        na_verdict_t v = only(&m);
        if (each < least)
            cr_assert_neq(v.kind, NA_VERDICT_REMOTE);
        else
            cr_assert_eq(v.kind, NA_VERDICT_REMOTE);
        cr_assert_eq(v.measure.sparse, each < least ? 100 : 0);
    }
}

Test(verdict, enough_samples_of_all) {
    made_t m;
    judged_t j;
    handed_over(&m, 8999, 1000, 0);
    made_judge(&m, &j);
    cr_assert(!j.verdicts.enough);
    judged_free(&j);
    handed_over(&m, 9000, 1000, 0);
    made_judge(&m, &j);
    cr_assert(j.verdicts.enough);
    judged_free(&j);
}

/* A variable: nobody allocated it, and the first one to touch it placed it. */
Test(verdict, variable) {
    made_t m;
    made_begin(&m);
    m.mappings = calloc(1, sizeof *m.mappings);
    m.mappings[0] = (na_nprof_access_mapping_t){
        .start = 0x1000, .end = 0x2000, .to_ns = NA_NPROF_NS_STILL, .path = "/nowhere/made"};
    m.mapping_count = 1;
    for (uint32_t i = 0; i < 100; i++) {
        na_nprof_access_sample_t *s = made_sample(&m, 2, 1, 0);
        s->mapping = 1;
        s->target = NA_NPROF_TARGET_DATA;
        s->address = 0x1800 + i * 8 % 0x400;
    }
    judged_t j;
    made_judge(&m, &j);
    cr_assert_eq(j.verdicts.count, 1);
    const na_flow_group_t *group = &j.flows.groups[j.verdicts.items[0].group];
    cr_assert_eq(group->kind, NA_FLOW_STATIC);
    cr_assert_str_eq(group->name, "[static objects of made]");
    cr_assert_eq(j.verdicts.items[0].kind, NA_VERDICT_REMOTE);
    cr_assert_eq(j.verdicts.items[0].rules[NA_VERDICT_OWN].lacks, NA_EVIDENCE_ALLOCATION);
    judged_free(&j);
}

Test(verdict, no_samples) {
    made_t m;
    made_begin(&m);
    made_object(&m, 4, 1, 0, 64);
    judged_t j;
    made_judge(&m, &j);
    cr_assert_eq(j.verdicts.count, 0);
    cr_assert_eq(j.verdicts.source, NA_FLOWS_NONE);
    judged_free(&j);
}

/* The normal approximation, at known places. */
Test(verdict, chances) {
    cr_assert_float_eq(na_share_chance(0.8, 0.8, 100, true), 0.5, 1e-12);
    cr_assert_float_eq(na_share_chance(0.8 + 1.6449 * 0.04, 0.8, 100, true), 0.95, 1e-4);
    cr_assert_float_eq(na_share_chance(0.8 - 1.6449 * 0.04, 0.8, 100, false), 0.95, 1e-4);
    cr_assert_eq(na_share_chance(NAN, 0.8, 0, true), 0);
}

/* Blocks that are handed to four nodes in turn, with two samples each: a longer run brings more
 * blocks, and not more samples of each. */
Test(verdict, few_samples_of_each_object) {
    made_t m;
    made_begin(&m);
    for (uint32_t i = 0; i < 400; i++) {
        uint32_t block = made_object(&m, 4, 1, 0, 1024);
        made_touch(&m, block, 2 + i % 4, (int)(i % 4), 1 + (int)(i % 3));
        made_touch(&m, block, 2 + i % 4, (int)(i % 4), 1 + (int)(i % 3));
    }
    undecided(&m, NA_UNDECIDED_SAMPLES,
              cr_assert_geq(v_.needed, 400 * na_thresholds[NA_T_SPARSE].value));
}
