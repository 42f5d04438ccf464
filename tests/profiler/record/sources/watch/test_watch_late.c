/* test_watch_late.c - access_watch_late.c: how late threads are for being watched, and what is
 * measured of the costs when watchpoints cannot be had, or have no effect. perf is made up here. */
#include <criterion/criterion.h>
#include <errno.h>
#include <string.h>

#include "profiler/record/sources/watch/access_watch_late.h"

TestSuite(watch_late, .timeout = 300);

/* ---- perf, as the test says it is ---- */

na_perf_target_t na_perf_target[NA_PERF_TARGETS];
uint32_t na_perf_count;

static long refuses;      /* what opening answers */
static bool open_now;     /* events of the caller are open */
static uint32_t opened;   /* how often they were */
static bool says_hits;    /* a drain brings a hit */
static bool says_rubbish; /* and records that are none, or are cut */
static uint32_t drains;

/* A clock that makes of each cycle what the test wants: it is asked before the sleep, after it, and
 * after the access. Cycles: 32 that do not count, then 16 unwatched, 16 watched, and again. */
#define OFF   71000u                                                   /* a sleep */
#define WOKEN 9000u                                                    /* more, watched */
static const uint32_t access_takes[2][2] = {{50, 50}, {13000, 14000}}; /* unwatched, watched */
static const uint32_t entry = 2500;
static uint64_t clock_now = 1000000, clock_calls, before_access;

uint64_t na_access_mono(void) {
    uint64_t cycle = clock_calls / 3;
    bool on = cycle >= 32 && (cycle - 32) / 16 % 2 != 0, write = cycle % 2 != 0;
    switch (clock_calls++ % 3) {
    case 0:
        break;
    case 1:
        before_access = clock_now += OFF + (on ? WOKEN : 0);
        break;
    default:
        clock_now += access_takes[on][write];
    }
    return clock_now;
}

long na_perf_open_self(const na_perf_plan_t *plan) {
    if (refuses != 0) return refuses;
    cr_assert(!open_now);
    open_now = true;
    opened++;
    na_perf_count = 1;
    na_perf_target[0] = (na_perf_target_t){.events = plan->events};
    for (uint32_t i = 0; i < plan->events; i++) {
        na_perf_target[0].fd[i] = -1; /* switching it does nothing */
        cr_assert_neq(plan->attr[i].bp_addr, 0);
        cr_assert((plan->attr[i].bp_addr == plan->attr[0].bp_addr) == (i < 2), "event %u", i);
    }
    return 0;
}

void na_perf_close_all(void) {
    open_now = false;
    na_perf_count = 0;
}

uint64_t na_perf_drain(na_perf_target_t *t, na_perf_sample_fn_t each) {
    cr_assert(open_now);
    drains++;
    uint64_t words[8] = {0};
    struct perf_event_header header = {.type = PERF_RECORD_SAMPLE};
    if (says_rubbish) {
        each(t, &header, words, 0);
        each(t, &header, words, sizeof(na_perf_hit_t) / 8 - 1);
        header.type = PERF_RECORD_SWITCH;
        each(t, &header, words, 8);
        header.type = PERF_RECORD_SAMPLE;
    }
    if (!says_hits) return 0;
    /* Those before the access are of the cycle before. */
    na_perf_hit_t hit = {.time = before_access + entry};
    memcpy(words, &hit, sizeof hit);
    each(t, &header, words, sizeof hit / 8);
    hit.time += 5000; /* a second one does not count */
    memcpy(words, &hit, sizeof hit);
    each(t, &header, words, sizeof hit / 8);
    return 0;
}

static const na_perf_plan_t *plan(void) {
    static na_perf_plan_t p = {.events = 4};
    for (uint32_t i = 0; i < 4; i++)
        p.attr[i] = (struct perf_event_attr){.type = PERF_TYPE_BREAKPOINT, .bp_addr = 8};
    return &p;
}

/* ---- what things cost ---- */

Test(watch_late, nothing_can_be_measured) {
    refuses = -EACCES;
    cr_expect(na_late_measure(plan(), 2), "nothing is known");
    cr_expect_eq(na_late_cost.hit[0], 20000);
    cr_expect_eq(na_late_cost.hit[1], 20000);
    cr_expect_eq(na_late_cost.entry, 0);
    cr_expect_eq(na_late_cost.woken, 0);
    cr_expect_eq(drains, 0);
}

static void expect_costs(uint64_t entry_seen) {
    const na_late_costs_t *c = &na_late_cost;
    cr_expect_eq(opened, 1);
    cr_expect(!open_now, "events were left open");
    cr_expect_eq(na_perf_count, 0);
    cr_expect_eq(clock_calls, 3 * (32 + 4 * 16));
    cr_expect_eq(c->hit[0], 13000);
    cr_expect_eq(c->hit[1], 14000);
    cr_expect_eq(c->entry, entry_seen);
    cr_expect(c->woken >= WOKEN && c->woken <= WOKEN + 1000, "%lu", c->woken);
    cr_expect_eq(plan()->attr[0].bp_addr, 8, "the plan is as it was");
}

Test(watch_late, costs) {
    says_hits = true;
    cr_expect(na_late_measure(plan(), 2));
    expect_costs(entry);
}

/* As in virtual machines whose hypervisor keeps the debug registers to itself. */
Test(watch_late, hits_that_are_not_reported) {
    cr_expect_not(na_late_measure(plan(), 2));
    expect_costs(0);
}

Test(watch_late, records_that_are_no_hits) {
    says_hits = says_rubbish = true;
    cr_expect(na_late_measure(plan(), 2));
    expect_costs(entry);
}

/* ---- in a window ---- */

Test(watch_late, each_target_by_itself) {
    na_perf_count = 3;
    na_late_cost = (na_late_costs_t){.hit = {10, 12}, .entry = 3, .woken = 7};
    na_late_open();
    for (uint32_t i = 0; i < 3; i++) {
        na_late_begin(i, 1000);
        cr_expect_eq(na_late_now(i), 0);
        cr_expect_eq(na_late_spent(i), 0);
    }
    na_late_hit(0, 1000, 10);
    na_late_hit(0, 1001, 12);
    na_late_woken(1, 1500);
    /* From before the window: it cost time, but none of the window's. */
    na_late_hit(2, 999, 10);
    na_late_woken(2, 0);
    na_late_hit(2, 1000, 2);
    cr_expect_eq(na_late_now(0), 22);
    cr_expect_eq(na_late_spent(0), 22);
    cr_expect_eq(na_late_now(1), 7);
    cr_expect_eq(na_late_spent(1), 7);
    cr_expect_eq(na_late_now(2), 2);
    cr_expect_eq(na_late_spent(2), 19);
    na_late_open(); /* the next one */
    na_late_begin(0, 5000);
    for (uint32_t i = 0; i < 3; i++)
        cr_expect_eq(na_late_now(i) + na_late_spent(i), 0);
    na_late_woken(0, 4999);
    cr_expect_eq(na_late_now(0), 0);
    cr_expect_eq(na_late_spent(0), 7);
}
