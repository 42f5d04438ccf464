/* test_switch_steps.c - switch.c: a profile begins and ends while a thread allocates. One of the
 * two is single-stepped, and between two of its instructions the other does all that it has to do.
 * Nothing that was handed out unseen may pass for freed afterwards: the library would end its
 * program for a double free. */
#include <criterion/criterion.h>

#include "alloc/core/malloc/api.h"
#include "alloc/core/thread/attach.h"
#include "alloc/core/thread/switch.h"
#include "alloc/core/track/hooks.h"
#include "alloc/record/recording.h"
#include "numalloc/numalloc.h"
#include "support/fill.h"
#include "support/steps.h"

/* --- a profile that looks at nothing --- */

static void on_alloc(void **prof, na_record_t *record, void *block, size_t requested, size_t usable,
                     na_entry_t entry, const void *entered) {
    (void)prof, (void)block, (void)requested, (void)usable, (void)entry, (void)entered;
    record->site = 1;
}

static void on_free(void **prof, const na_record_t *record, void *block, size_t usable,
                    na_release_t how, const void *moved_to) {
    (void)prof, (void)record, (void)block, (void)usable, (void)how, (void)moved_to;
}

static void on_thread_exit(void **prof) {
    (void)prof;
}

static const na_hooks_t table = {
    .on_alloc = on_alloc, .on_free = on_free, .on_thread_exit = on_thread_exit};

static na_tcache_t *own(void) {
    na_tcache_t *tcache = na_tcache_enter();
    na_tcache_leave(tcache);
    return tcache;
}

static void prepare(void) {
    cr_assert(na_switch_prepare(own()));
    na_profile_epoch = na_profile_epoch % NA_EPOCH_LAST + 1;
    na_traced_choose(&table);
}

/* --- what the allocating thread does --- */

enum { MANY = 1000 };
static void *blocks[MANY];
static unsigned held;

/* Most are of one size, so that its bin runs dry. Some go back at once: a bin has old blocks and
 * new ones. */
static void take(unsigned count) {
    static const size_t sizes[] = {100, 100, 100, 640, 100, 5000, 100, 40000};
    for (unsigned i = 0; i < count && held < MANY; i++) {
        blocks[held++] = NA_FN(malloc)(sizes[i % 8]);
        if (i % 5 == 4) NA_FN(free)(blocks[--held]);
    }
}

static void take_some(void) {
    take(150);
}

static void take_few(void) {
    take(8);
}

static void drop_all(void) {
    while (held != 0)
        NA_FN(free)(blocks[--held]);
}

/* It has credit; the blocks that it takes next come from new spans soon. */
static void settle(void) {
    drop_all();
    (void)numalloc_trim(0);
    take(20);
}

/* --- the tests --- */

static void switch_on(void) {
    na_switch_on(&table, true);
}

static void switch_off(void) {
    cr_assert(na_switch_off(na_self));
}

static void other_takes(void) {
    steps_let_other(take_some);
}

Test(switch_steps, a_thread_allocates_at_every_instruction_of_the_switch) {
    na_init();
    cr_assert(steps_catch());
    pthread_t thread = steps_begin_other();
    prepare();
    uint64_t on = steps_through(switch_on, steps_never);
    uint64_t off = steps_through(switch_off, steps_never);
    cr_assert(on > 10 && off > 10, "%lu %lu", on, off);
    for (uint64_t at = 0; at < on || at < off; at++) {
        const steps_stop_t in_on[] = {{at % on, other_takes}, {0, NULL}},
                           in_off[] = {{at % off, other_takes}, {0, NULL}};
        steps_have_other(settle);
        prepare();
        steps_through(switch_on, in_on);
        steps_have_other(drop_all);
        steps_have_other(take_some);
        own(); /* notices */
        steps_through(switch_off, in_off);
        steps_have_other(drop_all);
    }
    steps_end_other(thread);
}

static const na_track_t *stepped_track;

/* A thread inside a section is waited for: no switch is possible there. */
static void begin_unless_inside(void) {
    if (na_hooks != NULL || stepped_track->inside != 0) return;
    prepare();
    switch_on();
}

static void end_unless_inside(void) {
    if (na_hooks != NULL && stepped_track->inside == 0) switch_off();
}

static void other_begins(void) {
    steps_let_other(begin_unless_inside);
}

static void other_ends(void) {
    steps_let_other(end_unless_inside);
}

Test(switch_steps, a_profile_begins_and_ends_at_instructions_of_an_allocation) {
    enum { ROUNDS = 500 };
    na_init();
    cr_assert(steps_catch());
    stepped_track = &own()->track;
    pthread_t thread = steps_begin_other();
    uint64_t random = 5;
    for (unsigned round = 0; round < ROUNDS; round++) {
        settle();
        take((unsigned)fill_random(&random) % 100);
        uint64_t first = fill_random(&random) % 600, second = first + fill_random(&random) % 64;
        bool runs = round % 2 != 0;
        if (runs) steps_have_other(begin_unless_inside);
        const steps_stop_t stops[] = {{first, runs ? other_ends : other_begins},
                                      {second, runs ? other_begins : other_ends},
                                      {second + 1, runs ? steps_nothing : other_begins},
                                      {0, NULL}};
        steps_through(take_few, stops);
        drop_all();
        take_some();
        steps_have_other(end_unless_inside);
    }
    drop_all();
    steps_end_other(thread);
}
