/* test_mix.c - sparse spans that serve blocks of all classes. */
#include <criterion/criterion.h>
#include <pthread.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>

#include "alloc/api/api.h"
#include "alloc/central/mixed.h"
#include "alloc/malloc/small.h"
#include "alloc/malloc/traced.h"
#include "alloc/page/pressure.h"
#include "alloc/thread/attach.h"
#include "alloc/thread/scavenge.h"
#include "alloc/thread/switch.h"
#include "alloc/track/lookup.h"
#include "alloc/track/recording.h"
#include "numalloc/numalloc.h"

enum { SPARSE = 150000, ONE_IN = 40, GUESTS = 20000 };

typedef struct block {
    unsigned char *at;
    size_t size;
} block_t;

static block_t survivors[SPARSE / ONE_IN + 1], guests[GUESTS];
static unsigned survivor_count;
static void *all[SPARSE];

static uint64_t in_spans(void) {
    numalloc_stats_t stats;
    numalloc_get_stats(&stats);
    return stats.in_spans;
}

/* Each block is filled with a byte of its own. */
static unsigned char mark_of(const block_t *b) {
    return (unsigned char)((uintptr_t)b->at >> 4 ^ b->size);
}

static block_t make(size_t size) {
    block_t b = {NA_FN(malloc)(size), size};
    cr_assert_not_null(b.at);
    memset(b.at, mark_of(&b), size);
    return b;
}

static void check(const block_t *b) {
    for (size_t i = 0; i < b->size; i++)
        cr_assert_eq(b->at[i], mark_of(b), "byte %zu of %zu at %p", i, b->size, (void *)b->at);
}

static void drop(block_t *b) {
    if (b->at == NULL) return;
    check(b);
    NA_FN(free)(b->at);
    b->at = NULL;
}

static bool lies_in_mixed(const void *block) {
    return na_is_mixed(na_span_of(block));
}

/* 150,000 blocks of 32 to 128 bytes, of which one in 40 is left, and no free page with memory. */
static void leave_survivors(void) {
    srand(5);
    for (unsigned i = 0; i < SPARSE; i++)
        all[i] = NULL;
    survivor_count = 0;
    for (unsigned i = 0; i < SPARSE; i++) {
        size_t size = 32 + (size_t)rand() % 97;
        block_t b = make(size);
        if (i % ONE_IN == 0)
            survivors[survivor_count++] = b;
        else
            all[i] = b.at;
    }
    for (unsigned i = SPARSE - 1; i > 0; i--) {
        unsigned other = (unsigned)rand() % (i + 1);
        void *at = all[i];
        all[i] = all[other];
        all[other] = at;
    }
    for (unsigned i = 0; i < SPARSE; i++)
        NA_FN(free)(all[i]);
    numalloc_trim(0);
}

static size_t guest_size(unsigned i) {
    return 130 + (size_t)(i * 37) % 600;
}

/* GUESTS blocks, 430 bytes each on the mean; how many of them lie in mixed spans. */
static unsigned make_guests(void) {
    unsigned mixed = 0;
    for (unsigned i = 0; i < GUESTS; i++) {
        guests[i] = make(guest_size(i));
        mixed += lies_in_mixed(guests[i].at);
    }
    return mixed;
}

static void check_all(void) {
    for (unsigned i = 0; i < survivor_count; i++)
        check(&survivors[i]);
    for (unsigned i = 0; i < GUESTS; i++)
        if (guests[i].at != NULL) check(&guests[i]);
}

static void drop_all(void) {
    for (unsigned i = 0; i < GUESTS; i++)
        drop(&guests[i]);
    for (unsigned i = 0; i < survivor_count; i++)
        drop(&survivors[i]);
    numalloc_trim(0);
}

Test(mix, survivors_of_one_phase_make_room_for_the_next) {
    drop(&(block_t){make(1).at, 0});
    uint64_t nothing = in_spans();
    leave_survivors();
    uint64_t before = in_spans();
    cr_assert_gt(before, 6u << 20); /* nearly every span has a survivor */
    unsigned mixed = make_guests();
    cr_assert_gt(mixed, GUESTS / 2, "%u of them", mixed);
    /* 8.6 MiB of blocks. */
    cr_assert_lt(in_spans() - before, 5u << 20);
    check_all();
    drop_all();
    cr_assert_lt(in_spans(), nothing + (1u << 20));
}

Test(mix, blocks_are_as_long_and_lie_as_in_spans_of_their_own) {
    leave_survivors();
    make_guests();
    unsigned seen = 0;
    for (unsigned i = 0; i < GUESTS; i++) {
        const block_t *b = &guests[i];
        if (!lies_in_mixed(b->at)) continue;
        seen++;
        size_t size = na_classes[na_class_of(b->size)].size, align = size & -size;
        cr_assert_eq((uintptr_t)b->at % align, 0);
        cr_assert_eq(NA_FN(malloc_usable_size)(b->at), size);
        cr_assert_eq(na_mix_class(b->at), na_class_of(b->size));
        cr_assert_eq(na_mix_class(b->at + 16), 0);
        na_found_t found;
        na_lookup(b->at + b->size - 1, &found);
        cr_assert_eq(found.kind, NA_LOOKUP_PLAIN);
        cr_assert_eq(found.base, (uintptr_t)b->at);
        cr_assert_eq(found.usable, size);
    }
    cr_assert_gt(seen, 0);
    for (unsigned i = 0; i < survivor_count; i++)
        cr_assert_eq(NA_FN(malloc_usable_size)(survivors[i].at),
                     na_classes[na_class_of(survivors[i].size)].size);
    drop_all();
}

Test(mix, realloc_keeps_what_lies_in_a_mixed_span) {
    leave_survivors();
    make_guests();
    for (unsigned i = 0; i < GUESTS; i += 3) {
        block_t old = guests[i], *b = &guests[i];
        b->size = old.size / 4 + (size_t)(i % 5) * old.size / 2;
        b->at = NA_FN(realloc)(old.at, b->size);
        cr_assert_not_null(b->at);
        for (size_t k = 0; k < b->size && k < old.size; k++)
            cr_assert_eq(b->at[k], mark_of(&old));
        memset(b->at, mark_of(b), b->size);
    }
    check_all();
    drop_all();
}

/* --- under memory pressure --- */

/* Said anew before each call: a look at the groups of this machine may find otherwise. */
static void be_low(void) {
    atomic_store(&na_pressure_low_now, true);
}

enum { LONG = 3000 };

/* Every hole is used, at any multiple of a cache line. Of what comes free others take. */
Test(mix, blocks_of_a_line_or_more_fill_holes) {
    drop(&(block_t){make(1).at, 0});
    uint64_t nothing = in_spans();
    leave_survivors();
    for (unsigned i = 0; i < LONG; i++) {
        be_low();
        guests[i] = make(1100 + (size_t)(i * 37) % 2000);
        size_t size = na_classes[na_class_of(guests[i].size)].size;
        na_found_t found;
        na_lookup(guests[i].at + guests[i].size - 1, &found);
        cr_assert_eq(found.kind, NA_LOOKUP_PLAIN);
        cr_assert_eq(found.base, (uintptr_t)guests[i].at);
        cr_assert_eq(found.usable, size);
    }
    for (unsigned i = 0; i < LONG; i += 3)
        drop(&guests[i]);
    for (unsigned i = 0; i < survivor_count; i += 2)
        drop(&survivors[i]);
    for (unsigned i = LONG; i < LONG + 6000; i++) {
        be_low();
        guests[i] = make(guest_size(i));
    }
    for (unsigned i = 0; i < LONG + 6000; i++)
        if (guests[i].at != NULL) check(&guests[i]);
    for (unsigned i = 0; i < survivor_count; i++)
        drop(&survivors[i]);
    drop_all();
    cr_assert_lt(in_spans(), nothing + (1u << 20));
}

Test(mix, who_asks_for_aligned_blocks_gets_them) {
    leave_survivors();
    unsigned askew = 0;
    for (unsigned i = 0; i < LONG; i++) {
        be_low();
        guests[i] = make((size_t)512 << i % 3);
        askew += (uintptr_t)guests[i].at % guests[i].size != 0;
    }
    cr_assert_gt(askew, 0);
    for (unsigned i = 0; i < LONG; i += 2)
        drop(&guests[i]); /* into bins, askew ones among them */
    for (unsigned i = 0; i < LONG; i += 2) {
        be_low();
        size_t size = (size_t)512 << i % 3;
        guests[i] = (block_t){NA_FN(aligned_alloc)(size, size), size};
        cr_assert_not_null(guests[i].at);
        cr_assert_eq((uintptr_t)guests[i].at % size, 0);
        memset(guests[i].at, mark_of(&guests[i]), size);
    }
    for (unsigned i = 0; i < LONG; i++)
        check(&guests[i]);
    for (unsigned i = 0; i < survivor_count; i++)
        drop(&survivors[i]);
    drop_all();
}

/* --- other threads --- */

static void *drop_some(void *arg) {
    for (unsigned i = (unsigned)(uintptr_t)arg; i < GUESTS; i += 2)
        drop(&guests[i]);
    for (unsigned i = (unsigned)(uintptr_t)arg; i < survivor_count; i += 2)
        drop(&survivors[i]);
    return NULL;
}

Test(mix, other_threads_bring_blocks_home) {
    leave_survivors();
    uint64_t before = in_spans();
    cr_assert_gt(make_guests(), 0);
    pthread_t thread[2];
    for (uintptr_t i = 0; i < 2; i++)
        pthread_create(&thread[i], NULL, drop_some, (void *)i);
    for (unsigned i = 0; i < 2; i++)
        pthread_join(thread[i], NULL);
    numalloc_trim(0);
    cr_assert_lt(in_spans(), before / 4);
}

/* Phases of sizes, survivors of each of them, and blocks that other threads free. */
enum { SHARED = 4096, ROUNDS = 60000, THREADS = 3 };
static _Atomic(unsigned char *) shared[SHARED];

static void *phases(void *arg) {
    unsigned seed = (unsigned)(uintptr_t)arg;
    for (unsigned i = 0; i < ROUNDS; i++) {
        unsigned phase = i / (ROUNDS / 6);
        size_t size = ((size_t)24 << phase) + (size_t)rand_r(&seed) % ((size_t)24 << phase);
        unsigned char *fresh = NA_FN(malloc)(size);
        memset(fresh, (int)(size & 0xff), size);
        fresh[0] = fresh[size - 1] = (unsigned char)((uintptr_t)fresh >> 4);
        unsigned char *old =
            atomic_exchange(&shared[(unsigned)rand_r(&seed) % (SHARED >> phase / 2)], fresh);
        if (old != NULL && old[0] != (unsigned char)((uintptr_t)old >> 4)) abort();
        NA_FN(free)(old);
    }
    return NULL;
}

Test(mix, threads_in_phases_do_not_meet) {
    pthread_t thread[THREADS];
    leave_survivors();
    for (uintptr_t i = 0; i < THREADS; i++)
        pthread_create(&thread[i], NULL, phases, (void *)(i + 1));
    for (unsigned i = 0; i < THREADS; i++)
        pthread_join(thread[i], NULL);
    for (unsigned i = 0; i < SHARED; i++)
        NA_FN(free)(shared[i]);
    for (unsigned i = 0; i < survivor_count; i++)
        drop(&survivors[i]);
}

/* --- profiles --- */

static unsigned told;
static void on_alloc(void **prof, na_record_t *record, void *block, size_t requested, size_t usable,
                     na_entry_t entry, const void *entered) {
    (void)prof, (void)record, (void)requested, (void)usable, (void)entry, (void)entered;
    cr_assert(!lies_in_mixed(block));
    told++;
}
static void on_free(void **prof, const na_record_t *record, void *block, size_t usable,
                    na_release_t how, const void *moved_to) {
    (void)prof, (void)how, (void)moved_to;
    if (lies_in_mixed(block)) {
        cr_assert_eq(record->epoch, 0);
        cr_assert_eq(usable, na_classes[na_mix_class(block)].size);
    }
    told++;
}
static void on_thread_exit(void **prof) {
    (void)prof;
}

Test(mix, while_every_event_is_recorded_none_is_handed_out) {
    static const na_hooks_t hooks = {
        .on_alloc = on_alloc, .on_free = on_free, .on_thread_exit = on_thread_exit};
    leave_survivors();
    cr_assert_gt(make_guests(), 0);
    for (unsigned i = 0; i < GUESTS; i += 2) /* some stay in bins */
        drop(&guests[i]);
    cr_assert(na_switch_prepare(na_self));
    na_profile_epoch = na_profile_epoch + 1;
    na_traced_choose(&hooks);
    na_switch_on(&hooks, true);
    na_tcache_leave(na_tcache_enter()); /* notices */
    for (unsigned i = 0; i < GUESTS; i += 2)
        guests[i] = make(guest_size(i));
    for (unsigned i = 1; i < GUESTS; i += 2)
        drop(&guests[i]);
    cr_assert_eq(told, GUESTS);
    cr_assert(na_switch_off(na_self));
    na_tcache_leave(na_tcache_enter());
    drop_all();
}

/* --- misuse --- */

Test(mix, a_free_of_the_middle_is_found_at_once, .signal = SIGABRT) {
    leave_survivors();
    make_guests();
    for (unsigned i = 0; i < GUESTS; i++)
        if (lies_in_mixed(guests[i].at)) NA_FN(free)(guests[i].at + 32);
}

Test(mix, a_double_free_is_found_when_the_block_goes_home, .signal = SIGABRT) {
    leave_survivors();
    make_guests();
    for (unsigned i = 0; i < GUESTS; i++)
        if (lies_in_mixed(guests[i].at)) {
            NA_FN(free)(guests[i].at);
            for (unsigned k = 0; k < 10; k++)
                NA_FN(free)(guests[i + 1 + k].at);
            NA_FN(free)(guests[i].at);
            numalloc_trim(0);
            cr_assert(na_gate_enter(na_self));
            na_tcache_flush(na_self);
            na_gate_leave(na_self);
        }
}
