/* test_remap.c - backing.c: moving memory under long runs, runs with room to grow, and runs near
 * others; the page heap alone, as in test_pageheap.c. What the system answers to a move can be
 * replaced. */
#include <criterion/criterion.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include "alloc/core/machine/topology.h"
#include "alloc/core/page/pageheap.h"
#include "alloc/core/sys/os.h"
#include "alloc/options/options_read.h"
#include "pagemap/pagemap.h"

#define MIB ((size_t)1 << 20)

/* --- the system's answer --- */

na_os_remap_t __real_na_os_remap(void *start, size_t size, void *target, bool *fresh);
na_os_remap_t __wrap_na_os_remap(void *start, size_t size, void *target, bool *fresh);

static enum { ANSWER_TRUE, ANSWER_LOST, ANSWER_REFUSED } answer;
static unsigned asked;
static size_t moved;

na_os_remap_t __wrap_na_os_remap(void *start, size_t size, void *target, bool *fresh) {
    asked++;
    *fresh = false;
    if (answer == ANSWER_LOST) return NA_OS_REMAP_LOST;
    if (answer == ANSWER_REFUSED) return NA_OS_REMAP_REFUSED;
    na_os_remap_t result = __real_na_os_remap(start, size, target, fresh);
    if (result == NA_OS_REMAP_DONE) moved += size;
    return result;
}

/* --- the system call --- */

static bool reads_as(const char *p, size_t size, char value) {
    for (size_t i = 0; i < size; i += 512)
        if (p[i] != value) return false;
    return true;
}

Test(os_shift, moves_pages) {
    na_os_init();
    char *p = na_os_map(4 * MIB), *q = na_os_map(4 * MIB);
    memset(p, 7, MIB);
    bool fresh;
    na_os_remap_t result = __real_na_os_remap(p, MIB, q, &fresh);
    if (result == NA_OS_REMAP_REFUSED && !fresh) cr_skip_test("this system moves no pages");
    cr_assert_eq(result, NA_OS_REMAP_DONE);
    cr_assert(reads_as(q, MIB, 7));
    cr_assert(reads_as(q + MIB, MIB, 0));
    cr_assert(reads_as(p, MIB, 0), "the source is still mapped, and empty");
    p[0] = 1;
}

/* Whatever the system did before it saw that there is no source: the target can be used. */
Test(os_shift, refusal_leaves_no_hole) {
    na_os_init();
    char *p = na_os_reserve(2 * MIB, 2 * MIB), *q = na_os_map(2 * MIB);
    na_os_unmap(p, 2 * MIB);
    bool fresh;
    cr_assert_neq(__real_na_os_remap(p, 2 * MIB, q, &fresh), NA_OS_REMAP_DONE);
    cr_assert(reads_as(q, 2 * MIB, 0));
    memset(q, 1, 2 * MIB);
}

/* --- under a run --- */

static void start(void) {
    na_os_init();
    na_options_init();
    na_topology_init(NULL, NULL);
    bool zeroed;
    (void)na_pageheap_alloc(0, 1, 1, &zeroed); /* hugepages begin behind it */
}

static uintptr_t must_alloc(uint32_t pages, bool *zeroed) {
    uintptr_t run = na_pageheap_alloc(0, pages, 1, zeroed);
    cr_assert_neq(run, 0, "no %u pages", pages);
    return run;
}

static na_pageheap_stats_t stats(void) {
    na_pageheap_stats_t result;
    na_pageheap_get_stats(0, &result);
    return result;
}

#define HOLES 4
static uintptr_t kept[HOLES];

/* Hugepages in use and free ones that hold memory in turn, so that long runs find no place. */
static void make_holes(void) {
    bool zeroed;
    uintptr_t holes[HOLES];
    for (unsigned i = 0; i < HOLES; i++) {
        kept[i] = must_alloc(NA_HUGE_PAGES, &zeroed);
        memset((void *)kept[i], 0x11, NA_HUGE_SIZE);
        holes[i] = must_alloc(NA_HUGE_PAGES, &zeroed);
        memset((void *)holes[i], 0x22, NA_HUGE_SIZE);
    }
    (void)must_alloc(NA_HUGE_PAGES, &zeroed);
    for (unsigned i = 0; i < HOLES; i++)
        na_pageheap_free(0, holes[i], NA_HUGE_PAGES);
    cr_assert_eq(stats().dirty, HOLES * NA_HUGE_SIZE);
}

static bool kept_is_whole(void) {
    for (unsigned i = 0; i < HOLES; i++)
        if (!reads_as((char *)kept[i], NA_HUGE_SIZE, 0x11)) return false;
    return true;
}

Test(shift, a_long_run_gets_the_memory_of_holes) {
    start();
    make_holes();
    bool zeroed;
    uintptr_t run = must_alloc(HOLES * NA_HUGE_PAGES, &zeroed);
    if (moved == 0 && asked != 0) cr_skip_test("this system moves no pages");
    cr_assert_geq(moved, 2 * NA_HUGE_SIZE);
    cr_assert_not(zeroed);
    cr_assert_eq(stats().purged, 0);
    cr_assert_leq(stats().dirty, HOLES * NA_HUGE_SIZE - moved);
    size_t found = 0;
    for (unsigned i = 0; i < HOLES; i++)
        if (reads_as((char *)run + i * NA_HUGE_SIZE, NA_HUGE_SIZE, 0x22)) found += NA_HUGE_SIZE;
    cr_assert_eq(found, moved);
    cr_assert(kept_is_whole());
    /* The holes are there to be used, those that lost their memory as known zeros. */
    unsigned zeros = 0;
    for (unsigned i = 0; i < HOLES; i++) {
        uintptr_t hole = must_alloc(NA_HUGE_PAGES, &zeroed);
        cr_assert(reads_as((char *)hole, NA_HUGE_SIZE, zeroed ? 0 : 0x22));
        zeros += zeroed;
        memset((void *)hole, 0x33, NA_HUGE_SIZE);
    }
    cr_assert_eq(zeros, moved / NA_HUGE_SIZE);
    cr_assert(kept_is_whole());
}

/* What the run leaves of its last hugepage is free, holds memory, and is counted so. */
Test(shift, the_last_hugepage_in_part) {
    start();
    make_holes();
    bool zeroed;
    uint32_t pages = 3 * NA_HUGE_PAGES + 56;
    uint64_t before = stats().used + stats().dirty;
    uintptr_t run = must_alloc(pages, &zeroed);
    if (moved == 0 && asked != 0) cr_skip_test("this system moves no pages");
    uint64_t after = stats().used + stats().dirty;
    cr_assert_leq(after - before, pages * NA_PAGE_SIZE - moved + 200 * NA_PAGE_SIZE);
    memset((void *)run, 0x44, pages * NA_PAGE_SIZE);
    na_pageheap_free(0, run, pages);
    na_pageheap_trim(0, 0);
    cr_assert_eq(stats().dirty, 0);
    run = must_alloc(4 * NA_HUGE_PAGES, &zeroed);
    cr_assert(zeroed);
    cr_assert(reads_as((char *)run, 4 * NA_HUGE_SIZE, 0));
    cr_assert(kept_is_whole());
}

Test(shift, a_refusal_does_no_harm) {
    answer = ANSWER_REFUSED;
    start();
    make_holes();
    bool zeroed;
    uintptr_t run = must_alloc(HOLES * NA_HUGE_PAGES, &zeroed);
    cr_assert_gt(asked, 0);
    cr_assert(zeroed);
    cr_assert(reads_as((char *)run, HOLES * NA_HUGE_SIZE, 0));
    cr_assert(kept_is_whole());
    cr_assert_gt(stats().purged, 0, "purging does the rest");
}

/* After some refusals the system is not asked any more. */
Test(shift, refusals_are_counted) {
    answer = ANSWER_REFUSED;
    start();
    make_holes();
    bool zeroed;
    for (unsigned i = 0; i < 20; i++) {
        uintptr_t run = must_alloc(HOLES * NA_HUGE_PAGES, &zeroed);
        memset((void *)run, 0x55, HOLES * NA_HUGE_SIZE);
        na_pageheap_free(0, run, HOLES * NA_HUGE_PAGES);
    }
    cr_assert_leq(asked, 8);
}

/* The addresses under a run went to another thread half-way: the run lies elsewhere. */
Test(shift, lost_addresses_are_left_alone) {
    answer = ANSWER_LOST;
    start();
    make_holes();
    bool zeroed;
    uint32_t pages = 3 * NA_HUGE_PAGES + 56;
    uint64_t used = stats().used;
    uintptr_t run = must_alloc(pages, &zeroed);
    cr_assert_eq(asked, 1);
    uint64_t lost = stats().used - used - pages * NA_PAGE_SIZE;
    cr_assert_gt(lost, 0);
    cr_assert_leq(lost, pages * NA_PAGE_SIZE + NA_HUGE_SIZE);
    memset((void *)run, 0x66, pages * NA_PAGE_SIZE);
    na_pageheap_free(0, run, pages);
    cr_assert_eq(stats().used, used + lost);
    must_alloc(pages, &zeroed);
    cr_assert_eq(asked, 1, "once is enough");
    cr_assert(kept_is_whole());
}

/* --- under what is added to a run --- */

static uintptr_t run_at_the_frontier(uint32_t pages) {
    start();
    bool zeroed;
    na_pageheap_free(0, must_alloc(64, &zeroed), 64); /* looks at the clock: peaks count from now */
    (void)must_alloc(64, &zeroed);
    make_holes();
    uintptr_t run = must_alloc(pages, &zeroed);
    memset((void *)run, 0x77, pages * NA_PAGE_SIZE);
    cr_assert_eq(asked, 0, "the peak allows for it");
    return run;
}

Test(shift, what_is_added_to_a_run) {
    enum { PAGES = 300, MORE = 3 * NA_HUGE_PAGES };
    uintptr_t run = run_at_the_frontier(PAGES);
    bool zeroed;
    cr_assert(na_pageheap_extend(0, run, PAGES, MORE, &zeroed));
    if (moved == 0 && asked != 0) cr_skip_test("this system moves no pages");
    cr_assert_geq(moved, 2 * NA_HUGE_SIZE);
    cr_assert_not(zeroed);
    cr_assert(reads_as((char *)run, PAGES * NA_PAGE_SIZE, 0x77));
    memset((void *)run, 0x78, (PAGES + MORE) * NA_PAGE_SIZE);
    cr_assert(kept_is_whole());
    uint64_t used = stats().used;
    na_pageheap_free(0, run, PAGES + MORE);
    cr_assert_eq(stats().used, used - (PAGES + MORE) * NA_PAGE_SIZE);
}

Test(shift, lost_addresses_behind_a_run) {
    enum { PAGES = 300, MORE = 3 * NA_HUGE_PAGES };
    answer = ANSWER_LOST;
    uintptr_t run = run_at_the_frontier(PAGES);
    uint64_t used = stats().used;
    bool zeroed;
    cr_assert_not(na_pageheap_extend(0, run, PAGES, MORE, &zeroed));
    cr_assert(reads_as((char *)run, PAGES * NA_PAGE_SIZE, 0x77));
    cr_assert_gt(stats().used, used, "what was lost is out of use for ever");
    cr_assert_leq(stats().used, used + MORE * NA_PAGE_SIZE + NA_HUGE_SIZE);
    na_pageheap_free(0, run, PAGES);
    cr_assert(kept_is_whole());
}

/* --- runs that grow --- */

/* Two that grow in turn do not get into each other's way before their room is used up. */
static void grow_side_by_side(uint32_t pages, uint32_t room) {
    start();
    bool zeroed;
    uintptr_t a = na_pageheap_alloc_growing(0, pages, room, &zeroed);
    uintptr_t b = na_pageheap_alloc_growing(0, pages, room, &zeroed);
    cr_assert(a != 0 && b != 0);
    uint32_t have = pages;
    for (uint32_t extra = room / 4; have + extra <= pages + room; have += extra) {
        cr_assert(na_pageheap_extend(0, a, have, extra, &zeroed), "a: %u + %u pages", have, extra);
        cr_assert(na_pageheap_extend(0, b, have, extra, &zeroed), "b: %u + %u pages", have, extra);
    }
    memset((void *)a, 1, (size_t)have << NA_PAGE_SHIFT);
    memset((void *)b, 2, (size_t)have << NA_PAGE_SHIFT);
    cr_assert(reads_as((char *)a, (size_t)have << NA_PAGE_SHIFT, 1));
    na_pageheap_free(0, a, have);
    na_pageheap_free(0, b, have);
    cr_assert_eq(stats().used, NA_PAGE_SIZE);
}

Test(roomy, within_a_hugepage) {
    grow_side_by_side(8, 24);
}

Test(roomy, short_with_long_room) {
    grow_side_by_side(60, 180);
}

Test(roomy, long_run) {
    grow_side_by_side(300, 900);
}

/* The leaves of the page map near where the system maps next: made later, they could lie where the
 * region is to end. */
static void make_leaves(void) {
    na_os_init();
    void *near = mmap(NULL, 1, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    cr_assert(near != MAP_FAILED);
    cr_assert(na_pagemap_prepare((uintptr_t)near - (UINT64_C(3) << 30), UINT64_C(3) << 30));
}

/* Room is a wish: where the regions are full a run without it will do. */
Test(roomy, without_room) {
    setenv("NUMALLOC_REGION_SIZE", "128M", 1);
    make_leaves();
    start();
    bool zeroed;
    must_alloc(56 * NA_HUGE_PAGES, &zeroed);
    uint64_t regions = stats().regions;
    cr_assert_neq(na_pageheap_alloc_growing(0, 2 * NA_HUGE_PAGES, 6 * NA_HUGE_PAGES, &zeroed), 0);
    cr_assert_eq(stats().regions, regions);
}
