/* patterns.c - the patterns of MemProf's paper (Figure 1, section 5) in small, each as it goes
 * wrong, and mended: lab-patterns PATTERN wrong|mended SECONDS. Writes the address of what it is
 * about to descriptor 3. Needs four nodes; nothing is judged here (truth.c does).
 *
 *   handoff      Figure 1 (a): allocated and filled on node 0, used on node 1
 *   own          Psearchy: each thread's data, all on one node's pages
 *   migrated     allocated on node 0, then the thread goes to node 2
 *   alternating  Figure 1 (b): two nodes take turns
 *   read         Figure 1 (c), FaceRec: filled once, read by all nodes
 *   write        Figure 1 (c), Streamcluster: read and written by all nodes
 *   counters     counters of four threads in one cache line
 *   cluster      Apache: two groups of threads, each sharing a pool, each on two nodes */
#include "lab.h"

#include <unistd.h>

/* Preloaded, not linked. */
#pragma weak numalloc_alloc_onnode
#pragma weak numalloc_alloc_interleaved

enum { KIB = 1024, SMALL = 8 * KIB, LARGE = 32 * KIB, TURN_MS = 400, THREADS = 4 };

static bool mended;
static uint64_t end_ms;
static volatile uint64_t *shared[THREADS];
static volatile uint64_t sink;

/* One pass over the words of a block; every `writes`-th access is a write, 0: none. */
static void pass(volatile uint64_t *block, size_t size, unsigned writes, size_t from) {
    uint64_t sum = 0;
    size_t words = size / sizeof *block;
    for (size_t i = 0; i < words; i++) {
        size_t at = (i + from) % words;
        if (writes != 0 && i % writes == 0)
            block[at] = i;
        else
            sum += block[at];
    }
    sink += sum;
}

/* With pauses: on an emulated machine, threads that never sleep leave nothing to the recorder. */
static void use(volatile uint64_t *block, size_t size, unsigned writes, size_t from) {
    while (lab_now_ms() < end_ms) {
        pass(block, size, writes, from);
        lab_sleep_ms(1);
    }
}

static void *filled(void *block, size_t size) {
    REQUIRE(block != NULL);
    memset(block, 1, size);
    return block;
}

static void say(const volatile void *block) {
    dprintf(3, "%zu\n", (size_t)(uintptr_t)block);
}

static void handoff(void *argument, int number) {
    (void)argument;
    lab_pin(number);
    if (number == 1) use(shared[0], SMALL, 4, 0);
}

static void own(void *argument, int number) {
    (void)argument;
    if (number == 0) return;
    lab_pin(number);
    void *block = mended ? malloc(SMALL) : numalloc_alloc_onnode(SMALL, lab_node[0].id);
    filled(block, SMALL);
    if (number == 1) say(block);
    use(block, SMALL, 3, 0);
}

static void migrated(void *argument, int number) {
    (void)argument;
    if (number != 0) return;
    lab_pin(0);
    void *block = filled(malloc(SMALL), SMALL);
    say(block);
    lab_pin(mended ? 0 : 2);
    use(block, SMALL, 3, 0);
}

/* Threads 1 and 2; mended: both on the node of the block. */
static void alternating(void *argument, int number) {
    (void)argument;
    if (number != 1 && number != 2) return;
    lab_pin(mended ? 0 : number);
    while (lab_now_ms() < end_ms) {
        if (lab_now_ms() / TURN_MS % 2 == (uint64_t)(number - 1)) pass(shared[0], SMALL, 3, 0);
        lab_sleep_ms(1);
    }
}

static void read_all(void *argument, int number) {
    (void)argument;
    lab_pin(number);
    volatile uint64_t *block = shared[0];
    if (mended) { /* a copy for each node */
        void *copy = malloc(SMALL);
        REQUIRE(copy != NULL);
        memcpy(copy, (const void *)(uintptr_t)shared[0], SMALL);
        block = copy;
        if (number == 1) say(copy);
    }
    use(block, SMALL, 0, (size_t)number * 250);
}

static void write_all(void *argument, int number) {
    (void)argument;
    lab_pin(number);
    use(shared[0], LARGE, 3, (size_t)number * LARGE / 32);
}

static void counters(void *argument, int number) {
    (void)argument;
    lab_pin(number);
    volatile uint64_t *counter = shared[0] + number;
    if (mended) {
        counter = filled(malloc(64), 64);
        if (number == 1) say(counter);
    }
    while (lab_now_ms() < end_ms) {
        for (int i = 0; i < 20; i++)
            (*counter)++;
        lab_sleep_ms(1);
    }
}

/* Threads 0 and 1 share one pool, 2 and 3 another; mended: each group is on one node. */
static void cluster(void *argument, int number) {
    (void)argument;
    int first = number / 2 * 2;
    lab_pin(mended ? first : number);
    if (number == first) {
        shared[first] = filled(malloc(SMALL), SMALL);
        if (number == 0) say(shared[0]);
        __atomic_store_n(&shared[first + 1], shared[first], __ATOMIC_RELEASE);
    }
    while (__atomic_load_n(&shared[first + 1], __ATOMIC_ACQUIRE) == NULL)
        lab_sleep_ms(1);
    use(shared[first], SMALL, 3, (size_t)number * 250);
}

int main(int argc, char **argv) {
    static const struct {
        const char *name;
        void (*run)(void *argument, int number);
        size_t size; /* of what the main thread makes; 0: nothing */
    } patterns[] = {
        {"handoff", handoff, SMALL},         {"own", own, 0},           {"migrated", migrated, 0},
        {"alternating", alternating, SMALL}, {"read", read_all, SMALL}, {"write", write_all, LARGE},
        {"counters", counters, 64},          {"cluster", cluster, 0},
    };
    check_begin();
    lab_begin(THREADS);
    REQUIRE(argc == 4);
    mended = strcmp(argv[2], "mended") == 0;
    for (size_t p = 0; p < NA_COUNT(patterns); p++) {
        if (strcmp(patterns[p].name, argv[1]) != 0) continue;
        lab_pin(0);
        if (patterns[p].size != 0) {
            bool write = strcmp(argv[1], "write") == 0, hand = strcmp(argv[1], "handoff") == 0;
            size_t size = patterns[p].size;
            void *block = mended && write  ? numalloc_alloc_interleaved(size, NULL, 0)
                          : mended && hand ? numalloc_alloc_onnode(size, lab_node[1].id)
                                           : malloc(size);
            shared[0] = filled(block, size);
            if (!mended || write || hand || strcmp(argv[1], "alternating") == 0) say(block);
        }
        end_ms = lab_now_ms() + (uint64_t)atoi(argv[3]) * 1000;
        lab_team(THREADS, patterns[p].run, NULL);
        return lab_status(check_status());
    }
    fprintf(stderr, "patterns: there is no %s\n", argv[1]);
    return 2;
}
