/* moves.c - realloc is one block, in every mode: no peak, of the process, of a site or of the
 * timeline, has what realloc took and what it gave together, whether it copied, moved pages or left
 * the block where it was. And a block that realloc took was no temporary.
 *
 * In mode sample with an interval of one byte every block is drawn, and stands for itself. */
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "tests/profile/truth.h"

#define MOST    UINT64_C(12000)
#define THREADS 4u
#define ROUNDS  100u

enum { GROW = 11, OTHER = 12, FIRST = 13 };

#define SITE(n, call)                                                                              \
    static TRUTH_SITE(n) void *site_##n(void *old, size_t size) {                                  \
        void *p = call;                                                                            \
        __asm__ volatile("# moves " #n : : "r"(p), "r"(old) : "memory");                           \
        return p;                                                                                  \
    }                                                                                              \
    extern const char __start_truth_site_##n[], __stop_truth_site_##n[];
SITE(11, realloc(old, size))
SITE(12, realloc(old, size))
SITE(13, malloc(size))

static void bounds(void) {
#define BOUNDS(n)                                                                                  \
    truth->site[n].start = (uintptr_t)__start_truth_site_##n;                                      \
    truth->site[n].end = (uintptr_t)__stop_truth_site_##n
    BOUNDS(11);
    BOUNDS(12);
    BOUNDS(13);
}

/* By steps to `most`, and back to a tenth of it. */
static void *grow(size_t most) {
    void *p = NULL;
    for (size_t size = most / 12; size <= most; size += most / 12)
        p = site_11(p, size);
    return p;
}

/* The largest sum is the other site's. */
static void sites(void) {
    void *p = site_13(NULL, 1000);
    p = site_11(p, 5000);
    p = site_12(p, 9000);
    p = site_11(p, 7000);
    p = site_12(p, MOST);
    p = site_11(p, 100);
    free(p);
}

/* Of each round one: what realloc gave, and nothing before. */
static void temporary(void) {
    for (unsigned i = 0; i < ROUNDS; i++) {
        void *p = site_13(NULL, 100);
        p = site_11(p, 1000);
        p = site_11(p, 3000);
        free(p);
    }
}

static pthread_barrier_t barrier;

static void *thread(void *unused) {
    void *p = grow(MOST);
    pthread_barrier_wait(&barrier);
    free(p);
    return unused;
}

static void threads(void) {
    pthread_t handle[THREADS];
    pthread_barrier_init(&barrier, NULL, THREADS);
    for (unsigned i = 0; i < THREADS; i++)
        if (pthread_create(&handle[i], NULL, thread, NULL) != 0) _exit(125);
    for (unsigned i = 0; i < THREADS; i++)
        pthread_join(handle[i], NULL);
}

void moves_child(const char *which) {
    bounds();
    if (strcmp(which, "small") == 0) free(site_11(grow(MOST), MOST / 10));
    if (strcmp(which, "large") == 0) free(site_11(grow(MOST * 1000), MOST * 100));
    if (strcmp(which, "sites") == 0) sites();
    if (strcmp(which, "temporary") == 0) temporary();
    if (strcmp(which, "threads") == 0) threads();
    truth->finished = true;
}

/* --- the test --- */

static const char *mode;

static na_counters_t sum(const seen_t *seen, unsigned site) {
    const na_site_t *first;
    return seen_sum(seen, &truth->site[site], &first);
}

static void run(seen_t *seen, const char *which) {
    truth_run(&(truth_run_t){.mode = mode,
                             .words = {"child", "moves", which},
                             .settings = {"NUMALLOC_SAMPLE_INTERVAL=1"}});
    truth_check(truth->finished, "%s, %s: the child did not finish", mode, which);
    seen_open(seen);
}

static void is(const char *which, const char *figure, int64_t value, uint64_t expected) {
    truth_check(value == (int64_t)expected, "%s, %s: %s is %lld, not %llu", mode, which, figure,
                (long long)value, (unsigned long long)expected);
}

static void see_peak(const char *which, uint64_t most) {
    seen_t seen;
    run(&seen, which);
    na_counters_t s = sum(&seen, GROW);
    is(which, "the peak of the process", seen.sites.total.peak_bytes, most);
    is(which, "what the site had of it", s.peak_bytes, most);
    is(which, "the site's own peak", s.local_peak_bytes, most);
    uint32_t count = 0, interval;
    const na_nprof_point_t *points = na_reader_timeline(seen.reader, &count, &interval);
    int64_t highest = 0;
    for (uint32_t i = 0; points != NULL && i < count; i++)
        if (points[i].requested_max > highest) highest = points[i].requested_max;
    truth_check(highest <= (int64_t)most, "%s, %s: the timeline rises to %lld", mode, which,
                (long long)highest);
    seen_close(&seen);
}

static void see_sites(void) {
    seen_t seen;
    run(&seen, "sites");
    is("sites", "the peak of the process", seen.sites.total.peak_bytes, MOST);
    is("sites", "the first one's own peak", sum(&seen, FIRST).local_peak_bytes, 1000);
    is("sites", "the second one's own peak", sum(&seen, GROW).local_peak_bytes, 7000);
    is("sites", "the third one's own peak", sum(&seen, OTHER).local_peak_bytes, MOST);
    is("sites", "the third one's share of the peak", sum(&seen, OTHER).peak_bytes, MOST);
    is("sites", "the second one's share of the peak", sum(&seen, GROW).peak_bytes, 0);
    seen_close(&seen);
}

static void see_temporary(void) {
    seen_t seen;
    run(&seen, "temporary");
    na_counters_t s = sum(&seen, GROW), first = sum(&seen, FIRST);
    uint64_t scale = seen.header->count_scale;
    is("temporary", "temporaries of malloc", (int64_t)first.temporary_count, 0);
    is("temporary", "temporaries of realloc", (int64_t)(s.temporary_count / scale), ROUNDS);
    is("temporary", "allocations of realloc", (int64_t)(s.alloc_count / scale), 2 * ROUNDS);
    is("temporary", "the peak of the process", seen.sites.total.peak_bytes, 3000);
    seen_close(&seen);
}

/* Exact in a trace; else each thread holds back up to 64 KiB from the peak. */
static void see_threads(void) {
    seen_t seen;
    run(&seen, "threads");
    na_counters_t s = sum(&seen, GROW);
    if (strcmp(mode, "trace") == 0) {
        is("threads", "the site's own peak", s.local_peak_bytes, THREADS * MOST);
        is("threads", "what the site had at the peak", s.peak_bytes, THREADS * MOST);
    }
    truth_check(s.local_peak_bytes <= (int64_t)(THREADS * MOST),
                "%s, threads: the site's own peak is %lld", mode, (long long)s.local_peak_bytes);
    seen_close(&seen);
}

void moves_test(void) {
    static const char *const modes[] = {"sites", "trace", "sample"};
    for (unsigned i = 0; i < 3; i++) {
        mode = modes[i];
        see_peak("small", MOST);
        see_peak("large", MOST * 1000);
        see_sites();
        see_temporary();
        see_threads();
    }
}
