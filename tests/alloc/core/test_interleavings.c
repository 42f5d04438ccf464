/* test_interleavings.c - the core from entry.c down: two threads at the same blocks. One is stepped
 * through what it does, and between two of its instructions, drawn at random, the other does all of
 * its own (tests/support/steps.h). Afterwards no block has lost what was written to it, nothing was
 * called misuse, which would end the test, and nothing is missing: all memory comes home. */
#include <criterion/criterion.h>
#include <stdlib.h>
#include <string.h>

#include "alloc/core/cache/thread_cache.h"
#include "alloc/core/malloc/api.h"
#include "alloc/core/malloc/emergency.h"
#include "alloc/core/page/scavenge_policy.h"
#include "alloc/core/thread/attach.h"
#include "numalloc/numalloc.h"
#include "support/fill.h"
#include "support/steps.h"

/* --- blocks, of which each knows its number at both ends --- */

typedef struct block {
    uint64_t *at;
    size_t words;
} block_t;
enum { MANY = 2000 };
typedef struct stock {
    block_t blocks[MANY];
    unsigned count;
} stock_t;
static stock_t mine, theirs; /* of the stepped thread, of the other */

static _Atomic(uint64_t) numbers;

static void number(block_t *b) {
    b->at[0] = b->at[b->words - 1] = atomic_fetch_add(&numbers, 1) << 16 | (b->words & 0xffff);
}

static void put(stock_t *stock, void *at, size_t size) {
    if (at == NULL || stock->count == MANY) abort();
    block_t *b = &stock->blocks[stock->count++];
    *b = (block_t){at, size / 8};
    number(b);
}

static void take(stock_t *stock, size_t size) {
    put(stock, NA_FN(malloc)(size), size);
}

static void check(const block_t *b) {
    if (b->at[0] != b->at[b->words - 1] || (b->at[0] & 0xffff) != (b->words & 0xffff)) abort();
}

static void drop(stock_t *stock, unsigned count) {
    for (; count != 0 && stock->count != 0; count--) {
        block_t *b = &stock->blocks[--stock->count];
        check(b);
        NA_FN(free)(b->at);
    }
}

static void drop_mine(void) {
    drop(&mine, MANY);
}

static void drop_theirs(void) {
    drop(&theirs, MANY);
}

static void take_of(stock_t *stock, const size_t *sizes, unsigned kinds, unsigned count) {
    for (unsigned i = 0; i < count; i++)
        take(stock, sizes[i % kinds]);
}

static const size_t small_sizes[] = {112, 112, 112, 640, 112, 48, 5000};
static const size_t large_sizes[] = {40000, 70000, 300000, 40000};
#define TAKE_SMALL(stock, count) take_of(stock, small_sizes, 7, count)
#define TAKE_LARGE(stock, count) take_of(stock, large_sizes, 4, count)

static void trim(void) {
    (void)numalloc_trim(0);
}

/* What the stepped thread took is the other's to free, and the other way round. */
static void exchange(void) {
    static stock_t kept;
    kept = mine;
    mine = theirs;
    theirs = kept;
}

/* --- a play --- */

typedef struct play {
    void (*before)(void); /* both by the stepped thread, outside */
    void (*after)(void);
    void (*stepped)(void);
    void (*other)(void);
} play_t;

static const play_t *playing;

static void other_acts(void) {
    steps_let_other(playing->other);
}

static uint64_t in_spans(void) {
    numalloc_stats_t stats;
    numalloc_read_stats(&stats, sizeof stats);
    return stats.in_spans;
}

/* All memory that is not in a block. */
static void come_home(void) {
    drop_mine();
    steps_have_other(drop_theirs);
    trim();
    steps_have_other(trim);
    trim();
}

enum { SPARE = 4 << 20, MEASURED = 2 };

static unsigned rounds(void) {
    const char *scale = getenv("TEST_SCALE");
    return scale != NULL && strcmp(scale, "full") == 0 ? 1000 : 4;
}

static uint64_t chance = 5;

/* So that bins, batches and what waits for its owner are at any point when the steps begin. */
static unsigned any_below(unsigned most) {
    return (unsigned)(fill_random(&chance) >> 16) % most;
}

/* The steps that one round of it takes, at most. */
static uint64_t measure(uint64_t (*step_through)(const steps_stop_t *stops)) {
    uint64_t most = 0;
    for (unsigned round = 0; round < MEASURED; round++) {
        uint64_t steps = step_through(steps_never);
        if (steps > most) most = steps;
    }
    cr_assert_gt(most, 50);
    return most;
}

static void perform_steps(const play_t *play, uint64_t (*step_through)(const steps_stop_t *)) {
    pthread_t thread = steps_begin_other();
    playing = play;
    uint64_t all = measure(step_through), first = 0;
    for (unsigned round = 0, last = rounds(); round < last; round++) {
        const steps_stop_t stops[] = {{any_below((unsigned)all), other_acts}, {0, NULL}};
        step_through(stops);
        if (round == last / 2) {
            come_home();
            first = in_spans();
        }
    }
    come_home();
    cr_assert_leq(in_spans(), first + SPARE, "%lu bytes at first, %lu now", first, in_spans());
    steps_end_other(thread);
}

static uint64_t play_once(const steps_stop_t *stops) {
    playing->before();
    uint64_t steps = steps_through(playing->stepped, stops);
    steps_wait_other();
    playing->after();
    return steps;
}

static void perform(const play_t *play) {
    na_init();
    cr_assert(steps_catch());
    perform_steps(play, play_once);
}

#define PLAY(name, ...)                                                                            \
    Test(interleavings, name) {                                                                    \
        static const play_t play = {__VA_ARGS__};                                                  \
        perform(&play);                                                                            \
    }

/* --- small blocks --- */

enum { FEW = 12 };

static void take_and_exchange(void) {
    TAKE_SMALL(&mine, 150);
    exchange();
    TAKE_SMALL(&mine, any_below(60));
}

static void i_take_few(void) {
    TAKE_SMALL(&mine, FEW);
}

static void drop_but_few(void) {
    if (mine.count > FEW) drop(&mine, mine.count - FEW);
}

static void they_take_small(void) {
    TAKE_SMALL(&theirs, 100);
}

static void both_drop(void) {
    drop_mine();
    steps_have_other(drop_theirs);
}

PLAY(a_stranger_frees_while_the_owner_allocates, take_and_exchange, both_drop, i_take_few,
     drop_theirs)

static void they_take_then_exchange(void) {
    steps_have_other(they_take_small);
    exchange();
    drop(&mine, any_below(60));
    drop_but_few();
}

PLAY(the_owner_allocates_while_a_stranger_frees, they_take_then_exchange, both_drop, drop_mine,
     they_take_small)

static void both_take(void) {
    TAKE_SMALL(&mine, 60 + any_below(60));
    steps_have_other(they_take_small);
    drop_but_few();
}

PLAY(one_trims_while_the_other_frees, both_take, both_drop, trim, drop_theirs)
PLAY(one_frees_while_the_other_trims, both_take, both_drop, drop_mine, trim)
PLAY(both_take_from_new_spans, trim, both_drop, i_take_few, they_take_small)

/* --- large blocks --- */

static void both_take_large(void) {
    TAKE_LARGE(&mine, 12);
    steps_have_other(trim);
    exchange();
    TAKE_LARGE(&mine, 12);
}

static void i_turn_over_large(void) {
    drop(&mine, 6);
    TAKE_LARGE(&mine, 6);
}

static void they_turn_over_large(void) {
    drop(&theirs, 6);
    TAKE_LARGE(&theirs, 6);
    drop(&theirs, 3);
}

PLAY(both_take_and_free_large_blocks, both_take_large, both_drop, i_turn_over_large,
     they_turn_over_large)
PLAY(one_trims_while_the_other_frees_large_blocks, both_take_large, both_drop, trim,
     they_turn_over_large)
PLAY(one_frees_large_blocks_while_the_other_trims, both_take_large, both_drop, i_turn_over_large,
     trim)

/* realloc in place takes the pages behind the block, which the other wants as well. */
static void i_grow(void) {
    block_t *b = &mine.blocks[mine.count - 1];
    b->at = NA_FN(realloc)(b->at, 3 * b->words * 8);
    if (b->at == NULL) abort();
    check(b);
    b->words *= 3;
    number(b);
}

PLAY(one_block_grows_while_the_other_takes, both_take_large, both_drop, i_grow,
     they_turn_over_large)

/* --- heaps --- */

static numalloc_heap_t *heap;

static void heap_take(stock_t *stock, unsigned count) {
    for (unsigned i = 0; i < count; i++) {
        size_t size = small_sizes[i % 7];
        put(stock, numalloc_heap_malloc(heap, size), size);
    }
}

static void begin_heap(void) {
    heap = numalloc_heap_create(NULL);
    heap_take(&mine, 100);
    exchange();
}

static void i_take_of_heap(void) {
    heap_take(&mine, 30);
}

static void end_heap(void) {
    both_drop();
    numalloc_heap_destroy(heap);
}

static void they_take_of_heap_and_free(void) {
    drop(&theirs, 50);
    heap_take(&theirs, 20);
    drop(&theirs, 40);
}

PLAY(two_threads_use_one_heap, begin_heap, end_heap, i_take_of_heap, they_take_of_heap_and_free)

/* Blocks that a fork kept from coming home are on their way when their heap ends. */
static void begin_deferred(void) {
    heap = numalloc_heap_create(NULL);
    heap_take(&mine, 60);
    while (mine.count != 0)
        na_defer_free(mine.blocks[--mine.count].at);
}

static void i_drain(void) {
    na_tcache_t *tcache = na_tcache_enter();
    na_deferred_drain(tcache);
    na_tcache_leave(tcache);
}

static void they_end_heap_and_take(void) {
    numalloc_heap_destroy(heap);
    heap = NULL;
    trim();
    TAKE_SMALL(&theirs, 200);
}

static void end_deferred(void) {
    numalloc_heap_destroy(heap);
    both_drop();
}

PLAY(a_heap_ends_while_its_blocks_come_home, begin_deferred, end_deferred, i_drain,
     they_end_heap_and_take)

static void begin_full_heap(void) {
    heap = numalloc_heap_create(NULL);
    heap_take(&mine, 100);
    steps_have_other(they_take_small);
}

static void i_destroy_heap(void) {
    mine.count = 0;
    numalloc_heap_destroy(heap);
}

static void they_make_a_heap(void) {
    numalloc_heap_t *other = numalloc_heap_create(NULL);
    NA_FN(free)(numalloc_heap_malloc(other, 112));
    numalloc_heap_destroy(other);
    drop(&theirs, 50);
    they_take_small();
}

PLAY(a_heap_ends_while_another_begins, begin_full_heap, both_drop, i_destroy_heap, they_make_a_heap)

/* --- threads that come and go --- */

static pthread_t third;
static _Atomic(bool) third_may_end, third_lives;

static void *live_third(void *unused) {
    (void)unused;
    TAKE_SMALL(&mine, 100);
    for (unsigned i = 0; i < NA_WARM_REMOTE / 112 * 3 / 2; i++) /* more than its cache may keep */
        take(&mine, 112);
    atomic_store(&third_lives, true);
    while (!atomic_load(&third_may_end))
        sched_yield();
    return NULL;
}

/* Another thread's blocks are mine. */
static void begin_third(void) {
    atomic_store(&third_may_end, false);
    atomic_store(&third_lives, false);
    cr_assert_eq(pthread_create(&third, NULL, live_third, NULL), 0);
    while (!atomic_load(&third_lives))
        sched_yield();
    drop(&mine, any_below(60));
}

static void begin_third_and_drop(void) {
    begin_third();
    drop_but_few();
}

static void third_ends(void) {
    atomic_store(&third_may_end, true);
    pthread_join(third, NULL);
}

PLAY(a_stranger_frees_while_the_owner_ends, begin_third_and_drop, both_drop, drop_mine, third_ends)

static void *live_shortly(void *unused) {
    (void)unused;
    TAKE_SMALL(&theirs, 20);
    return NULL;
}

/* Its thread cache is adopted by one that begins. */
static void another_begins(void) {
    pthread_t thread;
    if (pthread_create(&thread, NULL, live_shortly, NULL) == 0) pthread_join(thread, NULL);
}

/* Its cache may keep NA_WARM_REMOTE bytes that strangers freed; what comes then is put into spans
 * by who frees it. */
static void leave_third(void) {
    begin_third();
    third_ends();
    drop(&mine, NA_WARM_REMOTE / 112 - any_below(100));
}

static void i_drop_some(void) {
    drop(&mine, 70);
}

PLAY(a_stranger_frees_to_an_abandoned_cache_while_it_is_adopted, leave_third, both_drop,
     i_drop_some, another_begins)

/* The thread that ends is the one that is stepped through, up to the destructor of a key that was
 * made after the library's. (Then the C library blocks all signals.) */
static const steps_stop_t *ending_stops;
static pthread_key_t later_key;

static void end_steps(void *unused) {
    (void)unused;
    steps_end();
}

static void *end_stepped(void *unused) {
    (void)unused;
    TAKE_SMALL(&mine, 150);
    exchange();
    TAKE_SMALL(&mine, 30);
    TAKE_LARGE(&mine, 4);
    drop(&mine, 20);
    pthread_setspecific(later_key, &later_key);
    steps_begin(ending_stops);
    return NULL;
}

static uint64_t end_once(const steps_stop_t *stops) {
    pthread_t thread;
    ending_stops = stops;
    cr_assert_eq(pthread_create(&thread, NULL, end_stepped, NULL), 0);
    pthread_join(thread, NULL);
    steps_wait_other();
    both_drop();
    return steps_done;
}

static void they_drop_and_begin(void) {
    drop(&theirs, 100);
    another_begins();
    drop(&theirs, 100);
}

Test(interleavings, the_owner_ends_while_a_stranger_frees) {
    static const play_t play = {.other = they_drop_and_begin};
    na_init();
    cr_assert(steps_catch());
    NA_FN(free)(NA_FN(malloc)(1)); /* makes the library's key */
    cr_assert_eq(pthread_key_create(&later_key, end_steps), 0);
    perform_steps(&play, end_once);
}
