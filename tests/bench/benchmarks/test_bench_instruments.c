/* test_bench_instruments.c - what the benchmarks measure is there: thrash.c and scratch.c see an
 * allocator that shares cache lines, and none in one that pads; memory.c knows the waste of an
 * allocator whose waste is known; numa.c knows where pages lie.
 *
 * The part on cache lines compares times, needs two CPUs to itself, and is run alone. It is the
 * instrument that is tested, not an allocator: ratios that differ by factors. */
#include "support/bench_tsv.h"
#include "support/wasteful.h"

#include "bench/suite/bench.h"
#include "bench/system/footprint.h"
#include "bench/system/placement.h"

#include <math.h>
#include <pthread.h>
#include <sched.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <time.h>

/* ---- False sharing ----------------------------------------------------------------------------
 */

#define OBJECT 8       /* bytes, as the benchmarks' default */
#define ROUNDS 2000000 /* reads and writes of an object */

typedef struct prober {
    volatile unsigned char *object;
    unsigned place;       /* of the CPU, among those that can be used */
    unsigned *arrived;    /* atomic */
    uint64_t nanoseconds; /* what it took */
    bool disturbed;       /* others had its CPU for more than a twentieth of that */
} prober_t;

static bool pin(unsigned place) {
    cpu_set_t all, one;
    if (sched_getaffinity(0, sizeof all, &all) != 0) return false;
    for (size_t cpu = 0; cpu < CPU_SETSIZE; cpu++) {
        if (!CPU_ISSET(cpu, &all) || place-- != 0) continue;
        CPU_ZERO(&one);
        CPU_SET(cpu, &one);
        return sched_setaffinity(0, sizeof one, &one) == 0;
    }
    return false;
}

static uint64_t thread_time(void) {
    struct timespec now;
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
    return (uint64_t)now.tv_sec * UINT64_C(1000000000) + (uint64_t)now.tv_nsec;
}

static void *probe(void *argument) {
    prober_t *self = argument;
    cr_assert(pin(self->place));
    __atomic_add_fetch(self->arrived, 1, __ATOMIC_ACQ_REL);
    while (__atomic_load_n(self->arrived, __ATOMIC_ACQUIRE) != 2)
        sched_yield();
    uint64_t begin = na_bench_now(), running = thread_time();
    for (size_t i = 0; i < ROUNDS; i++)
        for (size_t byte = 0; byte < OBJECT; byte++)
            self->object[byte] = (unsigned char)(self->object[byte] + 1);
    running = thread_time() - running;
    self->nanoseconds = na_bench_now() - begin;
    self->disturbed = running < self->nanoseconds / 20 * 19;
    return NULL;
}

/* The time until both threads are done, with objects `distance` bytes apart. */
static double raw_time(size_t distance, bool *disturbed) {
    static unsigned char memory[512] __attribute__((aligned(256)));
    prober_t probers[2];
    pthread_t threads[2];
    unsigned arrived = 0;
    for (unsigned i = 0; i < 2; i++) {
        probers[i] = (prober_t){memory + i * distance, i, &arrived, 0, false};
        cr_assert_eq(pthread_create(&threads[i], NULL, probe, &probers[i]), 0);
    }
    for (unsigned i = 0; i < 2; i++)
        pthread_join(threads[i], NULL);
    *disturbed |= probers[0].disturbed || probers[1].disturbed;
    uint64_t a = probers[0].nanoseconds, b = probers[1].nanoseconds;
    return (double)(a > b ? a : b);
}

static int by_size(const void *a, const void *b) {
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

/* How many times slower two threads are on one line: the median of five pairs. */
static double raw_ratio(bool *disturbed) {
    double ratio[5];
    for (size_t i = 0; i < 5; i++) {
        double apart = raw_time(256, disturbed);
        ratio[i] = raw_time(16, disturbed) / apart;
    }
    qsort(ratio, 5, sizeof ratio[0], by_size);
    return ratio[2];
}

static double bench_ratio(const char *bench, const char *mode) {
    return bench_tsv_metric(BENCH_TSV(BENCH_SHARING, mode, (char *)(uintptr_t)bench, "--threads=2",
                                      "--pin=on", "--size=8"),
                            "false sharing");
}

/* Programs that take a CPU away meanwhile make all times worthless: an attempt counts when the bare
 * threads had theirs to themselves both before and after it. One attempt of three that count must
 * do; where there are no three within the time, nothing is known. */
static void check_instrument(const char *bench) {
    const uint64_t deadline = na_bench_now() + UINT64_C(20000000000);
    cpu_set_t set;
    double raw = 0, shared = 0, padded = 0;
    if (sched_getaffinity(0, sizeof set, &set) != 0 || CPU_COUNT(&set) < 2)
        cr_skip_test("two threads need two CPUs");
    for (int counted = 0; counted < 3;) {
        bool disturbed = false;
        if (na_bench_now() >= deadline) cr_skip_test("other programs keep the CPUs busy");
        raw = raw_ratio(&disturbed);
        if (disturbed) continue;
        shared = bench_ratio(bench, "SHARING_MALLOC=share");
        padded = bench_ratio(bench, "SHARING_MALLOC=pad");
        if (raw >= 1.5 && shared - 1 >= 0.8 * (raw - 1) && fabs(padded - 1) <= 0.15) return;
        raw_ratio(&disturbed);
        counted += !disturbed;
    }
    if (raw < 1.5) cr_skip_test("these two CPUs share their first cache: no false sharing");
    cr_assert_geq(shared - 1, 0.8 * (raw - 1), "%s: %.2f on shared lines, the machine has %.2f",
                  bench, shared, raw);
    cr_assert_leq(fabs(padded - 1), 0.15, "%s: %.2f on lines that are not shared", bench, padded);
}

Test(bench_instruments, thrash_sees_shared_lines) {
    check_instrument("thrash");
}

Test(bench_instruments, scratch_sees_shared_lines) {
    check_instrument("scratch");
}

/* ---- Memory -----------------------------------------------------------------------------------
 */

/* Within 2 % of the bytes that the program has: at less than a page, nearly one, and above one. */
Test(bench_instruments, memory_knows_a_known_waste) {
    static const size_t sizes[] = {1000, WASTEFUL_PAGE - WASTEFUL_HEADER, 5000};
    for (size_t i = 0; i < NA_COUNT(sizes); i++) {
        char min[32], max[32];
        size_t taken = (sizes[i] + WASTEFUL_HEADER + WASTEFUL_PAGE - 1) / WASTEFUL_PAGE;
        double waste = 100.0 * (double)(taken * WASTEFUL_PAGE - sizes[i]) / (double)sizes[i];
        snprintf(min, sizeof min, "--min=%zu", sizes[i]);
        snprintf(max, sizeof max, "--max=%zu", sizes[i]);
        const child_result_t *result =
            BENCH_TSV(BENCH_WASTEFUL, NULL, "memory", min, max, "--objects=7000", "--round=1000",
                      "--snapshot=1000", "--repetitions=1");
        cr_assert_float_eq(bench_tsv_metric(result, "overhead"), waste, 2);
        cr_assert_float_eq(bench_tsv_metric(result, "resident overhead"), waste, 2);
        cr_assert_float_eq(bench_tsv_metric(result, "mean overhead"), waste, 2);
        cr_assert_float_eq(bench_tsv_metric(result, "resident after all frees"), 0, 0.25);
    }
}

/* What an allocator mapped before the first allocation is its own, in use or not. */
Test(bench_instruments, memory_counts_what_was_mapped_ahead) {
    const child_result_t *result =
        BENCH_TSV(BENCH_WASTEFUL, "WASTEFUL_AHEAD=64", "memory", "--min=4064", "--max=4064",
                  "--objects=7000", "--round=1000", "--snapshot=1000", "--repetitions=1");
    double requested = bench_tsv_metric(result, "peak requested");
    double waste = 100.0 * 32 / 4064;
    cr_assert_float_eq(bench_tsv_metric(result, "overhead"), waste + 100 * 64 / requested, 2);
    cr_assert_float_eq(bench_tsv_metric(result, "resident overhead"), waste, 2);
}

/* Sizes whose waste differs: the sum over both, weighted by how often each is drawn. */
Test(bench_instruments, memory_knows_the_waste_of_mixed_sizes) {
    double taken = WASTEFUL_PAGE * (1 + 2), asked = 1000 + 7000;
    const child_result_t *result =
        BENCH_TSV(BENCH_WASTEFUL, NULL, "memory", "--min=1000", "--max=7000", "--step=6000",
                  "--objects=4000", "--free-start=4000", "--snapshot=2000", "--repetitions=1");
    double waste = 100 * (taken - asked) / asked;
    cr_assert_float_eq(bench_tsv_metric(result, "overhead"), waste, 0.02 * (100 + waste));
}

/* A mapping of each kind shows where it must, and nowhere else. */
Test(bench_instruments, footprint_tells_mappings_apart) {
    const size_t size = 64 * 1024 * 1024, touched = 8 * 1024 * 1024;
    na_footprint_read();
    na_footprint_t before = na_footprint_read();
    void *reserved = mmap(NULL, size, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    na_footprint_t after = na_footprint_read();
    cr_assert_neq(reserved, MAP_FAILED);
    cr_assert_eq(after.mapped - before.mapped, size);
    cr_assert_eq(after.writable, before.writable);
    cr_assert_eq(mprotect(reserved, size / 2, PROT_READ | PROT_WRITE), 0);
    memset(reserved, 1, touched);
    after = na_footprint_read();
    cr_assert_eq(after.mapped - before.mapped, size);
    cr_assert_eq(after.writable - before.writable, size / 2);
    cr_assert(after.resident - before.resident >= touched &&
              after.resident - before.resident <= touched + 2 * 1024 * 1024 + 65536);
    munmap(reserved, size);
    after = na_footprint_read();
    cr_assert_eq(after.mapped, before.mapped);
}

/* More mappings than the reader's buffer holds lines: none is lost at its seams. */
Test(bench_instruments, footprint_reads_many_mappings) {
    enum { MAPPINGS = 6000 };
    na_footprint_read();
    na_footprint_t before = na_footprint_read();
    size_t page = (size_t)sysconf(_SC_PAGESIZE);
    unsigned char *memory =
        mmap(NULL, MAPPINGS * page, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    cr_assert_neq((void *)memory, MAP_FAILED);
    for (size_t i = 0; i < MAPPINGS; i += 2)
        cr_assert_eq(mprotect(memory + i * page, page, PROT_READ | PROT_WRITE), 0);
    na_footprint_t after = na_footprint_read();
    cr_assert_eq(after.mapped - before.mapped, MAPPINGS * page);
    cr_assert_eq(after.writable - before.writable, MAPPINGS / 2 * page);
}

/* ---- Placement --------------------------------------------------------------------------------
 */

#define PAGES 1300 /* more than one question to the kernel */

static unsigned char *fresh_pages(size_t page) {
    void *memory =
        mmap(NULL, PAGES * page, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    cr_assert_neq(memory, MAP_FAILED);
    madvise(memory, PAGES * page, MADV_NOHUGEPAGE);
    return memory;
}

/* Binds pages to a node before they are touched. False where there is no such node. */
static bool bind_to(void *memory, size_t size, unsigned node) {
    unsigned long mask = 1UL << node;
    return syscall(SYS_mbind, memory, size, 2 /* MPOL_BIND */, &mask, 8 * sizeof mask, 0) == 0;
}

/* On one node, memory is placed on purpose by choosing which node asks: that of the pages, another.
 * A quarter of the pages is never touched. */
Test(bench_instruments, placement_counts_each_access) {
    size_t page = (size_t)sysconf(_SC_PAGESIZE);
    unsigned char *memory = fresh_pages(page);
    na_placement_t first = {0}, local = {0}, remote = {0}, wide = {0};
    for (size_t i = 0; i < PAGES; i++)
        if (i % 4 != 0) memory[i * page] = 1;
    unsigned node = na_placement_node();
    na_placement_count(memory + page, 64, 64, node, &first);
    if (first.unknown != 0) cr_skip_test("the system does not tell where pages are");
    /* The kernel may have put the page elsewhere; its true node is the one that finds it local. */
    for (node = 0; first.local == 0 && node < 64; node++) {
        first = (na_placement_t){0};
        na_placement_count(memory + page, 64, 64, node, &first);
        if (first.local != 0) break;
    }
    uint64_t each = page / 64;
    na_placement_count(memory, PAGES * page, 64, node, &local);
    na_placement_count(memory, PAGES * page, 64, node + 1, &remote);
    cr_assert_eq(local.unknown, PAGES / 4 * each);
    cr_assert_eq(local.local + local.remote, (PAGES - PAGES / 4) * each);
    cr_assert_eq(remote.unknown, local.unknown);
    cr_assert_geq(remote.remote, local.local, "what is local to one node is remote to another");
    /* A stride above a page, a block that begins and ends within pages. */
    na_placement_count(memory + page + 100, 3 * page, 2 * page, node, &wide);
    cr_assert_eq(wide.local + wide.remote + wide.unknown, 2);
}

/* Where there are two nodes: a quarter of the block bound to the second one. */
Test(bench_instruments, placement_knows_memory_placed_on_purpose) {
    size_t page = (size_t)sysconf(_SC_PAGESIZE), there = PAGES / 4;
    unsigned char *memory = fresh_pages(page);
    na_placement_t from_zero = {0}, from_one = {0};
    if (!bind_to(memory, there * page, 1)) cr_skip_test("there is no second NUMA node");
    cr_assert(bind_to(memory + there * page, (PAGES - there) * page, 0));
    memset(memory, 1, PAGES * page);
    na_placement_count(memory, PAGES * page, 64, 0, &from_zero);
    na_placement_count(memory, PAGES * page, 64, 1, &from_one);
    cr_assert_eq(from_zero.unknown, 0);
    cr_assert_eq(from_zero.remote, there * page / 64);
    cr_assert_eq(from_zero.local, (PAGES - there) * page / 64);
    cr_assert_eq(from_one.local, from_zero.remote);
    cr_assert_eq(from_one.remote, from_zero.local);
}

/* The whole instrument; on a machine of one node every access is local. */
Test(bench_instruments, numa_reports_the_true_ratio) {
    const child_result_t *result = BENCH_TSV(NULL, NULL, "numa", "--threads=2", "--rounds=30",
                                             "--max-log2=20", "--repetitions=1", "--warmup=0");
    if (bench_tsv_metric(result, "accesses of unknown place") >= 100)
        cr_skip_test("the system does not tell where pages are");
    double local = bench_tsv_metric(result, "local accesses");
    cr_assert_eq(bench_tsv_metric(result, "accesses of unknown place"), 0);
    if (access("/sys/devices/system/node/node1", F_OK) != 0)
        cr_assert_eq(local, 100);
    else
        cr_assert(local >= 0 && local <= 100);
}
