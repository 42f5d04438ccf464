/* profile_toggle.c - profiles begun and ended a thousand times while threads run at full speed and
 * free each other's blocks. Every file is read back: it is whole, nothing in it was freed more
 * often than allocated, and what it says is live is no more than the program can have live: a free
 * that was missed would show as a leak, a record of another profile as a free too many. And what a
 * profile misses at its beginning is within the bound that its file states.
 *
 * Arguments: [mode [switches]]: sites (default), sample or trace; 1000. (Of a trace, only that its
 * files are whole and lost nothing: what is in them is the business of other tests.) */
#include "support/check.h"
#include "support/fill.h"
#include "support/proc_mem.h"

#include <dirent.h>
#include <pthread.h>
#include <stdatomic.h>
#include <sys/stat.h>
#include <time.h>

#include "support/alloc_api.h"

#ifndef NA_PREFIXED
#define NUMALLOC_WEAK
#endif
#include "numalloc/numalloc.h"
#include "profiler/format/nprof_control.h"
#include "profiler/format/reader/reader.h"

enum { WORKERS = 4, OWN = 64, SHARED = 256, CLASSES = 8, SITES_MAX = 1 << 20 };
enum { LIVE_MAX = WORKERS * (OWN + 1) + SHARED };

static _Atomic(bool) over;
static _Atomic(void *) shared[SHARED];
static _Atomic(uint64_t) allocs[WORKERS];

static size_t size_of(uint64_t random) {
    static const size_t sizes[CLASSES] = {16, 48, 64, 100, 200, 640, 5000, 40000};
    return sizes[random >> 32 & ((random & 63) == 0 ? 7 : 3)];
}

/* EBUSY is no fault: a thread was kept from leaving the profiler for a second, as it may be where
 * there are many for each processor. */
#define PATIENTLY(call)                                                                            \
    do {                                                                                           \
        int patience = 300;                                                                        \
        bool done;                                                                                 \
        while (!(done = call) && errno == EBUSY && --patience > 0)                                 \
            usleep(10000);                                                                         \
        REQUIRE(done);                                                                             \
    } while (0)

static void *work(void *arg) {
    unsigned me = (unsigned)(uintptr_t)arg;
    uint64_t random = me + 1;
    void *own[OWN] = {NULL};
    while (!atomic_load_explicit(&over, memory_order_relaxed)) {
        uint64_t r = fill_random(&random);
        unsigned i = (unsigned)(r >> 8) % OWN;
        void *block = own[i];
        if (block != NULL && r % 5 == 0) {
            own[i] = realloc(block, size_of(r));
        } else {
            free(block);
            own[i] = malloc(size_of(r));
        }
        if (own[i] == NULL) CHECK(false);
        *(volatile uint64_t *)own[i] = r;
        atomic_fetch_add_explicit(&allocs[me], 1, memory_order_relaxed);
        if (r % 3 == 0) { /* a stranger's block for one of ours */
            void *theirs = atomic_exchange(&shared[(r >> 20) % SHARED], own[i]);
            own[i] = theirs;
        }
    }
    for (unsigned i = 0; i < OWN; i++)
        free(own[i]);
    return NULL;
}

static void nap(uint64_t *random, unsigned most_us) {
    struct timespec t = {.tv_nsec = (long)(fill_random(random) % most_us) * 1000};
    nanosleep(&t, NULL);
}

static uint64_t allocs_so_far(void) {
    uint64_t sum = 0;
    for (unsigned i = 0; i < WORKERS; i++)
        sum += atomic_load_explicit(&allocs[i], memory_order_relaxed);
    return sum;
}

/* --- what the files say --- */

typedef struct sums {
    int64_t count, bytes; /* live */
    uint64_t allocs;
    int64_t *site_count;
} sums_t;

static void add(void *arg, uint32_t thread, const na_nprof_cell_t *cell) {
    (void)thread;
    sums_t *sums = arg;
    sums->count += (int64_t)(cell->alloc_count - cell->free_count);
    sums->bytes += (int64_t)(cell->alloc_bytes - cell->free_bytes);
    sums->allocs += cell->alloc_count;
    REQUIRE(cell->site < SITES_MAX);
    sums->site_count[cell->site] += (int64_t)(cell->alloc_count - cell->free_count);
}

static sums_t sums_of(const char *path, bool sampled) {
    char error[512];
    sums_t sums = {.site_count = calloc(SITES_MAX, sizeof(int64_t))};
    na_reader_t *reader = na_reader_open(path, error, sizeof error);
    if (reader == NULL) {
        check_say("%s\n", error);
        REQUIRE(reader != NULL);
    }
    na_reader_cells(reader, add, &sums);
    na_reader_stacks(reader);
    const na_nprof_header_t *h = na_reader_header(reader);
    CHECK(h->state == NA_NPROF_CLOSED);
    CHECK(h->lost_events == 0 && h->lost_threads == 0 && h->lost_stacks == 0);
    for (uint32_t i = 0; i < na_reader_issue_count(reader); i++) {
        na_reader_issue_text(reader, i, error, sizeof error);
        check_say("%s: %s\n", path, error);
    }
    CHECK(na_reader_issue_count(reader) == 0);
    for (uint32_t i = 0; i < SITES_MAX; i++)
        if (sums.site_count[i] < 0) check_say("%s: site %u freed more than it had\n", path, i);
    for (uint32_t i = 0; i < SITES_MAX; i++)
        CHECK(sums.site_count[i] >= 0);
    if (!sampled && sums.count > LIVE_MAX)
        check_say("%s: %lld blocks live\n", path, (long long)sums.count);
    CHECK(sums.count >= 0 && (sampled || sums.count <= LIVE_MAX));
    na_reader_close(reader);
    free(sums.site_count);
    sums.site_count = NULL;
    return sums;
}

static char dir[] = "/tmp/profile_toggle.XXXXXX";

/* Reads all files there are, and removes them. */
static unsigned check_files(bool sampled) {
    unsigned count = 0;
    DIR *d = opendir(dir);
    REQUIRE(d != NULL);
    for (struct dirent *e; (e = readdir(d)) != NULL;) {
        if (e->d_name[0] == '.') continue;
        char path[512];
        snprintf(path, sizeof path, "%s/%s", dir, e->d_name);
        sums_of(path, sampled);
        unlink(path);
        count++;
    }
    closedir(d);
    return count;
}

/* While the threads run on, a profile has all but a few of what they did. */
static void check_bound(const char *pattern) {
    uint64_t before = allocs_so_far();
    PATIENTLY(numalloc_record_start(NUMALLOC_MODE_SITES, pattern) == 0);
    uint64_t begun = allocs_so_far();
    struct timespec t = {.tv_nsec = 100 * 1000 * 1000};
    nanosleep(&t, NULL);
    uint64_t end = allocs_so_far();
    REQUIRE(numalloc_record_stop() == 0);
    uint64_t stopped = allocs_so_far();
    sums_t sums = sums_of(pattern, false);
    unlink(pattern);
    /* Two grants: one that it had, one of a slow path that it was in. */
    uint64_t missed = (uint64_t)2 * 256 * CLASSES * WORKERS;
    if (sums.allocs + missed < end - begun || sums.allocs > stopped - before + WORKERS)
        check_say("%llu of %llu to %llu\n", (unsigned long long)sums.allocs,
                  (unsigned long long)(end - begun), (unsigned long long)(stopped - before));
    CHECK(sums.allocs + missed >= end - begun);
    CHECK(sums.allocs <= stopped - before + WORKERS);
}

int main(int argc, char **argv) {
    check_begin();
    const char *mode = argc > 1 ? argv[1] : "sites";
    unsigned switches = argc > 2 ? (unsigned)atoi(argv[2]) : 1000;
    bool sampled = strcmp(mode, "sample") == 0;
    numalloc_mode_t which = sampled                      ? NUMALLOC_MODE_SAMPLE
                            : strcmp(mode, "trace") == 0 ? NUMALLOC_MODE_TRACE
                                                         : NUMALLOC_MODE_SITES;
#ifndef NA_PREFIXED
    if (numalloc_record_start == NULL) check_skip("no numalloc here");
#endif
    REQUIRE(mkdtemp(dir) != NULL);
    char pattern[64];
    snprintf(pattern, sizeof pattern, "%s/p.nprof", dir);

    CHECK(numalloc_record_stop() == -1 && errno == EALREADY);
    CHECK(numalloc_record_dump() == -1 && errno == ENODATA);
    CHECK(numalloc_record_start((numalloc_mode_t)4, pattern) == -1 && errno == EINVAL);

    pthread_t threads[WORKERS];
    for (uintptr_t i = 0; i < WORKERS; i++)
        REQUIRE(pthread_create(&threads[i], NULL, work, (void *)i) == 0);
    uint64_t random = 99;
    unsigned files = 0, dumps = 0;
    for (unsigned i = 0; i < switches; i++) {
        nap(&random, 300);
        CHECK(!numalloc_record_is_running());
        PATIENTLY(numalloc_record_start(which, pattern) == 0);
        CHECK(numalloc_record_is_running());
        CHECK(numalloc_record_start(which, pattern) == -1 && errno == EALREADY);
        nap(&random, 300);
        if (i % 8 == 0) {
            PATIENTLY(numalloc_record_dump() == 0);
            dumps++;
            nap(&random, 100);
        }
        REQUIRE(numalloc_record_stop() == 0);
        if (i % 50 == 49) files += check_files(sampled);
    }
    files += check_files(sampled);
    CHECK(files == switches + dumps);
    if (strcmp(mode, "sites") == 0) check_bound(pattern);
    atomic_store(&over, true);
    for (unsigned i = 0; i < WORKERS; i++)
        pthread_join(threads[i], NULL);
    for (unsigned i = 0; i < SHARED; i++)
        free(shared[i]);
    rmdir(dir);
    return check_status();
}
