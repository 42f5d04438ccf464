/* test_inbox.c - inbox.c: parcels that threads fill and empty at the same time. */
#include <criterion/criterion.h>
#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>

#include "alloc/core/central/inbox.h"

static na_inbox_t inbox;

static void *block(uintptr_t number) {
    return (void *)(number << 4);
}

static void put(uintptr_t number) {
    na_parcel_t *parcel = na_inbox_open(&inbox);
    cr_assert_not_null(parcel);
    parcel->blocks[0] = na_sent(block(number), NA_MAX_NODES, NA_CLASS_COUNT - 1);
    na_inbox_post(&inbox, parcel, 1);
}

Test(inbox, a_word_says_block_home_and_class) {
    void *last = block((UINT64_C(1) << 44) - 1);
    na_sent_t sent = na_sent(last, NA_MAX_NODES, NA_CLASS_COUNT - 1);
    cr_assert_eq(na_sent_block(sent), last);
    cr_assert_eq(na_sent_home(sent), NA_MAX_NODES);
    cr_assert_eq(na_sent_class(sent), NA_CLASS_COUNT - 1);
}

Test(inbox, is_full_when_each_parcel_is_and_has_room_when_one_was_emptied) {
    unsigned at = 0, count;
    cr_assert_null(na_inbox_take(&inbox, &at, false, &count));
    for (unsigned i = 0; i < NA_INBOX_PARCELS; i++)
        put(i + 1);
    cr_assert_null(na_inbox_open(&inbox));
    na_parcel_t *parcel = na_inbox_take(&inbox, &at, false, &count);
    cr_assert_not_null(parcel);
    cr_assert_eq(count, 1);
    cr_assert_eq(na_sent_block(parcel->blocks[0]), block(1));
    cr_assert_null(na_inbox_open(&inbox), "it is held still");
    na_parcel_done(parcel);
    put(100);
}

static unsigned take_idle(void) {
    unsigned taken = 0, at = 0, count;
    for (na_parcel_t *p; (p = na_inbox_take(&inbox, &at, true, &count)) != NULL; taken++)
        na_parcel_done(p);
    return taken;
}

Test(inbox, idle_is_what_was_there_the_last_time) {
    put(1);
    put(2);
    cr_assert_eq(take_idle(), 0);
    put(3);
    cr_assert_eq(take_idle(), 2);
    put(4); /* where an idle one was */
    cr_assert_eq(take_idle(), 1);
    cr_assert_eq(take_idle(), 1);
    cr_assert_eq(take_idle(), 0);
}

/* --- each block arrives once, with what its sender wrote before --- */

enum { SENDERS = 3, TAKERS = 3, EACH = 30000, ALL = SENDERS * EACH };
static unsigned written[ALL];
static _Atomic(unsigned) arrived[ALL], total, unwritten;

static void *send_all(void *number) {
    unsigned first = (unsigned)(uintptr_t)number * EACH, next = first;
    while (next < first + EACH) {
        na_parcel_t *parcel = na_inbox_open(&inbox);
        if (parcel == NULL) {
            sched_yield();
            continue;
        }
        unsigned count = 0, most = 1 + next % NA_PARCEL_BLOCKS;
        for (; count < most && next < first + EACH; next++) {
            written[next] = next + 1;
            parcel->blocks[count++] = na_sent(block(next + 1), 0, 1);
        }
        na_inbox_post(&inbox, parcel, count);
    }
    return NULL;
}

static void *take_all(void *unused) {
    while (atomic_load(&total) < ALL) {
        unsigned at = 0, count;
        na_parcel_t *parcel = na_inbox_take(&inbox, &at, false, &count);
        if (parcel == NULL) {
            sched_yield();
            continue;
        }
        for (unsigned i = 0; i < count; i++) {
            uintptr_t number = (uintptr_t)na_sent_block(parcel->blocks[i]) >> 4;
            atomic_fetch_add(&unwritten, written[number - 1] != number);
            atomic_fetch_add(&arrived[number - 1], 1);
        }
        na_parcel_done(parcel);
        atomic_fetch_add(&total, count);
    }
    return unused;
}

Test(inbox, each_block_arrives_once) {
    pthread_t threads[SENDERS + TAKERS];
    for (uintptr_t i = 0; i < SENDERS + TAKERS; i++)
        cr_assert_eq(
            pthread_create(&threads[i], NULL, i < SENDERS ? send_all : take_all, (void *)i), 0);
    for (unsigned i = 0; i < SENDERS + TAKERS; i++)
        pthread_join(threads[i], NULL);
    cr_assert_eq(unwritten, 0);
    for (unsigned i = 0; i < ALL; i++)
        cr_assert_eq(arrived[i], 1, "block %u arrived %u times", i, arrived[i]);
}
