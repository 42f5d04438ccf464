/* test_space.c - the recorder's areas of address space beside the mappings of others, who take
 * whatever comes behind them: memory is had all the same, what was had stays, areas are few. */
#include <criterion/criterion.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>

#include "alloc/core/sys/os.h"
#include "profiler/record/file/space.h"

TestSuite(space, .timeout = 300);

#define UNIT  NA_RESERVE_UNIT
#define ROOM  (UINT64_C(1) << 30)
#define PIECE (UINT64_C(96) << 10)
#define MOST  2000u

static na_space_t space;

/* Another's page comes behind what the newest area has reserved. */
static void put_neighbour(void) {
    const na_reserve_t *area = na_space_area(&space);
    void *behind = (void *)(area->start + area->reserved);
    void *p = mmap(behind, na_os_page, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED_NOREPLACE,
                   -1, 0);
    cr_assert(p == behind || p == MAP_FAILED, "a neighbour lies elsewhere");
}

static unsigned char *take(uint64_t bytes) {
    unsigned char *p = na_space_take(&space, bytes);
    if (p != NULL) cr_assert(na_os_commit(p, bytes));
    return p;
}

Test(space, neighbours_everywhere) {
    static unsigned char *taken[MOST];
    cr_assert(na_space_begin(&space, ROOM));
    for (unsigned i = 0; i < MOST; i++) {
        put_neighbour();
        taken[i] = take(PIECE);
        cr_assert_not_null(taken[i], "refused after %u pieces in %u areas", i, space.count);
        memset(taken[i], (int)(i % 251), PIECE);
    }
    for (unsigned i = 0; i < MOST; i++) {
        cr_assert_eq(taken[i][0], i % 251);
        cr_assert_eq(taken[i][PIECE - 1], i % 251);
        cr_assert(na_space_has(&space, (uintptr_t)taken[i]));
        cr_assert(na_space_has(&space, (uintptr_t)taken[i] + PIECE - 1));
    }
    /* Each reserves as much as there is: 2 MiB doubled until it is 200. */
    cr_assert_geq(space.count, 3);
    cr_assert_leq(space.count, 9);
    cr_assert_leq(na_space_bytes(&space), 3 * MOST * PIECE);
    const na_reserve_t *first = &space.areas[0];
    cr_assert_not(na_space_has(&space, first->start - 1));
    cr_assert_not(na_space_has(&space, first->start + first->opened));
    na_space_leave(&space);
    cr_assert_not(na_space_has(&space, (uintptr_t)taken[0]));
}

Test(space, a_piece_larger_than_all_before) {
    cr_assert(na_space_begin(&space, ROOM));
    unsigned char *small = take(PIECE);
    put_neighbour();
    unsigned char *large = take(64 * UNIT);
    cr_assert(small != NULL && large != NULL);
    memset(large, 1, 64 * UNIT);
    cr_assert_eq(space.count, 2);
    na_space_leave(&space);
}

Test(space, no_more_than_was_asked_for) {
    cr_assert(na_space_begin(&space, 8 * UNIT));
    cr_assert_not_null(take(5 * UNIT));
    put_neighbour();
    cr_assert_not_null(take(2 * UNIT));
    cr_assert_null(take(2 * UNIT));
    cr_assert_not_null(take(UNIT));
    na_space_leave(&space);
}

/* Where all must be in one place, as the file. */
Test(space, moves) {
    cr_assert(na_space_begin(&space, ROOM));
    for (uint64_t to = na_os_page; to < 100 * UNIT; to += UNIT / 2) {
        put_neighbour();
        if (na_space_reach(&space, to) == NA_RESERVE_DONE) continue;
        cr_assert_eq(na_space_reach(&space, to), NA_RESERVE_TAKEN);
        cr_assert(na_space_move(&space, to));
        cr_assert_geq(na_space_area(&space)->opened, to);
    }
    cr_assert_leq(space.count, 9);
    na_space_leave(&space);
}

Test(space, refused_by_a_limit) {
    cr_assert(na_space_begin(&space, ROOM));
    cr_assert_not_null(take(PIECE));
    put_neighbour();
    struct rlimit none, old;
    cr_assert_eq(getrlimit(RLIMIT_AS, &old), 0);
    none = old;
    none.rlim_cur = 1 << 20;
    cr_assert_eq(setrlimit(RLIMIT_AS, &none), 0);
    void *refused = na_space_take(&space, 64 * UNIT);
    cr_assert_eq(setrlimit(RLIMIT_AS, &old), 0);
    cr_assert_null(refused);
    cr_assert_not_null(take(64 * UNIT), "refused for good");
    na_space_leave(&space);
}

/* A child has none of the mappings, and may begin anew over what it knows of them. */
Test(space, forgotten) {
    cr_assert(na_space_begin(&space, ROOM));
    unsigned char *before = take(PIECE);
    na_space_forget(&space);
    cr_assert_not(na_space_has(&space, (uintptr_t)before));
    cr_assert(na_space_begin(&space, ROOM));
    unsigned char *after = take(PIECE);
    cr_assert(after != NULL && after != before);
    na_space_leave(&space);
}
