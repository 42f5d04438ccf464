/* test_overflow.c - bin.c: chains that a thread cache keeps: counted, bounded, and sent home when
 * they should be. */
#include <criterion/criterion.h>

#include <pthread.h>
#include <stdlib.h>

#include "alloc/core/cache/bin.h"
#include "alloc/core/central/central.h"
#include "alloc/core/malloc/api.h"
#include "alloc/core/malloc/small.h"
#include "alloc/core/page/pageheap.h"
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
        cr_assert_eq(batches, tcache->states[cls].batches.count);
        cr_assert_leq(tcache->states[cls].batches.low, batches);
    }
    return bytes;
}

static void check(const na_tcache_t *tcache) {
    cr_assert_eq(kept_in_lists(tcache), tcache->overflow.bytes);
    cr_assert_leq(tcache->overflow.bytes, NA_OVERFLOW_MAX);
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
    numalloc_read_stats(&stats, sizeof stats);
    return stats.in_spans;
}

enum { WAVE = 40000, WAVE_BYTES = WAVE * 48 };

Test(overflow, a_wave_is_served_from_what_the_last_one_freed) {
    for (unsigned wave = 0; wave < 4; wave++) {
        allocate(48, WAVE);
        if (wave > 0) cr_assert_lt(na_self->overflow.bytes, WAVE_BYTES / 16 * 5);
        release(WAVE);
        cr_assert_gt(na_self->overflow.bytes, WAVE_BYTES / 16 * 9, "wave %u keeps %u", wave,
                     na_self->overflow.bytes);
        check(na_self);
    }
}

Test(overflow, freeing_more_than_the_limit_sends_all_home) {
    allocate(48, BLOCKS);
    uint64_t full = in_spans();
    release(BLOCKS);
    check(na_self);
    cr_assert(na_self->overflow.only_frees);
    cr_assert_lt(na_self->overflow.bytes, NA_OVERFLOW_LEAST);
    cr_assert_lt(in_spans(), full / 20);
    allocate(48, 1000); /* drawn from spans: it may keep again */
    cr_assert_not(na_self->overflow.only_frees);
    release(1000);
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
Test(overflow, what_another_thread_wants_waits_for_it_in_any_order) {
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

/* A hash table that is emptied: key and entry lie side by side, tables of both in random order, and
 * the values, of which few fill a bin, as well. Next to nothing is kept. */
Test(overflow, what_a_hash_table_frees_goes_home) {
    enum { KEYS = 60000, EACH = 3 };
    for (unsigned i = 0; i < KEYS; i++) {
        blocks[EACH * i] = NA_FN(malloc)(16);
        blocks[EACH * i + 1] = NA_FN(malloc)(16);
        blocks[EACH * i + 2] = NA_FN(malloc)(950);
    }
    uint64_t full = in_spans();
    for (unsigned left = KEYS; left > 0; left--) {
        unsigned drawn = (unsigned)rand() % left;
        for (unsigned k = 0; k < EACH; k++) {
            NA_FN(free)(blocks[EACH * drawn + k]);
            blocks[EACH * drawn + k] = blocks[EACH * (left - 1) + k];
        }
    }
    check(na_self);
    cr_assert_lt(na_self->overflow.bytes, 400000, "%u kept", na_self->overflow.bytes);
    cr_assert_lt(in_spans(), full / 16, "%lu of %lu", in_spans(), full);
}

/* What one class keeps serves the growth of another. */
Test(overflow, another_class_grows_into_what_is_kept) {
    allocate(48, WAVE);
    uint64_t full = in_spans();
    release(WAVE);
    cr_assert_gt(na_self->overflow.bytes, WAVE_BYTES / 16 * 9);
    allocate(80, WAVE / 2);
    cr_assert_lt(in_spans(), full + full / 4, "%lu after %lu", in_spans(), full);
    check(na_self);
}

/* And that of large blocks. */
Test(overflow, large_blocks_grow_into_what_is_kept) {
    allocate(30000, 220);
    uint64_t committed = na_pageheap_committed();
    release(220);
    cr_assert_gt(na_self->overflow.bytes, 4u << 20);
    allocate(2u << 20, 3);
    cr_assert_leq(na_pageheap_committed(), committed + (2u << 20), "%lu after %lu",
                  na_pageheap_committed(), committed);
    check(na_self);
}

Test(overflow, trimming_leaves_nothing) {
    allocate(64, 10000);
    release(10000);
    numalloc_trim(0);
    cr_assert_eq(na_self->overflow.bytes, 0);
    check(na_self);
}

static bool holds_blocks(unsigned cls) {
    return na_self->bins[cls].head != NULL || na_self->states[cls].overflow != 0;
}

Test(overflow, what_is_not_used_while_the_heap_grows_goes_home) {
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

enum { HANDED = 64 };
static void *hand_over(void *unused) {
    (void)unused;
    allocate(64, HANDED);
    return NULL;
}

/* As with 64 threads, of which this one frees what another allocates: its bin comes to hold more
 * than a young one, whose few blocks go where all threads meet. */
Test(overflow, who_frees_what_others_allocate_gets_larger_bins) {
    enum { THREADS = 64, ROUNDS = 32 };
    cr_assert(na_tcache_lock_list());
    na_tcache_count_threads(THREADS);
    na_tcache_unlock_list();
    hand_over(NULL);
    release(HANDED);
    const na_bin_state_t *state = &na_self->states[na_class_of(64)];
    uint16_t young = state->hold;
    for (unsigned i = 0; i < ROUNDS && state->hold == young; i++) {
        pthread_t thread;
        cr_assert_eq(pthread_create(&thread, NULL, hand_over, NULL), 0);
        pthread_join(thread, NULL);
        release(HANDED);
    }
    cr_assert_gt(state->hold, young);
}
