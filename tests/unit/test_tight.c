/* test_tight.c - what the page heap does when the control group's memory runs out. How much room
 * the group leaves is the test's to say (na_cgroup_room is replaced); the memory is real. */
#include <criterion/criterion.h>
#include <stdlib.h>

#include "alloc/cgroup.h"
#include "alloc/options.h"
#include "alloc/os.h"
#include "alloc/pageheap.h"
#include "alloc/tight.h"
#include "alloc/topology.h"
#include "support/vm_flags.h"

#define MIB     ((uint64_t)1 << 20)
#define LIMIT   (64 * MIB)
#define UNKNOWN UINT64_MAX

static uint64_t room = UNKNOWN;
static unsigned looks;

bool __wrap_na_cgroup_room(const char *proc, const char *sys, na_cgroup_room_t *result);
bool __wrap_na_cgroup_room(const char *proc, const char *sys, na_cgroup_room_t *result) {
    (void)proc, (void)sys;
    looks++;
    *result = (na_cgroup_room_t){LIMIT, room};
    return room != UNKNOWN;
}

static void start(void) {
    setenv("NUMALLOC_NUMA", "off", 1);
    na_os_init();
    na_options_init();
    na_topology_init(NULL, NULL);
    na_topology_ignore();
}

TestSuite(tight, .init = start);

enum { RUN = 8, RUNS = 8192 }; /* pages; 64 KiB each */
static uintptr_t runs[RUNS];

static void take(unsigned i) {
    bool zeroed;
    runs[i] = na_pageheap_alloc(0, RUN, 1, &zeroed);
    cr_assert_neq(runs[i], 0);
    for (unsigned page = 0; page < RUN; page++)
        *(volatile char *)(runs[i] + page * NA_PAGE_SIZE) = 1;
}

static void give(unsigned i) {
    na_pageheap_free(0, runs[i], RUN);
    runs[i] = 0;
}

static na_pageheap_stats_t stats(void) {
    na_pageheap_stats_t s;
    na_pageheap_get_stats(0, &s);
    return s;
}

/* New memory until the heap has looked again. */
static void take_until_look(unsigned *next) {
    for (unsigned before = looks; looks == before; (*next)++)
        take(*next);
}

Test(tight, without_a_limit_nobody_is_bothered) {
    for (unsigned i = 0; i < 2048; i++) /* 128 MiB */
        take(i);
    cr_assert_not(na_tight());
    cr_assert_leq(looks, 2);
}

Test(tight, a_small_process_does_not_look) {
    room = 0;
    for (unsigned i = 0; i < 32; i++) /* 2 MiB */
        take(i);
    cr_assert_eq(looks, 0);
}

Test(tight, what_is_free_goes_back_and_huge_pages_are_over) {
    room = 40 * MIB;
    unsigned next = 0;
    take_until_look(&next);
    cr_assert_not(na_tight());
    for (unsigned i = 0; i < next; i += 2)
        give(i);
    cr_assert_gt(stats().dirty, MIB);
    room = 2 * MIB;
    next = RUNS / 2;
    take_until_look(&next);
    cr_assert(na_tight());
    cr_assert_eq(na_tight_turn(), 1);
    cr_assert_lt(stats().dirty, MIB / 4);
    if (vm_has_huge_pages()) cr_assert(vm_has_flag((void *)runs[1], " nh "));

    room = LIMIT;
    for (unsigned i = 0; na_tight() && i < 3; i++)
        take_until_look(&next);
    cr_assert_not(na_tight());
}

Test(tight, memory_is_scarce_before_it_is_tight) {
    room = 40 * MIB;
    unsigned next = 0;
    take_until_look(&next);
    cr_assert_not(na_scarce());
    room = 20 * MIB;
    take_until_look(&next);
    cr_assert(na_scarce());
    cr_assert_not(na_tight());
    room = LIMIT;
    take_until_look(&next);
    cr_assert_not(na_scarce());
    room = 20 * MIB;
    take_until_look(&next);
    cr_assert(na_scarce());
    room = UNKNOWN; /* the limit is lifted */
    take_until_look(&next);
    cr_assert_not(na_scarce());
}

/* Runs of many sizes, so that what was freed often does not fit. */
Test(tight, no_more_is_resident_than_was_in_use) {
    static struct {
        uintptr_t start;
        uint32_t pages;
    } table[512];
    room = 2 * MIB;
    unsigned next = 0;
    take_until_look(&next);
    cr_assert(na_tight());
    uint32_t random = 1;
    uint64_t peak = 0, held = 0;
    for (unsigned i = 0; i < 20000; i++) {
        random = random * 1664525 + 1013904223;
        unsigned slot = random >> 16 & 511, pages = 1 + (random >> 8 & 15);
        if (table[slot].start != 0) na_pageheap_free(0, table[slot].start, table[slot].pages);
        bool zeroed;
        table[slot].start = na_pageheap_alloc(0, pages, 1, &zeroed);
        table[slot].pages = pages;
        cr_assert_neq(table[slot].start, 0);
        na_pageheap_stats_t s = stats();
        if (s.used > peak) peak = s.used;
        if (s.used + s.dirty > held) held = s.used + s.dirty;
    }
    uint64_t slack = (uint64_t)na_tight_slack() << NA_PAGE_SHIFT;
    cr_assert_leq(slack, LIMIT / 64);
    cr_assert_leq(held, peak + 2 * slack + 16 * NA_PAGE_SIZE, "%lu held, %lu used",
                  (unsigned long)held, (unsigned long)peak);
}
