/* test_verdict_turns.c - verdict_measure.c: turns of threads at a block, and what shows that some
 * were missed. */
#include "tests/support/verdict_judge.h"

TestSuite(verdict_turns, .timeout = 300);

/* A turn is from a thread's first access to the first one by another: here five accesses of 1 ms.
 */
Test(verdict_turns, are_seen) {
    made_t m;
    uint32_t block = made_one(&m);
    for (uint32_t i = 0; i < 100; i++)
        made_touch(&m, block, 1 + i / 5 % 2, (int)(i / 5 % 2), 0);
    na_verdict_t v = only(&m);
    cr_expect_eq(v.measure.switches, 19);
    cr_expect_float_eq(v.measure.switch_ns, 5.0 * MADE_MS, 1);
    cr_expect_float_eq(v.measure.turn_draws, 100, 1e-9);
    cr_expect_eq(v.measure.thin_turns, 0);
    cr_expect(na_measure_turns_are_seen(&v.measure));
}

/* Of turns of 19 ms and of 1 ms in turn one draw in twenty meets the shorter ones, and as many of
 * these are missed as are met. Two draws a turn are too few as well. */
Test(verdict_turns, that_were_missed) {
    made_t m;
    uint32_t block = made_one(&m);
    for (uint32_t i = 0; i < 400; i++)
        made_touch(&m, block, 1 + (i % 20 == 19), (int)(i % 20 == 19), 0);
    na_verdict_t v = only(&m);
    cr_expect_eq(v.measure.switches, 39);
    cr_expect_float_eq(v.measure.turn_draws, 400, 1e-9);
    cr_expect_eq(v.measure.thin_turns, 19); /* the last one has not ended */
    cr_expect_not(na_measure_turns_are_seen(&v.measure));

    block = made_one(&m);
    for (uint32_t i = 0; i < 100; i++)
        made_touch(&m, block, 1 + i / 2 % 2, (int)(i / 2 % 2), 0);
    v = only(&m);
    cr_expect_eq(v.measure.thin_turns, 48); /* all but the first and the last */
    cr_expect_not(na_measure_turns_are_seen(&v.measure));
}

/* By chance two draws meet short turns of one thread, and none a turn of the other between these:
 * one turn of two draws, and not a long one. */
Test(verdict_turns, of_one_thread_that_were_missed) {
    made_t m;
    uint32_t block = made_one(&m);
    for (uint32_t i = 0; i < 80; i++)
        made_touch(&m, block, 1 + (i / 2 == 20), (int)(i / 2 == 20), 0);
    na_verdict_t v = only(&m);
    cr_expect_eq(v.measure.switches, 2);
    cr_expect_eq(v.measure.thin_turns, 1);
    cr_expect_not(na_measure_turns_are_seen(&v.measure));
}

/* One draw at the beginning, or at the end, meets a short turn of one thread, and all others its
 * other: nothing is known of turns. Of a block that is handed over once, and used for long by both,
 * it is. */
Test(verdict_turns, that_were_cut) {
    for (uint32_t first = 0; first < 100; first += 99) {
        made_t m;
        uint32_t block = made_one(&m);
        for (uint32_t i = 0; i < 100; i++)
            made_touch(&m, block, 1 + (i == first), (int)(i == first), 0);
        na_verdict_t v = only(&m);
        cr_expect_eq(v.measure.switches, 1);
        cr_expect_eq(v.measure.thin_turns, 1);
        cr_expect_not(na_measure_turns_are_seen(&v.measure));
    }
    made_t m;
    uint32_t block = made_one(&m);
    for (uint32_t i = 0; i < 100; i++)
        made_touch(&m, block, 1 + i / 50, (int)(i / 50), 0);
    na_verdict_t v = only(&m);
    cr_expect_eq(v.measure.thin_turns, 0);
    cr_expect(na_measure_turns_are_seen(&v.measure));
}
