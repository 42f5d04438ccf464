/* ibs_check.c - what a machine's IBS gives, for somebody to read: lab-ibs-check [SECONDS]. Root.
 * scripts/ibs-check.sh runs it, on real processors and on emulated ones.
 *
 * It judges nothing. A loop is sampled whose instructions and accesses are known, in a buffer that
 * no cache holds and whose pages lie on all nodes in turn; the report says how often samples are
 * what they should be. Exit status 1: there is no IBS, or no right to use it. */
#include "ibs_known.h"
#include "ibs_perf.h"

#include <sys/utsname.h>
#include <time.h>

enum { PIECE = 200000, MOST = 1 << 18, BUFFER_PAGES = 1 << 14 };

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
    printf("nodes\t\t: %d\n", lab_nodes);
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
    size_t of_source[32] = {0};
    static double latency[LAB_NODES];
    static size_t loads[LAB_NODES];
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
        uint64_t source = (s->data2 & 7) | (s->data2 >> 6 & 3) << 3;
        if ((s->data3 & 1) != 0) of_source[source]++;
        if ((s->data3 & 1) == 0 || source != 3) continue;
        int home = lab_index(known_node(address));
        if (own >= 0) count(&remote, (s->data2 >> 4 & 1) == (home != own));
        loads[home]++;
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
    for (int i = 0; i < 32; i++)
        if (of_source[i] != 0) printf("  loads with data source %d: %zu\n", i, of_source[i]);
    show("Of loads by memory: remote as move_pages says", remote);
    for (int i = 0; i < lab_nodes; i++)
        if (loads[i] != 0)
            printf("  from node %d (distance %d): %zu, mean latency %.0f cycles\n", lab_node[i].id,
                   own >= 0 ? lab_node[own].distance[i] : -1, loads[i],
                   latency[i] / (double)loads[i]);
}

/* The same work with the counter off and on, several times in turn; the least time of each. */
static void cost(char *buffer, uint64_t period) {
    double off = 1e9, on = 1e9;
    static ibs_sample_t some[4096];
    size_t taken = 0, most = 0;
    const size_t bytes = (size_t)256 * KNOWN_PAGE;
    ibs_perf_t perf = ibs_perf_open(sched_getcpu(), period, IBS_OPS);
    for (int i = 0; i < 20; i++) {
        double begun = now();
        known_run(buffer, bytes, PIECE);
        double half = now();
        ibs_perf_on(&perf);
        known_run(buffer, bytes, PIECE);
        ibs_perf_off(&perf);
        double end = now();
        taken = ibs_perf_drain(&perf, some, NA_COUNT(some));
        if (half - begun < off) off = half - begun;
        if (end - half < on) on = end - half;
        if (taken > most) most = taken;
    }
    ibs_perf_close(&perf);
    printf("cost: %.2f ms without, %.2f ms with about %zu samples: %.2f us a sample\n", off * 1e3,
           on * 1e3, most, most == 0 ? 0 : (on - off) * 1e6 / (double)most);
}

int main(int argc, char **argv) {
    double seconds = argc > 1 ? atof(argv[1]) : 10;
    uint64_t period = argc > 2 ? strtoul(argv[2], NULL, 0) : 1 << 16, lost = 0;
    static ibs_sample_t samples[MOST];
    check_begin();
    lab_begin(1);
    show_machine();
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
    printf("capabilities\t: %x\n", samples[0].caps);
    report(samples, taken, buffer);
    cost(buffer, period);
    return 0;
}
