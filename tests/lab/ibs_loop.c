/* ibs_loop.c - what the lab's emulated IBS gives to perf, held against a loop whose every
 * instruction and access is known, against the kernel's own page tables (pagemap) and its nodes
 * (move_pages): lab-ibs-loop TEST. Nothing of numalloc is used.
 *
 * - detect: the kernel found IBS and set up its interrupt on each CPU, also on one that comes back;
 * - registers: which there are, and which of their bits (#GP), by the kernel's module msr;
 * - known: which instructions are sampled, and what is said of each;
 * - count: as many samples as instructions and period make;
 * - remote: a thread on each node, all at once, each using one node's memory: all samples of it say
 *   local, or all remote; latencies go by the distance;
 * - fetch: which fetches of straight code are sampled, how many, and what is said of each;
 * - zen3 (machine of that name): the same, less those that Linux drops;
 * - both: ops and fetches at the same time;
 * - blind (a machine that lacks some of it): the same as known, as far as there is something;
 * - off: no interrupt comes once the counter is closed. */
#include "ibs_known.h"
#include "ibs_perf.h"

#include <fcntl.h>
#include <math.h>
#include <sys/klog.h>
#include <sys/syscall.h>

enum {
    PAGE = KNOWN_PAGE,
    LOOP = KNOWN_INSTRUCTIONS,
    ACCESS = KNOWN_ACCESSES,
    PAGES = 64, /* of a buffer */
    MOST = 1 << 16,
};

/* ---- samples ---- */

static void write_file(const char *path, const char *value) {
    int fd = open(path, O_WRONLY | O_CLOEXEC);
    CHECK_MSG(fd >= 0 && write(fd, value, strlen(value)) == (ssize_t)strlen(value), "%s", path);
    close(fd);
}

/* The loop is run in pieces, so that the ring holds the samples of one. */
static size_t take(ibs_perf_t *c, char *buffer, size_t bytes, uint64_t rounds, ibs_sample_t *to) {
    size_t count = 0;
    for (uint64_t piece = 1000000; rounds > 0; rounds -= piece) {
        if (piece > rounds) piece = rounds;
        ibs_perf_on(c);
        known_run(buffer, bytes, piece);
        ibs_perf_off(c);
        count += ibs_perf_drain(c, to + count, MOST - count);
    }
    CHECK_MSG(c->lost == 0 && c->throttled == 0, "%lu lost, throttled %lu times", c->lost,
              c->throttled);
    return count;
}

/* ---- detect ---- */

static char kernel_log[1 << 18];

static void check_log(void) {
    int length = klogctl(3, kernel_log, sizeof kernel_log - 1);
    REQUIRE(length > 0);
    kernel_log[length] = '\0';
    CHECK(strstr(kernel_log, "perf: AMD IBS detected (0x000008df)") != NULL);
    CHECK(strstr(kernel_log, "IBS APIC setup failed") == NULL);
    CHECK(strstr(kernel_log, "Firmware Bug") == NULL);
    CHECK(strstr(kernel_log, "Uhhuh") == NULL); /* an interrupt that nobody claims */
}

static void open_everywhere(void) {
    for (int i = 0; i < lab_nodes; i++) {
        ibs_perf_t c = ibs_perf_open(lab_node[i].cpu, 1 << 16, IBS_OPS);
        ibs_perf_close(&c);
    }
}

static void detect(void) {
    CHECK(ibs_perf_type() != 0);
    check_log();
    open_everywhere();
    write_file("/sys/devices/system/cpu/cpu2/online", "0");
    write_file("/sys/devices/system/cpu/cpu2/online", "1");
    open_everywhere();
    check_log();
}

/* ---- registers ---- */

enum {
    FETCH_CTL = 0xc0011030,
    OP_CTL = 0xc0011033,
    IBS_CTL = 0xc001103a,
    BRANCH_TARGET = 0xc001103b,
    LAST = 0xc001103d,
};

static int open_msr(int cpu) {
    const char *module = getenv("NA_MSR");
    char path[64];
    REQUIRE(module != NULL);
    int file = open(module, O_RDONLY | O_CLOEXEC);
    if (file < 0) check_skip("the kernel's module msr is missing (tests/lab/kernel.sh)");
    int error = syscall(SYS_finit_module, file, "", 0) == 0 ? 0 : errno;
    close(file);
    if (error == ENOEXEC) check_skip("the module msr is of another kernel");
    REQUIRE(error == 0 || error == EEXIST);
    snprintf(path, sizeof path, "/dev/cpu/%d/msr", cpu);
    int fd = open(path, O_RDWR | O_CLOEXEC);
    REQUIRE(fd >= 0);
    return fd;
}

/* A #GP is EIO to the module. */
static bool get(int fd, uint32_t msr, uint64_t *value) {
    bool done = pread(fd, value, 8, msr) == 8;
    CHECK(done || errno == EIO);
    return done;
}

static bool put(int fd, uint32_t msr, uint64_t value) {
    bool done = pwrite(fd, &value, 8, msr) == 8;
    CHECK(done || errno == EIO);
    return done;
}

static void check_bits(int fd, uint32_t msr, uint64_t defined) {
    uint64_t value;
    for (int bit = 0; bit < 64; bit++) {
        uint64_t one = 1ULL << bit;
        bool done = put(fd, msr, one);
        CHECK_MSG(done == (defined >> bit & 1), "%x, bit %d: written %d", msr, bit, done);
        if (done)
            CHECK_MSG(get(fd, msr, &value) && value == one, "%x, bit %d: %lx", msr, bit, value);
    }
    CHECK(put(fd, msr, 0));
}

/* 0x8df of CPUID offers fetches, ops and their count of 27 bits; not the branch target, nor
 * extended registers of either. No bit is set beside an enable bit: nothing is sampled. */
static void registers(void) {
    int fd = open_msr(lab_node[1].cpu);
    uint64_t value = 0;
    for (uint32_t msr = FETCH_CTL; msr <= LAST; msr++) {
        bool offered = msr < BRANCH_TARGET;
        CHECK_MSG(get(fd, msr, &value) == offered, "%x", msr);
        bool writable = offered && msr != IBS_CTL;
        CHECK_MSG(put(fd, msr, 0) == writable, "%x", msr);
        if (!writable || msr == FETCH_CTL || msr == OP_CTL) continue;
        CHECK(put(fd, msr, 0x0123456789abcdefULL));
        CHECK_MSG(get(fd, msr, &value) && value == 0x0123456789abcdefULL, "%x: %lx", msr, value);
        CHECK(put(fd, msr, 0));
    }
    CHECK(get(fd, IBS_CTL, &value) && value == 0x101);
    check_bits(fd, FETCH_CTL, (1ULL << 62) - 1);
    check_bits(fd, OP_CTL, 0x07ffffffULL << 32 | 0x7fULL << 20 | 0xfffff);
    close(fd);
}

/* ---- known ---- */

static bool sampled_at(const ibs_sample_t *s, const char *at) {
    return s->rip == (uintptr_t)at;
}

static void check_access(const ibs_sample_t *s, const known_t *k, const char *buffer, size_t bytes,
                         int node, bool blind) {
    bool load = s->data3 & 1, store = s->data3 >> 1 & 1;
    CHECK_MSG(load == k->load && store == k->store, "%s: DATA3 %lx", k->name, s->data3);
    CHECK_MSG((s->data3 >> 15 & 1) == k->locked, "%s: DATA3 %lx", k->name, s->data3);
    CHECK_MSG(1U << ((s->data3 >> 22 & 15) - 1) == k->width, "%s: DATA3 %lx", k->name, s->data3);
    CHECK_MSG((s->data3 >> 17 & 3) == 3, "%s: DATA3 %lx", k->name, s->data3);
    uint64_t place = s->linear - (uintptr_t)buffer;
    CHECK_MSG(place < bytes && place % 16 == k->offset, "%s: address %lx", k->name, s->linear);
    CHECK_MSG(s->addr == s->linear, "perf says %lx, not %lx", s->addr, s->linear);
    uint64_t physical = blind ? 0 : known_physical((const void *)s->linear);
    CHECK_MSG(s->physical == physical, "physical %lx, pagemap %lx", s->physical, physical);
    CHECK_MSG(s->phys_addr == physical, "perf says %lx, pagemap %lx", s->phys_addr, physical);
    if (!load) return;
    bool remote = known_node((const void *)s->linear) != node;
    CHECK_MSG((s->data2 >> 4 & 1) == remote && (s->data2 & 7) == 3, "DATA2 %lx, remote %d",
              s->data2, remote);
    CHECK_MSG((s->data3 >> 7 & 1) == 1 && (s->data3 >> 20 & 1) == 1, "DATA3 %lx", s->data3);
}

/* Within five standard deviations of `share` of `of`. */
static void check_share(const char *what, size_t count, size_t of, double share) {
    double wanted = (double)of * share, deviation = sqrt(wanted * (1 - share));
    check_say("%s: %zu of %zu, %.1f wanted, %+.1f standard deviations\n", what, count, of, wanted,
              ((double)count - wanted) / deviation);
    CHECK(fabs((double)count - wanted) < 5 * deviation);
}

static void check_known(bool blind) {
    static ibs_sample_t samples[MOST];
    static size_t at[256], on[PAGES], of[ACCESS];
    int cpu = lab_node[1].cpu, node = lab_node[1].id;
    lab_pin(1);
    char *buffer = known_buffer(PAGES, 0, 1);
    ibs_perf_t c = ibs_perf_open(cpu, 1 << 14, IBS_OPS);
    size_t count = take(&c, buffer, (size_t)PAGES * PAGE, 4000000, samples);
    ibs_perf_close(&c);
    size_t taken = 0;
    for (size_t i = 0; i < count; i++) {
        const ibs_sample_t *s = &samples[i];
        at[s->rip - (uintptr_t)known_at]++;
        const known_t *k = known_at_address(s->rip);
        CHECK_MSG(s->cpu == (uint32_t)cpu && s->caps == 0x8df, "CPU %u, %x", s->cpu, s->caps);
        if (k != NULL) {
            of[k - known]++;
            on[(s->linear - (uintptr_t)buffer) / PAGE % PAGES]++;
            check_access(s, k, buffer, (size_t)PAGES * PAGE, node, blind);
        } else {
            CHECK_MSG((s->data3 & 3) == 0, "DATA3 %lx at %lx", s->data3, s->rip);
        }
        CHECK_MSG((s->data >> 37 & 1) == sampled_at(s, known_jump), "DATA %lx", s->data);
        taken += sampled_at(s, known_jump) && (s->data >> 35 & 1);
    }
    CHECK(count > 2000);
    int instructions = 0;
    for (size_t i = 0; i < NA_COUNT(at); i++)
        instructions += at[i] != 0;
    CHECK_MSG(instructions == LOOP, "%d instructions are sampled", instructions);
    CHECK(taken == at[known_jump - known_at]); /* but for the last of a piece */
    size_t accesses = 0;
    for (int i = 0; i < ACCESS; i++) {
        check_share(known[i].name, of[i], count, 1.0 / LOOP);
        accesses += of[i];
    }
    double square = 0, wanted = (double)accesses / PAGES;
    for (int i = 0; i < PAGES; i++)
        square += ((double)on[i] - wanted) * ((double)on[i] - wanted) / wanted;
    check_say("pages: chi square %.1f of %d degrees\n", square, PAGES - 1);
    CHECK(square < 63 + 5 * sqrt(2.0 * 63));
}

/* ---- count ---- */

/* In cycles the count starts from 0 each time: N instructions make N / (period + 1) samples, less
 * what the kernel takes of it: what it does after it has armed the counter, and its own samples. */
static void count(void) {
    static ibs_sample_t samples[MOST];
    enum { ROUNDS = 4000000, PERIOD = 1 << 17 };
    lab_pin(1);
    char *buffer = known_buffer(PAGES, 1, 0);
    ibs_perf_t c = ibs_perf_open(lab_node[1].cpu, PERIOD, 0);
    size_t found = take(&c, buffer, (size_t)PAGES * PAGE, ROUNDS, samples);
    ibs_perf_close(&c);
    double wanted = (double)ROUNDS * LOOP / (PERIOD + 1);
    check_say("%zu samples, %.1f wanted\n", found, wanted);
    CHECK(fabs((double)found - wanted) < 2 + 0.02 * wanted);
}

/* ---- fetch ---- */

static void check_fetch(const ibs_sample_t *s, int cpu) {
    const uint64_t completed = 1ULL << 50, physical = 1ULL << 52, pages = 3ULL << 53;
    CHECK_MSG(s->cpu == (uint32_t)cpu && s->caps == 0x8df, "CPU %u, %x", s->cpu, s->caps);
    CHECK_MSG(s->linear % 32 == 0 && s->ip == s->linear, "%lx, perf says %lx", s->linear, s->ip);
    CHECK_MSG(s->physical == known_physical((const void *)s->linear), "%lx", s->physical);
    CHECK_MSG((s->fetch_ctl & (completed | physical | pages)) == (completed | physical), "CTL %lx",
              s->fetch_ctl);
    CHECK_MSG((s->fetch_ctl >> 32 & 0xffff) > 0, "CTL %lx", s->fetch_ctl);
}

/* What the kernel fetches between two samples counts as well, and is little. */
static void check_fetches(bool zen3) {
    static ibs_sample_t samples[MOST];
    static size_t at[KNOWN_FETCHES];
    enum { ROUNDS = 4000000, PIECE = 1000000, PERIOD = 1 << 16 };
    REQUIRE(known_fetch_end - known_fetch_at == KNOWN_FETCHES * 32);
    lab_pin(1);
    ibs_perf_t c = ibs_perf_open_fetch(lab_node[1].cpu, PERIOD, IBS_RANDOM);
    size_t count = 0, misses = 0;
    for (int i = 0; i < ROUNDS / PIECE; i++) {
        ibs_perf_on(&c);
        known_fetch(PIECE);
        ibs_perf_off(&c);
        count += ibs_perf_drain(&c, samples + count, MOST - count);
    }
    CHECK_MSG(c.lost == 0 && c.throttled == 0, "%lu lost, throttled %lu times", c.lost,
              c.throttled);
    ibs_perf_close(&c);
    for (size_t i = 0; i < count; i++) {
        check_fetch(&samples[i], lab_node[1].cpu);
        at[(samples[i].linear - (uintptr_t)known_fetch_at) / 32]++;
        misses += samples[i].fetch_ctl >> 51 & 1;
    }
    CHECK_MSG(c.nowhere == 0, "%lu fetches from 0", c.nowhere);
    double wanted = (zen3 ? 0.9 : 1) * ROUNDS * KNOWN_FETCHES / (PERIOD - 7.5 + 1);
    check_say("%zu samples, %.1f wanted\n", count, wanted);
    CHECK(fabs((double)count - wanted) < (zen3 ? 5 * sqrt(0.1 * wanted) : 2) + 0.02 * wanted);
    double square = 0, each = (double)count / KNOWN_FETCHES;
    for (int i = 0; i < KNOWN_FETCHES; i++)
        square += ((double)at[i] - each) * ((double)at[i] - each) / each;
    check_say("fetches: chi square %.1f of %d degrees\n", square, KNOWN_FETCHES - 1);
    CHECK(square < KNOWN_FETCHES - 1 + 5 * sqrt(2.0 * (KNOWN_FETCHES - 1)));
    check_share("missed the first cache", misses, count, 0.1);
}

/* Each as if it were alone. (The periods are no multiples of each other, counted in fetches: else
 * the interrupts of the one would fall, always or never, on samples of the other.) */
static void both(void) {
    enum { ROUNDS = 1000000, OPS = (1 << 17) - 16 * 1237, FETCHES = 1 << 16 };
    static ibs_sample_t of_ops[MOST], of_fetches[MOST];
    int cpu = lab_node[1].cpu;
    size_t ops = 0, fetches = 0;
    lab_pin(1);
    char *buffer = known_buffer(PAGES, 1, 0);
    ibs_perf_t op = ibs_perf_open(cpu, OPS, IBS_OPS);
    ibs_perf_t fetch = ibs_perf_open_fetch(cpu, FETCHES, IBS_RANDOM);
    for (int i = 0; i < 4; i++) {
        ibs_perf_on(&op);
        ibs_perf_on(&fetch);
        known_run(buffer, (size_t)PAGES * PAGE, ROUNDS);
        known_fetch(ROUNDS);
        ibs_perf_off(&fetch);
        ibs_perf_off(&op);
        ops += ibs_perf_drain(&op, of_ops + ops, MOST - ops);
        fetches += ibs_perf_drain(&fetch, of_fetches + fetches, MOST - fetches);
    }
    CHECK_MSG(op.lost + fetch.lost == 0 && op.throttled + fetch.throttled == 0,
              "%lu and %lu lost, throttled %lu and %lu times", op.lost, fetch.lost, op.throttled,
              fetch.throttled);
    ibs_perf_close(&op);
    ibs_perf_close(&fetch);
    for (size_t i = 0; i < ops; i++) {
        const known_t *k = known_at_address(of_ops[i].rip);
        if (k != NULL)
            check_access(&of_ops[i], k, buffer, (size_t)PAGES * PAGE, lab_node[1].id, false);
    }
    for (size_t i = 0; i < fetches; i++)
        check_fetch(&of_fetches[i], cpu);
    double wanted_ops = 4.0 * ROUNDS * LOOP / OPS, wanted = 4.0 * ROUNDS * KNOWN_FETCHES / FETCHES;
    check_say("%zu ops, %.0f wanted; %zu fetches, %.0f wanted\n", ops, wanted_ops, fetches, wanted);
    CHECK(fabs((double)ops - wanted_ops) < 2 + 0.05 * wanted_ops);
    CHECK(fabs((double)fetches - wanted) < 2 + 0.05 * wanted);
}

/* ---- remote ---- */

static int shift;
static size_t all[LAB_NODES], remotes[LAB_NODES];
static double latency[LAB_NODES];

static void use_node(void *argument, int number) {
    (void)argument;
    lab_pin(number);
    ibs_sample_t *samples = lab_map(MOST * sizeof *samples);
    char *buffer = known_buffer(PAGES, number + shift, 0);
    ibs_perf_t c = ibs_perf_open(lab_node[number].cpu, 1 << 14, IBS_OPS);
    size_t taken = take(&c, buffer, (size_t)PAGES * PAGE, 1000000, samples);
    ibs_perf_close(&c);
    all[number] = remotes[number] = 0;
    latency[number] = 0;
    for (size_t i = 0; i < taken; i++) {
        if ((samples[i].data3 & 1) == 0) continue;
        all[number]++;
        remotes[number] += samples[i].data2 >> 4 & 1;
        latency[number] += (double)(samples[i].data3 >> 32 & 0xffff);
    }
}

static void remote(void) {
    for (shift = 0; shift < lab_nodes; shift++) {
        lab_team(lab_nodes, use_node, NULL);
        for (int i = 0; i < lab_nodes; i++) {
            int to = (i + shift) % lab_nodes, distance = lab_node[i].distance[to];
            double mean = latency[i] / (double)all[i];
            check_say("node %d uses node %d: %zu of %zu loads remote, latency %.0f\n", i, to,
                      remotes[i], all[i], mean);
            CHECK(all[i] > 100);
            CHECK(remotes[i] == (shift == 0 ? 0 : all[i]));
            CHECK(fabs(mean / (20 * distance) - 1) < 0.1);
        }
    }
}

/* ---- off ---- */

static unsigned long nmis(void) {
    FILE *file = fopen("/proc/interrupts", "r");
    char line[4096];
    unsigned long sum = 0;
    REQUIRE(file != NULL);
    while (fgets(line, sizeof line, file) != NULL) {
        char *at = strstr(line, "NMI:");
        if (at == NULL) continue;
        for (at += 4; *at != '\0' && strchr(" 0123456789", *at) != NULL;) {
            char *end;
            sum += strtoul(at, &end, 10);
            if (end == at) break;
            at = end;
        }
    }
    fclose(file);
    return sum;
}

static void off(void) {
    static ibs_sample_t samples[MOST];
    lab_pin(1);
    char *buffer = known_buffer(PAGES, 1, 0);
    unsigned long before = nmis();
    ibs_perf_t c = ibs_perf_open(lab_node[1].cpu, 1 << 14, IBS_OPS);
    size_t taken = take(&c, buffer, (size_t)PAGES * PAGE, 1000000, samples);
    ibs_perf_close(&c);
    unsigned long with = nmis();
    known_run(buffer, (size_t)PAGES * PAGE, 1000000);
    unsigned long after = nmis();
    check_say("%lu interrupts before, %lu with %zu samples in the loop, %lu after\n", before, with,
              taken, after);
    CHECK(with >= before + taken && after == with);
}

/* ---- the tests ---- */

static void known_all(void) {
    check_known(false);
}

static void known_in_part(void) {
    check_known(true);
}

static void fetch(void) {
    check_fetches(false);
}

static void fetch_zen3(void) {
    check_fetches(true);
}

static const struct {
    const char *name;
    void (*run)(void);
} tests[] = {
    {"detect", detect},   {"registers", registers},
    {"known", known_all}, {"blind", known_in_part},
    {"count", count},     {"fetch", fetch},
    {"zen3", fetch_zen3}, {"both", both},
    {"remote", remote},   {"off", off},
};

int main(int argc, char **argv) {
    check_begin();
    REQUIRE(argc == 2);
    lab_begin(4);
    if (ibs_perf_type() == 0) check_skip("no IBS here");
    size_t i = 0;
    while (i < NA_COUNT(tests) && strcmp(tests[i].name, argv[1]) != 0)
        i++;
    REQUIRE(i < NA_COUNT(tests)); /* there is no such test */
    tests[i].run();
    check_log();
    return lab_status(check_status());
}
