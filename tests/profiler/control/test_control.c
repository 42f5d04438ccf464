/* test_control.c - filters by program and by rank; the switch's bookkeeping of sessions, epochs and
 * tags, on the real allocator with a table of hooks that counts. */
#include <criterion/criterion.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include "alloc/core/malloc/api.h"
#include "alloc/core/thread/attach.h"
#include "alloc/core/thread/switch.h"
#include "alloc/core/track/hooks.h"
#include "alloc/core/track/track.h"
#include "alloc/record/recording.h"
#include "pagemap/pagemap.h"
#include "profiler/control/control.h"
#include "profiler/format/nprof.h"

static bool matches(const char *name, const char *pattern) {
    return na_control_matches(name, pattern, strlen(pattern));
}

Test(control, names_against_patterns) {
    cr_assert(matches("gcc", "gcc") && !matches("gcc", "gc") && !matches("gc", "gcc"));
    cr_assert(matches("gcc", "*") && matches("", "*") && matches("", "") && !matches("a", ""));
    cr_assert(matches("python3.11", "python*") && matches("python", "python*"));
    cr_assert(matches("x86_64-linux-gnu-gcc", "*gcc") && !matches("gcc-12", "*gcc"));
    cr_assert(matches("abcabd", "*ab*d") && !matches("abcabe", "*ab*d"));
    cr_assert(matches("aaab", "*aab") && matches("a.b.c", "a*b*c") && matches("abc", "a**c"));
}

Test(control, ranks_in_lists) {
    cr_assert_eq(na_control_has_rank("0", 0), 1);
    cr_assert_eq(na_control_has_rank("0,4-7", 5), 1);
    cr_assert_eq(na_control_has_rank("0,4-7", 7), 1);
    cr_assert_eq(na_control_has_rank("0,4-7", 8), 0);
    cr_assert_eq(na_control_has_rank("0,4-7", -1), 0);
    const char *const bad[] = {"", ",", "1,", "x", "1-", "-1", "3-2", "1 2", "99999999999", "1,,2"};
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++)
        cr_assert_eq(na_control_has_rank(bad[i], 1), -1, "'%s'", bad[i]);
}

Test(control, labels) {
    char text[NA_NPROF_LABELS + 8] = "key=";
    cr_assert(na_control_are_labels("service=web") && na_control_are_labels("a=1,_b2=x y/z,c==="));
    const char *const bad[] = {"",     "web", "=web",  "a=",    "a=,b=1", "a=1,",
                               ",a=1", "1=a", "a b=c", "a-b=c", "a=b,c",  "a=\n"};
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++)
        cr_assert(!na_control_are_labels(bad[i]), "'%s'", bad[i]);
    memset(text + 4, 'v', NA_NPROF_LABELS - 5);
    cr_assert(strlen(text) == NA_NPROF_LABELS - 1 && na_control_are_labels(text));
    text[NA_NPROF_LABELS - 1] = 'v';
    cr_assert(!na_control_are_labels(text));
}

/* --- the switch --- */

static unsigned allocs, frees, before;

static void on_alloc(void **prof, na_record_t *record, void *block, size_t requested, size_t usable,
                     na_entry_t entry, const void *entered) {
    (void)prof, (void)block, (void)requested, (void)usable, (void)entry, (void)entered;
    record->site = 7;
    allocs++;
}

static void on_free(void **prof, const na_record_t *record, void *block, size_t usable,
                    na_release_t how, const void *moved_to) {
    (void)prof, (void)block, (void)usable, (void)how, (void)moved_to;
    if (record->epoch == na_profile_epoch)
        frees++;
    else
        before++;
}

static const na_hooks_t table = {.on_alloc = on_alloc, .on_free = on_free};

static na_tcache_t *own(void) {
    na_tcache_t *tcache = na_tcache_enter();
    na_tcache_leave(tcache);
    return tcache;
}

static void begin(void) {
    allocs = frees = before = 0;
    cr_assert(na_switch_prepare(own()));
    na_profile_epoch = na_profile_epoch + 1;
    na_traced_choose(&table);
    na_switch_on(&table, true);
    own(); /* notices */
}

static void end(void) {
    cr_assert(na_switch_off(own()));
    own();
}

static bool is_slow(const void *block) {
    return na_page_tag((uintptr_t)block) == NA_TAG_SLOW;
}

Test(control, a_switch_takes_back_all_credit) {
    na_init();
    void *blocks[10];
    for (unsigned i = 0; i < 10; i++)
        blocks[i] = NA_FN(malloc)(16 + 16 * i);
    begin();
    const na_tcache_t *tcache = own();
    for (unsigned cls = 1; cls < NA_CLASS_COUNT; cls++)
        cr_assert(tcache->bins[cls].pop <= 0 && tcache->bins[cls].push <= 0, "%u", cls);
    for (unsigned i = 0; i < 10; i++)
        NA_FN(free)(blocks[i]);
    cr_assert(allocs == 0 && frees == 0 && before == 10);
    end();
}

Test(control, pages_become_slow_when_their_blocks_are_recorded_and_fast_again) {
    na_init();
    void *old = NA_FN(malloc)(64);
    cr_assert(!is_slow(old));
    begin();
    void *block = NA_FN(malloc)(64);
    cr_assert(is_slow(block));
    end();
    cr_assert(is_slow(block)); /* nothing walks the heap */
    NA_FN(free)(block);
    cr_assert(!is_slow(block));
    cr_assert(allocs == 1 && frees == 0 && before == 0);
    NA_FN(free)(old);
}

/* A realloc that was drawn to be timed finds that the profile has ended: the thread's calls go the
 * usual ways again. (Its bins have credit from then on, which the ways of a profile do not know
 * of.)
 */
Test(control, a_timed_realloc_that_notices_the_end_goes_on_without) {
    na_init();
    begin();
    void *block = NA_FN(malloc)(64);
    na_tcache_t *tcache = own();
    tcache->track.countdown = 1;
    cr_assert(na_switch_off(tcache));
    block = NA_FN(realloc)(block, 1000);
    cr_assert(!na_section_alarmed(&tcache->track), "it has noticed");
    cr_assert(tcache->misses == NULL && !tcache->track.is_timed);
    cr_assert(!tcache->track.in_realloc);
    NA_FN(free)(block);
}

/* A block that was recorded, freed unseen and handed out again unseen is of no profile. */
Test(control, what_happened_between_profiles_is_before) {
    na_init();
    begin();
    void *blocks[200];
    for (unsigned i = 0; i < 200; i++)
        blocks[i] = NA_FN(malloc)(48);
    end();
    cr_assert_eq(allocs, 200);
    for (unsigned i = 0; i < 200; i++)
        NA_FN(free)(blocks[i]);
    for (unsigned i = 0; i < 200; i++)
        blocks[i] = NA_FN(malloc)(48);
    begin();
    for (unsigned i = 0; i < 200; i++)
        NA_FN(free)(blocks[i]);
    cr_assert(frees == 0 && before == 200, "%u %u", frees, before);
    end();
}

Test(control, large_blocks_too) {
    na_init();
    void *old = NA_FN(malloc)(1 << 20);
    begin();
    void *block = NA_FN(malloc)(1 << 20);
    NA_FN(free)(old);
    end();
    cr_assert(allocs == 1 && before == 1);
    begin();
    NA_FN(free)(block);
    cr_assert(frees == 0 && before == 1);
    end();
}

static void age(void) {
    if (na_profile_epoch < NA_EPOCH_LAST) return;
    na_span_age_records();
    na_profile_epoch = 0;
}

/* Epochs come round after 254 profiles; a block that outlives them all is of none of them. */
Test(control, epochs_come_round) {
    na_init();
    begin();
    void *block = NA_FN(malloc)(48);
    uint8_t epoch = na_profile_epoch;
    end();
    for (unsigned i = 0; i < 253; i++) {
        age();
        begin();
        end();
    }
    age();
    begin();
    cr_assert_eq(na_profile_epoch, epoch);
    NA_FN(free)(block);
    cr_assert(frees == 0 && before == 1);
    end();
}

static void *block_of_thread(void *unused) {
    (void)unused;
    return NA_FN(malloc)(48);
}

/* The sampler draws anew; a profile of every event after one of samples sees every event. */
Test(control, modes_follow_each_other) {
    na_init();
    static na_hooks_t sampled;
    sampled = table;
    sampled.sample_interval = 1000;
    cr_assert(na_switch_prepare(own()));
    na_traced_choose(&sampled);
    na_switch_on(&sampled, false);
    own();
    for (unsigned i = 0; i < 5000; i++)
        NA_FN(free)(NA_FN(malloc)(48));
    cr_assert(allocs > 100 && allocs < 500, "%u", allocs); /* about 234 */
    cr_assert_eq(frees, allocs);
    end();
    begin();
    for (unsigned i = 0; i < 500; i++)
        NA_FN(free)(NA_FN(malloc)(48));
    pthread_t thread;
    void *block;
    cr_assert_eq(pthread_create(&thread, NULL, block_of_thread, NULL), 0);
    pthread_join(thread, &block);
    NA_FN(free)(block);
    cr_assert(allocs >= 501 && frees >= 501 && allocs - frees < 2, "%u %u", allocs, frees);
    end();
    unsigned was = allocs;
    for (unsigned i = 0; i < 500; i++)
        NA_FN(free)(NA_FN(malloc)(48));
    cr_assert_eq(allocs, was);
}
