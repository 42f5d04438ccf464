/* test_access_more.c - profiler/dump/accesses: what is said of samples that are too few, were lost,
 * or for which the source was paused. */
#include "profiler/dump/accesses/access_view.h"
#include "tests/support/access_judge.h"

static judged_t judged;
static na_access_view_t view;
static na_nprof_access_source_t *source;

static void begin(void) {
    made_t m;
    made_begin(&m);
    uint32_t block = made_object(&m, 4, 1, 0, 1 << 20);
    m.ns = 20000 * MADE_MS; /* long after the program's last event */
    for (unsigned k = 0; k < 100; k++)
        made_touch(&m, block, 2, 1, 0);
    made_judge(&m, &judged);
    view = (na_access_view_t){.flows = judged.flows, .verdicts = judged.verdicts};
    source = &view.flows.sources[view.verdicts.source].of;
    source->lost = source->throttled = source->cost = 0;
    source->stored = 100;
    source->period = 262144;
}

static void end(void) {
    judged_free(&judged);
}

TestSuite(access_more, .init = begin, .fini = end);

static const char *more(double factor) {
    static char text[256];
    na_access_more(&view, factor, text, sizeof text);
    return text;
}

Test(access_more, from_what_was_set) {
    cr_expect_not_null(strstr(more(2), "NUMALLOC_ACCESS_PERIOD=131072 (now 262144)"), "%s",
                       more(2));
    source->source = NA_NPROF_SOURCE_WATCH;
    source->period = 100000000; /* ns */
    source->cost = 20;
    cr_expect_not_null(strstr(more(2), "NUMALLOC_ACCESS_PERIOD=50000 NUMALLOC_ACCESS_COST=40 (now "
                                       "every 100000 us, 20 %)"),
                       "%s", more(2));
    source->cost = 90;
    cr_expect_not_null(strstr(more(2), "NUMALLOC_ACCESS_COST=100 (now"), "%s", more(2));
}

/* The run was as long as its samples say, whenever it allocated last. */
Test(access_more, from_now) {
    cr_expect_not_null(strstr(more(2), "run some 40.2 s "), "%s", more(2));
}

Test(access_more, never_more_often_where_samples_are_missed) {
    source->throttled = 1;
    cr_expect_null(strstr(more(2), "more often"), "%s", more(2));
    source->throttled = 0;
    source->lost = 10;
    cr_expect_null(strstr(more(2), "more often"), "%s", more(2));
    source->lost = 0;
    cr_expect_not_null(strstr(more(2), "more often"), "%s", more(2));
}

/* In the option's unit: of watchpoints the period is in ns, the option in us. */
Test(access_more, less_often_where_it_was_paused) {
    char text[128];
    na_access_less(source, text, sizeof text);
    cr_expect_str_eq(text, "; sample less often: NUMALLOC_ACCESS_PERIOD=524288");
    source->source = NA_NPROF_SOURCE_WATCH;
    source->period = 100000000;
    na_access_less(source, text, sizeof text);
    cr_expect_str_eq(text, "; sample less often: NUMALLOC_ACCESS_PERIOD=200000");
    source->period = 0;
    na_access_less(source, text, sizeof text);
    cr_expect_str_eq(text, "");
}

Test(access_more, shares_say_what_they_may_be) {
    char text[NA_LABEL];
    cr_expect_str_eq(na_access_share(source, 0.5, text), "50.0 %");
    source->lost = 25;
    cr_expect_str_eq(na_access_share(source, 0.5, text),
                     "50.0 % (40.0 to 60.0 % with what was lost)");
    source->lost = 0;
    source->throttled = 3;
    cr_expect_str_eq(na_access_share(source, 0.5, text),
                     "50.0 % (not certain: the kernel paused the sampling)");
}
