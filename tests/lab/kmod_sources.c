/* kmod_sources.c - what samples of each source of the kernel module say, against what the program
 * did.
 *
 * usage: kmod_sources TEST   (refuse, swfault, shared, hwbp, permissions) */
#include "kmod.h"

#include <fcntl.h>
#include <grp.h>
#include <linux/capability.h>
#include <poll.h>
#include <signal.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>

#define PAGE KMOD_PAGE

static pid_t own_tid(void) {
    return (pid_t)syscall(SYS_gettid);
}

/* ---- refuse: no IBS here, and the module says why ---------------------------------------------
 */

static void test_refuse(void) {
    kmod_load("");
    na_kmod_t kmod;
    kmod_session(&kmod, 64, 1);
    CHECK((kmod.info.sources & 1U << NA_IBS_SOURCE_IBS) == 0);
    CHECK((kmod.info.sources & 1U << NA_IBS_SOURCE_SIM) == 0);
    CHECK(kmod.info.sources & 1U << NA_IBS_SOURCE_SWFAULT);
    CHECK(kmod.info.ibs_caps == 0);
    CHECK(strlen(kmod.info.why) > 20);
    check_say("why: %s\n", kmod.info.why);
    struct na_ibs_start start = {.source = NA_IBS_SOURCE_IBS, .period = 65536, .type = 9};
    char why[NA_KMOD_WHY];
    CHECK(na_kmod_start(&kmod, &start, why) == -EOPNOTSUPP);
    CHECK(strcmp(why, kmod.info.why) == 0);
    /* The kernel refuses as well, not only the library. */
    CHECK(ioctl(kmod.fd, NA_IBS_START, &start) == -1 && errno == EOPNOTSUPP);
    /* Not loaded for tests: no made-up samples, not even for root. */
    struct na_ibs_range range = {4096, 8192};
    start = (struct na_ibs_start){
        .source = NA_IBS_SOURCE_SIM, .period = 1000000, .ranges = 1, .range = (uintptr_t)&range};
    CHECK(kmod_refused(&kmod, start) == EOPNOTSUPP);
    start.source = NA_IBS_SOURCE_INJECT;
    CHECK(kmod_refused(&kmod, start) == EOPNOTSUPP);
    na_kmod_close(&kmod);
    kmod_unload();
}

/* ---- swfault: every touched page, once, by thread ---------------------------------------------
 */

enum { TEAM = 4, EACH = 200 };

typedef struct toucher {
    unsigned char *start;
    unsigned char *outside; /* one page that nobody asked about */
    pid_t tid;
    int go, done;
    pthread_t thread;
} toucher_t;

static void touch_own(toucher_t *self) {
    for (size_t i = 0; i < EACH; i++)
        self->start[i * PAGE] = 1;
    self->outside[0] = 1;
}

/* Exists before START; touches when told. */
static void *early(void *argument) {
    toucher_t *self = argument;
    self->tid = own_tid();
    __atomic_store_n(&self->done, 1, __ATOMIC_RELEASE);
    while (!__atomic_load_n(&self->go, __ATOMIC_ACQUIRE))
        lab_sleep_ms(1);
    touch_own(self);
    return NULL;
}

/* Is created after START, by a thread that exists before: the creator's creator does not matter. */
static void *late(void *argument) {
    toucher_t *self = argument;
    self->tid = own_tid();
    touch_own(self);
    return NULL;
}

static void *late_parent(void *argument) {
    toucher_t *self = argument;
    while (!__atomic_load_n(&self->go, __ATOMIC_ACQUIRE))
        lab_sleep_ms(1);
    pthread_t thread;
    REQUIRE(pthread_create(&thread, NULL, late, self) == 0);
    pthread_join(thread, NULL);
    return NULL;
}

/* Every page of every toucher is in the log exactly once, by its thread. */
static void check_touched(const kmod_log_t *log, const toucher_t *team,
                          const unsigned char *start) {
    static unsigned seen[TEAM * EACH];
    memset(seen, 0, sizeof seen);
    uint64_t last[64] = {0};
    for (size_t i = 0; i < log->count; i++) {
        const struct na_ibs_record *record = &log->record[i];
        size_t page = (record->addr - (uintptr_t)start) / PAGE;
        REQUIRE(page < TEAM * EACH);
        seen[page]++;
        CHECK_MSG(record->tid == (uint32_t)team[page / EACH].tid, "page %zu: tid %u, not %d", page,
                  record->tid, team[page / EACH].tid);
        CHECK(record->source == NA_IBS_SOURCE_SWFAULT && record->op == NA_IBS_OP_UNKNOWN);
        CHECK(record->weight == 1);
        CHECK_MSG((uintptr_t)touch_own - record->ip + 8192 < 16384, "ip %lx",
                  (unsigned long)record->ip);
        CHECK(!(record->flags & (NA_IBS_F_SIM | NA_IBS_F_KERNEL | NA_IBS_F_NMI)));
        CHECK(record->time >= last[record->cpu]);
        last[record->cpu] = record->time;
        CHECK(lab_index(record->cpu_node) >= 0);
    }
    unsigned missing = 0, twice = 0;
    for (size_t i = 0; i < TEAM * EACH; i++) {
        missing += seen[i] == 0;
        twice += seen[i] > 1;
    }
    CHECK_MSG(missing == 0 && twice == 0, "%u pages are missing, %u are there twice", missing,
              twice);
}

static void swfault_run(uint32_t flags) {
    unsigned char *start = kmod_pages(TEAM * EACH), *outside = kmod_pages(TEAM);
    struct na_ibs_range range = kmod_range(start, TEAM * EACH);
    kmod_log_t log = kmod_log_make(2 * TEAM * EACH);
    static toucher_t team[TEAM];
    memset(team, 0, sizeof team);
    for (int i = 0; i < TEAM; i++) {
        team[i].start = start + (size_t)i * EACH * PAGE;
        team[i].outside = outside + (size_t)i * PAGE;
        REQUIRE(pthread_create(&team[i].thread, NULL, i < TEAM / 2 ? early : late_parent,
                               &team[i]) == 0);
    }
    for (int i = 0; i < TEAM / 2; i++)
        while (!__atomic_load_n(&team[i].done, __ATOMIC_ACQUIRE))
            lab_sleep_ms(1);
    na_kmod_t kmod;
    kmod_session(&kmod, 1024, 256);
    kmod_begin(&kmod, (struct na_ibs_start){.source = NA_IBS_SOURCE_SWFAULT,
                                            .flags = flags,
                                            .ranges = 1,
                                            .range = (uintptr_t)&range});
    for (int i = 0; i < TEAM; i++)
        __atomic_store_n(&team[i].go, 1, __ATOMIC_RELEASE);
    for (int i = 0; i < TEAM; i++)
        pthread_join(team[i].thread, NULL);
    struct na_ibs_stats stats;
    REQUIRE(na_kmod_stats(&kmod, -1, &stats) == 0);
    CHECK(stats.enabled > 0 && stats.running > 0 && stats.unarmed == 0);
    REQUIRE(na_kmod_stop(&kmod) == 0);
    kmod_log_drain(&kmod, &log);
    check_touched(&log, team, start);
    uint64_t enabled = stats.enabled, running = stats.running;
    REQUIRE(na_kmod_stats(&kmod, -1, &stats) == 0);
    CHECK(stats.enabled >= enabled && stats.running >= running); /* they stay */
    stats = kmod_balance(&kmod);
    CHECK(kmod_count(&stats, NA_IBS_LOST) == 0 && kmod_count(&stats, NA_IBS_NESTED) == 0);
    CHECK(kmod_count(&stats, NA_IBS_GATED) >= TEAM);
    check_say("%zu faults of %d threads, %lu outside of the range\n", log.count, TEAM,
              kmod_count(&stats, NA_IBS_GATED));

    /* Stopped is stopped; a second start goes on in the same rings. */
    uint64_t before = kmod_count(&stats, NA_IBS_SAMPLED);
    munmap(start, TEAM * EACH * PAGE);
    munmap(outside, TEAM * PAGE);
    start = kmod_pages(10);
    start[0] = 1;
    stats = kmod_balance(&kmod);
    CHECK(kmod_count(&stats, NA_IBS_SAMPLED) == before);
    range = kmod_range(start, 10);
    kmod_begin(&kmod, (struct na_ibs_start){.source = NA_IBS_SOURCE_SWFAULT,
                                            .flags = flags,
                                            .clock = NA_IBS_CLOCK_TSC,
                                            .ranges = 1,
                                            .range = (uintptr_t)&range});
    uint64_t tsc = __builtin_ia32_rdtsc();
    start[PAGE] = 1;
    uint64_t tsc_after = __builtin_ia32_rdtsc();
    /* The kernel touches the memory for the process: its place is the process's. */
    int fd = open("/dev/zero", O_RDONLY | O_CLOEXEC);
    REQUIRE(read(fd, start + 2 * PAGE, 100) == 100);
    close(fd);
    REQUIRE(na_kmod_stop(&kmod) == 0);
    log.count = 0;
    kmod_log_drain(&kmod, &log);
    CHECK(log.count == 2);
    CHECK(log.record[0].addr == (uintptr_t)start + PAGE);
    CHECK(log.record[0].time >= tsc && log.record[0].time <= tsc_after);
    CHECK(log.record[1].addr == (uintptr_t)start + 2 * PAGE);
    CHECK(log.record[1].flags & NA_IBS_F_KERNEL);
    CHECK(log.record[1].ip < 1UL << 47);
    kmod_balance(&kmod);
    na_kmod_close(&kmod);
}

static void test_swfault(void) {
    kmod_load("");
    lab_begin(1);
    swfault_run(0);
    swfault_run(NA_IBS_START_WHOLE_CPU);
    /* Beside a process that samples whole CPUs: its counters see our faults as well, and are none
     * of our business. */
    int ready[2];
    REQUIRE(pipe(ready) == 0);
    pid_t child = kmod_fork();
    if (child == 0) {
        na_kmod_t kmod;
        kmod_session(&kmod, 64, 32);
        kmod_begin(&kmod, (struct na_ibs_start){.source = NA_IBS_SOURCE_SWFAULT,
                                                .flags = NA_IBS_START_WHOLE_CPU});
        REQUIRE(write(ready[1], "", 1) == 1);
        for (;;)
            pause();
    }
    char byte;
    REQUIRE(read(ready[0], &byte, 1) == 1);
    swfault_run(0);
    kill(child, SIGKILL);
    kmod_join(child);
    kmod_expect_idle();
    kmod_unload();
}

/* ---- shared: whole CPUs, processes told apart -------------------------------------------------
 */

/* A child of its own range: its faults and nobody else's. */
static int shared_child(int ready, int go, unsigned pages) {
    unsigned char *start = kmod_pages(pages);
    struct na_ibs_range range = kmod_range(start, pages);
    kmod_log_t log = kmod_log_make(pages + 64);
    na_kmod_t kmod;
    kmod_session(&kmod, 4096, 4096);
    kmod_begin(&kmod, (struct na_ibs_start){.source = NA_IBS_SOURCE_SWFAULT,
                                            .flags = NA_IBS_START_WHOLE_CPU,
                                            .ranges = 1,
                                            .range = (uintptr_t)&range});
    char byte = 0;
    REQUIRE(write(ready, &byte, 1) == 1);
    REQUIRE(read(go, &byte, 1) == 0); /* all have started */
    for (unsigned i = 0; i < pages; i++)
        start[i * PAGE] = 1;
    struct na_ibs_stats stats = kmod_balance(&kmod);
    REQUIRE(na_kmod_stop(&kmod) == 0);
    kmod_log_drain(&kmod, &log);
    CHECK_MSG(log.count == pages, "%zu records of %u faults", log.count, pages);
    for (size_t i = 0; i < log.count; i++) {
        CHECK(log.record[i].tid == (uint32_t)own_tid());
        CHECK(log.record[i].addr - range.start < pages * PAGE);
    }
    CHECK(stats.foreign > 0);
    na_kmod_close(&kmod);
    return kmod_status(check_status());
}

static void fault_elsewhere(void *argument, int number) {
    (void)argument;
    lab_pin(number);
    unsigned char *page = kmod_pages(1);
    page[0] = 1;
    munmap(page, PAGE);
}

static void test_shared(void) {
    kmod_load("test_sources=1");
    lab_begin(1);
    enum { PROCESSES = 8 };
    int go[2], ready[2];
    REQUIRE(pipe(go) == 0 && pipe(ready) == 0);
    pid_t child[PROCESSES];
    for (int i = 0; i < PROCESSES; i++) {
        child[i] = kmod_fork();
        if (child[i] == 0) {
            close(go[1]);
            _exit(shared_child(ready[1], go[0], 100 + 50 * (unsigned)i));
        }
    }
    for (int i = 0; i < PROCESSES; i++) {
        char byte;
        REQUIRE(read(ready[0], &byte, 1) == 1);
    }
    /* The counters are taken by a source: another one, or another kind, has to wait. */
    na_kmod_t kmod;
    kmod_session(&kmod, 64, 1);
    struct na_ibs_range range = {4096, 8192};
    CHECK(kmod_refused(&kmod, (struct na_ibs_start){.source = NA_IBS_SOURCE_SIM,
                                                    .period = 1000000,
                                                    .flags = NA_IBS_START_WHOLE_CPU,
                                                    .ranges = 1,
                                                    .range = (uintptr_t)&range}) == EBUSY);
    /* Another period: who came first decides, and the start says so. */
    char why[NA_KMOD_WHY];
    struct na_ibs_start start = {
        .source = NA_IBS_SOURCE_SWFAULT, .period = 7, .flags = NA_IBS_START_WHOLE_CPU};
    CHECK(na_kmod_start(&kmod, &start, why) == 0);
    CHECK(start.period == 1 && kmod.ring[0].shared->weight == 1);
    /* One running session a process. */
    na_kmod_t second;
    kmod_session(&second, 64, 1);
    CHECK(kmod_refused(&second, (struct na_ibs_start){.source = NA_IBS_SOURCE_SWFAULT}) == EBUSY);
    na_kmod_close(&second);
    na_kmod_close(&kmod);
    /* On every CPU something faults that is none of the children's. */
    lab_team(lab_nodes, fault_elsewhere, NULL);
    close(go[0]);
    close(go[1]);
    for (int i = 0; i < PROCESSES; i++)
        CHECK(kmod_join(child[i]) == 0);
    kmod_expect_idle();
    kmod_unload();
}

/* ---- hwbp: every access, its CPU, its node ----------------------------------------------------
 */

static volatile uint64_t *watched;

static void poke(void *argument, int number) {
    (void)argument;
    lab_pin(number);
    for (int i = 0; i < 100; i++)
        *watched = (uint64_t)i;
}

/* The kernel takes a page away for a moment, to see who uses it: then it has no node. */
static int home_of(const unsigned char *page) {
    int node = -ENOENT;
    for (int i = 0; i < 1000 && node == -ENOENT; i++) {
        (void)*(const volatile unsigned char *)page;
        node = kmod_page_node(page);
    }
    return node;
}

static void test_hwbp(void) {
    kmod_load("");
    lab_begin(1);
    kmod_log_t log = kmod_log_make(4096);
    for (int home = 0; home < lab_nodes; home++) {
        if (!lab_node[home].memory || lab_node[home].cpu < 0) continue;
        lab_pin(home);
        unsigned char *page = kmod_pages(1);
        page[0] = 1;
        watched = (volatile uint64_t *)(page + 64);
        na_kmod_t kmod;
        kmod_session(&kmod, 1024, 100);
        kmod_begin(&kmod, (struct na_ibs_start){.source = NA_IBS_SOURCE_HWBP,
                                                .addr = (uintptr_t)watched,
                                                .length = 8,
                                                .write = 1});
        lab_team(lab_nodes, poke, NULL);
        REQUIRE(na_kmod_stop(&kmod) == 0);
        log.count = 0;
        kmod_log_drain(&kmod, &log);
        CHECK_MSG(log.count == 100 * (size_t)lab_nodes, "%zu hits of %d", log.count,
                  100 * lab_nodes);
        int by_node[LAB_NODES] = {0};
        for (size_t i = 0; i < log.count; i++) {
            const struct na_ibs_record *record = &log.record[i];
            CHECK(record->addr == (uintptr_t)watched);
            CHECK_MSG(record->home_node == home_of(page), "home node %d, the kernel says %d",
                      record->home_node, home_of(page));
            CHECK(record->flags & NA_IBS_F_HOME_WALK);
            CHECK(record->ip - (uintptr_t)poke < 512);
            int index = lab_index(record->cpu_node);
            REQUIRE(index >= 0);
            by_node[index]++;
        }
        for (int i = 0; i < lab_nodes; i++)
            CHECK_MSG(by_node[i] == 100, "node %d: %d accesses", i, by_node[i]);
        kmod_balance(&kmod);
        na_kmod_close(&kmod);
        munmap(page, PAGE);
    }
    /* A page that was never there has no node; a huge one has. */
    na_kmod_t kmod;
    kmod_session(&kmod, 64, 1);
    static const struct na_ibs_start wrong[] = {
        {.source = NA_IBS_SOURCE_HWBP, .addr = 0x1001, .length = 2},
        {.source = NA_IBS_SOURCE_HWBP, .addr = 0x1000, .length = 3},
        {.source = NA_IBS_SOURCE_HWBP, .addr = 0x1000, .length = 0},
        {.source = NA_IBS_SOURCE_HWBP, .addr = 0x1000, .length = 8192},
        {.source = NA_IBS_SOURCE_HWBP, .addr = 0xffffffff81000000, .length = 8},
        {.source = NA_IBS_SOURCE_HWBP, .addr = 1UL << 56, .length = 8},
        {.source = NA_IBS_SOURCE_HWBP, .addr = 0x1000, .length = 8, .write = 2},
    };
    for (size_t i = 0; i < NA_COUNT(wrong); i++)
        CHECK(kmod_refused(&kmod, wrong[i]) == EINVAL);
    na_kmod_close(&kmod);
    kmod_expect_idle();
    kmod_unload();
}

/* ---- permissions ------------------------------------------------------------------------------
 */

static int as_user(const char *path, int want) {
    pid_t child = kmod_fork();
    if (child == 0) {
        REQUIRE(setgroups(0, NULL) == 0 && setresgid(1000, 1000, 1000) == 0);
        REQUIRE(setresuid(1000, 1000, 1000) == 0);
        int fd = open(path, O_RDWR | O_CLOEXEC);
        int got = fd >= 0 ? 0 : errno;
        if (got != want) check_say("open says %d, not %d\n", got, want);
        if (got == 0) {
            /* Sampling oneself is all it is good for: nothing made up. */
            struct na_ibs_info info = {.size = sizeof info};
            REQUIRE(ioctl(fd, NA_IBS_INFO, &info) == 0);
            CHECK((info.sources & (1U << NA_IBS_SOURCE_SIM | 1U << NA_IBS_SOURCE_INJECT)) == 0);
            close(fd);
            na_kmod_t kmod;
            kmod_session(&kmod, 64, 1);
            struct na_ibs_range range = {4096, 8192};
            struct na_ibs_start start = {.source = NA_IBS_SOURCE_SIM,
                                         .period = 1000000,
                                         .ranges = 1,
                                         .range = (uintptr_t)&range};
            CHECK(kmod_refused(&kmod, start) == EPERM);
            start = (struct na_ibs_start){.source = NA_IBS_SOURCE_SWFAULT,
                                          .flags = NA_IBS_START_WHOLE_CPU};
            CHECK(kmod_refused(&kmod, start) == EPERM);
            kmod_begin(&kmod, (struct na_ibs_start){.source = NA_IBS_SOURCE_SWFAULT});
            unsigned char *page = kmod_pages(2);
            page[0] = 1;
            kmod_log_t log = kmod_log_make(64);
            CHECK(kmod_log_drain(&kmod, &log) > 0);
            struct na_ibs_inject block = {.size = sizeof block, .repeat = 1};
            CHECK(ioctl(kmod.fd, NA_IBS_INJECT, &block) == -1 && errno == EPERM);
            na_kmod_close(&kmod);
        }
        _exit(got == want ? kmod_status(check_status()) : 1);
    }
    return kmod_join(child);
}

/* Root that gave one capability up. */
static int without_perfmon(int want) {
    pid_t child = kmod_fork();
    if (child == 0) {
        struct __user_cap_header_struct header = {_LINUX_CAPABILITY_VERSION_3, 0};
        struct __user_cap_data_struct data[2];
        REQUIRE(syscall(SYS_capget, &header, data) == 0);
        data[CAP_PERFMON / 32].effective &= ~(1U << (CAP_PERFMON % 32));
        data[0].effective &= ~(1U << CAP_SYS_ADMIN);
        REQUIRE(syscall(SYS_capset, &header, data) == 0);
        int fd = open(NA_IBS_PATH, O_RDWR | O_CLOEXEC);
        _exit((fd >= 0 ? 0 : errno) == want ? 0 : 1);
    }
    return kmod_join(child);
}

static void test_permissions(void) {
    struct stat file;
    kmod_load("test_sources=1");
    REQUIRE(stat(NA_IBS_PATH, &file) == 0);
    CHECK_MSG((file.st_mode & 07777) == 0600, "mode %o", file.st_mode);
    CHECK(as_user(NA_IBS_PATH, EACCES) == 0);
    CHECK(without_perfmon(EPERM) == 0);
    REQUIRE(chmod(NA_IBS_PATH, 0666) == 0);
    CHECK(as_user(NA_IBS_PATH, EPERM) == 0); /* the file mode alone does not do */
    kmod_unload();

    kmod_load("test_sources=1 trust_file_mode=1 device_mode=0666");
    REQUIRE(stat(NA_IBS_PATH, &file) == 0);
    CHECK_MSG((file.st_mode & 07777) == 0666, "mode %o", file.st_mode);
    CHECK(as_user(NA_IBS_PATH, 0) == 0);
    CHECK(without_perfmon(0) == 0);
    kmod_unload();

    kmod_load("trust_file_mode=1");
    CHECK(as_user(NA_IBS_PATH, EACCES) == 0);
    kmod_unload();

    /* As many sessions as it says. */
    kmod_load("max_sessions=3");
    na_kmod_t kmod[4];
    char why[NA_KMOD_WHY];
    for (int i = 0; i < 3; i++)
        REQUIRE(na_kmod_open(&kmod[i], why) == 0);
    CHECK(na_kmod_open(&kmod[3], why) == -EUSERS);
    check_say("%s\n", why);
    na_kmod_close(&kmod[0]);
    CHECK(na_kmod_open(&kmod[3], why) == 0);

    /* A descriptor is no use to another process: neither inherited nor passed on. */
    REQUIRE(na_kmod_map(&kmod[3], 64, 1) == 0);
    pid_t child = kmod_fork();
    if (child == 0) {
        struct na_ibs_info info = {.size = sizeof info};
        CHECK(ioctl(kmod[3].fd, NA_IBS_INFO, &info) == 0);
        struct na_ibs_start start = {.source = NA_IBS_SOURCE_SWFAULT, .period = 1};
        CHECK(na_kmod_start(&kmod[3], &start, why) == -EPERM);
        struct na_ibs_setup setup = {.size = sizeof setup, .records = 64, .watermark = 1};
        CHECK(ioctl(kmod[3].fd, NA_IBS_SETUP, &setup) == -1 && errno == EPERM);
        CHECK(mmap(NULL, NA_IBS_RING_SIZE(64), PROT_READ, MAP_SHARED, kmod[3].fd, 0) ==
                  MAP_FAILED &&
              errno == EPERM);
        _exit(kmod_status(check_status()));
    }
    CHECK(kmod_join(child) == 0);
    /* The child has no rings, whatever it asks for. */
    CHECK(madvise(kmod[3].ring[0].shared, NA_IBS_RING_SIZE(64), MADV_DOFORK) == -1);
    child = kmod_fork();
    if (child == 0) {
        signal(SIGSEGV, SIG_DFL);
        struct rlimit none = {0, 0};
        setrlimit(RLIMIT_CORE, &none);
        _exit((int)*(volatile uint32_t *)kmod[3].ring[0].shared & 1);
    }
    CHECK(kmod_join(child) == 1000 + SIGSEGV);
    for (int i = 1; i < 4; i++)
        na_kmod_close(&kmod[i]);
    kmod_expect_idle();
    kmod_unload();

    /* A mode that is none is refused. */
    int fd = open(getenv("NA_KMOD"), O_RDONLY | O_CLOEXEC);
    CHECK(syscall(SYS_finit_module, fd, "device_mode=04777", 0) == -1 && errno == EINVAL);
    close(fd);
}

int main(int argc, char **argv) {
    static const struct {
        const char *name;
        void (*run)(void);
    } tests[] = {{"refuse", test_refuse},
                 {"swfault", test_swfault},
                 {"shared", test_shared},
                 {"hwbp", test_hwbp},
                 {"permissions", test_permissions}};
    for (size_t i = 0; i < NA_COUNT(tests); i++)
        if (argc == 2 && strcmp(argv[1], tests[i].name) == 0) {
            tests[i].run();
            kmod_expect_quiet();
            return kmod_status(check_status());
        }
    fprintf(stderr, "usage: %s TEST\n", argv[0]);
    return 2;
}
