/* test_large_bins.c - large blocks that are kept whole for the next ones: by the thread, and by its
 * node. */
#include <criterion/criterion.h>

#include <pthread.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>

#include "alloc/core/cache/large_bins.h"
#include "alloc/core/malloc/api.h"
#include "alloc/core/malloc/large.h"
#include "numalloc/numalloc.h"

#define KIB ((size_t)1 << 10)
#define MIB ((size_t)1 << 20)

static void *must_alloc(size_t size) {
    char *block = NA_FN(malloc)(size);
    cr_assert_not_null(block);
    memset(block, 1, size);
    return block;
}

/* The thread has freed a large block before: its bins are open. */
static void open_bins(void) {
    NA_FN(free)(must_alloc(40 * KIB));
}

static uint64_t kept(void) {
    return na_large_kept(na_self);
}

Test(large_bins, slots_cover_all_lengths_in_order) {
    unsigned last = 0;
    cr_assert_eq(na_run_slot(NA_RUN_CACHE_LEAST), 0);
    for (uint32_t pages = NA_RUN_CACHE_LEAST; pages <= NA_RUN_CACHE_PAGES; pages++) {
        unsigned slot = na_run_slot(pages);
        cr_assert_lt(slot, NA_RUN_SLOTS);
        cr_assert(slot >= last, "%u pages", pages);
        if (pages <= 16) cr_assert_neq(slot, pages == NA_RUN_CACHE_LEAST ? ~0u : last);
        last = slot;
    }
    cr_assert_eq(last, NA_RUN_SLOTS - 1);
}

Test(large_bins, the_block_freed_last_is_the_next) {
    open_bins();
    for (size_t size = NA_SMALL_MAX + 1; size <= 8 * MIB; size += size / 3) {
        void *block = must_alloc(size);
        NA_FN(free)(block);
        cr_assert_eq(NA_FN(malloc)(size), block, "%zu bytes", size);
        cr_assert_geq(NA_FN(malloc_usable_size)(block), size);
        NA_FN(free)(block);
        numalloc_trim(0);
        cr_assert_eq(kept(), 0);
        open_bins();
    }
}

Test(large_bins, a_kept_run_serves_a_little_less_and_never_more) {
    open_bins();
    numalloc_trim(0);
    open_bins();
    void *block = must_alloc(200 * KIB);
    NA_FN(free)(block);
    void *more = NA_FN(malloc)(209 * KIB);
    cr_assert_neq(more, block);
    void *half = NA_FN(malloc)(100 * KIB);
    cr_assert_neq(half, block);
    void *less = NA_FN(malloc)(195 * KIB);
    cr_assert_eq(less, block);
    memset(less, 2, NA_FN(malloc_usable_size)(less));
    NA_FN(free)(more);
    NA_FN(free)(half);
    NA_FN(free)(less);
}

Test(large_bins, what_is_freed_is_no_block) {
    open_bins();
    void *block = must_alloc(MIB);
    uint64_t before = na_large_bytes();
    NA_FN(free)(block);
    cr_assert_gt(kept(), 0);
    cr_assert_null(na_span_of(block));
    cr_assert_eq(before - na_large_bytes(), MIB);
}

Test(large_bins, the_size_of_what_is_freed_is_asked_in_vain) {
    open_bins();
    void *block = must_alloc(MIB);
    NA_FN(free)(block);
    cr_assert_eq(NA_FN(malloc_usable_size)(block), 0); /* named, and the program goes on */
}

Test(large_bins, calloc_clears_what_was_used) {
    open_bins();
    char *block = must_alloc(300 * KIB);
    NA_FN(free)(block);
    char *cleared = NA_FN(calloc)(3, 100 * KIB);
    cr_assert_eq(cleared, block);
    for (size_t i = 0; i < 300 * KIB; i++)
        cr_assert_eq(cleared[i], 0);
    NA_FN(free)(cleared);
}

enum { MANY = 800 };
static void *many[MANY];
#define RUN    (256 * KIB)
#define IN_USE (MANY * RUN) /* what a thread and a node may keep follows it */

static void free_many(unsigned count) {
    open_bins();
    for (unsigned i = 0; i < MANY; i++)
        many[i] = must_alloc(RUN);
    for (unsigned i = 0; i < count; i++)
        NA_FN(free)(many[i]);
}

Test(large_bins, they_hold_so_much_and_the_node_a_little_more) {
    free_many(MANY / 2);
    cr_assert_leq(kept(), NA_LARGE_BINS_MOST + RUN); /* and one run */
    cr_assert_geq(kept(), NA_LARGE_BINS_MOST / 4 * 3);
    cr_assert_leq(na_run_cache_bytes(na_self->node), 2 * IN_USE / NA_KEPT_PART + 6 * RUN);
    cr_assert_geq(na_run_cache_bytes(na_self->node), IN_USE / NA_KEPT_PART / 3);
    for (unsigned i = MANY / 2; i < MANY; i++)
        NA_FN(free)(many[i]);
    cr_assert_leq(na_run_cache_bytes(na_self->node), 8 * NA_KEPT_LEAST);
    numalloc_trim(0);
    cr_assert_eq(kept(), 0);
    cr_assert_eq(na_run_cache_bytes(na_self->node), 0);
}

Test(large_bins, a_node_hands_out_what_it_keeps) {
    enum { BEYOND = 14, FREED = NA_LARGE_BINS_MOST / RUN + BEYOND }; /* those go to the node */
    free_many(FREED);
    uint64_t before = na_run_cache_bytes(na_self->node);
    cr_assert_geq(before, (BEYOND - 2) * RUN);
    for (unsigned i = 0; i < FREED; i++) {
        void *block = NA_FN(malloc)(RUN);
        bool known = false;
        for (unsigned k = 0; k < FREED; k++)
            known |= many[k] == block;
        cr_assert(known);
    }
    /* What the bins had before made room. */
    cr_assert_lt(na_run_cache_bytes(na_self->node), RUN);
}

/* However full the bins are of other sizes. */
Test(large_bins, a_thread_that_goes_on_to_another_size_finds_it_kept) {
    free_many(MANY);
    open_bins();
    uint64_t before = na_run_cache_bytes(na_self->node);
    void *first = must_alloc(MIB);
    NA_FN(free)(first);
    for (unsigned i = 0; i < 10; i++) {
        void *block = must_alloc(MIB);
        cr_assert_eq(block, first);
        NA_FN(free)(block);
    }
    cr_assert_leq(kept(), NA_LARGE_BINS_MOST + MIB);
    cr_assert_leq(na_run_cache_bytes(na_self->node), before + 2 * NA_LARGE_BINS_MOST);
}

/* It lies in the page heap, where the next one that grows finds it. */
Test(large_bins, a_block_that_grew_is_not_kept) {
    open_bins();
    uint64_t before = kept() + na_run_cache_bytes(na_self->node);
    for (unsigned i = 0; i < 4; i++) {
        many[i] = must_alloc(100 * KIB);
        many[i + 4] = must_alloc(100 * KIB); /* it cannot grow where it is */
    }
    for (unsigned i = 0; i < 4; i++) {
        for (size_t size = 200 * KIB; size <= MIB; size += 200 * KIB) {
            many[i] = NA_FN(realloc)(many[i], size);
            cr_assert_not_null(many[i]);
        }
        NA_FN(free)(many[i]);
    }
    cr_assert_leq(kept() + na_run_cache_bytes(na_self->node), before + 4 * 104 * KIB);
    for (unsigned i = 4; i < 8; i++)
        NA_FN(free)(many[i]);
}

/* Beside the part, the least as little is in use, there is what may be earned. */
Test(large_bins, no_more_is_earned_than_may_be) {
    open_bins();
    srand(7);
    for (unsigned i = 0; i < 2000; i++)
        NA_FN(free)(must_alloc((size_t)64 * KIB << rand() % 7));
    cr_assert_leq(kept(), NA_LARGE_BINS_EARNED + 2 * NA_KEPT_LEAST);
}

/* What a thread sends to its node and takes back stays with it. */
Test(large_bins, a_wave_of_one_thread_stays_with_it) {
    enum { BLOCKS = 40, ROUNDS = 200 };
    open_bins();
    for (unsigned round = 0; round < ROUNDS; round++) {
        for (unsigned i = 0; i < BLOCKS; i++)
            many[i] = must_alloc(100 * KIB);
        for (unsigned i = 0; i < BLOCKS; i++)
            NA_FN(free)(many[i]);
    }
    if (!na_node_many) cr_assert_geq(kept(), BLOCKS * 100 * KIB / 5 * 4);
    cr_assert_leq(kept(), NA_LARGE_BINS_ALL);
}

/* A program that frees all it has and takes as much again finds it kept; one that stops to do so
 * loses it. */
Test(large_bins, more_is_kept_of_a_program_that_works_in_waves) {
    enum { BLOCKS = 200, ROUNDS = 50 }; /* a busy machine forgets between two of them */
    const uint64_t wave = BLOCKS * 100 * KIB, much = wave / 5 * 4, little = wave / 10;
    unsigned node = na_self->node;
    if (na_node_many) return;
    open_bins();
    uint64_t first = 0, last = 0;
    for (unsigned round = 0; round < ROUNDS && last < much; round++) {
        for (unsigned i = 0; i < BLOCKS; i++)
            many[i] = must_alloc(100 * KIB);
        for (unsigned i = 0; i < BLOCKS; i++)
            NA_FN(free)(many[i]);
        last = kept() + na_run_cache_bytes(node);
        if (round == 0) first = last;
    }
    cr_assert_lt(first, little);
    cr_assert_geq(last, much);
    for (unsigned look = 0; look < 8; look++)
        na_run_cache_decay(node);
    cr_assert_eq(na_run_cache_bytes(node), 0);
    for (unsigned i = 0; i < BLOCKS; i++)
        many[i] = must_alloc(100 * KIB);
    cr_assert_lt(na_run_cache_share(node), little);
    for (unsigned i = 0; i < BLOCKS; i++)
        NA_FN(free)(many[i]);
}

/* The counts of room and runs say what is there. */
static void expect_what_is_there(void) {
    uint64_t runs = 0, bytes = 0;
    for (unsigned slot = 0; slot < NA_RUN_SLOTS; slot++)
        for (const na_span_t *run = na_self->large.bins.head[slot];
             run != NULL && run != &na_large_bins_end; run = run->next) {
            runs++;
            bytes += na_span_bytes(run);
        }
    cr_assert_eq(na_self->large.room.runs, runs);
    cr_assert_eq(kept(), bytes);
}

/* However they are served: by the bins, by the node, by the page heap. */
Test(large_bins, takes_and_gives_are_counted) {
    enum { BLOCKS = 300 };
    open_bins();
    uint64_t taken = na_large_taken(na_self), given = na_large_given(na_self), allocs = 0,
             frees = 0;
    srand(3);
    for (unsigned i = 0; i < 20000; i++) {
        void **at = &many[(unsigned)rand() % BLOCKS];
        NA_FN(free)(NULL);
        frees += *at != NULL;
        NA_FN(free)(*at);
        *at = NULL;
        if (rand() % 4 == 0) continue;
        *at = NA_FN(malloc)(NA_SMALL_MAX + 1 + (size_t)rand() % (6 * MIB));
        allocs += *at != NULL;
        if (i % 64 == 0) expect_what_is_there();
    }
    cr_assert_eq(na_large_taken(na_self) - taken, allocs);
    cr_assert_eq(na_large_given(na_self) - given, frees);
    numalloc_trim(0); /* the limit falls to nothing, and what is kept goes */
    expect_what_is_there();
    cr_assert_eq(kept(), 0);
    cr_assert_eq(na_large_given(na_self) - given, frees);
    for (unsigned i = 0; i < BLOCKS; i++)
        NA_FN(free)(many[i]);
}

/* Blocks of another size get the pages that are kept, rather than new memory. */
Test(large_bins, what_is_kept_does_not_make_the_process_grow) {
    enum { BLOCKS = 100 };
    static void *blocks[2 * BLOCKS];
    open_bins();
    for (unsigned i = 0; i < BLOCKS; i++)
        blocks[i] = must_alloc(80 * KIB);
    for (unsigned i = 0; i < BLOCKS; i++)
        NA_FN(free)(blocks[i]);
    uint64_t committed = na_pageheap_committed();
    for (unsigned round = 0; round < 20; round++) {
        size_t size = (40 + 40 * (size_t)round) * KIB;
        unsigned count = (unsigned)(BLOCKS * 80 * KIB / size * 7 / 8);
        for (unsigned i = 0; i < count; i++)
            blocks[i] = must_alloc(size);
        for (unsigned i = 0; i < count; i++)
            NA_FN(free)(blocks[i]);
    }
    cr_assert_leq(na_pageheap_committed(), committed + 2 * MIB);
}

static void set_limit(void) {
    setenv("NUMALLOC_LIMIT", "16M", 1);
}

Test(large_bins, what_is_kept_is_given_up_before_memory_is_refused, .init = set_limit) {
    enum { BLOCKS = 12 };
    open_bins();
    for (unsigned round = 0; round < 8; round++) {
        size_t size = round % 2 ? MIB : 40 * KIB;
        unsigned count = round % 2 ? BLOCKS : 12 * MIB / (40 * KIB);
        void **held = calloc(count, sizeof *held);
        for (unsigned i = 0; i < count; i++)
            held[i] = must_alloc(size);
        for (unsigned i = 0; i < count; i++)
            NA_FN(free)(held[i]);
        free(held);
    }
}

static void no_delay(void) {
    setenv("NUMALLOC_PURGE_DELAY", "0", 1);
}

Test(large_bins, nothing_is_kept_where_free_memory_goes_back_at_once, .init = no_delay) {
    for (unsigned i = 0; i < 10; i++)
        open_bins();
    cr_assert_eq(kept(), 0);
    cr_assert_eq(na_run_cache_bytes(na_self->node), 0);
}

static void *free_some(void *arg) {
    (void)arg;
    open_bins();
    for (unsigned i = 0; i < 8; i++)
        NA_FN(free)(must_alloc(100 * KIB));
    cr_assert_gt(kept(), 0);
    return na_self;
}

Test(large_bins, a_thread_that_ends_keeps_nothing) {
    pthread_t thread;
    void *tcache;
    cr_assert_eq(pthread_create(&thread, NULL, free_some, NULL), 0);
    cr_assert_eq(pthread_join(thread, &tcache), 0);
    cr_assert_eq(na_large_kept(tcache), 0);
}

Test(large_bins, bins_that_are_not_used_are_given_back) {
    for (unsigned i = 0; i < 8; i++)
        NA_FN(free)(must_alloc(900 * KIB)); /* to the node at first; what comes back earns room */
    cr_assert_geq(kept(), 900 * KIB);
    cr_assert(na_gate_enter(na_self));
    na_large_bins_decay(na_self); /* sees what is there */
    na_gate_leave(na_self);
    NA_FN(free)(must_alloc(40 * KIB));
    void *other = must_alloc(48 * KIB);
    NA_FN(free)(other);
    cr_assert(na_gate_enter(na_self));
    na_large_bins_decay(na_self);
    na_gate_leave(na_self);
    cr_assert_leq(kept(), 100 * KIB);
}
