/* kmod.c - see kmod.h. */
#include "kmod.h"

#include <fcntl.h>
#include <linux/perf_event.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/utsname.h>
#include <sys/wait.h>

#define MODULE "numalloc_ibs"

/* The kernel refuses modules that were built for another one: is it that? */
static void skip_other_kernel(int fd) {
    static const char mark[] = "vermagic=";
    struct utsname system;
    struct stat file;
    REQUIRE(uname(&system) == 0 && fstat(fd, &file) == 0);
    char *text = mmap(NULL, (size_t)file.st_size, PROT_READ, MAP_PRIVATE, fd, 0);
    REQUIRE(text != MAP_FAILED);
    char *at = memmem(text, (size_t)file.st_size, mark, sizeof mark - 1);
    REQUIRE(at != NULL);
    at += sizeof mark - 1;
    size_t length = strlen(system.release);
    if (strncmp(at, system.release, length) != 0 || at[length] != ' ')
        check_skip("the module is built for another kernel than the lab's: install "
                   "linux-headers-cloud-amd64, run tests/lab/kernel.sh, configure again");
}

/* The first software event of a kind makes perf patch the running kernel's code (a static key), and
 * the last one patches it back. QEMU's emulation of several CPUs can run a breakpoint of such a
 * patch after it was undone, which the kernel takes for a defect: so one event is always there. */
static void keep_patched(void) {
    static bool kept;
    struct perf_event_attr attr = {
        .type = PERF_TYPE_SOFTWARE, .size = sizeof attr, .config = PERF_COUNT_SW_PAGE_FAULTS};
    if (kept) return;
    REQUIRE(syscall(SYS_perf_event_open, &attr, 0, -1, -1, PERF_FLAG_FD_CLOEXEC) >= 0);
    kept = true;
}

void kmod_load(const char *parameters) {
    keep_patched();
    const char *path = getenv("NA_KMOD");
    REQUIRE(path != NULL);
    kmod_try_unload(); /* a test before this one may have failed half way */
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    REQUIRE(fd >= 0);
    int error = syscall(SYS_finit_module, fd, parameters, 0) == 0 ? 0 : errno;
    if (error == ENOEXEC) skip_other_kernel(fd);
    errno = error;
    REQUIRE(error == 0);
    close(fd);
}

int kmod_try_unload(void) {
    return syscall(SYS_delete_module, MODULE, O_NONBLOCK) == 0 ? 0 : errno;
}

void kmod_unload(void) {
    int error = EWOULDBLOCK;
    for (int i = 0; i < 20000 && error == EWOULDBLOCK; i++) {
        if (i > 0) lab_sleep_ms(1);
        error = kmod_try_unload();
    }
    CHECK_MSG(error == 0, "the module does not unload: errno %d", error);
}

void kmod_session(na_kmod_t *kmod, uint32_t records, uint32_t watermark) {
    char why[NA_KMOD_WHY];
    int error = na_kmod_open(kmod, why);
    if (error != 0) check_say("open: %s\n", why);
    REQUIRE(error == 0);
    error = na_kmod_map(kmod, records, watermark);
    if (error != 0) check_say("map: %d\n", error);
    REQUIRE(error == 0);
}

void kmod_begin(na_kmod_t *kmod, struct na_ibs_start start) {
    char why[NA_KMOD_WHY];
    if (start.period == 0) start.period = 1;
    int error = na_kmod_start(kmod, &start, why);
    if (error != 0) check_say("source %u: %d, %s\n", start.source, error, why);
    REQUIRE(error == 0);
}

int kmod_refused(na_kmod_t *kmod, struct na_ibs_start start) {
    char why[NA_KMOD_WHY];
    if (start.period == 0) start.period = 1;
    int error = na_kmod_start(kmod, &start, why);
    if (error == 0) check_say("source %u, address %llx started\n", start.source, start.addr);
    REQUIRE(error != 0);
    REQUIRE(why[0] != '\0');
    return -error;
}

/* What one CPU has, by the kernel and by its ring, as of one moment. */
typedef struct balance {
    struct na_ibs_stats stats;
    uint64_t copy[NA_IBS_COUNTERS], head, tail;
} balance_t;

/* Counters only grow: if all of them are the same before and after, nothing was counted meanwhile.
 * (A session that runs counts this very process's page faults, those of reading among them.) */
static struct na_ibs_stats read_balance(na_kmod_t *kmod, balance_t *of) {
    struct na_ibs_stats before, after;
    REQUIRE(na_kmod_stats(kmod, -1, &after) == 0);
    for (int tries = 0; tries < 1000; tries++) {
        before = after;
        for (uint32_t cpu = 0; cpu < kmod->rings; cpu++) {
            struct na_ibs_ring *ring = kmod->ring[cpu].shared;
            if (ring == NULL) continue;
            REQUIRE(na_kmod_stats(kmod, (int)cpu, &of[cpu].stats) == 0);
            for (int i = 0; i < NA_IBS_COUNTERS; i++)
                of[cpu].copy[i] = __atomic_load_n(&ring->counter[i], __ATOMIC_RELAXED);
            of[cpu].head = __atomic_load_n(&ring->head, __ATOMIC_RELAXED);
            of[cpu].tail = ring->tail;
        }
        REQUIRE(na_kmod_stats(kmod, -1, &after) == 0);
        if (memcmp(before.counter, after.counter, sizeof before.counter) == 0) return after;
    }
    CHECK_MSG(0, "%s", "the counters do not come to rest");
    return after;
}

struct na_ibs_stats kmod_balance(na_kmod_t *kmod) {
    balance_t *of = lab_map(kmod->rings * sizeof *of);
    struct na_ibs_stats all = read_balance(kmod, of), sum = {0};
    uint64_t waiting = 0;
    for (uint32_t cpu = 0; cpu < kmod->rings; cpu++) {
        if (kmod->ring[cpu].shared == NULL) continue;
        const uint64_t *copy = of[cpu].copy;
        uint64_t c[NA_IBS_COUNTERS];
        for (int i = 0; i < NA_IBS_COUNTERS; i++)
            c[i] = of[cpu].stats.counter[i];
        CHECK_MSG(c[NA_IBS_SAMPLED] == c[NA_IBS_STORED] + c[NA_IBS_LOST] + c[NA_IBS_NESTED] +
                                           c[NA_IBS_FILTERED] + c[NA_IBS_GATED] + c[NA_IBS_STOPPED],
                  "cpu %u: sampled %lu, stored %lu lost %lu nested %lu filtered %lu gated %lu "
                  "stopped %lu",
                  cpu, c[0], c[1], c[2], c[3], c[4], c[5], c[6]);
        for (int i = 0; i < NA_IBS_COUNTERS; i++) {
            CHECK_MSG(copy[i] == c[i], "cpu %u counter %d: ring %lu, kernel %lu", cpu, i, copy[i],
                      c[i]);
            sum.counter[i] += c[i];
        }
        CHECK(of[cpu].head == c[NA_IBS_STORED]);
        waiting += of[cpu].head - of[cpu].tail;
    }
    for (int i = 0; i < NA_IBS_COUNTERS; i++)
        CHECK_MSG(sum.counter[i] == all.counter[i], "counter %d: %llu in all, %llu of CPUs", i,
                  all.counter[i], sum.counter[i]);
    CHECK_MSG(kmod_count(&all, NA_IBS_STORED) == kmod->drained + waiting,
              "stored %lu, drained %lu, waiting %lu", kmod_count(&all, NA_IBS_STORED),
              kmod->drained, waiting);
    CHECK(kmod->broken == 0);
    munmap(of, kmod->rings * sizeof *of);
    return all;
}

kmod_log_t kmod_log_make(size_t room) {
    kmod_log_t log = {.record = lab_map(room * sizeof(struct na_ibs_record)), .room = room};
    /* Not while page faults are counted. */
    memset(log.record, 0, room * sizeof(struct na_ibs_record));
    return log;
}

static void keep(void *argument, const struct na_ibs_record *record) {
    kmod_log_t *log = argument;
    if (log->count < log->room) log->record[log->count++] = *record;
}

size_t kmod_log_drain(na_kmod_t *kmod, kmod_log_t *log) {
    return na_kmod_drain(kmod, keep, log);
}

void kmod_expect_idle(void) {
    struct na_ibs_info info = {0};
    for (int i = 0; i < 4000; i++) {
        char why[NA_KMOD_WHY];
        na_kmod_t kmod;
        REQUIRE(na_kmod_open(&kmod, why) == 0);
        info = kmod.info;
        na_kmod_close(&kmod);
        if (info.sessions == 1 && info.events == 0) return;
        lab_sleep_ms(5);
    }
    CHECK_MSG(0, "%u sessions (this is one) and %u events are left", info.sessions, info.events);
}

void kmod_expect_quiet(void) {
    static const char *bad[] = {"BUG",
                                "WARNING",
                                "Oops",
                                "general protection",
                                "Call Trace",
                                "lockup",
                                "stall",
                                "refcount_t",
                                "corruption",
                                "Redzone",
                                "Poison",
                                "Objects remaining",
                                "use-after-free",
                                "scheduling while",
                                "Out of memory",
                                "invoked oom-killer",
                                "sleeping function",
                                "unable to handle"};
    int fd = open("/dev/kmsg", O_RDONLY | O_NONBLOCK | O_CLOEXEC);
    REQUIRE(fd >= 0);
    static char line[8192];
    ssize_t length;
    while ((length = read(fd, line, sizeof line - 1)) > 0 || (length < 0 && errno == EPIPE)) {
        if (length < 0) continue;
        line[length] = '\0';
        /* Of Linux 6.12, as it starts: this processor has no microcode against it. */
        if (strstr(line, "Speculative Return Stack Overflow") != NULL) continue;
        for (size_t i = 0; i < NA_COUNT(bad); i++)
            CHECK_MSG(strstr(line, bad[i]) == NULL, "the kernel says: %s", line);
    }
    close(fd);
}

unsigned char *kmod_pages(size_t pages) {
    unsigned char *start =
        mmap(NULL, pages * KMOD_PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    REQUIRE(start != MAP_FAILED);
    REQUIRE(madvise(start, pages * KMOD_PAGE, MADV_NOHUGEPAGE) == 0);
    return start;
}

struct na_ibs_range kmod_range(const void *start, size_t pages) {
    return (struct na_ibs_range){(uintptr_t)start, (uintptr_t)start + pages * KMOD_PAGE};
}

int kmod_page_node(const void *address) {
    void *page = (void *)((uintptr_t)address & ~(uintptr_t)4095);
    int node = -1;
    REQUIRE(syscall(SYS_move_pages, 0, 1UL, &page, NULL, &node, 0) == 0);
    return node;
}

pid_t kmod_fork(void) {
    pid_t child = fork();
    REQUIRE(child >= 0);
    if (child == 0) prctl(PR_SET_PDEATHSIG, SIGKILL);
    return child;
}

int kmod_join(pid_t child) {
    int status = 0;
    REQUIRE(waitpid(child, &status, 0) == child);
    return WIFEXITED(status) ? WEXITSTATUS(status) : 1000 + WTERMSIG(status);
}

int kmod_status(int own_status) {
    return own_status != 0 || check_status() != 0 ? 1 : lab_status(0);
}
