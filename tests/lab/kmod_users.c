/* kmod_users.c - the kernel module and users that are not root: what each may at each level of
 * perf_event_paranoid, what it is told where it may not, and whose memory the rings are.
 *
 * usage: kmod_users TEST   (levels, memory) */
#include "kmod.h"

#include <fcntl.h>
#include <grp.h>
#include <linux/capability.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>

enum { USER = 1000 };

/* No more rights than any user has. */
static void become_user(void) {
    REQUIRE(setgroups(0, NULL) == 0 && setresgid(USER, USER, USER) == 0);
    REQUIRE(setresuid(USER, USER, USER) == 0);
}

/* ---- levels -----------------------------------------------------------------------------------
 */

static void set_level(int level) {
    FILE *file = fopen("/proc/sys/kernel/perf_event_paranoid", "w");
    REQUIRE(file != NULL && fprintf(file, "%d", level) > 0);
    CHECK(fclose(file) == 0);
}

static volatile uint64_t watched[8];

/* One use of what every source sees. */
static void use_memory(void) {
    unsigned char *page = kmod_pages(16);
    for (size_t i = 0; i < 16; i++)
        page[i * KMOD_PAGE] = 1;
    for (int i = 0; i < 500; i++)
        watched[1]++; /* each is two traps of the processor, where it is watched */
    for (int i = 0; i < 100000; i++)
        watched[3]++;
    munmap(page, 16 * KMOD_PAGE);
}

static void must_sample(int level, const char *name, struct na_ibs_start start) {
    na_kmod_t kmod;
    char why[NA_KMOD_WHY];
    kmod_log_t log = kmod_log_make(4096);
    kmod_session(&kmod, 1024, 512);
    int error = na_kmod_start(&kmod, &start, why);
    CHECK_MSG(error == 0, "level %d, %s: %d, %s", level, name, error, why);
    if (error != 0) return;
    uint64_t end = lab_now_ms() + 20000;
    while (log.count == 0 && lab_now_ms() < end) {
        use_memory();
        kmod_log_drain(&kmod, &log);
    }
    CHECK_MSG(log.count > 0, "level %d, %s: no sample", level, name);
    REQUIRE(na_kmod_stop(&kmod) == 0);
    kmod_log_drain(&kmod, &log);
    kmod_balance(&kmod);
    for (size_t i = 0; i < log.count; i++)
        CHECK(log.record[i].addr < 1UL << 47 && log.record[i].ip < 1UL << 47);
    na_kmod_close(&kmod);
    munmap(log.record, log.room * sizeof *log.record);
}

static void must_refuse(int level, const char *name, struct na_ibs_start start, int wanted,
                        const char *line) {
    na_kmod_t kmod;
    char why[NA_KMOD_WHY];
    kmod_session(&kmod, 64, 32);
    int error = na_kmod_start(&kmod, &start, why);
    CHECK_MSG(error == -wanted, "level %d, %s: %d", level, name, error);
    CHECK_MSG(strstr(why, line) != NULL && strchr(why, '\n') == NULL, "level %d, %s: '%s'", level,
              name, why);
    na_kmod_close(&kmod);
}

static void as_user_at(int level, bool ibs) {
    static const struct na_ibs_range range = {4096, 8192};
    const struct na_ibs_start faults = {.source = NA_IBS_SOURCE_SWFAULT, .period = 1},
                              word = {.source = NA_IBS_SOURCE_HWBP,
                                      .period = 100,
                                      .addr = (uintptr_t)&watched[1],
                                      .length = 8},
                              ops = {.source = NA_IBS_SOURCE_IBS,
                                     .period = 1 << 14,
                                     .config = 1U << 19,
                                     .flags = NA_IBS_START_RAW};
    struct na_ibs_start whole = faults, kernel = word,
                        made = {.source = NA_IBS_SOURCE_SIM,
                                .period = 1000000,
                                .ranges = 1,
                                .range = (uintptr_t)&range};
    whole.flags = NA_IBS_START_WHOLE_CPU;
    kernel.addr = 0xffffffff81000000;
    must_sample(level, "swfault", faults);
    must_sample(level, "hwbp", word);
    if (ibs)
        must_sample(level, "ibs", ops);
    else
        must_refuse(level, "ibs", ops, EOPNOTSUPP, "IBS");
    must_refuse(level, "whole CPUs", whole, EPERM, "CAP_PERFMON");
    must_refuse(level, "the kernel's memory", kernel, EINVAL, "words are wrong");
    must_refuse(level, "sim", made, EOPNOTSUPP, "test_sources");
}

static void test_levels(void) {
    kmod_load("trust_file_mode=1 device_mode=0666");
    na_kmod_t kmod;
    kmod_session(&kmod, 64, 32);
    bool ibs = kmod.info.why[0] == '\0';
    na_kmod_close(&kmod);
    for (int level = -1; level <= 4; level++) {
        set_level(level);
        pid_t child = kmod_fork();
        if (child == 0) {
            become_user();
            as_user_at(level, ibs);
            _exit(kmod_status(check_status()));
        }
        CHECK(kmod_join(child) == 0);
    }
    kmod_expect_idle();
    kmod_unload();

    /* Who may not even open it is told what would help. */
    static const struct {
        const char *parameters, *line;
    } closed[] = {{"", "file mode"},
                  {"device_mode=0666", "trust_file_mode"},
                  {"device_mode=0666 trust_file_mode=1 max_sessions=0", "max_sessions"},
                  {"device_mode=0666 trust_file_mode=1 max_user_sessions=0", "max_user_sessions"}};
    for (size_t i = 0; i < NA_COUNT(closed); i++) {
        kmod_load(closed[i].parameters);
        pid_t child = kmod_fork();
        if (child == 0) {
            char why[NA_KMOD_WHY];
            become_user();
            CHECK(na_kmod_open(&kmod, why) != 0);
            CHECK_MSG(strstr(why, closed[i].line) != NULL, "'%s'", why);
            _exit(kmod_status(check_status()));
        }
        CHECK(kmod_join(child) == 0);
        kmod_unload();
    }
    check_say("levels -1 to 4%s\n", ibs ? ", IBS as well" : "");
}

/* ---- memory -----------------------------------------------------------------------------------
 */

static uint64_t available_kib(void) {
    char text[256];
    int fd = open("/proc/meminfo", O_RDONLY | O_CLOEXEC);
    REQUIRE(fd >= 0);
    ssize_t length = read(fd, text, sizeof text - 1);
    close(fd);
    text[length > 0 ? length : 0] = '\0';
    const char *at = strstr(text, "MemAvailable:");
    REQUIRE(at != NULL);
    return strtoull(at + 13, NULL, 10);
}

static void limit_locked(uint64_t bytes) {
    struct rlimit limit = {bytes, bytes};
    REQUIRE(setrlimit(RLIMIT_MEMLOCK, &limit) == 0);
}

/* As root, or as a user, who then may lock so much. */
static pid_t start_as(bool user, uint64_t bytes) {
    pid_t child = kmod_fork();
    if (child != 0) return child;
    limit_locked(bytes);
    if (user) become_user();
    return 0;
}

/* Maps rings of this size: 0, or the error, with a line of its own. */
static int map_rings(na_kmod_t *kmod, uint32_t records, const char *line) {
    char why[NA_KMOD_WHY];
    REQUIRE(na_kmod_open(kmod, why) == 0);
    int error = na_kmod_map(kmod, records, records / 2);
    if (error == 0) return 0;
    na_kmod_why(kmod, "", why);
    CHECK_MSG(strstr(why, line) != NULL, "%d: '%s'", error, why);
    return error;
}

#define OF_USER "this user may lock"
#define OF_ALL  "eighth"

/* Each a process with the largest rings: they end when the pipe does. */
static unsigned crowd(unsigned processes, bool user, const char *line) {
    int said[2], over[2];
    unsigned refused = 0;
    REQUIRE(pipe(said) == 0 && pipe(over) == 0);
    pid_t *child = lab_map(processes * sizeof *child);
    for (unsigned i = 0; i < processes; i++) {
        child[i] = start_as(user, 0);
        if (child[i] != 0) continue;
        na_kmod_t kmod;
        char byte = map_rings(&kmod, NA_IBS_MAX_RECORDS, line) == 0 ? 1 : 2;
        REQUIRE(write(said[1], &byte, 1) == 1);
        close(over[1]);
        REQUIRE(read(over[0], &byte, 1) == 0);
        _exit(kmod_status(check_status()));
    }
    for (unsigned i = 0; i < processes; i++) {
        char byte;
        REQUIRE(read(said[0], &byte, 1) == 1);
        refused += byte == 2;
    }
    close(over[1]);
    for (unsigned i = 0; i < processes; i++)
        CHECK(kmod_join(child[i]) == 0);
    close(over[0]);
    close(said[0]);
    close(said[1]);
    return refused;
}

/* Somebody with memory, as the killer of processes likes them. */
static pid_t bystander(void) {
    pid_t child = kmod_fork();
    if (child != 0) return child;
    memset(lab_map(64 << 20), 1, 64 << 20);
    for (;;)
        pause();
}

static void test_memory(void) {
    enum { CROWD = 48, SMALL = 256 };
    kmod_load("trust_file_mode=1 device_mode=0666 mlock_kb=40");
    na_kmod_t kmod;
    kmod_session(&kmod, 64, 32);
    uint64_t online = kmod.info.online, small = NA_IBS_RING_SIZE(SMALL) * online;
    CHECK(online == (uint64_t)sysconf(_SC_NPROCESSORS_ONLN) && kmod.mapped == online);
    na_kmod_close(&kmod);
    pid_t other = bystander();

    /* A crowd of a user who may lock nothing: none gets its rings. */
    uint64_t before = available_kib();
    CHECK(crowd(CROWD, true, OF_USER) == CROWD);
    /* (What a process takes, and no rings: they would be 4 MiB a processor.) */
    kmod_expect_idle();

    /* 40 KiB a processor: two sessions of 20 each, and not three. What is closed is given back. */
    pid_t child = start_as(true, 0);
    if (child == 0) {
        na_kmod_t one, two, three;
        for (int round = 0; round < 3; round++) {
            CHECK(map_rings(&one, SMALL, "") == 0 && map_rings(&two, SMALL, "") == 0);
            CHECK(map_rings(&three, SMALL, OF_USER) == -EPERM);
            na_kmod_close(&three);
            na_kmod_close(&two);
            CHECK(map_rings(&three, SMALL, "") == 0);
            na_kmod_close(&three);
            na_kmod_close(&one);
        }
        _exit(kmod_status(check_status()));
    }
    CHECK(kmod_join(child) == 0);
    /* RLIMIT_MEMLOCK comes on top. */
    child = start_as(true, small);
    if (child == 0) {
        na_kmod_t open[4];
        for (int i = 0; i < 4; i++)
            CHECK(map_rings(&open[i], SMALL, OF_USER) == (i < 3 ? 0 : -EPERM));
        _exit(kmod_status(check_status()));
    }
    CHECK(kmod_join(child) == 0);
    kmod_expect_idle();
    /* Root may, whatever the limit, up to an eighth of what there is; then it is told. */
    unsigned refused = crowd(CROWD, false, OF_ALL);
    CHECK_MSG(refused > 0 && refused < CROWD, "%u of %u refused", refused, CROWD);
    check_say("%lu MiB available; root got %u of %u sessions of %llu MiB\n", before >> 10,
              CROWD - refused, CROWD, (NA_IBS_RING_SIZE(NA_IBS_MAX_RECORDS) * online) >> 20);
    CHECK(NA_IBS_RING_SIZE(NA_IBS_MAX_RECORDS) * online * (CROWD - refused) < before << 8);
    /* Nobody was killed. */
    CHECK(kill(other, 0) == 0 && waitpid(other, NULL, WNOHANG) == 0);
    kill(other, SIGKILL);
    CHECK(kmod_join(other) == 1000 + SIGKILL);
    kmod_expect_idle();
    kmod_unload();

    /* Sessions of a user; root is not bound. */
    kmod_load("trust_file_mode=1 device_mode=0666 max_user_sessions=3");
    for (int user = 0; user < 2; user++) {
        child = start_as(user, 0);
        if (child == 0) {
            na_kmod_t open[5];
            char why[NA_KMOD_WHY];
            for (int i = 0; i < 5; i++) {
                int error = na_kmod_open(&open[i], why);
                CHECK_MSG(error == (user && i >= 3 ? -EDQUOT : 0), "session %d: %d", i, error);
            }
            if (user) CHECK(strstr(why, "max_user_sessions") != NULL);
            _exit(kmod_status(check_status()));
        }
        CHECK(kmod_join(child) == 0);
    }
    kmod_expect_idle();
    kmod_unload();
}

int main(int argc, char **argv) {
    check_begin();
    lab_begin(1);
    if (argc == 2 && strcmp(argv[1], "levels") == 0)
        test_levels();
    else if (argc == 2 && strcmp(argv[1], "memory") == 0)
        test_memory();
    else
        REQUIRE(false && "a test of this name");
    kmod_expect_quiet();
    return kmod_status(check_status());
}
