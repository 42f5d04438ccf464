/* test_place_verdicts.c - place_verdicts.c: which rule a verdict makes, and that it makes none
 * where a rule would have no effect, or a bad one. */
#include <string.h>

#include "profiler/analyze/policy/place_verdicts.h"
#include "tests/support/access_judge.h"

TestSuite(place_verdicts, .timeout = 60);

/* The place for the first verdict on site 4. */
static na_place_t place(made_t *m, na_verdict_kind_t kind) {
    judged_t j;
    made_judge(m, &j);
    na_place_t p = {.place = NA_POLICY_PLACE_NONE};
    bool found = false;
    for (uint32_t i = 0; i < j.verdicts.count && !found; i++) {
        const na_verdict_t *v = &j.verdicts.items[i];
        found = j.flows.groups[v->group].site == 4 && v->kind == kind;
        if (found) p = na_place_for(&j.flows, &j.verdicts, v);
    }
    cr_assert(found, "no verdict %s", na_verdict_texts[kind].key);
    judged_free(&j);
    return p;
}

/* One block of node 0, of which each of four threads uses a part; thread 1 fills it, or not. */
static void parts(made_t *m, uint64_t size, bool filled) {
    made_begin(m);
    uint32_t block = made_object(m, 4, 1, 0, size);
    uint64_t base = m->objects[block - 1].base;
    m->op = NA_NPROF_OP_WRITE;
    for (uint32_t i = 0; filled && i < 50; i++)
        made_touch(m, block, 1, 0, 0)->address = base + size / 50 * i;
    for (uint32_t i = 0; i < 4000; i++) {
        uint32_t t = i % 4;
        made_touch(m, block, 2 + t, (int)t, 0)->address =
            base + size / 4 * t + (uint64_t)i * 4096 % (size / 4);
    }
}

Test(place_verdicts, first_touch) {
    made_t m;
    parts(&m, 1 << 20, false);
    cr_expect_eq(place(&m, NA_VERDICT_PARTITION).place, NA_POLICY_FIRST_TOUCH);
    parts(&m, 1 << 20, true);
    na_place_t p = place(&m, NA_VERDICT_PARTITION);
    cr_expect_eq(p.place, NA_POLICY_PLACE_NONE, "its pages are there already");
    cr_expect_not_null(p.why_not);
    parts(&m, 4 << 20, false);
    p = place(&m, NA_VERDICT_PARTITION);
    cr_expect_eq(p.place, NA_POLICY_PLACE_NONE, "malloc does so itself");
    cr_expect_not_null(p.why_not);
}

/* A block of the site is used on node 1, and lies on node 0; another one, with the other half of
 * the accesses, lies with its user: on another node, or the same. */
Test(place_verdicts, right_and_wrong_blocks) {
    for (int same = 0; same < 2; same++) {
        made_t m;
        made_begin(&m);
        uint32_t wrong = made_object(&m, 4, 1, 0, 65536);
        uint32_t right = made_object(&m, 4, 1, 0, 65536);
        int node = same != 0 ? 1 : 2;
        for (uint32_t i = 0; i < 2000; i++) {
            made_touch(&m, wrong, 2, 1, 0);
            if (i % 2 == 0) made_touch(&m, right, 3, node, node);
        }
        na_place_t p = place(&m, NA_VERDICT_REMOTE);
        cr_expect_eq(p.place, same != 0 ? NA_POLICY_CONSUMER : NA_POLICY_PLACE_NONE);
        cr_expect_eq(p.why_not == NULL, same != 0);
    }
}

/* Each thread uses its own large block, which another filled on node 0: a rule that says "where it
 * is allocated" would leave it where it is first written. */
Test(place_verdicts, own_data_that_another_filled) {
    made_t m;
    made_begin(&m);
    for (uint32_t t = 0; t < 4; t++) {
        uint32_t block = made_object(&m, 4, 2 + t, (int)t, 4 << 20);
        for (uint32_t i = 0; i < 1000; i++)
            made_touch(&m, block, 2 + t, (int)t, 0);
    }
    na_place_t p = place(&m, NA_VERDICT_OWN);
    cr_expect_eq(p.place, NA_POLICY_PLACE_NONE);
    cr_expect_not_null(p.why_not);
}

/* Four of five accesses are remote, by 1,000 samples: the promise holds that share, a control less
 * at its lower end, and is wider with fewer samples, and with what was lost. */
Test(place_verdicts, promises_an_interval) {
    double width = 0;
    for (unsigned samples = 1000; samples >= 100; samples /= 10) {
        made_t m;
        judged_t j;
        made_begin(&m);
        uint32_t wrong = made_object(&m, 4, 1, 0, 1 << 20), right = made_object(&m, 5, 1, 0, 4096);
        for (unsigned i = 0; i < samples; i++)
            made_touch(&m, i % 5 == 0 ? right : wrong, i % 5 == 0 ? 1 : 2, i % 5 == 0 ? 0 : 1, 0);
        made_judge(&m, &j);
        const na_verdict_t *v = &j.verdicts.items[0];
        cr_assert_eq(v->kind, NA_VERDICT_REMOTE);
        cr_assert_float_eq(na_place_gain(&j.flows, &j.verdicts, v), 0.8, 1e-9);
        na_bounds_t b = na_place_promise(&j.flows, &j.verdicts, v);
        cr_expect_lt(b.low, 0.8 * 7 / 8);
        cr_expect_gt(b.high, 0.8);
        cr_expect_gt(b.high - b.low, width);
        width = b.high - b.low;
        na_nprof_access_source_t *s = &j.flows.sources[j.verdicts.source].of;
        s->stored = s->lost = samples;
        na_bounds_t lossy = na_place_promise(&j.flows, &j.verdicts, v);
        cr_expect_float_eq(lossy.low, b.low / 2, 1e-9);
        cr_expect_float_eq(lossy.high, b.high / 2 + 0.5, 1e-9);
        judged_free(&j);
    }
}

/* All nodes read and write all of a block that lies on one of four: all accesses are spread. */
Test(place_verdicts, spreading_promises_all) {
    made_t m;
    judged_t j;
    made_begin(&m);
    uint32_t block = made_object(&m, 4, 1, 0, 4 << 20);
    for (uint32_t i = 0; i < 8000; i++) {
        m.op = i % 2 == 0 ? NA_NPROF_OP_WRITE : NA_NPROF_OP_READ;
        made_touch(&m, block, 2 + i % 4, (int)(i % 4), 0)->address =
            m.objects[block - 1].base + (uint64_t)(i * 7919U) * 64 % (4 << 20);
    }
    made_judge(&m, &j);
    const na_verdict_t *v = &j.verdicts.items[0];
    cr_assert_eq(v->kind, NA_VERDICT_WRITE_SHARED);
    cr_expect_float_eq(na_place_gain(&j.flows, &j.verdicts, v), 1, 1e-9);
    judged_free(&j);
}

/* Each of a site's two blocks has a verdict of its own: the rule is for both. */
Test(place_verdicts, promises_for_the_whole_site) {
    made_t m;
    judged_t j;
    made_begin(&m);
    for (uint32_t b = 0; b < 2; b++) {
        uint32_t block = made_object(&m, 4, 1, 0, 1 << 20);
        for (uint32_t i = 0; i < 2000; i++)
            made_touch(&m, block, 2 + b, 1, 0);
    }
    made_judge(&m, &j);
    for (uint32_t i = 0; i < j.verdicts.count; i++) {
        na_bounds_t b = na_place_promise(&j.flows, &j.verdicts, &j.verdicts.items[i]);
        cr_expect_gt(b.low, 0.86);
        cr_expect_gt(b.high, 0.99);
    }
    judged_free(&j);
}
