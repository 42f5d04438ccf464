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
 * - lines (machine of that name): two CPUs use one line in turns: what answers is a cache of the
 *   other's node where the other wrote it last, and only there;
 * - kinds (machine of that name): memory of other kinds, buffers that wait for a line, prefetches;
 * - blind (a machine that lacks some of it): the same as known, as far as there is something;
 * - off: no interrupt comes once the counter is closed. */
#include "ibs_known.h"
#include "ibs_perf.h"

#include <cpuid.h>
#include <fcntl.h>
#include <linux/perf_event.h>
#include <math.h>
#include <stdatomic.h>
#include <sys/klog.h>
#include <sys/syscall.h>

enum {
    PAGE = KNOWN_PAGE,
    LOOP = KNOWN_INSTRUCTIONS,
    ACCESS = KNOWN_ACCESSES,
    PAGES = 64, /* of a buffer */
    MOST = 1 << 16,
};

/* ---- the processor ---- */

enum { /* of CPUID 8000_001B EAX */
       CAP_FETCH = 1 << 1,
       CAP_OP = 1 << 2,
       CAP_COUNT_OPS = 1 << 4,
       CAP_BRANCH_TARGET = 1 << 5,
       CAP_COUNT_27 = 1 << 6,
       CAP_FETCH_EXT = 1 << 9,
       CAP_OP_DATA4 = 1 << 10,
       CAP_ZEN4 = 1 << 11,
       CAP_LATENCY = 1 << 12,
};

static uint32_t caps(void) {
    unsigned a = 0, b, c, d;
    REQUIRE(__get_cpuid(0x8000001b, &a, &b, &c, &d) != 0);
    return a;
}

static unsigned source_of(const ibs_sample_t *s) {
    return (unsigned)(s->data2 & 7) | (caps() & CAP_ZEN4 ? (unsigned)(s->data2 >> 6 & 3) << 3 : 0);
}

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
    char detected[64];
    snprintf(detected, sizeof detected, "perf: AMD IBS detected (0x%08x)", caps());
    CHECK(strstr(kernel_log, detected) != NULL);
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
    FETCH_EXT = 0xc001103c,
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

/* The capability that register `msr` comes with. */
static uint32_t comes_with(uint32_t msr) {
    if (msr < OP_CTL) return CAP_FETCH;
    switch (msr) {
    case IBS_CTL:
        return CAP_FETCH | CAP_OP;
    case BRANCH_TARGET:
        return CAP_BRANCH_TARGET;
    case FETCH_EXT:
        return CAP_FETCH_EXT;
    case LAST:
        return CAP_OP_DATA4;
    default:
        return CAP_OP;
    }
}

/* Those that CPUID offers, and their bits. No bit is set beside an enable bit: nothing is sampled.
 */
static void registers(void) {
    uint32_t has = caps();
    uint64_t control = 0x6ffffULL | (has & CAP_COUNT_27 ? 0x07ffffffULL : 0xfffffULL) << 32;
    control |= (has & CAP_COUNT_OPS ? 1ULL << 19 : 0) | (has & CAP_COUNT_27 ? 0x7fULL << 20 : 0);
    control |= (has & CAP_ZEN4 ? 1ULL << 16 : 0) | (has & CAP_LATENCY ? 0x1fULL << 59 : 0);
    int fd = open_msr(lab_node[1].cpu);
    uint64_t value = 0;
    for (uint32_t msr = FETCH_CTL; msr <= LAST; msr++) {
        bool offered = (has & comes_with(msr)) != 0;
        CHECK_MSG(get(fd, msr, &value) == offered, "%x", msr);
        bool writable = offered && msr != IBS_CTL;
        CHECK_MSG(put(fd, msr, 0) == writable, "%x", msr);
        if (!writable || msr == FETCH_CTL || msr == OP_CTL) continue;
        CHECK(put(fd, msr, 0x0123456789abcdefULL));
        CHECK_MSG(get(fd, msr, &value) && value == 0x0123456789abcdefULL, "%x: %lx", msr, value);
        CHECK(put(fd, msr, 0));
    }
    CHECK(get(fd, IBS_CTL, &value) && value == 0x101);
    check_bits(fd, FETCH_CTL, (1ULL << (has & CAP_ZEN4 ? 62 : 59)) - 1);
    check_bits(fd, OP_CTL, control);
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
        CHECK_MSG(s->cpu == (uint32_t)cpu && s->caps == caps(), "CPU %u, %x", s->cpu, s->caps);
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

/* Where ops are sampled as well, their interrupts end pieces early: `whole` is false. */
static void check_fetch(const ibs_sample_t *s, int cpu, bool whole) {
    const uint64_t completed = 1ULL << 50, physical = 1ULL << 52, pages = 3ULL << 53;
    CHECK_MSG(s->cpu == (uint32_t)cpu && s->caps == caps(), "CPU %u, %x", s->cpu, s->caps);
    CHECK_MSG(s->linear % 32 == 0 || !whole, "%lx", s->linear);
    CHECK_MSG(s->ip == s->linear, "%lx, perf says %lx", s->linear, s->ip);
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
        check_fetch(&samples[i], lab_node[1].cpu, true);
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
    unsigned signature, b, c, d;
    REQUIRE(__get_cpuid(1, &signature, &b, &c, &d) != 0);
    if ((signature >> 20 & 255) == 8)
        check_skip("of family 17h 6 % too many fetches are sampled beside ops; why is not known");
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
        check_fetch(&of_fetches[i], cpu, false);
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

/* ---- lines ---- */

enum { TURNS = 100, IN_TURN = 5000, HIT_OWNED = 1 << 5, REMOTE = 1 << 4 };

static char *line; /* that both use, and nobody else */
static ibs_sample_t *of_line[2];
static size_t before_turn[2][TURNS + 1]; /* samples */
static int line_cpu[2];
static _Atomic int turn;

/* One after the other, so that it is known who used the line last. (Samples that are missing, since
 * the kernel throttles busy machines, do no harm.) */
static void use_line(void *argument, int number) {
    cpu_set_t set;
    size_t count = 0;
    (void)argument;
    CPU_ZERO(&set);
    CPU_SET((size_t)line_cpu[number], &set);
    REQUIRE(sched_setaffinity(0, sizeof set, &set) == 0);
    ibs_perf_t c = ibs_perf_open(line_cpu[number], 1 << 12, IBS_OPS);
    for (int i = 0; i < TURNS; i++) {
        while (atomic_load(&turn) != 2 * i + number)
            sched_yield();
        before_turn[number][i] = count;
        ibs_perf_on(&c);
        known_run(line, 64, IN_TURN);
        ibs_perf_off(&c);
        count += ibs_perf_drain(&c, of_line[number] + count, MOST - count);
        atomic_fetch_add(&turn, 1);
    }
    before_turn[number][TURNS] = count;
    ibs_perf_close(&c);
}

/* The first access of a turn finds the line with the other, if that has written; the others find it
 * in their own cache. Samples alone count: the model has no others. Now and then another line takes
 * the place of ours, and memory answers. perf says "modified" of sources 2 and 5 only. */
static void check_line(int first, int second, bool far) {
    bool zen4 = (caps() & CAP_ZEN4) != 0, wrote = false;
    unsigned wanted = far ? (zen4 ? 5 : 4) : 2;
    size_t others = 0, own = 0, said = 0, memory = 0;
    line_cpu[0] = first;
    line_cpu[1] = second;
    atomic_store(&turn, 0);
    lab_team(2, use_line, NULL);
    for (int i = 0; i < 2 * TURNS; i++) {
        bool met = false, writes = false;
        for (size_t k = before_turn[i % 2][i / 2]; k < before_turn[i % 2][i / 2 + 1]; k++) {
            const ibs_sample_t *s = &of_line[i % 2][k];
            bool load = s->data3 & 1, missed = s->data3 >> 7 & 1;
            if ((s->data3 & 3) == 0) continue;
            if (missed && (!load || source_of(s) == 3)) {
                memory += met || (load && wrote);
            } else if (met || !wrote) {
                CHECK_MSG(!missed || !met, "the CPU's own line: DATA3 %lx, DATA2 %lx", s->data3,
                          s->data2);
                own += !missed;
            } else {
                CHECK_MSG(missed && source_of(s) == wanted && (s->data2 & HIT_OWNED) == 0 &&
                              ((s->data2 & REMOTE) != 0) == far,
                          "the other's line: DATA3 %lx, DATA2 %lx, source %u wanted", s->data3,
                          s->data2, wanted);
                said += (s->data_src >> PERF_MEM_SNOOP_SHIFT & PERF_MEM_SNOOP_HITM) != 0;
                others++;
            }
            met = true;
            writes |= s->data3 >> 1 & 1;
        }
        if (met) wrote = writes;
    }
    check_say("CPUs %d and %d: %zu loads of the other's line, %zu modified to perf; %zu own, %zu "
              "by memory\n",
              first, second, others, said, own, memory);
    CHECK(others > TURNS / 10 && said == (wanted == 4 ? 0 : others) && own > TURNS / 10);
    CHECK(memory < TURNS / 10);
}

/* Two CPUs of one node, and of two. */
static void lines(void) {
    line = lab_map(KNOWN_PAGE);
    memset(line, 1, KNOWN_PAGE);
    for (int i = 0; i < 2; i++)
        of_line[i] = lab_map(MOST * sizeof *of_line[i]);
    check_line(lab_node[0].cpu, lab_node[0].cpu + 1, false);
    check_line(lab_node[0].cpu, lab_node[1].cpu, true);
}

/* ---- kinds ---- */

/* Node 1 has persistent memory, node 2 is an expander, and a fifth of the loads wait for a line
 * that was asked for already. */
static void kinds(void) {
    static ibs_sample_t samples[MOST];
    bool zen4 = (caps() & CAP_ZEN4) != 0; /* before, all memory is of one kind */
    const unsigned kind[] = {3, zen4 ? 6 : 3, zen4 ? 8 : 3, 3};
    size_t loads = 0, waited = 0, of[4] = {0};
    lab_pin(0);
    char *buffer = known_buffer(PAGES, 0, 1);
    ibs_perf_t c = ibs_perf_open(lab_node[0].cpu, 1 << 14, IBS_OPS);
    size_t count = take(&c, buffer, (size_t)PAGES * PAGE, 2000000, samples);
    for (size_t i = 0; i < count; i++) {
        const ibs_sample_t *s = &samples[i];
        if ((s->data3 & 1) == 0) continue;
        loads++;
        CHECK_MSG((s->data3 >> 7 & 1) && (s->data3 >> 20 & 1), "DATA3 %lx", s->data3);
        if (s->data3 >> 16 & 1) {
            CHECK_MSG(source_of(s) == 0, "DATA2 %lx", s->data2);
            waited++;
            continue;
        }
        int node = lab_index(known_node((const void *)s->linear));
        CHECK_MSG(source_of(s) == kind[node] && ((s->data2 & REMOTE) != 0) == (node != 0),
                  "node %d: DATA2 %lx", node, s->data2);
        of[node]++;
    }
    check_share("waited for a line", waited, loads, 0.2);
    for (int i = 0; i < 4; i++)
        CHECK(of[i] > loads / 10);

    ibs_perf_on(&c);
    known_prefetch(buffer + 40, 1000000);
    ibs_perf_off(&c);
    size_t prefetches = 0;
    count = ibs_perf_drain(&c, samples, MOST);
    for (size_t i = 0; i < count; i++) {
        const ibs_sample_t *s = &samples[i];
        bool here = sampled_at(s, known_prefetch_at);
        CHECK_MSG((s->data3 >> 21 & 1) == here && (s->data3 & 1) == here, "DATA3 %lx", s->data3);
        if (!here) continue;
        CHECK_MSG(s->linear == (uintptr_t)buffer + 40 && s->physical == known_physical(buffer + 40),
                  "%lx, physical %lx", s->linear, s->physical);
        prefetches++;
    }
    ibs_perf_close(&c);
    check_share("prefetches", prefetches, count, 1.0 / KNOWN_PREFETCH);
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
    {"lines", lines},     {"kinds", kinds},
};

int main(int argc, char **argv) {
    check_begin();
    REQUIRE(argc == 2);
    lab_begin(2);
    if (ibs_perf_type() == 0) check_skip("no IBS here");
    size_t i = 0;
    while (i < NA_COUNT(tests) && strcmp(tests[i].name, argv[1]) != 0)
        i++;
    REQUIRE(i < NA_COUNT(tests)); /* there is no such test */
    tests[i].run();
    check_log();
    return lab_status(check_status());
}
