/* test_counters.c - thread_cache.c and bin.c: narrow counters near their ends: the credits of the
 * two thread caches that threads without one share, and the count of a bin that grew while a fork
 * kept the gate closed. */
#include <criterion/criterion.h>
#include <pthread.h>
#include <stdlib.h>

#include "alloc/core/cache/thread_cache.h"
#include "alloc/core/malloc/api.h"
#include "numalloc/numalloc.h"

/* --- shared credits --- */

typedef void call_t(void);

static void call_empty(void) {
    NA_FN(free)(NA_FN(malloc)(0));
}
static void call_small(void) {
    NA_FN(free)(NA_FN(malloc)(24));
}
static void call_last_class(void) {
    NA_FN(free)(NA_FN(malloc)(NA_SMALL_MAX));
}
static void call_large(void) {
    NA_FN(free)(NA_FN(malloc)(100000));
}
static void call_calloc(void) {
    NA_FN(free)(NA_FN(calloc)(0, 8));
    NA_FN(free)(NA_FN(calloc)(3, 8));
}
static void call_aligned(void) {
    NA_FN(free)(NA_FN(aligned_alloc)(64, 0));
    NA_FN(free)(NA_FN(aligned_alloc)(4096, 5000));
}
static void call_realloc(void) {
    NA_FN(free)(NA_FN(realloc)(NA_FN(realloc)(NULL, 0), 100));
}
static void call_free(void) {
    NA_FN(free)(NULL);
}

enum { END = INT16_MIN + 64, END_TAKES = INT32_MIN + 64 };

static void drain(na_tcache_t *shared) {
    for (unsigned cls = 0; cls < NA_CLASS_COUNT; cls++)
        shared->bins[cls].pop = END;
    shared->bins[0].push = END;
    shared->large.takes = END_TAKES;
}

/* What a call has counted down it has reset. */
static void check_near_zero(const na_tcache_t *shared, unsigned number) {
    for (unsigned cls = 0; cls < NA_CLASS_COUNT; cls++) {
        int pop = shared->bins[cls].pop;
        cr_assert(pop == END || pop >= -1, "call %u leaves %d of class %u", number, pop, cls);
    }
    int push = shared->bins[0].push;
    cr_assert(push == END || push >= -1, "call %u leaves %d to push", number, push);
    int32_t takes = shared->large.takes;
    cr_assert(takes == END_TAKES || takes >= -1, "call %u leaves %d takes", number, takes);
}

static call_t *const calls[] = {call_empty,  call_small,   call_last_class, call_large,
                                call_calloc, call_aligned, call_realloc,    call_free};
enum { CALLS = sizeof calls / sizeof calls[0] };

static void *call_first(void *number) {
    calls[(uintptr_t)number]();
    return NULL;
}

static void *call_last(void *number) {
    call_small();
    na_tcache_t *own = na_self;
    na_self = &na_tcache_gone;
    calls[(uintptr_t)number]();
    na_self = own;
    return NULL;
}

static void check_calls(void *(*by)(void *), na_tcache_t *shared) {
    call_small(); /* the library has begun */
    for (uintptr_t number = 0; number < CALLS; number++) {
        pthread_t id;
        drain(shared);
        cr_assert_eq(pthread_create(&id, NULL, by, (void *)number), 0);
        pthread_join(id, NULL);
        check_near_zero(shared, (unsigned)number);
    }
}

Test(counters, first_calls_of_threads) {
    check_calls(call_first, &na_tcache_empty);
}

Test(counters, last_calls_of_threads) {
    check_calls(call_last, &na_tcache_gone);
}

Test(counters, first_calls_of_threads_hardened) {
    setenv("NUMALLOC_HARDEN", "2", 1);
    check_calls(call_first, &na_tcache_empty);
}

Test(counters, last_calls_of_threads_hardened) {
    setenv("NUMALLOC_HARDEN", "2", 1);
    check_calls(call_last, &na_tcache_gone);
}

/* --- bins --- */

enum { BLOCKS = 70000, MORE = 3000 };
static void *blocks[BLOCKS + MORE];

/* While a fork keeps the gate closed for long, a bin takes whatever is freed. */
static void overfill(void) {
    for (unsigned i = 0; i < BLOCKS + MORE; i++)
        blocks[i] = NA_FN(malloc)(16);
    atomic_store(&na_fork_is_long, true);
    atomic_store(&na_forking, 1); /* no thread's */
    for (unsigned i = 0; i < BLOCKS; i++)
        NA_FN(free)(blocks[i]);
    atomic_store(&na_forking, 0);
    atomic_store(&na_fork_is_long, false);
    cr_assert_gt(na_self->states[1].count, NA_BATCH_MAX / 2);
    for (unsigned i = BLOCKS; i < BLOCKS + MORE; i++) /* and now it may run over */
        NA_FN(free)(blocks[i]);
    numalloc_trim(0);
    for (unsigned i = 0; i < 10000; i++) /* what waited (hardened) goes on */
        NA_FN(free)(NA_FN(malloc)(5000));
    numalloc_trim(0);
    cr_assert_eq(na_self->states[1].count, 0);
    cr_assert_eq(na_tcache_spans(na_self, 1)->count, 0, "blocks are lost");
}

Test(counters, a_bin_of_more_blocks_than_a_batch) {
    overfill();
}

Test(counters, a_bin_of_more_blocks_than_a_batch_hardened) {
    setenv("NUMALLOC_HARDEN", "1", 1);
    overfill();
}
