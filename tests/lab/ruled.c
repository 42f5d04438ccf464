/* ruled.c - under a policy blocks lie where their rules say, though the program asks for nothing:
 * small, middle and large ones, judged by the kernel. The thread runs on the first node throughout.
 *
 * The rules name functions of this program, and nodes of this machine: so they are written first,
 * and the program starts again under them.
 *
 * lab-ruled moved: large blocks that lie elsewhere are moved, when the thread that allocated them
 * runs on another node (place=follow; it comes after some thousand others), and when it is known
 * who frees them (place=consumer). */
#include "lab.h"

#include <stdio.h>
#include <unistd.h>

#define APART __attribute__((noinline, noclone, noipa))
#define MIB   ((size_t)1 << 20)
#define BYTES (4 * MIB) /* of each size, so that small ones are many pages, too */

static const size_t sizes[] = {40, 600, 20000, 100000, 3 * MIB};

/* The sites. (None is a call in tail position: its return address is what a rule names.) */
#define SITE(name)                                                                                 \
    APART static void *name(size_t size) {                                                         \
        void *block = malloc(size);                                                                \
        if (block != NULL) memset(block, 1, size);                                                 \
        return block;                                                                              \
    }
SITE(by_no_rule)
SITE(by_last)
SITE(by_turns)
SITE(by_near)
SITE(by_far)
SITE(by_half)
SITE(by_consumer)
SITE(by_follow)

/* Table indices; node_used: the last one with processors. */
static int node_first = -1, node_last = -1, node_far = -1, node_used = -1;

static void find_nodes(void) {
    for (int i = 0; i < lab_nodes; i++) {
        if (!lab_node[i].memory) continue;
        bool cpus = lab_node[i].cpu >= 0;
        if (cpus && node_first < 0) node_first = i;
        if (cpus) node_used = i;
        node_last = i;
    }
    REQUIRE(node_first >= 0);
    for (int i = 0; i < lab_nodes; i++)
        if (lab_node[i].memory && lab_node[i].cpu < 0 &&
            (node_far < 0 ||
             lab_node[node_first].distance[i] < lab_node[node_first].distance[node_far]))
            node_far = i;
    if (node_far < 0) node_far = node_first;
}

static lab_block_t blocks[BYTES / 40 + 1];
static size_t count;

static void *free_blocks(void *unused) {
    (void)unused;
    for (size_t i = 0; i < count; i++)
        free(blocks[i].start);
    return NULL;
}

static lab_pages_t fill(void *(*site)(size_t size), size_t size) {
    count = BYTES / size;
    for (size_t i = 0; i < count; i++) {
        blocks[i] = (lab_block_t){.start = site(size), .size = size};
        REQUIRE(blocks[i].start != NULL);
    }
    lab_pages_t pages = {0};
    lab_judge(blocks, count, false, &pages);
    if (site != by_consumer) free_blocks(NULL);
    return pages;
}

static void expect_on(void *(*site)(size_t size), int index, const char *what) {
    for (size_t k = 0; k < NA_COUNT(sizes); k++) {
        lab_pages_t pages = fill(site, sizes[k]);
        lab_expect_on(&pages, index, what);
    }
}

/* Between these shares, in per cent. */
static void expect_share(const lab_pages_t *pages, int index, unsigned least, unsigned most,
                         size_t size, const char *what) {
    uint64_t share = 100 * pages->on[index] / pages->total;
    CHECK_MSG(share >= least && share <= most,
              "%s, %zu bytes: node %d has %lu %% of %lu pages, not %u to %u", what, size,
              lab_node[index].id, share, pages->total, least, most);
}

/* What threads of another node have freed some of lies there from then on. */
static void *consume(void *unused) {
    lab_pin(node_used);
    lab_sleep_ms(20);
    return free_blocks(unused);
}

static void expect_on_consumer(void) {
    for (size_t k = 0; k < NA_COUNT(sizes) - 1; k++) { /* of the largest there is one */
        lab_pages_t pages;
        for (int round = 0; round < 2; round++) {
            pthread_t consumer;
            pages = fill(by_consumer, sizes[k]);
            REQUIRE(pthread_create(&consumer, NULL, consume, NULL) == 0);
            pthread_join(consumer, NULL);
        }
        lab_expect_on(&pages, node_used, "ruled to who frees them");
    }
}

/* Nodes whose CPUs this process may not use are no places for threads. */
static void run_anywhere(void) {
    cpu_set_t all;
    memset(&all, 0xff, sizeof all);
    REQUIRE(sched_setaffinity(0, sizeof all, &all) == 0);
}

static void judge(void) {
    lab_pin(node_first);
    lab_sleep_ms(20);
    unsigned members = 0;
    for (int i = 0; i < lab_nodes; i++)
        members += lab_node[i].memory;
    expect_on(by_no_rule, node_first, "that no rule means");
    expect_on(by_last, node_last, "ruled to the last node");
    expect_on(by_near, node_first, "ruled near");
    expect_on(by_far, node_far, "ruled far");
    expect_on_consumer();
    for (size_t k = 0; k < NA_COUNT(sizes); k++) {
        lab_pages_t turns = fill(by_turns, sizes[k]);
        for (int i = 0; i < lab_nodes; i++)
            if (lab_node[i].memory)
                expect_share(&turns, i, 50 / members, 200 / members, sizes[k], "by turns");
        if (sizes[k] > MIB) continue; /* one block */
        /* Every other turn is the control's, which lies where malloc's blocks do. */
        lab_pages_t half = fill(by_half, sizes[k]);
        bool one_node = node_last == node_first;
        expect_share(&half, node_last, one_node ? 100 : 35, one_node ? 100 : 65, sizes[k],
                     "half of them ruled");
    }
}

/* --- blocks that are there already --- */

enum { LARGE = 200000, FREED = 8, MOVED = 16, MOST_MS = 200000, EARLIER = 5000 };

/* Waits until the blocks lie there. */
static void expect_moved(const lab_block_t *those, size_t n, int index, const char *what) {
    lab_pages_t pages;
    for (int ms = 0; ms < MOST_MS; ms += 100) {
        lab_sleep_ms(100);
        for (int i = 0; i < 1000; i++) /* the thread notices where it runs */
            free(by_no_rule(100));
        pages = (lab_pages_t){0};
        lab_judge(those, n, false, &pages);
        if (pages.on[index] == pages.total) break;
    }
    lab_expect_on(&pages, index, what);
}

static void *allocates(void *unused) {
    (void)unused;
    free(by_no_rule(100));
    return NULL;
}

static void *judge_moved(void *unused) {
    (void)unused;
    lab_no_balancing();
    lab_pin(node_first);
    lab_sleep_ms(20);
    lab_block_t followed[2], stays = {.start = by_no_rule(3 * MIB), .size = 3 * MIB};
    followed[0] = (lab_block_t){.start = by_follow(3 * MIB), .size = 3 * MIB};
    followed[1] = (lab_block_t){.start = by_follow(LARGE), .size = LARGE};
    for (count = 0; count < MOVED; count++)
        blocks[count] = (lab_block_t){.start = by_consumer(LARGE), .size = LARGE};
    lab_pages_t pages = {0};
    lab_judge(blocks, MOVED, false, &pages);
    lab_judge(followed, 2, false, &pages);
    lab_expect_on(&pages, node_first, "before");
    pthread_t consumer;
    count = FREED;
    REQUIRE(pthread_create(&consumer, NULL, consume, NULL) == 0);
    pthread_join(consumer, NULL);
    expect_moved(blocks + FREED, MOVED - FREED, node_used, "moved to who frees them");
    lab_pin(node_used);
    expect_moved(followed, 2, node_used, "moved after their thread");
    pages = (lab_pages_t){0};
    lab_judge(&stays, 1, false, &pages);
    lab_expect_on(&pages, node_first, "that no rule means");
    return NULL;
}

static void in_thread(void *(*run)(void *)) {
    pthread_t thread;
    REQUIRE(pthread_create(&thread, NULL, run, NULL) == 0);
    pthread_join(thread, NULL);
}

int main(int argc, char **argv) {
    static const char file[] = "/tmp/ruled.policy";
    check_begin();
    bool under = getenv("NUMALLOC_POLICY") != NULL, moved = argc > 1;
    if (under) run_anywhere();
    lab_begin(1);
    find_nodes();
    if (under) {
        for (int i = 0; moved && i < EARLIER; i++)
            in_thread(allocates);
        if (moved)
            in_thread(judge_moved);
        else
            judge();
        return lab_status(check_status());
    }
    FILE *out = fopen(file, "w");
    REQUIRE(out != NULL);
    int last = lab_node[node_last].id;
    fprintf(out,
            "numalloc policy 1\nprogram any\n"
            "site by_last : place=node %d, control=off\n"
            "site by_turns : place=interleave, control=off\n"
            "site by_near : place=near, control=off\n"
            "site by_far : place=far, control=off\n"
            "site by_half : place=node %d, control=1/2\n"
            "site by_consumer : place=consumer, control=off\n"
            "site by_follow : place=follow, control=off\n",
            last, last);
    REQUIRE(fclose(out) == 0);
    REQUIRE(setenv("NUMALLOC_POLICY", file, 1) == 0);
    if (moved) {
        REQUIRE(setenv("NUMALLOC_POLICY_MOVE", "50", 1) == 0);
        REQUIRE(setenv("NUMALLOC_PROFILE", "sites", 1) == 0);
        REQUIRE(setenv("NUMALLOC_PROFILE_FILE", "/tmp/ruled.nprof", 1) == 0);
    }
    /* From its first block on it shall run there: blocks of its start count as well. */
    lab_pin(node_first);
    execv("/proc/self/exe", argv);
    REQUIRE(false);
}
