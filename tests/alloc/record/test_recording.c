/* test_recording.c - what a profiler is told: the exact sequence of events behind each entry point,
 * with a real table of hooks. */
#include <criterion/criterion.h>
#include <errno.h>
#include <pthread.h>
#include <string.h>
#include <unistd.h>

#include "alloc/core/malloc/api.h"
#include "alloc/core/malloc/large.h"
#include "alloc/core/thread/attach.h"
#include "alloc/core/track/hooks.h"
#include "alloc/core/track/track.h"
#include "alloc/record/recording.h"
#include "pagemap/pagemap.h"

#define MAPPED (((size_t)NA_DEDICATED_MAX << NA_PAGE_SHIFT) + (1 << 20)) /* as a mapping */

typedef struct event {
    char what; /* a alloc, f free, r resize, x thread exit */
    void *block;
    size_t requested, usable, old_usable;
    na_entry_t entry;
    uint32_t site;
    na_release_t how;
    const void *other; /* moved_to, or the old block */
    pthread_t thread;
} event_t;

static event_t events[64];
static unsigned count; /* tests run their threads one after the other */

static event_t *log_event(char what, void *block) {
    cr_assert_lt(count, 64);
    event_t *e = &events[count++];
    *e = (event_t){.what = what, .block = block, .thread = pthread_self()};
    return e;
}

static void on_alloc(void **prof, na_record_t *record, void *block, size_t requested, size_t usable,
                     na_entry_t entry, const void *entered) {
    (void)entered;
    *prof = events;
    event_t *e = log_event('a', block);
    e->requested = requested;
    e->usable = usable;
    e->entry = entry;
    cr_assert_eq(record->epoch, na_profile_epoch);
    cr_assert_eq(record->slack, usable - requested);
    e->site = record->site = count;
}

static void on_free(void **prof, const na_record_t *record, void *block, size_t usable,
                    na_release_t how, const void *moved_to) {
    (void)prof;
    event_t *e = log_event('f', block);
    e->how = how;
    e->other = moved_to;
    e->site = record->site;
    e->usable = usable;
}

static void before_move(void **prof, const na_record_t *record, const void *block) {
    (void)prof;
    log_event('m', (void *)(uintptr_t)block)->site = record->site;
}

static void on_resize(void **prof, na_record_t *record, const void *old_block, void *block,
                      size_t old_usable, size_t requested, size_t usable) {
    (void)prof;
    event_t *e = log_event('r', block);
    e->other = old_block;
    e->site = record->site;
    e->old_usable = old_usable;
    e->requested = requested;
    e->usable = usable;
}

static void on_thread_exit(void **prof) {
    *prof = NULL;
    log_event('x', NULL);
}

static void nothing(void) {}

static void nothing_in_child(void **prof) {
    (void)prof;
}

static const na_hooks_t table = {
    .on_alloc = on_alloc,
    .on_free = on_free,
    .before_move = before_move,
    .on_resize = on_resize,
    .on_thread_exit = on_thread_exit,
    .before_fork = nothing,
    .after_fork_parent = nothing,
    .after_fork_child = nothing_in_child,
    .on_exit = nothing_in_child,
};

static void install(void) {
    na_init();
    na_hooks = &table;
    na_every_event = true;
}

TestSuite(recording, .init = install);

static void expect(const char *sequence) {
    char got[65] = {0};
    for (unsigned i = 0; i < count; i++)
        got[i] = events[i].what;
    cr_assert_str_eq(got, sequence);
}

Test(recording, malloc_calloc_free) {
    void *a = NA_FN(malloc)(100), *b = NA_FN(calloc)(10, 10), *c = NA_FN(memalign)(64, 100);
    NA_FN(free)(b);
    NA_FN(free)(a);
    NA_FN(free)(c);
    NA_FN(free)(NULL);
    expect("aaafff");
    void *blocks[6] = {a, b, c, b, a, c};
    const uint32_t sites[6] = {1, 2, 3, 2, 1, 3};
    const na_entry_t entries[3] = {NA_ENTRY_MALLOC, NA_ENTRY_CALLOC, NA_ENTRY_ALIGNED};
    for (unsigned i = 0; i < 6; i++) {
        cr_assert_eq(events[i].block, blocks[i]);
        cr_assert_eq(events[i].site, sites[i]);
        if (i < 3) cr_assert_eq(na_entry_kind(events[i].entry), entries[i]);
        if (i < 3) cr_assert_eq(na_entry_align_log2(events[i].entry), i == 2 ? 6 : 0);
        if (i < 3) cr_assert_eq(events[i].requested, 100);
        cr_assert_eq(events[i].usable, blocks[i] == c ? 128 : 112);
    }
}

Test(recording, realloc_of_small_blocks) {
    void *a = NA_FN(realloc)(NULL, 100), *same = NA_FN(realloc)(a, 105);
    cr_assert_eq(a, same);
    void *moved = NA_FN(realloc)(a, 500);
    cr_assert_null(NA_FN(realloc)(moved, 0));
    expect("araff");
    cr_assert_eq(events[0].entry, NA_ENTRY_REALLOC);
    cr_assert(events[1].requested == 105 && events[1].usable == 112 && events[1].site == 1);
    cr_assert(events[2].block == moved && events[2].requested == 500);
    cr_assert(events[3].block == a && events[3].site == 1);
    cr_assert(events[3].how == NA_RELEASE_REALLOC && events[3].other == moved);
    cr_assert(events[4].block == moved && events[4].site == 3);
    cr_assert(events[4].how == NA_RELEASE_FREE && events[4].other == NULL);
}

Test(recording, realloc_of_runs_and_mappings) {
    char *a = NA_FN(malloc)(100000);
    a[59999] = 7;
    cr_assert_eq(NA_FN(realloc)(a, 60000), a);
    /* What lies behind it now is taken, so that it cannot grow where it is. */
    void *wall = NA_FN(malloc)(40000);
    cr_assert_eq(wall, a + 65536);
    char *mapped = NA_FN(realloc)(a, MAPPED); /* a mapping of its own */
    cr_assert(na_span_of(mapped)->dedicated);
    cr_assert_eq(mapped[59999], 7);
    mapped[MAPPED - 1] = 9;
    char *grown = NA_FN(realloc)(mapped, 2 * MAPPED); /* mremap: one event, wherever it lies */
    cr_assert(na_span_of(grown)->dedicated);
    cr_assert_eq(grown[MAPPED - 1], 9);
    NA_FN(free)(grown);
    expect("araafmrf");
    cr_assert(events[1].old_usable >= 100000 && events[1].requested == 60000);
    cr_assert_eq(events[2].block, wall);
    cr_assert(events[3].block == mapped && events[4].block == a && events[4].site == 1);
    cr_assert(events[4].how == NA_RELEASE_REALLOC && events[4].other == mapped);
    cr_assert(events[5].block == mapped && events[5].site == 4);
    cr_assert(events[6].block == grown && events[6].other == mapped);
    cr_assert(events[6].site == 4 && events[6].requested == 2 * MAPPED);
    cr_assert(events[7].block == grown && events[7].site == 4);
}

static void *free_it(void *block) {
    NA_FN(free)(block);
    return NULL;
}

Test(recording, a_free_by_another_thread_is_told_by_it) {
    for (unsigned i = 0; i < 2; i++) {
        count = 0;
        void *block = NA_FN(malloc)(i == 0 ? 48 : 100000);
        pthread_t id;
        cr_assert_eq(pthread_create(&id, NULL, free_it, block), 0);
        pthread_join(id, NULL);
        expect("af"); /* no 'x': that thread's word was never set */
        cr_assert_eq(events[1].block, block);
        cr_assert_eq(events[1].site, 1);
        cr_assert_not(pthread_equal(events[1].thread, pthread_self()));
    }
}

static void *make_one(void *unused) {
    (void)unused;
    return NA_FN(malloc)(48);
}

Test(recording, a_thread_that_allocated_says_goodbye) {
    pthread_t id;
    cr_assert_eq(pthread_create(&id, NULL, make_one, NULL), 0);
    pthread_join(id, NULL);
    expect("ax");
}

Test(recording, failed_calls_tell_nothing) {
    void *block = NA_FN(malloc)(100);
    cr_assert_null(NA_FN(malloc)(SIZE_MAX / 2));
    cr_assert_null(NA_FN(realloc)(block, SIZE_MAX / 2));
    cr_assert_eq(errno, ENOMEM);
    NA_FN(free)(block);
    expect("af");
}

/* Only sampled blocks are told of, and every free of one is. */
Test(recording, samples) {
    na_every_event = false;
    na_sample_interval = 5000;
    enum { MANY = 500 };
    void *blocks[MANY];
    for (unsigned i = 0; i < MANY; i++)
        blocks[i] = NA_FN(malloc)(100);
    unsigned sampled = count;
    cr_assert(sampled > 0 && sampled < 60, "%u", sampled); /* about 11 are expected */
    unsigned on_pages = 0;
    for (unsigned i = 0; i < MANY; i++) {
        na_span_t *span = na_span_of(blocks[i]);
        on_pages += span->sampled;
        cr_assert_eq(span->sampled, na_record_of(span, blocks[i]) != NULL);
    }
    cr_assert_eq(on_pages, sampled);
    if (2 * sampled > 64) return;
    for (unsigned i = 0; i < MANY; i++)
        NA_FN(free)(blocks[i]);
    cr_assert_eq(count, 2 * sampled);
    for (unsigned i = 0; i < sampled; i++)
        cr_assert_eq(events[sampled + i].block, events[i].block);
}

static void strict(void) {
    setenv("NUMALLOC_CHECK", "1", 1);
    setenv("NUMALLOC_ABORT", "0", 1);
    na_init();
    na_hooks = &table;
}

TestSuite(checking, .init = strict);

Test(checking, believes_no_second_free) {
    cr_assert(na_strict && na_every_event);
    cr_assert_eq(dup2(STDOUT_FILENO, STDERR_FILENO), STDERR_FILENO);
    char *a = NA_FN(malloc)(100), *b = NA_FN(malloc)(100);
    NA_FN(free)(a);
    NA_FN(free)(a);
    NA_FN(free)(b + 16);
    expect("aaf");
    void *c = NA_FN(malloc)(100), *d = NA_FN(malloc)(100);
    cr_assert(c != d && c != b && d != b);
}

/* A thread reads the hooks, then the alarm (na_traced_hooks). Whatever comes between the two: if
 * what it found is that the profile is held still, the alarm tells it not to call that. */
Test(recording, who_found_the_profile_held_still_finds_the_alarm) {
    na_tcache_t *self = na_tcache_enter();
    na_track_t other = {.alarm = na_alarm};
    cr_assert_not(na_section_alarmed(&other));
    na_section_hold(&self->track);
    cr_assert_eq(na_hooks, &na_hooks_paused);
    cr_assert(na_section_alarmed(&other));
    na_section_release();
    cr_assert_eq(na_hooks, &table);
    cr_assert(na_section_alarmed(&other), "it would call a hook that is none");
    cr_assert_eq(na_alarm & NA_ALARM_HELD, 0);
    na_tcache_leave(self);
}
