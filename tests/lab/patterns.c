/* patterns.c - the patterns of MemProf's paper (Figure 1), and the shapes of the programs of its
 * section 5, in small, each as it goes wrong, and mended:
 *
 *     lab-patterns PATTERN wrong|mended WHICH [hinted]
 *
 * Runs until standard input ends; what comes there is a turn each. Writes to descriptor 3, of each
 * object that is to be judged, "ADDRESS VERDICT", where the verdict is what a source with all
 * evidence must come to, "+op" behind it where that takes reads and writes or the order in time,
 * and "+latency" where it takes latencies; then "ready". Nothing is judged here (truth.c does).
 * PATTERN_KIB is the size of a block instead of the usual, PATTERN_PAUSE_MS what threads sleep
 * between two passes, 0: never.
 *
 * WHICH is the process's number among those of its application (apache; else 0). "hinted": for NUMA
 * hinting faults, which the kernel takes in memory with a policy that allows them, and else not.
 *
 *   handoff        Figure 1 (a): allocated and filled on node 0, used on node 1
 *   list           the same of small nodes of a list, each a block
 *   migrated       allocated on node 0, then the thread goes to node 2
 *   alternating    Figure 1 (b): two nodes take turns
 *   counters       counters of four threads in one cache line; they count as often as they look
 *   sharing        the same of two threads that do next to nothing but count; on one node as well
 *   neighbours     the same of two blocks that one thread allocates, one after the other
 *   cluster        two groups of threads, each sharing a pool, each on two nodes
 *   facerec        one matrix, filled once, that all nodes read; others are made, used and freed
 *   streamcluster  one array on one node that all nodes read and write, and small points beside it
 *   partition      one block that one thread fills; each of four uses a quarter of it
 *   interleaved    the same, and somebody had it interleaved
 *   saturated      as streamcluster, but few writes: its node answers slowly, and that is all
 *   psearchy       each thread's many objects, of three origins, all on one node's pages
 *   apache         several processes; the threads of each share pools, on two nodes */
#include "lab.h"

#include <fcntl.h>
#include <stdatomic.h>
#include <sys/syscall.h>
#include <sys/sysinfo.h>
#include <unistd.h>

/* Preloaded, not linked. */
#pragma weak numalloc_alloc_onnode
#pragma weak numalloc_alloc_interleaved
#pragma weak numalloc_migrate_range

enum {
    KIB = 1024,
    THREADS = 4,
    PAGE = 4 * KIB,
    OBJECTS = 2, /* psearchy: of each origin and thread */
    LINE = 64,
    SHARERS = 2,
    OFTEN = 1000, /* sharing: counted from one look at the input to the next */
    HERE = -1,
    BIND = 2,            /* MPOL_BIND */
    HINTED = 1 << 13,    /* MPOL_F_NUMA_BALANCING: faults are taken, pages stay */
    MOVE = 1 << 1 | 0x1, /* MPOL_MF_MOVE | MPOL_MF_STRICT */
};

static bool mended, hinted;
static int which;
static size_t size; /* of a block */
/* Passes between two pauses, and ms of a pause. For watchpoints few and long: arming takes as long
 * as some pauses where the machine is emulated, and a thread is let go after 32 hits. For hinting
 * faults enough to be there when a scan is. */
static unsigned passes, pause_ms;
static volatile uint64_t *shared[THREADS];
static volatile uint64_t sink;
static atomic_uint turn;

/* One pass over the words of a block, all of them, so that each word drawn from it has hits. Every
 * `writes`-th access is a write, 0: none; of each word, for the passes of a thread go on where the
 * last one ended. */
static void pass_over(volatile uint64_t *block, size_t bytes, unsigned writes, size_t from) {
    static _Thread_local size_t accesses;
    uint64_t sum = 0;
    size_t words = bytes / sizeof *block;
    for (size_t i = 0; i < words; i++) {
        size_t at = (i + from) % words;
        if (writes != 0 && accesses++ % writes == 0)
            block[at] = i;
        else
            sum += block[at];
    }
    sink += sum;
}

/* For hinting faults as many accesses to one page, whichever: a scan of the kernel's is made by a
 * thread on its way, which would take all the faults if its way led over all pages; and it would
 * always be the same one if its processor's clock ticks first. */
static void pass(volatile uint64_t *block, size_t bytes, unsigned writes, size_t from) {
    static _Thread_local uint64_t random;
    if (!hinted || bytes <= PAGE) {
        pass_over(block, bytes, writes, from);
        return;
    }
    if (random == 0) random = (uint64_t)gettid();
    size_t pages = bytes / PAGE, page = lab_random(&random) % pages;
    for (size_t i = 0; i < pages; i++)
        pass_over(block + page * (PAGE / sizeof *block), PAGE, writes, from);
}

/* False: the input has ended. */
static bool goes_on(void) {
    char next;
    ssize_t got = read(0, &next, 1);
    if (got == 1) atomic_fetch_add(&turn, 1);
    return got != 0;
}

static void rest(void) {
    if (pause_ms != 0) lab_sleep_ms(pause_ms);
}

/* With pauses: on an emulated machine, threads that never sleep leave nothing to the recorder. */
static void use(volatile uint64_t *block, size_t bytes, unsigned writes, size_t from) {
    while (goes_on()) {
        for (unsigned i = 0; i < passes; i++)
            pass(block, bytes, writes, from);
        rest();
    }
}

/* A filled block on a node of the table, or where the thread is. */
static inline __attribute__((always_inline)) void *make(size_t bytes, int node) {
    void *block = NULL;
    if (hinted) {
        unsigned id = 0;
        REQUIRE(syscall(SYS_getcpu, NULL, &id, NULL) == 0);
        if (node != HERE) id = (unsigned)lab_node[node].id;
        unsigned long mask = 1UL << id;
        bytes = (bytes + PAGE - 1) & ~(size_t)(PAGE - 1);
        block = aligned_alloc(PAGE, bytes);
        REQUIRE(syscall(SYS_mbind, block, bytes, BIND | HINTED, &mask, 64UL, MOVE) == 0);
    } else if (node == HERE) {
        block = malloc(bytes);
    } else {
        block = numalloc_alloc_onnode(bytes, lab_node[node].id);
    }
    REQUIRE(block != NULL);
    memset(block, 1, bytes);
    return block;
}

static void ready(void) {
    dprintf(3, "ready\n");
}

static void say(const volatile void *block, const char *verdict) {
    dprintf(3, "%zx %s\n", (size_t)(uintptr_t)block, mended ? "nothing_wrong" : verdict);
}

/* ---- patterns: begin() in the main thread on node 0, then run() in each of the threads, of which
 * the main thread is the first. No more threads than it takes: each makes a watchpoint dearer. ----
 */

static void begin_handoff(void) {
    shared[0] = make(size, mended ? 1 : HERE);
    say(shared[0], "remote_after_allocation");
}

static void handoff(void *argument, int number) {
    (void)argument;
    lab_pin(number);
    if (number == 1)
        use(shared[0], size, 4, 0);
    else
        while (goes_on())
            lab_sleep_ms(20);
}

/* A list of small blocks, made on node 0 and walked on node 1. The blocks share pages with each
 * other and with whatever else is of their size. */
typedef struct cell {
    struct cell *next;
    uint64_t value[5];
} cell_t;

enum { CELLS = 512 };
static cell_t *cells;

static void begin_list(void) {
    for (int i = 0; i < CELLS; i++) {
        cell_t *cell = make(sizeof *cell, mended ? 1 : HERE);
        cell->next = cells;
        cells = cell;
    }
    say(cells, "remote_after_allocation");
}

static void list(void *argument, int number) {
    (void)argument;
    lab_pin(number);
    while (goes_on()) {
        uint64_t sum = 0;
        for (unsigned i = 0; number == 1 && i < passes; i++)
            for (volatile cell_t *cell = cells; cell != NULL; cell = cell->next)
                for (int k = 0; k < 5; k++)
                    sum += ++cell->value[k];
        sink += sum;
        if (number == 1)
            rest();
        else
            lab_sleep_ms(20);
    }
}

static void begin_migrated(void) {
    shared[0] = make(size, HERE);
    say(shared[0], "thread_migrated");
}

static void migrated(void *argument, int number) {
    (void)argument;
    lab_pin(number == 0 && !mended ? 2 : 0);
    use(shared[0], size, 3, 0);
}

/* Mended: both threads are on the node of the block. */
static void begin_alternating(void) {
    shared[0] = make(size, HERE);
    say(shared[0], "alternating+op");
}

static void alternating(void *argument, int number) {
    (void)argument;
    lab_pin(mended ? 0 : number + 1);
    while (goes_on()) {
        if (atomic_load(&turn) % 2 == (unsigned)number)
            for (unsigned i = 0; i < passes; i++)
                pass(shared[0], size, 3, 0);
        rest();
    }
}

static void begin_counters(void) {
    for (int i = 0; i < THREADS; i++)
        shared[i] = mended ? make(64, i) : i == 0 ? make(64, HERE) : shared[0] + i;
    /* Of what is written less than 1,000 times a second no cache is the worse. */
    say(shared[mended ? 1 : 0], pause_ms != 0 ? "write_shared+op" : "false_sharing+op");
}

static void counters(void *argument, int number) {
    (void)argument;
    lab_pin(number);
    while (goes_on()) {
        (*shared[number])++;
        rest();
    }
}

/* The line in the middle of a block. */
static volatile uint64_t *make_line(int node) {
    char *middle = (char *)make(size, node) + size / 2;
    return (uint64_t *)(void *)(middle + -(uintptr_t)middle % LINE);
}

/* Mended: each thread has a block of its own, on its node. */
static void begin_sharing(void) {
    for (int i = 0; i < SHARERS; i++)
        shared[i] =
            mended || i == 0 ? make_line(mended && lab_nodes > 1 ? i : HERE) : shared[0] + i;
    say(shared[mended ? 1 : 0], "false_sharing+op");
}

/* On one node: to one of its processors. */
static void pin_to_processor(int number) {
    cpu_set_t one;
    CPU_ZERO(&one);
    CPU_SET((size_t)(number % get_nprocs()), &one);
    REQUIRE(sched_setaffinity(0, sizeof one, &one) == 0);
}

static void sharing(void *argument, int number) {
    (void)argument;
    if (lab_nodes > 1)
        lab_pin(number);
    else
        pin_to_processor(number);
    while (goes_on()) {
        for (unsigned i = 0; i < OFTEN * passes; i++)
            (*shared[number])++;
        rest();
    }
}

/* Each counter is a block of its own; mended: padded. */
static void begin_neighbours(void) {
    for (int i = 0; i < SHARERS; i++) {
        shared[i] = make(mended ? LINE : sizeof *shared[i], HERE);
        say(shared[i], "false_sharing+op");
    }
}

/* Threads 0 and 1 share one pool, 2 and 3 another; mended: each group is on one node. */
static void begin_cluster(void) {
    for (int first = 0; first < THREADS; first += 2) {
        lab_pin(first);
        shared[first] = shared[first + 1] = make(size, HERE);
        say(shared[first], "sharing_cluster");
    }
}

static void cluster(void *argument, int number) {
    (void)argument;
    lab_pin(mended ? number / 2 * 2 : number);
    use(shared[number], size, 3, (size_t)number * 64);
}

/* Threads read the one matrix that stays, and multiply into ones of their own that do not. */
static void begin_facerec(void) {
    for (int i = 0; i < THREADS; i++)
        shared[i] = mended ? make(size, i) : i == 0 ? make(size, HERE) : shared[0];
    say(shared[mended ? 1 : 0], "concurrent_read_mostly+op");
}

static void facerec(void *argument, int number) {
    (void)argument;
    lab_pin(number);
    while (goes_on()) {
        volatile uint64_t *product = make(size / 16, HERE);
        for (unsigned i = 0; i < passes; i++)
            pass(shared[number], size, 0, (size_t)number * 64);
        pass(product, size / 16, 2, 0);
        free((void *)(uintptr_t)product);
        rest();
    }
}

/* One block; mended: its pages are spread over the nodes. */
static void *make_spread(const char *verdict) {
    size = size > 4 * PAGE ? size : 4 * PAGE;
    void *block = mended && !hinted ? numalloc_alloc_interleaved(size, NULL, 0) : make(size, HERE);
    REQUIRE(block != NULL);
    for (size_t page = 0; mended && hinted && page < size / PAGE; page++) {
        unsigned long mask = 1UL << lab_node[page % THREADS].id;
        REQUIRE(syscall(SYS_mbind, (char *)block + page * PAGE, PAGE, BIND | HINTED, &mask, 64UL,
                        MOVE) == 0);
    }
    memset(block, 1, size);
    dprintf(3, "%zx %s\n", (size_t)(uintptr_t)block, mended ? "evenly_remote+op" : verdict);
    return block;
}

static bool interleaved; /* in vain */

static void *make_interleaved(void) {
    void *block = numalloc_alloc_interleaved(size, NULL, 0);
    REQUIRE(block != NULL && !hinted);
    memset(block, 1, size);
    return block;
}

static size_t part_of(int number) {
    return size / THREADS / PAGE * PAGE * (size_t)number;
}

static void begin_partition(void) {
    size = size > 16 * PAGE ? size : 16 * PAGE; /* smaller blocks share their pages with others */
    shared[0] = interleaved ? make_interleaved() : make(size, HERE);
    for (int i = 0; mended && i < THREADS; i++) {
        char *part = (char *)(uintptr_t)shared[0] + part_of(i);
        size_t bytes = part_of(1);
        unsigned long mask = 1UL << lab_node[i].id;
        if (hinted)
            REQUIRE(syscall(SYS_mbind, part, bytes, BIND | HINTED, &mask, 64UL, MOVE) == 0);
        else
            REQUIRE(numalloc_migrate_range(part, bytes, lab_node[i].id, NULL) == 0);
    }
    say(shared[0], "partition");
}

static void begin_interleaved(void) {
    interleaved = true;
    begin_partition();
}

static void partition(void *argument, int number) {
    (void)argument;
    lab_pin(number);
    use(shared[0] + part_of(number) / sizeof *shared[0], part_of(1), 3, 0);
}

/* The points are of no weight, as in the paper. */
static void begin_streamcluster(void) {
    shared[0] = make_spread("write_shared+op");
    shared[1] = make(size / 64, HERE);
}

static void streamcluster(void *argument, int number) {
    (void)argument;
    lab_pin(number);
    while (goes_on()) {
        for (unsigned i = 0; i < passes; i++)
            pass(shared[0], size, 3, (size_t)number * size / 32);
        pass(shared[1], size / 64, 0, 0);
        rest();
    }
}

/* Too many writes for a copy on each node, too few to be called shared: 1 of 45. */
static void begin_saturated(void) {
    shared[0] = make_spread("saturated_node+latency");
}

static void saturated(void *argument, int number) {
    (void)argument;
    lab_pin(number);
    use(shared[0], size, 45, (size_t)number * size / 32);
}

/* Where the threads allocate, not begin(): all wait for all before it is said that all is ready. */
static pthread_barrier_t made;

static void psearchy(void *argument, int number) {
    (void)argument;
    volatile uint64_t *of[3][OBJECTS];
    size_t small = size / OBJECTS;
    int node = mended ? HERE : 0;
    lab_pin(number + 1);
    for (int i = 0; i < OBJECTS; i++) {
        of[0][i] = make(small, node); /* buffers of files */
        of[1][i] = make(small, node); /* words */
        of[2][i] = make(small, node); /* their places */
    }
    if (number == 0)
        for (int i = 0; i < 3; i++)
            say(of[i][0], "own_data_wrong_page");
    pthread_barrier_wait(&made);
    if (number == 0) ready();
    while (goes_on()) {
        for (int i = 0; i < 3 * OBJECTS; i++)
            pass(of[i % 3][i / 3], small, 3, 0);
        rest();
    }
}

/* Of each process two threads share its pools; mended: they are on one node. */
static void begin_apache(void) {
    lab_pin(2 * which);
    shared[0] = make(size, HERE);
    shared[1] = make(size, HERE);
    say(shared[0], "sharing_cluster");
    say(shared[1], "sharing_cluster");
}

static void apache(void *argument, int number) {
    (void)argument;
    lab_pin(2 * which + (mended ? 0 : number));
    while (goes_on()) {
        for (unsigned i = 0; i < 2 * passes; i++)
            pass(shared[i % 2], size, 3, (size_t)number * 64);
        rest();
    }
}

int main(int argc, char **argv) {
    static const struct {
        const char *name;
        void (*begin)(void);
        void (*run)(void *argument, int number);
        int threads;
    } patterns[] = {
        {"handoff", begin_handoff, handoff, 2},
        {"list", begin_list, list, 2},
        {"migrated", begin_migrated, migrated, 1},
        {"alternating", begin_alternating, alternating, 2},
        {"counters", begin_counters, counters, THREADS},
        {"sharing", begin_sharing, sharing, SHARERS},
        {"neighbours", begin_neighbours, sharing, SHARERS},
        {"cluster", begin_cluster, cluster, THREADS},
        {"facerec", begin_facerec, facerec, 2},
        {"partition", begin_partition, partition, THREADS},
        {"interleaved", begin_interleaved, partition, THREADS},
        {"streamcluster", begin_streamcluster, streamcluster, 2},
        {"saturated", begin_saturated, saturated, 2},
        {"psearchy", NULL, psearchy, 2},
        {"apache", begin_apache, apache, 2},
    };
    check_begin();
    REQUIRE(argc >= 4);
    bool of_lines = strcmp(argv[1], "sharing") == 0 || strcmp(argv[1], "neighbours") == 0;
    lab_begin(of_lines ? 1 : THREADS);
    mended = strcmp(argv[2], "mended") == 0;
    which = argv[3][0] == '1';
    hinted = argc > 4;
    size = hinted ? 16 * PAGE : 8 * KIB;
    passes = hinted ? 8 : 1;
    pause_ms = hinted ? 1 : 4;
    if (getenv("PATTERN_KIB") != NULL) size = strtoul(getenv("PATTERN_KIB"), NULL, 10) * KIB;
    if (getenv("PATTERN_PAUSE_MS") != NULL)
        pause_ms = (unsigned)strtoul(getenv("PATTERN_PAUSE_MS"), NULL, 10);
    REQUIRE(fcntl(0, F_SETFL, O_NONBLOCK) == 0);
    for (size_t p = 0; p < NA_COUNT(patterns); p++) {
        if (strcmp(patterns[p].name, argv[1]) != 0) continue;
        lab_pin(0);
        REQUIRE(pthread_barrier_init(&made, NULL, (unsigned)patterns[p].threads) == 0);
        if (patterns[p].begin != NULL) {
            patterns[p].begin();
            ready();
        }
        lab_team_here(patterns[p].threads, patterns[p].run, NULL);
        return lab_status(check_status());
    }
    fprintf(stderr, "patterns: there is no %s\n", argv[1]);
    return 2;
}
