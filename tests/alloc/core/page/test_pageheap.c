/* test_pageheap.c - bitmaps, regions, the page heap and purging, in a process of their own: the
 * sources under test are linked in directly, so that no malloc of ours uses the same page heap. */
#include <criterion/criterion.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "alloc/core/machine/topology.h"
#include "alloc/core/page/free_pages.h"
#include "alloc/core/page/pageheap.h"
#include "alloc/core/page/scavenge_policy.h"
#include "alloc/core/sys/os.h"
#include "alloc/core/sys/reserve.h"
#include "alloc/options/options_read.h"

#define MIB ((size_t)1 << 20)

/* --- random numbers (xorshift): the same in every run --- */

static uint64_t random_next(uint64_t *state) {
    *state ^= *state << 13;
    *state ^= *state >> 7;
    *state ^= *state << 17;
    return *state;
}

static uint32_t random_below(uint64_t *state, uint32_t n) {
    return (uint32_t)(random_next(state) >> 33) % n;
}

/* --- start-up: options of a test are given before it touches the page heap --- */

static void start(const char *option, const char *value) {
    if (option) setenv(option, value, 1);
    na_os_init();
    na_options_init();
    na_topology_init(NULL, NULL);
}

static size_t rss(void) {
    char text[128];
    long n = na_os_read_file("/proc/self/statm", text, sizeof text);
    cr_assert_gt(n, 0);
    unsigned long total, resident;
    cr_assert_eq(sscanf(text, "%lu %lu", &total, &resident), 2);
    return resident * na_os_page;
}

static size_t mappings(void) {
    FILE *maps = fopen("/proc/self/maps", "r");
    cr_assert_not_null(maps);
    size_t lines = 0;
    for (int c; (c = fgetc(maps)) != EOF;)
        lines += c == '\n';
    fclose(maps);
    return lines;
}

static na_pageheap_stats_t stats_of(unsigned node) {
    na_pageheap_stats_t stats;
    na_pageheap_get_stats(node, &stats);
    return stats;
}

static uintptr_t must_alloc(uint32_t pages) {
    bool zeroed;
    uintptr_t run = na_pageheap_alloc(0, pages, 1, &zeroed);
    cr_assert_neq(run, 0, "no %u pages", pages);
    return run;
}

static void fill(uintptr_t run, uint32_t pages) {
    memset((void *)run, 0xa5, (size_t)pages << NA_PAGE_SHIFT);
}

/* --- bitmaps against bytes --- */

static void to_bytes(na_bits_t b, unsigned char bytes[NA_BITS]) {
    for (unsigned i = 0; i < NA_BITS; i++)
        bytes[i] = b.w[i / 64] >> (i % 64) & 1;
}

static na_bits_t random_bits(uint64_t *state) {
    na_bits_t b = {{0, 0, 0, 0}};
    switch (random_below(state, 4)) {
    case 0: /* noise */
        for (unsigned i = 0; i < 4; i++)
            b.w[i] = random_next(state);
        break;
    case 1: /* dense noise: long runs are rare */
        for (unsigned i = 0; i < 4; i++)
            b.w[i] = random_next(state) | random_next(state) | random_next(state);
        break;
    default: /* a few long ranges */
        for (unsigned i = random_below(state, 8); i > 0; i--) {
            unsigned from = random_below(state, NA_BITS);
            na_bits_set(&b, from, 1 + random_below(state, NA_BITS - from));
        }
    }
    return b;
}

Test(bits, agree_with_bytes) {
    uint64_t state = 88172645463325252u;
    for (unsigned round = 0; round < 20000; round++) {
        na_bits_t b = random_bits(&state);
        unsigned char bytes[NA_BITS];
        to_bytes(b, bytes);

        unsigned longest = 0, run = 0;
        for (unsigned i = 0; i < NA_BITS; i++) {
            run = bytes[i] ? run + 1 : 0;
            if (run > longest) longest = run;
        }
        cr_assert_eq(na_bits_longest(b), longest);

        unsigned from = random_below(&state, NA_BITS);
        unsigned n = 1 + random_below(&state, NA_BITS - from);
        unsigned count = 0;
        for (unsigned i = from; i < from + n; i++)
            count += bytes[i];
        cr_assert_eq(na_bits_count(&b, from, n), count);
        cr_assert_eq(na_bits_any(&b, from, n), count != 0);

        unsigned next = from;
        while (next < NA_BITS && !bytes[next])
            next++;
        cr_assert_eq(na_bits_next(&b, from), next);
        cr_assert_eq(na_bits_gap_after(&b, from), next - from);
        unsigned before = from;
        while (before > 0 && !bytes[before - 1])
            before--;
        cr_assert_eq(na_bits_gap_before(&b, from), from - before);

        unsigned align = 1u << random_below(&state, 9);
        unsigned want = 1 + random_below(&state, longest ? longest + 2 : 4), at;
        if (want > NA_BITS) want = NA_BITS;
        for (at = 0; at + want <= NA_BITS; at += align)
            if (!memchr(bytes + at, 0, want)) break;
        if (at + want > NA_BITS) at = NA_BITS_NONE;
        cr_assert_eq(na_bits_find_run(b, want, align), at, "run of %u, aligned to %u", want, align);

        na_bits_t set = b, clear = b;
        na_bits_set(&set, from, n);
        na_bits_clear(&clear, from, n);
        for (unsigned i = 0; i < NA_BITS; i++) {
            bool in = i >= from && i < from + n;
            cr_assert_eq(set.w[i / 64] >> (i % 64) & 1, in || bytes[i]);
            cr_assert_eq(clear.w[i / 64] >> (i % 64) & 1, !in && bytes[i]);
        }
    }
}

Test(bits, extremes) {
    na_bits_t none = {{0, 0, 0, 0}}, all = na_bits_not(none);
    cr_assert_eq(na_bits_longest(none), 0);
    cr_assert_eq(na_bits_longest(all), NA_BITS);
    cr_assert_eq(na_bits_find_run(all, NA_BITS, NA_BITS), 0);
    cr_assert_eq(na_bits_find_run(none, 1, 1), NA_BITS_NONE);
    cr_assert_eq(na_bits_next(&all, NA_BITS), NA_BITS_NONE);
    cr_assert_eq(na_bits_gap_before(&none, NA_BITS), NA_BITS);
    na_bits_clear(&all, 128, 1);
    cr_assert_eq(na_bits_longest(all), 128);
}

/* --- random storms, each run stamped with its own number --- */

typedef struct run {
    uintptr_t start;
    uint32_t pages;
    uint64_t stamp;
} run_t;

#define RUNS 600u

static void stamp(const run_t *run, uint32_t from) {
    for (uint32_t i = from; i < run->pages; i++) {
        uint64_t *page = (uint64_t *)(run->start + ((uintptr_t)i << NA_PAGE_SHIFT));
        page[0] = page[NA_PAGE_SIZE / 8 - 1] = run->stamp + i;
        page[512] = ~run->stamp;
    }
}

static bool stamped(const run_t *run) {
    for (uint32_t i = 0; i < run->pages; i++) {
        uint64_t *page = (uint64_t *)(run->start + ((uintptr_t)i << NA_PAGE_SHIFT));
        if (page[0] != run->stamp + i || page[NA_PAGE_SIZE / 8 - 1] != run->stamp + i ||
            page[512] != ~run->stamp)
            return false;
    }
    return true;
}

/* The places that stamp() writes are where a lie would show. */
static bool reads_zero(uintptr_t start_, uint32_t pages) {
    for (uint32_t i = 0; i < pages; i++) {
        uint64_t *page = (uint64_t *)(start_ + ((uintptr_t)i << NA_PAGE_SHIFT));
        if (page[0] || page[512] || page[NA_PAGE_SIZE / 8 - 1]) return false;
    }
    return true;
}

static uint32_t random_pages(uint64_t *state) {
    uint32_t kind = random_below(state, 100);
    if (kind < 60) return 1 + random_below(state, 4);
    if (kind < 90) return 1 + random_below(state, 64);
    if (kind < 98) return 1 + random_below(state, 300);
    return 1 + random_below(state, 2000);
}

/* Counts what went wrong instead of asserting: it also runs in threads. */
static unsigned storm(uint64_t seed, unsigned rounds, size_t *pages_left) {
    uint64_t state = seed * 0x9e3779b97f4a7c15u + 1, number = seed << 40;
    run_t *runs = calloc(RUNS, sizeof *runs);
    unsigned wrong = 0;
    for (unsigned round = 0; round < rounds; round++) {
        run_t *run = &runs[random_below(&state, RUNS)];
        uint32_t what = random_below(&state, 1000);
        bool zeroed = false;
        if (!run->start) {
            run->pages = random_pages(&state);
            uint32_t align = random_below(&state, 4) ? 1 : 1u << random_below(&state, 9);
            run->start = na_pageheap_alloc(0, run->pages, align, &zeroed);
            if (!run->start) {
                wrong++;
                continue;
            }
            run->stamp = number += 1 << 16;
            wrong += run->start % (align * NA_PAGE_SIZE) != 0;
            wrong += zeroed && !reads_zero(run->start, run->pages);
            wrong += na_pageheap_node_of(run->start) != 0;
            stamp(run, 0);
        } else if (what < 200) {
            uint32_t extra = random_pages(&state);
            if (na_pageheap_extend(0, run->start, run->pages, extra, &zeroed)) {
                wrong += zeroed &&
                         !reads_zero(run->start + ((uintptr_t)run->pages << NA_PAGE_SHIFT), extra);
                uint32_t old = run->pages;
                run->pages += extra;
                stamp(run, old);
            }
        } else if (what < 300 && run->pages > 1) { /* give back the end only */
            uint32_t cut = 1 + random_below(&state, run->pages - 1);
            wrong += !stamped(run);
            run->pages -= cut;
            na_pageheap_free(0, run->start + ((uintptr_t)run->pages << NA_PAGE_SHIFT), cut);
        } else {
            wrong += !stamped(run);
            na_pageheap_free(0, run->start, run->pages);
            run->start = 0;
        }
        if (what == 999) na_pageheap_trim(0, random_below(&state, 8) * MIB);
        if (what >= 995) na_pageheap_tick(0, na_os_ms() + random_below(&state, 1000));
    }
    for (unsigned i = 0; i < RUNS; i++)
        if (runs[i].start) {
            wrong += !stamped(&runs[i]);
            *pages_left += runs[i].pages;
        }
    for (unsigned i = 0; i < RUNS; i++)
        if (runs[i].start) na_pageheap_free(0, runs[i].start, runs[i].pages);
    free(runs);
    return wrong;
}

/* A quarter of `full`, but in the nightly script. */
static unsigned rounds(unsigned full) {
    const char *scale = getenv("TEST_SCALE");
    return scale != NULL && strcmp(scale, "full") == 0 ? full : full / 4;
}

Test(pageheap, storm) {
    start(NULL, NULL);
    size_t left = 0;
    cr_assert_eq(storm(1, rounds(20000), &left), 0);
    na_pageheap_stats_t stats = stats_of(0);
    cr_assert_eq(stats.used, 0);
    cr_assert_eq(stats.regions, 1);
    na_pageheap_trim(0, 0);
    cr_assert_eq(stats_of(0).dirty, 0);
    /* Everything coalesced: the longest run comes out of memory that is accessible already. */
    uint32_t all = (uint32_t)(stats.committed >> NA_PAGE_SHIFT);
    all = all > NA_RUN_MAX_PAGES ? NA_RUN_MAX_PAGES : all;
    bool zeroed;
    uintptr_t run = na_pageheap_alloc(0, all, 1, &zeroed);
    cr_assert(run && zeroed);
    cr_assert_eq(stats_of(0).committed, stats.committed);
}

Test(pageheap, storm_purging_at_once) {
    start("NUMALLOC_PURGE_DELAY", "0");
    size_t left = 0;
    cr_assert_eq(storm(2, rounds(6000), &left), 0);
    cr_assert_eq(stats_of(0).dirty, 0);
    cr_assert_eq(stats_of(0).used, 0);
    cr_assert_gt(stats_of(0).purged, 0);
}

static unsigned storm_wrong[4];

static void *storm_thread(void *argument) {
    size_t left = 0, i = (size_t)argument;
    storm_wrong[i] = storm(10 + i, rounds(4000), &left);
    return NULL;
}

Test(pageheap, storm_in_threads) {
    start(NULL, NULL);
    pthread_t threads[4];
    for (size_t i = 0; i < 4; i++)
        cr_assert_eq(pthread_create(&threads[i], NULL, storm_thread, (void *)i), 0);
    for (size_t i = 0; i < 4; i++) {
        pthread_join(threads[i], NULL);
        cr_assert_eq(storm_wrong[i], 0);
    }
    cr_assert_eq(stats_of(0).used, 0);
}

/* --- placing --- */

Test(pageheap, small_steps_first) {
    start(NULL, NULL);
    must_alloc(1);
    cr_assert_eq(stats_of(0).committed, 128 << 10);
    must_alloc(16);
    cr_assert_eq(stats_of(0).committed, 256 << 10);
}

Test(pageheap, fullest_hugepage_is_filled) {
    start(NULL, NULL);
    uintptr_t a = must_alloc(NA_HUGE_PAGES), b = must_alloc(NA_HUGE_PAGES);
    na_pageheap_free(0, a, 100); /* a: a hole of 100; b: one of 20 */
    na_pageheap_free(0, b + 50 * NA_PAGE_SIZE, 20);
    bool zeroed;
    uintptr_t run = na_pageheap_alloc(0, 20, 1, &zeroed);
    cr_assert_eq(run, b + 50 * NA_PAGE_SIZE);
    cr_assert_not(zeroed);
    cr_assert_eq(must_alloc(21), a);
}

Test(pageheap, extend) {
    start(NULL, NULL);
    bool zeroed;
    uintptr_t run = must_alloc(10);
    uintptr_t next = must_alloc(10);
    cr_assert_eq(next, run + 10 * NA_PAGE_SIZE);
    cr_assert_not(na_pageheap_extend(0, run, 10, 1, &zeroed));
    fill(next, 10);
    na_pageheap_free(0, next, 10);
    cr_assert(na_pageheap_extend(0, run, 10, 4, &zeroed));
    cr_assert_not(zeroed);
    /* over the frontier, across hugepages, up to the longest run and not further */
    cr_assert(na_pageheap_extend(0, run, 14, 1000, &zeroed));
    cr_assert(na_pageheap_extend(0, run, 1014, NA_RUN_MAX_PAGES - 1014, &zeroed));
    cr_assert(zeroed);
    fill(run, NA_RUN_MAX_PAGES);
    cr_assert_not(na_pageheap_extend(0, run, NA_RUN_MAX_PAGES, 1, &zeroed));
    cr_assert_eq(stats_of(0).used, (uint64_t)NA_RUN_MAX_PAGES << NA_PAGE_SHIFT);
    na_pageheap_free(0, run, NA_RUN_MAX_PAGES);
    cr_assert_eq(stats_of(0).used, 0);
}

Test(pageheap, lookup) {
    start(NULL, NULL);
    uintptr_t run = must_alloc(300);
    cr_assert_eq(na_pageheap_node_of(run + 299 * NA_PAGE_SIZE + 5), 0);
    cr_assert_eq(na_pageheap_node_of((uintptr_t)&run), NA_NO_NODE);
    cr_assert_eq(na_pageheap_node_of((uintptr_t)start), NA_NO_NODE);
    cr_assert_eq(na_pageheap_node_of(UINTPTR_MAX), NA_NO_NODE);
    cr_assert_eq(na_pageheap_node_of(0), NA_NO_NODE);
    bool zeroed;
    uintptr_t loose = na_pageheap_alloc(NA_NODE_ANY, 1, 1, &zeroed);
    cr_assert_eq(na_pageheap_node_of(loose), NA_NODE_ANY);
    cr_assert_not(stats_of(NA_NODE_ANY).bound);
}

Test(pageheap, second_region_and_mappings) {
    start("NUMALLOC_REGION_SIZE", "128M");
    size_t before = mappings();
    uint64_t state = 5;
    enum { N = 4000 };
    static uintptr_t runs[N];
    static uint32_t pages[N];
    for (unsigned i = 0; i < N; i++) { /* about 1 GiB */
        pages[i] = 1 + random_below(&state, 64);
        runs[i] = must_alloc(pages[i]);
        *(char *)runs[i] = 1;
    }
    for (unsigned i = 0; i < N; i += 2)
        na_pageheap_free(0, runs[i], pages[i]);
    na_pageheap_trim(0, 0);
    na_pageheap_stats_t stats = stats_of(0);
    cr_assert_gt(stats.regions, 5);
    cr_assert_geq(stats.reserved, stats.committed);
    cr_assert_leq(stats.reserved, stats.regions * 128 * MIB);
    cr_assert_leq(stats.reserved, stats.committed + stats.committed / 16 + 16 * MIB);
    cr_assert_leq(mappings(), before + 3 * stats.regions + 8);
    for (unsigned i = 1; i < N; i += 2)
        na_pageheap_free(0, runs[i], pages[i]);
    cr_assert_eq(stats_of(0).used, 0);
}

Test(pageheap, given_back_twice, .signal = SIGABRT) {
    start(NULL, NULL);
    uintptr_t run = must_alloc(4);
    na_pageheap_free(0, run, 4);
    na_pageheap_free(0, run + NA_PAGE_SIZE, 1);
}

/* --- giving back to the system --- */

/* Where the kernel gives huge pages, pages that were never used hold memory too. */
Test(purge, a_huge_page_goes_back_whole) {
    start("NUMALLOC_HUGEPAGES", "always");
    enum { HUGE = 60, UNUSED = 6 };
    uintptr_t run = must_alloc(HUGE * NA_HUGE_PAGES); /* makes it accessible, without a touch */
    na_pageheap_free(0, run, HUGE * NA_HUGE_PAGES);
    na_pageheap_trim(0, 0);
    size_t before = rss();
    uintptr_t runs[HUGE];
    for (unsigned i = 0; i < HUGE; i++)
        *(char *)(runs[i] = must_alloc(NA_HUGE_PAGES - UNUSED)) = 1;
    if (rss() - before < HUGE * MIB) cr_skip_test("the kernel gives no huge pages here");
    for (unsigned i = 0; i < HUGE; i++)
        na_pageheap_free(0, runs[i], NA_HUGE_PAGES - UNUSED);
    na_pageheap_trim(0, 0);
    cr_assert_lt(rss(), before + MIB, "%u pages of each were never used", UNUSED);
}

Test(purge, trim_gives_memory_back) {
    start(NULL, NULL);
    uintptr_t run = must_alloc(2048), keep = must_alloc(2048), odd = must_alloc(2048);
    fill(run, 2048);
    fill(keep, 2048);
    fill(odd, 2048);
    size_t full = rss();
    /* Small pieces, below the cap: nothing is purged before trim. */
    for (unsigned i = 0; i < 512; i++)
        na_pageheap_free(0, odd + (4 * i + 1) * NA_PAGE_SIZE, 1);
    na_pageheap_free(0, run, 300);
    cr_assert_eq(stats_of(0).dirty, 812 * NA_PAGE_SIZE);
    cr_assert_gt(rss(), full - MIB);

    cr_assert_geq(na_pageheap_trim(0, 2 * MIB), 812 * NA_PAGE_SIZE - 2 * MIB);
    cr_assert_leq(stats_of(0).dirty, 2 * MIB);
    na_pageheap_trim(0, 0);
    cr_assert_eq(stats_of(0).dirty, 0);
    cr_assert_eq(stats_of(0).purged, 812 * NA_PAGE_SIZE);
    cr_assert_leq(rss(), full - 812 * NA_PAGE_SIZE + MIB);
    /* Only what was free has gone. */
    for (unsigned i = 0; i < 2048; i++)
        cr_assert_eq(*(unsigned char *)(odd + i * NA_PAGE_SIZE), i % 4 == 1 ? 0 : 0xa5);
    bool zeroed;
    cr_assert(na_pageheap_alloc(0, 1, 1, &zeroed));
    cr_assert(zeroed);
}

Test(purge, by_age) {
    start("NUMALLOC_PURGE_DELAY", "700");
    uintptr_t a = must_alloc(256), b = must_alloc(256);
    fill(a, 256);
    fill(b, 256);
    uint64_t now = na_os_ms();
    na_pageheap_tick(0, now);
    na_pageheap_free(0, a, 256);
    na_pageheap_free(0, b, 10);
    uint64_t dirty = 266 * NA_PAGE_SIZE;
    na_pageheap_tick(0, now + 600);
    cr_assert_eq(stats_of(0).dirty, dirty, "purged too early");
    na_pageheap_tick(0, now + 1000);
    cr_assert_eq(stats_of(0).dirty, 0);
    cr_assert_eq(stats_of(0).purged, dirty);

    /* What is freed later stays when the earlier goes. */
    na_pageheap_free(0, b + 20 * NA_PAGE_SIZE, 10); /* at about now + 1000 */
    uint64_t then = na_os_ms() + 2000;
    na_pageheap_tick(0, then);
    na_pageheap_free(0, b + 200 * NA_PAGE_SIZE, 1);
    uintptr_t c = must_alloc(256);
    fill(c, 256);
    na_pageheap_free(0, c, 1);
    na_pageheap_tick(0, then + 699);
    cr_assert_eq(stats_of(0).dirty, 2 * NA_PAGE_SIZE);
    na_pageheap_tick(0, then + 701);
    cr_assert_eq(stats_of(0).dirty, 0);
}

/* A program that frees everything and then sleeps keeps no more than the cap. */
Test(purge, beyond_the_cap) {
    start(NULL, NULL);
    enum { N = 64 };
    uintptr_t runs[N];
    for (unsigned i = 0; i < N; i++)
        fill(runs[i] = must_alloc(NA_HUGE_PAGES), NA_HUGE_PAGES);
    for (unsigned i = 0; i < N; i++)
        na_pageheap_free(0, runs[i], NA_HUGE_PAGES);
    cr_assert_leq(stats_of(0).dirty, NA_PURGE_CAP_BASE);
    cr_assert_geq(stats_of(0).purged, N * NA_HUGE_SIZE - NA_PURGE_CAP_BASE);
}

/* One that works in waves soon keeps the memory of a wave, in small runs or in one long run. */
static void waves(uint32_t pages, unsigned n) {
    static uintptr_t runs[32];
    uint64_t purged = 0, last = 0;
    for (unsigned wave = 0; wave < 12; wave++) {
        for (unsigned i = 0; i < n; i++)
            fill(runs[i] = must_alloc(pages), pages);
        for (unsigned i = 0; i < n; i++)
            na_pageheap_free(0, runs[i], pages);
        last = stats_of(0).purged - purged;
        purged += last;
    }
    cr_assert_gt(purged, 0);
    cr_assert_eq(last, 0, "still purging %zu KiB a wave", (size_t)last >> 10);
}

Test(purge, the_cap_learns) {
    start(NULL, NULL);
    waves(255, 32);
}

Test(purge, the_cap_learns_long_runs) {
    start(NULL, NULL);
    waves(32 * NA_HUGE_PAGES, 1);
}

/* The system refuses to purge locked memory: it stays dirty, and nothing hangs. */
Test(purge, locked_memory) {
    start(NULL, NULL);
    uintptr_t run = must_alloc(256);
    fill(run, 256);
    /* The raw call: the sanitizers replace mlock by nothing. */
    if (syscall(SYS_mlock, run, 4 * NA_PAGE_SIZE) != 0) cr_skip_test("mlock is not allowed here");
    na_pageheap_free(0, run, 256);
    cr_assert_eq(na_pageheap_trim(0, 0), 0);
    cr_assert_eq(stats_of(0).dirty, 256 * NA_PAGE_SIZE);
    na_pageheap_tick(0, na_os_ms() + 5000);
    cr_assert_eq(stats_of(0).dirty, 256 * NA_PAGE_SIZE);
    cr_assert_eq(syscall(SYS_munlock, run, 4 * NA_PAGE_SIZE), 0);
    na_pageheap_tick(0, na_os_ms() + 10000);
    cr_assert_eq(stats_of(0).dirty, 0);
}

/* --- limits --- */

Test(pageheap, heap_limit) {
    start(NULL, NULL);
    na_limit = 4 * MIB;
    bool zeroed;
    uintptr_t run = must_alloc(500);
    cr_assert_eq(na_pageheap_alloc(0, 13, 1, &zeroed), 0);
    cr_assert_not(na_pageheap_extend(0, run, 500, 13, &zeroed));
    cr_assert(na_pageheap_extend(0, run, 500, 12, &zeroed));
    cr_assert_not(na_limit_charge(1));
    na_pageheap_free(0, run, 256);
    cr_assert(na_limit_charge(2 * MIB));
    cr_assert_eq(na_pageheap_alloc(0, 1, 1, &zeroed), 0);
    na_limit_release(2 * MIB);
    must_alloc(256);
    cr_assert_eq(na_pageheap_alloc(0, NA_RUN_MAX_PAGES + 1, 1, &zeroed), 0);
}

static void limit_address_space(size_t more) {
    char text[128];
    unsigned long total;
    cr_assert_gt(na_os_read_file("/proc/self/statm", text, sizeof text), 0);
    cr_assert_eq(sscanf(text, "%lu", &total), 1);
    struct rlimit limit = {total * na_os_page + more, RLIM_INFINITY};
    struct rlimit old;
    cr_assert_eq(getrlimit(RLIMIT_AS, &old), 0);
    limit.rlim_max = old.rlim_max; /* so that it can be lifted again */
    cr_assert_eq(setrlimit(RLIMIT_AS, &limit), 0);
}

/* Regions take as little as needed; nearly all of the address space can be used; after a refusal
 * everything goes on. */
Test(pageheap, address_space_runs_out) {
    start(NULL, NULL);
    limit_address_space(300 * MIB);
    enum { N = 8192 };
    static uintptr_t runs[N];
    bool zeroed;
    unsigned n = 0;
    while (n < N && (runs[n] = na_pageheap_alloc(0, 16, 1, &zeroed)) != 0) {
        *(char *)runs[n] = 1;
        n++;
    }
    cr_assert_lt(n, N);
    cr_assert_gt(n * 16 * NA_PAGE_SIZE, 280 * MIB);
    na_pageheap_stats_t stats = stats_of(0);
    cr_assert_lt(stats.regions, 100);
    for (unsigned i = 0; i < n; i += 2)
        na_pageheap_free(0, runs[i], 16);
    for (unsigned i = 0; i < n; i += 2)
        cr_assert_neq(runs[i] = na_pageheap_alloc(0, 16, 1, &zeroed), 0);
    cr_assert_eq(na_pageheap_alloc(0, 1024, 1, &zeroed), 0);
    for (unsigned i = 0; i < n; i++)
        na_pageheap_free(0, runs[i], 16);
    cr_assert_neq(na_pageheap_alloc(0, 1024, 1, &zeroed), 0);
}

/* The system refuses memory, not address space (as with strict overcommit): the frontier goes on in
 * the steps that are needed, to the last page that the limit allows, and no new regions are made.
 */
Test(pageheap, memory_is_refused) {
    start(NULL, NULL);
    must_alloc(3 * NA_HUGE_PAGES); /* so that the steps are large */
    char text[8192];
    cr_assert_gt(na_os_read_file("/proc/self/status", text, sizeof text), 0);
    const char *field = strstr(text, "VmData:");
    cr_assert_not_null(field);
    struct rlimit limit;
    cr_assert_eq(getrlimit(RLIMIT_DATA, &limit), 0);
    limit.rlim_cur = (strtoul(field + 7, NULL, 10) << 10) + MIB + MIB / 2;
    cr_assert_eq(setrlimit(RLIMIT_DATA, &limit), 0);
    uint64_t before = stats_of(0).used;
    bool zeroed;
    uintptr_t run, last = 0;
    while ((run = na_pageheap_alloc(0, 2, 1, &zeroed)) != 0) {
        last = run;
        *(char *)run = 1;
    }
    cr_assert_geq(stats_of(0).used - before, MIB + MIB / 4);
    cr_assert_eq(stats_of(0).regions, 1);
    cr_assert_not(na_pageheap_extend(0, last, 2, 2, &zeroed));
    na_pageheap_free(0, last, 2);
    cr_assert_eq(na_pageheap_alloc(0, 2, 1, &zeroed), last);
    limit.rlim_cur = limit.rlim_max;
    cr_assert_eq(setrlimit(RLIMIT_DATA, &limit), 0);
    cr_assert_neq(na_pageheap_alloc(0, 2048, 1, &zeroed), 0);
}

/* --- several nodes: the tables of a machine made of files, on this machine's memory --- */

static void put_file(const char *root, const char *path, const char *text) {
    char full[512];
    snprintf(full, sizeof full, "%s/%s", root, path);
    for (char *slash = full + strlen(root) + 1; (slash = strchr(slash, '/')); slash++) {
        *slash = 0;
        mkdir(full, 0755);
        *slash = '/';
    }
    FILE *file = fopen(full, "w");
    cr_assert_not_null(file);
    fputs(text, file);
    fclose(file);
}

Test(pageheap, strays_come_from_the_nearest_node) {
    char root[] = "/tmp/numalloc-nodes-XXXXXX";
    cr_assert_not_null(mkdtemp(root));
    put_file(root, "devices/system/node/online", "0-2\n");
    put_file(root, "devices/system/node/possible", "0-2\n");
    put_file(root, "devices/system/node/has_memory", "0-2\n");
    put_file(root, "devices/system/node/has_cpu", "0-2\n");
    put_file(root, "devices/system/node/node0/cpulist", "0\n");
    put_file(root, "devices/system/node/node1/cpulist", "1\n");
    put_file(root, "devices/system/node/node2/cpulist", "2\n");
    put_file(root, "devices/system/node/node0/distance", "10 30 20\n");
    put_file(root, "devices/system/node/node1/distance", "30 10 20\n");
    put_file(root, "devices/system/node/node2/distance", "20 20 10\n");
    put_file(root, "self/status", "Mems_allowed:\t00000000,00000007\nMems_allowed_list:\t0-2\n");
    na_os_init();
    na_options_init();
    na_topology_init(root, root);
    cr_assert_eq(na_node_count, 3);

    bool zeroed;
    uintptr_t far = na_pageheap_alloc(1, 64, 1, &zeroed);
    uintptr_t near = na_pageheap_alloc(2, 64, 1, &zeroed);
    cr_assert_eq(na_pageheap_node_of(far), 1);
    cr_assert_eq(na_pageheap_node_of(near), 2);
    na_pageheap_free(1, far, 64);
    na_pageheap_free(2, near, 64);
    na_reserve_give_back(); /* else they would have it for node 0 */
    limit_address_space(0);
    uintptr_t run = na_pageheap_alloc(0, 64, 1, &zeroed);
    cr_assert_eq(na_pageheap_node_of(run), 2);
    cr_assert_eq(stats_of(0).strays, 64 * NA_PAGE_SIZE);
    cr_assert_eq(stats_of(0).used, 0);
    cr_assert_eq(stats_of(2).used, 64 * NA_PAGE_SIZE);
    na_pageheap_free(2, run, 64);
    char command[600];
    struct rlimit limit;
    cr_assert_eq(getrlimit(RLIMIT_AS, &limit), 0);
    limit.rlim_cur = limit.rlim_max;
    cr_assert_eq(setrlimit(RLIMIT_AS, &limit), 0);
    snprintf(command, sizeof command, "rm -rf %s", root);
    if (system(command) != 0) cr_log_warn("%s is left behind", root);
}

/* --- a forked child goes on alone --- */

static _Atomic(bool) stop;

static void *churn(void *unused) {
    (void)unused;
    while (!stop)
        na_pageheap_free(0, must_alloc(3), 3);
    return NULL;
}

Test(pageheap, forked_child) {
    start(NULL, NULL);
    uintptr_t run = must_alloc(5);
    fill(run, 5);
    pid_t pid = fork();
    cr_assert_geq(pid, 0);
    if (pid == 0) {
        na_pageheap_after_fork_child();
        na_pageheap_free(0, run, 5);
        pthread_t thread;
        if (pthread_create(&thread, NULL, churn, NULL) != 0) _exit(2);
        for (unsigned i = 0; i < 1000; i++)
            na_pageheap_free(0, must_alloc(300), 300);
        stop = true;
        pthread_join(thread, NULL);
        _exit(stats_of(0).used == 0 ? 0 : 1);
    }
    int status;
    cr_assert_eq(waitpid(pid, &status, 0), pid);
    cr_assert(WIFEXITED(status) && WEXITSTATUS(status) == 0);
    cr_assert_eq(stats_of(0).used, 5 * NA_PAGE_SIZE);
}
