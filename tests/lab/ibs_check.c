/* ibs_check.c - what a machine's IBS gives, for somebody to read: lab-ibs-check [SECONDS [PERIOD]].
 * Root.
 * scripts/ibs-check.sh runs it, on real processors and on emulated ones.
 *
 * It judges nothing. A loop is sampled whose instructions and accesses are known, in a buffer that
 * no cache holds and whose pages lie on all nodes in turn; the report says how often samples are
 * what they should be, and what the decoder (kmod-ibs/uapi/numalloc_ibs_decode.h) takes for
 * granted: which data sources there are, with which bits, also of lines that another CPU writes.
 * Exit status 1: there is no IBS, or no right to use it. */
#include "ibs_known.h"
#include "ibs_perf.h"

#include <cpuid.h>
#include <fcntl.h>
#include <stdatomic.h>
#include <sys/utsname.h>
#include <time.h>
#include <unistd.h>

enum { PIECE = 200000, MOST = 1 << 18, BUFFER_PAGES = 1 << 14, SHARED_PAGES = 16 };
enum { USUAL_PERIOD = 1 << 18 }; /* the library's */

static double now(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + (double)t.tv_nsec / 1e9;
}

static void show_machine(void) {
    static const char *const wanted[] = {"model name", "cpu family", "model\t", "stepping",
                                         "microcode"};
    struct utsname system;
    char line[4096];
    uname(&system);
    printf("kernel\t\t: %s %s\n", system.release, system.version);
    FILE *file = fopen("/proc/cpuinfo", "r");
    while (file != NULL && fgets(line, sizeof line, file) != NULL && line[0] != '\n') {
        for (size_t i = 0; i < NA_COUNT(wanted); i++)
            if (strncmp(line, wanted[i], strlen(wanted[i])) == 0) fputs(line, stdout);
        if (strncmp(line, "flags", 5) == 0)
            printf("hypervisor\t: %s\n", strstr(line, " hypervisor") != NULL ? "yes" : "no");
    }
    if (file != NULL) fclose(file);
}

static int number_in(const char *path) {
    int number = -1;
    FILE *file = fopen(path, "r");
    if (file == NULL) return -1;
    if (fscanf(file, "%d", &number) != 1) number = -1;
    fclose(file);
    return number;
}

/* What the processor has, and what firmware made of it. */
static void show_ibs(void) {
    static const char *const name[] = {"valid",
                                       "fetch",
                                       "op",
                                       "RdWrOpCnt",
                                       "OpCnt",
                                       "BrnTrgt",
                                       "OpCntExt",
                                       "RipInvalid",
                                       "OpBrnFuse",
                                       "FetchCtlExtd",
                                       "OpData4",
                                       "Zen4",
                                       "OpLdLat",
                                       "Dis",
                                       "FetchLat",
                                       "Bit63Filter",
                                       "StrmSt/RmtSocket",
                                       "17",
                                       "18",
                                       "DtlbPgSize"};
    unsigned eax = 0, ebx, ecx = 0, edx;
    __cpuid_count(0x80000001, 0, eax, ebx, ecx, edx);
    printf("CPUID IBS\t: %s;", ecx >> 10 & 1 ? "yes" : "no");
    __cpuid_count(0x80000000, 0, eax, ebx, ecx, edx);
    if (eax >= 0x8000001b) {
        __cpuid_count(0x8000001b, 0, eax, ebx, ecx, edx);
        printf(" capabilities %#x:", eax);
        for (size_t i = 0; i < NA_COUNT(name); i++)
            if (eax >> i & 1) printf(" %s", name[i]);
    }
    putchar('\n');
    uint64_t control = 0;
    int fd = open("/dev/cpu/0/msr", O_RDONLY | O_CLOEXEC);
    if (fd >= 0 && pread(fd, &control, sizeof control, 0xc001103a) == sizeof control)
        printf("IBS_CTL\t\t: %#lx (firmware: %s, local vector %lu)\n", (unsigned long)control,
               control >> 8 & 1 ? "valid" : "not valid", (unsigned long)(control & 15));
    else
        puts("IBS_CTL\t\t: not known (modprobe msr)");
    if (fd >= 0) close(fd);
}

/* Nodes per socket (NPS) among other things. */
static void show_nodes(void) {
    int sockets = 0;
    for (int i = 0; i < lab_nodes; i++) {
        char path[96];
        snprintf(path, sizeof path, "/sys/devices/system/cpu/cpu%d/topology/physical_package_id",
                 lab_node[i].cpu);
        int socket = lab_node[i].cpu < 0 ? -1 : number_in(path);
        if (socket >= sockets) sockets = socket + 1;
    }
    printf("nodes\t\t: %d, sockets %d\n", lab_nodes, sockets);
    for (int i = 0; i < lab_nodes; i++) {
        printf("distances %d\t:", lab_node[i].id);
        for (int k = 0; k < lab_nodes; k++)
            printf(" %d", lab_node[i].distance[k]);
        putchar('\n');
    }
}

typedef struct part {
    size_t right, of;
} part_t;

static void count(part_t *part, bool right) {
    part->right += right;
    part->of++;
}

static void show(const char *what, part_t part) {
    printf("%-58s %8zu of %8zu", what, part.right, part.of);
    if (part.of != 0) printf("  %5.1f %%", 100 * (double)part.right / (double)part.of);
    putchar('\n');
}

/* DataSrc of a load; five bits from Zen 4 on. */
static unsigned source_of(const ibs_sample_t *s) {
    return (unsigned)((s->data2 & 7) | (s->caps >> 11 & 1 ? (s->data2 >> 6 & 3) << 3 : 0));
}

/* Loads by what answered, with RmtNode and CacheHitSt, which tell less than they could on some
 * processors and settings. */
static void show_sources(const ibs_sample_t *samples, size_t count_of) {
    static size_t of[2][32][4];
    static double cycles[2][32][4];
    memset(of, 0, sizeof of);
    memset(cycles, 0, sizeof cycles);
    for (size_t i = 0; i < count_of; i++) {
        const ibs_sample_t *s = &samples[i];
        if ((s->data3 & 1) == 0) continue;
        of[s->data3 >> 7 & 1][source_of(s)][s->data2 >> 4 & 3]++;
        cycles[s->data3 >> 7 & 1][source_of(s)][s->data2 >> 4 & 3] +=
            (double)(s->data3 >> 32 & 0xffff);
    }
    for (int miss = 0; miss < 2; miss++)
        for (int source = 0; source < 32; source++)
            for (int bits = 0; bits < 4; bits++) {
                size_t n = of[miss][source][bits];
                if (n == 0) continue;
                printf("  loads, L1 %s, data source %2d, RmtNode %d, CacheHitSt %d: %8zu, mean "
                       "latency %.0f\n",
                       miss ? "miss" : "hit ", source, bits & 1, bits >> 1, n,
                       cycles[miss][source][bits] / (double)n);
            }
}

static size_t sample(ibs_sample_t *to, char *buffer, double seconds, uint64_t period,
                     uint64_t *lost) {
    ibs_perf_t perf = ibs_perf_open(sched_getcpu(), period, IBS_OPS);
    size_t taken = 0;
    for (double end = now() + seconds; now() < end && taken < MOST;) {
        ibs_perf_on(&perf);
        known_run(buffer, (size_t)BUFFER_PAGES * KNOWN_PAGE, PIECE);
        ibs_perf_off(&perf);
        taken += ibs_perf_drain(&perf, to + taken, MOST - taken);
    }
    *lost = perf.lost;
    printf("%zu samples of the loop, one in %lu ops; records lost %lu times, throttled %lu times\n",
           taken, (unsigned long)period, (unsigned long)perf.lost, (unsigned long)perf.throttled);
    ibs_perf_close(&perf);
    return taken;
}

static void report(const ibs_sample_t *samples, size_t count_of, const char *buffer) {
    part_t memory = {0}, place = {0}, kind = {0}, width = {0}, locked = {0}, linear = {0},
           inside = {0}, physical = {0}, equal = {0}, zero = {0}, invalid = {0}, remote = {0},
           branch = {0}, same = {0};
    static double latency[LAB_NODES];
    static size_t loads[LAB_NODES], far[LAB_NODES];
    int own = -1;
    for (int i = 0; i < lab_nodes; i++)
        if (lab_node[i].cpu == sched_getcpu()) own = i;
    for (size_t i = 0; i < count_of; i++) {
        const ibs_sample_t *s = &samples[i];
        bool access = (s->data3 & 3) != 0;
        const known_t *k = known_at_address(s->rip);
        count(&memory, access);
        count(&invalid, s->data >> 38 & 1);
        count(&same, s->ip == s->rip);
        count(&branch, (s->data >> 37 & 1) == (s->rip == (uintptr_t)known_jump));
        if (!access) continue;
        count(&place, k != NULL);
        if (k == NULL) continue;
        count(&kind, (s->data3 & 1) == k->load && (s->data3 >> 1 & 1) == k->store);
        count(&width, 1U << ((s->data3 >> 22 & 15) - 1) == k->width);
        count(&locked, (s->data3 >> 15 & 1) == k->locked);
        count(&linear, s->data3 >> 17 & 1);
        count(&physical, s->data3 >> 18 & 1);
        if ((s->data3 >> 17 & 1) == 0) continue;
        bool within = s->linear - (uintptr_t)buffer < (size_t)BUFFER_PAGES * KNOWN_PAGE;
        count(&inside, within && (s->linear - (uintptr_t)buffer) % 16 == k->offset);
        if (!within) continue;
        const void *address = (const void *)(uintptr_t)s->linear;
        if (s->data3 >> 18 & 1) {
            count(&equal, s->physical == known_physical(address));
            count(&zero, s->physical == 0);
        }
        if ((s->data3 & 1) == 0 || (s->data3 >> 7 & 1) == 0 || source_of(s) != 3) continue;
        int home = lab_index(known_node(address));
        if (own >= 0) count(&remote, (s->data2 >> 4 & 1) == (home != own));
        loads[home]++;
        far[home] += s->data2 >> 4 & 1;
        latency[home] += (double)(s->data3 >> 32 & 0xffff);
    }
    show("are accesses (6 of 16 instructions are: 37.5 %)", memory);
    show("the instruction's address is marked invalid", invalid);
    show("perf's instruction is the register's", same);
    show("branch where the instruction is one, and only there", branch);
    puts("Of the accesses:");
    show("  at an instruction that makes one (else: skid)", place);
    puts("Of those:");
    show("  load, store or both as the instruction", kind);
    show("  width as the instruction's", width);
    show("  locked as the instruction", locked);
    show("  linear address valid", linear);
    show("  that address is one the instruction uses", inside);
    show("  physical address valid", physical);
    show("  that address is what pagemap says", equal);
    show("  that address is 0", zero);
    show_sources(samples, count_of);
    show("Of loads by memory: remote as move_pages says", remote);
    for (int i = 0; i < lab_nodes; i++)
        if (loads[i] != 0)
            printf("  from node %d (distance %d): %zu, RmtNode %zu, mean latency %.0f cycles\n",
                   lab_node[i].id, own >= 0 ? lab_node[own].distance[i] : -1, loads[i], far[i],
                   latency[i] / (double)loads[i]);
}

/* The same work with the counter off and on, several times in turn; the least time of each. */
static void cost(char *buffer, uint64_t period) {
    double off = 1e9, on = 1e9;
    static ibs_sample_t some[4096];
    size_t taken = 0, most = 0;
    const size_t bytes = (size_t)256 * KNOWN_PAGE;
    uint64_t rounds = PIECE * (1 + period / 65536); /* some dozens of samples */
    ibs_perf_t perf = ibs_perf_open(sched_getcpu(), period, IBS_OPS);
    for (int i = 0; i < 10; i++) {
        double begun = now();
        known_run(buffer, bytes, rounds);
        double half = now();
        ibs_perf_on(&perf);
        known_run(buffer, bytes, rounds);
        ibs_perf_off(&perf);
        double end = now();
        taken = ibs_perf_drain(&perf, some, NA_COUNT(some));
        if (half - begun < off) off = half - begun;
        if (end - half < on) on = end - half;
        if (taken > most) most = taken;
    }
    ibs_perf_close(&perf);
    printf("cost, one in %lu ops: %.2f ms without, %.2f ms with (%+.2f %%), %zu samples: %.2f us a "
           "sample\n",
           (unsigned long)period, off * 1e3, on * 1e3, 100 * (on - off) / off, most,
           most == 0 ? 0 : (on - off) * 1e6 / (double)most);
}

static char *contended;
static int contender_cpu;
static atomic_bool contender_ends;

static void *contend(void *unused) {
    (void)unused;
    cpu_set_t set;
    CPU_ZERO(&set);
    CPU_SET((size_t)contender_cpu, &set);
    REQUIRE(sched_setaffinity(0, sizeof set, &set) == 0);
    while (!atomic_load(&contender_ends))
        known_run(contended, (size_t)SHARED_PAGES * KNOWN_PAGE, 10000);
    return NULL;
}

/* A small buffer that another CPU writes at the same time: lines come from its caches. */
static void share(ibs_sample_t *samples, int cpu, uint64_t period, const char *where) {
    pthread_t thread;
    contended = known_buffer(SHARED_PAGES, 0, 0);
    contender_cpu = cpu;
    atomic_store(&contender_ends, false);
    REQUIRE(pthread_create(&thread, NULL, contend, NULL) == 0);
    ibs_perf_t perf = ibs_perf_open(sched_getcpu(), period, IBS_OPS);
    size_t taken = 0;
    for (double end = now() + 2; now() < end && taken < MOST / 2;) {
        ibs_perf_on(&perf);
        known_run(contended, (size_t)SHARED_PAGES * KNOWN_PAGE, PIECE / 10);
        ibs_perf_off(&perf);
        taken += ibs_perf_drain(&perf, samples + taken, MOST - taken);
    }
    ibs_perf_close(&perf);
    atomic_store(&contender_ends, true);
    pthread_join(thread, NULL);
    printf("Lines that CPU %d (%s) writes as well, %zu samples:\n", cpu, where, taken);
    show_sources(samples, taken);
}

/* With two other CPUs of this one's node, where it has more, and with one of each other node. */
static void share_with_others(ibs_sample_t *samples, uint64_t period) {
    int own = sched_getcpu(), next = own;
    for (int i = 0; i < lab_nodes; i++)
        if (lab_node[i].cpu > own && (next == own || lab_node[i].cpu < next))
            next = lab_node[i].cpu;
    int end = next == own ? (int)sysconf(_SC_NPROCESSORS_ONLN) : next; /* CPUs of the node */
    if (own + 1 < end) share(samples, own + 1, period, "the next of this node");
    if (own + 2 < end) share(samples, end - 1, period, "the last before another node's");
    for (int i = 0; i < lab_nodes && i < 8; i++) {
        char where[32];
        snprintf(where, sizeof where, "node %d", lab_node[i].id);
        if (lab_node[i].cpu >= 0 && lab_node[i].cpu != own)
            share(samples, lab_node[i].cpu, period, where);
    }
}

int main(int argc, char **argv) {
    double seconds = argc > 1 ? atof(argv[1]) : 10;
    uint64_t period = argc > 2 ? strtoul(argv[2], NULL, 0) : 1 << 16, lost = 0;
    static ibs_sample_t samples[MOST];
    check_begin();
    lab_begin(1);
    show_machine();
    show_ibs();
    show_nodes();
    if (ibs_perf_type() == 0) {
        puts("This machine has no IBS: the processor is not AMD's, or a hypervisor or the firmware "
             "hides it.");
        return 1;
    }
    lab_pin(0);
    char *buffer = known_buffer(BUFFER_PAGES, 0, 1);
    size_t taken = sample(samples, buffer, seconds, period, &lost);
    if (taken == 0) {
        puts("IBS is there, and gives no sample.");
        return 1;
    }
    printf("perf's capabilities: %#x\n", samples[0].caps);
    report(samples, taken, buffer);
    cost(buffer, period);
    if (period != USUAL_PERIOD) cost(buffer, USUAL_PERIOD);
    share_with_others(samples, period);
    return 0;
}
