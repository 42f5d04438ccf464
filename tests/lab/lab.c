/* lab.c - the machine's nodes and the judge; see lab.h. */
#include "lab.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <time.h>

lab_node_t lab_node[LAB_NODES];
int lab_nodes;

/* ---- Files of the kernel, without stdio (which would call malloc). ---- */

static size_t read_file(const char *path, char *text, size_t size) {
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    size_t length = 0;
    if (fd >= 0) {
        ssize_t n;
        while (length < size - 1 && (n = read(fd, text + length, size - 1 - length)) > 0)
            length += (size_t)n;
        close(fd);
    }
    text[length] = '\0';
    return length;
}

/* "0,2-3" into a set; other characters end it. */
static void parse_list(const char *text, bool *set, unsigned size) {
    memset(set, 0, size * sizeof *set);
    while (*text >= '0' && *text <= '9') {
        char *end;
        unsigned long first = strtoul(text, &end, 10), last = first;
        if (*end == '-') last = strtoul(end + 1, &end, 10);
        for (unsigned long i = first; i <= last && i < size; i++)
            set[i] = true;
        text = *end == ',' ? end + 1 : end;
    }
}

/* The number behind `key` in a node's meminfo, bytes. */
static uint64_t node_memory(int id, const char *key) {
    char path[128], text[4096];
    snprintf(path, sizeof path, "/sys/devices/system/node/node%d/meminfo", id);
    read_file(path, text, sizeof text);
    const char *at = strstr(text, key);
    return at == NULL ? 0 : strtoull(at + strlen(key), NULL, 10) * 1024;
}

static void read_distances(lab_node_t *node) {
    char path[128], text[1024];
    snprintf(path, sizeof path, "/sys/devices/system/node/node%d/distance", node->id);
    read_file(path, text, sizeof text);
    char *at = text;
    for (int i = 0; i < lab_nodes; i++)
        node->distance[i] = (int)strtol(at, &at, 10);
}

void lab_read_nodes(void) {
    static bool online[1024], allowed[1024], cpus[CPU_SETSIZE];
    char text[16384], path[128];
    cpu_set_t usable;
    REQUIRE(sched_getaffinity(0, sizeof usable, &usable) == 0);
    read_file("/sys/devices/system/node/online", text, sizeof text);
    parse_list(text, online, NA_COUNT(online));
    read_file("/proc/self/status", text, sizeof text);
    const char *mems = strstr(text, "Mems_allowed_list:\t");
    REQUIRE(mems != NULL);
    parse_list(mems + strlen("Mems_allowed_list:\t"), allowed, NA_COUNT(allowed));
    lab_nodes = 0;
    for (int id = 0; id < (int)NA_COUNT(online) && lab_nodes < LAB_NODES; id++) {
        if (!online[id]) continue;
        lab_node_t *node = &lab_node[lab_nodes++];
        node->id = id;
        node->cpu = -1;
        node->total = node_memory(id, "MemTotal:");
        node->memory = allowed[id] && node->total != 0;
        snprintf(path, sizeof path, "/sys/devices/system/node/node%d/cpulist", id);
        read_file(path, text, sizeof text);
        parse_list(text, cpus, NA_COUNT(cpus));
        for (int cpu = CPU_SETSIZE - 1; cpu >= 0; cpu--)
            if (cpus[cpu] && CPU_ISSET((size_t)cpu, &usable)) node->cpu = cpu;
    }
    for (int i = 0; i < lab_nodes; i++)
        read_distances(&lab_node[i]);
}

void lab_begin(int nodes_wanted) {
    lab_read_nodes();
    int complete = 0;
    for (int i = 0; i < lab_nodes; i++)
        complete += lab_node[i].memory && lab_node[i].cpu >= 0;
    if (complete < nodes_wanted) check_skip("this machine has too few nodes for the test");
}

int lab_index(int id) {
    for (int i = 0; i < lab_nodes; i++)
        if (lab_node[i].id == id) return i;
    return -1;
}

int lab_home(int index) {
    int best = -1;
    for (int i = 0; i < lab_nodes; i++)
        if (lab_node[i].memory &&
            (best < 0 || lab_node[index].distance[i] < lab_node[index].distance[best]))
            best = i;
    REQUIRE(best >= 0);
    return best;
}

uint64_t lab_free_bytes(int index) {
    return node_memory(lab_node[index].id, "MemFree:");
}

void lab_no_balancing(void) {
    free(check_opaque(malloc(1)));
    if (getenv("LAB_MARK") == NULL) return; /* somebody's own machine (scripts/numa-check.sh) */
    int fd = open("/proc/sys/kernel/numa_balancing", O_WRONLY | O_CLOEXEC);
    if (fd < 0) return; /* a kernel without */
    REQUIRE(write(fd, "0", 1) == 1);
    close(fd);
}

void lab_pin(int index) {
    cpu_set_t one;
    CPU_ZERO(&one);
    REQUIRE(lab_node[index].cpu >= 0);
    CPU_SET((size_t)lab_node[index].cpu, &one);
    REQUIRE(sched_setaffinity(0, sizeof one, &one) == 0);
}

uint64_t lab_now_ms(void) {
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (uint64_t)now.tv_sec * 1000 + (uint64_t)now.tv_nsec / 1000000;
}

void lab_sleep_ms(unsigned ms) {
    struct timespec left = {ms / 1000, (long)(ms % 1000) * 1000000};
    while (nanosleep(&left, &left) != 0) {
    }
}

uint64_t lab_rss(void) {
    char text[4096];
    read_file("/proc/self/status", text, sizeof text);
    const char *at = strstr(text, "RssAnon:");
    REQUIRE(at != NULL);
    return strtoull(at + strlen("RssAnon:"), NULL, 10) * 1024;
}

void *lab_map(size_t bytes) {
    void *start = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    REQUIRE(start != MAP_FAILED);
    return start;
}

uint64_t lab_random(uint64_t *state) {
    uint64_t x = *state += UINT64_C(0x9E3779B97F4A7C15);
    x = (x ^ (x >> 30)) * UINT64_C(0xBF58476D1CE4E5B9);
    x = (x ^ (x >> 27)) * UINT64_C(0x94D049BB133111EB);
    return x ^ (x >> 31);
}

/* ---- Blocks. ---- */

/* Never 0: a page that was lost reads as zeros. */
static unsigned char stamp(const unsigned char *start, size_t size) {
    return (unsigned char)((((uintptr_t)start >> 4) ^ size) | 1);
}

void lab_make(lab_block_t *block, size_t size) {
    block->start = check_opaque(malloc(size));
    block->size = size;
    block->fresh = true;
    REQUIRE(block->start != NULL);
    unsigned char mark = stamp(block->start, size);
    for (size_t at = 0; at < size; at += 4096)
        block->start[at] = mark;
    block->start[size - 1] = mark;
}

void lab_drop(lab_block_t *block) {
    if (block->start == NULL) return;
    unsigned char mark = stamp(block->start, block->size);
    for (size_t at = 0; at < block->size; at += 4096)
        CHECK(block->start[at] == mark);
    CHECK(block->start[block->size - 1] == mark);
    free(block->start);
    block->start = NULL;
}

/* ---- The judge. ---- */

#define BATCH 512

/* -EFAULT: the kernel does not say now where the page is, as while it moves pages or looks who uses
 * them (seen on Linux 6.1, cause not certain). A read ends that; lab_drop looks at the contents. */
static void ask_nodes(void **page, size_t count, int *node) {
    for (unsigned tries = 0; tries < 10; tries++) {
        REQUIRE(syscall(SYS_move_pages, 0, count, page, NULL, node, 0) == 0);
        bool again = false;
        for (size_t i = 0; i < count; i++) {
            if (node[i] != -EFAULT) continue;
            (void)*(volatile char *)page[i];
            again = true;
        }
        if (!again) return;
        lab_sleep_ms(10);
    }
}

static void count_batch(void **page, size_t count, lab_pages_t *pages) {
    int node[BATCH];
    if (count == 0) return;
    ask_nodes(page, count, node);
    for (size_t i = 0; i < count; i++) {
        if (node[i] < 0) {
            /* Of anything else the judge cannot say where it lies. */
            CHECK_MSG(node[i] == -ENOENT, "%p: move_pages says %d", page[i], node[i]);
            pages->absent++;
            continue;
        }
        int index = lab_index(node[i]);
        pages->total++;
        if (index < 0)
            pages->elsewhere++;
        else
            pages->on[index]++;
    }
}

static void sort(uintptr_t *number, size_t count) { /* Shell's; qsort may call malloc */
    for (size_t gap = count / 2; gap != 0; gap /= 2)
        for (size_t i = gap; i < count; i++) {
            uintptr_t moving = number[i];
            size_t at = i;
            for (; at >= gap && number[at - gap] > moving; at -= gap)
                number[at] = number[at - gap];
            number[at] = moving;
        }
}

/* The first and one past the last page of a block that counts; false: it does not. */
static bool pages_of(const lab_block_t *block, bool fresh_only, uintptr_t *from, uintptr_t *to) {
    if (block->start == NULL || (fresh_only && !block->fresh)) return false;
    *from = (uintptr_t)block->start & ~(uintptr_t)4095;
    *to = ((uintptr_t)block->start + block->size + 4095) & ~(uintptr_t)4095;
    return true;
}

void lab_judge(const lab_block_t *blocks, size_t count, bool fresh_only, lab_pages_t *pages) {
    size_t most = 0, all = 0, waiting = 0;
    uintptr_t from, to;
    bool sorted = true;
    for (size_t i = 0; i < count; i++)
        if (pages_of(&blocks[i], fresh_only, &from, &to)) most += (to - from) / 4096;
    if (most == 0) return;
    uintptr_t *page = lab_map(most * sizeof *page);
    for (size_t i = 0; i < count; i++)
        if (pages_of(&blocks[i], fresh_only, &from, &to))
            for (; from < to; from += 4096) {
                if (all > 0 && page[all - 1] == from) continue;
                sorted = sorted && (all == 0 || page[all - 1] < from);
                page[all++] = from;
            }
    if (!sorted) sort(page, all);
    void *batch[BATCH];
    for (size_t i = 0; i < all; i++) {
        if (i > 0 && page[i] == page[i - 1]) continue;
        batch[waiting++] = (void *)page[i];
        if (waiting < BATCH) continue;
        count_batch(batch, waiting, pages);
        waiting = 0;
    }
    count_batch(batch, waiting, pages);
    munmap(page, most * sizeof *page);
}

/* The kernel's text of this process's mappings. The buffer is the program's only one. */
static const char *process_text(const char *path) {
    static char *text;
    enum { SIZE = 4 << 20 };
    if (text == NULL) text = lab_map(SIZE);
    size_t length = read_file(path, text, SIZE);
    REQUIRE(length > 0 && length < SIZE - 1);
    return text;
}

static bool any_block_in(const lab_block_t *blocks, size_t count, uintptr_t from, uintptr_t to) {
    for (size_t i = 0; i < count; i++)
        if ((uintptr_t)blocks[i].start >= from && (uintptr_t)blocks[i].start < to) return true;
    return false;
}

/* "7f00 bind:1 anon=5 N1=5 kernelpagesize_kB=4": the line says where a mapping begins; it ends at
 * the latest where the next begins, or where /proc/self/maps says so. Blocks do not lie in the
 * holes between, so the beginning of the next line is close enough. */
void lab_judge_by_maps(const lab_block_t *blocks, size_t count, lab_pages_t *pages) {
    const char *line = process_text("/proc/self/numa_maps");
    while (*line != '\0') {
        const char *end = strchr(line, '\n');
        REQUIRE(end != NULL);
        uintptr_t from = strtoul(line, NULL, 16);
        uintptr_t to = end[1] == '\0' ? UINTPTR_MAX : strtoul(end + 1, NULL, 16);
        if (any_block_in(blocks, count, from, to)) {
            for (const char *at = line; at < end; at++) {
                if (at[0] != ' ' || at[1] != 'N' || at[2] < '0' || at[2] > '9') continue;
                char *equals;
                int index = lab_index((int)strtol(at + 2, &equals, 10));
                REQUIRE(*equals == '=');
                uint64_t here = strtoull(equals + 1, NULL, 10);
                pages->total += here;
                if (index < 0)
                    pages->elsewhere += here;
                else
                    pages->on[index] += here;
            }
        }
        line = end + 1;
    }
}

unsigned lab_mappings(void) {
    unsigned lines = 0;
    for (const char *at = process_text("/proc/self/maps"); *at != '\0'; at++)
        lines += *at == '\n';
    return lines;
}

void lab_expect_on(const lab_pages_t *pages, int index, const char *what) {
    char nodes[512];
    int length = 0;
    nodes[0] = '\0';
    for (int i = 0; i < lab_nodes && length < (int)sizeof nodes - 32; i++)
        if (pages->on[i] != 0)
            length += snprintf(nodes + length, sizeof nodes - (size_t)length, " node%d=%llu",
                               lab_node[i].id, (unsigned long long)pages->on[i]);
    check_say("%s: %llu pages, %.2f %% on node %d (%s)\n", what, (unsigned long long)pages->total,
              pages->total == 0 ? 0.0 : 100.0 * (double)pages->on[index] / (double)pages->total,
              lab_node[index].id, nodes);
    CHECK_MSG(pages->total != 0 && pages->on[index] == pages->total, "%s: wanted node %d, found%s",
              what, lab_node[index].id, nodes);
}

int lab_status(int own_status) {
    return own_status != 0 ? own_status : check_status();
}

/* ---- The allocator's counters. ---- */

/* By name, so that the programs run with any allocator. */
bool lab_node_stats(int index, uint64_t *strays_total, int *bound, int *refused) {
    int (*read)(int, numalloc_node_stats_t *, size_t) = NULL;
    *(void **)&read = dlsym(RTLD_DEFAULT, "numalloc_read_node_stats");
    numalloc_node_stats_t stats = {0};
    if (read == NULL || read(lab_node[index].id, &stats, sizeof stats) != 0) return false;
    *strays_total = stats.strays_total;
    *bound = stats.bound;
    *refused = stats.refused;
    return true;
}

/* ---- The host, and threads. ---- */

void lab_plug(int index, unsigned mebibytes) {
    if (getenv("LAB_MARK") == NULL) check_skip("memory is plugged by the lab's host only");
    uint64_t before = lab_node[index].total;
    char command[64];
    snprintf(command, sizeof command, "lab-call plug %d %u", lab_node[index].id, mebibytes);
    REQUIRE(system(command) == 0);
    for (unsigned waited = 0; lab_node[index].total < before + (UINT64_C(1) << 20) * mebibytes / 2;
         waited += 50) {
        REQUIRE(waited < 30000);
        lab_sleep_ms(50);
        lab_read_nodes();
    }
}

static bool is_present(int cpu) {
    char path[64];
    snprintf(path, sizeof path, "/sys/devices/system/cpu/cpu%d/online", cpu);
    return cpu == 0 || access(path, W_OK) == 0; /* the first cannot be switched off */
}

int lab_plug_cpu(int id) {
    if (getenv("LAB_MARK") == NULL) check_skip("processors are plugged by the lab's host only");
    char command[64], path[64];
    int cpu = 0;
    while (is_present(cpu))
        cpu++;
    snprintf(command, sizeof command, "lab-call plug_cpu %d", id);
    REQUIRE(system(command) == 0);
    for (unsigned waited = 0; !is_present(cpu); waited += 50) {
        REQUIRE(waited < 30000);
        lab_sleep_ms(50);
    }
    snprintf(path, sizeof path, "/sys/devices/system/cpu/cpu%d/online", cpu);
    int fd = open(path, O_WRONLY | O_CLOEXEC);
    REQUIRE(fd >= 0 && write(fd, "1", 1) == 1);
    close(fd);
    lab_read_nodes();
    return cpu;
}

void lab_load_module(void) {
    const char *module = getenv("NA_KMOD");
    if (access("/dev/numalloc_ibs", F_OK) == 0) return;
    REQUIRE(module != NULL);
    int fd = open(module, O_RDONLY | O_CLOEXEC);
    REQUIRE(fd >= 0);
    int error = syscall(SYS_finit_module, fd, "test_sources=1", 0) == 0 ? 0 : errno;
    close(fd);
    if (error == ENOEXEC) check_skip("the module is built for another kernel than the lab's");
    REQUIRE(error == 0 || error == EEXIST);
}

typedef struct member {
    pthread_t thread;
    void (*run)(void *, int);
    void *argument;
    int number;
} member_t;

static void *member_main(void *argument) {
    member_t *member = argument;
    member->run(member->argument, member->number);
    return NULL;
}

static void team(int first, int count, void (*run)(void *, int), void *argument) {
    static member_t member[LAB_NODES * 4];
    REQUIRE(count > 0 && count <= (int)NA_COUNT(member));
    for (int i = first; i < count; i++) {
        member[i] = (member_t){.run = run, .argument = argument, .number = i};
        REQUIRE(pthread_create(&member[i].thread, NULL, member_main, &member[i]) == 0);
    }
    if (first > 0) run(argument, 0);
    for (int i = first; i < count; i++)
        pthread_join(member[i].thread, NULL);
}

void lab_team(int count, void (*run)(void *argument, int number), void *argument) {
    team(0, count, run, argument);
}

void lab_team_here(int count, void (*run)(void *argument, int number), void *argument) {
    team(1, count, run, argument);
}
