/* cases.c - what the papers found with their profilers, done again with small programs: each must
 * be plain to see in the profile.
 *
 * From MALT: temporaries nobody expected (5.1), memory that falls by request and not in fact (5.2),
 * growth by copying (5.3), a peak between two looks (Fig. 1), files that do not grow with events
 * (Fig. 3). From WMTrace: the peak of the start-up. And what bounds the recorder's own memory. */
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "tests/profile/truth.h"

#define MIB ((size_t)1 << 20)

#define CASE_SITE(n)                                                                               \
    static TRUTH_SITE(n) void *case_##n(size_t size) {                                             \
        void *p = malloc(size);                                                                    \
        __asm__ volatile("# case " #n : : "r"(p) : "memory");                                      \
        return p;                                                                                  \
    }                                                                                              \
    extern const char __start_truth_site_##n[], __stop_truth_site_##n[];                           \
    static void bounds_##n(void) {                                                                 \
        truth->site[n].start = (uintptr_t)__start_truth_site_##n;                                  \
        truth->site[n].end = (uintptr_t)__stop_truth_site_##n;                                     \
    }

CASE_SITE(15)

static __attribute__((noinline)) void *startup_site(size_t size) {
    void *p = malloc(size);
    __asm__ volatile("# start-up" : : "r"(p) : "memory");
    return p;
}

static void pause_ms(long ms) {
    nanosleep(&(struct timespec){ms / 1000, ms % 1000 * 1000000}, NULL);
}

/* Something for the timeline to be told by. */
static void tick(long ms) {
    for (long i = 0; i < ms; i++) {
        free(startup_site(16));
        pause_ms(1);
    }
}

/* A function called in a loop that allocates where nobody expects it to. */
static void temporaries(void) {
    for (int i = 0; i < 50000; i++) {
        double *work = case_15(240);
        work[0] = i;
        free(work);
    }
}

static void fragmentation(void) {
    enum { BLOCKS = 60000 };
    static void *block[BLOCKS];
    for (unsigned i = 0; i < BLOCKS; i++) {
        block[i] = case_15(1000);
        memset(block[i], 1, 1000);
    }
    tick(30);
    for (unsigned i = 0; i < BLOCKS; i++)
        if (i % 8 != 0) free(block[i]);
    tick(60);
}

/* An array that grows by one element at a time, as a naive `a = [a, x]` does. */
static void growth(void) {
    char *old = NULL;
    for (size_t n = 1; n <= 2000; n++) {
        char *larger = case_15(n * 8);
        if (old != NULL) memcpy(larger, old, (n - 1) * 8);
        free(old);
        old = larger;
    }
    free(old);
}

static uint64_t now_ms(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (uint64_t)t.tv_sec * 1000 + (uint64_t)t.tv_nsec / 1000000;
}

static void spike(void) {
    tick(100);
    uint64_t from = now_ms();
    char *p = case_15(64 * MIB);
    memset(p, 1, 64 * MIB);
    free(p);
    truth->held_ms = now_ms() - from;
    tick(100);
}

static void start_up(void) {
    static void *table[64];
    for (unsigned i = 0; i < 64; i++)
        table[i] = case_15(MIB);
    for (unsigned i = 0; i < 64; i++)
        free(table[i]);
    tick(200);
}

static void events(long count) {
    static void *slot[100];
    for (long i = 0; i < count; i++) {
        unsigned k = (unsigned)i % 100;
        free(slot[k]);
        slot[k] = case_15(1 + (size_t)i % 2000);
    }
}

/* Far more stacks than there is room for. */
static __attribute__((noinline)) void branch(unsigned path, unsigned depth) {
    if (depth == 0) {
        free(case_15(64));
    } else if (path & 1) {
        branch(path >> 1, depth - 1);
        __asm__ volatile("# odd" : : : "memory");
    } else {
        branch(path >> 1, depth - 1);
        __asm__ volatile("# even" : : : "memory");
    }
}
static void many_stacks(void) {
    for (unsigned i = 0; i < 1u << 17; i++)
        branch(i, 17);
}

static void *one_of_many(void *unused) {
    free(case_15(100));
    return unused;
}
/* Far more records than anything else that the profile needs. */
enum { MANY_BLOCKS = 500000, MANY_SIZE = 32 };
static void many_blocks(void) {
    for (int i = 0; i < MANY_BLOCKS; i++)
        memset(case_15(MANY_SIZE), 1, MANY_SIZE);
    tick(30);
}

static void many_threads(void) {
    for (int i = 0; i < 2000; i++) {
        pthread_t thread;
        if (pthread_create(&thread, NULL, one_of_many, NULL) != 0) _exit(125);
        pthread_join(thread, NULL);
    }
}

#define WORKERS 4

static pthread_barrier_t together;
static _Thread_local char copies[4096]; /* one a thread */

static void *worker(void *allocates) {
    copies[0]++;
    void *p = allocates != NULL ? case_15(100) : NULL;
    pthread_barrier_wait(&together);
    if (allocates == NULL) pthread_barrier_wait(&together);
    free(p);
    return NULL;
}

/* At one time, and for no longer than they must. Those that do not allocate live until they must
 * have been seen. */
static void team(bool allocate) {
    pthread_t handle[WORKERS];
    pthread_barrier_init(&together, NULL, WORKERS + 1);
    for (int i = 0; i < WORKERS; i++)
        if (pthread_create(&handle[i], NULL, worker, allocate ? &together : NULL) != 0) _exit(125);
    pthread_barrier_wait(&together);
    if (!allocate) tick(150);
    if (!allocate) pthread_barrier_wait(&together);
    for (int i = 0; i < WORKERS; i++)
        pthread_join(handle[i], NULL);
}

static void short_team(void) {
    team(true);
}

static void silent_team(void) {
    team(false);
}

static __attribute__((noinline)) void deep_stack(void) {
    char room[MIB];
    memset(room, 1, sizeof room);
    __asm__ volatile("" : : "r"(room) : "memory");
    free(case_15(100));
}
static void *stack_user(void *unused) {
    deep_stack();
    return unused;
}
static void stacks(void) {
    pthread_t thread;
    if (pthread_create(&thread, NULL, stack_user, NULL) != 0) _exit(125);
    pthread_join(thread, NULL);
}

static __attribute__((noinline)) void *map_site(size_t size) {
    void *p = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    __asm__ volatile("# map" : : "r"(p) : "memory");
    return p;
}
static void mappings(void) {
    for (size_t i = 1; i <= 10; i++) {
        char *p = map_site(i * 65536);
        p[0] = 1;
        p = mremap(p, i * 65536, 2 * i * 65536, MREMAP_MAYMOVE);
        if (p == MAP_FAILED) _exit(125);
        munmap(p, 2 * i * 65536);
    }
    char *before = sbrk(0), *was = sbrk(8192);
    if (was != before || brk(before) != 0 || sbrk(0) != before) _exit(124);
    free(case_15(1));
}

void case_child(const char *which) {
    static const struct {
        const char *name;
        void (*run)(void);
    } cases[] = {{"temporaries", temporaries}, {"fragmentation", fragmentation},
                 {"growth", growth},           {"spike", spike},
                 {"start-up", start_up},       {"stacks", many_stacks},
                 {"threads", many_threads},    {"stack", stacks},
                 {"mappings", mappings},       {"team", short_team},
                 {"silent", silent_team},      {"blocks", many_blocks}};
    bounds_15();
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++)
        if (strcmp(which, cases[i].name) == 0) cases[i].run();
    if (which[0] >= '0' && which[0] <= '9') events(atol(which));
    truth->finished = true;
}

static na_counters_t run(seen_t *seen, const char *which, const char *setting) {
    truth_run(
        &(truth_run_t){.mode = "sites", .words = {"child", "case", which}, .settings = {setting}});
    seen_open(seen);
    truth_check(truth->finished, "%s: the child did not finish", which);
    const na_site_t *first;
    return seen_sum(seen, &truth->site[15], &first);
}

static void see_temporaries(void) {
    seen_t seen;
    na_counters_t s = run(&seen, "temporaries", NULL);
    truth_check(s.alloc_count == 50000 && s.temporary_count == 50000 && s.live_count == 0,
                "temporaries: %llu of %llu", (unsigned long long)s.temporary_count,
                (unsigned long long)s.alloc_count);
    truth_check(s.local_peak_bytes == 240 && s.alloc_bytes / 240 == 50000,
                "temporaries: a local peak of %lld", (long long)s.local_peak_bytes);
    seen_close(&seen);
}

static void see_fragmentation(void) {
    seen_t seen;
    run(&seen, "fragmentation", NULL);
    uint32_t count, interval;
    const na_nprof_point_t *p = na_reader_timeline(seen.reader, &count, &interval);
    int64_t most = 0, last = 0;
    uint64_t resident = 0, last_resident = 0;
    for (uint32_t i = 0; p != NULL && i < count; i++) {
        if (p[i].flags & NA_NPROF_POINT_COUNTED) {
            last = p[i].requested_max;
            if (last > most) most = last;
        }
        if (p[i].flags & NA_NPROF_POINT_SAMPLED) {
            last_resident = p[i].physical;
            if (last_resident > resident) resident = last_resident;
        }
    }
    truth_check(most >= 60000000 && last <= most / 7, "fragmentation: requested %lld, then %lld",
                (long long)most, (long long)last);
    truth_check(resident >= 60000000 && last_resident >= resident * 3 / 4,
                "fragmentation: resident %llu, then %llu", (unsigned long long)resident,
                (unsigned long long)last_resident);
    seen_close(&seen);
}

static void see_growth(void) {
    seen_t seen;
    na_counters_t s = run(&seen, "growth", NULL);
    truth_check(s.growth_count == 1999 && s.realloc_count == 0, "growth: %llu of 1999",
                (unsigned long long)s.growth_count);
    truth_check(s.growth_bytes == 1999 * 8 && s.growth_copied == 8 * 1999 * 2000 / 2,
                "growth: %llu bytes copied to grow by %llu", (unsigned long long)s.growth_copied,
                (unsigned long long)s.growth_bytes);
    seen_close(&seen);
}

static void see_spike(void) {
    seen_t seen;
    na_counters_t s = run(&seen, "spike", NULL);
    uint32_t count, interval, high = 0;
    const na_nprof_point_t *p = na_reader_timeline(seen.reader, &count, &interval);
    for (uint32_t i = 0; p != NULL && i < count; i++)
        high += p[i].requested_max >= (int64_t)(64 * MIB);
    truth_check(s.peak_bytes == (int64_t)(64 * MIB), "spike: %lld at the peak",
                (long long)s.peak_bytes);
    truth_check(high >= 1 && (uint64_t)high * interval <= truth->held_ms + 50,
                "spike: in %u points of %u ms, held for %llu ms", high, interval,
                (unsigned long long)truth->held_ms);
    na_series_table_t series = na_reader_series(seen.reader, NA_NPROF_SERIES_SITES);
    bool shown = false;
    for (uint32_t r = 0; r < series.rows; r++)
        shown |= series.row[r].most >= (int64_t)(64 * MIB) && series.row[r].last == 0;
    truth_check(shown, "spike: no row of the sites over time shows it");
    seen_close(&seen);
}

static void see_start_up(void) {
    seen_t seen;
    na_counters_t s = run(&seen, "start-up", NULL);
    truth_check(s.peak_bytes == (int64_t)(64 * MIB) && s.live_bytes == 0,
                "start-up: %lld at the peak", (long long)s.peak_bytes);
    /* What came after took 200 ms at least, however slow the machine is. */
    truth_check(seen.header->peak_ms + 150 <= seen.header->last_ms,
                "start-up: the peak is at %llu of %llu ms",
                (unsigned long long)seen.header->peak_ms, (unsigned long long)seen.header->last_ms);
    seen_close(&seen);
}

static void see_sizes_of_files(void) {
    static const char *const counts[] = {"10000", "100000", "1000000"};
    int64_t size[3];
    for (unsigned i = 0; i < 3; i++) {
        seen_t seen;
        na_counters_t s = run(&seen, counts[i], NULL);
        truth_check((int64_t)s.alloc_count == atol(counts[i]), "%s events: %llu seen", counts[i],
                    (unsigned long long)s.alloc_count);
        struct stat st;
        size[i] = stat(truth_path, &st) == 0 ? (int64_t)st.st_size : 0;
        printf("%s pairs of events: a file of %lld KiB\n", counts[i], (long long)size[i] >> 10);
        seen_close(&seen);
    }
    truth_check(size[0] > 0 && size[2] <= size[0] + size[0] / 20,
                "files grow with events: %lld bytes for 10,000, %lld for 1,000,000",
                (long long)size[0], (long long)size[2]);
}

static void see_bounded(void) {
    seen_t seen;
    run(&seen, "stacks", "NUMALLOC_PROFILE_MEMORY=4M");
    const na_nprof_header_t *h = seen.header;
    printf("131072 stacks in 4 MiB: %zu sites, %llu events merged, %llu KiB used\n",
           seen.sites.count, (unsigned long long)h->merged_events,
           (unsigned long long)h->own_bytes >> 10);
    truth_check(h->own_full == NA_NPROF_OWN_LIMIT && h->own_bytes <= 9 * MIB / 2 &&
                    h->lost_events == 0,
                "bounded: %llu bytes used, %llu events lost", (unsigned long long)h->own_bytes,
                (unsigned long long)h->lost_events);
    truth_check(seen.sites.total.alloc_count == 1u << 17 && seen.sites.total.live_count == 0,
                "bounded: %llu of 131072 allocations",
                (unsigned long long)seen.sites.total.alloc_count);
    for (size_t i = 0; i < seen.sites.count; i++)
        truth_check(seen.sites.items[i].sum.live_count == 0,
                    "bounded: frees are charged elsewhere");
    seen_close(&seen);
}

static void see_threads(void) {
    seen_t seen;
    na_counters_t s = run(&seen, "threads", NULL);
    truth_check(s.alloc_count == 2000 && s.free_count == 2000, "threads: %llu of 2000",
                (unsigned long long)s.alloc_count);
    truth_check(seen.sites.cells < 40, "threads: %llu cells for one thread at a time",
                (unsigned long long)seen.sites.cells);
    truth_check(na_threads_peak(seen.reader) <= 4, "threads: %u at one time",
                na_threads_peak(seen.reader));
    seen_close(&seen);
}

/* What thread-local variables are multiplied by: the same in every mode, whatever threads the
 * recorder has, and however short the program's own live. */
static void see_teams(void) {
    static const struct {
        const char *mode, *setting, *which;
        unsigned threads;
    } runs[] = {{"sites", NULL, "team", WORKERS + 1},
                {"trace", NULL, "team", WORKERS + 1},
                {"sample", NULL, "team", WORKERS + 1},
                {"trace", "NUMALLOC_TRACE_THREAD=0", "team", WORKERS + 1},
                {"sites,access=watch", "NUMALLOC_BACKGROUND=1", "team", WORKERS + 1},
                {"sites", NULL, "silent", WORKERS + 1},
                {"trace", NULL, "silent", WORKERS + 1},
                {"sites", NULL, "temporaries", 1},
                {"trace", "NUMALLOC_BACKGROUND=1", "temporaries", 1}};
    for (size_t i = 0; i < sizeof runs / sizeof runs[0]; i++) {
        truth_run(&(truth_run_t){.mode = runs[i].mode,
                                 .words = {"child", "case", runs[i].which},
                                 .settings = {runs[i].setting}});
        seen_t seen;
        seen_open(&seen);
        unsigned threads = na_threads_peak(seen.reader);
        truth_check(threads == runs[i].threads, "%s, %s %s: %u threads at one time, not %u",
                    runs[i].which, runs[i].mode, runs[i].setting != NULL ? runs[i].setting : "",
                    threads, runs[i].threads);
        seen_close(&seen);
    }
}

static void see_stack(void) {
    seen_t seen;
    run(&seen, "stack", NULL);
    na_thread_table_t threads = na_reader_threads(seen.reader);
    uint64_t most = 0;
    for (uint32_t i = 1; i < threads.count; i++)
        if (threads.items[i].stack_resident > most) most = threads.items[i].stack_resident;
    truth_check(most >= MIB && most <= MIB + 128 * 1024, "stack: %llu bytes resident of 1 MiB used",
                (unsigned long long)most);
    seen_close(&seen);
}

/* What the program has in memory is told apart from what the profile has: the blocks' records, too.
 */
static void see_own_memory(void) {
    seen_t seen;
    run(&seen, "blocks", NULL);
    uint32_t count, interval;
    const na_nprof_point_t *p = na_reader_timeline(seen.reader, &count, &interval);
    na_nprof_point_t last = {0};
    for (uint32_t i = 0; p != NULL && i < count; i++)
        if (p[i].flags & NA_NPROF_POINT_SAMPLED) last = p[i];
    const uint64_t blocks = (uint64_t)MANY_BLOCKS * MANY_SIZE, records = MANY_BLOCKS * 16ull;
    truth_check(last.physical >= blocks && last.physical <= blocks + records * 3 / 4,
                "own memory: %llu bytes of the program's, which has blocks of %llu",
                (unsigned long long)last.physical, (unsigned long long)blocks);
    truth_check(last.own >= records && last.own <= 2 * records,
                "own memory: %llu bytes of the profile's, with records of %llu",
                (unsigned long long)last.own, (unsigned long long)records);
    seen_close(&seen);
}

static void see_mappings(void) {
    seen_t seen;
    run(&seen, "mappings", NULL);
    na_maps_table_t maps;
    truth_check(na_maps_fold(seen.reader, &maps), "no memory");
    uint64_t bytes[6] = {0}, count[6] = {0};
    for (size_t i = 0; i < maps.count; i++) {
        bytes[maps.items[i].call] += maps.items[i].bytes;
        count[maps.items[i].call] += maps.items[i].count;
    }
    /* The eleventh is the child's way to the shared memory. */
    truth_check(count[NA_NPROF_MAP_MMAP] == 11 &&
                    bytes[NA_NPROF_MAP_MMAP] == 55 * 65536 + sizeof *truth,
                "mappings: %llu mmap", (unsigned long long)count[NA_NPROF_MAP_MMAP]);
    truth_check(count[NA_NPROF_MAP_MREMAP] == 10 && bytes[NA_NPROF_MAP_MREMAP] == 110 * 65536,
                "mappings: %llu mremap", (unsigned long long)count[NA_NPROF_MAP_MREMAP]);
    truth_check(count[NA_NPROF_MAP_MUNMAP] == 10 && bytes[NA_NPROF_MAP_MUNMAP] == 110 * 65536,
                "mappings: %llu munmap", (unsigned long long)count[NA_NPROF_MAP_MUNMAP]);
    truth_check(count[NA_NPROF_MAP_BRK] == 1 && bytes[NA_NPROF_MAP_BRK] == 8192 &&
                    count[NA_NPROF_MAP_UNBRK] == 1 && bytes[NA_NPROF_MAP_UNBRK] == 8192,
                "mappings: %llu brk", (unsigned long long)count[NA_NPROF_MAP_BRK]);
    na_maps_free(&maps);
    seen_close(&seen);
}

void case_test(void) {
    see_temporaries();
    see_fragmentation();
    see_growth();
    see_spike();
    see_start_up();
    see_sizes_of_files();
    see_bounded();
    see_threads();
    see_teams();
    see_stack();
    see_own_memory();
    see_mappings();
}
