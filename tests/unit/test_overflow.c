/* Chains that a thread cache keeps: counted, bounded, and sent home when they should be. */
#include <criterion/criterion.h>

#include <pthread.h>
#include <stdlib.h>

#include "alloc/api/api.h"
#include "alloc/cache/overflow.h"
#include "alloc/central/central.h"
#include "alloc/malloc/small.h"
#include "alloc/page/pageheap.h"
#include "numalloc/numalloc.h"

static uint32_t kept_in_lists(const na_tcache_t *tcache) {
    uint32_t bytes = 0;
    for (unsigned cls = 1; cls < NA_CLASS_COUNT; cls++) {
        uint32_t batches = 0;
        for (na_batch_t batch = tcache->states[cls].overflow; batch != 0;
             batch = na_batch_next(batch)) {
            bytes += na_batch_count(batch) * na_classes[cls].size;
            batches++;
        }
        cr_assert_eq(batches, tcache->states[cls].overflow_batches);
        cr_assert_leq(tcache->states[cls].overflow_low, batches);
    }
    return bytes;
}

static void check(const na_tcache_t *tcache) {
    cr_assert_eq(kept_in_lists(tcache), tcache->overflow_bytes);
    cr_assert_leq(tcache->overflow_bytes, NA_OVERFLOW_MAX);
}

enum { BLOCKS = 400000 };
static void *blocks[BLOCKS];

static void allocate(size_t size, unsigned count) {
    for (unsigned i = 0; i < count; i++)
        blocks[i] = NA_FN(malloc)(size);
}

static void release(unsigned count) {
    for (unsigned i = 0; i < count; i++)
        NA_FN(free)(blocks[i]);
}

static uint64_t in_spans(void) {
    numalloc_stats_t stats;
    numalloc_get_stats(&stats);
    return stats.in_spans;
}

Test(keep, a_wave_is_served_from_what_the_last_one_freed) {
    for (unsigned wave = 0; wave < 4; wave++) {
        allocate(48, 40000);
        if (wave > 0) cr_assert_lt(na_self->overflow_bytes, 600000);
        release(40000);
        cr_assert_gt(na_self->overflow_bytes, 1000000, "wave %u keeps %u", wave,
                     na_self->overflow_bytes);
        check(na_self);
    }
}

Test(keep, freeing_more_than_the_limit_sends_all_home) {
    allocate(48, BLOCKS);
    uint64_t full = in_spans();
    release(BLOCKS);
    check(na_self);
    cr_assert(na_self->only_frees);
    cr_assert_lt(na_self->overflow_bytes, NA_OVERFLOW_LEAST);
    cr_assert_lt(in_spans(), full / 20);
    allocate(48, 1000); /* drawn from spans: it may keep again */
    cr_assert_not(na_self->only_frees);
    release(1000);
}

/* 1.2 MiB of survivors, one in a span each: keeping them would keep every span. */
/* It frees 24 MiB and takes them again: what it may keep doubles until that fits. Another class
 * gets the pages all the same, and without waves the limit falls. */
Test(keep, more_is_kept_of_a_thread_that_works_in_waves) {
    enum { WAVE = 3000, WAVES = 20 }; /* a busy machine forgets between two of them */
    for (unsigned i = 0; i < WAVES && na_self->overflow_bytes < 16u << 20; i++) {
        allocate(8000, WAVE);
        if (i == 0) cr_assert_eq(na_self->overflow_waves, 0);
        release(WAVE);
        cr_assert_eq(kept_in_lists(na_self), na_self->overflow_bytes);
        cr_assert_leq(na_self->overflow_bytes, NA_OVERFLOW_TOTAL);
    }
    cr_assert_geq(na_self->overflow_bytes, 16u << 20);
    uint64_t full = in_spans();
    allocate(5000, WAVE);
    cr_assert_leq(in_spans(), full + full / 8);
    release(WAVE);
    for (unsigned i = 0; i <= NA_OVERFLOW_WAVES; i++)
        na_overflow_forget_waves(na_self);
    cr_assert_eq(na_self->overflow_waves, 0);
    numalloc_trim(0);
    cr_assert_eq(na_self->overflow_bytes, 0);
}

Test(keep, blocks_that_pin_many_spans_go_home) {
    enum { SIZE = 112, PER_SPAN = 64 };
    allocate(SIZE, BLOCKS);
    for (unsigned i = 0; i < BLOCKS; i++)
        if (i % PER_SPAN != 0) NA_FN(free)(blocks[i]);
    allocate(SIZE, 1);
    void *one = blocks[0];
    uint64_t sparse = in_spans();
    for (unsigned i = PER_SPAN; i < BLOCKS; i += PER_SPAN)
        NA_FN(free)(blocks[i]);
    check(na_self);
    cr_assert_lt(in_spans(), sparse / 2, "%lu of %lu", in_spans(), sparse);
    NA_FN(free)(one);
}

static void *want_blocks(void *unused) {
    (void)unused;
    for (unsigned i = 0; i < 64; i++)
        cr_assert_not_null(NA_FN(malloc)(8000));
    return NULL;
}

/* Bytes of spans that go when 200 of the blocks are freed in random order, from `first` on. */
static uint64_t gone_for_random(unsigned first) {
    uint64_t before = in_spans();
    for (unsigned i = first; i < first + 200; i++)
        NA_FN(free)(blocks[i]);
    return before - in_spans();
}

/* Blocks of 8 KiB have a span each: freed in random order they go home, unless another thread took
 * what this one put into the transfer cache. A busy machine may empty that in between. */
Test(keep, what_another_thread_wants_waits_for_it_in_any_order) {
    enum { MANY = 4000, TRIES = 5 };
    unsigned cls = na_class_of(8000), node = na_self->node;
    allocate(8000, 64);
    release(64); /* in order: what is too much is put there for others */
    allocate(8000, MANY);
    for (unsigned i = MANY - 1; i > 0; i--) {
        unsigned other = (unsigned)rand() % (i + 1);
        void *block = blocks[i];
        blocks[i] = blocks[other];
        blocks[other] = block;
    }
    cr_assert_not(na_transfer_is_wanted(node, cls));
    uint64_t alone = gone_for_random(0), shared = alone;
    cr_assert_geq(alone, 150 * 8192);
    for (unsigned i = 1; i <= TRIES && shared + (256 << 10) > alone; i++) {
        pthread_t thread;
        cr_assert_eq(pthread_create(&thread, NULL, want_blocks, NULL), 0);
        pthread_join(thread, NULL);
        shared = gone_for_random(200 * i);
    }
    cr_assert_leq(shared + (256 << 10), alone, "%lu gone, %lu of one thread alone", shared, alone);
}

/* What one class keeps serves the growth of another. */
Test(keep, another_class_grows_into_what_is_kept) {
    allocate(48, 40000);
    uint64_t full = in_spans();
    release(40000);
    cr_assert_gt(na_self->overflow_bytes, 1000000);
    allocate(80, 20000);
    cr_assert_lt(in_spans(), full + full / 4, "%lu after %lu", in_spans(), full);
    check(na_self);
}

/* And that of large blocks. */
Test(keep, large_blocks_grow_into_what_is_kept) {
    allocate(30000, 220);
    uint64_t committed = na_pageheap_committed();
    release(220);
    cr_assert_gt(na_self->overflow_bytes, 4u << 20);
    allocate(2u << 20, 3);
    cr_assert_leq(na_pageheap_committed(), committed + (2u << 20), "%lu after %lu",
                  na_pageheap_committed(), committed);
    check(na_self);
}

Test(keep, trimming_leaves_nothing) {
    allocate(64, 10000);
    release(10000);
    numalloc_trim(0);
    cr_assert_eq(na_self->overflow_bytes, 0);
    check(na_self);
}

static bool holds_blocks(unsigned cls) {
    return na_self->bins[cls].head != NULL || na_self->states[cls].overflow != 0;
}

Test(keep, what_is_not_used_while_the_heap_grows_goes_home) {
    enum { COUNT = 4000, MORE = 20000 };
    static void *more[MORE];
    allocate(200, COUNT);
    unsigned cls = na_class_of(200);
    uint64_t full = in_spans();
    release(COUNT);
    cr_assert(holds_blocks(cls));
    for (unsigned i = 0; i < MORE; i++)
        more[i] = NA_FN(malloc)(1000);
    cr_assert_gt(in_spans(), full);
    cr_assert_not(holds_blocks(cls));
    for (unsigned i = 0; i < MORE; i++)
        NA_FN(free)(more[i]);
}
