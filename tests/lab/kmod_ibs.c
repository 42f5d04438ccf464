/* kmod_ibs.c - the module's source `ibs` on a machine that has IBS, held against a loop whose every
 * access is known: lab-kmod-ibs TEST. Without the library.
 *
 *   known     each record: instruction, address, op, thread, node of the page, what answered
 *   raw       the same by the module's own decoding of the registers, and widths
 *   blind     (machine whose samples have no physical address and some no instruction) nodes are as
 *             right as ever, and what instruction it was is not made up
 *   lacking   (processor that samples no ops, or does not count them) what cannot be had is
 * refused, and the reason names the capability; cycles are counted where ops are not beside another
 * user of ibs_op on the CPU: both get samples, and neither the other's load      all CPUs under
 * load: accounts balance, CPUs go and come back, sessions come and go */
#include "kmod.h"

#include "ibs_known.h"
#include "kmod-ibs/uapi/numalloc_ibs_decode.h"

#include <linux/perf_event.h>
#include <stdatomic.h>
#include <sys/mman.h>
#include <sys/syscall.h>

enum { PAGES = 64, PERIOD = 1 << 14, ROOM = 1 << 16 };
#define CNT_CTL (1ULL << 19)

static struct na_ibs_start plain(uint32_t flags) {
    return (struct na_ibs_start){
        .source = NA_IBS_SOURCE_IBS, .period = PERIOD, .config = CNT_CTL, .flags = flags};
}

static void run_loop(na_kmod_t *kmod, kmod_log_t *log, char *buffer, uint64_t rounds) {
    for (uint64_t piece = 250000; rounds > 0; rounds -= piece) {
        if (piece > rounds) piece = rounds;
        known_run(buffer, (size_t)PAGES * KNOWN_PAGE, piece);
        kmod_log_drain(kmod, log);
    }
}

static void check_record(const struct na_ibs_record *r, const known_t *k, const char *buffer,
                         bool raw) {
    int op = k->load && k->store ? NA_IBS_OP_UPDATE : k->load ? NA_IBS_OP_READ : NA_IBS_OP_WRITE;
    /* perf has one word for "loads" and "loads and stores". */
    if (!raw && k->load && !k->locked) op = NA_IBS_OP_READ;
    CHECK_MSG(r->op == op, "%s: op %u", k->name, r->op);
    CHECK_MSG(r->addr - (uintptr_t)buffer < PAGES * KNOWN_PAGE && r->addr % 16 == k->offset,
              "%s: address %llx", k->name, r->addr);
    int home = known_node((const void *)(uintptr_t)r->addr);
    CHECK_MSG(r->home_node == home, "%s: node %d, not %d", k->name, r->home_node, home);
    CHECK_MSG(r->cpu == lab_node[1].cpu && r->cpu_node == lab_node[1].id, "CPU %u of node %d",
              r->cpu, r->cpu_node);
    CHECK(r->tid == (uint32_t)gettid());
    CHECK_MSG(r->weight == PERIOD, "weight %u", r->weight);
    CHECK(((r->flags & NA_IBS_F_LOCKED) != 0) == k->locked);
    if (raw) CHECK_MSG(r->width == k->width, "%s: width %u", k->name, r->width);
    if (!k->load) return;
    bool remote = home != lab_node[1].id;
    CHECK_MSG(r->level == NA_IBS_LEVEL_DRAM, "%s: level %u", k->name, r->level);
    CHECK_MSG((r->flags & (NA_IBS_F_REMOTE | NA_IBS_F_LOCAL)) ==
                  (remote ? NA_IBS_F_REMOTE : NA_IBS_F_LOCAL),
              "%s: flags %x, node %d", k->name, r->flags, home);
    int usual = 20 * lab_node[1].distance[lab_index(home)];
    CHECK_MSG((r->flags & NA_IBS_F_LATENCY) != 0 && r->latency >= usual * 3 / 4 &&
                  r->latency <= usual * 5 / 4 + 1,
              "%s: latency %u, usual %d", k->name, r->latency, usual);
}

/* Returns how many of the loop's records had no instruction. */
static size_t check_known(bool raw, bool blind) {
    na_kmod_t kmod;
    kmod_log_t log = kmod_log_make(ROOM);
    lab_pin(1);
    char *buffer = known_buffer(PAGES, 0, 1);
    kmod_session(&kmod, 8192, 4096);
    kmod_begin(&kmod, plain(raw ? NA_IBS_START_RAW : 0));
    run_loop(&kmod, &log, buffer, 3000000);
    REQUIRE(na_kmod_stop(&kmod) == 0);
    kmod_log_drain(&kmod, &log);
    struct na_ibs_stats stats = kmod_balance(&kmod);
    size_t of[KNOWN_ACCESSES] = {0}, no_ip = 0, walked = 0, right = 0;
    for (size_t i = 0; i < log.count; i++) {
        const struct na_ibs_record *r = &log.record[i];
        if (r->addr - (uintptr_t)buffer >= PAGES * KNOWN_PAGE) continue;
        CHECK_MSG(r->home_node == known_node((const void *)(uintptr_t)r->addr), "node %d",
                  r->home_node);
        walked += (r->flags & NA_IBS_F_HOME_WALK) != 0;
        if ((r->flags & NA_IBS_F_IP_INVALID) != 0) {
            no_ip++;
            continue;
        }
        const known_t *k = known_at_address(r->ip);
        CHECK_MSG(k != NULL, "no access at %llx", r->ip);
        if (k == NULL) continue;
        of[k - known]++;
        right++;
        check_record(r, k, buffer, raw);
    }
    check_say("%zu records, %zu of the loop, %zu without instruction, %zu nodes by the page table; "
              "%llu sampled, %llu no access\n",
              log.count, right, no_ip, walked, stats.counter[NA_IBS_SAMPLED],
              stats.counter[NA_IBS_FILTERED]);
    CHECK(right > 200 && kmod_count(&stats, NA_IBS_LOST) == 0);
    for (int i = 0; i < KNOWN_ACCESSES; i++)
        CHECK_MSG(of[i] > right / 12, "%s: %zu of %zu", known[i].name, of[i], right);
    CHECK(blind ? walked == right + no_ip : walked == 0);
    na_kmod_close(&kmod);
    munmap(buffer, PAGES * KNOWN_PAGE);
    return no_ip;
}

static void check_some(na_kmod_t *kmod, struct na_ibs_start start) {
    kmod_log_t log = kmod_log_make(ROOM);
    char *buffer = known_buffer(PAGES, 0, 1);
    kmod_begin(kmod, start);
    run_loop(kmod, &log, buffer, 1000000);
    REQUIRE(na_kmod_stop(kmod) == 0);
    kmod_log_drain(kmod, &log);
    kmod_balance(kmod);
    CHECK_MSG(log.count > 100, "%zu records", log.count);
    munmap(buffer, PAGES * KNOWN_PAGE);
}

static void lacking(void) {
    enum { OP = 1 << 2, COUNT_OPS = 1 << 4 };
    na_kmod_t kmod;
    char why[NA_KMOD_WHY];
    lab_pin(1);
    kmod_session(&kmod, 8192, 4096);
    uint32_t caps = kmod.info.ibs_caps;
    bool counts = (caps & OP) != 0 && (caps & COUNT_OPS) != 0;
    struct na_ibs_start start = plain(NA_IBS_START_RAW);
    if (counts) {
        if (!na_ibs_raw_overflows(caps)) check_skip("this processor lacks nothing");
        check_some(&kmod, start);
    } else {
        CHECK(na_kmod_start(&kmod, &start, why) == -EOPNOTSUPP);
        CHECK_MSG(strstr(why, caps & OP ? "EAX bit 4" : "EAX bit 2") != NULL, "%s", why);
        start = plain(NA_IBS_START_RAW);
        start.config = 0;
        CHECK(((caps & OP) != 0) == ((kmod.info.sources & 1U << NA_IBS_SOURCE_IBS) != 0));
        if ((caps & OP) != 0)
            check_some(&kmod, start);
        else
            CHECK(na_kmod_start(&kmod, &start, why) == -EOPNOTSUPP);
    }
    na_kmod_close(&kmod);
}

/* Another user, of a whole CPU. */
static int open_other(struct perf_event_mmap_page **ring) {
    struct perf_event_attr attr = {
        .size = sizeof attr,
        .config = CNT_CTL,
        .sample_period = PERIOD,
        .sample_type = PERF_SAMPLE_IP,
        .read_format = PERF_FORMAT_TOTAL_TIME_ENABLED | PERF_FORMAT_TOTAL_TIME_RUNNING,
    };
    FILE *file = fopen("/sys/bus/event_source/devices/ibs_op/type", "r");
    REQUIRE(file != NULL && fscanf(file, "%u", &attr.type) == 1);
    fclose(file);
    int fd = (int)syscall(SYS_perf_event_open, &attr, -1, lab_node[1].cpu, -1, 0);
    REQUIRE(fd >= 0);
    *ring = mmap(NULL, (1 + 64) * KNOWN_PAGE, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    REQUIRE(*ring != MAP_FAILED);
    return fd;
}

static void close_other(int fd, struct perf_event_mmap_page *ring) {
    munmap(ring, (1 + 64) * KNOWN_PAGE);
    close(fd);
}

/* Counters of threads give way to those of CPUs: no samples, which the times tell, until the other
 * user has ended. */
static void beside_threads(void) {
    struct perf_event_mmap_page *ring;
    na_kmod_t kmod;
    kmod_log_t log = kmod_log_make(ROOM);
    lab_pin(1);
    char *buffer = known_buffer(PAGES, 0, 1);
    int fd = open_other(&ring);
    kmod_session(&kmod, 8192, 4096);
    kmod_begin(&kmod, plain(0));
    run_loop(&kmod, &log, buffer, 1000000);
    size_t meanwhile = log.count;
    struct na_ibs_stats stats;
    REQUIRE(na_kmod_stats(&kmod, -1, &stats) == 0);
    CHECK_MSG(stats.enabled > 0 && stats.running < stats.enabled / 2, "enabled %llu, running %llu",
              stats.enabled, stats.running);
    CHECK(ring->data_head > 0);
    close_other(fd, ring);
    run_loop(&kmod, &log, buffer, 3000000);
    REQUIRE(na_kmod_stop(&kmod) == 0);
    kmod_log_drain(&kmod, &log);
    REQUIRE(na_kmod_stats(&kmod, -1, &stats) == 0);
    check_say("%zu records beside another user, %zu after it; counted %.2f of the time\n",
              meanwhile, log.count - meanwhile, (double)stats.running / (double)stats.enabled);
    CHECK(log.count - meanwhile > 200);
    CHECK(stats.running > 0 && stats.running < stats.enabled);
    kmod_balance(&kmod);
    na_kmod_close(&kmod);
    munmap(buffer, PAGES * KNOWN_PAGE);
}

/* perf has one counter a CPU, and lets its users take turns. */
static void beside(void) {
    na_kmod_t kmod;
    kmod_session(&kmod, 64, 1);
    bool threads = kmod.info.ibs_per_task != 0;
    na_kmod_close(&kmod);
    if (threads) {
        beside_threads();
        return;
    }
    struct perf_event_mmap_page *ring;
    int fd = open_other(&ring);
    CHECK(check_known(false, false) == 0);
    uint64_t value[3];
    REQUIRE(read(fd, value, sizeof value) == sizeof value);
    check_say("perf: %lu bytes of samples, counted %.2f of the time\n", (uint64_t)ring->data_head,
              (double)value[2] / (double)value[1]);
    CHECK(ring->data_head > 0 && value[2] < value[1]);
    close_other(fd, ring);
}

static atomic_bool over;

static void use_memory(void *argument, int number) {
    (void)argument;
    if (number == lab_nodes) { /* the one that changes things */
        for (int i = 0; i < 8; i++) {
            FILE *file = fopen("/sys/devices/system/cpu/cpu3/online", "w");
            REQUIRE(file != NULL && fputs(i % 2 == 0 ? "0" : "1", file) >= 0);
            CHECK(fclose(file) == 0);
            lab_sleep_ms(100);
        }
        atomic_store(&over, true);
        return;
    }
    lab_pin(number);
    char *buffer = known_buffer(PAGES, number, 1);
    while (!atomic_load(&over))
        known_run(buffer, PAGES * KNOWN_PAGE, 20000);
    munmap(buffer, PAGES * KNOWN_PAGE);
}

static na_kmod_t busy;
static kmod_log_t busy_log;
static size_t on_cpu[CPU_SETSIZE];

static void load(void) {
    busy_log = kmod_log_make(ROOM);
    kmod_session(&busy, 8192, 4096);
    kmod_begin(&busy, plain(0));
    lab_team(lab_nodes + 1, use_memory, NULL);
    /* What came back is sampled again. */
    kmod_log_drain(&busy, &busy_log);
    busy_log.count = 0;
    lab_pin(3);
    run_loop(&busy, &busy_log, known_buffer(PAGES, 3, 0), 500000);
    for (size_t i = 0; i < busy_log.count; i++)
        on_cpu[busy_log.record[i].cpu]++;
    check_say("%zu records of the CPU that came back\n", on_cpu[lab_node[3].cpu]);
    CHECK(on_cpu[lab_node[3].cpu] > 50);
    for (int i = 0; i < 20; i++) {
        REQUIRE(na_kmod_stop(&busy) == 0);
        kmod_begin(&busy, plain(i % 2 == 0 ? NA_IBS_START_RAW : 0));
        known_run(busy_log.record, 4096, 2000);
    }
    REQUIRE(na_kmod_stop(&busy) == 0);
    kmod_log_drain(&busy, &busy_log);
    kmod_balance(&busy);
    na_kmod_close(&busy);
}

int main(int argc, char **argv) {
    check_begin();
    REQUIRE(argc == 2);
    lab_begin(4);
    kmod_load("");
    const char *test = argv[1];
    if (strcmp(test, "known") == 0)
        CHECK(check_known(false, false) == 0);
    else if (strcmp(test, "raw") == 0)
        CHECK(check_known(true, false) == 0);
    else if (strcmp(test, "blind") == 0) {
        CHECK(check_known(false, true) > 0);
        CHECK(check_known(true, true) > 0);
    } else if (strcmp(test, "lacking") == 0)
        lacking();
    else if (strcmp(test, "beside") == 0)
        beside();
    else if (strcmp(test, "load") == 0)
        load();
    else
        REQUIRE(false && "a test of this name");
    kmod_expect_idle();
    kmod_unload();
    kmod_expect_quiet();
    return kmod_status(check_status());
}
