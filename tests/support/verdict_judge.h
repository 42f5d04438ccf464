/* verdict_judge.h - the verdict on made-up accesses to one object, for the tests of verdicts. */
#ifndef NUMALLOC_TESTS_SUPPORT_VERDICT_JUDGE_H
#define NUMALLOC_TESTS_SUPPORT_VERDICT_JUDGE_H

#include <math.h>

#include "tests/support/access_judge.h"

/* The thresholds: as they are, and of a thousand. */
static inline uint32_t least_of(na_threshold_t t) {
    return (uint32_t)lrint(na_thresholds[t].value);
}
static inline uint32_t per_mille(na_threshold_t t) {
    return (uint32_t)lrint(na_thresholds[t].value * 1000);
}

/* Begins with a block of 1 MiB that thread 1 allocated on node 0. */
static inline uint32_t made_one(made_t *m) {
    made_begin(m);
    return made_object(m, 4, 1, 0, 1 << 20);
}

/* The verdict on the only group that there is. */
static inline na_verdict_t only(made_t *m) {
    judged_t j;
    made_judge(m, &j);
    cr_assert_eq(j.verdicts.count, 1, "%u verdicts", j.verdicts.count);
    na_verdict_t v = j.verdicts.items[0];
    judged_free(&j);
    return v;
}

#define is(m, wanted)                                                                              \
    do {                                                                                           \
        na_verdict_t v_ = only(m);                                                                 \
        cr_assert_eq(v_.kind, wanted, "%s, not %s (undecided %d, lacks %u)",                       \
                     na_verdict_texts[v_.kind].key, na_verdict_texts[wanted].key, v_.undecided,    \
                     v_.lacks);                                                                    \
    } while (0)

#define undecided(m, wanted, reason)                                                               \
    do {                                                                                           \
        na_verdict_t v_ = only(m);                                                                 \
        cr_assert_eq(v_.kind, NA_VERDICT_UNDECIDABLE, "%s", na_verdict_texts[v_.kind].key);        \
        cr_assert_eq(v_.undecided, wanted, "reason %d", v_.undecided);                             \
        reason;                                                                                    \
    } while (0)

#endif
