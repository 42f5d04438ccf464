/* test_budget.c - what a file may cost its reader: made files that inflate to gigabytes, and honest
 * ones of the same kind that must be read. */
#include <criterion/criterion.h>
#include <stdio.h>

#include "numalloc/profile.h"
#include "profiler/analyze/blocks/site_sums.h"
#include "profiler/analyze/blocks/trace_replay.h"
#include "tests/support/nprof_bomb.h"
#include "tests/support/sanitized.h"

/* Most memory that this process ever had, in bytes: each test is a process. */
static uint64_t most_memory(void) {
    char line[256];
    unsigned long long kb = 0;
    FILE *status = fopen("/proc/self/status", "r");
    cr_assert_not_null(status);
    while (fgets(line, sizeof line, status) != NULL)
        if (sscanf(line, "VmHWM: %llu kB", &kb) == 1) break;
    fclose(status);
    cr_assert_gt(kb, 0);
    return (uint64_t)kb << 10;
}

static uint64_t before, bound;

/* The descriptor's memory is the file's, not the reader's: it is there before. */
static na_reader_t *open_made(const na_make_t *m) {
    char why[256];
    int fd = na_make_fd(m, m->size);
    before = most_memory();
    na_reader_t *r = na_reader_open_fd(fd, "made", why, sizeof why);
    cr_assert_not_null(r, "%s", why);
    bound = na_budget_of(na_reader_budget(r));
    return r;
}

static bool has_issue(const na_reader_t *r, const char *part) {
    char text[256];
    for (uint32_t i = 0; i < na_reader_issue_count(r); i++) {
        na_reader_issue_text(r, i, text, sizeof text);
        if (strstr(text, part) != NULL) return true;
    }
    return false;
}

/* Not what the sanitizers keep for themselves: there the fuzzer looks at what malloc gave out. */
static void within_bound(void) {
    if (SANITIZED) return;
    uint64_t most = most_memory();
    cr_assert_leq(most - before, bound, "%llu of %llu bytes", (unsigned long long)(most - before),
                  (unsigned long long)bound);
}

TestSuite(budget, .timeout = 300);

/* Half a million sites in half a megabyte. */
Test(budget, inflated_sites) {
    na_make_t m;
    na_make_begin(&m);
    enum { SITES = (60 << 20) / sizeof(na_nprof_cell_t) };
    for (uint32_t i = 0; i < 2; i++)
        na_make_sites(&m, 2 + i * SITES, SITES);
    cr_assert_lt(m.size, 8u << 20);
    na_reader_t *r = open_made(&m);
    na_sites_t sites;
    cr_assert(na_sites_fold(r, &sites));
    cr_assert_eq(sites.count, 0);
    cr_assert(has_issue(r, "2 part(s) left out"));
    within_bound();
    na_sites_free(&sites);
    na_reader_close(r);
    free(m.bytes);
}

/* What may inflate is read. */
Test(budget, few_sites) {
    na_make_t m;
    na_make_begin(&m);
    na_make_sites(&m, 2, 4000);
    na_reader_t *r = open_made(&m);
    na_sites_t sites;
    cr_assert(na_sites_fold(r, &sites));
    cr_assert_eq(sites.total.alloc_count, 4000);
    na_sites_free(&sites);
    na_reader_close(r);
    free(m.bytes);
}

/* Three million blocks that live, in some dozens of kilobytes: they would take a quarter of a
 * gigabyte. */
Test(budget, inflated_blocks) {
    na_make_t m;
    na_make_trace(&m);
    uint64_t ticks = 1000;
    for (uint32_t i = 0; i < 6; i++)
        ticks = na_make_blocks(&m, i, 500000, ticks, 0);
    cr_assert_lt(m.size, 64u << 10);
    na_reader_t *r = open_made(&m);
    cr_assert_leq(bound, (UINT64_C(64) << 20) + m.size * 2064);
    na_sites_t sites;
    cr_assert_not(na_sites_fold(r, &sites));
    char text[256];
    cr_assert(na_reader_over_budget(r, text, sizeof text));
    cr_assert(strstr(text, "asks for more memory than a file of its size") != NULL, "%s", text);
    cr_assert(strstr(text, "record it again") != NULL, "%s", text);
    within_bound();
    na_sites_free(&sites); /* also after the reader: tables know their budget */
    na_reader_close(r);

    /* The C API refuses it with that line. */
    char path[] = "/tmp/test_budget.XXXXXX";
    int fd = mkstemp(path);
    cr_assert(fd >= 0 && write(fd, m.bytes, m.size) == (ssize_t)m.size);
    close(fd);
    char why[512];
    numalloc_profile_t *p = numalloc_profile_open(path, why, sizeof why);
    unlink(path);
    cr_assert_null(p);
    cr_assert(strncmp(why, path, strlen(path)) == 0 && strstr(why, text) != NULL, "%s", why);
    free(m.bytes);
}

/* Threads' chunks that all begin at one time: each would have to be open. */
Test(budget, overlapping_runs) {
    na_make_t m;
    na_make_trace(&m);
    for (uint32_t i = 0; i < 12; i++)
        na_make_blocks(&m, i, 500000, 1000, 0);
    na_reader_t *r = open_made(&m);
    na_events_t *events = na_events_open(r);
    cr_assert_not_null(events);
    na_event_t event;
    uint64_t last = 0, count = 0;
    while (na_events_next(events, &event)) {
        cr_assert_geq(event.ticks, last);
        last = event.ticks;
        count++;
    }
    na_events_close(events);
    cr_assert(count > 0 && count % 500000 == 0 && count < 12 * 500000u);
    cr_assert(has_issue(r, "left out that would take more memory"));
    within_bound();
    na_reader_close(r);
    free(m.bytes);
}

/* The same program with a clock: all of it is read, and nothing is left out. */
Test(budget, honest_blocks) {
    na_make_t m;
    na_make_trace(&m);
    uint64_t ticks = 1000;
    for (uint32_t i = 0; i < 4; i++)
        ticks = na_make_blocks(&m, i, 250000, ticks, 256);
    na_reader_t *r = open_made(&m);
    na_sites_t sites;
    cr_assert(na_sites_fold(r, &sites));
    cr_assert_eq(sites.total.alloc_count, 1000000);
    cr_assert_eq(sites.total.live_bytes, 1000000 * 64);
    cr_assert_eq(na_reader_issue_count(r), 0);
    within_bound();
    na_reader_close(r);
    na_sites_free(&sites); /* tables may outlive the reader */
    free(m.bytes);
}

/* The accounting itself. */
Test(budget, accounts) {
    na_budget_t *b = na_budget_open();
    cr_assert_not_null(b);
    na_budget_set(b, 4096);
    cr_assert_eq(na_budget_left(b), 3072);
    char *block = na_budget_calloc(b, 10, 100);
    cr_assert_not_null(block);
    for (int i = 0; i < 1000; i++)
        cr_assert_eq(block[i], 0);
    memset(block, 7, 1000);
    uint64_t left = na_budget_left(b);
    cr_assert(left <= 3072 - 1000 && left >= 3072 - 1000 - 64);
    cr_assert_not(na_budget_refused(b));
    cr_assert_null(na_budget_calloc(b, SIZE_MAX / 2, 4)); /* overflows */
    cr_assert_null(na_budget_calloc(b, 1, 3000));
    cr_assert(na_budget_refused(b));
    cr_assert_null(na_budget_resize(b, block, 10, 300));
    cr_assert_eq(na_budget_left(b), left);
    char *more = na_budget_resize(b, block, 11, 100);
    cr_assert(more != NULL && more[0] == 7 && more[999] == 7);
    cr_assert_eq(na_budget_left(b), left - 100);
    cr_assert_not(na_budget_take(b, left));
    cr_assert(na_budget_take(b, 1000));
    na_budget_give(b, 1000);
    na_budget_close(b); /* the block still lives */
    na_budget_free(more);
    na_budget_free(NULL);
}

/* What is in an index stays there when it may grow no more, and its slots are counted. */
Test(budget, an_index_grows_within_it) {
    na_budget_t *budget = na_budget_open();
    cr_assert_not_null(budget);
    na_budget_set(budget, 1 << 20);
    uint64_t all = na_budget_left(budget);
    na_index_t index = {0};
    uint32_t count = 0;
    while (count < 1000000 &&
           na_budget_index_add(budget, &index, na_hash_number(NA_HASH_BEGIN, count), count))
        count++;
    cr_expect(na_budget_refused(budget));
    cr_expect_eq(index.count, count);
    cr_expect_geq(count * sizeof(na_index_slot_t), (1 << 20) / 16);
    cr_expect_leq(index.room * sizeof(na_index_slot_t), all - na_budget_left(budget));
    for (uint32_t i = 0; i < count; i++) {
        na_probe_t probe = na_index_probe(&index, na_hash_number(NA_HASH_BEGIN, i));
        bool found = false;
        while (!found && na_index_next(&index, &probe))
            found = probe.number == i;
        cr_assert(found, "%u is lost", i);
    }
    na_budget_free(index.slots);
    cr_expect_eq(na_budget_left(budget), all);
    na_budget_close(budget);
}
