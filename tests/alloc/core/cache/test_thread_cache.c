/* test_thread_cache.c - credits, adoption, remote frees to thread caches without a thread, and the
 * thread caches of a forked child.
 */
#include <criterion/criterion.h>
#include <pthread.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

#include "alloc/core/cache/bin.h"
#include "alloc/core/cache/thread_cache.h"
#include "alloc/core/malloc/api.h"
#include "alloc/core/malloc/small.h"
#include "alloc/core/thread/attach.h"
#include "alloc/core/thread/scavenge.h"
#include "numalloc/numalloc.h"

/* The test's own thread takes a thread cache first, or it would adopt those that the tests look at.
 */
static void attach(void) {
    NA_FN(free)(NA_FN(malloc)(1));
}

TestSuite(tcache, .init = attach);

static int credit(int16_t left) {
    return left < 0 ? 0 : left;
}

/* blocks in the list = count + (granted.push - push) - (granted.pop - pop) */
static void check_bins(const na_tcache_t *tcache) {
    for (unsigned cls = 1; cls < NA_CLASS_COUNT; cls++) {
        const na_bin_t *bin = &tcache->bins[cls];
        const na_bin_state_t *state = &tcache->states[cls];
        int64_t length = 0;
        for (void *block = bin->head; block != NULL; block = *na_block_next(block))
            length++;
        int64_t told = (int64_t)state->count + (state->granted.push - credit(bin->push)) -
                       (state->granted.pop - credit(bin->pop));
        cr_assert_eq(length, told, "class %u: %ld blocks, told %ld", cls, (long)length, (long)told);
        cr_assert_leq(credit(bin->pop), length);
        cr_assert(state->granted.pop <= NA_CREDIT_MAX && state->granted.push <= NA_CREDIT_MAX);
    }
}

Test(tcache, credits_tell_the_length_of_every_list) {
    enum { SLOTS = 3000 };
    static void *slots[SLOTS];
    srand(7);
    for (unsigned i = 0; i < 300000; i++) {
        unsigned at = (unsigned)rand() % SLOTS;
        NA_FN(free)(slots[at]);
        slots[at] =
            (i / 20000) % 3 == 2 ? NULL : NA_FN(malloc)((size_t)rand() % (1u << rand() % 16));
        if (i % 997 == 0) check_bins(na_self);
        if (i % 50021 == 0) numalloc_trim(0);
    }
    for (unsigned i = 0; i < SLOTS; i++)
        NA_FN(free)(slots[i]);
    check_bins(na_self);
    numalloc_trim(0);
    for (unsigned cls = 1; cls < NA_CLASS_COUNT; cls++) {
        cr_assert_eq(na_self->states[cls].count, 0);
        cr_assert_eq(na_self->overflow.bytes, 0);
        cr_assert_eq(na_self->states[cls].overflow, 0);
        if (na_classes[cls].pooled) continue;
        cr_assert_eq(na_tcache_spans(na_self, cls)->count, 0, "class %u keeps a span", cls);
    }
}

typedef struct visit {
    void *blocks[2000];
    size_t size;
    na_tcache_t *tcache;
} visit_t;

static void *fill(void *argument) {
    visit_t *v = argument;
    for (unsigned i = 0; i < 2000; i++)
        v->blocks[i] = NA_FN(malloc)(v->size);
    v->tcache = na_self;
    return NULL;
}

static void run(visit_t *v) {
    pthread_t id;
    cr_assert_eq(pthread_create(&id, NULL, fill, v), 0);
    pthread_join(id, NULL);
}

/* What is popped and pushed is counted all the same. */
Test(tcache, a_bin_of_few_blocks_is_renewed_once_in_many_calls) {
    enum { LIVE = 16, PAIRS = 6400, SIZE = 30000 };
    if (na_self->where.watched) return; /* every renewal looks where the thread is */
    void *ring[LIVE] = {NULL};
    unsigned cls = na_class_of(SIZE), renewals = 0;
    const na_bin_state_t *state = &na_self->states[cls];
    numalloc_trim(0);
    uint64_t pops = state->pops;
    for (unsigned i = 0; i < PAIRS; i++) {
        uint64_t before = state->pops;
        NA_FN(free)(ring[i % LIVE]);
        ring[i % LIVE] = NA_FN(malloc)(SIZE);
        renewals += state->pops != before;
        check_bins(na_self);
    }
    cr_assert_lt(renewals, PAIRS / 16, "%u renewals", renewals);
    numalloc_trim(0);
    cr_assert_eq(state->pops - pops, PAIRS);
    for (unsigned i = 0; i < LIVE; i++)
        NA_FN(free)(ring[i]);
}

Test(tcache, the_next_thread_adopts_the_last_cache) {
    static visit_t first = {.size = 48}, second = {.size = 48};
    run(&first);
    cr_assert_eq(first.tcache->shared.user, NA_TCACHE_ABANDONED);
    unsigned tcaches = na_tcache_count();
    run(&second);
    cr_assert_eq(second.tcache, first.tcache);
    cr_assert_eq(na_tcache_count(), tcaches);
}

Test(tcache, remote_frees_to_a_cache_without_a_thread_reach_its_spans) {
    static visit_t v = {.size = 48};
    run(&v);
    unsigned cls = na_class_of(48);
    cr_assert_gt(na_tcache_spans(v.tcache, cls)->count, 5);
    for (unsigned i = 0; i < 2000; i++)
        NA_FN(free)(v.blocks[i]);
    numalloc_trim(0); /* posts the remote batches */
    cr_assert_eq(na_self->posts.used, 0);
    cr_assert_eq(v.tcache->shared.user, NA_TCACHE_ABANDONED);
    cr_assert_eq(v.tcache->shared.remote_free[cls], 0);
    cr_assert_eq(v.tcache->shared.remote_bytes, 0);
    cr_assert_eq(na_tcache_spans(v.tcache, cls)->count, 0);
}

static void flush_remote_batches(void) {
    cr_assert(na_gate_enter(na_self));
    na_remote_flush(na_self);
    na_gate_leave(na_self);
}

static void scavenge_others(void) {
    cr_assert(na_gate_enter(na_self));
    na_scavenge_others(na_self);
    na_gate_leave(na_self);
}

Test(tcache, a_warm_cache_has_some_remote_frees_until_it_cools) {
    static visit_t v = {.size = 48};
    run(&v);
    unsigned cls = na_class_of(48), some = NA_WARM_REMOTE / 2 / 48;
    cr_assert(v.tcache->shared.warm);
    for (unsigned i = 0; i < some; i++)
        NA_FN(free)(v.blocks[i]);
    flush_remote_batches();
    cr_assert_eq(v.tcache->shared.remote_bytes, some * 48);
    cr_assert_neq(v.tcache->shared.remote_free[cls], 0);
    scavenge_others(); /* it is there for the first time, */
    scavenge_others(); /* and still is */
    cr_assert_not(v.tcache->shared.warm);
    cr_assert_eq(v.tcache->shared.user, NA_TCACHE_ABANDONED);
    cr_assert_eq(v.tcache->shared.remote_bytes, 0);
    cr_assert_eq(v.tcache->shared.remote_free[cls], 0);
    for (unsigned i = some; i < 2000; i++)
        NA_FN(free)(v.blocks[i]);
    flush_remote_batches();
    cr_assert_eq(v.tcache->shared.remote_free[cls], 0);
    cr_assert_leq(na_tcache_spans(v.tcache, cls)->count, 1);
}

/* As many as threads at a time end. */
static pthread_barrier_t together;

static void *live_together(void *arg) {
    (void)arg;
    void *block = NA_FN(malloc)(48);
    pthread_barrier_wait(&together);
    NA_FN(free)(block);
    return NULL;
}

Test(tcache, all_caches_of_short_threads_are_warm) {
    enum { THREADS = 100 };
    pthread_t thread[THREADS];
    pthread_barrier_init(&together, NULL, THREADS);
    for (unsigned i = 0; i < THREADS; i++)
        cr_assert_eq(pthread_create(&thread[i], NULL, live_together, NULL), 0);
    for (unsigned i = 0; i < THREADS; i++)
        pthread_join(thread[i], NULL);
    unsigned warm = 0;
    for (unsigned id = 1; id <= na_tcache_count(); id++)
        warm += na_tcache_is_warm(na_tcache_by_id(id));
    cr_assert_eq(warm, THREADS);
    scavenge_others();
    scavenge_others();
    for (unsigned id = 1; id <= na_tcache_count(); id++)
        cr_assert_not(na_tcache_is_warm(na_tcache_by_id(id)));
}

Test(tcache, too_many_remote_frees_for_a_warm_cache_go_to_its_spans) {
    static visit_t v = {.size = 112};
    run(&v);
    cr_assert(v.tcache->shared.warm);
    uint64_t most = 0;
    for (unsigned i = 0; i < 2000; i++) {
        NA_FN(free)(v.blocks[i]);
        if (v.tcache->shared.remote_bytes > most) most = v.tcache->shared.remote_bytes;
    }
    flush_remote_batches();
    cr_assert_gt(most, NA_WARM_REMOTE / 2);
    cr_assert_leq(most, NA_WARM_REMOTE);
    cr_assert(v.tcache->shared.warm);
}

static int sleeping; /* __atomic: 1 asleep, 2 woken */

static void *keep_and_sleep(void *argument) {
    enum { BLOCKS = 40000 };
    static void *blocks[BLOCKS];
    for (unsigned wave = 0; wave < 3; wave++) {
        for (unsigned i = 0; i < BLOCKS; i++)
            blocks[i] = NA_FN(malloc)(48);
        if (wave == 2) break;
        for (unsigned i = 0; i < BLOCKS; i++)
            NA_FN(free)(blocks[i]);
        if (wave == 0) continue;
        *(na_tcache_t **)argument = na_self;
        __atomic_store_n(&sleeping, 1, __ATOMIC_RELEASE);
        while (__atomic_load_n(&sleeping, __ATOMIC_ACQUIRE) == 1)
            usleep(1000);
    }
    check_bins(na_self);
    for (unsigned i = 0; i < BLOCKS; i++)
        NA_FN(free)(blocks[i]);
    return NULL;
}

Test(tcache, what_a_sleeping_thread_keeps_is_sent_home_bit_by_bit) {
    static na_tcache_t *tcache;
    pthread_t id;
    cr_assert_eq(pthread_create(&id, NULL, keep_and_sleep, &tcache), 0);
    while (__atomic_load_n(&sleeping, __ATOMIC_ACQUIRE) == 0)
        usleep(1000);
    na_span_list_t *spans = na_tcache_spans(tcache, na_class_of(48));
    uint32_t full = spans->count, kept = tcache->overflow.bytes;
    cr_assert_gt(kept, NA_OTHERS_BYTES);
    for (unsigned call = 0; call < 3 && tcache->overflow.bytes == kept; call++)
        scavenge_others();
    cr_assert_gt(tcache->overflow.bytes, 0);
    cr_assert_lt(tcache->overflow.bytes, kept);
    scavenge_others();
    cr_assert_eq(tcache->overflow.bytes, 0);
    cr_assert_lt(spans->count, full / 4, "%u of %u", spans->count, full);
    cr_assert_eq(tcache->shared.busy, 0);
    __atomic_store_n(&sleeping, 2, __ATOMIC_RELEASE);
    pthread_join(id, NULL);
}

enum { ABSENT_BLOCKS = 400000 };
static void *absent_blocks[ABSENT_BLOCKS];
static int absence; /* __atomic: 1 away, 2 back */

static void *be_absent(void *argument) {
    for (unsigned i = 0; i < ABSENT_BLOCKS; i++)
        absent_blocks[i] = NA_FN(malloc)(48);
    *(na_tcache_t **)argument = na_self;
    __atomic_store_n(&absence, 1, __ATOMIC_RELEASE);
    while (__atomic_load_n(&absence, __ATOMIC_ACQUIRE) == 1)
        usleep(1000);
    for (unsigned i = 0; i < 20000; i++) /* its spans are in order */
        absent_blocks[i] = NA_FN(malloc)(48);
    for (unsigned i = 0; i < 20000; i++)
        NA_FN(free)(absent_blocks[i]);
    return NULL;
}

/* In no order, as a server's table is emptied by a thread of its own: one block that is left pins a
 * span. */
Test(tcache, remote_frees_for_a_thread_that_is_away_go_to_its_spans) {
    static na_tcache_t *tcache;
    pthread_t id;
    cr_assert_eq(pthread_create(&id, NULL, be_absent, &tcache), 0);
    while (__atomic_load_n(&absence, __ATOMIC_ACQUIRE) == 0)
        usleep(1000);
    na_span_list_t *spans = na_tcache_spans(tcache, na_class_of(48));
    uint32_t full = spans->count;
    for (unsigned i = 0; i < ABSENT_BLOCKS; i++)
        NA_FN(free)(absent_blocks[(uint64_t)i * 999983 % ABSENT_BLOCKS]);
    cr_assert_eq(tcache->shared.user, NA_TCACHE_ATTACHED);
    cr_assert_leq(tcache->shared.remote_bytes, 2 * NA_BATCH_BYTES);
    cr_assert_lt(spans->count, full * 2 / 3, "%u of %u", spans->count, full);
    cr_assert_lt(tcache->shared.remote_limit, 0);
    cr_assert_eq(tcache->shared.busy, 0);
    __atomic_store_n(&absence, 2, __ATOMIC_RELEASE);
    pthread_join(id, NULL);
    cr_assert_geq(tcache->shared.remote_limit, 0);
    numalloc_trim(0);
    cr_assert_eq(tcache->shared.remote_bytes, 0);
    cr_assert_eq(spans->count, 0);
}

static int waiting = 1; /* __atomic */

static void *wait_with_blocks(void *argument) {
    visit_t *v = argument;
    fill(v);
    for (unsigned i = 0; i < 100; i++)
        NA_FN(free)(v->blocks[i]);
    __atomic_store_n(&waiting, 2, __ATOMIC_RELEASE);
    while (__atomic_load_n(&waiting, __ATOMIC_ACQUIRE) == 2)
        usleep(1000);
    return NULL;
}

Test(tcache, a_child_takes_over_the_caches_of_threads_it_does_not_have) {
    static visit_t v = {.size = 48}, next = {.size = 48};
    pthread_t id;
    cr_assert_eq(pthread_create(&id, NULL, wait_with_blocks, &v), 0);
    while (__atomic_load_n(&waiting, __ATOMIC_ACQUIRE) != 2)
        usleep(1000);
    pid_t pid = fork();
    cr_assert_geq(pid, 0);
    if (pid == 0) {
        if (v.tcache->shared.user != NA_TCACHE_ABANDONED ||
            na_self->shared.user != NA_TCACHE_ATTACHED)
            _exit(1);
        for (unsigned i = 100; i < 2000; i++)
            NA_FN(free)(v.blocks[i]);
        numalloc_stats_t stats;
        numalloc_read_stats(&stats, sizeof stats);
        if (stats.leaked_by_fork < 100 * 48) _exit(2);
        pthread_t fresh;
        if (pthread_create(&fresh, NULL, fill, &next) != 0) _exit(3);
        pthread_join(fresh, NULL);
        _exit(next.tcache == v.tcache ? 0 : 4);
    }
    int status;
    cr_assert_eq(waitpid(pid, &status, 0), pid);
    cr_assert_eq(status, 0, "the child ended with %#x", (unsigned)status);
    cr_assert_eq(v.tcache->shared.user, NA_TCACHE_ATTACHED);
    __atomic_store_n(&waiting, 0, __ATOMIC_RELEASE);
    pthread_join(id, NULL);
}
