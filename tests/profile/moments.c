/* moments.c - what a profile says of one moment, held against what the program knew then: how much
 * was in memory, how deep the stack was, and between which events a marker lay. */
#include <dlfcn.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "profiler/format/reader/events.h"
#include "tests/profile/truth.h"
#include "tests/support/proc_mem.h"

#define MIB ((size_t)1 << 20)

static __attribute__((noinline)) void *block(size_t size) {
    void *p = malloc(size);
    __asm__ volatile("# block" : : "r"(p) : "memory");
    return p;
}

static void begin_thread(pthread_t *thread, size_t stack, void *(*run)(void *)) {
    pthread_attr_t attributes;
    pthread_attr_init(&attributes);
    if (stack != 0) pthread_attr_setstacksize(&attributes, stack);
    if (pthread_create(thread, &attributes, run, NULL) != 0) _exit(125);
    pthread_attr_destroy(&attributes);
}

/* ---- in memory ---- */

typedef struct crowd {
    const char *name;
    unsigned threads, before; /* at one time; that have ended before, two at a time */
    size_t bytes;             /* that each has */
    bool touches;
} crowd_t;

static const crowd_t crowds[] = {
    {"one", 1, 0, 20 * MIB, true},
    {"many-touch", 100, 0, 60000, true},
    {"many", 1000, 0, 55000, false},
    {"ended", 10, 4000, 60000, true},
};

static pthread_barrier_t all;
static const crowd_t *crowd;

static void *hold(void *unused) {
    char *p = block(crowd->bytes);
    if (crowd->touches) memset(p, 1, crowd->bytes);
    pthread_barrier_wait(&all);
    pthread_barrier_wait(&all);
    free(p);
    return unused;
}

static void *pass_by(void *unused) {
    free(block(1000));
    return unused;
}

static void be_crowd(const crowd_t *c) {
    pthread_t *handles = calloc(c->threads, sizeof *handles), two[2];
    crowd = c;
    pthread_barrier_init(&all, NULL, c->threads + 1);
    for (unsigned i = 0; i < c->before; i += 2) {
        begin_thread(&two[0], 0, pass_by);
        begin_thread(&two[1], 0, pass_by);
        pthread_join(two[0], NULL);
        pthread_join(two[1], NULL);
    }
    for (unsigned i = 0; handles != NULL && i < c->threads; i++)
        begin_thread(&handles[i], 0, hold);
    pthread_barrier_wait(&all);
    truth->figure[0] = (uint64_t)proc_rss_kib() << 10;
    pthread_barrier_wait(&all);
    for (unsigned i = 0; handles != NULL && i < c->threads; i++)
        pthread_join(handles[i], NULL);
    free(handles);
}

/* The same program without a profile has as much in memory, but for a few pages of the loader's
 * and the allocator's code. */
static void see_crowd(const crowd_t *c, const char *mode) {
    truth_run(&(truth_run_t){.mode = "", .words = {"child", "moments", c->name}});
    double plain = (double)truth->figure[0];
    truth_run(&(truth_run_t){.mode = mode, .words = {"child", "moments", c->name}});
    seen_t seen;
    seen_open(&seen);
    uint32_t count = 0, interval;
    const na_nprof_point_t *p = na_reader_timeline(seen.reader, &count, &interval);
    double most = 0, own = 0;
    for (uint32_t i = 0; p != NULL && i < count; i++)
        if ((p[i].flags & NA_NPROF_POINT_SAMPLED) != 0 && (double)p[i].physical > most) {
            most = (double)p[i].physical;
            own = (double)p[i].own;
        }
    printf("%s, %s: %.2f MiB in memory without a profile, %.2f shown, with %.2f of the profile's\n",
           mode, c->name, plain / (double)MIB, most / (double)MIB, own / (double)MIB);
    double allowed = (double)MIB * 0.6 + plain / 50;
    truth_check(most > plain - allowed && most < plain + allowed,
                "%s, %s: %.0f bytes in memory, not %.0f", mode, c->name, most, plain);
    seen_close(&seen);
}

/* ---- deep ---- */

enum { DEEP = 60000, EVERY = 1000, FAR = 90000, FAR_FRAME = 900 };

static __attribute__((noinline)) long descend(long n, long every) {
    volatile char pad[16];
    pad[0] = (char)n;
    if (n == 0 || (every != 0 && n % every == 0)) free(block(100));
    return n == 0 ? 1 : descend(n - 1, every) + pad[0];
}

/* Further from the end of the stack than most. */
static __attribute__((noinline)) long descend_far(long n) {
    volatile char pad[FAR_FRAME];
    pad[0] = (char)n;
    if (n == 0) free(block(100));
    return n == 0 ? 1 : descend_far(n - 1) + pad[0];
}

static void *deep_thread(void *unused) {
    descend(DEEP, 0);
    return unused;
}

static void *far_thread(void *unused) {
    descend_far(FAR);
    return unused;
}

static void join_one(size_t stack, void *(*run)(void *)) {
    pthread_t thread;
    begin_thread(&thread, stack, run);
    pthread_join(thread, NULL);
}

static void see_deep(const char *mode, const char *which, uint32_t depth) {
    truth_run(&(truth_run_t){.mode = mode, .words = {"child", "moments", which}});
    seen_t seen;
    seen_open(&seen);
    truth_check(seen.sites.depth_max > depth && seen.header->truncated_stacks == 0,
                "%s, %s: %u frames at most, and %llu stacks are cut", mode, which,
                seen.sites.depth_max, (unsigned long long)seen.header->truncated_stacks);
    seen_close(&seen);
}

/* ---- markers ---- */

enum { ROUNDS = 6, BLOCKS = 3000 };

static void (*mark)(const char *name);

/* Events follow each other so closely that many have the time of a marker. */
static void mark_rounds(const char *full, const char *empty) {
    static _Thread_local void *p[BLOCKS];
    mark(empty);
    for (int r = 0; r < ROUNDS; r++) {
        for (int i = 0; i < BLOCKS; i++)
            p[i] = block(100 + (size_t)i % 7);
        mark(full);
        for (int i = 0; i < BLOCKS; i++)
            free(p[i]);
        mark(empty);
    }
}

static void *mark_in_thread(void *unused) {
    mark_rounds("full too", "empty too");
    return unused;
}

static void mark_alone(void) {
    mark_rounds("full", "empty");
}

static void mark_together(void) {
    pthread_t other;
    begin_thread(&other, 0, mark_in_thread);
    mark_alone();
    pthread_join(other, NULL);
}

enum { MARKERS = 2 * (2 * ROUNDS + 1) };
typedef struct markers {
    na_nprof_marker_t items[MARKERS];
    uint64_t allocs[MARKERS], frees[MARKERS]; /* of its thread, until then */
    unsigned count;
} markers_t;

static void take_marker(void *arg, uint32_t id, const void *entry) {
    markers_t *m = arg;
    (void)id;
    if (m->count < MARKERS) m->items[m->count++] = *(const na_nprof_marker_t *)entry;
}

static void count_events(const seen_t *seen, markers_t *m) {
    na_events_t *events = na_events_open(seen->reader);
    na_event_t event;
    while (events != NULL && na_events_next(events, &event))
        for (unsigned i = 0; i < m->count; i++)
            if (event.thread == m->items[i].thread && event.ticks < m->items[i].ticks)
                (na_event_is_alloc(&event) ? m->allocs : m->frees)[i]++;
    na_events_close(events);
}

/* Between two markers of one thread lie its allocations, or its frees. */
static void see_markers(const char *which, unsigned threads) {
    static markers_t m;
    m = (markers_t){0};
    truth_run(&(truth_run_t){.mode = "trace", .words = {"child", "moments", which}});
    seen_t seen;
    seen_open(&seen);
    na_reader_control(seen.reader, NA_NPROF_MARKERS, take_marker, &m);
    truth_check(m.count == threads * MARKERS / 2, "%s: %u markers", which, m.count);
    count_events(&seen, &m);
    for (unsigned i = 0; i < m.count; i++) {
        unsigned before = i;
        while (before-- != 0 && m.items[before].thread != m.items[i].thread) {
        }
        if (before > i) continue; /* its thread's first */
        bool full = strncmp(m.items[i].name, "full", 4) == 0;
        uint64_t allocs = m.allocs[i] - m.allocs[before], frees = m.frees[i] - m.frees[before];
        truth_check(allocs == (full ? BLOCKS : 0) && frees == (full ? 0 : BLOCKS),
                    "%s: %llu allocations and %llu frees before '%s' (%u)", which,
                    (unsigned long long)allocs, (unsigned long long)frees, m.items[i].name, i);
    }
    seen_close(&seen);
}

/* What was live at a marker, and how much had been allocated, of all sites. */
static void see_sums(const char *mode) {
    static markers_t m;
    m = (markers_t){0};
    truth_run(&(truth_run_t){.mode = mode, .words = {"child", "moments", "marks"}});
    seen_t seen;
    seen_open(&seen);
    na_reader_control(seen.reader, NA_NPROF_MARKERS, take_marker, &m);
    truth_check(m.count == MARKERS / 2, "%s: %u markers", mode, m.count);
    int64_t bytes = 0;
    for (int i = 0; i < BLOCKS; i++)
        bytes += 100 + i % 7;
    for (unsigned i = 1; i < m.count; i++) {
        const na_nprof_marker_t *now = &m.items[i], *first = &m.items[0];
        unsigned rounds = (i + 1) / 2;
        bool full = i % 2 != 0;
        truth_check(now->live_bytes - first->live_bytes == (full ? bytes : 0) &&
                        now->live_count - first->live_count == (full ? BLOCKS : 0) &&
                        now->alloc_count - first->alloc_count == (uint64_t)rounds * BLOCKS &&
                        (int64_t)(now->alloc_bytes - first->alloc_bytes) == rounds * bytes,
                    "%s: at marker %u %lld bytes in %lld blocks were live", mode, i,
                    (long long)now->live_bytes, (long long)now->live_count);
    }
    seen_close(&seen);
}

void moments_child(const char *which) {
    mark = (void (*)(const char *))dlsym(RTLD_DEFAULT, "numalloc_record_marker");
    if (mark == NULL) _exit(124);
    for (size_t i = 0; i < sizeof crowds / sizeof crowds[0]; i++)
        if (strcmp(which, crowds[i].name) == 0) be_crowd(&crowds[i]);
    if (strcmp(which, "marks") == 0) mark_alone();
    if (strcmp(which, "marks-two") == 0) mark_together();
    if (strcmp(which, "deep") == 0) descend(DEEP, EVERY);
    if (strcmp(which, "deep-thread") == 0) join_one(32 * MIB, deep_thread);
    if (strcmp(which, "far-thread") == 0) join_one(160 * MIB, far_thread);
}

void moments_test(void) {
    static const char *const modes[] = {"sites", "trace"};
    for (unsigned k = 0; k < 2; k++) {
        for (size_t i = 0; i < sizeof crowds / sizeof crowds[0]; i++)
            see_crowd(&crowds[i], modes[k]);
        see_deep(modes[k], "deep", DEEP);
        see_deep(modes[k], "deep-thread", DEEP);
        see_deep(modes[k], "far-thread", FAR);
        see_sums(modes[k]);
    }
    see_markers("marks", 1);
    see_markers("marks-two", 2);
}
