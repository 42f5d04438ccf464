/* cpusets.c - the cpuset of the program is changed while it runs, its nodes and its CPUs; what it
 * allocates afterwards lies on its threads' nodes again, or on the nearest that are allowed.
 *
 * Run by cpuset.sh, in a control group of its own, which may begin with fewer nodes than there are.
 * A change of CPUs moves threads: then the bound is that of any move, 20 ms and two slow paths. A
 * change of nodes is looked for once a second; until then the kernel sees to it that only allowed
 * nodes are used. */
#include "lab.h"

#include <fcntl.h>

enum {
    SMALL = 3000,
    MEDIUM = 200,
    LARGE = 6,
    SLOTS = SMALL + MEDIUM + LARGE,
    NOTICED_MS = 60000, /* a second or so on a fast machine */
    LOOK_MS = 1500,     /* the library looks for other nodes once a second */
};

typedef struct worker {
    lab_block_t block[SLOTS];
    lab_pages_t pages;
    uint64_t random, took_ms;
} worker_t;

static worker_t *workers;
static int workers_count; /* one for each node with a CPU */
static pthread_barrier_t together;
static char group[256];

/* What the next phase is. Written by worker 0 between two barriers. */
static struct {
    const char *name;
    bool moves; /* the CPUs changed: it must show after 20 ms and two slow paths */
    bool pin;   /* each thread goes to its node's CPU */
    int place[LAB_NODES];
} phase;

static void renew(worker_t *self) {
    for (size_t i = 0; i < SLOTS; i++) {
        lab_drop(&self->block[i]);
        uint64_t random = lab_random(&self->random);
        size_t size = i < SMALL            ? 16 + random % 1000
                      : i < SMALL + MEDIUM ? 1024 + random % (31 << 10)
                                           : (32 << 10) + random % (1 << 20);
        lab_make(&self->block[i], size);
    }
}

static void judge(worker_t *self) {
    renew(self);
    memset(&self->pages, 0, sizeof self->pages);
    lab_judge(self->block, SLOTS, false, &self->pages);
}

static void run_phase(worker_t *self, int number) {
    if (phase.pin) lab_pin(phase.place[number]);
    int home = lab_home(phase.place[number]);
    uint64_t began = lab_now_ms();
    void *kept[2] = {check_opaque(malloc(40 << 10)), NULL}; /* a slow path */
    while (phase.moves && lab_now_ms() - began <= 20)
        lab_sleep_ms(1);
    kept[1] = check_opaque(malloc(40 << 10));
    do
        judge(self);
    while (!phase.moves && self->pages.on[home] != self->pages.total &&
           lab_now_ms() - began < NOTICED_MS);
    self->took_ms = lab_now_ms() - began;
    free(kept[0]);
    free(kept[1]);
    if (phase.moves) return;
    /* And so it stays. */
    lab_sleep_ms(LOOK_MS);
    judge(self);
}

static void write_group(const char *file, const char *text) {
    char path[512];
    snprintf(path, sizeof path, "%s/%s", group, file);
    int fd = open(path, O_WRONLY);
    REQUIRE(fd >= 0 && write(fd, text, strlen(text)) == (ssize_t)strlen(text));
    close(fd);
}

/* Of the whole cpuset. (From Linux 6.2 on a thread that was pinned before stays so when its cpuset
 * grows again.) */
static void read_nodes(void) {
    cpu_set_t own, all;
    memset(&all, 0xff, sizeof all);
    REQUIRE(sched_getaffinity(0, sizeof own, &own) == 0);
    REQUIRE(sched_setaffinity(0, sizeof all, &all) == 0);
    lab_read_nodes();
    REQUIRE(sched_setaffinity(0, sizeof own, &own) == 0);
}

/* By worker 0. NULL: not changed. `place_of` (by worker): where it runs afterwards. */
static void change(const char *name, const char *nodes, const char *cpus, const int *place_of,
                   bool pin) {
    if (nodes != NULL) write_group("cpuset.mems", nodes);
    if (cpus != NULL) write_group("cpuset.cpus", cpus);
    read_nodes();
    phase.name = name;
    phase.moves = nodes == NULL;
    phase.pin = pin;
    memcpy(phase.place, place_of, sizeof phase.place);
}

static void say(void) {
    for (int i = 0; i < workers_count; i++) {
        char what[128];
        snprintf(what, sizeof what, "%s: thread on node %d", phase.name,
                 lab_node[phase.place[i]].id);
        check_say("after %llu ms: ", (unsigned long long)workers[i].took_ms);
        lab_expect_on(&workers[i].pages, lab_home(phase.place[i]), what);
    }
}

static void work(void *argument, int number) {
    static const int own[LAB_NODES] = {0, 1, 2, 3}, one[LAB_NODES] = {1, 1, 1, 1},
                     two[LAB_NODES] = {2, 3, 2, 3};
    (void)argument;
    worker_t *self = &workers[number];
    self->random = (uint64_t)number;
    for (int step = 0; step < 8; step++) {
        pthread_barrier_wait(&together);
        if (number == 0) switch (step) {
            case 0: /* the nodes as cpuset.sh gave them */
                change("as it was started", NULL, NULL, own, true);
                phase.moves = false;
                break;
            case 1:
                change("all nodes", "0-3", NULL, own, false);
                break;
            case 2:
                change("CPU 1 only", NULL, "1", one, false);
                break;
            case 3:
                change("all CPUs again", NULL, "0-3", own, true);
                break;
            case 4:
                change("nodes 1 and 3 only", "1,3", NULL, own, false);
                break;
            case 5:
                change("all nodes again", "0-3", NULL, own, false);
                break;
            case 6:
                change("nodes and CPUs 2 and 3 only", "2-3", "2-3", two, true);
                break;
            default:
                change("all of all again", "0-3", "0-3", own, true);
                break;
            }
        pthread_barrier_wait(&together);
        run_phase(self, number);
        pthread_barrier_wait(&together);
        if (number == 0) say();
    }
    for (size_t i = 0; i < SLOTS; i++)
        lab_drop(&self->block[i]);
}

int main(void) {
    char text[256];
    check_begin();
    lab_read_nodes();
    for (int i = 0; i < lab_nodes; i++)
        workers_count += lab_node[i].id == i && lab_node[i].cpu >= 0 && lab_node[i].total != 0;
    if (lab_nodes != 4 || workers_count != 4) check_skip("wants nodes 0 to 3, each with a CPU");
    int fd = open("/proc/self/cgroup", O_RDONLY);
    ssize_t length = fd < 0 ? 0 : read(fd, text, sizeof text - 1);
    if (length <= 4 || strncmp(text, "0::/", 4) != 0) check_skip("wants a control group (cgroup2)");
    close(fd);
    text[length - 1] = '\0'; /* the line feed */
    snprintf(group, sizeof group, "/sys/fs/cgroup%s", text + 3);
    workers = lab_map((size_t)workers_count * sizeof *workers);
    REQUIRE(pthread_barrier_init(&together, NULL, (unsigned)workers_count) == 0);
    lab_team(workers_count, work, NULL);
    return lab_status(check_status());
}
