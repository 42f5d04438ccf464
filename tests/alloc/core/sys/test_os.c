/* test_os.c - system calls, the lock and the metadata allocator, on the running kernel.
 *
 * Linked with the few sources it needs and not with the library, so that counters start at zero. */
#include <criterion/criterion.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/mempolicy.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "alloc/core/sys/lock.h"
#include "alloc/core/sys/os.h"
#include "alloc/core/sys/reserve.h"
#include "support/vm_flags.h"

TestSuite(os, .init = na_os_init);
TestSuite(lock, .init = na_os_init);
TestSuite(meta, .init = na_os_init);

#define MIB ((size_t)1 << 20)

Test(os, init) {
    cr_assert_eq(na_os_page, (size_t)sysconf(_SC_PAGESIZE));
    cr_assert_not(na_os_secure);
}

Test(os, environment) {
    setenv("NA_TEST_ONE", "1", 1);
    setenv("NA_TEST", "short", 1);
    setenv("NA_TEST_EMPTY", "", 1);
    cr_assert_str_eq(na_os_getenv("NA_TEST"), "short");
    cr_assert_str_eq(na_os_getenv("NA_TEST_ONE"), "1");
    cr_assert_str_eq(na_os_getenv("NA_TEST_EMPTY"), "");
    cr_assert_null(na_os_getenv("NA_TES"));
    size_t n = 0;
    for (; na_os_env_at(n) != NULL; n++)
        cr_assert_eq(na_os_env_at(n), environ[n]);
    cr_assert_null(na_os_env_at(n + 100));
    char **saved = environ;
    environ = NULL;
    const char *value = na_os_getenv("NA_TEST");
    const char *first = na_os_env_at(0);
    environ = saved;
    cr_assert_null(value);
    cr_assert_null(first);
}

/* KiB of anonymous memory that the mapping at the address holds (a page of zeros that was only read
 * is none). */
static unsigned long anonymous_at(const void *address) {
    FILE *smaps = fopen("/proc/self/smaps", "r");
    cr_assert_not_null(smaps);
    char line[512];
    bool here = false;
    unsigned long kib = 0, from, to;
    while (fgets(line, sizeof line, smaps) != NULL)
        if (sscanf(line, "%lx-%lx ", &from, &to) == 2)
            here = (uintptr_t)address >= from && (uintptr_t)address < to;
        else if (here)
            (void)sscanf(line, "Anonymous: %lu kB", &kib);
    (void)fclose(smaps);
    return kib;
}

/* A compiler may make a read, or nothing, of a write that changes nothing. */
Test(os, touching_a_page_is_a_write) {
    char *p = mmap(NULL, 5 * na_os_page, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    cr_assert_neq((void *)p, MAP_FAILED);
    char *page = p + 2 * na_os_page;
    cr_assert_eq(mprotect(page, na_os_page, PROT_READ | PROT_WRITE), 0);
    cr_assert_eq(anonymous_at(page), 0);
    na_os_touch(page);
    cr_assert_eq(anonymous_at(page), na_os_page / 1024);
    cr_assert_eq(*page, 0);
    *page = 'x';
    na_os_touch(page);
    cr_assert_eq(*page, 'x');
    cr_assert_eq(munmap(p, 5 * na_os_page), 0);
}

Test(os, map_is_zero_and_writable) {
    unsigned char *p = na_os_map(MIB);
    cr_assert_not_null(p);
    for (size_t i = 0; i < MIB; i++)
        cr_assert_eq(p[i], 0);
    memset(p, 1, MIB);
    cr_assert(na_os_purge(p, MIB));
    cr_assert_eq(p[MIB - 1], 0);
    na_os_unmap(p, MIB);
    cr_assert_eq(msync(p, na_os_page, MS_ASYNC), -1, "gone");
    errno = 5;
    cr_assert_null(na_os_map((size_t)1 << 60));
    cr_assert_eq(errno, 5);
}

Test(os, map_is_not_for_huge_pages) {
    if (!vm_has_huge_pages()) cr_skip_test("this kernel has no huge pages");
    char *p = na_os_map(4 * MIB);
    cr_assert(vm_has_flag(p, " nh "));
    cr_assert(vm_has_flag(p + 4 * MIB - 1, " nh "));
    na_os_unmap(p, 4 * MIB);
}

/* Is nothing mapped at this page? */
static bool unmapped(void *page) {
    return msync(page, na_os_page, MS_ASYNC) == -1 && errno == ENOMEM;
}

Test(os, reserve_aligns_and_trims) {
    for (size_t alignment = na_os_page; alignment <= 1024 * MIB; alignment *= 4) {
        char *p = na_os_reserve(4 * MIB, alignment);
        cr_assert_not_null(p);
        cr_assert_eq((uintptr_t)p % alignment, 0);
        cr_assert_not(unmapped(p));
        cr_assert_not(unmapped(p + 4 * MIB - na_os_page));
        if (alignment == 1024 * MIB) { /* that much slack cannot be filled by a neighbour */
            cr_assert(unmapped(p - na_os_page) || unmapped(p + 4 * MIB));
        }
        cr_assert(na_os_commit(p + MIB, MIB));
        p[MIB] = 1;
        p[2 * MIB - 1] = 1;
        na_os_unmap(p, 4 * MIB);
        cr_assert(unmapped(p));
    }
    cr_assert_null(na_os_reserve(SIZE_MAX - 4095, 2 * MIB));
}

Test(os, reserved_is_not_accessible, .signal = SIGSEGV) {
    volatile char *p = na_os_reserve(MIB, na_os_page);
    cr_assert_not_null((void *)p);
    p[0] = 1;
}

Test(os, resize_and_move) {
    char *target = na_os_reserve(8 * MIB, 2 * MIB);
    char *p = na_os_map(MIB);
    strcpy(p, "here");
    cr_assert(na_os_resize(p, MIB, MIB / 2), "shrinking always works");
    cr_assert(unmapped(p + MIB / 2));
    cr_assert(na_os_move(p, MIB / 2, target, 2 * MIB));
    cr_assert_str_eq(target, "here");
    target[2 * MIB - 1] = 1;
    cr_assert(unmapped(p));
    cr_assert_not(na_os_resize(target, 2 * MIB, 4 * MIB), "the reservation is in the way");
}

Test(os, splitting_huge_pages_keeps_contents) {
    char *p = na_os_reserve(4 * MIB, 2 * MIB);
    cr_assert(na_os_commit(p, 4 * MIB));
    na_os_hugepage(p, 4 * MIB, true);
    memset(p, 5, 3 * MIB);
    cr_assert(na_os_purge(p + MIB, MIB / 2));
    na_os_split_huge(p, 4 * MIB);
    for (size_t i = 0; i < 3 * MIB; i += na_os_page)
        cr_assert_eq(p[i], i >= MIB && i < MIB * 3 / 2 ? 0 : 5);
    na_os_unmap(p, 4 * MIB);
}

Test(os, nodes_of_pages) {
    char *p = na_os_map(MIB);
    p[0] = 1;
    void *pages[2] = {p, p + MIB / 2};
    int status[2] = {-1, -1};
    long result = na_os_page_nodes(pages, 2, status);
    if (result == -ENOSYS || result == -EPERM) cr_skip_test("move_pages is forbidden here");
    cr_assert_eq(result, 0);
    cr_assert_geq(status[0], 0);
    cr_assert_lt(status[1], 0);
    cr_assert_eq(na_os_move_pages(pages, 1, (unsigned)status[0], status), 0);
    cr_assert_eq(na_os_move_pages(pages, NA_OS_MOVE_PAGES + 1, 0, status), -EINVAL);
    na_os_unmap(p, MIB);
}

static bool is_cpu(unsigned cpu, unsigned wanted) {
    return cpu == wanted;
}

Test(os, where_this_thread_may_run) {
    cpu_set_t set;
    cr_assert_eq(sched_getaffinity(0, sizeof set, &set), 0);
    for (unsigned cpu = 0; cpu < 64; cpu++)
        cr_assert_eq(na_os_may_run_on(is_cpu, cpu), CPU_ISSET(cpu, &set) != 0);
}

Test(os, bind) {
    char *p = na_os_map(MIB);
    long result = na_os_bind(p, MIB, 0, NA_BIND_PREFERRED, false);
    if (result == -ENOSYS || result == -EPERM) cr_skip_test("mbind is forbidden here");
    int mode = -1;
    unsigned long mask[16] = {0};
    cr_assert_eq(result, 0);
    cr_assert_eq(syscall(SYS_get_mempolicy, &mode, mask, 1024, p, MPOL_F_ADDR), 0);
    cr_assert_eq(mode & 0xff, MPOL_PREFERRED);
    cr_assert_eq(mask[0], 1);
    cr_assert_eq(na_os_bind(p, MIB, 0, NA_BIND_STRICT, false), 0);
    cr_assert_eq(syscall(SYS_get_mempolicy, &mode, mask, 1024, p, MPOL_F_ADDR), 0);
    cr_assert_eq(mode & 0xff, MPOL_BIND);
    p[0] = 1;
    cr_assert_eq(na_os_bind(p, MIB, 1024, NA_BIND_PREFERRED, false), -EINVAL);
    cr_assert_lt(na_os_bind(p, MIB, 1023, NA_BIND_STRICT, false), 0, "no such node");
}

Test(os, task_policy) {
    long before = na_os_task_policy();
    if (before < 0) cr_skip_test("get_mempolicy is forbidden here");
    unsigned long mask = 1;
    cr_assert_eq(syscall(SYS_set_mempolicy, MPOL_BIND | MPOL_F_STATIC_NODES, &mask, 64), 0);
    cr_assert_eq(na_os_task_policy(), MPOL_BIND);
    cr_assert_eq(syscall(SYS_set_mempolicy, MPOL_DEFAULT, NULL, 0), 0);
    cr_assert_eq(na_os_task_policy(), MPOL_DEFAULT);
}

Test(os, cpu_follows_the_thread) {
    cpu_set_t all;
    cr_assert_eq(sched_getaffinity(0, sizeof all, &all), 0);
    for (unsigned cpu = 0; cpu < CPU_SETSIZE; cpu++) {
        if (!CPU_ISSET(cpu, &all)) continue;
        cpu_set_t one;
        CPU_ZERO(&one);
        CPU_SET(cpu, &one);
        cr_assert_eq(sched_setaffinity(0, sizeof one, &one), 0);
        cr_assert_eq(na_os_cpu(), cpu);
    }
}

static uint64_t exact_ms(void) {
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (uint64_t)now.tv_sec * 1000 + (uint64_t)now.tv_nsec / 1000000;
}

Test(os, clock) {
    uint64_t before = exact_ms(), coarse = na_os_ms(), after = exact_ms();
    cr_assert_leq(coarse, after);
    cr_assert_geq(coarse + 1000, before); /* its ticks */
    usleep(50000);
    cr_assert_geq(na_os_ms(), coarse + 30);
}

Test(os, read_file) {
    char path[] = "/tmp/test_os.XXXXXX";
    int fd = mkstemp(path);
    cr_assert_eq(write(fd, "0123456789", 10), 10);
    close(fd);
    char buffer[32];
    memset(buffer, 'x', sizeof buffer);
    errno = 9;
    cr_assert_eq(na_os_read_file(path, buffer, sizeof buffer), 10);
    cr_assert_str_eq(buffer, "0123456789");
    cr_assert_eq(na_os_read_file(path, buffer, 5), 4);
    cr_assert_str_eq(buffer, "0123");
    cr_assert_eq(na_os_read_file(path, buffer, 1), 0);
    cr_assert_eq(na_os_read_file(path, buffer, 0), -EINVAL);
    unlink(path);
    cr_assert_eq(na_os_read_file(path, buffer, sizeof buffer), -ENOENT);
    cr_assert_str_empty(buffer);
    cr_assert_eq(na_os_read_file("/tmp", buffer, sizeof buffer), -EISDIR);
    cr_assert_eq(errno, 9);
}

static void *drain(void *argument) {
    static char sink[1 << 16];
    size_t total = 0;
    for (ssize_t n; (n = read(*(int *)argument, sink, sizeof sink)) > 0;)
        total += (size_t)n;
    return (void *)total;
}

Test(os, write_all) {
    static char text[1 << 20]; /* far more than a pipe holds */
    int ends[2];
    pthread_t reader;
    void *total;
    cr_assert_eq(pipe(ends), 0);
    cr_assert_eq(pthread_create(&reader, NULL, drain, &ends[0]), 0);
    na_os_write(ends[1], text, sizeof text);
    close(ends[1]);
    pthread_join(reader, &total);
    cr_assert_eq((size_t)total, sizeof text);
    na_os_write(-1, "x", 1); /* comes back */
}

/* How a child that calls na_os_abort ends. */
static int abort_status(void (*prepare)(void)) {
    pid_t child = fork();
    if (child == 0) {
        signal(SIGABRT, SIG_DFL);
        prctl(PR_SET_DUMPABLE, 0);
        prepare();
        na_os_abort();
    }
    int status = 0;
    cr_assert_eq(waitpid(child, &status, 0), child);
    return status;
}

static void nothing(void) {}

static void block(void) {
    sigset_t set;
    sigfillset(&set);
    sigprocmask(SIG_BLOCK, &set, NULL);
}

static void ignore(void) {
    signal(SIGABRT, SIG_IGN);
}

static void leave(int number) {
    _exit(number == SIGABRT ? 43 : 1);
}

static void handle(void) {
    signal(SIGABRT, leave);
}

static void come_back(int number) {
    (void)number;
}

static void handle_and_return(void) {
    signal(SIGABRT, come_back);
}

Test(os, abort_always_ends) {
    void (*const prepare[])(void) = {nothing, block, ignore, handle_and_return};
    for (size_t i = 0; i < sizeof prepare / sizeof *prepare; i++) {
        int status = abort_status(prepare[i]);
        cr_assert(WIFSIGNALED(status) && WTERMSIG(status) == SIGABRT, "case %zu", i);
    }
    int status = abort_status(handle);
    cr_assert(WIFEXITED(status) && WEXITSTATUS(status) == 43, "the host's handler ran");
}

/* --- lock --- */

#define THREADS 8
#define ROUNDS  20000

static na_lock_t lock;
static uint64_t counter; /* plain: only the lock makes it right */

static void *count_up(void *argument) {
    (void)argument;
    for (int i = 0; i < ROUNDS; i++) {
        na_lock(&lock);
        uint64_t seen = counter;
        if (i % 512 == 0) na_os_yield(); /* others pile up, and sleep */
        counter = seen + 1;
        na_unlock(&lock);
    }
    return NULL;
}

Test(lock, excludes_and_wakes, .timeout = 300) {
    pthread_t threads[THREADS];
    for (int i = 0; i < THREADS; i++)
        cr_assert_eq(pthread_create(&threads[i], NULL, count_up, NULL), 0);
    for (int i = 0; i < THREADS; i++)
        pthread_join(threads[i], NULL);
    cr_assert_eq(counter, (uint64_t)THREADS * ROUNDS);
    cr_assert_eq(atomic_load(&lock.word), 0);
}

Test(lock, sleepers_cost_no_cpu_and_all_wake, .timeout = 300) {
    pthread_t threads[THREADS];
    na_lock(&lock);
    for (int i = 0; i < THREADS; i++)
        cr_assert_eq(pthread_create(&threads[i], NULL, count_up, NULL), 0);
    while ((atomic_load(&lock.word) & NA_LOCK_AWAITED) == 0)
        usleep(1000);
    usleep(50000); /* all of them are in the futex now */
    struct timespec before, after;
    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &before);
    usleep(200000);
    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &after);
    int64_t used = (after.tv_sec - before.tv_sec) * 1000000000 + after.tv_nsec - before.tv_nsec;
    cr_assert_lt(used, 100000000, "eight spinning threads would use 200 ms or more");
    na_unlock(&lock);
    for (int i = 0; i < THREADS; i++)
        pthread_join(threads[i], NULL);
    cr_assert_eq(counter, (uint64_t)THREADS * ROUNDS);
}

static void *hold(void *unused) {
    (void)unused;
    na_lock(&lock);
    return NULL;
}

Test(lock, reset, .timeout = 300) {
    pthread_t thread;
    cr_assert_eq(pthread_create(&thread, NULL, hold, NULL), 0);
    pthread_join(thread, NULL);
    cr_assert_not(na_lock_is_mine(&lock));
    na_lock_reset(&lock);
    na_lock(&lock); /* would wait for ever */
    cr_assert(na_lock_is_mine(&lock));
    na_lock_reset(&lock); /* what the caller holds in code that it interrupted stays held */
    cr_assert(na_lock_is_mine(&lock));
    cr_assert_not(na_try_lock(&lock));
    na_unlock(&lock);
    cr_assert(na_try_lock(&lock));
    na_unlock(&lock);
}

/* --- metadata --- */

Test(meta, aligned_zeroed_apart_and_counted) {
    cr_assert_eq(na_meta_bytes(), 0);
    char *last = NULL;
    size_t last_size = 0;
    for (size_t i = 1; i <= 3000; i++) {
        size_t alignment = (size_t)1 << (i % 8);
        char *p = na_meta_alloc(i, alignment);
        cr_assert_not_null(p);
        cr_assert_eq((uintptr_t)p % alignment, 0);
        for (size_t k = 0; k < i; k++)
            cr_assert_eq(p[k], 0);
        memset(p, 0xff, i);
        cr_assert(last == NULL || p >= last + last_size || p + i <= last);
        last = p;
        last_size = i;
    }
    uint64_t sum = 3000 * 3001 / 2;
    cr_assert_geq(na_meta_bytes(), sum);
    cr_assert_leq(na_meta_bytes(), sum + sum / 4);
}

Test(meta, small_programs_stay_small) {
    cr_assert_not_null(na_meta_alloc(100, 8));
    cr_assert_leq(na_meta_bytes(), 64 << 10);
}

Test(meta, large_requests_leave_the_chunk_alone) {
    char *a = na_meta_alloc(64, 64);
    uint64_t before = na_meta_bytes();
    char *large = na_meta_alloc(3 * MIB + 1, na_os_page);
    cr_assert_eq((uintptr_t)large % na_os_page, 0);
    large[3 * MIB] = 1;
    cr_assert_eq(na_meta_bytes(), before + 3 * MIB + na_os_page);
    cr_assert_eq(na_meta_alloc(64, 64), a + 64, "the next small one follows the last");
}

Test(meta, refuses) {
    cr_assert_null(na_meta_alloc(8, 3));
    cr_assert_null(na_meta_alloc(8, 2 * na_os_page));
    cr_assert_null(na_meta_alloc(SIZE_MAX, 8));
    cr_assert_null(na_meta_alloc((size_t)1 << 60, 8));
    cr_assert_neq(na_meta_alloc(0, 1), na_meta_alloc(0, 1));
}

static void *fill(void *argument) {
    char **blocks = argument;
    for (int i = 0; i < 2000; i++) {
        blocks[i] = na_meta_alloc(48, 16);
        memset(blocks[i], 1 + i % 100, 48);
    }
    return NULL;
}

Test(meta, threads_get_different_blocks) {
    static char *blocks[4][2000];
    pthread_t threads[4];
    for (int i = 0; i < 4; i++)
        pthread_create(&threads[i], NULL, fill, blocks[i]);
    for (int i = 0; i < 4; i++)
        pthread_join(threads[i], NULL);
    for (int i = 0; i < 4; i++)
        for (int k = 0; k < 2000; k++) {
            for (int byte = 0; byte < 48; byte++)
                cr_assert_eq(blocks[i][k][byte], 1 + k % 100);
            for (int byte = 0; byte < 48; byte++)
                blocks[i][k][byte] = 0; /* a block given out twice is found at its second owner */
        }
}

Test(meta, forked_child_allocates) {
    char *mine = na_meta_alloc(16, 16);
    pid_t child = fork();
    if (child == 0) {
        na_meta_after_fork_child();
        _exit(na_meta_alloc(16, 16) == mine + 16 ? 0 : 1);
    }
    int status = -1;
    waitpid(child, &status, 0);
    cr_assert_eq(status, 0);
}
