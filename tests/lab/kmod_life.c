/* kmod_life.c - the kernel module's sessions against everything that can happen to them.
 *
 * usage: kmod_life TEST   (full, wake, hostile, ends, hotplug, leaks)
 *        kmod_life storm PROCESSES
 *        kmod_life unload TIMES */
#include "kmod.h"

#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/wait.h>

#define PAGE 4096UL

/* Touches pages that were never touched: each a page fault. */
static void fault(unsigned pages) {
    unsigned char *start =
        mmap(NULL, pages * PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    REQUIRE(start != MAP_FAILED);
    madvise(start, pages * PAGE, MADV_NOHUGEPAGE);
    for (unsigned i = 0; i < pages; i++)
        ((volatile unsigned char *)start)[i * PAGE] = 1;
    munmap(start, pages * PAGE);
}

static void pin_cpu(int cpu) {
    cpu_set_t set;
    CPU_ZERO(&set);
    CPU_SET((size_t)cpu, &set);
    REQUIRE(sched_setaffinity(0, sizeof set, &set) == 0);
}

static const struct na_ibs_start faults = {.source = NA_IBS_SOURCE_SWFAULT, .period = 1};

/* ---- full: what does not fit is counted, exactly ----------------------------------------------
 */

static void test_full(void) {
    kmod_load("");
    pin_cpu(0);
    kmod_log_t log = kmod_log_make(4096);
    na_kmod_t kmod;
    kmod_session(&kmod, 64, 32);
    unsigned char *start =
        mmap(NULL, 1000 * PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    madvise(start, 1000 * PAGE, MADV_NOHUGEPAGE);
    struct na_ibs_range range = {(uintptr_t)start, (uintptr_t)start + 1000 * PAGE};
    struct na_ibs_start limited = faults;
    limited.ranges = 1;
    limited.range = (uintptr_t)&range;
    kmod_begin(&kmod, limited);
    /* Poll: not ready below the watermark, ready from it on. */
    for (unsigned i = 0; i < 31; i++)
        start[i * PAGE] = 1;
    CHECK(na_kmod_wait(&kmod, 0) == 0);
    start[31 * PAGE] = 1;
    CHECK(na_kmod_wait(&kmod, 0) == 1);
    for (unsigned i = 32; i < 500; i++)
        start[i * PAGE] = 1;
    struct na_ibs_stats stats = kmod_balance(&kmod);
    CHECK(kmod_count(&stats, NA_IBS_SAMPLED) - kmod_count(&stats, NA_IBS_GATED) == 500);
    CHECK(kmod_count(&stats, NA_IBS_STORED) == 64 && kmod_count(&stats, NA_IBS_LOST) == 500 - 64);
    CHECK(kmod_count(&stats, NA_IBS_HOSTILE) == 0);
    /* The oldest are kept; with room again it goes on. */
    CHECK(kmod_log_drain(&kmod, &log) == 64);
    for (size_t i = 0; i < 64; i++)
        CHECK(log.record[i].addr == range.start + i * PAGE && log.record[i].seq == i);
    for (unsigned i = 500; i < 510; i++)
        start[i * PAGE] = 1;
    CHECK(kmod_log_drain(&kmod, &log) == 10);
    CHECK(log.record[64].addr == range.start + 500 * PAGE && log.record[64].seq == 64);
    /* A reader that sleeps in poll is woken at the watermark, once around the ring and more. */
    for (unsigned round = 0; round < 14; round++) {
        for (unsigned i = 0; i < 32; i++)
            start[(510 + round * 32 + i) * PAGE] = 1;
        CHECK(na_kmod_wait(&kmod, 1000) == 1);
        CHECK(kmod_log_drain(&kmod, &log) == 32);
    }
    stats = kmod_balance(&kmod);
    CHECK(kmod_count(&stats, NA_IBS_LOST) == 500 - 64);
    na_kmod_close(&kmod);
    munmap(start, 1000 * PAGE);
    kmod_expect_idle();
    kmod_unload();
}

/* A thread that waits in poll while another fills the ring. */
static int woken;

static void *waiter(void *argument) {
    if (na_kmod_wait(argument, 60000) == 1) __atomic_store_n(&woken, 1, __ATOMIC_RELEASE);
    return NULL;
}

static void test_wake(void) {
    kmod_load("test_sources=1");
    static const struct na_ibs_range range = {0x100000, 0x200000};
    static const struct na_ibs_start sources[] = {
        {.source = NA_IBS_SOURCE_SWFAULT, .period = 1},
        {.source = NA_IBS_SOURCE_SIM, .period = 100000, .ranges = 1, .range = (uintptr_t)&range},
        {.source = NA_IBS_SOURCE_SIM,
         .flags = NA_IBS_START_NMI,
         .period = 100000,
         .ranges = 1,
         .range = (uintptr_t)&range},
    };
    for (size_t i = 0; i < NA_COUNT(sources); i++) {
        na_kmod_t kmod;
        kmod_session(&kmod, 1024, 200);
        woken = 0;
        pthread_t thread;
        REQUIRE(pthread_create(&thread, NULL, waiter, &kmod) == 0);
        lab_sleep_ms(20);
        kmod_begin(&kmod, sources[i]);
        uint64_t end = lab_now_ms() + 60000;
        while (!__atomic_load_n(&woken, __ATOMIC_ACQUIRE) && lab_now_ms() < end)
            fault(10);
        pthread_join(thread, NULL);
        CHECK_MSG(woken, "source %u", sources[i].source);
        na_kmod_close(&kmod);
    }
    kmod_expect_idle();
    kmod_unload();
}

/* ---- hostile: a reader that writes what it likes ----------------------------------------------
 */

static void test_hostile(void) {
    kmod_load("");
    pin_cpu(0);
    na_kmod_t kmod;
    kmod_session(&kmod, 64, 64);
    kmod_begin(&kmod, faults);
    struct na_ibs_ring *ring = kmod.ring[0].shared;
    const size_t bytes = NA_IBS_RING_SIZE(64);
    static const uint64_t tails[] = {1000000, UINT64_MAX - 1000, 1ULL << 63, UINT64_MAX - 64,
                                     0x123456789abcdefULL};
    uint64_t lost = 0;
    for (size_t i = 0; i < NA_COUNT(tails); i++) {
        __atomic_store_n(&ring->tail, tails[i], __ATOMIC_RELEASE);
        fault(10);
        struct na_ibs_stats stats;
        REQUIRE(na_kmod_stats(&kmod, 0, &stats) == 0);
        CHECK_MSG(kmod_count(&stats, NA_IBS_HOSTILE) >= lost + 10, "tail %lx: %lu", tails[i],
                  kmod_count(&stats, NA_IBS_HOSTILE));
        lost = kmod_count(&stats, NA_IBS_HOSTILE);
        CHECK(kmod_count(&stats, NA_IBS_LOST) == lost);
        CHECK(kmod_count(&stats, NA_IBS_STORED) == kmod_count(&stats, NA_IBS_SAMPLED) - lost);
        struct pollfd poll_one = {.fd = kmod.fd, .events = POLLIN};
        CHECK(poll(&poll_one, 1, 0) >= 0);
    }
    /* All of the ring is written over while samples arrive: the kernel's accounts stand. */
    struct na_ibs_stats before, after;
    REQUIRE(na_kmod_stats(&kmod, 0, &before) == 0);
    uint64_t random = 42;
    for (int round = 0; round < 200; round++) {
        uint64_t *word = (uint64_t *)ring;
        for (size_t i = 0; i < bytes / 8; i += 1 + lab_random(&random) % 16)
            word[i] = lab_random(&random);
        fault(2);
    }
    REQUIRE(na_kmod_stop(&kmod) == 0);
    REQUIRE(na_kmod_stats(&kmod, 0, &after) == 0);
    CHECK(kmod_count(&after, NA_IBS_SAMPLED) >= kmod_count(&before, NA_IBS_SAMPLED) + 400);
    CHECK(kmod_count(&after, NA_IBS_SAMPLED) ==
          kmod_count(&after, NA_IBS_STORED) + kmod_count(&after, NA_IBS_LOST));
    /* An honest tail again, and samples are stored again: the kernel's head was never the user's.
     */
    uint64_t stored = kmod_count(&after, NA_IBS_STORED);
    kmod_begin(&kmod, faults);
    __atomic_store_n(&ring->tail, stored, __ATOMIC_RELEASE);
    fault(5);
    REQUIRE(na_kmod_stop(&kmod) == 0);
    REQUIRE(na_kmod_stats(&kmod, 0, &after) == 0);
    CHECK(kmod_count(&after, NA_IBS_STORED) >= stored + 5);
    CHECK(ring->head == kmod_count(&after, NA_IBS_STORED));
    na_kmod_close(&kmod);
    kmod_expect_idle();
    kmod_unload();
}

/* ---- ends: every way a session can end --------------------------------------------------------
 */

/* Records of a ring. The large ones are two MiB on four CPUs, so that a leak of rings is seen. */
enum { SMALL = 1024, LARGE = 8192 };

/* Samples itself until it is killed. */
static void sampled_forever(uint32_t flags, uint32_t records, int ready) {
    na_kmod_t kmod;
    kmod_session(&kmod, records, 512);
    struct na_ibs_start start = faults;
    start.flags = flags;
    kmod_begin(&kmod, start);
    fault(10);
    char byte = 1;
    REQUIRE(write(ready, &byte, 1) == 1);
    for (;;)
        fault(10);
}

static void wait_byte(int fd) {
    char byte;
    REQUIRE(read(fd, &byte, 1) == 1);
}

/* One process still has a descriptor, but its counters are gone, within 20 seconds. */
static void expect_unsampled(void) {
    struct na_ibs_info info = {0};
    for (int i = 0; i < 4000; i++) {
        char why[NA_KMOD_WHY];
        na_kmod_t probe;
        REQUIRE(na_kmod_open(&probe, why) == 0);
        info = probe.info;
        na_kmod_close(&probe);
        if (info.events == 0 && info.sessions == 2) break;
        lab_sleep_ms(5);
    }
    CHECK_MSG(info.events == 0 && info.sessions == 2, "%u events, %u sessions", info.events,
              info.sessions);
}

static void test_ends(void) {
    kmod_load("");
    int ready[2], go[2];
    REQUIRE(pipe2(ready, O_CLOEXEC) == 0 && pipe2(go, O_CLOEXEC) == 0);
    for (int i = 0; i < 2; i++) {
        uint32_t flags = i == 0 ? 0 : NA_IBS_START_WHOLE_CPU;
        /* Killed. */
        pid_t child = kmod_fork();
        if (child == 0) sampled_forever(flags, SMALL, ready[1]);
        wait_byte(ready[0]);
        CHECK(kmod_try_unload() == EWOULDBLOCK);
        kill(child, SIGKILL);
        CHECK(kmod_join(child) == 1000 + SIGKILL);
        kmod_expect_idle();

        /* It exits, and a child of its own keeps the descriptor: no more events, one session. */
        child = kmod_fork();
        if (child == 0) {
            na_kmod_t kmod;
            kmod_session(&kmod, 64, 32);
            struct na_ibs_start start = faults;
            start.flags = flags;
            kmod_begin(&kmod, start);
            pid_t orphan = fork();
            if (orphan == 0) {
                close(ready[0]);
                struct pollfd poll_one = {.fd = kmod.fd, .events = POLLIN};
                poll(&poll_one, 1, 30000);
                char byte = poll_one.revents & POLLHUP ? 2 : 3;
                REQUIRE(write(ready[1], &byte, 1) == 1);
                wait_byte(go[0]); /* holds the descriptor until told */
                _exit(0);
            }
            _exit(0);
        }
        CHECK(kmod_join(child) == 0);
        char byte = 0;
        REQUIRE(read(ready[0], &byte, 1) == 1);
        CHECK_MSG(byte == 2, "poll in the orphan: %d", byte);
        expect_unsampled();
        REQUIRE(write(go[1], "", 1) == 1);
        kmod_expect_idle();

        /* exec, with the descriptor kept open: the program that follows is not sampled. */
        child = kmod_fork();
        if (child == 0) {
            na_kmod_t kmod;
            kmod_session(&kmod, 64, 32);
            struct na_ibs_start start = faults;
            start.flags = flags;
            kmod_begin(&kmod, start);
            fcntl(kmod.fd, F_SETFD, 0);
            REQUIRE(write(ready[1], "", 1) == 1);
            execl("/bin/busybox", "busybox", "sleep", "600", (char *)NULL);
            _exit(127);
        }
        wait_byte(ready[0]);
        expect_unsampled();
        kill(child, SIGKILL);
        CHECK(kmod_join(child) == 1000 + SIGKILL);
        kmod_expect_idle();

        /* The rings are unmapped one by one: it runs until the last is gone. */
        na_kmod_t kmod;
        kmod_session(&kmod, 64, 32);
        struct na_ibs_start start = faults;
        start.flags = flags;
        kmod_begin(&kmod, start);
        struct na_ibs_stats stats;
        size_t bytes = NA_IBS_RING_SIZE(64);
        CHECK(munmap((char *)kmod.ring[0].shared + PAGE, PAGE) == -1); /* no halves */
        for (uint32_t cpu = 1; cpu < kmod.rings; cpu++)
            if (kmod.ring[cpu].shared != NULL) munmap(kmod.ring[cpu].shared, bytes);
        /* The last moves, and is still one. */
        void *moved = mremap(kmod.ring[0].shared, bytes, bytes, MREMAP_MAYMOVE | MREMAP_FIXED,
                             (char *)lab_map(1 << 20) + PAGE);
        CHECK(moved != MAP_FAILED);
        CHECK(mremap(moved, bytes, 2 * bytes, MREMAP_MAYMOVE) == MAP_FAILED);
        REQUIRE(na_kmod_stats(&kmod, -1, &stats) == 0);
        uint64_t sampled = kmod_count(&stats, NA_IBS_SAMPLED);
        fault(10);
        REQUIRE(na_kmod_stats(&kmod, -1, &stats) == 0);
        CHECK(kmod_count(&stats, NA_IBS_SAMPLED) >= sampled + 10);
        munmap(moved, bytes);
        CHECK(na_kmod_wait(&kmod, 1000) == -ENXIO);
        /* It ends by a worker of the kernel's, which may have to wait for a processor. */
        for (unsigned waited = 0; kmod_refused(&kmod, faults) != ENXIO; waited += 50) {
            REQUIRE(waited < 60000);
            lab_sleep_ms(50);
        }
        REQUIRE(na_kmod_stats(&kmod, -1, &stats) == 0);
        sampled = kmod_count(&stats, NA_IBS_SAMPLED);
        fault(10);
        REQUIRE(na_kmod_stats(&kmod, -1, &stats) == 0);
        CHECK(kmod_count(&stats, NA_IBS_SAMPLED) == sampled);
        CHECK(kmod_refused(&kmod, faults) == ENXIO);
        CHECK(mmap(NULL, bytes, PROT_READ, MAP_SHARED, kmod.fd, 0) == MAP_FAILED);
        for (uint32_t cpu = 0; cpu < kmod.rings; cpu++)
            kmod.ring[cpu].shared = NULL;
        na_kmod_close(&kmod);
        kmod_expect_idle();

        /* The descriptor is closed first: the mappings keep session, memory and module. */
        kmod_session(&kmod, 64, 32);
        kmod_begin(&kmod, start);
        close(kmod.fd);
        kmod.fd = -1;
        uint64_t head = 0;
        for (uint32_t cpu = 0; cpu < kmod.rings; cpu++)
            head += kmod.ring[cpu].shared == NULL ? 0 : kmod.ring[cpu].shared->head;
        fault(10);
        uint64_t later = 0;
        for (uint32_t cpu = 0; cpu < kmod.rings; cpu++)
            later += kmod.ring[cpu].shared == NULL ? 0 : kmod.ring[cpu].shared->head;
        CHECK(later >= head + 10);
        CHECK(kmod_try_unload() == EWOULDBLOCK);
        na_kmod_close(&kmod);
        kmod_expect_idle();
    }
    kmod_unload();
}

/* ---- storm: processes and threads come and go -------------------------------------------------
 */

static void *short_thread(void *argument) {
    (void)argument;
    fault(3);
    return NULL;
}

static const struct na_ibs_range anywhere = {0x10000, 0x7ffff0000000};
static volatile uint64_t storm_word;

/* One process of the storm, in its own way. */
static void storm_process(unsigned kind, const char *self) {
    static const struct {
        uint32_t source, flags;
        uint64_t period;
    } how[] = {
        {NA_IBS_SOURCE_SWFAULT, 0, 1},
        {NA_IBS_SOURCE_SIM, NA_IBS_START_NMI, 50000},
        {NA_IBS_SOURCE_HWBP, 0, 1},
        {NA_IBS_SOURCE_SIM, 0, 50000},
        {NA_IBS_SOURCE_SWFAULT, NA_IBS_START_WHOLE_CPU, 1},
    };
    na_kmod_t kmod;
    kmod_session(&kmod, 64, 32);
    struct na_ibs_start start = {.source = how[kind % 5].source,
                                 .flags = how[kind % 5].flags,
                                 .period = how[kind % 5].period,
                                 .ranges = 1,
                                 .range = (uintptr_t)&anywhere,
                                 .addr = (uintptr_t)&storm_word,
                                 .length = 8};
    char why[NA_KMOD_WHY];
    REQUIRE(na_kmod_start(&kmod, &start, why) == 0);
    pthread_t thread[8];
    for (int i = 0; i < 8; i++)
        REQUIRE(pthread_create(&thread[i], NULL, short_thread, NULL) == 0);
    storm_word++;
    if (kind % 3 == 0) _exit(0); /* with its threads running */
    for (int i = 0; i < 8; i++)
        pthread_join(thread[i], NULL);
    if (kind % 3 == 1) {
        execl(self, self, "nothing", (char *)NULL);
        _exit(127);
    }
    pid_t child = fork();
    if (child == 0) {
        fault(5);
        storm_word++;
        _exit(0);
    }
    kmod_join(child);
    if (kind % 2) {
        na_kmod_stop(&kmod);
        kmod_balance(&kmod);
    }
    _exit(kmod_status(check_status()));
}

static void test_storm(const char *self, unsigned total) {
    kmod_load("test_sources=1");
    enum { AT_ONCE = 8 };
    pid_t child[AT_ONCE] = {0};
    unsigned bad = 0;
    for (unsigned i = 0; i < total + AT_ONCE; i++) {
        unsigned slot = i % AT_ONCE;
        if (child[slot] != 0) bad += kmod_join(child[slot]) != 0;
        child[slot] = 0;
        if (i >= total) continue;
        child[slot] = kmod_fork();
        if (child[slot] == 0) storm_process(i, self);
    }
    CHECK_MSG(bad == 0, "%u of %u processes failed", bad, total);
    check_say("%u processes, %u threads, %u execs\n", total, total * 8, total / 3);
    kmod_expect_idle();
    kmod_unload();
}

/* ---- hotplug ----------------------------------------------------------------------------------
 */

static void set_online(int cpu, bool online) {
    char path[96];
    snprintf(path, sizeof path, "/sys/devices/system/cpu/cpu%d/online", cpu);
    int fd = open(path, O_WRONLY | O_CLOEXEC);
    REQUIRE(fd >= 0);
    REQUIRE(write(fd, online ? "1" : "0", 1) == 1);
    close(fd);
}

static int spinning;

static void *spinner(void *argument) {
    (void)argument;
    while (__atomic_load_n(&spinning, __ATOMIC_ACQUIRE))
        fault(20);
    return NULL;
}

static void nothing(void *argument, const struct na_ibs_record *record) {
    uint64_t *by_cpu = argument;
    by_cpu[record->cpu]++;
}

static void test_hotplug(void) {
    kmod_load("test_sources=1");
    static const struct {
        uint32_t source, flags;
        uint64_t period;
    } how[] = {{NA_IBS_SOURCE_SWFAULT, NA_IBS_START_WHOLE_CPU, 1},
               {NA_IBS_SOURCE_SIM, NA_IBS_START_WHOLE_CPU | NA_IBS_START_NMI, 200000},
               {NA_IBS_SOURCE_SWFAULT, 0, 1}};
    for (size_t k = 0; k < NA_COUNT(how); k++) {
        static uint64_t by_cpu[65536];
        na_kmod_t kmod;
        kmod_session(&kmod, 1024, 512);
        kmod_begin(&kmod, (struct na_ibs_start){.source = how[k].source,
                                                .flags = how[k].flags,
                                                .period = how[k].period,
                                                .ranges = 1,
                                                .range = (uintptr_t)&anywhere});
        spinning = 1;
        pthread_t thread[3];
        for (int i = 0; i < 3; i++)
            REQUIRE(pthread_create(&thread[i], NULL, spinner, NULL) == 0);
        for (int round = 0; round < 2; round++)
            for (int cpu = 1; cpu <= 3; cpu++) {
                set_online(cpu, false);
                lab_sleep_ms(5);
                na_kmod_drain(&kmod, nothing, by_cpu);
                memset(by_cpu, 0, sizeof by_cpu);
                fault(10);
                na_kmod_drain(&kmod, nothing, by_cpu);
                CHECK(by_cpu[cpu] == 0);
                set_online(cpu, true);
                /* It is sampled again. */
                lab_sleep_ms(20);
                cpu_set_t set;
                CPU_ZERO(&set);
                CPU_SET((size_t)cpu, &set);
                REQUIRE(sched_setaffinity(0, sizeof set, &set) == 0);
                uint64_t end = lab_now_ms() + 20000;
                while (by_cpu[cpu] == 0 && lab_now_ms() < end) {
                    fault(10);
                    na_kmod_drain(&kmod, nothing, by_cpu);
                }
                CHECK_MSG(by_cpu[cpu] > 0, "source %zu: cpu %d is not sampled after it came back",
                          k, cpu);
                CPU_ZERO(&set);
                CPU_SET(0, &set);
                REQUIRE(sched_setaffinity(0, sizeof set, &set) == 0);
            }
        struct na_ibs_stats stats;
        REQUIRE(na_kmod_stats(&kmod, -1, &stats) == 0);
        CHECK(stats.unarmed == 0);
        __atomic_store_n(&spinning, 0, __ATOMIC_RELEASE);
        for (int i = 0; i < 3; i++)
            pthread_join(thread[i], NULL);
        REQUIRE(na_kmod_stop(&kmod) == 0);
        kmod_balance(&kmod);
        na_kmod_close(&kmod);
        kmod_expect_idle();
    }
    /* A CPU that comes later has no ring: what is sampled there is counted, and asking for the
     * counters gives it one. */
    static uint64_t by_cpu[65536];
    na_kmod_t kmod;
    set_online(3, false);
    kmod_session(&kmod, 1024, 512);
    CHECK(kmod.mapped == kmod.info.online && kmod.ring[3].shared == NULL);
    CHECK(mmap(NULL, NA_IBS_RING_SIZE(1024), PROT_READ, MAP_SHARED, kmod.fd,
               (off_t)NA_IBS_RING_OFFSET(3)) == MAP_FAILED &&
          errno == ENODEV);
    kmod_begin(&kmod, faults);
    set_online(3, true);
    pin_cpu(3);
    fault(10);
    struct na_ibs_stats stats;
    REQUIRE(na_kmod_stats(&kmod, -1, &stats) == 0);
    CHECK_MSG(stats.no_ring >= 10, "%llu samples without a ring", stats.no_ring);
    CHECK(kmod.ring[3].shared != NULL);
    CHECK(kmod.ring[3].shared->state == NA_IBS_RUNNING && kmod.ring[3].shared->weight == 1);
    fault(10);
    na_kmod_drain(&kmod, nothing, by_cpu);
    CHECK(by_cpu[3] >= 10);
    REQUIRE(na_kmod_stop(&kmod) == 0);
    kmod_balance(&kmod);
    na_kmod_close(&kmod);
    pin_cpu(0);
    kmod_expect_idle();
    kmod_unload();
}

/* ---- unload: again and again, under load -------------------------------------------------------
 */

/* KASAN keeps what was freed for a while, unless its caches are shrunk. */
static void let_go(const char *caches) {
    char command[128];
    snprintf(command, sizeof command,
             "for cache in /sys/kernel/slab/%s; do echo 1 >$cache/shrink; done", caches);
    REQUIRE(system(command) == 0);
}

/* Numbers of /proc/slabinfo, active objects of a cache. */
static long slab_active(const char *cache) {
    static char text[65536];
    int fd = open("/proc/slabinfo", O_RDONLY | O_CLOEXEC);
    REQUIRE(fd >= 0);
    size_t length = 0;
    ssize_t n;
    while (length < sizeof text - 1 && (n = read(fd, text + length, sizeof text - 1 - length)) > 0)
        length += (size_t)n;
    close(fd);
    text[length] = '\0';
    const char *at = strstr(text, cache);
    return at == NULL ? -1 : strtol(at + strlen(cache), NULL, 10);
}

static uint64_t free_kib(void) {
    char text[256];
    int fd = open("/proc/meminfo", O_RDONLY | O_CLOEXEC);
    REQUIRE(fd >= 0);
    ssize_t length = read(fd, text, sizeof text - 1);
    close(fd);
    text[length > 0 ? length : 0] = '\0';
    const char *at = strstr(text, "MemAvailable:");
    return at == NULL ? 0 : strtoull(at + 13, NULL, 10);
}

/* At least 30 times: what the rings of 20 rounds take is more than what is allowed to be gone. */
static void test_unload(unsigned times) {
    enum { LOAD = 8, WARM = 10 };
    int ready[2];
    REQUIRE(pipe(ready) == 0);
    unsigned refused = 0;
    uint64_t before = 0;
    long events = 0;
    for (unsigned round = 0; round < times; round++) {
        if (round == WARM) {
            before = free_kib();
            let_go("perf_event");
            events = slab_active("\nperf_event ");
        }
        kmod_load("");
        pid_t child[LOAD];
        for (int i = 0; i < LOAD; i++) {
            child[i] = kmod_fork();
            if (child[i] == 0)
                sampled_forever(i % 2 ? NA_IBS_START_WHOLE_CPU : 0, i == 0 ? LARGE : SMALL,
                                ready[1]);
        }
        for (int i = 0; i < LOAD; i++)
            wait_byte(ready[0]);
        int error = kmod_try_unload();
        refused += error == EWOULDBLOCK;
        REQUIRE(error == EWOULDBLOCK);
        for (int i = 0; i < LOAD; i++)
            kill(child[i], SIGKILL);
        /* Some rounds do not even wait for the dead. */
        if (round % 2)
            for (int i = 0; i < LOAD; i++)
                kmod_join(child[i]);
        kmod_unload();
        if (round % 2 == 0)
            for (int i = 0; i < LOAD; i++)
                kmod_join(child[i]);
    }
    /* What the kernel gives back later, it gives back within 20 seconds. */
    uint64_t after = 0;
    long left = 0;
    for (int i = 0; i < 200; i++) {
        lab_sleep_ms(100);
        after = free_kib();
        let_go("perf_event");
        left = slab_active("\nperf_event ");
        if (after + 48 * 1024 > before && left <= events + 4) break;
    }
    check_say(
        "%u loads, %u unloads, %u refused while in use; free memory %lu -> %lu KiB, perf events "
        "%ld -> %ld\n",
        times, times, refused, before, after, events, left);
    CHECK(refused == times);
    /* The kernel's own deferrals swing by some MiB; the rings of a round are 4 MiB. */
    CHECK_MSG(after + 48 * 1024 > before, "%lu KiB are gone", before - after);
    CHECK_MSG(left <= events + 4, "%ld perf events are left", left - events);
}

/* ---- leaks: who of the module still holds memory ----------------------------------------------
 */

/* With slub_debug=U the kernel knows who allocated each small object. */
static void test_leaks(void) {
    kmod_load("test_sources=1");
    na_kmod_t kmod;
    kmod_session(&kmod, 1024, 512);
    kmod_begin(&kmod, faults);
    fault(10);
    int while_open = system("mount -t debugfs debugfs /sys/kernel/debug; "
                            "n=$(cat /sys/kernel/debug/slab/kmalloc-*/alloc_traces "
                            "/sys/kernel/debug/slab/perf_event/alloc_traces | "
                            "grep -c numalloc_ibs); echo \"$n kinds of objects while it runs\"; "
                            "[ $n -gt 2 ]");
    CHECK(while_open == 0); /* or the instrument sees nothing */
    na_kmod_close(&kmod);
    kmod_expect_idle();
    lab_sleep_ms(300);
    let_go("kmalloc-*");
    let_go("perf_event");
    int after = system("cat /sys/kernel/debug/slab/kmalloc-*/alloc_traces "
                       "/sys/kernel/debug/slab/perf_event/alloc_traces | grep numalloc_ibs | "
                       "grep -v -e na_counters_init -e na_init -e load_module; "
                       "grep numalloc_ibs /proc/vmallocinfo | grep na_ring; "
                       "[ $? -ne 0 ]");
    CHECK(after == 0);
    kmod_unload();
}

int main(int argc, char **argv) {
    static const struct {
        const char *name;
        void (*run)(void);
    } tests[] = {{"full", test_full}, {"wake", test_wake},       {"hostile", test_hostile},
                 {"ends", test_ends}, {"hotplug", test_hotplug}, {"leaks", test_leaks}};
    if (argc == 2 && strcmp(argv[1], "nothing") == 0) {
        fault(5);
        return 0;
    }
    unsigned times = argc == 3 ? (unsigned)atoi(argv[2]) : 0;
    if (times > 0 && (strcmp(argv[1], "storm") == 0 || strcmp(argv[1], "unload") == 0)) {
        if (argv[1][0] == 's')
            test_storm(argv[0], times);
        else
            test_unload(times);
        kmod_expect_quiet();
        return kmod_status(check_status());
    }
    for (size_t i = 0; i < NA_COUNT(tests); i++)
        if (argc == 2 && strcmp(argv[1], tests[i].name) == 0) {
            tests[i].run();
            kmod_expect_quiet();
            return kmod_status(check_status());
        }
    fprintf(stderr, "usage: %s TEST [TIMES]\n", argv[0]);
    return 2;
}
