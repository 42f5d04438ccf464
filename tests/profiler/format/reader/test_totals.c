/* test_totals.c - reader_totals.c: files without checksums of their figures, of processes that were
 * killed: a bit that changed later is told by what is counted twice, and what a kill leaves is not
 * taken for that. */
#include <criterion/criterion.h>
#include <stdio.h>
#include <string.h>

#include "profiler/format/reader/reader.h"
#include "profiler/format/reader/reader_access.h"
#include "tests/support/nprof_make.h"

TestSuite(totals, .timeout = 300);

static char said[512]; /* the issues, one after the other */

/* How many issues there are. */
static uint32_t issues(const na_make_t *m) {
    char why[256];
    na_reader_t *r = na_reader_open_fd(na_make_fd(m, m->size), "made", why, sizeof why);
    cr_assert_not_null(r, "%s", why);
    na_reader_stacks(r);
    na_reader_modules(r);
    na_reader_threads(r);
    uint32_t points, interval;
    na_reader_timeline(r, &points, &interval);
    na_reader_series(r, NA_NPROF_SERIES_SITES);
    na_access_t access;
    cr_assert(na_access_load(r, &access));
    na_access_free(&access);
    uint32_t count = na_reader_issue_count(r);
    said[0] = 0;
    for (uint32_t i = 0; i < count; i++) {
        size_t used = strlen(said);
        na_reader_issue_text(r, i, said + used, sizeof said - used);
    }
    na_reader_close(r);
    return count;
}

/* The first entry of the first chunk of a type. */
static void *entry_of(const na_make_t *m, uint16_t type, uint32_t index) {
    for (size_t at = NA_NPROF_PAGE; at < m->size;) {
        na_nprof_chunk_t *c = (na_nprof_chunk_t *)(void *)(m->bytes + at);
        if (c->type == type) return (char *)(c + 1) + (size_t)index * c->entry_size;
        at += c->length;
    }
    cr_assert_fail("no chunk of type %u", type);
    return NULL;
}

/* With sanitizers a part of the bits will do: they look for other faults, and take ten times as
 * long. */
#if defined(__has_feature)
#if __has_feature(address_sanitizer)
#define STEP 7
#endif
#endif
#ifndef STEP
#define STEP 1
#endif

/* Each bit of `bytes` from `from` on, the lowest `slack` of each word of 64 excepted. */
static void must_tell(na_make_t *m, const char *what, void *from, size_t bytes, unsigned slack) {
    unsigned char *p = from;
    for (size_t bit = 0; bit < bytes * 8; bit += STEP) {
        if (bit % 64 < slack) continue;
        p[bit / 8] ^= (unsigned char)(1u << bit % 8);
        cr_assert_gt(issues(m), 0, "%s: bit %zu", what, bit);
        p[bit / 8] ^= (unsigned char)(1u << bit % 8);
    }
    cr_assert_eq(issues(m), 0, "%s: %s", what, said);
}

Test(totals, a_killed_process_leaves_nothing_to_say) {
    na_make_t m;
    na_make_killed(&m);
    cr_assert_eq(issues(&m), 0, "%s", said);
    free(m.bytes);
}

Test(totals, every_bit_of_stacks_and_modules) {
    na_make_t m;
    na_make_killed(&m);
    /* (The root has nothing to lose.) */
    for (uint32_t id = 2; id < 5; id++)
        must_tell(&m, "stack", entry_of(&m, NA_NPROF_STACKS, id), sizeof(na_nprof_stack_t), 0);
    na_nprof_module_t *module = entry_of(&m, NA_NPROF_MODULES, 0);
    must_tell(&m, "module", module, offsetof(na_nprof_module_t, unload_ms), 0);
    must_tell(&m, "build id", module->build_id, sizeof module->build_id + 14, 0);
    free(m.bytes);
}

Test(totals, every_bit_of_counts_and_bytes) {
    enum { EVENT = 1, BLOCK = 10 }; /* digits of what a kill may leave: one event, 1,000 bytes */
    na_make_t m;
    na_make_killed(&m);
    for (uint32_t i = 0; i < 2; i++) {
        na_nprof_cell_t *c = entry_of(&m, NA_NPROF_CELLS, i);
        must_tell(&m, "alloc_count", &c->alloc_count, 8, EVENT);
        must_tell(&m, "alloc_bytes", &c->alloc_bytes, 8, BLOCK);
        must_tell(&m, "free_count", &c->free_count, 8, EVENT);
        must_tell(&m, "free_bytes", &c->free_bytes, 8, BLOCK);
    }
    na_nprof_thread_t *t = entry_of(&m, NA_NPROF_THREADS, 0);
    must_tell(&m, "thread's counts", &t->alloc_count, 16, EVENT);
    must_tell(&m, "thread's bytes", &t->alloc_bytes, 16, BLOCK);
    must_tell(&m, "calls", t->calls, 48, EVENT);
    na_nprof_sizes_t *sizes = entry_of(&m, NA_NPROF_SIZES, 0);
    must_tell(&m, "sizes", sizes->allocs, sizeof sizes->allocs, EVENT);
    must_tell(&m, "lifetimes of sizes", sizes->lives[9], sizeof sizes->lives[9], EVENT);
    na_nprof_lives_t *lives = entry_of(&m, NA_NPROF_LIVES, 0);
    must_tell(&m, "lifetimes", &lives->count[7], 4, EVENT);
    na_nprof_share_t *share = entry_of(&m, NA_NPROF_SHARES, 0);
    must_tell(&m, "what is live", &share->live_bytes, 8, BLOCK);
    free(m.bytes);
}

Test(totals, every_bit_of_what_is_missing) {
    enum { EVENT = 1 };
    na_make_t m;
    na_make_killed(&m);
    na_nprof_header_t *h = na_make_header(&m);
    h->lost_stacks = 5;
    h->missing = 5;
    must_tell(&m, "lost events and stacks", &h->lost_events, 16, EVENT);
    must_tell(&m, "lost modules", &h->lost_modules, 8, EVENT);
    must_tell(&m, "dropped events", &h->dropped_events, 8, EVENT);
    must_tell(&m, "merged events", &h->merged_events, 8, EVENT);
    must_tell(&m, "what is missing in all", &h->missing, 8, EVENT);
    h->missing--; /* a kill in between */
    cr_assert_eq(issues(&m), 0, "%s", said);
    free(m.bytes);
}

Test(totals, every_bit_of_what_is_there_once) {
    na_make_t m;
    na_make_killed(&m);
    na_nprof_header_t *h = na_make_header(&m);
    must_tell(&m, "epoch of the peak", &h->peak_epoch, 4, 0);
    must_tell(&m, "peak", &h->peak_bytes, 24, 0);
    must_tell(&m, "check of the peak", &h->peak_check, 8, 0);
    na_nprof_thread_t *t = entry_of(&m, NA_NPROF_THREADS, 0);
    must_tell(&m, "tid", &t->tid, 4, 0);
    must_tell(&m, "name, start and end", t->name, 32, 0);
    must_tell(&m, "stack", &t->stack_resident, 16, 0);
    must_tell(&m, "check of a thread", &t->check, 8, 0);
    na_nprof_timeline_t *line = entry_of(&m, NA_NPROF_TIMELINE, 0);
    must_tell(&m, "head of the timeline", line, offsetof(na_nprof_timeline_t, points), 0);
    must_tell(&m, "a point", &line->points[0][2], sizeof(na_nprof_point_t), 0);
    must_tell(&m, "the last point", &line->points[0][6], sizeof(na_nprof_point_t), 0);
    free(m.bytes);
}

/* What a row is about, each value of both buffers, how many there are, and the checksum itself. */
Test(totals, every_bit_of_series) {
    na_make_t m;
    na_make_killed(&m);
    void *entry = entry_of(&m, NA_NPROF_SERIES, 0);
    must_tell(&m, "series", entry, ((na_nprof_chunk_t *)entry - 1)->entry_size, 0);
    free(m.bytes);
}

static void make_access(na_make_t *m) {
    na_make_killed(m);
    na_make_access(m);
    ((na_nprof_access_thread_t *)entry_of(m, NA_NPROF_ACCESS_THREADS, 0))->thread = 1;
    na_make_seal_access(m);
    cr_assert_eq(issues(m), 0, "%s", said);
}

Test(totals, every_bit_of_accesses) {
    na_make_t m;
    make_access(&m);
    for (uint16_t type = NA_NPROF_ACCESS_SOURCES; type <= NA_NPROF_ACCESS_SAMPLES; type++) {
        void *entry = entry_of(&m, type, 0);
        size_t size = ((na_nprof_chunk_t *)entry - 1)->entry_size;
        must_tell(&m, "an entry of accesses", entry, size, 0);
    }
    free(m.bytes);
}

/* A kill while a thread changes it. */
Test(totals, what_is_open_is_believed) {
    na_make_t m;
    make_access(&m);
    na_nprof_thread_t *t = entry_of(&m, NA_NPROF_THREADS, 0);
    na_nprof_thread_open(t);
    t->end_ms = 70;
    na_nprof_timeline_t *line = entry_of(&m, NA_NPROF_TIMELINE, 0);
    line->check = NA_NPROF_CHECK_OPEN;
    line->count[0]++;
    na_nprof_point_open(&line->points[0][6]);
    line->points[0][6].requested_max++;
    na_nprof_series_t *series = entry_of(&m, NA_NPROF_SERIES, 0);
    uint64_t whole = na_nprof_series_size(series->rows, series->points);
    ((uint64_t *)(void *)series)[whole / 8] = NA_NPROF_CHECK_OPEN;
    series->count[1]++;
    na_nprof_access_object_t *o = entry_of(&m, NA_NPROF_ACCESS_OBJECTS, 0);
    na_nprof_open(o, sizeof *o);
    o->death_ns = 5000;
    na_make_header(&m)->peak_check = NA_NPROF_CHECK_OPEN;
    na_make_header(&m)->peak_ms++;
    cr_assert_eq(issues(&m), 0, "%s", said);
    free(m.bytes);
}

/* The stores of one event, cut off anywhere; and what only a finished file promises. */
Test(totals, one_event_of_a_thread_may_be_half_counted) {
    na_make_t m;
    na_make_killed(&m);
    na_nprof_cell_t *c = entry_of(&m, NA_NPROF_CELLS, 0);
    na_nprof_thread_t *t = entry_of(&m, NA_NPROF_THREADS, 0);
    c->alloc_count++;
    cr_assert_eq(issues(&m), 0, "%s", said);
    c->alloc_bytes += 1000;
    cr_assert_eq(issues(&m), 0, "%s", said);
    t->alloc_count++;
    cr_assert_eq(issues(&m), 0, "%s", said);
    c->alloc_count++;
    t->alloc_count--;
    cr_assert_eq(issues(&m), 1);
    cr_assert_not_null(strstr(said, "do not add up (allocations of sites and threads, by 2)"), "%s",
                       said);
    t->end_ms = 5; /* it was in no event when it ended */
    c->alloc_count--;
    cr_assert_gt(issues(&m), 0);
    na_make_header(&m)->checks = 0; /* of a writer that promises nothing */
    na_make_seal_header(&m);
    cr_assert_eq(issues(&m), 0, "%s", said);
    free(m.bytes);
}

Test(totals, impossible_figures_of_a_site) {
    na_make_t m;
    na_make_killed(&m);
    na_nprof_cell_t *c = entry_of(&m, NA_NPROF_CELLS, 0), was = *c;
#define TELL(change)                                                                               \
    do {                                                                                           \
        *c = was;                                                                                  \
        change;                                                                                    \
        cr_assert_eq(issues(&m), 1, #change);                                                      \
        cr_assert_not_null(strstr(said, "figures of a site"), "%s", said);                         \
    } while (0)
    TELL(c->size_min = 1001);
    TELL(c->size_max = UINT64_C(1) << 40);
    TELL(c->lifetime_min = 101);
    TELL(c->lifetime_max = UINT64_C(1) << 40);
    TELL(c->lifetime_sum = 99);
    TELL(c->local_peak_bytes = -1);
    TELL(c->local_peak_bytes = 10001);
    TELL(c->temporary_count = 5);
    TELL(c->cross_thread_free_count = 5);
    TELL(c->cross_node_free_count = 5);
    TELL(c->realloc_count = 12);
#undef TELL
    free(m.bytes);
}
