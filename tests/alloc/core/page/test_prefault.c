/* test_prefault.c - backing.c: populating new memory and asking for huge pages; the page heap
 * alone, as in test_pageheap.c. What the system says of huge pages is given, its calls are counted.
 */
#include <criterion/criterion.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include "alloc/core/machine/topology.h"
#include "alloc/core/page/backing.h"
#include "alloc/core/page/free_pages.h"
#include "alloc/core/page/purge.h"
#include "alloc/core/page/scavenge_policy.h"
#include "alloc/core/sys/os.h"
#include "alloc/core/sys/reserve.h"
#include "alloc/core/sys/thread.h"
#include "alloc/options/options_read.h"

#define MIB       ((size_t)1 << 20)
#define RUN_PAGES 4u
#define THREAD    ((size_t)NA_PREFAULT_THREAD << NA_PAGE_SHIFT)
#define LARGE     (NA_SPARE_PART * NA_HUGE_SIZE) /* from here on a huge page is not too much */

/* --- the system --- */

long __real_na_os_ask_file(const char *path, char *buffer, size_t size);
long __wrap_na_os_ask_file(const char *path, char *buffer, size_t size);
void __real_na_os_hugepage(void *start, size_t size, bool on);
void __wrap_na_os_hugepage(void *start, size_t size, bool on);
bool __real_na_os_populate(void *start, size_t size);
bool __wrap_na_os_populate(void *start, size_t size);

static const char *granted = "always [madvise] never\n"; /* NULL: there is no such file */
static unsigned looks;                                   /* at it */
static bool refuses;
static unsigned populated, asked, taken_back; /* calls */
static size_t populated_bytes, asked_bytes;
static uintptr_t asked_at;

long __wrap_na_os_ask_file(const char *path, char *buffer, size_t size) {
    if (strstr(path, "transparent_hugepage") == NULL)
        return __real_na_os_ask_file(path, buffer, size);
    looks++;
    if (granted == NULL) return -2;
    strncpy(buffer, granted, size - 1);
    return (long)strlen(granted);
}

void __wrap_na_os_hugepage(void *start, size_t size, bool on) {
    if (on) {
        asked++;
        asked_bytes += size;
        asked_at = (uintptr_t)start;
    } else {
        taken_back++;
    }
    __real_na_os_hugepage(start, size, on);
}

bool __wrap_na_os_populate(void *start, size_t size) {
    populated++;
    populated_bytes += size;
    return !refuses && __real_na_os_populate(start, size);
}

/* --- --- */

static void start(const char *option, const char *value) {
    if (option != NULL) setenv(option, value, 1);
    na_os_init();
    na_options_init();
    na_reserve_init(na_option(NA_OPT_CGROUPS) != NA_CGROUPS_IGNORE,
                    na_option(NA_OPT_HUGEPAGES) == NA_HUGE_ALWAYS);
    na_topology_init(NULL, NULL);
}

static uintptr_t must_alloc(uint32_t pages) {
    bool zeroed;
    uintptr_t run = na_pageheap_alloc(0, pages, 1, &zeroed);
    cr_assert_neq(run, 0, "no %u pages", pages);
    return run;
}

static uintptr_t must_alloc_filled(uint32_t pages) {
    bool zeroed;
    uintptr_t run = na_pageheap_alloc_filled(0, pages, &zeroed);
    cr_assert_neq(run, 0, "no %u pages", pages);
    return run;
}

/* Spans of small blocks of so many bytes in all, each written to as blocks would be. */
static void grow(size_t bytes) {
    for (size_t done = 0; done < bytes; done += RUN_PAGES * NA_PAGE_SIZE)
        memset((void *)must_alloc_filled(RUN_PAGES), 1, RUN_PAGES * NA_PAGE_SIZE);
}

static size_t dirty(void) {
    na_pageheap_stats_t stats;
    na_pageheap_get_stats(0, &stats);
    return stats.dirty;
}

static size_t used(void) {
    na_pageheap_stats_t stats;
    na_pageheap_get_stats(0, &stats);
    return stats.used;
}

/* What is ahead of use has its bound at every moment. */
static void grow_within_bounds(size_t bytes) {
    for (size_t done = 0; done < bytes; done += 256 << 10) {
        grow(256 << 10);
        cr_assert_leq(dirty(), used() / NA_SPARE_PART, "%zu ahead of %zu", dirty(), used());
    }
}

static bool is_resident(uintptr_t start, size_t bytes) {
    for (size_t at = 0; at < bytes; at += na_os_page)
        if (!na_os_is_resident((const void *)(start + at))) return false;
    return true;
}

static size_t faults(void) {
    struct rusage usage;
    getrusage(RUSAGE_SELF, &usage);
    return (size_t)usage.ru_minflt;
}

static bool gives_huge_pages(void) {
    char *start = na_os_reserve(NA_HUGE_SIZE, NA_HUGE_SIZE);
    cr_assert(start != NULL && na_os_commit(start, NA_HUGE_SIZE));
    __real_na_os_hugepage(start, NA_HUGE_SIZE, true);
    *start = 1;
    return is_resident((uintptr_t)start, NA_HUGE_SIZE);
}

/* --- populating --- */

/* Linux before 5.14 does not populate. */
static bool populates(void) {
    char *start = na_os_map(na_os_page);
    return start != NULL && __real_na_os_populate(start, na_os_page);
}

Test(populate, what_small_blocks_fill_next) {
    start("NUMALLOC_HUGEPAGES", "keep");
    if (!populates()) cr_skip_test("the system does not populate");
    grow(NA_PAGE_SIZE * 12);
    cr_assert_eq(populated, 0, "small programs take what they use");
    grow_within_bounds(8 * MIB);
    cr_assert_gt(populated_bytes, 6 * MIB);
    cr_assert_lt(populated, 8 * MIB / (2 * RUN_PAGES * NA_PAGE_SIZE), "far fewer calls than runs");
    cr_assert_eq(asked, 0);
    uintptr_t run = must_alloc_filled(RUN_PAGES);
    cr_assert(is_resident(run, RUN_PAGES * NA_PAGE_SIZE), "before it is touched");
}

Test(populate, contents_and_zeros) {
    start("NUMALLOC_HUGEPAGES", "keep");
    grow(4 * MIB);
    unsigned zero = 0;
    for (unsigned i = 0; i < 100; i++) {
        bool zeroed;
        const char *run = (const char *)na_pageheap_alloc_filled(0, RUN_PAGES, &zeroed);
        cr_assert_not_null(run);
        for (size_t at = 0; at < RUN_PAGES * NA_PAGE_SIZE; at += 64)
            cr_assert(!zeroed || run[at] == 0);
        zero += zeroed;
        memset((void *)(uintptr_t)run, 2, RUN_PAGES * NA_PAGE_SIZE);
    }
    cr_assert_gt(zero, 0);
    cr_assert_gt(populated, 0);
}

static size_t resident_pages(uintptr_t start, size_t bytes) {
    size_t pages = 0;
    for (size_t at = 0; at < bytes; at += na_os_page)
        pages += na_os_is_resident((const void *)(start + at));
    return pages;
}

/* Larger blocks may be used in part, whatever lies ready for small ones. */
Test(populate, not_for_larger_blocks) {
    const char *ways[] = {"keep", "auto"};
    for (unsigned way = 0; way < 2; way++) {
        pid_t child = fork();
        if (child == 0) {
            start("NUMALLOC_HUGEPAGES", ways[way]);
            grow(LARGE + 8 * MIB);
            unsigned calls = populated + asked;
            size_t resident = 0;
            for (unsigned i = 0; i < 1000; i++) {
                uint32_t pages = 1 + i % 300;
                resident += resident_pages(must_alloc(pages), pages * NA_PAGE_SIZE);
            }
            _exit(resident != 0 ? 1 : populated + asked != calls ? 2 : 0);
        }
        int status;
        waitpid(child, &status, 0);
        cr_assert(WIFEXITED(status));
        cr_assert_eq(WEXITSTATUS(status), 0, "%s: %d", ways[way], WEXITSTATUS(status));
    }
}

/* Where larger blocks take what lies ready all the same, no more is had for a while: here nothing
 * else is free, and the heap may not grow. */
Test(populate, what_others_take_counts) {
    start(NULL, NULL);
    na_free_pages_t *s = &na_free_pages[0];
    while (s->filled < 1024 || s->ahead == 0)
        grow(RUN_PAGES * NA_PAGE_SIZE);
    bool zeroed;
    struct rlimit none = {0, 0}, before;
    getrlimit(RLIMIT_AS, &before);
    none.rlim_max = before.rlim_max;
    setrlimit(RLIMIT_AS, &none);
    while (na_pageheap_alloc(0, 1, 1, &zeroed) != 0)
        ;
    setrlimit(RLIMIT_AS, &before);
    cr_assert_eq(s->ahead, 0);
    cr_assert_gt(s->astray, 0);
    uint64_t astray = s->astray;
    grow(MIB);
    cr_assert_leq(s->ahead + s->astray, s->filled / NA_SPARE_PART);
    cr_assert_eq(s->astray, astray, "until as much is given back");
    na_pageheap_free(0, must_alloc((uint32_t)astray), (uint32_t)astray);
    na_pageheap_trim(0, 0);
    cr_assert_eq(s->astray, 0);
}

Test(populate, a_refusal_is_the_last) {
    start("NUMALLOC_HUGEPAGES", "keep");
    refuses = true;
    grow(4 * MIB);
    cr_assert_eq(populated, 1);
}

Test(populate, what_is_not_used_goes_back) {
    start("NUMALLOC_PURGE_DELAY", "50");
    grow(8 * MIB);
    if (dirty() == 0) grow(100 << 10);
    cr_assert_gt(dirty(), 0);
    uint64_t now = na_os_ms();
    na_pageheap_tick(0, now + 60);
    na_pageheap_tick(0, now + 120);
    cr_assert_eq(dirty(), 0);
}

Test(populate, nothing_ahead_without_a_delay) {
    start("NUMALLOC_PURGE_DELAY", "0");
    grow(20 * MIB);
    cr_assert_eq(dirty(), 0);
}

/* --- huge pages --- */

Test(huge, where_a_large_heap_grows) {
    start(NULL, NULL);
    grow(LARGE - 2 * MIB);
    cr_assert_eq(asked, 0);
    grow_within_bounds(50 * MIB);
    cr_assert_geq(asked_bytes, 40 * MIB);
    cr_assert_eq(looks, 1);
    unsigned before = asked;
    grow_within_bounds(2 * MIB);
    cr_assert_leq(asked - before, 2);
}

Test(huge, not_unless_the_system_waits_to_be_asked) {
    const char *files[] = {"always madvise [never]\n", "garbage", NULL};
    start(NULL, NULL);
    for (unsigned i = 0; i < 3; i++) {
        granted = files[i];
        pid_t child = fork();
        if (child == 0) {
            grow(LARGE + 8 * MIB);
            _exit(asked != 0 ? 1 : populated == 0 ? 2 : 0);
        }
        int status;
        waitpid(child, &status, 0);
        cr_assert(WIFEXITED(status));
        cr_assert_eq(WEXITSTATUS(status), 0, "%u: %d", i, WEXITSTATUS(status));
    }
}

Test(huge, no_file_is_opened_where_none_may_be) {
    start("NUMALLOC_CGROUPS", "0");
    grow(LARGE + 8 * MIB);
    cr_assert_eq(looks, 0);
    cr_assert_eq(asked, 0);
}

Test(huge, refused_by_the_user) {
    start("NUMALLOC_HUGEPAGES", "keep");
    grow(LARGE + 8 * MIB);
    na_prefault_block(must_alloc(8 * NA_HUGE_PAGES), 8 * NA_HUGE_PAGES);
    cr_assert_eq(asked, 0);
}

/* Lines of /proc/self/smaps: mappings, or those whose flags say that huge pages are advised. */
static unsigned mappings(bool with_advice) {
    FILE *smaps = fopen("/proc/self/smaps", "r");
    cr_assert_not_null(smaps);
    unsigned count = 0;
    for (char line[512]; fgets(line, sizeof line, smaps) != NULL;)
        if (strncmp(line, "VmFlags:", 8) == 0) count += !with_advice || strstr(line, " hg") != NULL;
    fclose(smaps);
    return count;
}

/* Else it refuses advice, and flags say nothing of it. */
static void needs_huge_pages(void) {
    if (access("/sys/kernel/mm/transparent_hugepage/enabled", F_OK) != 0)
        cr_skip_test("the system knows no huge pages");
}

/* Or khugepaged makes huge pages again of what was purged but for a page. */
Test(huge, advice_does_not_last) {
    needs_huge_pages();
    start(NULL, NULL);
    grow(LARGE + MIB);
    unsigned before = mappings(false);
    grow(64 * MIB);
    cr_assert_geq(asked, 20);
    cr_assert_eq(mappings(true), 0);
    cr_assert_leq(mappings(false), before + 2, "%u mappings, %u before", mappings(false), before);
}

/* Its user may have made the first block of all inaccessible. */
Test(huge, what_others_use_is_not_touched) {
    start(NULL, NULL);
    uintptr_t first = must_alloc(RUN_PAGES);
    cr_assert_eq(first % NA_HUGE_SIZE, 0);
    cr_assert(na_os_seal((void *)first, RUN_PAGES * NA_PAGE_SIZE));
    grow(LARGE + 8 * MIB);
    cr_assert_gt(asked, 0);
}

Test(huge, many_threads_that_use_little) {
    start(NULL, NULL);
    enum { THREADS = 64 };
    na_threads.attached = THREADS;
    grow(THREADS * THREAD - MIB);
    cr_assert_eq(asked, 0);
    cr_assert_eq(populated, 0);
    grow(10 * MIB);
    cr_assert_gt(asked, 0);
    cr_assert_gt(populated, 0);
}

/* What is ahead of use is no memory that lies idle. */
Test(huge, what_is_ahead_is_not_to_spare) {
    start(NULL, NULL);
    for (unsigned i = 0; i < 40; i++) {
        grow(MIB);
        cr_assert_not(na_pageheap_has_dirty(0, 1));
    }
    cr_assert_gt(asked, 0);
    na_pageheap_free_filled(0, must_alloc_filled(100), 100);
    cr_assert(na_pageheap_has_dirty(0, 100));
    na_pageheap_trim(0, 0);
    cr_assert_not(na_pageheap_has_dirty(0, 1));
}

/* Where the system makes huge pages unasked, regions say no, and large blocks yes. Of a block below
 * NA_PREFAULT_WHOLE pages the first and the last hugepage stay as they are: they may be all that is
 * used. */
Test(huge, large_blocks) {
    needs_huge_pages();
    start(NULL, NULL);
    granted = "[always] madvise never\n";
    grow(17 * MIB);
    cr_assert_gt(taken_back, 0);
    unsigned before = asked;
    uintptr_t block = must_alloc(4 * NA_HUGE_PAGES + 10);
    asked_bytes = 0;
    na_prefault_block(block, 4 * NA_HUGE_PAGES + 10);
    cr_assert_eq(asked, before + 1);
    cr_assert_eq(asked_at, block + NA_HUGE_SIZE);
    cr_assert_eq(asked_bytes, 3 * NA_HUGE_SIZE);
    block = must_alloc(4 * NA_HUGE_PAGES);
    asked_bytes = 0;
    na_prefault_block(block, 4 * NA_HUGE_PAGES);
    cr_assert_eq(asked_at, block + NA_HUGE_SIZE);
    cr_assert_eq(asked_bytes, 2 * NA_HUGE_SIZE);
    block = must_alloc(2 * NA_HUGE_PAGES);
    na_prefault_block(block, 2 * NA_HUGE_PAGES);
    cr_assert_lt(asked_at, block);
    na_pageheap_free(0, asked_at - NA_HUGE_SIZE, 4 * NA_HUGE_PAGES);
    block = must_alloc(2 * NA_PREFAULT_WHOLE);
    na_prefault_block(block, 2 * NA_PREFAULT_WHOLE);
    cr_assert_eq(asked_at, block);
    cr_assert_eq(mappings(true), 2);
}

/* As large blocks are freed: from their end on, or as a whole, or when they were given back. */
Test(huge, advice_ends_with_the_block) {
    needs_huge_pages();
    start(NULL, NULL);
    granted = "[always] madvise never\n";
    grow(17 * MIB);
    unsigned before = mappings(false);
    enum { PAGES = 4 * NA_HUGE_PAGES + 10 };
    uintptr_t block = must_alloc(PAGES), other = must_alloc(2 * NA_PREFAULT_WHOLE);
    na_prefault_block(block, PAGES);
    na_prefault_block(other, 2 * NA_PREFAULT_WHOLE);
    memset((void *)block, 1, PAGES * NA_PAGE_SIZE);
    cr_assert_eq(mappings(true), 2);
    unsigned back = taken_back;
    na_pageheap_free(0, block + 4 * NA_HUGE_SIZE, 10);
    cr_assert_eq(taken_back, back, "there was none");
    na_pageheap_free(0, block + 3 * NA_HUGE_SIZE - NA_PAGE_SIZE, NA_HUGE_PAGES + 1);
    cr_assert_eq(taken_back, back + 1);
    cr_assert_eq(mappings(true), 2, "its second hugepage");
    na_pageheap_free(0, block, 3 * NA_HUGE_PAGES - 1);
    cr_assert_eq(mappings(true), 1);
    na_pageheap_free_purged(0, other, 2 * NA_PREFAULT_WHOLE);
    cr_assert_eq(mappings(true), 0);
    cr_assert_leq(mappings(false), before + 2, "%u mappings, %u before", mappings(false), before);
}

/* Each is a mapping of its own, of which a process may have some 65,000. */
Test(huge, not_without_end) {
    start(NULL, NULL);
    granted = "[always] madvise never\n";
    grow(17 * MIB);
    unsigned before = asked;
    for (unsigned round = 0; round < 2; round++) {
        enum { BLOCKS = NA_PREFAULT_BLOCKS + 10 };
        static uintptr_t block[BLOCKS];
        for (unsigned i = 0; i < BLOCKS; i++) {
            block[i] = must_alloc(3 * NA_HUGE_PAGES);
            na_prefault_block(block[i], 3 * NA_HUGE_PAGES);
        }
        cr_assert_eq(asked, before += NA_PREFAULT_BLOCKS);
        cr_assert_leq(mappings(true), NA_PREFAULT_BLOCKS + 1);
        for (unsigned i = 0; i < BLOCKS; i++)
            na_pageheap_free(0, block[i], 3 * NA_HUGE_PAGES);
        cr_assert_eq(mappings(true), 0);
    }
}

/* Blocks of small programs have none, where the system only makes them when asked. */
Test(huge, large_blocks_are_not_asked_for) {
    start(NULL, NULL);
    grow(17 * MIB);
    unsigned before = asked;
    na_prefault_block(must_alloc(2 * NA_PREFAULT_WHOLE), 2 * NA_PREFAULT_WHOLE);
    cr_assert_eq(asked, before);
}

/* (Not under sanitizers' runtimes, whose memory it would count for.) */
Test(huge, refused_by_the_process) {
    enum { SET_THP_DISABLE = 41 };
    if (prctl(SET_THP_DISABLE, 1, 0, 0, 0) != 0) cr_skip_test("the system does not know it");
    start(NULL, NULL);
    grow(LARGE + 8 * MIB);
    cr_assert_eq(asked, 0);
    cr_assert_gt(populated, 0);
}

/* Pages in core files and others are two mappings: their border must not lie within a huge page. */
Test(huge, always_asked_for) {
    start("NUMALLOC_HUGEPAGES", "always");
    grow(8 * MIB);
    size_t before = faults();
    grow(32 * MIB);
    size_t taken = faults() - before;
    cr_assert_eq(populated, 0);
    if (!gives_huge_pages()) cr_skip_test("the system gives no huge pages");
    /* AddressSanitizer's own memory for them: 1,024 more. */
    cr_assert_lt(taken, 4096, "%zu page faults for 8,192 pages", taken);
}
