/* test_access_deaths.c - which lives of an address are found after it was handed out again, and
 * what is said of those in between that are forgotten. The clock is the test's. */
#include <criterion/criterion.h>
#include <stdlib.h>

#include "profiler/record/access/access_priv.h"

TestSuite(access_deaths, .timeout = 300);

/* ---- the recorder's surroundings ---- */

_Atomic(uint8_t) na_profile_epoch = 1;
static uint64_t now; /* in ages */

uint64_t na_rec_ticks(void) {
    return now << NA_AGE_SHIFT;
}

void *na_own_alloc(uint64_t bytes) {
    return calloc(1, bytes);
}

static unsigned hurries;

void na_access_hurry(void) {
    hurries++;
}

/* ---- */

enum { BASE = 0x10000, SIZE = 64 };

/* From now on, `lasts` ages long; the next begins as much later. */
static void live_and_die(uintptr_t base, uint32_t site, unsigned lasts) {
    na_record_t record = {.site = site, .birth = now & NA_RECORD_TIME_MASK, .epoch = 1};
    now += lasts;
    na_access_death((void *)base, SIZE, &record); /* NOLINT: an address, not a block */
    now += lasts;
}

static na_life_t living(uintptr_t base, uint32_t site) {
    return (na_life_t){.base = base,
                       .usable = SIZE,
                       .death = NA_LIFE_LASTS,
                       .record = {.site = site, .birth = now & NA_RECORD_TIME_MASK, .epoch = 1}};
}

static bool find(uintptr_t base, uint64_t ages, na_life_t *life) {
    return na_deaths_find(base + 8, base, ages, NA_RESOLVE_SLACK, life);
}

static void start(void) {
    now = 1000000;
    cr_assert(na_deaths_start());
}

Test(access_deaths, the_last_thousand_of_an_address_are_told_apart) {
    start();
    uint64_t from = now;
    for (uint32_t i = 0; i < 1000; i++)
        live_and_die(BASE, 100 + i % 2, 20);
    for (uint32_t i = 0; i < 1000; i++) {
        na_life_t life;
        cr_assert(find(BASE, from + 40 * i + 10, &life), "life %u", i);
        cr_assert_eq(life.record.site, 100 + i % 2, "life %u", i);
        cr_assert_eq(life.death, from + 40 * i + 20, "life %u", i);
        cr_assert_not(find(BASE, from + 40 * i + 30, &life), "nothing was there after life %u", i);
    }
}

/* As if samples were looked at whenever it is asked for, and 1,000 deaths late: nothing is lost,
 * however many blocks take turns at an address. */
Test(access_deaths, whoever_comes_when_asked_finds_every_life) {
    start();
    uint64_t from = now, looked = 0, late = UINT64_MAX;
    for (uint32_t i = 0; i < 100000; i++) {
        unsigned before = hurries;
        live_and_die(BASE, 100 + i % 2, 20);
        if (hurries != before) late = i + 1000;
        for (; i == late && looked < i; looked++) {
            na_life_t life;
            cr_assert(find(BASE, from + 40 * looked + 10, &life), "life %lu of %u", looked, i);
            cr_assert_eq(life.record.site, 100 + looked % 2, "life %lu", looked);
        }
    }
    cr_assert_gt(looked, 98000);
}

Test(access_deaths, between_two_lives_of_a_site_is_another_of_it) {
    start();
    uint64_t from = now;
    enum { LIVES = 300000 };
    for (uint32_t i = 0; i < LIVES; i++)
        live_and_die(BASE, 7, 20);
    na_life_t present = living(BASE, 7), life;
    unsigned exact = 0, around = 0;
    for (uint32_t i = LIVES - 16000; i < LIVES; i += 11) {
        uint64_t at = from + 40 * (uint64_t)i + 10;
        if (find(BASE, at, &life)) {
            exact++;
            continue;
        }
        cr_assert(na_deaths_around(BASE, &present, at, &life), "life %u", i);
        cr_assert_eq(life.record.site, 7);
        cr_assert_eq(na_life_off(&life, at), 0, "it was there at that time");
        around++;
    }
    cr_assert_gt(exact, 5);
    cr_assert_gt(around, 1000);
    /* Without one there now, too, as long as a later one is known. */
    cr_assert(na_deaths_around(BASE, NULL, from + 40 * (uint64_t)(LIVES - 16000) + 10, &life));
    cr_assert_not(na_deaths_around(BASE, NULL, now + 10, &life), "nothing is known to follow");
    cr_assert_not(na_deaths_around(BASE, &present, from - 100, &life), "nothing came before");
}

/* The first of all is kept long enough that the next ones have one before them. */
Test(access_deaths, a_young_address_has_its_first_life) {
    start();
    uint64_t from = now;
    for (uint32_t i = 0; i < 5000; i++)
        live_and_die(BASE, 7, 20);
    na_life_t present = living(BASE, 7), life;
    for (uint32_t i = 1; i < 3900; i++) {
        uint64_t at = from + 40 * (uint64_t)i + 10;
        cr_assert(find(BASE, at, &life) || na_deaths_around(BASE, &present, at, &life), "%u", i);
        cr_assert_eq(na_life_off(&life, at), 0);
    }
}

/* The address was another site's before: the time in between may be either's. */
Test(access_deaths, nothing_is_said_between_two_sites) {
    start();
    live_and_die(BASE, 8, 20);
    uint64_t from = now;
    for (uint32_t i = 0; i < 2000; i++)
        live_and_die(BASE, 7, 20);
    na_life_t present = living(BASE, 7), life;
    cr_assert_not(na_deaths_around(BASE, &present, from + 50, &life));
}

Test(access_deaths, nothing_is_said_where_two_sites_take_turns) {
    start();
    uint64_t from = now;
    enum { LIVES = 20000 };
    for (uint32_t i = 0; i < LIVES; i++)
        live_and_die(BASE, 100 + i % 2, 20);
    na_life_t present = living(BASE, 100), life;
    uint64_t at = from + 40 * (LIVES / 2) + 10;
    cr_assert_not(find(BASE, at, &life));
    cr_assert_not(na_deaths_around(BASE, &present, at, &life));
    present = living(BASE, 102); /* and where the one there now is another's */
    cr_assert_not(na_deaths_around(BASE, &present, now - 30, &life));
}

Test(access_deaths, an_address_does_not_speak_for_its_neighbour) {
    start();
    live_and_die(BASE, 7, 20);
    uint64_t at = now;
    now += 100;
    na_life_t neighbour = living(BASE + SIZE, 7), life;
    cr_assert_not(na_deaths_around(BASE + SIZE, &neighbour, at, &life));
    cr_assert_not(find(BASE + SIZE, at - 30, &life));
    cr_assert(find(BASE, at - 30, &life));
}

/* Many addresses: each block's last life is found, while no more end than are remembered. */
Test(access_deaths, blocks_that_end_once_are_found) {
    start();
    enum { BLOCKS = 8000 };
    uint64_t from = now;
    for (uintptr_t i = 0; i < BLOCKS; i++)
        live_and_die(BASE + i * SIZE, 7, 20);
    unsigned found = 0;
    for (uintptr_t i = 0; i < BLOCKS; i++) {
        na_life_t life;
        found += find(BASE + i * SIZE, from + 40 * i + 10, &life) && life.base == BASE + i * SIZE;
    }
    cr_assert_eq(found, BLOCKS);
}
