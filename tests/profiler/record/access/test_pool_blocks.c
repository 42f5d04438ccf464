/* test_pool_blocks.c - access_pools.c: blocks of pools by address and time, against a list of all
 * lives that is looked through from end to end. */
#include <criterion/criterion.h>
#include <stdlib.h>
#include <sys/mman.h>

#include "profiler/record/access/access_pools.h"
#include "tests/support/sanitized.h"

TestSuite(pool_blocks, .timeout = 300);

#define OWN    (UINT64_C(256) << 20)
#define GROUND UINT64_C(0x7f0000000000)
#define POOLS  3u
#define MOST   4000u

typedef struct truth {
    uintptr_t base;
    uint64_t size, birth, death; /* NA_LIFE_LASTS: it lives */
    uint32_t pool, site;
} truth_t;

_Atomic(uint8_t) na_profile_epoch = 1; /* the allocator has it */

static na_pool_blocks_t pools[POOLS];
static truth_t lives[MOST];
static uint32_t life_count;
static uint64_t now, state;

static uint64_t random_below(uint64_t below) {
    state = state * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
    return (state >> 24) % below;
}

static void begin(uint64_t seed, uint64_t from) {
    cr_assert(na_own_find_place(OWN));
    na_pool_blocks_start(true);
    cr_assert(na_deaths_start());
    memset(pools, 0, sizeof pools);
    life_count = 0;
    state = seed;
    now = from;
}

static void born(uint32_t pool, uintptr_t base, uint64_t size) {
    cr_assert_lt(life_count, MOST);
    truth_t *t = &lives[life_count++];
    now += 2;
    *t = (truth_t){base, size, now, NA_LIFE_LASTS, pool, life_count};
    na_life_t life = {.base = base,
                      .usable = size,
                      .record = {.site = t->site, .birth = now & NA_RECORD_TIME_MASK}};
    cr_assert(na_pool_block_begins(&pools[pool], &life));
}

static void ends(truth_t *t) {
    now += 2;
    t->death = now;
    na_pool_block_ends(&pools[t->pool], t->base, t->size, t->pool + 1, now);
}

static na_pool_search_t look(uintptr_t address, uint64_t at) {
    na_pool_search_t search = {.address = address, .ages = at & NA_RECORD_TIME_MASK, .off = 1};
    for (uint32_t i = 0; i < POOLS; i++)
        na_pool_search_live(&search, &pools[i], i + 1);
    na_pool_search_ended(&search);
    return search;
}

/* The smallest life that was there. */
static const truth_t *there(uintptr_t address, uint64_t at) {
    const truth_t *best = NULL;
    for (uint32_t i = 0; i < life_count; i++) {
        const truth_t *t = &lives[i];
        uint64_t size = t->size != 0 ? t->size : 1;
        if (address - t->base >= size || at < t->birth || at > t->death) continue;
        if (best == NULL || t->size < best->size) best = t;
    }
    return best;
}

/* Compares one look-up; false: that life had been forgotten, which it said. */
static bool agrees(uintptr_t address, uint64_t at) {
    const truth_t *t = there(address, at);
    na_pool_search_t search = look(address, at);
    if (search.pool == 0 && t != NULL && search.forgotten) return false;
    if (search.pool != 0 && t != NULL && search.life.record.site != t->site && search.forgotten)
        return false; /* the block around it is still known */
    cr_assert_eq(search.pool != 0, t != NULL, "at %lx, %lu: found %u, %s", address,
                 (unsigned long)at, search.pool,
                 t != NULL ? "but there was one" : "there was none");
    if (t == NULL) return true;
    cr_assert_eq(search.life.record.site, t->site);
    cr_assert_eq(search.pool, t->pool + 1);
    cr_assert(search.life.base == t->base && search.life.usable == t->size);
    cr_assert_eq(search.off, 0);
    return true;
}

/* Each pool has grounds of its own; the last one's blocks are cut from the second one's. */
static uint64_t mixed(uint64_t from) {
    enum { EVENTS = SANITIZED ? 2000 : 6000, LOOKS = 8 };
    uint64_t known = 0, all = 0;
    begin(from ^ 7, from);
    for (unsigned n = 0; n < EVENTS && life_count < MOST; n++) {
        uint32_t pool = (uint32_t)random_below(POOLS);
        uint64_t unit = pool == 0 ? 24 : pool == 1 ? 10000 : 1;
        uint64_t size = 1 + random_below(unit == 1 ? 300 : unit);
        uintptr_t base = GROUND + (pool == 0 ? UINT64_C(1) << 32 : 0);
        base +=
            random_below(60) * (pool == 2 ? 10000 : unit) + (pool == 2 ? random_below(9000) : 0);
        truth_t *in_the_way = NULL;
        for (uint32_t i = 0; i < life_count; i++) {
            truth_t *t = &lives[i];
            if (t->pool == pool && t->death == NA_LIFE_LASTS && t->base < base + size &&
                base < t->base + t->size)
                in_the_way = t;
        }
        if (in_the_way != NULL)
            ends(in_the_way);
        else
            born(pool, base, size);
        for (unsigned k = 0; k < LOOKS; k++) {
            const truth_t *t = &lives[random_below(life_count)];
            uintptr_t address = t->base - 2 + random_below(t->size + 4);
            uint64_t at = now + 1 - random_below(20) * 2; /* between events */
            known += agrees(address, at);
            all++;
        }
    }
    cr_assert_gt(all, EVENTS * LOOKS / 2);
    return (all - known) * 1000 / all;
}

Test(pool_blocks, agree_with_a_list_of_all_lives) {
    cr_expect_leq(mixed(1000), 1, "nearly nothing is forgotten within ten events");
}

Test(pool_blocks, times_go_around) {
    cr_expect_leq(mixed(NA_RECORD_TIME_MASK - 3000), 1);
}

Test(pool_blocks, every_size_is_found_at_both_ends) {
    begin(1, 1000);
    for (unsigned level = 0; level < 44; level++)
        for (int d = -1; d <= 1; d++) {
            uint64_t size = (UINT64_C(1) << level) + (uint64_t)(int64_t)d;
            uintptr_t base = GROUND + 12345 * (level + 1);
            born(0, base, size);
            cr_assert(agrees(base, now + 1));
            if (size > 1) cr_assert(agrees(base + size - 1, now + 1));
            cr_assert(agrees(base - 1, now + 1));
            cr_assert(agrees(base + (size != 0 ? size : 1), now + 1));
            uint64_t lived = now + 1;
            ends(&lives[life_count - 1]);
            cr_assert(agrees(base, now + 1));
            cr_assert(agrees(base, lived));
        }
}

/* One address again and again: more lives than a bucket has room for. */
Test(pool_blocks, a_forgotten_life_is_not_taken_for_none) {
    begin(1, 1000);
    uint64_t first = 0;
    for (unsigned i = 0; i < 100; i++) {
        born(0, GROUND, 64);
        if (first == 0) first = now + 1;
        ends(&lives[life_count - 1]);
    }
    na_pool_search_t search = look(GROUND + 8, first);
    cr_expect_eq(search.pool, 0);
    cr_expect(search.forgotten);
    search = look(GROUND + 8, now + 1);
    cr_expect(search.pool == 0 && !search.forgotten, "nothing was there then, and that is known");
    cr_expect(agrees(GROUND + 8, now - 1));
}

/* Of a watched word all lives are known, the same as of heap blocks. */
Test(pool_blocks, all_lives_of_a_watched_word_are_kept) {
    begin(1, 1000);
    na_deaths_watch(GROUND + 8, 0);
    for (unsigned i = 0; i < 1000; i++) {
        born(0, GROUND, 64);
        ends(&lives[life_count - 1]);
    }
    for (unsigned i = 0; i < life_count; i++)
        cr_assert(agrees(GROUND + 8, lives[i].birth + 1));
    na_deaths_watch(0, 0);
}
